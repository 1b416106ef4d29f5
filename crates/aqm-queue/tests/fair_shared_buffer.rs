//! Fair queueing: choice of the victim, classification of flows, order of service, and each flow's own discipline.

use aqm_net::{Ecn, Packet, Span};
use aqm_queue::Config;
use aqm_queue::testing::{Driver, ect, packet};
use proptest::prelude::*;
use serde_json::{Value, json};

const KINDS: [&str; 6] = ["drr", "rr", "stfq", "scfq", "wfq", "pfq"];

fn of(flow: u32, bytes: u16) -> Packet {
    Packet { flow, ..packet(bytes) }
}

/// The scheduler `kind` with these parameters, filled with these packets. Ids count from zero.
fn filled(mut table: Value, kind: &str, packets: &[(u32, u16)]) -> Driver {
    table["kind"] = json!(kind);
    let mut driver = Driver::new(table, 1);
    for &(flow, bytes) in packets {
        driver.offer(of(flow, bytes));
    }
    driver
}

/// The ids of the remaining packets, in order of departure, with their flows.
fn rest(driver: &mut Driver) -> Vec<(u32, u32)> {
    let mut left: Vec<(u32, u32)> =
        std::iter::from_fn(|| driver.take()).map(|packet| (packet.flow, packet.id)).collect();
    left.sort_by_key(|(flow, _)| *flow);
    left
}

#[test]
fn the_longest_queue_loses_a_packet_at_the_configured_end() {
    // Flow 1 has the most packets, and flow 2 the most bytes. Flow 3 arrives when the buffer is full.
    let packets = [(1, 100), (2, 900), (1, 100), (1, 100), (2, 900), (3, 100)];
    for kind in KINDS {
        let left = |table| rest(&mut filled(table, kind, &packets));
        let all = [(1, 0), (1, 2), (1, 3), (2, 1), (2, 4), (3, 5)];
        let without = |id| all.iter().copied().filter(|(_, other)| *other != id).collect::<Vec<_>>();
        assert_eq!(left(json!({"limit": "5p", "drop": "tail"})), without(5), "{kind}");
        assert_eq!(left(json!({"limit": "5p", "drop": "longest-tail"})), without(3), "{kind}");
        assert_eq!(left(json!({"limit": "5p", "drop": "longest-front"})), without(0), "{kind}");
        assert_eq!(left(json!({"limit": "2100B", "drop": "longest-front"})), without(1), "{kind}");
        assert_eq!(left(json!({"limit": "2100B", "drop": "longest-tail"})), without(4), "{kind}");
        assert_eq!(left(json!({"limit": "2100B", "drop": "tail"})), without(5), "{kind}");
    }
}

#[test]
fn of_equally_long_queues_that_of_the_arriving_packet_loses_a_packet() {
    for (drop, victim) in [("longest-front", 1), ("longest-tail", 4)] {
        let packets = [(1, 100), (2, 100), (1, 100), (3, 100), (2, 100)];
        let mut driver = filled(json!({"limit": "4p", "drop": drop}), "drr", &packets);
        assert!(rest(&mut driver).iter().all(|(_, id)| *id != victim), "{drop}");
    }
}

#[test]
fn a_packet_larger_than_the_buffer_displaces_no_other_packet() {
    for drop in ["tail", "longest-tail", "longest-front"] {
        let table = json!({"limit": "1000B", "drop": drop});
        let mut driver = filled(table, "drr", &[(1, 400), (2, 400), (3, 1001)]);
        assert_eq!(rest(&mut driver), [(1, 0), (2, 1)], "{drop}");
    }
}

proptest! {
    /// Suter et al. 1998: flows below an equal share of the buffer lose no packets.
    #[test]
    fn a_flow_within_its_share_loses_nothing(
        packets in prop::collection::vec((0_u32..6, 1_u16..1500, any::<bool>()), 1..200),
        bytes in any::<bool>(), drop in 0..3_usize, kind in 0..6_usize,
    ) {
        // A random victim among the long queues is selected by packets.
        let drop = ["longest-front", "longest-tail", "random-long"][drop];
        let in_bytes = bytes && drop != "random-long";
        let limit = if in_bytes { 9000 } else { 12 };
        let text = if in_bytes { "9000B" } else { "12p" };
        let mut driver = filled(json!({"limit": text, "drop": drop}), KINDS[kind], &[]);
        let mut held = [0_u64; 6];
        let size = |packet: &Packet| if in_bytes { u64::from(packet.bytes) } else { 1 };
        for (flow, bytes, serves) in packets {
            if serves && let Some(sent) = driver.take() {
                held[sent.flow as usize] -= size(&sent);
            }
            driver.offer(of(flow, bytes));
            held[flow as usize] += size(&of(flow, bytes));
            for lost in std::mem::take(&mut driver.fates).dropped_packets() {
                let flows = held.iter().filter(|held| **held > 0).count() as u64;
                let held = &mut held[lost.flow as usize];
                prop_assert!(*held * flows >= limit, "one of {flows} flows had {held} of {limit}");
                *held -= size(lost);
            }
        }
    }
}

