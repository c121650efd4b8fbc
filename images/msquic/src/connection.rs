//! MsQuic's connections: its callbacks turned into what can be polled.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use msquic::ffi::{
    QUIC_PARAM_CONN_LOCAL_ADDRESS, QUIC_PARAM_CONN_ORIG_DEST_CID, QUIC_PARAM_CONN_REMOTE_ADDRESS,
    QUIC_PARAM_CONN_RESUMPTION_TICKET, QUIC_STATISTICS_V2,
};
use msquic::{
    Addr, Api, Configuration, ConnectionEvent, ConnectionShutdownFlags, Registration, Status, StatusCode,
    StreamOpenFlags,
};
use quic_endpoint::Result;
use tokio::sync::Semaphore;

use crate::keys::Keys;
use crate::stream::{ReceiveHalf, SendHalf, Stream};
use crate::wakers::Wakers;

/// Of a connection ID (RFC 9000 §17.2).
const LONGEST_ID: usize = 20;

/// How a connection ended.
#[derive(Clone, Debug)]
pub enum Lost {
    /// By us.
    Closed,
    /// By the peer's application, with its error code.
    Peer(u64),
    /// By MsQuic on either side: an error or a timeout.
    Transport(Status),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Closed => write!(formatter, "the connection is closed"),
            Self::Peer(code) => write!(formatter, "the peer closed the connection with code {code:#x}"),
            Self::Transport(status) => write!(formatter, "the connection is lost: {status}"),
        }
    }
}

impl std::error::Error for Lost {}

#[derive(Default)]
struct State {
    established: bool,
    resumed: bool,
    lost: Option<Lost>,
    /// The peer has been told, and the handle may go.
    over: bool,
    ticket: Option<Vec<u8>>,
    requests: VecDeque<(SendHalf, ReceiveHalf)>,
    unidirectional: VecDeque<ReceiveHalf>,
    wakers: Wakers,
}

type Shared = Arc<Mutex<State>>;

#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    handle: msquic::Connection,
    state: Shared,
    /// Requests may go as 0-RTT data.
    early: bool,
    /// A permit for each request that MsQuic has in hand.
    asked: Semaphore,
}

impl Connection {
    /// A connection to a server that is yet to start, and to be resumed where there is a ticket.
    pub fn prepare(registration: &Registration, peer: SocketAddr, ticket: Option<&[u8]>, early: bool) -> Result<Self> {
        let state = Shared::default();
        let slot = Arc::new(Mutex::new(None));
        let keys = slot.clone();
        let mut handler = callback(state.clone(), false);
        let handle = msquic::Connection::open(registration, move |connection, event| {
            log_keys(&keys, &event);
            handler(&connection, event)
        })?;
        *slot.lock().expect("no panics") = Keys::gather(&handle)?;
        let address = Addr::from(peer);
        set(&handle, QUIC_PARAM_CONN_REMOTE_ADDRESS, (&raw const address).cast(), size_of_val(&address))?;
        // A session that cannot be used costs a full handshake, nothing more.
        let resuming = ticket.is_some_and(|ticket| {
            set(&handle, QUIC_PARAM_CONN_RESUMPTION_TICKET, ticket.as_ptr().cast(), ticket.len()).is_ok()
        });
        Ok(Self::new(handle, state, early && resuming))
    }

    pub fn start(&self, configuration: &Configuration, host: &str, port: u16) -> std::result::Result<(), Status> {
        self.0.handle.start(configuration, host, port)
    }

    /// Binds it to an address of this machine, at a port of the system's choice, from its start on or from now on. False
    /// if that cannot be yet: MsQuic does it before the connection starts, and once the handshake is confirmed.
    pub fn bind(&self, address: IpAddr) -> Result<bool> {
        let address = Addr::from(SocketAddr::from((address, 0)));
        // SAFETY: MsQuic copies the address.
        let bound = unsafe {
            let handle = self.0.handle.as_raw();
            let length = size_of_val(&address) as u32;
            Api::set_param(handle, QUIC_PARAM_CONN_LOCAL_ADDRESS, length, (&raw const address).cast())
        };
        match bound {
            Ok(()) => Ok(true),
            Err(status) if matches!(status.try_as_status_code(), Ok(StatusCode::QUIC_STATUS_INVALID_STATE)) => {
                Ok(false)
            }
            Err(status) => Err(status.into()),
        }
    }

