use etherparse::{Ipv4Header, PacketBuilder, TcpOptionElement};
use proptest::prelude::*;

use super::*;

const SOURCE: [u8; 4] = [10, 1, 0, 1];
const DESTINATION: [u8; 4] = [10, 2, 0, 1];

fn segment(payload: usize, blocks: &[(u32, u32)]) -> Vec<u8> {
    let rest = |n: usize| blocks.get(n).copied();
    let sack = TcpOptionElement::SelectiveAcknowledgement(
        blocks.first().copied().unwrap_or_default(),
        [rest(1), rest(2), rest(3)],
    );
    let options =
        if blocks.is_empty() { vec![] } else { vec![TcpOptionElement::Noop, TcpOptionElement::Noop, sack] };
    let builder = PacketBuilder::ipv4(SOURCE, DESTINATION, 64)
        .tcp(40_000, 80, 0xffff_fff0, 1000)
        .ack(77)
        .psh()
        .options(&options)
        .unwrap();
    let mut packet = Vec::new();
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn datagram(payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(SOURCE, DESTINATION, 64).udp(5000, 53);
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn echo() -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4(SOURCE, DESTINATION, 64)
        .icmpv4_echo_request(1, 2)
        .write(&mut packet, &[1; 56])
        .unwrap();
    packet
}

fn tcp_of(packet: &[u8]) -> TcpHeader {
    match parse(packet).unwrap().transport {
        Transport::Tcp(header) => header,
        other => panic!("{other:?}"),
    }
}

/// Returns the correct checksum of a header, computed directly from the definition of the checksum.
fn right_checksum(packet: &[u8]) -> u16 {
    Ipv4Header::from_slice(packet).unwrap().0.calc_header_checksum()
}

fn checksum(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[10], packet[11]])
}

#[test]
fn a_segment_is_parsed_completely() {
    let blocks = [(100, 200), (300, 400), (500, u32::MAX), (5, 6)];
    for count in 0..=4 {
        let packet = segment(1000, &blocks[..count]);
        let headers = parse(&packet).unwrap();
        assert_eq!((headers.source, headers.destination), (SOURCE.into(), DESTINATION.into()));
        assert_eq!((headers.bytes, headers.dont_fragment, headers.protocol), (packet.len() as u16, true, 6));
        let tcp = tcp_of(&packet);
        assert_eq!((tcp.ports, tcp.seq, tcp.ack), ([40_000, 80], 0xffff_fff0, 77));
        assert_eq!((tcp.flags, tcp.reset, tcp.payload), (Flags::ACK.union(Flags::PUSH), false, 1000));
        assert!(tcp.sacks.ranges().eq(blocks[..count].iter().map(|&(from, to)| [from, to])));
    }
}

#[test]
fn each_flag_is_parsed() {
    let bits = [
        Flags::FIN,
        Flags::SYN,
        Flags::default(),
        Flags::PUSH,
        Flags::ACK,
        Flags::default(),
        Flags::ECE,
        Flags::CWR,
    ];
    for (bit, expected) in bits.into_iter().enumerate() {
        let mut packet = segment(0, &[]);
        packet[33] = 1 << bit;
        let tcp = tcp_of(&packet);
        assert_eq!((tcp.flags, tcp.reset), (expected, bit == 2), "bit {bit}");
    }
}

#[test]
fn blocks_are_found_after_unknown_options() {
    // An experimental option and a timestamps option precede the SACK option.
    let mut options = vec![253, 4, 9, 9, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 10];
    options.extend([0, 0, 1, 0, 0, 0, 2, 0]);
    assert!(sacks(&options).ranges().eq([[256, 512]]));
    for bad in [&[5, 10, 0][..], &[5], &[5, 0, 1], &[5, 1], &[253, 200], &[0, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]]
    {
        assert_eq!(sacks(bad).ranges().count(), 0, "{bad:?}");
    }
}

#[test]
fn datagrams_and_other_protocols_are_read() {
    let udp = parse(&datagram(512)).unwrap();
    assert_eq!(udp.transport, Transport::Udp { ports: [5000, 53], payload: 512 });
    let echo = parse(&echo()).unwrap();
    assert_eq!((echo.transport, echo.protocol, echo.bytes), (Transport::Other, 1, 84));
}

#[test]
fn a_fragment_has_no_ports() {
    for (flags_and_offset, fragment) in
        [([0x20, 0], true), ([0, 9], true), ([0x3f, 0xff], true), ([0x40, 0], false)]
    {
        let mut packet = segment(100, &[]);
        [packet[6], packet[7]] = flags_and_offset;
        assert_eq!(parse(&packet).unwrap().transport == Transport::Other, fragment);
    }
}

#[test]
fn ip_options_shift_the_following_headers() {
    let mut packet = segment(10, &[(1, 2)]);
    packet.splice(20..20, [1; 12]);
    packet[0] = 0x48;
    let total = packet.len() as u16;
    [packet[2], packet[3]] = total.to_be_bytes();
    assert_eq!((tcp_of(&packet).ports, tcp_of(&packet).payload), ([40_000, 80], 10));
}