#[test]
fn a_random_long_queue_loses_a_packet_and_all_long_ones_are_chosen() {
    let mut driver = filled(json!({"limit": "30p", "drop": "random-long"}), "drr", &[]);
    // Flows 0 to 2 have long queues of different lengths; flows 3 to 8 have one packet each.
    for flow in (0..9).chain([0; 4]).chain([1; 7]).chain([2; 10]) {
        assert!(!driver.offer(of(flow, 100)));
    }
    let mut lost = [0; 9];
    for k in 0..300 {
        // Each long flow sends a packet for each of its drops, so that the lengths are constant.
        driver.offer(of(if k == 0 { 0 } else { driver.fates.list[k - 1].packet.flow }, 100));
        lost[driver.fates.list[k].packet.flow as usize] += 1;
    }
    assert!(lost[..3].iter().all(|count| (70..130).contains(count)), "{lost:?}");
    assert_eq!(lost[3..], [0; 6]);
}

#[test]
fn active_flows_are_those_with_a_queued_packet() {
    for kind in KINDS {
        let mut driver = filled(json!({"limit": "9p"}), kind, &[(1, 500), (1, 500), (7, 500), (9, 500)]);
        let mut seen = vec![driver.gauge("active_flows")];
        while driver.take().is_some() {
            seen.push(driver.gauge("active_flows"));
        }
        assert_eq!((seen[0], seen.len(), seen[4]), (3.0, 5, 0.0), "{kind}");
        assert!(seen.is_sorted_by(|earlier, later| earlier >= later), "{kind}: {seen:?}");
    }
}

#[test]
fn flows_in_one_bucket_share_its_turn() {
    for kind in KINDS {
        let sent_of = |buckets: Value| {
            let mut driver = filled(json!({"limit": "200p", "buckets": buckets}), kind, &[]);
            for k in 0..100 {
                driver.offer(of(k % 10, 1500));
            }
            (0..100).map(|_| driver.take().unwrap().flow).collect::<Vec<_>>()
        };
        let arrivals: Vec<u32> = (0..100).map(|k| k % 10).collect();
        assert_eq!(sent_of(json!(1)), arrivals, "{kind}: one bucket is one queue");
        let turns = sent_of(Value::Null);
        assert!(turns.chunks(10).all(|round| (0..10).all(|flow| round.contains(&flow))), "{kind}");
        let driver = |buckets| {
            let packets: Vec<(u32, u16)> = (0..100).map(|flow| (flow, 100)).collect();
            filled(json!({"limit": "200p", "buckets": buckets}), kind, &packets).gauge("active_flows")
        };
        // 64 buckets, 100 flows: 64 (1 - (63/64)^100) = 50.7 in use, with a tolerance of 3.
        assert!((40.0..62.0).contains(&driver(64)), "{kind}: {}", driver(64));
        assert_eq!(driver(1), 1.0, "{kind}");
    }
}

#[test]
fn a_new_salt_separates_colliding_flows_and_no_packet_overtakes_another() {
    // The invariant checks cover the order. A colliding pair is separated within a few salts.
    let mut driver = filled(json!({"limit": "999p", "buckets": 2, "perturb": "10ms"}), "drr", &[]);
    let mut parted = 0;
    for turn in 0..40 {
        for _ in 0..10 {
            driver.offer(of(1, 1000));
            driver.offer(of(2, 1000));
        }
        parted += u32::from(driver.gauge("active_flows") == 2.0);
        for _ in 0..5 {
            driver.take();
        }
        driver.now += Span::from_millis(10 + turn % 3);
    }
    assert!((8..33).contains(&parted), "{parted} of 40");
    let mut left = 0;
    while driver.take().is_some() {
        left += 1;
    }
    assert_eq!(left, 40 * 15);
}

#[test]
fn a_newly_active_flow_is_served_first_under_pfq_unless_it_sends_too_fast() {
    let greedy: Vec<(u32, u16)> = (0..40).map(|k| (k % 4, 1000)).collect();
    let mut driver = filled(json!({"limit": "99p"}), "pfq", &greedy);
    for _ in 0..8 {
        driver.take();
    }
    // Two new flows become active. Each is served first, in order of arrival, with one packet each.
    for flow in [10, 10, 11] {
        driver.offer(of(flow, 1000));
    }
    let flows: Vec<u32> = (0..2).map(|_| driver.take().unwrap().flow).collect();
    assert_eq!(flows, [10, 11]);
    // Flow 11 becomes active again at once. It must wait for a round of the others.
    driver.offer(of(11, 1000));
    let next: Vec<u32> = (0..6).map(|_| driver.take().unwrap().flow).collect();
    assert_eq!(next.iter().filter(|flow| **flow == 11).count(), 1, "{next:?}");
    assert_ne!(next[0], 11);
    // The flow sends one packet per round, which is always served first.
    for _ in 0..3 {
        for _ in 0..6 {
            driver.take();
        }
        driver.offer(of(12, 1000));
        assert_eq!(driver.take().unwrap().flow, 12);
    }
}

