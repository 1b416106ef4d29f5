//! Tests of responsiveness: their probes, the load and the end of the test, and the tables `test_probes` and
//! `test_intervals`.

use crate::common::{maybe_real, real, run, truth, whole, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// Runs a test on a line of 10 Mb/s with a round-trip time of 40 ms, in both directions.
fn test(queue: &Value, more: &Value) -> Run {
    let mut traffic = json!({ "kind": "responsiveness", "interval": "1s", "limit": "8s" });
    for (key, value) in more.as_object().into_iter().flatten() {
        traffic[key] = value.clone();
    }
    let line = json!({ "rate": "10Mbps", "delay": "20ms", "queue": queue });
    let mut bottleneck = line.clone();
    bottleneck["reverse"] = line;
    run(json!({
        "duration": "22s",
        "host": { "jitter": "0s" },
        "bottleneck": bottleneck,
        "access": { "rate": "10Gbps", "delay": "0s" },
        "tcp": { "profile": "linux-6" },
        "traffic": { "test": traffic },
    }))
}

fn drop_tail() -> Value {
    json!({ "kind": "drop-tail", "limit": "100p" })
}

/// Returns the values of a column of the table `test_probes` in the rows of a phase and a kind of probe.
fn of(found: &Run, phase: &str, probe: &str, column: &str) -> Vec<f64> {
    let (phases, probes) = (words(found, "test_probes.phase"), words(found, "probes.probe"));
    let values = maybe_real(found, &format!("test_probes.{column}"));
    let rows = values.into_iter().zip(phases.into_iter().zip(probes));
    rows.filter(|(_, (one, other))| one == phase && other == probe).filter_map(|(value, _)| value).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn requests_on_the_idle_line_take_one_round_trip_for_each_step() {
    let found = test(&drop_tail(), &json!({}));
    // SYN and SYN-ACK take about 0.1 ms each on the link.
    for time in of(&found, "idle", "foreign", "tcp_s") {
        assert!((time - 0.0402).abs() < 1e-4, "{time}");
    }
    // The server's flight of 3000 B takes three packets.
    for time in of(&found, "idle", "foreign", "tls_s") {
        assert!((time - 0.043).abs() < 5e-4, "{time}");
    }
    for time in of(&found, "idle", "foreign", "response_s") {
        assert!((time - 0.0403).abs() < 2e-4, "{time}");
    }
    assert_eq!(of(&found, "idle", "foreign", "response_s").len(), 20);
    assert_eq!(of(&found, "idle", "self", "response_s").len(), 0);
    // 20 probes of about 124 ms, and an echo every 100 ms.
    assert!((24..=26).contains(&of(&found, "idle", "echo", "response_s").len()));
}

#[test]
fn all_probes_wait_in_one_queue_and_self_probes_wait_in_the_queues_of_their_flows() {
    let found = test(&drop_tail(), &json!({}));
    // A full queue of 100 packets of 1500 B takes 120 ms.
    for (phase, probe) in
        [("download", "foreign"), ("upload", "foreign"), ("download", "self"), ("upload", "self")]
    {
        let time = mean(&of(&found, phase, probe, "response_s"));
        assert!((0.09..0.22).contains(&time), "{phase} {probe}: {time}");
    }
    let found = test(&json!({ "kind": "fq-codel" }), &json!({}));
    for phase in ["download", "upload"] {
        let [foreign, own] = ["foreign", "self"].map(|probe| mean(&of(&found, phase, probe, "response_s")));
        assert!(foreign < 0.055, "{phase}: {foreign}");
        assert!(own > foreign + 0.01, "{phase}: {own}");
    }
}

#[test]
fn the_load_fills_the_line_in_its_direction_and_ends_with_the_test() {
    let found = test(&drop_tail(), &json!({ "max_connections": 4 }));
    let phases = words(&found, "test_intervals.phase");
    let connections = whole(&found, "test_intervals.connections");
    assert_eq!(phases.iter().filter(|&phase| phase == "download").count(), 8);
    assert_eq!(connections[..8], [1, 2, 3, 4, 4, 4, 4, 4]);
    let goodput = real(&found, "test_intervals.goodput_bps");
    assert!(goodput[7] > 8.8e6 && goodput[7] < 1e7, "{}", goodput[7]);
    assert!(goodput[15] > 8.5e6 && goodput[15] < 1e7, "{}", goodput[15]);
    assert!(goodput[3] > 0.0 && maybe_real(&found, "test_intervals.rpm")[7].is_some());
    assert!(!truth(&found, "test_intervals.goodput_stable")[0]);
    let end = real(&found, "test_intervals.time_s")[15];
    assert!(end < 19.0, "{end}");
    let ends = maybe_real(&found, "flows.end_s");
    assert!(ends.iter().flatten().all(|&one| one <= end + 1.0));
    // Only the two flows of echoes remain.
    assert_eq!(ends.iter().filter(|one| one.is_none()).count(), 2);
}

#[test]
fn with_http_1_self_probes_are_round_trip_times_of_tcp() {
    let found = test(&drop_tail(), &json!({ "http": "1.1" }));
    for phase in ["download", "upload"] {
        let times = of(&found, phase, "self", "response_s");
        assert!(times.len() > 50, "{phase}: {}", times.len());
        assert!((0.09..0.22).contains(&mean(&times)), "{phase}: {}", mean(&times));
    }
}

#[test]
fn other_workloads_have_no_tables_of_probes() {
    let found = run(json!({
        "duration": "1s",
        "bottleneck": { "rate": "1Mbps", "delay": "1ms", "queue": drop_tail() },
        "traffic": { "call": { "kind": "call" } },
    }));
    assert!(found.tables.iter().all(|table| !table.name.starts_with("test")));
}
