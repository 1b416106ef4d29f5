//! Effects of losses, marks, timeouts and idle periods on the window, with a manual clock.
//!
//! The path has a delay of 50 ms in each direction and no transmission time, so that the initial window is sent at 100
//! ms and acknowledged at 200 ms. Acknowledgements are immediate.

use crate::pair::*;
use serde_json::{Value, json};

/// Returns the client's window and `ssthresh`.
fn window(pair: &Pair) -> (f64, f64) {
    (pair.client().cwnd(), pair.client().ssthresh())
}

/// Sends without limit until `millis`, over `path`.
fn endless(settings: Value, millis: u64, mut path: Path) -> Pair {
    let mut pair = Pair::endless(settings);
    pair.run(at(millis), &mut |sent| path.fate(sent));
    pair
}

/// Returns the number of new data segments with CWR.
fn reports(pair: &Pair) -> usize {
    pair.log.iter().filter(|line| line.contains("CWR ECT") && !line.contains("SYN")).count()
}

#[test]
fn newreno_ends_its_recovery_with_the_flight_and_one_segment() {
    // RFC 6582, 3.2, step 3: min (ssthresh, max(FlightSize, SMSS) + SMSS), or ssthresh. Of ten segments none is in
    // flight at the end; of fourteen, 13 and 14 are.
    for (exit_window, segments, left) in
        [("flight", 10, 2.0), ("flight", 14, 3.0), ("ssthresh", 10, 5.0), ("ssthresh", 14, 5.0)]
    {
        let settings = json!({
            "connection": { "close": "none" },
            "recovery": { "kind": "newreno", "exit_window": exit_window },
        });
        let pair = exchange(rfc(settings), segments, &["> 1"]);
        assert_eq!(window(&pair), (left, 5.0), "{exit_window}, {segments} segments");
    }
}

#[test]
fn newreno_may_end_its_recovery_with_the_deflated_window() {
    // Seven duplicates open the window by 7; the partial acknowledgement of 1 and 2 leaves 6 of them. That of 3 to 9
    // removes 7, one of them from the window itself.
    let settings = json!({
        "connection": { "close": "none" },
        "recovery": { "kind": "newreno", "exit_window": "deflated" },
    });
    let pair = exchange(rfc(settings), 10, &["> 1", "> 3", "> 10"]);
    assert_eq!(window(&pair), (4.0, 5.0));
}

#[test]
fn a_reduction_of_any_cause_is_reported_with_the_next_new_data() {
    // RFC 3168, 6.1.2: "When an ECN-Capable TCP sender reduces its congestion window for any reason (because of a
    // retransmit timeout, a Fast Retransmit, or in response to an ECN Notification), the TCP sender sets the CWR flag
    // in the TCP header of the first new data packet sent after the window reduction."
    let all = ["> 1", "> 2", "> 3", "> 4", "> 5", "> 6", "> 7", "> 8"];
    for recovery in ["tahoe", "reno", "newreno", "sack", "rack"] {
        for (cause, lost) in [("a loss", &["> 2"][..]), ("a timeout", &all)] {
            let settings = json!({
                "ecn": { "mode": "on" }, "cwnd": { "initial": 8 }, "recovery": { "kind": recovery },
            });
            let pair = exchange(rfc(settings), 30, lost);
            assert_eq!(reports(&pair), 1, "{recovery}, {cause}");
        }
    }
}

#[test]
fn a_mark_after_a_repaired_loss_reduces_the_window() {
    for (lost, timeouts) in [(&["> 2"][..], 0), (&["> 2", "> 2 again"], 1)] {
        let settings = json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 8 } });
        let pair = transfer(rfc(settings), 60, Path::losing(lost).and_marking(&["> 50"]));
        let counts = pair.client().counts();
        assert_eq!((counts.timeouts, counts.mark_reductions), (timeouts, 1), "{lost:?}");
    }
}

#[test]
fn a_loss_halves_the_flight_the_window_or_the_pipe() {
    // Limited transmit has sent 11 and 12 when the third duplicate arrives: a flight of 10 without them, and in the
    // pipe the 12 segments except three that arrived and one that is lost.
    for (basis, limit, ssthresh) in
        [("flight-size", 20, 5.0), ("window", 20, 5.0), ("window", 9, 4.5), ("pipe", 20, 4.0)]
    {
        let settings = json!({
            "cwnd": { "reduction_basis": basis }, "receiver": { "window": limit },
            "recovery": { "kind": "sack" },
        });
        let pair = endless(rfc(settings), 201, Path::losing(&["> 1"]));
        assert_eq!(window(&pair), (ssthresh, ssthresh), "{basis}, the receiver takes {limit}");
    }
}

