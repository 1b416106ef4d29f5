use std::collections::BTreeSet;

use aqm_net::Ecn;
use proptest::prelude::*;

use super::*;

const SENDER: Side = Side::Sender;
const RECEIVER: Side = Side::Receiver;

/// A connection table, and the flows that were opened.
#[derive(Default)]
struct Rig {
    connections: Connections,
    opened: Vec<NewFlow>,
}

/// Returns the headers of a packet that the end `from` sends on the connection between the ports 1000 and 80.
fn headers(from: Side, transport: Transport) -> Headers {
    let ends = [Ipv4Addr::new(10, 1, 0, 3), Ipv4Addr::new(10, 2, 0, 3)];
    let (source, destination) = (ends[from as usize], ends[from.other() as usize]);
    let protocol = match transport {
        Transport::Tcp(_) => 6,
        Transport::Udp { .. } => 17,
        Transport::Other => 1,
    };
    let (ecn, dscp, id, dont_fragment, bytes) = (Ecn::Ect0, 0, 0, true, 52);
    Headers { source, destination, ecn, dscp, id, dont_fragment, bytes, protocol, transport }
}

fn tcp(from: Side, seq: u32, flags: Flags, payload: u16) -> TcpHeader {
    let ports = if from == SENDER { [1000, 80] } else { [80, 1000] };
    TcpHeader { ports, seq, flags, payload, ..TcpHeader::default() }
}

impl Rig {
    fn find(&mut self, from: Side, transport: Transport) -> FlowPacket {
        let opened = &mut self.opened;
        self.connections.identify(&headers(from, transport), (2, from), |opening| {
            opened.push(*opening);
            opened.len() as u32 - 1
        })
    }

