//! The h3 crate's view of a QUIC connection (`h3::quic`), over s2n-quic.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use s2n_quic::application;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::stream;

pub struct Connection {
    streams: Streams,
    requests: BidirectionalStreamAcceptor,
    unidirectional: ReceiveStreamAcceptor,
}

impl Connection {
    pub fn new(connection: s2n_quic::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (requests, unidirectional) = acceptor.split();
        Self { streams: Streams(handle), requests, unidirectional }
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = ReceiveStream;
    type OpenStreams = Streams;

    fn poll_accept_recv(&mut self, context: &mut Context) -> Poll<Result<ReceiveStream, ConnectionErrorIncoming>> {
        let accepted = ready!(self.unidirectional.poll_accept_receive_stream(context));
        Poll::Ready(accepted_or_closed(accepted).map(ReceiveStream))
    }

    fn poll_accept_bidi(&mut self, context: &mut Context) -> Poll<Result<RequestStream<B>, ConnectionErrorIncoming>> {
        let accepted = ready!(self.requests.poll_accept_bidirectional_stream(context));
        Poll::Ready(accepted_or_closed(accepted).map(RequestStream::new))
    }

    fn opener(&self) -> Streams {
        self.streams.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = RequestStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context) -> Poll<Result<RequestStream<B>, StreamErrorIncoming>> {
        self.streams.poll_open_bidi(context)
    }

    fn poll_open_send(&mut self, context: &mut Context) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        self.streams.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.streams, code, reason);
    }
}

/// Opens streams.
#[derive(Clone)]
pub struct Streams(Handle);

impl<B: Buf> quic::OpenStreams<B> for Streams {
    type BidiStream = RequestStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context) -> Poll<Result<RequestStream<B>, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_bidirectional_stream(context));
        Poll::Ready(opened.map(RequestStream::new).map_err(from_connection))
    }

    fn poll_open_send(&mut self, context: &mut Context) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_send_stream(context));
        Poll::Ready(opened.map(SendStream::new).map_err(from_connection))
    }

    // s2n-quic sends no reason.
    fn close(&mut self, code: Code, _reason: &[u8]) {
        self.0.close(application_error(code.value()));
    }
}

/// A bidirectional stream.
pub struct RequestStream<B> {
    send: SendStream<B>,
    receive: ReceiveStream,
}

impl<B: Buf> RequestStream<B> {
    fn new(stream: stream::BidirectionalStream) -> Self {
        let (receive, send) = stream.split();
        Self { send: SendStream::new(send), receive: ReceiveStream(receive) }
    }
}

impl<B: Buf> quic::BidiStream<B> for RequestStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = ReceiveStream;

    fn split(self) -> (SendStream<B>, ReceiveStream) {
        (self.send, self.receive)
    }
}

impl<B: Buf> quic::SendStream<B> for RequestStream<B> {
    fn poll_ready(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for RequestStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

pub struct SendStream<B> {
    stream: stream::SendStream,
    /// What h3 gave and s2n-quic has not taken: first the chunk, then the rest.
    chunk: Bytes,
    rest: Option<WriteBuf<B>>,
}

impl<B: Buf> SendStream<B> {
    fn new(stream: stream::SendStream) -> Self {
        Self { stream, chunk: Bytes::new(), rest: None }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            while !self.chunk.is_empty() {
                ready!(self.stream.poll_send(&mut self.chunk, context)).map_err(from_stream)?;
            }
            match &mut self.rest {
                Some(rest) if rest.has_remaining() => self.chunk = rest.copy_to_bytes(rest.chunk().len()),
                _ => {
                    self.rest = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.rest.is_some() {
            let reason = "data are sent before the stream is ready for them".to_owned();
            let connection_error = ConnectionErrorIncoming::InternalError(reason);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.rest = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(context))?;
        Poll::Ready(self.stream.finish().map_err(from_stream))
    }

    fn reset(&mut self, code: u64) {
        // A stream that has ended needs no reset.
        let _ = self.stream.reset(application_error(code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

pub struct ReceiveStream(stream::ReceiveStream);

impl quic::RecvStream for ReceiveStream {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_receive(context).map_err(from_stream)
    }

    fn stop_sending(&mut self, code: u64) {
        // A stream that has ended needs no stopping.
        let _ = self.0.stop_sending(application_error(code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

fn stream_id(id: u64) -> StreamId {
    id.try_into().expect("QUIC and HTTP/3 number streams alike")
}

fn application_error(code: u64) -> application::Error {
    application::Error::new(code).unwrap_or(application::Error::UNKNOWN)
}

/// A connection that ends without an error accepts no more streams.
fn accepted_or_closed<T>(accepted: connection::Result<Option<T>>) -> Result<T, ConnectionErrorIncoming> {
    let closed = ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() };
    accepted.map_err(connection_error)?.ok_or(closed)
}

fn connection_error(error: connection::Error) -> ConnectionErrorIncoming {
    match error {
        connection::Error::Application { error, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: error.into() }
        }
        connection::Error::Closed { .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() }
        }
        connection::Error::IdleTimerExpired { .. } => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn from_connection(error: connection::Error) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

fn from_stream(error: stream::Error) -> StreamErrorIncoming {
    match error {
        stream::Error::StreamReset { error, .. } => StreamErrorIncoming::StreamTerminated { error_code: error.into() },
        stream::Error::ConnectionError { error, .. } => from_connection(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}
