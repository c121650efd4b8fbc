//! What the lab's own QUIC endpoints share, whatever stack they are built on and whether or not they are
//! asynchronous: the command line, files on either side, HTTP/0.9 requests, sessions kept, moves, logs, sockets, signals;
//! with feature `h3`, what there is to do over the crate of that name; with feature `tokio`, waiting to the microsecond;
//! with both, all of the application protocols, over a trait that a stack's connection has; with feature `rustls`, how that
//! is configured. Nothing here knows a QUIC library.

#[cfg(feature = "tokio")]
pub mod alarm;
#[cfg(all(feature = "h3", feature = "tokio"))]
pub mod connection;
pub mod datagrams;
pub mod download;
#[cfg(all(feature = "h3", feature = "tokio"))]
pub mod fetch;
pub mod hq;
#[cfg(feature = "h3")]
pub mod http3;
pub mod logs;
pub mod moves;
pub mod options;
pub mod random;
pub mod schedule;
#[cfg(all(feature = "h3", feature = "tokio"))]
pub mod serve;
pub mod served;
pub mod session;
pub mod signal;
#[cfg(feature = "rustls")]
pub mod tls;
pub mod udp;
pub mod url;

use std::process::ExitCode;

pub use datagrams::Datagrams;
pub use download::Download;
pub use moves::{How, Journey, Move};
pub use options::{Options, Parameters, Plan, Protocol, Role, Stack};
pub use schedule::Schedule;
pub use served::Served;
pub use session::SessionDir;
pub use url::Url;

/// Anything that can go wrong for more than one reason.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// The program: parses the command line, runs, and tells on stderr what went wrong.
pub fn main(stack: &Stack, run: impl FnOnce(Options) -> Result<()>) -> ExitCode {
    match Options::parse(stack, std::env::args().skip(1)).and_then(|options| options.moving(stack)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}-endpoint: {error}", stack.name);
            ExitCode::FAILURE
        }
    }
}
