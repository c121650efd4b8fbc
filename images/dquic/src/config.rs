//! From options to dquic's and rustls' configuration. What was not asked for stays at the stack's own default.

use std::sync::Arc;
use std::time::Duration;

use dquic::prelude::{ParameterId, QuicClient, QuicListeners, handy};
use dquic::qbase::param::ParameterValue;
use dquic::qbase::varint::VarInt;
use quic_endpoint::datagrams::Datagrams;
use quic_endpoint::{Options, Result, options, tls};
use rustls::client::Resumption;
use rustls::crypto::ring;

use crate::qlog::Qlogs;
use crate::tickets::Tickets;
use crate::versions::Negotiating;

/// Unless another is asked for: long enough for any path under test to come back.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections that wait to be accepted.
const BACKLOG: usize = 4096;
/// Largest DATAGRAM frame that a client takes: any (RFC 9221 §3).
const DATAGRAM_FRAME: u32 = 65535;

pub fn client(options: &Options, tickets: Arc<Tickets>, qlogs: Arc<Qlogs>) -> Result<QuicClient> {
    let mut parameters = handy::client_parameters();
    for (id, value) in transport_parameters(options)? {
        parameters.set(id, value)?;
    }
    if Datagrams::read()?.is_some() {
        parameters.set(ParameterId::MaxDatagramFrameSize, DATAGRAM_FRAME)?;
    }
    let mut tls = tls::client(options, ring::default_provider())?;
    tls.resumption = if options.resumes() { Resumption::store(tickets) } else { Resumption::disabled() };
    Ok(QuicClient::builder_with_tls(tls).with_parameters(parameters).with_qlog(qlogs).build())
}

pub fn server(options: &Options, qlogs: Arc<Qlogs>) -> Result<Arc<QuicListeners>> {
    let mut parameters = handy::server_parameters();
    for (id, value) in transport_parameters(options)? {
        parameters.set(id, value)?;
    }
    let tls = tls::server(options, ring::default_provider())?;
    let builder = QuicListeners::builder_with_tls(tls).with_iface_factory(Arc::new(Negotiating::bind));
    Ok(builder.with_parameters(parameters).with_qlog(qlogs).listen(BACKLOG)?)
}

/// Those that both roles announce.
fn transport_parameters(options: &Options) -> Result<Vec<(ParameterId, ParameterValue)>> {
    let parameters = &options.parameters;
    let idle_timeout = options.own.get("idle-timeout").map(|value| options::milliseconds("idle-timeout", value));
    let mut values = vec![(ParameterId::MaxIdleTimeout, idle_timeout.transpose()?.unwrap_or(IDLE_TIMEOUT).into())];
    if let Some(delay) = parameters.max_ack_delay {
        values.push((ParameterId::MaxAckDelay, delay.into()));
    }
    if let Some(bytes) = parameters.connection_window {
        values.push((ParameterId::InitialMaxData, VarInt::from_u64(bytes)?.into()));
    }
    if let Some(bytes) = parameters.stream_window {
        for id in [
            ParameterId::InitialMaxStreamDataBidiLocal,
            ParameterId::InitialMaxStreamDataBidiRemote,
            ParameterId::InitialMaxStreamDataUni,
        ] {
            values.push((id, VarInt::from_u64(bytes)?.into()));
        }
    }
    Ok(values)
}

/// The names in the server's certificate.
pub fn names(options: &Options) -> Result<Vec<String>> {
    let chain = tls::chain(options)?;
    let own = chain.first().ok_or_else(|| format!("{}: no certificate", options.certificate.display()))?;
    let certificate = webpki::EndEntityCert::try_from(own)?;
    Ok(certificate.valid_dns_names().map(str::to_owned).collect())
}
