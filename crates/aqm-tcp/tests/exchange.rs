//! One-way transfers with a manual clock and named losses: the segments sent and their times.
//!
//! The path has a delay of 50 ms in each direction and no transmission time; the profile is `rfc` with immediate
//! acknowledgements, unless a test says otherwise.

use crate::pair::*;
use aqm_net::Span;
use aqm_tcp::{FailureReason, Flags};
use serde_json::json;

#[test]
fn without_loss_a_transfer_is_a_handshake_and_its_rounds() {
    let pair = exchange(rfc(json!({"cwnd": {"initial": 2}})), 5, &[]);
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         150 < ack 1
         150 < ack 2
         200 > 3
         200 > 4
         200 > 5 FIN
         250 < ack 3
         250 < ack 4
         250 < FIN ack FIN
         300 > ack FIN",
    );
    let counts = pair.client().counts();
    assert_eq!((counts.segments_sent, counts.retransmitted, counts.handshake_done), (6, 0, Some(at(100))));
    assert_eq!(pair.server().counts().handshake_done, Some(at(150)));
}

#[test]
fn slow_start_needs_the_rounds_of_the_formula() {
    // Rounds for d segments from a window w: ceil(log_g(d (g - 1) / w + 1)); g = 2, or 1.5 with an acknowledgement of
    // every second segment.
    let prompt = [(10, [4, 3, 2, 1]), (100, [7, 6, 5, 4])];
    let delayed = [(10, [5, 4, 2, 1]), (100, [10, 9, 7, 5])];
    for (delayed_ack, rows) in [("off", prompt), ("every-second", delayed)] {
        for (segments, rounds) in rows {
            for (window, rounds) in [1, 2, 4, 10].into_iter().zip(rounds) {
                // The delay exceeds a round trip, so that only a second segment ends it.
                let settings = json!({
                    "cwnd": { "initial": window },
                    "receiver": { "delayed_ack": delayed_ack, "delayed_ack_timer": "500ms" },
                });
                let mut pair = exchange(rfc(settings), segments, &[]);
                pair.first_sent[0].dedup();
                assert_eq!(pair.first_sent[0].len(), rounds, "{delayed_ack}: {segments} from {window}");
            }
        }
    }
}

#[test]
fn an_acknowledgement_waits_for_a_second_segment_or_the_timer() {
    let settings = rfc(json!({
        "receiver": {"delayed_ack": "every-second"}, "cwnd": {"initial": 3}, "connection": {"close": "none"},
    }));
    assert_table(
        &exchange(settings, 3, &[]),
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3
         150 < ack 2
         190 < ack 3",
    );
}

#[test]
fn with_a_heartbeat_an_acknowledgement_waits_for_the_next_multiple_of_the_timer() {
    for (timer, ack_info) in [("100ms", 200), ("150ms", 300), ("160ms", 160), ("7ms", 154)] {
        let settings = rfc(json!({
            "receiver": { "delayed_ack": "heartbeat", "delayed_ack_timer": timer }, "cwnd": { "initial": 3 },
            "connection": { "close": "none" },
        }));
        let pair = exchange(settings, 3, &[]);
        assert_part(&pair, 150, 500, &format!("150 < ack 2\n{ack_info} < ack 3"));
    }
}

#[test]
fn a_fin_is_acknowledged_at_once() {
    let pair = exchange(rfc(json!({"receiver": {"delayed_ack": "every-second"}})), 1, &[]);
    assert_eq!(between(&pair, 150, 150), ["< FIN ack FIN"]);
}

#[test]
fn data_out_of_order_and_the_filling_of_a_gap_are_acknowledged_at_once() {
    let path = Path::default().and_delaying(&["> 2"], 5);
    let pair = transfer(rfc(json!({"receiver": {"delayed_ack": "every-second"}})), 10, path);
    let acks = between(&pair, 150, 155);
    assert_eq!(
        acks[..8],
        ["< ack 1"; 8],
        "the first segment out of order releases the delayed acknowledgement"
    );
    // Two duplicates have released nothing, because all data was sent. Filling the gap triggers one acknowledgement.
    assert_eq!(acks[8..], ["< FIN ack FIN"]);
}

