//! Tests of loss detection by counting (RFC 6675). The file is long because every rule has its own tests.

use super::*;
use crate::config::recovery::{FastRetransmitGuard, LimitedTransmit, PrrBound, RecoveryKind, Reduction};
use crate::config::sack::SacksAtTimeout;

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

/// Creates a driver that has sent ten segments, of which the first is lost.
fn first_lost() -> Driver {
    let mut driver = Driver::filled(10, sack());
    assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [0]);
    driver
}

#[test]
fn the_third_segment_beyond_shows_a_loss() {
    let mut driver = Driver::filled(10, sack());
    let outcome = [(1, 2), (1, 3), (1, 4)].map(|range| (driver.ack(0, &[range]).kind, driver.pipe()));
    assert_eq!(outcome, [(AckKind::Duplicate, 9), (AckKind::Duplicate, 8), (AckKind::Loss, 6)]);
    assert_eq!(driver.send(), [0], "only the first segment is lost");
}

#[test]
fn one_acknowledgement_can_show_a_loss() {
    let mut driver = Driver::filled(10, sack());
    assert_eq!(driver.ack(0, &[(3, 6)]).kind, AckKind::Loss);
    assert_eq!(driver.recovery.dupacks(), 1);
    assert_eq!(driver.send(), [0, 1, 2]);
}

#[test]
fn three_pieces_of_a_segment_beyond_show_a_loss() {
    let mut driver = Driver::new(1, sack());
    for _ in 0..5 {
        driver.next();
        driver.stream.end += 10;
    }
    let outcome = [1010, 1020, 1030].map(|to| driver.ack_bytes(0, &[(1000, to)]).kind);
    assert_eq!(outcome, [AckKind::Duplicate, AckKind::Duplicate, AckKind::Loss]);
    driver.write(5);
    assert_eq!(driver.next().map(|sending| (sending.seq, sending.is_retransmission)), Some((0, true)));
}

#[test]
fn the_next_transmission_follows_the_rules() {
    let mut driver = Driver::filled(100, sack());
    driver.write(100);
    driver.window = 100;
    assert_eq!(driver.send(), NOTHING, "the window is full");
    driver.ack(0, &[(1, 2)]);
    assert_eq!(driver.send(), [100], "limited transmit");
    driver.ack(0, &[(1, 3)]);
    assert_eq!(driver.send(), [101], "limited transmit");
    assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
    assert_eq!(driver.next().map(|sending| sending.seq), Some(0), "the head");
    assert_eq!(driver.send(), [102]);
    for (range, new) in [(5, 103), (6, 104), (8, 105), (9, 106)].map(|(to, new)| ((to - 1, to), new)) {
        assert_eq!(driver.ack(0, &[range]).kind, AckKind::Duplicate);
        assert_eq!(driver.send(), [new]);
    }
    assert_eq!(driver.recovery.dupacks(), 3, "in recovery duplicates are not counted");
    assert_eq!(driver.ack(6, &[(9, 10), (7, 9)]).kind, AckKind::Partial);
    assert_eq!(
        driver.next(),
        Some(Transmission { seq: 6 * MSS, len: MSS, is_retransmission: true }),
        "the new head at once"
    );
    assert_eq!(driver.next().map(|sending| sending.seq), Some(107 * MSS), "then new data");
}

#[test]
fn retransmissions_in_flight_are_counted_until_they_arrive() {
    let mut driver = Driver::filled(10, sack());
    driver.window = 4;
    driver.ack(0, &[(5, 8)]);
    assert_eq!(driver.pipe(), 2, "the last two");
    assert_eq!(driver.send(), [0, 1]);
    assert_eq!(driver.pipe(), 4);
    driver.ack(0, &[(1, 2), (5, 8)]);
    assert_eq!(driver.pipe(), 3, "SACKed");
    driver.ack(2, &[(5, 8)]);
    assert_eq!(driver.pipe(), 2, "and not counted twice when acknowledged");
    assert_eq!(driver.send(), [2, 3]);
    assert_eq!(driver.ack(10, &[]).kind, AckKind::Exit);
    assert_eq!(driver.pipe(), 0);
}

#[test]
fn a_hole_is_retransmitted_once() {
    let mut driver = first_lost();
    for to in 5..=10 {
        driver.ack(0, &[(1, to)]);
        assert_eq!(driver.send(), NOTHING);
    }
}

