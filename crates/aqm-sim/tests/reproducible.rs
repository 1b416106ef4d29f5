//! The same scenario, seed and version yield the same tables under all circumstances, and another queue gets the same
//! traffic.

use crate::common;
use crate::common::{real, run, whole};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// The digest of [`small`]. It changes only together with `RESULTS_VERSION`, or with the possible words of a column.
const DIGEST_OF_A_SMALL_SCENARIO: &str = "b3c1d5653e47f5309efda1e42c61d8fb1217fd9dae70057138156d8e6994be65";

fn small(seed: u64) -> Value {
    json!({
        "duration": "20s",
        "warm_up": "2s",
        "seed": seed,
        "bottleneck": { "rate": "2Mbps", "delay": "20ms", "queue": {
            "kind": "red", "min_th": "5p", "max_th": "15p", "limit": "40p", "max_p": 0.1, "weight": 0.01,
        } },
        "record": { "senders": ["long"], "packets": ["bottleneck"] },
        "traffic": {
            "long": { "kind": "ftp", "flows": 2 },
            "web": { "kind": "web", "load": 0.4, "objects": { "kind": "constant", "value": 3 } },
            "datagrams": { "kind": "udp", "gaps": { "kind": "exponential" }, "sizes": { "kind": "exponential", "mean": "300B" }, "load": 0.1 },
        },
    })
}

#[test]
fn two_runs_of_a_scenario_yield_the_same_tables() {
    let (first, second) = (run(small(1)), run(small(1)));
    assert_eq!(first.tables, second.tables);
    assert_eq!(first.digest(), second.digest());
    assert_eq!(first.manifest, second.manifest);
}

#[test]
fn the_digest_covers_every_table() {
    let found = run(small(1));
    let whole_digest = found.digest();
    for position in 0..found.tables.len() {
        let mut tables = found.tables.clone();
        assert!(!tables[position].columns.is_empty());
        tables.remove(position);
        let fewer = Run { tables, manifest: Value::Null, events: 0, forwarded: None };
        assert_ne!(fewer.digest(), whole_digest, "table {position}");
    }
}

#[test]
fn another_seed_yields_other_tables() {
    assert_ne!(run(small(1)).digest(), run(small(2)).digest());
    assert_ne!(run(small(1)).manifest["digest"], run(small(2)).manifest["digest"]);
}

#[test]
fn the_digest_of_a_small_scenario_is_pinned() {
    let digest = run(small(1)).digest();
    assert_eq!(
        digest,
        DIGEST_OF_A_SMALL_SCENARIO,
        "numbers moved for the same input: raise RESULTS_VERSION (now {}), say why in the CHANGELOG, \
         then write the new digest here",
        aqm_sim::RESULTS_VERSION
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about threads")]
fn threads_do_not_matter() {
    let digests = |seeds: std::ops::Range<u64>| -> Vec<String> {
        seeds.map(|seed| run(small(seed)).digest()).collect()
    };
    let one_by_one = digests(1..9);
    let side_by_side: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = [1..3, 3..5, 5..7, 7..9].map(|seeds| scope.spawn(|| digests(seeds))).into();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run does not panic")).collect()
    });
    assert_eq!(one_by_one, side_by_side);
}

#[test]
fn another_queue_or_tcp_gets_the_same_traffic() {
    let base = run(small(1));
    let changes: [(&str, Value); 4] = [
        ("/bottleneck/queue", json!({ "kind": "drop-tail", "limit": "3p" })),
        ("/bottleneck/queue", json!({ "kind": "shred" })),
        ("/bottleneck/delay", json!("100ms")),
        ("/tcp", json!({ "cwnd": { "initial": 2 }, "receiver": { "delayed_ack": "off" } })),
    ];
    for (path, change) in changes {
        let mut value = small(1);
        value["tcp"] = json!({});
        *value.pointer_mut(path).unwrap() = change;
        let other = run(value);
        assert_ne!(other.digest(), base.digest(), "{path} changes something");
        assert_eq!(real(&other, "transfers.start_s"), real(&base, "transfers.start_s"), "{path}");
        assert_eq!(whole(&other, "transfers.size_bytes"), whole(&base, "transfers.size_bytes"), "{path}");
        assert_eq!(real(&other, "flows.start_s"), real(&base, "flows.start_s"), "{path}");
        assert_eq!(real(&other, "pages.start_s"), real(&base, "pages.start_s"), "{path}");
    }
}

/// The RFC's DualPI2 selects packets in turn, so that only its start is random.
#[test]
fn the_phase_of_a_settled_queue_is_random_and_the_traffic_is_unchanged() {
    let with = |start: &str, draws: u64| {
        let mut value = small(1);
        value["draws"] = draws.into();
        value["host"] = json!({ "jitter": "0s" });
        value["bottleneck"]["queue"] = json!({ "kind": "dualpi2", "profile": "rfc", "start": start });
        run(value)
    };
    let (settled, fresh) = (with("settled", 1), with("fresh", 1));
    let drops = |found: &Run| whole(found, "flows.packets_dropped").to_vec();
    assert_eq!(drops(&fresh), drops(&with("fresh", 2)));
    assert_ne!(drops(&settled), drops(&with("settled", 2)));
    assert_ne!(drops(&settled), drops(&fresh));
    assert_eq!(real(&settled, "transfers.start_s"), real(&fresh, "transfers.start_s"));
    assert_eq!(whole(&settled, "transfers.size_bytes"), whole(&fresh, "transfers.size_bytes"));
}

