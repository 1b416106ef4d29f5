//! Two ends, a clock moved by hand, named losses: who sends what when?
//!
//! The path takes 50 ms each way and no time for transmission. In the tables a line is the time in
//! milliseconds, the direction (`>` from the sender), and a data segment by number or the number
//! of segments acknowledged.

mod pair;

use aqm_net::{Instant, Span};
use aqm_tcp::{Flags, GaveUp};
use pair::{Pair, Sent};
use serde_json::{Value, json};

const MSS: u64 = 1000;
const ONE_WAY: Span = Span::from_millis(50);
const HOUR: Instant = Instant::from_nanos(3_600_000_000_000);

/// `rfc`, with 1000-byte segments and prompt acknowledgements.
fn rfc(more: Value) -> Value {
    let mut table = json!({"mss": "1000B", "delayed_ack": "off"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn ns2(more: Value) -> Value {
    let mut table = json!({"profile": "ns-2.35", "receiver_window": 1000});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// Sends `segments` full segments over a path that loses what `lost` names.
fn exchange(settings: Value, segments: u64, lost: impl Fn(&Sent) -> bool) -> Pair {
    let mut pair = Pair::new(settings, Some(segments * MSS));
    pair.run(HOUR, &mut |sent| if lost(sent) { vec![] } else { vec![ONE_WAY] });
    assert_eq!(pair.receiver.delivered(), segments * MSS);
    assert!(pair.sender.is_done() && pair.receiver.is_complete());
    pair
}

/// The `nth` transmission of the data segment `number`; 0 is the SYN.
fn nth(nth: u32, number: u64) -> impl Fn(&Sent) -> bool {
    move |sent| sent.to_receiver && sent.before + 1 == nth && pair::name(&sent.segment, MSS) == number
}

/// The first of them.
fn first(number: u64) -> impl Fn(&Sent) -> bool {
    nth(1, number)
}

fn table(pair: &Pair, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let ours: Vec<&str> = pair.log.iter().map(|line| line.trim()).collect();
    assert_eq!(ours, expected, "\n{}", pair.log.join("\n"));
}

#[test]
fn without_loss_a_transfer_is_a_handshake_and_its_rounds() {
    let pair = exchange(rfc(json!({"initial_window": 2})), 5, |_| false);
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         150 < 1
         150 < 2
         200 > 3
         200 > 4
         200 > 5 FIN
         250 < 3
         250 < 4
         250 < 5 FIN",
    );
    assert_eq!(pair.sender.counts().handshake_done, Some(Instant::from_nanos(100_000_000)));
    assert_eq!((pair.sender.counts().segments_sent, pair.sender.counts().retransmitted), (6, 0));
}

#[test]
fn a_lost_syn_costs_a_second_and_leaves_a_window_of_one() {
    let pair = exchange(rfc(json!({})), 2, first(0));
    table(
        &pair,
        "0 > SYN lost
         1000 > SYN again
         1050 < SYN-ACK
         1100 > 1
         1150 < 1
         1200 > 2 FIN
         1250 < 2 FIN",
    );
}

#[test]
fn a_lost_syn_ack_costs_as_much_as_a_lost_syn() {
    let pair =
        exchange(rfc(json!({})), 1, |sent| !sent.to_receiver && sent.before == 0 && sent.segment.ack == 0);
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK lost
         1000 > SYN again
         1050 < SYN-ACK
         1100 > 1 FIN
         1150 < 1 FIN",
    );
}

#[test]
fn set_up_takes_the_sum_of_the_doubling_time_outs() {
    for (settings, initial) in [(rfc(json!({})), 1), (ns2(json!({})), 3)] {
        for lost in 0..4 {
            let pair = exchange(settings.clone(), 1, |sent| {
                sent.to_receiver && sent.segment.flags.has(Flags::SYN) && sent.before < lost
            });
            let expected = initial * ((1 << lost) - 1) * 1000 + 100;
            let done = pair.sender.counts().handshake_done.unwrap();
            assert_eq!(done, Instant::START + Span::from_millis(expected), "{lost} lost");
        }
    }
}

#[test]
fn after_a_lost_syn_the_first_data_waits_three_seconds_by_rfc_6298() {
    let pair = exchange(rfc(json!({})), 1, |sent| first(0)(sent) || first(1)(sent));
    assert_eq!(pair.log[4].trim(), "4100 > 1 FIN again", "{:?}", pair.log);
}

#[test]
fn after_a_lost_syn_ns_2_keeps_the_backed_off_time_out_and_a_threshold_of_two() {
    let mut pair = Pair::new(ns2(json!({})), Some(100 * MSS));
    let lost = |sent: &Sent| first(0)(sent) || first(1)(sent);
    let until = Instant::from_nanos(3_200_000_000);
    pair.run(until, &mut |sent| if lost(sent) { vec![] } else { vec![ONE_WAY] });
    assert_eq!((pair.sender.cwnd(), pair.sender.ssthresh(), pair.sender.backoff()), (1.0, 2.0, 2));
    assert_eq!(pair.sender.poll_timeout(), Some(Instant::from_nanos(9_100_000_000)));
}

#[test]
fn a_lost_segment_in_the_middle_is_sent_again_once_and_without_a_time_out() {
    let pair = exchange(rfc(json!({"initial_window": 2})), 100, first(11));
    let counts = pair.sender.counts();
    assert_eq!((counts.retransmitted, counts.fast_retransmits, counts.timeouts), (1, 1, 0));
}

#[test]
fn fast_recovery_sends_new_data_while_duplicates_come() {
    // IW 10: segments 2 to 10 bring duplicates; two of them send new data at once (RFC 3042), the
    // third the lost segment, and the window of 5 + 3, inflated by the later ones, new data again.
    let pair = exchange(rfc(json!({})), 20, first(1));
    let at_200: Vec<&str> =
        pair.log.iter().filter(|line| line.starts_with("  200")).map(|line| line[6..].trim()).collect();
    assert_eq!(at_200, ["> 11", "> 12", "> 1 again", "> 13", "> 14"]);
    assert_eq!((pair.sender.counts().timeouts, pair.sender.counts().retransmitted), (0, 1));
}

#[test]
fn the_window_in_recovery_is_half_the_flight_and_three() {
    // A flight of 10, half of it 5: the ninth duplicate inflates to 5 + 9 = 14.
    let mut pair = Pair::new(rfc(json!({})), None);
    pair.run(Instant::from_nanos(210_000_000), &mut |sent| {
        if first(1)(sent) { vec![] } else { vec![ONE_WAY] }
    });
    assert_eq!((pair.sender.cwnd(), pair.sender.ssthresh(), pair.sender.dupacks()), (5.0, 5.0, 9));
    assert_eq!(pair.sender.in_flight(), 14 * MSS);
    while pair.sender.dupacks() > 0 {
        assert!(pair.step(HOUR, &mut |_| vec![ONE_WAY]));
    }
    assert_eq!(pair.now, Instant::from_nanos(300_000_000));
    assert_eq!(pair.sender.cwnd(), 5.0, "the inflation is gone");
}

#[test]
fn many_duplicates_cut_the_window_once() {
    let mut pair = Pair::new(rfc(json!({"initial_window": 40})), None);
    pair.run(Instant::from_nanos(240_000_000), &mut |sent| {
        if first(1)(sent) { vec![] } else { vec![ONE_WAY] }
    });
    assert_eq!((pair.sender.dupacks(), pair.sender.ssthresh()), (39, 20.0));
    assert_eq!(pair.sender.counts().fast_retransmits, 1);
}

#[test]
fn a_lost_last_segment_waits_for_the_timer() {
    let pair = exchange(rfc(json!({})), 3, first(3));
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3 FIN lost
         150 < 1
         150 < 2
         1200 > 3 FIN again
         1250 < 3 FIN",
    );
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_and_then_one_segment_is_sent() {
    let pair = exchange(rfc(json!({"initial_window": 6})), 12, |sent| first(1)(sent) || nth(2, 1)(sent));
    let counts = pair.sender.counts();
    assert_eq!((counts.fast_retransmits, counts.timeouts), (1, 1));
    // The timer was set anew with the fast retransmit, at 200 ms.
    let after: Vec<&str> =
        pair.log.iter().map(|line| line.trim()).filter(|line| line.starts_with("1200 >")).collect();
    assert_eq!(after, ["1200 > 1 again"]);
}

#[test]
fn a_time_out_halves_the_flight_into_ssthresh() {
    for (segments, ssthresh) in [(10, 5.0), (3, 2.0)] {
        let mut pair = Pair::new(rfc(json!({"mss": "500B"})), Some(segments * 500));
        let mut lose_data = |sent: &Sent| if sent.segment.len > 0 { vec![] } else { vec![ONE_WAY] };
        pair.run(Instant::from_nanos(1_100_000_000), &mut lose_data);
        assert_eq!((pair.sender.cwnd(), pair.sender.ssthresh(), pair.sender.backoff()), (1.0, ssthresh, 2));
        pair.run(Instant::from_nanos(4_000_000_000), &mut lose_data);
        assert_eq!((pair.sender.ssthresh(), pair.sender.counts().timeouts), (ssthresh, 2), "and only once");
    }
}

#[test]
fn ns_2_halves_again_at_every_time_out() {
    let mut pair = Pair::new(ns2(json!({"initial_window": 20})), None);
    let mut lose_data = |sent: &Sent| if sent.segment.len > 0 { vec![] } else { vec![ONE_WAY] };
    pair.run(Instant::from_nanos(410_000_000), &mut lose_data);
    assert_eq!((pair.sender.counts().timeouts, pair.sender.ssthresh()), (1, 10.0));
    pair.run(Instant::from_nanos(2_000_000_000), &mut lose_data);
    assert_eq!(pair.sender.ssthresh(), 2.0);
}

#[test]
fn a_retransmission_gives_no_round_trip_sample() {
    let mut pair = Pair::new(rfc(json!({})), Some(2 * MSS));
    pair.run(HOUR, &mut |sent| if first(1)(sent) || first(2)(sent) { vec![] } else { vec![ONE_WAY] });
    assert_eq!(pair.sender.srtt(), Some(Span::from_millis(100)), "only the SYN was timed");
    assert_eq!(pair.sender.backoff(), 2, "without a sample the back-off stays");
}

#[test]
fn a_lost_acknowledgement_costs_nothing_if_another_follows() {
    let pair = exchange(rfc(json!({})), 5, |sent| !sent.to_receiver && sent.segment.ack == 2 * MSS);
    assert_eq!((pair.sender.counts().retransmitted, pair.now), (0, Instant::from_nanos(200_000_000)));
}

#[test]
fn a_lost_last_acknowledgement_costs_a_time_out() {
    let pair = exchange(rfc(json!({})), 2, |sent| {
        !sent.to_receiver && sent.segment.flags.has(Flags::FIN) && sent.before == 0
    });
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2 FIN
         150 < 1
         150 < 2 FIN lost
         1200 > 2 FIN again
         1250 < 2 FIN",
    );
}

#[test]
fn reordering_by_fewer_than_three_is_no_loss() {
    for (later, retransmitted) in [(1, 0), (2, 0), (3, 1)] {
        // Segment 1 comes in behind the `later` segments sent after it.
        let mut pair = Pair::new(rfc(json!({})), Some(30 * MSS));
        pair.run(HOUR, &mut |sent| {
            let behind = Span::from_millis(1);
            let ahead = sent.to_receiver && (2..2 + later).any(|number| first(number)(sent));
            vec![if ahead { ONE_WAY } else { ONE_WAY + behind }]
        });
        assert!(pair.sender.is_done());
        let counts = pair.sender.counts();
        assert_eq!((counts.retransmitted, counts.timeouts), (retransmitted, 0), "by {later}");
    }
}

#[test]
fn with_two_losses_in_a_window_reno_needs_the_timer_and_halves_once_before() {
    let pair = exchange(rfc(json!({})), 30, |sent| first(1)(sent) || first(2)(sent));
    let counts = pair.sender.counts();
    assert_eq!((counts.fast_retransmits, counts.timeouts), (1, 1), "{}", pair.log.join("\n"));
}

#[test]
fn a_transfer_without_data_is_a_syn_and_a_fin() {
    let pair = exchange(rfc(json!({})), 0, |sent| {
        sent.to_receiver && sent.segment.flags.has(Flags::FIN) && sent.before == 0
    });
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > FIN lost
         1100 > FIN again
         1150 < 0 FIN",
    );
}

