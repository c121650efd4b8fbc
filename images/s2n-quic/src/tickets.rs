//! The client's session tickets: offered to the server, taken from it, kept for the next container.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use quic_endpoint::{Options, SessionDir};
use s2n_quic::provider::tls::default::callbacks::{ConnectionFuture, SessionTicket, SessionTicketCallback};
use s2n_quic::provider::tls::default::config::ConnectionInitializer;
use s2n_quic::provider::tls::default::connection::Connection;
use s2n_quic::provider::tls::default::error::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::STACK;

/// Under which a ticket, with the secrets that go with it, is kept.
const NAME: &str = "ticket";
/// How long a client that has all its files waits for a session ticket it wants.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub struct Tickets {
    latest: Arc<watch::Sender<Option<Vec<u8>>>>,
    directory: Option<SessionDir>,
}

impl Tickets {
    /// If the client is to resume.
    pub fn of(options: &Options) -> Option<Self> {
        let directory = options.session_dir.clone();
        let ticket = directory.as_ref().and_then(|directory| directory.load(NAME));
        options.resumes().then(|| Self { latest: Arc::new(watch::Sender::new(ticket)), directory })
    }

    /// Waits until there is a ticket. A connection that had one to offer need not bring another: s2n-quic's server
    /// sends none to a client that resumes, and the old one may be used again.
    pub async fn wait(&self) {
        let mut latest = self.latest.subscribe();
        if timeout(PATIENCE, latest.wait_for(Option::is_some)).await.is_err() {
            eprintln!("{}-endpoint: the server sent no session ticket", STACK.name);
        }
    }
}

impl SessionTicketCallback for Tickets {
    fn on_session_ticket(&self, _: &mut Connection, ticket: &SessionTicket) {
        let mut content = vec![0; ticket.len().unwrap_or(0)];
        if let Err(error) = ticket.data(&mut content) {
            eprintln!("{}-endpoint: bad session ticket: {error}", STACK.name);
            return;
        }
        if let Some(directory) = &self.directory
            && let Err(error) = directory.store(NAME, &content)
        {
            eprintln!("{}-endpoint: cannot store the session: {error}", STACK.name);
        }
        self.latest.send_replace(Some(content));
    }
}

impl ConnectionInitializer for Tickets {
    fn initialize_connection(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, Error> {
        // A ticket that cannot be used costs a full handshake, nothing more.
        if let Some(ticket) = &*self.latest.borrow()
            && let Err(error) = connection.set_session_ticket(ticket)
        {
            eprintln!("{}-endpoint: the stored session is of no use: {error}", STACK.name);
        }
        Ok(None)
    }
}