#[test]
fn the_first_segments_are_acknowledged_quickly_if_so_many_are() {
    let settings = json!({
        "receiver": { "delayed_ack": "every-second", "quick_acks": 3 }, "cwnd": { "initial": 8 },
        "connection": { "close": "none" },
    });
    let pair = exchange(rfc(settings), 8, &[]);
    assert_eq!(between(&pair, 150, 150), ["< ack 1", "< ack 2", "< ack 3", "< ack 5", "< ack 7"]);
    assert_eq!(between(&pair, 190, 190), ["< ack 8"]);
}

#[test]
fn a_lost_first_segment_is_retransmitted_by_the_third_duplicate() {
    // IW 10: segments 2 to 10 trigger duplicates. Two of them release new data at once (RFC 3042), the third the lost
    // segment; the last one inflates the window of 5 to 5 + 9: new data up to 14.
    let pair = exchange(rfc(json!({})), 20, &["> 1"]);
    assert_eq!(sent_at(&pair, 200), ["11", "12", "1 again", "13", "14"]);
    // Segments 11 to 14 trigger four more: inflation 13, so up to 18. Then 14 and the acknowledgement of all of the
    // first 14 deflate the window to 5.
    assert_eq!(sent_at(&pair, 300), ["15", "16", "17", "18", "19"]);
    assert_eq!((pair.client().counts().timeouts, pair.client().counts().retransmitted), (0, 1));
}

#[test]
fn a_lost_segment_in_the_middle_is_retransmitted_once_and_without_a_timeout() {
    for recovery in ["tahoe", "reno", "newreno", "sack", "rack"] {
        let pair =
            exchange(rfc(json!({"cwnd": {"initial": 2}, "recovery": {"kind": recovery}})), 100, &["> 11"]);
        let counts = pair.client().counts();
        let found = (counts.retransmitted, counts.fast_retransmits, counts.timeouts);
        // Tahoe retransmits everything after the loss, until an acknowledgement skips it.
        let expected = if recovery == "tahoe" { (found.0, 1, 0) } else { (1, 1, 0) };
        assert_eq!(found, expected, "{recovery}");
    }
}

#[test]
fn a_lost_last_segment_waits_for_the_timer() {
    assert_table(
        &exchange(rfc(json!({})), 3, &["> 3 FIN"]),
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3 FIN lost
         150 < ack 1
         150 < ack 2
         1200 > 3 FIN again
         1250 < FIN ack FIN
         1300 > ack FIN",
    );
}

#[test]
fn a_lost_acknowledgement_costs_nothing_if_another_follows() {
    let pair = exchange(rfc(json!({})), 5, &["< ack 2"]);
    assert_eq!((pair.client().counts().retransmitted, pair.now), (0, at(250)));
}

#[test]
fn if_all_acknowledgements_of_a_window_are_lost_the_timer_resends_only_the_first() {
    let pair =
        exchange(rfc(json!({"cwnd": {"initial": 4}})), 8, &["< ack 1", "< ack 2", "< ack 3", "< ack 4"]);
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3
         100 > 4
         150 < ack 1 lost
         150 < ack 2 lost
         150 < ack 3 lost
         150 < ack 4 lost
         1100 > 1 again
         1150 < ack 4
         1200 > 5
         1200 > 6
         1250 < ack 5
         1250 < ack 6
         1300 > 7
         1300 > 8 FIN
         1350 < ack 7
         1350 < FIN ack FIN
         1400 > ack FIN",
    );
}

#[test]
fn reordering_by_fewer_than_three_is_no_loss() {
    for recovery in ["tahoe", "reno", "newreno", "sack"] {
        for (later, retransmitted) in [(1, false), (2, false), (3, true)] {
            // Number of segments that overtake the first.
            let names: Vec<String> = (2..2 + later).map(|number| format!("> {number}")).collect();
            let slow: Vec<String> = (1..=10).map(|number| format!("> {number}")).collect();
            let slow = slow.iter().filter(|name| !names.contains(name)).map(String::as_str);
            let path = Path::default().and_delaying(&slow.collect::<Vec<_>>(), 1);
            let pair = transfer(rfc(json!({"recovery": {"kind": recovery}})), 20, path);
            let counts = pair.client().counts();
            assert_eq!(counts.timeouts, 0);
            assert_eq!(counts.retransmitted > 0, retransmitted, "{recovery}, by {later}");
            assert_eq!(counts.fast_retransmits, u32::from(retransmitted), "{recovery}, by {later}");
        }
    }
}