#[test]
fn each_flow_has_its_own_child_with_its_own_limit() {
    for kind in KINDS {
        let table = json!({"limit": "99p", "child": {"kind": "drop-tail", "limit": "3p"}});
        let packets: Vec<(u32, u16)> = (0..30).map(|k| (k % 5, 1000)).collect();
        let mut driver = filled(table, kind, &packets);
        assert_eq!(driver.fates.counts.overflow, 15, "{kind}");
        assert_eq!(rest(&mut driver).iter().filter(|(flow, _)| *flow == 4).count(), 3, "{kind}");
    }
}

#[test]
fn a_child_marks_the_flow_that_fills_its_queue_and_no_other() {
    let red = json!({"kind": "red", "min_th": "3p", "max_th": "9p", "max_p": 1.0, "weight": 0.5, "limit": "99p",
        "ecn": "always"});
    let table = |kind| json!({"kind": kind, "limit": "99p", "child": red});
    for kind in KINDS {
        let mut driver = Driver::new(table(kind), 3);
        let mut marked = [0; 4];
        for _ in 0..30 {
            for flow in [0, 0, 0, 1, 2, 3] {
                driver.offer(Packet { flow, ..ect(1000) });
            }
            for _ in 0..4 {
                let packet = driver.take().unwrap();
                marked[packet.flow as usize] += u32::from(packet.ecn == Ecn::Ce);
            }
        }
        assert!(marked[0] >= 5 && marked[1..] == [0; 3], "{kind}: {marked:?}");
    }
}

#[test]
fn a_child_is_remembered_while_its_flow_is_idle() {
    // Every third packet of each flow is dropped, although no queue ever contains two packets.
    let child = json!({"kind": "drop-nth", "packets": [3, 6, 9]});
    let mut driver = Driver::new(json!({"kind": "drr", "limit": "9p", "child": child}), 1);
    let mut lost = Vec::new();
    for k in 0..9 {
        for flow in [1, 2] {
            if driver.offer(of(flow, 1000)) {
                lost.push((flow, k + 1));
            } else {
                driver.take().unwrap();
            }
            driver.take();
        }
    }
    assert_eq!(lost, [(1, 3), (2, 3), (1, 6), (2, 6), (1, 9), (2, 9)]);
}

/// The paths of the errors in a scheduler's parameters.
fn error_paths(table: Value) -> Vec<String> {
    let errors = Config::read(table).unwrap().build(aqm_net::Rate::from_bps(1000)).err();
    errors.into_iter().flatten().map(|error| error.path).collect()
}

#[test]
fn invalid_parameters_are_rejected_by_name() {
    let red = json!({"kind": "red", "max_th": "3p"});
    let refused = [
        (json!({"limit": "0p"}), "limit"),
        (json!({"weights": [1, 0]}), "weights"),
        (json!({"weights": [997, 991, 983]}), "weights"),
        (json!({"buckets": 0}), "buckets"),
        (json!({"perturb": "1s"}), "perturb"),
        (json!({"buckets": 9, "perturb": "0s"}), "perturb"),
        (json!({"child": red}), "child.max_th"),
        (json!({"child": {"kind": "drop-tail"}, "drop": "longest-tail"}), "drop"),
        (json!({"child": {"kind": "drop-tail"}, "buckets": 9, "perturb": "1s"}), "perturb"),
    ];
    for kind in KINDS {
        for (table, index) in &refused {
            let mut table = table.clone();
            table["kind"] = json!(kind);
            assert_eq!(error_paths(table), [*index]);
        }
    }
    for quantum in ["0B", "2GB"] {
        assert_eq!(error_paths(json!({"kind": "drr", "quantum": quantum})), ["quantum"]);
    }
    let unknown = Config::read(json!({"kind": "drr", "child": {"kind": "purple"}})).unwrap_err();
    assert!(unknown.to_string().starts_with("child.kind: unknown kind `purple`; allowed: "), "{unknown}");
}

#[test]
fn all_errors_are_reported_at_once() {
    let child = json!({"kind": "red", "weight": 0.0});
    let wrong = json!({"kind": "drr", "limit": "0p", "buckets": 0, "child": child, "quantum": "0B"});
    assert_eq!(error_paths(wrong), ["limit", "buckets", "child.weight", "quantum"]);
}

#[test]
fn a_scheduler_needs_classes_if_weights_or_its_child_do() {
    let wants = |table: Value| Config::read(table).unwrap().needs_classes();
    for kind in KINDS {
        assert!(!wants(json!({"kind": kind})));
        assert!(wants(json!({"kind": kind, "weights": [1, 2]})));
        assert!(wants(json!({"kind": kind, "child": {"kind": "rio"}})));
        assert!(!wants(json!({"kind": kind, "child": {"kind": "red"}})));
    }
}

#[test]
fn a_child_is_written_in_the_form_in_which_it_is_read() {
    let table = json!({"kind": "drr", "child": {"kind": "red", "min_th": "3p"}});
    let config = Config::read(table).unwrap();
    assert_eq!(config.to_value()["child"]["min_th"], "3p");
    assert_eq!(Config::read(config.to_value()).unwrap(), config);
}
