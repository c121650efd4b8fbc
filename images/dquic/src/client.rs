//! The client: one or more connections, each fetching its share of the files.

use std::sync::Arc;
use std::time::Duration;

use dquic::prelude::QuicClient;
use dquic::qresolve::Source;
use quic_endpoint::{Options, Result, Url, fetch};

use crate::connection::Connection;
use crate::qlog::Qlogs;
use crate::tickets::Tickets;
use crate::{STACK, config};

/// How long a client that has all its files waits for a session ticket it wants.
const TICKET_PATIENCE: Duration = Duration::from_secs(3);
/// Time for the last packet to leave.
const FAREWELL: Duration = Duration::from_millis(50);

pub async fn run(options: Options) -> Result<()> {
    let options = Arc::new(options);
    let (tickets, qlogs) = (Arc::new(Tickets::default()), Arc::new(Qlogs::new(options.role)));
    let client = config::client(&options, tickets.clone(), qlogs.clone())?;
    let mut outcome = Ok(());
    for urls in options.connections()? {
        outcome = fetch_over_one_connection(&client, &options, &tickets, urls).await;
        if outcome.is_err() {
            break;
        }
    }
    qlogs.flush();
    outcome
}

async fn fetch_over_one_connection(
    client: &QuicClient,
    options: &Arc<Options>,
    tickets: &Tickets,
    urls: &[Url],
) -> Result<()> {
    let peer = urls[0].resolve()?;
    let before = tickets.count();
    let connection = client.connected_to_with_source(urls[0].host.as_str(), [(Source::System, peer.into())]).await?;
    let connection = Connection(connection);
    let outcome = fetch::all(&connection, &STACK, options, urls).await;
    if outcome.is_ok() && options.resumes() {
        // What does not come leaves the next connection without a session.
        let _ = tokio::time::timeout(TICKET_PATIENCE, tickets.beyond(before)).await;
    }
    quic_endpoint::connection::Connection::close(&connection, options.protocol);
    tokio::time::sleep(FAREWELL).await;
    outcome
}
