//! How large the congestion window is after a migration. Pure: its tests need no more than this file.

use std::time::Duration;

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
}
