//! Careful Resume (RFC 9959): the phases in which a connection comes to use the capacity that an earlier one had. Pure:
//! its tests need no more than this file and the one of its tests.

use std::time::{Duration, Instant};

/// PipeSize that is left as ssthresh after a retreat (the RFC's Beta, whose default it is).
const BETA: f64 = 0.5;
/// So many times as long as it was, a round trip tells of another path (RFC 9959, notes on confirming the path).
const LONGER: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Reconnaissance,
    Unvalidated,
    Validating,
    SafeRetreat,
    Normal,
}

impl Phase {
    /// In qlog (draft-ietf-tsvwg-careful-resume-qlog-02).
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reconnaissance => "reconnaissance",
            Phase::Unvalidated => "unvalidated",
            Phase::Validating => "validating",
            Phase::SafeRetreat => "safe_retreat",
            Phase::Normal => "normal",
        }
    }
}

/// Why a phase ended, by its name in qlog.
pub type Trigger = &'static str;

/// One change, and the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub old: Option<Phase>,
    pub new: Phase,
    pub trigger: Option<Trigger>,
    /// The RFC's PipeSize, bytes.
    pub pipe: u64,
    /// Packet numbers; 0 before there are unvalidated packets.
    pub first_unvalidated: u64,
    pub last_unvalidated: u64,
}

/// What the congestion control goes on with from now on. Windows and thresholds in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Slow start, from this window.
    SlowStart { window: u64 },
    /// Slow start from this window up to a threshold.
    UpTo { window: u64, threshold: u64 },
}

/// What becomes of a sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The congestion control's own.
    Own,
    /// It has been answered.
    None,
}

/// What an acknowledgement has brought about, unless it turns out to tell of losses too: that is known after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Jump,
    Validated,
    Recovered,
}

/// Of one connection over one path.
#[derive(Clone, Debug)]
pub struct Resumption {
    phase: Phase,
    due: Option<Due>,
    /// Bytes.
    initial_window: u64,
    saved_window: u64,
    saved_rtt: Duration,
    /// Bytes of the initial data that have not arrived: what was out when the first acknowledgement came while there was
    /// more to send than was let through.
    missing: Option<u64>,
    least_rtt: Option<Duration>,
    latest_rtt: Duration,
    /// Bytes that have been shown to fit (PipeSize).
    pipe: u64,
    flight: u64,
    /// That is in force instead of the congestion control's own, bytes.
    window: u64,
    /// When the phase began.
    entered: Instant,
    /// What the largest datagram takes, bytes.
    room: u64,
    last_sent: u64,
    first_unvalidated: u64,
    last_unvalidated: u64,
    /// What was sent until then has had its answer, should it be lost.
    answered: Option<Instant>,
    changes: Vec<Change>,
    order: Option<Order>,
}

