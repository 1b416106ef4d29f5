//! Tests of each rule of Linux with constructed samples, and of invariants with random samples.

use super::*;
use crate::congestion_control::LimitedSlowStart;
use crate::congestion_control::window::WindowRules;
use crate::congestion_control::{CongestionSignal, DeliveredSegment};

const MSS: u64 = 1000;
const RTT: Span = Span::from_millis(100);

/// A sender, its window, and the next acknowledgement. By default, an acknowledgement reports a delivery rate of 1
/// MB/s and a round-trip time of 100 ms, so that the bandwidth-delay product is 100 segments.
struct Rig {
    bbr: Bbr1,
    window: Window,
    sample: RateSample,
    rate: f64,
    starts_round: bool,
    is_app_limited: bool,
}

impl Rig {
    fn new() -> Self {
        let mut window = Window::new(&WindowRules::default(), LimitedSlowStart::BelowSsthresh, 10.0, 1e9);
        let mut bbr = Bbr1::new(&Config::default());
        let now = Instant::from_nanos(1_000_000_000);
        bbr.on_transmit(
            &mut window,
            &Transmit { now, delivered: 0, is_app_limited: true, srtt: Some(RTT), mss: MSS },
        );
        let sample = RateSample {
            now,
            newly_acked: MSS,
            newly_lost: 0,
            newly_marked: 0,
            delivered: 0,
            lost: 0,
            marked: 0,
            segment: None,
            rtt: Some(RTT),
            srtt: Some(RTT),
            in_flight_before: 200 * MSS,
            in_flight: 200 * MSS,
            is_cwnd_limited: true,
            phase: RecoveryPhase::Open,
            pacing_delay: Span::ZERO,
            mss: MSS,
        };
        Self { bbr, window, sample, rate: 1e6, starts_round: true, is_app_limited: false }
    }

    /// Returns a sender in `PROBE_BW`.
    fn in_probe_bw() -> Self {
        let mut rig = Self::new();
        for _ in 0..4 {
            rig.ack();
        }
        rig.sample.in_flight = 100 * MSS;
        rig.sample.in_flight_before = 100 * MSS;
        rig.ack();
        assert_eq!(rig.bbr.mode, Mode::ProbeBw);
        rig
    }

    fn ack(&mut self) {
        self.sample.now += Span::from_millis(10);
        self.sample.delivered += self.sample.newly_acked;
        self.sample.lost += self.sample.newly_lost;
        let when_sent = if self.starts_round { self.bbr.next_round_delivered } else { 0 };
        self.sample.segment = Some(DeliveredSegment {
            delivered_when_sent: when_sent,
            lost_when_sent: 0,
            marked_when_sent: 0,
            in_flight_when_sent: MSS,
            is_app_limited: self.is_app_limited,
            delivered: (self.rate * RTT.seconds()) as u64,
            interval: (self.rate > 0.0).then_some(RTT),
        });
        self.bbr.on_rates(&mut self.window, &self.sample);
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }
}

#[test]
fn startup_ends_after_three_rounds_and_drain_at_the_bandwidth_delay_product() {
    let mut rig = Rig::new();
    for rate in [1e6, 2e6, 2.4e6, 2.4e6] {
        rig.rate = rate;
        rig.ack();
        assert_eq!(rig.bbr.mode, Mode::Startup);
    }
    rig.sample.in_flight = 400 * MSS;
    rig.ack();
    assert_eq!((rig.bbr.mode, rig.window.ssthresh), (Mode::Drain, 258.0), "240 segments and 3 bursts of 6");
    assert_eq!(rig.bbr.pacing_rate, DRAIN_GAIN * 2.4e6 * 0.99);
    rig.sample.in_flight = 249 * MSS;
    rig.ack();
    assert_eq!(rig.bbr.mode, Mode::Drain);
    rig.sample.in_flight = 246 * MSS;
    rig.ack();
    assert_eq!(rig.bbr.mode, Mode::ProbeBw);
}

