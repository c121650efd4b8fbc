//! From options to noq's and rustls' configuration.

use std::io::BufWriter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{
    AckFrequencyConfig, ConnectionId, MtuDiscoveryConfig, QlogConfig, QlogFactory, Side, TransportConfig, VarInt,
};
use quic_endpoint::{Options, Parameters, Result, Role, logs, options, tls};
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Suite;

/// Of UDP payloads, before discovery has found more (RFC 9000 §14.1).
const SMALLEST_PAYLOAD: u16 = 1200;
/// Unless another is asked for: long enough for any path under test to come back.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub fn transport(options: &Options) -> Result<Arc<TransportConfig>> {
    let parameters = &options.parameters;
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle_timeout(options)?.try_into()?));
    if let Some(rtt) = parameters.initial_rtt {
        transport.initial_rtt(rtt);
    }
    if let Some(bytes) = parameters.connection_window {
        transport.receive_window(bytes.try_into()?);
    }
    if let Some(bytes) = parameters.stream_window {
        transport.stream_receive_window(bytes.try_into()?);
    }
    if let Some(on) = parameters.gso {
        transport.enable_segmentation_offload(on);
    }
    if let Some(ratio) = parameters.ask_ack_ratio {
        // noq's threshold counts the packets that go without an ACK.
        let threshold = ratio.checked_sub(1).ok_or("--ask-ack-ratio is at least 1")?;
        let mut ask = AckFrequencyConfig::default();
        ask.ack_eliciting_threshold(VarInt::from_u32(threshold));
        transport.ack_frequency_config(Some(ask));
    }
    let payload = set_payload(&mut transport, parameters);
    transport.congestion_controller_factory(congestion_control(options, payload)?);
    transport.qlog_factory(Arc::new(Qlogs(options.role)));
    Ok(Arc::new(transport))
}

fn idle_timeout(options: &Options) -> Result<Duration> {
    let asked = options.own.get("idle-timeout").map(|value| options::milliseconds("idle-timeout", value));
    Ok(asked.transpose()?.unwrap_or(IDLE_TIMEOUT))
}

/// Sets the size of datagrams and returns the one in force at the start. A size that is asked for is fixed, unless
/// discovery up to it is asked for as well.
fn set_payload(transport: &mut TransportConfig, parameters: &Parameters) -> u16 {
    let discovery = parameters.path_mtu_discovery;
    match parameters.max_udp_payload {
        Some(largest) if discovery == Some(true) => {
            let mut search = MtuDiscoveryConfig::default();
            search.upper_bound(largest);
            transport.mtu_discovery_config(Some(search));
            SMALLEST_PAYLOAD
        }
        Some(size) => {
            transport.initial_mtu(size).mtu_discovery_config(None);
            size
        }
        None => {
            if discovery == Some(false) {
                transport.mtu_discovery_config(None);
            }
            SMALLEST_PAYLOAD
        }
    }
}

fn congestion_control(options: &Options, payload: u16) -> Result<Arc<dyn ControllerFactory + Send + Sync + 'static>> {
    let parameters = &options.parameters;
    let algorithm = parameters.congestion_control.as_deref().unwrap_or("cubic");
    let initial_window = parameters.initial_cwnd.map(|packets| u64::from(packets) * u64::from(payload));
    macro_rules! controller {
        ($config:ident) => {{
            let mut config = $config::default();
            if let Some(bytes) = initial_window {
                config.initial_window(bytes);
            }
            Ok(Arc::new(config))
        }};
    }
    match algorithm {
        "reno" => controller!(NewRenoConfig),
        "cubic" => controller!(CubicConfig),
        "bbr3" => controller!(Bbr3Config),
        other => Err(format!("no such congestion control: {other}").into()),
    }
}

/// The qlogs of a role's connections, a file each.
struct Qlogs(Role);

impl QlogFactory for Qlogs {
    fn for_connection(&self, _: Side, _: SocketAddr, id: ConnectionId, _: Instant) -> Option<QlogConfig> {
        let file = logs::qlog("noq", self.0, &id).unwrap_or_else(|error| {
            eprintln!("noq-endpoint: {error}");
            None
        })?;
        let mut qlog = QlogConfig::new(Box::new(BufWriter::new(file)));
        qlog.title(Some(format!("noq {}", self.0.name())));
        Some(qlog)
    }
}

/// A test case beyond those that all programs share (run_endpoint.sh).
pub fn is_asked(testcase: &str) -> bool {
    std::env::var("ASKED").is_ok_and(|asked| asked == testcase)
}

/// With ChaCha20-Poly1305 alone where that is asked for, and what protects Initial packets (RFC 9001 §5.2).
fn suites(mut provider: CryptoProvider) -> (CryptoProvider, Suite) {
    let initial = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).expect("QUIC has it");
    if is_asked("chacha20") {
        provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    }
    (provider, initial)
}

pub fn client_crypto(options: &Options) -> Result<QuicClientConfig> {
    let (provider, initial) = suites(rustls::crypto::ring::default_provider());
    Ok(QuicClientConfig::with_initial(Arc::new(tls::client(options, provider)?), initial)?)
}

/// Of the first connection and of those after it, which share their tickets.
pub fn server_crypto(options: &Options) -> Result<[Arc<QuicServerConfig>; 2]> {
    let (provider, initial) = suites(rustls::crypto::ring::default_provider());
    let first = tls::server(options, provider)?;
    let mut later = first.clone();
    if is_asked("zerortt-rejected") {
        later.max_early_data_size = 0;
    }
    let quic = |tls| -> Result<_> { Ok(Arc::new(QuicServerConfig::with_initial(Arc::new(tls), initial)?)) };
    Ok([quic(first)?, quic(later)?])
}
