//! Tests of loss detection by time and of probes (RFC 8985).

use super::*;
use crate::config::recovery::{RecoveryKind, Reduction};

fn rack() -> Config {
    with(Config::default(), |config| config.recovery.kind = RecoveryKind::Rack)
}

/// Creates a driver with a round-trip time of 100 ms. Segment 0 has been acknowledged, and segments 1 to 10 have been
/// sent 1 ms apart, beginning at 100 ms.
fn spaced() -> Driver {
    let mut driver = Driver::new(1, rack());
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    for _ in 0..10 {
        driver.write(1);
        driver.send();
        driver.advance(1);
    }
    driver.advance(90);
    driver
}

fn millis(instant: Instant) -> u64 {
    instant.nanos() / 1_000_000
}

#[test]
fn a_segment_counts_as_lost_a_quarter_of_a_round_trip_after_a_later_one_arrived() {
    let mut driver = spaced();
    driver.advance(1);
    // Segment 1 was sent at 100 ms. The next segment was sent a millisecond later, and its acknowledgement arrives at
    // 201 ms.
    assert_eq!(driver.ack(1, &[(2, 3)]).kind, AckKind::Duplicate);
    assert_eq!(millis(driver.recovery.timer()), 100 + 100 + 25);
    let outcome = driver.run_timer();
    assert_eq!((outcome.kind, outcome.acked), (AckKind::Loss, 0));
    assert_eq!(driver.send(), [1]);
}

#[test]
fn three_segments_beyond_show_a_loss_at_once_until_reordering_is_seen() {
    let mut driver = spaced();
    driver.advance(3);
    assert_eq!(driver.ack(1, &[(2, 5)]).kind, AckKind::Loss);

    let mut driver = spaced();
    driver.advance(1);
    driver.ack(1, &[(2, 3)]);
    assert_eq!(driver.ack(3, &[]).kind, AckKind::Advance, "1 was only late");
    driver.advance(3);
    assert_eq!(driver.ack(3, &[(4, 7)]).kind, AckKind::Duplicate);
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
}

#[test]
fn d_sack_widens_the_reordering_window() {
    let mut driver = spaced();
    driver.advance(1);
    driver.ack(1, &[(0, 1), (2, 3)]);
    assert_eq!(millis(driver.recovery.timer()), 100 + 100 + 50);
}

#[test]
fn d_sack_counts_once_per_round_and_the_reordering_window_is_at_most_a_round_trip() {
    let mut driver = spaced();
    driver.advance(1);
    for expected in [50, 50] {
        driver.ack(1, &[(0, 1), (2, 3)]);
        assert_eq!(millis(driver.recovery.timer()), 100 + 100 + expected);
    }
    let mut seen = 1;
    for _ in 0..6 {
        // Each round ends when all data that had been sent when the round began is acknowledged.
        let all = driver.recovery.sent() / MSS;
        driver.advance(100);
        driver.ack(all, &[]);
        driver.write(2);
        driver.send();
        driver.advance(100);
        driver.sample(100);
        driver.ack(all, &[(0, 1), (all + 1, all + 2)]);
        seen += 1;
        let left = driver.now.nanos() / 1_000_000 - 100;
        let window = (25 * (seen + 1)).min(100);
        assert_eq!(millis(driver.recovery.timer()), left + 100 + window);
    }
}

#[test]
fn sixteen_recoveries_reset_the_reordering_window() {
    let mut driver = Driver::new(1, rack());
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    let mut window = Vec::new();
    for round in 0..18 {
        let all = driver.recovery.sent() / MSS;
        driver.write(2);
        driver.send();
        driver.advance(100);
        let twice = if round == 0 { vec![(0, 1), (all + 1, all + 2)] } else { vec![(all + 1, all + 2)] };
        driver.ack(all, &twice);
        window.push(millis(driver.recovery.timer()) - millis(driver.now));
        assert_eq!(driver.run_timer().kind, AckKind::Loss);
        driver.send();
        driver.advance(100);
        assert_eq!(driver.ack(all + 2, &[]).kind, AckKind::Exit);
    }
    assert_eq!((window[0], window[15], window[16], window[17]), (50, 50, 25, 25));
}

