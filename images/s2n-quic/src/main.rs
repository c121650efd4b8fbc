//! A QUIC file client and server over s2n-quic, for interop and performance measurements.

mod client;
mod config;
mod handover;
mod http3;
mod parameters;
mod paths;
mod place;
mod qlog;
mod rule;
mod server;
mod tickets;
mod tls;

use std::process::ExitCode;

use quic_endpoint::{Options, Result, Role, Stack};

pub const STACK: Stack = Stack {
    name: "s2n-quic",
    both: &[
        "congestion-control",
        "idle-timeout",
        "initial-cwnd",
        "initial-rtt",
        "max-ack-delay",
        "max-udp-payload",
        "path-mtu-discovery",
        "connection-window",
        "stream-window",
        "gso",
        config::SEND_BUFFER,
    ],
    client: &[],
    server: &[config::MIGRATION_CWND],
    moves: &[],
};

fn run(options: Options) -> Result<()> {
    // One thread is enough for any rate of the lab, and in virtual time its order of work repeats.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match options.role {
            Role::Client => client::run(&options).await,
            Role::Server => server::run(&options).await,
        }
    })
}

fn main() -> ExitCode {
    quic_endpoint::main(&STACK, run)
}
