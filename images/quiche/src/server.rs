//! The server: one socket, any number of connections.

use std::collections::HashMap;
use std::net::SocketAddr;

use quic_endpoint::{Options, Result, Role, random, signal};
use quiche::{Config, Connection, ConnectionId, Header, RecvInfo, Type};

use crate::config;
use crate::outbox::Outbox;
use crate::serve::Serve;
use crate::socket::Socket;

const ID_LENGTH: usize = 16;

struct Client {
    connection: Connection,
    outbox: Outbox,
    serve: Serve,
}

struct Server<'a> {
    options: &'a Options,
    config: Config,
    local: SocketAddr,
    clients: HashMap<u64, Client>,
    accepted: u64,
    /// Which client each connection ID belongs to.
    routes: HashMap<ConnectionId<'static>, u64>,
    /// Mixed into Retry tokens, so that only this server's are good.
    token_key: [u8; 16],
    /// Datagrams that belong to no connection.
    stray: Vec<(Vec<u8>, SocketAddr)>,
}

pub fn run(options: &Options) -> Result<()> {
    let mut socket = Socket::listen(options.port, config::largest_payload(&options.parameters))?;
    let mut server = Server {
        options,
        config: config::transport(options)?,
        local: socket.local_addr(),
        clients: HashMap::new(),
        accepted: 0,
        routes: HashMap::new(),
        token_key: random::bytes()?,
        stray: Vec::new(),
    };
    let mut next_packet = None;
    while !signal::terminated() {
        let timers = server.clients.values().filter_map(|client| client.connection.timeout_instant());
        socket.wait(timers.chain(next_packet).min())?;
        socket.receive(|packet, from| server.take(packet, from))?;
        for (packet, to) in server.stray.drain(..) {
            socket.next_slot()[..packet.len()].copy_from_slice(&packet);
            socket.push(packet.len(), to)?;
        }
        socket.flush()?;
        next_packet = None;
        for client in server.clients.values_mut() {
            let at = client.advance(&mut socket)?;
            next_packet = [next_packet, at].into_iter().flatten().min();
        }
        server.forget_closed();
    }
    Ok(())
}

impl Client {
    /// Runs timers, the application and the outbox; returns when the outbox wants to be called again.
    fn advance(&mut self, socket: &mut Socket) -> Result<Option<std::time::Instant>> {
        self.connection.on_timeout();
        if (self.connection.is_in_early_data() || self.connection.is_established())
            && !self.connection.is_closed()
            && !self.connection.is_draining()
            && let Err(error) = self.serve.advance(&mut self.connection)
        {
            eprintln!("quiche-endpoint: {error}");
            self.connection.close(true, 0x102, b"").ok();
        }
        Ok(self.outbox.send(&mut self.connection, socket, None)?)
    }
}

impl Server<'_> {
    fn take(&mut self, packet: &mut [u8], from: SocketAddr) {
        let Ok(header) = Header::from_slice(packet, ID_LENGTH) else { return };
        let number = match self.routes.get(&header.dcid) {
            Some(number) => *number,
            None => match self.accept(&header, from, packet.len()) {
                Ok(Some(number)) => number,
                Ok(None) => return,
                Err(error) => {
                    eprintln!("quiche-endpoint: cannot accept a connection: {error}");
                    return;
                }
            },
        };
        let Some(client) = self.clients.get_mut(&number) else { return };
        let info = RecvInfo { from, to: self.local };
        if let Err(error) = client.connection.recv(packet, info) {
            eprintln!("quiche-endpoint: bad packet: {error}");
        }
        if let Err(error) = self.spread_ids(number) {
            eprintln!("quiche-endpoint: no new connection IDs: {error}");
        }
    }

    /// Opens a connection for an Initial packet, or answers the packet in some other way.
    fn accept(&mut self, header: &Header, from: SocketAddr, length: usize) -> Result<Option<u64>> {
        if header.ty == Type::Short || length < quiche::MIN_CLIENT_INITIAL_LEN {
            return Ok(None);
        }
        if !quiche::version_is_supported(header.version) {
            self.reply(from, |out| quiche::negotiate_version(&header.scid, &header.dcid, out))?;
            return Ok(None);
        }
        if header.ty != Type::Initial {
            return Ok(None);
        }
        let fresh = random::bytes::<ID_LENGTH>()?;
        let token = header.token.as_deref().unwrap_or_default();
        let (id, original) = if !self.options.retry {
            (ConnectionId::from_vec(fresh.to_vec()), None)
        } else if let Some(original) = self.original_id(token, from) {
            // The client already uses the ID that the Retry packet gave it.
            (header.dcid.clone().into_owned(), Some(original))
        } else {
            let id = ConnectionId::from_ref(&fresh);
            let token = self.retry_token(header, from);
            self.reply(from, |out| quiche::retry(&header.scid, &header.dcid, &id, &token, header.version, out))?;
            return Ok(None);
        };

        let mut connection = quiche::accept(&id, original.as_ref(), self.local, from, &mut self.config)?;
        config::start_logs(&mut connection, &id, Role::Server)?;
        self.accepted += 1;
        let number = self.accepted;
        let client = Client { connection, outbox: Outbox::default(), serve: Serve::new(self.options) };
        self.clients.insert(number, client);
        self.routes.insert(header.dcid.clone().into_owned(), number);
        self.routes.insert(id, number);
        Ok(Some(number))
    }

    fn reply(&mut self, to: SocketAddr, write: impl FnOnce(&mut [u8]) -> quiche::Result<usize>) -> Result<()> {
        let mut packet = vec![0; 1200];
        let length = write(&mut packet)?;
        packet.truncate(length);
        self.stray.push((packet, to));
        Ok(())
    }

    /// The key, the client's address and its original ID. It proves that the client can receive at its address,
    /// to a server on a test network; it is no protection against anybody else.
    fn retry_token(&self, header: &Header, from: SocketAddr) -> Vec<u8> {
        let mut token = self.token_key.to_vec();
        token.extend_from_slice(from.to_string().as_bytes());
        token.push(0);
        token.extend_from_slice(&header.dcid);
        token
    }

    fn original_id(&self, token: &[u8], from: SocketAddr) -> Option<ConnectionId<'static>> {
        let rest = token.strip_prefix(&self.token_key)?;
        let id = rest.strip_prefix(from.to_string().as_bytes())?.strip_prefix(&[0])?;
        Some(ConnectionId::from_vec(id.to_vec()))
    }

    /// Gives the client as many connection IDs as it will hold, so that it may migrate.
    fn spread_ids(&mut self, number: u64) -> Result<()> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let connection = &mut client.connection;
        if connection.is_established() {
            while connection.scids_left() > 0 {
                let id = ConnectionId::from_vec(random::bytes::<ID_LENGTH>()?.to_vec());
                connection.new_scid(&id, u128::from_ne_bytes(random::bytes()?), false)?;
                self.routes.insert(id, number);
            }
        }
        while let Some(retired) = connection.retired_scid_next() {
            self.routes.remove(&retired);
        }
        Ok(())
    }

    fn forget_closed(&mut self) {
        let before = self.clients.len();
        self.clients.retain(|_, client| !client.connection.is_closed());
        if self.clients.len() < before {
            self.routes.retain(|_, number| self.clients.contains_key(number));
        }
    }
}
