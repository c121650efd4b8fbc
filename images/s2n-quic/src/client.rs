//! The client: one or more connections, each fetching its share of the files.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use h3::client::SendRequest;
use quic_endpoint::{Download, Options, Protocol, Result, Schedule, Url, download, hq, http3, schedule};
use s2n_quic::Client;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::STACK;
use crate::config::{self, CongestionControl, Payload};
use crate::http3::{Connection, Streams};
use crate::qlog::Qlog;
use crate::tickets::Tickets;
use crate::tls;

/// How long it stays to get its goodbye out. s2n-quic itself would stay for three probe timeouts.
const CLOSE_PATIENCE: Duration = Duration::from_millis(50);

type Requests = SendRequest<Streams, Bytes>;

pub async fn run(options: &Options) -> Result<()> {
    let parts = options.connections()?;
    let first = parts.first().and_then(|urls| urls.first()).ok_or("the client needs at least one URL")?;
    let local: SocketAddr = match first.resolve()? {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let tickets = Tickets::of(options);
    let mut client = start(options, tickets.as_ref(), local)?;
    for urls in parts {
        fetch_over_one_connection(options, &client, tickets.as_ref(), urls).await?;
    }
    // An error here would be one of closing what is done with.
    let _ = timeout(CLOSE_PATIENCE, client.wait_idle()).await;
    Ok(())
}

fn start(options: &Options, tickets: Option<&Tickets>, local: SocketAddr) -> Result<Client> {
    let tls = tls::client(options, tickets)?;
    let qlog = Qlog { role: options.role, own_parameters: tls.own_parameters.clone() };
    let builder = Client::builder()
        .with_tls(tls)?
        .with_io(config::io(options, local)?)?
        .with_limits(config::limits(options)?)?
        .with_mtu(Payload::of(options))?
        .with_event(qlog)?;
    Ok(match config::congestion_control(options)? {
        CongestionControl::Cubic(cubic) => builder.with_congestion_controller(cubic)?.start()?,
        CongestionControl::Bbr(bbr) => builder.with_congestion_controller(bbr)?.start()?,
    })
}

async fn fetch_over_one_connection(
    options: &Options,
    client: &Client,
    tickets: Option<&Tickets>,
    urls: &[Url],
) -> Result<()> {
    let Url { host, .. } = &urls[0];
    let connect = Connect::new(urls[0].resolve()?).with_server_name(host.as_str());
    let connection = client.connect(connect).await.map_err(|error| format!("{host}: {error}"))?;
    let handle = connection.handle();
    let schedule = Schedule::read(urls.len())?;
    let (fetched, requests) = match options.protocol {
        Protocol::Http3 => {
            let requests = start_http3(connection).await?;
            (fetch_http3(options, &requests, urls, schedule).await, Some(requests))
        }
        Protocol::HqInterop => (fetch_hq(options, &handle, urls, schedule).await, None),
    };
    if let (Ok(()), Some(tickets)) = (&fetched, tickets) {
        tickets.wait().await;
    }
    handle.close(options.protocol.no_error().into());
    // With the last of these, h3 would have closed the connection before.
    drop(requests);
    fetched
}

async fn fetch_hq(options: &Options, handle: &Handle, urls: &[Url], schedule: Option<Schedule>) -> Result<()> {
    if let Some(schedule) = schedule {
        return schedule::follow(schedule, urls, |url, _, heard| {
            let (handle, directory) = (handle.clone(), options.downloads.clone());
            async move { get_hq(handle, &directory, &url, heard).await }
        })
        .await;
    }
    let mut fetches = JoinSet::new();
    for url in urls {
        let (handle, directory, url) = (handle.clone(), options.downloads.clone(), url.clone());
        fetches.spawn(async move {
            let fetched = get_hq(handle, &directory, &url, || ()).await;
            fetched.map_err(|error| download::failed(&url, error))
        });
    }
    download::outcome(fetches.join_all().await)
}

async fn get_hq(mut handle: Handle, directory: &Path, url: &Url, mut heard: impl FnMut()) -> Result<()> {
    let mut stream = handle.open_bidirectional_stream().await?;
    stream.send(hq::request(url).into()).await?;
    stream.finish()?;
    let mut download = Download::create(directory, url)?;
    while let Some(data) = stream.receive().await? {
        heard();
        download.write(&data)?;
    }
    download.finish()
}

/// HTTP/3 on a connection, for as long as what is returned is kept.
async fn start_http3(connection: s2n_quic::Connection) -> Result<Requests> {
    let connection = Connection::new(connection);
    // Grease is drawn from a generator that does not ask the kernel, so that in virtual time no run would repeat.
    let (mut driver, requests) = h3::client::builder().send_grease(false).build(connection).await?;
    tokio::spawn(async move { driver.wait_idle().await });
    Ok(requests)
}

async fn fetch_http3(options: &Options, requests: &Requests, urls: &[Url], schedule: Option<Schedule>) -> Result<()> {
    if let Some(schedule) = schedule {
        return schedule::follow(schedule, urls, |url, priority, heard| {
            let (requests, options) = (requests.clone(), options.clone());
            async move { http3::fetch(requests, &STACK, &options, &url, priority.as_deref(), heard).await }
        })
        .await;
    }
    let mut fetches = JoinSet::new();
    for url in urls {
        let (requests, options, url) = (requests.clone(), options.clone(), url.clone());
        fetches.spawn(async move {
            let fetched = http3::transfer(requests, &STACK, &options, &url).await;
            fetched.map_err(|error| download::failed(&url, error))
        });
    }
    download::outcome(fetches.join_all().await)
}
