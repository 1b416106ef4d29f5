//! What may come from outside, at random: nothing makes the router, a capture or the load generator fail.
//!
//! `AQM_FUZZ_CASES` sets the number of cases of each test; a failure names the seed that repeats it
//! (`PROPTEST_RNG_SEED`).

use std::fs::File;
use std::time::SystemTime;

use aqm_net::Instant;
use aqm_net::stage::Files;
use aqm_net::table::{Column, Table};
use aqm_net::watch::Watch;
use aqm_queue::Reason;
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Delivery, Emulation, Entering, Fate, Hosts, Opening, Side};
use etherparse::PacketBuilder;
use proptest::prelude::*;

use crate::load::Place;
use crate::pcap::testing::{read, temporary};
use crate::pcap::{self, Capture, CaptureOptions, Interface, QueueName, Verdict, write_simulated};
use crate::router::buffers::MTU;
use crate::router::connections::{Connections, Found};
use crate::router::ip;
use crate::tcp::hints::{Hints, Sent};

/// So many cases as are asked for, or a number that takes a moment.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("AQM_FUZZ_CASES").ok().map(|text| text.parse().expect("a number"));
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

/// A packet that could be real.
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

/// One that may be damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let flips = prop::collection::vec((0_usize..80, any::<u8>()), 0..4);
    (packet(), flips, 0_usize..3000).prop_map(|(mut packet, flips, kept)| {
        for (at, bits) in flips {
            if let Some(byte) = packet.get_mut(at) {
                *byte ^= bits;
            }
        }
        packet.truncate(kept);
        packet
    })
}

/// Counts what comes out.
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

    /// The way of a packet through the router.
    #[test]
    fn whatever_hosts_send_is_delivered_or_dropped_or_malformed(
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
            let found = connections.find(&headers, (0, side), |opening| {
                let (host, connection) = (opening.key.host(), opening.connection);
                emulation.open_flow(&Opening { traffic: 0, host, connection, further_delays: Default::default(), at: now })
            });
            let seq = if let Contents::Segment(segment) = &found.contents { segment.seq } else { 0 };
            let from = Place { traffic: 0, side };
            let cwnd = hints.window(&Sent { headers: &headers, from, flow: found.flow, seq });
            let (to, bytes) = (side.other(), packet.len() as u16);
            let Found { flow, contents, .. } = found;
            emulation.enter(Entering { flow, to, contents, bytes, ecn: headers.ecn, cwnd, label: 0 }, now);
            ip::set_ecn(&mut packet, headers.ecn);
            entered += 1;
        }
        let end = emulation.end();
        emulation.advance(end, &mut count);
        prop_assert_eq!(count.delivered + count.dropped, entered);
        let tables = emulation.finish(end, &[], &[]);
        // Of bare acknowledgements alone nothing is recorded, which is an error.
        let _ = write_simulated(&tables, &[], Vec::new());
    }

    #[test]
    fn whatever_is_captured_is_read_again(
        packets in prop::collection::vec((packet(), 0_u8..5, any::<Option<f64>>()), 0..40),
        snaplen in 0_u32..2000,
    ) {
        let path = temporary("fuzz");
        let interface = |name: &str| Interface { name: name.to_owned(), about: String::new() };
        let queues = [QueueName { link: "line".to_owned(), unit: "packets".to_owned() }];
        let options = CaptureOptions { snaplen, start: SystemTime::UNIX_EPOCH, buffer: 1 << 20 };
        let mut capture = Capture::start(&path, &[interface("one"), interface("two")], &queues, &options).unwrap();
        for (number, (packet, what, average)) in packets.iter().enumerate() {
            let verdict = if what % 2 == 0 { Verdict::Dropped } else { Verdict::Marked };
            let fate = pcap::Fate { verdict, reason: Reason::Early, queue: u32::from(*what), average: *average };
            let fate = (*what > 0).then_some(fate);
            capture.note(u32::from(what % 2), Instant::from_nanos(number as u64), packet, fate);
        }
        let captured = capture.finish().unwrap();
        let (_, seen) = read(&path);
        std::fs::remove_file(&path).unwrap();
        prop_assert_eq!((seen.len(), captured.lost), (packets.len(), 0));
        for (seen, (packet, what, _)) in seen.iter().zip(&packets) {
            prop_assert_eq!(&seen.bytes[..], &packet[..packet.len().min(snaplen as usize)]);
            prop_assert_eq!((seen.length as usize, seen.comment.is_some()), (packet.len(), *what > 0));
        }
    }

    /// Tables of a run whose numbers are others, though no larger than any run's.
    #[test]
    fn no_numbers_in_tables_make_a_capture_of_them_fail(
        changes in prop::collection::vec((any::<usize>(), any::<usize>(), 0_u64..1 << 50), 0..40),
    ) {
        let mut tables = recorded();
        for (column, row, value) in changes {
            let packets = tables.iter_mut().find(|table| table.name == "packets").unwrap();
            let position = column % packets.columns.len();
            change(&mut packets.columns[position].1, row, value);
        }
        let path = temporary("tables");
        let written = write_simulated(&tables, &[], File::create(&path).unwrap());
        let readable = written.is_err() || read(&path).1.len() as u64 == written.clone().unwrap();
        std::fs::remove_file(&path).unwrap();
        prop_assert!(readable, "{written:?}");
    }
}

/// The tables of a small run, made once.
fn recorded() -> Vec<Table> {
    static TABLES: std::sync::OnceLock<Vec<Table>> = std::sync::OnceLock::new();
    let run = || {
        let text =
            NETWORK.replace("kind = \"program\"\nclient = [\"true\"]", "kind = \"ftp\"\nstagger = \"0s\"");
        plan(&text.replace("100s", "300ms")).run(&Watch::default()).unwrap().tables
    };
    TABLES.get_or_init(run).clone()
}

/// Sets a number of a column.
fn change(column: &mut Column, row: usize, value: u64) {
    fn set<T>(values: &mut [T], row: usize, value: T) {
        let position = row % values.len().max(1);
        if let Some(place) = values.get_mut(position) {
            *place = value;
        }
    }
    match column {
        Column::Whole(values) => set(values, row, value),
        Column::MaybeWhole(values) => {
            let mut all: Vec<Option<u64>> = values.iter().collect();
            set(&mut all, row, (value & 1 > 0).then_some(value));
            *values = all.into_iter().collect();
        }
        Column::Real(values) => set(values, row, f64::from_bits(value << 14)),
        Column::MaybeReal(values) => {
            let mut all: Vec<Option<f64>> = values.iter().collect();
            set(&mut all, row, (value & 1 > 0).then_some(f64::from_bits(value << 14)));
            *values = all.into_iter().collect();
        }
        Column::Truth(values) => set(values, row, value & 1 > 0),
        Column::Word { .. } | Column::MaybeWord { .. } => {}
    }
}
