//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use bytes::Bytes;
use h3::client::SendRequest;
use quic_endpoint::{Download, Options, Protocol, Result, Url, download, hq, http3};
use tokio::task::JoinSet;

use crate::STACK;
use crate::connection::Connection;
use crate::http3::Opener;

/// Fetches all files at once, as far as the server lets that many streams be open.
pub async fn all(connection: &Connection, options: &Arc<Options>, urls: &[Url]) -> Result<()> {
    let mut fetches = JoinSet::new();
    let driver = match options.protocol {
        Protocol::HqInterop => {
            for url in urls {
                let (connection, options, url) = (connection.clone(), options.clone(), url.clone());
                fetches.spawn(async move {
                    let fetched = get_hq(&connection, &options, &url).await;
                    fetched.map_err(|error| download::failed(&url, error))
                });
            }
            None
        }
        Protocol::Http3 => {
            let (mut driver, requests) = h3::client::new(Opener::new(connection.clone())).await?;
            for url in urls {
                let (connection, requests, options, url) =
                    (connection.clone(), requests.clone(), options.clone(), url.clone());
                fetches.spawn(async move {
                    let fetched = get_http3(&connection, requests, &options, &url).await;
                    fetched.map_err(|error| download::failed(&url, error))
                });
            }
            Some((tokio::spawn(future::poll_fn(move |context| driver.poll_close(context))), requests))
        }
    };
    let outcome = download::outcome(fetches.join_all().await);
    if let Some((driver, _requests)) = driver {
        // Before the last handle on it goes, which would close the connection while it may still be of use. And at
        // once, since MsQuic cannot be left while something holds a connection.
        driver.abort();
        let _ = driver.await;
    }
    outcome
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
    requests: SendRequest<Opener, Bytes>,
    options: &Options,
    url: &Url,
) -> Result<()> {
    let response = http3::ask(requests, &STACK, url, None).await?;
    connection.note_request();
    http3::save(response, &options.downloads, url, || ()).await
}
