//! TLS: certificates, the key log, session tickets, and a look at the transport parameters that this side sends.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use quic_endpoint::{Options, Result, logs, random};
use s2n_codec::EncoderValue;
use s2n_quic::provider::tls::{self, ConnectionInfo, default};
use s2n_quic_core::application::ServerName;
use s2n_quic_core::crypto::tls::Endpoint;

use crate::tickets::Tickets;

/// The authority of the lab's certificates, where the interop contract has it.
const AUTHORITY: &str = "/certs/ca.pem";
/// Of a server's chain with its root: a lab's server presents up to 16 certificates, and s2n-tls would verify seven.
const CHAIN_DEPTH: u16 = 17;

pub fn client(options: &Options, tickets: Option<&Tickets>) -> Result<Announced<default::Client>> {
    let mut builder = default::Client::builder()
        .with_application_protocols([options.protocol.name()])?
        .with_empty_trust_store()?
        .with_max_cert_chain_depth(CHAIN_DEPTH)?;
    let authority = Path::new(AUTHORITY);
    if authority.exists() {
        builder = builder.with_certificate(authority)?;
    } else {
        // SAFETY: "unsafe" here means open to attack; certificates of labs are self-made.
        unsafe { builder.config_mut().disable_x509_verification()? };
    }
    if logs::key_log().is_some() {
        builder = builder.with_key_logging()?;
    }
    if let Some(tickets) = tickets {
        let config = builder.config_mut();
        config.set_session_ticket_callback(tickets.clone())?;
        config.set_connection_initializer(tickets.clone())?;
    }
    Ok(Announced::new(builder.build()?))
}

pub fn server(options: &Options) -> Result<Announced<default::Server>> {
    let mut builder = default::Server::builder()
        .with_application_protocols([options.protocol.name()])?
        .with_certificate(options.certificate.as_path(), options.private_key.as_path())?;
    if logs::key_log().is_some() {
        builder = builder.with_key_logging()?;
    }
    let key = random::bytes::<32>()?;
    builder.config_mut().add_session_ticket_key(b"quic-lab", &key, SystemTime::now())?;
    Ok(Announced::new(builder.build()?))
}

/// The encoded transport parameters that this side sent last.
pub type OwnParameters = Arc<Mutex<Vec<u8>>>;

/// A TLS provider that keeps the transport parameters it is given to send, of which s2n-quic has no event.
pub struct Announced<E> {
    provider: E,
    pub own_parameters: OwnParameters,
}

impl<E> Announced<E> {
    fn new(provider: E) -> Self {
        Self { provider, own_parameters: OwnParameters::default() }
    }

    fn keep(&self, parameters: &impl EncoderValue) {
        if let Ok(mut kept) = self.own_parameters.lock() {
            *kept = parameters.encode_to_vec();
        }
    }
}

impl<E: Endpoint> tls::Provider for Announced<E> {
    type Server = Self;
    type Client = Self;
    type Error = Infallible;

    fn start_server(self) -> std::result::Result<Self, Infallible> {
        Ok(self)
    }

    fn start_client(self) -> std::result::Result<Self, Infallible> {
        Ok(self)
    }
}

impl<E: Endpoint> Endpoint for Announced<E> {
    type Session = E::Session;

    fn new_server_session<P: EncoderValue>(&mut self, parameters: &P, connection: ConnectionInfo) -> E::Session {
        self.keep(parameters);
        self.provider.new_server_session(parameters, connection)
    }

    fn new_client_session<P: EncoderValue>(&mut self, parameters: &P, server: ServerName) -> E::Session {
        self.keep(parameters);
        self.provider.new_client_session(parameters, server)
    }

    fn max_tag_length(&self) -> usize {
        self.provider.max_tag_length()
    }
}
