//! Sessions that outlive the process.
//!
//! rustls lets no one take its TLS 1.3 sessions apart, so none can be written down. But a handshake follows from
//! what the client drew at random and what the server said. Both are recorded, with the tickets at the end. The next
//! process takes a TLS client of its own through the recording, in memory, and so comes to the same session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use noq::crypto::rustls::QuicClientConfig;
use noq::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use noq::{ConnectError, ConnectionId, Side, TokenStore};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;
use quic_endpoint::{Options, Result, SessionDir, random, tls};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::quic::Version;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, NoKeyLog, PeerMisbehaved};
use tokio::sync::Notify;
use x25519_dalek::{PublicKey, StaticSecret};

/// The recording's name in the session directory.
pub const FILE: &str = "handshake";
const TOKEN_FILE: &str = "token";
/// Sessions kept in memory: there is one server.
const SESSIONS: usize = 8;

/// TLS as noq wants it, with a recording of the connection that got the session.
pub struct Sessions {
    quic: Arc<QuicClientConfig>,
    tls: rustls::ClientConfig,
    tape: &'static Tape,
    progress: Arc<Progress>,
}

/// Of a connection that gets a session.
#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    ticket: Notify,
}

#[derive(Default)]
struct State {
    /// Whether a session is there to be offered. Connections that offer one are not recorded: their recording would
    /// be of use only after that of the connection before.
    has_ticket: bool,
    recording: Option<Recording>,
}

impl Sessions {
    pub fn new(options: &Options) -> Result<Self> {
        let tape: &'static Tape = Box::leak(Box::default());
        let key_exchange: &'static KeyExchange = Box::leak(Box::new(KeyExchange(tape)));
        let provider = CryptoProvider {
            kx_groups: vec![key_exchange],
            secure_random: tape,
            ..rustls::crypto::ring::default_provider()
        };
        let mut tls = tls::client(options, provider)?;
        tls.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSIONS)));
        let quic = Arc::new(QuicClientConfig::try_from(tls.clone())?);
        Ok(Self { quic, tls, tape, progress: Arc::default() })
    }

    /// Until the server has sent a ticket, on this connection or one before.
    pub async fn ticket(&self) {
        while !lock(&self.progress.state).has_ticket {
            self.progress.ticket.notified().await;
        }
    }

    /// What brings the session back, if a connection got one.
    pub fn recording(&self) -> Option<Vec<u8>> {
        let state = lock(&self.progress.state);
        state.recording.as_ref().filter(|_| state.has_ticket).map(Recording::encode)
    }

    /// Goes through a recorded handshake again. After it, the session is among those to be offered.
    pub fn replay(&self, recording: &[u8]) -> Result<()> {
        let recording = Recording::decode(recording).ok_or("it is damaged")?;
        let mut tls = self.tls.clone();
        tls.key_log = Arc::new(NoKeyLog {});
        tls.time_provider = Arc::new(Then(recording.time));
        let name = ServerName::try_from(recording.server)?;
        self.tape.rewind(Some(recording.randomness.into()));
        let outcome = rustls::quic::ClientConnection::new(Arc::new(tls), Version::V1, name, recording.parameters)
            .and_then(|mut client| {
                let mut said = Vec::new();
                recording.messages.iter().try_for_each(|message| {
                    while client.write_hs(&mut said).is_some() {}
                    client.read_hs(message)
                })
            });
        self.tape.rewind(None);
        lock(&self.progress.state).has_ticket = outcome.is_ok();
        Ok(outcome?)
    }
}

impl crypto::ClientConfig for Sessions {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> std::result::Result<Box<dyn Session>, ConnectError> {
        self.tape.rewind(None);
        let session = self.quic.start_session(version, server_name, parameters)?;
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let mut state = lock(&self.progress.state);
        let recorded = !state.has_ticket;
        if recorded {
            state.recording = Some(Recording {
                server: server_name.to_owned(),
                time: 0,
                randomness: self.tape.drawn(),
                parameters: encoded,
                messages: Vec::new(),
            });
        }
        drop(state);
        Ok(Box::new(Observed { inner: session, progress: self.progress.clone(), recorded }))
    }
}

/// A recorded connection's TLS.
struct Observed {
    inner: Box<dyn Session>,
    progress: Arc<Progress>,
    recorded: bool,
}

