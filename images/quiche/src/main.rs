//! A QUIC file client and server over quiche, for interop and performance measurements.

mod client;
mod config;
mod fetch;
mod options;
mod outbox;
mod random;
mod serve;
mod server;
mod signal;
mod socket;
mod url;

use std::error::Error;
use std::process::ExitCode;

use options::{Options, Role};

/// The outcome of anything that can fail for more than one reason.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let outcome = Options::from_arguments(std::env::args().skip(1)).and_then(|options| {
        signal::catch_termination()?;
        match options.role {
            Role::Client => client::run(&options),
            Role::Server => server::run(&options),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quiche-endpoint: {error}");
            ExitCode::FAILURE
        }
    }
}
