//! Which flow a packet is of, and its sequence numbers counted from zero.
//!
//! Ours: a flow lasts as long as its ports are used, so one more SYN is a retransmission if its sequence number is
//! that of the first, and else begins another flow. Of a connection first seen in its middle, numbers are counted
//! from the first that is seen; what lies before that counts as zero. Numbers of 32 bits are taken for those
//! nearest to the last one seen, so a connection may carry any number of bytes.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddrV4};

use aqm_net::Instant;
use aqm_queue::edge::{Key, Table};
use aqm_sim::emulation::{Contents, Side};
use aqm_tcp::{Flags, Sacks, Segment};

use crate::router::ip::{Headers, TcpHeader, Transport};

/// The most flows that are remembered. Only programs that try ports or addresses at random have so many.
const MAX_FLOWS: u32 = 1 << 20;

/// What the packets of a flow have in common, in both directions. What is given for each end is indexed by [`Side`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// The position of its workload.
    pub traffic: u32,
    /// The number of the protocol above IP.
    pub protocol: u8,
    /// The last 16 bits of the address of each end.
    pub addresses: [u16; 2],
    /// The port of each end; zeros where there are none.
    pub ports: [u16; 2],
}

impl FlowKey {
    /// That of a workload's flow over this protocol; `ends` are the sender's and the receiver's.
    pub fn of(traffic: u32, protocol: u8, ends: [SocketAddrV4; 2]) -> Self {
        let addresses = ends.map(|end| last_bits(*end.ip()));
        Self { traffic, protocol, addresses, ports: ends.map(|end| end.port()) }
    }

    /// The host of the workload, from zero, whose flow it is: that of the sender.
    pub fn host(&self) -> u32 {
        u32::from(self.addresses[Side::Sender as usize]).saturating_sub(1)
    }
}

impl Key for FlowKey {
    fn hash(self) -> u64 {
        let [[a, b], [c, d]] = [self.addresses, self.ports].map(|pair| pair.map(u64::from));
        let ends = a << 48 | b << 32 | c << 16 | d;
        let rest = u64::from(self.traffic) << 8 | u64::from(self.protocol);
        // The table multiplies once more, and looks at the upper bits.
        let mixed = (ends ^ ends >> 32 ^ rest << 40).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32 ^ rest
    }
}

/// A flow of which the first packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// What its packets have in common.
    pub key: FlowKey,
    /// Whether it is a connection of TCP.
    pub connection: bool,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of its flow.
    pub flow: u32,
    /// What it carries.
    pub contents: Contents,
    /// What the packets of its flow have in common.
    pub key: FlowKey,
}

/// The flows that have been seen.
pub struct Connections {
    flows: Table<Option<Flow>, FlowKey>,
}

struct Flow {
    number: u32,
    /// By the end that they come from: how the numbers of its segments are counted, if any was seen.
    numbers: [Option<Numbers>; 2],
}

/// How the sequence numbers of one direction are counted.
#[derive(Clone, Copy)]
struct Numbers {
    /// The number that counts as zero.
    origin: u32,
    /// The last one seen, counted from zero.
    last: u64,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// None so far.
    pub fn new() -> Self {
        Self { flows: Table::new(MAX_FLOWS).unwrap_or_else(|error| unreachable!("{error}")) }
    }

    /// What is known of a packet with these headers that comes from the end `from.1` of the workload at position
    /// `from.0`; `open` numbers a flow that is new.
    pub fn find(
        &mut self,
        headers: &Headers,
        from: (u32, Side),
        open: impl FnOnce(&Opening) -> u32,
    ) -> Found {
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
        // Only the order of use counts, not when.
        let known = self.flows.touch(key, Instant::START);
        let of_another = |flow: &Flow| tcp.is_some_and(|tcp| flow.is_begun_anew_by(tcp, side));
        if known.as_ref().is_some_and(of_another) {
            *known = None;
        }
        let flow = known.get_or_insert_with(|| {
            let number = open(&Opening { key, connection: tcp.is_some() });
            Flow { number, numbers: [None; 2] }
        });
        let contents = match tcp {
            Some(tcp) if tcp.reset => Contents::Reset,
            Some(tcp) => Contents::Segment(flow.segment(tcp, headers, side)),
            None => Contents::Datagram,
        };
        Found { flow: flow.number, contents, key }
    }
}

impl Flow {
    /// Whether this segment from an end opens a connection that is not this one.
    fn is_begun_anew_by(&self, tcp: &TcpHeader, from: Side) -> bool {
        let opens = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK) && !tcp.reset;
        opens && self.numbers[from as usize].is_some_and(|numbers| numbers.origin != tcp.seq.wrapping_add(1))
    }

    /// A segment from an end, its numbers counted from zero.
    fn segment(&mut self, tcp: &TcpHeader, headers: &Headers, from: Side) -> Segment {
        let seq = if tcp.flags.has(Flags::SYN) {
            // The first byte has the next number. The other end may have spoken of the ports' last connection.
            let origin = tcp.seq.wrapping_add(1);
            let known = self.numbers[from as usize].is_some_and(|numbers| numbers.origin == origin);
            if !known {
                self.numbers[from as usize] = Some(Numbers { origin, last: 0 });
            }
            0
        } else {
            let numbers = self.numbers[from as usize].get_or_insert(Numbers { origin: tcp.seq, last: 0 });
            numbers.see(tcp.seq)
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
    /// The number nearest to the last one seen that has these lower 32 bits; nothing if it lies before zero.
    fn unwrap(&self, number: u32) -> Option<u64> {
        let from_origin = number.wrapping_sub(self.origin);
        let from_last = from_origin.wrapping_sub(self.last as u32) as i32;
        self.last.checked_add_signed(from_last.into())
    }

    /// The same, of the sequence number of a segment; zero for what lies before zero.
    fn see(&mut self, number: u32) -> u64 {
        self.unwrap(number).inspect(|&number| self.last = number).unwrap_or(0)
    }
}

/// What is given for the source and the destination of a packet from `from`, by side.
fn by_side([source, destination]: [u16; 2], from: Side) -> [u16; 2] {
    match from {
        Side::Sender => [source, destination],
        Side::Receiver => [destination, source],
    }
}

/// What tells hosts of an end from each other.
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
