//! What the headers of a packet say, and the two fields that a router writes.
//!
//! IPv4: J. Postel, RFC 791, 1981; TCP: W. Eddy, RFC 9293, 2022; UDP: J. Postel, RFC 768, 1980. SACK: M. Mathis et
//! al., RFC 2018, 1996. The checksum of a changed header: A. Rijsinghani, RFC 1624, 1994, equation 3.
//!
//! Ours: checksums are not verified, because the kernel that hands a packet over has just written them, and the
//! kernel that gets it verifies them.

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::net::Ipv4Addr;

use aqm_net::Ecn;
use aqm_tcp::Flags;
use etherparse::{Ipv4HeaderSlice, TcpHeaderSlice, UdpHeaderSlice, ip_number};

/// The number of TCP among the protocols above IP.
pub const TCP: u8 = 6;
/// That of UDP.
pub const UDP: u8 = 17;

/// What the headers of an IPv4 packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// ECN bits.
    pub ecn: Ecn,
    /// Differentiated-services code point, 0 to 63.
    pub dscp: u8,
    /// Its identification.
    pub id: u16,
    /// Whether it must not be fragmented.
    pub dont_fragment: bool,
    /// Bytes of the whole packet.
    pub bytes: u16,
    /// The number of the protocol above IP.
    pub protocol: u8,
    /// What that protocol says.
    pub transport: Transport,
}

/// What the protocol above IP says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(TcpHeader),
    /// UDP.
    Udp {
        /// Where it comes from and where it goes.
        ports: [u16; 2],
        /// Bytes of payload.
        payload: u16,
    },
    /// Another protocol, or a fragment: only the first one of a packet would have ports.
    Other,
}

/// What the header of a TCP segment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Where it comes from and where it goes.
    pub ports: [u16; 2],
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number; means nothing without [`Flags::ACK`].
    pub ack: u32,
    /// Its flags but for RST.
    pub flags: Flags,
    /// RST: the connection is given up.
    pub reset: bool,
    /// Bytes of payload.
    pub payload: u16,
    /// What its sender has received beyond `ack`.
    pub sacks: SackBlocks,
}

/// As many blocks as a TCP header has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [[u32; 2]; 4],
    count: u8,
}

impl SackBlocks {
    /// The ranges `[from, to)` in their order.
    pub fn ranges(&self) -> impl Iterator<Item = [u32; 2]> {
        self.blocks.into_iter().take(self.count.into())
    }
}

impl FromIterator<[u32; 2]> for SackBlocks {
    /// The first ranges, as many as there is room for.
    fn from_iter<I: IntoIterator<Item = [u32; 2]>>(ranges: I) -> Self {
        let mut all = Self::default();
        for (place, range) in all.blocks.iter_mut().zip(ranges) {
            *place = range;
            all.count += 1;
        }
        all
    }
}

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is no IPv4.
    NotIpv4,
    /// It ends before its IP header, or that says that it is too short for itself.
    IpHeader,
    /// It is shorter than it says, or says that it ends within its IP header.
    TotalLength,
    /// It ends before its TCP or UDP header, or that gives a length that cannot be.
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

/// Reads the headers of `packet`, which begins with its IP header. Bytes behind its total length are no part of it.
///
/// # Errors
/// If it is not IPv4, or says of itself what cannot be.
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
        // Both lengths fit because that of the packet does.
        payload: (segment.len() - header.slice().len()) as u16,
        sacks: sacks(header.options()),
    })
}

/// The blocks of the first SACK option. Options of a bad length end the list: a receiver ignores what follows, too.
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
                // The two bytes of kind and length are part of it.
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

/// Writes the ECN bits of a packet that [`parse`] has read, and the checksum with them (B. Rijsinghani, RFC 1624, 1994).
/// Leaves alone what is too short for an IP header.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] = header[1] & !3 | ecn as u8;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    // Of three words the carries fit into two more; folding twice leaves none.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    [header[10], header[11]] = (!(folded as u16)).to_be_bytes();
}
