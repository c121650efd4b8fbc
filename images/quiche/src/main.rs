//! A QUIC file client and server over quiche, for interop and performance measurements.

mod client;
mod config;
mod fetch;
mod outbox;
mod paths;
mod serve;
mod server;
mod sieve;
mod socket;

use std::process::ExitCode;

use quic_endpoint::{How, Options, Result, Role, Stack, signal};

const STACK: Stack = Stack {
    name: "quiche",
    both: &[
        "ack-delay-exponent",
        "congestion-control",
        "connection-window",
        "hystart",
        "idle-timeout",
        "initial-cwnd",
        "initial-rtt",
        "max-ack-delay",
        "max-udp-payload",
        "path-mtu-discovery",
        "stream-window",
        "zero-rtt",
    ],
    client: &[],
    server: &[],
    moves: &[How::Migrate, How::Interface],
};

fn main() -> ExitCode {
    quic_endpoint::main(&STACK, run)
}

fn run(options: Options) -> Result<()> {
    signal::catch_termination()?;
    match options.role {
        Role::Client => client::run(&options),
        Role::Server => server::run(&options),
    }
}
