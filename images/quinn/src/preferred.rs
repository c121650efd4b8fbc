//! A preferred address (RFC 9000 §9.6): the server's own of the other family, which clients are to go on at.
//!
//! quinn keeps one local address for a connection and answers from it whatever the client does, and an endpoint has one
//! port. So both families share a socket, quinn is not told which address a datagram came to, and the system sends from
//! the one that leads to the client.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quic_endpoint::{Options, Result};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, UdpPoller};

use crate::config::is_asked;

/// The server's own addresses.
#[derive(Clone, Copy)]
pub struct Addresses {
    v4: SocketAddrV4,
    v6: SocketAddrV6,
}

/// Where clients are to go on, by the environment (run_endpoint.sh); none where that is not asked for.
pub fn asked(options: &Options) -> Result<Option<Addresses>> {
    if !is_asked("connectionmigration") {
        return Ok(None);
    }
    let v4: Ipv4Addr = address("ADDRESS4")?.parse()?;
    let v6: Ipv6Addr = address("ADDRESS6")?.parse()?;
    let port = options.port;
    Ok(Some(Addresses { v4: SocketAddrV4::new(v4, port), v6: SocketAddrV6::new(v6, port, 0, 0) }))
}

impl Addresses {
    /// Has a client be told of the other family than its own, and of none else: one that is told of both stays.
    pub fn prefer(self, config: &mut ServerConfig, client: SocketAddr) {
        match client.ip().to_canonical() {
            IpAddr::V4(_) => config.preferred_address_v6(Some(self.v6)),
            IpAddr::V6(_) => config.preferred_address_v4(Some(self.v4)),
        };
    }
}

fn address(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| format!("{name} names no address of the server's").into())
}

/// An endpoint for both families.
pub fn endpoint(config: ServerConfig, socket: UdpSocket) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    let socket = Arc::new(AnyAddress(runtime.wrap_udp_socket(socket)?));
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), Some(config), socket, runtime)
}

/// A socket that does not tell which of its addresses a datagram came to.
struct AnyAddress(Arc<dyn AsyncUdpSocket>);

impl fmt::Debug for AnyAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl AsyncUdpSocket for AnyAddress {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.0.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.0.poll_recv(context, buffers, meta);
        if let Poll::Ready(Ok(count)) = &received {
            meta[..*count].iter_mut().for_each(|one| one.dst_ip = None);
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}
