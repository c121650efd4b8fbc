//! The client: one or more connections, each fetching its share of the files.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use quiche::{Config, ConnectionId};

use crate::fetch::Fetch;
use crate::options::{Options, Plan, Protocol};
use crate::outbox::Outbox;
use crate::socket::Socket;
use crate::url::Url;
use crate::{Result, config, random, signal};

/// BoringSSL's `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;
/// How long a client that has all its files waits for a session ticket it wants.
const TICKET_PATIENCE: Duration = Duration::from_secs(3);

pub fn run(options: &Options) -> Result<()> {
    let stored = options.session_dir.as_ref().map(|directory| directory.join("session.bin"));
    let (first, rest) = options.urls.split_at(1);
    let parts: Vec<&[Url]> = match options.plan {
        Plan::Single => vec![&options.urls],
        Plan::Resume | Plan::EarlyData if rest.is_empty() => return Err("this test needs two URLs".into()),
        Plan::Resume | Plan::EarlyData => vec![first, rest],
        Plan::Each => options.urls.chunks(1).collect(),
    };
    let resuming = parts.len() > 1 && options.plan != Plan::Each;

    let mut config = config::transport(options)?;
    if options.plan == Plan::EarlyData || stored.is_some() {
        config.enable_early_data();
    }
    let mut ticket = stored.as_deref().and_then(|path| std::fs::read(path).ok());
    for urls in parts {
        let offered = ticket.filter(|_| resuming || stored.is_some());
        ticket = fetch_over_one_connection(options, &mut config, urls, offered, resuming || stored.is_some())?;
        if let (Some(path), Some(ticket)) = (&stored, &ticket) {
            store(path, ticket)?;
        }
    }
    Ok(())
}

fn store(path: &Path, ticket: &[u8]) -> Result<()> {
    std::fs::write(path, ticket).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Fetches the files and returns the session ticket, if one came.
fn fetch_over_one_connection(
    options: &Options,
    config: &mut Config,
    urls: &[Url],
    offered: Option<Vec<u8>>,
    wants_ticket: bool,
) -> Result<Option<Vec<u8>>> {
    let host = &urls[0].host;
    let peer = resolve(host, urls[0].port)?;
    let mut socket = Socket::towards(peer, options.max_udp_payload)?;
    let local = socket.local_addr();
    let id = random::bytes::<16>()?;
    let id = ConnectionId::from_ref(&id);
    let mut connection = quiche::connect(Some(host), &id, local, peer, config)?;
    config::start_logs(&mut connection, &id, options.role)?;
    if let Some(ticket) = &offered {
        // A ticket that cannot be used costs a full handshake, nothing more.
        if let Err(error) = connection.set_session(ticket) {
            eprintln!("quiche-endpoint: the stored session is of no use: {error}");
        }
    }

    let mut outbox = Outbox::default();
    let mut fetch = Fetch::new(options, urls);
    let mut finished_at = None;
    // The first packet carries the TLS hello, after which early data may follow.
    outbox.send(&mut connection, &mut socket)?;
    let mut used_early_data = false;
    loop {
        if connection.is_in_early_data() || connection.is_established() {
            used_early_data |= connection.is_in_early_data();
            fetch.advance(&mut connection)?;
            if fetch.finished() {
                let since = *finished_at.get_or_insert_with(Instant::now);
                let has_ticket = connection.session().is_some();
                if !wants_ticket || has_ticket || since.elapsed() > TICKET_PATIENCE {
                    break;
                }
            }
        }
        let next_packet = outbox.send(&mut connection, &mut socket)?;
        let deadlines = [connection.timeout_instant(), next_packet, finished_at.map(|at| at + TICKET_PATIENCE)];
        socket.wait(deadlines.into_iter().flatten().min())?;
        socket.receive(|packet, from| {
            let info = quiche::RecvInfo { from, to: local };
            if let Err(error) = connection.recv(packet, info) {
                eprintln!("quiche-endpoint: bad packet: {error}");
            }
        })?;
        connection.on_timeout();
        if connection.is_closed() || connection.is_draining() || signal::terminated() {
            break;
        }
    }

    let no_error = if options.protocol == Protocol::Http3 { 0x100 } else { 0 };
    connection.close(true, no_error, b"").ok();
    outbox.send(&mut connection, &mut socket)?;
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

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    addresses.next().ok_or_else(|| format!("{host}: no address").into())
}
