//! The counts of a replay compared with a simple reference; lists, generated traces and captures of the same packets
//! give the same results.

mod common;

use std::collections::{BTreeMap, VecDeque};

use aqm_net::level::{Failure, Plan as _, Run};
use aqm_net::table::digest;
use aqm_net::watch::Watch;
use aqm_testing::{assert_met, maybe_real, maybe_whole, real, replicate, whole};
use aqm_trace::Scenario;
use common::{Scratch, TestPacket, packets, pcap, replay, run, scenario, warnings};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Simple reference: the time in nanoseconds at each number of flows with queued packets, for round robin with packets
/// no larger than a quantum.
fn plain_count(packets: &[TestPacket], nanos_per_byte: u64) -> BTreeMap<usize, u64> {
    let mut queues: VecDeque<(u16, VecDeque<u32>, u64)> = VecDeque::new();
    let (mut free_at, mut now, mut shares) = (0, packets[0].0, BTreeMap::new());
    let mut pass = |now: &mut u64, to: u64, flows: usize| {
        *shares.entry(flows).or_insert(0) += to - *now;
        *now = to;
    };
    let mut is_served = false;
    let mut serve = |queues: &mut VecDeque<(u16, VecDeque<u32>, u64)>| -> Option<u32> {
        loop {
            let (_, packets, deficit) = queues.front_mut()?;
            if !is_served {
                *deficit += 1500;
                is_served = true;
            }
            if u64::from(packets[0]) <= *deficit {
                let bytes = packets.pop_front().unwrap();
                *deficit -= u64::from(bytes);
                if packets.is_empty() {
                    queues.pop_front();
                    is_served = false;
                }
                return Some(bytes);
            }
            queues.rotate_left(1);
            is_served = false;
        }
    };
    for &(at, bytes, port) in packets {
        // The link removes its next packet before an arrival at the same time.
        while free_at <= at && !queues.is_empty() {
            let start: u64 = free_at.max(now);
            pass(&mut now, start, queues.len());
            let sent = serve(&mut queues).unwrap();
            free_at = start + u64::from(sent) * nanos_per_byte;
        }
        pass(&mut now, at, queues.len());
        match queues.iter_mut().find(|(flow, ..)| *flow == port) {
            Some((_, packets, _)) => packets.push_back(bytes),
            None => queues.push_back((port, VecDeque::from([bytes]), 0)),
        }
        if free_at <= at {
            let sent = serve(&mut queues).unwrap();
            free_at = at + u64::from(sent) * nanos_per_byte;
        }
    }
    shares
}

#[test]
fn the_distribution_of_active_flows_is_that_of_a_plain_count() {
    for (seed, flows) in [(1, 3), (2, 20), (3, 400)] {
        let packets = packets(4000, flows, seed);
        // At 8 Mb/s a byte takes a microsecond, and the load is about 0.77.
        let run = replay(&pcap(&packets, false), json!({"rate": "8Mbps"})).unwrap();
        let expected = plain_count(&packets, 1000);
        let total = expected.values().sum::<u64>() as f64;
        let shares = real(&run, "distribution.active_share");
        for (flows, &nanos) in &expected {
            let actual = shares.get(*flows).copied().unwrap_or(0.0);
            assert!((actual - nanos as f64 / total).abs() < 1e-9, "{flows}: {actual} {nanos}");
        }
        assert!(expected.len() > 3);
    }
}

