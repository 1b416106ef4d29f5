//! Losses found by counting (RFC 6675), rule by rule: hence its length.

use super::*;
use crate::config::recovery::{FastRetransmitGuard, LimitedTransmit, PrrBound, RecoveryKind, Reduction};
use crate::config::sack::SacksAtTimeout;

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

/// Ten segments of which the first is lost.
fn first_lost() -> Hand {
    let mut hand = Hand::filled(10, sack());
    assert_eq!(hand.ack(0, &[(1, 4)]).what, AckKind::Loss);
    assert_eq!(hand.send(), [0]);
    hand
}

#[test]
fn the_third_segment_beyond_shows_a_loss() {
    let mut hand = Hand::filled(10, sack());
    let outcome = [(1, 2), (1, 3), (1, 4)].map(|range| (hand.ack(0, &[range]).what, hand.pipe()));
    assert_eq!(outcome, [(AckKind::Duplicate, 9), (AckKind::Duplicate, 8), (AckKind::Loss, 6)]);
    assert_eq!(hand.send(), [0], "and only of the first");
}

#[test]
fn one_acknowledgement_can_show_a_loss() {
    let mut hand = Hand::filled(10, sack());
    assert_eq!(hand.ack(0, &[(3, 6)]).what, AckKind::Loss);
    assert_eq!(hand.recovery.dupacks(), 1);
    assert_eq!(hand.send(), [0, 1, 2]);
}

#[test]
fn three_pieces_of_a_segment_beyond_show_a_loss() {
    let mut hand = Hand::new(1, sack());
    for _ in 0..5 {
        hand.next();
        hand.stream.end += 10;
    }
    let outcome = [1010, 1020, 1030].map(|to| hand.ack_bytes(0, &[(1000, to)]).what);
    assert_eq!(outcome, [AckKind::Duplicate, AckKind::Duplicate, AckKind::Loss]);
    hand.write(5);
    assert_eq!(hand.next().map(|sending| (sending.seq, sending.again)), Some((0, true)));
}

#[test]
fn what_is_sent_next_follows_the_rules() {
    let mut hand = Hand::filled(100, sack());
    hand.write(100);
    hand.window = 100;
    assert_eq!(hand.send(), NOTHING, "the window is full");
    hand.ack(0, &[(1, 2)]);
    assert_eq!(hand.send(), [100], "limited transmit");
    hand.ack(0, &[(1, 3)]);
    assert_eq!(hand.send(), [101], "limited transmit");
    assert_eq!(hand.ack(0, &[(1, 4)]).what, AckKind::Loss);
    assert_eq!(hand.next().map(|sending| sending.seq), Some(0), "the head");
    assert_eq!(hand.send(), [102]);
    for (range, new) in [(5, 103), (6, 104), (8, 105), (9, 106)].map(|(to, new)| ((to - 1, to), new)) {
        assert_eq!(hand.ack(0, &[range]).what, AckKind::Duplicate);
        assert_eq!(hand.send(), [new]);
    }
    assert_eq!(hand.recovery.dupacks(), 3, "in recovery none is counted");
    assert_eq!(hand.ack(6, &[(9, 10), (7, 9)]).what, AckKind::Partial);
    assert_eq!(hand.next(), Some(Sending { seq: 6 * MSS, len: MSS, again: true }), "the new head at once");
    assert_eq!(hand.next().map(|sending| sending.seq), Some(107 * MSS), "then new data");
}

#[test]
fn retransmissions_in_flight_are_counted_until_they_arrive() {
    let mut hand = Hand::filled(10, sack());
    hand.window = 4;
    hand.ack(0, &[(5, 8)]);
    assert_eq!(hand.pipe(), 2, "the last two");
    assert_eq!(hand.send(), [0, 1]);
    assert_eq!(hand.pipe(), 4);
    hand.ack(0, &[(1, 2), (5, 8)]);
    assert_eq!(hand.pipe(), 3, "SACKed");
    hand.ack(2, &[(5, 8)]);
    assert_eq!(hand.pipe(), 2, "and not counted twice when acknowledged");
    assert_eq!(hand.send(), [2, 3]);
    assert_eq!(hand.ack(10, &[]).what, AckKind::Exit);
    assert_eq!(hand.pipe(), 0);
}

