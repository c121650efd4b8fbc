//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use quic_endpoint::{Download, Options, Protocol, Result, Url, download, hq};
use quiche::Connection;
use quiche::h3::{self, NameValue};

const CHUNK: usize = 64 * 1024;

struct Running {
    url: Url,
    download: Download,
    /// What is left of the request (HTTP/0.9).
    unsent: Vec<u8>,
}

pub struct Fetch {
    protocol: Protocol,
    directory: PathBuf,
    http3: Option<h3::Connection>,
    waiting: VecDeque<Url>,
    running: HashMap<u64, Running>,
    next_stream: u64,
    failures: Vec<String>,
    buffer: Vec<u8>,
}

impl Fetch {
    pub fn new(options: &Options, urls: &[Url]) -> Self {
        Self {
            protocol: options.protocol,
            directory: options.downloads.clone(),
            http3: None,
            waiting: urls.iter().cloned().collect(),
            running: HashMap::new(),
            next_stream: 0,
            failures: Vec::new(),
            buffer: vec![0; CHUNK],
        }
    }

    pub fn finished(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Success if every file came whole.
    pub fn outcome(&self) -> Result<()> {
        let unfinished = self.running.values().map(|running| &running.url).chain(&self.waiting);
        let unfinished = unfinished.map(|url| download::failed(url, "not complete"));
        download::outcome(self.failures.iter().cloned().chain(unfinished).map(Err))
    }

    /// Asks for what can be asked for and takes what has arrived. To be called whenever the connection, ready
    /// for application data, has heard from its peer.
    pub fn advance(&mut self, connection: &mut Connection) -> Result<()> {
        match self.protocol {
            Protocol::Http3 => self.advance_http3(connection),
            Protocol::HqInterop => self.advance_hq(connection),
        }
    }

    fn start(&mut self, stream: u64, url: Url, unsent: Vec<u8>) -> Result<()> {
        let download = Download::create(&self.directory, &url)?;
        self.running.insert(stream, Running { url, download, unsent });
        Ok(())
    }

    fn fail(&mut self, stream: u64, reason: &str) {
        if let Some(running) = self.running.remove(&stream) {
            self.failures.push(download::failed(&running.url, reason));
        }
    }

    fn complete(&mut self, stream: u64) {
        if let Some(running) = self.running.remove(&stream) {
            self.failures.extend(running.download.finish().err().map(|error| error.to_string()));
        }
    }

    fn save(&mut self, stream: u64, length: usize) -> Result<()> {
        match self.running.get_mut(&stream) {
            Some(running) => running.download.write(&self.buffer[..length]),
            None => Ok(()),
        }
    }

    fn advance_hq(&mut self, connection: &mut Connection) -> Result<()> {
        while connection.peer_streams_left_bidi() > 0 {
            let Some(url) = self.waiting.pop_front() else { break };
            let stream = self.next_stream;
            self.next_stream += 4;
            let request = hq::request(&url);
            self.start(stream, url, request)?;
            self.send_request(connection, stream)?;
        }
        let unsent = self.running.iter().filter(|(_, running)| !running.unsent.is_empty());
        for stream in unsent.map(|(stream, _)| *stream).collect::<Vec<_>>() {
            self.send_request(connection, stream)?;
        }
        for stream in connection.readable() {
            self.receive_hq(connection, stream)?;
        }
        Ok(())
    }

    fn send_request(&mut self, connection: &mut Connection, stream: u64) -> Result<()> {
        let Some(running) = self.running.get_mut(&stream) else { return Ok(()) };
        match connection.stream_send(stream, &running.unsent, true) {
            Ok(sent) => drop(running.unsent.drain(..sent)),
            Err(quiche::Error::Done) => (),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn receive_hq(&mut self, connection: &mut Connection, stream: u64) -> Result<()> {
        loop {
            match connection.stream_recv(stream, &mut self.buffer) {
                Ok((length, last)) => {
                    self.save(stream, length)?;
                    if last {
                        self.complete(stream);
                        return Ok(());
                    }
                }
                Err(quiche::Error::Done) => return Ok(()),
                Err(quiche::Error::StreamReset(_)) => {
                    self.fail(stream, "refused");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn advance_http3(&mut self, connection: &mut Connection) -> Result<()> {
        let mut http3 = match self.http3.take() {
            Some(http3) => http3,
            None => h3::Connection::with_transport(connection, &h3::Config::new()?)?,
        };
        let outcome = self.exchange_http3(connection, &mut http3);
        self.http3 = Some(http3);
        outcome
    }

    fn exchange_http3(&mut self, connection: &mut Connection, http3: &mut h3::Connection) -> Result<()> {
        while let Some(url) = self.waiting.front() {
            let headers = [
                h3::Header::new(b":method", b"GET"),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", url.authority().as_bytes()),
                h3::Header::new(b":path", url.path.as_bytes()),
                h3::Header::new(b"user-agent", b"quic-lab-quiche"),
            ];
            let stream = match http3.send_request(connection, &headers, true) {
                Ok(stream) => stream,
                Err(h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(error) => return Err(error.into()),
            };
            if let Some(url) = self.waiting.pop_front() {
                self.start(stream, url, Vec::new())?;
            }
        }
        loop {
            match http3.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => self.take_headers(stream, &list),
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(length) = http3.recv_body(connection, stream, &mut self.buffer) {
                        self.save(stream, length)?;
                    }
                }
                Ok((stream, h3::Event::Finished)) => self.complete(stream),
                Ok((stream, h3::Event::Reset(_))) => self.fail(stream, "refused"),
                Ok((_, h3::Event::PriorityUpdate | h3::Event::GoAway)) => (),
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_headers(&mut self, stream: u64, headers: &[h3::Header]) {
        for header in headers {
            let value = String::from_utf8_lossy(header.value());
            match header.name() {
                b":status" if value.starts_with('1') => return,
                b":status" if value != "200" => {
                    self.fail(stream, &format!("status {value}"));
                    return;
                }
                b"content-length" => {
                    if let (Some(running), Ok(length)) = (self.running.get_mut(&stream), value.parse()) {
                        running.download.expect(length);
                    }
                }
                _ => (),
            }
        }
    }
}