#[test]
fn ns_2_pads_the_last_segment_and_sends_no_fin() {
    let mut pair = Pair::new(ns2(json!({"handshake": "none"})), Some(1001));
    let mut sizes = Vec::new();
    pair.run(HOUR, &mut |sent| {
        sizes.push((sent.segment.wire, sent.segment.flags.has(Flags::FIN)));
        vec![ONE_WAY]
    });
    assert_eq!(sizes, [(1040, false), (1040, false), (40, false), (40, false)]);
    assert!(pair.sender.is_done());
    assert_eq!((pair.receiver.delivered(), pair.now), (1001, Instant::from_nanos(100_000_000)));
}

#[test]
fn a_sender_gives_up_after_the_stated_retries() {
    let mut pair = Pair::new(rfc(json!({})), Some(MSS));
    pair.run(HOUR, &mut |_| vec![]);
    assert_eq!(pair.sender.gave_up(), Some(GaveUp::NoAnswer));
    assert_eq!(pair.now, Instant::START + Span::from_millis(183_000), "RFC 1122: at least 3 minutes");
    assert_eq!(pair.sender.counts().segments_sent, 8);

    let mut pair = Pair::new(rfc(json!({"max_retries": 6})), Some(MSS));
    pair.run(HOUR, &mut |sent| if sent.segment.len > 0 { vec![] } else { vec![ONE_WAY] });
    assert_eq!(pair.sender.gave_up(), Some(GaveUp::NoProgress));
    assert_eq!(pair.sender.counts().retransmitted, 6);
    assert!(!pair.sender.is_done() && pair.sender.poll_timeout().is_none());
}

