//! Parses packet headers, and updates the two header fields that the router changes: the ECN codepoint and the
//! checksum.
//!
//! Sources: IPv4: J. Postel, RFC 791, 1981; TCP: W. Eddy, RFC 9293, 2022; UDP: J. Postel, RFC 768, 1980. SACK: M.
//! Mathis et al., RFC 2018, 1996. The checksum of a changed header is computed with equation 3 of A. Rijsinghani, RFC
//! 1624, 1994.
//!
//! aqmlab's choice: the router does not verify checksums, because they have just been written by the sending kernel and
//! will be verified by the receiving kernel.

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::net::Ipv4Addr;

use aqm_net::Ecn;
use aqm_tcp::Flags;
use etherparse::{Ipv4HeaderSlice, TcpHeaderSlice, UdpHeaderSlice, ip_number};

/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// The headers of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Differentiated-services code point, 0 to 63.
    pub dscp: u8,
    /// Identification field.
    pub id: u16,
    /// Whether the packet must not be fragmented.
    pub dont_fragment: bool,
    /// Total length of the packet, in bytes.
    pub bytes: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Header of the transport protocol.
    pub transport: Transport,
}

/// The transport header of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(TcpHeader),
    /// UDP.
    Udp {
        /// Source and destination port.
        ports: [u16; 2],
        /// Payload length, in bytes.
        payload: u16,
    },
    /// Another protocol, or a fragment of a packet. Fragments are not parsed, because only the first fragment of a
    /// packet contains ports.
    Other,
}

/// The header of a TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number, which is valid only if [`Flags::ACK`] is set.
    pub ack: u32,
    /// Flags, except RST.
    pub flags: Flags,
    /// Whether the RST flag is set. A segment with this flag aborts the connection.
    pub reset: bool,
    /// Payload length, in bytes.
    pub payload: u16,
    /// SACK blocks.
    pub sacks: SackBlocks,
}

/// The SACK blocks in a TCP header; there are at most four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [[u32; 2]; 4],
    count: u8,
}

impl SackBlocks {
    /// Returns the ranges `[from, to)` in the order in which they appear in the header.
    pub fn ranges(&self) -> impl Iterator<Item = [u32; 2]> {
        self.blocks.into_iter().take(self.count.into())
    }
}

impl FromIterator<[u32; 2]> for SackBlocks {
    /// Creates SACK blocks from the first four ranges; further ranges are ignored.
    fn from_iter<I: IntoIterator<Item = [u32; 2]>>(ranges: I) -> Self {
        let mut all = Self::default();
        for (block, range) in all.blocks.iter_mut().zip(ranges) {
            *block = range;
            all.count += 1;
        }
        all
    }
}

/// The reason why a packet cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The packet is not an IPv4 packet.
    NotIpv4,
    /// The packet is too short to contain the whole IP header, or the length of the IP header is too small.
    IpHeader,
    /// The packet is shorter than the total length in its IP header, or the total length is shorter than the IP header.
    TotalLength,
    /// The packet is too short to contain the whole TCP or UDP header, or the length of this header is invalid.
    TransportHeader,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotIpv4 => "not IPv4",
            Self::IpHeader => "a bad IP header",
            Self::TotalLength => "a bad total length",
            Self::TransportHeader => "a bad TCP or UDP header",
        })
    }
}

impl std::error::Error for Malformed {}

/// Parses the headers of `packet`, which must begin with the IP header. Bytes beyond the total length stated in the IP
/// header are ignored.
///
/// # Errors
/// Returns an error if the packet is not an IPv4 packet or is inconsistent.
pub fn parse(packet: &[u8]) -> Result<Headers, Malformed> {
    match packet.first() {
        Some(first) if first >> 4 != 4 => return Err(Malformed::NotIpv4),
        _ => {}
    }
    let ip = Ipv4HeaderSlice::from_slice(packet).map_err(|_| Malformed::IpHeader)?;
    let bytes = ip.total_len();
    let payload = packet.get(ip.slice().len()..usize::from(bytes)).ok_or(Malformed::TotalLength)?;
    let transport = match ip.protocol() {
        _ if ip.is_fragmenting_payload() => Transport::Other,
        ip_number::TCP => Transport::Tcp(tcp(payload).ok_or(Malformed::TransportHeader)?),
        ip_number::UDP => udp(payload).ok_or(Malformed::TransportHeader)?,
        _ => Transport::Other,
    };
    Ok(Headers {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        ecn: ecn(ip.ecn().value()),
        dscp: ip.dcp().value(),
        id: ip.identification(),
        dont_fragment: ip.dont_fragment(),
        bytes,
        protocol: ip.protocol().0,
        transport,
    })
}

fn tcp(segment: &[u8]) -> Option<TcpHeader> {
    let header = TcpHeaderSlice::from_slice(segment).ok()?;
    let mut flags = Flags::default();
    for (set, flag) in [
        (header.syn(), Flags::SYN),
        (header.ack(), Flags::ACK),
        (header.fin(), Flags::FIN),
        (header.psh(), Flags::PUSH),
        (header.ece(), Flags::ECE),
        (header.cwr(), Flags::CWR),
    ] {
        if set {
            flags = flags.union(flag);
        }
    }
    Some(TcpHeader {
        ports: [header.source_port(), header.destination_port()],
        seq: header.sequence_number(),
        ack: header.acknowledgment_number(),
        flags,
        reset: header.rst(),
        // Both lengths fit into 16 bits, because the length of the packet fits into 16 bits.
        payload: (segment.len() - header.slice().len()) as u16,
        sacks: sacks(header.options()),
    })
}

/// Returns the blocks of the first SACK option. Parsing stops at an option whose length is invalid, because receivers
/// also ignore all options that follow such an option.
fn sacks(mut options: &[u8]) -> SackBlocks {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const SACK: u8 = 5;
    loop {
        options = match *options {
            [NO_OPERATION, ref rest @ ..] => rest,
            [END, ..] | [] | [_] => return SackBlocks::default(),
            [kind, length, ..] => {
                let Some((option, rest)) = options.split_at_checked(length.into()) else {
                    return SackBlocks::default();
                };
                // The first two bytes of the option are its kind and its length.
                let Some(value) = option.get(2..) else { return SackBlocks::default() };
                if kind == SACK {
                    let (blocks, _) = value.as_chunks::<8>();
                    return blocks
                        .iter()
                        .map(|&[a, b, c, d, e, f, g, h]| {
                            [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
                        })
                        .collect();
                }
                rest
            }
        };
    }
}

fn udp(datagram: &[u8]) -> Option<Transport> {
    let header = UdpHeaderSlice::from_slice(datagram).ok()?;
    let payload = header.length().checked_sub(8)?;
    (usize::from(header.length()) <= datagram.len())
        .then(|| Transport::Udp { ports: [header.source_port(), header.destination_port()], payload })
}

fn ecn(bits: u8) -> Ecn {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits & 3)]
}

/// Sets the ECN codepoint of a packet and updates the checksum (A. Rijsinghani, RFC 1624, 1994). The packet must have
/// been parsed by [`parse`]. Does nothing if the packet is too short to contain an IP header.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] = header[1] & !3 | ecn as u8;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    // The carry of a sum of three words is at most two bits wide, so no carry remains after the sum has been folded
    // twice.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    [header[10], header[11]] = (!(folded as u16)).to_be_bytes();
}
