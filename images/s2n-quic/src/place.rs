//! Where the client of a connection is, from s2n-quic's events.

use std::time::Duration;

use s2n_quic::provider::event::ConnectionMeta;
use s2n_quic::provider::event::events::{ActivePathUpdated, FrameReceived, PacketHeader};

/// The path that the client is at: that of the newest packet that made s2n-quic go over to another one. With a packet that
/// comes late by the old path s2n-quic goes back to that, against RFC 9000 §9.3, and returns with the next.
#[derive(Default)]
pub struct Place {
    at: u64,
    /// The largest number of the client's packets.
    newest: Option<u64>,
    /// The packet that came last.
    came: Option<Came>,
}

struct Came {
    path: u64,
    number: u64,
    when: Duration,
    newer: bool,
}

impl Place {
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether a frame is the first one of a packet with which the client may move.
    fn frame(&mut self, path: u64, number: u64, when: Duration) -> bool {
        if self.came.as_ref().is_some_and(|came| (came.path, came.number) == (path, number)) {
            return false;
        }
        let newer = self.newest.is_none_or(|newest| number > newest);
        if newer {
            self.newest = Some(number);
        }
        self.came = Some(Came { path, number, when, newer });
        newer && path != self.at
    }

    /// Whether the client has moved when s2n-quic goes over to another path, which is after it has gone through the frames of
    /// a packet from there; or without a packet, where the new path was not validated in time.
    fn active(&mut self, path: u64, now: Duration) -> bool {
        let came = self.came.take().filter(|came| (came.path, came.when) == (path, now));
        let moves = path != self.at && came.as_ref().is_some_and(|came| came.newer);
        if moves || came.is_none() {
            self.at = path;
        }
        moves
    }
}

/// To be called for each frame: see `Place::frame`.
pub fn on_frame(place: &mut Place, meta: &ConnectionMeta, event: &FrameReceived) -> bool {
    let PacketHeader::OneRtt { number, .. } = event.packet_header else { return false };
    place.frame(event.path.id, number, meta.timestamp.duration_since_start())
}

/// To be called whenever s2n-quic goes over to another path: see `Place::active`.
pub fn on_active_path(place: &mut Place, meta: &ConnectionMeta, event: &ActivePathUpdated) -> bool {
    place.active(event.active.id, meta.timestamp.duration_since_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn late_packets_move_nobody() {
        let mut place = Place::default();
        assert!(!place.frame(0, 10, ms(1)));
        // A probe, and then the move, in two frames.
        assert!(place.frame(1, 12, ms(2)));
        assert!(place.frame(1, 14, ms(5)) && !place.frame(1, 14, ms(5)));
        assert!(place.active(1, ms(5)));
        // s2n-quic goes back, and returns.
        assert!(!place.frame(0, 13, ms(6)) && !place.active(0, ms(6)));
        assert_eq!(place.at(), 1);
        assert!(!place.frame(1, 15, ms(7)) && !place.active(1, ms(7)));
        // The client comes back.
        assert!(place.frame(0, 16, ms(9)) && place.active(0, ms(9)));
        assert_eq!(place.at(), 0);
    }

    #[test]
    fn a_path_that_is_not_validated_is_left_without_a_move() {
        let mut place = Place::default();
        assert!(place.frame(1, 1, ms(1)) && place.active(1, ms(1)));
        assert!(!place.frame(1, 2, ms(2)));
        assert!(!place.active(0, ms(900)));
        assert_eq!(place.at(), 0);
    }
}
