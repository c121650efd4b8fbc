//! MsQuic's streams: its callbacks turned into what can be polled.
//!
//! A stream's handle is closed once its last half here is gone and MsQuic has told that both directions are done;
//! closing it any earlier would abort what is still to be sent. And never in a callback of the stream itself, since
//! the callback goes with the handle: a thread of its own does it.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::future::poll_fn;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};
use std::thread;

use bytes::{Bytes, BytesMut};
use msquic::{BufferRef, SendFlags, Status, StreamEvent, StreamOpenFlags, StreamShutdownFlags, StreamStartFlags};

use crate::connection::Lost;
use crate::wakers::Wakers;

/// Bytes that may wait in MsQuic's hands, beyond those it has taken into its own send buffer.
const ENOUGH_TO_SEND: usize = 256 * 1024;

/// Why a stream ended early.
#[derive(Clone, Debug)]
pub enum Failure {
    /// By the peer, with its error code.
    Stopped(u64),
    Connection(Lost),
    /// MsQuic takes no more data.
    Refused(Status),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Stopped(code) => write!(formatter, "the peer stopped the stream with code {code:#x}"),
            Self::Connection(lost) => lost.fmt(formatter),
            Self::Refused(status) => write!(formatter, "data refused: {status}"),
        }
    }
}

impl std::error::Error for Failure {}

#[derive(Default)]
struct State {
    id: Option<u64>,
    received: VecDeque<Bytes>,
    /// The peer has sent all.
    ended: bool,
    receiving_failed: Option<Failure>,
    sending_failed: Option<Failure>,
    unsent: usize,
    readers: Wakers,
    writers: Wakers,
    /// Keeps the stream until both directions are done.
    alive: Option<Arc<Stream>>,
}

impl State {
    fn fail(&mut self, failure: &Failure) {
        self.receiving_failed.get_or_insert_with(|| failure.clone());
        self.sending_failed.get_or_insert_with(|| failure.clone());
        self.wake();
    }

    fn wake(&mut self) {
        self.readers.wake();
        self.writers.wake();
    }
}

type Shared = Arc<Mutex<State>>;

pub struct Stream {
    handle: msquic::Stream,
    state: Shared,
    /// Data may go as 0-RTT.
    early: bool,
}

impl Stream {
    /// Opens a stream of our own. `poll_started` tells when it has its ID.
    pub fn open(connection: &msquic::Connection, unidirectional: bool, early: bool) -> Result<Arc<Self>, Status> {
        let flags = if unidirectional { StreamOpenFlags::UNIDIRECTIONAL } else { StreamOpenFlags::NONE };
        let flags = if early { flags | StreamOpenFlags::ZERO_RTT } else { flags };
        let state = Shared::default();
        let handle = msquic::Stream::open(connection, flags, callback(state.clone()))?;
        let stream = Arc::new(Self { handle, state, early });
        stream.state().alive = Some(stream.clone());
        if let Err(error) = stream.handle.start(StreamStartFlags::SHUTDOWN_ON_FAIL) {
            // It never started, so it never ends.
            stream.state().alive = None;
            return Err(error);
        }
        Ok(stream)
    }

    /// Takes a stream that the peer has opened, in the callback that tells of it.
    pub fn accept(stream: &msquic::Stream) -> Arc<Self> {
        let state = Shared::default();
        // SAFETY: the application owns the streams that it is told of.
        let handle = unsafe { msquic::Stream::from_raw(stream.as_raw()) };
        handle.set_callback_handler(callback(state.clone()));
        state.lock().expect("no panics").id = handle.get_stream_id().ok();
        let stream = Arc::new(Self { handle, state, early: false });
        stream.state().alive = Some(stream.clone());
        stream
    }

    pub fn poll_started(&self, context: &Context) -> Poll<Result<(), Failure>> {
        let mut state = self.state();
        match (&state.id, &state.sending_failed) {
            (_, Some(failure)) => Poll::Ready(Err(failure.clone())),
            (Some(_), None) => Poll::Ready(Ok(())),
            (None, None) => {
                state.writers.add(context);
                Poll::Pending
            }
        }
    }

    fn id(&self) -> u64 {
        self.state().id.unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panics")
    }

    fn abort(&self, direction: StreamShutdownFlags, code: u64) {
        // It fails where the direction is done already.
        let _ = self.handle.shutdown(direction, code);
    }
}

/// The sending half.
pub struct SendHalf {
    stream: Arc<Stream>,
    finished: bool,
}

impl SendHalf {
    pub fn new(stream: Arc<Stream>) -> Self {
        Self { stream, finished: false }
    }

    pub fn id(&self) -> u64 {
        self.stream.id()
    }

    /// Whether more may be sent.
    pub fn poll_ready(&self, context: &Context) -> Poll<Result<(), Failure>> {
        let mut state = self.stream.state();
        if let Some(failure) = &state.sending_failed {
            return Poll::Ready(Err(failure.clone()));
        }
        if state.unsent < ENOUGH_TO_SEND {
            return Poll::Ready(Ok(()));
        }
        state.writers.add(context);
        Poll::Pending
    }

