//! The client: one or more connections, each fetching its share of the files.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use quic_endpoint::{Download, Options, Protocol, Result, Url, hq};
use s2n_quic::Client;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::{self, CongestionControl, Payload};
use crate::http3::{self, Streams};
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
    let (fetched, requests) = match options.protocol {
        Protocol::Http3 => {
            let requests = start_http3(connection).await?;
            (fetch_http3(options, &requests, urls).await, Some(requests))
        }
        Protocol::HqInterop => (fetch_hq(options, &handle, urls).await, None),
    };
    if let (Ok(()), Some(tickets)) = (&fetched, tickets) {
        tickets.wait().await;
    }
    handle.close(options.protocol.no_error().into());
    // With the last of these, h3 would have closed the connection before.
    drop(requests);
    fetched
}

async fn fetch_hq(options: &Options, handle: &Handle, urls: &[Url]) -> Result<()> {
    let mut downloads = JoinSet::new();
    for url in urls {
        downloads.spawn(get_hq(handle.clone(), url.clone(), options.downloads.clone()));
    }
    outcome(downloads).await
}

async fn get_hq(mut handle: Handle, url: Url, directory: PathBuf) -> Result<()> {
    let failed = |error| format!("{}: {error}", url.path);
    let mut stream = handle.open_bidirectional_stream().await.map_err(|error| format!("{}: {error}", url.path))?;
    stream.send(hq::request(&url).into()).await.map_err(failed)?;
    stream.finish().map_err(failed)?;
    let mut download = Download::create(&directory, &url)?;
    while let Some(data) = stream.receive().await.map_err(failed)? {
        download.write(&data)?;
    }
    download.finish()
}

/// HTTP/3 on a connection, for as long as what is returned is kept.
async fn start_http3(connection: s2n_quic::Connection) -> Result<Requests> {
    let connection = http3::Connection::new(connection);
    // Grease is drawn from a generator that does not ask the kernel, so that in virtual time no run would repeat.
    let (mut driver, requests) = h3::client::builder().send_grease(false).build(connection).await?;
    tokio::spawn(async move { driver.wait_idle().await });
    Ok(requests)
}

async fn fetch_http3(options: &Options, requests: &Requests, urls: &[Url]) -> Result<()> {
    let mut downloads = JoinSet::new();
    for url in urls {
        downloads.spawn(get_http3(requests.clone(), url.clone(), options.downloads.clone()));
    }
    outcome(downloads).await
}

async fn get_http3(mut requests: Requests, url: Url, directory: PathBuf) -> Result<()> {
    fetch_file(&mut requests, &url, &directory).await.map_err(|error| format!("{}: {error}", url.path).into())
}

async fn fetch_file(requests: &mut Requests, url: &Url, directory: &Path) -> Result<()> {
    let request = http::Request::get(format!("https://{}{}", url.authority(), url.path)).body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("status {}", response.status()).into());
    }
    let mut download = Download::create(directory, url)?;
    if let Some(length) = response.headers().get(http::header::CONTENT_LENGTH) {
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

/// Success if every file came whole.
async fn outcome(mut downloads: JoinSet<Result<()>>) -> Result<()> {
    let mut failures = Vec::new();
    while let Some(done) = downloads.join_next().await {
        if let Err(error) = done? {
            failures.push(error.to_string());
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}
