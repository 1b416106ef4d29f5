//! Requests, responses and idle periods with a manual clock: the segments sent and their times.
//!
//! The path has a delay of 50 ms in each direction and no transmission time; the profile is `rfc` with immediate
//! acknowledgements, unless a test says otherwise.

use crate::pair::*;
use aqm_net::Streams;
use aqm_tcp::Flags;
use serde_json::json;

/// A request of one segment and a response of three, with acknowledgements delayed by 40 ms.
fn talk() -> Pair {
    Pair::new(rfc(json!({ "cwnd": { "initial": 2 }, "receiver": { "delayed_ack": "every-second" } })))
        .plan(Client, When::At(0), Act::Write(MSS))
        .plan(Server, When::Received(MSS), Act::Write(3 * MSS))
        .plan(Client, When::Received(3 * MSS), Act::Finish)
}

#[test]
fn a_response_carries_the_acknowledgement_of_its_request() {
    assert_table(
        &talk().over(Path::default()),
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         150 < 1 ack 1
         150 < 2
         200 > ack 2
         250 < 3
         300 > FIN ack 3
         350 < FIN ack FIN
         400 > ack FIN",
    );
}

#[test]
fn a_lost_request_is_retransmitted_and_answered() {
    assert_table(
        &talk().over(Path::losing(&["> 1"])),
        "0 > SYN
         50 < SYN-ACK
         100 > 1 lost
         1050 < SYN-ACK again
         1100 > ack 0
         1100 > 1 again
         1150 < 1 ack 1
         1240 > ack 1
         1290 < 2
         1290 < 3
         1340 > FIN ack 3
         1390 < FIN ack FIN
         1440 > ack FIN",
    );
}

#[test]
fn a_lost_response_is_retransmitted_by_the_server() {
    assert_table(
        &talk().over(Path::losing(&["< 1"])),
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         150 < 1 ack 1 lost
         150 < 2
         200 > ack 0
         250 < 3
         300 > ack 0
         1150 < 1 again
         1200 > FIN ack 3
         1250 < FIN ack FIN
         1300 > ack FIN",
    );
}

#[test]
fn data_that_crosses_acknowledges_and_is_no_duplicate() {
    // Each endpoint sends twenty segments at once. A segment with data is never a duplicate acknowledgement.
    let pair = Pair::new(rfc(json!({})))
        .plan(Client, When::At(0), Act::Write(20 * MSS))
        .plan(Server, When::At(0), Act::Write(20 * MSS))
        .plan(Client, When::Received(20 * MSS), Act::Finish)
        .over(Path::default());
    assert_done(&pair, [20, 20]);
    assert!(pair.ends.iter().all(|end| end.counts().retransmitted == 0));
}

#[test]
fn after_an_idle_period_the_window_is_reset_by_default() {
    // 14 segments open the window to 9; the idle period is 4.6 s, longer than the timeout of 1 s.
    for (idle_restart, window) in [("initial-window", 2), ("one-segment", 1), ("off", 9)] {
        let pair = Pair::new(rfc(json!({ "cwnd": { "initial": 2, "idle_restart": idle_restart } })))
            .plan(Client, When::At(0), Act::Write(14 * MSS))
            .plan(Client, When::At(5000), Act::Write(30 * MSS))
            .plan(Client, When::At(5000), Act::Finish)
            .over(Path::default());
        assert_eq!(sent_at(&pair, 5000).len(), window, "{idle_restart}");
        assert_done(&pair, [44, 0]);
    }
}

#[test]
fn ns_2_s_full_tcp_opens_a_smaller_window_after_an_idle_period_too() {
    // A mark leaves a window of one, and the next data is sent 4.9 s later.
    for (idle_restart, window) in [("to-initial-window", 2), ("initial-window", 1), ("off", 1)] {
        let settings = json!({
            "ecn": { "mode": "on" }, "cwnd": { "initial": 2, "idle_restart": idle_restart },
        });
        let pair = Pair::new(full_tcp(settings))
            .plan(Client, When::At(0), Act::Write(MSS))
            .plan(Client, When::At(5000), Act::Write(30 * MSS))
            .plan(Client, When::At(5000), Act::Finish)
            .over(Path::marking(&["> 1"]));
        assert_eq!(sent_at(&pair, 5000).len(), window, "{idle_restart}");
        assert_done(&pair, [31, 0]);
    }
}

#[test]
fn the_first_data_finds_the_initial_window_however_late_it_comes() {
    for (settings, window) in [(rfc(json!({})), 10), (ns2(json!({})), 2), (full_tcp(json!({})), 2)] {
        let pair =
            Pair::new(settings).plan(Client, When::At(5000), Act::Write(20 * MSS)).over(Path::default());
        assert_eq!(sent_at(&pair, 5000).len(), window);
    }
}

