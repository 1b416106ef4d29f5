//! HTB on a link much faster than its classes: the minimum and maximum rates of each class.

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Span, Streams};
use aqm_queue::testing::Ignore;
use aqm_queue::testing::invariants;
use aqm_queue::{ClassCounters, Config, Label, Protocol};
use proptest::prelude::*;
use proptest::test_runner::{Config as Settings, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

const LINE: Rate = Rate::from_bps(1_000_000_000);

/// Departures: time, flow, size in bytes.
type Sent = Vec<(Instant, u32, u64)>;

/// A port with classes of these names. The packets of flow k have a label with the k-th name as workload.
fn port(names: &[&str], table: Value) -> Port {
    let mut queue = invariants::watched(&Config::read(table).unwrap(), LINE).unwrap();
    for (number, name) in names.iter().enumerate() {
        let label =
            Label { traffic: (*name).to_owned(), protocol: Protocol::Udp, port: 0, dscp: number as u8 };
        queue.on_label(number as u16, &label);
    }
    Port::new(queue, LINE, Streams::new(1).named("queue", 0), Ties::DepartureFirst)
}

fn packet(id: u32, flow: u32, bytes: u16) -> Packet {
    Packet { id, flow, bytes, label: flow as u16, ..Packet::default() }
}

/// Offers all packets of each flow at the beginning, with these sizes, and returns the departures until then.
fn backlog(port: &mut Port, flows: &[(u32, u16)], until: Instant) -> Sent {
    let mut sent = Vec::new();
    let mut id = 0;
    for (flow, &(count, bytes)) in flows.iter().enumerate() {
        for _ in 0..count {
            port.accept(packet(id, flow as u32, bytes), Instant::START, &mut Ignore, |left| {
                sent.push((left.start, left.packet.flow, u64::from(left.packet.bytes)));
            });
            id += 1;
        }
    }
    port.serve(until, &mut Ignore, |left| {
        sent.push((left.start, left.packet.flow, u64::from(left.packet.bytes)));
    });
    sent
}

fn bytes_of(sent: &Sent, flow: u32) -> u64 {
    sent.iter().filter(|(_, of, _)| *of == flow).map(|(.., bytes)| bytes).sum()
}

fn class(rate: &str, more: Value) -> Value {
    let mut class = json!({"rate": rate, "queue": {"kind": "drop-tail", "limit": "100000p"}});
    class.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    class
}

fn leaf(name: &str, rate: &str, ceil: &str, priority: u32) -> Value {
    class(
        rate,
        json!({
            "parent": "link", "ceil": ceil, "priority": priority, "quantum": "1000B",
            "match": {"traffic": [name]},
        }),
    )
}

fn seconds(seconds: u64) -> Instant {
    Instant::START + Span::from_millis(seconds * 1000)
}

#[test]
fn a_burst_is_sent_at_once_and_then_one_packet_at_a_time() {
    let table = json!({"kind": "htb", "classes": {"all": class("140kbps", json!({}))}});
    let sent = backlog(&mut port(&["x"], table), &[(5, 1514)], seconds(10));
    let millis: Vec<u64> = sent.iter().map(|(at, ..)| at.nanos() / 1_000_000).collect();
    // A bucket of 1600 B pays for the first packet and, going into debt, for the second. Each further packet takes 86.5
    // ms.
    assert_eq!(millis, [0, 0, 81, 168, 254]);
}

#[test]
fn unused_bandwidth_is_borrowed_up_to_the_ceil() {
    let classes = json!({
        "link": class("1Mbps", json!({"queue": null})),
        "a": leaf("a", "200kbps", "1Mbps", 0),
        "b": leaf("b", "300kbps", "600kbps", 0),
    });
    let table = json!({"kind": "htb", "default": "a", "classes": classes});
    let alone = backlog(&mut port(&["a", "b"], table.clone()), &[(9000, 1000)], seconds(40));
    let rate = |sent: &Sent, flow| bytes_of(sent, flow) as f64 * 8.0 / 40e3;
    assert!((rate(&alone, 0) - 1000.0).abs() < 2.0, "{}", rate(&alone, 0));
    let capped = backlog(&mut port(&["a", "b"], table.clone()), &[(0, 1), (9000, 1000)], seconds(40));
    assert!((rate(&capped, 1) - 600.0).abs() < 2.0, "{}", rate(&capped, 1));
    // Half a megabit is left over. The quanta are equal, so each class gets half of it.
    let both = backlog(&mut port(&["a", "b"], table), &[(9000, 1000), (9000, 1000)], seconds(40));
    assert!((rate(&both, 0) - 450.0).abs() < 2.0, "{}", rate(&both, 0));
    assert!((rate(&both, 1) - 550.0).abs() < 2.0, "{}", rate(&both, 1));
}

#[test]
fn the_lower_priority_number_borrows_first_but_does_not_reduce_guaranteed_rates() {
    let classes = json!({
        "link": class("1Mbps", json!({"queue": null})),
        "a": leaf("a", "100kbps", "1Mbps", 1),
        "b": leaf("b", "200kbps", "1Mbps", 0),
    });
    let table = json!({"kind": "htb", "default": "a", "classes": classes});
    let sent = backlog(&mut port(&["a", "b"], table), &[(9000, 1000), (9000, 1000)], seconds(40));
    let rate = |flow| bytes_of(&sent, flow) as f64 * 8.0 / 40e3;
    assert!((rate(0) - 100.0).abs() < 2.0 && (rate(1) - 900.0).abs() < 2.0, "{} {}", rate(0), rate(1));
}

#[test]
fn borrowers_share_by_their_quanta() {
    let quantum = |name, quantum: &str| {
        let mut leaf = leaf(name, "10kbps", "1Mbps", 0);
        leaf["quantum"] = json!(quantum);
        leaf
    };
    let classes = json!({
        "link": class("1Mbps", json!({"queue": null})),
        "a": quantum("a", "3000B"),
        "b": quantum("b", "1000B"),
    });
    let table = json!({"kind": "htb", "default": "a", "classes": classes});
    let sent = backlog(&mut port(&["a", "b"], table), &[(9000, 500), (9000, 500)], seconds(30));
    let ratio = (bytes_of(&sent, 0) as f64 - 37_500.0) / (bytes_of(&sent, 1) as f64 - 37_500.0);
    assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
}

#[test]
fn a_class_counts_arrivals_departures_borrowed_bytes_and_drops() {
    // One packet leaves at once, three are queued and six are dropped. Two leave with the bursts of 1600 bytes, 8 us
    // apart, and the others borrow, at 3.2 ms and 11.2 ms.
    let web = json!({
        "rate": "100kbps", "ceil": "1Mbps", "parent": "link", "match": {"traffic": ["web"]},
        "queue": {"kind": "drop-tail", "limit": "3p"},
    });
    let classes = json!({"link": {"rate": "1Mbps"}, "web": web, "rest": class("1kbps", json!({}))});
    let mut port = port(&["web"], json!({"kind": "htb", "default": "rest", "classes": classes}));
    let sent = backlog(&mut port, &[(10, 1000)], seconds(1));
    let leaving: Vec<u64> = sent.iter().map(|(at, ..)| at.nanos() / 1000).collect();
    assert_eq!(leaving, [0, 8, 3200, 11_200]);
    let mut counters = Vec::new();
    port.discipline().classes(seconds(1), &mut |name, count| counters.push((name.to_owned(), count)));
    let web = ClassCounters {
        arrivals: 10,
        departures: 4,
        departed_bytes: 4000,
        borrowed_bytes: 2000,
        drops: 6,
        packet_nanos: 3 * 8000 + 2 * 3_192_000 + 8_000_000,
    };
    assert_eq!(counters, [("rest".to_owned(), ClassCounters::default()), ("web".to_owned(), web)]);
}

#[test]
fn packets_are_assigned_to_the_matching_class_or_the_default() {
    let matching = |filter: Value| class("100kbps", json!({"match": filter}));
    let classes = json!({
        "voice": matching(json!([{"dscp": [46]}, {"traffic": ["phone"], "protocol": "udp"}])),
        "web": matching(json!({"protocol": "tcp", "port": [80, 443]})),
        "rest": class("1Mbps", json!({})),
    });
    let config = Config::read(json!({"kind": "htb", "default": "rest", "classes": classes})).unwrap();
    let class_of = |traffic: &str, protocol, port, dscp| {
        let mut queue = config.build(LINE).unwrap();
        queue.on_label(0, &Label { traffic: traffic.to_owned(), protocol, port, dscp });
        let mut port = Port::new(queue, LINE, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
        let mut ends = Vec::new();
        for id in 0..12 {
            port.accept(packet(id, 0, 1000), Instant::START, &mut Ignore, |left| ends.push(left.start));
        }
        port.serve(seconds(100), &mut Ignore, |left| ends.push(left.start));
        // At a tenth of the rate, twelve packets take ten times as long.
        if ends[11] > Instant::START + Span::from_millis(400) { "slow" } else { "rest" }
    };
    assert_eq!(class_of("x", Protocol::Tcp, 0, 46), "slow");
    assert_eq!(class_of("phone", Protocol::Udp, 5060, 0), "slow");
    assert_eq!(class_of("phone", Protocol::Tcp, 5060, 0), "rest", "one filter must match in both fields");
    assert_eq!(class_of("x", Protocol::Tcp, 443, 0), "slow");
    assert_eq!(class_of("x", Protocol::Udp, 443, 0), "rest");
}

#[test]
fn an_invalid_tree_is_rejected_with_path_and_reason() {
    let error = |table: Value| Config::read(table).unwrap().build(LINE).err().unwrap().to_string();
    let of = |classes: Value| error(json!({"kind": "htb", "classes": classes}));
    assert!(of(json!({"a": {}})).starts_with("classes.a.rate: is missing"));
    assert!(
        of(json!({"a": {"rate": "2Mbps", "parent": "l"}, "l": {"rate": "1Mbps"}}))
            .starts_with("classes.a.rate: must not exceed the ceil of its parent `l`, 1Mbps")
    );
    assert!(
        of(json!({"a": {"rate": "2Mbps", "ceil": "1Mbps"}})).starts_with("classes.a.ceil: must be at least")
    );
    assert!(
        of(json!({"a": {"rate": "2Mbps", "parent": "b"}})).contains("no class is named `b`; available: a")
    );
    assert!(of(json!({"a": {"rate": "1Mbps"}, "b": {"rate": "1Mbps"}})).starts_with("default: is missing"));
    let two = json!({"a": {"rate": "1Mbps", "parent": "l"}, "l": {"rate": "1Mbps"}});
    for wrong in ["x", "l"] {
        let found = error(json!({"kind": "htb", "default": wrong, "classes": two}));
        assert!(found.starts_with(&format!("default: no leaf is named `{wrong}`; available: a")), "{found}");
    }
    let ring = json!({"a": {"rate": "1Mbps", "parent": "b"}, "b": {"rate": "1Mbps", "parent": "a"}});
    assert!(of(ring).contains("must not form a cycle"));
    let mut chain = json!({"c0": {"rate": "1Mbps"}});
    for k in 1..8 {
        chain[format!("c{k}")] = json!({"rate": "1Mbps", "parent": format!("c{}", k - 1)});
    }
    assert!(Config::read(json!({"kind": "htb", "classes": chain})).unwrap().build(LINE).is_ok());
    chain["c8"] = json!({"rate": "1Mbps", "parent": "c7"});
    assert!(of(chain).contains("more than 7 ancestors"));
    assert!(of(json!({"a": {"rate": "1Mbps", "priority": 8}})).contains("must be from 0 to 7"));
    assert!(
        of(json!({"a": {"rate": "1Mbps", "queue": {"kind": "htb"}}})).starts_with("classes.a.queue.kind:")
    );
    assert!(
        of(json!({"a": {"rate": "1Mbps", "queue": {"kind": "red", "max_p": 2.0}}}))
            .starts_with("classes.a.queue.max_p:")
    );
    let inner = json!({"a": {"rate": "1Mbps", "parent": "l"}, "l": {"rate": "1Mbps", "priority": 2}});
    assert!(of(inner).starts_with("classes.l.priority: is allowed only in leaves"));
    let fair = json!({"kind": "drr", "child": {"kind": "htb"}});
    assert!(error(fair).starts_with("child.kind: must be work-conserving"));
}

#[test]
fn all_errors_of_a_tree_are_reported_at_once() {
    let paths = |table: Value| {
        let errors = Config::read(table).unwrap().build(LINE).err().unwrap();
        errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
    };
    let red = json!({"kind": "red", "max_p": 2.0, "weight": 0.0});
    let classes = json!({
        "a": {"priority": 8, "parent": "x"},
        "b": {"rate": "1Mbps", "burst": "0B", "queue": red},
    });
    assert_eq!(
        paths(json!({"kind": "htb", "r2q": 0, "classes": classes})),
        [
            "r2q",
            "classes.a.rate",
            "classes.a.priority",
            "classes.a.parent",
            "classes.b.burst",
            "classes.b.queue.max_p",
            "classes.b.queue.weight",
        ]
    );
    let classes = json!({
        "a": {"rate": "2Mbps", "parent": "l"},
        "l": {"rate": "1Mbps", "priority": 2, "quantum": "1kB"},
    });
    assert_eq!(
        paths(json!({"kind": "htb", "default": "l", "classes": classes})),
        ["classes.a.rate", "classes.l.quantum", "classes.l.priority", "default"]
    );
}

#[test]
fn the_warnings_of_the_kernel_are_reported() {
    let warnings = |classes: Value| {
        let config = Config::read(json!({"kind": "htb", "default": "a", "classes": classes})).unwrap();
        config.build(LINE).unwrap();
        config.warnings(LINE).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let quiet = json!({
        "link": {"rate": "140kbps"},
        "a": {"rate": "70kbps", "parent": "link", "ceil": "140kbps", "quantum": "1514B"},
        "b": {"rate": "70kbps", "parent": "link"},
    });
    assert_eq!(warnings(quiet.clone()), [""; 0]);
    let with = |class: &str, field: &str, value: Value| {
        let mut changed = quiet.clone();
        changed[class][field] = value;
        warnings(changed).join("; ")
    };
    assert!(
        with("a", "quantum", Value::Null)
            .starts_with("classes.a.quantum: rate divided by r2q is 875B, so 1kB")
    );
    assert!(with("a", "quantum", json!("500B")).starts_with("classes.a.quantum: 500B is less than a packet"));
    assert!(with("a", "ceil", json!("1Mbps")).starts_with("classes.a.ceil: exceeds the ceil of its parent"));
    assert!(
        with("b", "rate", json!("100kbps"))
            .contains("classes.link.ceil: the rates of the child classes add up to 170kbps")
    );
    assert!(warnings(json!({"a": {"rate": "2Gbps"}})).join("").contains("exceeds the link rate of 1Gbps"));
}

/// A packet of a flow, some time after the previous packet.
fn arrivals() -> impl Strategy<Value = Vec<(u32, u16, u64)>> {
    let one =
        (0_u32..3, 40_u16..=1500, prop_oneof![4 => Just(0_u64), 2 => 0_u64..8_000, 1 => 0_u64..400_000]);
    prop::collection::vec(one, 50..600)
}

const RATES: [(u64, u64); 3] = [(200_000, 900_000), (300_000, 500_000), (100_000, 100_000)];
const CEIL: u64 = 1_000_000;

fn three(hysteresis: bool) -> Value {
    let leaf = |name: &str, flow: usize, priority| {
        let (rate, ceil) = RATES[flow];
        leaf(name, &format!("{rate}bps"), &format!("{ceil}bps"), priority)
    };
    json!({
        "kind": "htb", "default": "a", "hysteresis": hysteresis,
        "classes": {
            "link": class(&format!("{CEIL}bps"), json!({"queue": null})),
            "a": leaf("a", 0, 1), "b": leaf("b", 1, 0), "c": leaf("c", 2, 1),
        },
    })
}

fn drive(arrivals: &[(u32, u16, u64)], hysteresis: bool) -> (Sent, Vec<(Instant, u32, u64)>) {
    let mut port = port(&["a", "b", "c"], three(hysteresis));
    let (mut sent, mut arrivals_seen, mut now) = (Vec::new(), Vec::new(), Instant::START);
    for (id, &(flow, bytes, gap_us)) in arrivals.iter().enumerate() {
        now += Span::from_nanos(gap_us * 1000);
        arrivals_seen.push((now, flow, u64::from(bytes)));
        port.accept(packet(id as u32, flow, bytes), now, &mut Ignore, |left| {
            sent.push((left.start, left.packet.flow, u64::from(left.packet.bytes)));
        });
    }
    port.serve(now + Span::from_millis(600_000), &mut Ignore, |left| {
        sent.push((left.start, left.packet.flow, u64::from(left.packet.bytes)));
    });
    (sent, arrivals_seen)
}

/// The largest excess, in bytes, of the sent bytes over `bps` in any interval between two departures.
fn excess(sent: &[(Instant, u64)], bps: u64) -> f64 {
    let (mut most, mut least_before, mut sum) = (0.0_f64, f64::INFINITY, 0.0);
    for &(at, bytes) in sent {
        let owed = at.seconds() * bps as f64 / 8.0;
        least_before = least_before.min(sum - owed);
        sum += bytes as f64;
        most = most.max(sum - owed - least_before);
    }
    most
}

#[test]
fn no_class_exceeds_its_ceil_by_more_than_a_burst_and_a_packet() {
    for hysteresis in [false, true] {
        let settings = Settings { cases: 60, failure_persistence: None, ..Settings::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome = TestRunner::new_with_rng(settings, rng).run(&arrivals(), |arrivals| {
            let (sent, _) = drive(&arrivals, hysteresis);
            // With hysteresis, a class continues to send until its debt is a burst.
            let allowed = 1600.0 + 1500.0 + if hysteresis { 1600.0 } else { 0.0 };
            for flow in 0..3 {
                let own: Vec<_> =
                    sent.iter().filter(|(_, of, _)| *of == flow).map(|&(at, _, b)| (at, b)).collect();
                let over = excess(&own, RATES[flow as usize].1);
                prop_assert!(over <= allowed + 1.0, "class {flow} is {over} B over its ceil");
            }
            // The rates of the leaves add up to less than the ceil of the link, so the bound applies to the link. Each
            // leaf may overdraw it once more with its own tokens.
            let all: Vec<_> = sent.iter().map(|&(at, _, bytes)| (at, bytes)).collect();
            let over = excess(&all, CEIL);
            prop_assert!(over <= 4.0 * allowed, "the link is {over} B over its ceil");
            Ok(())
        });
        assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

#[test]
fn a_backlogged_class_gets_its_rate() {
    let settings = Settings { cases: 60, failure_persistence: None, ..Settings::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(settings, rng).run(&arrivals(), |arrivals| {
        let (sent, arrivals_seen) = drive(&arrivals, false);
        for flow in 0..3_u32 {
            // Service is not later than on a link of the class's rate that starts one packet late.
            let rate = RATES[flow as usize].0 as f64 / 8.0;
            let mut free_at = 0.0_f64;
            let left = sent.iter().filter(|(_, of, _)| *of == flow);
            for ((arrivals_seen, _, bytes), (at, ..)) in
                arrivals_seen.iter().filter(|(_, of, _)| *of == flow).zip(left)
            {
                let start = free_at.max(arrivals_seen.seconds());
                free_at = start + *bytes as f64 / rate;
                let late = at.seconds() - start;
                prop_assert!(late <= 1500.0 / rate + 1e-4, "class {flow}: {late} s late");
            }
        }
        Ok(())
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}

#[test]
fn a_port_with_a_shaper_reports_the_next_departure_and_needs_few_calls() {
    let mut port = port(&["a", "b", "c"], three(false));
    let mut ends = Vec::new();
    for id in 0..20 {
        port.accept(packet(id, 2, 1500), Instant::START, &mut Ignore, |left| ends.push(left.end));
    }
    let mut calls = 0;
    while ends.len() < 20 {
        let at = port.next_start().unwrap_or(ends[ends.len() - 1]);
        port.serve(at, &mut Ignore, |left| ends.push(left.end));
        calls += 1;
    }
    assert!(calls <= 4 * 20, "{calls} calls for 20 packets");
}
