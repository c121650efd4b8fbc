//! What of quiche's qlog is written: events are left out that repeat what others tell, or what the captures show.

use std::io::{self, Write};

/// Where the data of a stream go within the program: to and from the application, and to HTTP/3 (`stream_data_moved`).
/// An event for each STREAM frame, whose packet_sent or packet_received event has the same stream, offset and length.
const DATA_MOVED: &[u8] = b"quic:stream_data_moved";
const FRAME_EVENTS: [&[u8]; 2] = [b"http3:frame_created", b"http3:frame_parsed"];
const DATA_FRAME: &[u8] = br#""frame_type":"data""#;
const NAME: &[u8] = br#""name":""#;

/// Takes a trace as JSON text sequences and passes on the lines that are wanted, each once it is whole.
pub struct Sieve<W: Write> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> Sieve<W> {
    pub fn new(to: W) -> Self {
        Self { to, line: Vec::with_capacity(1024) }
    }
}

impl<W: Write> Write for Sieve<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        self.line.extend_from_slice(&bytes[..end]);
        if self.line.ends_with(b"\n") {
            if is_wanted(&self.line) {
                self.to.write_all(&self.line)?;
            }
            self.line.clear();
        }
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether a line of the trace is to stay: its header, and events but those of moved data.
fn is_wanted(line: &[u8]) -> bool {
    let Some(name) = find(line, NAME).map(|at| &line[at + NAME.len()..]) else { return true };
    let is = |event: &[u8]| name.starts_with(event) && name.get(event.len()) == Some(&b'"');
    !(is(DATA_MOVED) || FRAME_EVENTS.iter().any(|event| is(event)) && find(name, DATA_FRAME).is_some())
}

fn find(line: &[u8], word: &[u8]) -> Option<usize> {
    line.windows(word.len()).position(|window| window == word)
}