#[test]
fn acknowledgements_outside_a_recovery_do_not_reset_the_reordering_window() {
    let mut driver = spaced();
    driver.ack(2, &[(1, 2)]);
    for _ in 0..20 {
        driver.write(1);
        driver.send();
        driver.advance(100);
        driver.ack(driver.recovery.sent() / MSS, &[]);
    }
    let all = driver.recovery.sent() / MSS;
    driver.write(2);
    driver.send();
    driver.advance(100);
    driver.ack(all, &[(all + 1, all + 2)]);
    assert_eq!(
        millis(driver.recovery.timer()) - millis(driver.now),
        50,
        "half a round trip and not a quarter"
    );
}

#[test]
fn an_acknowledgement_faster_than_any_round_trip_is_not_that_of_a_retransmission() {
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(1, &[(2, 5)]);
    assert_eq!(driver.send(), [1]);
    driver.advance(10);
    assert_eq!(driver.ack(2, &[(2, 5)]).kind, AckKind::Partial);
    assert_eq!(driver.pipe(), 6, "data sent before the retransmission is not considered lost");
}

#[test]
fn the_reordering_timer_waits_for_the_last_possibly_lost_segment() {
    // RFC 8985, section 6.2, step 5: "timeout = max(remaining, timeout)".
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(1, &[(4, 5)]);
    assert_eq!(millis(driver.recovery.timer()), 102 + 100 + 25, "3 was sent at 102 ms, 1 at 100 ms");
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
    assert_eq!(driver.send(), [1, 2, 3]);
}

#[test]
fn any_acknowledgement_detects_losses_by_time() {
    // RFC 8985, section 6.2: losses are detected "upon receiving an ACK".
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(1, &[(4, 5)]);
    driver.advance(23);
    assert_eq!(driver.ack(1, &[(4, 5)]).kind, AckKind::Loss, "226 ms have passed");
    assert_eq!(driver.send(), [1, 2]);
    assert_eq!(millis(driver.recovery.timer()), 102 + 100 + 25);
}

#[test]
fn the_reordering_timer_waits_for_the_last_possibly_lost_retransmission() {
    let mut driver = spaced();
    // Reordering is observed, because segment 1 arrives after segment 2.
    driver.advance(1);
    driver.ack(1, &[(2, 3)]);
    driver.ack(3, &[]);
    driver.advance(8);
    driver.ack(3, &[(10, 11)]);
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
    let sent_at = millis(driver.now);
    driver.window = driver.pipe() + 1;
    assert_eq!(driver.send(), [3]);
    driver.advance(5);
    driver.window += 1;
    assert_eq!(driver.send(), [4]);
    driver.advance(1);
    driver.window += 1;
    driver.write(1);
    assert_eq!(driver.send(), [5]);
    driver.advance(100);
    driver.ack(3, &[(5, 6), (10, 11)]);
    assert_eq!(millis(driver.recovery.timer()), sent_at + 5 + 100 + 25);
}

#[test]
fn simultaneous_segments_are_ordered_by_transmission() {
    // In RFC 8985, section 6.2, `RACK_sent_after` orders simultaneous segments by sequence number.
    let in_recovery = || {
        let mut driver = spaced();
        driver.advance(3);
        driver.ack(1, &[(2, 5)]);
        driver.write(3);
        assert_eq!(driver.send(), [1, 11, 12, 13]);
        driver.advance(100);
        driver
    };
    let mut driver = in_recovery();
    assert_eq!(driver.ack(1, &[(2, 12)]).kind, AckKind::Duplicate);
    assert_eq!(driver.send(), [1], "11 was sent after its retransmission");

    let mut driver = in_recovery();
    assert_eq!(driver.ack(11, &[]).kind, AckKind::Exit);
    assert_eq!(driver.pipe(), 3, "the retransmission overtakes nothing");

    let mut driver = spaced();
    driver.write(1);
    driver.advance(3);
    assert_eq!(driver.send(), [11]);
    driver.ack(1, &[(2, 5)]);
    assert_eq!(driver.send(), [1]);
    driver.advance(100);
    driver.ack(1, &[(2, 12)]);
    assert_eq!(driver.send(), NOTHING, "11 was sent before its retransmission");
}

#[test]
fn the_round_trip_is_that_of_the_last_segment_delivered_in_order() {
    // RFC 8985, section 6.2, step 2, processes the newly acknowledged segments one by one.
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(1, &[(2, 5)]);
    assert_eq!(driver.send(), [1]);
    driver.advance(100);
    // Segment 1 was retransmitted 100 ms ago, and segment 8 was sent 196 ms ago. The acknowledgements of segments 5 to
    // 8 are lost.
    driver.ack(9, &[]);
    driver.write(2);
    driver.send();
    driver.advance(100);
    driver.ack(9, &[(10, 11)]);
    assert_eq!(driver.send(), [9], "the round trip is 100 ms");
}