#[test]
fn the_first_phase_is_never_the_slow_one() {
    let mut seen = [0; 8];
    for seed in 0..500 {
        let mut bbr = Bbr1::new(&Config::default());
        bbr.set_random(Streams::new(seed).named("test", 0));
        bbr.start_probe_bw();
        seen[bbr.cycle_phase] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(
        seen.iter().enumerate().all(|(phase, &count)| phase == 1 || (40..110).contains(&count)),
        "{seen:?}"
    );
}

#[test]
fn a_phase_lasts_a_round_trip_and_the_fast_one_until_the_path_is_full_or_loses() {
    let mut rig = Rig::in_probe_bw();
    rig.bbr.policer = None;
    let phase = |rig: &mut Rig, phase| {
        rig.bbr.cycle_phase = phase;
        rig.bbr.cycle_since = rig.sample.now;
        rig.bbr.update_gains();
    };
    phase(&mut rig, 3);
    for _ in 0..10 {
        rig.ack();
        assert_eq!(rig.bbr.cycle_phase, 3);
    }
    rig.ack();
    assert_eq!(rig.bbr.cycle_phase, 4);
    phase(&mut rig, 0);
    for _ in 0..20 {
        rig.ack();
        assert_eq!((rig.bbr.cycle_phase, rig.bbr.pacing_rate), (0, 1.25e6 * 0.99));
    }
    // The target is 125 segments plus 6 for the hosts, rounded up to an even number, plus 2 for the probe. The next
    // burst of 2 segments departs.
    rig.sample.in_flight_before = 132 * MSS;
    rig.ack();
    assert_eq!(rig.bbr.cycle_phase, 1);
    phase(&mut rig, 0);
    rig.sample.in_flight_before = 100 * MSS;
    rig.sample.newly_lost = MSS;
    for _ in 0..10 {
        rig.ack();
    }
    assert_eq!(rig.bbr.cycle_phase, 0);
    rig.ack();
    assert_eq!(rig.bbr.cycle_phase, 1);
    rig.sample.in_flight_before = 107 * MSS;
    phase(&mut rig, 1);
    rig.ack();
    assert_eq!(rig.bbr.cycle_phase, 1);
    rig.sample.in_flight_before = 106 * MSS;
    rig.ack();
    assert_eq!(rig.bbr.cycle_phase, 2);
}

#[test]
fn the_data_in_flight_is_that_at_the_next_paced_departure() {
    let mut rig = Rig::in_probe_bw();
    rig.bbr.pacing_gain = 1.0;
    rig.sample.pacing_delay = Span::from_millis(3);
    assert_eq!(rig.bbr.inflight_at_departure(10 * MSS, &rig.sample), 7.0);
    assert_eq!(rig.bbr.inflight_at_departure(2 * MSS, &rig.sample), 0.0);
    rig.bbr.pacing_gain = 1.25;
    assert_eq!(rig.bbr.inflight_at_departure(10 * MSS, &rig.sample), 9.0, "with a burst of 2");
}

#[test]
fn the_window_is_two_products_three_bursts_and_the_excess() {
    let mut rig = Rig::in_probe_bw();
    rig.bbr.cycle_phase = 3;
    for _ in 0..200 {
        rig.bbr.cycle_phase = 3;
        rig.ack();
    }
    assert_eq!(rig.cwnd(), 208.0, "200 segments, 6 for the hosts, and an acknowledged one in excess, even");
    rig.sample.now += Span::from_millis(100);
    rig.sample.newly_acked = 51 * MSS;
    rig.bbr.cycle_phase = 3;
    rig.ack();
    assert_eq!(rig.cwnd(), 258.0, "257 segments, even");
}

#[test]
fn ten_seconds_without_a_lower_round_trip_lead_to_probe_rtt_with_four_segments() {
    let mut rig = Rig::in_probe_bw();
    rig.sample.rtt = Some(Span::from_millis(101));
    let mut acks = 0;
    while rig.bbr.mode == Mode::ProbeBw {
        rig.ack();
        acks += 1;
    }
    assert!((995..=1001).contains(&acks), "{acks}");
    assert_eq!((rig.cwnd(), rig.bbr.min_rtt), (4.0, Some(Span::from_millis(101))));
    assert!(rig.bbr.limits_rate());
    rig.sample.in_flight = 4 * MSS;
    rig.ack();
    for _ in 0..20 {
        rig.ack();
        assert_eq!(rig.bbr.mode, Mode::ProbeRtt);
    }
    rig.ack();
    assert_eq!(rig.bbr.mode, Mode::ProbeBw);
    assert!(rig.cwnd() > 50.0, "the window is restored");
}

#[test]
fn only_a_shorter_round_trip_postpones_probe_rtt() {
    let enters_probe_rtt = |rtt: Span| {
        let mut rig = Rig::in_probe_bw();
        rig.sample.rtt = Some(rtt);
        (0..2500).any(|_| {
            rig.ack();
            rig.bbr.mode == Mode::ProbeRtt
        })
    };
    assert!(enters_probe_rtt(RTT + Span::from_nanos(900)), "equal in whole microseconds");
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
    let mut rig = Rig::in_probe_bw();
    for _ in 0..200 {
        rig.ack();
    }
    let before = rig.cwnd();
    let congestion = Congestion { signal: CongestionSignal::Loss, basis: 0.0, repeated: false };
    rig.bbr.reduce(&mut rig.window, &congestion);
    (rig.sample.phase, rig.sample.newly_lost, rig.starts_round) = (RecoveryPhase::Recovery, 3 * MSS, false);
    rig.sample.in_flight = 90 * MSS;
    rig.ack();
    assert_eq!(rig.cwnd(), 91.0, "the data in flight and the acknowledged segment");
    rig.sample.newly_lost = 0;
    rig.ack();
    assert_eq!(rig.cwnd(), 91.0);
    rig.starts_round = true;
    rig.ack();
    assert_eq!(rig.cwnd(), 92.0, "the second round grows");
    rig.sample.newly_lost = 5 * MSS;
    rig.ack();
    assert_eq!(rig.cwnd(), 88.0);
    (rig.sample.phase, rig.sample.newly_lost) = (RecoveryPhase::Open, 0);
    rig.ack();
    assert!((rig.cwnd() - before).abs() <= 2.0, "{} {before}", rig.cwnd());
}

#[test]
fn a_timeout_leaves_the_data_in_flight_and_one_segment() {
    let mut rig = Rig::in_probe_bw();
    rig.bbr.on_timeout(&mut rig.window, 3 * MSS, MSS);
    assert_eq!((rig.cwnd(), rig.bbr.full_bandwidth), (4.0, 0.0));
}

#[test]
fn an_undo_restarts_the_test_whether_the_path_is_full() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.ack();
    }
    assert_eq!(rig.bbr.full_rounds, 2);
    rig.bbr.on_event(WindowEvent::Undone);
    assert_eq!((rig.bbr.full_bandwidth, rig.bbr.full_rounds), (0.0, 0));
    rig.ack();
    assert_eq!((rig.bbr.full_bandwidth, rig.bbr.full_rounds), (1e6, 0));
}