    /// Returns the flow and the contents of a segment.
    fn segment(&mut self, from: Side, tcp: TcpHeader) -> (u32, Segment) {
        let found = self.find(from, Transport::Tcp(tcp));
        match found.contents {
            Contents::Segment(segment) => (found.flow, segment),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the flow, the sequence number and the acknowledgement number of a segment without payload.
    fn bare(&mut self, from: Side, seq: u32, ack: u32, flags: Flags) -> (u32, u64, u64) {
        let (flow, segment) = self.segment(from, TcpHeader { ack, ..tcp(from, seq, flags, 0) });
        (flow, segment.seq, segment.ack)
    }
}

const SYN_ACK: Flags = Flags::SYN.union(Flags::ACK);
const FIN_ACK: Flags = Flags::FIN.union(Flags::ACK);

#[test]
fn a_connection_counts_from_the_first_byte_of_each_direction() {
    let mut rig = Rig::default();
    let (client, server) = (0xffff_ffff, 0x8000_0000_u32);
    assert_eq!(rig.bare(RECEIVER, client, 0, Flags::SYN), (0, 0, 0));
    assert_eq!(rig.bare(SENDER, server, 0, SYN_ACK), (0, 0, 0));
    assert_eq!(rig.bare(RECEIVER, 0, server + 1, Flags::ACK), (0, 0, 0));
    let (_, request) = rig.segment(RECEIVER, tcp(RECEIVER, 0, Flags::ACK.union(Flags::PUSH), 100));
    assert_eq!((request.seq, request.end(), request.wire, request.ecn), (0, 100, 52, Ecn::Ect0));
    let (_, response) =
        rig.segment(SENDER, TcpHeader { ack: 100, ..tcp(SENDER, server + 1, Flags::ACK, 500) });
    assert_eq!((response.seq, response.ack, response.end()), (0, 100, 500));
    assert_eq!(rig.bare(SENDER, server + 501, 100, FIN_ACK), (0, 500, 100));
    assert_eq!(rig.bare(RECEIVER, 100, server + 502, FIN_ACK), (0, 100, 501));
    let addresses = [3, 3];
    let key = FlowKey { traffic: 2, protocol: 6, addresses, ports: [1000, 80] };
    assert_eq!(rig.opened, [NewFlow { key, connection: true }]);
    assert_eq!(key.host(), 2);
}

#[test]
fn a_retransmitted_syn_continues_its_flow_and_another_syn_begins_a_new_one() {
    let mut rig = Rig::default();
    for (isn, flow) in [(7, 0), (7, 0), (8, 1), (8, 1), (8, 1), (7, 2)] {
        assert_eq!(rig.bare(SENDER, isn, 0, Flags::SYN), (flow, 0, 0));
        assert_eq!(rig.bare(RECEIVER, 50, isn + 1, SYN_ACK), (flow, 0, 0));
        assert_eq!(rig.bare(SENDER, isn + 1, 51, Flags::ACK), (flow, 0, 0));
    }
}

#[test]
fn an_acknowledgement_of_the_last_connection_does_not_affect_the_next() {
    let mut rig = Rig::default();
    rig.bare(SENDER, 7, 0, Flags::SYN);
    assert_eq!(rig.bare(SENDER, 1_000_000, 0, Flags::SYN), (1, 0, 0));
    // The server acknowledges data from the old connection, and then responds to the new connection.
    assert_eq!(rig.bare(RECEIVER, 900, 8, Flags::ACK).0, 1);
    assert_eq!(rig.bare(RECEIVER, 4_000_000_000, 1_000_001, SYN_ACK), (1, 0, 0));
    assert_eq!(rig.bare(RECEIVER, 4_000_000_051, 1_000_001, Flags::ACK), (1, 50, 0));
}

#[test]
fn a_connection_first_seen_in_its_middle_counts_from_there() {
    let mut rig = Rig::default();
    assert_eq!(rig.bare(SENDER, 5000, 900, Flags::ACK), (0, 0, 0));
    assert_eq!(rig.bare(SENDER, 5600, 900, Flags::ACK), (0, 600, 0));
    assert_eq!(rig.bare(SENDER, 4000, 800, Flags::ACK), (0, 0, 0), "earlier numbers count as zero");
    assert_eq!(rig.bare(RECEIVER, 950, 5600, Flags::ACK), (0, 50, 600));
}

#[test]
fn ends_that_open_at_the_same_time_have_one_flow() {
    let mut rig = Rig::default();
    assert_eq!(rig.bare(SENDER, 10, 0, Flags::SYN), (0, 0, 0));
    assert_eq!(rig.bare(RECEIVER, 20, 0, Flags::SYN), (0, 0, 0));
    assert_eq!(rig.bare(SENDER, 10, 21, SYN_ACK), (0, 0, 0));
}

#[test]
fn a_reset_belongs_to_its_flow() {
    let mut rig = Rig::default();
    rig.bare(SENDER, 10, 0, Flags::SYN);
    let reset = TcpHeader { reset: true, ack: 11, ..tcp(RECEIVER, 0, Flags::ACK, 0) };
    let found = rig.find(RECEIVER, Transport::Tcp(reset));
    assert!(matches!(found.contents, Contents::Reset) && found.flow == 0);
}

#[test]
fn sack_blocks_are_numbered_like_their_data() {
    let mut rig = Rig::default();
    let isn = u32::MAX - 1000;
    rig.bare(SENDER, isn, 0, Flags::SYN);
    rig.bare(RECEIVER, 0, isn + 1, SYN_ACK);
    rig.segment(SENDER, tcp(SENDER, 3000, Flags::ACK, 500));
    let mut packet = Vec::new();
    let number = |n: u32| isn.wrapping_add(1).wrapping_add(n);
    etherparse::PacketBuilder::ipv4([10, 2, 0, 3], [10, 1, 0, 3], 64)
        .tcp(80, 1000, 1, 1000)
        .ack(number(800))
        .options(&[etherparse::TcpOptionElement::SelectiveAcknowledgement(
            (number(100), number(600)),
            [Some((number(900), number(2000))), None, None],
        )])
        .unwrap()
        .write(&mut packet, &[])
        .unwrap();
    let (_, segment) = match crate::router::ip::parse(&packet).unwrap().transport {
        Transport::Tcp(tcp) => rig.segment(RECEIVER, tcp),
        other => panic!("{other:?}"),
    };
    assert_eq!((segment.seq, segment.ack), (0, 800));
    assert!(segment.sacks.ranges(segment.ack).eq([(100, 600), (900, 2000)]), "the first is a D-SACK");
}

#[test]
fn datagrams_and_other_protocols_are_flows_of_their_own_in_both_directions() {
    let mut rig = Rig::default();
    let udp = |ports| Transport::Udp { ports, payload: 9 };
    for (from, transport, flow) in [
        (SENDER, udp([5, 6]), 0),
        (RECEIVER, udp([6, 5]), 0),
        (RECEIVER, udp([5, 6]), 1),
        (SENDER, Transport::Other, 2),
        (RECEIVER, Transport::Other, 2),
    ] {
        let found = rig.find(from, transport);
        assert!(matches!(found.contents, Contents::Datagram));
        assert_eq!(found.flow, flow);
    }
    assert!(rig.opened.iter().all(|opening| !opening.connection));
}

#[test]
fn workloads_protocols_addresses_and_ports_distinguish_flows() {
    let mut hashes = BTreeSet::new();
    let mut keys = 0;
    for traffic in 0..4 {
        for protocol in [6, 17] {
            for host in 1..20 {
                for port in (1024..65_000).step_by(4001) {
                    let key = FlowKey { traffic, protocol, addresses: [host, host], ports: [port, 80] };
                    hashes.insert(key.hash());
                    keys += 1;
                }
            }
        }
    }
    assert_eq!(hashes.len(), keys);
}

proptest! {
    /// Tests a connection that carries many times 2^32 bytes, with retransmissions, reordering and late
    /// acknowledgements.
    #[test]
    fn numbers_are_counted_across_every_wrap(
        isns: [u32; 2],
        steps in prop::collection::vec((0_u64..1 << 30, 0_u64..1 << 29, 0_u64..1 << 29, 0_u8..4), 1..200),
    ) {
        let mut rig = Rig::default();
        let [data, back] = isns;
        let number = |n: u64| data.wrapping_add(1).wrapping_add(n as u32);
        rig.bare(SENDER, data, 0, Flags::SYN);
        rig.bare(RECEIVER, back, number(0), SYN_ACK);
        let mut sent = 0_u64;
        for (ahead, behind, late, what) in steps {
            match what {
                0 => sent += ahead,
                1 => {
                    let ack = sent.saturating_sub(late);
                    let found = rig.bare(RECEIVER, back.wrapping_add(1), number(ack), Flags::ACK);
                    prop_assert_eq!(found, (0, 0, ack));
                }
                2 => prop_assert_eq!(rig.bare(SENDER, data, 0, Flags::SYN), (0, 0, 0)),
                _ => {
                    let seq = sent.saturating_sub(behind);
                    let (flow, segment) = rig.segment(SENDER, tcp(SENDER, number(seq), Flags::ACK, 1000));
                    prop_assert_eq!((flow, segment.seq, segment.len), (0, seq, 1000));
                    continue;
                }
            }
            let (_, segment) = rig.segment(SENDER, tcp(SENDER, number(sent), Flags::ACK, 1000));
            prop_assert_eq!(segment.seq, sent);
        }
    }

    #[test]
    fn no_headers_make_it_fail(
        packets in prop::collection::vec((any::<[u32; 4]>(), 0_u8..16, any::<bool>()), 0..60),
    ) {
        let mut rig = Rig::default();
        for ([seq, ack, start, end], bits, forward) in packets {
            let from = if forward { SENDER } else { RECEIVER };
            let mut flags = Flags::default();
            for (bit, flag) in [Flags::SYN, Flags::ACK, Flags::FIN].into_iter().enumerate() {
                if bits & 1 << bit > 0 {
                    flags = flags.union(flag);
                }
            }
            let mut header = TcpHeader { ack, reset: bits & 8 > 0, ..tcp(from, seq, flags, 1000) };
            header.sacks = crate::router::ip::SackBlocks::from_iter([[start, end], [seq, ack]]);
            rig.find(from, Transport::Tcp(header));
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn how_long_it_takes() {
    for flows in [1_u16, 100, 10_000] {
        let mut connections = Connections::new();
        let rounds = 3_000_000_u32;
        let spent = crate::router::ip::tests::processor_time(|| {
            for round in 0..rounds {
                let mut header = tcp(SENDER, round, Flags::ACK, 1448);
                header.ports[0] = (round % u32::from(flows)) as u16;
                let headers = headers(SENDER, Transport::Tcp(header));
                let found = connections.identify(std::hint::black_box(&headers), (0, SENDER), |_| round);
                std::hint::black_box(found);
            }
        });
        eprintln!("{flows} flows: {:?}", spent / rounds);
    }
}
