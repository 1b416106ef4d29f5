//! Congestion controls compared with published tables and response functions.
//!
//! A congestion control is driven alone: every segment is acknowledged, and takes the round-trip time divided by the
//! window. Means are over time, that is, in segments per round trip. The file is long because it contains the tables of
//! all congestion controls, which are compared with each other.

use aqm_net::{Instant, Span};
use aqm_tcp::congestion_control::{
    AckInfo, AckSample, Congestion, CongestionSignal, Control, Controller, CubicConfig, HighSpeedConfig,
    LossRate, RenoConfig, ScalableConfig,
};
use serde_json::{Value, json};

use crate::pair::without_model;

/// A congestion control with its clock.
struct Drive {
    controller: Controller,
    now: Instant,
    rtt: Span,
    /// Acknowledged bytes, in segments of 1000 bytes.
    snd_una: u64,
}

impl Drive {
    /// Creates a congestion control in congestion avoidance, with a window of `window`.
    fn new(control: &Control, cwnd: f64, rtt: Span) -> Self {
        Self {
            controller: Controller::new(&**control, cwnd, 2.0),
            now: Instant::START + rtt,
            rtt,
            snd_una: 0,
        }
    }

    /// Acknowledges `segments` segments, one by one.
    fn acknowledge(&mut self, segments: u64) {
        for _ in 0..segments {
            self.now += Span::from_seconds(self.rtt.seconds() / self.controller.cwnd());
            self.tell(true);
        }
    }

    /// Reports one acknowledged segment.
    fn tell(&mut self, may_grow: bool) {
        let srtt = Some(self.rtt);
        if self.controller.uses_samples() {
            let newest = Some(self.now.earlier_by(self.rtt));
            self.snd_una += 1000;
            let (snd_una, snd_nxt) = (self.snd_una, self.snd_una + 1000 * self.controller.cwnd() as u64);
            let sample = AckSample {
                now: self.now,
                newest,
                ack_sent_at: newest,
                srtt,
                delivered: 1000,
                marked: 0,
                snd_una,
                snd_nxt,
                mss: 1000,
            };
            self.controller.on_sample(&sample);
        }
        self.controller.on_ack(&AckInfo { now: self.now, acked: 1.0, counted: 1.0, may_grow, srtt });
    }

    /// Reports the loss of a segment of a full window.
    fn lose(&mut self) {
        self.controller.on_congestion(&loss(self.controller.cwnd()));
    }

    /// Returns the mean window over `cycles` of `period` segments with a loss at the end of each, after an equal number
    /// of cycles that are not counted.
    fn mean_window(&mut self, period: u64, cycles: u64) -> f64 {
        let mut start = self.now;
        for cycle in 0..2 * cycles {
            if cycle == cycles {
                start = self.now;
            }
            self.acknowledge(period);
            self.lose();
        }
        (cycles * period) as f64 * self.rtt.seconds() / self.now.since(start).seconds()
    }
}

/// Reports a loss that reduces `basis` segments.
fn loss(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Loss, basis, repeated: false }
}

const RTT: Span = Span::from_millis(100);

fn near(seen: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((seen / expected - 1.0).abs() <= tolerance, "{what}: {seen}, expected {expected}");
}

fn highspeed(loss_rate: LossRate) -> HighSpeedConfig {
    HighSpeedConfig { loss_rate, ..HighSpeedConfig::default() }
}

fn cubic(tcp_friendliness: bool) -> Control {
    Control::cubic(CubicConfig { tcp_friendliness, fast_convergence: false, ..CubicConfig::default() })
}

#[test]
fn reno_holds_the_window_of_the_square_root_law() {
    for (period, cycles) in [(10_000, 40), (100_000, 40)] {
        let expected = (1.5 * period as f64).sqrt();
        let mut drive = Drive::new(&Control::reno(RenoConfig::default()), expected, RTT);
        near(drive.mean_window(period, cycles), expected, 0.01, "T1");
    }
}

