//! The client's end of its paths: a socket and an outbox for each local address, and the moves from one to the next.

use std::net::SocketAddr;
use std::time::Instant;

use quic_endpoint::{How, Journey, Result};
use quiche::{Connection, ConnectionId, Header, PathEvent, RecvInfo};

use crate::STACK;
use crate::outbox::Outbox;
use crate::socket::{self, Socket};

/// Of the client's connection IDs.
pub const ID_LENGTH: usize = 16;

struct Open {
    socket: Socket,
    outbox: Outbox,
}

pub struct Paths<'a> {
    peer: SocketAddr,
    largest_payload: usize,
    journey: &'a mut Journey,
    /// Whether there are moves to make at all.
    moves: bool,
    open: Vec<Open>,
    /// The local address that is probed, to be used once its path is validated.
    probed: Option<SocketAddr>,
}

impl<'a> Paths<'a> {
    pub fn open(peer: SocketAddr, largest_payload: usize, journey: &'a mut Journey) -> Result<Self> {
        let udp = journey.socket(peer, Instant::now())?;
        let socket = Socket::connect(udp, peer, largest_payload)?;
        let open = vec![Open { socket, outbox: Outbox::default() }];
        let moves = !journey.is_over();
        Ok(Self { peer, largest_payload, journey, moves, open, probed: None })
    }

    /// The local address of the first.
    pub fn local_addr(&self) -> SocketAddr {
        self.open[0].socket.local_addr()
    }

    /// Sends what is due, and says when to come back for more.
    pub fn send(&mut self, connection: &mut Connection) -> Result<Option<Instant>> {
        self.journey.begin(Instant::now());
        let mut next = None;
        for Open { socket, outbox } in &mut self.open {
            let from = socket.local_addr();
            let at = outbox.send(connection, socket, Some(from))?;
            next = [next, at].into_iter().flatten().min();
        }
        Ok(next)
    }

    /// Waits until a datagram is there, a move or the deadline is due, or a signal has come.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        // One that is overdue waits for what the server sends.
        let due = self.journey.next().map(|(due, _)| due).filter(|due| *due > Instant::now());
        let deadline = [deadline, due].into_iter().flatten().min();
        Ok(socket::wait(self.open.iter().map(|open| &open.socket), deadline)?)
    }

    pub fn receive(&mut self, connection: &mut Connection) -> Result<()> {
        for Open { socket, .. } in &mut self.open {
            let to = socket.local_addr();
            socket.receive(|packet, from| {
                // What was under way on a path that was left may come to a connection ID that is retired by now, for
                // which quiche would close the connection.
                if self.moves
                    && let Ok(header) = Header::from_slice(packet, ID_LENGTH)
                    && !connection.source_ids().any(|id| *id == header.dcid)
                {
                    return;
                }
                if let Err(error) = connection.recv(packet, RecvInfo { from, to }) {
                    eprintln!("{}-endpoint: bad packet: {error}", STACK.name);
                }
            })?;
        }
        Ok(())
    }

    /// Makes the next move once it is due, and switches to a path that has been probed.
    pub fn advance(&mut self, connection: &mut Connection) -> Result<()> {
        if !connection.is_established() {
            return Ok(());
        }
        // Without one of its own for it, the client cannot have another path. A server may want one, too, where a NAT
        // gives the client another address (RFC 9000 §9.5).
        while connection.scids_left() > 0 {
            let id = quic_endpoint::random::bytes::<ID_LENGTH>()?;
            let token = u128::from_ne_bytes(quic_endpoint::random::bytes()?);
            connection.new_scid(&ConnectionId::from_ref(&id), token, false)?;
        }
        if !self.moves {
            return Ok(());
        }
        while let Some(event) = connection.path_event_next() {
            match event {
                PathEvent::Validated(local, _) if self.probed == Some(local) => {
                    self.switch(connection, local)?;
                }
                PathEvent::FailedValidation(local, _) if self.probed == Some(local) => {
                    eprintln!("{}-endpoint: the path from {local} was not validated", STACK.name);
                    self.probed = None;
                }
                _ => (),
            }
        }
        // quiche does not tell whether the handshake is confirmed. The connection IDs that a server gives in advance,
        // one of which a path takes, come with its HANDSHAKE_DONE.
        while let Some(next) = self.journey.ready(Instant::now(), connection.available_dcids() > 0) {
            let socket = Socket::connect(next.socket(self.peer)?, self.peer, self.largest_payload)?;
            let local = socket.local_addr();
            match next.how {
                How::Migrate => {
                    connection.probe_path(local, self.peer)?;
                    self.probed = Some(local);
                }
                How::Interface => {
                    self.switch(connection, local)?;
                    self.open.clear();
                }
            }
            self.open.push(Open { socket, outbox: Outbox::default() });
            self.journey.made(local);
        }
        Ok(())
    }

    /// Goes on from another local address.
    fn switch(&mut self, connection: &mut Connection, local: SocketAddr) -> Result<()> {
        connection.migrate(local, self.peer)?;
        self.probed = None;
        // Whoever receives only has nothing else to say, and from there the server must hear.
        Ok(connection.send_ack_eliciting_on_path(local, self.peer)?)
    }
}
