//! The server: any number of connections, each asking for files below the root.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quic_endpoint::hq::{self, Request};
use quic_endpoint::{Options, Protocol, Result, Served, http3};
use s2n_quic::{Connection, Server, application, stream};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, CongestionControl, Payload};
use crate::qlog::Qlog;
use crate::{STACK, tls};

pub async fn run(options: &Options) -> Result<()> {
    let mut server = start(options)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let root: Arc<Path> = options.root.as_path().into();
    loop {
        tokio::select! {
            connection = server.accept() => {
                let connection = connection.ok_or("the endpoint accepts no more connections")?;
                tokio::spawn(serve(options.protocol, connection, root.clone()));
            }
            // The logs are complete once the endpoint's tasks end with the runtime.
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

fn start(options: &Options) -> Result<Server> {
    let tls = tls::server(options)?;
    let qlog = Qlog { role: options.role, own_parameters: tls.own_parameters.clone() };
    let local: SocketAddr = (Ipv6Addr::UNSPECIFIED, options.port).into();
    let builder = Server::builder()
        .with_tls(tls)?
        .with_io(config::io(options, local)?)?
        .with_limits(config::limits(options)?)?
        .with_endpoint_limits(config::endpoint_limits(options))?
        .with_mtu(Payload::of(options))?;
    if let Some((controllers, watch)) = config::handover(options)? {
        return Ok(builder.with_event((qlog, watch))?.with_congestion_controller(controllers)?.start()?);
    }
    let builder = builder.with_event(qlog)?;
    Ok(match config::congestion_control(options)? {
        CongestionControl::Cubic(cubic) => builder.with_congestion_controller(cubic)?.start()?,
        CongestionControl::Bbr(bbr) => builder.with_congestion_controller(bbr)?.start()?,
    })
}

async fn serve(protocol: Protocol, connection: Connection, root: Arc<Path>) {
    let served = match protocol {
        Protocol::Http3 => serve_http3(connection, root).await,
        Protocol::HqInterop => serve_hq(connection, root).await,
    };
    if let Err(error) = served {
        eprintln!("{}-endpoint: {error}", STACK.name);
    }
}

async fn serve_hq(mut connection: Connection, root: Arc<Path>) -> Result<()> {
    loop {
        match connection.accept_bidirectional_stream().await {
            Ok(Some(stream)) => {
                let root = root.clone();
                // What goes wrong with one stream, such as its reset, is the client's to tell.
                tokio::spawn(async move { answer_hq(stream, &root).await.ok() });
            }
            Ok(None) => return Ok(()),
            Err(error) => return ended(error),
        }
    }
}

/// A connection's end is an error unless the client is done.
fn ended(error: s2n_quic::connection::Error) -> Result<()> {
    match error {
        s2n_quic::connection::Error::Application { error, .. } if *error == 0 => Ok(()),
        error => Err(error.into()),
    }
}

async fn answer_hq(mut stream: stream::BidirectionalStream, root: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    let request = loop {
        let data = stream.receive().await?;
        bytes.extend_from_slice(data.as_deref().unwrap_or_default());
        match hq::parse(&bytes, data.is_none()) {
            Request::Incomplete => (),
            request => break request,
        }
    };
    let file = match request {
        Request::Get(path) => Served::open(root, &path),
        _ => None,
    };
    let Some(mut file) = file else {
        let rejected = application::Error::from(hq::REJECTED);
        stream.stop_sending(rejected)?;
        return Ok(stream.reset(rejected)?);
    };
    while let Some(chunk) = file.chunk()? {
        stream.send(chunk.into()).await?;
    }
    Ok(stream.finish()?)
}

async fn serve_http3(connection: Connection, root: Arc<Path>) -> Result<()> {
    let connection = crate::http3::Connection::new(connection);
    // Grease is drawn from a generator that does not ask the kernel, so that in virtual time no run would repeat.
    let mut connection = h3::server::builder().send_grease(false).build::<_, Bytes>(connection).await?;
    loop {
        match connection.accept().await {
            Ok(Some(request)) => {
                let root = root.clone();
                // What goes wrong with one stream, such as its reset, is the client's to tell.
                tokio::spawn(async move { http3::answer(request, &STACK, &root).await.ok() });
            }
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
