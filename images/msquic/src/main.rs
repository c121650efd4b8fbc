//! A QUIC file client and server over MsQuic, for interop and performance measurements.

mod client;
mod config;
mod connection;
mod fetch;
mod http3;
mod keys;
mod metrics;
mod serve;
mod server;
mod stream;
mod wakers;

use std::process::ExitCode;

use quic_endpoint::{How, Options, Result, Role, Stack};

const STACK: Stack = Stack {
    name: "msquic",
    both: &[
        "congestion-control",
        "connection-window",
        "ecn",
        "hystart",
        "idle-timeout",
        "initial-cwnd",
        "initial-rtt",
        "max-ack-delay",
        "max-udp-payload",
        "pacing",
        "path-mtu-discovery",
        "stream-window",
    ],
    // A server of MsQuic that resumes sessions takes early data (with OpenSSL below it).
    client: &["zero-rtt"],
    server: &[],
    moves: &[How::Interface],
};

fn main() -> ExitCode {
    quic_endpoint::main(&STACK, run)
}

fn run(options: Options) -> Result<()> {
    config::wait_for_clock();
    // MsQuic has its own threads for the protocol; one more is enough for the application.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match options.role {
            Role::Client => client::run(options).await,
            Role::Server => server::run(options).await,
        }
    })
}
