//! Calls: datagrams in both directions of a network, and their rows in the tables.

use crate::common::{maybe_real, maybe_whole, nanos, real, run, truth, whole, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// Runs two calls over a link with a delay of 2 ms, including its access links, for ten seconds.
fn talk(queue: &Value, back: &Value) -> Run {
    let link = |from: &str, to: &str, queue: &Value| json!({ "from": from, "to": to, "rate": "1Mbps", "delay": "1ms", "queue": queue });
    run(json!({
        "duration": "10s",
        "host": { "jitter": "0s" },
        "links": { "there": link("left", "right", queue), "back": link("right", "left", back) },
        "access": { "rate": "100Gbps", "delay": "500us" },
        "record": { "histories": ["calls"] },
        "traffic": { "calls": { "kind": "call", "calls": 2, "from": "left", "to": "right" } },
    }))
}

fn endless() -> Value {
    json!({ "kind": "drop-tail", "limit": "1000p" })
}

#[test]
fn each_direction_of_a_call_is_a_flow() {
    let found = talk(&endless(), &endless());
    assert_eq!(words(&found, "flows.traffic"), ["calls"; 4]);
    for (sent, received) in
        whole(&found, "flows.packets_sent").iter().zip(maybe_whole(&found, "flows.datagrams_received"))
    {
        assert!((499..=500).contains(sent) && *sent - received.unwrap() <= 1, "{sent} {received:?}");
    }
    // Transmitting 200 B takes 1.6 ms, and the delay is 2 ms. A packet of the other call may precede it.
    for delay in maybe_real(&found, "flows.mean_delay_s") {
        assert!((0.0036..0.0052).contains(&delay.unwrap()), "{delay:?}");
    }
    for link in whole(&found, "links.departures") {
        assert!((998..=1000).contains(link), "{link}");
    }
}

#[test]
fn the_histories_have_each_datagram_of_both_directions() {
    let found = talk(&endless(), &endless());
    let (flows, events) = (whole(&found, "packets.flow"), words(&found, "packets.event"));
    let (backward, times) = (truth(&found, "packets.backward"), real(&found, "packets.time_s"));
    let numbers = whole(&found, "packets.sequence_bytes");
    for flow in 0..4 {
        let of = |event: &str| -> Vec<(u64, u64)> {
            let rows = (0..flows.len()).filter(|&row| flows[row] == flow && events[row] == event);
            rows.map(|row| (numbers[row], nanos(times[row]))).collect()
        };
        let (sent, received) = (of("send"), of("receive"));
        assert!(sent.windows(2).all(|two| two[1].1 - two[0].1 == 20_000_000 && two[1].0 == two[0].0 + 1));
        assert!(
            sent.iter().zip(&received).all(|(sent, received)| sent.0 == received.0 && sent.1 < received.1)
        );
        let directions: Vec<bool> =
            (0..flows.len()).filter(|&row| flows[row] == flow).map(|row| backward[row]).collect();
        assert!(directions.windows(2).all(|two| two[0] == two[1]), "a flow has one direction");
    }
    assert_eq!(
        (0..4).filter(|&flow| backward[flows.iter().position(|&one| one == flow).unwrap()]).count(),
        2
    );
}

#[test]
fn drops_on_the_reverse_link_are_counted_for_the_reverse_flow() {
    let half = json!({ "kind": "drop-random", "probability": 0.5, "limit": "100p" });
    let found = talk(&endless(), &half);
    let dropped = whole(&found, "flows.packets_dropped");
    let mut sorted = dropped.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted[..2], [0, 0]);
    assert!(sorted[2] > 200 && sorted[3] < 300, "{dropped:?}");
    for ((sent, lost), received) in whole(&found, "flows.packets_sent")
        .iter()
        .zip(dropped)
        .zip(maybe_whole(&found, "flows.datagrams_received"))
    {
        assert!(sent - lost - received.unwrap() <= 1);
    }
}
