//! From options to quinn's and rustls' configuration.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quic_endpoint::{Options, Parameters, Result, logs, options, tls};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{AckFrequencyConfig, ConnectionId, MtuDiscoveryConfig, QlogConfig, QlogStream, TransportConfig, VarInt};
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Suite;

use crate::resume::SharedMemory;
use crate::rule::Rule;
use crate::trace::Trace;
use crate::{handover, resume};

/// Our own option: what the server's congestion window is after a migration.
pub const MIGRATION_CWND: &str = "migration-cwnd";
/// Our own option: what a second connection starts from.
pub const BDP_SEED: &str = "bdp-seed";
/// Of UDP payloads, before discovery has found more (RFC 9000 §14.1).
const SMALLEST_PAYLOAD: u16 = 1200;
/// Unless another is asked for: long enough for any path under test to come back.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// For one connection, since a qlog goes with its configuration.
///
/// `remembered`: what a server remembers of paths, and the address of this connection's client.
pub fn transport(
    options: &Options,
    id: &ConnectionId,
    remembered: Option<(SharedMemory, IpAddr)>,
) -> Result<Arc<TransportConfig>> {
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
        // quinn's threshold counts the packets that go without an ACK.
        let threshold = ratio.checked_sub(1).ok_or("--ask-ack-ratio is at least 1")?;
        let mut ask = AckFrequencyConfig::default();
        ask.ack_eliciting_threshold(VarInt::from_u32(threshold));
        transport.ack_frequency_config(Some(ask));
    }
    let payload = set_payload(&mut transport, parameters);
    let trace = logs::qlog("quinn", options.role, id)?.map(Trace::new);
    transport.congestion_controller_factory(match remembered {
        Some((memory, client)) => Arc::new(resume::Factory {
            memory,
            client,
            initial_window: initial_window(parameters, payload, resume::INITIAL_PACKETS),
            trace: trace.clone(),
            built: AtomicBool::new(false),
        }),
        None => congestion_control(options, payload)?,
    });
    transport.qlog_stream(trace.and_then(|trace| qlog(options, trace)));
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

/// Bytes.
fn initial_window(parameters: &Parameters, payload: u16, untold: u32) -> u64 {
    u64::from(parameters.initial_cwnd.unwrap_or(untold)) * u64::from(payload)
}

/// What a server's connections are to share, if they are to remember their paths.
pub fn memory(options: &Options) -> Result<Option<SharedMemory>> {
    match options.own.get(BDP_SEED).map(String::as_str) {
        None | Some("off") => return Ok(None),
        Some("careful-resume") => (),
        Some(other) => return Err(format!("--{BDP_SEED} is off or careful-resume, not {other}").into()),
    }
    let algorithm = options.parameters.congestion_control.as_deref().unwrap_or("cubic");
    if algorithm != "cubic" {
        return Err(format!("--{BDP_SEED} is for cubic, not {algorithm}").into());
    }
    if options.own.contains_key(MIGRATION_CWND) {
        return Err(format!("--{BDP_SEED} does not go with --{MIGRATION_CWND}").into());
    }
    Ok(Some(SharedMemory::default()))
}

fn congestion_control(options: &Options, payload: u16) -> Result<Arc<dyn ControllerFactory + Send + Sync + 'static>> {
    let parameters = &options.parameters;
    let algorithm = parameters.congestion_control.as_deref().unwrap_or("cubic");
    if let Some(name) = options.own.get(MIGRATION_CWND) {
        let rule =
            Rule::parse(name).ok_or_else(|| format!("--{MIGRATION_CWND} is reset, keep or adaptive, not {name}"))?;
        if algorithm != "cubic" {
            return Err(format!("--{MIGRATION_CWND} is for cubic, not {algorithm}").into());
        }
        let window = initial_window(parameters, payload, handover::INITIAL_PACKETS);
        return Ok(Arc::new(handover::Factory::new(rule, window)));
    }
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
        "bbr" => controller!(BbrConfig),
        other => Err(format!("no such congestion control: {other}").into()),
    }
}

fn qlog(options: &Options, trace: Trace) -> Option<QlogStream> {
    let mut qlog = QlogConfig::default();
    qlog.start_time(trace.start);
    qlog.writer(Box::new(trace));
    qlog.title(Some(format!("quinn {}", options.role.name())));
    qlog.into_stream()
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
