//! Tests of the respects in which Linux differs from the RFCs.

use super::*;
use crate::config::recovery::{PrrBound, PrrShare, RecoveryKind, Reduction, TimeoutLoses, Undo};
use crate::config::rto::{RestartedBy, RttSamples};
use crate::config::sack::NextSeg;

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

fn sack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Sack)
}

#[test]
fn a_possibly_lost_segment_waits_until_it_is_known_to_be_lost() {
    let again = |next_seg| {
        let mut driver = Driver::filled(8, with(sack(), |config| config.sack.next_seg = next_seg));
        driver.window = 20;
        driver.ack(1, &[(2, 5), (6, 7)]);
        driver.send()
    };
    assert_eq!(again(NextSeg::AllRules), [1, 5], "the last is beyond all arrivals");
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
        let mut driver = Driver::filled(12, config);
        driver.write(8);
        driver.ack(0, &[(1, 4)]);
        driver.recovery.on_reduction(8.0, 4.0);
        let first = driver.send().len();
        for last in 4..8 {
            driver.ack(0, &[(1, last + 1)]);
        }
        (first, driver.send().len())
    };
    // At first, 3 segments have arrived, and later 7 segments have arrived. With a divisor of 12, a total of 1 and then
    // 3 segments should have been sent; with a divisor of 8, a total of 2 and then 4 segments.
    assert_eq!((sends(PrrShare::Flight), sends(PrrShare::Window)), ((1, 2), (2, 2)));
}

#[test]
fn a_round_trip_is_that_of_the_first_segment_and_of_no_retransmission() {
    let mut driver = Driver::new(1, with(sack(), |config| config.rto.samples = RttSamples::FirstSegment));
    for _ in 0..7 {
        driver.send();
        driver.write(1);
        driver.advance(10);
    }
    let left = |outcome: AckOutcome| {
        [outcome.sent, outcome.newest].map(|at| (at != Instant::NEVER).then(|| at.nanos() / 1_000_000))
    };
    assert_eq!(left(driver.ack(2, &[])), [Some(0), Some(10)], "the newest is reported, too");
    assert_eq!(left(driver.ack(2, &[(3, 6)])), [Some(30), Some(50)]);
    driver.send();
    assert_eq!(left(driver.ack(7, &[])), [None, None], "2 was retransmitted, and 6 is acknowledged with it");
}

#[test]
fn sack_of_data_sent_before_the_oldest_segment_restarts_the_timer() {
    let linux = with(sack(), |config| config.rto.restarted_by = RestartedBy::OldestSegment);
    let mut driver = Driver::filled(8, linux);
    assert!(!driver.ack(0, &[(1, 2)]).restarts, "the oldest was sent with it");
    driver.advance(10);
    assert!(!driver.ack(0, &[(1, 4)]).restarts);
    assert_eq!(driver.send(), [0]);
    assert!(driver.ack(0, &[(1, 5)]).restarts, "0 was sent after it");
    assert!(!driver.ack(5, &[]).restarts, "new data always restarts it");
}

#[test]
fn a_timeout_may_exclude_data_sent_within_the_last_round_trip() {
    let lost = |timeout_loses| {
        let mut driver = Driver::new(1, with(rack(), |config| config.recovery.timeout_loses = timeout_loses));
        driver.send();
        driver.advance(100);
        driver.sample(100);
        driver.ack(1, &[]);
        driver.write(3);
        driver.send();
        driver.advance(500);
        driver.write(2);
        driver.send();
        driver.advance(50);
        driver.time_out();
        driver.pipe()
    };
    assert_eq!((lost(TimeoutLoses::All), lost(TimeoutLoses::Late)), (0, 2));
}

#[test]
fn a_probe_that_repaired_a_loss_leaves_nothing_to_repair() {
    let config = with(rack(), |config| config.rto.restarted_by = RestartedBy::OldestSegment);
    let mut driver = Driver::new(4, config);
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(2, &[]);
    driver.send();
    driver.run_timer();
    assert_eq!(driver.send(), [3], "the probe");
    driver.advance(100);
    driver.ack(3, &[]);
    driver.write(1);
    assert_eq!(driver.send(), [4]);
    driver.advance(100);
    assert_eq!(driver.ack(5, &[]).kind, AckKind::Repaired);
}

