//! CAKE compared with a run of the Linux kernel, and its parts compared with their specifications.

mod slow;

use std::collections::BTreeMap;

use aqm_link::{Departure, Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Streams};
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Driver, Fates, Ignore, ect, packet};
use aqm_queue::{Acknowledgement, Config, Context, Label, Observer, Protocol, QueueDiscipline, Reason};
use serde_json::{Value, json};

fn cake(more: Value) -> Value {
    let mut table = json!({"kind": "cake", "start": "fresh"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn port(table: Value, line: &str, seed: u64) -> Port {
    let rate = rate(line);
    let queue = invariants::watched(&Config::read(table).unwrap(), rate).unwrap();
    Port::new(queue, rate, Streams::new(seed).named("queue", 0), Ties::DepartureFirst)
}

fn rate(text: &str) -> Rate {
    serde_json::from_value::<String>(json!(text))
        .map(|text| aqm_net::Quantity::parse(&text).unwrap())
        .unwrap()
}

fn at_micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// A discipline that is always backlogged: each departed packet is replaced by another one of its kind.
struct Saturated {
    queue: Box<dyn QueueDiscipline>,
    rng: aqm_net::Rng,
    now: Instant,
    next_id: u32,
    /// For each kind of packet.
    kinds: Vec<Packet>,
    sent: Vec<u64>,
}

impl Saturated {
    /// Creates a queue with five packets of each kind.
    fn new(table: Value, kinds: Vec<Packet>, labels: &[u8]) -> Self {
        let mut queue = Config::read(table).unwrap().build(rate("1Gbps")).unwrap();
        for (number, &dscp) in (0..).zip(labels) {
            let label = Label { traffic: String::new(), protocol: Protocol::Udp, port: 0, dscp };
            queue.on_label(number, &label);
        }
        let sent = vec![0; kinds.len()];
        let rng = Streams::new(3).named("queue", 0);
        let mut this = Self { queue, rng, now: Instant::START, next_id: 0, kinds, sent };
        (0..this.kinds.len()).for_each(|kind| (0..5).for_each(|_| this.offer(kind)));
        this
    }

    fn offer(&mut self, kind: usize) {
        let packet = Packet { id: self.next_id, cwnd: kind as u16 + 1, ..self.kinds[kind] };
        self.next_id += 1;
        let Self { queue, rng, now, .. } = self;
        queue.enqueue(packet, &mut Context { now: *now, rng, observer: &mut Ignore });
    }

    /// Sends `count` packets, each as soon as the shaper allows it and the 1 Gb/s link is free. Returns the bytes sent
    /// by kind.
    fn send(&mut self, count: u32) -> &[u64] {
        for _ in 0..count {
            let packet = loop {
                let Self { queue, rng, now, .. } = self;
                match queue.dequeue(&mut Context { now: *now, rng, observer: &mut Ignore }) {
                    Some(packet) => break packet,
                    None => *now = queue.next_ready().expect("packets wait"),
                }
            };
            let kind = usize::from(packet.cwnd) - 1;
            self.sent[kind] += u64::from(packet.bytes);
            self.now += aqm_net::Span::from_nanos(u64::from(packet.bytes) * 8);
            self.offer(kind);
        }
        &self.sent
    }

    /// Sends all queued packets, and then offers packets of these kinds.
    fn replace(&mut self, kinds: Vec<Packet>) {
        while self.queue.backlog().packets > 0 {
            let Self { queue, rng, now, .. } = self;
            queue.dequeue(&mut Context { now: *now, rng, observer: &mut Ignore });
        }
        (self.sent, self.kinds) = (vec![0; kinds.len()], kinds);
        (0..self.kinds.len()).for_each(|kind| (0..5).for_each(|_| self.offer(kind)));
    }
}

#[track_caller]
fn assert_near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value}, expected {expected} give or take {share}");
}

/// Three flows of datagrams at fixed times, as `udp=START_us:COUNT:GAP_ns:IP_BYTES` in the kernel's runs, with 14 bytes
/// of Ethernet header each.
const OPEN_LOOP: [(u64, u32, u64, u16); 3] =
    [(0, 4000, 1_000_000, 1000), (137, 2500, 1_600_000, 1200), (333, 200, 20_000_000, 200)];

/// The results by flow: the numbers of the dropped packets, and the delays of the sent packets in milliseconds.
fn open_loop(table: Value, seed: u64) -> [(Vec<u32>, Vec<f64>); 3] {
    let mut arrivals: Vec<(u64, Packet)> = Vec::new();
    for (flow, (start, count, gap, bytes)) in (1..).zip(OPEN_LOOP) {
        let packet =
            |number| Packet { flow, bytes: bytes + 14, cwnd: number as u16 + 1, ..Packet::default() };
        arrivals.extend((0..count).map(|k| (start * 1000 + u64::from(k) * gap, packet(k))));
    }
    arrivals.sort_by_key(|&(at, packet)| (at, packet.flow));
    let (mut port, mut fates, mut sent) = (port(table, "10Gbps", seed), Fates::default(), Vec::new());
    let mut arrival_times = BTreeMap::new();
    for (id, (at, packet)) in (0..).zip(arrivals) {
        arrival_times.insert(id, at);
        port.accept(Packet { id, ..packet }, Instant::from_nanos(at), &mut fates, |departure| {
            sent.push(departure)
        });
    }
    port.serve(at_micros(60_000_000), &mut fates, |departure| sent.push(departure));
    [1, 2, 3].map(|flow| {
        let dropped = fates.dropped_packets().filter(|packet| packet.flow == flow);
        let delay = |departure: &Departure| {
            (departure.start.nanos() - arrival_times[&departure.packet.id]) as f64 / 1e6
        };
        let delays = sent.iter().filter(|departure| departure.packet.flow == flow).map(delay);
        (dropped.map(|packet| u32::from(packet.cwnd) - 1).collect(), delays.collect())
    })
}

/// The kernel's results for a flow: the number of drops, the first ten of them, and the mean and the longest delay of
/// the sent packets, in milliseconds.
struct Recorded {
    drops: usize,
    first_drops: &'static [u32],
    mean: f64,
    longest: f64,
}

/// Linux 6.1.192, 10 Mb/s by HTB (burst 1600) over `cake unlimited besteffort flows raw rtt 100ms`, one run.
const BEHIND_HTB: [Recorded; 3] = [
    Recorded {
        drops: 623,
        first_drops: &[11, 55, 91, 123, 151, 178, 201, 224, 245, 265],
        mean: 709.874,
        longest: 1112.885,
    },
    Recorded {
        drops: 446,
        first_drops: &[17, 58, 88, 115, 139, 160, 181, 200, 218, 235],
        mean: 119.049,
        longest: 174.477,
    },
    Recorded { drops: 0, first_drops: &[], mean: 0.448, longest: 0.958 },
];

/// The same flows through `cake bandwidth 10mbit besteffort flows raw rtt 100ms` itself.
const SHAPING: [Recorded; 3] = [
    Recorded {
        drops: 624,
        first_drops: &[9, 53, 89, 121, 149, 175, 199, 221, 243, 263],
        mean: 710.509,
        longest: 1112.799,
    },
    Recorded {
        drops: 447,
        first_drops: &[14, 56, 86, 113, 136, 158, 178, 197, 216, 232],
        mean: 119.443,
        longest: 174.518,
    },
    Recorded { drops: 0, first_drops: &[], mean: 0.457, longest: 1.458 },
];

#[test]
fn three_flows_have_the_same_fates_as_in_the_kernel() {
    let parameters = json!({"diffserv": "besteffort", "flows": "flows"});
    let leaf = json!({
        "rate": "10Mbps", "burst": "1600B", "cburst": "1600B", "quantum": "1600B", "queue": cake(parameters.clone()),
    });
    let behind_htb = json!({"kind": "htb", "classes": {"all": leaf}});
    let mut shaping = cake(parameters);
    shaping["bandwidth"] = json!("10Mbps");
    // The kernel's shaper timer expired some microseconds late.
    for (table, recorded, late) in [(behind_htb, BEHIND_HTB, 0), (shaping, SHAPING, 1)] {
        for seed in 0..10 {
            let results = open_loop(table.clone(), seed);
            for ((dropped, delays), recorded) in results.iter().zip(&recorded) {
                assert_eq!(dropped.len(), recorded.drops);
                for (&observed, &packet) in dropped.iter().zip(recorded.first_drops) {
                    assert!(observed.abs_diff(packet) <= late, "{observed} (expected {packet})");
                }
                let mean = delays.iter().sum::<f64>() / delays.len() as f64;
                assert!((mean - recorded.mean).abs() < 0.3, "{mean}, not {}", recorded.mean);
                let longest = delays.iter().copied().fold(0.0, f64::max);
                assert!((longest - recorded.longest).abs() < 0.5, "{longest}, not {}", recorded.longest);
            }
        }
    }
}

/// A flow from one host to another.
fn flow(flow: u32, source: u16, destination: u16) -> Packet {
    Packet { flow, source, destination, bytes: 1500, ecn: Ecn::Ect0, ..Packet::default() }
}

/// dtaht/sch_cake#145, #46: the counters of hosts were incorrect.
#[test]
fn a_host_with_eight_flows_gets_as_much_as_one_with_one() {
    // Eight flows from one host and one from another, each to its own destination host; the same with sources and
    // destinations exchanged; and all flows to one host.
    let host = |k: u16| if k < 8 { 1 } else { 2 };
    let from: Vec<Packet> = (0..9).map(|k| flow(k.into(), host(k), 10 + k)).collect();
    let to: Vec<Packet> = (0..9).map(|k| flow(k.into(), 10 + k, host(k))).collect();
    let to_one: Vec<Packet> = (0..9).map(|k| flow(k.into(), host(k), 10)).collect();
    for (mode, kinds, share) in [
        ("flows", &from, 1.0 / 9.0),
        ("dual-srchost", &from, 0.5),
        ("dual-srchost", &to_one, 0.5),
        ("dual-srchost", &to, 1.0 / 9.0),
        ("dual-dsthost", &to, 0.5),
        ("dual-dsthost", &from, 1.0 / 9.0),
        ("triple-isolate", &from, 0.5),
        ("triple-isolate", &to, 0.5),
        // The destination host of all flows has the most flows, so all flows count the same.
        ("triple-isolate", &to_one, 1.0 / 9.0),
        ("srchost", &from, 0.5),
        ("hosts", &to_one, 0.5),
        ("dsthost", &to, 0.5),
        ("flowblind", &from, 1.0 / 9.0),
    ] {
        let mut run = Saturated::new(cake(json!({"flows": mode, "rtt": "10s"})), kinds.clone(), &[]);
        run.send(2000);
        let before = run.sent.clone();
        run.send(40_000);
        let sent: Vec<f64> =
            run.sent.iter().zip(before).map(|(&now, before)| (now - before) as f64).collect();
        let all: f64 = sent.iter().sum();
        assert_near(sent[8] / all, share, 0.01);
        sent[..8].iter().for_each(|&bytes| assert_near(bytes / all, (1.0 - share) / 8.0, 0.01));
    }
}

/// The same test with ended flows, which continued to count for their host.
#[test]
fn ended_flows_do_not_count_for_their_host() {
    let before: Vec<Packet> = (0..60).map(|k| flow(100 + k, 2, 10)).collect();
    let after: Vec<Packet> = (0..9).map(|k| flow(k.into(), if k < 8 { 1 } else { 2 }, 20 + k)).collect();
    for mode in ["dual-srchost", "triple-isolate"] {
        let mut run = Saturated::new(cake(json!({"flows": mode, "rtt": "10s"})), before.clone(), &[]);
        run.send(2000);
        run.replace(after.clone());
        let sent: Vec<f64> = run.send(40_000).iter().map(|&bytes| bytes as f64).collect();
        assert_near(sent[8] / sent.iter().sum::<f64>(), 0.5, 0.02);
    }
}

#[test]
fn three_hosts_share_by_the_end_with_more_flows() {
    // Host 1 sends to 8 hosts, hosts 2 and 3 to one each. A flow's quantum is divided by the flows of its busier host.
    let mut kinds: Vec<Packet> = (0..8).map(|k| flow(k.into(), 1, 10 + k)).collect();
    kinds.extend([flow(8, 2, 30), flow(9, 3, 31)]);
    let mut run = Saturated::new(cake(json!({"rtt": "10s"})), kinds, &[]);
    let sent: Vec<f64> = run.send(60_000).iter().map(|&bytes| bytes as f64).collect();
    let all: f64 = sent.iter().sum();
    assert_near(sent[..8].iter().sum::<f64>() / all, 1.0 / 3.0, 0.03);
    assert_near(sent[8] / all, 1.0 / 3.0, 0.03);
}

#[test]
fn tins_get_their_shares_with_a_rate_and_without() {
    // CS1, CS0, AF21, EF, and CS7.
    let labels = [8, 0, 18, 46, 56];
    let kinds: Vec<Packet> = (0..5_u16).map(|k| Packet { label: k, ..flow(k.into(), k, k) }).collect();
    for (bandwidth, diffserv, expected) in [
        (Some("10Mbps"), "besteffort", [1, 1, 1, 1, 1].map(|part| f64::from(part) / 5.0)),
        (Some("10Mbps"), "diffserv3", [1.0 / 16.0, 11.0 / 32.0, 11.0 / 32.0, 1.0 / 8.0, 1.0 / 8.0]),
        (Some("10Mbps"), "diffserv4", [1.0 / 16.0, 3.0 / 16.0, 1.0 / 2.0, 1.0 / 8.0, 1.0 / 8.0]),
        (None, "besteffort", [0.2; 5]),
        (None, "diffserv3", [64.0, 512.0, 512.0, 128.0, 128.0].map(|part: f64| part / 1344.0)),
        (None, "diffserv4", [64.0, 1024.0, 512.0, 128.0, 128.0].map(|part: f64| part / 1856.0)),
        // With `precedence`, CS1 is in the second tin, AF21 in the third, EF in the sixth.
        (None, "precedence", [224.0, 256.0, 196.0, 130.0, 98.0].map(|part: f64| part / 904.0)),
        // With `diffserv8`, CS1 is in the second tin, CS0 in the third, AF21 in the fifth.
        (None, "diffserv8", [224.0, 196.0, 149.0, 113.0, 98.0].map(|part: f64| part / 780.0)),
    ] {
        let mut table = cake(json!({"diffserv": diffserv, "flows": "flows", "rtt": "100s"}));
        if let Some(bandwidth) = bandwidth {
            table["bandwidth"] = json!(bandwidth);
        }
        let mut run = Saturated::new(table, kinds.clone(), &labels);
        let sent: Vec<f64> = run.send(30_000).iter().map(|&bytes| bytes as f64).collect();
        let all: f64 = sent.iter().sum();
        for (label, (sent, expected)) in sent.iter().zip(expected).enumerate() {
            let share = sent / all;
            assert!(
                (share / expected - 1.0).abs() < 0.03,
                "{diffserv} {bandwidth:?} {label}: {share} (expected {expected})"
            );
        }
    }
}

#[test]
fn the_shaper_enforces_its_rate_within_a_packet_with_every_framing() {
    // The size of a packet of 1514 bytes on the link, computed by hand.
    for (more, on_the_line) in [
        (json!({}), 1514.0),
        (json!({"overhead": 0}), 1500.0),
        (json!({"overhead": 38}), 1538.0),
        (json!({"overhead": 32, "atm": "atm"}), 32.0 * 53.0),
        (json!({"atm": "atm"}), 32.0 * 53.0),
        (json!({"overhead": 8, "atm": "ptm"}), 1508.0 + 24.0),
    ] {
        let mut table = cake(json!({"bandwidth": "7Mbps", "diffserv": "besteffort"}));
        table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut port = port(table, "1Gbps", 1);
        let mut starts = Vec::new();
        for id in 0..1500 {
            let packet = Packet { id, ..ect(1514) };
            port.accept(packet, at_micros(0), &mut Ignore, |one| starts.push(one.start.nanos()));
        }
        port.serve(at_micros(100_000_000), &mut Ignore, |one| starts.push(one.start.nanos()));
        assert_eq!(starts.len(), 1500);
        for (k, start) in starts.iter().enumerate() {
            let due = k as f64 * on_the_line * 8e9 / 7e6;
            assert!((*start as f64 - due).abs() < 2.0 + due * 1e-6, "packet {k} at {start}, due at {due}");
        }
    }
}

#[test]
fn an_idle_shaper_accumulates_no_credit() {
    let mut port = port(cake(json!({"bandwidth": "8Mbps"})), "1Gbps", 1);
    let mut starts = Vec::new();
    for (id, at) in [(0, 0), (1, 500_000), (2, 500_000), (3, 500_000)] {
        let packet = Packet { id, ..packet(1000) };
        port.accept(packet, at_micros(at), &mut Ignore, |one| starts.push(one.start));
    }
    port.serve(at_micros(900_000), &mut Ignore, |one| starts.push(one.start));
    assert_eq!(starts, [0, 500_000, 501_000, 502_000].map(at_micros));
}

#[test]
fn at_an_ingress_drops_use_at_most_half_of_the_time() {
    let through = |ingress: bool| {
        let mut table = cake(json!({"bandwidth": "8Mbps", "diffserv": "besteffort", "memlimit": "40kB"}));
        table["ingress"] = json!(ingress);
        let mut port = port(table, "1Gbps", 1);
        let mut sent = 0;
        // Two and a half times the rate.
        for k in 0..25_000 {
            let packet = Packet { id: k, ..packet(1000) };
            port.accept(packet, at_micros(u64::from(k) * 400), &mut Ignore, |_| sent += 1);
        }
        f64::from(sent) / 10_000.0
    };
    assert_near(through(false), 1.0, 0.01);
    assert_near(through(true), 1.0 / 1.5, 0.02);
}

#[test]
fn a_sparse_flow_is_served_before_bulk_flows() {
    let mut queue = Driver::new(cake(json!({})), 1);
    for k in 0..30 {
        queue.offer(Packet { flow: k % 3, ..packet(1500) });
    }
    (0..12).for_each(|_| {
        queue.take();
    });
    queue.offer(Packet { flow: 7, ..packet(100) });
    assert_eq!(queue.take().map(|packet| packet.flow), Some(7));
}

#[test]
fn memory_is_limited_by_drops_of_the_oldest_packet_of_the_longest_queue() {
    // 768 bytes of memory each: thirteen packets.
    let mut queue = Driver::new(cake(json!({"memlimit": "10kB", "rtt": "100s"})), 1);
    for k in 0..40_u32 {
        // Flow 0 sends three times as often.
        queue.offer(Packet { flow: u32::from(k % 4 == 3), ..packet(100) });
        assert!(queue.queue.backlog().packets <= 13);
    }
    assert_eq!(queue.queue.backlog().packets, 13);
    let dropped: Vec<(u32, u32)> =
        queue.fates.dropped_packets().map(|packet| (packet.flow, packet.id)).collect();
    assert!(queue.fates.list.iter().all(|fate| fate.why == Reason::Overmemory));
    assert!(dropped.iter().filter(|drop| drop.0 == 0).is_sorted(), "from the front");
    // The queues are as equal as possible: 7 and 6.
    let mut waits = [0, 0];
    while let Some(packet) = queue.take() {
        waits[packet.flow as usize] += 1;
    }
    waits.sort_unstable();
    assert_eq!(waits, [6, 7]);
}

#[test]
fn a_memory_limit_below_a_packet_admits_nothing() {
    let mut queue = Driver::new(cake(json!({"memlimit": "1B", "bandwidth": "1Mbps", "ingress": true})), 1);
    (0..40).for_each(|_| {
        queue.offer(packet(1000));
    });
    assert_eq!((queue.fates.counts.other, queue.take()), (40, None));
}

#[test]
fn a_burst_of_ten_packets_next_to_two_flows_loses_one() {
    let mut run = Port::new(
        Config::read(cake(json!({"diffserv": "besteffort"}))).unwrap().build(rate("10Mbps")).unwrap(),
        rate("10Mbps"),
        Streams::new(1).named("queue", 0),
        Ties::DepartureFirst,
    );
    let mut fates = Fates::default();
    let mut id = 0;
    let mut offer = |port: &mut Port, flow, at| {
        id += 1;
        port.accept(Packet { id, flow, ..ect(1514) }, at, &mut fates, |_| {});
    };
    for k in 0..2000 {
        offer(&mut run, k % 2, at_micros(u64::from(k) * 1211));
    }
    for _ in 0..10 {
        id += 1;
        run.accept(Packet { id, flow: 5, ..packet(1514) }, at_micros(2_500_000), &mut fates, |_| {});
    }
    for k in 2000..2400 {
        id += 1;
        let at = at_micros(2_500_000 + u64::from(k - 1999) * 1211);
        run.accept(Packet { id, flow: k % 2, ..ect(1514) }, at, &mut fates, |_| {});
    }
    assert_eq!(fates.dropped_packets().filter(|packet| packet.flow == 5).count(), 1);
}

/// An observer that knows the acknowledgement of every packet. The number is the packet's window.
struct Acknowledgements(Fates);

impl Observer for Acknowledgements {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.0.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.0.marked(packet, why, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        let number = u64::from(packet.cwnd);
        (number > 0).then(|| Acknowledgement {
            bare: packet.bytes < 100,
            number,
            ..Acknowledgement::default()
        })
    }
}

#[test]
fn redundant_acknowledgements_are_dropped() {
    for (filter, left) in [
        ("disabled", vec![1, 2, 3, 4, 5, 6, 7, 8]),
        ("conservative", vec![5, 7, 8]),
        ("aggressive", vec![5, 8]),
    ] {
        let config = Config::read(cake(json!({"ack_filter": filter, "flows": "flowblind"}))).unwrap();
        let mut queue = invariants::watched(&config, rate("10Mbps")).unwrap();
        let (mut rng, mut observer) = (Streams::new(1).named("queue", 0), Acknowledgements(Fates::default()));
        let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut observer };
        // The fifth packet carries data.
        for number in 1..=8 {
            let bytes = if number == 5 { 1000 } else { 40 };
            let like =
                Packet { id: 2 * u32::from(number), flow: 1, bytes, cwnd: number, ..Packet::default() };
            queue.enqueue(like, &mut cx);
        }
        let sent: Vec<u16> =
            std::iter::from_fn(|| queue.dequeue(&mut cx)).map(|packet| packet.cwnd).collect();
        assert_eq!(sent, left, "{filter}");
        let drops = 8 - left.len();
        assert!(observer.0.list.iter().all(|fate| fate.why == Reason::AckFilter));
        assert_eq!(observer.0.list.len(), drops);
        let tins = queue.tc_statistics(Instant::START)["tins"].clone();
        assert_eq!((&tins[1]["ack_drops"], &tins[1]["drops"]), (&json!(drops), &json!(0)));
    }
}

