//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use noq::Connection;
use quic_endpoint::{Download, Options, Protocol, Result, Url, download, hq};
use tokio::task::JoinSet;

use crate::{STACK, http3};

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
            let (mut driver, requests) = h3::client::new(http3::Connection::new(connection.clone())).await?;
            for url in urls {
                let (requests, options, url) = (requests.clone(), options.clone(), url.clone());
                fetches.spawn(async move {
                    let fetched = quic_endpoint::http3::get(requests, &STACK, &options.downloads, &url).await;
                    fetched.map_err(|error| download::failed(&url, error))
                });
            }
            Some((tokio::spawn(future::poll_fn(move |context| driver.poll_close(context))), requests))
        }
    };
    let outcome = download::outcome(fetches.join_all().await);
    if let Some((driver, _requests)) = driver {
        // Before the last handle on it goes, which would close the connection while it may still be of use.
        driver.abort();
    }
    outcome
}

async fn get_hq(connection: &Connection, options: &Options, url: &Url) -> Result<()> {
    let (mut request, mut response) = connection.open_bi().await?;
    request.write_all(&hq::request(url)).await?;
    request.finish()?;
    let mut download = Download::create(&options.downloads, url)?;
    while let Some(chunk) = response.read_chunk(usize::MAX).await? {
        download.write(&chunk)?;
    }
    download.finish()
}
