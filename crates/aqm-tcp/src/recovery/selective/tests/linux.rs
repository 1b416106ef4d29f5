//! What Linux does otherwise than the RFCs.

use super::*;
use crate::config::recovery::{Frto, PrrBound, PrrShare, RecoveryKind, Reduction, TimeoutLoses, Undo};
use crate::config::rto::{RestartedBy, RttSamples};
use crate::config::sack::NextSeg;

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

#[test]
fn what_may_be_lost_waits_until_it_is_known_to_be() {
    let again = |next_seg| {
        let mut hand = Hand::filled(8, with(sack(), |config| config.sack.next_seg = next_seg));
        hand.window = 20;
        hand.ack(1, &[(2, 5), (6, 7)]);
        hand.send()
    };
    assert_eq!(again(NextSeg::AllRules), [1, 5], "the last lies beyond all that came");
    assert_eq!(again(NextSeg::LostOnly), [1]);
}

#[test]
fn prr_may_divide_by_the_window_before_it_fell() {
    let sends = |prr_share| {
        let config = with(sack(), |config| {
            config.recovery.reduction = Reduction::Prr;
            config.recovery.prr_bound = PrrBound::SafeAck;
            config.recovery.prr_share = prr_share;
        });
        let mut hand = Hand::filled(12, config);
        hand.write(8);
        hand.ack(0, &[(1, 4)]);
        hand.recovery.on_reduction(8.0, 4.0);
        let first = hand.send().len();
        for last in 4..8 {
            hand.ack(0, &[(1, last + 1)]);
        }
        (first, hand.send().len())
    };
    // 3, then 7 have arrived: 1 and 3 of 12 were to leave, or 2 and 4 of 8.
    assert_eq!((sends(PrrShare::Flight), sends(PrrShare::Window)), ((1, 2), (2, 2)));
}

#[test]
fn a_round_trip_is_that_of_the_first_segment_and_of_none_sent_again() {
    let mut hand = Hand::new(1, with(sack(), |config| config.rto.samples = RttSamples::FirstSegment));
    for _ in 0..6 {
        hand.send();
        hand.write(1);
        hand.advance(10);
    }
    let left =
        |outcome: AckOutcome| (outcome.sent != Instant::NEVER).then(|| outcome.sent.nanos() / 1_000_000);
    assert_eq!(left(hand.ack(2, &[])), Some(0));
    assert_eq!(left(hand.ack(2, &[(3, 6)])), Some(30));
    hand.send();
    assert_eq!(left(hand.ack(6, &[])), None, "2 was sent again");
}

#[test]
fn sack_of_what_left_before_the_oldest_restarts_the_timer() {
    let mut hand = Hand::filled(8, sack());
    assert!(!hand.ack(0, &[(1, 2)]).restarts, "the oldest left with it");
    hand.advance(10);
    assert!(!hand.ack(0, &[(1, 4)]).restarts);
    assert_eq!(hand.send(), [0]);
    assert!(hand.ack(0, &[(1, 5)]).restarts, "0 left after it");
    assert!(!hand.ack(5, &[]).restarts, "new data does so anyway");
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
        let mut hand = Hand::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
        hand.window = 1;
        hand.time_out();
        assert_eq!(hand.send(), [0]);
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
fn a_time_out_may_spare_what_left_within_the_last_round_trip() {
    let lost = |timeout_loses| {
        let mut hand = Hand::new(1, with(rack(), |config| config.recovery.timeout_loses = timeout_loses));
        hand.send();
        hand.advance(100);
        hand.sample(100);
        hand.ack(1, &[]);
        hand.write(3);
        hand.send();
        hand.advance(500);
        hand.write(2);
        hand.send();
        hand.advance(50);
        hand.time_out();
        hand.pipe()
    };
    assert_eq!((lost(TimeoutLoses::All), lost(TimeoutLoses::Late)), (0, 2));
}

#[test]
fn a_probe_that_repaired_a_loss_leaves_nothing_to_repair() {
    let config = with(rack(), |config| config.rto.restarted_by = RestartedBy::OldestSegment);
    let mut hand = Hand::new(4, config);
    hand.send();
    hand.advance(100);
    hand.sample(100);
    hand.ack(2, &[]);
    hand.send();
    hand.run_timer();
    assert_eq!(hand.send(), [3], "the probe");
    hand.advance(100);
    hand.ack(3, &[]);
    hand.write(1);
    assert_eq!(hand.send(), [4]);
    hand.advance(100);
    assert_eq!(hand.ack(5, &[]).what, AckKind::Repaired);
}
