use std::collections::BTreeMap;

use aqm_guest::{Guest, Origin};
use aqm_net::Span;
use aqm_net::level::{Files, Run};
use aqm_net::table::{Column, Table};
use aqm_net::watch::Watch;
use aqm_traffic::{ConnectionState, Conversation, Exchange, TrafficContext, Workload};
use serde_json::Value;

use super::*;

fn plan(text: &str) -> Plan {
    Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The datagrams that a workload sends, by time.
#[derive(Default)]
struct Schedule {
    now: Instant,
    wakes: BTreeMap<u64, u32>,
    datagrams: Vec<(Instant, u32, u16, Ecn)>,
}

impl TrafficContext for Schedule {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        *self.wakes.entry(at.nanos()).or_default() += 1;
    }
    fn open(&mut self, _: Transfer) {
        panic!("the workload only sends datagrams")
    }
    fn converse(&mut self, _: Conversation) {
        panic!("the workload only sends datagrams")
    }
    fn request(&mut self, _: u32, _: Exchange) {
        panic!("the workload only sends datagrams")
    }
    fn finish(&mut self, _: u32) {
        panic!("the workload only sends datagrams")
    }
    fn reset(&mut self, _: u32) {
        panic!("the workload only sends datagrams")
    }
    fn connection(&self, _: u32) -> Option<ConnectionState> {
        None
    }
    fn datagram_back(&mut self, _: u32, _: u16, _: Ecn) {
        panic!("the workload sends no datagrams back")
    }
    fn guest(&self, _: &Origin<'_>) -> Result<Box<dyn Guest>, String> {
        panic!("the workload has no guests")
    }
    fn fail(&mut self, message: String, _: String) {
        panic!("{message}")
    }
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.datagrams.push((self.now, flow, bytes, ecn));
    }
}

fn schedule(mut workload: Box<dyn Workload>, end: Instant) -> Vec<(Instant, u32, u16, Ecn)> {
    let mut schedule = Schedule::default();
    workload.start(&mut schedule);
    while let Some((at, times)) = schedule.wakes.pop_first().filter(|&(at, _)| at <= end.nanos()) {
        schedule.now = Instant::from_nanos(at);
        (0..times).for_each(|_| workload.on_wake(&mut schedule));
    }
    schedule.datagrams
}

/// Hosts that record all deliveries, drops and marks.
#[derive(Default)]
struct RecordingHosts {
    delivered: Vec<Delivery>,
    dropped: Vec<u32>,
}

impl Hosts for RecordingHosts {
    fn deliver(&mut self, delivery: Delivery) {
        self.delivered.push(delivery);
    }
    fn dropped(&mut self, id: u32, _: u32, _: Side, _: Fate) {
        self.dropped.push(id);
    }
    fn marked(&mut self, _: u32, _: Fate) {}
}

const DATAGRAMS: &str = r#"
duration = "20s"
warm_up = "3s"
seed = 5
host = { jitter = "0s", link_header = "14B" }
[bottleneck]
rate = "1Mbps"
delay = "20ms"
queue = { kind = "red", min_th = "5p", max_th = "15p", max_p = 0.1, weight = 0.02, limit = "30p" }
[record]
packets = ["bottleneck"]
histories = ["video"]
tc_statistics = true
[traffic.video]
kind = "udp"
flows = 3
rate = "450kbps"
sizes = { kind = "constant", value = "500B" }
ecn = true
extra_delay = ["0ms", "9ms"]
gaps = { kind = "exponential" }
"#;