#[test]
fn duplicate_data_is_delivered_once() {
    let path = Path::default().and_doubling(&["> 1", "> 3", "< ack 2", "> 5 FIN"]);
    let pair = transfer(rfc(json!({"cwnd": {"initial": 2}})), 5, path);
    assert_eq!(pair.client().counts().retransmitted, 0);
}

#[test]
fn the_window_in_recovery_is_half_the_flight_and_three() {
    // Half of a flight of 10 is 5: the ninth duplicate inflates the window to 5 + 9 = 14.
    let mut pair = Pair::endless(rfc(json!({})));
    let mut path = Path::losing(&["> 1"]);
    pair.run(at(210), &mut |sent| path.fate(sent));
    assert_eq!((pair.client().cwnd(), pair.client().ssthresh(), pair.client().dupacks()), (5.0, 5.0, 9));
    assert_eq!(pair.client().in_flight(), 14 * MSS);
    while pair.client().dupacks() > 0 {
        assert!(pair.step(HOUR, &mut |_| arrives()));
    }
    assert_eq!((pair.now, pair.client().cwnd()), (at(300), 5.0), "the inflation was removed");
}

#[test]
fn a_timeout_halves_the_flight_into_ssthresh() {
    for (segments, ssthresh) in [(10, 5.0), (3, 2.0)] {
        let write = Act::Write(segments * MSS);
        let mut pair = Pair::new(rfc(json!({}))).plan(Client, When::At(0), write);
        let mut lose_data = losing(Sent::has_data);
        pair.run(at(1100), &mut lose_data);
        let client = pair.client();
        assert_eq!((client.cwnd(), client.ssthresh(), client.backoff()), (1.0, ssthresh, 2));
        pair.run(at(4000), &mut lose_data);
        assert_eq!((pair.client().ssthresh(), pair.client().counts().timeouts), (ssthresh, 2), "only once");
    }
}

#[test]
fn the_timeout_doubles_up_to_its_maximum_until_the_sender_gives_up() {
    let mut pair = Pair::one_way(rfc(json!({"connection": {"max_retries": 8}})), MSS);
    pair.run(HOUR, &mut losing(Sent::has_data));
    let sent: Vec<u64> = pair
        .log
        .iter()
        .filter(|line| line.contains("> 1"))
        .map(|line| line.trim().split_once(' ').unwrap().0.parse().unwrap())
        .collect();
    let waits: Vec<u64> = sent.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!((pair.client().gave_up(), pair.now), (Some(FailureReason::NoProgress), at(sent[8] + 60_000)));
    assert_eq!((pair.client().counts().retransmitted, pair.client().counts().timeouts), (8, 9));
    assert!(!pair.client().is_done() && pair.client().poll_timeout().is_none());
    assert!(pair.ends[0].poll_transmit(pair.now).is_none());
}

#[test]
fn progress_starts_the_count_of_retries_again() {
    let settings = rfc(json!({"connection": {"max_retries": 1}, "cwnd": {"initial": 1}}));
    let pair = exchange(settings, 3, &["> 1", "> 2", "> 3 FIN"]);
    assert_eq!((pair.client().counts().timeouts, pair.client().gave_up()), (2, None));
}

#[test]
fn a_retransmission_gives_no_round_trip_sample() {
    let pair = exchange(rfc(json!({})), 2, &["> 1", "> 2 FIN"]);
    assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)), "only the SYN was timed");
    assert_eq!(pair.client().backoff(), 2, "without a sample the back-off continues");
    let pair = exchange(rfc(json!({"rto": {"back_off_end": "progress"}})), 2, &["> 1", "> 2 FIN"]);
    assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)));
    assert_eq!(pair.client().backoff(), 1, "progress ends it");
}

