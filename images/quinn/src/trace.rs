//! A qlog to which events can be added that quinn does not know. quinn writes an event at a time, and calls controllers
//! between them.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Of one connection.
#[derive(Clone)]
pub struct Trace {
    file: Arc<Mutex<BufWriter<File>>>,
    /// What its times count from.
    pub start: Instant,
}

impl Trace {
    pub fn new(file: File) -> Self {
        Self { file: Arc::new(Mutex::new(BufWriter::new(file))), start: Instant::now() }
    }

    /// `data`: the event's, in JSON.
    pub fn event(&self, now: Instant, name: &str, data: &str) {
        let time = now.saturating_duration_since(self.start).as_secs_f64() * 1e3;
        // As with quinn's own events, a disk that is full ends no connection.
        let _ = writeln!(self.file(), "\x1e{{\"time\":{time:.4},\"name\":\"{name}\",\"data\":{data}}}");
    }

    fn file(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file().flush()
    }
}
