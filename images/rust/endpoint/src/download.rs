//! A file on its way in, written as its data arrive.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Result, Url};

#[derive(Debug)]
pub struct Download {
    path: String,
    file: File,
    written: u64,
    expected: Option<u64>,
}

impl Download {
    pub fn create(directory: &Path, url: &Url) -> Result<Self> {
        let target = directory.join(url.file_name());
        let file = File::create(&target).map_err(|error| format!("{}: {error}", target.display()))?;
        Ok(Self { path: url.path.clone(), file, written: 0, expected: None })
    }

    /// The length that the response promises.
    pub fn expect(&mut self, length: u64) {
        self.expected = Some(length);
    }

    /// Without a buffer of its own, so that the file grows as the data come in.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        self.file.write_all(data).map_err(|error| format!("{}: {error}", self.path))?;
        self.written += data.len() as u64;
        Ok(())
    }

    /// To be called at the end of the stream: an error unless the file came whole.
    pub fn finish(self) -> Result<()> {
        match self.expected {
            Some(expected) if expected != self.written => {
                Err(format!("{}: {} bytes of {expected}", self.path, self.written).into())
            }
            _ => Ok(()),
        }
    }
}

/// What went wrong with one of several downloads.
pub fn failed(url: &Url, reason: impl Display) -> String {
    format!("{}: {reason}", url.path)
}

/// Success if every one of several downloads was; what went wrong with the others if not.
pub fn outcome(outcomes: impl IntoIterator<Item = std::result::Result<(), String>>) -> Result<()> {
    let failures: Vec<_> = outcomes.into_iter().filter_map(std::result::Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}
