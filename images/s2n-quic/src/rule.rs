//! How large the congestion window is after a migration, written anew beside quinn's. Pure: its tests need no more than
//! this file.

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
        [(Rule::Reset, "reset"), (Rule::Keep, "keep"), (Rule::Adaptive, "adaptive")]
            .into_iter()
            .find_map(|(rule, known)| (known == name).then_some(rule))
    }
}

/// Kim and Koh's rule, cwnd_new = max((RTT_old − RTT_new) / RTT_old · cwnd_old, cwnd_init), windows in bytes.
pub fn adapted(window: u32, old: Duration, new: Duration, initial: u32) -> u32 {
    let (old, new) = (old.as_nanos(), new.as_nanos());
    let Some(shorter) = old.checked_sub(new).filter(|shorter| *shorter > 0) else { return initial };
    // In whole numbers: at most u32::MAX times the nanoseconds of an RTT, of which `shorter` is no more than all.
    let kept = (u128::from(window) * shorter + old / 2) / old;
    u32::try_from(kept).unwrap_or(window).max(initial)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: u32 = 38_400;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn keeps_the_share_by_which_the_rtt_fell() {
        assert_eq!(adapted(1_000_000, ms(40), ms(4), INITIAL), 900_000);
        assert_eq!(adapted(1_000_000, ms(650), ms(40), INITIAL), 938_462);
        assert_eq!(adapted(u32::MAX, ms(650), ms(0), INITIAL), u32::MAX);
    }

    #[test]
    fn starts_again_on_a_path_that_is_no_shorter() {
        assert_eq!(adapted(1_000_000, ms(40), ms(40), INITIAL), INITIAL);
        assert_eq!(adapted(1_000_000, ms(40), ms(650), INITIAL), INITIAL);
        assert_eq!(adapted(1_000_000, ms(0), ms(0), INITIAL), INITIAL);
        // And wherever the rule would leave less.
        assert_eq!(adapted(40_000, ms(40), ms(20), INITIAL), INITIAL);
    }

    #[test]
    fn knows_its_names() {
        assert_eq!(Rule::parse("adaptive"), Some(Rule::Adaptive));
        assert_eq!(Rule::parse("half"), None);
    }
}
