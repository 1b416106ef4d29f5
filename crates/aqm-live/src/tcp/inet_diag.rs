//! The kernel state of the TCP connections in a network namespace, read through socket diagnostics.
//!
//! Sources: Linux, sock_diag(7); `struct tcp_info` of `linux/tcp.h`. The data are the same as those printed by `ss
//! -ti`, and can be read without an external program and without privileges. Socket diagnostics are used to read
//! windows if the system does not permit the BPF program that writes windows into packets ([`crate::tcp::bpf`]). The
//! data are a few milliseconds old.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use aqm_net::Span;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

use crate::LiveError;

/// The kernel state of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpState {
    /// Address and port of this end.
    pub local: SocketAddrV4,
    /// Address and port of the other end.
    pub remote: SocketAddrV4,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Number of segments that were sent but not yet acknowledged.
    pub in_flight: u32,
    /// Slow-start threshold, in segments; `None` if the threshold is not set.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Retransmission timeout.
    pub rto: Span,
    /// Number of retransmitted segments.
    pub retransmissions: u32,
    /// Number of expirations of the retransmission timer; `None` on kernels before Linux 6.7.
    pub timeouts: Option<u16>,
}

/// The congestion control at one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionControl<'a> {
    /// Number of the socket, which is unique on the machine.
    pub socket: u64,
    /// Address of the other end.
    pub remote: Ipv4Addr,
    /// Name of the congestion control.
    pub control: &'a str,
}

/// A socket for queries about the connections in one network namespace.
pub struct SocketDiagnostics {
    socket: Socket,
    /// Sequence number of the last query.
    number: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
}

const REMEDY: &str = "load the module (`modprobe tcp_diag`)";

/// First part of every error message.
const WHAT: &str = "cannot read the state of TCP connections through socket diagnostics";

impl SocketDiagnostics {
    /// Opens a socket for queries about the network namespace of the calling thread. The socket may be used by any
    /// thread.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support socket diagnostics.
    pub fn open() -> Result<Self, LiveError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open()
            .map_err(|error: std::io::Error| LiveError::new(WHAT, format_args!("{error}; {REMEDY}")))?;
        // The kernel sends messages of at most this size; if the data do not fit into one message, further messages
        // follow.
        Ok(Self { socket, number: 0, request: Vec::new(), answer: vec![0; 1 << 16] })
    }

    /// Calls `show` for every open IPv4 connection. The kernel searches its entire connection table. By default, all
    /// namespaces share the machine's table, and a search takes several milliseconds. If the sysctl
    /// `tcp_child_ehash_entries` of the parent namespace was set before the namespace was created, the namespace has
    /// its own table, and a search takes a few microseconds plus 1.5 microseconds per connection.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the query.
    pub fn dump(&mut self, mut show: impl FnMut(&TcpState)) -> Result<(), LiveError> {
        self.query(AF_INET, ExtensionFlags::INFO, |response| {
            if let Some(state) = state(response) {
                show(&state);
            }
        })
    }

    /// Calls `show` with the congestion control of every open connection over IPv4, including connections of IPv6
    /// sockets.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the query.
    pub fn dump_controls(&mut self, mut show: impl FnMut(&ConnectionControl)) -> Result<(), LiveError> {
        let mut show = |response: &InetResponse| {
            if let Some(connection) = connection_control(response) {
                show(&connection);
            }
        };
        self.query(AF_INET, ExtensionFlags::CONG, &mut show)?;
        // A kernel without IPv6 support has no IPv6 sockets and returns an error, which is ignored.
        let _ = self.query(AF_INET6, ExtensionFlags::CONG, show);
        Ok(())
    }

    /// Queries every open connection of an address family.
    fn query(
        &mut self,
        family: u8,
        extensions: ExtensionFlags,
        mut show: impl FnMut(&InetResponse),
    ) -> Result<(), LiveError> {
        let failed = |reason: &dyn std::fmt::Display| LiveError::new(WHAT, reason);
        // The sequence number distinguishes the messages of this query from those of an earlier query that was
        // abandoned.
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        let request = request(number, family, extensions);
        self.request.resize(request.buffer_len(), 0);
        request.serialize(&mut self.request);
        self.socket.send(&self.request, 0).map_err(|error| failed(&error))?;
        loop {
            let length = self.socket.recv(&mut &mut self.answer[..], 0).map_err(|error| failed(&error))?;
            let mut rest = self.answer.get(..length).unwrap_or_default();
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(|error| failed(&error))?;
                // Each message begins at a multiple of four bytes.
                let length = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
                if message.header.sequence_number != number {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                        show(&response);
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => {
                        return Err(failed(&format_args!("{}; {REMEDY}", error.to_io())));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Returns a query for all connections in a state that permits sending data.
fn request(number: u32, family: u8, extensions: ExtensionFlags) -> NetlinkMessage<SockDiagMessage> {
    let mut header = NetlinkHeader::default();
    header.sequence_number = number;
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let not_open = StateFlags::LISTEN | StateFlags::CLOSE | StateFlags::TIME_WAIT | StateFlags::SYN_RECV;
    let inet = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions,
        states: StateFlags::all().difference(not_open),
        socket_id: if family == AF_INET6 { SocketId::new_v6() } else { SocketId::new_v4() },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(inet).into());
    message.finalize();
    message
}

fn connection_control(response: &InetResponse) -> Option<ConnectionControl<'_>> {
    let id = &response.header.socket_id;
    let remote = match id.destination_address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => address.to_ipv4_mapped()?,
    };
    let control = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::Congestion(name) => Some(name.as_str()),
        _ => None,
    })?;
    Some(ConnectionControl { socket: u64::from_ne_bytes(id.cookie), remote, control })
}

