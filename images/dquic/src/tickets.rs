//! The client's session tickets, in memory, and word of those that come.

use std::sync::Mutex;

use rustls::NamedGroup;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use tokio::sync::Notify;

/// Sessions that are kept: of one server, a few.
const SESSIONS: usize = 32;

#[derive(Debug)]
pub struct Tickets {
    sessions: ClientSessionMemoryCache,
    count: Mutex<usize>,
    more: Notify,
}

impl Default for Tickets {
    fn default() -> Self {
        Self { sessions: ClientSessionMemoryCache::new(SESSIONS), count: Mutex::default(), more: Notify::new() }
    }
}

impl Tickets {
    /// Tickets that have come.
    pub fn count(&self) -> usize {
        *self.count.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Until more than so many have come.
    pub async fn beyond(&self, count: usize) {
        while self.count() <= count {
            self.more.notified().await;
        }
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server, value);
        *self.count.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
        self.more.notify_one();
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(server)
    }
}
