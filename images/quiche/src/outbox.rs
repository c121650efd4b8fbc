//! Sends a connection's packets at the times its pacer asks for.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::Connection;

use crate::socket::{BATCH, Socket};

/// A packet this close to its time goes out at once, so a fast path costs one timer per burst, not per packet.
const EARLY: Duration = Duration::from_micros(500);

/// A packet made but not yet due.
struct Held {
    at: Instant,
    to: SocketAddr,
    packet: Vec<u8>,
}

#[derive(Default)]
pub struct Outbox {
    held: Option<Held>,
}

impl Outbox {
    /// Sends what is due, at most one batch, and says when to come back for more. Of a connection with several local
    /// addresses, `from` is the socket's.
    pub fn send(
        &mut self,
        connection: &mut Connection,
        socket: &mut Socket,
        from: Option<SocketAddr>,
    ) -> io::Result<Option<Instant>> {
        let now = Instant::now();
        if let Some(held) = self.held.take() {
            if held.at > now + EARLY {
                let at = held.at;
                self.held = Some(held);
                return Ok(Some(at));
            }
            socket.next_slot()[..held.packet.len()].copy_from_slice(&held.packet);
            socket.push(held.packet.len(), held.to)?;
        }
        for _ in 0..BATCH {
            let slot = socket.next_slot();
            let (length, info) = match connection.send_on_path(slot, from, None) {
                Ok(packet) => packet,
                Err(quiche::Error::Done) => {
                    socket.flush()?;
                    return Ok(None);
                }
                Err(error) => {
                    eprintln!("quiche-endpoint: cannot make a packet: {error}");
                    connection.close(false, 1, b"").ok();
                    continue;
                }
            };
            if info.at > now + EARLY {
                self.held = Some(Held { at: info.at, to: info.to, packet: slot[..length].to_vec() });
                socket.flush()?;
                return Ok(Some(info.at));
            }
            socket.push(length, info.to)?;
        }
        socket.flush()?;
        Ok(Some(now))
    }
}
