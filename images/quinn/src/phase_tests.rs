use super::*;

const INITIAL: u64 = 12_000;
const PACKET: u64 = 1_200;
const SAVED: u64 = 240_000;
const RTT: Duration = Duration::from_millis(600);

/// A connection whose packets of 1,200 bytes carry the numbers from 1 on.
struct Path {
    resumption: Resumption,
    zero: Instant,
    now: Instant,
    next: u64,
    flight: u64,
}

impl Path {
    fn new(saved: Option<(u64, Duration)>) -> Self {
        let zero = Instant::now();
        Self { resumption: Resumption::new(saved, INITIAL, zero), zero, now: zero, next: 1, flight: 0 }
    }

    fn at(&mut self, milliseconds: u64) {
        self.now = self.zero + Duration::from_millis(milliseconds);
    }

    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.resumption.sent(self.now, PACKET, self.next, PACKET);
            self.flight += PACKET;
            self.next += 1;
        }
    }

    fn ack(&mut self, packets: u64, largest: u64) {
        for _ in 0..packets {
            self.resumption.acked(self.now, PACKET);
            self.flight -= PACKET;
        }
        self.resumption.end_acks(self.now, self.flight, Some(largest), true);
    }

    fn lose(&mut self, sent: u64) -> Answer {
        let sent = self.zero + Duration::from_millis(sent);
        self.resumption.congestion(self.now, sent, false, false)
    }

    /// New phases with their triggers, since this was last asked.
    fn told(&mut self) -> Vec<(Phase, Option<Trigger>)> {
        self.resumption.changes().iter().map(|change| (change.new, change.trigger)).collect()
    }

    /// To the unvalidated phase: an initial window, full with nine packets, is out at 0 and arrives at 600 ms, and two of
    /// slow start follow.
    fn confirmed(saved: (u64, Duration)) -> Self {
        let mut path = Self::new(Some(saved));
        path.send(9);
        path.at(600);
        path.resumption.sample(RTT);
        path.ack(8, 8);
        path.send(18);
        assert_eq!(path.told(), [(Phase::Reconnaissance, None)]);
        path.ack(1, 9);
        path
    }

    /// To the validating phase: everything that the jump allows is out.
    fn jumped() -> Self {
        let mut path = Self::confirmed((SAVED, RTT));
        path.at(900);
        path.send(81);
        path.told();
        path
    }
}

#[test]
fn nothing_saved_is_nothing_to_resume() {
    let mut path = Path::new(None);
    assert_eq!(path.told(), [(Phase::Reconnaissance, None), (Phase::Normal, None)]);
    path.send(10);
    path.at(600);
    path.ack(10, 10);
    assert_eq!(path.resumption.window(), None);
    assert_eq!(path.lose(0), Answer::Own);
}

#[test]
fn half_of_what_was_saved_is_allowed_once_the_initial_data_have_arrived() {
    let mut path = Path::confirmed((SAVED, RTT));
    assert_eq!(path.resumption.window(), Some(SAVED / 2));
    path.send(1);
    assert_eq!(path.told(), [(Phase::Unvalidated, Some("congestion_window_limited"))]);
    assert_eq!(path.resumption.window(), Some(SAVED / 2));
}

#[test]
fn what_arrives_while_there_is_nothing_to_send_confirms_nothing() {
    let mut path = Path::new(Some((SAVED, RTT)));
    path.send(10);
    path.at(600);
    path.resumption.sample(RTT);
    for _ in 0..10 {
        path.resumption.acked(path.now, PACKET);
    }
    path.resumption.end_acks(path.now, 0, Some(10), false);
    path.send(1);
    assert_eq!(path.resumption.window(), None);
}

#[test]
fn all_of_the_initial_data_have_to_arrive() {
    let mut path = Path::new(Some((SAVED, RTT)));
    path.send(9);
    path.at(600);
    path.resumption.sample(RTT);
    for arrived in 1..9 {
        path.ack(1, arrived);
        path.send(2);
        assert_eq!(path.resumption.window(), None);
    }
    path.ack(1, 9);
    assert_eq!(path.resumption.window(), Some(SAVED / 2));
    // At once, too.
    let mut path = Path::new(Some((SAVED, RTT)));
    path.send(9);
    path.at(600);
    path.resumption.sample(RTT);
    path.ack(9, 9);
    assert_eq!(path.resumption.window(), Some(SAVED / 2));
}

