//! Sockets with room for a window's worth of datagrams, which leave whole or not at all.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// Kernel buffer asked for in either direction: a window's worth on a long fat path.
const KERNEL_BUFFER: libc::c_int = 16 << 20;

/// A server's socket, for both address families where the system has both; not blocking.
pub fn listen(port: u16) -> io::Result<UdpSocket> {
    let socket =
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    prepare(socket)
}

/// A server's sockets, one for each address family that the system has, for stacks that tell IPv4 by an address's form;
/// not blocking.
pub fn listen_apart(port: u16) -> io::Result<Vec<UdpSocket>> {
    let mut sockets = vec![prepare(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?)?];
    // SAFETY: the call takes no pointer.
    let descriptor = unsafe { libc::socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Ok(sockets);
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let socket = unsafe { UdpSocket::from_raw_fd(descriptor) };
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
    // SAFETY: all zeros is a valid address, that of any interface.
    let mut any: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    any.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    any.sin6_port = port.to_be();
    // SAFETY: the address is as long as is said.
    let bound = unsafe { libc::bind(descriptor, ptr::from_ref(&any).cast(), size_of_val(&any) as libc::socklen_t) };
    if bound == 0 {
        sockets.push(prepare(socket)?);
    }
    Ok(sockets)
}

/// A client's socket of the family of `peer`, not connected; not blocking.
pub fn towards(peer: SocketAddr) -> io::Result<UdpSocket> {
    bind(match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    })
}

/// A socket at an address, at a port of the system's choice, not connected; not blocking.
pub fn bind(address: IpAddr) -> io::Result<UdpSocket> {
    prepare(UdpSocket::bind((address, 0))?)
}

fn prepare(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    // The forced variants may exceed the system's limit but need CAP_NET_ADMIN.
    for (forced, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        if !set(&socket, libc::SOL_SOCKET, forced, KERNEL_BUFFER) {
            set(&socket, libc::SOL_SOCKET, plain, KERNEL_BUFFER);
        }
    }
    // RFC 9000 §14: never fragmented. A socket of one family refuses the other's option.
    set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
    Ok(socket)
}

/// False if the system refuses.
fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> bool {
    // SAFETY: the option takes an int, whose address and size are passed.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    outcome == 0
}
