//! HTTP/0.9 over QUIC, as interop runners speak it (ALPN "hq-interop"): "GET /path\r\n" on a bidirectional stream,
//! and the file's bytes back.

use crate::Url;

/// A longer request is not one.
const LONGEST_REQUEST: usize = 8 * 1024;
/// The error code with which a request is turned down; the protocol defines none.
pub const REJECTED: u32 = 0x10b;

/// What the client sends, before it ends its side of the stream.
pub fn request(url: &Url) -> Vec<u8> {
    format!("GET {}\r\n", url.path).into_bytes()
}

#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// More of it is needed.
    Incomplete,
    /// For the file of this path.
    Get(String),
    Malformed,
}

/// What the server makes of the bytes of a stream so far. `ended` says that there are no more.
pub fn parse(bytes: &[u8], ended: bool) -> Request {
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    if line_end.is_none() && !ended && bytes.len() <= LONGEST_REQUEST {
        return Request::Incomplete;
    }
    let line = std::str::from_utf8(&bytes[..line_end.unwrap_or(bytes.len())]).unwrap_or_default();
    match line.trim_end().strip_prefix("GET ") {
        Some(path) if path.starts_with('/') => Request::Get(path.to_owned()),
        _ => Request::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_line_or_its_stream() {
        assert_eq!(parse(b"GET /f", false), Request::Incomplete);
        assert_eq!(parse(b"GET /f", true), Request::Get("/f".into()));
        assert_eq!(parse(b"GET /f\r\n", false), Request::Get("/f".into()));
        assert_eq!(parse(b"PUT /f\r\n", false), Request::Malformed);
        assert_eq!(parse(&[b'x'; LONGEST_REQUEST + 1], false), Request::Malformed);
    }
}
