//! Millions of flow events (arrivals and departures) per second, best of five runs, for each discipline and for links
//! with peak rates, weights or sessions.

use aqm_net::level::Plan as _;
use aqm_net::watch::Watch;
use serde_json::{Value, json};

const FLOWS: f64 = 2e6;

fn cases() -> Vec<(&'static str, Value)> {
    let with = |discipline: &str, load: f64, more: &[(&str, Value)]| {
        let mut traffic = json!({ "load": load });
        for (name, value) in more {
            traffic[*name] = value.clone();
        }
        json!({ "link": { "discipline": discipline }, "traffic": { "web": traffic } })
    };
    let pareto =
        json!({ "kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "12B", "maximum": "1GB" });
    let mut two = with("weighted", 0.45, &[]);
    two["traffic"]["heavy"] = json!({ "load": 0.45, "weight": 3.0, "peak_rate": "10Mbps" });
    vec![
        ("processor sharing, load 0.5", with("processor-sharing", 0.5, &[])),
        ("processor sharing, load 0.9", with("processor-sharing", 0.9, &[])),
        ("... Pareto sizes", with("processor-sharing", 0.9, &[("sizes", pareto)])),
        ("... 100,000 flows in progress", with("processor-sharing", 0.5, &[("peak_rate", json!("250bps"))])),
        ("... sessions of 10 flows", with("processor-sharing", 0.9, &[("flows", json!(10.0))])),
        ("weighted, one with a peak rate", two),
        ("fifo", with("fifo", 0.9, &[])),
        ("shortest remaining", with("shortest-remaining", 0.9, &[])),
    ]
}

#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn main() {
    for keep in [false, true] {
        println!("{}", if keep { "a row for each flow" } else { "averages and distributions only" });
        for (name, mut value) in cases() {
            let seconds = FLOWS / 62.5;
            value["duration"] = format!("{seconds}s").into();
            value["record"] = json!({ "flows": keep, "every": "0s" });
            let scenario = aqm_flow::Scenario::from_value(value).expect("the cases are right");
            let mut best = 0.0_f64;
            let mut events = 0;
            for _ in 0..5 {
                let begin = std::time::Instant::now();
                events = scenario.run(&Watch::default()).expect("the run is not stopped").events;
                best = best.max(events as f64 / begin.elapsed().as_secs_f64());
            }
            println!("  {name:<32} {:6.2} million events/s ({events} events)", best / 1e6);
        }
    }
}
