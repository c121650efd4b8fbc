//! noq below the h3 crate: its `quic` traits for noq's connections and streams. There is no crate for this.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use noq::{ConnectionError, ReadError, VarInt, WriteError};

/// What noq is still to do. It holds a connection of its own, so that it can wait for more than one call.
type Pending<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>>;

/// A connection. It opens streams as well; a copy of it is a copy of the handle.
pub struct Connection {
    noq: noq::Connection,
    accept_uni: Pending<noq::RecvStream>,
    accept_bi: Pending<(noq::SendStream, noq::RecvStream)>,
    open_uni: Pending<noq::SendStream>,
    open_bi: Pending<(noq::SendStream, noq::RecvStream)>,
}

impl Connection {
    pub fn new(noq: noq::Connection) -> Self {
        Self { noq, accept_uni: None, accept_bi: None, open_uni: None, open_bi: None }
    }
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self::new(self.noq.clone())
    }
}

/// Goes on with what is pending, or begins it.
macro_rules! go_on {
    ($self:ident, $context:ident, $field:ident, $call:ident) => {{
        let connection = &$self.noq;
        let future = $self.$field.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.$call().await })
        });
        let outcome = ready!(future.as_mut().poll($context));
        $self.$field = None;
        outcome
    }};
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let outcome = go_on!(self, context, accept_uni, accept_uni);
        Poll::Ready(outcome.map(RecvStream).map_err(connection_error))
    }

    fn poll_accept_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let outcome = go_on!(self, context, accept_bi, accept_bi);
        Poll::Ready(outcome.map(BidiStream::new).map_err(connection_error))
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let outcome = go_on!(self, context, open_bi, open_bi);
        Poll::Ready(outcome.map(BidiStream::new).map_err(lost))
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let outcome = go_on!(self, context, open_uni, open_uni);
        Poll::Ready(outcome.map(SendStream::new).map_err(lost))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.noq.close(error_code(code.value()), reason);
    }
}

pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    receive: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    fn new((send, receive): (noq::SendStream, noq::RecvStream)) -> Self {
        Self { send: SendStream::new(send), receive: RecvStream(receive) }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.receive)
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

pub struct SendStream<B: Buf> {
    noq: noq::SendStream,
    /// What h3 wants sent and noq has not taken yet.
    unsent: Option<WriteBuf<B>>,
}

impl<B: Buf> SendStream<B> {
    fn new(noq: noq::SendStream) -> Self {
        Self { noq, unsent: None }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(data) = &mut self.unsent {
            while data.has_remaining() {
                let written = ready!(Pin::new(&mut self.noq).poll_write(context, data.chunk()));
                data.advance(written.map_err(write_error)?);
            }
        }
        self.unsent = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.unsent.is_some() {
            let reason = "data to send while others wait".to_owned();
            let connection_error = ConnectionErrorIncoming::InternalError(reason);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.unsent = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.noq.finish().map_err(|error| StreamErrorIncoming::Unknown(error.into())))
    }

    fn reset(&mut self, code: u64) {
        // A stream that has ended needs none.
        let _ = self.noq.reset(error_code(code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.noq.id())
    }
}

pub struct RecvStream(noq::RecvStream);

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        // The stream keeps the waker, so that a call may begin anew.
        pin!(self.0.read_chunk(usize::MAX)).poll(context).map_err(read_error)
    }

    fn stop_sending(&mut self, code: u64) {
        // A stream that has ended needs none.
        let _ = self.0.stop(error_code(code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

fn stream_id(id: noq::StreamId) -> StreamId {
    u64::from(VarInt::from(id)).try_into().expect("both are of 62 bits")
}

fn error_code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(end) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: end.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

/// Of a stream whose connection has ended.
fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into() },
        ReadError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(other.into()),
    }
}

fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into() },
        WriteError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(other.into()),
    }
}
