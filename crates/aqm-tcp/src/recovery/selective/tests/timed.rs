//! Losses found by time, and probes (RFC 8985).

use super::*;
use crate::config::recovery::{RecoveryKind, Reduction};

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

/// Segments 0 to 9, sent a millisecond apart from 100 ms on; the round trip is 100 ms.
fn spaced() -> Hand {
    let mut hand = Hand::new(1, rack());
    hand.send();
    hand.advance(100);
    hand.sample(100);
    hand.ack(1, &[]);
    for _ in 0..10 {
        hand.write(1);
        hand.send();
        hand.advance(1);
    }
    hand.advance(90);
    hand
}

fn millis(instant: Instant) -> u64 {
    instant.nanos() / 1_000_000
}

#[test]
fn a_segment_counts_as_lost_a_quarter_of_a_round_trip_after_a_later_one_arrived() {
    let mut hand = spaced();
    hand.advance(1);
    // Segment 1 left at 100 ms, the next a millisecond later and arrives at 201 ms.
    assert_eq!(hand.ack(1, &[(2, 3)]).what, AckKind::Duplicate);
    assert_eq!(millis(hand.recovery.timer()), 100 + 100 + 25);
    let outcome = hand.run_timer();
    assert_eq!((outcome.what, outcome.acked), (AckKind::Loss, 0));
    assert_eq!(hand.send(), [1]);
}

#[test]
fn three_segments_beyond_show_a_loss_at_once_until_reordering_is_seen() {
    let mut hand = spaced();
    hand.advance(3);
    assert_eq!(hand.ack(1, &[(2, 5)]).what, AckKind::Loss);

    let mut hand = spaced();
    hand.advance(1);
    hand.ack(1, &[(2, 3)]);
    assert_eq!(hand.ack(3, &[]).what, AckKind::Advance, "1 was only late");
    hand.advance(3);
    assert_eq!(hand.ack(3, &[(4, 7)]).what, AckKind::Duplicate);
    assert_eq!(hand.run_timer().what, AckKind::Loss);
}

#[test]
fn data_that_came_twice_makes_patient() {
    let mut hand = spaced();
    hand.advance(1);
    hand.ack(1, &[(0, 1), (2, 3)]);
    assert_eq!(millis(hand.recovery.timer()), 100 + 100 + 50);
}

#[test]
fn data_that_came_twice_counts_once_a_round_and_a_round_trip_is_patience_enough() {
    let mut hand = spaced();
    hand.advance(1);
    for expected in [50, 50] {
        hand.ack(1, &[(0, 1), (2, 3)]);
        assert_eq!(millis(hand.recovery.timer()), 100 + 100 + expected);
    }
    let mut seen = 1;
    for _ in 0..6 {
        // Each round ends when all is acknowledged that was sent before the last.
        let all = hand.recovery.sent() / MSS;
        hand.advance(100);
        hand.ack(all, &[]);
        hand.write(2);
        hand.send();
        hand.advance(100);
        hand.sample(100);
        hand.ack(all, &[(0, 1), (all + 1, all + 2)]);
        seen += 1;
        let left = hand.now.nanos() / 1_000_000 - 100;
        let patience = (25 * (seen + 1)).min(100);
        assert_eq!(millis(hand.recovery.timer()), left + 100 + patience);
    }
}

#[test]
fn sixteen_recoveries_forget_what_came_twice() {
    let mut hand = Hand::new(1, rack());
    hand.send();
    hand.advance(100);
    hand.sample(100);
    hand.ack(1, &[]);
    let mut patience = Vec::new();
    for round in 0..18 {
        let all = hand.recovery.sent() / MSS;
        hand.write(2);
        hand.send();
        hand.advance(100);
        let twice = if round == 0 { vec![(0, 1), (all + 1, all + 2)] } else { vec![(all + 1, all + 2)] };
        hand.ack(all, &twice);
        patience.push(millis(hand.recovery.timer()) - millis(hand.now));
        assert_eq!(hand.run_timer().what, AckKind::Loss);
        hand.send();
        hand.advance(100);
        assert_eq!(hand.ack(all + 2, &[]).what, AckKind::Exit);
    }
    assert_eq!((patience[0], patience[15], patience[16], patience[17]), (50, 50, 25, 25));
}

