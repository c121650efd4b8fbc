//! A qlog of the sender's state. MsQuic writes none, but can be asked for its figures: what changes between two
//! questions is not seen. No packets, hence no losses.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use msquic::ffi::QUIC_STATISTICS_V2;
use quic_endpoint::{Result, Role, logs};
use tokio::time::MissedTickBehavior;

use crate::connection::Connection;

const PERIOD: Duration = Duration::from_millis(10);

/// Writes until it is dropped, if there is a place for qlogs. The connection must have started.
pub async fn record(connection: Connection, role: Role) {
    if let Err(error) = follow(&connection, role).await {
        eprintln!("msquic-endpoint: {error}");
    }
}

async fn follow(connection: &Connection, role: Role) -> Result<()> {
    let Some(mut file) = logs::qlog("msquic", role, &connection.id()?)? else { return Ok(()) };
    let start = Instant::now();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
    let role = role.name();
    // RFC 7464 puts a record separator before each line.
    writeln!(
        file,
        "\x1e{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"msquic {role}, sampled\",\"trace\":\
         {{\"vantage_point\":{{\"type\":\"{role}\"}},\"common_fields\":{{\"time_format\":\"relative\",\
         \"reference_time\":{epoch:.3}}}}}}}"
    )?;
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        ticks.tick().await;
        // A connection that is going answers no more.
        let Ok(statistics) = connection.statistics() else { return Ok(()) };
        let figures = figures(&statistics);
        if figures != last {
            let time = start.elapsed().as_secs_f64() * 1e3;
            writeln!(file, "\x1e{{\"time\":{time:.3},\"name\":\"recovery:metrics_updated\",\"data\":{{{figures}}}}}")?;
            last = figures;
        }
    }
}

/// In ms and bytes; RTTs only once there is a sample.
fn figures(statistics: &QUIC_STATISTICS_V2) -> String {
    let window = format!("\"congestion_window\":{}", statistics.SendCongestionWindow);
    // Until then it is the largest number, and the RTT the assumed one.
    if statistics.MinRtt == u32::MAX {
        return format!("{window},\"smoothed_rtt\":{:.3}", milliseconds(statistics.Rtt));
    }
    format!(
        "{window},\"smoothed_rtt\":{:.3},\"min_rtt\":{:.3},\"rtt_variance\":{:.3}",
        milliseconds(statistics.Rtt),
        milliseconds(statistics.MinRtt),
        milliseconds(statistics.RttVariance)
    )
}

fn milliseconds(microseconds: u32) -> f64 {
    f64::from(microseconds) / 1e3
}