#[test]
fn a_recovery_ends_when_all_is_acknowledged_that_was_sent_before_it() {
    let mut driver = first_lost();
    driver.write(5);
    assert_eq!(driver.send(), [10, 11, 12, 13, 14]);
    assert_eq!(driver.ack(8, &[]).kind, AckKind::Partial);
    assert_eq!(driver.ack(10, &[]).kind, AckKind::Exit);
    assert_eq!(driver.ack(11, &[]).kind, AckKind::Advance);
}

#[test]
fn a_hole_repaired_already_does_not_begin_another_recovery() {
    let mut driver = first_lost();
    driver.write(6);
    assert_eq!(driver.send(), [10, 11, 12, 13, 14, 15]);
    driver.ack(0, &[(12, 15), (1, 10)]);
    assert_eq!(driver.send(), [10, 11], "new data of the recovery is lost, too");
    assert_eq!(driver.ack(10, &[(12, 15)]).kind, AckKind::Exit);
    assert_eq!(driver.ack(10, &[(12, 16)]).kind, AckKind::Duplicate);
    driver.write(4);
    driver.send();
    for to in 17..=20 {
        assert_eq!(driver.ack(10, &[(12, to)]).kind, AckKind::Duplicate);
    }
    assert_eq!(driver.send(), NOTHING);
}

#[test]
fn a_hole_that_was_not_repaired_begins_another_recovery_when_the_first_ends() {
    let mut driver = first_lost();
    driver.window = 1;
    driver.write(6);
    driver.window = 100;
    driver.send();
    driver.window = 1;
    driver.ack(0, &[(11, 14), (1, 10)]);
    let outcome = driver.ack(10, &[(11, 14)]);
    assert_eq!((outcome.kind, outcome.acked), (AckKind::Loss, 10 * MSS));
    assert_eq!(driver.send(), [10]);
}

#[test]
fn a_tail_is_rescued_once_a_recovery() {
    let mut driver = Driver::filled(10, sack());
    // Segment 0 and all segments from segment 5 onwards are lost.
    driver.ack(0, &[(1, 5)]);
    assert_eq!(driver.send(), [0]);
    assert_eq!(driver.ack(5, &[]).kind, AckKind::Partial);
    assert_eq!(driver.send(), [9]);
    let outcome = driver.ack(5, &[(9, 10)]);
    assert_eq!(outcome.kind, AckKind::Duplicate);
    assert_eq!(driver.send(), [5, 6, 7, 8], "not known to be lost, but no other data remains");
    driver.write(1);
    assert_eq!(driver.send(), [10]);
    assert_eq!(driver.ack(9, &[]).kind, AckKind::Partial);
    assert_eq!(driver.send(), NOTHING);
}

#[test]
fn prr_sends_a_segment_more_if_an_acknowledgement_shows_no_further_loss() {
    let config = with(sack(), |config| {
        config.recovery.reduction = Reduction::Prr;
        config.recovery.prr_bound = PrrBound::SafeAck;
    });
    let opened = [(1, vec![]), (1, vec![(6, 9)])].map(|(ack, ranges)| {
        let mut driver = Driver::filled(12, config.clone());
        driver.ack(0, &[(2, 5)]);
        driver.recovery.on_reduction(12.0, 11.0);
        assert_eq!(driver.send(), [0, 1]);
        let delivered = ack + ranges.iter().map(|(from, to)| to - from).sum::<u64>();
        driver.ack(ack, &ranges);
        // Three segments had been delivered when the recovery began, and two segments have been sent since then.
        driver.recovery.window - driver.recovery.outstanding() - (delivered + 1) * MSS
    });
    assert_eq!(opened, [MSS, 0]);
}

#[test]
fn d_sack_is_not_a_duplicate_acknowledgement() {
    let mut driver = Driver::filled(10, sack());
    driver.ack(5, &[]);
    for _ in 0..5 {
        assert_eq!(driver.ack(5, &[(2, 3)]), AckOutcome::NONE);
    }
    driver.ack(5, &[(7, 9)]);
    for _ in 0..5 {
        assert_eq!(driver.ack(5, &[(7, 8), (7, 9)]), AckOutcome::NONE, "within the second block");
    }
    assert_eq!((driver.recovery.dupacks(), driver.pipe()), (1, 3));
}