    pub async fn ready(&self) -> Result<(), Failure> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Hands data over; `last` ends this direction.
    pub fn send(&mut self, data: Bytes, last: bool) -> Result<(), Failure> {
        self.finished |= last;
        let flags = if last { SendFlags::FIN } else { SendFlags::NONE };
        let flags = if self.stream.early { flags | SendFlags::ALLOW_0_RTT } else { flags };
        self.stream.state().unsent += data.len();
        let sending = Box::into_raw(Box::new(Sending { buffer: [BufferRef::from(&data[..])], data }));
        // SAFETY: data and buffer stay where they are until the callback takes them back, or none of it is taken.
        let sent = unsafe { self.stream.handle.send(&(*sending).buffer, flags, sending.cast::<c_void>()) };
        sent.map_err(|status| {
            // SAFETY: MsQuic has refused it, so it is still ours.
            let refused = unsafe { Box::from_raw(sending) };
            let mut state = self.stream.state();
            state.unsent -= refused.data.len();
            // Why, where that is known by now.
            state.sending_failed.clone().unwrap_or(Failure::Refused(status))
        })
    }

    pub fn reset(&mut self, code: u64) {
        self.finished = true;
        self.stream.abort(StreamShutdownFlags::ABORT_SEND, code);
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if !self.finished {
            self.reset(0);
        }
    }
}

/// What MsQuic holds on to while it sends.
struct Sending {
    buffer: [BufferRef; 1],
    data: Bytes,
}

/// The receiving half.
pub struct ReceiveHalf(Arc<Stream>);

impl ReceiveHalf {
    pub fn new(stream: Arc<Stream>) -> Self {
        Self(stream)
    }

    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// The next data, or `None` at the end.
    pub fn poll_receive(&self, context: &Context) -> Poll<Result<Option<Bytes>, Failure>> {
        let mut state = self.0.state();
        if let Some(data) = state.received.pop_front() {
            return Poll::Ready(Ok(Some(data)));
        }
        if state.ended {
            return Poll::Ready(Ok(None));
        }
        if let Some(failure) = &state.receiving_failed {
            return Poll::Ready(Err(failure.clone()));
        }
        state.readers.add(context);
        Poll::Pending
    }

    pub async fn receive(&self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    pub fn stop(&self, code: u64) {
        self.0.abort(StreamShutdownFlags::ABORT_RECEIVE, code);
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        let (ended, failed) = {
            let state = self.0.state();
            (state.ended, state.receiving_failed.is_some())
        };
        if !ended && !failed {
            self.stop(0);
        }
    }
}

/// What MsQuic calls, one event of a stream at a time.
fn callback(state: Shared) -> impl FnMut(msquic::StreamRef, StreamEvent) -> Result<(), Status> {
    move |_, event| {
        let mut state = state.lock().expect("no panics");
        match event {
            StreamEvent::StartComplete { status, id, .. } => {
                if status.is_ok() {
                    state.id = Some(id);
                }
                // Otherwise the end of the stream follows.
                state.writers.wake();
            }
            StreamEvent::Receive { buffers, .. } => {
                // Taken as a whole, so that MsQuic gives the peer new credit at once.
                let length = buffers.iter().map(|buffer| buffer.as_bytes().len()).sum();
                let mut data = BytesMut::with_capacity(length);
                buffers.iter().for_each(|buffer| data.extend_from_slice(buffer.as_bytes()));
                if !data.is_empty() {
                    state.received.push_back(data.freeze());
                    state.readers.wake();
                }
            }
            StreamEvent::PeerSendShutdown => {
                state.ended = true;
                state.readers.wake();
            }
            StreamEvent::PeerSendAborted { error_code } => {
                state.receiving_failed = Some(Failure::Stopped(error_code));
                state.readers.wake();
            }
            StreamEvent::PeerReceiveAborted { error_code } => {
                state.sending_failed = Some(Failure::Stopped(error_code));
                state.writers.wake();
            }
            StreamEvent::SendComplete { client_context, .. } => {
                // SAFETY: it is what `send` has let go, given back once.
                let sending = unsafe { Box::from_raw(client_context.cast_mut().cast::<Sending>()) };
                state.unsent -= sending.data.len();
                state.writers.wake();
            }
            StreamEvent::ShutdownComplete {
                connection_shutdown,
                connection_shutdown_by_app,
                connection_closed_remotely,
                connection_error_code,
                connection_close_status,
                ..
            } => {
                let lost = match (connection_shutdown, connection_shutdown_by_app, connection_closed_remotely) {
                    (true, true, true) => Lost::Peer(connection_error_code),
                    (true, false, _) => Lost::Transport(connection_close_status),
                    _ => Lost::Closed,
                };
                state.fail(&Failure::Connection(lost));
                if let Some(stream) = state.alive.take() {
                    close_later(stream);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn close_later(stream: Arc<Stream>) {
    static CLOSER: OnceLock<Sender<Arc<Stream>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || receiver.into_iter().for_each(drop));
        sender
    });
    // The thread runs as long as the program.
    let _ = closer.send(stream);
}
