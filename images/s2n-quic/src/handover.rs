//! CUBIC that goes on over migrations by a rule of our choice, through s2n-quic's unstable trait of controllers.
//!
//! s2n-quic asks for a controller as soon as a datagram comes from an address, tells of it by that address and not by its
//! connection, and keeps it, with an RTT estimator of its own, for as long as the connection lasts. Whose it is, and which
//! path the client goes on by, its events tell (`paths`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp, cubic,
};
use s2n_quic::provider::mtu;
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::recovery::CubicCongestionController;

use crate::STACK;
use crate::rule::{Rule, adapted};

/// Packets of the initial window, as in Chromium.
pub const INITIAL_PACKETS: u32 = 32;

/// What a path leaves to the next one.
#[derive(Clone, Debug)]
pub struct Left {
    cubic: CubicCongestionController,
    /// Of its datagrams, bytes.
    size: u16,
    rtt: Duration,
}

/// One path's.
#[derive(Debug)]
pub struct Path {
    rule: Rule,
    /// Bytes.
    initial_window: u32,
    /// Of datagrams, bytes.
    size: u16,
    cubic: CubicCongestionController,
    /// Whether `cubic` has seen a packet leave: it takes no RTT before.
    has_sent: bool,
    /// The least RTT.
    least: Option<Duration>,
    /// What the path before left, until the first packet after the move.
    left: Option<Left>,
    /// When that packet left, and what the path before left, until its RTT is known.
    awaited: Option<(Timestamp, Left)>,
}

impl Path {
    fn new(rule: Rule, initial_window: u32, size: u16) -> Self {
        Self {
            rule,
            initial_window,
            size,
            cubic: cubic_of(initial_window, size),
            has_sent: false,
            least: None,
            left: None,
            awaited: None,
        }
    }

    /// For the path after this one. A path that nothing was heard of since the client came leaves what the one before did.
    pub fn leaves(&self) -> Option<Left> {
        let inherited = self.left.as_ref().or(self.awaited.as_ref().map(|(_, left)| left));
        inherited.cloned().or_else(|| self.least.map(|rtt| Left { cubic: self.cubic.clone(), size: self.size, rtt }))
    }

    /// The client goes on by this path. It may have been there before.
    pub fn inherit(&mut self, left: Left) {
        self.awaited = None;
        self.left = Some(left);
    }

    /// The first packet after the move leaves.
    fn begin(&mut self, left: Left, now: Timestamp, rtt: &RttEstimator, publisher: &mut impl Publisher) {
        let anew = match self.rule {
            Rule::Keep => {
                let mut kept = left.cubic.clone();
                // What is under way on the old path is the old controller's.
                kept.on_packet_discarded(kept.bytes_in_flight() as usize, publisher);
                kept
            }
            Rule::Reset | Rule::Adaptive => cubic_of(self.initial_window, self.size),
        };
        self.replace(anew, now, rtt, publisher);
        self.awaited = Some((now, left));
    }

    /// The RTT of a packet that was sent after the move is known. s2n-quic takes samples of a path from what was sent and
    /// acknowledged on it alone.
    fn settle(
        &mut self,
        left: &Left,
        new: Duration,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut impl Publisher,
    ) {
        let before = left.cubic.congestion_window();
        let window = adapted(before, left.rtt, new, self.initial_window);
        if self.rule == Rule::Adaptive && window > self.cubic.congestion_window() {
            // CUBIC scales its window with its datagrams. These have been as large before: to find that again is no reason.
            self.replace(cubic_of(window, self.size.max(left.size)), now, rtt, publisher);
        }
        eprintln!(
            "{}-endpoint: migration: cwnd_old={before} rtt_old={:.6} rtt_new={:.6} cwnd_new={}",
            STACK.name,
            left.rtt.as_secs_f64(),
            new.as_secs_f64(),
            self.cubic.congestion_window()
        );
    }

    /// Goes on with another CUBIC, which takes over what is under way here.
    fn replace(
        &mut self,
        mut anew: CubicCongestionController,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut impl Publisher,
    ) {
        let in_flight = self.cubic.bytes_in_flight() as usize;
        self.has_sent = in_flight > 0;
        if self.has_sent {
            anew.on_packet_sent(now, in_flight, None, rtt, publisher);
        }
        self.cubic = anew;
    }
}

