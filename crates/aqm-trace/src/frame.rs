//! Identification of a captured frame's flow.
//!
//! Sources: the Tcpdump Group, "Link-layer header types" (link types and their headers); RFC 1662 (PPP in HDLC-like
//! framing). The crate etherparse parses IP, VLAN tags and extension headers.
//!
//! aqmlab's choices, where the sources are silent:
//! - VLAN tags are skipped and do not distinguish flows. Tunnels and MPLS are not decoded.
//! - Ports are read for TCP, UDP, SCTP, DCCP and UDP-Lite, and are zero for other protocols. The ports of fragments are
//!   also zero, because only the first fragment of a datagram contains ports. Therefore, all fragmented datagrams
//!   between two hosts are treated as one flow.
//! - All frames that do not contain IP packets, and all frames that were captured without their addresses, are treated
//!   as one flow. If a packet was captured without its ports, the ports are treated as zero.

use etherparse::err::{Layer, packet::SliceError};
use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket};

use crate::packets::Key;

/// Link types, which determine the header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// IP without a link header.
    Raw,
    /// A link header of four bytes, which contains the address family.
    Null,
    Ppp,
    /// Cisco framing, or PPP framing with a preceding address byte and control byte.
    Hdlc,
    Cooked1,
    Cooked2,
}

impl Link {
    /// Names of the supported link types, used in messages.
    pub(crate) const KNOWN: &str = "Ethernet, raw IP, null, loop, PPP, Cisco HDLC and Linux cooked v1 and v2";

    /// Returns the link type with this number in the Tcpdump Group's list.
    pub(crate) const fn of(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Ethernet,
            // These are the numbers of raw IP on various systems; 228 and 229 are the numbers of IPv4 and IPv6.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Null,
            9 => Self::Ppp,
            50 | 104 => Self::Hdlc,
            113 => Self::Cooked1,
            276 => Self::Cooked2,
            _ => return None,
        })
    }

    /// Returns the flow of a frame.
    pub(crate) fn flow(self, frame: &[u8]) -> Flow {
        self.identify(frame).unwrap_or(Flow::Short)
    }

    /// Returns the flow of a frame; `None` if the frame ends within the link header.
    fn identify(self, frame: &[u8]) -> Option<Flow> {
        match self {
            Self::Ethernet => Some(of_ether_type(word(frame, 12)?, frame.get(14..)?)),
            Self::Raw => of_ip(frame),
            Self::Null => of_ip(frame.get(4..)?),
            Self::Ppp => of_ppp(frame),
            Self::Hdlc if frame.starts_with(&HDLC_ALL_STATIONS) => of_ppp(frame),
            Self::Hdlc => Some(of_ether_type(word(frame, 2)?, frame.get(4..)?)),
            Self::Cooked1 => Some(of_ether_type(word(frame, 14)?, frame.get(16..)?)),
            Self::Cooked2 => Some(of_ether_type(word(frame, 0)?, frame.get(20..)?)),
        }
    }
}

/// The result of identifying a frame's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Of(Key),
    /// The frame ends before the ports, so the key contains only the hosts and the protocol.
    Hosts(Key),
    /// The frame ends before the addresses.
    Short,
    NotIp,
}

/// First two bytes of PPP in HDLC-like framing.
const HDLC_ALL_STATIONS: [u8; 2] = [0xff, 0x03];

/// The flow to which all frames without flow information are assigned.
pub(crate) const OTHER: Key = Key::numbered(0);

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

fn of_ppp(frame: &[u8]) -> Option<Flow> {
    let frame = frame.strip_prefix(&HDLC_ALL_STATIONS).unwrap_or(frame);
    match word(frame, 0)? {
        0x0021 | 0x0057 => of_ip(frame.get(2..)?),
        // The protocol field may be compressed to one byte.
        short if matches!(short >> 8, 0x21 | 0x57) => of_ip(frame.get(1..)?),
        _ => Some(Flow::NotIp),
    }
}

fn of_ip(packet: &[u8]) -> Option<Flow> {
    Some(match packet.first()? >> 4 {
        4 => of_ether_type(EtherType::IPV4.0, packet),
        6 => of_ether_type(EtherType::IPV6.0, packet),
        _ => Flow::NotIp,
    })
}

