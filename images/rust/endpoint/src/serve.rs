//! The server's side of the application protocols: reads files from its root and streams them out.

use std::sync::Arc;

use crate::connection::{Connection, Receiver, Sender};
use crate::hq::Request;
use crate::{Datagrams, Options, Protocol, Result, Served, Stack, hq, http3};

/// Longest piece of a request that is taken at a time.
const PIECE: usize = 1024;

/// Answers the requests of a connection until the client has gone, or the server is told to go.
pub async fn all<C: Connection>(connection: C, stack: &'static Stack, options: &Arc<Options>) -> Result<()> {
    let outcome = match options.protocol {
        Protocol::HqInterop => all_hq(&connection, stack, options).await,
        Protocol::Http3 => all_http3(&connection, stack, options).await,
    };
    if connection.is_closed_well(options.protocol) { Ok(()) } else { outcome }
}

async fn all_hq<C: Connection>(connection: &C, stack: &'static Stack, options: &Arc<Options>) -> Result<()> {
    if let Some(datagrams) = Datagrams::read()? {
        datagrams.send(|data| connection.send_datagram(data)).await?;
        connection.close(options.protocol);
        return Ok(());
    }
    loop {
        let (response, request) = connection.accept().await?;
        let options = options.clone();
        tokio::spawn(async move { stack.report(answer_hq(request, response, &options).await) });
    }
}

async fn all_http3<C: Connection>(connection: &C, stack: &'static Stack, options: &Arc<Options>) -> Result<()> {
    let mut requests = h3::server::Connection::new(connection.http3()).await?;
    while let Some(request) = requests.accept().await? {
        let options = options.clone();
        tokio::spawn(async move { stack.report(http3::answer(request, stack, &options.root).await) });
    }
    Ok(())
}

async fn answer_hq(mut request: impl Receiver, mut response: impl Sender, options: &Options) -> Result<()> {
    let mut bytes = Vec::new();
    let path = loop {
        let piece = request.read(PIECE).await?;
        let ended = piece.is_none();
        bytes.extend(piece.into_iter().flatten());
        match hq::parse(&bytes, ended) {
            Request::Incomplete => (),
            Request::Get(path) => break Some(path),
            Request::Malformed => break None,
        }
    };
    match path.and_then(|path| Served::open(&options.root, &path)) {
        Some(mut file) => {
            while let Some(chunk) = file.chunk()? {
                response.write(chunk.into()).await?;
            }
            response.finish()
        }
        None => response.reset(hq::REJECTED),
    }
}
