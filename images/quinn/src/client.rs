//! The client: one or more connections, each fetching its share of the files.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quic_endpoint::{Journey, Options, Result, SessionDir, Url, fetch, random};
use quinn::{ClientConfig, Connection, ConnectionId, Endpoint, EndpointConfig, TokioRuntime, crypto};

use crate::session::{self, Sessions, Tokens};
use crate::{STACK, config, connection};

/// How long a client that has all its files waits for a session ticket it wants.
const TICKET_PATIENCE: Duration = Duration::from_secs(3);
/// Time for the last packet to leave. Whoever waits until the connection has drained waits three probe timeouts.
const FAREWELL: Duration = Duration::from_millis(50);
/// How often a client that is to update its keys looks whether it may.
const KEY_UPDATE: Duration = Duration::from_millis(100);

struct Client {
    options: Arc<Options>,
    tls: Arc<dyn crypto::ClientConfig>,
    /// Where the client resumes.
    sessions: Option<Arc<Sessions>>,
    tokens: Option<Arc<Tokens>>,
}

pub async fn run(options: Options) -> Result<()> {
    let stored = options.session_dir.clone();
    let sessions = match options.resumes() {
        true => Some(Arc::new(Sessions::new(&options)?)),
        false => None,
    };
    let tls: Arc<dyn crypto::ClientConfig> = match &sessions {
        Some(sessions) => sessions.clone(),
        None => Arc::new(config::client_crypto(&options)?),
    };
    if let (Some(sessions), Some(directory)) = (&sessions, &stored)
        && let Some(recording) = directory.load(session::FILE)
        && let Err(error) = sessions.replay(&recording)
    {
        // A session that cannot be used costs a full handshake, nothing more.
        eprintln!("quinn-endpoint: the stored session is of no use: {error}");
    }
    let tokens = stored.clone().map(|directory| Arc::new(Tokens(directory)));
    let client = Client { options: Arc::new(options), tls, sessions, tokens };
    let mut journey = Journey::new(&STACK, &client.options.moves);
    for urls in client.options.connections()? {
        client.fetch_over_one_connection(urls, &mut journey).await?;
        client.keep_session(stored.as_ref())?;
    }
    journey.end();
    Ok(())
}

impl Client {
    async fn fetch_over_one_connection(&self, urls: &[Url], journey: &mut Journey) -> Result<()> {
        let peer = urls[0].resolve()?;
        let socket = journey.socket(peer, Instant::now())?;
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
        let id = ConnectionId::new(&random::bytes::<16>()?);
        let mut config = ClientConfig::new(self.tls.clone());
        config.transport_config(config::transport(&self.options, &id, None)?);
        config.initial_dst_cid_provider(Arc::new(move || id));
        if let Some(tokens) = &self.tokens {
            config.token_store(tokens.clone());
        }

        let connecting = endpoint.connect_with(config, peer, &urls[0].host)?;
        journey.begin(Instant::now());
        let (connection, early_data) = match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(connecting) => (connecting.await?, None),
        };
        let mut accepted = None;
        let fetched = async {
            let handle = connection::Connection(connection.clone());
            let outcome = fetch::all(&handle, &STACK, &self.options, urls).await;
            if let Some(early_data) = early_data {
                accepted = Some(early_data.await);
            }
            match outcome {
                // The server took no early data, and with them went the requests (RFC 9001 §4.6.2).
                Err(_) if accepted == Some(false) => fetch::all(&handle, &STACK, &self.options, urls).await,
                outcome => outcome,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = fetched => outcome,
            Err(error) = travel(journey, &endpoint, &connection, peer) => Err(error),
            Err(error) = update_keys(&connection) => Err(error),
        };
        if let Some(sessions) = self.sessions.as_ref().filter(|_| outcome.is_ok()) {
            // What does not come leaves the next connection without a session.
            let _ = tokio::time::timeout(TICKET_PATIENCE, sessions.ticket()).await;
        }
        let stats = connection.stats();
        connection.close(self.options.protocol.no_error().into(), b"");
        let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
        eprintln!(
            "quinn-endpoint: early_data={} received={} sent={} lost={}",
            accepted == Some(true),
            stats.udp_rx.datagrams,
            stats.udp_tx.datagrams,
            stats.path.lost_packets
        );
        outcome
    }

    fn keep_session(&self, directory: Option<&SessionDir>) -> Result<()> {
        match (&self.sessions, directory) {
            (Some(sessions), Some(directory)) => match sessions.recording() {
                Some(recording) => directory.store(session::FILE, &recording),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Updates the keys early in the transfer, where that is asked for, and goes on for ever.
async fn update_keys(connection: &Connection) -> Result<()> {
    if config::is_asked("keyupdate") {
        // Not before the handshake is confirmed (RFC 9001 §6.1).
        while connection.stats().frame_rx.handshake_done == 0 {
            tokio::time::sleep(KEY_UPDATE).await;
        }
        connection.force_key_update();
    }
    std::future::pending().await
}

/// Makes the moves as their time comes.
async fn travel(journey: &mut Journey, endpoint: &Endpoint, connection: &Connection, peer: SocketAddr) -> Result<()> {
    loop {
        let next = journey.wait(|| connection.stats().frame_rx.handshake_done > 0).await?;
        let socket = next.socket(peer)?;
        let local = socket.local_addr()?;
        endpoint.rebind(socket)?;
        journey.made(local);
    }
}
