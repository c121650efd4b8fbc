//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::future;
use std::sync::Arc;

use bytes::Bytes;
use h3::client::SendRequest;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::{Connection, Receiver, Sender};
use crate::datagrams::Received;
use crate::{Datagrams, Download, Options, Protocol, Result, Schedule, Stack, Url, download, hq, http3, schedule};

/// Fetches all files at once, as far as the server lets that many streams be open.
pub async fn all<C: Connection>(
    connection: &C,
    stack: &'static Stack,
    options: &Arc<Options>,
    urls: &[Url],
) -> Result<()> {
    if let Some(datagrams) = Datagrams::read()? {
        return receive(connection, datagrams, options.protocol).await;
    }
    if let Some(schedule) = Schedule::read(urls.len())? {
        return follow(connection, stack, options, urls, schedule).await;
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
            let (driver, requests) = start_http3(connection).await?;
            for url in urls {
                let (requests, options, url) = (requests.clone(), options.clone(), url.clone());
                fetches.spawn(async move {
                    let fetched = http3::transfer(requests, stack, &options, &url).await;
                    fetched.map_err(|error| download::failed(&url, error))
                });
            }
            Some((driver, requests))
        }
    };
    let outcome = download::outcome(fetches.join_all().await);
    if let Some((driver, _requests)) = driver {
        // Before the last handle on it goes, which would close the connection while it may still be of use.
        driver.abort();
    }
    outcome
}

/// HTTP/3 on a connection: the task that drives it, and what takes requests.
async fn start_http3<C: Connection>(connection: &C) -> Result<(JoinHandle<()>, SendRequest<C::Streams, Bytes>)> {
    let (mut driver, requests) = h3::client::new(connection.http3()).await?;
    let driver = tokio::spawn(async move {
        // How it ended, the requests say.
        let _ = future::poll_fn(|context| driver.poll_close(context)).await;
    });
    Ok((driver, requests))
}

/// Writes down which datagrams come, until the server has sent all.
async fn receive(connection: &impl Connection, datagrams: Datagrams, protocol: Protocol) -> Result<()> {
    let mut received = Received::default();
    let all = async {
        while let Some(data) = connection.read_datagram(protocol).await? {
            received.add(&data);
        }
        Ok(())
    };
    // The end of the connection may be lost.
    let ended = tokio::time::timeout(datagrams.patience(), all).await;
    received.write()?;
    ended.unwrap_or(Ok(()))
}

/// Fetches the files as a schedule says.
async fn follow<C: Connection>(
    connection: &C,
    stack: &'static Stack,
    options: &Arc<Options>,
    urls: &[Url],
    schedule: Schedule,
) -> Result<()> {
    if options.protocol == Protocol::HqInterop {
        return schedule::follow(schedule, urls, |url, _, heard| {
            let (connection, options) = (connection.clone(), options.clone());
            async move { get_hq(&connection, &options, &url, heard).await }
        })
        .await;
    }
    let (driver, requests) = start_http3(connection).await?;
    let outcome = schedule::follow(schedule, urls, |url, priority, heard| {
        let (requests, options) = (requests.clone(), options.clone());
        async move { http3::fetch(requests, stack, &options, &url, priority.as_deref(), heard).await }
    });
    let outcome = outcome.await;
    // Before the last handle on it goes, which would close the connection while it may still be of use.
    driver.abort();
    outcome
}

async fn get_hq(
    connection: &impl Connection,
    options: &Options,
    url: &Url,
    mut heard: impl FnMut() + Send,
) -> Result<()> {
    let (mut request, mut response) = connection.open().await?;
    request.write(hq::request(url).into()).await?;
    request.finish()?;
    let mut download = Download::create(&options.downloads, url)?;
    while let Some(chunk) = response.read(usize::MAX).await? {
        heard();
        download.write(&chunk)?;
    }
    download.finish()
}
