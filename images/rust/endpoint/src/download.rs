//! A file on its way in, at a client or at a server, written as its data arrive.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Result, Url};

/// Where a server keeps the files that it is sent.
const UPLOADS: &str = "/uploads";

#[derive(Debug)]
pub struct Download {
    path: String,
    file: File,
    written: u64,
    expected: Option<u64>,
}

impl Download {
    pub fn create(directory: &Path, url: &Url) -> Result<Self> {
        Self::named(directory, url.file_name(), &url.path)
    }

    /// A file that a client sends with a request for this path.
    pub fn upload(path: &str) -> Result<Self> {
        match path.rsplit('/').next() {
            Some("" | "." | "..") | None => Err(format!("{path}: not the name of a file").into()),
            Some(name) => Self::named(Path::new(UPLOADS), name, path),
        }
    }

    fn named(directory: &Path, name: &str, path: &str) -> Result<Self> {
        let target = directory.join(name);
        let file = File::create(&target).map_err(|error| format!("{}: {error}", target.display()))?;
        Ok(Self { path: path.to_owned(), file, written: 0, expected: None })
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