    /// The address of this end of a connection that has been bound.
    pub fn local_address(&self) -> Result<SocketAddr> {
        Ok(self.0.handle.get_local_addr()?.as_socket().ok_or("MsQuic has no local address")?)
    }

    /// Takes a connection that a listener tells of, in the listener's callback.
    pub fn accept(connection: &msquic::Connection, configuration: &Configuration) -> std::result::Result<Self, Status> {
        let state = Shared::default();
        let keys = Mutex::new(Keys::gather(connection)?);
        connection.set_configuration(configuration)?;
        // SAFETY: the application owns the connection from here on.
        let handle = unsafe { msquic::Connection::from_raw(connection.as_raw()) };
        let mut handler = callback(state.clone(), true);
        handle.set_callback_handler(move |connection, event| {
            log_keys(&keys, &event);
            handler(&connection, event)
        });
        Ok(Self::new(handle, state, false))
    }

    fn new(handle: msquic::Connection, state: Shared, early: bool) -> Self {
        Self(Arc::new(Inner { handle, state, early, asked: Semaphore::new(0) }))
    }

    /// The first destination connection ID of the client, by which logs are told apart. Known from the start on.
    pub fn id(&self) -> Result<Vec<u8>> {
        let mut id = [0; LONGEST_ID];
        let mut length = LONGEST_ID as u32;
        // SAFETY: MsQuic writes at most as many bytes as it is told, and then how many.
        unsafe {
            let handle = self.0.handle.as_raw();
            Api::get_param(handle, QUIC_PARAM_CONN_ORIG_DEST_CID, &raw mut length, id.as_mut_ptr().cast())
        }?;
        Ok(id[..length as usize].to_vec())
    }

    /// To be called when a request is sent.
    pub fn note_request(&self) {
        self.0.asked.add_permits(1);
    }

    /// Until so many requests have been sent.
    pub async fn requests(&self, count: usize) -> Result<()> {
        self.0.asked.acquire_many(u32::try_from(count)?).await?.forget();
        Ok(())
    }

    /// Whether requests go out before the handshake is complete.
    pub fn early(&self) -> bool {
        self.0.early
    }

    /// Whether the server took up an earlier session.
    pub fn resumed(&self) -> bool {
        self.state().resumed
    }

    /// The latest session ticket.
    pub fn take_ticket(&self) -> Option<Vec<u8>> {
        self.state().ticket.take()
    }

    pub fn statistics(&self) -> std::result::Result<QUIC_STATISTICS_V2, Status> {
        self.0.handle.get_stats_v2()
    }

    pub async fn established(&self) -> std::result::Result<(), Lost> {
        poll_fn(|context| {
            self.poll(context, |state| match (&state.lost, state.established) {
                (Some(lost), _) => Some(Err(lost.clone())),
                (None, established) => established.then_some(Ok(())),
            })
        })
        .await
    }

    /// Until the handle may go.
    pub async fn over(&self) {
        poll_fn(|context| self.poll(context, |state| state.over.then_some(()))).await;
    }

    pub async fn ticket_received(&self) {
        poll_fn(|context| self.poll(context, |state| (state.ticket.is_some() || state.over).then_some(()))).await;
    }

    pub fn close(&self, code: u32) {
        self.0.handle.shutdown(ConnectionShutdownFlags::NONE, code.into());
    }

    /// A new stream, not started yet.
    pub fn open(&self, unidirectional: bool) -> std::result::Result<Arc<Stream>, Status> {
        Stream::open(&self.0.handle, unidirectional, self.0.early)
    }

