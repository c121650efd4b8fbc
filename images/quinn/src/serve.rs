//! The server's side of the application protocols: reads files from its root and streams them out.

use std::sync::Arc;

use bytes::Bytes;
use h3::server::RequestResolver;
use http::header::CONTENT_LENGTH;
use http::{Method, Response, StatusCode};
use quic_endpoint::hq::Request;
use quic_endpoint::{Options, Protocol, Result, Served, hq};
use quinn::{Connection, ConnectionError, RecvStream, SendStream};

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
    loop {
        let (response, request) = connection.accept_bi().await?;
        let options = options.clone();
        tokio::spawn(async move { report(answer_hq(request, response, &options).await) });
    }
}

async fn all_http3(connection: Connection, options: &Arc<Options>) -> Result<()> {
    let mut http3 = h3::server::Connection::new(h3_quinn::Connection::new(connection)).await?;
    while let Some(request) = http3.accept().await? {
        let options = options.clone();
        tokio::spawn(async move { report(answer_http3(request, &options).await) });
    }
    Ok(())
}

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("quinn-endpoint: {error}");
    }
}

async fn answer_hq(mut request: RecvStream, mut response: SendStream, options: &Options) -> Result<()> {
    let mut bytes = Vec::new();
    let path = loop {
        let chunk = request.read_chunk(1024, true).await?;
        let ended = chunk.is_none();
        bytes.extend(chunk.into_iter().flat_map(|chunk| chunk.bytes));
        match hq::parse(&bytes, ended) {
            Request::Incomplete => (),
            Request::Get(path) => break Some(path),
            Request::Malformed => break None,
        }
    };
    match path.and_then(|path| Served::open(&options.root, &path)) {
        Some(mut file) => {
            while let Some(chunk) = next_chunk(&mut file)? {
                response.write_chunk(chunk).await?;
            }
            response.finish()?;
        }
        None => response.reset(hq::REJECTED.into())?,
    }
    Ok(())
}

async fn answer_http3(request: RequestResolver<h3_quinn::Connection, Bytes>, options: &Options) -> Result<()> {
    let (request, mut stream) = request.resolve_request().await?;
    let file = match *request.method() {
        Method::GET => Served::open(&options.root, request.uri().path()),
        _ => None,
    };
    let status = if file.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let response = Response::builder()
        .status(status)
        .header("server", "quic-lab-quinn")
        .header(CONTENT_LENGTH, file.as_ref().map_or(0, Served::remaining));
    stream.send_response(response.body(())?).await?;
    if let Some(mut file) = file {
        while let Some(chunk) = next_chunk(&mut file)? {
            stream.send_data(chunk).await?;
        }
    }
    stream.finish().await?;
    Ok(())
}

fn next_chunk(file: &mut Served) -> Result<Option<Bytes>> {
    let mut chunk = Vec::new();
    file.read(&mut chunk)?;
    Ok((!chunk.is_empty()).then(|| chunk.into()))
}
