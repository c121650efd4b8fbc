//! noq's connections and streams as the application protocols see them.

use bytes::Bytes;
use noq::{ConnectionError, RecvStream, SendStream};
use quic_endpoint::{Protocol, Result, connection};

use crate::http3;

/// A connection, for whoever fetches over it or serves it.
#[derive(Clone)]
pub struct Connection(pub noq::Connection);

impl connection::Connection for Connection {
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
        let (send, receive) = self.0.open_bi().await?;
        Ok((Sender(send), Receiver(receive)))
    }

    async fn accept(&self) -> Result<(Sender, Receiver)> {
        let (send, receive) = self.0.accept_bi().await?;
        Ok((Sender(send), Receiver(receive)))
    }

    async fn read_datagram(&self, protocol: Protocol) -> Result<Option<Bytes>> {
        match self.0.read_datagram().await {
            Ok(data) => Ok(Some(data)),
            Err(ConnectionError::ApplicationClosed(end)) if end.error_code == protocol.no_error().into() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn send_datagram(&self, data: Vec<u8>) -> Result<()> {
        Ok(self.0.send_datagram(data.into())?)
    }

    fn close(&self, protocol: Protocol) {
        self.0.close(protocol.no_error().into(), b"");
    }

    fn is_closed_well(&self, protocol: Protocol) -> bool {
        match self.0.close_reason() {
            Some(ConnectionError::LocallyClosed) => true,
            Some(ConnectionError::ApplicationClosed(end)) => end.error_code == protocol.no_error().into(),
            _ => false,
        }
    }
}

pub struct Sender(SendStream);

impl connection::Sender for Sender {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        Ok(self.0.write_chunk(data).await?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.0.finish()?)
    }

    fn reset(&mut self, code: u32) -> Result<()> {
        Ok(self.0.reset(code.into())?)
    }
}

pub struct Receiver(RecvStream);

impl connection::Receiver for Receiver {
    async fn read(&mut self, most: usize) -> Result<Option<Bytes>> {
        Ok(self.0.read_chunk(most).await?)
    }
}
