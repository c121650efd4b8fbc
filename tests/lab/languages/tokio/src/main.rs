//! A QUIC file client and server over quinn for hq-interop (HTTP/0.9), told by the environment what to do.

use std::net::{Ipv6Addr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig, TransportConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{KeyLogFile, RootCertStore};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PROTOCOL: &[u8] = b"hq-interop";
/// Credit for the peer, bytes: more than any path under test can hold.
const WINDOW: u32 = 64 << 20;
const NOT_FOUND: u32 = 1;

fn main() -> Result<()> {
    // Several workers whatever the machine has, so that tasks wander between threads.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    match std::env::var("ROLE")?.as_str() {
        "client" => runtime.block_on(client(&std::env::var("REQUESTS")?)),
        _ => runtime.block_on(server()),
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.receive_window(WINDOW.into()).stream_receive_window(WINDOW.into()).send_window(WINDOW.into());
    Arc::new(transport)
}

async fn client(requests: &str) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file("/certs/ca.pem")?)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport());

    let urls = requests.split_whitespace().map(split).collect::<Result<Vec<_>>>()?;
    let (authority, _) = urls.first().ok_or("REQUESTS names no file to fetch")?;
    let address = authority.to_socket_addrs()?.next().ok_or("the server has no address")?;
    let (host, _) = authority.rsplit_once(':').ok_or("a URL without a port")?;
    let endpoint = Endpoint::client((Ipv6Addr::UNSPECIFIED, 0).into())?;
    let connection = endpoint.connect_with(config, address, host)?.await?;
    let mut fetches = JoinSet::new();
    for (_, path) in &urls {
        fetches.spawn(fetch(connection.clone(), path.to_string()));
    }
    while let Some(outcome) = fetches.join_next().await {
        outcome??;
    }
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// Authority and path of a URL.
fn split(url: &str) -> Result<(&str, &str)> {
    let rest = url.strip_prefix("https://").ok_or_else(|| format!("not a usable URL: {url}"))?;
    Ok(rest.split_at(rest.find('/').ok_or("a URL without a path")?))
}

async fn fetch(connection: Connection, path: String) -> Result<()> {
    let (mut request, mut answer) = connection.open_bi().await?;
    request.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    request.finish()?;
    let name = Path::new(&path).file_name().ok_or("a URL without a file")?;
    let mut file = File::create(Path::new("/downloads").join(name)).await?;
    let mut buffer = vec![0; 64 << 10];
    while let Some(length) = answer.read(&mut buffer).await? {
        file.write_all(&buffer[..length]).await?;
        file.flush().await?;
    }
    Ok(())
}

async fn server() -> Result<()> {
    let chain = CertificateDer::pem_file_iter("/certs/cert.pem")?.collect::<std::result::Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file("/certs/priv.key")?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, (Ipv6Addr::UNSPECIFIED, 443).into())?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming));
    }
    Ok(())
}

async fn serve(incoming: Incoming) {
    match incoming.await {
        Ok(connection) => {
            while let Ok((answer, request)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    if let Err(error) = respond(answer, request).await {
                        eprintln!("tokio-endpoint: {error}");
                    }
                });
            }
        }
        Err(error) => eprintln!("tokio-endpoint: {error}"),
    }
}

async fn respond(mut answer: SendStream, mut request: RecvStream) -> Result<()> {
    let request = String::from_utf8(request.read_to_end(4096).await?)?;
    let path = request.strip_prefix("GET /").ok_or("not a request")?.trim_end();
    let Ok(content) = fs::read(Path::new("/www").join(path)).await else {
        answer.reset(NOT_FOUND.into())?;
        return Err(format!("no such file: {path}").into());
    };
    answer.write_all(&content).await?;
    answer.finish()?;
    Ok(())
}
