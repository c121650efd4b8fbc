//! The server: one socket, any number of connections.

use std::sync::Arc;
use std::time::Duration;

use quic_endpoint::{Options, Result, udp};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use tokio::signal::unix::{SignalKind, signal};

use crate::{config, serve};

/// Time for the last packets to leave once the server is told to end.
const FAREWELL: Duration = Duration::from_millis(50);

pub async fn run(options: Options) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let crypto = QuicServerConfig::try_from(config::server_tls(&options)?)?;
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = Endpoint::new(
        EndpointConfig::default(),
        Some(config.clone()),
        udp::listen(options.port)?,
        Arc::new(TokioRuntime),
    )?;
    let options = Arc::new(options);
    loop {
        tokio::select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => accept(incoming, &options, config.clone()),
                None => break,
            },
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        }
    }
    endpoint.close(options.protocol.no_error().into(), b"");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(())
}

/// Leaves a connection to a task of its own.
fn accept(incoming: Incoming, options: &Arc<Options>, config: ServerConfig) {
    if options.retry && !incoming.remote_address_validated() && incoming.may_retry() {
        if let Err(error) = incoming.retry() {
            eprintln!("quinn-endpoint: {error}");
        }
        return;
    }
    let options = options.clone();
    tokio::spawn(async move {
        if let Err(error) = hold(incoming, &options, config).await {
            eprintln!("quinn-endpoint: {error}");
        }
    });
}

async fn hold(incoming: Incoming, options: &Arc<Options>, mut config: ServerConfig) -> Result<()> {
    config.transport_config(config::transport(options, &incoming.orig_dst_cid())?);
    let mut connecting = incoming.accept_with(Arc::new(config))?;
    // Who asks quinn for a stream before the client's limits are known, is never told of them.
    connecting.handshake_data().await?;
    // Before the handshake is complete, where the client's early data are accepted.
    let connection = match options.early_data() {
        true => match connecting.into_0rtt() {
            Ok((connection, _)) => connection,
            Err(connecting) => connecting.await?,
        },
        false => connecting.await?,
    };
    serve::all(connection, options).await
}
