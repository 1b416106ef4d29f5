//! Fuzz tests: random external input must not make the router, a capture or the load generator fail.
//!
//! The environment variable `AQM_FUZZ_CASES` sets the number of cases per test. A failing test prints the seed that
//! reproduces the failure (`PROPTEST_RNG_SEED`).

use std::time::SystemTime;

use aqm_net::Instant;
use aqm_net::level::Files;
use aqm_pcap::{Interface, QueueName, Verdict, write_simulated};
use aqm_queue::Reason;
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Delivery, Emulation, EnteringPacket, Fate, FlowOpening, Hosts, Side};
use aqm_testing::pcapng::{read, temporary};
use etherparse::PacketBuilder;
use proptest::prelude::*;

use crate::load::HostIndex;
use crate::pcap::{Capture, CaptureOptions};
use crate::router::buffers::MTU;
use crate::router::connections::{Connections, FlowPacket};
use crate::router::ip;
use crate::tcp::hints::{Hints, Sent};

/// Returns a configuration with the number of cases given by `AQM_FUZZ_CASES`, or with `cases` if the variable is not
/// set.
fn config(cases: u32) -> ProptestConfig {
    let cases_set = std::env::var("AQM_FUZZ_CASES").ok().map(|text| text.parse().expect("a number"));
    ProptestConfig {
        cases: cases_set.unwrap_or(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Generates valid packets.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let tcp = (any::<[u32; 2]>(), any::<u16>(), 0_usize..1400, any::<u8>());
    let tcp = tcp.prop_map(|([seq, ack], port, payload, bits)| {
        let builder = PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64).tcp(80, port, seq, 1000).ack(ack);
        let mut packet = Vec::new();
        builder.write(&mut packet, &vec![bits; payload]).unwrap();
        packet[33] = bits;
        packet
    });
    let udp = (any::<u16>(), 0_usize..1400).prop_map(|(port, payload)| {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64).udp(port, 53);
        builder.write(&mut packet, &vec![7; payload]).unwrap();
        packet
    });
    prop_oneof![4 => tcp, 1 => udp, 1 => prop::collection::vec(any::<u8>(), 0..100)]
}

/// Generates packets, some of which are damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let flips = prop::collection::vec((0_usize..80, any::<u8>()), 0..4);
    (packet(), flips, 0_usize..3000).prop_map(|(mut packet, flips, length)| {
        for (at, bits) in flips {
            if let Some(byte) = packet.get_mut(at) {
                *byte ^= bits;
            }
        }
        packet.truncate(length);
        packet
    })
}

/// Numbers of delivered and dropped packets.
#[derive(Default)]
struct Count {
    delivered: usize,
    dropped: usize,
}

impl Hosts for Count {
    fn deliver(&mut self, _: Delivery) {
        self.delivered += 1;
    }
    fn dropped(&mut self, _: u32, _: u32, _: Side, _: Fate) {
        self.dropped += 1;
    }
    fn marked(&mut self, _: u32, _: Fate) {}
}

fn plan(text: &str) -> Plan {
    Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

const NETWORK: &str = r#"
duration = "100s"
bottleneck = { rate = "10Mbps", delay = "1ms", queue = { kind = "shred" } }
record = { packets = ["bottleneck"], histories = ["page"] }
[traffic.page]
kind = "program"
client = ["true"]
"#;

proptest! {
    #![proptest_config(config(100))]

    /// Passes a packet through the functions of the router.
    #[test]
    fn every_packet_from_hosts_is_delivered_dropped_or_malformed(
        packets in prop::collection::vec((damaged(), any::<bool>(), 0_u64..2_000_000), 1..60),
    ) {
        let mut emulation = Emulation::new(&plan(NETWORK));
        let (mut connections, mut hints) = (Connections::new(), Hints::none());
        let (mut count, mut now, mut entered) = (Count::default(), Instant::START, 0);
        for (mut packet, forward, wait) in packets {
            now = Instant::from_nanos(now.nanos() + wait);
            emulation.advance(now, &mut count);
            if packet.len() > MTU {
                continue;
            }
            let Ok(headers) = ip::parse(&packet) else { continue };
            let side = if forward { Side::Sender } else { Side::Receiver };
            let packet_flow = connections.identify(&headers, (0, side), |opening| {
                let (host, connection) = (opening.key.host(), opening.connection);
                emulation.open_flow(&FlowOpening { traffic: 0, host, connection, additional_delays: Default::default(), at: now })
            });
            let seq = if let Contents::Segment(segment) = &packet_flow.contents { segment.seq } else { 0 };
            let from = HostIndex { traffic: 0, side };
            let cwnd = hints.window(&Sent { headers: &headers, from, flow: packet_flow.flow, seq });
            let (to, bytes) = (side.other(), packet.len() as u16);
            let FlowPacket { flow, contents, .. } = packet_flow;
            emulation.enter(EnteringPacket { flow, to, contents, bytes, ecn: headers.ecn, cwnd, label: 0 }, now);
            ip::set_ecn(&mut packet, headers.ecn);
            entered += 1;
        }
        let end = emulation.end();
        emulation.advance(end, &mut count);
        prop_assert_eq!(count.delivered + count.dropped, entered);
        let tables = emulation.finish(end, &[], &[]);
        // If only bare acknowledgements were sent, there are no packets to record, which is an error.
        let _ = write_simulated(&tables, &[], Vec::new());
    }

    #[test]
    fn every_captured_packet_can_be_read(
        packets in prop::collection::vec((packet(), 0_u8..5, any::<Option<f64>>()), 0..40),
        snaplen in 0_u32..2000,
    ) {
        let path = temporary("fuzz");
        let interface = |name: &str| Interface { name: name.to_owned(), about: String::new() };
        let queues = [QueueName { link: "link".to_owned(), unit: "packets".to_owned() }];
        let options = CaptureOptions { snaplen, start: SystemTime::UNIX_EPOCH, buffer: 1 << 20 };
        let mut capture = Capture::start(&path, &[interface("one"), interface("two")], &queues, &options).unwrap();
        for (number, (packet, what, average)) in packets.iter().enumerate() {
            let verdict = if what % 2 == 0 { Verdict::Dropped } else { Verdict::Marked };
            let fate = aqm_pcap::Fate { verdict, reason: Reason::Early, queue: u32::from(*what), average: *average };
            let fate = (*what > 0).then_some(fate);
            capture.note(u32::from(what % 2), Instant::from_nanos(number as u64), packet, fate);
        }
        let captured = capture.finish().unwrap();
        let (_, blocks) = read(&path);
        prop_assert_eq!((blocks.len(), captured.lost), (packets.len(), 0));
        for (block, (packet, what, _)) in blocks.iter().zip(&packets) {
            prop_assert_eq!(&block.bytes[..], &packet[..packet.len().min(snaplen as usize)]);
            prop_assert_eq!((block.length as usize, block.comment.is_some()), (packet.len(), *what > 0));
        }
    }
}
