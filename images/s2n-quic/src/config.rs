//! From options to s2n-quic's configuration. What was not asked for stays at the stack's own default.

use std::net::SocketAddr;
use std::time::Duration;

use quic_endpoint::{Options, Result, options};
use s2n_quic::provider::congestion_controller::{Bbr, Cubic, bbr, cubic};
use s2n_quic::provider::event::events::SocketAddress;
use s2n_quic::provider::{endpoint_limits, io, limits, mtu};

use crate::handover::{Controllers, INITIAL_PACKETS, Newest};
use crate::paths::Watch;
use crate::rule::Rule;

/// Unless another is asked for: longer than the stack's 30 s, so that a path may be dead for a while.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than the stack's 10 s: a handshake with losses on a satellite path takes its time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// The smallest datagram that every path carries (RFC 9000 §14), with which s2n-quic begins.
const SMALLEST_PAYLOAD: u16 = 1200;
/// s2n-quic probes for a larger datagram only if it gains this much.
const WORTH_A_PROBE: u16 = 20;
const UDP_HEADER: u16 = 8;
const IPV4_HEADER: u16 = 20;
const IPV6_HEADER: u16 = 40;

/// s2n-quic's own option: most bytes of a stream that are not acknowledged yet.
pub const SEND_BUFFER: &str = "max-send-buffer";
/// Our own option: what the server's congestion window is after a migration.
pub const MIGRATION_CWND: &str = "migration-cwnd";

pub fn limits(options: &Options) -> Result<limits::Limits> {
    let parameters = &options.parameters;
    let idle_timeout = options.own.get("idle-timeout").map(|value| options::milliseconds("idle-timeout", value));
    let mut limits = limits::Limits::new()
        .with_max_idle_timeout(idle_timeout.transpose()?.unwrap_or(IDLE_TIMEOUT))?
        .with_max_handshake_duration(HANDSHAKE_TIMEOUT)?;
    if let Some(rtt) = parameters.initial_rtt {
        limits = limits.with_initial_round_trip_time(rtt)?;
    }
    if let Some(delay) = parameters.max_ack_delay {
        limits = limits.with_max_ack_delay(delay)?;
    }
    if let Some(bytes) = parameters.connection_window {
        limits = limits.with_data_window(bytes)?;
    }
    if let Some(bytes) = parameters.stream_window {
        limits = limits
            .with_bidirectional_local_data_window(bytes)?
            .with_bidirectional_remote_data_window(bytes)?
            .with_unidirectional_data_window(bytes)?;
    }
    if let Some(bytes) = options.own.get(SEND_BUFFER) {
        limits = limits.with_max_send_buffer_size(options::number(SEND_BUFFER, bytes)?)?;
    }
    Ok(limits)
}

pub fn io(options: &Options, local: SocketAddr) -> Result<io::tokio::Provider> {
    let mut builder = io::tokio::Provider::builder().with_receive_address(local)?;
    if options.parameters.gso == Some(false) {
        builder = builder.with_gso_disabled()?;
    }
    if let Some(payload) = Payload::of(options).largest {
        // The most that a path may ask for in turn, whatever its IP version.
        builder = builder.with_max_mtu(packet(payload, IPV6_HEADER)?)?;
    }
    Ok(builder.build()?)
}

/// An endpoint that has every client prove its address with --retry.
pub fn endpoint_limits(options: &Options) -> endpoint_limits::Default {
    let mut builder = endpoint_limits::Default::builder();
    if options.retry {
        let Ok(with_limit) = builder.with_inflight_handshake_limit(0);
        builder = with_limit;
    }
    let Ok(limits) = builder.build();
    limits
}

pub enum CongestionControl {
    Cubic(Cubic),
    Bbr(Bbr),
}

/// Bytes of so many packets of the size that a connection begins with.
fn window(options: &Options, packets: u32) -> u32 {
    packets.saturating_mul(Payload::of(options).first().into())
}

/// The server's controllers where its window after a migration is told, and who tells them of migrations.
pub fn handover(options: &Options) -> Result<Option<(Controllers, Watch)>> {
    let Some(name) = options.own.get(MIGRATION_CWND) else { return Ok(None) };
    let rule = Rule::parse(name).ok_or_else(|| format!("--{MIGRATION_CWND} is reset, keep or adaptive, not {name}"))?;
    match options.parameters.congestion_control.as_deref() {
        None | Some("cubic") => (),
        Some(other) => return Err(format!("--{MIGRATION_CWND} is for cubic, not {other}").into()),
    }
    let initial = window(options, options.parameters.initial_cwnd.unwrap_or(INITIAL_PACKETS));
    let newest = Newest::default();
    Ok(Some((Controllers::new(rule, initial, newest.clone()), Watch::new(newest))))
}

pub fn congestion_control(options: &Options) -> Result<CongestionControl> {
    let parameters = &options.parameters;
    let window = parameters.initial_cwnd.map(|packets| window(options, packets));
    match parameters.congestion_control.as_deref().unwrap_or("cubic") {
        "cubic" => {
            let mut builder = cubic::Builder::default();
            if let Some(bytes) = window {
                builder = builder.with_initial_congestion_window(bytes);
            }
            Ok(CongestionControl::Cubic(builder.build()))
        }
        "bbr" => {
            let mut builder = bbr::Builder::default();
            if let Some(bytes) = window {
                builder = builder.with_initial_congestion_window(bytes);
            }
            Ok(CongestionControl::Bbr(builder.build()))
        }
        other => Err(format!("no such congestion control: {other}").into()),
    }
}

/// The size of datagrams, which s2n-quic wants as that of IP packets.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    largest: Option<u16>,
    discovered: bool,
}

impl Payload {
    pub fn of(options: &Options) -> Self {
        let largest = options.parameters.max_udp_payload;
        let worthwhile = largest.is_none_or(|bytes| bytes >= SMALLEST_PAYLOAD + WORTH_A_PROBE);
        Self { largest, discovered: worthwhile && options.parameters.path_mtu_discovery != Some(false) }
    }

    /// With which a connection begins.
    fn first(self) -> u16 {
        match self.largest {
            Some(bytes) if !self.discovered => bytes,
            _ => SMALLEST_PAYLOAD,
        }
    }

    fn config(self, ip_header: u16, endpoint: mtu::Config) -> Result<mtu::Config> {
        let first = packet(self.first(), ip_header)?;
        let last = match self.largest {
            _ if !self.discovered => first,
            Some(bytes) => packet(bytes, ip_header)?,
            None => endpoint.max_mtu().into(),
        };
        Ok(mtu::Builder::default().with_max_mtu(last)?.with_initial_mtu(first)?.with_base_mtu(first)?.build()?)
    }
}

impl mtu::Endpoint for Payload {
    fn on_path(&mut self, path: &mtu::PathInfo, endpoint: mtu::Config) -> Option<mtu::Config> {
        if self.largest.is_none() && self.discovered {
            return None;
        }
        // An IPv4 address that a socket of both families shows as IPv6 counts as IPv6 for s2n-quic too.
        let ip_header = match path.remote_address {
            SocketAddress::IpV4 { .. } => IPV4_HEADER,
            _ => IPV6_HEADER,
        };
        self.config(ip_header, endpoint).ok()
    }
}

/// Size of the IP packet around a UDP payload.
fn packet(payload: u16, ip_header: u16) -> Result<u16> {
    let size = payload.checked_add(UDP_HEADER + ip_header).filter(|_| payload >= SMALLEST_PAYLOAD);
    size.ok_or_else(|| format!("{payload} bytes are not a size for UDP payloads of QUIC").into())
}
