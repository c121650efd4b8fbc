//! The server's side of the application protocols: reads files from its root and streams them out.

use std::sync::Arc;

use noq::{Connection, ConnectionError, RecvStream, SendStream};
use quic_endpoint::hq::Request;
use quic_endpoint::{Datagrams, Options, Protocol, Result, Served, hq};

use crate::{STACK, http3};

/// Answers the requests of a connection until the client has gone, or the server is told to go.
pub async fn all(connection: Connection, options: &Arc<Options>) -> Result<()> {
    let outcome = match options.protocol {
        Protocol::HqInterop => all_hq(&connection, options).await,
        Protocol::Http3 => all_http3(connection.clone(), options).await,
    };
    match connection.close_reason() {
        Some(ConnectionError::LocallyClosed) => Ok(()),
        Some(ConnectionError::ApplicationClosed(end)) if end.error_code == options.protocol.no_error().into() => Ok(()),
        _ => outcome,
    }
}

async fn all_hq(connection: &Connection, options: &Arc<Options>) -> Result<()> {
    if let Some(datagrams) = Datagrams::read()? {
        datagrams.send(|data| Ok(connection.send_datagram(data.into())?)).await?;
        connection.close(options.protocol.no_error().into(), b"");
        return Ok(());
    }
    loop {
        let (response, request) = connection.accept_bi().await?;
        let options = options.clone();
        tokio::spawn(async move { report(answer_hq(request, response, &options).await) });
    }
}

async fn all_http3(connection: Connection, options: &Arc<Options>) -> Result<()> {
    let mut requests = h3::server::Connection::new(http3::Connection::new(connection)).await?;
    while let Some(request) = requests.accept().await? {
        let options = options.clone();
        tokio::spawn(async move { report(quic_endpoint::http3::answer(request, &STACK, &options.root).await) });
    }
    Ok(())
}

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("noq-endpoint: {error}");
    }
}

async fn answer_hq(mut request: RecvStream, mut response: SendStream, options: &Options) -> Result<()> {
    let mut bytes = Vec::new();
    let path = loop {
        let chunk = request.read_chunk(1024).await?;
        let ended = chunk.is_none();
        bytes.extend(chunk.into_iter().flatten());
        match hq::parse(&bytes, ended) {
            Request::Incomplete => (),
            Request::Get(path) => break Some(path),
            Request::Malformed => break None,
        }
    };
    match path.and_then(|path| Served::open(&options.root, &path)) {
        Some(mut file) => {
            while let Some(chunk) = file.chunk()? {
                response.write_chunk(chunk.into()).await?;
            }
            response.finish()?;
        }
        None => response.reset(hq::REJECTED.into())?,
    }
    Ok(())
}