#[test]
fn progress_starts_the_count_of_retries_again() {
    let settings = rfc(json!({"max_retries": 1, "initial_window": 1}));
    let pair = exchange(settings, 3, |sent| (1..=3).any(|number| first(number)(sent)));
    assert_eq!((pair.sender.counts().timeouts, pair.sender.gave_up()), (2, None));
}

#[test]
fn ns_2_halves_no_more_than_the_receivers_window() {
    let mut pair = Pair::new(ns2(json!({"receiver_window": 8, "initial_window": 20})), None);
    let mut lose_data = |sent: &Sent| if sent.segment.len > 0 { vec![] } else { vec![ONE_WAY] };
    pair.run(Instant::from_nanos(410_000_000), &mut lose_data);
    assert_eq!((pair.sender.counts().timeouts, pair.sender.ssthresh()), (1, 4.0));
}

#[test]
fn a_connection_opens_once() {
    let mut pair = exchange(rfc(json!({})), 1, |_| false);
    pair.sender.open(pair.now);
    assert!(pair.sender.is_done() && pair.sender.poll_transmit(pair.now).is_none());
}

#[test]
fn slow_start_takes_the_rounds_of_the_formula() {
    // Rounds for d segments from a window w: ceil(log_g(d (g - 1) / w + 1)); g = 2, or 1.5 with an
    // acknowledgement every second segment.
    let prompt = [(10, [4, 3, 2, 1]), (100, [7, 6, 5, 4])];
    let delayed = [(10, [5, 4, 2, 1]), (100, [10, 9, 7, 5])];
    for (delayed_ack, rows) in [("off", prompt), ("every-second", delayed)] {
        for (segments, rounds) in rows {
            for (window, rounds) in [1, 2, 4, 10].into_iter().zip(rounds) {
                // The delay exceeds a round trip, so that only a second segment ends it.
                let settings = json!({
                    "initial_window": window, "delayed_ack": delayed_ack, "delayed_ack_timer": "500ms",
                });
                let mut pair = exchange(rfc(settings), segments, |_| false);
                pair.first_sent.dedup();
                assert_eq!(pair.first_sent.len(), rounds, "{delayed_ack}: {segments} from {window}");
            }
        }
    }
}

