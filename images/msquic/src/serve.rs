//! The server's side of the application protocols.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;

use quic_endpoint::hq::{self, Request};
use quic_endpoint::{Options, Protocol, Result, Served, http3};
use tokio::task::JoinSet;

use crate::STACK;
use crate::connection::Connection;
use crate::http3::Opener;
use crate::stream::{ReceiveHalf, SendHalf};

/// Serves all requests of a connection, until it is closed.
pub async fn all(connection: &Connection, options: &Arc<Options>) -> Result<()> {
    let mut responses = JoinSet::new();
    match options.protocol {
        Protocol::HqInterop => {
            while let Ok(request) = poll_fn(|context| connection.poll_request(context)).await {
                let options = options.clone();
                responses.spawn(async move { report(serve_hq(request, &options.root).await) });
                while responses.try_join_next().is_some() {}
            }
        }
        Protocol::Http3 => {
            let mut requests = h3::server::Connection::new(Opener::new(connection.clone())).await?;
            while let Ok(Some(request)) = requests.accept().await {
                let options = options.clone();
                responses.spawn(async move { report(http3::answer(request, &STACK, &options.root).await) });
                while responses.try_join_next().is_some() {}
            }
        }
    }
    // The connection is gone, and MsQuic cannot be left while something holds it.
    while responses.join_next().await.is_some() {}
    Ok(())
}

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("msquic-endpoint: a request failed: {error}");
    }
}

async fn serve_hq((mut response, request): (SendHalf, ReceiveHalf), root: &Path) -> Result<()> {
    let mut line = Vec::new();
    let path = loop {
        let data = request.receive().await?;
        line.extend_from_slice(data.as_deref().unwrap_or_default());
        match hq::parse(&line, data.is_none()) {
            Request::Incomplete => {}
            Request::Get(path) => break path,
            Request::Malformed => {
                response.reset(hq::REJECTED.into());
                return Err("not a request".into());
            }
        }
    };
    let Some(mut file) = Served::open(root, &path) else {
        response.reset(hq::REJECTED.into());
        return Err(format!("{path}: no such file").into());
    };
    loop {
        let mut chunk = Vec::new();
        file.read(&mut chunk)?;
        response.ready().await?;
        let last = file.remaining() == 0;
        response.send(chunk.into(), last)?;
        if last {
            return Ok(());
        }
    }
}
