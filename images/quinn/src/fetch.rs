//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::header::CONTENT_LENGTH;
use http::{Request, StatusCode};
use quic_endpoint::{Download, Options, Protocol, Result, Url, hq};
use quinn::Connection;
use tokio::task::JoinSet;

/// Fetches all files at once, as far as the server lets that many streams be open.
pub async fn all(connection: &Connection, options: &Arc<Options>, urls: &[Url]) -> Result<()> {
    let mut fetches = JoinSet::new();
    let driver = match options.protocol {
        Protocol::HqInterop => {
            for url in urls {
                let (connection, options, url) = (connection.clone(), options.clone(), url.clone());
                fetches.spawn(async move { get_hq(&connection, &options, &url).await.map_err(|e| named(&url, &e)) });
            }
            None
        }
        Protocol::Http3 => {
            let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
            for url in urls {
                let (requests, options, url) = (requests.clone(), options.clone(), url.clone());
                fetches.spawn(async move { get_http3(requests, &options, &url).await.map_err(|e| named(&url, &e)) });
            }
            Some((tokio::spawn(future::poll_fn(move |context| driver.poll_close(context))), requests))
        }
    };
    let mut failures = Vec::new();
    while let Some(outcome) = fetches.join_next().await {
        failures.extend(outcome?.err());
    }
    if let Some((driver, _requests)) = driver {
        // Before the last handle on it goes, which would close the connection while it may still be of use.
        driver.abort();
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

fn named(url: &Url, error: &quic_endpoint::Error) -> String {
    format!("{}: {error}", url.path)
}

async fn get_hq(connection: &Connection, options: &Options, url: &Url) -> Result<()> {
    let (mut request, mut response) = connection.open_bi().await?;
    request.write_all(&hq::request(url)).await?;
    request.finish()?;
    let mut download = Download::create(&options.downloads, url)?;
    while let Some(chunk) = response.read_chunk(usize::MAX, true).await? {
        download.write(&chunk.bytes)?;
    }
    download.finish()
}

async fn get_http3(mut requests: SendRequest<OpenStreams, Bytes>, options: &Options, url: &Url) -> Result<()> {
    let request = Request::get(format!("https://{}{}", url.authority(), url.path))
        .header("user-agent", "quic-lab-quinn")
        .body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()).into());
    }
    let mut download = Download::create(&options.downloads, url)?;
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
