//! Pages over HTTP/1.1, HTTP/2 and HTTP/3: round trips, the effect of a lost packet, and rows in the tables.

use crate::common::{maybe_real, maybe_whole, plan, real, run, truth, whole};
use aqm_net::level::Run;
use aqm_sim::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Payload of a packet in these tests.
const MSS: u64 = 1000;
/// One-way delay, including the access links; transmission times are negligible.
const ONE_WAY: f64 = 0.05;

/// Returns a scenario in which a client fetches a page whose objects have `packets` packets each.
fn page(http: &str, objects: u64, packets: u64, more: Value) -> Value {
    let quic = json!({ "profile": "quic", "pacing": { "mode": "off" } });
    let mut tcp = if http == "3" { quic } else { json!({}) };
    tcp["connection"]["mss"] = format!("{MSS}B").into();
    let link = |from: &str, to: &str| {
        let queue = json!({ "kind": "drop-tail", "limit": "100000p" });
        json!({ "from": from, "to": to, "rate": "100Gbps", "delay": "49ms", "queue": queue })
    };
    let mut web = json!({
        "kind": "web", "from": "left", "to": "right", "tcp": tcp, "http": http, "load": 0.6e-6 * (objects * packets) as f64,
        "gaps": { "kind": "constant" }, "request": "100B", "objects": { "kind": "constant", "value": objects },
        "sizes": { "kind": "constant", "value": format!("{}B", packets * MSS) },
    });
    web.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "duration": "0.25s", "host": { "jitter": "0s" }, "access": { "rate": "100Gbps", "delay": "500us" },
        "links": { "there": link("left", "right"), "back": link("right", "left") },
        "traffic": { "web": web },
    })
}

/// Runs the scenario; the queue in the direction of the data drops the packets with the given numbers.
fn fetch(mut scenario: Value, dropped: &[u64]) -> Run {
    scenario["duration"] = "3s".into();
    scenario["traffic"]["web"]["stop"] = "0.25s".into();
    scenario["links"]["there"]["queue"] = json!({ "kind": "drop-nth", "packets": dropped });
    run(scenario)
}

/// Returns the time of each object in round trips, rounded to tenths.
fn round_trips(found: &Run) -> Vec<f64> {
    let times = maybe_real(found, "transfers.duration_s");
    times.iter().map(|time| (time.unwrap() / (2.0 * ONE_WAY) * 10.0).round() / 10.0).collect()
}

#[test]
fn a_page_takes_the_round_trips_of_its_handshakes_and_requests() {
    for (http, tls, expected) in
        [("1.1", false, 2.0), ("1.1", true, 3.0), ("2", false, 2.0), ("2", true, 3.0), ("3", true, 2.0)]
    {
        let found = fetch(page(http, 3, 2, json!({ "tls": tls })), &[]);
        assert_eq!(round_trips(&found), [expected; 3], "HTTP/{http}, TLS {tls}");
        let connections = if http == "1.1" { 3 } else { 1 };
        assert_eq!(whole(&found, "flows.flow").len(), connections);
    }
}

#[test]
fn with_http_1_1_a_connection_fetches_one_object_after_the_other() {
    let found = fetch(page("1.1", 4, 1, json!({ "connections": 2, "tls": true })), &[]);
    assert_eq!(round_trips(&found), [3.0, 1.0, 3.0, 1.0]);
    let durations = maybe_real(&found, "pages.duration_s");
    assert!((durations[0].unwrap() - 8.0 * ONE_WAY).abs() < 1e-4, "{durations:?}");
}

#[test]
fn a_lost_packet_delays_all_objects_of_http_2_and_its_own_object_of_http_3() {
    // Three objects of three packets in turn, after the handshake's packet: packet 3 belongs to the second object.
    let times = |http: &str, dropped: &[u64]| {
        let found = fetch(page(http, 3, 3, json!({ "priority": "round-robin" })), dropped);
        let order = whole(&found, "transfers.size_bytes").len();
        assert_eq!(order, 3);
        round_trips(&found)
    };
    assert_eq!([times("2", &[]), times("3", &[])], [[2.0; 3], [2.0; 3]]);
    assert_eq!(times("2", &[3]), [3.0; 3]);
    assert_eq!(times("3", &[3]), [2.0, 2.0, 3.0]);
}

#[test]
fn with_priority_in_order_a_lost_packet_delays_the_objects_that_follow_in_http_2() {
    let times = |http: &str| round_trips(&fetch(page(http, 3, 3, json!({ "priority": "in-order" })), &[6]));
    assert_eq!(times("2"), [2.0, 3.0, 3.0]);
    assert_eq!(times("3"), [2.0, 2.0, 3.0]);
}

#[test]
fn the_rows_of_a_page_agree_with_its_objects() {
    for http in ["1.1", "2", "3"] {
        let found = fetch(page(http, 12, 4, json!({ "tls": true })), &[5, 9, 10]);
        assert_eq!(truth(&found, "transfers.complete"), [true; 12], "HTTP/{http}");
        assert_eq!(whole(&found, "transfers.size_bytes"), [4 * MSS; 12]);
        assert_eq!(maybe_whole(&found, "transfers.page"), [Some(0); 12]);
        assert_eq!(
            (whole(&found, "pages.objects"), whole(&found, "pages.size_bytes")),
            (&[12][..], &[48 * MSS][..])
        );
        let page = maybe_real(&found, "pages.duration_s")[0].unwrap();
        let (starts, times) = (real(&found, "transfers.start_s"), maybe_real(&found, "transfers.duration_s"));
        let end = starts.iter().zip(times).map(|(start, time)| start + time.unwrap()).fold(0.0, f64::max);
        assert!((real(&found, "pages.start_s")[0] + page - end).abs() < 1e-9);
        let delivered: u64 = whole(&found, "flows.delivered_bytes").iter().sum();
        let handshakes = if http == "3" { 0 } else { 3000 * whole(&found, "flows.flow").len() as u64 };
        assert_eq!(delivered, 48 * MSS + handshakes);
    }
}

#[test]
fn a_page_that_is_unfinished_at_the_end_has_rows() {
    for http in ["2", "3"] {
        let mut scenario = page(http, 3, 4, json!({}));
        scenario["duration"] = "0.25s".into();
        scenario["traffic"]["web"]["stop"] = "0.25s".into();
        let found = run(scenario);
        assert_eq!(truth(&found, "transfers.complete"), [false; 3], "HTTP/{http}");
        assert_eq!(truth(&found, "pages.complete"), [false]);
    }
}

#[test]
fn a_version_of_http_requires_its_transport() {
    let problem = |http: &str, tcp: Value| {
        let mut scenario = page(http, 1, 1, json!({}));
        scenario["traffic"]["web"]["tcp"] = tcp;
        Plan::of_value(scenario, BTreeMap::new()).map(drop).unwrap_err().to_string()
    };
    assert!(problem("3", json!({})).contains("traffic.web.http: is HTTP/3, which requires QUIC"));
    for http in ["1.1", "2"] {
        assert!(problem(http, json!({ "profile": "quic" })).contains("the transport is QUIC"));
    }
    let of_scenario = json!({ "profile": "quic" });
    let mut scenario = page("3", 1, 1, json!({}));
    scenario["traffic"]["web"].as_object_mut().unwrap().remove("tcp");
    scenario["tcp"] = of_scenario;
    assert!(plan(scenario).warnings().is_empty());
}