impl Session for Observed {
    fn initial_keys(&self, id: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn std::any::Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, message: &[u8]) -> std::result::Result<bool, TransportError> {
        let after_handshake = !self.inner.is_handshaking();
        let outcome = self.inner.read_handshake(message)?;
        let mut state = lock(&self.progress.state);
        if self.recorded
            && let Some(recording) = &mut state.recording
        {
            recording.messages.push(message.to_vec());
            // Rounded up, since servers refuse early data with a ticket that claims to be older than it is.
            recording.time = UnixTime::now().as_secs() + 1;
        }
        if after_handshake {
            // Nothing but tickets comes that late.
            state.has_ticket = true;
            self.progress.ticket.notify_waiters();
        }
        Ok(outcome)
    }

    fn transport_parameters(&self) -> std::result::Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buffer: &mut Vec<u8>) -> Option<Keys> {
        self.inner.write_handshake(buffer)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> std::result::Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// All that a handshake follows from.
struct Recording {
    server: String,
    /// Of the server's last message, in Unix seconds, from which a ticket's age is counted.
    time: u64,
    randomness: Vec<u8>,
    /// The client's transport parameters.
    parameters: Vec<u8>,
    /// What the server said.
    messages: Vec<Vec<u8>>,
}

impl Recording {
    /// All fields one after the other, each after its length.
    fn encode(&self) -> Vec<u8> {
        let time = self.time.to_le_bytes();
        let head: [&[u8]; 4] = [self.server.as_bytes(), &time, &self.randomness, &self.parameters];
        let fields = head.into_iter().chain(self.messages.iter().map(Vec::as_slice));
        fields.flat_map(|field| [&(field.len() as u32).to_le_bytes(), field].concat()).collect()
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = VecDeque::new();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            fields.push_back(field.to_vec());
            bytes = rest;
        }
        Some(Self {
            server: String::from_utf8(fields.pop_front()?).ok()?,
            time: u64::from_le_bytes(fields.pop_front()?.try_into().ok()?),
            randomness: fields.pop_front()?,
            parameters: fields.pop_front()?,
            messages: fields.into(),
        })
    }
}

/// Random bytes for TLS: from the kernel, and noted; or those noted before.
#[derive(Debug, Default)]
struct Tape(Mutex<TapeState>);

#[derive(Debug, Default)]
struct TapeState {
    drawn: Vec<u8>,
    replayed: Option<VecDeque<u8>>,
}

impl Tape {
    /// Begins anew, either with bytes drawn before or with new ones.
    fn rewind(&self, replayed: Option<VecDeque<u8>>) {
        *lock(&self.0) = TapeState { drawn: Vec::new(), replayed };
    }

    fn drawn(&self) -> Vec<u8> {
        lock(&self.0).drawn.clone()
    }

    fn bytes<const N: usize>(&self) -> std::result::Result<[u8; N], GetRandomFailed> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

impl SecureRandom for Tape {
    fn fill(&self, buffer: &mut [u8]) -> std::result::Result<(), GetRandomFailed> {
        let mut state = lock(&self.0);
        match &mut state.replayed {
            Some(replayed) => {
                for byte in buffer {
                    *byte = replayed.pop_front().ok_or(GetRandomFailed)?;
                }
            }
            None => {
                random::fill(buffer).map_err(|_| GetRandomFailed)?;
                state.drawn.extend_from_slice(buffer);
            }
        }
        Ok(())
    }
}

/// X25519 with a secret from the tape. rustls' own groups take theirs from where no one can see it.
#[derive(Debug)]
struct KeyExchange(&'static Tape);

impl SupportedKxGroup for KeyExchange {
    fn start(&self) -> std::result::Result<Box<dyn ActiveKeyExchange>, Error> {
        let secret = StaticSecret::from(self.0.bytes::<32>()?);
        Ok(Box::new(KeyShare { public: PublicKey::from(&secret), secret }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct KeyShare {
    secret: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for KeyShare {
    fn complete(self: Box<Self>, peer: &[u8]) -> std::result::Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&peer.into());
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(shared.as_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// The time of a recording.
#[derive(Debug)]
struct Then(u64);

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

/// The server's last address validation token, to be used once.
pub struct Tokens(pub SessionDir);

impl TokenStore for Tokens {
    fn insert(&self, _: &str, token: Bytes) {
        if let Err(error) = self.0.store(TOKEN_FILE, &token) {
            eprintln!("noq-endpoint: {error}");
        }
    }

    fn take(&self, _: &str) -> Option<Bytes> {
        let token = self.0.load(TOKEN_FILE)?;
        std::fs::remove_file(self.0.file(TOKEN_FILE)).ok()?;
        Some(token.into())
    }
}

/// A panic aborts the program, so no lock is ever left poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
