//! Tests in which the router's functions parse the packets of a simulated run, whose flows and sequence numbers are
//! known.

use std::collections::BTreeMap;

use aqm_net::Ecn;
use aqm_net::level::Files;
use aqm_net::table::Table;
use aqm_net::watch::Watch;
use aqm_pcap::write_simulated_to;
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Side};
use aqm_tcp::Flags;
use aqm_testing::pcapng::{Block, SCENARIO, read, temporary};
use aqm_testing::{maybe_whole, maybe_words, truth, whole, words};

use crate::router::connections::Connections;
use crate::router::ip::{Headers, Transport, parse};

/// Runs the scenario, and returns its tables and the headers of its packets at an interface.
fn packets_at(interface: &str) -> (Vec<Table>, Vec<Headers>) {
    let plan = Plan::of_toml(SCENARIO, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let tables = plan.run(&Watch::default()).unwrap().tables;
    let path = temporary(&interface.replace(' ', "-"));
    write_simulated_to(&path, &tables, &[interface.to_owned()]).unwrap();
    let (names, packets) = read(&path);
    assert_eq!(names, [interface]);
    (tables, packets.iter().map(headers).collect())
}

fn headers(block: &Block) -> Headers {
    let mut bytes = block.bytes.clone();
    // The file has no payload.
    bytes.resize(block.length as usize, 0);
    parse(&bytes).unwrap()
}

/// Returns the rows of the table `packets` whose event is one of `events` and which were recorded at a link or, if
/// `link` is `None`, at the ends of flows.
fn rows_of(tables: &Vec<Table>, link: Option<&str>, events: &[&str]) -> Vec<usize> {
    let all = maybe_words(tables, "packets.link").into_iter().zip(words(tables, "packets.event"));
    let is_shown =
        |(at, event): &(Option<String>, String)| at.as_deref() == link && events.contains(&event.as_str());
    all.enumerate().filter(|(_, row)| is_shown(row)).map(|(row, _)| row).collect()
}

#[test]
fn the_flow_the_numbers_and_the_flags_of_each_packet_are_found() {
    let (tables, packets) = packets_at("bottleneck");
    let rows = rows_of(&tables, Some("bottleneck"), &["start", "drop"]);
    assert_eq!(packets.len(), rows.len());
    assert!(packets.len() > 800, "{}", packets.len());
    let workloads = words(&tables, "flows.traffic");
    let is_datagram: Vec<bool> =
        maybe_whole(&tables, "flows.datagrams_received").iter().map(Option::is_some).collect();
    let (flow, sequence, payload) = (
        whole(&tables, "packets.flow"),
        whole(&tables, "packets.sequence_bytes"),
        whole(&tables, "packets.payload_bytes"),
    );
    let (ack, flags) = (maybe_whole(&tables, "packets.ack_bytes"), maybe_whole(&tables, "packets.flags"));
    let ecn = words(&tables, "packets.ecn");
    let mut connections = Connections::new();
    let (mut flows, mut counts, mut marked) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (headers, row) in packets.iter().zip(rows) {
        let number = flow[row] as usize;
        let workload =
            ["bulk", "objects", "video"].iter().position(|name| workloads[number] == *name).unwrap();
        let [_, octet, _, _] = headers.source.octets();
        assert_eq!(usize::from(octet), 1 + 2 * workload);
        let packet_flow = connections.identify(headers, (workload as u32, Side::Sender), |opening| {
            assert_eq!(opening.connection, !is_datagram[number]);
            number as u32
        });
        assert_eq!(u64::from(packet_flow.flow), flow[row]);
        *flows.entry(packet_flow.key).or_insert(number) = number;
        match packet_flow.contents {
            Contents::Segment(segment) => {
                assert_eq!((segment.seq, u64::from(segment.len)), (sequence[row], payload[row]));
                let Transport::Tcp(tcp) = headers.transport else { panic!("{headers:?}") };
                assert_eq!(ack[row].map(|ack| ack as u32 + 1), tcp.flags.has(Flags::ACK).then_some(tcp.ack));
                // These bits are the flags of the TCP header (RFC 9293, section 3.1).
                for (bit, flag) in [(1, Flags::FIN), (2, Flags::SYN), (64, Flags::ECE), (128, Flags::CWR)] {
                    assert_eq!(flags[row].unwrap() & bit != 0, tcp.flags.has(flag), "row {row}");
                    *counts.entry(bit).or_insert(0) += u32::from(tcp.flags.has(flag));
                }
                assert_eq!(headers.ecn == Ecn::Ce, ecn[row] == "ce");
                marked += u32::from(headers.ecn == Ecn::Ce);
            }
            Contents::Datagram => assert!(is_datagram[number]),
            Contents::Reset => panic!("no connection is reset"),
        }
    }
    assert_eq!(flows.len(), 6);
    assert!(counts.values().all(|&count| count > 0) && counts[&1] >= 3 && marked > 0, "{counts:?} {marked}");
}

#[test]
fn the_acknowledgements_and_sack_blocks_of_a_sender_are_found() {
    let (tables, packets) = packets_at("bulk sender");
    let acks = rows_of(&tables, None, &["acknowledge"]);
    let (backward, flow) = (truth(&tables, "packets.backward"), whole(&tables, "packets.flow"));
    let workloads = words(&tables, "flows.traffic");
    // The sender receives these acknowledgements, so they travelled backward.
    let acks: Vec<usize> = acks.into_iter().filter(|&row| backward[row]).collect();
    let sequence = whole(&tables, "packets.sequence_bytes");
    assert!(acks.iter().all(|&row| workloads[flow[row] as usize] == "bulk"));
    let received: Vec<&Headers> = packets.iter().filter(|headers| headers.source.octets()[1] == 2).collect();
    assert_eq!(received.len(), acks.len());
    let mut blocks = 0;
    for (headers, row) in received.iter().zip(&acks) {
        let Transport::Tcp(tcp) = headers.transport else { panic!("{headers:?}") };
        assert_eq!(u64::from(tcp.ack), sequence[*row] + 1);
        blocks += tcp.sacks.ranges().count();
    }
    let expected = rows_of(&tables, None, &["sack"]).len();
    assert!(expected > 0 && blocks == expected, "{blocks} of {expected}");
}
