//! Detects changed numbers: compares the results of a few small scenarios with a committed table.
//!
//! Snapshots show that a number changed; the theory tests and test vectors show whether it is correct. After an
//! intended change of numbers, increase `RESULTS_VERSION`, give the reason in the CHANGELOG, and update the table with
//! `AQM_UPDATE_SNAPSHOTS=1 cargo test -p aqm-sim snapshots`.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{maybe_real, maybe_whole, real, run, whole};
use aqm_net::level::Run;
use serde_json::{Value, json};

fn queues() -> Vec<(&'static str, Value)> {
    let red = json!({ "min_th": "5p", "max_th": "15p", "limit": "40p", "max_p": 0.1, "weight": 0.01 });
    let with = |changes: Value| {
        let mut queue = red.clone();
        queue.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        queue
    };
    vec![
        ("drop-tail", json!({ "kind": "drop-tail", "limit": "40p" })),
        ("drop-tail, bytes", json!({ "kind": "drop-tail", "limit": "30kB" })),
        ("red", with(json!({ "kind": "red" }))),
        ("red, wait", with(json!({ "kind": "red", "spacing": "wait" }))),
        ("red, not gentle", with(json!({ "kind": "red", "gentle": false }))),
        ("red, ecn", with(json!({ "kind": "red", "ecn": "always" }))),
        ("shred", json!({ "kind": "shred", "red": red })),
        ("drop-nth", json!({ "kind": "drop-nth", "packets": [1, 20, 21, 300] })),
    ]
}

fn traffic() -> Vec<(&'static str, Value)> {
    let long = json!({ "kind": "ftp", "flows": 4, "stagger": "1s" });
    let objects = json!({ "kind": "discrete-uniform", "minimum": 1, "maximum": 4 });
    let web = json!({ "kind": "web", "load": 0.7, "objects": objects });
    let datagrams = json!({
        "kind": "udp", "gaps": { "kind": "exponential" }, "sizes": { "kind": "constant", "value": "500B" }, "load": 0.3,
        "ecn": true,
    });
    vec![
        ("web", json!({ "web": web })),
        ("ftp", json!({ "long": long })),
        ("mix", json!({ "long": long, "web": web, "udp": datagrams })),
    ]
}

fn scenario(queue: &Value, traffic: &Value, profile: &str) -> Value {
    json!({
        "duration": "40s",
        "warm_up": "5s",
        "bottleneck": { "rate": "2Mbps", "delay": "30ms", "queue": queue },
        "tcp": { "profile": profile },
        "traffic": traffic,
    })
}

/// Returns the median time of the completed transfers.
fn median(found: &Run) -> Option<f64> {
    let mut times: Vec<f64> =
        maybe_real(found, "transfers.duration_s").iter().filter_map(|time| *time).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn row(labels: [&str; 3], found: &Run) -> String {
    let of = |column: &str| real(found, &format!("links.{column}"))[0];
    let count = |column: &str| whole(found, &format!("links.{column}"))[0];
    let retransmitted: u64 = whole(found, "flows.retransmitted").iter().sum();
    let timeouts: u64 = maybe_whole(found, "flows.timeouts").iter().flatten().sum();
    let median = median(found).map_or("-".to_owned(), |time| format!("{time:.6}"));
    format!(
        "{:<8} {:<5} {:<17} {:>8} {:>6} {:>6} {:>11.6} {:>11.6} {:>7} {:>8} {:>9}",
        labels[0],
        labels[1],
        labels[2],
        count("arrivals"),
        count("drops"),
        count("marks"),
        of("utilisation"),
        of("mean_queue_packets"),
        retransmitted,
        timeouts,
        median,
    )
}

fn picture() -> String {
    let mut text = format!(
        "Results version {}. 2 Mbps, 30 ms, 40 s of which 5 s are not measured, seed 1.\n\n\
         {:<8} {:<5} {:<17} {:>8} {:>6} {:>6} {:>11} {:>11} {:>7} {:>8} {:>9}\n",
        aqm_sim::RESULTS_VERSION,
        "profile",
        "load",
        "queue",
        "arrivals",
        "drops",
        "marks",
        "utilisation",
        "mean queue",
        "resent",
        "timeouts",
        "median s",
    );
    for profile in ["rfc", "ns-2.35"] {
        for (load, flows) in traffic() {
            for (name, queue) in queues() {
                let found = run(scenario(&queue, &flows, profile));
                writeln!(text, "{}", row([profile, load, name], &found)).expect("text can be written");
            }
        }
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a snapshot is a file")]
fn no_number_changed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/small_scenarios.txt");
    let now = picture();
    if std::env::var_os("AQM_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &now).expect("the snapshot can be written");
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let moved: String = before
        .lines()
        .chain(std::iter::repeat("(nothing)"))
        .zip(now.lines())
        .filter(|(old, new)| old != new)
        .map(|(old, new)| format!("- {old}\n+ {new}\n"))
        .collect();
    assert!(
        before == now,
        "numbers moved:\n{moved}\nif they were meant to, raise RESULTS_VERSION, say why in the CHANGELOG, and \
         accept with AQM_UPDATE_SNAPSHOTS=1 cargo test -p aqm-sim snapshots"
    );
}
