//! Just enough of a URL for a download.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::Result;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub host: String,
    pub port: u16,
    /// From the first slash on.
    pub path: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self> {
        let malformed = || format!("not a usable URL: {text}");
        let rest = text.strip_prefix("https://").ok_or_else(malformed)?;
        let slash = rest.find('/').ok_or_else(malformed)?;
        let (authority, path) = rest.split_at(slash);
        let port_colon = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
        let (host, port) = match port_colon {
            Some(colon) => (&authority[..colon], authority[colon + 1..].parse().map_err(|_| malformed())?),
            None => (authority, 443),
        };
        let host = host.trim_matches(['[', ']']);
        let url = Self { host: host.to_owned(), port, path: path.to_owned() };
        if host.is_empty() || matches!(url.file_name(), "" | "." | "..") {
            return Err(malformed().into());
        }
        Ok(url)
    }

    /// The name under which the file is saved.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Host and port as they stand in a URL.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The first address of the host.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let host = &self.host;
        let mut addresses = (host.as_str(), self.port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        addresses.next().ok_or_else(|| format!("{host}: no address").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_a_download_needs() {
        let url = Url::parse("https://server4:4433/a/b?c").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("server4", 4433, "/a/b?c"));
        assert_eq!(Url::parse("https://[::1]/f").unwrap().authority(), "[::1]:443");
    }

    #[test]
    fn refuses_what_names_no_file() {
        for text in ["http://h/f", "https://h", "https://h/", "https:///f", "https://h:x/f", "https://h/.."] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