fn of_ether_type(ether_type: u16, payload: &[u8]) -> Flow {
    let packet = LaxSlicedPacket::from_ether_type(EtherType(ether_type), payload);
    let Some(net) = packet.net else {
        return match packet.stop_err {
            Some((SliceError::Len(_), layer)) if layer != Layer::Arp => Flow::Short,
            _ => Flow::NotIp,
        };
    };
    let (source, destination, version, inner) = match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (u32::from(from).into(), u32::from(to).into(), 4, ip.payload().clone())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (u128::from(from), u128::from(to), 6, ip.payload().clone())
        }
        LaxNetSlice::Arp(_) => return Flow::NotIp,
    };
    let has_ports = matches!(
        inner.ip_number,
        IpNumber::TCP | IpNumber::UDP | IpNumber::SCTP | IpNumber::DCCP | IpNumber::UDP_LITE
    );
    let hosts = Key { source, destination, rest: u64::from(inner.ip_number.0) << 8 | version };
    if !has_ports || inner.fragmented {
        return Flow::Of(hosts);
    }
    match inner.payload {
        [a, b, c, d, ..] => {
            let ports = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
            Flow::Of(Key { rest: hosts.rest | ports << 16, ..hosts })
        }
        _ => Flow::Hosts(hosts),
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn ip(source: u8, port: u16) -> Vec<u8> {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, source], [10, 0, 0, 9], 64)
            .tcp(port, 80, 1, 1000)
            .write(&mut packet, &[0; 30])
            .unwrap();
        packet
    }

    fn key(link: Link, frame: &[u8]) -> Key {
        match link.flow(frame) {
            Flow::Of(key) => key,
            other => panic!("{other:?}"),
        }
    }

    fn prepend(header: &[u8], packet: &[u8]) -> Vec<u8> {
        [header, packet].concat()
    }

    #[test]
    fn the_flow_of_a_packet_does_not_depend_on_the_link_type() {
        let packet = ip(1, 5000);
        let expected = key(Link::Raw, &packet);
        assert_eq!(expected.source, u128::from(u32::from_be_bytes([10, 0, 0, 1])));
        assert_eq!(expected.rest, 5000 << 32 | 80 << 16 | 6 << 8 | 4);
        let mut ethernet = vec![0; 12];
        let tagged = [&ethernet[..], &[0x81, 0, 0, 7, 0x08, 0]].concat();
        let twice = [&ethernet[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x08, 0]].concat();
        ethernet.extend([0x08, 0]);
        let mut cooked1 = vec![0; 14];
        cooked1.extend([0x08, 0]);
        let mut cooked2 = vec![0x08, 0];
        cooked2.resize(20, 0);
        for (link, header) in [
            (Link::Ethernet, ethernet),
            (Link::Ethernet, tagged),
            (Link::Ethernet, twice),
            (Link::Null, vec![2, 0, 0, 0]),
            (Link::Ppp, vec![0, 0x21]),
            (Link::Ppp, vec![0xff, 3, 0, 0x21]),
            (Link::Ppp, vec![0x21]),
            (Link::Hdlc, vec![0xff, 3, 0, 0x21]),
            (Link::Hdlc, vec![0x0f, 0, 0x08, 0]),
            (Link::Cooked1, cooked1),
            (Link::Cooked2, cooked2),
        ] {
            assert_eq!(key(link, &prepend(&header, &packet)), expected, "{link:?} {header:?}");
        }
    }

    #[test]
    fn flows_differ_by_address_port_and_direction_and_survive_a_short_capture() {
        let key = |source, port| key(Link::Raw, &ip(source, port));
        assert_ne!(key(1, 5000), key(2, 5000));
        assert_ne!(key(1, 5000), key(1, 5001));
        // Twenty bytes of the IP header and four bytes of the TCP header identify the flow.
        assert_eq!(Link::Raw.flow(&ip(1, 5000)[..24]), Flow::Of(key(1, 5000)));
        let hosts = Key { rest: 6 << 8 | 4, ..key(1, 5000) };
        assert_eq!(Link::Raw.flow(&ip(1, 5000)[..23]), Flow::Hosts(hosts));
        assert_eq!(Link::Raw.flow(&ip(1, 5000)[..19]), Flow::Short);
    }

    #[test]
    fn ports_are_found_behind_the_extension_headers_of_ipv6() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 16, 0, 64];
        packet.extend((0..32).map(|byte| byte as u8));
        // The hop-by-hop options, which are padded to 8 bytes, precede the UDP header.
        packet.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([0x13, 0x88, 0, 53, 0, 8, 0, 0]);
        let key = key(Link::Raw, &packet);
        assert_eq!(key.rest, 5000 << 32 | 53 << 16 | 17 << 8 | 6);
        assert_eq!(key.source, u128::from_be_bytes(packet[8..24].try_into().unwrap()));
    }

    #[test]
    fn fragments_have_no_ports() {
        let (mut first, mut second) = (ip(1, 5000), ip(1, 6000));
        first[6] |= 0x20;
        second[7] = 100;
        assert_eq!(key(Link::Raw, &first), key(Link::Raw, &second));
        assert_eq!(key(Link::Raw, &first).rest, 6 << 8 | 4);
    }

    #[test]
    fn frames_other_than_ip_have_no_flow() {
        let mut arp = vec![0; 12];
        arp.extend([0x08, 0x06]);
        arp.resize(60, 0);
        assert_eq!(Link::Ethernet.flow(&arp), Flow::NotIp);
        assert_eq!(Link::Ethernet.flow(&arp[..30]), Flow::NotIp);
        for link in
            [Link::Ethernet, Link::Raw, Link::Null, Link::Ppp, Link::Hdlc, Link::Cooked1, Link::Cooked2]
        {
            assert_eq!(link.flow(&[]), Flow::Short);
            assert!(matches!(link.flow(&[0]), Flow::Short | Flow::NotIp));
        }
        assert_eq!(Link::of(147), None);
    }
}
