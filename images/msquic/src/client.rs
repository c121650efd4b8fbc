//! The client: one or more connections, each fetching its share of the files.

use std::sync::Arc;
use std::time::Duration;

use msquic::{Configuration, Registration, RegistrationConfig};
use quic_endpoint::{Options, Result, Url};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::{config, fetch, metrics};

/// Name of what is kept in the session directory.
const TICKET: &str = "ticket";
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
    let ticket = options.session_dir.as_ref().and_then(|directory| directory.load(TICKET));
    let mut client = Client { options: Arc::new(options), ticket, configuration, registration };
    for urls in client.options.clone().connections()? {
        client.fetch_over_one_connection(urls).await?;
    }
    Ok(())
}

impl Client {
    async fn fetch_over_one_connection(&mut self, urls: &[Url]) -> Result<()> {
        let options = &self.options;
        let connection = Connection::connect(
            &self.registration,
            &self.configuration,
            (&urls[0].host, urls[0].resolve()?),
            self.ticket.as_deref().filter(|_| options.resumes()),
            options.early_data(),
        )?;
        let recorder = tokio::spawn(metrics::record(connection.clone(), options.role));
        let outcome = async {
            if !connection.early() {
                connection.established().await?;
            }
            fetch::all(&connection, options, urls).await
        }
        .await;
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
        recorder.abort();
        // It holds on to the connection until it is gone.
        let _ = recorder.await;
        if let Some(ticket) = connection.take_ticket() {
            if let Some(directory) = &options.session_dir {
                directory.store(TICKET, &ticket)?;
            }
            self.ticket = Some(ticket);
        }
        outcome
    }
}