#[test]
fn ssthresh_is_constant_at_a_repeated_timeout() {
    // RFC 5681, 3.1: if the segment "has already been retransmitted by way of the retransmission timer at least
    // once, the value of ssthresh is held constant".
    for (repeated, ssthresh) in [("holds", 5.0), ("holds-in-recovery", 5.0), ("halves", 2.0)] {
        let settings = json!({ "cwnd": { "repeated_timeout": repeated, "reduction_basis": "window" } });
        let mut pair = Pair::endless(rfc(settings));
        pair.run(at(1200), &mut losing(Sent::has_data));
        assert_eq!((pair.client().counts().timeouts, window(&pair)), (1, (1.0, 5.0)), "{repeated}");
        pair.run(at(4000), &mut losing(Sent::has_data));
        assert_eq!((pair.client().counts().timeouts, window(&pair)), (2, (1.0, ssthresh)), "{repeated}");
    }
}

#[test]
fn a_timeout_in_fast_recovery_halves_again_by_default() {
    for (repeated, ssthresh) in [("holds", 2.5), ("holds-in-recovery", 5.0)] {
        let settings = json!({ "cwnd": { "repeated_timeout": repeated, "reduction_basis": "window" } });
        let pair = endless(rfc(settings), 1250, Path::losing(&["> 1", "> 1 again"]));
        assert_eq!((pair.client().counts().timeouts, window(&pair)), (1, (1.0, ssthresh)), "{repeated}");
    }
}

#[test]
fn a_timeout_that_excludes_the_newest_segments_leaves_a_window_of_one_more() {
    // Linux, `tcp_enter_loss`: the window is a segment more than the data still in the network. Segments 6 and 7 and
    // their probe are lost; data sent 50 ms before the timeout, half a round trip, is not considered lost.
    for (newest, left) in [(0, 1.0), (1, 2.0), (3, 4.0)] {
        let settings = json!({
            "recovery": { "kind": "rack", "timeout_loses": "late" }, "cwnd": { "idle_restart": "off" },
        });
        let mut pair = Pair::new(rfc(settings))
            .plan(Client, When::At(0), Act::Write(5 * MSS))
            .plan(Client, When::At(1000), Act::Write(2 * MSS))
            .plan(Client, When::At(2150), Act::Write(newest * MSS));
        pair.run(at(990), &mut |_| arrives());
        pair.run(at(2201), &mut losing(Sent::has_data));
        assert_eq!(pair.client().counts().timeouts, 1);
        assert_eq!(pair.client().cwnd(), left, "{newest} are spared");
    }
}

#[test]
fn in_ns_2_s_full_tcp_a_timeout_halves_what_duplicates_opened_too() {
    // The third duplicate leaves 10 of a window of 20 and opens it by 3, each further one by 1. Half of this, rounded
    // down, or half of the receiver's window, is `ssthresh` after the timeout.
    for (arriving, limit, ssthresh) in [(20, 1000, 14.0), (20, 24, 12.0), (4, 1000, 6.0)] {
        let settings = json!({ "cwnd": { "initial": 20 }, "receiver": { "window": limit } });
        let mut pair = Pair::endless(full_tcp(settings));
        let mut path = losing(|sent| sent.has_data() && !(MSS..arriving * MSS).contains(&sent.segment.seq));
        pair.run(at(900), &mut path);
        assert_eq!(pair.client().counts().timeouts, 1);
        assert_eq!(window(&pair), (1.0, ssthresh), "{arriving} arrive, the receiver takes {limit}");
    }
}

#[test]
fn in_ns_2_s_full_tcp_a_timeout_after_a_mark_leaves_ssthresh_alone() {
    // A mark halves a window of 8, or of 1; the timeout after it leaves a window of 1 of both.
    for (initial, marked, ssthresh) in [(8, 4.0, 4.0), (1, 0.5, 2.0)] {
        let settings = json!({
            "ecn": { "mode": "on" }, "cwnd": { "initial": initial, "idle_restart": "off" },
        });
        let mut pair = Pair::endless(full_tcp(settings));
        let mut path = Path::marking(&["> 1"]);
        pair.run(at(199), &mut |sent| path.fate(sent));
        pair.run(at(210), &mut losing(Sent::has_data));
        assert_eq!(window(&pair), (marked, ssthresh));
        pair.run(at(650), &mut losing(Sent::has_data));
        assert_eq!((window(&pair), pair.client().counts().timeouts), ((1.0, ssthresh), 1));
    }
}

