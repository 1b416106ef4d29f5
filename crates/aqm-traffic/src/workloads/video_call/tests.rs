//! Video calls on a path that consists of one link in each direction.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{RecordingContext, context, fact};

/// A path with the same link in both directions.
struct Path {
    bps: f64,
    delay: Span,
    /// Every `loss`-th datagram of the forward direction is lost, if `loss` is not zero.
    loss: u64,
}

const PATH: Path = Path { bps: 2e6, delay: Span::from_millis(25), loss: 0 };

/// A datagram under way: flow, direction, number, send time and size.
type Datagram = (u32, bool, u64, Instant, u16);

/// Runs calls on a path for some seconds. Returns the workload, and all sent datagrams in both directions.
fn talk(config: &Config, seconds: u64, path: &Path) -> (Box<dyn Workload>, RecordingContext) {
    let mut workload = config.build(&context(1, seconds)).unwrap();
    let mut cx = RecordingContext::default();
    let mut under_way: BTreeMap<(Instant, u64), Datagram> = BTreeMap::new();
    let (mut seen, mut numbers, mut free, mut order) = ([0; 2], BTreeMap::new(), [Instant::START; 2], 0);
    workload.start(&mut cx);
    loop {
        for back in [false, true] {
            let sent = if back { &cx.sent_back } else { &cx.sent };
            for &(at, flow, bytes, _) in &sent[seen[usize::from(back)]..] {
                let number: &mut u64 = numbers.entry((flow, back)).or_default();
                let link = &mut free[usize::from(back)];
                *link = at.max(*link) + Span::from_seconds(8.0 * f64::from(bytes) / path.bps);
                if back || path.loss == 0 || *number % path.loss != path.loss - 1 {
                    under_way.insert((*link + path.delay, order), (flow, back, *number, at, bytes));
                }
                *number += 1;
                order += 1;
            }
            seen[usize::from(back)] = sent.len();
        }
        let wake = cx.wakes.peek().map_or(Instant::NEVER, |Reverse(at)| *at);
        let arrival = under_way.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
        if wake.min(arrival) == Instant::NEVER {
            return (workload, cx);
        }
        if arrival <= wake {
            let ((now, _), (flow, back, number, sent, bytes)) = under_way.pop_first().unwrap();
            cx.now = now;
            let ecn = Ecn::NotEct;
            workload.on_datagram(&ArrivedDatagram { flow, back, number, sent, bytes, ecn }, &mut cx);
        } else {
            cx.wakes.pop();
            cx.now = wake;
            workload.on_wake(&mut cx);
        }
    }
}

