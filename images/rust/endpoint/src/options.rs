//! The command line, alike for all stacks: `NAME-endpoint (client|server) [--option=value ...] [URL ...]`.
//!
//! A stack names the parameters that it honours. Any other is an error, so that none is ignored in silence.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::moves::{self, How, Move};
use crate::{Result, SessionDir, Url};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http3,
    HqInterop,
}

impl Protocol {
    /// The ALPN identifier.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http3 => "h3",
            Protocol::HqInterop => "hq-interop",
        }
    }

    /// The application error code of a good end.
    pub fn no_error(self) -> u32 {
        match self {
            Protocol::Http3 => 0x100,
            Protocol::HqInterop => 0,
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

/// A stack as its command line sees it.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Of the stack; its program is `NAME-endpoint`.
    pub name: &'static str,
    /// Parameters that it honours in both roles, without the leading dashes. Names that `Parameters` does not
    /// have are the stack's own and land in `Options::own`.
    pub both: &'static [&'static str],
    /// Those that only its client honours.
    pub client: &'static [&'static str],
    /// Those that only its server honours.
    pub server: &'static [&'static str],
    /// How its client can change its address.
    pub moves: &'static [How],
}

impl Stack {
    /// Tells on stderr what went wrong with a part of the program's work, if anything did.
    pub fn report(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            eprintln!("{}-endpoint: {error}", self.name);
        }
    }

    fn honours(&self, role: Role, name: &str) -> bool {
        let role_only = match role {
            Role::Client => self.client,
            Role::Server => self.server,
        };
        self.both.contains(&name) || role_only.contains(&name)
    }
}

/// What was asked for, by the harness's names. `None` leaves the stack's own default in force.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// The stack's own word for its algorithm.
    pub congestion_control: Option<String>,
    /// Packets.
    pub initial_cwnd: Option<u32>,
    pub initial_rtt: Option<Duration>,
    /// ACK-eliciting packets per ACK sent.
    pub ack_ratio: Option<u32>,
    /// ACK-eliciting packets per ACK that the peer is asked to send (draft-ietf-quic-ack-frequency).
    pub ask_ack_ratio: Option<u32>,
    pub max_ack_delay: Option<Duration>,
    pub ack_delay_exponent: Option<u8>,
    /// Bytes.
    pub max_udp_payload: Option<u16>,
    pub path_mtu_discovery: Option<bool>,
    /// Bytes, from the first to the last moment.
    pub connection_window: Option<u64>,
    /// Bytes, from the first to the last moment.
    pub stream_window: Option<u64>,
    pub pacing: Option<bool>,
    pub gso: Option<bool>,
    pub zero_rtt: Option<bool>,
    pub ecn: Option<bool>,
}

impl Parameters {
    /// False if there is no such parameter.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "congestion-control" => self.congestion_control = Some(value.to_owned()),
            "initial-cwnd" => self.initial_cwnd = Some(number(name, value)?),
            "initial-rtt" => self.initial_rtt = Some(milliseconds(name, value)?),
            "ack-ratio" => self.ack_ratio = Some(number(name, value)?),
            "ask-ack-ratio" => self.ask_ack_ratio = Some(number(name, value)?),
            "max-ack-delay" => self.max_ack_delay = Some(milliseconds(name, value)?),
            "ack-delay-exponent" => self.ack_delay_exponent = Some(number(name, value)?),
            "max-udp-payload" => self.max_udp_payload = Some(number(name, value)?),
            "path-mtu-discovery" => self.path_mtu_discovery = Some(on_or_off(name, value)?),
            "connection-window" => self.connection_window = Some(number(name, value)?),
            "stream-window" => self.stream_window = Some(number(name, value)?),
            "pacing" => self.pacing = Some(on_or_off(name, value)?),
            "gso" => self.gso = Some(on_or_off(name, value)?),
            "zero-rtt" => self.zero_rtt = Some(on_or_off(name, value)?),
            "ecn" => self.ecn = Some(on_or_off(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub role: Role,
    pub protocol: Protocol,
    pub plan: Plan,
    pub port: u16,
    pub certificate: PathBuf,
    pub private_key: PathBuf,
    pub root: PathBuf,
    pub downloads: PathBuf,
    pub session_dir: Option<SessionDir>,
    /// The server has every client prove its address.
    pub retry: bool,
    pub parameters: Parameters,
    /// Values of the stack's own options, by name without the dashes.
    pub own: BTreeMap<String, String>,
    pub urls: Vec<Url>,
    /// The client sends files from its root.
    pub upload: bool,
    /// Of the client, in order of time.
    pub moves: Vec<Move>,
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
            parameters: Parameters::default(),
            own: BTreeMap::new(),
            urls: Vec::new(),
            upload: std::env::var("DIRECTION").is_ok_and(|direction| direction == "to_server"),
            moves: Vec::new(),
        }
    }

    /// With the moves that the environment tells a client to make.
    pub(crate) fn moving(mut self, stack: &Stack) -> Result<Self> {
        if let (Role::Client, Ok(text)) = (self.role, std::env::var("MOVES"))
            && !text.is_empty()
        {
            self.moves = moves::parse(&text, stack.moves)?;
        }
        Ok(self)
    }

