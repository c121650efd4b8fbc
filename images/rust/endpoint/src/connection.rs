//! A stack's connection as the application protocols see it, for stacks that run on tokio and have their HTTP/3 from the
//! h3 crate.

use std::future::Future;

use bytes::Bytes;
use h3::quic;

use crate::{Protocol, Result};

/// A handle on a connection. A copy of it is a handle on the same one.
pub trait Connection: Clone + Send + Sync + 'static {
    /// The connection below the h3 crate.
    type Http3: quic::Connection<
            Bytes,
            OpenStreams = Self::Streams,
            SendStream = Self::Unidirectional,
            BidiStream = Self::Bidirectional,
            RecvStream: Send,
        > + Send
        + 'static;
    /// What opens streams for the h3 crate.
    type Streams: quic::OpenStreams<Bytes, SendStream = Self::Unidirectional, BidiStream = Self::Bidirectional>
        + Clone
        + Send
        + 'static;
    type Unidirectional: quic::SendStream<Bytes> + Send;
    type Bidirectional: quic::BidiStream<Bytes> + quic::RecvStream<Buf: Send> + Send;
    type Sender: Sender;
    type Receiver: Receiver;

    fn http3(&self) -> Self::Http3;

    /// Opens a bidirectional stream, once the peer lets another be open.
    fn open(&self) -> impl Future<Output = Result<(Self::Sender, Self::Receiver)>> + Send;

    /// The next bidirectional stream that the peer opens.
    fn accept(&self) -> impl Future<Output = Result<(Self::Sender, Self::Receiver)>> + Send;

    /// The next datagram (RFC 9221); none once the peer has closed the connection without an error of `protocol`.
    fn read_datagram(&self, protocol: Protocol) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    fn send_datagram(&self, data: Vec<u8>) -> Result<()>;

    fn close(&self, protocol: Protocol);

    /// Whether the connection is closed, by this side or without an error of `protocol` by its peer.
    fn is_closed_well(&self, protocol: Protocol) -> bool;
}

/// This side of a stream.
pub trait Sender: Send + 'static {
    fn write(&mut self, data: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Says that nothing follows. It does not wait for the peer to have it all.
    fn finish(&mut self) -> Result<()>;

    fn reset(&mut self, code: u32) -> Result<()>;
}

/// The peer's side of a stream.
pub trait Receiver: Send + 'static {
    /// What comes next, at most so many bytes of it if the stack can tell; none at the end of the stream.
    fn read(&mut self, most: usize) -> impl Future<Output = Result<Option<Bytes>>> + Send;
}