#[test]
fn acknowledgements_outside_a_recovery_forget_nothing() {
    let mut hand = spaced();
    hand.ack(2, &[(1, 2)]);
    for _ in 0..20 {
        hand.write(1);
        hand.send();
        hand.advance(100);
        hand.ack(hand.recovery.sent() / MSS, &[]);
    }
    let all = hand.recovery.sent() / MSS;
    hand.write(2);
    hand.send();
    hand.advance(100);
    hand.ack(all, &[(all + 1, all + 2)]);
    assert_eq!(millis(hand.recovery.timer()) - millis(hand.now), 50, "half a round trip and not a quarter");
}

#[test]
fn an_acknowledgement_faster_than_any_round_trip_is_not_that_of_a_retransmission() {
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(1, &[(2, 5)]);
    assert_eq!(hand.send(), [1]);
    hand.advance(10);
    assert_eq!(hand.ack(2, &[(2, 5)]).what, AckKind::Partial);
    assert_eq!(hand.pipe(), 6, "nothing that left before the retransmission counts as lost");
}

#[test]
fn the_timer_of_reordering_waits_for_the_last_segment_in_doubt() {
    // RFC 8985, 6.2, step 5: "timeout = max(remaining, timeout)".
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(1, &[(4, 5)]);
    assert_eq!(millis(hand.recovery.timer()), 102 + 100 + 25, "3 left at 102 ms, 1 at 100 ms");
    assert_eq!(hand.run_timer().what, AckKind::Loss);
    assert_eq!(hand.send(), [1, 2, 3]);
}

#[test]
fn any_acknowledgement_shows_what_is_lost_by_now() {
    // RFC 8985, 6.2: losses are looked for "upon receiving an ACK".
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(1, &[(4, 5)]);
    hand.advance(23);
    assert_eq!(hand.ack(1, &[(4, 5)]).what, AckKind::Loss, "226 ms have come");
    assert_eq!(hand.send(), [1, 2]);
    assert_eq!(millis(hand.recovery.timer()), 102 + 100 + 25);
}

#[test]
fn the_timer_of_reordering_waits_for_the_last_retransmission_in_doubt() {
    let mut hand = spaced();
    // Reordering is seen: 1 comes after 2.
    hand.advance(1);
    hand.ack(1, &[(2, 3)]);
    hand.ack(3, &[]);
    hand.advance(8);
    hand.ack(3, &[(10, 11)]);
    assert_eq!(hand.run_timer().what, AckKind::Loss);
    let sent_at = millis(hand.now);
    hand.window = hand.pipe() + 1;
    assert_eq!(hand.send(), [3]);
    hand.advance(5);
    hand.window += 1;
    assert_eq!(hand.send(), [4]);
    hand.advance(1);
    hand.window += 1;
    hand.write(1);
    assert_eq!(hand.send(), [5]);
    hand.advance(100);
    hand.ack(3, &[(5, 6), (10, 11)]);
    assert_eq!(millis(hand.recovery.timer()), sent_at + 5 + 100 + 25);
}

#[test]
fn of_what_left_at_the_same_instant_the_order_of_sending_counts() {
    // RFC 8985, 6.2, `RACK_sent_after`, where sequence numbers stand for that order.
    let in_recovery = || {
        let mut hand = spaced();
        hand.advance(3);
        hand.ack(1, &[(2, 5)]);
        hand.write(3);
        assert_eq!(hand.send(), [1, 11, 12, 13]);
        hand.advance(100);
        hand
    };
    let mut hand = in_recovery();
    assert_eq!(hand.ack(1, &[(2, 12)]).what, AckKind::Duplicate);
    assert_eq!(hand.send(), [1], "11 left after its retransmission");

    let mut hand = in_recovery();
    assert_eq!(hand.ack(11, &[]).what, AckKind::Exit);
    assert_eq!(hand.pipe(), 3, "the retransmission overtakes nothing");

    let mut hand = spaced();
    hand.write(1);
    hand.advance(3);
    assert_eq!(hand.send(), [11]);
    hand.ack(1, &[(2, 5)]);
    assert_eq!(hand.send(), [1]);
    hand.advance(100);
    hand.ack(1, &[(2, 12)]);
    assert_eq!(hand.send(), NOTHING, "11 left before its retransmission");
}

#[test]
fn the_round_trip_is_that_of_the_last_segment_delivered_in_order() {
    // RFC 8985, 6.2, step 2, goes through the segments that are newly acknowledged one by one.
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(1, &[(2, 5)]);
    assert_eq!(hand.send(), [1]);
    hand.advance(100);
    // 1 was sent again 100 ms ago, 8 left 196 ms ago: the acknowledgements of 5 to 8 are lost.
    hand.ack(9, &[]);
    hand.write(2);
    hand.send();
    hand.advance(100);
    hand.ack(9, &[(10, 11)]);
    assert_eq!(hand.send(), [9], "the round trip is 100 ms");
}

