//! Losses in one direction with a manual clock: the retransmissions and their times.
//!
//! The path has a delay of 50 ms in each direction and no transmission time, so that a window of ten is sent at 100 ms
//! and acknowledged at 200 ms. The profile is `rfc` with immediate acknowledgements. Most of the file consists of
//! traces.

use crate::pair::*;
use aqm_net::Span;
use serde_json::{Value, json};

const ALL: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "rack"];

fn with(recovery: &str) -> Value {
    rfc(json!({ "recovery": { "kind": recovery } }))
}

/// Segments 1, 3 and 6 of the first ten are lost.
fn three_losses(recovery: &str) -> Pair {
    exchange(with(recovery), 20, &["> 1", "> 3", "> 6"])
}

#[test]
fn tahoe_starts_again_from_one_segment_and_the_hole() {
    // Two duplicates release 11 and 12, the third the hole, with a window of one; the data after the hole is
    // retransmitted as the window opens, except the data that acknowledgements skip: 5, 9 to 12.
    assert_part(
        &three_losses("tahoe"),
        200,
        450,
        "200 > 11
         200 > 12
         200 > 1 again
         250 < ack 0
         250 < ack 0
         250 < ack 2
         300 > 3 again
         300 > 4 again
         350 < ack 5
         350 < ack 5
         400 > 6 again
         400 > 7 again
         400 > 8 again
         450 < ack 12
         450 < ack 12
         450 < ack 12",
    );
}

#[test]
fn reno_repairs_one_hole_and_waits_for_the_timer_with_the_next() {
    // The acknowledgement of 1 and 2 ends the recovery with a window of 5 and 12 in flight; 13 and 14 trigger only two
    // more duplicates. The timer was restarted at 300 ms.
    let pair = three_losses("reno");
    assert_part(
        &pair,
        200,
        1400,
        "200 > 11
         200 > 12
         200 > 1 again
         250 < ack 0
         250 < ack 0
         250 < ack 2
         300 > 13
         300 > 14
         350 < ack 2
         350 < ack 2
         1300 > 3 again
         1350 < ack 5
         1400 > 6 again
         1400 > 7 again",
    );
    assert_eq!((pair.client().counts().fast_retransmits, pair.client().counts().timeouts), (1, 1));
}

#[test]
fn newreno_repairs_one_hole_a_round_trip() {
    // A partial acknowledgement of n segments removes n - 1 from the inflated window: 5 + 9 - 1 = 13 from segment 3 on,
    // so 15 may be sent; then 15 - 2 = 13 from segment 6 on, so 18.
    let pair = three_losses("newreno");
    assert_part(
        &pair,
        200,
        550,
        "200 > 11
         200 > 12
         200 > 1 again
         250 < ack 0
         250 < ack 0
         250 < ack 2
         300 > 13
         300 > 14
         300 > 3 again
         300 > 15
         350 < ack 2
         350 < ack 2
         350 < ack 5
         350 < ack 5
         400 > 16
         400 > 17
         400 > 6 again
         400 > 18
         400 > 19
         450 < ack 5
         450 < ack 5
         450 < ack 17
         450 < ack 18
         450 < ack 19
         500 > 20 FIN
         550 < FIN ack FIN",
    );
    assert_eq!((pair.client().counts().retransmitted, pair.client().counts().timeouts), (3, 0));
}

#[test]
fn sack_repairs_all_holes_in_a_round_trip_and_retransmits_nothing_else() {
    // A hole is lost when three segments above it are SACKed: 3 with the fourth duplicate, 6 with the sixth. They are
    // sent when the pipe falls below 5: with the sixth and seventh duplicate.
    let pair = three_losses("sack");
    assert_part(
        &pair,
        150,
        300,
        "150 < ack 0 sack 2
         150 < ack 0 sack 4 2
         150 < ack 0 sack 4-5 2
         150 < ack 0 sack 7 4-5 2
         150 < ack 0 sack 7-8 4-5 2
         150 < ack 0 sack 7-9 4-5 2
         150 < ack 0 sack 7-10 4-5 2
         200 > 11
         200 > 12
         200 > 1 again
         200 > 3 again
         200 > 6 again
         250 < ack 0 sack 7-11 4-5 2
         250 < ack 0 sack 7-12 4-5 2
         250 < ack 2 sack 7-12 4-5
         250 < ack 5 sack 7-12
         250 < ack 12
         300 > 13
         300 > 14
         300 > 15
         300 > 16
         300 > 17",
    );
    assert_eq!((pair.client().counts().retransmitted, pair.client().ssthresh()), (3, 5.0));
}

