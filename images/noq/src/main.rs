//! A QUIC file client and server over noq, for interop and performance measurements.

mod client;
mod config;
mod connection;
mod http3;
mod server;
mod session;

use std::process::ExitCode;

use quic_endpoint::{How, Options, Result, Role, Stack};

const STACK: Stack = Stack {
    name: "noq",
    both: &[
        "ask-ack-ratio",
        "congestion-control",
        "connection-window",
        "gso",
        "idle-timeout",
        "initial-cwnd",
        "initial-rtt",
        "max-udp-payload",
        "path-mtu-discovery",
        "stream-window",
        "zero-rtt",
    ],
    client: &[],
    server: &[],
    // Without multipath, noq probes no path from an address that it does not use.
    moves: &[How::Interface],
};

fn main() -> ExitCode {
    quic_endpoint::main(&STACK, run)
}

fn run(options: Options) -> Result<()> {
    // One thread, so that a run repeats.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match options.role {
            Role::Client => client::run(options).await,
            Role::Server => server::run(options).await,
        }
    })
}