#[test]
fn a_hole_is_sent_again_once() {
    let mut hand = first_lost();
    for to in 5..=10 {
        hand.ack(0, &[(1, to)]);
        assert_eq!(hand.send(), NOTHING);
    }
}

#[test]
fn a_recovery_ends_when_all_is_acknowledged_that_was_sent_before_it() {
    let mut hand = first_lost();
    hand.write(5);
    assert_eq!(hand.send(), [10, 11, 12, 13, 14]);
    assert_eq!(hand.ack(8, &[]).what, AckKind::Partial);
    assert_eq!(hand.ack(10, &[]).what, AckKind::Exit);
    assert_eq!(hand.ack(11, &[]).what, AckKind::Advance);
}

#[test]
fn a_hole_repaired_already_does_not_begin_another_recovery() {
    let mut hand = first_lost();
    hand.write(6);
    assert_eq!(hand.send(), [10, 11, 12, 13, 14, 15]);
    hand.ack(0, &[(12, 15), (1, 10)]);
    assert_eq!(hand.send(), [10, 11], "new data of the recovery is lost, too");
    assert_eq!(hand.ack(10, &[(12, 15)]).what, AckKind::Exit);
    assert_eq!(hand.ack(10, &[(12, 16)]).what, AckKind::Duplicate);
    hand.write(4);
    hand.send();
    for to in 17..=20 {
        assert_eq!(hand.ack(10, &[(12, to)]).what, AckKind::Duplicate);
    }
    assert_eq!(hand.send(), NOTHING);
}

#[test]
fn a_hole_that_was_not_repaired_begins_another_recovery_when_the_first_ends() {
    let mut hand = first_lost();
    hand.window = 1;
    hand.write(6);
    hand.window = 100;
    hand.send();
    hand.window = 1;
    hand.ack(0, &[(11, 14), (1, 10)]);
    let outcome = hand.ack(10, &[(11, 14)]);
    assert_eq!((outcome.what, outcome.acked), (AckKind::Loss, 10 * MSS));
    assert_eq!(hand.send(), [10]);
}

#[test]
fn a_tail_is_rescued_once_a_recovery() {
    let mut hand = Hand::filled(10, sack());
    // 0 and everything from 5 on is lost.
    hand.ack(0, &[(1, 5)]);
    assert_eq!(hand.send(), [0]);
    assert_eq!(hand.ack(5, &[]).what, AckKind::Partial);
    assert_eq!(hand.send(), [9]);
    let outcome = hand.ack(5, &[(9, 10)]);
    assert_eq!(outcome.what, AckKind::Duplicate);
    assert_eq!(hand.send(), [5, 6, 7, 8], "not known to be lost, but there is nothing else to send");
    hand.write(1);
    assert_eq!(hand.send(), [10]);
    assert_eq!(hand.ack(9, &[]).what, AckKind::Partial);
    assert_eq!(hand.send(), NOTHING);
}

#[test]
fn prr_sends_a_segment_more_if_an_acknowledgement_shows_no_further_loss() {
    let config = with(sack(), |config| {
        config.recovery.reduction = Reduction::Prr;
        config.recovery.prr_bound = PrrBound::SafeAck;
    });
    let opened = [(1, vec![]), (1, vec![(6, 9)])].map(|(ack, ranges)| {
        let mut hand = Hand::filled(12, config.clone());
        hand.ack(0, &[(2, 5)]);
        hand.recovery.on_reduction(12.0, 11.0);
        assert_eq!(hand.send(), [0, 1]);
        let delivered = ack + ranges.iter().map(|(from, to)| to - from).sum::<u64>();
        hand.ack(ack, &ranges);
        // Three were delivered at entry, and two sent.
        hand.recovery.window - hand.recovery.outstanding() - (delivered + 1) * MSS
    });
    assert_eq!(opened, [MSS, 0]);
}

#[test]
fn data_that_came_twice_is_no_duplicate_acknowledgement() {
    let mut hand = Hand::filled(10, sack());
    hand.ack(5, &[]);
    for _ in 0..5 {
        assert_eq!(hand.ack(5, &[(2, 3)]), AckOutcome::NONE);
    }
    hand.ack(5, &[(7, 9)]);
    for _ in 0..5 {
        assert_eq!(hand.ack(5, &[(7, 8), (7, 9)]), AckOutcome::NONE, "inside of the second block");
    }
    assert_eq!((hand.recovery.dupacks(), hand.pipe()), (1, 3));
}