#[test]
fn in_ns_2_s_full_tcp_a_mark_echoed_after_a_timeout_counts() {
    let settings = json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 8 } });
    let mut pair = Pair::endless(full_tcp(settings));
    pair.run(at(101), &mut losing(Sent::has_data));
    let mut path = Path::marking(&["> 1 again"]);
    pair.run(at(510), &mut |sent| path.fate(sent));
    let counts = pair.client().counts();
    assert_eq!((counts.timeouts, counts.mark_reductions), (1, 1), "{}", pair.log.join("\n"));
}

#[test]
fn in_ns_2_s_full_tcp_duplicates_after_a_timeout_open_the_window_permanently() {
    // All duplicates arrive between the timeout at 400 ms and the acknowledgement of its retransmission. Those after
    // the third open the window of 1: nine of them by 6, of which `ssthresh` leaves 4, five by 2. The acknowledgement
    // opens the window like any other.
    for (initial, arriving, expected) in [(10, 10, 5.0 + 1.0 / 5.0), (20, 6, 1.0 + 2.0 + 1.0)] {
        let settings = json!({ "cwnd": { "initial": initial } });
        let duplicates = vec!["< ack 0"; arriving - 1];
        let lost: Vec<String> = (arriving + 1..=initial).map(|number| format!("> {number}")).collect();
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        let path = Path::losing(&["> 1"]).and_losing(&lost).and_delaying(&duplicates, 250);
        let pair = endless(full_tcp(settings), 501, path);
        assert_eq!((pair.client().counts().timeouts, pair.client().cwnd()), (1, expected));
    }
}

#[test]
fn in_ns_2_s_full_tcp_a_fraction_of_a_segment_is_lost_with_a_loss() {
    let pair = endless(full_tcp(json!({ "cwnd": { "initial": 5 } })), 201, Path::losing(&["> 1"]));
    assert_eq!(window(&pair), (2.0, 2.0));
}

#[test]
fn in_ns_2_s_full_tcp_a_loss_halves_a_window_that_a_mark_halved() {
    let settings = json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 16 } });
    let pair = endless(full_tcp(settings), 210, Path::marking(&["> 1"]).and_losing(&["> 2"]));
    assert_eq!((window(&pair), pair.client().counts().mark_reductions), ((4.0, 8.0), 1));
}

#[test]
fn in_ns_2_s_full_tcp_an_acknowledgement_later_than_a_timeout_ends_an_idle_period() {
    // After ten round trips of 100 ms the timeout without its minimum of 200 ms is below 160 ms.
    for (late, expected) in [(0, 9.0), (60, 2.0)] {
        let settings = json!({
            "cwnd": { "initial": 2 }, "receiver": { "window": 4 }, "connection": { "close": "none" },
        });
        let path = Path::default().and_delaying(&["< ack 41"], late);
        let pair = transfer(full_tcp(settings), 41, path);
        assert_eq!(pair.client().cwnd().floor(), expected, "{late} ms late");
    }
}

#[test]
fn a_probe_that_repaired_a_loss_reduces_the_window_once_more_data_shows_it() {
    // RFC 8985, 7.4.2: data beyond the probe is acknowledged, and no D-SACK reports that the probe arrived twice. Linux
    // then reduces the window and continues; CUBIC leaves 0.7 of 20 segments.
    let settings = json!({
        "profile": "linux-6", "connection": { "mss": "1000B" }, "ecn": { "mode": "on" },
    });
    let mut pair = Pair::new(settings)
        .plan(Client, When::At(0), Act::Write(10 * MSS))
        .plan(Client, When::At(550), Act::Write(MSS))
        .plan(Client, When::At(700), Act::Write(MSS));
    let mut path = Path::losing(&["> 10"]);
    pair.run(at(640), &mut |sent| path.fate(sent));
    assert_eq!((pair.client().cwnd(), sent_at(&pair, 512)), (20.0, vec!["10 again".to_owned()]));
    pair.run(at(710), &mut |sent| path.fate(sent));
    let (cwnd, ssthresh) = window(&pair);
    assert_eq!((ssthresh, pair.client().counts().fast_retransmits), (14.0, 1));
    assert_eq!(cwnd, 14.0, "the same acknowledgement counts towards its next segment");
    assert_eq!(sent_at(&pair, 700), ["12 CWR ECT"]);
}