/// Returns the mean of a quantity over the seconds from `from` on in which packets were sent, for all directions.
fn mean(workload: &dyn Workload, from: u64, of: impl Fn(&crate::call_record::CallSecond) -> f64) -> f64 {
    let records = workload.call_records();
    let seconds =
        records.iter().flat_map(|one| &one.seconds).filter(|one| one.second >= from && one.packets_sent > 0);
    let values: Vec<f64> = seconds.map(of).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_video_uses_most_of_the_link_and_renders_all_frames() {
    let (workload, _) = talk(&Config::default(), 30, &PATH);
    let sent = mean(&*workload, 10, |one| 8.0 * one.sent_bytes as f64);
    assert!((1.3e6..2.0e6).contains(&sent), "{sent}");
    let [frames, rendered, freezes] =
        ["frames_sent", "frames_rendered", "freezes"].map(|name| fact(&*workload, name));
    assert!((1799.0..=1801.0).contains(&frames), "{frames}");
    assert!(frames - rendered <= 10.0 && freezes == 0.0, "{rendered} {freezes}");
    let delay = fact(&*workload, "frame_delay_95_s");
    assert!((0.025..0.15).contains(&delay), "{delay}");
}

#[test]
fn a_fixed_rate_sends_audio_and_video_at_this_rate() {
    let fixed = rate_control::fixed::Config { rate: Rate::from_bps(1_000_000), ..Default::default() };
    let control = rate_control::Config::fixed(fixed);
    let config = Config { control, both_ways: false, ..Config::default() };
    let (workload, cx) = talk(&config, 20, &PATH);
    let sent = mean(&*workload, 2, |one| 8.0 * one.sent_bytes as f64);
    assert!((sent / 1e6 - 1.0).abs() < 0.02, "{sent}");
    let audio: Vec<Instant> = cx.sent.iter().filter(|one| one.2 == 120).map(|one| one.0).collect();
    assert_eq!(audio.len(), 1000, "Opus at 32 kb/s has 80 B per packet");
    assert!(audio.windows(2).all(|two| two[1].since(two[0]) == AUDIO_INTERVAL));
    // The backward direction carries only feedback, every 50 ms.
    assert!((390..=400).contains(&cx.sent_back.len()), "{}", cx.sent_back.len());
    assert_eq!(fact(&*workload, "key_frames"), 1.0);
}

#[test]
fn lost_packets_are_retransmitted() {
    let path = Path { loss: 100, ..PATH };
    let (workload, _) = talk(&Config { both_ways: false, ..Config::default() }, 20, &path);
    let [frames, rendered, keys, again] = ["frames_sent", "frames_rendered", "key_frames", "retransmissions"]
        .map(|name| fact(&*workload, name));
    assert!(again > 10.0 && keys == 1.0, "{again} {keys}");
    assert!(frames - rendered <= 10.0, "{frames} {rendered}");
}

#[test]
fn without_retransmissions_lost_packets_cost_frames_and_cause_key_frames() {
    let path = Path { loss: 100, ..PATH };
    let config = Config { both_ways: false, retransmit: false, ..Config::default() };
    let (workload, _) = talk(&config, 20, &path);
    let [frames, rendered, keys, again] = ["frames_sent", "frames_rendered", "key_frames", "retransmissions"]
        .map(|name| fact(&*workload, name));
    assert!(again == 0.0 && keys > 5.0, "{again} {keys}");
    assert!(frames - rendered > 20.0, "{frames} {rendered}");
}

#[test]
fn a_pause_stops_the_media_and_is_no_freeze() {
    let seconds = |seconds: u64| Some(Span::from_millis(1000 * seconds));
    let config = Config { both_ways: false, pause: seconds(10), resume: seconds(15), ..Config::default() };
    let (workload, cx) = talk(&config, 20, &PATH);
    let paused = Instant::START + Span::from_millis(10_500)..Instant::START + Span::from_millis(15_000);
    assert!(cx.sent.iter().all(|one| !paused.contains(&one.0)));
    assert!(cx.sent.iter().any(|one| one.0 >= paused.end));
    assert_eq!(fact(&*workload, "freezes"), 0.0);
}

#[test]
fn calls_do_not_depend_on_their_number_and_share_a_link() {
    let first = |calls| {
        let mut workload = Config { calls, ..Config::default() }.build(&context(1, 1)).unwrap();
        let recording = crate::testing::run(&mut *workload);
        recording.sent.iter().find(|one| one.1 == 0).copied()
    };
    assert_eq!(first(1), first(3));
    let (workload, _) = talk(&Config { calls: 3, both_ways: false, ..Config::default() }, 40, &PATH);
    let total = 3.0 * mean(&*workload, 20, |one| 8.0 * one.received_bytes as f64);
    assert!((1.2e6..2.0e6).contains(&total), "{total}");
}

#[test]
fn a_ladder_keeps_the_video_at_its_rates() {
    let rates = vec![Rate::from_bps(200_000), Rate::from_bps(1_000_000)];
    let config = Config { both_ways: false, audio: Audio::None, rates, ..Config::default() };
    let (workload, _) = talk(&config, 20, &PATH);
    let records = workload.call_records();
    let last = records[0].frames.last().unwrap();
    assert_eq!(last.bytes, 1_000_000 / 8 / 30);
}

#[test]
fn invalid_parameters_are_rejected() {
    let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
    assert_eq!(path(Config { calls: 0, ..Config::default() }), "calls");
    assert_eq!(path(Config { frame_rate: 0.0, ..Config::default() }), "frame_rate");
    assert_eq!(path(Config { min_rate: Rate::from_bps(0), ..Config::default() }), "min_rate");
    assert_eq!(path(Config { max_rate: Rate::from_bps(1), ..Config::default() }), "max_rate");
    let rates = [2000, 1000].map(Rate::from_bps).to_vec();
    assert_eq!(path(Config { rates, ..Config::default() }), "rates");
    assert_eq!(path(Config { key_frame: 0.5, ..Config::default() }), "key_frame");
    assert_eq!(path(Config { feedback_every: Span::ZERO, ..Config::default() }), "feedback_every");
    assert_eq!(path(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
    let second = Some(Span::from_millis(1000));
    assert_eq!(path(Config { pause: second, ..Config::default() }), "resume");
    assert_eq!(path(Config { resume: second, ..Config::default() }), "pause");
    assert_eq!(path(Config { pause: second, resume: second, ..Config::default() }), "resume");
    let fixed = rate_control::fixed::Config { pacing_factor: 0.0, ..Default::default() };
    let control = rate_control::Config::fixed(fixed);
    assert_eq!(path(Config { control, ..Config::default() }), "control.pacing_factor");
}
