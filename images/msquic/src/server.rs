//! The server: takes connections until it is told to end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use msquic::{ADDRESS_FAMILY_UNSPEC, Addr, BufferRef, Listener, ListenerEvent, Registration, RegistrationConfig};
use quic_endpoint::{Options, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::{config, metrics, serve};

pub async fn run(options: Options) -> Result<()> {
    let registration = Registration::new(&RegistrationConfig::default())?;
    if options.retry {
        config::send_retry()?;
    }
    let configuration = Arc::new(config::configuration(&registration, &options)?);
    let (taken, mut arrivals) = mpsc::unbounded_channel();
    let accepting = configuration.clone();
    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, .. } = event {
            // At the end of the program nobody takes it any more, and dropping it closes it.
            let _ = taken.send(Connection::accept(&connection, &accepting)?);
        }
        Ok(())
    })?;
    // Neither family stands for both.
    let mut address = Addr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, options.port)));
    address.ipv4.sin_family = ADDRESS_FAMILY_UNSPEC;
    listener.start(&[BufferRef::from(options.protocol.name())], Some(&address))?;

    let options = Arc::new(options);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(connection) = arrivals.recv() => {
                connections.spawn(attend(connection, options.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    drop(listener);
    // Closes what is open.
    registration.shutdown();
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn attend(connection: Connection, options: Arc<Options>) {
    let recorder = tokio::spawn(metrics::record(connection.clone(), options.role));
    if let Err(error) = serve::all(&connection, &options).await {
        eprintln!("msquic-endpoint: a connection failed: {error}");
        connection.close(options.protocol.no_error());
    }
    connection.over().await;
    recorder.abort();
    let _ = recorder.await;
}