/// Ott, Kemperman and Mathis, "The Stationary Behavior of Ideal TCP Congestion Avoidance", 1996: the constant is 1.3098
/// if every segment is lost with the same probability, independent of the others.
#[test]
fn reno_holds_the_window_of_independent_losses() {
    let (probability, rounds) = (1e-4, 600_000);
    let mut draws = SplitMix(1);
    let mut reno = Controller::new(&RenoConfig::default(), 131.0, 2.0);
    let mut segments = 0.0;
    for _ in 0..rounds {
        // Whole segments are sent; the fraction selects one of two sizes, so that the average is exact.
        let window = reno.cwnd() as u64 + u64::from(draws.next() < reno.cwnd() % 1.0);
        segments += window as f64;
        let mut is_lost = false;
        for _ in 0..window {
            is_lost |= draws.next() < probability;
        }
        if is_lost {
            reno.on_congestion(&loss(reno.cwnd()));
        } else {
            for _ in 0..window {
                reno.on_ack(&AckInfo {
                    now: Instant::START,
                    acked: 1.0,
                    counted: 1.0,
                    may_grow: true,
                    srtt: None,
                });
            }
        }
    }
    near(segments / f64::from(rounds) * f64::sqrt(probability), 1.31, 0.02, "T2");
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    /// Uniform in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// RFC 3649, appendix B: w, a(w), b(w).
const TABLE: [(f64, f64, f64); 19] = [
    (38.0, 1.0, 0.50),
    (118.0, 2.0, 0.44),
    (221.0, 3.0, 0.41),
    (347.0, 4.0, 0.38),
    (495.0, 5.0, 0.37),
    (663.0, 6.0, 0.35),
    (851.0, 7.0, 0.34),
    (1058.0, 8.0, 0.33),
    (1284.0, 9.0, 0.32),
    (1529.0, 10.0, 0.31),
    (1793.0, 11.0, 0.30),
    (2076.0, 12.0, 0.29),
    (2378.0, 13.0, 0.28),
    (3039.0, 15.0, 0.27),
    (3778.0, 17.0, 0.26),
    (5036.0, 20.0, 0.25),
    (8130.0, 26.0, 0.22),
    (11_358.0, 31.0, 0.20),
    (84_035.0, 71.0, 0.10),
];

#[test]
fn highspeed_gives_the_table_of_rfc_3649() {
    // The table is computed with the rounded line; the exact one differs by up to 3.2 %, at the far end.
    for (loss_rate, tolerance) in [(LossRate::Rounded, 0.03), (LossRate::TwoPoints, 0.035)] {
        let config = highspeed(loss_rate);
        for (window, a, b) in TABLE {
            near(config.increase(window), a, tolerance, "a(w)");
            assert!((config.decrease(window) - b).abs() <= 0.0051, "{window}: {}", config.decrease(window));
        }
    }
    assert!((HighSpeedConfig::default().decrease(89_053.0) - 0.10).abs() < 0.005);
}

#[test]
fn highspeed_steps_up_at_the_windows_of_the_rounded_line() {
    let config = highspeed(LossRate::Rounded);
    let steps = [(2, 118), (3, 221), (4, 347), (5, 494), (6, 662), (7, 849), (8, 1056), (26, 8126)];
    for (a, expected) in steps {
        let window = (38..100_000).find(|&window| config.increase(f64::from(window)) >= f64::from(a));
        let window = window.unwrap_or(0);
        assert!(i32::abs(window - expected) <= 2, "a(w) = {a} from {window}, expected {expected}");
    }
}

#[test]
fn highspeed_of_ns_2_grows_from_reno_without_a_step() {
    let config = highspeed(LossRate::Continuous);
    for (window, a, b) in [
        (83.0, 1.67, 0.459),
        (156.0, 2.51, 0.427),
        (312.0, 3.90, 0.391),
        (625.0, 6.02, 0.354),
        (1250.0, 9.20, 0.3182),
        (83_000.0, 72.5, 0.100),
    ] {
        near(config.increase(window), a, 0.003, "a(w)");
        assert!((config.decrease(window) - b).abs() <= 0.0006, "{window}: {}", config.decrease(window));
    }
    assert!((config.increase(38.001) - 1.0).abs() < 1e-3);
}

#[test]
fn highspeed_adds_a_segment_in_w_over_a_acknowledgements() {
    for (window, _, _) in TABLE {
        let config = HighSpeedConfig::default();
        let mut drive = Drive::new(&Control::highspeed(config.clone()), window, RTT);
        let count = (window / config.increase(window)).round() as u64;
        drive.acknowledge(count);
        // The step shrinks as the window grows, and the count is a whole number.
        near(drive.controller.cwnd() - window, 1.0, 0.03, "HS-1");
    }
}

#[test]
fn highspeed_takes_the_share_of_the_table() {
    for (window, _, b) in TABLE.into_iter().chain([(89_053.0, 71.0, 0.10)]) {
        let mut drive = Drive::new(&Control::highspeed(HighSpeedConfig::default()), window, RTT);
        drive.lose();
        let share = 1.0 - drive.controller.cwnd() / window;
        assert!((share - b).abs() <= 0.0051, "{window}: {share}");
        assert_eq!(drive.controller.ssthresh(), drive.controller.cwnd());
    }
}

#[test]
fn highspeed_is_reno_up_to_the_low_window() {
    let mut highspeed = Drive::new(&Control::highspeed(HighSpeedConfig::default()), 3.0, RTT);
    let mut reno = Drive::new(&Control::reno(RenoConfig::default()), 3.0, RTT);
    for step in 0..5000 {
        for drive in [&mut highspeed, &mut reno] {
            if step % 700 == 699 || drive.controller.cwnd() > 37.9 {
                drive.lose();
            } else {
                drive.acknowledge(1);
            }
        }
        assert_eq!(highspeed.controller.cwnd(), reno.controller.cwnd(), "{step}");
        assert_eq!(highspeed.controller.ssthresh(), reno.controller.ssthresh(), "{step}");
    }
}

#[test]
fn highspeed_holds_the_window_of_its_response_function() {
    // RFC 3649, section 5: w = 0.12/p^0.835.
    for (period, expected, cycles) in
        [(10_000, 263.0, 40), (100_000, 1795.0, 30), (1_000_000, 12_279.0, 10), (10_000_000, 83_981.0, 1)]
    {
        let mut drive = Drive::new(&Control::highspeed(HighSpeedConfig::default()), expected, RTT);
        near(drive.mean_window(period, cycles), expected, 0.05, "T10");
    }
}

#[test]
fn scalable_holds_a_window_in_proportion_to_the_segments_between_losses() {
    for (period, cycles) in [(1_000, 200), (10_000, 200), (100_000, 100)] {
        let expected = 0.01 / -libm::log(0.875) * period as f64; // 0.0749/p
        let mut drive = Drive::new(&Control::scalable(ScalableConfig::default()), expected, RTT);
        near(drive.mean_window(period, cycles), expected, 0.01, "T12");
    }
}

#[test]
fn cubic_holds_the_window_of_its_response_function() {
    // RFC 8312, tables 1 and 2: the mean of the cubic curve, or that of AIMD (RFC 9438, section 4.3) if larger. The
    // flat curve converges very slowly from a wrong `W_max`, so that each run begins at the right one.
    let short = Span::from_millis(10);
    for (rtt, period, expected, cycles) in [
        (RTT, 10_000, 187.0, 200),
        (RTT, 100_000, 1054.0, 100),
        (RTT, 1_000_000, 5926.0, 10),
        (short, 1_000_000, 1225.0, 10),
    ] {
        let beta = 0.7;
        let mut drive = Drive::new(&cubic(true), expected / (1.0 - (1.0 - beta) / 4.0), rtt);
        drive.lose();
        near(drive.mean_window(period, cycles), expected, 0.05, "T11");
    }
}

#[test]
fn cubic_returns_to_the_window_of_its_response_function() {
    for start in [150.0, 300.0] {
        let mut drive = Drive::new(&cubic(false), start, RTT);
        drive.lose();
        drive.mean_window(10_000, 200);
        near(drive.mean_window(10_000, 20), 187.0, 0.05, "T11");
    }
}

#[test]
fn cubic_is_back_at_the_old_window_after_k() {
    let mut drive = Drive::new(&cubic(false), 100.0, RTT);
    drive.lose();
    assert_eq!(drive.controller.cwnd(), 70.0);
    let k = libm::cbrt(30.0 / 0.4);
    assert!((k - 4.217).abs() < 1e-3);
    // The distances from 100 at K - s and K + s are equal, because the curve is odd there.
    let at = windows_at(&mut drive, &[k - 2.0, k - 1.0, k, k + 1.0, k + 2.0]);
    for (seen, expected) in at.iter().zip([96.8, 99.6, 100.0, 100.4, 103.2]) {
        assert!((seen - expected).abs() < 0.15, "{at:?}");
    }
}

#[test]
fn cubic_is_concave_up_to_the_old_window_and_convex_above() {
    let mut drive = Drive::new(&cubic(false), 1000.0, RTT);
    drive.lose();
    let times: Vec<f64> = (1..=36).map(|step| 0.5 * f64::from(step)).collect();
    let windows = windows_at(&mut drive, &times);
    for triple in windows.windows(3) {
        let bend = triple[2] - 2.0 * triple[1] + triple[0];
        if triple[2] < 999.0 {
            assert!(bend < 0.0, "{triple:?}");
        } else if triple[0] > 1001.0 {
            assert!(bend > 0.0, "{triple:?}");
        }
    }
    assert!(windows[0] < 800.0 && windows[35] > 1200.0);
}

/// Returns the windows at `times`, in seconds from now.
fn windows_at(drive: &mut Drive, times: &[f64]) -> Vec<f64> {
    let start = drive.now;
    times
        .iter()
        .map(|&time| {
            while drive.now < start + Span::from_seconds(time) {
                drive.acknowledge(1);
            }
            drive.controller.cwnd()
        })
        .collect()
}

#[test]
fn cubic_grows_by_at_most_half_a_round_trip() {
    let control = Control::cubic(CubicConfig { c: 1e6, ..CubicConfig::default() });
    let mut drive = Drive::new(&control, 10.0, RTT);
    drive.lose();
    for _ in 0..20 {
        let before = drive.controller.cwnd();
        drive.acknowledge(before as u64);
        assert!(drive.controller.cwnd() <= 1.5 * before, "{before} to {}", drive.controller.cwnd());
    }
    assert!(drive.controller.cwnd() > 1000.0, "the curve is steep: {}", drive.controller.cwnd());
}

#[test]
fn cubic_never_falls_on_an_acknowledgement() {
    for friendly in [true, false] {
        for rtt in [1, 20, 300] {
            let mut drive = Drive::new(&cubic(friendly), 80.0, Span::from_millis(rtt));
            drive.lose();
            for _ in 0..20_000 {
                let before = drive.controller.cwnd();
                drive.acknowledge(1);
                assert!(drive.controller.cwnd() >= before);
            }
        }
    }
}

#[test]
fn cubic_on_a_short_path_is_reno_and_probes_like_it() {
    let mut drive = Drive::new(&cubic(true), 100.0, Span::from_millis(1));
    drive.lose();
    let mut grown = Vec::new();
    for _ in 0..80 {
        let before = drive.controller.cwnd();
        drive.acknowledge(before.round() as u64);
        grown.push((before, drive.controller.cwnd() - before));
    }
    // Section 4.3: 9/17 of a segment per round trip up to the window before the loss, then one.
    for &(before, step) in &grown {
        if before < 99.0 {
            near(step, 9.0 / 17.0, 0.02, "W_est");
        } else if before > 100.0 {
            near(step, 1.0, 0.02, "W_est");
        }
    }
    assert!(drive.controller.cwnd() > 110.0);
}

/// Returns the window after a loss and 5 s of acknowledgements, with `pause` after the first 2 s.
fn window_after(pause: impl Fn(&mut Drive)) -> f64 {
    let mut drive = Drive::new(&cubic(false), 500.0, RTT);
    drive.lose();
    windows_at(&mut drive, &[2.0]);
    pause(&mut drive);
    windows_at(&mut drive, &[3.0])[0]
}

#[test]
fn cubic_does_not_count_time_without_need_for_the_window() {
    let steady = window_after(|_| {});
    let limited = window_after(|drive| {
        for _ in 0..6000 {
            drive.now += Span::from_millis(10);
            let before = drive.controller.cwnd();
            drive.tell(false);
            assert_eq!(drive.controller.cwnd(), before);
        }
    });
    near(limited, steady, 0.001, "a minute limited by the application");
}

#[test]
fn cubic_does_not_count_idle_time() {
    let steady = window_after(|_| {});
    let idle = window_after(|drive| drive.now += Span::from_millis(60_000));
    // The first acknowledgement counts as a round trip, so that the curve may be further along by this amount.
    near(idle, steady, 0.01, "a minute idle");
}

#[test]
fn cubic_continues_to_grow_after_idle_time_and_a_cap() {
    let mut drive = Drive::new(&cubic(false), 500.0, RTT);
    drive.lose();
    windows_at(&mut drive, &[2.0]);
    drive.controller.cap(1000.0);
    let before = drive.controller.cwnd();
    let after = windows_at(&mut drive, &[0.2, 2.0]);
    assert!(after[0] > before && after[1] > after[0] + 5.0, "{before}, {after:?}");
    assert!(after[1] < 500.0);

    drive.controller.cap(10.0);
    assert_eq!((drive.controller.cwnd(), drive.controller.ssthresh()), (10.0, 350.0));
    let after = windows_at(&mut drive, &[0.05, 0.6]);
    assert!(
        after[1] == 350.0 || (after[1] > 350.0 && after[1] < 400.0),
        "slow start up to ssthresh: {after:?}"
    );
}

/// Returns a congestion control of a `kind`; for LEDBAT, slow start is enabled.
fn with_slow_start(kind: &str, mut table: Value) -> Control {
    table["kind"] = kind.into();
    if kind == "ledbat" {
        table["slow_start"] = true.into();
    }
    aqm_tcp::read(json!({ "congestion_control": table })).unwrap().congestion_control
}

#[test]
fn every_congestion_control_without_a_model_opens_in_slow_start_and_caps() {
    for kind in without_model() {
        let control = with_slow_start(kind, json!({}));
        control.check().unwrap();
        let mut controller = Controller::new(&*control, 2.0, 64.0);
        controller.open(4.0, 32.0);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (4.0, 32.0));
        let mut drive = Drive { controller, now: Instant::START + RTT, rtt: RTT, snd_una: 0 };
        drive.acknowledge(28);
        assert_eq!(drive.controller.cwnd(), 32.0, "{}", control.kind());
        drive.acknowledge(60);
        assert!(drive.controller.cwnd() > 32.0 && drive.controller.cwnd() < 48.0, "{}", control.kind());
        let before = drive.controller.cwnd();
        drive.tell(false);
        assert_eq!(drive.controller.cwnd(), before);
        drive.controller.cap(5.0);
        assert_eq!((drive.controller.cwnd(), drive.controller.ssthresh()), (5.0, 32.0), "{}", control.kind());
    }
}