#[test]
fn the_longest_transmission_time_is_that_of_the_slowest_queue_or_shaper() {
    let queue =
        r#"{ kind = "red", min_th = "5p", max_th = "15p", max_p = 0.1, weight = 0.02, limit = "30p" }"#;
    let shaper = r#"{ kind = "htb", classes = { a = { rate = "100kbps", ceil = "150kbps" }, b = { rate = "100kbps" } }, default = "a" }"#;
    let takes = |text: &str| Emulation::new(&plan(text)).scales(1250)[1];
    assert!(DATAGRAMS.contains(queue));
    assert_eq!(takes(DATAGRAMS), Span::from_millis(10));
    assert_eq!(takes(&DATAGRAMS.replace(queue, shaper)), Span::from_millis(40));
    assert_eq!(takes(&DATAGRAMS.replace(queue, r#"{ kind = "htb" }"#)), Span::from_millis(10));
}

fn emulate(plan: &Plan, step: Option<Span>) -> (Vec<Table>, Option<Value>) {
    let (mut emulation, mut hosts) = (Emulation::new(plan), RecordingHosts::default());
    let end = emulation.end();
    let mut flows = BTreeMap::new();
    let mut entered = 0;
    for (at, stream, bytes, ecn) in schedule(plan.workloads[0].clone(), end) {
        if let Some(step) = step {
            // Calling `advance` more often does not change the results.
            let mut now = emulation.now + step;
            while now < at {
                emulation.advance(now, &mut hosts);
                now += step;
            }
        }
        emulation.advance(at, &mut hosts);
        let flow = *flows.entry(stream).or_insert_with(|| {
            emulation.open_flow(&FlowOpening {
                traffic: 0,
                host: stream,
                connection: false,
                additional_delays: [Span::ZERO; 2],
                at,
            })
        });
        let entering = EnteringPacket {
            flow,
            to: Side::Receiver,
            contents: Contents::Datagram,
            // The other 14 bytes are the link header.
            bytes: bytes - 14,
            ecn,
            cwnd: 0,
            label: 0,
        };
        emulation.enter(entering, at);
        entered += 1;
    }
    emulation.advance(end, &mut hosts);
    let queued = emulation.net.snapshot(end)[0].backlog.packets;
    assert!(entered - hosts.delivered.len() as u64 - hosts.dropped.len() as u64 >= queued);
    assert!(hosts.delivered.is_sorted_by_key(|delivery| delivery.due));
    let qdiscs = emulation.qdiscs(end);
    (emulation.finish(end, &[], &[]), qdiscs)
}

#[test]
fn datagrams_agree_with_a_simulation_however_seldom_the_clock_is_read() {
    let plan = plan(DATAGRAMS);
    let Run { tables: simulated, manifest, .. } = plan.run(&Watch::default()).unwrap();
    for step in [None, Some(Span::from_nanos(700_000))] {
        let (emulated, qdiscs) = emulate(&plan, step);
        assert_eq!(qdiscs.as_ref(), Some(&manifest["qdiscs"]));
        for (simulated, emulated) in simulated.iter().zip(&emulated) {
            assert_eq!(simulated, emulated, "{}", simulated.name);
        }
    }
    let rows = |name: &str| {
        let table = simulated.iter().find(|table| table.name == name).unwrap();
        let Column::Real(moments) = &table.columns[0].1 else {
            panic!("{name} does not begin with the time")
        };
        moments.len()
    };
    let found = [rows("drops"), rows("packets"), rows("gauges")];
    assert!(found[0] > 20 && found[1] > 5000 && found[2] > 300, "{found:?}");
}

/// A scenario with a program and with a slow reverse link whose queue holds at most five packets.
const PROGRAM: &str = r#"
duration = "20s"
host = { jitter = "0s" }
[bottleneck]
rate = "1Mbps"
delay = "20ms"
queue = { kind = "drop-tail", limit = "50p" }
reverse = { rate = "100kbps", queue = { kind = "drop-tail", limit = "5p" } }
[traffic.shell]
kind = "program"
client = ["true"]
"#;

/// Returns the values of `columns` in the only row of the table named `table`.
fn values(tables: &[Table], table: &str, columns: &[&str]) -> Vec<u64> {
    let table = tables.iter().find(|one| one.name == table).unwrap();
    let value = |name: &&str| match &table.columns.iter().find(|(column, _)| column == name).unwrap().1 {
        Column::Whole(values) => values[0],
        Column::MaybeWhole(values) => values.get(0).unwrap_or(999),
        other => panic!("{other:?}"),
    };
    columns.iter().map(value).collect()
}

/// Returns the tables of a run in which the client of a program sends packets with these contents at the same time.
fn sent_by_a_client(connection: bool, contents: &[Contents]) -> Vec<Table> {
    let (mut emulation, mut hosts) = (Emulation::new(&plan(PROGRAM)), RecordingHosts::default());
    let at = Instant::from_nanos(1_000_000_000);
    emulation.advance(at, &mut hosts);
    let additional_delays = [Span::ZERO; 2];
    let flow = emulation.open_flow(&FlowOpening { traffic: 0, host: 0, connection, additional_delays, at });
    for &contents in contents {
        let to = Side::Sender;
        let entering =
            EnteringPacket { flow, to, contents, bytes: 1000, ecn: Ecn::NotEct, cwnd: 0, label: 0 };
        emulation.enter(entering, at);
    }
    let end = emulation.end();
    emulation.advance(end, &mut hosts);
    emulation.finish(end, &[], &[])
}

const COUNTS: [&str; 5] =
    ["packets_sent", "packets_dropped", "delivered_bytes", "retransmitted", "datagrams_received"];

#[test]
fn data_from_and_to_the_client_of_a_program_are_counted_separately() {
    let tables = sent_by_a_client(false, &[Contents::Datagram; 20]);
    // One packet is in transmission, and five packets are queued.
    assert_eq!(values(&tables, "from_client", &COUNTS), [20, 14, 6000, 0, 6]);
    assert_eq!(values(&tables, "flows", &COUNTS), [0, 0, 0, 0, 0]);
    let segment =
        |seq| Contents::Segment(aqm_tcp::Segment { seq, len: 960, wire: 1000, ..Default::default() });
    let tables = sent_by_a_client(true, &[segment(0), segment(960), segment(0)]);
    assert_eq!(values(&tables, "from_client", &COUNTS), [3, 0, 1920, 1, 999]);
    assert_eq!(values(&tables, "flows", &COUNTS), [0, 0, 0, 0, 999]);
}

#[test]
fn only_programs_have_a_table_of_their_clients_data() {
    let emulation = Emulation::new(&plan(DATAGRAMS));
    let end = emulation.end();
    assert!(emulation.finish(end, &[], &[]).iter().all(|table| table.name != "from_client"));
}