#[test]
fn other_draws_of_routers_and_hosts_get_the_same_traffic() {
    let with_draws = |draws: u64, queue: Value, jitter: &str| {
        let mut value = small(1);
        value["draws"] = draws.into();
        value["bottleneck"]["queue"] = queue;
        value["host"] = json!({ "jitter": jitter });
        run(value)
    };
    // A queue that draws random numbers without jitter of hosts; jitter of hosts with a queue that draws none.
    let red = small(1)["bottleneck"]["queue"].clone();
    for (queue, jitter) in [(red, "0s"), (json!({ "kind": "drop-tail", "limit": "5p" }), "4ms")] {
        let found: Vec<Run> = (0..3).map(|draws| with_draws(draws, queue.clone(), jitter)).collect();
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            let (one, other) = (&found[one], &found[other]);
            assert_ne!(one.digest(), other.digest(), "{queue}");
            for column in ["flows.start_s", "transfers.start_s", "pages.start_s"] {
                assert_eq!(real(one, column), real(other, column), "{queue}: {column}");
            }
            assert_eq!(whole(one, "transfers.size_bytes"), whole(other, "transfers.size_bytes"), "{queue}");
        }
    }
}

#[test]
fn the_default_draws_have_the_number_zero() {
    let mut value = small(1);
    value["draws"] = 0.into();
    let (found, plain) = (run(value), run(small(1)));
    assert_eq!((found.digest(), &found.manifest), (plain.digest(), &plain.manifest));
}

#[test]
fn an_additional_workload_does_not_change_the_traffic_of_others() {
    let of_web = |found: &Run| -> Vec<(f64, u64)> {
        let rows = common::words(found, "transfers.traffic").into_iter();
        let values = real(found, "transfers.start_s").iter().zip(whole(found, "transfers.size_bytes"));
        rows.zip(values).filter(|(name, _)| name == "web").map(|(_, (&at, &bytes))| (at, bytes)).collect()
    };
    let mut more = small(1);
    more["traffic"]["another"] = json!({ "kind": "web", "load": 0.2 });
    more["traffic"]["long"]["flows"] = json!(7);
    assert_eq!(of_web(&run(more)), of_web(&run(small(1))));
}

fn with_reversed_ties(mut value: Value) -> Run {
    value["reverse_ties"] = true.into();
    run(value)
}

#[test]
fn the_tie_rule_has_no_effect_without_ties() {
    // One datagram stream into an idle link: no two events are at the same instant.
    let value = json!({
        "duration": "30s",
        "bottleneck": { "rate": "1Mbps", "delay": "7ms", "queue": { "kind": "drop-tail", "limit": "5p" } },
        "record": { "queue_every": "0s" },
        "traffic": { "one": { "kind": "udp", "gaps": { "kind": "exponential" }, "sizes": { "kind": "exponential", "mean": "1000B" }, "load": 0.9 } },
    });
    let found = run(value.clone());
    assert_eq!(real(&found, "links.tied_fraction"), [0.0]);
    assert!(whole(&found, "links.drops")[0] > 0);
    assert_eq!(with_reversed_ties(value).digest(), found.digest());
}

#[test]
fn the_tie_rule_decides_between_simultaneous_packets() {
    let value = json!({
        "duration": "10s",
        "bottleneck": { "rate": "1Mbps", "delay": "7ms", "queue": { "kind": "drop-tail", "limit": "5p" } },
        "host": { "jitter": "0s" },
        "traffic": { "in-step": { "kind": "udp", "flows": 2, "phase": "zero", "load": 1.5 } },
    });
    let found = run(value.clone());
    assert!(real(&found, "links.tied_fraction")[0] > 0.4);
    let other = with_reversed_ties(value);
    assert_ne!(other.digest(), found.digest());
    // The transmissions do not depend on the order of packets.
    assert_eq!(whole(&other, "links.departures"), whole(&found, "links.departures"));
}

#[test]
fn recording_packets_changes_nothing_with_either_tie_rule() {
    for reversed in [false, true] {
        let mut value = json!({
            "duration": "10s",
            "bottleneck": { "rate": "1Mbps", "delay": "7ms", "queue": { "kind": "drop-tail", "limit": "5p" } },
            "host": { "jitter": "0s" },
            "reverse_ties": reversed,
            "traffic": {
                "in-step": { "kind": "udp", "flows": 2, "phase": "zero", "load": 1.0 },
            },
        });
        let unseen = run(value.clone());
        assert!(real(&unseen, "links.tied_fraction")[0] > 0.4, "the test needs ties");
        value["record"] = json!({ "packets": ["bottleneck"] });
        let seen = run(value);
        for (ours, theirs) in
            unseen.tables.iter().zip(&seen.tables).filter(|(table, _)| table.name != "packets")
        {
            assert!(ours == theirs, "{} differs, ties reversed: {reversed}", ours.name);
        }
    }
}
