//! dquic below the h3 crate: its `quic` traits for dquic's connections and streams. The project's own crate for this,
//! h3-shim, is for dquic 0.5.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use dquic::prelude::{CancelStream, Error, StopSending, StreamError, StreamReader, StreamWriter};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};

use crate::connection;

type Id = dquic::prelude::StreamId;
type Both = (Id, (StreamReader, StreamWriter));

/// What dquic is still to do. It holds a connection of its own, so that it can wait for more than one call.
type Pending<T> = Option<Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>>;

/// A connection. It opens streams as well; a copy of it is a copy of the handle.
pub struct Connection {
    dquic: Arc<dquic::prelude::Connection>,
    accept_uni: Pending<(Id, StreamReader)>,
    accept_bi: Pending<Both>,
    open_uni: Pending<Option<(Id, StreamWriter)>>,
    open_bi: Pending<Option<Both>>,
}

impl Connection {
    pub fn new(dquic: Arc<dquic::prelude::Connection>) -> Self {
        Self { dquic, accept_uni: None, accept_bi: None, open_uni: None, open_bi: None }
    }
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self::new(self.dquic.clone())
    }
}

/// Goes on with what is pending, or begins it.
macro_rules! go_on {
    ($self:ident, $context:ident, $field:ident, $call:ident) => {{
        let connection = &$self.dquic;
        let future = $self.$field.get_or_insert_with(|| Box::pin(connection.$call()));
        let outcome = ready!(future.as_mut().poll($context));
        $self.$field = None;
        outcome
    }};
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let outcome = go_on!(self, context, accept_uni, accept_uni_stream);
        Poll::Ready(outcome.map(RecvStream::new).map_err(connection_error))
    }

    fn poll_accept_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let outcome = go_on!(self, context, accept_bi, accept_bi_stream);
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
        let outcome = go_on!(self, context, open_bi, open_bi_stream);
        Poll::Ready(outcome.map_err(lost).and_then(|stream| stream.map(BidiStream::new).ok_or_else(exhausted)))
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let outcome = go_on!(self, context, open_uni, open_uni_stream);
        Poll::Ready(outcome.map_err(lost).and_then(|stream| stream.map(SendStream::new).ok_or_else(exhausted)))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        // One that is closed is closed.
        let _ = self.dquic.close(String::from_utf8_lossy(reason).into_owned(), code.value());
    }
}

pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    receive: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    fn new((id, (reader, writer)): Both) -> Self {
        Self { send: SendStream::new((id, writer)), receive: RecvStream::new((id, reader)) }
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
    id: Id,
    writer: StreamWriter,
    /// What h3 wants sent and dquic has not taken yet.
    unsent: Option<WriteBuf<B>>,
}

impl<B: Buf> SendStream<B> {
    fn new((id, writer): (Id, StreamWriter)) -> Self {
        Self { id, writer, unsent: None }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(mut data) = self.unsent.take() {
            // dquic takes all of it or nothing.
            match self.writer.poll_ready(context) {
                Poll::Ready(ready) => {
                    ready.map_err(stream_error)?;
                    self.writer.write(data.copy_to_bytes(data.remaining())).map_err(stream_error)?;
                }
                Poll::Pending => {
                    self.unsent = Some(data);
                    return Poll::Pending;
                }
            }
        }
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
        connection::end(&mut self.writer);
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        self.writer.cancel(code);
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.id)
    }
}

pub struct RecvStream {
    id: Id,
    reader: StreamReader,
}

impl RecvStream {
    fn new((id, reader): (Id, StreamReader)) -> Self {
        Self { id, reader }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        connection::next(&mut self.reader, context).map(|data| data.transpose().map_err(stream_error))
    }

    fn stop_sending(&mut self, code: u64) {
        self.reader.stop(code);
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.id)
    }
}

fn stream_id(id: Id) -> StreamId {
    u64::from(id).try_into().expect("both are of 62 bits")
}

fn connection_error(error: Error) -> ConnectionErrorIncoming {
    match error {
        Error::App(end) => ConnectionErrorIncoming::ApplicationClose { error_code: end.error_code() },
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

/// Of a stream whose connection has ended.
fn lost(error: Error) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

fn exhausted() -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown("no stream IDs are left".into())
}

fn stream_error(error: StreamError) -> StreamErrorIncoming {
    match error {
        StreamError::Connection(error) => lost(error),
        StreamError::Reset(reset) => StreamErrorIncoming::StreamTerminated { error_code: reset.error_code() },
        other => StreamErrorIncoming::Unknown(other.into()),
    }
}