#[test]
fn blocks_that_make_no_sense_are_ignored() {
    let mut hand = Hand::filled(10, sack());
    hand.ack(4, &[]);
    for range in [(3, 6), (4, 6), (2, 2), (6, 6), (8, 11), (12, 14)] {
        assert_eq!(hand.ack(4, &[range]), AckOutcome::NONE, "{range:?}");
    }
    assert_eq!(hand.ack(11, &[(5, 6)]), AckOutcome::NONE, "an acknowledgement of what was never sent");
    assert_eq!(hand.pipe(), 6);
    assert_eq!(hand.ack_bytes(4000, &[(5500, 6500)]), AckOutcome::NONE, "no segment is covered");
    assert_eq!(hand.ack(3, &[(6, 7)]).what, AckKind::Duplicate, "old, but with new SACK");
}

#[test]
fn an_acknowledgement_may_end_within_a_segment() {
    let mut hand = Hand::filled(10, sack());
    assert_eq!(hand.ack_bytes(1500, &[(3000, 6000)]).acked, 1500);
    assert_eq!(hand.recovery.outstanding(), 4000);
    let sent: Vec<_> = std::iter::from_fn(|| hand.next()).map(|sending| (sending.seq, sending.len)).collect();
    assert_eq!(sent, [(1500, 500), (2000, 1000)]);
    assert_eq!(hand.recovery.outstanding(), 5500);
    assert_eq!(hand.ack_bytes(1700, &[]).acked, 200);
    assert_eq!(hand.recovery.outstanding(), 5300);
    assert_eq!(hand.ack_bytes(3500, &[]).what, AckKind::Partial);
    assert_eq!(hand.recovery.outstanding(), 4000);
    assert_eq!(hand.ack(10, &[]).acked, 6500);
    assert_eq!(hand.recovery.outstanding(), 0);
}

#[test]
fn without_losses_an_acknowledgement_may_end_within_a_segment_too() {
    let mut hand = Hand::filled(3, sack());
    assert_eq!(hand.ack_bytes(1500, &[]).what, AckKind::Advance);
    hand.time_out();
    assert_eq!(hand.next(), Some(Sending { seq: 1500, len: 500, again: true }));
}

#[test]
fn pieces_and_a_fin_are_sent_again_as_they_were_sent() {
    let mut hand = Hand::new(0, sack());
    for end in [300, 1400, 1500] {
        hand.stream.end = end;
        hand.send();
    }
    hand.stream.fin = true;
    hand.send();
    hand.ack_bytes(300, &[]);
    hand.time_out();
    let sent: Vec<_> = std::iter::from_fn(|| hand.next()).map(|sending| (sending.seq, sending.len)).collect();
    assert_eq!(sent, [(300, 1000), (1300, 100), (1400, 100), (1500, 1)]);
    assert_eq!(hand.ack_bytes(1501, &[]).acked, 1201);
    assert_eq!(hand.next(), None, "there is no segment without length");
}

#[test]
fn limited_transmit_is_not_part_of_the_flight_size() {
    use LimitedTransmit::{New, Off};
    let cases = [(RecoveryKind::Sack, New, vec![10, 11]), (RecoveryKind::Sack, Off, vec![])];
    for (kind, limited_transmit, new) in cases.into_iter().chain([(RecoveryKind::Rack, New, vec![10, 11])]) {
        let config = with(Config::default(), |config| {
            config.recovery.kind = kind;
            config.recovery.limited_transmit = limited_transmit;
        });
        let mut hand = Hand::filled(10, config);
        assert!(!hand.recovery.is_urgent(&hand.config));
        hand.advance(100);
        hand.sample(100);
        hand.window = 10;
        hand.write(10);
        hand.ack(0, &[(1, 2)]);
        let mut sent = hand.send();
        hand.ack(0, &[(1, 3)]);
        assert!(hand.recovery.is_urgent(&hand.config));
        sent.extend(hand.send());
        assert_eq!(sent, new);
        assert_eq!(hand.recovery.flight(), 10 * MSS);
        assert_eq!(hand.ack(0, &[(1, 4)]).what, AckKind::Loss);
        assert_eq!(hand.recovery.flight(), 10 * MSS, "nor of what a loss halves");
    }
}

