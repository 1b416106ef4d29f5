//! Congestion controls with a model of the path, between two endpoints: pacing, timeouts, marks and idle periods.
//!
//! The path has a delay of 50 ms in each direction and no transmission time.

use crate::pair::*;
use aqm_net::Span;
use aqm_tcp::congestion_control::SenderState;
use serde_json::{Value, json};

fn with(control: &str, profile: &str) -> Value {
    json!({ "profile": profile, "recovery": { "kind": "rack" }, "congestion_control": { "kind": control } })
}

/// Time without a single arrival, in milliseconds.
fn silence(from: u64, to: u64) -> impl FnMut(&Sent) -> Vec<Copy> {
    let mut sent = 0;
    move |segment| {
        sent += u64::from(segment.has_data());
        if (from..to).contains(&sent) { vec![] } else { arrives() }
    }
}

#[test]
fn startup_doubles_the_data_of_a_round_trip() {
    for control in ["bbr3", "bbr1"] {
        let mut pair = Pair::endless(with(control, "linux-6"));
        pair.run(at(800), &mut |_| arrives());
        let of_round = |round: u64| {
            let times = pair.first_sent[0].iter();
            times.filter(|time| (at(100 * round)..at(100 * (round + 1))).contains(time)).count() as f64
        };
        assert_eq!(of_round(1), 10.0);
        for round in 2..6 {
            let growth = of_round(round + 1) / of_round(round);
            assert!((1.4..2.4).contains(&growth), "{control}: {growth} after round {round}");
        }
    }
}

#[test]
fn the_initial_window_leaves_at_once_and_later_segments_are_spaced() {
    let mut pair = Pair::endless(with("bbr3", "linux-6"));
    pair.run(at(290), &mut |_| arrives());
    let times = &pair.first_sent[0];
    assert!(times[..10].iter().all(|&time| time == at(100)));
    let gaps: Vec<Span> = times[10..].windows(2).map(|pair| pair[1].since(pair[0])).collect();
    // 2.77 initial windows per round trip.
    let gap = 100.0 / 10.0 / 2.77;
    assert!(
        gaps.len() > 5 && gaps[1..].iter().all(|it| (it.seconds() * 1e3 / gap - 1.0).abs() < 0.01),
        "{gaps:?}"
    );
}

#[test]
fn a_timeout_is_no_undo_although_it_leaves_the_latest_data_in_flight() {
    for control in ["bbr3", "bbr1"] {
        for profile in ["linux-6", "rfc"] {
            let mut pair = Pair::endless(with(control, profile));
            let mut fate = silence(60, 120);
            while pair.client().counts().timeouts == 0 {
                assert!(pair.step(at(5000), &mut fate));
            }
            assert!(pair.client().cwnd() <= 4.0, "{control} {profile}: {}", pair.client().cwnd());
            let retransmitted = pair.client().counts().retransmitted;
            pair.run(pair.now + Span::from_millis(90), &mut fate);
            assert!(pair.client().counts().retransmitted <= retransmitted + 5, "{control} {profile}");
            pair.run(at(12_000), &mut |_| arrives());
            assert!(pair.client().cwnd() > 60.0, "{control} {profile}: the window recovers");
        }
    }
}

#[test]
fn nothing_waits_for_its_departure_after_everything_is_acknowledged() {
    // The retransmission of a segment waits, while the original arrives late.
    for delay in (55..200).step_by(5) {
        for control in ["bbr3", "bbr1"] {
            let path = Path::default().and_delaying(&["> 12"], delay);
            let pair = Pair::one_way(with(control, "linux-6"), 20 * 1448).over(path);
            assert!(pair.client().is_done() && pair.client().poll_timeout().is_none());
        }
    }
}

#[test]
fn a_silent_application_skips_probe_rtt() {
    for control in ["bbr3", "bbr1"] {
        let mut pair = Pair::new(with(control, "linux-6"))
            .plan(Client, When::At(0), Act::Write(2_000_000))
            .plan(Client, When::At(30_000), Act::Write(2_000_000));
        pair.run(at(29_000), &mut |_| arrives());
        assert_eq!(pair.client().in_flight(), 0);
        let mut states = Vec::new();
        while pair.step(at(32_000), &mut |_| arrives()) {
            states.push(pair.client().control_report().state.unwrap());
        }
        assert_eq!(pair.client().in_flight(), 0);
        assert!(!states.contains(&SenderState::ProbeRtt), "{control}");
    }
}

#[test]
fn endpoints_without_random_numbers_of_their_own_behave_equally() {
    let log = |seeded: bool| {
        let mut pair = Pair::endless(with("bbr3", "linux-6"));
        if seeded {
            let tcp = &pair.tcp[0];
            pair.ends[0] = tcp
                .endpoint()
                .with_control_random(|| aqm_net::Streams::new(7).named("tcp/congestion-control", 3));
            pair.ends[0].write(None, aqm_net::Instant::START);
        }
        // 20 segments per 10 ms of the path arrive together.
        pair.run(at(9000), &mut |sent| {
            let after = if sent.has_data() { Span::from_millis(50) } else { ONE_WAY };
            vec![Copy { after, marked: false }]
        });
        pair.client().control_report()
    };
    assert_eq!(log(false), log(false));
}
