//! BBR versions 3 and 1 on a link: the sequence of states, the model of the path, and the queue.

use aqm_net::level::Run;
use serde_json::{Value, json};

use crate::common::{maybe_real, maybe_words, real, run};

fn scenario(rate: &str, one_way: &str, limit: &str, duration: &str, control: Value) -> Value {
    json!({
        "duration": duration,
        "bottleneck": { "rate": rate, "delay": one_way, "queue": { "kind": "drop-tail", "limit": limit } },
        "access": { "rate": "100Gbps", "delay": "0ms" },
        "host": { "jitter": "0s" },
        "tcp": { "profile": "linux-6", "congestion_control": control, "connection": { "header": "66B", "ack_size": "66B" } },
        "record": { "senders": ["bulk"], "queue_every": "10ms" },
        "traffic": { "bulk": { "kind": "ftp", "flows": 1 } },
    })
}

struct Row {
    at: f64,
    state: String,
    cwnd: f64,
    pacing: f64,
    bandwidth: f64,
    min_rtt: f64,
    ssthresh: f64,
}

fn rows(run: &Run) -> Vec<Row> {
    let at = real(run, "senders.time_s");
    let states = maybe_words(run, "senders.state");
    let (cwnd, ssthresh) = (real(run, "senders.cwnd_segments"), real(run, "senders.ssthresh_segments"));
    let (pacing, bandwidth, min_rtt) = (
        maybe_real(run, "senders.pacing_rate_bps"),
        maybe_real(run, "senders.bandwidth_bps"),
        maybe_real(run, "senders.min_rtt_s"),
    );
    (0..at.len())
        .map(|index| Row {
            at: at[index],
            state: states[index].clone().unwrap_or_default(),
            cwnd: cwnd[index],
            ssthresh: ssthresh[index],
            pacing: pacing[index].unwrap_or(f64::NAN),
            bandwidth: bandwidth[index].unwrap_or(f64::NAN),
            min_rtt: min_rtt[index].unwrap_or(f64::NAN),
        })
        .collect()
}

#[test]
#[ignore]
fn explore() {
    let control: Value = serde_json::from_str(&std::env::var("CC").unwrap()).unwrap();
    let env = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let mut value = scenario(
        &env("RATE", "50Mbps"),
        &env("DELAY", "20ms"),
        &env("LIMIT", "334p"),
        &env("DUR", "20s"),
        control,
    );
    if let Ok(extra) = std::env::var("EXTRA") {
        let extra: Value = serde_json::from_str(&extra).unwrap();
        for (path, new) in extra.as_object().unwrap() {
            *value.pointer_mut(path).unwrap() = new.clone();
        }
    }
    let run = run(value);
    let rows = rows(&run);
    let mut last = String::new();
    for row in &rows {
        if row.state != last || row.at > 1e9 || std::env::var("ALL").is_ok() {
            println!(
                "{:9.4} {:16} cwnd {:7.1} pace {:7.3} bw {:7.3} rtt {:6.2} ss {}",
                row.at,
                row.state,
                row.cwnd,
                row.pacing * 1e-6,
                row.bandwidth * 1e-6,
                row.min_rtt * 1e3,
                row.ssthresh
            );
        }
        last = row.state.clone();
    }
    println!(
        "goodput {:?} queue {:?} drops {:?}",
        real(&run, "flows.goodput_bps"),
        real(&run, "links.mean_queue_packets"),
        crate::common::whole(&run, "links.drops")
    );
}
