//! From options to MsQuic's configuration.

use std::ffi::c_void;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use msquic::ffi::{QUIC_PARAM_CONFIGURATION_SETTINGS, QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT, QUIC_SETTINGS};
use msquic::{
    Api, BufferRef, CertificateFile, Configuration, Credential, CredentialConfig, CredentialFlags, Registration,
    ServerResumptionLevel, Settings,
};
use quic_endpoint::options::{milliseconds, on_or_off};
use quic_endpoint::{Options, Parameters, Result, Role};

/// What IPv4 and UDP add to a payload: MsQuic counts whole packets.
const HEADERS: u16 = 20 + 8;
/// Below it MsQuic silently takes its own least, which has to carry 1200 bytes over IPv6.
const LEAST_PAYLOAD: u16 = 1200 + 40 + 8 - HEADERS;
/// Of whole packets, where a path's discovery starts by default.
const DEFAULT_MINIMUM_MTU: u16 = 1240 + 40 + 8;
/// Streams that a peer may have open.
const REQUESTS: u16 = 100;
/// HTTP/3's control and QPACK streams, and some to spare.
const UNIDIRECTIONAL: u16 = 16;
/// Longer than any outage under test, also during the handshake; of a connection, unless another is asked for.
const IDLE_TIMEOUT_MS: u64 = 60_000;
/// QUIC_CONGESTION_CONTROL_ALGORITHM of msquic.h, whose second word is behind a preview switch.
const CUBIC: u16 = 0;
const BBR: u16 = 1;

pub fn configuration(registration: &Registration, options: &Options) -> Result<Configuration> {
    let alpn = [BufferRef::from(options.protocol.name())];
    let configuration = Configuration::open(registration, &alpn, Some(&settings(options)?))?;
    if options.parameters.pacing == Some(false) {
        stop_pacing(&configuration)?;
    }
    let credentials = match options.role {
        // Servers of a test network make their certificates themselves.
        Role::Client => CredentialConfig::new_client().set_credential_flags(CredentialFlags::NO_CERTIFICATE_VALIDATION),
        Role::Server => {
            let name = |path: &std::path::Path| path.to_string_lossy().into_owned();
            let file = CertificateFile::new(name(&options.private_key), name(&options.certificate));
            CredentialConfig::new().set_credential(Credential::CertificateFile(file))
        }
    };
    configuration.load_credential(&credentials)?;
    Ok(configuration)
}

fn settings(options: &Options) -> Result<Settings> {
    let parameters = &options.parameters;
    let idle_timeout = match options.own.get("idle-timeout") {
        Some(value) => whole_milliseconds("idle-timeout", milliseconds("idle-timeout", value)?, 1)?.into(),
        None => IDLE_TIMEOUT_MS,
    };
    let mut settings = Settings::new()
        .set_PeerBidiStreamCount(REQUESTS)
        .set_PeerUnidiStreamCount(UNIDIRECTIONAL)
        .set_IdleTimeoutMs(idle_timeout)
        .set_HandshakeIdleTimeoutMs(IDLE_TIMEOUT_MS);
    if options.role == Role::Server {
        settings = settings.set_ServerResumptionLevel(ServerResumptionLevel::ResumeAndZerortt);
    }
    if let Some(algorithm) = &parameters.congestion_control {
        settings = settings.set_CongestionControlAlgorithm(match algorithm.as_str() {
            "cubic" => CUBIC,
            "bbr" => BBR,
            other => return Err(format!("no such congestion control: {other}").into()),
        });
    }
    if let Some(packets) = parameters.initial_cwnd {
        settings = settings.set_InitialWindowPackets(packets);
    }
    if let Some(rtt) = parameters.initial_rtt {
        settings = settings.set_InitialRttMs(whole_milliseconds("initial-rtt", rtt, 1)?);
    }
    if let Some(delay) = parameters.max_ack_delay {
        // MsQuic adds the resolution of its clock to what it advertises, and holds no ACK back where 0 is left.
        let resolution = clock_resolution_ms();
        let milliseconds = whole_milliseconds("max-ack-delay", delay, resolution + 1)?;
        settings = settings.set_MaxAckDelayMs(milliseconds - resolution);
    }
    if parameters.ecn == Some(true) {
        settings = settings.set_EcnEnabled();
    }
    if let Some(value) = options.own.get("hystart")
        && on_or_off("hystart", value)?
    {
        settings = settings.set_HyStartEnabled();
    }
    windows(packet_sizes(settings, parameters)?, parameters)
}

