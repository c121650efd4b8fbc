//! A file that the server sends.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::Result;

/// How much is read at a time.
pub const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub struct Served {
    file: File,
    remaining: u64,
}

impl Served {
    /// The file that a request's path names below `root`, if it is one.
    pub fn open(root: &Path, path: &str) -> Option<Self> {
        let file = File::open(inside(root, path)?).ok()?;
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { file, remaining: metadata.len() })
    }

    /// Bytes not read yet: at first, the file's length.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Puts the next chunk in `buffer`, which is left empty at the end of the file.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let length = self.remaining.min(CHUNK as u64);
        buffer.resize(length as usize, 0);
        self.file.read_exact(buffer)?;
        self.remaining -= length;
        Ok(())
    }

    /// The next chunk, in a buffer of its own; none at the end of the file.
    pub fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        self.read(&mut chunk)?;
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }
}

/// The path below the root, unless it tries to leave it.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let relative = Path::new(path.trim_start_matches('/'));
    let harmless = relative.components().all(|part| matches!(part, Component::Normal(_)));
    harmless.then(|| root.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_below_the_root() {
        let root = Path::new("/www");
        assert_eq!(inside(root, "/a/b?x=/../c"), Some(PathBuf::from("/www/a/b")));
        for path in ["/../etc/passwd", "/a/../../b", "//../b"] {
            assert_eq!(inside(root, path), None, "{path}");
        }
        assert_eq!(inside(root, "//etc/passwd"), Some(PathBuf::from("/www/etc/passwd")));
    }
}
