//! qlogs, a file for each connection. The crate's own logger leaves the writing to other threads, in no certain order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dquic::qevent::legacy::{self, QlogFileSeq, TraceSeq};
use dquic::qevent::telemetry::{ExportEvent, QLog, Span};
use dquic::qevent::{Event, GroupID, VantagePoint, VantagePointType, build, span};
use quic_endpoint::{Role, logs};

use crate::STACK;

/// Of JSON text sequences (RFC 7464): what begins each.
const RECORD_SEPARATOR: u8 = 0x1e;

/// The qlogs of a role's connections.
pub struct Qlogs {
    role: Role,
    open: Mutex<Vec<Arc<Trace>>>,
}

impl Qlogs {
    pub fn new(role: Role) -> Self {
        Self { role, open: Mutex::default() }
    }

    /// Writes down what is still in memory.
    pub fn flush(&self) {
        for trace in self.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            trace.flush();
        }
    }
}

impl QLog for Qlogs {
    fn new_trace(&self, vantage_point: VantagePointType, group_id: GroupID) -> Span {
        let id = String::from(group_id.clone());
        let bytes: Vec<_> = id.as_bytes().chunks(2).filter_map(hexadecimal).collect();
        let file = logs::qlog(STACK.name, self.role, &bytes).unwrap_or_else(|error| {
            eprintln!("{}-endpoint: {error}", STACK.name);
            None
        });
        let trace = Arc::new(Trace(file.map(|file| Mutex::new(BufWriter::new(file)))));
        trace.record(&build!(QlogFileSeq {
            title: format!("{} {}", STACK.name, self.role.name()),
            trace: TraceSeq { vantage_point: VantagePoint { r#type: vantage_point } },
        }));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(trace.clone());
        span!(trace, group_id = group_id)
    }
}

/// A connection's file, if it has one.
struct Trace(Option<Mutex<BufWriter<File>>>);

impl Trace {
    fn record(&self, value: &impl serde::Serialize) {
        let Some(file) = &self.0 else { return };
        let mut text = vec![RECORD_SEPARATOR];
        if serde_json::to_writer(&mut text, value).is_ok() {
            text.push(b'\n');
            // A qlog that is cut short is no reason to end a transfer.
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text);
        }
    }

    fn flush(&self) {
        if let Some(file) = &self.0 {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).flush();
        }
    }
}

impl ExportEvent for Trace {
    fn emit(&self, event: Event) {
        if let Ok(event) = legacy::Event::try_from(event) {
            self.record(&event);
        }
    }

    fn filter_event(&self, _: &'static str) -> bool {
        self.0.is_some()
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
