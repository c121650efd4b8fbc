//! TLS secrets, which MsQuic leaves in a structure of ours during the handshake, for the key log.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;

use msquic::ffi::{QUIC_PARAM_CONN_TLS_SECRETS, QUIC_TLS_SECRETS};
use msquic::{Api, Connection, Status};
use quic_endpoint::logs;

/// To be kept as long as its connection.
pub struct Keys(*mut QUIC_TLS_SECRETS);

// SAFETY: the structure is tied to no thread.
unsafe impl Send for Keys {}

impl Keys {
    /// For a connection that has not started, if there is a key log.
    pub fn gather(connection: &Connection) -> Result<Option<Self>, Status> {
        if logs::key_log().is_none() {
            return Ok(None);
        }
        // SAFETY: all zeros is a valid QUIC_TLS_SECRETS.
        let keys = Self(Box::into_raw(Box::new(unsafe { std::mem::zeroed() })));
        // SAFETY: the structure stays where it is until the connection is closed.
        unsafe {
            Api::set_param(
                connection.as_raw(),
                QUIC_PARAM_CONN_TLS_SECRETS,
                size_of::<QUIC_TLS_SECRETS>() as u32,
                keys.0.cast_const().cast(),
            )
        }?;
        Ok(Some(keys))
    }

    /// To be called in the callback that tells that the handshake is complete.
    pub fn log(&self) -> std::io::Result<()> {
        // SAFETY: MsQuic writes on the thread that calls us back, and no more after the handshake.
        let secrets = unsafe { &*self.0 };
        let random = hexadecimal(&secrets.ClientRandom);
        let set = &secrets.IsSet;
        let mut text = String::new();
        for (label, present, secret) in [
            ("CLIENT_EARLY_TRAFFIC_SECRET", set.ClientEarlyTrafficSecret(), &secrets.ClientEarlyTrafficSecret),
            (
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                set.ClientHandshakeTrafficSecret(),
                &secrets.ClientHandshakeTrafficSecret,
            ),
            (
                "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                set.ServerHandshakeTrafficSecret(),
                &secrets.ServerHandshakeTrafficSecret,
            ),
            ("CLIENT_TRAFFIC_SECRET_0", set.ClientTrafficSecret0(), &secrets.ClientTrafficSecret0),
            ("SERVER_TRAFFIC_SECRET_0", set.ServerTrafficSecret0(), &secrets.ServerTrafficSecret0),
        ] {
            if present != 0 {
                let secret = hexadecimal(&secret[..secrets.SecretLength.into()]);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{label} {random} {secret}");
            }
        }
        open()?.map_or(Ok(()), |mut file| file.write_all(text.as_bytes()))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw, and MsQuic is done with it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

fn open() -> std::io::Result<Option<File>> {
    logs::key_log().map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