/// Creates a driver with Linux's timers and a round-trip time of 100 ms, in which `sent` segments have just been sent,
/// at 100 ms.
fn probing(sent: u64) -> Driver {
    let mut driver =
        Driver::new(1, with(rack(), |config| config.rto.restarted_by = RestartedBy::OldestSegment));
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    driver.write(sent);
    assert_eq!(driver.send().len() as u64, sent);
    driver
}

fn millis(instant: Instant) -> Option<u64> {
    (instant != Instant::NEVER).then(|| instant.nanos() / 1_000_000)
}

#[test]
fn the_timer_of_a_probe_is_set_by_new_data_and_limited_by_the_timeout_of_the_oldest_segment() {
    // `tcp_schedule_loss_probe`: the delay is twice the round-trip time plus 2 ms; for a single segment, the delay is
    // twice the round-trip time plus 200 ms. The retransmission timeout is one second.
    let mut driver = probing(1);
    assert_eq!(millis(driver.recovery.timer()), Some(100 + 400));
    for (now, runs_out) in [(150, 352), (200, 402), (450, 652), (950, 1100)] {
        driver.advance(now - millis(driver.now).unwrap());
        driver.write(1);
        driver.send();
        assert_eq!(millis(driver.recovery.timer()), Some(runs_out), "written at {now} ms");
    }
}

#[test]
fn there_is_one_probe_until_it_is_answered() {
    let mut driver = probing(2);
    driver.window = 2;
    driver.write(1);
    assert_eq!(driver.send(), NOTHING);
    assert_eq!(driver.run_timer(), AckOutcome::NONE);
    assert_eq!(
        (driver.send(), driver.recovery.timer()),
        (vec![3], Instant::NEVER),
        "regardless of the window"
    );
    driver.window = 4;
    driver.write(1);
    assert_eq!(driver.send(), [4]);
    driver.run_timer();
    assert_eq!((driver.send(), driver.recovery.timer()), (vec![], Instant::NEVER));
}

#[test]
fn the_timeout_counts_from_the_departure_of_the_oldest_segment_if_another_timer_was_running() {
    // `tcp_rearm_rto`: the probe timer or the reordering timer is running when the acknowledgement arrives.
    let mut driver = probing(4);
    driver.advance(100);
    assert_eq!(millis(driver.ack(2, &[(3, 4)]).since), Some(100), "a probe's timer was running");
    assert_eq!(millis(driver.recovery.timer()), Some(225), "a quarter of the round trip, for reordering");
    assert_eq!(millis(driver.run_timer().since), Some(100), "this timer expired");

    let mut driver = probing(4);
    driver.advance(100);
    assert_eq!(millis(driver.ack(2, &[]).since), None, "a probe may follow");
    assert_eq!(millis(driver.recovery.timer()), None);
    driver.send();
    assert_eq!(millis(driver.recovery.timer()), Some(402), "after the next transmission is known");

    let mut driver = probing(4);
    driver.time_out();
    driver.window = 2;
    assert_eq!(driver.send(), [1, 2]);
    driver.advance(100);
    assert_eq!(millis(driver.ack(2, &[(3, 4)]).since), None, "no other timer was running");
}

#[test]
fn a_retransmission_excluded_by_a_timeout_may_still_be_lost() {
    let mut driver =
        Driver::new(1, with(rack(), |config| config.recovery.timeout_loses = TimeoutLoses::Late));
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    driver.write(8);
    driver.send();
    driver.advance(100);
    driver.ack(1, &[(3, 6)]);
    driver.window = 6;
    assert_eq!(driver.send(), [1, 2]);
    driver.advance(50);
    driver.time_out();
    driver.window = driver.pipe() + 1;
    assert_eq!((driver.window, driver.send()), (2, vec![1]), "2 was sent within the last round trip");
    driver.advance(100);
    driver.ack(2, &[(3, 6)]);
    assert_eq!((driver.pipe(), driver.send()), (0, vec![2, 6]), "1 has overtaken it");
}