#[test]
fn d_sack_undoes_an_unnecessary_reduction() {
    // RFC 3708, section 3: all retransmitted data had already arrived. Linux, `tcp_current_ssthresh`: `ssthresh` is at
    // least three quarters of the window at that time, here 10. The D-SACK reports nothing else.
    for (undo, expected) in [("off", (5.0, 5.0)), ("dsack", (10.0, 7.0))] {
        let settings = json!({
            "recovery": { "kind": "sack", "undo": undo, "limited_transmit": "off" },
            "cwnd": { "initial_ssthresh": 4.0 },
        });
        let path = Path::losing(&["> 11", "> 12", "> 13", "> 14"]).and_delaying(&["> 1"], 70);
        let pair = endless(rfc(settings), 301, path);
        assert!(pair.log.iter().any(|line| line.ends_with("250 < ack 10 sack 1")), "{:#?}", pair.log);
        assert_eq!(window(&pair), expected, "{undo}");
    }
}

#[test]
fn f_rto_undoes_a_spurious_timeout_and_its_predecessors() {
    // RFC 5682, 3.1: the acknowledgement of a segment that was sent once, before the timeout, shows that the timeout
    // was spurious. Only the first two of ten segments arrive, late; the reduction is that of the first timeout.
    for (frto, expected) in [("off", (3.0, 5.0)), ("on", (10.0, 12.0))] {
        for (late, timeouts) in [(1500, 1), (3500, 2)] {
            let lost = ["> 3", "> 4", "> 5", "> 6", "> 7", "> 8", "> 9", "> 10", "> 1 again", "> 1 again"];
            let mut path = Path::losing(&lost).and_delaying(&["> 1", "> 2"], late);
            let settings = json!({
                "cwnd": { "initial_ssthresh": 12.0 }, "recovery": { "kind": "sack", "frto": frto },
            });
            let mut pair = Pair::endless(rfc(settings));
            pair.run(at(late + 199), &mut |sent| path.fate(sent));
            assert_eq!((pair.client().counts().timeouts, window(&pair)), (timeouts, (1.0, 5.0)), "{frto}");
            pair.run(at(late + 201), &mut |sent| path.fate(sent));
            assert_eq!(window(&pair), expected, "{frto}, after {timeouts} timeouts");
        }
    }
}

#[test]
fn a_loss_detected_by_the_reordering_timer_reduces_the_window() {
    // RFC 8985, 6.2, steps 4 and 5. Segment 1 arrived late, so that 12 may be late by a quarter of the round trip after
    // the segments behind it have arrived. By then 22 to 32 are in flight in addition to the SACKed segments and 12: 21
    // in total.
    let settings = json!({ "recovery": { "kind": "rack", "dupthresh": 100 } });
    let path = Path::losing(&["> 12"]).and_delaying(&["> 1"], 10);
    let pair = endless(rfc(settings), 340, path);
    assert_eq!(sent_at(&pair, 325), ["12 again"]);
    assert_eq!((window(&pair), pair.client().counts().fast_retransmits), ((6.0, 6.0), 1));
}

#[test]
fn a_partial_acknowledgement_deflates_the_reported_window() {
    // RFC 6582, 3.2, step 3: "deflate the congestion window by the amount of new data acknowledged" and "add back SMSS
    // bytes". Three duplicates open the window by 3, and four segments are acknowledged: 5 + 3 - 4 + 1, of which
    // duplicates still contribute 1.
    let settings = json!({ "recovery": { "kind": "newreno" } });
    let mut pair = Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(10 * MSS));
    let mut path = Path::losing(&["> 1", "> 5", "> 6", "> 7", "> 8", "> 9", "> 10"]);
    pair.run(at(299), &mut |sent| path.fate(sent));
    assert_eq!(window(&pair), (5.0, 5.0));
    pair.run(at(310), &mut |sent| path.fate(sent));
    assert_eq!(window(&pair), (4.0, 5.0));
}

/// Returns the windows in bytes after each acknowledgement of data, for an application that writes these numbers of
/// segments, a second apart.
fn windows_of_rounds(settings: Value, rounds: &[u64]) -> Vec<Vec<f64>> {
    let mut pair = Pair::new(settings);
    for (round, segments) in rounds.iter().enumerate() {
        pair = pair.plan(Client, When::At(1000 * round as u64), Act::Write(segments * MSS));
    }
    let mut windows = Vec::new();
    for round in 1..=rounds.len() as u64 {
        let (mut seen, mut round_windows) = (0, Vec::new());
        while pair.step(at(1000 * round - 1), &mut |_| arrives()) {
            if let Some((Client, segment)) = pair.arrived.filter(|(_, segment)| segment.ack > seen) {
                seen = segment.ack;
                round_windows.push(pair.client().cwnd() * MSS as f64);
            }
        }
        windows.push(round_windows);
    }
    windows
}

