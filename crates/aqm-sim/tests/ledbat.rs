//! LEDBAT on a line: what queue it keeps alone, and what it leaves to others.
//!
//! S. Shalunov et al., RFC 6817, 2012; RFC 7928, 2016, section 5.4.

use crate::common::{real, run, words};
use aqm_net::stage::Run;
use serde_json::{Value, json};

/// A 10 Mbps line with a deep buffer and a round trip of about 50 ms, flows from left to right, and some back.
fn line(traffic: &Value, tcp: &Value) -> Run {
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
fn alone_it_keeps_a_queue_of_its_target_and_the_line_busy() {
    for target_ms in [100.0, 25.0] {
        let tcp = ledbat(&json!({ "target": format!("{target_ms}ms") }));
        let run = line(&json!({ "low": ftp("left", "right", &tcp) }), &reno());
        let there = words(&run, "links.link").iter().position(|name| name == "there").unwrap();
        let delay = real(&run, "links.mean_queue_delay_s")[there] * 1e3;
        let busy = real(&run, "links.utilisation")[there];
        assert!((delay / target_ms - 1.0).abs() < 0.1, "{delay} ms at a target of {target_ms} ms");
        assert!(busy > 0.99, "{busy}");
    }
}

#[test]
fn beside_reno_in_a_deep_buffer_it_yields_nearly_all() {
    let low = ledbat(&json!({}));
    let both = json!({ "low": ftp("left", "right", &low), "best": ftp("left", "right", &reno()) });
    let run = line(&both, &reno());
    let (low, best) = (goodput(&run, "low"), goodput(&run, "best"));
    assert!(low < 0.05 * best && best > 8.5, "{low} and {best} Mbps");
}

#[test]
fn it_has_the_line_again_when_the_other_is_gone() {
    let both = json!({
        "low": ftp("left", "right", &ledbat(&json!({}))),
        "best": { "kind": "ftp", "flows": 1, "from": "left", "to": "right",
                  "sizes": { "kind": "constant", "value": "50MB" } },
    });
    let run = line(&both, &reno());
    assert!(goodput(&run, "low") > 8.0, "{}", goodput(&run, "low"));
}

#[test]
fn a_queue_on_the_way_back_takes_the_line_only_from_one_that_measures_round_trips() {
    let with = |delay: &str| {
        let low = ledbat(&json!({ "delay": delay }));
        let both = json!({ "low": ftp("left", "right", &low), "back": ftp("right", "left", &reno()) });
        goodput(&line(&both, &reno()), "low")
    };
    let (one_way, round_trip) = (with("one-way"), with("round-trip"));
    assert!(one_way > 6.0 && round_trip < 0.5 * one_way, "{one_way} and {round_trip} Mbps");
}
