//! A UDP socket that receives and sends in batches and waits with a deadline.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant};

use quic_endpoint::{signal, udp};

/// Datagrams per system call.
pub const BATCH: usize = 64;
/// How long a full socket is waited for at a time.
const PATIENCE: Duration = Duration::from_millis(10);

pub struct Socket {
    udp: UdpSocket,
    local: SocketAddr,
    slot: usize,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    queued: Vec<(usize, SocketAddr)>,
}

impl Socket {
    /// A server's socket.
    pub fn listen(port: u16, max_payload: usize) -> io::Result<Self> {
        Self::new(udp::listen(port)?, max_payload)
    }

    /// A client's socket, bound to the address from which `peer` is reached unless it is bound already.
    pub fn connect(udp: UdpSocket, peer: SocketAddr, max_payload: usize) -> io::Result<Self> {
        udp.connect(peer)?;
        Self::new(udp, max_payload)
    }

    fn new(udp: UdpSocket, max_payload: usize) -> io::Result<Self> {
        // SAFETY: a plain integer argument. Pacing needs finer timers than the default slack of 50 us allows.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong, 0, 0, 0) };
        let slot = max_payload.max(2048);
        Ok(Self {
            local: udp.local_addr()?,
            udp,
            slot,
            incoming: vec![0; slot * BATCH],
            outgoing: vec![0; slot * BATCH],
            queued: Vec::with_capacity(BATCH),
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits until a datagram is there, the deadline has passed, or a signal has come.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<()> {
        wait([self], deadline)
    }

    fn awaited(&self, events: libc::c_short) -> libc::pollfd {
        libc::pollfd { fd: self.udp.as_raw_fd(), events, revents: 0 }
    }

    /// Hands every datagram of one batch to `handle` and returns how many there were.
    pub fn receive(&mut self, mut handle: impl FnMut(&mut [u8], SocketAddr)) -> io::Result<usize> {
        let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; BATCH];
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: an all-zero mmsghdr is a valid value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (index, slot) in self.incoming.chunks_exact_mut(self.slot).enumerate() {
            parts[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = names[index].as_mut_ptr().cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &mut parts[index];
            header.msg_iovlen = 1;
        }
        // SAFETY: BATCH headers, each with a name, a part and a slot that outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                self.udp.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let received = match usize::try_from(received) {
            Ok(received) => received,
            Err(_) => {
                return match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                    // An ICMP message about an earlier datagram; the connection's own timers decide.
                    error if error.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
                    error => interrupted_is_fine(error).map(|()| 0),
                };
            }
        };
        for (index, slot) in self.incoming.chunks_exact_mut(self.slot).take(received).enumerate() {
            // SAFETY: the kernel has filled in the name of every received message.
            let name = unsafe { names[index].assume_init_ref() };
            if let Some(peer) = socket_address(name) {
                handle(&mut slot[..messages[index].msg_len as usize], peer);
            }
        }
        Ok(received)
    }

    /// Space for the next datagram to send; `push` queues it.
    pub fn next_slot(&mut self) -> &mut [u8] {
        let start = self.queued.len() * self.slot;
        &mut self.outgoing[start..start + self.slot]
    }

    /// Queues the first `length` bytes of the slot given out last.
    pub fn push(&mut self, length: usize, peer: SocketAddr) -> io::Result<()> {
        self.queued.push((length, peer));
        if self.queued.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends what is queued. Datagrams that the network refuses are gone, as they would be further along.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.queued.is_empty() {
            return Ok(());
        }
        let mut names = [const { MaybeUninit::<RawAddress>::uninit() }; BATCH];
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: an all-zero mmsghdr is a valid value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let connected = self.udp.peer_addr().is_ok();
        for (index, (length, peer)) in self.queued.iter().enumerate() {
            let slot = &mut self.outgoing[index * self.slot..];
            parts[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: *length };
            let header = &mut messages[index].msg_hdr;
            if !connected {
                let name = names[index].write(RawAddress::from(*peer));
                header.msg_name = ptr::from_mut(name).cast();
                header.msg_namelen = RawAddress::length(peer);
            }
            header.msg_iov = &mut parts[index];
            header.msg_iovlen = 1;
        }
        let mut rest = &mut messages[..self.queued.len()];
        while !rest.is_empty() {
            // SAFETY: `rest` holds that many headers, whose names, parts and slots outlive the call.
            let sent = unsafe {
                libc::sendmmsg(self.udp.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, libc::MSG_DONTWAIT)
            };
            let done = match usize::try_from(sent) {
                Ok(sent) => sent,
                Err(_) => match io::Error::last_os_error().kind() {
                    io::ErrorKind::WouldBlock => {
                        poll(&mut [self.awaited(libc::POLLOUT)], Some(PATIENCE))?;
                        if signal::terminated() { rest.len() } else { 0 }
                    }
                    io::ErrorKind::Interrupted => 0,
                    _ => 1,
                },
            };
            rest = &mut rest[done..];
        }
        self.queued.clear();
        Ok(())
    }
}

/// Waits until a datagram is there at one of the sockets, the deadline has passed, or a signal has come.
pub fn wait<'a>(sockets: impl IntoIterator<Item = &'a Socket>, deadline: Option<Instant>) -> io::Result<()> {
    let mut awaited: Vec<_> = sockets.into_iter().map(|socket| socket.awaited(libc::POLLIN)).collect();
    poll(&mut awaited, deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
}

fn poll(awaited: &mut [libc::pollfd], patience: Option<Duration>) -> io::Result<()> {
    let timeout = patience.map(|left| libc::timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mask = signal::open_mask();
    // SAFETY: as many descriptors are passed as the count says; the other pointers are valid or null.
    let ready = unsafe { libc::ppoll(awaited.as_mut_ptr(), awaited.len() as libc::nfds_t, timeout, &raw const mask) };
    match ready {
        -1 => interrupted_is_fine(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn interrupted_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

#[repr(C)]
union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    fn length(address: &SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(_) => mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
            SocketAddr::V6(_) => mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(address) => Self {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                },
            },
        }
    }
}

fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let storage = ptr::from_ref(storage);
    // SAFETY: the family says which structure the storage holds, and it is large enough and aligned for either.
    unsafe {
        match libc::c_int::from((*storage).ss_family) {
            libc::AF_INET => {
                let raw = &*storage.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                let raw = &*storage.cast::<libc::sockaddr_in6>();
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                let port = u16::from_be(raw.sin6_port);
                Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