#[test]
fn rack_repairs_the_same_holes_once() {
    let pair = three_losses("rack");
    let counts = pair.client().counts();
    assert_eq!((counts.retransmitted, counts.timeouts, counts.fast_retransmits), (3, 0, 1));
}

#[test]
fn only_the_third_duplicate_retransmits_and_reduces_the_window_once() {
    for recovery in ALL {
        let mut pair = Pair::endless(rfc(json!({
            "cwnd": { "initial": 40 }, "recovery": { "kind": recovery },
        })));
        let mut path = Path::losing(&["> 1"]);
        pair.run(at(240), &mut |sent| path.fate(sent));
        let client = pair.client();
        assert_eq!(client.ssthresh(), 20.0, "{recovery}");
        assert_eq!((client.counts().fast_retransmits, client.counts().retransmitted), (1, 1), "{recovery}");
    }
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_and_then_one_segment_is_sent() {
    for recovery in ["tahoe", "reno", "newreno", "sack"] {
        let pair = exchange(
            rfc(json!({ "cwnd": { "initial": 6 }, "recovery": { "kind": recovery } })),
            12,
            &["> 1", "> 1 again"],
        );
        let counts = pair.client().counts();
        assert_eq!((counts.fast_retransmits, counts.timeouts), (1, 1), "{recovery}");
        // The fast retransmit restarted the timer at 200 ms.
        assert_eq!(sent_at(&pair, 1200), ["1 again"], "{recovery}");
    }
}

#[test]
fn rack_detects_a_lost_retransmission_without_a_timeout() {
    let pair = exchange(with("rack"), 30, &["> 1", "> 1 again"]);
    let counts = pair.client().counts();
    assert_eq!((counts.retransmitted, counts.timeouts, counts.fast_retransmits), (2, 0, 1));
    assert!(pair.now < at(800), "{}", pair.log.join("\n"));
}

#[test]
fn after_a_timeout_one_segment_is_sent() {
    for recovery in ALL {
        // No data arrives. RACK's probe at 300 ms restarts the timer.
        let time = if recovery == "rack" { 1300 } else { 1100 };
        let mut pair = Pair::new(with(recovery)).plan(Client, When::At(0), Act::Write(10 * MSS));
        pair.run(at(time + 40), &mut losing(Sent::has_data));
        let client = pair.client();
        assert_eq!((client.cwnd(), client.ssthresh(), client.counts().timeouts), (1.0, 5.0, 1), "{recovery}");
        let data: Vec<String> =
            sent_at(&pair, time).into_iter().filter(|name| !name.starts_with("ack")).collect();
        assert_eq!(data, ["1 again lost"], "{recovery}\n{}", pair.log.join("\n"));
    }
}

#[test]
fn limited_transmit_follows_its_setting() {
    for recovery in ["reno", "newreno", "sack"] {
        for (word, released) in [("off", &[][..]), ("new", &["11", "12"])] {
            let settings = rfc(json!({ "recovery": { "kind": recovery, "limited_transmit": word } }));
            // The fourth and later segments are late, so that two duplicates arrive alone.
            let late: Vec<String> = (4..=10).map(|number| format!("> {number}")).collect();
            let late: Vec<&str> = late.iter().map(String::as_str).collect();
            let pair = transfer(settings, 20, Path::losing(&["> 1"]).and_delaying(&late, 20));
            assert_eq!(sent_at(&pair, 200), released, "{recovery} {word}");
            assert_eq!(sent_at(&pair, 220)[0], "1 again", "{recovery} {word}");
        }
    }
}

#[test]
fn the_rescue_retransmission_saves_a_lost_tail_from_the_timer() {
    // RFC 6675, NextSeg, rule (4): the window has room, no data is left, and above 10 nothing is SACKed. The rescue
    // waits for the acknowledgement of the first retransmission (section 5, step (4.2)).
    let pair = exchange(with("sack"), 10, &["> 1", "> 10 FIN"]);
    assert_eq!(sent_at(&pair, 200), ["1 again"]);
    assert_eq!(sent_at(&pair, 300), ["10 FIN again"]);
    assert_eq!((pair.client().counts().timeouts, pair.now), (0, at(450)));
}

#[test]
fn duplicate_data_is_reported_without_effect() {
    for recovery in ["sack", "rack"] {
        let names: Vec<String> = (1..=10).map(|number| format!("> {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let doubled = transfer(with(recovery), 30, Path::default().and_doubling(&names));
        let single = exchange(with(recovery), 30, &[]);
        assert!(
            doubled.log.iter().any(|line| line.ends_with("< ack 3 sack 3")),
            "{}",
            doubled.log.join("\n")
        );
        for pair in [&doubled, &single] {
            let counts = pair.client().counts();
            assert_eq!((counts.retransmitted, counts.fast_retransmits), (0, 0), "{recovery}");
        }
        assert_eq!(doubled.client().cwnd(), single.client().cwnd(), "{recovery}");
    }
}

#[test]
fn a_retransmission_that_is_sacked_leaves_the_pipe() {
    // The first is lost twice; 3, retransmitted, is SACKed. The pipe then contains only the second copy of 1 and new
    // data, which fill a window of 5 until the timer expires.
    let pair = exchange(with("sack"), 40, &["> 1", "> 3", "> 1 again"]);
    for (time, count) in [(300, 4), (400, 4), (500, 4)] {
        let sent = sent_at(&pair, time);
        assert_eq!(sent.len(), count, "at {time}\n{}", pair.log.join("\n"));
        assert!(sent.iter().all(|name| !name.contains("again")));
    }
}

/// Departure times of segments while a window of 20, whose first segment is lost, is acknowledged millisecond by
/// millisecond.
fn paced(reduction: &str) -> Vec<u64> {
    let settings = rfc(json!({
        "recovery": { "kind": "sack", "reduction": reduction }, "cwnd": { "initial": 20 },
    }));
    let mut path = Path::losing(&["> 1"]);
    for number in 2..=20 {
        path = path.and_delaying(&[&format!("> {number}")], number);
    }
    let pair = transfer(settings, 60, path);
    let times = pair
        .log
        .iter()
        .filter(|line| line.contains('>'))
        .map(|line| line.trim().split_once(' ').unwrap().0.parse::<u64>().unwrap());
    times.filter(|time| (204..=220).contains(time)).collect()
}

#[test]
fn at_once_the_sender_falls_silent_and_in_proportion_it_does_not() {
    // 22 in flight with limited transmit, minus three arrivals and the hole, plus its retransmission: 19, and 10 may
    // be. At once: nothing until ten more have arrived, then a segment with every acknowledgement.
    assert_eq!(paced("at-once"), [204, 214, 215, 216, 217, 218, 219, 220]);
    // PRR: 10 segments for every 22 that arrive.
    let prr = paced("prr");
    let gaps: Vec<u64> = prr.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (2..=3).contains(gap)) && prr.len() >= 7, "{prr:?}");
    // RFC 9937: 10 for every 20, because two arrived before recovery.
    let rfc_9937 = paced("rfc-9937");
    let gaps: Vec<u64> = rfc_9937.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|&gap| gap == 2) && rfc_9937.len() >= 8, "{rfc_9937:?}");
    // Rate halving: one for every second arrival.
    let halving = paced("rate-halving");
    let gaps: Vec<u64> = halving.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (1..=3).contains(gap)) && halving.len() >= 7, "{halving:?}");
}

