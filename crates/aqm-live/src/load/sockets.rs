//! Sockets as the workloads want them.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};

use aqm_net::Ecn;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpSocket;

/// Connections that may wait to be accepted; the kernel has a limit of its own (`somaxconn`).
const BACKLOG: i32 = 65_535;

/// Bytes of the headers of IP and UDP.
pub(super) const IP_AND_UDP: u16 = 28;

/// What the sockets of a workload have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// The DSCP of its packets.
    pub(super) dscp: u8,
    /// Whether segments that are not full are sent at once.
    pub(super) no_delay: bool,
    /// Bytes of the headers of a datagram: IP, UDP and the link's own.
    pub(super) datagram_header: u16,
}

/// Sockets that a process may have, if it may say so: of each connection it has two.
const SOCKETS: u64 = 1 << 18;

/// Lets this process have as many sockets as it is allowed to; root may allow itself more.
pub(super) fn allow_many() {
    let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let more = most.max(SOCKETS);
    if setrlimit(Resource::RLIMIT_NOFILE, more, more).is_err() {
        // If that is refused, the limit stays, and a socket beyond it fails by name.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// A socket of TCP that listens at `address`. What it accepts inherits its options.
pub(super) fn listen(address: SocketAddrV4, options: Options) -> io::Result<TcpListener> {
    let socket = stream(options)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket of TCP at `from` with the next port, which is known before anything is sent.
pub(super) fn bind(from: Ipv4Addr, ports: &Ports, options: Options) -> io::Result<(TcpSocket, SocketAddrV4)> {
    let socket = stream(options)?;
    let local = ports.bind(&socket, from)?;
    Ok((TcpSocket::from_std_stream(socket.into()), local))
}

/// The ports from which an end opens connections, one after another: so they are the same in each run, as far as
/// connections are opened in the same order, and each rests as long as it can. When thousands are taken, the kernel
/// takes milliseconds to find one.
#[derive(Debug)]
pub(super) struct Ports(Cell<u16>);

/// The first port; the last one is 65535.
const FIRST_PORT: u16 = 10_000;

/// How many there are: each is tried once.
const TRIES: u16 = u16::MAX - FIRST_PORT + 1;

impl Default for Ports {
    fn default() -> Self {
        Self(Cell::new(FIRST_PORT))
    }
}

impl Ports {
    /// Binds a socket to `from`, with the next port that is not taken.
    fn bind(&self, socket: &Socket, from: Ipv4Addr) -> io::Result<SocketAddrV4> {
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let port = self.0.get();
            self.0.set(port.checked_add(1).unwrap_or(FIRST_PORT));
            let local = SocketAddrV4::new(from, port);
            match socket.bind(&local.into()) {
                Ok(()) => return Ok(local),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }
}

fn stream(options: Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_tos_v4(u32::from(options.dscp) << 2)?;
    socket.set_tcp_nodelay(options.no_delay)?;
    Ok(socket)
}

/// A socket of UDP from `from`, with the next port, to `to`.
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

/// A socket of UDP that receives at `address`, the DSCP and the ECN bits with each datagram.
pub(super) fn receive_datagrams(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = datagrams()?;
    socket.bind(&address.into())?;
    socket.set_recv_tos_v4(true)?;
    Ok(socket.into())
}

fn datagrams() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))
}

/// The next datagrams have this DSCP and these ECN bits.
pub(super) fn set_ecn(socket: &UdpSocket, dscp: u8, ecn: Ecn) -> io::Result<()> {
    SockRef::from(socket).set_tos_v4(u32::from(dscp << 2 | ecn_bits(ecn)))
}

/// The ECN bits of an IP header (RFC 3168, 5).
pub(super) fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}
