//! A QUIC file client and server over quinn, for interop and performance measurements.

mod client;
mod config;
mod connection;
mod handover;
mod memory;
mod phase;
mod resume;
mod rule;
mod samples;
mod server;
mod session;
mod trace;

use std::process::ExitCode;

use quic_endpoint::{How, Options, Result, Role, Stack};

const STACK: Stack = Stack {
    name: "quinn",
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
    server: &[config::BDP_SEED, config::MIGRATION_CWND],
    // quinn probes no path from an address that it does not use.
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