#[test]
fn a_time_out_forgets_the_duplicates_before_it_and_limited_transmit() {
    let mut hand = Hand::filled(10, sack());
    hand.window = 10;
    hand.write(10);
    hand.ack(0, &[(1, 3)]);
    assert_eq!((hand.recovery.dupacks(), hand.send()), (1, vec![10, 11]));
    hand.time_out();
    assert_eq!((hand.recovery.dupacks(), hand.recovery.flight()), (0, 12 * MSS));
}

#[test]
fn the_first_retransmission_leaves_whatever_the_window_though_more_duplicates_come_before() {
    let mut hand = Hand::filled(10, sack());
    hand.window = 1;
    assert_eq!(hand.ack(0, &[(1, 4)]).what, AckKind::Loss);
    hand.ack(0, &[(1, 5)]);
    assert_eq!(hand.send(), [0]);
}

#[test]
fn after_a_recovery_or_a_time_out_prr_bounds_the_window_no_more() {
    for times_out in [false, true] {
        let mut hand = Hand::filled(12, with(sack(), |config| config.recovery.reduction = Reduction::Prr));
        hand.ack(0, &[(1, 4)]);
        hand.recovery.on_reduction(12.0, 6.0);
        assert_eq!(hand.send(), [0]);
        hand.write(20);
        hand.window = 9;
        if times_out {
            hand.time_out();
        } else {
            hand.ack(12, &[]);
        }
        assert_eq!(hand.send().len(), 9);
    }
}

#[test]
fn the_receivers_window_bounds_new_data() {
    let mut hand = Hand::new(20, sack());
    let windows = Windows { congestion: 100, receiver: 5, mss: MSS };
    let at = TimerContext { now: hand.now, estimator: &hand.estimator, config: &hand.config.rto };
    hand.recovery.set_windows(windows, &hand.config);
    let sent = std::iter::from_fn(|| hand.recovery.next(hand.stream, at)).count();
    assert_eq!(sent, 5);
}

