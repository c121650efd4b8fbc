//! A qlog trace per connection (draft-ietf-quic-qlog-main-schema, JSON-SEQ), written from s2n-quic's events.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quic_endpoint::{Role, logs};
use s2n_quic::provider::event::events::{
    ActivePathUpdated, ConnectionClosed, ConnectionStarted, FrameReceived, PacingRateUpdated, PacketHeader, PacketLost,
    PacketSent, RecoveryMetrics, TlsExporterReady, TransportParametersReceived,
};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, Timestamp};

use crate::STACK;
use crate::parameters::{self, Own};
use crate::place::{self, Place};
use crate::tls::OwnParameters;

const BUFFER: usize = 64 * 1024;

/// Writes a trace for every connection of an endpoint.
pub struct Qlog {
    pub role: Role,
    pub own_parameters: OwnParameters,
}

/// The trace of one connection.
pub struct Trace {
    out: Option<BufWriter<File>>,
    start: Timestamp,
    start_wall: SystemTime,
    shown: Figures,
    /// Figures are of the path that the client is at.
    place: Place,
}

/// What is said of recovery, in the units of qlog; only what has changed is written.
#[derive(Clone, Copy, Default, PartialEq)]
struct Figures {
    smoothed_rtt: Option<Duration>,
    latest_rtt: Option<Duration>,
    min_rtt: Option<Duration>,
    rtt_variance: Option<Duration>,
    pto_count: Option<u64>,
    congestion_window: Option<u64>,
    bytes_in_flight: Option<u64>,
    /// Bits per second.
    pacing_rate: Option<u64>,
}

