//! The client's side of the application protocols: asks for files and writes them as they arrive.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use quic_endpoint::schedule::Next;
use quic_endpoint::{Download, Options, Protocol, Result, Schedule, Url, download, hq};
use quiche::Connection;
use quiche::h3::{self, NameValue};

const CHUNK: usize = 64 * 1024;

/// A file that is to be asked for.
struct Wanted {
    url: Url,
    /// Its number in the schedule, where there is one.
    number: Option<usize>,
}

struct Running {
    url: Url,
    number: Option<usize>,
    download: Download,
    /// What is left of the request (HTTP/0.9).
    unsent: Vec<u8>,
}

pub struct Fetch {
    protocol: Protocol,
    directory: PathBuf,
    http3: Option<h3::Connection>,
    waiting: VecDeque<Wanted>,
    schedule: Option<Schedule>,
    urls: Vec<Url>,
    running: HashMap<u64, Running>,
    next_stream: u64,
    failures: Vec<String>,
    buffer: Vec<u8>,
}

impl Fetch {
    /// With a schedule nothing is asked for before that says so.
    pub fn new(options: &Options, urls: &[Url], schedule: Option<Schedule>) -> Self {
        let at_once = if schedule.is_none() { urls } else { &[] };
        Self {
            protocol: options.protocol,
            directory: options.downloads.clone(),
            http3: None,
            waiting: at_once.iter().map(|url| Wanted { url: url.clone(), number: None }).collect(),
            schedule,
            urls: urls.to_vec(),
            running: HashMap::new(),
            next_stream: 0,
            failures: Vec::new(),
            buffer: vec![0; CHUNK],
        }
    }

    /// Times of the schedule count from now on.
    pub fn begin(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.begin(Instant::now());
        }
    }

    pub fn finished(&self) -> bool {
        let over = match self.schedule.as_ref().map(|schedule| schedule.next(Instant::now())) {
            None | Some(Next::Over) => true,
            // What comes after a failure is never asked for.
            Some(Next::Wait(None)) => !self.failures.is_empty(),
            Some(_) => false,
        };
        over && self.waiting.is_empty() && self.running.is_empty()
    }

    /// When the next file is to be asked for, if none is before something else comes.
    pub fn due(&self) -> Option<Instant> {
        match self.schedule.as_ref()?.next(Instant::now()) {
            Next::Ask(_) => Some(Instant::now()),
            Next::Wait(due) => due,
            Next::Over => None,
        }
    }

    /// Writes down the times of the schedule, where there is one.
    pub fn write_times(&self) -> Result<()> {
        self.schedule.as_ref().map_or(Ok(()), Schedule::write)
    }

    /// Takes in what the schedule says is due.
    fn take_due(&mut self) {
        let Some(schedule) = &mut self.schedule else { return };
        while let Next::Ask(number) = schedule.next(Instant::now()) {
            schedule.asked(number);
            self.waiting.push_back(Wanted { url: self.urls[number].clone(), number: Some(number) });
        }
    }

    /// Success if every file came whole.
    pub fn outcome(&self) -> Result<()> {
        let waiting = self.waiting.iter().map(|wanted| &wanted.url);
        let unfinished = self.running.values().map(|running| &running.url).chain(waiting);
        let unfinished = unfinished.map(|url| download::failed(url, "not complete"));
        download::outcome(self.failures.iter().cloned().chain(unfinished).map(Err))
    }

    /// Asks for what can be asked for and takes what has arrived. To be called whenever the connection, ready
    /// for application data, has heard from its peer.
    pub fn advance(&mut self, connection: &mut Connection) -> Result<()> {
        self.take_due();
        match self.protocol {
            Protocol::Http3 => self.advance_http3(connection),
            Protocol::HqInterop => self.advance_hq(connection),
        }
    }

    fn start(&mut self, stream: u64, wanted: Wanted, unsent: Vec<u8>) -> Result<()> {
        let Wanted { url, number } = wanted;
        let download = Download::create(&self.directory, &url)?;
        self.running.insert(stream, Running { url, number, download, unsent });
        Ok(())
    }

    fn fail(&mut self, stream: u64, reason: &str) {
        if let Some(running) = self.running.remove(&stream) {
            self.failures.push(download::failed(&running.url, reason));
        }
    }

    fn complete(&mut self, stream: u64) {
        let Some(running) = self.running.remove(&stream) else { return };
        let (number, schedule) = (running.number, &mut self.schedule);
        match running.download.finish() {
            Err(error) => self.failures.push(error.to_string()),
            Ok(()) => {
                if let (Some(number), Some(schedule)) = (number, schedule) {
                    schedule.completed(number);
                }
            }
        }
    }

    fn save(&mut self, stream: u64, length: usize) -> Result<()> {
        match self.running.get_mut(&stream) {
            Some(running) => {
                if let (Some(number), Some(schedule), true) = (running.number, &mut self.schedule, length > 0) {
                    schedule.received(number);
                }
                running.download.write(&self.buffer[..length])
            }
            None => Ok(()),
        }
    }

    fn advance_hq(&mut self, connection: &mut Connection) -> Result<()> {
        while connection.peer_streams_left_bidi() > 0 {
            let Some(wanted) = self.waiting.pop_front() else { break };
            let stream = self.next_stream;
            self.next_stream += 4;
            let request = hq::request(&wanted.url);
            self.start(stream, wanted, request)?;
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
        while let Some(Wanted { url, number }) = self.waiting.front() {
            let mut headers = vec![
                h3::Header::new(b":method", b"GET"),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", url.authority().as_bytes()),
                h3::Header::new(b":path", url.path.as_bytes()),
                h3::Header::new(b"user-agent", b"quic-lab-quiche"),
            ];
            let priority = number.and_then(|number| self.schedule.as_ref()?.priority(number));
            headers.extend(priority.map(|priority| h3::Header::new(b"priority", priority.as_bytes())));
            let stream = match http3.send_request(connection, &headers, true) {
                Ok(stream) => stream,
                Err(h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(error) => return Err(error.into()),
            };
            if let Some(wanted) = self.waiting.pop_front() {
                self.start(stream, wanted, Vec::new())?;
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
