//! HTTP/3 where a stack has it from the h3 crate: files asked for and saved, or served; sent, or kept. The streams
//! below it, and how connections begin and end, are the stack's own.

use std::path::Path;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3::quic::{Connection, OpenStreams, RecvStream, SendStream};
use h3::server::{self, RequestResolver};
use http::header::{CONTENT_LENGTH, SERVER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};

use crate::{Download, Options, Result, Served, Stack, Url};

/// The header field of RFC 9218 §5.
const PRIORITY: &str = "priority";

/// What a client waits on for its file.
type Answer<O> = RequestStream<<O as OpenStreams<Bytes>>::BidiStream, Bytes>;

/// Fetches a file, or sends it. With the last `SendRequest` h3 closes the connection, so that the caller keeps one.
pub async fn transfer<O>(requests: SendRequest<O, Bytes>, stack: &Stack, options: &Options, url: &Url) -> Result<()>
where
    O: OpenStreams<Bytes>,
    O::BidiStream: RecvStream,
{
    match options.upload {
        true => send(requests, stack, &options.root, url).await,
        false => fetch(requests, stack, options, url, None, || ()).await,
    }
}

/// Fetches a file with a priority (RFC 9218), and tells of each part that comes.
pub async fn fetch<O>(
    requests: SendRequest<O, Bytes>,
    stack: &Stack,
    options: &Options,
    url: &Url,
    priority: Option<&str>,
    heard: impl FnMut(),
) -> Result<()>
where
    O: OpenStreams<Bytes>,
    O::BidiStream: RecvStream,
{
    save(ask(requests, stack, url, priority).await?, &options.downloads, url, heard).await
}

/// Sends a file, until the server says that it has all of it.
async fn send<O>(mut requests: SendRequest<O, Bytes>, stack: &Stack, root: &Path, url: &Url) -> Result<()>
where
    O: OpenStreams<Bytes>,
    O::BidiStream: RecvStream,
{
    let mut file = Served::open(root, &url.path).ok_or("no such file")?;
    let request = Request::post(format!("https://{}{}", url.authority(), url.path))
        .header(USER_AGENT, product(stack))
        .header(CONTENT_LENGTH, file.remaining());
    let mut stream = requests.send_request(request.body(())?).await?;
    while let Some(chunk) = file.chunk()? {
        stream.send_data(chunk.into()).await?;
    }
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::CREATED {
        return Err(format!("status {}", response.status()).into());
    }
    while stream.recv_data().await?.is_some() {}
    Ok(())
}

/// Asks for a file: the first half of its transfer, for whoever needs to know when the request is sent.
pub async fn ask<O>(
    mut requests: SendRequest<O, Bytes>,
    stack: &Stack,
    url: &Url,
    priority: Option<&str>,
) -> Result<Answer<O>>
where
    O: OpenStreams<Bytes>,
{
    let mut request = Request::get(format!("https://{}{}", url.authority(), url.path));
    request = request.header(USER_AGENT, product(stack));
    if let Some(priority) = priority {
        request = request.header(PRIORITY, priority);
    }
    let mut stream = requests.send_request(request.body(())?).await?;
    // A server that has heard enough may say so and answer all the same (RFC 9114 §4.1).
    let _ = stream.finish().await;
    Ok(stream)
}

/// Saves the file that was asked for, and tells of each part that comes.
pub async fn save<S: RecvStream>(
    mut stream: RequestStream<S, Bytes>,
    directory: &Path,
    url: &Url,
    mut heard: impl FnMut(),
) -> Result<()> {
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()).into());
    }
    let mut download = Download::create(directory, url)?;
    if let Some(length) = response.headers().get(CONTENT_LENGTH) {
        download.expect(length.to_str()?.parse()?);
    }
    while let Some(mut data) = stream.recv_data().await? {
        heard();
        write(&mut download, &mut data)?;
    }
    download.finish()
}

/// Answers a request with the file that it names below `root`, or keeps the one that comes with it. That there is none
/// is an error too, once it is answered.
pub async fn answer<C>(request: RequestResolver<C, Bytes>, stack: &Stack, root: &Path) -> Result<()>
where
    C: Connection<Bytes>,
{
    let (request, mut stream) = request.resolve_request().await?;
    let path = request.uri().path();
    if request.method() == Method::POST {
        let length = match request.headers().get(CONTENT_LENGTH) {
            Some(length) => Some(length.to_str()?.parse()?),
            None => None,
        };
        return keep(stream, stack, path, length).await;
    }
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

/// Keeps the file that a request brings, and answers once all of it is there.
async fn keep<S>(
    mut stream: server::RequestStream<S, Bytes>,
    stack: &Stack,
    path: &str,
    length: Option<u64>,
) -> Result<()>
where
    S: RecvStream + SendStream<Bytes>,
{
    let kept = async {
        let mut upload = Download::upload(path)?;
        if let Some(length) = length {
            upload.expect(length);
        }
        while let Some(mut data) = stream.recv_data().await? {
            write(&mut upload, &mut data)?;
        }
        upload.finish()
    };
    let kept: Result<()> = kept.await;
    let status = if kept.is_ok() { StatusCode::CREATED } else { StatusCode::INTERNAL_SERVER_ERROR };
    let response = Response::builder().status(status).header(SERVER, product(stack));
    stream.send_response(response.body(())?).await?;
    stream.finish().await?;
    kept
}

/// Writes data without a copy of them.
fn write(file: &mut Download, data: &mut impl Buf) -> Result<()> {
    while data.has_remaining() {
        let chunk = data.chunk();
        file.write(chunk)?;
        let length = chunk.len();
        data.advance(length);
    }
    Ok(())
}

/// The program as its peer is told of it.
fn product(stack: &Stack) -> String {
    format!("quic-lab-{}", stack.name)
}