impl Figures {
    /// The members that differ from what was shown before.
    fn changes(&self, shown: &Self) -> String {
        let mut members = String::new();
        let durations = [
            ("smoothed_rtt", self.smoothed_rtt, shown.smoothed_rtt),
            ("latest_rtt", self.latest_rtt, shown.latest_rtt),
            ("min_rtt", self.min_rtt, shown.min_rtt),
            ("rtt_variance", self.rtt_variance, shown.rtt_variance),
        ];
        let numbers = [
            ("pto_count", self.pto_count, shown.pto_count),
            ("congestion_window", self.congestion_window, shown.congestion_window),
            ("bytes_in_flight", self.bytes_in_flight, shown.bytes_in_flight),
            ("pacing_rate", self.pacing_rate, shown.pacing_rate),
        ];
        // Writing to a string cannot fail.
        for (name, now, before) in durations {
            if let Some(value) = now.filter(|_| now != before) {
                let _ = write!(members, r#","{name}":{:.3}"#, value.as_secs_f64() * 1e3);
            }
        }
        for (name, now, before) in numbers {
            if let Some(value) = now.filter(|_| now != before) {
                let _ = write!(members, r#","{name}":{value}"#);
            }
        }
        members.split_off(members.len().min(1))
    }
}

impl Trace {
    fn open(&mut self, role: Role, original_destination: &[u8]) -> std::io::Result<()> {
        let Some(file) = logs::qlog(STACK.name, role, original_destination).map_err(std::io::Error::other)? else {
            return Ok(());
        };
        let (stack, role, id) = (STACK.name, role.name(), parameters::hexadecimal(original_destination));
        let start = self.start_wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        writeln!(
            out,
            "\x1e{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"{stack} {role}\",\
             \"trace\":{{\"vantage_point\":{{\"type\":\"{role}\"}},\"common_fields\":{{\"ODCID\":\"{id}\",\
             \"time_format\":\"relative\",\"reference_time\":{start:.3}}}}}}}"
        )?;
        self.out = Some(out);
        Ok(())
    }

    fn event(&mut self, meta: &ConnectionMeta, name: &str, members: fmt::Arguments) {
        let Some(out) = &mut self.out else { return };
        let time = meta.timestamp.saturating_duration_since(self.start).as_secs_f64() * 1e3;
        if let Err(error) = writeln!(out, "\x1e{{\"time\":{time:.3},\"name\":\"{name}\",\"data\":{{{members}}}}}") {
            eprintln!("{}-endpoint: the qlog trace ends here: {error}", STACK.name);
            self.out = None;
        }
    }

    fn metrics(&mut self, meta: &ConnectionMeta, figures: Figures) {
        if figures != self.shown {
            let changes = figures.changes(&self.shown);
            self.shown = figures;
            self.event(meta, "recovery:metrics_updated", format_args!("{changes}"));
        }
    }
}

impl Subscriber for Qlog {
    type ConnectionContext = Trace;

    fn create_connection_context(&mut self, meta: &ConnectionMeta, _: &ConnectionInfo) -> Trace {
        Trace {
            out: None,
            start: meta.timestamp,
            start_wall: SystemTime::now(),
            shown: Figures::default(),
            place: Place::default(),
        }
    }

    fn on_connection_started(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &ConnectionStarted) {
        // The parameters were made for this connection just now.
        let own = Own::decode(&self.own_parameters.lock().map(|encoded| encoded.clone()).unwrap_or_default());
        let original_destination = own.original_destination().unwrap_or(event.path.remote_cid.bytes);
        if let Err(error) = trace.open(self.role, original_destination) {
            eprintln!("{}-endpoint: no qlog trace: {error}", STACK.name);
        }
        trace.event(meta, "transport:parameters_set", format_args!("{}", own.members()));
    }

    fn on_transport_parameters_received(
        &mut self,
        trace: &mut Trace,
        meta: &ConnectionMeta,
        event: &TransportParametersReceived,
    ) {
        let members = parameters::received(&event.transport_parameters);
        trace.event(meta, "transport:parameters_set", format_args!("{members}"));
    }

    fn on_tls_exporter_ready(&mut self, _: &mut Trace, _: &ConnectionMeta, event: &TlsExporterReady) {
        if self.role == Role::Client {
            // Only a full handshake has the server sign.
            let resumed = event.session.signature_scheme().is_none();
            eprintln!("{}-endpoint: resumed={resumed} early_data=false", STACK.name);
        }
    }

    fn on_packet_sent(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &PacketSent) {
        let header = Header(&event.packet_header);
        let length = event.packet_len;
        trace.event(meta, "transport:packet_sent", format_args!(r#"{header},"raw":{{"length":{length}}}"#));
    }

    fn on_packet_lost(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &PacketLost) {
        let (header, length, probe) = (Header(&event.packet_header), event.bytes_lost, event.is_mtu_probe);
        let members = format_args!(r#"{header},"raw":{{"length":{length}}},"is_mtu_probe_packet":{probe}"#);
        trace.event(meta, "recovery:packet_lost", members);
    }

    fn on_frame_received(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &FrameReceived) {
        place::on_frame(&mut trace.place, meta, event);
    }

    fn on_active_path_updated(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &ActivePathUpdated) {
        place::on_active_path(&mut trace.place, meta, event);
    }

    fn on_recovery_metrics(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &RecoveryMetrics) {
        if event.path.id == trace.place.at() {
            let figures = Figures {
                smoothed_rtt: Some(event.smoothed_rtt),
                latest_rtt: Some(event.latest_rtt),
                min_rtt: Some(event.min_rtt),
                rtt_variance: Some(event.rtt_variance),
                pto_count: Some(event.pto_count.into()),
                congestion_window: Some(event.congestion_window.into()),
                bytes_in_flight: Some(event.bytes_in_flight.into()),
                ..trace.shown
            };
            trace.metrics(meta, figures);
        }
    }

    fn on_pacing_rate_updated(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &PacingRateUpdated) {
        if event.path_id == trace.place.at() {
            let pacing_rate = Some(event.bytes_per_second.saturating_mul(8));
            trace.metrics(meta, Figures { pacing_rate, ..trace.shown });
        }
    }

    fn on_connection_closed(&mut self, trace: &mut Trace, meta: &ConnectionMeta, event: &ConnectionClosed) {
        let reason = event.error.to_string().replace(['"', '\\'], "'");
        trace.event(meta, "transport:connection_closed", format_args!(r#""reason":"{reason}""#));
        if let Some(Err(error)) = trace.out.as_mut().map(Write::flush) {
            eprintln!("{}-endpoint: the qlog trace is cut short: {error}", STACK.name);
        }
    }
}

/// The header of a packet, as a member of an event.
struct Header<'a>(&'a PacketHeader);

impl fmt::Display for Header<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (kind, number) = match self.0 {
            PacketHeader::Initial { number, .. } => ("initial", Some(number)),
            PacketHeader::Handshake { number, .. } => ("handshake", Some(number)),
            PacketHeader::ZeroRtt { number, .. } => ("0RTT", Some(number)),
            PacketHeader::OneRtt { number, .. } => ("1RTT", Some(number)),
            PacketHeader::Retry { .. } => ("retry", None),
            _ => ("unknown", None),
        };
        write!(out, r#""header":{{"packet_type":"{kind}""#)?;
        if let Some(number) = number {
            write!(out, r#","packet_number":{number}"#)?;
        }
        out.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_written() {
        let before = Figures { congestion_window: Some(12_000), bytes_in_flight: Some(0), ..Figures::default() };
        let now = Figures { bytes_in_flight: Some(1200), min_rtt: Some(Duration::from_micros(1500)), ..before };
        assert_eq!(now.changes(&before), r#""min_rtt":1.500,"bytes_in_flight":1200"#);
        assert_eq!(now.changes(&now), "");
    }
}
