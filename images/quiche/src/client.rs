//! The client: one or more connections, each fetching its share of the files.

use std::time::{Duration, Instant};

use quic_endpoint::{Journey, Options, Result, Schedule, Url, random, signal};
use quiche::{Config, ConnectionId};

use crate::fetch::Fetch;
use crate::paths::{ID_LENGTH, Paths};
use crate::{STACK, config};

/// BoringSSL's `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;
/// How long a client that has all its files waits for a session ticket it wants.
const TICKET_PATIENCE: Duration = Duration::from_secs(3);
/// The session's name in the session directory.
const SESSION: &str = "session";

pub fn run(options: &Options) -> Result<()> {
    let mut config = config::transport(options)?;
    let stored = options.session_dir.as_ref();
    let mut session = stored.and_then(|directory| directory.load(SESSION));
    let mut journey = Journey::new(&STACK, &options.moves);
    for urls in options.connections()? {
        let offered = session.filter(|_| options.resumes());
        session = fetch_over_one_connection(options, &mut config, &mut journey, urls, offered)?;
        if let (Some(directory), Some(session)) = (stored, &session) {
            directory.store(SESSION, session)?;
        }
    }
    journey.end();
    Ok(())
}

/// Fetches the files and returns the session ticket, if one came.
fn fetch_over_one_connection(
    options: &Options,
    config: &mut Config,
    journey: &mut Journey,
    urls: &[Url],
    offered: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    let peer = urls[0].resolve()?;
    let mut paths = Paths::open(peer, config::largest_payload(&options.parameters), journey)?;
    let id = random::bytes::<ID_LENGTH>()?;
    let id = ConnectionId::from_ref(&id);
    let mut connection = quiche::connect(Some(&urls[0].host), &id, paths.local_addr(), peer, config)?;
    config::start_logs(&mut connection, &id, options.role)?;
    if let Some(ticket) = &offered {
        // A ticket that cannot be used costs a full handshake, nothing more.
        if let Err(error) = connection.set_session(ticket) {
            eprintln!("quiche-endpoint: the stored session is of no use: {error}");
        }
    }

    let mut fetch = Fetch::new(options, urls, Schedule::read(urls.len())?);
    let mut has_begun = false;
    let mut finished_at = None;
    // The first packet carries the TLS hello, after which early data may follow.
    paths.send(&mut connection)?;
    let mut used_early_data = false;
    loop {
        if connection.is_in_early_data() || connection.is_established() {
            used_early_data |= connection.is_in_early_data();
            if !has_begun && connection.is_established() {
                has_begun = true;
                fetch.begin();
            }
            fetch.advance(&mut connection)?;
            if fetch.finished() {
                let since = *finished_at.get_or_insert_with(Instant::now);
                let has_ticket = connection.session().is_some();
                if !options.resumes() || has_ticket || since.elapsed() > TICKET_PATIENCE {
                    break;
                }
            }
        }
        paths.advance(&mut connection)?;
        let next_packet = paths.send(&mut connection)?;
        let patience = finished_at.map(|at| at + TICKET_PATIENCE);
        let deadlines = [connection.timeout_instant(), next_packet, patience, fetch.due()];
        paths.wait(deadlines.into_iter().flatten().min())?;
        paths.receive(&mut connection)?;
        connection.on_timeout();
        if connection.is_closed() || connection.is_draining() || signal::terminated() {
            break;
        }
    }

    let no_error = options.protocol.no_error().into();
    connection.close(true, no_error, b"").ok();
    paths.send(&mut connection)?;
    fetch.write_times()?;
    let stats = connection.stats();
    eprintln!(
        "quiche-endpoint: resumed={} early_data={} received={} sent={} lost={}",
        connection.is_resumed(),
        used_early_data && connection.early_data_reason() == EARLY_DATA_ACCEPTED,
        stats.recv,
        stats.sent,
        stats.lost
    );
    let reason = [connection.peer_error(), connection.local_error()].into_iter().flatten().next();
    fetch.outcome().map_err(|failure| match reason {
        Some(error) if error.error_code != no_error => {
            format!("{failure} (closed with {:#x} {:?})", error.error_code, String::from_utf8_lossy(&error.reason))
        }
        _ if connection.is_timed_out() => format!("{failure} (timed out)"),
        _ => failure.to_string(),
    })?;
    Ok(connection.session().map(<[u8]>::to_vec))
}