fn state(response: &InetResponse) -> Option<TcpState> {
    let id = &response.header.socket_id;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (id.source_address, id.destination_address) else {
        return None;
    };
    let info = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })?;
    // These are offsets in `struct tcp_info`. New kernels add fields only at the end of the structure.
    let word = |at: usize| info.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let half_word = |at: usize| info.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    let micros = |value: u32| Span::from_nanos(u64::from(value) * 1000);
    /// The kernel's value for a threshold that is not set.
    const INFINITE: u32 = 0x7fff_ffff;
    Some(TcpState {
        local: SocketAddrV4::new(source, id.source_port),
        remote: SocketAddrV4::new(destination, id.destination_port),
        rto: micros(word(8)?),
        srtt: micros(word(68)?),
        ssthresh: word(76).filter(|&segments| segments < INFINITE),
        cwnd: word(80)?,
        in_flight: word(24)?,
        retransmissions: word(100)?,
        timeouts: half_word(240),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::ip::{Transport, parse};
    use crate::tcp::bpf::tests::{CLIENT, PORT, SERVER, TestHost, connect, pump, serve, two_hosts};
    use std::io::Write as _;
    use std::net::{Shutdown, TcpListener, TcpStream};

    fn connections(diagnostics: &mut SocketDiagnostics) -> Vec<TcpState> {
        let mut all = Vec::new();
        diagnostics.dump(|state| all.push(*state)).unwrap();
        all
    }

    #[test]
    fn the_window_of_a_sender_is_reported_while_it_sends() {
        let Some(mut hosts) = two_hosts() else { return };
        let mut diagnostics = hosts[0].run(SocketDiagnostics::open).join().unwrap().unwrap();
        assert_eq!(connections(&mut diagnostics), [], "the namespace is new");
        let server = serve(&hosts[1], 1);
        let client = hosts[0].run(|| {
            let mut stream = connect();
            stream.write_all(&[0; 600_000]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        });
        let (mut states, mut data) = (Vec::new(), 0);
        pump(
            &mut hosts,
            || server.is_finished(),
            |packet| {
                let Transport::Tcp(tcp) = parse(packet).unwrap().transport else { return true };
                data += u32::from(tcp.payload > 0);
                if tcp.payload > 0 && data.is_multiple_of(20) {
                    states.extend(connections(&mut diagnostics));
                }
                data != 100
            },
        );
        let stream = client.join().unwrap();
        let local = stream.local_addr().unwrap();
        drop(stream);
        assert_eq!(server.join().unwrap(), 600_000);
        assert!(states.len() > 15, "{states:?}");
        let of = |state: &TcpState| (std::net::SocketAddr::V4(state.local), state.remote);
        assert!(states.iter().all(|state| of(state) == (local, SocketAddrV4::new(SERVER, PORT))));
        assert_eq!(local.ip(), CLIENT);
        assert_eq!(
            (states[0].ssthresh, states[0].retransmissions, states[0].timeouts.unwrap_or(0)),
            (None, 0, 0)
        );
        assert!(states.iter().all(|state| (1..2000).contains(&state.cwnd)), "{states:?}");
        assert!(
            states.windows(2).any(|pair| pair[1].cwnd > pair[0].cwnd),
            "the window must grow: {states:?}"
        );
        let last = states.last().unwrap();
        assert!(last.retransmissions >= 1 && last.ssthresh.is_some(), "one packet was lost: {last:?}");
        assert!(last.srtt > Span::ZERO && last.rto >= Span::from_millis(200), "{last:?}");
    }

    /// Measures the processor time that a dump takes in the namespace of the calling thread, for each number of sockets
    /// in `connections`.
    fn measure(what: &str, connections: &[usize]) {
        let mut diagnostics = SocketDiagnostics::open().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", PORT)).unwrap();
        let mut open = Vec::new();
        for &connections in connections {
            while open.len() < connections {
                open.push(TcpStream::connect(("127.0.0.1", PORT)).unwrap());
                open.push(listener.accept().unwrap().0);
            }
            let (rounds, mut count) = (200, 0);
            let spent = crate::router::ip::tests::processor_time(|| {
                for _ in 0..rounds {
                    diagnostics.dump(|_| count += 1).unwrap();
                }
            });
            eprintln!("{what}, {} sockets: {:?}", count / rounds, spent / rounds);
        }
    }

    #[test]
    #[ignore = "a measurement"]
    fn how_long_a_dump_takes() {
        for (what, own_table) in [("the machine's table", false), ("a table of its own", true)] {
            let Some(host) = TestHost::new(CLIENT, own_table) else { return };
            host.run(move || measure(what, &[0, 2, 10, 100, 1000])).join().unwrap();
        }
    }
}