#[test]
fn the_rate_follows_the_arrival_rate() {
    let table = cake(json!({"autorate_ingress": true, "ingress": true, "diffserv": "besteffort"}));
    let mut port = port(table, "1Gbps", 1);
    let estimate =
        |port: &Port| port.discipline().tc_statistics(Instant::START)["capacity_estimate"].as_f64().unwrap();
    let mut now = 0;
    for (bps, from) in [(20e6, 0), (5e6, 50_000_u32)] {
        for k in 0..50_000 {
            // Some packets are slightly late, which ends a window.
            let gap = 1514.0 * 8e6 / bps * if k % 10 == 0 { 1.3 } else { 29.0 / 30.0 };
            now += gap as u64;
            let packet = Packet { id: from + k, ..ect(1514) };
            port.accept(packet, at_micros(now), &mut Ignore, |_| {});
        }
        assert_near(estimate(&port) * 8.0, bps, 0.05);
        let tins = port.discipline().tc_statistics(Instant::START)["tins"].clone();
        assert_near(tins[0]["threshold_rate"].as_f64().unwrap(), estimate(&port) * 15.0 / 16.0, 0.001);
    }
}

#[test]
fn tc_statistics_are_those_of_the_kernel() {
    let shown = |more: Value| {
        let config = Config::read(cake(more)).unwrap();
        config.tc_options(rate("10Mbps")).unwrap()
    };
    assert_eq!(
        shown(json!({"diffserv": "besteffort", "flows": "flows"})),
        json!({
            "kind": "cake", "bandwidth": "unlimited", "diffserv": "besteffort", "flowmode": "flows", "nat": false,
            "wash": false, "ingress": false, "ack-filter": "disabled", "split_gso": true, "rtt": 100_000, "raw": true,
            "overhead": 0, "fwmark": "0",
        })
    );
    let more = json!({
        "bandwidth": "10Mbps", "ingress": true, "ack_filter": "conservative", "overhead": 44, "atm": "atm",
        "mpu": "84B", "memlimit": "5MB", "rtt": "20ms", "autorate_ingress": true,
    });
    assert_eq!(
        shown(more),
        json!({
            "kind": "cake", "bandwidth": 1_250_000, "autorate": "autorate-ingress", "diffserv": "diffserv3",
            "flowmode": "triple-isolate", "nat": false, "wash": false, "ingress": true, "ack-filter": "enabled",
            "split_gso": true, "rtt": 20_000, "raw": false, "atm": "atm", "overhead": 44, "mpu": 84,
            "memlimit": 5_000_000, "fwmark": "0",
        })
    );
    let mut queue = Driver::new(cake(json!({"bandwidth": "10Mbps", "overhead": 18})), 1);
    queue.offer(packet(1514));
    queue.now = at_micros(2000);
    queue.take();
    let statistics = queue.queue.tc_statistics(queue.now);
    assert_eq!(
        (&statistics["memory_used"], &statistics["memory_limit"], &statistics["max_adj_size"]),
        (&json!(2304), &json!(4_194_304), &json!(1518))
    );
    assert_eq!(
        statistics["tins"][1],
        json!({
            "threshold_rate": 1_250_000, "sent_bytes": 1514, "backlog_bytes": 0, "target_us": 5000,
            "interval_us": 100_000, "peak_delay_us": 500, "avg_delay_us": 7, "base_delay_us": 7, "sent_packets": 1,
            "way_indirect_hits": 0, "way_misses": 1, "way_collisions": 0, "drops": 0, "ecn_mark": 0, "ack_drops": 0,
            "sparse_flows": 1, "bulk_flows": 0, "unresponsive_flows": 0, "max_pkt_len": 1514, "flow_quantum": 305,
        })
    );
    // The bulk tin has a sixteenth of the rate, at which a packet takes 19.38 ms.
    assert_eq!(statistics["tins"][0]["threshold_rate"], 78_125);
    assert_eq!(statistics["tins"][0]["target_us"], 29_068);
    assert_eq!(statistics["tins"][0]["flow_quantum"], 300);
}
