//! The state in which queues begin a run: the effects of `settled` and `fresh`, and of the random phases.

use std::collections::BTreeSet;

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Span, Streams};
use aqm_queue::Config;
use aqm_queue::testing::{Driver, ect, packet};
use serde_json::{Value, json};

use crate::parameters::outcome;

/// Disciplines whose settled and fresh states always differ.
const STATES: [&str; 7] = ["adaptive-red", "avq", "blue", "cake", "cobalt", "fq-codel", "linux-red"];
/// Disciplines with a timer, whose phase is random.
const TIMERS: [&str; 18] = [
    "adaptive-red",
    "docsis-pie",
    "drr",
    "dualpi2",
    "fq-pie",
    "linux-red",
    "pfq",
    "pi",
    "pie",
    "pimc",
    "pisa",
    "rem",
    "rr",
    "scfq",
    "sfb",
    "sfq",
    "stfq",
    "wfq",
];

/// The table with this `start`, if the discipline accepts it.
fn with(table: &Value, start: &str) -> Option<Value> {
    let mut table = table.clone();
    let own =
        if matches!(table["kind"].as_str(), Some("pisa" | "pimc")) { &mut table["pi"] } else { &mut table };
    *own.get_mut("start")? = json!(start);
    for name in ["age", "initial_capacity"] {
        if start == "settled" && own.get(name).is_some() {
            own[name] = Value::Null;
        }
    }
    Config::read(table.clone()).ok()?.build(Rate::from_bps(10_000_000)).ok()?;
    Some(table)
}

#[test]
fn start_has_the_documented_effects_and_only_timer_phases_are_random() {
    let (mut states, mut timers, mut have) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for config in Config::corners() {
        let table = config.to_value();
        let (Some(settled), fresh) = (with(&table, "settled"), with(&table, "fresh")) else { continue };
        have.insert(config.kind());
        let Some(fresh) = fresh else { continue };
        let [first, second] = [1, 2].map(|seed| outcome(&settled, seed));
        assert_eq!(outcome(&fresh, 1), outcome(&fresh, 2), "chance has no say in {fresh}");
        if first != second {
            timers.insert(config.kind());
        }
        if first != outcome(&fresh, 1) {
            states.insert(config.kind());
        }
    }
    assert_eq!(timers, BTreeSet::from(TIMERS));
    let any: BTreeSet<&str> = STATES.into_iter().chain(TIMERS).collect();
    assert_eq!(have, any, "exactly these disciplines have the parameter");
    assert_eq!(states, any, "settled differs from fresh");
}

#[test]
fn start_is_rejected_where_it_has_no_effect() {
    for (table, path) in [
        (json!({"kind": "fq-codel", "profile": "rfc", "start": "fresh"}), "start"),
        (json!({"kind": "fq-codel", "age": "60min"}), "age"),
        (json!({"kind": "sfq", "start": "fresh"}), "start"),
        (json!({"kind": "drr", "buckets": 8, "start": "fresh"}), "start"),
        (json!({"kind": "sfb", "rehash": "0s", "start": "fresh"}), "start"),
        (json!({"kind": "linux-red", "start": "fresh"}), "start"),
        (json!({"kind": "avq", "initial_capacity": 0.5}), "initial_capacity"),
    ] {
        let error = Config::read(table).and_then(|config| config.build(Rate::from_bps(1_000_000))).err();
        let paths: Vec<String> = error.unwrap().iter().map(|error| error.path.clone()).collect();
        assert_eq!(paths, [path]);
    }
}

#[test]
fn a_discipline_passes_the_start_on_to_inner_disciplines() {
    let pie = json!({"kind": "pie", "target": "1ms", "max_burst": "0ms", "alpha": 2.0, "beta": 2.0});
    for around in [
        json!({"kind": "htb", "classes": {"all": {"rate": "9Mbps", "queue": pie}}, "default": "all"}),
        json!({"kind": "drr", "limit": "1000p", "child": pie}),
        json!({"kind": "ce-threshold", "threshold": "20p", "queue": pie}),
        json!({"kind": "sfb", "rehash": "0s", "max": "1000p", "queue": pie}),
    ] {
        assert_ne!(outcome(&around, 1), outcome(&around, 2), "{around}");
    }
}

/// The numbers of drops in three bursts of ten packets of one flow, a minute apart.
fn drops_of_bursts(table: Value) -> Vec<u64> {
    let mut queue = Driver::new(table, 1);
    let mut drops = Vec::new();
    for burst in 0..3 {
        let before = queue.fates.counts.drops();
        queue.now = Instant::from_nanos(burst * 60_000_000_000);
        (0..10).for_each(|_| {
            queue.offer(packet(1500));
        });
        (0..11).for_each(|_| {
            queue.now += Span::from_nanos(1_200_000);
            queue.take();
        });
        drops.push(queue.fates.counts.drops() - before);
    }
    drops
}