#[test]
fn a_jump_that_holds_is_validated_by_its_last_packet() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.at(900);
    // 18 packets are out. quinn's window of 100 is full with 99: it has to be larger than what is out.
    path.send(80);
    assert_eq!(path.resumption.phase(), Phase::Unvalidated);
    path.send(1);
    assert_eq!(
        path.told(),
        [
            (Phase::Unvalidated, Some("congestion_window_limited")),
            (Phase::Validating, Some("last_unvalidated_packet_sent"))
        ]
    );
    assert_eq!(path.resumption.order(), Some(Order::SlowStart { window: 99 * PACKET }));
    assert_eq!(path.resumption.window(), None);
    path.at(1_500);
    path.ack(98, 107);
    path.send(1);
    assert_eq!(path.resumption.phase(), Phase::Validating);
    path.ack(1, 108);
    path.send(1);
    assert_eq!(path.told(), [(Phase::Normal, Some("last_unvalidated_packet_acknowledged"))]);
    assert_eq!(path.lose(1_500), Answer::Own);
}

#[test]
fn the_first_unvalidated_packet_that_arrives_ends_the_jump() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.send(60);
    path.told();
    path.at(1_190);
    path.ack(20, 28);
    // What is out is the window: 18 + 60 − 20 packets.
    assert_eq!(path.told(), [(Phase::Validating, Some("first_unvalidated_packet_acknowledged"))]);
    assert_eq!(path.resumption.order(), Some(Order::SlowStart { window: 58 * PACKET }));
}

#[test]
fn a_jump_lasts_a_round_trip_at_most() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.send(60);
    path.told();
    path.at(1_200);
    path.send(1);
    assert_eq!(path.told(), []);
    path.at(1_201);
    path.send(1);
    assert_eq!(path.told(), [(Phase::Validating, Some("rtt_exceeded"))]);
}

#[test]
fn a_jump_that_is_not_used_is_taken_back() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.send(2);
    path.told();
    path.at(1_190);
    path.ack(19, 28);
    assert_eq!(path.told(), [(Phase::Normal, Some("rate_limited"))]);
    // What was out at the jump and what has arrived since: 18 + 19 packets.
    assert_eq!(path.resumption.order(), Some(Order::SlowStart { window: 37 * PACKET }));
}

#[test]
fn another_round_trip_time_forbids_the_jump() {
    let half_and_more = Path::confirmed((SAVED, Duration::from_millis(1_199))).resumption.window();
    assert_eq!(half_and_more, Some(SAVED / 2));
    for saved in [Duration::from_millis(1_200), Duration::from_millis(59)] {
        let mut path = Path::confirmed((SAVED, saved));
        assert_eq!(path.told(), [(Phase::Normal, Some("rtt_not_validated"))]);
        path.send(1);
        assert_eq!(path.resumption.window(), None);
        assert_eq!(path.resumption.order(), None);
    }
}

#[test]
fn a_loss_before_the_jump_forbids_it() {
    let mut path = Path::new(Some((SAVED, RTT)));
    path.send(10);
    path.at(600);
    path.resumption.sample(RTT);
    path.ack(8, 10);
    assert_eq!(path.lose(0), Answer::Own);
    assert_eq!(path.told(), [(Phase::Reconnaissance, None), (Phase::Normal, Some("packet_loss"))]);
    path.ack(2, 10);
    path.send(1);
    assert_eq!(path.resumption.window(), None);
}

#[test]
fn the_acknowledgement_that_would_allow_the_jump_may_tell_of_a_loss() {
    let mut path = Path::confirmed((SAVED, RTT));
    assert_eq!(path.lose(0), Answer::Own);
    path.send(1);
    assert_eq!(path.told(), [(Phase::Normal, Some("packet_loss"))]);
    assert_eq!(path.resumption.window(), None);
}

#[test]
fn a_loss_in_the_jump_retreats() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.send(40);
    path.told();
    path.at(700);
    path.ack(8, 18);
    assert_eq!(path.lose(600), Answer::None);
    assert_eq!(path.told(), [(Phase::SafeRetreat, Some("packet_loss"))]);
    // PipeSize is what was out at the jump and what arrived after it: (18 + 8) packets.
    assert_eq!(path.resumption.window(), Some(13 * PACKET));
}