impl Resumption {
    /// `saved`: capacity (bytes that arrived in a round trip) and least RTT of an earlier connection; without them there
    /// is nothing to resume.
    pub fn new(saved: Option<(u64, Duration)>, initial_window: u64, now: Instant) -> Self {
        let (saved_window, saved_rtt) = saved.unwrap_or_default();
        let mut resumption = Self {
            phase: Phase::Reconnaissance,
            due: None,
            initial_window,
            saved_window,
            saved_rtt,
            missing: None,
            least_rtt: None,
            latest_rtt: Duration::ZERO,
            pipe: 0,
            flight: 0,
            window: 0,
            entered: now,
            room: 0,
            last_sent: 0,
            first_unvalidated: 0,
            last_unvalidated: 0,
            answered: None,
            changes: Vec::new(),
            order: None,
        };
        resumption.note(None, None);
        if saved.is_none() {
            resumption.enter(Phase::Normal, now, None);
        }
        resumption
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The congestion window, bytes, where it is not the congestion control's own.
    pub fn window(&self) -> Option<u64> {
        match self.phase {
            Phase::Unvalidated | Phase::SafeRetreat => Some(self.window),
            _ if self.due == Some(Due::Jump) => Some(self.jump()),
            _ => None,
        }
    }

    /// Changes since this was last asked.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// What the congestion control has to go on with, once.
    pub fn order(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// A datagram or several left, up to packet `last`. `room`: what the largest one takes, bytes.
    pub fn sent(&mut self, now: Instant, bytes: u64, last: u64, room: u64) {
        self.settle(now);
        self.last_sent = last;
        self.room = room;
        self.flight += bytes;
        if self.phase == Phase::Unvalidated {
            self.last_unvalidated = last;
            if self.flight + room >= self.window {
                self.evaluate(now, "last_unvalidated_packet_sent");
            } else {
                self.limit_time(now);
            }
        }
    }

    /// Of an RTT.
    pub fn sample(&mut self, rtt: Duration) {
        self.latest_rtt = rtt;
        self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// A packet arrived.
    pub fn acked(&mut self, now: Instant, bytes: u64) {
        self.settle(now);
        match self.phase {
            Phase::Reconnaissance => self.missing = self.missing.map(|missing| missing.saturating_sub(bytes)),
            Phase::Unvalidated | Phase::Validating | Phase::SafeRetreat => self.pipe += bytes,
            Phase::Normal => (),
        }
    }

    /// An acknowledgement has been gone through. `flight`: bytes, `largest`: the largest acknowledged packet,
    /// `window_limited`: whether there was more to send than window and pacer let through.
    pub fn end_acks(&mut self, now: Instant, flight: u64, largest: Option<u64>, window_limited: bool) {
        self.flight = flight;
        let reached = |number: u64| largest.is_some_and(|largest| largest >= number);
        match self.phase {
            Phase::Reconnaissance if window_limited => {
                if *self.missing.get_or_insert(flight) == 0 {
                    self.confirm(now);
                }
            }
            Phase::Unvalidated if self.is_shorter() => self.retreat(now, "path_changed"),
            Phase::Unvalidated if reached(self.first_unvalidated) => {
                self.evaluate(now, "first_unvalidated_packet_acknowledged");
            }
            Phase::Unvalidated => self.limit_time(now),
            Phase::Validating if reached(self.last_unvalidated) => self.due = Some(Due::Validated),
            Phase::SafeRetreat if reached(self.last_unvalidated) => self.due = Some(Due::Recovered),
            _ => (),
        }
    }

    /// A packet sent at `sent` was lost, or `marked`.
    pub fn congestion(&mut self, now: Instant, sent: Instant, marked: bool, persistent: bool) -> Answer {
        let trigger = if marked { "ECN_CE" } else { "packet_loss" };
        self.due = self.due.filter(|due| *due == Due::Recovered);
        match self.phase {
            Phase::Normal if self.answered.is_some_and(|until| sent <= until) && !persistent => Answer::None,
            Phase::Normal => Answer::Own,
            Phase::Reconnaissance => {
                self.enter(Phase::Normal, now, Some(trigger));
                Answer::Own
            }
            _ if persistent => {
                self.order = Some(Order::SlowStart { window: self.window });
                self.enter(Phase::Normal, now, Some(trigger));
                Answer::Own
            }
            Phase::SafeRetreat if sent <= self.entered => Answer::None,
            _ => {
                self.retreat(now, trigger);
                Answer::None
            }
        }
    }

    fn jump(&self) -> u64 {
        self.saved_window / 2
    }

    /// The initial data have arrived: is it the same path?
    fn confirm(&mut self, now: Instant) {
        let Some(rtt) = self.least_rtt else { return };
        if self.is_shorter() || rtt > self.saved_rtt * LONGER {
            self.enter(Phase::Normal, now, Some("rtt_not_validated"));
        } else {
            self.due = Some(Due::Jump);
        }
    }

    /// Than half of what it was: a window of half the saved one would go out faster than it ever did.
    fn is_shorter(&self) -> bool {
        self.least_rtt.is_some_and(|rtt| rtt <= self.saved_rtt / 2)
    }

    /// The last acknowledgement told of no congestion.
    fn settle(&mut self, now: Instant) {
        match self.due.take() {
            None => (),
            Some(Due::Jump) => {
                self.pipe = self.flight;
                self.window = self.jump();
                self.first_unvalidated = self.last_sent + 1;
                self.last_unvalidated = self.first_unvalidated;
                self.enter(Phase::Unvalidated, now, Some("congestion_window_limited"));
            }
            Some(Due::Validated) => self.enter(Phase::Normal, now, Some("last_unvalidated_packet_acknowledged")),
            Some(Due::Recovered) => {
                let threshold = (self.pipe as f64 * BETA) as u64;
                self.order = Some(Order::UpTo { window: self.window, threshold: threshold.max(self.window) });
                self.answered = Some(self.entered);
                self.enter(Phase::Normal, now, Some("exit_recovery"));
            }
        }
    }

    fn limit_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.entered) > self.latest_rtt {
            self.evaluate(now, "rtt_exceeded");
        }
    }

    /// No more goes out unvalidated: the window is what is out.
    fn evaluate(&mut self, now: Instant, trigger: Trigger) {
        if self.flight < self.initial_window || self.flight <= self.pipe {
            self.order = Some(Order::SlowStart { window: self.pipe.max(self.initial_window) });
            self.enter(Phase::Normal, now, Some("rate_limited"));
        } else {
            self.order = Some(Order::SlowStart { window: self.flight });
            self.window = self.flight;
            self.enter(Phase::Validating, now, Some(trigger));
        }
    }

    fn retreat(&mut self, now: Instant, trigger: Trigger) {
        // RFC 9002 §7.2.
        let least = 2 * self.room;
        if self.phase == Phase::SafeRetreat {
            // What was sent in retreat is lost, too.
            self.window = (self.window / 2).max(least);
            self.entered = now;
            return;
        }
        if self.phase == Phase::Unvalidated {
            self.last_unvalidated = self.last_sent;
        }
        self.window = (self.pipe / 2).max(least);
        self.order = None;
        self.enter(Phase::SafeRetreat, now, Some(trigger));
    }

    fn enter(&mut self, phase: Phase, now: Instant, trigger: Option<Trigger>) {
        let old = self.phase;
        self.phase = phase;
        self.entered = now;
        self.note(Some(old), trigger);
    }

    fn note(&mut self, old: Option<Phase>, trigger: Option<Trigger>) {
        self.changes.push(Change {
            old,
            new: self.phase,
            trigger,
            pipe: self.pipe,
            first_unvalidated: self.first_unvalidated,
            last_unvalidated: self.last_unvalidated,
        });
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
