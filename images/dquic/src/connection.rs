//! dquic's connections and streams as the application protocols see them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use dquic::prelude::{CancelStream, Error, StreamError, StreamReader, StreamWriter};
use quic_endpoint::{Protocol, Result};

use crate::http3;

#[derive(Clone)]
pub struct Connection(pub Arc<dquic::prelude::Connection>);

impl quic_endpoint::connection::Connection for Connection {
    type Http3 = http3::Connection;
    type Streams = http3::Connection;
    type Unidirectional = http3::SendStream<Bytes>;
    type Bidirectional = http3::BidiStream<Bytes>;
    type Sender = Sender;
    type Receiver = Receiver;

    fn http3(&self) -> http3::Connection {
        http3::Connection::new(self.0.clone())
    }

    async fn open(&self) -> Result<(Sender, Receiver)> {
        let (_, (reader, writer)) = self.0.open_bi_stream().await?.ok_or("no stream IDs are left")?;
        Ok((Sender(writer), Receiver(reader)))
    }

    async fn accept(&self) -> Result<(Sender, Receiver)> {
        let (_, (reader, writer)) = self.0.accept_bi_stream().await?;
        Ok((Sender(writer), Receiver(reader)))
    }

    // The crate calls them deprecated, and has no others.
    #[allow(deprecated)]
    async fn read_datagram(&self, protocol: Protocol) -> Result<Option<Bytes>> {
        let received = match self.0.datagram_reader() {
            Ok(reader) => reader?.recv().await.map_err(quic_endpoint::Error::from),
            Err(error) => Err(error.into()),
        };
        match received {
            Ok(data) => Ok(Some(data)),
            Err(_) if self.is_closed_well(protocol) => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[allow(deprecated)]
    fn send_datagram(&self, data: Vec<u8>) -> Result<()> {
        // It waits for the client's transport parameters alone, which came with its first datagram.
        match pin!(self.0.datagram_writer()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(writer) => Ok(writer??.send_bytes(data.into())?),
            Poll::Pending => Err("the client's transport parameters are not known yet".into()),
        }
    }

    fn close(&self, protocol: Protocol) {
        // One that is closed is closed.
        let _ = self.0.close("", protocol.no_error().into());
    }

    fn is_closed_well(&self, protocol: Protocol) -> bool {
        matches!(self.0.validate(), Err(Error::App(end)) if end.error_code() == u64::from(protocol.no_error()))
    }
}

pub struct Sender(StreamWriter);

impl quic_endpoint::connection::Sender for Sender {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        poll_fn(|context| self.0.poll_ready(context)).await?;
        Ok(self.0.write(data)?)
    }

    fn finish(&mut self) -> Result<()> {
        end(&mut self.0);
        Ok(())
    }

    fn reset(&mut self, code: u32) -> Result<()> {
        self.0.cancel(code.into());
        Ok(())
    }
}

/// What comes next; none at the end of the stream.
pub fn next(
    reader: &mut StreamReader,
    context: &mut Context<'_>,
) -> Poll<Option<std::result::Result<Bytes, StreamError>>> {
    loop {
        match ready!(Pin::new(&mut *reader).poll_next(context)) {
            // An empty piece tells nothing.
            Some(Ok(piece)) if piece.is_empty() => (),
            other => return Poll::Ready(other),
        }
    }
}

/// Says that nothing follows. Whoever waits for that call to be done waits for the last acknowledgement.
pub fn end(writer: &mut StreamWriter) {
    let _ = writer.poll_shutdown(&mut Context::from_waker(Waker::noop()));
}

pub struct Receiver(StreamReader);

impl quic_endpoint::connection::Receiver for Receiver {
    async fn read(&mut self, _: usize) -> Result<Option<Bytes>> {
        Ok(poll_fn(|context| next(&mut self.0, context)).await.transpose()?)
    }
}