#[test]
fn a_path_that_turns_out_shorter_in_the_jump_is_another() {
    let mut path = Path::confirmed((SAVED, RTT));
    path.send(20);
    path.told();
    path.at(901);
    path.resumption.sample(Duration::from_millis(301));
    path.ack(1, 11);
    assert_eq!(path.told(), []);
    path.resumption.sample(Duration::from_millis(300));
    path.ack(1, 12);
    assert_eq!(path.told(), [(Phase::SafeRetreat, Some("path_changed"))]);
    assert_eq!(path.resumption.window(), Some(10 * PACKET));
}

#[test]
fn a_loss_while_validating_retreats_to_half_of_the_pipe_and_half_of_that_is_the_threshold() {
    let mut path = Path::jumped();
    path.at(1_500);
    path.ack(30, 50);
    assert_eq!(path.lose(900), Answer::None);
    assert_eq!(path.told(), [(Phase::SafeRetreat, Some("packet_loss"))]);
    let retreated = (18 + 30) / 2 * PACKET;
    assert_eq!(path.resumption.window(), Some(retreated));
    // Further losses of the same flight have had their answer, and what arrives lets the window stay.
    assert_eq!(path.lose(900), Answer::None);
    path.ack(40, 107);
    assert_eq!(path.lose(899), Answer::None);
    assert_eq!(path.resumption.window(), Some(retreated));
    assert_eq!(path.resumption.phase(), Phase::SafeRetreat);
    path.ack(1, 108);
    path.resumption.acked(path.now, 0);
    assert_eq!(path.told(), [(Phase::Normal, Some("exit_recovery"))]);
    let pipe = (18 + 30 + 41) * PACKET;
    assert_eq!(path.resumption.order(), Some(Order::UpTo { window: retreated, threshold: pipe / 2 }));
    // A late sign of the same losses.
    assert_eq!(path.lose(900), Answer::None);
    path.at(2_500);
    assert_eq!(path.lose(2_000), Answer::Own);
}

#[test]
fn the_acknowledgement_of_the_last_unvalidated_packet_may_tell_of_a_loss() {
    let mut path = Path::jumped();
    path.at(1_500);
    path.ack(90, 108);
    assert_eq!(path.lose(900), Answer::None);
    assert_eq!(path.told(), [(Phase::SafeRetreat, Some("packet_loss"))]);
}

#[test]
fn losses_of_what_was_sent_in_retreat_halve_the_window_again() {
    let mut path = Path::jumped();
    path.at(1_500);
    path.ack(30, 50);
    path.lose(900);
    path.at(1_600);
    assert_eq!(path.lose(1_550), Answer::None);
    assert_eq!(path.resumption.window(), Some(12 * PACKET));
    assert_eq!(path.lose(1_590), Answer::None);
    assert_eq!(path.resumption.window(), Some(12 * PACKET));
}

#[test]
fn a_retreat_leaves_two_packets() {
    let mut path = Path::new(Some((SAVED, RTT)));
    path.resumption.initial_window = 0;
    path.at(600);
    path.resumption.sample(RTT);
    path.ack(0, 0);
    path.send(1);
    assert_eq!(path.lose(0), Answer::None);
    assert_eq!(path.resumption.window(), Some(2 * PACKET));
}

#[test]
fn marks_are_congestion() {
    let mut path = Path::jumped();
    path.at(1_500);
    let sent = path.now;
    assert_eq!(path.resumption.congestion(path.now, sent, true, false), Answer::None);
    assert_eq!(path.told(), [(Phase::SafeRetreat, Some("ECN_CE"))]);
}

#[test]
fn persistent_congestion_ends_it() {
    let mut path = Path::jumped();
    path.at(5_000);
    let sent = path.zero + Duration::from_millis(900);
    assert_eq!(path.resumption.congestion(path.now, sent, false, true), Answer::Own);
    assert_eq!(path.told(), [(Phase::Normal, Some("packet_loss"))]);
    assert_eq!(path.resumption.order(), Some(Order::SlowStart { window: 99 * PACKET }));
}
