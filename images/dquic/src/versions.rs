//! Version Negotiation (RFC 9000 §6) in front of a server of dquic's, which answers no version but its own. The lab asks
//! for an unknown version to learn that a server is up.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::BytesMut;
use dquic::prelude::{BindUri, IO, handy};
use dquic::qbase::net::route::{Line, Route};

/// The only version of the crate.
const VERSION: [u8; 4] = [0, 0, 0, 1];
const NEGOTIATION: [u8; 4] = [0; 4];
/// A client's first datagram is no smaller (RFC 9000 §14.1).
const SMALLEST: usize = 1200;
const LONG_HEADER: u8 = 0x80;
/// What every version sees as one of QUIC's (RFC 8999 §6, RFC 9000 §17.2.1).
const FIRST_BYTE: u8 = 0xc0;

/// The crate's own socket, with answers to datagrams of other versions.
pub struct Negotiating(Box<dyn IO>);

impl Negotiating {
    pub fn bind(address: BindUri) -> Self {
        Self(Box::new(handy::DEFAULT_IO_FACTORY(address)))
    }
}

impl IO for Negotiating {
    fn bind_uri(&self) -> BindUri {
        self.0.bind_uri()
    }

    fn bound_addr(&self) -> io::Result<SocketAddr> {
        self.0.bound_addr()
    }

    fn max_segment_size(&self) -> io::Result<usize> {
        self.0.max_segment_size()
    }

    fn max_segments(&self) -> io::Result<usize> {
        self.0.max_segments()
    }

    fn poll_send(&self, context: &mut Context, packets: &[IoSlice], route: Route) -> Poll<io::Result<usize>> {
        self.0.poll_send(context, packets, route)
    }

    fn poll_recv(
        &self,
        context: &mut Context,
        packets: &mut [BytesMut],
        routes: &mut [Route],
    ) -> Poll<io::Result<usize>> {
        let received = self.0.poll_recv(context, packets, routes);
        if let Poll::Ready(Ok(count)) = received {
            for (packet, route) in packets.iter().zip(routes.iter()).take(count) {
                let length = packet.len().min(route.seg_size().into());
                if let Some(answer) = answer(&packet[..length]) {
                    // The way back, with a lifetime: what is received has none. Whoever asks asks again.
                    let line = Line::new(route.line.link, Line::DEFAULT_TTL, None, answer.len() as u16);
                    let back = Route::new(route.pathway, line);
                    let _ = self.0.poll_send(context, &[IoSlice::new(&answer)], back);
                }
            }
        }
        received
    }

    fn poll_close(&mut self, context: &mut Context) -> Poll<io::Result<()>> {
        self.0.poll_close(context)
    }
}

/// The Version Negotiation packet that a datagram asks for, if it does.
fn answer(datagram: &[u8]) -> Option<Vec<u8>> {
    let (&first, rest) = datagram.split_first()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    if datagram.len() < SMALLEST || first & LONG_HEADER == 0 || [VERSION, NEGOTIATION].contains(version) {
        return None;
    }
    let (destination, rest) = connection_id(rest)?;
    let (source, _) = connection_id(rest)?;
    let mut answer = vec![FIRST_BYTE];
    answer.extend(NEGOTIATION);
    for id in [source, destination] {
        answer.push(u8::try_from(id.len()).ok()?);
        answer.extend(id);
    }
    answer.extend(VERSION);
    Some(answer)
}

/// A connection ID behind its length, and what follows it.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(length.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(version: [u8; 4], length: usize) -> Vec<u8> {
        let mut datagram = vec![0xc3];
        datagram.extend(version);
        datagram.extend([2, 7, 8, 1, 9]);
        datagram.resize(length, 0);
        datagram
    }

    #[test]
    fn an_unknown_version_is_told_the_known_one() {
        let asked = initial([0x1a, 0x2a, 0x3a, 0x4a], SMALLEST);
        assert_eq!(answer(&asked).unwrap(), [0xc0, 0, 0, 0, 0, 1, 9, 2, 7, 8, 0, 0, 0, 1]);
        for other in [initial(VERSION, SMALLEST), initial(NEGOTIATION, SMALLEST), initial([9; 4], SMALLEST - 1)] {
            assert_eq!(answer(&other), None);
        }
        assert_eq!(answer(&[0x40; SMALLEST]), None);
    }
}