/// Settings of the draft's appendix: an initial window of ten segments of 1000 bytes, in slow start.
fn rate_limited(more: Value) -> Value {
    let cwnd = json!({ "growth_when_limited": "rate-limited-increase", "idle_restart": "off" });
    rfc(over(json!({ "cwnd": cwnd, "receiver": { "window": 1000 } }), more))
}

#[test]
fn the_window_of_a_rate_limited_sender_follows_the_traces_of_the_draft() {
    // draft-ietf-ccwg-ratelimited-increase-11, appendix A: the windows in bytes after each acknowledgement of four
    // rounds with 4, 8, 4 and 20 packets.
    let traces: [&[u32]; 4] = [
        &[11_000, 12_000, 13_000, 14_000],
        &[15_000, 16_000, 17_000, 18_000, 19_000, 20_000, 20_000, 20_000],
        &[20_000; 4],
        &[
            21_000, 22_000, 23_000, 24_000, 25_000, 26_000, 27_000, 28_000, 29_000, 30_000, 31_000, 32_000,
            33_000, 34_000, 35_000, 36_000, 37_000, 38_000, 39_000, 40_000,
        ],
    ];
    for kind in ["reno", "cubic"] {
        let settings = rate_limited(json!({ "congestion_control": { "kind": kind } }));
        let windows = windows_of_rounds(settings, &[4, 8, 4, 20]);
        let data = |index: usize| windows[index].iter().rev().take(traces[index].len()).rev();
        for (round, trace) in traces.iter().enumerate() {
            assert!(
                data(round).eq(trace.iter().map(|&bytes| f64::from(bytes)).collect::<Vec<_>>().iter()),
                "{kind}, round {}: {:?}",
                round + 1,
                windows[round]
            );
        }
    }
}

#[test]
fn the_window_of_the_drafts_example_stays_at_twice_the_flight() {
    // Section 3.1: 14 segments with a pause after the first ten. The window is 20 and stays at 20; without the limit,
    // 24.
    for (growth, window) in [("rate-limited-increase", 20.0), ("grows", 24.0)] {
        let settings = rate_limited(json!({ "cwnd": { "growth_when_limited": growth } }));
        let windows = windows_of_rounds(settings, &[10, 4]);
        assert_eq!(windows[0].last(), Some(&20_000.0));
        assert_eq!(windows[1].last(), Some(&(window * MSS as f64)), "{growth}");
    }
}

#[test]
fn in_congestion_avoidance_the_window_exceeds_the_flight_by_at_most_a_segment() {
    // Section 3: limit(maxFS) = SMSS + maxFS. The initial window of ten segments counts as flight.
    let settings = rate_limited(json!({ "cwnd": { "initial_ssthresh": 2.0 } }));
    let windows = windows_of_rounds(settings, &[8; 6]);
    let last: Vec<f64> = windows.iter().map(|round| *round.last().unwrap()).collect();
    assert!(last[0] > 10_700.0 && last[0] < 11_000.0, "{last:?}");
    assert_eq!(last[1..], [11_000.0; 5]);
}

#[test]
fn a_paced_sender_with_hystart_opens_by_more_than_eight_segments() {
    // RFC 9406, 4.3: `L` is 8 without pacing, and there is no limit with pacing. The ACKs of the first eleven of twelve
    // segments are lost, so that one acknowledgement acknowledges twelve segments.
    for (pacing, window) in [("off", 20.0), ("on", 24.0)] {
        let settings = json!({
            "congestion_control": { "slow_start_exit": "hystart++" }, "recovery": { "kind": "sack" },
            "cwnd": { "initial": 12, "abc_limit": null }, "pacing": { "mode": pacing, "unpaced_segments": 12 },
            "receiver": { "window": 1000 },
        });
        let mut pair = Pair::new(rfc(settings)).plan(Client, When::At(0), Act::Write(12 * MSS));
        pair.run(HOUR, &mut |sent| {
            let is_early = sent.from == Server && sent.segment.ack > 0 && sent.segment.ack < 12 * MSS;
            if is_early { vec![] } else { arrives() }
        });
        assert_eq!(window_of(&pair), window, "pacing {pacing}");
    }
}

/// Returns the client's window.
fn window_of(pair: &Pair) -> f64 {
    pair.client().cwnd()
}