#[test]
fn a_window_of_gigabytes_is_reduced_without_overflow() {
    // 40,000 segments of 64 kB: products of byte counts far exceed 32 bits.
    for reduction in ["at-once", "prr", "rfc-9937", "rate-halving"] {
        let settings = json!({
            "connection": { "mss": "65000B" }, "receiver": { "delayed_ack": "off", "window": 100_000 },
            "recovery": { "kind": "sack", "reduction": reduction },
            "cwnd": { "initial": 40_000, "initial_ssthresh": 1e6 },
        });
        let mut pair = Pair::one_way(settings, 80_000 * 65_000);
        pair.logs = false;
        let mut path = Path::losing(&["> 1"]);
        pair.run(HOUR, &mut |sent| path.fate(sent));
        assert!(pair.client().is_done(), "{reduction}");
        assert_eq!(
            (pair.client().ssthresh(), pair.client().counts().retransmitted),
            (20_000.0, 1),
            "{reduction}"
        );
        assert!(pair.client().cwnd() >= 20_000.0 && pair.now < at(700), "{reduction}: {:?}", pair.now);
    }
}

#[test]
fn a_probe_repairs_a_lost_tail_in_two_round_trips() {
    // RFC 8985, section 7: two SRTT after the last acknowledgement; data sent before the probe and not SACKed with it
    // is lost.
    let pair = exchange(with("rack"), 10, &["> 8", "> 9", "> 10 FIN"]);
    assert_part(
        &pair,
        200,
        600,
        "400 > 10 FIN again
         450 < ack 7 sack 10
         500 > 8 again
         500 > 9 again
         550 < ack 8 sack 10
         550 < FIN ack FIN
         600 > ack FIN",
    );
    assert_eq!(pair.client().counts().timeouts, 0);
}