#[test]
fn after_a_time_out_only_holes_are_sent_again_unless_sack_is_forgotten() {
    for (sacks_at_timeout, again) in [
        (SacksAtTimeout::Kept, vec![0, 1, 4, 7, 8, 9]),
        (SacksAtTimeout::Forgotten, vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ] {
        let mut hand = Hand::filled(10, with(sack(), |config| config.sack.at_timeout = sacks_at_timeout));
        hand.ack(0, &[(5, 7), (2, 4)]);
        hand.send();
        hand.time_out();
        assert_eq!(hand.pipe(), 0);
        hand.window = 1;
        assert_eq!(hand.send(), [0], "one segment after a time-out");
        hand.window = 2;
        hand.ack(1, &[(5, 7), (2, 4)]);
        assert_eq!(hand.send().first(), Some(&1));
        hand.window = 100;
        hand.time_out();
        hand.write(1);
        let mut sent = vec![0];
        sent.extend(hand.send());
        let mut expected = again;
        expected.push(10);
        assert_eq!(sent, expected, "{sacks_at_timeout:?}");
    }
}

#[test]
fn a_receiver_that_discarded_what_it_sacked_gets_it_again() {
    let mut hand = Hand::filled(6, sack());
    hand.ack(0, &[(1, 3)]);
    assert_eq!(hand.ack(1, &[]).what, AckKind::Advance);
    hand.time_out();
    assert_eq!(hand.send(), [1, 2, 3, 4, 5]);
}

#[test]
fn no_recovery_begins_after_a_time_out_unless_the_guard_allows() {
    use FastRetransmitGuard::{None, Recover, RecoverOrFirst};
    for (guard, at_first, later) in
        [(None, true, true), (Recover, false, false), (RecoverOrFirst, true, false)]
    {
        for (una, expected) in [(0, at_first), (5, later)] {
            let mut hand =
                Hand::filled(20, with(sack(), |config| config.recovery.fast_retransmit_guard = guard));
            hand.ack(una, &[]);
            hand.time_out();
            assert_eq!(hand.send().len() as u64, 20 - una);
            let mut lost = false;
            for to in una + 2..una + 6 {
                lost |= hand.ack(una, &[(una + 1, to)]).what == AckKind::Loss;
            }
            assert_eq!(lost, expected, "{guard:?} with {una} acknowledged");
            assert_eq!(hand.send(), if expected { vec![una] } else { vec![] });
        }
    }
}

#[test]
fn losses_of_new_data_after_a_time_out_begin_a_recovery_when_the_old_data_is_acknowledged() {
    let mut hand = Hand::filled(4, sack());
    hand.time_out();
    hand.write(6);
    assert_eq!(hand.send(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(hand.ack(3, &[(5, 9)]).what, AckKind::Advance);
    assert_eq!(hand.send(), NOTHING);
    assert_eq!(hand.ack(4, &[(5, 10)]).what, AckKind::Loss);
    assert_eq!(hand.send(), [4]);
}

#[test]
fn a_lost_retransmission_holds_a_place_until_the_time_out() {
    let mut hand = first_lost();
    hand.window = 3;
    hand.ack(0, &[(1, 10)]);
    assert_eq!((hand.pipe(), hand.send()), (1, vec![]));
    hand.write(5);
    assert_eq!(hand.send(), [10, 11]);
    hand.ack(0, &[(1, 12)]);
    assert_eq!(hand.send(), [12, 13], "the rest of the window is used");
    hand.time_out();
    assert_eq!(hand.send(), [0, 12, 13]);
}

#[test]
fn a_time_out_takes_back_a_retransmission_that_was_not_sent() {
    let mut hand = Hand::filled(10, sack());
    hand.ack(0, &[(4, 7)]);
    assert!(hand.recovery.is_urgent(&hand.config));
    hand.time_out();
    assert!(!hand.recovery.is_urgent(&hand.config));
    hand.window = 1;
    assert_eq!(hand.send(), [0]);
}

#[test]
fn a_retransmission_not_sent_yet_is_not_sent_once_its_segment_arrives() {
    let mut hand = Hand::filled(10, sack());
    hand.window = 1;
    hand.ack(0, &[(2, 5)]);
    hand.ack(2, &[(2, 5)]);
    assert_eq!(hand.send(), NOTHING);
    assert!(!hand.recovery.is_urgent(&hand.config));
}

#[test]
fn the_newest_arrival_that_was_sent_once_is_timed() {
    let mut hand = Hand::new(0, sack());
    for _ in 0..10 {
        hand.write(1);
        hand.send();
        hand.advance(1);
    }
    let millis = |outcome: AckOutcome| outcome.sent.nanos() / 1_000_000;
    assert_eq!(millis(hand.ack(2, &[])), 1);
    assert_eq!(millis(hand.ack(2, &[(3, 7)])), 6);
    assert_eq!(hand.send(), [2]);
    assert_eq!(hand.ack(3, &[(3, 7)]).sent, Instant::NEVER, "sent twice");
    assert_eq!(millis(hand.ack(9, &[])), 8);
}

#[test]
fn prr_lets_half_as_much_go_as_arrives() {
    let mut hand = Hand::filled(20, with(sack(), |config| config.recovery.reduction = Reduction::Prr));
    hand.write(20);
    assert_eq!(hand.ack(0, &[(1, 4)]).what, AckKind::Loss);
    hand.window = 10;
    hand.recovery.on_reduction(20.0, 10.0);
    let mut sent = hand.send();
    for to in 5..=20 {
        hand.ack(0, &[(1, to)]);
        let now = hand.send();
        assert!(now.len() <= 1, "no burst");
        sent.extend(now);
    }
    assert_eq!(sent, [0, 20, 21, 22, 23, 24, 25, 26, 27, 28]);
    assert_eq!(hand.pipe(), 10);
    assert_eq!(hand.ack(21, &[]).what, AckKind::Exit);
    assert_eq!(hand.send(), [29, 30], "then the congestion window holds");
}

#[test]
fn rate_halving_lets_one_go_with_every_second_acknowledgement() {
    let mut hand =
        Hand::filled(20, with(sack(), |config| config.recovery.reduction = Reduction::RateHalving));
    hand.write(20);
    hand.ack(0, &[(1, 4)]);
    hand.window = 10;
    hand.recovery.on_reduction(20.0, 10.0);
    assert_eq!(hand.send(), [0]);
    // After the first retransmission 17 are in flight, a segment more than before it.
    let mut sent = Vec::new();
    for to in 5..=20 {
        hand.ack(0, &[(1, to)]);
        sent.push(hand.send().len());
    }
    assert_eq!(sent, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1]);
    assert_eq!(hand.pipe(), 10);
}
