//! Sockets with the options of workloads.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};

use aqm_net::Ecn;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpSocket;

/// Maximum number of connections that wait to be accepted; the kernel's own limit is `somaxconn`.
const BACKLOG: i32 = 65_535;

/// Bytes of the IP and UDP headers.
pub(super) const IP_AND_UDP: u16 = 28;

/// The common options of a workload's sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// DSCP of the packets.
    pub(super) dscp: u8,
    /// Whether segments that are not full are sent at once.
    pub(super) no_delay: bool,
    /// Bytes of a datagram's headers: IP, UDP and the link header.
    pub(super) datagram_header: u16,
}

/// Number of sockets that the process requests; each connection has two.
const SOCKETS: u64 = 1 << 18;

/// Raises the number of sockets of this process to its limit, or beyond if the process may raise the limit.
pub(super) fn allow_many() {
    let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let more = most.max(SOCKETS);
    if setrlimit(Resource::RLIMIT_NOFILE, more, more).is_err() {
        // If this is refused, the limit remains, and opening a socket beyond the limit fails with an error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Returns a TCP socket that listens at `address`. Accepted sockets inherit its options.
pub(super) fn listen(address: SocketAddrV4, options: Options) -> io::Result<TcpListener> {
    let socket = stream(options)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Returns a TCP socket bound to `from` and the next port, so that its address is known before anything is sent.
pub(super) fn bind(from: Ipv4Addr, ports: &Ports, options: Options) -> io::Result<(TcpSocket, SocketAddrV4)> {
    let socket = stream(options)?;
    let local = ports.bind(&socket, from)?;
    Ok((TcpSocket::from_std_stream(socket.into()), local))
}

/// The ports from which an end opens connections, used in ascending order. They are the same in each run if connections
/// are opened in the same order, and each port stays unused as long as possible. With thousands of ports in use, the
/// kernel needs milliseconds to find a free one.
#[derive(Debug)]
pub(super) struct Ports(Cell<u16>);

/// The first port; the last one is 65535.
const FIRST_PORT: u16 = 10_000;

/// Number of ports: each is tried once.
const TRIES: u16 = u16::MAX - FIRST_PORT + 1;

impl Default for Ports {
    fn default() -> Self {
        Self(Cell::new(FIRST_PORT))
    }
}

impl Ports {
    /// Binds a socket to `from` and the next free port.
    fn bind(&self, socket: &Socket, from: Ipv4Addr) -> io::Result<SocketAddrV4> {
        let mut in_use = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let port = self.0.get();
            self.0.set(port.checked_add(1).unwrap_or(FIRST_PORT));
            let local = SocketAddrV4::new(from, port);
            match socket.bind(&local.into()) {
                Ok(()) => return Ok(local),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => in_use = error,
                Err(error) => return Err(error),
            }
        }
        Err(in_use)
    }
}

fn stream(options: Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_tos_v4(u32::from(options.dscp) << 2)?;
    socket.set_tcp_nodelay(options.no_delay)?;
    Ok(socket)
}

/// Returns a UDP socket from `from`, with the next port, to `to`.
pub(super) fn connect_datagrams(
    from: Ipv4Addr,
    to: SocketAddrV4,
    ports: &Ports,
) -> io::Result<(UdpSocket, SocketAddrV4)> {
    let socket = datagrams()?;
    let local = ports.bind(&socket, from)?;
    socket.connect(&to.into())?;
    Ok((socket.into(), local))
}

/// Returns a UDP socket that receives at `address`, with the DSCP and ECN codepoint of each datagram.
pub(super) fn receive_datagrams(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = datagrams()?;
    socket.bind(&address.into())?;
    socket.set_recv_tos_v4(true)?;
    Ok(socket.into())
}

fn datagrams() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))
}

/// Sets the DSCP and the ECN codepoint of the following datagrams.
pub(super) fn set_ecn(socket: &UdpSocket, dscp: u8, ecn: Ecn) -> io::Result<()> {
    SockRef::from(socket).set_tos_v4(u32::from(dscp << 2 | ecn_bits(ecn)))
}

/// Returns the ECN bits of an IP header (RFC 3168, section 5).
pub(super) fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}
