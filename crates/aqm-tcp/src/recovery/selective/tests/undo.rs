//! Reductions that are taken back, and F-RTO.

use super::*;
use crate::config::recovery::{Frto, RecoveryKind, Reduction, Undo};
use crate::config::rto::RttSamples;

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

/// Six segments whose timer has run out, the first of which was sent again.
fn timed_out_with_frto() -> Hand {
    let mut hand = Hand::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    hand.window = 1;
    hand.time_out();
    assert_eq!(hand.send(), [0]);
    hand
}

#[test]
fn a_reduction_is_taken_back_when_all_that_was_sent_again_came_twice() {
    let mut hand = Hand::filled(8, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    assert_eq!(hand.ack(0, &[(2, 5)]).what, AckKind::Loss);
    assert_eq!(hand.send(), [0, 1]);
    let outcome = hand.ack(8, &[]);
    assert_eq!((outcome.what, outcome.undone), (AckKind::Exit, false));
    assert!(!hand.ack(8, &[(0, 1)]).undone, "the other is open");
    assert!(hand.ack(8, &[(1, 2)]).undone);
    assert!(!hand.ack(8, &[(1, 2)]).undone, "only once");
}

#[test]
fn a_time_out_is_spurious_if_what_was_sent_once_arrives_after_new_data_left() {
    let timed_out = || {
        let mut hand = timed_out_with_frto();
        hand.write(4);
        hand.window = 2;
        assert!(!hand.ack(1, &[]).undone);
        assert_eq!(hand.send(), [6, 7], "instead of what counts as lost");
        hand
    };
    let mut hand = timed_out();
    assert!(hand.ack(2, &[]).undone);
    hand.window = 20;
    assert_eq!(hand.send(), [8, 9], "nothing is lost any more");

    let mut hand = timed_out();
    assert!(!hand.ack(1, &[(6, 7)]).undone);
    assert_eq!(hand.send(), [1], "it was real");

    let mut hand = timed_out();
    assert!(!hand.ack(1, &[(6, 7)]).undone);
    assert!(!hand.ack(2, &[(6, 7)]).undone, "and stays so (RFC 5682, 3.1, step 3a)");
}

#[test]
fn a_duplicate_after_a_time_out_sends_no_new_data_first() {
    // RFC 5682, 3.1, step 2a.
    let mut hand = timed_out_with_frto();
    hand.write(4);
    hand.window = 2;
    assert!(!hand.ack(0, &[]).undone);
    assert_eq!(hand.send(), [1]);
}

#[test]
fn after_a_spurious_time_out_a_loss_begins_a_recovery() {
    let mut hand = Hand::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    hand.time_out();
    hand.window = 1;
    assert_eq!(hand.send(), [0]);
    assert!(!hand.ack(1, &[]).undone);
    hand.window = 20;
    hand.write(4);
    hand.send();
    assert!(hand.ack(2, &[]).undone);
    assert_eq!(hand.ack(2, &[(3, 6)]).what, AckKind::Loss);
}

#[test]
fn what_was_sent_before_a_doubted_time_out_waits_if_there_is_new_data_and_does_not_if_there_is_none() {
    // RFC 5682, 3.1, step 2b.
    for (new, next, then) in [(2, vec![6, 7], vec![]), (0, vec![1, 2, 3, 4, 5], vec![])] {
        let mut hand = timed_out_with_frto();
        hand.write(new);
        hand.window = 20;
        assert!(!hand.ack(1, &[]).undone);
        assert_eq!((hand.send(), hand.send()), (next, then), "{new} new segments");
    }
}

#[test]
fn a_time_out_is_taken_back_when_all_that_was_sent_again_since_came_twice() {
    let mut hand = Hand::filled(3, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    hand.window = 1;
    hand.time_out();
    assert_eq!(hand.send(), [0]);
    hand.time_out();
    assert_eq!(hand.send(), [0], "twice");
    hand.window = 10;
    assert_eq!(hand.ack(3, &[]).what, AckKind::Advance);
    assert!(!hand.ack(3, &[(0, 1)]).undone, "it was sent again twice");
    assert!(hand.ack(3, &[(0, 1)]).undone);
}

#[test]
fn a_reduction_that_is_taken_back_bounds_the_window_no_more() {
    let config = with(sack(), |config| {
        config.recovery.undo = Undo::Dsack;
        config.recovery.reduction = Reduction::Prr;
    });
    let mut hand = Hand::filled(12, config);
    hand.write(20);
    hand.window = 15;
    hand.ack(0, &[(1, 4)]);
    hand.recovery.on_reduction(12.0, 6.0);
    assert_eq!(hand.send()[0], 0);
    assert_eq!(hand.ack(4, &[]).what, AckKind::Partial);
    assert!(hand.ack(5, &[(0, 1)]).undone);
    hand.send();
    assert_eq!(hand.pipe(), 15);
}

#[test]
fn a_time_out_in_a_recovery_is_not_doubted() {
    let mut hand = Hand::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    hand.ack(0, &[(1, 4)]);
    hand.send();
    hand.time_out();
    hand.window = 2;
    hand.write(4);
    assert_eq!(hand.send(), [0, 4]);
    hand.ack(4, &[]);
    assert_eq!(hand.send(), [5]);
}

#[test]
fn a_reduction_is_taken_back_though_nothing_new_is_acknowledged() {
    // `tcp_try_undo_dsack` in `TCP_CA_Recovery`; what counts as lost does so still.
    let mut hand = Hand::filled(8, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    hand.ack(0, &[(2, 5)]);
    hand.window = 4;
    assert_eq!(hand.send(), [0]);
    assert!(!hand.ack(1, &[(2, 5)]).undone);
    let outcome = hand.ack(1, &[(0, 1), (2, 5)]);
    assert_eq!((outcome.what, outcome.undone), (AckKind::Loss, true));
    assert_eq!(hand.send(), [1]);
}

#[test]
fn without_new_data_nothing_more_tells_that_a_time_out_was_spurious() {
    // RFC 5682, 3.1, step 2b: "skip step 3 of this algorithm"; Linux: `tcp_process_loss`, `tcp_xmit_recovery`.
    let mut hand = timed_out_with_frto();
    hand.window = 2;
    hand.ack(1, &[]);
    assert_eq!(hand.send(), [1, 2]);
    assert!(!hand.ack(4, &[]).undone, "3 was sent once, and too late");
}

#[test]
fn data_that_came_twice_does_not_tell_that_a_time_out_was_real() {
    // `tcp_ack`: with `FLAG_DSACKING_ACK` an acknowledgement is no duplicate.
    let timed_out = || {
        let mut hand = timed_out_with_frto();
        hand.write(4);
        hand.window = 2;
        hand.ack(1, &[]);
        hand.send();
        hand
    };
    let mut hand = timed_out();
    hand.ack(1, &[(0, 1)]);
    assert!(hand.ack(2, &[]).undone);
    let mut hand = timed_out();
    hand.ack(1, &[]);
    assert!(!hand.ack(2, &[]).undone, "a duplicate does");
}

#[test]
fn what_was_sent_twice_gives_no_sample_after_a_time_out_that_was_taken_back() {
    // P. Karn, C. Partridge, 1987; RFC 6298, section 3.
    let config = with(sack(), |config| {
        config.recovery.frto = Frto::On;
        config.rto.samples = RttSamples::Segment;
    });
    let mut hand = Hand::filled(8, config);
    hand.ack(0, &[(1, 4)]);
    assert_eq!(hand.send(), [0]);
    hand.advance(10);
    hand.ack(4, &[]);
    assert_eq!(hand.send(), [7], "the rescue");
    for _ in 0..2 {
        hand.time_out();
        hand.window = 1;
        assert_eq!(hand.send(), [4]);
    }
    hand.write(2);
    hand.window = 2;
    hand.ack(5, &[]);
    assert_eq!(hand.send(), [8, 9]);
    assert!(hand.ack(6, &[]).undone);
    hand.advance(10);
    let outcome = hand.ack(8, &[]);
    assert_eq!((outcome.acked, outcome.sent), (2 * MSS, Instant::START), "6 left at first, and 7 twice");
}

#[test]
fn what_was_sent_twice_may_be_lost_after_a_time_out_that_was_taken_back() {
    // RFC 8985, 6.2, step 5: "For each segment, Segment, not acknowledged yet".
    let mut hand = Hand::new(1, with(rack(), |config| config.recovery.frto = Frto::On));
    hand.send();
    hand.advance(100);
    hand.sample(100);
    hand.ack(1, &[]);
    hand.write(8);
    hand.send();
    hand.run_timer();
    assert_eq!(hand.send(), [8], "the probe");
    hand.advance(100);
    hand.time_out();
    hand.window = 1;
    assert_eq!(hand.send(), [1]);
    hand.write(2);
    hand.window = 3;
    hand.ack(2, &[]);
    assert_eq!(hand.send(), [9, 10]);
    assert!(hand.ack(3, &[]).undone);
    hand.window = 20;
    hand.advance(100);
    hand.ack(8, &[(9, 11)]);
    hand.run_timer();
    assert_eq!(hand.send(), [8], "9 and 10 left after the probe");
}

/// Six segments that left a second after the start, whose timer ran out a second later, and the first of which was sent
/// again; with timestamps.
fn timed_out_with_timestamps() -> Hand {
    let config = with(rack(), |config| {
        config.recovery.undo = Undo::DsackOrTimestamps;
        config.recovery.frto = Frto::On;
        config.rto.samples = RttSamples::FirstSegment;
    });
    let mut hand = Hand::new(6, config);
    hand.now = at_millis(1000);
    assert_eq!(hand.send(), [0, 1, 2, 3, 4, 5]);
    hand.now = at_millis(2000);
    hand.window = 1;
    hand.time_out();
    assert_eq!(hand.send(), [0]);
    hand.window = 20;
    hand
}

fn at_millis(millis: u64) -> Instant {
    Instant::START + Span::from_millis(millis)
}

#[test]
fn a_time_out_is_taken_back_when_the_answer_to_an_original_comes_though_there_is_no_new_data() {
    let mut hand = timed_out_with_timestamps();
    hand.now = at_millis(2100);
    let outcome = hand.ack_echoing(MSS, &[], at_millis(1000));
    assert!(outcome.undone);
    assert_eq!(outcome.sent, at_millis(1000), "the round trip is that of the original");
    assert_eq!(hand.send(), NOTHING, "nothing is lost any more");
}

#[test]
fn a_time_out_stays_when_the_answer_is_to_the_retransmission_or_tells_no_time() {
    for echo in [at_millis(2000), Instant::START] {
        let mut hand = timed_out_with_timestamps();
        hand.now = at_millis(2100);
        assert!(!hand.ack_echoing(MSS, &[], echo).undone);
        assert_eq!(hand.send(), [1, 2, 3, 4, 5], "all of it is lost");
        // What was sent in the same millisecond as the first retransmission is no older by the clock of timestamps.
        assert!(!hand.ack_echoing(2 * MSS, &[], Instant::from_nanos(2_000_100_000)).undone);
    }
}

#[test]
fn a_recovery_is_taken_back_once_no_retransmission_is_in_flight_or_at_its_end() {
    let mut hand = Hand::new(8, with(rack(), |config| config.recovery.undo = Undo::DsackOrTimestamps));
    hand.now = at_millis(1000);
    hand.send();
    hand.now = at_millis(1100);
    assert_eq!(hand.ack(0, &[(2, 8)]).what, AckKind::Loss);
    assert_eq!(hand.send(), [0, 1]);
    assert!(!hand.ack_echoing(MSS, &[(2 * MSS, 8 * MSS)], at_millis(1000)).undone, "one is in flight");
    let outcome = hand.ack_echoing(8 * MSS, &[], at_millis(1000));
    assert_eq!((outcome.what, outcome.undone), (AckKind::Exit, true));
}
