//! CUBIC that goes through the phases of Careful Resume (RFC 9959), through quinn's public `ControllerFactory`.
//!
//! quinn paces by window and smoothed RTT, a quarter faster than a window a round trip (RFC 9002 §7.7), and lets nobody
//! else set a rate: so are the unvalidated packets.

use std::any::Any;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig};
use quinn_proto::RttEstimator;

use crate::STACK;
use crate::memory::{Memory, Observer, Saved};
use crate::phase::{Answer, Change, Order, Phase, Resumption};
use crate::samples::Samples;
use crate::trace::Trace;

/// Packets of 1200 bytes in the initial window, unless told (RFC 9002 §7.2).
pub const INITIAL_PACKETS: u32 = 10;
/// CUBIC's multiplicative decrease (RFC 9438 §4.6), which comes twice with persistent congestion: on the window, and on
/// the threshold.
const REDUCTION: f64 = 0.7 * 0.7;

/// What a server's connections share.
pub type SharedMemory = Arc<Mutex<Memory>>;

/// Of one connection.
pub struct Factory {
    pub memory: SharedMemory,
    pub client: IpAddr,
    /// Bytes.
    pub initial_window: u64,
    pub trace: Option<Trace>,
    /// Whether there is a controller: those after the first are of other paths, of which nothing is remembered.
    pub built: AtomicBool,
}

impl Factory {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cubic(&self, window: u64, now: Instant, mtu: u16) -> Cubic {
        let mut config = CubicConfig::default();
        config.initial_window(window);
        Cubic::new(Arc::new(config), now, mtu)
    }

    fn saved(&self, now: Instant) -> Option<Saved> {
        match self.memory().take(self.client, now) {
            Ok(saved) => Some(saved),
            Err(why) => {
                eprintln!("{}-endpoint: careful resume: {why}", STACK.name);
                None
            }
        }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let first = !self.built.swap(true, Ordering::Relaxed);
        let saved = if first { self.saved(now) } else { None };
        let window = self.initial_window;
        let mut controller = Resume {
            cubic: self.cubic(window, now, current_mtu),
            resumption: Resumption::new(saved.map(|saved| (saved.window, saved.rtt)), window, now),
            observer: first.then(|| Observer::new(window)),
            factory: self,
            mtu: current_mtu,
            saved,
            samples: Samples::default(),
            order: None,
        };
        controller.tell(now);
        Box::new(controller)
    }
}

/// The controller of one path.
#[derive(Clone)]
struct Resume {
    factory: Arc<Factory>,
    mtu: u16,
    cubic: Cubic,
    resumption: Resumption,
    /// Of the connection's first path.
    observer: Option<Observer>,
    saved: Option<Saved>,
    samples: Samples,
    /// What CUBIC is to go on with from the next acknowledgement on.
    order: Option<Order>,
}

impl Resume {
    /// Sees to what CUBIC has to go on with, and notes what has changed.
    fn tell(&mut self, now: Instant) {
        match self.resumption.order() {
            Some(Order::SlowStart { window }) => self.cubic = self.factory.cubic(window, now, self.mtu),
            Some(order) => self.order = Some(order),
            None => (),
        }
        for change in self.resumption.changes() {
            if let Some(trace) = &self.factory.trace {
                trace.event(now, "recovery:careful_resume_phase_updated", &self.event(change));
            }
            if change.new == Phase::SafeRetreat {
                self.factory.memory().forget(self.factory.client);
            }
        }
    }

    /// Data of the event (draft-ietf-tsvwg-careful-resume-qlog-02).
    fn event(&self, change: Change) -> String {
        let old = change.old.map(|old| format!("\"old\":\"{}\",", old.name())).unwrap_or_default();
        let trigger = change.trigger.map(|why| format!(",\"trigger\":\"{why}\"")).unwrap_or_default();
        let restored = self.saved.map(|saved| {
            let rtt = saved.rtt.as_secs_f64() * 1e3;
            format!(",\"restored_data\":{{\"saved_congestion_window\":{},\"saved_rtt\":{rtt:.3}}}", saved.window)
        });
        format!(
            "{{{old}\"new\":\"{}\",\"state_data\":{{\"pipesize\":{},\"first_unvalidated_packet\":{},\
             \"last_unvalidated_packet\":{},\"congestion_window\":{}}}{}{trigger}}}",
            change.new.name(),
            change.pipe,
            change.first_unvalidated,
            change.last_unvalidated,
            self.window(),
            restored.unwrap_or_default()
        )
    }

    /// CUBIC in slow start up to a threshold. quinn gives no other way to one than by persistent congestion, which leaves
    /// two packets, and an acknowledgement of the rest.
    fn go_on(&mut self, now: Instant, window: u64, threshold: u64, rtt: &RttEstimator) {
        let before = (threshold as f64 / REDUCTION).ceil() as u64;
        self.cubic = self.factory.cubic(before, now, self.mtu);
        self.cubic.on_congestion_event(now, now, true, 0);
        let missing = window.saturating_sub(self.cubic.window());
        if missing > 0 {
            self.cubic.on_ack(now, now, missing, false, rtt);
        }
    }
}

impl Controller for Resume {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        // Datagrams are no larger than the MTU, so that there are as many packets at least.
        self.samples.sent(bytes.div_ceil(u64::from(self.mtu)), last_packet_number, now);
        self.resumption.sent(now, bytes, last_packet_number, u64::from(self.mtu));
        self.tell(now);
        self.cubic.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.resumption.acked(now, bytes);
        self.tell(now);
        if let Some(Order::UpTo { window, threshold }) = self.order.take() {
            self.go_on(now, window, threshold, rtt);
        }
        let phase = self.resumption.phase();
        if phase != Phase::Unvalidated && phase != Phase::SafeRetreat {
            self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
        }
        let least = self.samples.least();
        if phase == Phase::Normal
            && let Some(observer) = &mut self.observer
            && let Some(window) = observer.acked(now, bytes, !app_limited, least)
            && let Some(rtt) = least
        {
            self.factory.memory().keep(self.factory.client, Saved { window, rtt, at: now });
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        if let Some(sample) = largest_packet_num_acked.and_then(|largest| self.samples.acked(largest, now)) {
            self.resumption.sample(sample);
        }
        self.resumption.end_acks(now, in_flight, largest_packet_num_acked, !app_limited);
        self.tell(now);
        self.cubic.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        // quinn counts no lost bytes where packets were marked.
        let marked = lost_bytes == 0;
        let answer = self.resumption.congestion(now, sent, marked, is_persistent_congestion);
        self.tell(now);
        if answer == Answer::Own {
            if let Some(Order::UpTo { window, .. }) = self.order.take() {
                self.cubic = self.factory.cubic(window, now, self.mtu);
            }
            self.cubic.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        match (self.resumption.window(), self.order) {
            (Some(window), _) | (None, Some(Order::UpTo { window, .. })) => window,
            _ => self.cubic.window(),
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.cubic.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.factory.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
