//! MsQuic below the h3 crate: its traits over our streams.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use msquic::{Status, StatusCode};

use crate::connection::{Connection, Lost};
use crate::stream::{Failure, ReceiveHalf, SendHalf, Stream};

fn connection_error(lost: &Lost) -> ConnectionErrorIncoming {
    match lost {
        Lost::Peer(code) => ConnectionErrorIncoming::ApplicationClose { error_code: *code },
        Lost::Transport(status) if status.0 == Status::from(StatusCode::QUIC_STATUS_CONNECTION_IDLE).0 => {
            ConnectionErrorIncoming::Timeout
        }
        lost => ConnectionErrorIncoming::Undefined(Arc::new(lost.clone())),
    }
}

fn stream_error(failure: &Failure) -> StreamErrorIncoming {
    match failure {
        Failure::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: *code },
        Failure::Connection(lost) => {
            StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(lost) }
        }
        Failure::Refused(status) => refusal(status.clone()),
    }
}

fn refusal(status: Status) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(status))
}

fn stream_id(id: u64) -> StreamId {
    // QUIC has no larger stream ID.
    id.try_into().expect("62 bits")
}

/// Opens streams; one at a time of either kind is on its way.
pub struct Opener {
    connection: Connection,
    request: Option<Arc<Stream>>,
    unidirectional: Option<Arc<Stream>>,
}

impl Opener {
    pub fn new(connection: Connection) -> Self {
        Self { connection, request: None, unidirectional: None }
    }
}

impl Clone for Opener {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone())
    }
}

fn poll_open(
    connection: &Connection,
    pending: &mut Option<Arc<Stream>>,
    unidirectional: bool,
    context: &Context,
) -> Poll<Result<Arc<Stream>, StreamErrorIncoming>> {
    let stream = match pending.take() {
        Some(stream) => stream,
        None => connection.open(unidirectional).map_err(refusal)?,
    };
    match stream.poll_started(context) {
        Poll::Ready(started) => Poll::Ready(started.map(|()| stream).map_err(|failure| stream_error(&failure))),
        Poll::Pending => {
            *pending = Some(stream);
            Poll::Pending
        }
    }
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = Request;
    type SendStream = Sender;

    fn poll_open_bidi(&mut self, context: &mut Context) -> Poll<Result<Request, StreamErrorIncoming>> {
        let stream = ready!(poll_open(&self.connection, &mut self.request, false, context))?;
        Poll::Ready(Ok(Request::new((SendHalf::new(stream.clone()), ReceiveHalf::new(stream)))))
    }

    fn poll_open_send(&mut self, context: &mut Context) -> Poll<Result<Sender, StreamErrorIncoming>> {
        let stream = ready!(poll_open(&self.connection, &mut self.unidirectional, true, context))?;
        Poll::Ready(Ok(Sender(SendHalf::new(stream))))
    }

    fn close(&mut self, code: Code, _reason: &[u8]) {
        self.connection.close(u32::try_from(code.value()).unwrap_or(u32::MAX));
    }
}

impl quic::Connection<Bytes> for Opener {
    type RecvStream = Receiver;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, context: &mut Context) -> Poll<Result<Receiver, ConnectionErrorIncoming>> {
        let stream = ready!(self.connection.poll_unidirectional(context));
        Poll::Ready(stream.map(Receiver).map_err(|lost| connection_error(&lost)))
    }

    fn poll_accept_bidi(&mut self, context: &mut Context) -> Poll<Result<Request, ConnectionErrorIncoming>> {
        let request = ready!(self.connection.poll_request(context));
        Poll::Ready(request.map(Request::new).map_err(|lost| connection_error(&lost)))
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

pub struct Sender(SendHalf);

impl quic::SendStream<Bytes> for Sender {
    fn poll_ready(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        self.0.poll_ready(context).map_err(|failure| stream_error(&failure))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut data = data.into();
        let data = data.copy_to_bytes(data.remaining());
        self.0.send(data, false).map_err(|failure| stream_error(&failure))
    }

    fn poll_finish(&mut self, _: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.0.send(Bytes::new(), true).map_err(|failure| stream_error(&failure)))
    }

    fn reset(&mut self, code: u64) {
        self.0.reset(code);
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

pub struct Receiver(ReceiveHalf);

impl quic::RecvStream for Receiver {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_receive(context).map_err(|failure| stream_error(&failure))
    }

    fn stop_sending(&mut self, code: u64) {
        self.0.stop(code);
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

/// Both directions of a request stream.
pub struct Request {
    sender: Sender,
    receiver: Receiver,
}

impl Request {
    fn new((sender, receiver): (SendHalf, ReceiveHalf)) -> Self {
        Self { sender: Sender(sender), receiver: Receiver(receiver) }
    }
}

impl quic::BidiStream<Bytes> for Request {
    type SendStream = Sender;
    type RecvStream = Receiver;

    fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl quic::SendStream<Bytes> for Request {
    fn poll_ready(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sender.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.sender.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.sender.send_id()
    }
}

impl quic::RecvStream for Request {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receiver.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receiver.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receiver.recv_id()
    }
}
