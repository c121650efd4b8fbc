//! Just enough of a URL for a download.

use crate::Result;

#[derive(Clone, Debug)]
pub struct Url {
    pub host: String,
    pub port: u16,
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
        if host.is_empty() || path.ends_with('/') {
            return Err(malformed().into());
        }
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// The name under which the file is saved.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
