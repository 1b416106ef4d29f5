//! Video calls: rates that follow the link, and the tables `calls` and `frames`.

use crate::common::{maybe_real, real, run, truth, whole, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// Runs a one-way call over a link of 2 Mb/s with a delay of 25 ms for 30 seconds.
fn call(queue: &Value, control: &Value, more: &Value) -> Run {
    let link = |from: &str, to: &str| json!({ "from": from, "to": to, "rate": "2Mbps", "delay": "24ms", "queue": queue });
    let mut traffic = json!({ "kind": "video-call", "both_ways": false, "from": "left", "to": "right" });
    traffic["control"] = control.clone();
    for (key, value) in more.as_object().into_iter().flatten() {
        traffic[key] = value.clone();
    }
    run(json!({
        "duration": "30s",
        "host": { "jitter": "0s" },
        "links": { "there": link("left", "right"), "back": link("right", "left") },
        "access": { "rate": "1Gbps", "delay": "500us" },
        "traffic": { "call": traffic },
    }))
}

fn long() -> Value {
    json!({ "kind": "drop-tail", "limit": "300p" })
}

fn gcc() -> Value {
    json!({ "kind": "gcc" })
}

/// Returns the mean of a column of the table `calls` over the last 20 seconds.
fn late(found: &Run, column: &str) -> f64 {
    let values = real(found, column);
    values[values.len() - 20..].iter().sum::<f64>() / 20.0
}

#[test]
fn gcc_uses_most_of_the_link_and_fixed_exceeds_the_link() {
    let found = call(&long(), &gcc(), &json!({}));
    let rate = late(&found, "calls.received_bps");
    assert!((1.3e6..2e6).contains(&rate), "{rate}");
    assert!(late(&found, "calls.target_bps") < 2.1e6);
    assert_eq!(whole(&found, "calls.freezes").iter().sum::<u64>(), 0);
    let fixed = json!({ "kind": "fixed", "rate": "3Mbps" });
    let found = call(&long(), &fixed, &json!({ "max_rate": "3Mbps" }));
    assert!((late(&found, "calls.received_bps") / 2e6 - 1.0).abs() < 0.02);
    assert!((late(&found, "calls.target_bps") - 3e6).abs() < 1.0);
    let [sent, rendered] = ["calls.frames_sent", "calls.frames_rendered"]
        .map(|column| whole(&found, column).iter().sum::<u64>());
    assert!(rendered < sent / 2, "{rendered} of {sent}");
}

#[test]
fn the_table_calls_agrees_with_the_tables_flows_and_frames() {
    let found = call(&long(), &gcc(), &json!({}));
    assert_eq!(words(&found, "flows.traffic"), ["call"; 2]);
    let sent = whole(&found, "flows.packets_sent");
    let flow = whole(&found, "calls.flow")[0];
    assert!(whole(&found, "calls.flow").iter().all(|&one| one == flow), "the backward flow has no media");
    assert_eq!(whole(&found, "calls.packets_sent").iter().sum::<u64>(), sent[flow as usize]);
    let bytes: f64 = real(&found, "calls.received_bps").iter().map(|bps| bps / 8.0).sum();
    assert_eq!(bytes as u64, whole(&found, "flows.delivered_bytes")[flow as usize]);
    let delays = maybe_real(&found, "frames.delay_s");
    let rendered = delays.iter().flatten().count() as u64;
    assert_eq!(rendered, whole(&found, "calls.frames_rendered").iter().sum::<u64>());
    assert_eq!(delays.len() as u64, whole(&found, "calls.frames_sent").iter().sum::<u64>());
    assert_eq!(truth(&found, "frames.key").iter().filter(|&&key| key).count(), 1);
    assert!(delays.iter().flatten().all(|&delay| delay > 0.025));
}

#[test]
fn feedback_that_the_backward_link_drops_does_not_reach_the_sender() {
    let dropping = json!({ "kind": "drop-random", "probability": 1.0, "limit": "100p" });
    let link = |from: &str, to: &str, queue: &Value| json!({ "from": from, "to": to, "rate": "2Mbps", "delay": "24ms", "queue": queue });
    let found = run(json!({
        "duration": "30s",
        "host": { "jitter": "0s" },
        "links": { "there": link("left", "right", &long()), "back": link("right", "left", &dropping) },
        "access": { "rate": "1Gbps", "delay": "500us" },
        "traffic": { "call": { "kind": "video-call", "both_ways": false, "from": "left", "to": "right" } },
    }));
    // Without any feedback, the target rate remains the start rate.
    assert!(real(&found, "calls.target_bps").iter().all(|&bps| bps == 300e3));
    assert!(late(&found, "calls.received_bps") > 250e3);
}

#[test]
fn marks_reach_the_receiver_and_do_not_change_gcc() {
    let marking = json!({ "kind": "codel", "ecn": true, "target": "1ms" });
    let found = call(&marking, &gcc(), &json!({ "ecn": true }));
    assert!(whole(&found, "flows.packets_marked").iter().sum::<u64>() > 0);
    assert_eq!(whole(&found, "flows.packets_dropped").iter().sum::<u64>(), 0);
    assert!(late(&found, "calls.received_bps") > 1.3e6);
}

#[test]
fn other_workloads_have_no_tables_of_calls() {
    let found = run(json!({
        "duration": "1s",
        "bottleneck": { "rate": "1Mbps", "delay": "1ms", "queue": { "kind": "drop-tail", "limit": "10p" } },
        "traffic": { "call": { "kind": "call" } },
    }));
    assert!(found.tables.iter().all(|table| table.name != "calls" && table.name != "frames"));
}