#[test]
fn with_sack_every_segment_that_was_sent_once_may_be_a_sample() {
    // RFC 6298, 2.3, with alpha = 1/8. Segments 5 to 10 take 40 ms longer; one per window measures only the first.
    for (samples, late) in [("window", 0.0), ("segment", 6.0)] {
        let settings = rfc(json!({ "recovery": { "kind": "sack" }, "rto": { "samples": samples } }));
        let path = Path::default().and_delaying(&["> 5", "> 6", "> 7", "> 8", "> 9", "> 10 FIN"], 40);
        let srtt = transfer(settings, 10, path).client().srtt().unwrap().seconds();
        let expected = 0.140 - 0.040 * libm::pow(0.875, late);
        assert!((srtt - expected).abs() < 1e-6, "{samples}: {srtt} s, not {expected}");
    }
}

#[test]
fn sack_of_data_sent_before_the_oldest_segment_restarts_linux_s_timer_and_is_a_sample() {
    // Segment 1 is sent again at 200 ms, which starts the timer of 1 s, and is lost. At 700 ms SACK reports 8, 9 and
    // 10, which were sent at 100 ms: Linux restarts the timer (`FLAG_SET_XMIT_TIMER`), and `first-segment` takes three
    // samples of 600 ms in any case.
    let three = 0.600 - 0.500 * libm::pow(0.875, 3.0);
    for (restarted_by, samples, srtt, again) in [
        ("recovery", "segment", 0.100, 1200),
        ("recovery", "first-segment", three, 1200),
        ("oldest-segment", "window", 0.100, 1700),
        ("oldest-segment", "segment", three, 1992),
    ] {
        let settings = json!({
            "connection": { "close": "none" }, "recovery": { "kind": "sack" },
            "rto": { "restarted_by": restarted_by, "samples": samples },
        });
        let path = Path::losing(&["> 1", "> 1 again"]).and_delaying(&["> 8", "> 9", "> 10"], 500);
        let pair = transfer(rfc(settings), 10, path);
        assert_eq!(sent_at(&pair, again), ["1 again"], "{restarted_by}, {samples}");
        let seen = pair.client().srtt().unwrap().seconds();
        assert!((seen - srtt).abs() < 1e-6, "{restarted_by}, {samples}: {seen} s, not {srtt}");
    }
}

#[test]
fn the_timer_runs_on_in_a_recovery_where_only_new_data_restarts_it() {
    // Segment 1 is sent at 100 ms with the timer of 1 s. The third SACK of data sent 450 ms later arrives at 650 ms;
    // the retransmission is lost. RFC 6298, section 5, has no rule that restarts the timer for a retransmission.
    for (restarted_by, again) in [("recovery", 1650), ("new-data", 1100)] {
        let settings = json!({
            "connection": { "close": "none" }, "recovery": { "kind": "sack" },
            "rto": { "restarted_by": restarted_by },
        });
        let late: Vec<String> = (2..=10).map(|segment| format!("> {segment}")).collect();
        let late: Vec<&str> = late.iter().map(String::as_str).collect();
        let path = Path::losing(&["> 1", "> 1 again"]).and_delaying(&late, 450);
        let pair = transfer(rfc(settings), 10, path);
        assert_eq!(sent_at(&pair, again), ["1 again"], "{restarted_by}: {:#?}", pair.log);
    }
}

#[test]
fn a_timer_restarted_before_its_back_off_ends_keeps_it_for_one_more_timeout() {
    for (order, last) in [("after-sample", "2200 > 2 again"), ("before-sample", "3200 > 2 again")] {
        let settings = json!({
            "cwnd": { "initial": 2 }, "rto": { "back_off_end": "progress", "restart": order },
        });
        let pair = exchange(rfc(settings), 3, &["> 1", "> 2", "> 2 again"]);
        assert!(pair.log.iter().any(|line| line.trim() == last), "{order}: {:#?}", pair.log);
    }
}

#[test]
fn ns_2_halves_again_at_every_timeout() {
    let mut pair = Pair::endless(ns2(json!({"cwnd": {"initial": 20}})));
    pair.run(at(410), &mut losing(Sent::has_data));
    assert_eq!((pair.client().counts().timeouts, pair.client().ssthresh()), (1, 10.0));
    pair.run(at(2000), &mut losing(Sent::has_data));
    assert_eq!(pair.client().ssthresh(), 2.0);
}

