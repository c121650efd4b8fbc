//! What a server remembers of the paths to its clients, for Careful Resume (RFC 9959). Pure: its tests need no more than
//! this file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a path is remembered. RFC 9959: minutes where many share it, hours where few do.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Windows smaller than so many initial ones are not worth it (RFC 9959, observing).
const WORTH: u64 = 4;

/// What one connection saw of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Bytes that arrived in a round trip.
    pub window: u64,
    /// The least that there was.
    pub rtt: Duration,
    /// When it was seen.
    pub at: Instant,
}

/// A path is known by the client's address without its port, since there is one server with one address, and another
/// connection of the same client has another port. There is one set of parameters a path.
#[derive(Default)]
pub struct Memory(HashMap<IpAddr, Saved>);

impl Memory {
    /// For one connection: a second one that begins before the first has seen anything itself finds nothing.
    pub fn take(&mut self, client: IpAddr, now: Instant) -> Result<Saved, String> {
        let saved = self.0.remove(&client).ok_or_else(|| format!("nothing is remembered of {client}"))?;
        let age = now.saturating_duration_since(saved.at);
        if age > LIFETIME {
            return Err(format!("what is remembered of {client} is {} s old", age.as_secs()));
        }
        Ok(saved)
    }

    pub fn keep(&mut self, client: IpAddr, saved: Saved) {
        self.0.insert(client, saved);
    }

    pub fn forget(&mut self, client: IpAddr) {
        self.0.remove(&client);
    }
}

/// Sees the capacity of a path: the bytes that arrive in the least round trip, which a queue does not add to.
#[derive(Clone, Debug)]
pub struct Observer {
    initial_window: u64,
    since: Option<Instant>,
    arrived: u64,
    /// Whether there was too little to send at some time since then.
    idle: bool,
    /// Bytes a round trip, last.
    seen: u64,
}

impl Observer {
    pub fn new(initial_window: u64) -> Self {
        Self { initial_window, since: None, arrived: 0, idle: false, seen: 0 }
    }

    /// A packet arrived, `rtt` is the least so far. Bytes a round trip, whenever another round trip has been seen that
    /// tells of the path: one with too little to send tells no more than that there is so much room.
    pub fn acked(&mut self, now: Instant, bytes: u64, window_limited: bool, rtt: Option<Duration>) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since);
        let told = match rtt {
            Some(rtt) if elapsed >= rtt && !elapsed.is_zero() => {
                let window = (self.arrived as f64 * rtt.as_secs_f64() / elapsed.as_secs_f64()).round() as u64;
                let fits = window >= WORTH * self.initial_window && (!self.idle || window > self.seen);
                (self.since, self.arrived, self.idle) = (Some(now), 0, false);
                fits.then_some(window)
            }
            _ => None,
        };
        self.arrived += bytes;
        self.idle |= !window_limited;
        self.seen = told.unwrap_or(self.seen);
        told
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    const ANOTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn saved(at: Instant) -> Saved {
        Saved { window: 1_000_000, rtt: ms(600), at }
    }

    #[test]
    fn one_connection_has_what_another_left() {
        let zero = Instant::now();
        let mut memory = Memory::default();
        memory.keep(CLIENT, saved(zero));
        assert_eq!(memory.take(CLIENT, zero + ms(10_000)), Ok(saved(zero)));
        assert_eq!(memory.take(CLIENT, zero + ms(10_000)), Err("nothing is remembered of 10.0.0.2".to_owned()));
    }

    #[test]
    fn another_client_has_nothing_of_it() {
        let zero = Instant::now();
        let mut memory = Memory::default();
        memory.keep(CLIENT, saved(zero));
        assert_eq!(memory.take(ANOTHER, zero), Err("nothing is remembered of 10.0.0.3".to_owned()));
    }

    #[test]
    fn what_is_seen_later_replaces_it() {
        let zero = Instant::now();
        let mut memory = Memory::default();
        memory.keep(CLIENT, saved(zero));
        memory.keep(CLIENT, saved(zero + ms(600)));
        assert_eq!(memory.take(CLIENT, zero + ms(700)), Ok(saved(zero + ms(600))));
    }

    #[test]
    fn what_is_forgotten_is_not_there() {
        let zero = Instant::now();
        let mut memory = Memory::default();
        memory.keep(CLIENT, saved(zero));
        memory.forget(CLIENT);
        assert!(memory.take(CLIENT, zero).is_err());
    }

    #[test]
    fn nothing_outlives_its_time() {
        let zero = Instant::now();
        let mut memory = Memory::default();
        memory.keep(CLIENT, saved(zero));
        assert_eq!(memory.take(CLIENT, zero + LIFETIME), Ok(saved(zero)));
        memory.keep(CLIENT, saved(zero));
        let late = memory.take(CLIENT, zero + LIFETIME + ms(1));
        assert_eq!(late, Err("what is remembered of 10.0.0.2 is 3600 s old".to_owned()));
    }

    /// What is told of packets of 1,000 bytes that arrive every millisecond.
    fn arriving(observer: &mut Observer, zero: Instant, milliseconds: std::ops::Range<u64>, limited: bool) -> Vec<u64> {
        milliseconds.filter_map(|at| observer.acked(zero + ms(at), 1_000, limited, Some(ms(100)))).collect()
    }

    #[test]
    fn sees_what_arrives_in_a_round_trip() {
        let mut observer = Observer::new(12_000);
        assert_eq!(arriving(&mut observer, Instant::now(), 0..301, true), [100_000, 100_000, 100_000]);
    }

    #[test]
    fn a_longer_interval_counts_by_its_length() {
        let (mut observer, zero) = (Observer::new(1), Instant::now());
        assert_eq!(observer.acked(zero, 90_000, true, Some(ms(100))), None);
        assert_eq!(observer.acked(zero + ms(150), 1, true, Some(ms(100))), Some(60_000));
    }

    #[test]
    fn too_little_to_send_tells_of_no_limit() {
        let (mut observer, zero) = (Observer::new(12_000), Instant::now());
        assert_eq!(arriving(&mut observer, zero, 0..101, true), [100_000]);
        // The same again, with something else missing, is no news.
        assert_eq!(arriving(&mut observer, zero, 101..201, false), []);
        let (mut observer, zero) = (Observer::new(12_000), Instant::now());
        assert_eq!(arriving(&mut observer, zero, 0..101, false), [100_000]);
    }

    #[test]
    fn small_windows_are_not_worth_it() {
        let mut observer = Observer::new(25_001);
        assert_eq!(arriving(&mut observer, Instant::now(), 0..201, true), []);
        let mut observer = Observer::new(25_000);
        assert_eq!(arriving(&mut observer, Instant::now(), 0..101, true), [100_000]);
    }
}
