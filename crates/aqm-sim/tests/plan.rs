//! A plan is read once and can run any number of times, with any seed, until a watcher stops it.

use crate::common;
use std::thread;
use std::time::{Duration, Instant};

use aqm_net::level::{Document, Failure, Files};
use aqm_net::watch::{Unit, Watch};
use aqm_sim::{PACKET_LEVEL, Plan};
use serde_json::{Value, json};

/// Returns a scenario with everything that draws from random streams or has state: queues, edges, workloads.
fn everything(seed: u64) -> Value {
    json!({
        "duration": "8s", "warm_up": "1s", "seed": seed,
        "bottleneck": {"rate": "2Mbps", "delay": "10ms", "queue": {"kind": "rio-ps", "limit": "40p"}},
        "edges": {"left": {"kind": "sfd"}, "right": {"kind": "short-flows"}},
        "traffic": {
            "ftp": {"kind": "ftp", "flows": 2, "extra_delay": ["0ms", "9ms"]},
            "web": {"kind": "web", "load": 0.3},
            "packmime": {"kind": "packmime", "connections_per_second": 5},
            "udp": {"kind": "udp", "rate": "50kbps", "gaps": {"kind": "exponential"}},
        },
    })
}

fn plan(seed: u64) -> Plan {
    common::plan(everything(seed))
}

fn digest(plan: &Plan) -> String {
    plan.run(&Watch::default()).unwrap().digest()
}

#[test]
fn a_plan_runs_twice_with_the_same_result() {
    let plan = plan(3);
    assert_eq!(digest(&plan), digest(&plan));
}

#[test]
fn a_plan_with_another_seed_equals_a_plan_read_with_that_seed() {
    let (other, read) = (plan(3).with_seed(4).unwrap(), plan(4));
    assert_eq!(other.to_value(), read.to_value());
    assert_eq!(other.digest(), read.digest());
    assert_eq!(digest(&other), digest(&read));
    assert_ne!(digest(&other), digest(&plan(3)));
}

#[test]
fn the_reverse_link_may_have_its_own_rate_delay_and_queue() {
    let with = |reverse: Value| {
        let mut value = everything(1);
        value["bottleneck"]["reverse"] = reverse;
        common::plan(value)
    };
    let back = |plan: &Plan| plan.to_value()["bottleneck"]["reverse"].clone();
    assert_eq!(back(&with(Value::Null)), Value::Null);
    assert_eq!(
        with(json!({"rate": "2Mbps"})).digest(),
        plan(1).digest(),
        "the reverse link has the same rate by default"
    );
    let slow = with(json!({"rate": "50kbps"}));
    assert_eq!(back(&slow), json!({"rate": "50kbps", "delay": "10ms"}));
    assert_ne!(digest(&slow), digest(&plan(1)));
    let managed = with(json!({"delay": "30ms", "queue": {"kind": "drop-tail", "limit": "7p"}}));
    assert_eq!((&back(&managed)["rate"], &back(&managed)["queue"]["limit"]), (&json!("2Mbps"), &json!("7p")));
    assert_eq!(Plan::of_value(managed.to_value(), Files::new()).unwrap().digest(), managed.digest());
    let run = managed.run(&Watch::default()).unwrap();
    let links = common::words(&run, "links.link");
    assert_eq!(links, ["bottleneck", "bottleneck-back"]);
}

#[test]
fn errors_of_the_reverse_link_are_reported_with_their_paths() {
    let mut value = everything(1);
    value["bottleneck"]["reverse"] =
        json!({"rat": "1Mbps", "delay": 3, "queue": {"kind": "red", "max_p": 2}});
    let errors = Plan::of_value(value, Files::new()).unwrap_err();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    let expected = ["bottleneck.reverse.rat", "bottleneck.reverse.delay", "bottleneck.reverse.queue.max_p"];
    assert_eq!(paths, expected, "{errors}");
}

#[test]
fn errors_of_all_sections_are_reported_and_unknown_keys_come_first() {
    let value = json!({
        "duration": "0s", "warm_up": "1s", "sed": 3,
        "bottleneck": {
            "rate": "2Mbps", "dely": "10ms", "queue": {"kind": "red", "min_th": "9p", "max_th": "3p"},
        },
        "access": {"rate": "fast"},
        "host": {"jitter": "2s"},
        "tcp": {"profile": "rcf"},
        "traffic": {
            "ftp": {"kind": "ftp", "flow": 2, "port": -1},
            "web": {"kind": "wbe"},
        },
        "queues": {"short": {"kind": "drop-tail", "limit": "3"}},
        "record": {"packts": []},
    });
    let errors = Plan::of_value(value, Files::new()).unwrap_err();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "bottleneck.dely",
            "record.packts",
            "traffic.ftp.flow",
            "sed",
            "duration",
            "bottleneck.queue.max_th",
            "access.rate",
            "host.jitter",
            "tcp.profile",
            "traffic.ftp.port",
            "traffic.web.kind",
            "queues.short.limit",
        ],
        "{errors}"
    );
    assert!(errors.to_string().contains("unknown key `dely`; did you mean `delay`?"), "{errors}");
}

