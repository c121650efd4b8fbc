//! The server: a socket for each address family, any number of connections.

use std::sync::Arc;
use std::time::Duration;

use noq::crypto::rustls::QuicServerConfig;
use noq::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use quic_endpoint::{Options, Result, serve, udp};
use tokio::signal::unix::{SignalKind, signal};

use crate::connection::Connection;
use crate::{STACK, config};

/// Time for the last packets to leave once the server is told to end.
const FAREWELL: Duration = Duration::from_millis(50);

pub async fn run(options: Options) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let [crypto, later] = config::server_crypto(&options)?;
    let mut config = ServerConfig::with_crypto(crypto);
    config.transport_config(config::transport(&options)?);
    let options = Arc::new(options);
    let mut endpoints = Vec::new();
    // With IPv4 addresses in the form of IPv6, noq would not know a change of the port alone, over which it keeps a
    // path's congestion window and RTT.
    for socket in udp::listen_apart(options.port)? {
        let (config, runtime) = (Some(config.clone()), Arc::new(TokioRuntime));
        endpoints.push(Endpoint::new(EndpointConfig::default(), config, socket, runtime)?);
    }
    for endpoint in &endpoints {
        tokio::spawn(accept_all(endpoint.clone(), options.clone(), config.clone(), later.clone()));
    }
    tokio::select! {
        _ = terminated.recv() => (),
        _ = interrupted.recv() => (),
    }
    for endpoint in &endpoints {
        endpoint.close(options.protocol.no_error().into(), b"");
    }
    for endpoint in &endpoints {
        let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    }
    Ok(())
}

/// `later`: TLS of connections after the first.
async fn accept_all(endpoint: Endpoint, options: Arc<Options>, mut config: ServerConfig, later: Arc<QuicServerConfig>) {
    while let Some(incoming) = endpoint.accept().await {
        accept(incoming, &options, config.clone());
        config.crypto = later.clone();
    }
}

/// Leaves a connection to a task of its own.
fn accept(incoming: Incoming, options: &Arc<Options>, config: ServerConfig) {
    if options.retry && !incoming.remote_address_validated() && incoming.may_retry() {
        if let Err(error) = incoming.retry() {
            eprintln!("noq-endpoint: {error}");
        }
        return;
    }
    let options = options.clone();
    tokio::spawn(async move { STACK.report(hold(incoming, &options, config).await) });
}

async fn hold(incoming: Incoming, options: &Arc<Options>, config: ServerConfig) -> Result<()> {
    let mut connecting = incoming.accept_with(Arc::new(config))?;
    // Who asks for a stream before the client's limits are known, may never be told of them.
    connecting.handshake_data().await?;
    // Before the handshake is complete, where the client's early data are accepted.
    let connection = match options.early_data() {
        true => match connecting.into_0rtt() {
            Ok((connection, _)) => connection,
            Err(connecting) => connecting.await?,
        },
        false => connecting.await?,
    };
    serve::all(Connection(connection), &STACK, options).await
}