    /// Options from the words after the program's name.
    pub fn parse(stack: &Stack, mut words: impl Iterator<Item = String>) -> Result<Self> {
        let role = match words.next().as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            _ => {
                let usage = "(client|server) [--option=value ...] [URL ...]";
                return Err(format!("usage: {}-endpoint {usage}", stack.name).into());
            }
        };
        let mut options = Self::new(role);
        for word in words {
            match word.strip_prefix("--") {
                None => options.urls.push(Url::parse(&word)?),
                Some("retry") => options.retry = true,
                Some(option) => {
                    let (name, value) = option.split_once('=').ok_or_else(|| format!("--{option} needs =value"))?;
                    options.set(stack, name, value)?;
                }
            }
        }
        if role == Role::Client && options.urls.is_empty() {
            return Err("the client needs at least one URL".into());
        }
        Ok(options)
    }

    fn set(&mut self, stack: &Stack, name: &str, value: &str) -> Result<()> {
        match name {
            "protocol" => {
                self.protocol = match value {
                    "h3" => Protocol::Http3,
                    "hq-interop" => Protocol::HqInterop,
                    _ => return Err(format!("no such protocol: {value}").into()),
                }
            }
            "plan" => {
                self.plan = match value {
                    "single" => Plan::Single,
                    "resume" => Plan::Resume,
                    "early-data" => Plan::EarlyData,
                    "each" => Plan::Each,
                    _ => return Err(format!("no such plan: {value}").into()),
                }
            }
            "port" => self.port = number(name, value)?,
            "certificate" => self.certificate = value.into(),
            "private-key" => self.private_key = value.into(),
            "root" => self.root = value.into(),
            "downloads" => self.downloads = value.into(),
            "session-dir" => self.session_dir = Some(SessionDir::new(value)),
            _ if !stack.honours(self.role, name) => {
                return Err(format!("a {} of {} does not honour --{name}", self.role.name(), stack.name).into());
            }
            _ => {
                if !self.parameters.set(name, value)? {
                    self.own.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        Ok(())
    }

    /// The URLs of each of the client's connections, in the order in which they are made.
    pub fn connections(&self) -> Result<Vec<&[Url]>> {
        Ok(match self.plan {
            Plan::Single => vec![&self.urls],
            Plan::Resume | Plan::EarlyData if self.urls.len() < 2 => return Err("this plan needs two URLs".into()),
            Plan::Resume | Plan::EarlyData => vec![&self.urls[..1], &self.urls[1..]],
            Plan::Each => self.urls.chunks(1).collect(),
        })
    }

    /// Whether the client keeps sessions and offers them again.
    pub fn resumes(&self) -> bool {
        self.session_dir.is_some() || matches!(self.plan, Plan::Resume | Plan::EarlyData)
    }

    /// Whether early data are sent (client), where there is a session, or accepted (server).
    pub fn early_data(&self) -> bool {
        let wanted = self.role == Role::Server || self.session_dir.is_some() || self.plan == Plan::EarlyData;
        wanted && self.parameters.zero_rtt != Some(false)
    }
}

/// A number as a value of --NAME; for the stack's own options too.
pub fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| format!("--{name}: {value:?} is not a suitable number").into())
}

/// A duration in milliseconds, with or without decimals.
pub fn milliseconds(name: &str, value: &str) -> Result<Duration> {
    let number: f64 = number(name, value)?;
    Duration::try_from_secs_f64(number / 1e3).map_err(|error| format!("--{name}: {value:?}: {error}").into())
}

pub fn on_or_off(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("--{name} is on or off, not {value:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: Stack =
        Stack { name: "s", both: &["initial-rtt", "knob"], client: &[], server: &["pacing"], moves: &[] };

    fn parse(words: &str) -> Result<Options> {
        Options::parse(&STACK, words.split(' ').map(str::to_owned))
    }

    #[test]
    fn takes_what_the_stack_honours() {
        let options = parse("server --initial-rtt=0.5 --pacing=off --knob=7 --retry").unwrap();
        assert_eq!(options.parameters.initial_rtt, Some(Duration::from_micros(500)));
        assert_eq!(options.parameters.pacing, Some(false));
        assert_eq!(options.own["knob"], "7");
        assert!(options.retry && options.early_data());
    }

    #[test]
    fn refuses_what_the_stack_does_not_honour() {
        for words in ["client --pacing=on https://h/f", "server --gso=on", "server --nonsense=1", "server --pacing=1"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn spreads_requests_over_connections() {
        let urls = "https://h/a https://h/b https://h/c";
        let lengths = |plan: &str| -> Vec<usize> {
            let options = parse(&format!("client --plan={plan} {urls}")).unwrap();
            options.connections().unwrap().iter().map(|urls| urls.len()).collect()
        };
        assert_eq!(lengths("single"), [3]);
        assert_eq!(lengths("early-data"), [1, 2]);
        assert_eq!(lengths("each"), [1, 1, 1]);
    }
}