#[test]
fn a_late_acknowledgement_of_a_probe_drops_the_next_probe() {
    // RFC 8985, section 7.3: one probe at a time. The next would be sent two SRTT after 450 ms, but 3, retransmitted as
    // a probe, is acknowledged only at 750 ms. Therefore the timer repairs the tail.
    let path = Path::default().and_delaying(&["< ack 2", "< ack 3", "< ack 3"], 250);
    let pair = Pair::new(with("rack"))
        .plan(Client, When::At(0), Act::Write(3 * MSS))
        .plan(Client, When::At(450), Act::Write(2 * MSS))
        .plan(Client, When::At(450), Act::Finish)
        .over(path.and_losing(&["> 4", "> 5 FIN"]));
    assert_part(
        &pair,
        400,
        1600,
        "400 > 3 again
         450 > 4 lost
         450 > 5 FIN lost
         450 < ack 3 sack 3 late
         1450 > 4 again
         1500 < ack 4
         1550 > 5 FIN again
         1600 < FIN ack FIN",
    );
}

#[test]
fn rack_tolerates_reordering_that_counting_takes_for_loss() {
    // The first of ten arrives 10 ms late, after the nine others.
    let late = |settings| transfer(settings, 60, Path::default().and_delaying(&["> 11"], 10));
    let counting = late(with("sack"));
    assert_eq!(counting.client().counts().retransmitted, 1);
    let settings = over(with("rack"), json!({ "recovery": { "dupthresh": 100 } }));
    let pair = late(settings);
    assert_eq!((pair.client().counts().retransmitted, pair.client().counts().fast_retransmits), (0, 0));
}

#[test]
fn a_transfer_without_data_needs_no_recovery() {
    for recovery in ALL {
        let pair = exchange(with(recovery), 0, &["> FIN"]);
        assert_eq!(pair.server().received(), 0, "{recovery}");
    }
}

#[test]
fn a_timeout_keeps_or_clears_the_sack_scoreboard() {
    // After the timeout the receiver reports its last three blocks again, 10, 8 and 6, but not 4.
    for (word, again) in
        [("kept", vec!["1", "3", "5", "7", "9"]), ("forgotten", vec!["1", "3", "4", "5", "7", "9"])]
    {
        let settings = rfc(json!({
            "recovery": { "kind": "sack", "dupthresh": 9 }, "sack": { "at_timeout": word },
        }));
        let pair = exchange(settings, 10, &["> 1", "> 3", "> 5", "> 7", "> 9"]);
        let lines = pair.log.iter().filter_map(|line| line.split_once("> ")).map(|two| two.1);
        let sent: Vec<&str> = lines.filter_map(|line| line.strip_suffix(" again")).collect();
        assert_eq!(sent, again, "{word}\n{}", pair.log.join("\n"));
    }
}

#[test]
fn a_retransmission_is_not_timed_in_recovery() {
    for recovery in ALL {
        for samples in ["window", "segment"] {
            // 11 is the measured segment of the second round.
            let settings = rfc(json!({ "recovery": { "kind": recovery }, "rto": { "samples": samples } }));
            let pair = exchange(settings, 40, &["> 11"]);
            assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)), "{recovery} {samples}");
        }
    }
    for recovery in ALL {
        for samples in ["window", "segment"] {
            // The first of ten arrives 60 ms late, and is acknowledged 60 ms after its retransmission.
            let settings = rfc(json!({
                "recovery": { "kind": recovery, "dupthresh": 2 }, "rto": { "samples": samples },
            }));
            let pair = transfer(settings, 40, Path::default().and_delaying(&["> 1"], 60));
            assert_eq!(sent_at(&pair, 200).iter().filter(|name| name.ends_with("again")).count(), 1);
            assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)), "{recovery} {samples}");
        }
    }
    for recovery in ["sack", "rack"] {
        let settings = rfc(json!({ "recovery": { "kind": recovery }, "rto": { "samples": "segment" } }));
        let pair = exchange(settings, 40, &["> 1", "> 3", "> 6", "> 14", "> 14 again"]);
        assert_eq!(pair.client().srtt(), Some(Span::from_millis(100)), "{recovery}");
    }
}