#[test]
fn unacknowledged_data_prevents_an_idle_period() {
    // Acknowledgements arrive 0.8 s apart and keep the timer from expiring; the last one is outstanding when more data
    // is written, 2.4 s after the last transmission.
    let path = Path::default()
        .and_delaying(&["< ack 1"], 800)
        .and_delaying(&["< ack 2"], 1600)
        .and_delaying(&["< ack 3"], 2300)
        .and_delaying(&["< ack 4"], 3100);
    let pair = Pair::new(rfc(json!({ "cwnd": { "idle_restart": "one-segment" } })))
        .plan(Client, When::At(0), Act::Write(4 * MSS))
        .plan(Client, When::At(2500), Act::Write(20 * MSS))
        .over(path);
    assert_eq!((sent_at(&pair, 2500).len(), pair.client().counts().timeouts), (9, 0));
}

#[test]
fn an_idle_period_shorter_than_a_timeout_has_no_effect() {
    for idle_restart in ["initial-window", "one-segment", "off"] {
        let pair = Pair::new(rfc(json!({ "cwnd": { "initial": 2, "idle_restart": idle_restart } })))
            .plan(Client, When::At(0), Act::Write(14 * MSS))
            .plan(Client, When::At(1300), Act::Write(30 * MSS))
            .plan(Client, When::At(1300), Act::Finish)
            .over(Path::default());
        assert_eq!(
            sent_at(&pair, 1300).len(),
            9,
            "last transmission at 300, the timeout is 1 s: {idle_restart}"
        );
    }
}

#[test]
fn an_idle_period_does_not_count_for_the_growth_of_the_window() {
    // After the idle period, a round trip opens the window no further than without it. A model of the path keeps its window.
    for control in without_model() {
        let run =
            |pause: u64| {
                let settings = json!({
                    "cwnd": { "idle_restart": "off", "initial_ssthresh": 10.0 },
                    "congestion_control": { "kind": control },
                });
                let mut pair = Pair::new(rfc(settings))
                    .plan(Client, When::At(0), Act::Write(100 * MSS))
                    .plan(Client, When::At(1000 + pause), Act::Write(60 * MSS));
                pair.run(at(990 + pause), &mut |_| arrives());
                let before = pair.client().cwnd();
                pair.run(at(1250 + pause), &mut |_| arrives());
                (before, pair.client().cwnd() - before)
            };
        let (short, long) = (run(0), run(60_000));
        assert_eq!(short.0, long.0, "{control}: the idle period itself opens nothing");
        assert!(long.1 > 0.0 && long.1 <= short.1 + 1.0, "{control}: {short:?} and {long:?}");
    }
}

/// All congestion controls without a model of the path, except LEDBAT, whose window never exceeds the data in flight by more
/// than a segment.
fn without_ledbat() -> impl Iterator<Item = &'static str> {
    without_model().filter(|&kind| kind != "ledbat")
}

#[test]
fn no_congestion_control_opens_a_window_that_is_not_used() {
    for control in without_ledbat() {
        for (word, grows) in [("holds", false), ("grows", true)] {
            let settings = json!({
                "cwnd": { "growth_when_limited": word }, "congestion_control": { "kind": control },
            });
            let mut pair = Pair::new(rfc(settings));
            for second in 0..20 {
                pair = pair.plan(Client, When::At(400 * second), Act::Write(2 * MSS));
            }
            pair.run(HOUR, &mut |_| arrives());
            assert_eq!(pair.client().cwnd() > 10.0, grows, "{control}, {word}: {}", pair.client().cwnd());
        }
    }
}

#[test]
fn linux_opens_a_window_up_to_twice_its_use() {
    // `tcp_is_cwnd_limited`: in slow start the window grows while it is below twice the maximum in flight.
    for recovery in ["reno", "sack", "rack"] {
        for (initial, write, window) in [(2, 2, 4.0), (2, 3, 6.0), (10, 2, 10.0), (10, 6, 12.0)] {
            let settings = json!({
                "cwnd": { "growth_when_limited": "grows-if-used", "initial": initial, "idle_restart": "off" },
                "recovery": { "kind": recovery },
            });
            let mut pair = Pair::new(rfc(settings));
            for turn in 0..20 {
                pair = pair.plan(Client, When::At(400 * turn), Act::Write(write * MSS));
            }
            pair.run(HOUR, &mut |_| arrives());
            assert_eq!(pair.client().cwnd(), window, "{recovery}: {write} at a time, {initial} at first");
        }
    }
}

