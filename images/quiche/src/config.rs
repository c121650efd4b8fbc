//! From options to quiche's configuration, and the logs each connection writes.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::PathBuf;

use quiche::{Config, Connection, ConnectionId, PROTOCOL_VERSION};

use crate::Result;
use crate::options::{Options, Role};

pub fn transport(options: &Options) -> Result<Config> {
    let mut config = Config::new(PROTOCOL_VERSION)?;
    config.set_application_protos(&[options.protocol.name()])?;
    config
        .set_cc_algorithm_name(&options.congestion_control)
        .map_err(|_| format!("no such congestion control: {}", options.congestion_control))?;
    config.enable_hystart(options.hystart);
    config.enable_pacing(options.pacing);
    if let Some(rtt) = options.initial_rtt {
        config.set_initial_rtt(rtt);
    }
    if let Some(packets) = options.initial_window {
        config.set_initial_congestion_window_packets(packets);
    }
    config.set_initial_max_data(options.max_data);
    config.set_initial_max_stream_data_bidi_local(options.max_stream_data);
    config.set_initial_max_stream_data_bidi_remote(options.max_stream_data);
    config.set_initial_max_stream_data_uni(options.max_stream_data);
    config.set_max_connection_window(options.max_window.max(options.max_data));
    config.set_max_stream_window(options.max_stream_window.max(options.max_stream_data));
    config.set_initial_max_streams_bidi(options.max_streams);
    config.set_initial_max_streams_uni(options.max_streams);
    if let Some(exponent) = options.ack_delay_exponent {
        config.set_ack_delay_exponent(exponent);
    }
    if let Some(milliseconds) = options.max_ack_delay {
        config.set_max_ack_delay(milliseconds);
    }
    config.set_max_send_udp_payload_size(options.max_udp_payload);
    config.set_max_recv_udp_payload_size(options.max_udp_payload.max(1500));
    config.set_max_idle_timeout(options.idle_timeout.as_millis().try_into()?);
    config.set_active_connection_id_limit(4);
    config.verify_peer(false);
    if options.role == Role::Server {
        config.load_cert_chain_from_pem_file(&options.certificate)?;
        config.load_priv_key_from_pem_file(&options.private_key)?;
        config.enable_early_data();
    }
    if environment_path("SSLKEYLOGFILE").is_some() {
        config.log_keys();
    }
    Ok(config)
}

/// Starts the qlog and the key log where the environment asks for them.
pub fn start_logs(connection: &mut Connection, id: &ConnectionId, role: Role) -> Result<()> {
    if let Some(path) = environment_path("SSLKEYLOGFILE") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        connection.set_keylog(Box::new(file));
    }
    if let Some(directory) = environment_path("QLOGDIR") {
        std::fs::create_dir_all(&directory)?;
        let role = match role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let path = directory.join(format!("quiche-{role}-{id:?}.sqlog"));
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        connection.set_qlog(Box::new(BufWriter::new(file)), format!("quiche {role}"), format!("id={id:?}"));
    }
    Ok(())
}

fn environment_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