#[test]
fn an_acknowledgement_waits_for_a_second_segment_or_the_timer() {
    let pair = exchange(
        rfc(json!({"delayed_ack": "every-second", "initial_window": 3, "close": "none"})),
        3,
        |_| false,
    );
    table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1
         100 > 2
         100 > 3
         150 < 2
         190 < 3",
    );
}

#[test]
fn data_out_of_order_and_the_filling_of_a_gap_are_acknowledged_at_once() {
    let mut pair =
        Pair::new(rfc(json!({"delayed_ack": "every-second", "handshake": "none"})), Some(10 * MSS));
    pair.run(HOUR, &mut |sent| vec![if first(2)(sent) { ONE_WAY + Span::from_millis(5) } else { ONE_WAY }]);
    let acks: Vec<&str> = pair.log.iter().filter(|line| line.contains('<')).map(|line| line.trim()).collect();
    assert_eq!(&acks[..4], ["50 < 1", "50 < 1", "50 < 1", "50 < 1"], "a waiting one leaves with the first");
    assert!(acks.contains(&"55 < 10 FIN"), "{acks:?}");
}

#[test]
fn the_window_told_is_whole_uninflated_and_clipped() {
    let hint = |settings| {
        let mut pair = Pair::new(rfc(settings), None);
        pair.run(Instant::from_nanos(120_000_000), &mut |_| vec![ONE_WAY]);
        pair.sender.window_hint()
    };
    assert_eq!(hint(json!({})), 10);
    assert_eq!(hint(json!({"receiver_window": 4})), 4);
    assert_eq!(hint(json!({"receiver_window": 4, "hint": "raw"})), 10);
    assert_eq!(hint(json!({"initial_window": 1_000_000, "receiver_window": 1_000, "hint": "raw"})), u16::MAX);
}

#[test]
fn the_receivers_window_bounds_what_is_in_flight_and_stops_growth() {
    let mut pair = Pair::new(rfc(json!({"receiver_window": 4, "initial_ssthresh": 100.0})), None);
    pair.run(Instant::from_nanos(2_000_000_000), &mut |_| vec![ONE_WAY]);
    assert_eq!((pair.sender.in_flight(), pair.sender.cwnd()), (4 * MSS, 10.0));
    let mut pair = Pair::new(ns2(json!({"receiver_window": 4})), None);
    pair.run(Instant::from_nanos(2_000_000_000), &mut |_| vec![ONE_WAY]);
    assert_eq!(pair.sender.in_flight(), 4 * MSS);
    assert!(pair.sender.cwnd() > 8.0, "ns-2's window grows unused: {}", pair.sender.cwnd());
}