#[test]
fn ns_2_halves_no_more_than_the_receivers_window() {
    let mut pair = Pair::endless(ns2(json!({"receiver": {"window": 8}, "cwnd": {"initial": 20}})));
    pair.run(at(410), &mut losing(Sent::has_data));
    assert_eq!((pair.client().counts().timeouts, pair.client().ssthresh()), (1, 4.0));
}

#[test]
fn ns_2_pads_the_last_segment_and_sends_no_fin() {
    let mut pair = Pair::one_way(ns2(json!({"connection": {"handshake": "none"}})), 1001);
    let mut sizes = Vec::new();
    pair.run(HOUR, &mut |sent| {
        sizes.push((sent.segment.wire, sent.segment.flags.has(Flags::FIN)));
        arrives()
    });
    assert_eq!(sizes, [(1040, false), (1040, false), (40, false), (40, false)]);
    assert!(pair.client().is_done());
    assert_eq!((pair.server().received(), pair.now), (2000, at(100)), "padding counts");
}

#[test]
fn the_receive_window_limits_the_data_in_flight_and_stops_growth() {
    let mut pair = Pair::endless(rfc(json!({
        "receiver": {"window": 4}, "cwnd": {"initial_ssthresh": 100.0},
    })));
    pair.run(at(2000), &mut |_| arrives());
    assert_eq!((pair.client().in_flight(), pair.client().cwnd()), (4 * MSS, 10.0));
    let mut pair = Pair::endless(ns2(json!({"receiver": {"window": 4}})));
    pair.run(at(2000), &mut |_| arrives());
    assert_eq!(pair.client().in_flight(), 4 * MSS);
    assert!(pair.client().cwnd() > 8.0, "ns-2's window grows unused: {}", pair.client().cwnd());
}

#[test]
fn the_reported_window_is_whole_uninflated_and_clipped() {
    let hint = |settings| {
        let mut pair = Pair::endless(rfc(settings));
        pair.run(at(120), &mut |_| arrives());
        pair.client().window_hint()
    };
    assert_eq!(hint(json!({})), 10);
    assert_eq!(hint(json!({"receiver": {"window": 4}})), 4);
    assert_eq!(hint(json!({"receiver": {"window": 4}, "cwnd": {"hint": "raw"}})), 10);
    assert_eq!(
        hint(json!({"cwnd": {"initial": 1_000_000, "hint": "raw"}, "receiver": {"window": 1_000}})),
        u16::MAX
    );
}

#[test]
fn the_reported_window_falls_with_the_data_in_flight_during_a_reduction() {
    let hints = |hint| {
        let mut pair = Pair::endless(rfc(json!({
            "cwnd": {"hint": hint, "initial": 40},
            "recovery": {"kind": "sack", "reduction": "prr"},
            "congestion_control": {"kind": "reno"},
        })));
        // One millisecond of transmission time each; the first one is lost.
        let mut fate = |sent: &Sent| match sent.segment.seq / MSS {
            0 if sent.has_data() && !sent.segment.flags.has(Flags::RETRANSMISSION) => vec![],
            path => vec![Copy { after: ONE_WAY + Span::from_millis(path.min(39)), marked: false }],
        };
        [202, 210, 225, 239].map(|millis| {
            pair.run(at(millis), &mut fate);
            (pair.client().window_hint(), pair.client().cwnd() as u16)
        })
    };
    assert_eq!(hints("clipped"), [(40, 40), (20, 20), (20, 20), (20, 20)]);
    // At 210 ms one is lost and ten have arrived; limited transmit has sent two, and eight later arrivals released
    // four.
    assert_eq!(hints("at-least-in-flight"), [(40, 40), (35, 20), (27, 20), (20, 20)]);
}

#[test]
#[should_panic(expected = "never sent: [\"> 6\"]")]
fn an_unused_loss_fails_its_test() {
    exchange(rfc(json!({})), 5, &["> 2", "> 6"]);
}

#[test]
#[should_panic(expected = "> 5 FIN")]
fn a_table_without_the_last_line_fails_its_test() {
    let pair = exchange(rfc(json!({ "connection": { "close": "fin" } })), 5, &[]);
    let but_one = pair.log[..pair.log.len() - 1].join("\n");
    assert_table(&pair, &but_one);
}
