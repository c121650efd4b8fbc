//! The server: a socket for each address family, any number of connections.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dquic::prelude::QuicListeners;
use quic_endpoint::connection::Connection as _;
use quic_endpoint::{Options, Result, serve};
use tokio::signal::unix::{SignalKind, signal};

use crate::connection::Connection;
use crate::qlog::Qlogs;
use crate::{STACK, config};

/// Time for the last packets to leave once the server is told to end.
const FAREWELL: Duration = Duration::from_millis(50);

pub async fn run(options: Options) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let options = Arc::new(options);
    let qlogs = Arc::new(Qlogs::new(options.role));
    let listeners = config::server(&options, qlogs.clone())?;
    let addresses = [
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, options.port)),
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, options.port)),
    ];
    // The crate turns down who asks for a name that it does not know.
    for name in config::names(&options)? {
        let (certificate, key) = (options.certificate.as_path(), options.private_key.as_path());
        listeners.add_server(name, certificate, key, addresses, None).await?;
    }
    let mut connections = Vec::new();
    tokio::select! {
        accepted = accept_all(&listeners, &options, &mut connections) => accepted?,
        _ = terminated.recv() => (),
        _ = interrupted.recv() => (),
    }
    for connection in connections.iter().filter_map(Weak::upgrade) {
        Connection(connection).close(options.protocol);
    }
    listeners.shutdown();
    tokio::time::sleep(FAREWELL).await;
    qlogs.flush();
    Ok(())
}

/// Leaves each connection to a task of its own, and keeps an eye on it.
async fn accept_all(
    listeners: &QuicListeners,
    options: &Arc<Options>,
    connections: &mut Vec<Weak<dquic::prelude::Connection>>,
) -> Result<()> {
    loop {
        let (connection, ..) = listeners.accept().await?;
        connections.push(Arc::downgrade(&connection));
        let options = options.clone();
        tokio::spawn(async move { STACK.report(serve::all(Connection(connection), &STACK, &options).await) });
    }
}
