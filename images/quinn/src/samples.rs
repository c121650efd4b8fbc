//! RTTs from packet numbers, for controllers that must know what each sample is of. Pure: its tests need no more than this
//! file.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Packets that left at once.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// The number from which on they are known to be of it, and the last.
    first: u64,
    last: u64,
    sent: Instant,
}

/// RTTs of one path, from packets that were sent on it. quinn's estimator takes in what the old path's acknowledgements
/// say, too. ACK delays are part of them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    batches: VecDeque<Batch>,
    least: Option<Duration>,
}

impl Samples {
    /// `count` packets at least left, up to number `last`. Between two batches there may be packets that nobody tells of:
    /// answers to a client that probes another path, which are sent by that.
    pub fn sent(&mut self, count: u64, last: u64, now: Instant) {
        // During the handshake there are other packet number spaces.
        if self.batches.back().is_some_and(|before| before.last >= last) {
            self.batches.clear();
        }
        self.batches.push_back(Batch { first: (last + 1).saturating_sub(count), last, sent: now });
    }

    /// The RTT that an acknowledgement tells, if its largest packet is newly acknowledged and was sent on this path.
    pub fn acked(&mut self, largest: u64, now: Instant) -> Option<Duration> {
        let at = self.batches.iter().position(|batch| batch.last >= largest)?;
        self.batches.drain(..at);
        let batch = &mut self.batches[0];
        if largest < batch.first {
            return None;
        }
        let sample = now.saturating_duration_since(batch.sent);
        batch.first = largest + 1;
        if largest == batch.last {
            self.batches.pop_front();
        }
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

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn counts_only_what_was_sent_on_the_path() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(6, 105, zero + ms(10));
        samples.sent(10, 115, zero + ms(20));
        samples.sent(10, 125, zero + ms(30));
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
        samples.sent(1, 2, zero);
        samples.sent(1, 0, zero + ms(5));
        assert_eq!(samples.acked(2, zero + ms(6)), None);
        assert_eq!(samples.acked(0, zero + ms(8)), Some(ms(3)));
    }

    #[test]
    fn takes_the_first_packet_of_a_path() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(1, 100, zero);
        assert_eq!(samples.acked(100, zero + ms(3)), Some(ms(3)));
        assert_eq!(samples.acked(100, zero + ms(4)), None);
    }

    #[test]
    fn takes_no_packet_between_two_batches() {
        let zero = Instant::now();
        let mut samples = Samples::default();
        samples.sent(5, 104, zero);
        // 105 answers a probe, by the path that is probed.
        samples.sent(5, 110, zero + ms(10));
        assert_eq!(samples.acked(105, zero + ms(12)), None);
        assert_eq!(samples.least(), None);
        assert_eq!(samples.acked(106, zero + ms(50)), Some(ms(40)));
    }
}
