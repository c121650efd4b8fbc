//! The command line: `quiche-endpoint (client|server) [--name=value ...] [URL ...]`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::Result;
use crate::url::Url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http3,
    HqInterop,
}

impl Protocol {
    /// The ALPN identifier.
    pub fn name(self) -> &'static [u8] {
        match self {
            Protocol::Http3 => b"h3",
            Protocol::HqInterop => b"hq-interop",
        }
    }
}

/// How the client spreads its requests over connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// All requests on one connection.
    Single,
    /// The first request on one connection, the others on a second one that resumes its session.
    Resume,
    /// As `Resume`, with the second connection's requests sent as early data.
    EarlyData,
    /// A connection per request.
    Each,
}

#[derive(Debug)]
pub struct Options {
    pub role: Role,
    pub protocol: Protocol,
    pub plan: Plan,
    pub port: u16,
    pub certificate: String,
    pub private_key: String,
    pub root: PathBuf,
    pub downloads: PathBuf,
    pub session_dir: Option<PathBuf>,
    pub retry: bool,
    pub congestion_control: String,
    pub initial_rtt: Option<Duration>,
    pub initial_window: Option<usize>,
    pub max_data: u64,
    pub max_stream_data: u64,
    pub max_window: u64,
    pub max_stream_window: u64,
    pub ack_delay_exponent: Option<u64>,
    pub max_ack_delay: Option<u64>,
    pub max_udp_payload: usize,
    pub max_streams: u64,
    pub idle_timeout: Duration,
    pub pacing: bool,
    pub hystart: bool,
    pub urls: Vec<Url>,
}

impl Options {
    fn new(role: Role) -> Self {
        Self {
            role,
            protocol: Protocol::Http3,
            plan: Plan::Single,
            port: 443,
            certificate: "/certs/cert.pem".into(),
            private_key: "/certs/priv.key".into(),
            root: "/www".into(),
            downloads: "/downloads".into(),
            session_dir: None,
            retry: false,
            congestion_control: "cubic".into(),
            initial_rtt: None,
            initial_window: None,
            max_data: 10_000_000,
            max_stream_data: 1_000_000,
            max_window: 24 << 20,
            max_stream_window: 16 << 20,
            ack_delay_exponent: None,
            max_ack_delay: None,
            max_udp_payload: 1350,
            max_streams: 100,
            idle_timeout: Duration::from_secs(60),
            pacing: true,
            hystart: true,
            urls: Vec::new(),
        }
    }

    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let role = match arguments.next().as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            _ => return Err("usage: quiche-endpoint (client|server) [--option=value ...] [URL ...]".into()),
        };
        let mut options = Self::new(role);
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") {
                options.urls.push(Url::parse(&argument)?);
                continue;
            }
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            if !options.set_switch(name) {
                let value = inline.or_else(|| arguments.next()).ok_or_else(|| format!("{name} needs a value"))?;
                options.set_value(name, &value)?;
            }
        }
        if role == Role::Client && options.urls.is_empty() {
            return Err("the client needs at least one URL".into());
        }
        Ok(options)
    }

    fn set_switch(&mut self, name: &str) -> bool {
        match name {
            "--no-pacing" => self.pacing = false,
            "--no-hystart" => self.hystart = false,
            "--retry" => self.retry = true,
            _ => return false,
        }
        true
    }

    fn set_value(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "--protocol" => {
                self.protocol = match value {
                    "h3" => Protocol::Http3,
                    "hq-interop" => Protocol::HqInterop,
                    _ => return Err(format!("no such protocol: {value}").into()),
                }
            }
            "--plan" => {
                self.plan = match value {
                    "single" => Plan::Single,
                    "resume" => Plan::Resume,
                    "early-data" => Plan::EarlyData,
                    "each" => Plan::Each,
                    _ => return Err(format!("no such plan: {value}").into()),
                }
            }
            "--port" => self.port = number(name, value)?,
            "--certificate" => self.certificate = value.into(),
            "--private-key" => self.private_key = value.into(),
            "--root" => self.root = value.into(),
            "--downloads" => self.downloads = value.into(),
            "--session-dir" => self.session_dir = Some(value.into()),
            "--pacing" => self.pacing = on_or_off(name, value)?,
            "--hystart" => self.hystart = on_or_off(name, value)?,
            "--cc-algorithm" => self.congestion_control = value.into(),
            "--initial-rtt-ms" => self.initial_rtt = Some(Duration::from_millis(number(name, value)?)),
            "--initial-window" => self.initial_window = Some(number(name, value)?),
            "--max-data" => self.max_data = number(name, value)?,
            "--max-stream-data" => self.max_stream_data = number(name, value)?,
            "--max-window" => self.max_window = number(name, value)?,
            "--max-stream-window" => self.max_stream_window = number(name, value)?,
            "--ack-delay-exponent" => self.ack_delay_exponent = Some(number(name, value)?),
            "--max-ack-delay" => self.max_ack_delay = Some(number(name, value)?),
            "--max-udp-payload" => self.max_udp_payload = number(name, value)?,
            "--max-streams" => self.max_streams = number(name, value)?,
            "--idle-timeout-ms" => self.idle_timeout = Duration::from_millis(number(name, value)?),
            _ => return Err(format!("no such option: {name}").into()),
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| format!("{name}: {value:?} is not a suitable number").into())
}

fn on_or_off(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{name} is on or off, not {value}").into()),
    }
}
