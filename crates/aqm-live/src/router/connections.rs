//! Assigns packets to flows, and converts TCP sequence numbers to numbers relative to the start of the connection.
//!
//! aqmlab's choice: a flow lasts as long as packets use its ports. If a second SYN has the same sequence number as the
//! first SYN, the second SYN is a retransmission; otherwise, the second SYN begins a new flow. If the beginning of a
//! connection was not observed, sequence numbers are relative to the first observed number, and earlier numbers are
//! treated as zero. A 32-bit sequence number is extended to the candidate value that is nearest to the last observed
//! number, so a connection may carry any number of bytes.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddrV4};

use aqm_net::Instant;
use aqm_queue::edge::{Key, Table};
use aqm_sim::emulation::{Contents, Side};
use aqm_tcp::{Flags, Sacks, Segment};

use crate::router::ip::{Headers, TcpHeader, Transport};

/// Maximum number of flows in the table. This limit is reached only if programs probe random ports or addresses.
const MAX_FLOWS: u32 = 1 << 20;

/// The key that all packets of a flow share in both directions. Arrays with one value per end are indexed by [`Side`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// Position of the workload.
    pub traffic: u32,
    /// IP protocol number.
    pub protocol: u8,
    /// The last 16 bits of the address of each end.
    pub addresses: [u16; 2],
    /// Port of each end; zero if the protocol has no ports.
    pub ports: [u16; 2],
}

impl FlowKey {
    /// Returns the key of a workload's flow that uses this protocol. `ends` contains the addresses of the sender and
    /// the receiver.
    pub fn of(traffic: u32, protocol: u8, ends: [SocketAddrV4; 2]) -> Self {
        let addresses = ends.map(|end| last_bits(*end.ip()));
        Self { traffic, protocol, addresses, ports: ends.map(|end| end.port()) }
    }

    /// Returns the number of the sender's host within the workload, counted from zero.
    pub fn host(&self) -> u32 {
        u32::from(self.addresses[Side::Sender as usize]).saturating_sub(1)
    }
}

impl Key for FlowKey {
    fn hash(self) -> u64 {
        let [[a, b], [c, d]] = [self.addresses, self.ports].map(|pair| pair.map(u64::from));
        let ends = a << 48 | b << 32 | c << 16 | d;
        let rest = u64::from(self.traffic) << 8 | u64::from(self.protocol);
        // The hash table multiplies this value again and uses the upper bits of the product.
        let mixed = (ends ^ ends >> 32 ^ rest << 40).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32 ^ rest
    }
}

/// A new flow, whose first packet has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// Key of the flow.
    pub key: FlowKey,
    /// Whether the flow is a TCP connection.
    pub connection: bool,
}

/// The flow and the contents of a packet.
#[derive(Clone, Copy, Debug)]
pub struct FlowPacket {
    /// Number of the flow.
    pub flow: u32,
    /// Contents of the packet.
    pub contents: Contents,
    /// Key of the flow.
    pub key: FlowKey,
}

/// The flows observed so far.
pub struct Connections {
    flows: Table<Option<Flow>, FlowKey>,
}

struct Flow {
    number: u32,
    /// Numbering of the segments sent by each end, indexed by side; `None` if no segment from the end has been
    /// observed.
    numbers: [Option<Numbers>; 2],
}

/// The numbering of the segments in one direction.
#[derive(Clone, Copy)]
struct Numbers {
    /// The 32-bit sequence number that corresponds to the relative number zero.
    origin: u32,
    /// The last observed number, relative to `origin`.
    last: u64,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// Returns an empty table of flows.
    pub fn new() -> Self {
        Self { flows: Table::new(MAX_FLOWS).unwrap_or_else(|error| unreachable!("{error}")) }
    }

