//! Tests of the detection of unnecessary window reductions, and of F-RTO.

use super::*;
use crate::config::recovery::{Frto, RecoveryKind, Reduction, Undo};
use crate::config::rto::RttSamples;

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

/// Creates a driver in which a timeout has occurred after six segments were sent, and the first segment has been
/// retransmitted.
fn timed_out_with_frto() -> Driver {
    let mut driver = Driver::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    driver.window = 1;
    driver.time_out();
    assert_eq!(driver.send(), [0]);
    driver
}

#[test]
fn a_reduction_is_undone_when_all_retransmitted_data_arrived_twice() {
    let mut driver = Driver::filled(8, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    assert_eq!(driver.ack(0, &[(2, 5)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [0, 1]);
    let outcome = driver.ack(8, &[]);
    assert_eq!((outcome.kind, outcome.undone), (AckKind::Exit, false));
    assert!(!driver.ack(8, &[(0, 1)]).undone, "the other is not reported");
    assert!(driver.ack(8, &[(1, 2)]).undone);
    assert!(!driver.ack(8, &[(1, 2)]).undone, "only once");
}

#[test]
fn a_timeout_is_spurious_if_data_sent_once_arrives_after_new_data_was_sent() {
    let timed_out = || {
        let mut driver = timed_out_with_frto();
        driver.write(4);
        driver.window = 2;
        assert!(!driver.ack(1, &[]).undone);
        assert_eq!(driver.send(), [6, 7], "instead of lost data");
        driver
    };
    let mut driver = timed_out();
    assert!(driver.ack(2, &[]).undone);
    driver.window = 20;
    assert_eq!(driver.send(), [8, 9], "no data is lost");

    let mut driver = timed_out();
    assert!(!driver.ack(1, &[(6, 7)]).undone);
    assert_eq!(driver.send(), [1], "the timeout was not spurious");

    let mut driver = timed_out();
    assert!(!driver.ack(1, &[(6, 7)]).undone);
    assert!(!driver.ack(2, &[(6, 7)]).undone, "the decision is final (RFC 5682, 3.1, step 3a)");
}

#[test]
fn a_duplicate_after_a_timeout_sends_no_new_data_first() {
    // RFC 5682, section 3.1, step 2a.
    let mut driver = timed_out_with_frto();
    driver.write(4);
    driver.window = 2;
    assert!(!driver.ack(0, &[]).undone);
    assert_eq!(driver.send(), [1]);
}

#[test]
fn after_a_spurious_timeout_a_loss_begins_a_recovery() {
    let mut driver = Driver::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    driver.time_out();
    driver.window = 1;
    assert_eq!(driver.send(), [0]);
    assert!(!driver.ack(1, &[]).undone);
    driver.window = 20;
    driver.write(4);
    driver.send();
    assert!(driver.ack(2, &[]).undone);
    assert_eq!(driver.ack(2, &[(3, 6)]).kind, AckKind::Loss);
}

#[test]
fn data_sent_before_a_timeout_waits_for_new_data_only_if_there_is_some() {
    // RFC 5682, section 3.1, step 2b.
    for (new, next, then) in [(2, vec![6, 7], vec![]), (0, vec![1, 2, 3, 4, 5], vec![])] {
        let mut driver = timed_out_with_frto();
        driver.write(new);
        driver.window = 20;
        assert!(!driver.ack(1, &[]).undone);
        assert_eq!((driver.send(), driver.send()), (next, then), "{new} new segments");
    }
}

#[test]
fn a_timeout_is_undone_when_all_later_retransmissions_arrived_twice() {
    let mut driver = Driver::filled(3, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    driver.window = 1;
    driver.time_out();
    assert_eq!(driver.send(), [0]);
    driver.time_out();
    assert_eq!(driver.send(), [0], "twice");
    driver.window = 10;
    assert_eq!(driver.ack(3, &[]).kind, AckKind::Advance);
    assert!(!driver.ack(3, &[(0, 1)]).undone, "the segment was retransmitted twice");
    assert!(driver.ack(3, &[(0, 1)]).undone);
}

#[test]
fn an_undone_reduction_no_longer_limits_the_window() {
    let config = with(sack(), |config| {
        config.recovery.undo = Undo::Dsack;
        config.recovery.reduction = Reduction::Prr;
    });
    let mut driver = Driver::filled(12, config);
    driver.write(20);
    driver.window = 15;
    driver.ack(0, &[(1, 4)]);
    driver.recovery.on_reduction(12.0, 6.0);
    assert_eq!(driver.send()[0], 0);
    assert_eq!(driver.ack(4, &[]).kind, AckKind::Partial);
    assert!(driver.ack(5, &[(0, 1)]).undone);
    driver.send();
    assert_eq!(driver.pipe(), 15);
}

#[test]
fn a_timeout_in_a_recovery_does_not_start_f_rto() {
    let mut driver = Driver::filled(6, with(sack(), |config| config.recovery.frto = Frto::On));
    driver.ack(0, &[(1, 4)]);
    driver.send();
    driver.time_out();
    driver.window = 2;
    driver.write(4);
    assert_eq!(driver.send(), [0, 4]);
    driver.ack(4, &[]);
    assert_eq!(driver.send(), [5]);
}

#[test]
fn a_reduction_is_undone_without_new_data_acknowledged() {
    // `tcp_try_undo_dsack` in `TCP_CA_Recovery`: data that is considered lost remains lost.
    let mut driver = Driver::filled(8, with(sack(), |config| config.recovery.undo = Undo::Dsack));
    driver.ack(0, &[(2, 5)]);
    driver.window = 4;
    assert_eq!(driver.send(), [0]);
    assert!(!driver.ack(1, &[(2, 5)]).undone);
    let outcome = driver.ack(1, &[(0, 1), (2, 5)]);
    assert_eq!((outcome.kind, outcome.undone), (AckKind::Loss, true));
    assert_eq!(driver.send(), [1]);
}

#[test]
fn without_new_data_a_timeout_is_not_detected_as_spurious() {
    // RFC 5682, section 3.1, step 2b: "skip step 3 of this algorithm"; Linux: `tcp_process_loss`, `tcp_xmit_recovery`.
    let mut driver = timed_out_with_frto();
    driver.window = 2;
    driver.ack(1, &[]);
    assert_eq!(driver.send(), [1, 2]);
    assert!(!driver.ack(4, &[]).undone, "3 was sent once, but arrived too late");
}

#[test]
fn d_sack_does_not_show_that_a_timeout_was_not_spurious() {
    // `tcp_ack`: an acknowledgement with `FLAG_DSACKING_ACK` does not count as a duplicate acknowledgement.
    let timed_out = || {
        let mut driver = timed_out_with_frto();
        driver.write(4);
        driver.window = 2;
        driver.ack(1, &[]);
        driver.send();
        driver
    };
    let mut driver = timed_out();
    driver.ack(1, &[(0, 1)]);
    assert!(driver.ack(2, &[]).undone);
    let mut driver = timed_out();
    driver.ack(1, &[]);
    assert!(!driver.ack(2, &[]).undone, "a duplicate indicates a loss");
}

#[test]
fn a_segment_sent_twice_is_no_sample_after_an_undone_timeout() {
    // P. Karn, C. Partridge, 1987; RFC 6298, section 3.
    let config = with(sack(), |config| {
        config.recovery.frto = Frto::On;
        config.rto.samples = RttSamples::Segment;
    });
    let mut driver = Driver::filled(8, config);
    driver.ack(0, &[(1, 4)]);
    assert_eq!(driver.send(), [0]);
    driver.advance(10);
    driver.ack(4, &[]);
    assert_eq!(driver.send(), [7], "the rescue");
    for _ in 0..2 {
        driver.time_out();
        driver.window = 1;
        assert_eq!(driver.send(), [4]);
    }
    driver.write(2);
    driver.window = 2;
    driver.ack(5, &[]);
    assert_eq!(driver.send(), [8, 9]);
    assert!(driver.ack(6, &[]).undone);
    driver.advance(10);
    let outcome = driver.ack(8, &[]);
    assert_eq!((outcome.acked, outcome.sent), (2 * MSS, Instant::START), "6 was sent at first, and 7 twice");
}

#[test]
fn a_segment_sent_twice_may_be_lost_after_an_undone_timeout() {
    // RFC 8985, section 6.2, step 5: "For each segment, Segment, not acknowledged yet".
    let mut driver = Driver::new(1, with(rack(), |config| config.recovery.frto = Frto::On));
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    driver.write(8);
    driver.send();
    driver.run_timer();
    assert_eq!(driver.send(), [8], "the probe");
    driver.advance(100);
    driver.time_out();
    driver.window = 1;
    assert_eq!(driver.send(), [1]);
    driver.write(2);
    driver.window = 3;
    driver.ack(2, &[]);
    assert_eq!(driver.send(), [9, 10]);
    assert!(driver.ack(3, &[]).undone);
    driver.window = 20;
    driver.advance(100);
    driver.ack(8, &[(9, 11)]);
    driver.run_timer();
    assert_eq!(driver.send(), [8], "9 and 10 were sent after the probe");
}

/// Creates a driver that uses timestamps. Six segments were sent one second after the start of the run, a timeout
/// occurred one second later, and then the first segment was retransmitted.
fn timed_out_with_timestamps() -> Driver {
    let config = with(rack(), |config| {
        config.recovery.undo = Undo::DsackOrTimestamps;
        config.recovery.frto = Frto::On;
        config.rto.samples = RttSamples::FirstSegment;
    });
    let mut driver = Driver::new(6, config);
    driver.now = at_millis(1000);
    assert_eq!(driver.send(), [0, 1, 2, 3, 4, 5]);
    driver.now = at_millis(2000);
    driver.window = 1;
    driver.time_out();
    assert_eq!(driver.send(), [0]);
    driver.window = 20;
    driver
}

fn at_millis(millis: u64) -> Instant {
    Instant::START + Span::from_millis(millis)
}

#[test]
fn a_timeout_is_undone_by_the_acknowledgement_of_an_original_without_new_data() {
    let mut driver = timed_out_with_timestamps();
    driver.now = at_millis(2100);
    let outcome = driver.ack_echoing(MSS, &[], at_millis(1000));
    assert!(outcome.undone);
    assert_eq!(outcome.sent, at_millis(1000), "the round trip is that of the original");
    assert_eq!(driver.send(), NOTHING, "no data is lost");
}

#[test]
fn a_timeout_is_not_undone_by_the_acknowledgement_of_the_retransmission_or_without_timestamp() {
    for echo in [at_millis(2000), Instant::START] {
        let mut driver = timed_out_with_timestamps();
        driver.now = at_millis(2100);
        assert!(!driver.ack_echoing(MSS, &[], echo).undone);
        assert_eq!(driver.send(), [1, 2, 3, 4, 5], "all data is lost");
        // According to the timestamp clock, data sent in the same millisecond as the first retransmission is not older
        // than the retransmission.
        assert!(!driver.ack_echoing(2 * MSS, &[], Instant::from_nanos(2_000_100_000)).undone);
    }
}

#[test]
fn a_recovery_is_undone_without_retransmissions_in_flight_or_at_its_end() {
    let mut driver = Driver::new(8, with(rack(), |config| config.recovery.undo = Undo::DsackOrTimestamps));
    driver.now = at_millis(1000);
    driver.send();
    driver.now = at_millis(1100);
    assert_eq!(driver.ack(0, &[(2, 8)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [0, 1]);
    assert!(!driver.ack_echoing(MSS, &[(2 * MSS, 8 * MSS)], at_millis(1000)).undone, "one is in flight");
    let outcome = driver.ack_echoing(8 * MSS, &[], at_millis(1000));
    assert_eq!((outcome.kind, outcome.undone), (AckKind::Exit, true));
}