#[test]
fn flows_in_progress_are_those_between_first_and_last_packet() {
    let packets = packets(3000, 25, 7);
    let idle = 20_000_000;
    let (first, end) = (packets[0].0, packets.last().unwrap().0);
    // From the first packet of each flow to its last, computed directly.
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut open: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for &(at, _, port) in &packets {
        match open.get_mut(&port) {
            Some((_, last)) if at - *last <= idle => *last = at,
            _ => spans.extend(open.insert(port, (at, at))),
        }
    }
    spans.extend(open.into_values());
    let (from, to) = (first + idle, end - idle);
    let area: u64 =
        spans.iter().map(|(start, last)| (*last).min(to).saturating_sub((*start).max(from))).sum();
    let run = replay(&pcap(&packets, false), json!({})).unwrap();
    let mean = maybe_real(&run, "summary.mean_in_progress")[0].unwrap();
    assert!((mean - area as f64 / (to - from) as f64).abs() < 1e-6, "{mean}");
    assert_eq!(whole(&run, "summary.flows")[0], spans.len() as u64);
    for (time, flows) in real(&run, "in_progress.time_s").iter().zip(whole(&run, "in_progress.flows")) {
        let at = first as f64 + time * 1e9;
        let there = spans.iter().filter(|(start, last)| *start as f64 <= at && at <= *last as f64).count();
        assert!(there.abs_diff(*flows as usize) <= 1, "{time}: {there} {flows}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn packets_that_come_are_sent_dropped_or_wait(
        seed in 0_u64..1000,
        flows in 1_u64..60,
        kind in 0_usize..8,
        limit in 1..50,
        rate in 2..20,
    ) {
        let kinds = ["drr", "rr", "stfq", "scfq", "wfq", "pfq", "drop-tail", "red"];
        let mut queue = json!({"kind": kinds[kind]});
        if kinds[kind] != "red" {
            queue["limit"] = format!("{limit}p").into();
        }
        let packets = packets(800, flows, seed);
        let changes = json!({"rate": format!("{rate}Mbps"), "queue": queue, "idle_timeout": "10s"});
        let run = replay(&pcap(&packets, false), changes).unwrap();
        let count = |name: &str| whole(&run, &format!("summary.{name}"))[0];
        let [packets, sent, dropped, waiting] = ["packets", "sent", "dropped", "waiting"].map(count);
        prop_assert_eq!((packets, packets), (800, sent + dropped + waiting));
        let (active, backlog) = (whole(&run, "active.flows"), whole(&run, "active.backlog_packets"));
        prop_assert!(active.iter().zip(backlog).all(|(flows, packets)| flows <= packets));
        prop_assert!(whole(&run, "summary.most_active")[0] <= flows);
        let [flows_waiting, packets_waiting] =
            ["mean_active", "mean_backlog_packets"].map(|name| real(&run, &format!("summary.{name}"))[0]);
        prop_assert!(flows_waiting <= packets_waiting + 1e-9);
        let shares: f64 = real(&run, "distribution.active_share").iter().sum();
        prop_assert!((shares - 1.0).abs() < 1e-9);
        prop_assert!(real(&run, "summary.utilisation")[0] <= 1.02);
    }
}

#[test]
fn the_table_of_flows_is_bounded_and_warns() {
    let packets = packets(5000, 500, 9);
    let free = replay(&pcap(&packets, false), json!({"idle_timeout": "10s"})).unwrap();
    assert_eq!(free.manifest["facts"]["most_flows_known"], 500);
    assert!(warnings(&free).iter().all(|warning| !warning.contains("given up")));
    let bound = replay(&pcap(&packets, false), json!({"idle_timeout": "1s", "max_flows": 100})).unwrap();
    assert_eq!(bound.manifest["facts"]["most_flows_known"], 100);
    assert!(warnings(&bound)[0].contains("ended early"));
    // With a time-out of a few packets, only a few flows are in memory.
    let short = replay(&pcap(&packets, false), json!({"idle_timeout": "20ms"})).unwrap();
    let kept = short.manifest["facts"]["most_flows_known"].as_u64().unwrap();
    assert!(kept < 60, "{kept}");
}

/// Sizes of flows with this maximum.
fn sizes(maximum: &str) -> Value {
    json!({ "kind": "power-law", "exponent": 1.2, "minimum": "4kB", "maximum": maximum })
}

/// A small generated trace.
fn generated(changes: Value) -> Value {
    let mut source = json!({
        "kind": "generated", "duration": "6s", "line_rate": "100Mbps", "flows": 300.0, "sizes": sizes("1MB"),
    });
    for (name, changed) in changes.as_object().unwrap() {
        source[name] = changed.clone();
    }
    json!({"rate": "20Mbps", "duration": "5s", "source": source})
}

#[test]
fn a_generated_trace_equals_its_capture_and_its_list_of_flows() {
    // To the end of the trace, which many flows outlast.
    let whole_trace = || {
        let mut value = generated(json!({}));
        value["duration"] = Value::Null;
        value
    };
    let made = run(whole_trace()).unwrap();
    assert!(whole(&made, "summary.packets")[0] > 8000);
    for name in ["a.pcap", "a.pcap.gz", "a.csv", "a.csv.gz"] {
        let file = Scratch::new(name, b"");
        let from = Scenario::from_value(whole_trace()).unwrap();
        aqm_trace::write(&from, file.path(), &Watch::default()).unwrap();
        let mut value = whole_trace();
        value["source"] = json!({"kind": "file", "path": file.path()});
        let read = run(value).unwrap();
        assert_eq!(digest(&read.tables), digest(&made.tables), "{name}");
        assert_eq!(warnings(&read), Vec::<String>::new());
    }
}

#[test]
fn a_generated_trace_has_its_nominal_utilisation_and_flows_from_the_start() {
    // Small flows, so that the mean converges quickly.
    let mut value =
        generated(json!({"duration": "8s", "sizes": sizes("100kB"), "flows": 600.0, "packet": "200B"}));
    value["rate"] = json!("100Mbps");
    value["duration"] = json!("8s");
    let runs: Vec<Run> = replicate(&value, 12, |value| run(value).unwrap());
    let mean = |name: &str| runs.iter().map(|run| real(run, name)[0]).collect::<Vec<_>>();
    assert_met("load", &mean("summary.load"), 0.16, 0.05);
    // A flow is in progress for one packet's gap less than until its last byte: 200 B of the mean size.
    let in_progress: Vec<f64> =
        runs.iter().map(|run| maybe_real(run, "summary.mean_in_progress")[0].unwrap()).collect();
    let (actual, _) = aqm_testing::mean_and_error(&in_progress);
    assert!((0.92..1.0).contains(&(actual / 600.0)), "{actual}");
    // The first second and the last are statistically equal.
    let bytes = |run: &Run, from: f64, to: f64| {
        let rows = real(run, "in_progress.time_s").iter().zip(whole(run, "in_progress.flows"));
        let some: Vec<f64> =
            rows.filter(|(at, _)| (from..to).contains(*at)).map(|(_, n)| *n as f64).collect();
        some.iter().sum::<f64>() / some.len() as f64
    };
    let drift: Vec<f64> = runs.iter().map(|run| bytes(run, 2.0, 3.5) - bytes(run, 4.5, 6.0)).collect();
    let (mean, error) = aqm_testing::mean_and_error(&drift);
    assert!(mean.abs() <= 3.0 * error && error < 20.0, "{mean} +- {error}");
    assert!(maybe_whole(&runs[0], "summary.most_in_progress")[0].unwrap() < 750);
}

#[test]
fn the_published_numbers_are_those_of_the_default() {
    let value = json!({"source": {"kind": "generated", "duration": "5s"}, "every": "0s"});
    let run = run(value).unwrap();
    let load = real(&run, "summary.load")[0];
    assert!((load / 0.16 - 1.0).abs() < 0.15, "{load}");
    let flows = maybe_real(&run, "summary.mean_in_progress")[0].unwrap();
    assert!((flows / 7000.0 - 1.0).abs() < 0.08, "{flows}");
    assert!(whole(&run, "active.flows").is_empty());
}

#[test]
fn traces_depend_only_on_the_seed() {
    let of = |seed: u64| {
        let mut value = generated(json!({}));
        value["seed"] = seed.into();
        digest(&run(value).unwrap().tables)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn an_invalid_line_of_a_list_is_reported_with_its_number() {
    let problem = |text: &str| match replay(text.as_bytes(), json!({})) {
        Err(Failure::File(problem)) => problem,
        other => panic!("{text}: {:?}", other.err()),
    };
    let ok = "bytes,start_s,rate\n5000,0.5,\n5000,0.5,1Mbps\n\n3000,0.75,64000\n";
    let run = replay(ok.as_bytes(), json!({})).unwrap();
    assert_eq!((whole(&run, "summary.packets")[0], whole(&run, "summary.flows")[0]), (13, 3 + 2));
    for (text, expected) in [
        ("start_s,bytes\n1,500\n0.5,500\n", "line 3: starts before the previous line"),
        ("start_s,bytes\n1,500\n2,-5\n", "line 3: `bytes` must be an integer between 1 and"),
        ("start_s,bytes\n-1,500\n", "line 2: `start_s` must be a number of seconds"),
        ("start_s,bytes\nNaN,500\n", "line 2: `start_s` must be a number of seconds"),
        ("start_s,bytes\n1\n", "line 2: `bytes` is missing"),
        ("start_s,bytes,rate\n1,500,fast\n", "line 2: `rate`:"),
        ("start_s,bytes,packet_bytes\n1,500,20\n", "line 2: `packet_bytes` must be"),
        ("start_s,bytes,colour\n1,500,red\n", "line 1: unknown column `colour`"),
        ("start_s,bytes,bytes\n1,500,4\n", "line 1: duplicate column `bytes`"),
        ("start_s,bytes\n", "contains no packets"),
    ] {
        assert!(problem(text).contains(expected), "{}", problem(text));
    }
    assert!(problem(&format!("start_s,bytes\n{}", "1".repeat(20_000))).contains("longer than"));
}

#[test]
fn invalid_scenarios_are_rejected() {
    for (changes, path, problem) in [
        (json!({"source": {"kind": "generated", "utilisation": 1.5}}), "source.utilisation", "at most 1"),
        (json!({"source": {"kind": "generated", "flows": 10.0}}), "source.flows", "must be between"),
        (json!({"source": {"kind": "generated", "slowest": "1Gbps"}}), "source.slowest", "must be below"),
        (json!({"source": {"kind": "generated", "packet": "30B"}}), "source.packet", "must be between 40B"),
        (json!({"source": {"kind": "file"}}), "source.path", "is missing"),
        (json!({"source": {"kind": "socket"}}), "source.kind", "allowed: `generated`, `file`"),
        (json!({"queue": {"kind": "drr", "limit": "0p"}}), "queue.limit", "at least 1p"),
        (json!({"idle_timeout": "0s"}), "idle_timeout", "greater than zero"),
        (json!({"max_flows": 0}), "max_flows", "must be from 1"),
        (
            json!({"rat": "1Mbps"}),
            "rat",
            "unknown key `rat`; did you mean `rate`? allowed: `level`, `source`, `queue`, `rate`",
        ),
    ] {
        let mut value = json!({"source": {"kind": "generated"}});
        for (name, changed) in changes.as_object().unwrap() {
            value[name] = changed.clone();
        }
        let errors = Scenario::from_value(value).unwrap_err();
        let error = errors.first();
        assert_eq!(error.path, path, "{error}");
        assert!(error.problem.contains(problem), "{error}");
    }
    let long = Scratch::new("a.pcap", &pcap(&packets(10, 2, 1), false));
    match run(scenario(long.path(), json!({"warm_up": "5s"}))) {
        Err(Failure::Config(error)) => assert_eq!(error.path, "warm_up"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn the_default_limit_of_the_queue_is_large() {
    let full = |queue: Value| {
        let value = json!({"source": {"kind": "generated"}, "queue": queue});
        Scenario::from_value(value).unwrap().to_value()["queue"]["limit"].clone()
    };
    assert_eq!(full(json!({"kind": "drr"})), "100000p");
    assert_eq!(full(json!({"limit": "7p"})), "7p");
    assert_eq!(full(json!({"kind": "drop-tail"})), "100000p");
    assert_eq!(full(json!({"kind": "wfq"})), "100000p");
    assert_eq!(full(json!({"kind": "drr", "limit": "20p"})), "20p");
    let again = Scenario::from_value(generated(json!({}))).unwrap().to_value();
    assert_eq!(Scenario::from_value(again.clone()).unwrap().to_value(), again);
}

#[test]
fn a_watcher_sees_the_progress_and_can_stop_the_run() {
    let scenario = Scenario::from_value(generated(json!({}))).unwrap();
    let watch = Watch::default();
    scenario.run(&watch).unwrap();
    let (done, total) = watch.progress();
    assert_eq!(total, 6_000_000_000);
    assert!(done > 4_900_000_000);
    watch.stop();
    assert_eq!(scenario.run(&watch).err(), Some(Failure::Stopped));
    let file = Scratch::new("half.pcap", b"");
    assert_eq!(aqm_trace::write(&scenario, file.path(), &watch).err(), Some(Failure::Stopped));
    assert!(!std::path::Path::new(file.path()).exists());
}
