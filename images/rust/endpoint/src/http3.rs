//! HTTP/3 where a stack has it from the h3 crate: files asked for and saved, or served. The streams below it, and how
//! connections begin and end, are the stack's own.

use std::path::Path;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3::quic::{Connection, OpenStreams, RecvStream};
use h3::server::RequestResolver;
use http::header::{CONTENT_LENGTH, SERVER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};

use crate::{Download, Result, Served, Stack, Url};

/// What a client waits on for its file.
type Answer<O> = RequestStream<<O as OpenStreams<Bytes>>::BidiStream, Bytes>;

/// Fetches a file. With the last `SendRequest` h3 closes the connection, so that the caller keeps one.
pub async fn get<O>(requests: SendRequest<O, Bytes>, stack: &Stack, directory: &Path, url: &Url) -> Result<()>
where
    O: OpenStreams<Bytes>,
    O::BidiStream: RecvStream,
{
    save(ask(requests, stack, url).await?, directory, url).await
}

/// The first half of `get`, for whoever needs to know when the request is sent.
pub async fn ask<O>(mut requests: SendRequest<O, Bytes>, stack: &Stack, url: &Url) -> Result<Answer<O>>
where
    O: OpenStreams<Bytes>,
{
    let request = Request::get(format!("https://{}{}", url.authority(), url.path));
    let mut stream = requests.send_request(request.header(USER_AGENT, product(stack)).body(())?).await?;
    // A server that has heard enough may say so and answer all the same (RFC 9114 §4.1).
    let _ = stream.finish().await;
    Ok(stream)
}

/// The second half of `get`.
pub async fn save<S: RecvStream>(mut stream: RequestStream<S, Bytes>, directory: &Path, url: &Url) -> Result<()> {
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()).into());
    }
    let mut download = Download::create(directory, url)?;
    if let Some(length) = response.headers().get(CONTENT_LENGTH) {
        download.expect(length.to_str()?.parse()?);
    }
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let chunk = data.chunk();
            download.write(chunk)?;
            let length = chunk.len();
            data.advance(length);
        }
    }
    download.finish()
}

/// Answers a request with the file that it names below `root`. That there is none is an error too, once it is answered.
pub async fn answer<C>(request: RequestResolver<C, Bytes>, stack: &Stack, root: &Path) -> Result<()>
where
    C: Connection<Bytes>,
{
    let (request, mut stream) = request.resolve_request().await?;
    let path = request.uri().path();
    let mut file = (request.method() == Method::GET).then(|| Served::open(root, path)).flatten();
    let response = Response::builder()
        .status(if file.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND })
        .header(SERVER, product(stack))
        .header(CONTENT_LENGTH, file.as_ref().map_or(0, Served::remaining));
    stream.send_response(response.body(())?).await?;
    if let Some(file) = &mut file {
        // Left without more ado, some stacks' streams end as if the file had.
        while let Some(chunk) = file.chunk().inspect_err(|_| stream.stop_stream(Code::H3_INTERNAL_ERROR))? {
            stream.send_data(chunk.into()).await?;
        }
    }
    stream.finish().await?;
    // To the end of the request, or else the client would be told to stop sending.
    while stream.recv_data().await?.is_some() {}
    file.map(drop).ok_or_else(|| format!("{path}: no such file").into())
}

/// The program as its peer is told of it.
fn product(stack: &Stack) -> String {
    format!("quic-lab-{}", stack.name)
}