#[test]
fn an_idle_period_ends_with_pacing_at_the_bandwidth_and_without_probe_rtt() {
    let mut rig = Rig::in_probe_bw();
    rig.sample.now += Span::from_millis(20_000);
    let transmit =
        Transmit { now: rig.sample.now, delivered: 0, is_app_limited: true, srtt: Some(RTT), mss: MSS };
    rig.bbr.on_transmit(&mut rig.window, &transmit);
    assert_eq!(rig.bbr.pacing_rate, 0.99e6);
    rig.ack();
    assert_eq!((rig.bbr.mode, rig.bbr.is_idle_restart), (Mode::ProbeBw, false));
}

mod invariants {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_window_is_at_least_four_segments_and_the_rate_is_finite_and_positive(
            steps in prop::collection::vec(
                (0..10_u8, 0..5_000_000_u64, 1..30_000_u64, any::<bool>(), any::<bool>()), 1..300,
            ),
        ) {
            let mut rig = Rig::new();
            let mut was_disturbed = false;
            for (kind, first, second, flag, other) in steps {
                (rig.starts_round, rig.is_app_limited) = (flag, other);
                match kind {
                    0 => rig.sample.phase = RecoveryPhase::Open,
                    1 => {
                        let congestion =
                            Congestion { signal: CongestionSignal::Loss, basis: 0.0, repeated: false };
                        rig.bbr.reduce(&mut rig.window, &congestion);
                        rig.sample.phase = RecoveryPhase::Recovery;
                        was_disturbed = true;
                    }
                    2 => {
                        rig.bbr.on_timeout(&mut rig.window, second, MSS);
                        rig.sample.phase = RecoveryPhase::Loss;
                        was_disturbed = true;
                    }
                    3 => rig.bbr.on_event(WindowEvent::Undone),
                    4 => rig.sample.now += Span::from_nanos(first * 1000),
                    _ => {
                        rig.rate = if kind == 5 { 0.0 } else { first as f64 * 250.0 };
                        rig.sample.newly_acked = second % 20_000;
                        rig.sample.newly_lost = if flag { second } else { 0 };
                        rig.sample.rtt = other.then_some(Span::from_nanos(first * 1000));
                        rig.sample.in_flight = first / 3;
                        rig.ack();
                    }
                }
                let least = if was_disturbed { 1.0 } else { 4.0 };
                prop_assert!(rig.cwnd().is_finite() && rig.cwnd() >= least, "{}", rig.cwnd());
                let rate = rig.bbr.pacing_rate().unwrap();
                prop_assert!(rate.is_finite() && rate > 0.0, "{rate}");
            }
        }
    }
}