#[test]
fn only_the_first_burst_of_a_fresh_queue_of_cake_loses_a_packet() {
    for kind in ["cake", "cobalt"] {
        assert_eq!(drops_of_bursts(json!({"kind": kind, "start": "fresh"})), [1, 0, 0], "{kind}");
        assert_eq!(drops_of_bursts(json!({"kind": kind})), [0, 0, 0], "{kind}");
    }
}

/// `sch_cake.c`: if the queue is empty, `cake_dequeue` returns before it visits any flow.
#[test]
fn cobalt_of_linux_is_the_only_flow_of_cake() {
    let fates = |table: Value| {
        let rate = Rate::from_bps(1_000_000_000);
        let mut queue = Driver::at_rate(table, rate, 1);
        let mut gaps = Streams::new(5).named("gaps", 0);
        let mut sent = Vec::new();
        for _ in 0..20_000 {
            // The queue grows, shrinks and is sometimes empty.
            let gap = [10, 300, 900, 4000][gaps.below(4) as usize];
            queue.now += Span::from_nanos(gap * 1000);
            if gaps.chance(0.52) && queue.queue.backlog().packets < 500 {
                queue.offer(if gaps.chance(0.3) { ect(1000) } else { packet(1000) });
            } else {
                sent.push(queue.take().map(|packet| packet.id));
            }
        }
        (sent, queue.fates.list)
    };
    for start in ["settled", "fresh"] {
        let cake = json!({"kind": "cake", "diffserv": "besteffort", "flows": "flowblind", "start": start});
        let cobalt = fates(json!({"kind": "cobalt", "start": start}));
        assert!(cobalt.1.len() > 500, "{}", cobalt.1.len());
        assert_eq!(cobalt, fates(cake), "{start}");
    }
}

#[test]
fn the_blue_of_an_only_flow_never_decays_in_linux_and_decays_in_ns3() {
    let after_a_pause = |profile: &str| {
        let mut queue = Driver::new(json!({"kind": "cobalt", "profile": profile, "limit": "5p"}), 1);
        for k in 0..400 {
            queue.now = Instant::from_nanos(k * 6_000_000);
            queue.offer(packet(1000));
        }
        while queue.take().is_some() {}
        let full = queue.gauge("prob");
        for _ in 0..100_000 {
            queue.now += Span::from_millis(6);
            queue.take();
        }
        (full, queue.gauge("prob"))
    };
    let (full, later) = after_a_pause("linux");
    assert!(full > 0.5 && later == full, "{full} {later}");
    let (full, later) = after_a_pause("ns-3");
    assert!(full > 0.5 && later == 0.0, "{full} {later}");
}

/// Floods a queue with one flow so that batches of packets are dropped because of overload, while the kernel's clock
/// reads `age`. Returns the largest number of packets dropped at one instant.
fn most_drops_at_once(more: Value) -> usize {
    let mut table = json!({"kind": "fq-codel", "limit": "100p", "ecn": false});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let rate = Rate::from_bps(10_000_000);
    let queue = Config::read(table).unwrap().build(rate).unwrap();
    let mut port = Port::new(queue, rate, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
    let mut fates = aqm_queue::testing::Fates::default();
    for id in 0..3000_u64 {
        let first = Packet { id: id as u32, ..packet(1000) };
        port.accept(first, Instant::from_nanos(id * 400_000), &mut fates, |_| {});
    }
    let codel = fates.list.iter().filter(|fate| fate.why == aqm_queue::Reason::Sojourn);
    let mut by_instant = std::collections::BTreeMap::new();
    codel.for_each(|fate| *by_instant.entry(fate.at).or_insert(0) += 1);
    by_instant.into_values().max().unwrap_or(0)
}

#[test]
fn the_clock_affects_a_fresh_fq_codel_at_half_of_all_values_and_a_settled_one_never() {
    // The clock wraps around after 2^42 ns. The ages are in the middle of 64 equal intervals.
    let ages = (0..64_u64).map(|part| (2 * part + 1) << 35);
    let fresh: Vec<usize> =
        ages.map(|age| most_drops_at_once(json!({"start": "fresh", "age": format!("{age}ns")}))).collect();
    let many = fresh.iter().filter(|&&drops| drops > 20).count();
    assert_eq!(many, 32, "{fresh:?}");
    assert!(fresh[..32].iter().all(|&drops| drops < 5) && fresh[32..].iter().all(|&drops| drops > 20));
    assert!(most_drops_at_once(json!({})) < 5);
    assert!(most_drops_at_once(json!({"start": "fresh"})) > 20, "shortly after the machine's boot");
}