#[test]
fn what_the_timer_finds_lost_in_a_recovery_makes_no_room_for_a_burst() {
    let config = with(rack(), |config| config.recovery.reduction = Reduction::Prr);
    let mut hand = Hand::new(1, config);
    hand.send();
    hand.advance(100);
    hand.sample(100);
    hand.ack(1, &[]);
    hand.write(20);
    hand.send();
    // Reordering is seen, so losses are found by the timer.
    hand.advance(100);
    hand.ack(1, &[(2, 3)]);
    hand.ack(3, &[(4, 5)]);
    assert_eq!(hand.run_timer().what, AckKind::Loss);
    hand.recovery.on_reduction(20.0, 10.0);
    assert_eq!(hand.send(), [3], "one for the loss");
    hand.write(10);
    hand.ack(3, &[(4, 5), (18, 20)]);
    let pipe = hand.pipe();
    assert_eq!(hand.send().len(), 1);
    while hand.recovery.timer() != Instant::NEVER {
        hand.run_timer();
    }
    assert!(hand.pipe() < pipe, "more is lost");
    assert!(hand.send().len() <= 2);
}

#[test]
fn a_lost_retransmission_is_found_and_sent_again() {
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(1, &[(2, 5)]);
    assert_eq!(hand.send(), [1]);
    hand.write(1);
    hand.advance(1);
    assert_eq!(hand.send(), [11]);
    hand.advance(99);
    assert_eq!(hand.ack(1, &[(2, 11)]).what, AckKind::Duplicate);
    assert_eq!(hand.send(), NOTHING, "nothing arrived that was sent later");
    hand.advance(1);
    assert_eq!(hand.ack(1, &[(2, 12)]).what, AckKind::Duplicate, "still the same recovery");
    assert_eq!(hand.send(), [1]);
    assert_eq!(hand.ack(12, &[]).what, AckKind::Exit);
    assert_eq!(hand.pipe(), 0);
}

#[test]
fn a_lost_retransmission_after_a_time_out_is_found() {
    let mut hand = spaced();
    hand.time_out();
    hand.window = 2;
    assert_eq!(hand.send(), [1, 2]);
    hand.advance(110);
    hand.ack(1, &[(2, 3)]);
    assert_eq!(hand.send(), [1, 3]);
}

#[test]
fn a_lost_tail_is_probed_for_with_its_last_segment() {
    let mut hand = spaced();
    hand.advance(3);
    hand.ack(8, &[]);
    // 8, 9 and 10 are lost; the acknowledgement came at 203 ms.
    assert_eq!(hand.send(), NOTHING);
    let sent_at = millis(hand.now);
    assert_eq!(millis(hand.recovery.timer()), sent_at + 200);
    assert_eq!(hand.run_timer().what, AckKind::Stale);
    assert!(hand.recovery.is_urgent(&hand.config));
    hand.window = 1;
    assert_eq!(hand.send(), [10], "whatever the window");
    assert_eq!(hand.recovery.timer(), Instant::NEVER, "one probe at a time");
    hand.advance(100);
    assert_eq!(hand.ack(8, &[(10, 11)]).what, AckKind::Loss);
    hand.window = 10;
    assert_eq!(hand.send(), [8, 9]);
    hand.write(1);
    hand.send();
    assert_eq!(hand.ack(12, &[]).what, AckKind::Exit, "the loss was reacted to");
}

#[test]
fn new_data_serves_as_a_probe() {
    let mut hand = spaced();
    hand.window = 1;
    hand.write(1);
    assert_eq!(hand.send(), NOTHING);
    hand.run_timer();
    assert_eq!(hand.send(), [11]);
    assert_eq!(hand.ack(12, &[]).what, AckKind::Advance);
    hand.write(1);
    hand.send();
    assert_ne!(hand.recovery.timer(), Instant::NEVER, "it was answered: another may follow");
}

#[test]
fn a_loss_that_a_probe_repaired_reduces_what_was_in_flight() {
    let mut hand = spaced();
    hand.advance(9);
    hand.ack(10, &[]);
    hand.run_timer();
    assert_eq!(hand.send(), [10]);
    hand.advance(100);
    assert_eq!(hand.ack(11, &[]).what, AckKind::Advance, "it may have been the segment itself");
    hand.write(2);
    assert_eq!(hand.send(), [11, 12]);
    hand.advance(100);
    assert_eq!(hand.ack(12, &[]).what, AckKind::Loss);
    assert_eq!(hand.recovery.flight(), MSS);
    hand.recovery.on_reduction(10.0, 5.0);
    assert_eq!(hand.send(), NOTHING, "nothing is to be sent again");
    assert_eq!(hand.ack(13, &[]).what, AckKind::Exit);
}