    /// Returns the flow and the contents of a packet with these headers. `from` contains the position of the workload
    /// and the end that sent the packet. If the packet begins a new flow, this function calls `open`, which returns the
    /// number of the flow.
    pub fn identify(
        &mut self,
        headers: &Headers,
        from: (u32, Side),
        open: impl FnOnce(&NewFlow) -> u32,
    ) -> FlowPacket {
        let (traffic, side) = from;
        let tcp = match &headers.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        };
        let key = FlowKey {
            traffic,
            protocol: headers.protocol,
            addresses: by_side([headers.source, headers.destination].map(last_bits), side),
            ports: by_side(ports(&headers.transport), side),
        };
        // The table orders the flows by their last use, so the time passed here has no effect.
        let known = self.flows.touch(key, Instant::START);
        let is_another = |flow: &Flow| tcp.is_some_and(|tcp| flow.is_reopened_by(tcp, side));
        if known.as_ref().is_some_and(is_another) {
            *known = None;
        }
        let flow = known.get_or_insert_with(|| {
            let number = open(&NewFlow { key, connection: tcp.is_some() });
            Flow { number, numbers: [None; 2] }
        });
        let contents = match tcp {
            Some(tcp) if tcp.reset => Contents::Reset,
            Some(tcp) => Contents::Segment(flow.segment(tcp, headers, side)),
            None => Contents::Datagram,
        };
        FlowPacket { flow: flow.number, contents, key }
    }
}

impl Flow {
    /// Returns whether this segment opens a new connection that reuses the same ports.
    fn is_reopened_by(&self, tcp: &TcpHeader, from: Side) -> bool {
        let opens = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK) && !tcp.reset;
        opens && self.numbers[from as usize].is_some_and(|numbers| numbers.origin != tcp.seq.wrapping_add(1))
    }

    /// Converts the sequence numbers of a segment to relative numbers. `from` is the end that sent the segment.
    fn segment(&mut self, tcp: &TcpHeader, headers: &Headers, from: Side) -> Segment {
        let seq = if tcp.flags.has(Flags::SYN) {
            // The sequence number of the first data byte is that of the SYN plus one. An existing numbering with a
            // different origin belongs to the previous connection with the same ports, and is replaced.
            let origin = tcp.seq.wrapping_add(1);
            let known = self.numbers[from as usize].is_some_and(|numbers| numbers.origin == origin);
            if !known {
                self.numbers[from as usize] = Some(Numbers { origin, last: 0 });
            }
            0
        } else {
            let numbers = self.numbers[from as usize].get_or_insert(Numbers { origin: tcp.seq, last: 0 });
            numbers.advance(tcp.seq)
        };
        let mut segment = Segment {
            seq,
            len: tcp.payload.into(),
            wire: headers.bytes,
            flags: tcp.flags,
            ecn: headers.ecn,
            ..Segment::default()
        };
        if tcp.flags.has(Flags::ACK) {
            let numbers =
                self.numbers[from.other() as usize].get_or_insert(Numbers { origin: tcp.ack, last: 0 });
            segment.ack = numbers.unwrap(tcp.ack).unwrap_or(0);
            let mut sacks = Sacks::default();
            for [start, end] in tcp.sacks.ranges() {
                if let (Some(start), Some(end)) = (numbers.unwrap(start), numbers.unwrap(end)) {
                    sacks.push(segment.ack, start, end);
                }
            }
            segment.sacks = sacks;
        }
        segment
    }
}

impl Numbers {
    /// Returns the number whose lower 32 bits equal `number` and which is nearest to the last observed number, or
    /// `None` if the result would be negative.
    fn unwrap(&self, number: u32) -> Option<u64> {
        let from_origin = number.wrapping_sub(self.origin);
        let from_last = from_origin.wrapping_sub(self.last as u32) as i32;
        self.last.checked_add_signed(from_last.into())
    }

    /// Converts the sequence number of a segment to a relative number and records the result as the last observed
    /// number. Returns zero if the result would be negative.
    fn advance(&mut self, number: u32) -> u64 {
        self.unwrap(number).inspect(|&number| self.last = number).unwrap_or(0)
    }
}

/// Converts a pair of values for a packet's source and destination to an array that is indexed by side. `from` is the
/// end that sent the packet.
fn by_side([source, destination]: [u16; 2], from: Side) -> [u16; 2] {
    match from {
        Side::Sender => [source, destination],
        Side::Receiver => [destination, source],
    }
}

/// Returns the last 16 bits of an address, which identify one of the hosts of an end.
pub(crate) fn last_bits(address: Ipv4Addr) -> u16 {
    let [.., high, low] = address.octets();
    u16::from_be_bytes([high, low])
}

fn ports(transport: &Transport) -> [u16; 2] {
    match transport {
        Transport::Tcp(tcp) => tcp.ports,
        Transport::Udp { ports, .. } => *ports,
        Transport::Other => [0; 2],
    }
}