#[test]
fn losses_detected_by_the_timer_in_a_recovery_make_no_room_for_a_burst() {
    let config = with(rack(), |config| config.recovery.reduction = Reduction::Prr);
    let mut driver = Driver::new(1, config);
    driver.send();
    driver.advance(100);
    driver.sample(100);
    driver.ack(1, &[]);
    driver.write(20);
    driver.send();
    // Reordering has been observed, so the timer detects losses.
    driver.advance(100);
    driver.ack(1, &[(2, 3)]);
    driver.ack(3, &[(4, 5)]);
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
    driver.recovery.on_reduction(20.0, 10.0);
    assert_eq!(driver.send(), [3], "one segment for the loss");
    driver.write(10);
    driver.ack(3, &[(4, 5), (18, 20)]);
    let pipe = driver.pipe();
    assert_eq!(driver.send().len(), 1);
    while driver.recovery.timer() != Instant::NEVER {
        driver.run_timer();
    }
    assert!(driver.pipe() < pipe, "more is lost");
    assert!(driver.send().len() <= 2);
}

#[test]
fn a_lost_retransmission_is_detected_and_repeated() {
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(1, &[(2, 5)]);
    assert_eq!(driver.send(), [1]);
    driver.write(1);
    driver.advance(1);
    assert_eq!(driver.send(), [11]);
    driver.advance(99);
    assert_eq!(driver.ack(1, &[(2, 11)]).kind, AckKind::Duplicate);
    assert_eq!(driver.send(), NOTHING, "no later segment has arrived");
    driver.advance(1);
    assert_eq!(driver.ack(1, &[(2, 12)]).kind, AckKind::Duplicate, "still the same recovery");
    assert_eq!(driver.send(), [1]);
    assert_eq!(driver.ack(12, &[]).kind, AckKind::Exit);
    assert_eq!(driver.pipe(), 0);
}

#[test]
fn a_lost_retransmission_after_a_timeout_is_found() {
    let mut driver = spaced();
    driver.time_out();
    driver.window = 2;
    assert_eq!(driver.send(), [1, 2]);
    driver.advance(110);
    driver.ack(1, &[(2, 3)]);
    assert_eq!(driver.send(), [1, 3]);
}

#[test]
fn a_lost_tail_is_probed_with_its_last_segment() {
    let mut driver = spaced();
    driver.advance(3);
    driver.ack(8, &[]);
    // Segments 8, 9 and 10 are lost. The acknowledgement arrived at 203 ms.
    assert_eq!(driver.send(), NOTHING);
    let sent_at = millis(driver.now);
    assert_eq!(millis(driver.recovery.timer()), sent_at + 200);
    assert_eq!(driver.run_timer().kind, AckKind::Stale);
    assert!(driver.recovery.is_urgent(&driver.config));
    driver.window = 1;
    assert_eq!(driver.send(), [10], "regardless of the window");
    assert_eq!(driver.recovery.timer(), Instant::NEVER, "one probe at a time");
    driver.advance(100);
    assert_eq!(driver.ack(8, &[(10, 11)]).kind, AckKind::Loss);
    driver.window = 10;
    assert_eq!(driver.send(), [8, 9]);
    driver.write(1);
    driver.send();
    assert_eq!(driver.ack(12, &[]).kind, AckKind::Exit, "the loss has been processed");
}

#[test]
fn new_data_serves_as_a_probe() {
    let mut driver = spaced();
    driver.window = 1;
    driver.write(1);
    assert_eq!(driver.send(), NOTHING);
    driver.run_timer();
    assert_eq!(driver.send(), [11]);
    assert_eq!(driver.ack(12, &[]).kind, AckKind::Advance);
    driver.write(1);
    driver.send();
    assert_ne!(driver.recovery.timer(), Instant::NEVER, "the probe was acknowledged: another may follow");
}

#[test]
fn a_loss_repaired_by_a_probe_reduces_the_data_in_flight() {
    let mut driver = spaced();
    driver.advance(9);
    driver.ack(10, &[]);
    driver.run_timer();
    assert_eq!(driver.send(), [10]);
    driver.advance(100);
    assert_eq!(
        driver.ack(11, &[]).kind,
        AckKind::Advance,
        "it may be the acknowledgement of the original segment"
    );
    driver.write(2);
    assert_eq!(driver.send(), [11, 12]);
    driver.advance(100);
    assert_eq!(driver.ack(12, &[]).kind, AckKind::Loss);
    assert_eq!(driver.recovery.flight(), MSS);
    driver.recovery.on_reduction(10.0, 5.0);
    assert_eq!(driver.send(), NOTHING, "no retransmission is needed");
    assert_eq!(driver.ack(13, &[]).kind, AckKind::Exit);
}

