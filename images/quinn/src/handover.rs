//! CUBIC that goes on over migrations by a rule of our choice, through quinn's public `ControllerFactory`.
//!
//! quinn builds a controller for each path. A change of nothing but the port over IPv4 is none to quinn: the controller
//! is copied.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig};
use quinn_proto::RttEstimator;

use crate::STACK;
use crate::rule::{Rule, adapted};
use crate::samples::Samples;

/// Packets of the initial window, as in Chromium.
pub const INITIAL_PACKETS: u32 = 32;

/// What a path leaves to the next one.
#[derive(Clone)]
struct Left {
    cubic: Cubic,
    rtt: Duration,
    /// When that was so first.
    at: Instant,
    /// What was so before.
    before: Option<Box<Left>>,
}

impl Left {
    /// What was left when a path began: without what the first packet from the client's new address did. Its
    /// acknowledgement, which is handled before the migration, took the new path, and overtook others on the old one.
    fn when(self, begun: Instant) -> Self {
        match self.before {
            Some(before) if self.at == begun => *before,
            _ => self,
        }
    }
}

/// Of one connection.
pub struct Factory {
    rule: Rule,
    /// Bytes.
    initial_window: u64,
    left: Arc<Mutex<Option<Left>>>,
}

impl Factory {
    pub fn new(rule: Rule, initial_window: u64) -> Self {
        Self { rule, initial_window, left: Arc::default() }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let old = self.left.lock().unwrap_or_else(PoisonError::into_inner).clone().map(|left| left.when(now));
        let mut config = CubicConfig::default();
        config.initial_window(self.initial_window);
        let config = Arc::new(config);
        let mut cubic = Cubic::new(config, now, current_mtu);
        if let (Rule::Keep, Some(old)) = (self.rule, &old) {
            cubic = old.cubic.clone();
            cubic.on_mtu_update(current_mtu);
        }
        Box::new(Handover {
            factory: self,
            begun: now,
            mtu: current_mtu,
            start: cubic.window(),
            cubic,
            old,
            samples: Samples::default(),
        })
    }
}

/// The controller of one path.
#[derive(Clone)]
struct Handover {
    factory: Arc<Factory>,
    /// What was sent before is another path's.
    begun: Instant,
    mtu: u16,
    /// The window it began with, bytes.
    start: u64,
    cubic: Cubic,
    /// What the path before left, until the first sample of this one.
    old: Option<Left>,
    samples: Samples,
}

impl Handover {
    /// The first RTT of the path is known.
    fn settle(&mut self, now: Instant, new: Duration) {
        let Some(old) = self.old.take() else { return };
        let initial = self.factory.initial_window;
        let window = adapted(old.cubic.window(), old.rtt, new, initial);
        if self.factory.rule == Rule::Adaptive && window > self.cubic.window() {
            let mut config = CubicConfig::default();
            config.initial_window(window);
            self.cubic = Cubic::new(Arc::new(config), now, self.mtu);
        }
        eprintln!(
            "{}-endpoint: migration: cwnd_old={} rtt_old={:.6} rtt_new={:.6} cwnd_new={}",
            STACK.name,
            old.cubic.window(),
            old.rtt.as_secs_f64(),
            new.as_secs_f64(),
            self.cubic.window()
        );
    }

    /// For the path after this one. A path that nothing was heard of leaves what the one before did.
    fn leave(&self, now: Instant) {
        if let Some(rtt) = self.samples.least() {
            let mut left = self.factory.left.lock().unwrap_or_else(PoisonError::into_inner);
            let before = left
                .take()
                .and_then(|old| if old.at == now { old.before } else { Some(Box::new(Left { before: None, ..old })) });
            *left = Some(Left { cubic: self.cubic.clone(), rtt, at: now, before });
        }
    }
}

impl Controller for Handover {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        // Datagrams are no larger than the MTU, so that there are as many packets at least.
        self.samples.sent(bytes.div_ceil(u64::from(self.mtu)), last_packet_number, now);
        self.cubic.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        // RFC 9000 §9.4: the old path's packets do not count.
        if sent >= self.begun {
            self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        if let Some(sample) = largest_packet_num_acked.and_then(|largest| self.samples.acked(largest, now)) {
            self.settle(now, sample);
        }
        self.cubic.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.leave(now);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        if sent >= self.begun {
            self.cubic.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
            self.leave(now);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.cubic.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.start
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
