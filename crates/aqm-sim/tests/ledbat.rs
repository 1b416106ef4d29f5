//! LEDBAT on a link: the queue that it builds alone, and its yielding to other flows.
//!
//! S. Shalunov et al., RFC 6817, 2012; RFC 7928, 2016, section 5.4.

use crate::common::{real, run, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// Runs flows over a 10 Mbps link with a deep buffer and a round-trip time of about 50 ms, from left to right or back.
fn run_on_link(traffic: &Value, tcp: &Value) -> Run {
    let way = |from: &str, to: &str| {
        json!({ "from": from, "to": to, "rate": "10Mbps", "delay": "20ms",
                "queue": { "kind": "drop-tail", "limit": "400p" } })
    };
    run(json!({
        "duration": "180s",
        "warm_up": "60s",
        "links": { "there": way("left", "right"), "back": way("right", "left") },
        "access": { "rate": "1Gbps", "delay": "2ms" },
        "tcp": tcp,
        "record": { "drops": false, "queue_every": "0s" },
        "traffic": traffic,
    }))
}

fn ledbat(parameters: &Value) -> Value {
    let mut control = json!({ "kind": "ledbat" });
    for (name, value) in parameters.as_object().into_iter().flatten() {
        control[name] = value.clone();
    }
    json!({ "congestion_control": control, "recovery": { "kind": "sack" } })
}

fn ftp(from: &str, to: &str, tcp: &Value) -> Value {
    json!({ "kind": "ftp", "flows": 1, "from": from, "to": to, "tcp": tcp })
}

fn reno() -> Value {
    json!({ "congestion_control": { "kind": "reno" }, "recovery": { "kind": "sack" } })
}

/// Goodput of the flows of a workload, in Mbps.
fn goodput(run: &Run, traffic: &str) -> f64 {
    let (names, rates) = (words(run, "flows.traffic"), real(run, "flows.goodput_bps"));
    names.iter().zip(rates).filter(|(name, _)| *name == traffic).map(|(_, rate)| rate * 1e-6).sum()
}

#[test]
fn alone_ledbat_keeps_its_target_queue_and_fills_the_link() {
    for target_ms in [100.0, 25.0] {
        let tcp = ledbat(&json!({ "target": format!("{target_ms}ms") }));
        let run = run_on_link(&json!({ "low": ftp("left", "right", &tcp) }), &reno());
        let there = words(&run, "links.link").iter().position(|name| name == "there").unwrap();
        let delay = real(&run, "links.mean_queue_delay_s")[there] * 1e3;
        let busy = real(&run, "links.utilisation")[there];
        assert!((delay / target_ms - 1.0).abs() < 0.1, "{delay} ms at a target of {target_ms} ms");
        assert!(busy > 0.99, "{busy}");
    }
}

#[test]
fn ledbat_yields_nearly_all_to_reno_in_a_deep_buffer() {
    let low = ledbat(&json!({}));
    let both = json!({ "low": ftp("left", "right", &low), "best": ftp("left", "right", &reno()) });
    let run = run_on_link(&both, &reno());
    let (low, best) = (goodput(&run, "low"), goodput(&run, "best"));
    assert!(low < 0.05 * best && best > 8.5, "{low} and {best} Mbps");
}

#[test]
fn ledbat_recovers_the_link_when_the_other_flow_ends() {
    let both = json!({
        "low": ftp("left", "right", &ledbat(&json!({}))),
        "best": { "kind": "ftp", "flows": 1, "from": "left", "to": "right",
                  "sizes": { "kind": "constant", "value": "50MB" } },
    });
    let run = run_on_link(&both, &reno());
    assert!(goodput(&run, "low") > 8.0, "{}", goodput(&run, "low"));
}

#[test]
fn a_reverse_queue_slows_ledbat_only_if_it_measures_round_trips() {
    let with = |delay: &str| {
        let low = ledbat(&json!({ "delay": delay }));
        let both = json!({ "low": ftp("left", "right", &low), "back": ftp("right", "left", &reno()) });
        goodput(&run_on_link(&both, &reno()), "low")
    };
    let (one_way, round_trip) = (with("one-way"), with("round-trip"));
    assert!(one_way > 6.0 && round_trip < 0.5 * one_way, "{one_way} and {round_trip} Mbps");
}
