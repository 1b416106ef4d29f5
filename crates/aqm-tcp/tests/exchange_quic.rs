//! QUIC's loss recovery with a manual clock: packet numbers, losses, probe timeouts and persistent congestion (RFC 9002).
//!
//! The path has a delay of 50 ms in each direction and no transmission time. The first round-trip sample, from the
//! handshake, is 100 ms, so that the probe timeout is 100 + 4 * 50 + 25 = 325 ms.

use crate::pair::*;
use aqm_net::Span;
use aqm_tcp::{Endpoint, FailureReason};
use serde_json::{Value, json};

/// Returns the profile `quic` with 1000-byte packets, without pacing.
fn quic(more: Value) -> Value {
    let base = json!({
        "profile": "quic", "connection": { "mss": "1000B" }, "pacing": { "mode": "off" },
        "congestion_control": { "kind": "reno" }, "receiver": { "delayed_ack": "off" },
    });
    over(base, more)
}

fn counts(end: &Endpoint) -> (u32, u32, u32) {
    let counts = end.counts();
    (counts.retransmitted, counts.fast_retransmits, counts.timeouts)
}

#[test]
fn lost_packets_are_sent_again_after_three_later_packets() {
    let pair = exchange(quic(json!({})), 20, &["> 1", "> 3", "> 6"]);
    let again: Vec<String> =
        between(&pair, 0, 10_000).into_iter().filter(|line| line.ends_with("again")).collect();
    assert_eq!(again, ["> 1 again", "> 3 again", "> 6 again"]);
    assert_eq!(counts(pair.client()), (3, 1, 0), "all losses belong to one recovery period");
    assert!(sent_at(&pair, 200).contains(&"1 again".to_owned()), "{:?}", sent_at(&pair, 200));
    assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)));
}

#[test]
fn a_probe_timeout_sends_the_missing_data_again_and_its_acknowledgement_reveals_the_loss() {
    let pair = exchange(quic(json!({})), 3, &["> 3"]);
    // After the second sample of 100 ms, RTTVAR is 28.125 ms, so that the probe timeout is 237.5 ms from 100 ms on.
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3 lost
         150 < ack 1 sack 1
         150 < ack 1 sack 1
         337 > 3 again
         387 < ack 1 sack 66-3",
    );
    assert_eq!(counts(pair.client()), (1, 1, 1), "packet 3 is lost by time when packet 4 is acknowledged");
}

#[test]
fn a_probe_timeout_prefers_new_data_and_sends_two_packets_beyond_the_window() {
    let pair = exchange(quic(json!({ "cwnd": { "initial": 4 } })), 30, &["> 1", "> 2", "> 3", "> 4"]);
    assert_eq!(sent_at(&pair, 425), ["5", "6"]);
    assert_eq!(sent_at(&pair, 525), ["1 again", "2 again"], "half the window");
    assert_eq!(counts(pair.client()), (4, 1, 1));
}

#[test]
fn probe_timeouts_back_off_until_the_sender_gives_up() {
    let mut pair = Pair::one_way(quic(json!({ "connection": { "max_retries": 3 } })), 1000);
    pair.run(HOUR, &mut losing(|sent| sent.has_data()));
    // Timeouts of 325, 650 and 1300 ms.
    let lines = pair.log.iter().map(|line| line.trim().split_once(' ').unwrap());
    let times: Vec<&str> = lines.filter(|(_, what)| what.starts_with("> 1")).map(|(time, _)| time).collect();
    assert_eq!(times, ["100", "425", "1075", "2375"]);
    assert_eq!(pair.client().gave_up(), Some(FailureReason::NoProgress));
}

#[test]
fn persistent_congestion_restarts_the_window_from_two_packets() {
    // Packets 1 to 16 are lost at 100 ms, and the probes at 425 and 1075 ms. When the probes at 2375 ms are acknowledged,
    // the lost packets span 975 ms, which is more than three times the probe timeout of 275 ms.
    let first: Vec<String> = (1..=20).map(|number| format!("> {number}")).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let pair = exchange(quic(json!({ "cwnd": { "initial": 16 } })), 60, &first);
    assert_eq!([sent_at(&pair, 425), sent_at(&pair, 1075)], [["17 lost", "18 lost"], ["19 lost", "20 lost"]]);
    // The first acknowledgement leaves room for one packet, and the second opens the window by one packet.
    assert_eq!(sent_at(&pair, 2475), ["1 again", "2 again", "3 again"]);
    let short: Vec<&str> = first[..18].to_vec();
    let pair = exchange(quic(json!({ "cwnd": { "initial": 16 } })), 60, &short);
    assert_eq!(sent_at(&pair, 1175).len(), 8, "325 ms are too short, so that the window is halved");
}

#[test]
fn marks_reduce_the_window_once_per_recovery_period() {
    let settings = quic(json!({ "ecn": { "mode": "on" } }));
    let pair = transfer(settings, 60, Path::marking(&["> 2", "> 4", "> 5"]));
    assert_eq!(pair.client().counts().mark_reductions, 1);
    assert_eq!(counts(pair.client()), (0, 0, 0));
}

#[test]
fn an_acknowledgement_reports_its_delay() {
    let delayed = quic(json!({ "receiver": { "delayed_ack": "every-second" } }));
    let pair = exchange(delayed, 1, &[]);
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         175 < ack 1 sack 1",
    );
    assert_eq!(
        pair.client().srtt(),
        Some(Span::from_millis(100)),
        "the sample of 125 ms includes 25 ms of delay"
    );
}

#[test]
fn values_that_quic_does_not_support_are_refused() {
    for (path, value) in [
        ("connection.close", json!("fin")),
        ("connection.nagle", json!("on")),
        ("connection.last_segment", json!("padded")),
        ("recovery.reduction", json!("prr")),
        ("recovery.undo", json!("dsack")),
        ("rto.arithmetic", json!("linux")),
        ("rto.tick", json!("0s")),
        ("receiver.delayed_ack", json!("heartbeat")),
        ("ecn.response", json!("ns-2-full")),
        ("congestion_control.kind", json!("ledbat")),
    ] {
        let (table, name) = path.split_once('.').expect("a table and a parameter");
        let config = aqm_tcp::read(quic(json!({ table: { name: value } }))).expect("known values");
        let errors = config.build().expect_err(path).to_string();
        assert!(errors.starts_with(path) && errors.contains("quic"), "{errors}");
    }
}