/// CUBIC with a window of so many bytes, for datagrams of such a size. Nothing but the crate's own endpoint makes one.
fn cubic_of(window: u32, size: u16) -> CubicCongestionController {
    // It reads nothing else of the path.
    let address = SocketAddress::default();
    let mut path = PathInfo::new(&mtu::Config::default(), &address);
    path.max_datagram_size = size;
    cubic::Builder::default().with_initial_congestion_window(window).build().new_congestion_controller(path)
}

/// A path, for its controller and for those who watch over the connection.
pub type Shared = Arc<Mutex<Path>>;
/// The path that was made last, until it is known whose it is.
pub type Newest = Arc<Mutex<Option<Shared>>>;

pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the controllers of all connections.
#[derive(Debug)]
pub struct Controllers {
    rule: Rule,
    /// Bytes.
    initial_window: u32,
    newest: Newest,
}

impl Controllers {
    pub fn new(rule: Rule, initial_window: u32, newest: Newest) -> Self {
        Self { rule, initial_window, newest }
    }
}

impl Endpoint for Controllers {
    type CongestionController = Handover;

    fn new_congestion_controller(&mut self, path: PathInfo) -> Handover {
        let path = Path::new(self.rule, self.initial_window, path.max_datagram_size);
        let path = Shared::new(Mutex::new(path));
        *lock(&self.newest) = Some(path.clone());
        Handover(path)
    }
}

/// The controller of one path. s2n-quic copies it once, as it makes the connection, and lets go of the original.
#[derive(Clone, Debug)]
pub struct Handover(Shared);

impl CongestionController for Handover {
    type PacketInfo = ();

    fn congestion_window(&self) -> u32 {
        lock(&self.0).cubic.congestion_window()
    }

    fn bytes_in_flight(&self) -> u32 {
        lock(&self.0).cubic.bytes_in_flight()
    }

    fn is_congestion_limited(&self) -> bool {
        lock(&self.0).cubic.is_congestion_limited()
    }

    fn requires_fast_retransmission(&self) -> bool {
        lock(&self.0).cubic.requires_fast_retransmission()
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut Pub,
    ) {
        let path = &mut *lock(&self.0);
        if let Some(left) = path.left.take() {
            path.begin(left, time_sent, rtt, publisher);
        }
        path.has_sent |= sent_bytes > 0;
        path.cubic.on_packet_sent(time_sent, sent_bytes, app_limited, rtt, publisher);
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut Pub,
    ) {
        let path = &mut *lock(&self.0);
        path.least = Some(path.least.map_or(rtt.latest_rtt(), |least| least.min(rtt.latest_rtt())));
        if let Some((_, left)) = path.awaited.take_if(|(since, _)| time_sent >= *since) {
            path.settle(&left, rtt.latest_rtt(), now, rtt, publisher);
        }
        if path.has_sent {
            path.cubic.on_rtt_update(time_sent, now, rtt, publisher);
        }
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        info: (),
        rtt: &RttEstimator,
        random: &mut dyn RandomGenerator,
        ack_receive_time: Timestamp,
        publisher: &mut Pub,
    ) {
        let cubic = &mut lock(&self.0).cubic;
        cubic.on_ack(newest_acked_time_sent, bytes_acknowledged, info, rtt, random, ack_receive_time, publisher);
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        info: (),
        persistent_congestion: bool,
        new_loss_burst: bool,
        random: &mut dyn RandomGenerator,
        timestamp: Timestamp,
        publisher: &mut Pub,
    ) {
        let cubic = &mut lock(&self.0).cubic;
        cubic.on_packet_lost(lost_bytes, info, persistent_congestion, new_loss_burst, random, timestamp, publisher);
    }

    fn on_explicit_congestion<Pub: Publisher>(&mut self, ce_count: u64, event_time: Timestamp, publisher: &mut Pub) {
        lock(&self.0).cubic.on_explicit_congestion(ce_count, event_time, publisher);
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, publisher: &mut Pub) {
        let path = &mut *lock(&self.0);
        path.size = max_data_size;
        path.cubic.on_mtu_update(max_data_size, publisher);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, publisher: &mut Pub) {
        lock(&self.0).cubic.on_packet_discarded(bytes_sent, publisher);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        lock(&self.0).cubic.earliest_departure_time()
    }
}