#[test]
fn linux_opens_a_window_in_congestion_avoidance_only_if_all_of_it_is_used() {
    for (write, grows) in [(6, false), (10, true)] {
        let settings = json!({
            "cwnd": { "growth_when_limited": "grows-if-used", "initial_ssthresh": 2.0, "idle_restart": "off" },
        });
        let mut pair = Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(write * MSS));
        pair.run(HOUR, &mut |_| arrives());
        assert_eq!(pair.client().cwnd() > 10.0, grows, "{write} of a window of 10");
    }
}

#[test]
fn permitted_segments_wait_for_a_random_time_and_are_sent_together() {
    // ns-2's `overhead_`, here at most 20 ms; the round trip is 100 ms.
    let settings = ns2(json!({ "connection": { "send_overhead": "20ms", "handshake": "none" } }));
    let mut pair = Pair::new(settings);
    let chance = Streams::new(1).named("overhead", 0);
    pair.ends[0] = pair.tcp[0].endpoint().with_random(|| chance);
    let mut pair = pair.plan(Client, When::At(0), Act::Write(30 * MSS));
    pair.run(HOUR, &mut |_| arrives());
    let sent: Vec<u64> = pair.first_sent[0].iter().map(|time| time.nanos()).collect();
    let rounds: Vec<&[u64]> = sent.chunk_by(|one, next| one == next).collect();
    assert_eq!(rounds.iter().map(|round| round.len()).collect::<Vec<_>>(), [2, 4, 8, 16]);
    let waits: Vec<u64> = rounds.windows(2).map(|two| two[1][0] - two[0][0] - 100_000_000).collect();
    assert!(waits.iter().all(|wait| (1..20_000_000).contains(wait)), "{waits:?}");
    assert!(waits[0] != waits[1] && waits[1] != waits[2], "{waits:?}");
}

#[test]
fn a_growing_receive_window_permits_two_more_segments_with_each_segment() {
    // Four at first; from the sixth in-order segment on two more with each.
    let settings = json!({ "cwnd": { "initial": 100 }, "receiver": { "first_window": 4 } });
    let mut pair = Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(100 * MSS));
    let in_flight = [110, 210, 310, 410].map(|millis| {
        pair.run(at(millis), &mut |_| arrives());
        pair.client().in_flight() / MSS
    });
    assert_eq!(in_flight, [4, 4, 4 + 2 * 3, 4 + 2 * 13]);
}

#[test]
fn linux_pushes_the_end_of_the_written_data_and_of_every_half_window() {
    // Linux, `forced_push`: more than half of the initial window, of 4 segments in 2.4 and of 10 000 in 6.1.
    for (profile, expected) in [("linux-2.4", &[3, 6, 9, 10, 11][..]), ("linux-6", &[10, 11]), ("rfc", &[])] {
        let settings = json!({ "profile": profile, "connection": { "mss": "1000B", "close": "none" } });
        let mut pair = Pair::new(settings).plan(Client, When::At(0), Act::Write(10 * MSS)).plan(
            Client,
            When::At(3000),
            Act::Write(MSS),
        );
        let mut pushed = Vec::new();
        pair.run(HOUR, &mut |sent| {
            if sent.segment.flags.has(Flags::PUSH) {
                pushed.push(sent.segment.seq / MSS + 1);
            }
            arrives()
        });
        assert_eq!(pushed, expected, "{profile}");
    }
}

#[test]
fn delayed_acknowledgements_slow_the_window_down_unless_all_they_tell_counts() {
    // Six acknowledgements of two segments each; only the first finds the window in use.
    for control in without_ledbat() {
        let window = |limit: serde_json::Value| {
            let settings = json!({
                "cwnd": { "initial": 12, "abc_limit": limit }, "receiver": { "delayed_ack": "every-second" },
                "congestion_control": { "kind": control },
            });
            let mut pair = Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(12 * MSS));
            pair.run(HOUR, &mut |_| arrives());
            pair.client().cwnd()
        };
        let windows = [json!(1.0), json!(1.5), json!(null)].map(window);
        assert_eq!(windows, [13.0, 13.5, 14.0], "{control}");
    }
}

#[test]
fn the_acknowledgement_of_a_fin_may_precede_the_remaining_data_separately() {
    let pair = |settings: serde_json::Value| {
        Pair::new(rfc(settings))
            .plan(Client, When::At(0), Act::Write(MSS))
            .plan(Client, When::At(0), Act::Finish)
            .over(Path::default())
    };
    assert_part(&pair(json!({})), 150, 210, "150 < FIN ack FIN\n200 > ack FIN");
    let alone = pair(json!({ "connection": { "fin_ack": "alone" } }));
    assert_part(&alone, 150, 210, "150 < ack FIN\n150 < FIN\n200 > ack FIN");
    assert_done(&alone, [1, 0]);
}

/// A client's message of `bytes` bytes, with Nagle's algorithm.
fn message(bytes: u64, more: serde_json::Value) -> Pair {
    let settings = over(json!({ "connection": { "nagle": "on" }, "cwnd": { "initial": 2 } }), more);
    Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(bytes)).plan(
        Client,
        When::At(0),
        Act::Finish,
    )
}