#[test]
fn a_loss_of_data_sent_since_a_timeout_begins_a_recovery() {
    // `tcp_fastretrans_alert`: `FLAG_LOST_RETRANS` in `TCP_CA_Loss`.
    let mut driver = probing(4);
    driver.time_out();
    driver.window = 2;
    assert_eq!(driver.send(), [1, 2]);
    driver.advance(100);
    assert_eq!(driver.ack(1, &[(2, 3)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [1, 3]);
}

#[test]
fn one_timer_serves_for_probes_and_for_reordering_and_runs_on_without_need() {
    // `tcp_rack_mark_lost` calls `inet_csk_reset_xmit_timer` only if a further segment may be lost.
    let mut driver = probing(4);
    driver.advance(100);
    driver.ack(1, &[(2, 3)]);
    assert_eq!(millis(driver.recovery.timer()), Some(100 + 100 + 25), "the probe's timer has stopped");
    driver.advance(10);
    driver.ack(1, &[(2, 3)]);
    assert_eq!(millis(driver.recovery.timer()), Some(225), "the same report again");
    driver.ack(3, &[]);
    driver.send();
    assert_eq!(millis(driver.recovery.timer()), Some(210 + 202), "an acknowledgement of new data resets it");
}

#[test]
fn losses_detected_by_the_timer_in_a_recovery_make_room() {
    // `tcp_rack_reo_timeout`: `snd_cwnd` stays constant, although less data is in flight.
    let config = with(rack(), |config| {
        config.rto.restarted_by = RestartedBy::OldestSegment;
        config.recovery.reduction = Reduction::Prr;
    });
    let mut driver = Driver::new(1, config);
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    driver.write(20);
    driver.send();
    driver.advance(100);
    driver.ack(1, &[(2, 3)]);
    driver.ack(3, &[(4, 5)]);
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
    driver.recovery.on_reduction(20.0, 10.0);
    assert_eq!(driver.send(), [3]);
    driver.write(10);
    driver.ack(3, &[(4, 5), (18, 20)]);
    driver.send();
    let pipe = driver.pipe();
    driver.run_timer();
    let lost = pipe - driver.pipe();
    assert!(lost > 2);
    assert_eq!(driver.send().len() as u64, lost);
}

#[test]
fn d_sack_widens_the_reordering_window_only_after_reordering() {
    // `tcp_dsack_seen` considers a D-SACK only with `reord_seen` and without `FLAG_DSACK_TLP`.
    let mut driver = probing(4);
    driver.advance(100);
    driver.ack(1, &[(0, 1), (2, 3)]);
    assert_eq!(millis(driver.recovery.timer()), Some(100 + 100 + 25));
    driver.ack(3, &[]);
    driver.ack(3, &[(0, 1), (4, 5)]);
    assert_eq!(millis(driver.recovery.timer()), Some(100 + 100 + 50));
}

#[test]
fn retransmissions_in_flight_at_the_begin_of_a_recovery_count_for_its_undo() {
    // `tcp_init_undo`: the initial value of `undo_retrans` is `retrans_out`.
    let mut driver = probing(3);
    driver.config.recovery.undo = Undo::Dsack;
    driver.run_timer();
    assert_eq!(driver.send(), [3], "the probe");
    driver.advance(100);
    assert_eq!(driver.ack(1, &[(3, 4)]).kind, AckKind::Loss);
    assert_eq!(driver.send(), [1, 2]);
    assert!(!driver.ack(3, &[(1, 2), (3, 4)]).undone);
    assert!(driver.ack(4, &[(2, 3)]).undone, "the probe's segment has arrived itself");
}

/// `tcp_time_to_recover`: `lost_out` includes retransmitted segments.
#[test]
fn a_loss_after_a_recovery_begins_another_although_it_was_retransmitted() {
    for (restarted_by, next) in
        [(RestartedBy::OldestSegment, AckKind::Loss), (RestartedBy::Recovery, AckKind::Exit)]
    {
        let mut driver = Driver::filled(8, with(rack(), |config| config.rto.restarted_by = restarted_by));
        driver.advance(100);
        driver.sample(100);
        driver.ack(0, &[(1, 5)]);
        driver.write(8);
        assert_eq!(driver.send(), [0, 8, 9, 10, 11, 12, 13, 14, 15]);
        driver.advance(100);
        driver.ack(0, &[(1, 8), (9, 13)]);
        assert_eq!(driver.send(), [0, 8], "the first is sent a third time");
        driver.advance(50);
        assert_eq!(driver.ack(8, &[(9, 13)]).kind, next, "{restarted_by:?}");
    }
}
