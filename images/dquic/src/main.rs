//! A QUIC file client and server over dquic, for interop and performance measurements.

mod client;
mod config;
mod connection;
mod http3;
mod qlog;
mod server;
mod tickets;
mod versions;

use std::process::ExitCode;

use quic_endpoint::{Options, Result, Role, Stack};

const STACK: Stack = Stack {
    name: "dquic",
    both: &["connection-window", "idle-timeout", "max-ack-delay", "stream-window", "zero-rtt"],
    client: &[],
    server: &[],
    moves: &[],
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
