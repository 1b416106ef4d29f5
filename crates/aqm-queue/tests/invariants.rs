//! Every member of the registry obeys the laws, whatever arrives.

use aqm_net::{Ecn, Instant, Packet, Rate, Span, Streams};
use aqm_queue::{Config, Departure, Label, Observer, Port, Protocol, Reason, Ties, invariants};
use proptest::prelude::*;
use proptest::test_runner::{Config as Settings, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

/// Every member as it comes, and the corners of those that have more.
fn members() -> Vec<Config> {
    let red = |change: serde_json::Value| {
        let red = json!({
            "min_th": "3p", "max_th": "9p", "max_p": 0.5, "weight": 0.3, "limit": "24p", "ecn": "unless-forced",
        });
        table_over(change, red)
    };
    let bytes = json!({"min_th": "2kB", "max_th": "6kB", "limit": "9999B", "packet_scaling": "after-count"});
    let variants = [
        json!({}),
        json!({"gentle": false, "spacing": "wait", "ecn": "below-max-th"}),
        json!({"gentle": false, "spacing": "none", "ecn": "always", "limit": "5001B"}),
        json!({"ecn": "always", "mark_p": 0.3, "spare_first": false, "packet_scaling": "before-count"}),
        bytes,
    ];
    let mut members = Config::every();
    members.extend(adaptive_reds());
    members.extend(linux_reds());
    members.extend(controllers());
    for variant in variants {
        let mut plain = red(variant.clone());
        plain["kind"] = json!("red");
        members.push(Config::read(plain).unwrap());
        for floor in ["none", "zero", "zero-ratio"] {
            let shred = json!({
                "kind": "shred", "red": red(variant.clone()), "floor": floor, "window_weight": 0.1,
            });
            members.push(Config::read(shred).unwrap());
        }
        let changes = [
            json!({"coupling": "coupled"}),
            json!({"coupling": "coupled", "total_average": "in-arrivals"}),
            json!({"coupling": "coupled", "idle": "class"}),
            json!({"coupling": "decoupled"}),
            json!({"coupling": "decoupled", "idle": "class"}),
            json!({"coupling": "total"}),
        ];
        members.extend(changes.iter().map(|change| rio(red(variant.clone()), change)));
    }
    let mut child = red(json!({}));
    child["kind"] = json!("red");
    members
        .extend(["drr", "rr", "stfq", "scfq", "wfq", "pfq"].iter().flat_map(|kind| schedulers(kind, &child)));
    members.extend(shapers(&child));
    for limit in ["9p", "5001B"] {
        let old = json!({"kind": "drop-tail", "limit": limit, "admits": "until-beyond"});
        members.push(Config::read(old).unwrap());
    }
    members
}

/// Classes of labels: one for every flow, with and without somebody to borrow from.
fn shapers(child: &serde_json::Value) -> Vec<Config> {
    let leaf = |flow: u32, more: serde_json::Value| {
        let leaf = json!({
            "rate": "300kbps", "burst": "3000B", "match": {"traffic": [format!("flow {flow}")]}, "queue": child,
        });
        table_over(more, leaf)
    };
    let below =
        |priority: u32| json!({"parent": "link", "ceil": "4Mbps", "priority": priority, "quantum": "1500B"});
    let flat =
        json!({"a": leaf(0, json!({})), "b": leaf(1, json!({"ceil": "3Mbps"})), "rest": {"rate": "1Mbps"}});
    let deep = json!({
        "root": {"rate": "5Mbps"},
        "link": {"parent": "root", "rate": "1Mbps", "ceil": "4Mbps"},
        "a": leaf(0, below(1)),
        "b": leaf(1, below(1)),
        "c": leaf(2, below(0)),
        "rest": {"parent": "root", "rate": "9kbps", "ceil": "5Mbps", "queue": {"kind": "drr", "limit": "9p"}},
    });
    let htb = |classes, hysteresis| json!({"kind": "htb", "classes": classes, "default": "rest", "hysteresis": hysteresis});
    [htb(&flat, false), htb(&deep, false), htb(&deep, true)].map(|table| Config::read(table).unwrap()).into()
}

/// The scheduler `kind` with each drop policy, with buckets, and with this child.
fn schedulers(kind: &str, child: &serde_json::Value) -> Vec<Config> {
    let weights = json!([1, 2, 3, 10]);
    let variants = [
        json!({"limit": "20p", "drop": "tail", "weights": weights}),
        json!({"limit": "9999B", "drop": "longest-tail", "weights": weights}),
        json!({"limit": "5001B", "drop": "longest-front", "weights": weights}),
        json!({"limit": "20p", "drop": "random-long"}),
        json!({"limit": "20p", "buckets": 3, "perturb": "5ms", "weights": weights}),
        json!({"limit": "20p", "drop": "random-long", "child": child, "weights": weights}),
        json!({"limit": "9999B", "buckets": 2, "child": child}),
        json!({"limit": "30p", "drop": "tail", "child": {"kind": "drop-random", "probability": 0.2}}),
        json!({"limit": "30p", "buckets": 2, "child": {"kind": "drr", "limit": "9p"}}),
    ];
    let read = |mut table: serde_json::Value| {
        table["kind"] = json!(kind);
        Config::read(table).unwrap()
    };
    variants.into_iter().map(read).collect()
}

fn adaptive_reds() -> Vec<Config> {
    let changes = [
        json!({"preset": "paper", "ecn": "always"}),
        json!({"preset": "ns-2.2003", "limit": "60kB", "packet_scaling": "after-count", "ecn": "unless-forced"}),
        json!({"preset": "linux", "limit": "24p", "ecn": "always"}),
        json!({"preset": "feng", "limit": "24p", "weight": 0.3}),
        json!({"min_th": "3p", "max_th": "9p", "limit": "24p", "interval": "1ms", "gentle_line": "stale"}),
    ];
    changes.map(|change| laid_over(change, json!({"kind": "adaptive-red", "weight": 0.2}))).into()
}

fn linux_reds() -> Vec<Config> {
    let changes = [
        json!({"preset": "linux"}),
        json!({"preset": "linux", "ecn": "always", "limit": "10kB"}),
        json!({"preset": "linux", "ecn": "below-max-th", "burst": 40, "max_p": 0.5}),
        json!({"preset": "linux-2.4", "ecn": "always", "mean_packet": "500B"}),
        json!({"preset": "linux-2.4", "weight": 0.5, "max_p": 1.0, "limit": "9999B"}),
    ];
    let red = json!({"kind": "red", "min_th": "2000B", "max_th": "9kB", "limit": "24kB"});
    changes.map(|change| laid_over(change, red.clone())).into()
}

fn controllers() -> Vec<Config> {
    let pi = |change| table_over(change, json!({"q_ref": "5p", "a": 0.02, "b": 0.01, "limit": "24p"}));
    let changes = [
        json!({"ecn": "always"}),
        json!({"interval": "10us", "scale_by_size": true}),
        json!({"q_ref": "3kB", "ecn": "always"}),
        json!({"q_ref": "3kB", "limit": "5001B"}),
    ];
    let members = changes.map(|change| {
        [
            laid_over(pi(change.clone()), json!({"kind": "pi"})),
            laid_over(json!({"kind": "pisa", "window_weight": 0.1, "pi": pi(change.clone())}), json!({})),
            laid_over(json!({"kind": "pimc", "min_cwnd": 20, "pi": pi(change)}), json!({})),
        ]
    });
    members.into_iter().flatten().collect()
}

fn laid_over(change: serde_json::Value, table: serde_json::Value) -> Config {
    Config::read(table_over(change, table)).unwrap()
}

fn table_over(change: serde_json::Value, mut table: serde_json::Value) -> serde_json::Value {
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

/// A RIO whose last class is this `red`, with two before it.
fn rio(mut red: serde_json::Value, change: &serde_json::Value) -> Config {
    let table = red.as_object_mut().unwrap();
    let [min_th, max_th, max_p] = ["min_th", "max_th", "max_p"].map(|name| table.remove(name).unwrap());
    let class = |max_p| json!({"min_th": min_th, "max_th": max_th, "max_p": max_p});
    table.insert("classes".to_owned(), json!([class(json!(0.1)), class(json!(1.0)), class(max_p)]));
    table.insert("kind".to_owned(), json!("rio"));
    table.extend(change.as_object().unwrap().clone());
    Config::read(red).unwrap()
}

/// Some packets alike, and a pause.
#[derive(Clone, Debug)]
struct Burst {
    packets: u32,
    like: Packet,
    gap_us: u64,
    pause_us: u64,
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // Classes beyond those of any member, too.
    let packet =
        (0_u32..4, 1_u16..1500, 0_u16..40, ecn, 0_u8..12).prop_map(|(flow, bytes, cwnd, ecn, class)| {
            Packet { flow, bytes, cwnd, ecn, class, label: flow as u16, ..Packet::default() }
        });
    let pause = prop_oneof![Just(0), 0_u64..200_000];
    let burst = (1_u32..120, packet, prop_oneof![Just(0), 0_u64..1500], pause)
        .prop_map(|(packets, like, gap_us, pause_us)| Burst { packets, like, gap_us, pause_us });
    prop::collection::vec(burst, 1..24)
}

/// What became of the packets, in the order in which it did.
#[derive(Debug, Default, PartialEq)]
struct Fates {
    told: Vec<(u32, &'static str, Instant)>,
    sent: Vec<Departure>,
}

impl Observer for Fates {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.told.push((packet.id, Reason::NAMES[why.code() as usize], now));
    }
    fn marked(&mut self, packet: &Packet, _: Reason, now: Instant) {
        self.told.push((packet.id, "mark", now));
    }
}

fn drive(member: &Config, bursts: &[Burst], seed: u64) -> Fates {
    let rate = Rate::from_bps(10_000_000);
    let mut queue = invariants::watched(member, rate).unwrap();
    for flow in 0..4 {
        let label = Label { traffic: format!("flow {flow}"), protocol: Protocol::Tcp, port: 0, dscp: 0 };
        queue.on_label(flow, &label);
    }
    let mut port = Port::new(queue, rate, Streams::new(seed).named("queue", 0), Ties::DepartureFirst);
    let (mut fates, mut sent) = (Fates::default(), Vec::new());
    let (mut now, mut id) = (Instant::START, 0);
    for burst in bursts {
        for _ in 0..burst.packets {
            port.accept(Packet { id, ..burst.like }, now, &mut fates, |departure| sent.push(departure));
            let counters = port.counters(now);
            assert_eq!(
                counters.arrivals,
                counters.drops + counters.departures + port.discipline().backlog().packets,
                "every packet is waiting, sent or dropped"
            );
            id += 1;
            now += Span::from_nanos(burst.gap_us * 1000);
        }
        now += Span::from_nanos(burst.pause_us * 1000);
    }
    port.serve(now + Span::from_millis(3_600_000), &mut fates, |departure| sent.push(departure));
    assert_eq!(port.discipline().backlog().packets, 0, "in the end everything is sent");
    fates.sent = sent;
    fates
}

#[test]
fn every_member_obeys_the_laws_and_the_same_seed_brings_the_same_fate() {
    for member in members() {
        let settings = Settings { cases: 24, failure_persistence: None, ..Settings::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome =
            TestRunner::new_with_rng(settings, rng).run(&(bursts(), 0_u64..1000), |(bursts, seed)| {
                let fates = drive(&member, &bursts, seed);
                prop_assert_eq!(&fates, &drive(&member, &bursts, seed));
                Ok(())
            });
        assert!(outcome.is_ok(), "{member:?}: {}", outcome.unwrap_err());
        // The laws mean nothing if nothing happens.
        let like = Packet { bytes: 1000, ecn: Ecn::Ect0, cwnd: 9, ..Packet::default() };
        let flood = [Burst { packets: 1500, like, gap_us: 400, pause_us: 0 }];
        let fates = drive(&member, &flood, 1);
        let drops = fates.told.iter().filter(|(_, fate, _)| *fate != "mark").count();
        assert!(drops > 0, "{member:?} drops nothing at twice the line rate");
    }
}

#[test]
fn a_member_that_may_mark_marks_packets_that_can_be_marked() {
    for member in members() {
        let table = member.to_value();
        let ecn = ["/ecn", "/red/ecn", "/pi/ecn", "/child/ecn", "/classes/a/queue/ecn"]
            .iter()
            .find_map(|place| table.pointer(place));
        let allowed = ecn.is_some_and(|ecn| ecn != "off");
        // The first class: the last one's average may move with the others only.
        let like = Packet { bytes: 1000, ecn: Ecn::Ect0, class: 1, ..Packet::default() };
        let flood = [Burst { packets: 3000, like, gap_us: 700, pause_us: 0 }];
        let marks = drive(&member, &flood, 1).told.iter().filter(|(_, fate, _)| *fate == "mark").count();
        assert_eq!(marks > 0, allowed, "{member:?}");
    }
}
