//! How large the congestion window is after a migration. Pure: its tests need no more than this file.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It starts again (RFC 9000 §9.4).
    Reset,
    /// It stays what it was, and CUBIC with it.
    Keep,
    /// It starts again and, once the new path's RTT is known, is what `adapted` says.
    Adaptive,
}

impl Rule {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "reset" => Some(Rule::Reset),
            "keep" => Some(Rule::Keep),
            "adaptive" => Some(Rule::Adaptive),
            _ => None,
        }
    }
}

/// Kim and Koh's rule, cwnd_new = max((RTT_old − RTT_new) / RTT_old · cwnd_old, cwnd_init), windows in bytes: the share of
/// the window that the new path has no room for is let go, and a path that is no shorter gets the initial window.
pub fn adapted(window: u64, old: Duration, new: Duration, initial: u64) -> u64 {
    let share = old.saturating_sub(new).as_secs_f64() / old.as_secs_f64();
    // The conversion makes 0 of what is not a number.
    ((share * window as f64).round() as u64).max(initial)
}

/// RTTs of one path, from packets that were sent on it. quinn's estimator takes in what the old path's acknowledgements
/// say, too. ACK delays are part of them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Of each batch that left at once: the last packet's number, and when.
    sent: VecDeque<(u64, Instant)>,
    /// The largest packet number of all batches that are forgotten.
    before: Option<u64>,
    least: Option<Duration>,
}

impl Samples {
    pub fn sent(&mut self, last: u64, now: Instant) {
        // During the handshake there are other packet number spaces.
        if self.sent.back().is_some_and(|(before, _)| *before >= last) {
            self.sent.clear();
            self.before = None;
        }
        self.sent.push_back((last, now));
    }

    /// The RTT that an acknowledgement tells, if its largest packet is newly acknowledged and was sent on this path.
    pub fn acked(&mut self, largest: u64, now: Instant) -> Option<Duration> {
        let batch = self.sent.iter().position(|(last, _)| *last >= largest)?;
        // Of the first batch, only the last packet is known to be none of the old path's.
        if batch == 0 && self.before.is_none_or(|before| largest <= before) && largest != self.sent[0].0 {
            return None;
        }
        let (last, then) = self.sent[batch];
        self.sent.drain(..batch);
        if largest == last {
            self.sent.pop_front();
        }
        self.before = Some(largest);
        let sample = now.saturating_duration_since(then);
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        Some(sample)
    }

    pub fn least(&self) -> Option<Duration> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: u64 = 38_400;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn keeps_the_share_by_which_the_rtt_fell() {
        assert_eq!(adapted(1_000_000, ms(40), ms(4), INITIAL), 900_000);
        assert_eq!(adapted(1_000_000, ms(650), ms(40), INITIAL), 938_462);
        // The prototype of this project: 1.578 ms and 593 µs.
        let (old, new) = (Duration::from_micros(1578), Duration::from_micros(593));
        assert_eq!(adapted(305_537, old, new, 12_000), 190_719);
    }

    #[test]
    fn starts_again_on_a_path_that_is_no_shorter() {
        assert_eq!(adapted(1_000_000, ms(40), ms(40), INITIAL), INITIAL);
        assert_eq!(adapted(1_000_000, ms(40), ms(650), INITIAL), INITIAL);
        assert_eq!(adapted(1_000_000, ms(0), ms(1), INITIAL), INITIAL);
        // And wherever the rule would leave less.
        assert_eq!(adapted(40_000, ms(40), ms(20), INITIAL), INITIAL);
    }

    #[test]
    fn counts_only_what_was_sent_on_the_path() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(105, zero + ms(10));
        samples.sent(115, zero + ms(20));
        samples.sent(125, zero + ms(30));
        // The old path's, acknowledged late.
        assert_eq!(samples.acked(99, zero + ms(31)), None);
        assert_eq!(samples.least(), None);
        assert_eq!(samples.acked(110, zero + ms(35)), Some(ms(15)));
        // No news.
        assert_eq!(samples.acked(110, zero + ms(36)), None);
        assert_eq!(samples.acked(115, zero + ms(37)), Some(ms(17)));
        assert_eq!(samples.acked(120, zero + ms(42)), Some(ms(12)));
        assert_eq!(samples.acked(119, zero + ms(43)), None);
        assert_eq!(samples.least(), Some(ms(12)));
    }

    #[test]
    fn tells_packet_number_spaces_apart() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(2, zero);
        samples.sent(0, zero + ms(5));
        assert_eq!(samples.acked(2, zero + ms(6)), None);
        assert_eq!(samples.acked(0, zero + ms(8)), Some(ms(3)));
    }

    #[test]
    fn takes_the_first_packet_of_a_path() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(100, zero);
        assert_eq!(samples.acked(100, zero + ms(3)), Some(ms(3)));
        assert_eq!(samples.acked(100, zero + ms(4)), None);
    }
}
