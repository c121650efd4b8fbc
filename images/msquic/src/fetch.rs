//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use http::header::CONTENT_LENGTH;
use http::{Request, StatusCode};
use quic_endpoint::{Download, Options, Protocol, Result, Url, hq};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::http3::Opener;

/// Fetches all files at once, as far as the server lets that many streams be open.
pub async fn all(connection: &Connection, options: &Arc<Options>, urls: &[Url]) -> Result<()> {
    let mut fetches = JoinSet::new();
    let driver = match options.protocol {
        Protocol::HqInterop => {
            for url in urls.iter().cloned() {
                let (connection, options) = (connection.clone(), options.clone());
                fetches.spawn(async move { get_hq(&connection, &options, &url).await.map_err(|e| named(&url, &e)) });
            }
            None
        }
        Protocol::Http3 => {
            let (mut driver, requests) = h3::client::new(Opener::new(connection.clone())).await?;
            for url in urls.iter().cloned() {
                let (connection, requests, options) = (connection.clone(), requests.clone(), options.clone());
                fetches.spawn(async move {
                    get_http3(&connection, requests, &options, &url).await.map_err(|e| named(&url, &e))
                });
            }
            Some((tokio::spawn(future::poll_fn(move |context| driver.poll_close(context))), requests))
        }
    };
    let mut failures = Vec::new();
    while let Some(outcome) = fetches.join_next().await {
        failures.extend(outcome?.err());
    }
    if let Some((driver, _requests)) = driver {
        // Before the last handle on it goes, which would close the connection while it may still be of use. And at
        // once, since MsQuic cannot be left while something holds a connection.
        driver.abort();
        let _ = driver.await;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

fn named(url: &Url, error: &quic_endpoint::Error) -> String {
    format!("{}: {error}", url.path)
}

async fn get_hq(connection: &Connection, options: &Options, url: &Url) -> Result<()> {
    let (mut request, response) = connection.open_request().await?;
    request.send(hq::request(url).into(), true)?;
    connection.note_request();
    let mut download = Download::create(&options.downloads, url)?;
    while let Some(data) = response.receive().await? {
        download.write(&data)?;
    }
    download.finish()
}

async fn get_http3(
    connection: &Connection,
    mut requests: SendRequest<Opener, Bytes>,
    options: &Options,
    url: &Url,
) -> Result<()> {
    let request = Request::get(format!("https://{}{}", url.authority(), url.path))
        .header("user-agent", "quic-lab-msquic")
        .body(())?;
    let mut stream = requests.send_request(request).await?;
    // A server that has heard enough may say so and answer all the same (RFC 9114 §4.1).
    let _ = stream.finish().await;
    connection.note_request();
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