#[test]
fn malformed_packets_are_refused() {
    let with = |at: usize, value: u8| {
        let mut packet = segment(10, &[]);
        packet[at] = value;
        parse(&packet).unwrap_err()
    };
    assert_eq!(parse(&[]), Err(Malformed::IpHeader));
    assert_eq!(parse(&[0x45; 19]), Err(Malformed::IpHeader));
    assert_eq!(parse(&[0x60; 40]), Err(Malformed::NotIpv4));
    assert_eq!(with(0, 0x44), Malformed::IpHeader);
    assert_eq!(with(2, 1), Malformed::TotalLength);
    assert_eq!(with(3, 19), Malformed::TotalLength);
    assert_eq!(with(3, 39), Malformed::TransportHeader);
    assert_eq!(with(32, 0x40), Malformed::TransportHeader);
    assert_eq!(with(32, 0xf0), Malformed::TransportHeader);
    for length in [7, 19] {
        let mut short = datagram(10);
        short[25] = length;
        assert_eq!(parse(&short), Err(Malformed::TransportHeader), "a length of {length}");
    }
}

#[test]
fn bytes_after_the_total_length_are_ignored() {
    let mut packet = segment(10, &[]);
    let expected = parse(&packet);
    packet.extend([0; 6]);
    assert_eq!(parse(&packet), expected);
}

fn packets() -> impl Strategy<Value = Vec<u8>> {
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    prop_oneof![
        (0_usize..1400, blocks).prop_map(|(payload, blocks)| segment(payload, &blocks)),
        (0_usize..1400).prop_map(datagram),
        Just(echo()),
    ]
}

/// Checks that all lengths parsed from `packet` are within the packet.
fn lies_within(packet: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(headers) = parse(packet) {
        prop_assert!(usize::from(headers.bytes) <= packet.len());
        let payload = match headers.transport {
            Transport::Tcp(tcp) => tcp.payload + 20,
            Transport::Udp { payload, .. } => payload + 8,
            Transport::Other => 0,
        };
        prop_assert!(payload + 20 <= headers.bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn no_bytes_make_the_parser_fail(bytes in prop::collection::vec(any::<u8>(), 0..120), ipv4: bool) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut().filter(|_| ipv4) {
            *first = *first & 0x0f | 0x40;
        }
        lies_within(&bytes)?;
        set_ecn(&mut bytes, Ecn::Ce);
    }

    #[test]
    fn no_damage_to_a_packet_makes_the_parser_fail(
        packet in packets(),
        flips in prop::collection::vec((0_usize..80, any::<u8>()), 0..6),
        kept in 0_usize..1500,
    ) {
        let mut packet = packet;
        for (at, bits) in flips {
            if let Some(byte) = packet.get_mut(at) {
                *byte ^= bits;
            }
        }
        packet.truncate(kept);
        lies_within(&packet)?;
    }

    #[test]
    fn the_checksum_stays_right_and_nothing_else_changes(
        packet in packets(),
        first: u8,
        id: u16,
        bits in 0_u8..4,
    ) {
        let mut packet = packet;
        packet[1] = first;
        [packet[4], packet[5]] = id.to_be_bytes();
        let right = right_checksum(&packet).to_be_bytes();
        [packet[10], packet[11]] = right;
        let before = parse(&packet).unwrap();
        set_ecn(&mut packet, ecn(bits));
        prop_assert_eq!(checksum(&packet), right_checksum(&packet));
        prop_assert_eq!(parse(&packet).unwrap(), Headers { ecn: ecn(bits), ..before });
    }
}

/// The sum from which the checksum is computed takes every possible value, including values that must be folded twice.
#[test]
fn the_checksum_stays_right_whatever_it_was() {
    let mut packet = segment(0, &[]);
    for id in 0..=u16::MAX {
        [packet[4], packet[5]] = id.to_be_bytes();
        for bits in 1..4 {
            packet[1] &= !3;
            [packet[10], packet[11]] = right_checksum(&packet).to_be_bytes();
            set_ecn(&mut packet, ecn(bits));
            assert_eq!(checksum(&packet), right_checksum(&packet), "{id} {bits}");
        }
    }
}

/// Runs `task` and returns the processor time that the calling thread used, which does not depend on the other load on
/// the machine.
pub(crate) fn processor_time(task: impl FnOnce()) -> std::time::Duration {
    let spent = || {
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        std::time::Duration::from(nix::time::clock_gettime(clock).unwrap())
    };
    let start = spent();
    task();
    spent() - start
}

#[test]
#[ignore = "a measurement"]
fn how_long_it_takes() {
    let packets = [segment(1448, &[]), segment(0, &[(1, 2), (3, 4), (5, 6)]), datagram(1000)];
    for packet in &packets {
        let mut packet = packet.clone();
        let rounds = 5_000_000_u32;
        let parsed = processor_time(|| {
            for round in 0..rounds {
                packet[5] = round as u8;
                std::hint::black_box(parse(std::hint::black_box(&packet)).unwrap());
            }
        });
        let marked = processor_time(|| {
            for round in 0..rounds {
                set_ecn(std::hint::black_box(&mut packet), ecn(round as u8));
            }
        });
        eprintln!("{} bytes: {:?} to parse, {:?} to mark", packet.len(), parsed / rounds, marked / rounds);
    }
}