#[test]
fn with_nagles_algorithm_the_rest_of_a_message_and_its_fin_wait_for_earlier_data() {
    assert_table(
        &message(1001, json!({})).over(Path::default()),
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         150 < ack 1
         200 > 2 FIN
         250 < FIN ack FIN
         300 > ack FIN",
    );
    // A single segment waits only for the acknowledgement that the receiver delays.
    let pair = message(1001, json!({ "receiver": { "delayed_ack": "every-second" } })).over(Path::default());
    assert_part(&pair, 101, 240, "190 < ack 1\n240 > 2 FIN");
    let pair = message(2001, json!({ "receiver": { "delayed_ack": "every-second" } })).over(Path::default());
    assert_part(&pair, 101, 200, "150 < ack 2\n200 > 3 FIN");
}

#[test]
fn nagles_algorithm_delays_no_first_segment_no_full_one_and_no_separate_fin() {
    let sent = |bytes: u64| {
        let pair = message(bytes, json!({})).over(Path::default());
        sent_at(&pair, 100)
    };
    assert_eq!(sent(1), ["1 FIN"]);
    assert_eq!(sent(1000), ["1 FIN"]);
    assert_eq!(sent(2000), ["1", "2 FIN"]);
    let pair = Pair::new(rfc(json!({ "connection": { "nagle": "on" } })))
        .plan(Client, When::At(0), Act::Write(MSS))
        .plan(Client, When::At(120), Act::Finish)
        .over(Path::default());
    assert_part(&pair, 100, 120, "100 > 1\n120 > FIN");
}

#[test]
fn data_delayed_by_nagles_algorithm_is_sent_when_more_data_fills_the_segment() {
    let pair = Pair::new(rfc(json!({ "connection": { "nagle": "on" } })))
        .plan(Client, When::At(0), Act::Write(400))
        .plan(Client, When::At(110), Act::Write(700))
        .plan(Client, When::At(120), Act::Write(400))
        .plan(Client, When::At(120), Act::Finish)
        .over(Path::default());
    assert_eq!(pair.server().received(), 1500);
    // 700 bytes do not fill a segment while 400 are in flight; 1100 do, and leave 100.
    assert_part(&pair, 100, 149, "100 > 1\n120 > 1");
    assert_part(&pair, 200, 230, "220 > 2 FIN");
}

#[test]
fn nagles_algorithm_delays_no_retransmission() {
    for recovery in ["tahoe", "reno", "newreno", "sack", "rack"] {
        // The first segment is lost, so that the rest waits for its retransmission; then the rest is lost.
        let path = Path::losing(&["> 1", "> 4 FIN"]);
        let settings = json!({ "recovery": { "kind": recovery }, "cwnd": { "initial": 10 } });
        let pair = message(3500, settings).over(path);
        let done = (pair.server().received(), pair.client().is_done(), pair.server().is_done());
        assert_eq!(done, (3500, true, true), "{recovery}\n{}", pair.log.join("\n"));
        let log = pair.log.join("\n");
        let index = |what: &str| pair.log.iter().position(|line| line.ends_with(what));
        assert!(index("> 1 again") < index("> 4 FIN lost"), "{recovery}\n{log}");
        assert!(index("> 4 FIN lost") < index("> 4 FIN again"), "{recovery}\n{log}");
    }
}

/// The third round trip raises the limit of the automatically tuned window, and each segment then enlarges the window. In
/// the first round trips, 16 segments are acknowledged immediately, and then every second segment.
#[test]
fn in_slow_start_linux_acknowledges_each_segment_that_enlarges_the_window() {
    let settings = json!({ "profile": "linux-6" });
    let mss = 1448;
    let upload = Pair::one_way(settings.clone(), 70 * mss).over(Path::losing(&[]));
    // After the request, the server sends the data: each data segment echoes the timestamp of the last acknowledgement.
    let download = Pair::new(settings)
        .plan(Client, When::At(0), Act::Write(mss))
        .plan(Server, When::Received(mss), Act::Write(70 * mss))
        .over(Path::losing(&[]));
    for (pair, acknowledgement) in [(upload, "< ack"), (download, "> ack")] {
        let log = between(&pair, 0, 10_000);
        let segments: Vec<u64> = log
            .iter()
            .filter_map(|line| line.split_once(acknowledgement)?.1.trim().parse().ok())
            .filter(|segment| (1..70).contains(segment))
            .collect();
        let expected: Vec<u64> = (1..=16).chain((18..=32).step_by(2)).chain(33..70).collect();
        assert_eq!(segments, expected, "{acknowledgement}");
    }
}
