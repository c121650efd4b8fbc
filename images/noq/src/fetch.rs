//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use noq::{Connection, ConnectionError};
use quic_endpoint::datagrams::Received;
use quic_endpoint::{Datagrams, Download, Options, Protocol, Result, Schedule, Url, download, hq, schedule};
use tokio::task::JoinSet;

use crate::{STACK, http3};

/// Fetches all files at once, as far as the server lets that many streams be open.
pub async fn all(connection: &Connection, options: &Arc<Options>, urls: &[Url]) -> Result<()> {
    if let Some(datagrams) = Datagrams::read()? {
        return receive(connection, datagrams, options.protocol).await;
    }
    if let Some(schedule) = Schedule::read(urls.len())? {
        return follow(connection, options, urls, schedule).await;
    }
    let mut fetches = JoinSet::new();
    let driver = match options.protocol {
        Protocol::HqInterop => {
            for url in urls {
                let (connection, options, url) = (connection.clone(), options.clone(), url.clone());
                fetches.spawn(async move {
                    let fetched = get_hq(&connection, &options, &url, || ()).await;
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
                    let fetched = quic_endpoint::http3::transfer(requests, &STACK, &options, &url).await;
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

/// Writes down which datagrams come, until the server has sent all.
async fn receive(connection: &Connection, datagrams: Datagrams, protocol: Protocol) -> Result<()> {
    let mut received = Received::default();
    let all = async {
        loop {
            match connection.read_datagram().await {
                Ok(data) => received.add(&data),
                Err(ConnectionError::ApplicationClosed(end)) if end.error_code == protocol.no_error().into() => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    };
    // The end of the connection may be lost.
    let ended = tokio::time::timeout(datagrams.patience(), all).await;
    received.write()?;
    Ok(ended.unwrap_or(Ok(()))?)
}

/// Fetches the files as a schedule says.
async fn follow(connection: &Connection, options: &Arc<Options>, urls: &[Url], schedule: Schedule) -> Result<()> {
    if options.protocol == Protocol::HqInterop {
        return schedule::follow(schedule, urls, |url, _, heard| {
            let (connection, options) = (connection.clone(), options.clone());
            async move { get_hq(&connection, &options, &url, heard).await }
        })
        .await;
    }
    let (mut driver, requests) = h3::client::new(http3::Connection::new(connection.clone())).await?;
    let driver = tokio::spawn(future::poll_fn(move |context| driver.poll_close(context)));
    let outcome = schedule::follow(schedule, urls, |url, priority, heard| {
        let (requests, options) = (requests.clone(), options.clone());
        async move { quic_endpoint::http3::fetch(requests, &STACK, &options, &url, priority.as_deref(), heard).await }
    });
    let outcome = outcome.await;
    // Before the last handle on it goes, which would close the connection while it may still be of use.
    driver.abort();
    outcome
}

async fn get_hq(connection: &Connection, options: &Options, url: &Url, mut heard: impl FnMut()) -> Result<()> {
    let (mut request, mut response) = connection.open_bi().await?;
    request.write_all(&hq::request(url)).await?;
    request.finish()?;
    let mut download = Download::create(&options.downloads, url)?;
    while let Some(chunk) = response.read_chunk(usize::MAX).await? {
        heard();
        download.write(&chunk)?;
    }
    download.finish()
}
