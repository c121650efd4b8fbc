//! The directory in which a client keeps what it learnt, for the next container to resume with.

use std::fs;
use std::path::PathBuf;

use crate::Result;

#[derive(Clone, Debug)]
pub struct SessionDir(PathBuf);

impl SessionDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What was kept under a name (such as "ticket" or "token"), if anything.
    pub fn load(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.file(name)).ok()
    }

    pub fn store(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.file(name);
        let kept = fs::create_dir_all(&self.0).and_then(|()| fs::write(&path, content));
        kept.map_err(|error| format!("{}: {error}", path.display()).into())
    }
}