#[test]
fn every_congestion_control_without_a_model_applies_the_rounding_and_the_limits_of_its_window() {
    for kind in without_model() {
        let table = json!({ "ssthresh_rounding": "segments", "slow_start_end": "past-threshold",
            "max_ssthresh": 100.0 });
        let control = with_slow_start(kind, table);
        let mut drive = Drive {
            controller: Controller::new(&*control, 2.5, 3.0),
            now: Instant::START + RTT,
            rtt: RTT,
            snd_una: 0,
        };
        drive.tell(true);
        assert_eq!(drive.controller.cwnd(), 3.5, "{kind}: past the threshold");
        drive.controller.open(100.0, 1000.0);
        drive.acknowledge(100);
        // RFC 3742: at most half of `max_ssthresh` more per round trip.
        assert!((149.0..151.0).contains(&drive.controller.cwnd()), "{kind}: {}", drive.controller.cwnd());
        drive.controller.on_congestion(&loss(10.9));
        assert_eq!(drive.controller.cwnd().fract(), 0.0, "{kind}: whole segments");
    }
}

#[test]
fn every_parameter_names_its_source() {
    for entry in Control::catalog() {
        for field in entry.parameters {
            assert!(!field.source.is_empty() && !field.doc.is_empty(), "{} {}", entry.name, field.name);
        }
    }
}