#[test]
fn a_probe_that_arrived_twice_repaired_nothing() {
    let mut driver = spaced();
    driver.advance(9);
    driver.ack(10, &[]);
    driver.run_timer();
    driver.send();
    driver.ack(11, &[]);
    assert_eq!(driver.ack(11, &[(10, 11)]), AckOutcome::NONE);
    driver.write(1);
    driver.send();
    assert_eq!(driver.ack(12, &[]).kind, AckKind::Advance);
}

#[test]
fn a_probe_waits_longer_for_a_single_segment_but_not_beyond_the_timer() {
    let mut driver = spaced();
    driver.advance(9);
    driver.ack(10, &[]);
    let sent_at = millis(driver.now);
    assert_eq!(millis(driver.recovery.timer()), sent_at + 2 * 100 + 200);
}

#[test]
fn a_probe_needs_a_round_trip_measured_since_the_last_one() {
    // RFC 8985, section 7.3: "the sender has obtained an RTT measurement since the last loss probe transmission or, if
    // the sender has not yet sent any loss probes on this connection, since the start of the connection".
    let mut driver = Driver::new(1, rack());
    driver.send();
    assert_eq!(driver.recovery.timer(), Instant::NEVER, "not even the handshake was measured");

    let mut driver = spaced();
    driver.advance(9);
    driver.ack(10, &[]);
    driver.run_timer();
    assert_eq!(driver.send(), [10]);
    driver.advance(100);
    driver.ack(11, &[]);
    driver.ack(11, &[]);
    driver.write(1);
    driver.send();
    assert_eq!(driver.recovery.timer(), Instant::NEVER, "10 was sent twice and is not a sample");
    driver.advance(100);
    driver.ack(12, &[]);
    driver.write(1);
    driver.send();
    assert_ne!(driver.recovery.timer(), Instant::NEVER);
}

#[test]
fn a_probe_waits_for_twice_the_round_trip_including_the_latest_sample() {
    // RFC 8985, section 7.2: `PTO = 2 * SRTT`, in which SRTT includes the sample of the acknowledgement that has just
    // arrived.
    let mut driver = spaced();
    driver.advance(9);
    driver.ack(8, &[]);
    driver.sample(180);
    driver.send();
    assert_eq!(millis(driver.recovery.timer()) - millis(driver.now), 2 * 110);
}

#[test]
fn an_acknowledgement_cancels_an_unsent_probe() {
    let mut driver = spaced();
    driver.run_timer();
    driver.ack(5, &[]);
    assert_eq!(driver.send(), NOTHING);
}

#[test]
fn an_acknowledgement_without_new_data_does_not_cancel_a_probe() {
    let mut driver = spaced();
    driver.run_timer();
    assert_eq!(driver.ack(1, &[]), AckOutcome::NONE);
    assert_eq!(driver.send(), [10]);
}

#[test]
fn new_data_delays_a_probe() {
    // RFC 8985, section 7.2: the delay of a probe is counted from "transmitting new data" or from the acknowledgement
    // of new data.
    let mut driver = spaced();
    driver.ack(5, &[]);
    let before = millis(driver.recovery.timer());
    driver.advance(30);
    assert_eq!(millis(driver.recovery.timer()), before);
    driver.write(1);
    driver.send();
    assert_eq!(millis(driver.recovery.timer()), before + 30);
}

#[test]
fn a_timeout_stops_the_timers_of_reordering_and_probes() {
    let mut driver = spaced();
    driver.time_out();
    assert_eq!(driver.recovery.timer(), Instant::NEVER, "a probe was planned");
    let mut driver = spaced();
    driver.advance(1);
    driver.ack(1, &[(2, 3)]);
    assert_ne!(driver.recovery.timer(), Instant::NEVER, "segment 1 may be lost");
    driver.time_out();
    assert_eq!(driver.recovery.timer(), Instant::NEVER);
}

#[test]
fn there_is_no_probe_while_holes_are_known() {
    let mut driver = spaced();
    driver.advance(1);
    driver.ack(1, &[(2, 3)]);
    assert_eq!(driver.run_timer().kind, AckKind::Loss);
    driver.send();
    assert_eq!(driver.recovery.timer(), Instant::NEVER);
}
