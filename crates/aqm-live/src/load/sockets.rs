//! Sockets with the socket options that a workload specifies.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};

use aqm_net::Ecn;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpSocket;

/// Maximum number of connections that may wait to be accepted on a listening socket. The kernel caps this number at its
/// own limit, `somaxconn`.
const BACKLOG: i32 = 65_535;

/// Length of the IP and UDP headers, in bytes.
pub(super) const IP_AND_UDP: u16 = 28;

/// The common options of a workload's sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// DSCP of the packets.
    pub(super) dscp: u8,
    /// Whether segments that are smaller than the MSS are sent immediately (`TCP_NODELAY`).
    pub(super) no_delay: bool,
    /// Total length in bytes of a datagram's IP, UDP and link headers.
    pub(super) datagram_header: u16,
}

/// Maximum number of open sockets that the process requests. Each connection has two sockets.
const SOCKETS: u64 = 1 << 18;

/// Raises the maximum number of open sockets of this process to the hard limit, and raises the hard limit if the
/// process has permission.
pub(super) fn allow_many() {
    let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let more = most.max(SOCKETS);
    if setrlimit(Resource::RLIMIT_NOFILE, more, more).is_err() {
        // If the system denies this request, the limit remains unchanged, and an attempt to open a socket beyond the
        // limit fails with an error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Returns a TCP socket that listens on `address`. Accepted sockets inherit the options of the listening socket.
pub(super) fn listen(address: SocketAddrV4, options: Options) -> io::Result<TcpListener> {
    let socket = stream(options)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Returns a TCP socket that is bound to the address `from` and the next port of `ports`, so that the socket's address
/// is known before anything is sent.
pub(super) fn bind(from: Ipv4Addr, ports: &Ports, options: Options) -> io::Result<(TcpSocket, SocketAddrV4)> {
    let socket = stream(options)?;
    let local = ports.bind(&socket, from)?;
    Ok((TcpSocket::from_std_stream(socket.into()), local))
}

/// The local ports from which an endpoint opens connections, used in ascending order. Connections that are opened in the same
/// order therefore have the same ports in each run, and a port is reused as late as possible. The ports are not
/// selected by the kernel, because the kernel needs several milliseconds to find a free port if thousands of ports are
/// in use.
#[derive(Debug)]
pub(super) struct Ports(Cell<u16>);

/// The first port; the last port is 65535.
const FIRST_PORT: u16 = 10_000;

/// Maximum number of attempts: each port is tried once.
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

/// Returns a UDP socket that is bound to the address `from` and the next port of `ports`, and is connected to `to`.
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

/// Returns a UDP socket that receives datagrams on `address` and reports the DSCP and the ECN codepoint of each
/// datagram.
pub(super) fn receive_datagrams(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = datagrams()?;
    socket.bind(&address.into())?;
    socket.set_recv_tos_v4(true)?;
    Ok(socket.into())
}

fn datagrams() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))
}

/// Sets the DSCP and the ECN codepoint of the datagrams that the socket sends from now on.
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
