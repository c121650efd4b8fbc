//! The moves that a client is told to make, in the environment: `MOVES=AT,HOW,ADDRESS4,ADDRESS6[;AT,HOW,…]`.
//!
//! AT counts in seconds from the client's first datagram. The family of the connection says which address is meant,
//! and an address of a family that nobody uses may be left empty.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use crate::alarm;
use crate::{Result, Stack, udp};

/// How often a stack is asked whether the handshake is confirmed, where it does not tell.
#[cfg(feature = "tokio")]
pub const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Probes the path from the new address, and switches to it once it is validated (RFC 9000 §9).
    Migrate,
    /// Leaves the old address at once, without probing.
    Interface,
}

impl How {
    pub fn name(self) -> &'static str {
        match self {
            How::Migrate => "migrate",
            How::Interface => "interface",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// After the client's first datagram.
    pub at: Duration,
    pub how: How,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

impl Move {
    /// The address from which `peer` is reached after the move.
    pub fn address(&self, peer: SocketAddr) -> Result<IpAddr> {
        let address = match peer {
            SocketAddr::V4(_) => self.ipv4.map(IpAddr::from),
            SocketAddr::V6(_) => self.ipv6.map(IpAddr::from),
        };
        address.ok_or_else(|| {
            format!("MOVES: no address at {} s from which to reach {peer}", self.at.as_secs_f64()).into()
        })
    }

    /// A socket at the new address, at a port of the system's choice.
    pub fn socket(&self, peer: SocketAddr) -> Result<UdpSocket> {
        let address = self.address(peer)?;
        udp::bind(address).map_err(|error| format!("MOVES: {address}: {error}").into())
    }
}

/// The moves that `text` tells a program that `offers` some of their kinds to make, in order of time.
pub fn parse(text: &str, offers: &[How]) -> Result<Vec<Move>> {
    let mut moves: Vec<Move> = Vec::new();
    for entry in text.split(';') {
        let fields: Vec<_> = entry.split(',').collect();
        let &[at, how, ipv4, ipv6] = fields.as_slice() else {
            return Err(format!("MOVES: {entry:?} is not AT,HOW,ADDRESS4,ADDRESS6").into());
        };
        let how = match [How::Migrate, How::Interface].into_iter().find(|known| known.name() == how) {
            Some(how) if offers.contains(&how) => how,
            Some(how) => return Err(format!("MOVES: this program cannot move by {}", how.name()).into()),
            None => return Err(format!("MOVES: {how:?} is neither migrate nor interface").into()),
        };
        let at = at.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let at = at.ok_or_else(|| format!("MOVES: {entry:?} does not begin with a time in seconds"))?;
        if moves.last().is_some_and(|previous| previous.at >= at) {
            return Err(format!("MOVES: {entry:?} is not later than the move before it").into());
        }
        let malformed = |error: std::net::AddrParseError| format!("MOVES: {entry:?}: {error}");
        let ipv4 = Some(ipv4).filter(|text| !text.is_empty()).map(str::parse).transpose().map_err(malformed)?;
        let ipv6 = Some(ipv6).filter(|text| !text.is_empty()).map(str::parse).transpose().map_err(malformed)?;
        if ipv4.is_none() && ipv6.is_none() {
            return Err(format!("MOVES: {entry:?} has no address").into());
        }
        moves.push(Move { at, how, ipv4, ipv6 });
    }
    Ok(moves)
}

/// What is left of a client's moves, over all of its connections.
#[derive(Clone, Debug)]
pub struct Journey {
    program: &'static str,
    left: VecDeque<Move>,
    /// When its first datagram left.
    zero: Option<Instant>,
    /// The next one is due, and the handshake is not confirmed.
    waits: bool,
    /// The one that it made last.
    last: Option<Move>,
}

impl Journey {
    pub fn new(stack: &Stack, moves: &[Move]) -> Self {
        Self { program: stack.name, left: moves.iter().copied().collect(), zero: None, waits: false, last: None }
    }

    /// To be called when a connection's first datagram leaves. The first one's starts the clock.
    pub fn begin(&mut self, now: Instant) {
        self.zero.get_or_insert(now);
    }

    /// The address that a connection begins at, unless it is the system's choice. Moves whose time came while there was no
    /// connection are behind it.
    pub fn address(&mut self, peer: SocketAddr, now: Instant) -> Result<Option<IpAddr>> {
        while let Some((due, next)) = self.next()
            && due <= now
        {
            self.left.pop_front();
            self.last = Some(next);
        }
        self.last.map(|last| last.address(peer)).transpose()
    }

    /// A socket for a connection that begins now.
    pub fn socket(&mut self, peer: SocketAddr, now: Instant) -> Result<UdpSocket> {
        Ok(match self.address(peer, now)? {
            Some(address) => udp::bind(address)?,
            None => udp::towards(peer)?,
        })
    }

    /// The next move and when it is due, once the clock runs.
    pub fn next(&self) -> Option<(Instant, Move)> {
        let next = *self.left.front()?;
        Some((self.zero? + next.at, next))
    }

    /// Whether nothing is left of it.
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The next move, if it is to be made now. It waits for the handshake to be confirmed (RFC 9000 §9).
    pub fn ready(&mut self, now: Instant, confirmed: bool) -> Option<Move> {
        let (due, next) = self.next()?;
        if now < due {
            return None;
        }
        if !confirmed {
            self.hold();
            return None;
        }
        Some(next)
    }

    /// To be called when the next move is due and the stack will not make it before the handshake is confirmed.
    pub fn hold(&mut self) {
        self.waits = true;
    }

    /// To be called when the next move is made, with the client's new address: takes it off the list and tells of it on
    /// stderr.
    pub fn made(&mut self, local: SocketAddr) {
        let (Some(zero), Some(next)) = (self.zero, self.left.pop_front()) else { return };
        let reason = if self.waits { ", as soon as the handshake was confirmed" } else { "" };
        let (clock, at) = (zero.elapsed().as_secs_f64(), next.at.as_secs_f64());
        eprintln!(
            "{}-endpoint: {} at {clock:.6} s to {local}, told to at {at} s{reason}",
            self.program,
            next.how.name()
        );
        self.waits = false;
        self.last = Some(next);
    }

    /// Tells on stderr which moves were not made. To be called when the client is done.
    pub fn end(&self) {
        for left in &self.left {
            let (how, at) = (left.how.name(), left.at.as_secs_f64());
            let reason = if self.waits {
                "the handshake was never confirmed, or no connection ID was left"
            } else {
                "the client was done before"
            };
            eprintln!("{}-endpoint: no {how} at {at} s: {reason}", self.program);
        }
    }
}

#[cfg(feature = "tokio")]
impl Journey {
    /// Until the next move is to be made; for ever if there is none.
    pub async fn wait(&mut self, confirmed: impl Fn() -> bool) -> Result<Move> {
        let Some((due, _)) = self.next() else { return std::future::pending().await };
        // Whoever comes here late comes from a handshake.
        self.waits = self.last.is_none() && due < Instant::now();
        alarm::until(due).await?;
        loop {
            let now = Instant::now();
            if let Some(next) = self.ready(now, confirmed()) {
                return Ok(next);
            }
            alarm::until(now + LOOK).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[How] = &[How::Migrate, How::Interface];
    const STACK: Stack = Stack { name: "s", both: &[], client: &[], server: &[], moves: BOTH };

    #[test]
    fn reads_what_the_contract_says() {
        let moves = parse("0.2,migrate,193.167.1.100,fd00::1;7,interface,193.167.0.100,", BOTH).unwrap();
        assert_eq!(moves[0].at, Duration::from_millis(200));
        assert_eq!((moves[0].how, moves[1].how), (How::Migrate, How::Interface));
        let (four, six) = ("192.0.2.1:443".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        assert_eq!(moves[0].address(six).unwrap(), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(moves[1].address(four).unwrap(), IpAddr::from([193, 167, 0, 100]));
        assert!(moves[1].address(six).is_err());
    }

    #[test]
    fn refuses_what_is_wrong() {
        for text in [
            "",
            "0.2,migrate,193.167.1.100",
            "soon,migrate,193.167.1.100,",
            "-1,migrate,193.167.1.100,",
            "0.2,walk,193.167.1.100,",
            "0.2,migrate,193.167.1,",
            "0.2,migrate,,",
            "0.2,migrate,193.167.1.100,;0.2,migrate,193.167.0.100,",
        ] {
            assert!(parse(text, BOTH).is_err(), "{text}");
        }
        assert!(parse("0.2,migrate,193.167.1.100,", &[How::Interface]).is_err());
    }

    #[test]
    fn counts_from_the_first_datagram() {
        let moves = parse("0.2,interface,127.0.0.1,;0.3,interface,127.0.0.1,", BOTH).unwrap();
        let peer = "127.0.0.1:443".parse().unwrap();
        let mut journey = Journey::new(&STACK, &moves);
        let zero = Instant::now();
        assert_eq!(journey.next(), None);
        assert!(journey.socket(peer, zero).unwrap().local_addr().unwrap().ip().is_unspecified());
        journey.begin(zero);
        journey.begin(zero + Duration::from_secs(1));
        assert_eq!(journey.next(), Some((zero + Duration::from_millis(200), moves[0])));
        let socket = journey.socket(peer, zero + Duration::from_millis(250)).unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(journey.next(), Some((zero + Duration::from_millis(300), moves[1])));
    }

    #[test]
    fn waits_for_the_handshake() {
        let moves = parse("0.2,interface,127.0.0.1,", BOTH).unwrap();
        let mut journey = Journey::new(&STACK, &moves);
        let zero = Instant::now();
        journey.begin(zero);
        assert_eq!(journey.ready(zero + Duration::from_millis(199), true), None);
        assert_eq!(journey.ready(zero + Duration::from_millis(200), false), None);
        assert_eq!(journey.ready(zero + Duration::from_millis(210), true), Some(moves[0]));
        journey.made("127.0.0.1:1".parse().unwrap());
        assert_eq!(journey.ready(zero + Duration::from_secs(1), true), None);
    }
}
