//! The server's side of the application protocols: reads files from its root and streams them out.

use std::collections::HashMap;
use std::path::PathBuf;

use quic_endpoint::hq::Request;
use quic_endpoint::{Options, Protocol, Result, Served, hq};
use quiche::h3::{self, NameValue};
use quiche::{Connection, Shutdown};

/// A file, or the news that there is none, on its way out.
struct Response {
    /// The header fields, until they are sent (HTTP/3).
    head: Vec<h3::Header>,
    /// As the request asks for it (RFC 9218); none where it does not.
    priority: Option<h3::Priority>,
    file: Option<Served>,
    /// Bytes read but not yet taken by the transport.
    chunk: Vec<u8>,
    position: usize,
}

impl Response {
    fn new(file: Option<Served>, head: Vec<h3::Header>, priority: Option<h3::Priority>) -> Self {
        Self { head, priority, file, chunk: Vec::new(), position: 0 }
    }

    /// Bytes not yet read from the file.
    fn remaining(&self) -> u64 {
        self.file.as_ref().map_or(0, Served::remaining)
    }

    /// Passes data to `send` until that takes no more. True once everything has been taken.
    fn pump(&mut self, mut send: impl FnMut(&[u8], bool) -> Option<usize>) -> Result<bool> {
        loop {
            if self.position == self.chunk.len()
                && self.remaining() > 0
                && let Some(file) = &mut self.file
            {
                file.read(&mut self.chunk)?;
                self.position = 0;
            }
            let rest = &self.chunk[self.position..];
            let last = self.remaining() == 0;
            let Some(taken) = send(rest, last) else { return Ok(false) };
            let whole = taken == rest.len();
            self.position += taken;
            if whole && last {
                return Ok(true);
            }
            if !whole {
                return Ok(false);
            }
        }
    }
}

/// What a Priority header field asks for (RFC 9218 §4): u=0 to u=7, 3 without; i for incremental.
fn priority(field: &[u8]) -> h3::Priority {
    let (mut urgency, mut incremental) = (3, false);
    for member in String::from_utf8_lossy(field).split(',').map(str::trim) {
        match member.split_once('=') {
            Some(("u", value)) => urgency = value.parse().ok().filter(|urgency| *urgency < 8).unwrap_or(urgency),
            Some(("i", value)) => incremental = value == "?1",
            None if member == "i" => incremental = true,
            _ => (),
        }
    }
    h3::Priority::new(urgency, incremental)
}

pub struct Serve {
    protocol: Protocol,
    root: PathBuf,
    http3: Option<h3::Connection>,
    requests: HashMap<u64, Vec<u8>>,
    responses: HashMap<u64, Response>,
}

impl Serve {
    pub fn new(options: &Options) -> Self {
        Self {
            protocol: options.protocol,
            root: options.root.clone(),
            http3: None,
            requests: HashMap::new(),
            responses: HashMap::new(),
        }
    }

    /// Takes requests that have arrived and sends what the connection has room for. To be called whenever the
    /// connection, ready for application data, has heard from its peer.
    pub fn advance(&mut self, connection: &mut Connection) -> Result<()> {
        match self.protocol {
            Protocol::Http3 => {
                let mut http3 = match self.http3.take() {
                    Some(http3) => http3,
                    None => h3::Connection::with_transport(connection, &h3::Config::new()?)?,
                };
                let outcome = self.exchange_http3(connection, &mut http3);
                self.http3 = Some(http3);
                outcome
            }
            Protocol::HqInterop => self.exchange_hq(connection),
        }
    }

    fn exchange_http3(&mut self, connection: &mut Connection, http3: &mut h3::Connection) -> Result<()> {
        loop {
            match http3.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    let response = self.answer_http3(&list);
                    self.responses.insert(stream, response);
                }
                Ok((stream, h3::Event::Reset(_))) => drop(self.responses.remove(&stream)),
                Ok(_) => (),
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.send_heads(connection, http3);
        self.send_responses(connection, |connection, stream, data, last| {
            http3.send_body(connection, stream, data, last).map_err(|error| error == h3::Error::Done)
        })
    }