#[test]
fn blocks_that_make_no_sense_are_ignored() {
    let mut driver = Driver::filled(10, sack());
    driver.ack(4, &[]);
    for range in [(3, 6), (4, 6), (2, 2), (6, 6), (8, 11), (12, 14)] {
        assert_eq!(driver.ack(4, &[range]), AckOutcome::NONE, "{range:?}");
    }
    assert_eq!(driver.ack(11, &[(5, 6)]), AckOutcome::NONE, "an acknowledgement of data that was never sent");
    assert_eq!(driver.pipe(), 6);
    assert_eq!(driver.ack_bytes(4000, &[(5500, 6500)]), AckOutcome::NONE, "no segment is covered");
    assert_eq!(driver.ack(3, &[(6, 7)]).kind, AckKind::Duplicate, "old, but with new SACK");
}

#[test]
fn an_acknowledgement_may_end_within_a_segment() {
    let mut driver = Driver::filled(10, sack());
    assert_eq!(driver.ack_bytes(1500, &[(3000, 6000)]).acked, 1500);
    assert_eq!(driver.recovery.outstanding(), 4000);
    let sent: Vec<_> =
        std::iter::from_fn(|| driver.next()).map(|sending| (sending.seq, sending.len)).collect();
    assert_eq!(sent, [(1500, 500), (2000, 1000)]);
    assert_eq!(driver.recovery.outstanding(), 5500);
    assert_eq!(driver.ack_bytes(1700, &[]).acked, 200);
    assert_eq!(driver.recovery.outstanding(), 5300);
    assert_eq!(driver.ack_bytes(3500, &[]).kind, AckKind::Partial);
    assert_eq!(driver.recovery.outstanding(), 4000);
    assert_eq!(driver.ack(10, &[]).acked, 6500);
    assert_eq!(driver.recovery.outstanding(), 0);
}

#[test]
fn without_losses_an_acknowledgement_may_end_within_a_segment_too() {
    let mut driver = Driver::filled(3, sack());
    assert_eq!(driver.ack_bytes(1500, &[]).kind, AckKind::Advance);
    driver.time_out();
    assert_eq!(driver.next(), Some(Transmission { seq: 1500, len: 500, is_retransmission: true }));
}

#[test]
fn small_segments_and_a_fin_are_retransmitted_unchanged() {
    let mut driver = Driver::new(0, sack());
    for end in [300, 1400, 1500] {
        driver.stream.end = end;
        driver.send();
    }
    driver.stream.fin = true;
    driver.send();
    driver.ack_bytes(300, &[]);
    driver.time_out();
    let sent: Vec<_> =
        std::iter::from_fn(|| driver.next()).map(|sending| (sending.seq, sending.len)).collect();
    assert_eq!(sent, [(300, 1000), (1300, 100), (1400, 100), (1500, 1)]);
    assert_eq!(driver.ack_bytes(1501, &[]).acked, 1201);
    assert_eq!(driver.next(), None, "there is no segment without length");
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
        let mut driver = Driver::filled(10, config);
        assert!(!driver.recovery.is_urgent(&driver.config));
        driver.advance(100);
        driver.sample(100);
        driver.window = 10;
        driver.write(10);
        driver.ack(0, &[(1, 2)]);
        let mut sent = driver.send();
        driver.ack(0, &[(1, 3)]);
        assert!(driver.recovery.is_urgent(&driver.config));
        sent.extend(driver.send());
        assert_eq!(sent, new);
        assert_eq!(driver.recovery.flight(), 10 * MSS);
        assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
        assert_eq!(driver.recovery.flight(), 10 * MSS, "nor of the basis of a reduction");
    }
}

#[test]
fn a_timeout_resets_duplicates_and_limited_transmit() {
    let mut driver = Driver::filled(10, sack());
    driver.window = 10;
    driver.write(10);
    driver.ack(0, &[(1, 3)]);
    assert_eq!((driver.recovery.dupacks(), driver.send()), (1, vec![10, 11]));
    driver.time_out();
    assert_eq!((driver.recovery.dupacks(), driver.recovery.flight()), (0, 12 * MSS));
}

#[test]
fn the_first_retransmission_is_independent_of_the_window_and_of_further_duplicates() {
    let mut driver = Driver::filled(10, sack());
    driver.window = 1;
    assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
    driver.ack(0, &[(1, 5)]);
    assert_eq!(driver.send(), [0]);
}

