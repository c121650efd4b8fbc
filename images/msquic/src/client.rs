//! The client: one or more connections, each fetching its share of the files.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use msquic::{Configuration, Registration, RegistrationConfig};
use quic_endpoint::{Journey, Options, Result, Url, alarm, moves};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::{STACK, config, fetch, metrics};

/// How long a resumed connection waits for its requests before it starts, should the server have allowed fewer.
const HEAD_START: Duration = Duration::from_millis(20);
/// How long a client that has all its files waits for a session ticket it wants.
const TICKET_PATIENCE: Duration = Duration::from_secs(3);
/// How long it waits for the connection to be over, which takes up to three probe timeouts.
const FAREWELL: Duration = Duration::from_secs(3);

struct Client {
    options: Arc<Options>,
    ticket: Option<Vec<u8>>,
    // Dropped in this order, of which the last waits for what was made with it.
    configuration: Configuration,
    registration: Registration,
}

pub async fn run(options: Options) -> Result<()> {
    let registration = Registration::new(&RegistrationConfig::default())?;
    let configuration = config::configuration(&registration, &options)?;
    let ticket = options.session_dir.as_ref().and_then(|directory| directory.load(&file_name(&options)));
    let mut client = Client { options: Arc::new(options), ticket, configuration, registration };
    let mut journey = Journey::new(&STACK, &client.options.moves);
    for urls in client.options.clone().connections()? {
        client.fetch_over_one_connection(urls, &mut journey).await?;
    }
    journey.end();
    Ok(())
}

/// Of what is kept in the session directory. OpenSSL fails where a session was of another application protocol.
fn file_name(options: &Options) -> String {
    format!("ticket-{}", options.protocol.name())
}

impl Client {
    async fn fetch_over_one_connection(&mut self, urls: &[Url], journey: &mut Journey) -> Result<()> {
        let options = &self.options;
        let ticket = self.ticket.as_deref().filter(|_| options.resumes());
        let peer = urls[0].resolve()?;
        let connection = Connection::prepare(&self.registration, peer, ticket, options.early_data())?;
        if let Some(address) = journey.address(peer, Instant::now())? {
            connection.bind(address)?;
        }
        // Before the connection starts, which it does at once.
        journey.begin(Instant::now());
        let mut recorder = JoinSet::new();
        let outcome = tokio::select! {
            biased;
            outcome = self.fetch(&connection, urls, &mut recorder) => outcome,
            Err(error) = travel(journey, &connection, peer) => Err(error),
        };
        if outcome.is_ok() && options.resumes() {
            // What does not come leaves the next connection without a session.
            let _ = timeout(TICKET_PATIENCE, connection.ticket_received()).await;
        }
        if let Ok(statistics) = connection.statistics() {
            eprintln!(
                "msquic-endpoint: resumed={} early_data={} received={} sent={} lost={}",
                connection.resumed(),
                connection.early(),
                statistics.RecvTotalPackets,
                statistics.SendTotalPackets,
                statistics.SendSuspectedLostPackets
            );
        }
        connection.close(options.protocol.no_error());
        let _ = timeout(FAREWELL, connection.over()).await;
        recorder.shutdown().await;
        if let Some(ticket) = connection.take_ticket() {
            if let Some(directory) = &options.session_dir {
                directory.store(&file_name(options), &ticket)?;
            }
            self.ticket = Some(ticket);
        }
        outcome
    }

    async fn fetch(&self, connection: &Connection, urls: &[Url], recorder: &mut JoinSet<()>) -> Result<()> {
        let options = &self.options;
        let start = |recorder: &mut JoinSet<()>| -> Result<()> {
            connection.start(&self.configuration, &urls[0].host, urls[0].port)?;
            recorder.spawn(metrics::record(connection.clone(), options.role));
            Ok(())
        };
        if !connection.early() {
            start(recorder)?;
            connection.established().await?;
            return fetch::all(connection, options, urls).await;
        }
        // Of early data, MsQuic sends what it has when it sends its first packet, and nothing that comes later.
        let start_with_requests = async {
            let _ = timeout(HEAD_START, connection.requests(urls.len())).await;
            start(recorder)
        };
        tokio::try_join!(fetch::all(connection, options, urls), start_with_requests)?;
        Ok(())
    }
}

/// Makes the moves as their time comes.
async fn travel(journey: &mut Journey, connection: &Connection, peer: SocketAddr) -> Result<()> {
    loop {
        let next = journey.wait(|| true).await?;
        while !connection.bind(next.address(peer)?)? {
            journey.hold();
            alarm::until(Instant::now() + moves::LOOK).await?;
        }
        journey.made(connection.local_address()?);
    }
}