    pub async fn open_request(&self) -> Result<(SendHalf, ReceiveHalf)> {
        let stream = self.open(false)?;
        poll_fn(|context| stream.poll_started(context)).await?;
        Ok((SendHalf::new(stream.clone()), ReceiveHalf::new(stream)))
    }

    /// The next request of the peer.
    pub fn poll_request(&self, context: &Context) -> Poll<std::result::Result<(SendHalf, ReceiveHalf), Lost>> {
        self.poll(context, |state| match state.requests.pop_front() {
            Some(request) => Some(Ok(request)),
            None => state.lost.clone().map(Err),
        })
    }

    /// The peer's next unidirectional stream.
    pub fn poll_unidirectional(&self, context: &Context) -> Poll<std::result::Result<ReceiveHalf, Lost>> {
        self.poll(context, |state| match state.unidirectional.pop_front() {
            Some(stream) => Some(Ok(stream)),
            None => state.lost.clone().map(Err),
        })
    }

    fn poll<T>(&self, context: &Context, ready: impl FnOnce(&mut State) -> Option<T>) -> Poll<T> {
        let mut state = self.state();
        match ready(&mut state) {
            Some(value) => Poll::Ready(value),
            None => {
                state.wakers.add(context);
                Poll::Pending
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no panics")
    }
}

/// What MsQuic calls, one event of a connection at a time.
fn callback(
    state: Shared,
    server: bool,
) -> impl FnMut(&msquic::Connection, ConnectionEvent) -> std::result::Result<(), Status> {
    move |connection, event| {
        if let (true, ConnectionEvent::Connected { .. }) = (server, &event) {
            send_ticket(connection);
        }
        let mut state = state.lock().expect("no panics");
        match event {
            ConnectionEvent::Connected { session_resumed, .. } => {
                state.established = true;
                state.resumed = session_resumed;
            }
            ConnectionEvent::ResumptionTicketReceived { resumption_ticket } => {
                state.ticket = Some(resumption_ticket.to_vec());
            }
            ConnectionEvent::PeerStreamStarted { stream, flags } => {
                let stream = Stream::accept(&stream);
                if flags.contains(StreamOpenFlags::UNIDIRECTIONAL) {
                    state.unidirectional.push_back(ReceiveHalf::new(stream));
                } else {
                    state.requests.push_back((SendHalf::new(stream.clone()), ReceiveHalf::new(stream)));
                }
            }
            ConnectionEvent::ShutdownInitiatedByPeer { error_code } => state.lost = Some(Lost::Peer(error_code)),
            ConnectionEvent::ShutdownInitiatedByTransport { status, .. } => {
                state.lost = Some(Lost::Transport(status));
            }
            ConnectionEvent::ShutdownComplete { .. } => {
                state.lost.get_or_insert(Lost::Closed);
                state.over = true;
            }
            _ => return Ok(()),
        }
        state.wakers.wake();
        Ok(())
    }
}

fn log_keys(keys: &Mutex<Option<Keys>>, event: &ConnectionEvent) {
    if let (ConnectionEvent::Connected { .. }, Some(keys)) = (event, &*keys.lock().expect("no panics"))
        && let Err(error) = keys.log()
    {
        eprintln!("msquic-endpoint: the key log: {error}");
    }
}

/// The crate has no name for this call.
fn send_ticket(connection: &msquic::Connection) {
    if let Some(call) = Api::get_ffi().ConnectionSendResumptionTicket {
        // SAFETY: the handle is open, and there are no data of our own to keep.
        unsafe { call(connection.as_raw(), msquic::SEND_RESUMPTION_FLAG_NONE, 0, std::ptr::null()) };
    }
}

/// `length` bytes must be readable at `value`, which MsQuic copies.
fn set(connection: &msquic::Connection, parameter: u32, value: *const c_void, length: usize) -> Result<()> {
    // SAFETY: by the callers above.
    unsafe { Api::set_param(connection.as_raw(), parameter, u32::try_from(length)?, value) }?;
    Ok(())
}
