//! What of quiche's qlog is written: all but what repeats other events, or what the captures show.

use std::io::{self, Write};

const NAME: &[u8] = br#""name":""#;
/// Where a stream's data go within the program, an event for each STREAM frame. Their packets' events have the same.
const DATA_MOVED: &[u8] = b"quic:stream_data_moved";
/// An event for each packet, which is in the other end's trace, and in the capture of this one's side.
const RECEIVED: &[u8] = b"quic:packet_received";
const ONE_RTT: &[u8] = br#""packet_type":"1RTT""#;
/// When a packet was made: what `time` says, with three digits more.
const MADE_AT: &[u8] = br#""send_at_time":"#;
/// A name and a packet's type are not farther in a line than this, bytes.
const HEAD: usize = 160;

/// Takes a trace as lines of JSON and passes on those that are wanted, each once it is whole.
pub struct Sieve<W: Write> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> Sieve<W> {
    pub fn new(to: W) -> Self {
        Self { to, line: Vec::with_capacity(1024) }
    }

    fn pass(&mut self) -> io::Result<()> {
        if !is_wanted(&self.line) {
            return Ok(());
        }
        let Some(begin) = find(&self.line, MADE_AT) else { return self.to.write_all(&self.line) };
        let rest = &self.line[begin..];
        // With its comma, as other members follow.
        let end = rest.iter().position(|byte| *byte == b',').map_or(0, |at| at + 1);
        self.to.write_all(&self.line[..begin])?;
        self.to.write_all(&rest[end..])
    }
}

impl<W: Write> Write for Sieve<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        self.line.extend_from_slice(&bytes[..end]);
        if self.line.ends_with(b"\n") {
            let outcome = self.pass();
            self.line.clear();
            outcome?;
        }
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether a line is to stay: the trace's header, and events but those of moved data and of 1-RTT packets received.
fn is_wanted(line: &[u8]) -> bool {
    let head = &line[..line.len().min(HEAD)];
    let Some(name) = find(head, NAME).map(|at| &head[at + NAME.len()..]) else { return true };
    let is = |event: &[u8]| name.starts_with(event) && name.get(event.len()) == Some(&b'"');
    !(is(DATA_MOVED) || (is(RECEIVED) && find(name, ONE_RTT).is_some()))
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}