#[test]
fn a_probe_that_came_twice_repaired_nothing() {
    let mut hand = spaced();
    hand.advance(9);
    hand.ack(10, &[]);
    hand.run_timer();
    hand.send();
    hand.ack(11, &[]);
    assert_eq!(hand.ack(11, &[(10, 11)]), AckOutcome::NONE);
    hand.write(1);
    hand.send();
    assert_eq!(hand.ack(12, &[]).what, AckKind::Advance);
}

#[test]
fn a_probe_waits_longer_for_a_single_segment_but_not_beyond_the_timer() {
    let mut hand = spaced();
    hand.advance(9);
    hand.ack(10, &[]);
    let sent_at = millis(hand.now);
    assert_eq!(millis(hand.recovery.timer()), sent_at + 2 * 100 + 200);
}

#[test]
fn a_probe_needs_a_round_trip_measured_since_the_last_one() {
    // RFC 8985, 7.3: "the sender has obtained an RTT measurement since the last loss probe transmission or, if the
    // sender has not yet sent any loss probes on this connection, since the start of the connection".
    let mut hand = Hand::new(1, rack());
    hand.send();
    assert_eq!(hand.recovery.timer(), Instant::NEVER, "not even the handshake was timed");

    let mut hand = spaced();
    hand.advance(9);
    hand.ack(10, &[]);
    hand.run_timer();
    assert_eq!(hand.send(), [10]);
    hand.advance(100);
    hand.ack(11, &[]);
    hand.ack(11, &[]);
    hand.write(1);
    hand.send();
    assert_eq!(hand.recovery.timer(), Instant::NEVER, "10 was sent twice: it measures nothing");
    hand.advance(100);
    hand.ack(12, &[]);
    hand.write(1);
    hand.send();
    assert_ne!(hand.recovery.timer(), Instant::NEVER);
}

#[test]
fn a_probe_waits_for_twice_the_round_trip_that_the_acknowledgement_has_told() {
    // RFC 8985, 7.2: `PTO = 2 * SRTT`, when the acknowledgement has come.
    let mut hand = spaced();
    hand.advance(9);
    hand.ack(8, &[]);
    hand.sample(180);
    hand.send();
    assert_eq!(millis(hand.recovery.timer()) - millis(hand.now), 2 * 110);
}

#[test]
fn an_acknowledgement_takes_back_a_probe_that_was_not_sent() {
    let mut hand = spaced();
    hand.run_timer();
    hand.ack(5, &[]);
    assert_eq!(hand.send(), NOTHING);
}

#[test]
fn an_acknowledgement_of_nothing_new_does_not_take_a_probe_back() {
    let mut hand = spaced();
    hand.run_timer();
    assert_eq!(hand.ack(1, &[]), AckOutcome::NONE);
    assert_eq!(hand.send(), [10]);
}

#[test]
fn new_data_puts_a_probe_off() {
    // RFC 8985, 7.2: the time counts from "transmitting new data" or from its acknowledgement.
    let mut hand = spaced();
    hand.ack(5, &[]);
    let before = millis(hand.recovery.timer());
    hand.advance(30);
    assert_eq!(millis(hand.recovery.timer()), before);
    hand.write(1);
    hand.send();
    assert_eq!(millis(hand.recovery.timer()), before + 30);
}

#[test]
fn a_time_out_stops_the_timers_of_reordering_and_probes() {
    let mut hand = spaced();
    hand.time_out();
    assert_eq!(hand.recovery.timer(), Instant::NEVER, "a probe was to leave");
    let mut hand = spaced();
    hand.advance(1);
    hand.ack(1, &[(2, 3)]);
    assert_ne!(hand.recovery.timer(), Instant::NEVER, "segment 1 may be lost");
    hand.time_out();
    assert_eq!(hand.recovery.timer(), Instant::NEVER);
}

#[test]
fn there_is_no_probe_while_holes_are_known() {
    let mut hand = spaced();
    hand.advance(1);
    hand.ack(1, &[(2, 3)]);
    assert_eq!(hand.run_timer().what, AckKind::Loss);
    hand.send();
    assert_eq!(hand.recovery.timer(), Instant::NEVER);
}
