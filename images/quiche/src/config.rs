//! From options to quiche's configuration, and the logs each connection writes.

use std::fs::OpenOptions;
use std::io::BufWriter;
use std::time::Duration;

use quic_endpoint::options::{milliseconds, on_or_off};
use quic_endpoint::{Options, Parameters, Result, Role, logs};
use quiche::{Config, Connection, ConnectionId, PROTOCOL_VERSION};

use crate::sieve::Sieve;

/// Flow-control credit, bytes: what quiche's own programs start with, and quiche's bounds for its growth.
const CONNECTION_WINDOW: (u64, u64) = (10_000_000, 24 << 20);
const STREAM_WINDOW: (u64, u64) = (1_000_000, 16 << 20);
/// Of UDP payloads, as in quiche's own programs.
const FIXED_PAYLOAD: u16 = 1350;
/// What an Ethernet takes over IPv4: where the search for larger packets ends.
const LARGEST_PAYLOAD: u16 = 1472;
const MAX_STREAMS: u64 = 100;
/// One that no server has (RFC 9000 §15), which quiche's client goes on from to a version of the server's.
const RESERVED_VERSION: u32 = 0xbaba_baba;
/// Unless another is asked for: long enough for any path under test to come back.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub fn transport(options: &Options) -> Result<Config> {
    let parameters = &options.parameters;
    let begins_unknown = options.role == Role::Client && is_asked("versionnegotiation");
    let mut config = Config::new(if begins_unknown { RESERVED_VERSION } else { PROTOCOL_VERSION })?;
    config.set_application_protos(&[options.protocol.name().as_bytes()])?;
    if let Some(name) = &parameters.congestion_control {
        config.set_cc_algorithm_name(name).map_err(|_| format!("no such congestion control: {name}"))?;
    }
    if let Some(value) = options.own.get("hystart") {
        config.enable_hystart(on_or_off("hystart", value)?);
    }
    if let Some(rtt) = parameters.initial_rtt {
        config.set_initial_rtt(rtt);
    }
    if let Some(packets) = parameters.initial_cwnd {
        config.set_initial_congestion_window_packets(packets as usize);
    }
    set_windows(&mut config, parameters);
    config.set_initial_max_streams_bidi(MAX_STREAMS);
    config.set_initial_max_streams_uni(MAX_STREAMS);
    if let Some(exponent) = parameters.ack_delay_exponent {
        config.set_ack_delay_exponent(exponent.into());
    }
    if let Some(delay) = parameters.max_ack_delay {
        config.set_max_ack_delay(delay.as_millis().try_into()?);
    }
    let payload = largest_payload(parameters);
    config.set_max_send_udp_payload_size(payload);
    config.set_max_recv_udp_payload_size(payload.max(1500));
    config.discover_pmtu(parameters.path_mtu_discovery == Some(true));
    let idle_timeout = options.own.get("idle-timeout").map(|value| milliseconds("idle-timeout", value)).transpose()?;
    config.set_max_idle_timeout(idle_timeout.unwrap_or(IDLE_TIMEOUT).as_millis().try_into()?);
    config.set_active_connection_id_limit(4);
    config.verify_peer(false);
    if options.early_data() {
        config.enable_early_data();
    }
    if options.role == Role::Server {
        config.load_cert_chain_from_pem_file(&options.certificate.to_string_lossy())?;
        config.load_priv_key_from_pem_file(&options.private_key.to_string_lossy())?;
    }
    if logs::key_log().is_some() {
        config.log_keys();
    }
    Ok(config)
}

/// The largest UDP payload that may be sent. Unless larger packets are searched for, all are of that size.
pub fn largest_payload(parameters: &Parameters) -> usize {
    let default = if parameters.path_mtu_discovery == Some(true) { LARGEST_PAYLOAD } else { FIXED_PAYLOAD };
    parameters.max_udp_payload.unwrap_or(default).into()
}

/// Credit at the start, and the bound up to which it grows.
fn set_windows(config: &mut Config, parameters: &Parameters) {
    let fixed_or = |asked: Option<u64>, default| asked.map_or(default, |bytes| (bytes, bytes));
    let (initial, largest) = fixed_or(parameters.connection_window, CONNECTION_WINDOW);
    config.set_initial_max_data(initial);
    config.set_max_connection_window(largest);
    let (initial, largest) = fixed_or(parameters.stream_window, STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_local(initial);
    config.set_initial_max_stream_data_bidi_remote(initial);
    config.set_initial_max_stream_data_uni(initial);
    config.set_max_stream_window(largest);
}

/// A test case beyond those that all programs share (run_endpoint.sh).
fn is_asked(testcase: &str) -> bool {
    std::env::var("ASKED").is_ok_and(|asked| asked == testcase)
}

/// Starts the qlog and the key log where the environment asks for them.
pub fn start_logs(connection: &mut Connection, id: &ConnectionId, role: Role) -> Result<()> {
    if let Some(path) = logs::key_log() {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        connection.set_keylog(Box::new(file));
    }
    if let Some(file) = logs::qlog("quiche", role, id)? {
        let title = format!("quiche {}", role.name());
        connection.set_qlog(Box::new(Sieve::new(BufWriter::new(file))), title, format!("id={id:?}"));
    }
    Ok(())
}