#[test]
fn an_error_in_tcp_is_reported_once_and_for_workloads_that_repeat_it() {
    let paths = |tcp: Value, workloads: Value| {
        let bottleneck = json!({"rate": "2Mbps", "queue": {"kind": "drop-tail"}});
        let value = json!({"duration": "9s", "bottleneck": bottleneck, "tcp": tcp, "traffic": workloads});
        let errors = Plan::of_value(value, Files::new()).unwrap_err();
        errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
    };
    let with = |tcp: Value| json!({"kind": "ftp", "tcp": tcp});
    let workloads = json!({
        "a": with(json!({"sack": {"dsack": "off"}})),
        "b": with(json!({"rto": {"min": 2}})),
        "c": with(json!({"profile": "rfc", "rto": {"min": 1}})),
    });
    let wrong = json!({"cwnd": {"intial": 3}, "rto": {"min": 1}});
    assert_eq!(
        paths(wrong, workloads.clone()),
        ["tcp.cwnd.intial", "tcp.rto.min", "traffic.b.tcp.rto.min", "traffic.c.tcp.rto.min"]
    );
    let below = json!({"rto": {"min": "2min"}});
    assert_eq!(paths(below, json!({"a": workloads["a"]})), ["tcp.rto.max"]);
    assert_eq!(paths(json!({}), workloads), ["traffic.b.tcp.rto.min", "traffic.c.tcp.rto.min"]);
}

#[test]
fn a_tcp_table_of_a_workload_without_tcp_is_refused() {
    let mut value = everything(1);
    for (kind, workload) in [
        ("udp", json!({"kind": "udp", "rate": "1Mbps", "tcp": {}})),
        ("streaming", json!({"kind": "streaming", "tcp": {"cwnd": {"initial": 3}}})),
    ] {
        value["traffic"]["x"] = workload;
        let errors = Plan::of_value(value.clone(), Files::new()).unwrap_err().to_string();
        let expected = format!("traffic.x.tcp: is not used, because `{kind}` sends datagrams: remove `tcp`");
        assert!(errors.lines().any(|line| line == expected), "{errors}");
    }
}

#[test]
fn the_names_of_files_are_known_before_the_scenario_is_read() {
    let toml = "[traffic.a]\nkind = \"replay\"\nfile = \"a.csv\"\n[traffic.b]\nkind = \"web\"";
    let document = Document::of_toml(toml, "folder".as_ref(), &[&PACKET_LEVEL]).unwrap();
    assert_eq!(document.files(), ["a.csv"]);
}

/// Returns a plan that takes much longer than this test.
fn endless() -> Plan {
    let mut value = everything(1);
    value["duration"] = "100000s".into();
    common::plan(value)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about threads, and how long they take")]
fn a_run_that_is_stopped_ends_within_a_fifth_of_a_second() {
    let plan = endless();
    let seconds = || {
        let watch = Watch::default();
        thread::scope(|scope| {
            let run = scope.spawn(|| plan.run(&watch).map(|_| ()));
            while watch.progress().0 == 0 {
                thread::yield_now();
            }
            let stopped = Instant::now();
            watch.stop();
            assert_eq!(run.join().unwrap(), Err(Failure::Stopped));
            stopped.elapsed()
        })
    };
    // The minimum of several runs, because other tests may use the machine temporarily.
    let least = (0..5).map(|_| seconds()).min().unwrap();
    assert!(least < Duration::from_millis(200), "{least:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another thread watches the run")]
fn progress_is_simulated_time_and_never_decreases() {
    let plan = plan(1);
    // On a busy machine, a complete run may pass between two observations.
    let on_the_way = (0..100).any(|_| {
        let watch = Watch::default();
        let seen = thread::scope(|scope| {
            let run = scope.spawn(|| plan.run(&watch).map(|_| ()));
            let mut seen = Vec::new();
            while !run.is_finished() {
                seen.push(watch.progress().0);
            }
            seen
        });
        assert!(seen.is_sorted(), "progress decreased");
        assert_eq!((watch.progress(), watch.unit()), ((8_000_000_000, 8_000_000_000), Unit::Nanoseconds));
        seen.iter().any(|&done| 0 < done && done < 8_000_000_000)
    });
    assert!(on_the_way, "no progress was observed during the run");
}