#[test]
fn after_a_recovery_or_a_timeout_prr_no_longer_limits_the_window() {
    for times_out in [false, true] {
        let mut driver =
            Driver::filled(12, with(sack(), |config| config.recovery.reduction = Reduction::Prr));
        driver.ack(0, &[(1, 4)]);
        driver.recovery.on_reduction(12.0, 6.0);
        assert_eq!(driver.send(), [0]);
        driver.write(20);
        driver.window = 9;
        if times_out {
            driver.time_out();
        } else {
            driver.ack(12, &[]);
        }
        assert_eq!(driver.send().len(), 9);
    }
}

#[test]
fn the_receivers_window_bounds_new_data() {
    let mut driver = Driver::new(20, sack());
    let windows = Windows { congestion: 100, receiver: 5, mss: MSS };
    let at = TimerContext { now: driver.now, estimator: &driver.estimator, config: &driver.config.rto };
    driver.recovery.set_windows(windows, &driver.config);
    let sent = std::iter::from_fn(|| driver.recovery.next(driver.stream, at)).count();
    assert_eq!(sent, 5);
}

#[test]
fn after_a_timeout_only_holes_are_retransmitted_unless_the_scoreboard_is_cleared() {
    for (sacks_at_timeout, retransmissions) in [
        (SacksAtTimeout::Kept, vec![0, 1, 4, 7, 8, 9]),
        (SacksAtTimeout::Forgotten, vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ] {
        let mut driver = Driver::filled(10, with(sack(), |config| config.sack.at_timeout = sacks_at_timeout));
        driver.ack(0, &[(5, 7), (2, 4)]);
        driver.send();
        driver.time_out();
        assert_eq!(driver.pipe(), 0);
        driver.window = 1;
        assert_eq!(driver.send(), [0], "one segment after a timeout");
        driver.window = 2;
        driver.ack(1, &[(5, 7), (2, 4)]);
        assert_eq!(driver.send().first(), Some(&1));
        driver.window = 100;
        driver.time_out();
        driver.write(1);
        let mut sent = vec![0];
        sent.extend(driver.send());
        let mut expected = retransmissions;
        expected.push(10);
        assert_eq!(sent, expected, "{sacks_at_timeout:?}");
    }
}

#[test]
fn data_sacked_and_then_discarded_is_retransmitted() {
    let mut driver = Driver::filled(6, sack());
    driver.ack(0, &[(1, 3)]);
    assert_eq!(driver.ack(1, &[]).kind, AckKind::Advance);
    driver.time_out();
    assert_eq!(driver.send(), [1, 2, 3, 4, 5]);
}

#[test]
fn no_recovery_begins_after_a_timeout_unless_the_guard_allows() {
    use FastRetransmitGuard::{None, Recover, RecoverOrFirst};
    for (guard, at_first, later) in
        [(None, true, true), (Recover, false, false), (RecoverOrFirst, true, false)]
    {
        for (una, expected) in [(0, at_first), (5, later)] {
            let mut driver =
                Driver::filled(20, with(sack(), |config| config.recovery.fast_retransmit_guard = guard));
            driver.ack(una, &[]);
            driver.time_out();
            assert_eq!(driver.send().len() as u64, 20 - una);
            let mut lost = false;
            for to in una + 2..una + 6 {
                lost |= driver.ack(una, &[(una + 1, to)]).kind == AckKind::Loss;
            }
            assert_eq!(lost, expected, "{guard:?} with {una} acknowledged");
            assert_eq!(driver.send(), if expected { vec![una] } else { vec![] });
        }
    }
}

#[test]
fn losses_of_new_data_after_a_timeout_begin_a_recovery_when_the_old_data_is_acknowledged() {
    let mut driver = Driver::filled(4, sack());
    driver.time_out();
    driver.write(6);
    assert_eq!(driver.send(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(driver.ack(3, &[(5, 9)]).kind, AckKind::Advance);
    assert_eq!(driver.send(), NOTHING);
    assert_eq!(driver.ack(4, &[(5, 10)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [4]);
}

#[test]
fn a_lost_retransmission_occupies_the_pipe_until_the_timeout() {
    let mut driver = first_lost();
    driver.window = 3;
    driver.ack(0, &[(1, 10)]);
    assert_eq!((driver.pipe(), driver.send()), (1, vec![]));
    driver.write(5);
    assert_eq!(driver.send(), [10, 11]);
    driver.ack(0, &[(1, 12)]);
    assert_eq!(driver.send(), [12, 13], "the rest of the window is used");
    driver.time_out();
    assert_eq!(driver.send(), [0, 12, 13]);
}

#[test]
fn a_timeout_cancels_an_unsent_retransmission() {
    let mut driver = Driver::filled(10, sack());
    driver.ack(0, &[(4, 7)]);
    assert!(driver.recovery.is_urgent(&driver.config));
    driver.time_out();
    assert!(!driver.recovery.is_urgent(&driver.config));
    driver.window = 1;
    assert_eq!(driver.send(), [0]);
}

#[test]
fn a_retransmission_not_sent_yet_is_not_sent_once_its_segment_arrives() {
    let mut driver = Driver::filled(10, sack());
    driver.window = 1;
    driver.ack(0, &[(2, 5)]);
    driver.ack(2, &[(2, 5)]);
    assert_eq!(driver.send(), NOTHING);
    assert!(!driver.recovery.is_urgent(&driver.config));
}

#[test]
fn the_newest_arrival_that_was_sent_once_is_timed() {
    let mut driver = Driver::new(0, sack());
    for _ in 0..10 {
        driver.write(1);
        driver.send();
        driver.advance(1);
    }
    let millis = |outcome: AckOutcome| outcome.sent.nanos() / 1_000_000;
    assert_eq!(millis(driver.ack(2, &[])), 1);
    assert_eq!(millis(driver.ack(2, &[(3, 7)])), 6);
    assert_eq!(driver.send(), [2]);
    assert_eq!(driver.ack(3, &[(3, 7)]).sent, Instant::NEVER, "sent twice");
    assert_eq!(millis(driver.ack(9, &[])), 8);
}

#[test]
fn prr_sends_half_of_the_arriving_data() {
    let mut driver = Driver::filled(20, with(sack(), |config| config.recovery.reduction = Reduction::Prr));
    driver.write(20);
    assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
    driver.window = 10;
    driver.recovery.on_reduction(20.0, 10.0);
    let mut sent = driver.send();
    for to in 5..=20 {
        driver.ack(0, &[(1, to)]);
        let now = driver.send();
        assert!(now.len() <= 1, "no burst");
        sent.extend(now);
    }
    assert_eq!(sent, [0, 20, 21, 22, 23, 24, 25, 26, 27, 28]);
    assert_eq!(driver.pipe(), 10);
    assert_eq!(driver.ack(21, &[]).kind, AckKind::Exit);
    assert_eq!(driver.send(), [29, 30], "then the congestion window limits");
}

#[test]
fn rfc_9937_divides_by_the_data_that_is_delivered_in_recovery() {
    // Segments 1 and 2 are SACKed before recovery, so 18 of 20 segments are delivered during recovery. After n segments
    // have been delivered, `rfc-9937` has sent ceil(10/18 n) segments, and `prr` has sent ceil(10/20 n). The bounds
    // apply when ten segments are in flight. With `rfc-9937`, the bounds apply to the last three acknowledgements; with
    // `prr`, to the last five.
    let sends = |reduction| {
        let mut driver = Driver::filled(20, with(sack(), |config| config.recovery.reduction = reduction));
        for last in 1..3 {
            driver.ack(0, &[(1, last + 1)]);
        }
        assert_eq!(driver.ack(0, &[(1, 4)]).kind, AckKind::Loss);
        driver.write(20);
        driver.window = 10;
        driver.recovery.on_reduction(20.0, 10.0);
        let mut sent = vec![driver.send().len()];
        for to in 5..=20 {
            driver.ack(0, &[(1, to)]);
            sent.push(driver.send().len());
        }
        let total: usize = sent.iter().sum();
        (sent, total, driver.pipe())
    };
    let (sent, total, pipe) = sends(Reduction::Rfc9937);
    assert_eq!(sent, [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1]);
    assert_eq!((total, pipe), (10, 10));
    let (early, _, _) = sends(Reduction::Prr);
    assert_eq!(early, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn rate_halving_sends_a_segment_with_every_second_acknowledgement() {
    let mut driver =
        Driver::filled(20, with(sack(), |config| config.recovery.reduction = Reduction::RateHalving));
    driver.write(20);
    driver.ack(0, &[(1, 4)]);
    driver.window = 10;
    driver.recovery.on_reduction(20.0, 10.0);
    assert_eq!(driver.send(), [0]);
    // After the first retransmission, 17 segments are in flight, one more than before the retransmission.
    let mut sent = Vec::new();
    for to in 5..=20 {
        driver.ack(0, &[(1, to)]);
        sent.push(driver.send().len());
    }
    assert_eq!(sent, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1]);
    assert_eq!(driver.pipe(), 10);
}