    fn answer_http3(&self, request: &[h3::Header]) -> Response {
        let field = |name: &[u8]| request.iter().find(|header| header.name() == name).map(h3::Header::value);
        let path = field(b":path").and_then(|path| std::str::from_utf8(path).ok());
        let file = match field(b":method") {
            Some(b"GET") => path.and_then(|path| Served::open(&self.root, path)),
            _ => None,
        };
        let status: &[u8] = if file.is_some() { b"200" } else { b"404" };
        let length = file.as_ref().map_or(0, Served::remaining).to_string();
        let head = vec![
            h3::Header::new(b":status", status),
            h3::Header::new(b"server", b"quic-lab-quiche"),
            h3::Header::new(b"content-length", length.as_bytes()),
        ];
        Response::new(file, head, field(b"priority").map(priority))
    }

    /// Sends header fields for which there was no room before.
    fn send_heads(&mut self, connection: &mut Connection, http3: &mut h3::Connection) {
        for stream in connection.writable() {
            let Some(response) = self.responses.get_mut(&stream).filter(|response| !response.head.is_empty()) else {
                continue;
            };
            let whole = response.remaining() == 0;
            let sent = match &response.priority {
                Some(priority) => {
                    http3.send_response_with_priority(connection, stream, &response.head, priority, whole)
                }
                None => http3.send_response(connection, stream, &response.head, whole),
            };
            match sent {
                Ok(()) if !whole => response.head.clear(),
                Err(h3::Error::StreamBlocked) => (),
                // Sent whole, or the client has gone off it.
                _ => drop(self.responses.remove(&stream)),
            }
        }
    }

    fn exchange_hq(&mut self, connection: &mut Connection) -> Result<()> {
        for stream in connection.readable() {
            self.read_hq(connection, stream)?;
        }
        self.send_responses(connection, |connection, stream, data, last| {
            connection.stream_send(stream, data, last).map_err(|error| error == quiche::Error::Done)
        })
    }

    fn read_hq(&mut self, connection: &mut Connection, stream: u64) -> Result<()> {
        let mut buffer = [0; 1024];
        let mut ended = false;
        while let Ok((length, last)) = connection.stream_recv(stream, &mut buffer) {
            self.requests.entry(stream).or_default().extend_from_slice(&buffer[..length]);
            ended |= last;
        }
        let request = hq::parse(self.requests.entry(stream).or_default(), ended);
        if request == Request::Incomplete {
            return Ok(());
        }
        self.requests.remove(&stream);
        if self.responses.contains_key(&stream) || connection.stream_closed(stream) {
            return Ok(());
        }
        let file = match request {
            Request::Get(path) => Served::open(&self.root, &path),
            _ => None,
        };
        match file {
            Some(file) => drop(self.responses.insert(stream, Response::new(Some(file), Vec::new(), None))),
            None => connection.stream_shutdown(stream, Shutdown::Write, hq::REJECTED.into())?,
        }
        Ok(())
    }

    /// `send` returns how much it took, or whether it is merely short of room.
    fn send_responses(
        &mut self,
        connection: &mut Connection,
        mut send: impl FnMut(&mut Connection, u64, &[u8], bool) -> std::result::Result<usize, bool>,
    ) -> Result<()> {
        for stream in connection.writable() {
            let Some(response) = self.responses.get_mut(&stream).filter(|response| response.head.is_empty()) else {
                continue;
            };
            let mut gone = false;
            let whole = response.pump(|data, last| match send(connection, stream, data, last) {
                Ok(taken) => Some(taken),
                Err(short_of_room) => {
                    gone = !short_of_room;
                    None
                }
            })?;
            if whole || gone {
                self.responses.remove(&stream);
            }
        }
        Ok(())
    }
}
