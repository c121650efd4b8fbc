//! Where logs go, by the interop contract.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;

use crate::{Result, Role};

/// A path that the environment names, unless it is empty.
pub fn environment_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The file for TLS keys, in the NSS format.
pub fn key_log() -> Option<PathBuf> {
    environment_path("SSLKEYLOGFILE")
}

/// A new qlog file for one connection, called by stack, role and connection ID, if qlog is asked for.
pub fn qlog(stack: &str, role: Role, connection_id: &[u8]) -> Result<Option<File>> {
    let Some(directory) = environment_path("QLOGDIR") else { return Ok(None) };
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let path = directory.join(format!("{stack}-{}-{}.sqlog", role.name(), hexadecimal(connection_id)));
    File::create(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