/// A size that is asked for is fixed, unless discovery up to it is asked for as well.
fn packet_sizes(settings: Settings, parameters: &Parameters) -> Result<Settings> {
    let largest = match parameters.max_udp_payload {
        Some(payload) if payload < LEAST_PAYLOAD => {
            return Err(format!("--max-udp-payload is at least {LEAST_PAYLOAD}").into());
        }
        Some(payload) => Some(payload.checked_add(HEADERS).ok_or("--max-udp-payload is too large")?),
        None => None,
    };
    Ok(match (largest, parameters.path_mtu_discovery) {
        (Some(largest), Some(true)) => {
            settings.set_MinimumMtu(largest.min(DEFAULT_MINIMUM_MTU)).set_MaximumMtu(largest)
        }
        (Some(size), _) => settings.set_MinimumMtu(size).set_MaximumMtu(size),
        (None, Some(false)) => settings.set_MinimumMtu(DEFAULT_MINIMUM_MTU).set_MaximumMtu(DEFAULT_MINIMUM_MTU),
        (None, _) => settings,
    })
}

/// MsQuic lets a stream's window grow up to the connection's, which is fixed. For a stream's window to be fixed as well,
/// the connection's is never larger.
fn windows(settings: Settings, parameters: &Parameters) -> Result<Settings> {
    let mut settings = settings;
    if let Some(bytes) = parameters.stream_window {
        if !bytes.is_power_of_two() {
            return Err("--stream-window is a power of two".into());
        }
        settings = settings.set_StreamRecvWindowDefault(u32::try_from(bytes)?);
    }
    let windows = [parameters.connection_window, parameters.stream_window];
    if let Some(bytes) = windows.into_iter().flatten().min() {
        settings = settings.set_ConnFlowControlWindow(u32::try_from(bytes)?);
    }
    Ok(settings)
}

/// The crate's `Settings` can switch things on only.
fn stop_pacing(configuration: &Configuration) -> Result<()> {
    // SAFETY: all zeros is a valid QUIC_SETTINGS, with nothing set.
    let mut settings: QUIC_SETTINGS = unsafe { std::mem::zeroed() };
    // SAFETY: both views of the union are plain bits.
    unsafe { settings.__bindgen_anon_1.IsSet.set_PacingEnabled(1) };
    settings.set_PacingEnabled(0);
    // SAFETY: the handle is open, and MsQuic copies a structure of the size that it is told.
    unsafe {
        Api::set_param(
            configuration.as_raw(),
            QUIC_PARAM_CONFIGURATION_SETTINGS,
            size_of::<QUIC_SETTINGS>() as u32,
            (&raw const settings).cast::<c_void>(),
        )
    }?;
    Ok(())
}

/// Has every client prove its address. A server does that once handshakes take a share of all memory: here, none. Needs a
/// registration, with which the library starts.
pub fn send_retry() -> Result<()> {
    let share: u16 = 0;
    // SAFETY: a parameter of the library as a whole has no handle, and MsQuic copies a number of the size that it is told.
    unsafe {
        Api::set_param(
            ptr::null_mut(),
            QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT,
            size_of::<u16>() as u32,
            (&raw const share).cast::<c_void>(),
        )
    }?;
    Ok(())
}

fn whole_milliseconds(name: &str, duration: Duration, least: u32) -> Result<u32> {
    let milliseconds = u32::try_from(duration.as_millis())?;
    if Duration::from_millis(milliseconds.into()) != duration || milliseconds < least {
        return Err(format!("--{name} is a whole number of milliseconds, at least {least}").into());
    }
    Ok(milliseconds)
}

/// A kernel that has just booted may count time in ticks of some ms at first, which MsQuic would take for good as the
/// resolution of its clock.
pub fn wait_for_clock() {
    let patience = Instant::now() + Duration::from_secs(1);
    while clock_resolution_ms() > 1 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
}

/// As MsQuic reckons it.
fn clock_resolution_ms() -> u32 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that it is given.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) };
    u32::try_from(resolution.tv_nsec / 1_000_000).unwrap_or(0) + 1
}
