//! Tests of each rule of the draft with constructed samples, and of invariants with random samples.

use aqm_net::{Instant, Span};

use super::*;
use crate::congestion_control::LimitedSlowStart;
use crate::congestion_control::window::{Window, WindowRules};

const SMSS: u64 = 1000;
const RTT: Span = Span::from_millis(100);

/// A sender and its window. By default, an acknowledgement reports a delivery rate of 100 kB/s and a round-trip time
/// of 100 ms, so that the bandwidth-delay product is 10 segments.
struct Rig {
    bbr: Bbr3,
    window: Window,
    now: Instant,
    delivered: u64,
    lost: u64,
    marked: u64,
    phase: RecoveryPhase,
}

/// Contents of an acknowledgement. The tests specify only the fields that differ from the defaults in `REPORT`.
#[derive(Clone, Copy)]
struct Report {
    acked: u64,
    /// Delivery rate.
    rate: f64,
    /// Whether the acknowledgement starts a round.
    starts_round: bool,
    is_app_limited: bool,
    in_flight: u64,
    flight_when_sent: u64,
    /// Data lost since the segment was sent.
    lost: u64,
    marked: u64,
    is_cwnd_limited: bool,
    rtt: Option<Span>,
}

const REPORT: Report = Report {
    acked: SMSS,
    rate: 1e5,
    starts_round: true,
    is_app_limited: false,
    in_flight: 10 * SMSS,
    flight_when_sent: 10 * SMSS,
    lost: 0,
    marked: 0,
    is_cwnd_limited: false,
    rtt: Some(RTT),
};

impl Rig {
    fn new(config: &Config) -> Self {
        let mut window = Window::new(&WindowRules::default(), LimitedSlowStart::BelowSsthresh, 10.0, 1e9);
        let mut bbr = Bbr3::new(config);
        let now = Instant::from_nanos(1_000_000_000);
        bbr.on_transmit(
            &mut window,
            &Transmit { now, delivered: 0, is_app_limited: true, srtt: Some(RTT), mss: SMSS },
        );
        Self { bbr, window, now, delivered: 0, lost: 0, marked: 0, phase: RecoveryPhase::Open }
    }

    fn draft() -> Self {
        Self::new(&Config::default())
    }

    fn linux(ecn: Ecn) -> Self {
        Self::new(&Config { profile: Profile::Linux, ecn })
    }

    /// Returns a sender that has reached the state `DOWN`.
    fn in_down() -> Self {
        let mut rig = Self::draft();
        rig.fill();
        rig.bbr.start_down(rig.now, rig.delivered);
        rig
    }

    /// Returns a sender in the state `UP` with an `inflight_longterm` of `longterm` bytes.
    fn in_up(longterm: f64) -> Self {
        let mut rig = Self::in_down();
        rig.bbr.longterm = longterm;
        rig.pass(3500);
        rig.ack(Report { starts_round: false, ..REPORT });
        assert_eq!(rig.bbr.state, State::Refill);
        rig.ack(REPORT);
        assert_eq!(rig.bbr.state, State::Up);
        rig
    }

    /// Sends acknowledgements until the path is full.
    fn fill(&mut self) {
        for _ in 0..4 {
            self.ack(Report { in_flight: 20 * SMSS, ..REPORT });
        }
        assert_eq!(self.bbr.state, State::Drain);
    }

    fn pass(&mut self, millis: u64) {
        self.now += Span::from_millis(millis);
    }

    fn ack(&mut self, report: Report) {
        self.pass(10);
        self.delivered += report.acked;
        self.marked += report.marked;
        let delivered = report.rate * RTT.seconds();
        let when_sent = if report.starts_round {
            self.bbr.rounds.next_delivered.max(self.bbr.loss_round_end())
        } else {
            0
        };
        let segment = DeliveredSegment {
            delivered_when_sent: when_sent.min(self.delivered),
            lost_when_sent: self.lost - report.lost.min(self.lost),
            marked_when_sent: self.marked - report.marked,
            in_flight_when_sent: report.flight_when_sent,
            is_app_limited: report.is_app_limited,
            delivered: delivered as u64,
            interval: (report.rate > 0.0).then_some(RTT),
        };
        let sample = RateSample {
            now: self.now,
            newly_acked: report.acked,
            newly_lost: 0,
            newly_marked: report.marked,
            delivered: self.delivered,
            lost: self.lost,
            marked: self.marked,
            segment: Some(segment),
            rtt: report.rtt,
            srtt: Some(RTT),
            in_flight_before: report.in_flight + report.acked,
            in_flight: report.in_flight,
            is_cwnd_limited: report.is_cwnd_limited,
            phase: self.phase,
            pacing_delay: Span::ZERO,
            mss: SMSS,
        };
        self.bbr.on_rates(&mut self.window, &sample);
    }

    /// Loses `count` segments at a distance of `step` segments, all of which were sent with `flight` bytes in flight.
    fn lose(&mut self, count: u64, step: u64, flight: u64, is_app_limited: bool) {
        let lost_when_sent = self.lost;
        for index in 0..count {
            self.lost += SMSS;
            let lost = LostSegment {
                now: self.now,
                begin: (1_000 + index * step) * SMSS,
                bytes: SMSS,
                delivered: self.delivered,
                total_lost: self.lost,
                delivered_when_sent: 0,
                lost_when_sent,
                in_flight_when_sent: flight,
                is_app_limited,
            };
            self.bbr.on_lost(&mut self.window, &lost);
        }
    }

    /// Begins fast recovery.
    fn recover(&mut self) {
        let congestion = Congestion { signal: CongestionSignal::Loss, basis: 0.0, repeated: false };
        self.bbr.reduce(&mut self.window, &congestion);
        self.phase = RecoveryPhase::Recovery;
    }
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more_bandwidth() {
    let mut rig = Rig::draft();
    for rate in [1e5, 1.25e5, 1.6e5] {
        rig.ack(Report { rate, ..REPORT });
        assert_eq!(rig.bbr.full.rounds, 0);
    }
    rig.ack(Report { rate: 1.9e5, ..REPORT });
    rig.ack(Report { rate: 1.9e5, starts_round: false, ..REPORT });
    rig.ack(Report { rate: 1e5, is_app_limited: true, ..REPORT });
    assert_eq!(
        (rig.bbr.full.rounds, rig.bbr.state),
        (1, State::Startup),
        "only rounds that are not limited count"
    );
    rig.ack(Report { rate: 1.99e5, ..REPORT });
    rig.ack(Report { rate: 1.99e5, in_flight: 60 * SMSS, ..REPORT });
    assert_eq!((rig.bbr.full.is_now, rig.bbr.full.is_reached, rig.bbr.state), (true, true, State::Drain));
    assert_eq!(rig.bbr.bw, 1.99e5);
    assert_eq!(rig.bbr.pacing_rate, 0.5 * 1.99e5 * 0.99);
}

#[test]
fn the_first_pacing_rate_is_that_of_the_initial_window_and_grows_only() {
    let mut rig = Rig::draft();
    assert_eq!(rig.bbr.pacing_rate(), Some(2.77 * 10_000.0 / 0.1));
    rig.ack(Report { rate: 5e4, ..REPORT });
    assert_eq!(rig.bbr.pacing_rate(), Some(277_000.0));
    rig.ack(Report { rate: 2e5, ..REPORT });
    assert_eq!(rig.bbr.pacing_rate(), Some(2.77 * 2e5 * 0.99));
    let mut unmeasured = Bbr3::new(&Config::default());
    let mut window = Window::new(&WindowRules::default(), LimitedSlowStart::BelowSsthresh, 10.0, 1e9);
    let transmit =
        Transmit { now: Instant::START, delivered: 0, is_app_limited: true, srtt: None, mss: SMSS };
    unmeasured.on_transmit(&mut window, &transmit);
    assert_eq!(unmeasured.pacing_rate(), Some(2.77 * 10_000.0 / 1e-3), "the nominal round trip is 1 ms");
    unmeasured.update_pacing_rate(Some(RTT));
    assert_eq!(unmeasured.pacing_rate(), Some(277_000.0));
}

#[test]
fn startup_ends_after_a_round_of_recovery_with_six_lost_ranges() {
    for (count, step, ends) in [(6, 2, true), (5, 2, false), (6, 1, false)] {
        let mut rig = Rig::draft();
        rig.ack(Report { is_app_limited: true, ..REPORT });
        rig.recover();
        rig.lose(count, step, 10 * SMSS, true);
        rig.ack(Report { starts_round: false, is_app_limited: true, lost: 6 * SMSS, ..REPORT });
        assert_eq!(rig.bbr.state, State::Startup, "the round of the losses has not ended");
        rig.ack(Report { is_app_limited: true, lost: 6 * SMSS, in_flight: 20 * SMSS, ..REPORT });
        assert_eq!((rig.bbr.full.is_reached, rig.bbr.full.is_now), (ends, ends), "{count} {step}");
        assert_eq!(rig.bbr.longterm.is_finite(), ends);
        assert_eq!(rig.bbr.undo.state, ends.then_some(State::Startup));
        assert_eq!(rig.bbr.state == State::Drain, ends);
    }
}

#[test]
fn drain_ends_when_the_data_in_flight_is_the_bandwidth_delay_product_or_after_three_rounds() {
    let mut rig = Rig::draft();
    rig.fill();
    rig.ack(Report { in_flight: 10 * SMSS + 1, ..REPORT });
    assert_eq!(rig.bbr.state, State::Drain);
    rig.ack(Report { in_flight: 10 * SMSS, starts_round: false, ..REPORT });
    assert_eq!(rig.bbr.state, State::Cruise, "the condition that ends `DOWN` holds already");
    let mut rig = Rig::draft();
    rig.fill();
    for _ in 0..3 {
        rig.ack(Report { in_flight: 30 * SMSS, ..REPORT });
        assert_eq!(rig.bbr.state, State::Drain);
    }
    rig.ack(Report { in_flight: 30 * SMSS, ..REPORT });
    assert_eq!(rig.bbr.state, State::Down);
}

#[test]
fn down_ends_with_headroom_and_a_cycle_probes_after_two_to_three_seconds() {
    let mut rig = Rig::in_down();
    rig.bbr.longterm = 10.0 * SMSS as f64;
    let quiet = Report { starts_round: false, ..REPORT };
    rig.ack(Report { in_flight: 8501, flight_when_sent: SMSS, ..quiet });
    assert_eq!(rig.bbr.state, State::Down, "headroom is 15 %");
    assert_eq!(rig.bbr.pacing_rate, 0.9 * 1e5 * 0.99);
    rig.ack(Report { in_flight: 8500, flight_when_sent: SMSS, ..quiet });
    assert_eq!(rig.bbr.state, State::Cruise);
    assert_eq!(rig.window.cwnd, 8.5, "the window leaves headroom");
    let begin = rig.now;
    while rig.bbr.state == State::Cruise {
        rig.ack(Report { flight_when_sent: SMSS, ..quiet });
    }
    let waited = rig.now.since(begin).seconds();
    assert!(waited > 1.9 && waited < 3.1, "{waited}");
    assert_eq!(rig.bbr.state, State::Refill);
    rig.ack(quiet);
    assert_eq!(rig.bbr.state, State::Refill);
    rig.ack(REPORT);
    assert_eq!(rig.bbr.state, State::Up);
}

#[test]
fn a_cycle_probes_after_as_many_rounds_as_a_reno_flow_of_this_window() {
    let mut rig = Rig::in_down();
    let mut rounds = rig.bbr.cycle.rounds_since_up;
    assert!(rounds <= 1);
    while rig.bbr.state != State::Refill {
        rig.ack(Report { in_flight: 6 * SMSS, ..REPORT });
        rounds += 1;
    }
    assert_eq!(rounds, 10, "10 segments are the bandwidth-delay product");
}

#[test]
fn growth_of_the_long_term_bound_doubles_each_round_of_up() {
    let mut rig = Rig::in_up(20.0 * SMSS as f64);
    // The window is 20 segments. With a growth of 1, the bound grows by one segment per window; with a growth of 2, by
    // two segments; and so on.
    let full = Report { is_cwnd_limited: true, in_flight: 5 * SMSS, flight_when_sent: 5 * SMSS, ..REPORT };
    let mut bounds = Vec::new();
    for _ in 0..4 {
        rig.bbr.cwnd = rig.bbr.longterm;
        for _ in 0..rig.bbr.cwnd as u64 / SMSS - 1 {
            rig.bbr.cwnd = rig.bbr.longterm;
            rig.ack(Report { starts_round: false, ..full });
        }
        rig.bbr.cwnd = rig.bbr.longterm;
        rig.ack(full);
        bounds.push(rig.bbr.longterm / SMSS as f64);
    }
    let steps: Vec<f64> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((bounds[0] - 21.0).abs() < 1.1, "{bounds:?}");
    assert!(
        (steps[0] - 2.0).abs() < 1.1 && (steps[1] - 4.0).abs() < 1.1 && (steps[2] - 8.0).abs() < 1.1,
        "{bounds:?}"
    );
    let before = rig.bbr.longterm;
    rig.ack(Report { is_cwnd_limited: false, ..full });
    assert_eq!(rig.bbr.longterm, before, "an unused window does not grow the bound");
    rig.ack(Report { flight_when_sent: 90 * SMSS, ..full });
    assert_eq!(
        rig.bbr.longterm,
        90.0 * SMSS as f64,
        "data that arrived without many losses raises the bound"
    );
}

#[test]
fn up_ends_after_three_rounds_without_growth_unless_the_bound_limits_the_window() {
    let mut rig = Rig::in_up(f64::INFINITY);
    for _ in 0..2 {
        rig.ack(REPORT);
        assert_eq!(rig.bbr.state, State::Up);
    }
    rig.ack(REPORT);
    assert_eq!((rig.bbr.state, rig.bbr.cycle.was_too_high), (State::Down, false));
    let mut rig = Rig::in_up(10.0 * SMSS as f64);
    for _ in 0..6 {
        rig.bbr.cwnd = rig.bbr.longterm;
        // The acknowledged data is not sufficient to raise the bound.
        rig.ack(Report { acked: 1, is_cwnd_limited: true, in_flight: SMSS, ..REPORT });
        assert_eq!((rig.bbr.state, rig.bbr.full.rounds), (State::Up, 0));
    }
    let mut rig = Rig::in_up(f64::INFINITY);
    for _ in 0..20 {
        rig.ack(Report { is_app_limited: true, rate: 5e4, ..REPORT });
    }
    assert_eq!(rig.bbr.state, State::Up, "the application limits the rate");
}

#[test]
fn two_percent_of_loss_in_up_set_the_bound_and_end_the_probe() {
    let mut rig = Rig::in_up(f64::INFINITY);
    rig.lose(2, 1, 100 * SMSS, false);
    assert_eq!((rig.bbr.state, rig.bbr.longterm), (State::Up, f64::INFINITY), "2 % of 100 segments");
    rig.lose(3, 1, 100 * SMSS, false);
    assert_eq!((rig.bbr.state, rig.bbr.undo.state), (State::Down, Some(State::Up)));
    // With the third lost segment, more than 2 % are lost. Before this segment, 99 segments were in flight, of which 2
    // were lost.
    let expected = 99_000.0 + (0.02 * 99_000.0 - 2_000.0) / 0.98;
    assert!((rig.bbr.longterm - expected).abs() < 1e-6, "{}", rig.bbr.longterm);
    assert!(rig.bbr.cycle.was_too_high && !rig.bbr.cycle.is_probe_sample);
    let mut rig = Rig::in_up(f64::INFINITY);
    rig.lose(3, 1, 100 * SMSS, true);
    assert_eq!((rig.bbr.state, rig.bbr.longterm), (State::Down, f64::INFINITY), "limited by the application");
    let mut rig = Rig::in_up(f64::INFINITY);
    rig.bbr.bw = 1e6;
    rig.bbr.cwnd = 80_000.0;
    rig.lose(3, 1, 10 * SMSS, false);
    assert_eq!(rig.bbr.longterm, 56_000.0, "at least 0.7 of the target");
}

#[test]
fn a_probe_after_losses_is_precautionary_and_the_next_one_follows_at_once() {
    let mut rig = Rig::in_up(20.0 * SMSS as f64);
    rig.bbr.cycle.was_too_high = true;
    rig.ack(Report { in_flight: 18 * SMSS - 1, starts_round: false, ..REPORT });
    assert_eq!(rig.bbr.state, State::Up);
    rig.ack(Report { in_flight: 18 * SMSS + 1, starts_round: false, ..REPORT });
    assert_eq!((rig.bbr.state, rig.bbr.cycle.was_precautionary), (State::Down, true));
    rig.ack(Report { in_flight: 18 * SMSS, ..REPORT });
    assert_eq!(
        (rig.bbr.state, rig.bbr.cycle.was_precautionary),
        (State::Refill, false),
        "after a round without loss"
    );
}

#[test]
fn losses_without_a_probe_lower_the_short_term_bounds_once_per_round() {
    let mut rig = Rig::in_down();
    rig.ack(Report { in_flight: 6 * SMSS, rate: 1e5, ..REPORT });
    let cwnd = rig.bbr.cwnd;
    let quiet = Report { rate: 1e4, in_flight: 6 * SMSS, ..REPORT };
    rig.ack(quiet);
    rig.lose(1, 1, 10 * SMSS, false);
    rig.ack(quiet);
    assert_eq!(rig.bbr.shortterm.bw, 0.7e5);
    assert!((rig.bbr.shortterm.inflight - 0.7 * (cwnd + 1000.0)).abs() < 701.0, "{:?}", rig.bbr.shortterm);
    assert_eq!(rig.bbr.bw, 0.7e5);
    let bounds = rig.bbr.shortterm;
    rig.ack(quiet);
    assert_eq!(rig.bbr.shortterm.bw, bounds.bw, "a round without loss");
    rig.lose(1, 1, 10 * SMSS, false);
    rig.ack(Report { rate: 0.69e5, ..quiet });
    assert_eq!(rig.bbr.shortterm.bw, 0.69e5, "not below the latest delivery");
    rig.bbr.start_refill(0, rig.delivered);
    assert!(rig.bbr.shortterm.bw.is_infinite() && rig.bbr.shortterm.inflight.is_infinite());
}

#[test]
fn a_spurious_recovery_restores_the_window_the_bounds_and_the_state() {
    let mut rig = Rig::in_up(f64::INFINITY);
    let cwnd = rig.bbr.cwnd;
    rig.recover();
    rig.lose(4, 1, 100 * SMSS, false);
    assert_eq!(rig.bbr.state, State::Down);
    rig.ack(Report { starts_round: false, in_flight: 6 * SMSS, flight_when_sent: SMSS, ..REPORT });
    assert!(rig.bbr.longterm.is_finite());
    rig.phase = RecoveryPhase::Open;
    rig.bbr.on_event(WindowEvent::Undone);
    rig.ack(Report { starts_round: false, flight_when_sent: SMSS, ..REPORT });
    assert_eq!((rig.bbr.state, rig.bbr.longterm), (State::Refill, f64::INFINITY));
    assert!(rig.bbr.cwnd >= cwnd.min(20_000.0));

    let mut rig = Rig::draft();
    rig.ack(REPORT);
    rig.recover();
    rig.lose(6, 2, 10 * SMSS, false);
    rig.ack(Report { lost: 6 * SMSS, in_flight: 40 * SMSS, ..REPORT });
    assert_eq!(rig.bbr.state, State::Drain);
    rig.phase = RecoveryPhase::Open;
    rig.bbr.on_event(WindowEvent::Undone);
    rig.ack(Report { in_flight: 40 * SMSS, rate: 2e5, ..REPORT });
    assert_eq!((rig.bbr.state, rig.bbr.full.is_reached), (State::Startup, false));
    assert!(rig.bbr.longterm.is_infinite());
}

#[test]
fn a_timeout_leaves_the_data_in_flight_and_one_segment_and_the_end_restores_the_window() {
    let mut rig = Rig::in_down();
    let cwnd = rig.window.cwnd;
    rig.lose(10, 1, 10 * SMSS, false);
    rig.bbr.on_timeout(&mut rig.window, 2 * SMSS, SMSS);
    assert_eq!(rig.window.cwnd, 3.0);
    rig.phase = RecoveryPhase::Loss;
    rig.ack(Report { starts_round: false, in_flight: 2 * SMSS, ..REPORT });
    assert_eq!(rig.window.cwnd, 4.0);
    rig.phase = RecoveryPhase::Open;
    rig.ack(Report { starts_round: false, in_flight: 2 * SMSS, ..REPORT });
    assert!(rig.window.cwnd >= cwnd - 1.0, "{} {cwnd}", rig.window.cwnd);
}

#[test]
fn the_bandwidth_is_the_maximum_of_two_cycles() {
    let mut filter = MaxBandwidth::default();
    filter.add(3.0);
    filter.advance(Profile::Draft);
    filter.add(1.0);
    assert_eq!(filter.get(), 3.0);
    filter.advance(Profile::Draft);
    assert_eq!(filter.get(), 3.0, "until the next sample");
    filter.add(2.0);
    assert_eq!(filter.get(), 2.0);
    filter.advance(Profile::Draft);
    filter.advance(Profile::Draft);
    filter.add(0.5);
    assert_eq!(filter.get(), 0.5);
    let mut filter = MaxBandwidth::default();
    filter.add(3.0);
    for _ in 0..3 {
        filter.advance(Profile::Linux);
        assert_eq!(filter.get(), 3.0, "an empty slot does not replace the other");
    }
}

#[test]
fn samples_that_the_application_limits_count_only_if_they_are_higher() {
    let mut rig = Rig::draft();
    rig.ack(REPORT);
    rig.ack(Report { rate: 2e4, is_app_limited: true, ..REPORT });
    assert_eq!(rig.bbr.max_bw.get(), 1e5);
    rig.ack(Report { rate: 2e5, is_app_limited: true, ..REPORT });
    assert_eq!(rig.bbr.max_bw.get(), 2e5);
}

#[test]
fn bursts_of_acknowledgements_enlarge_the_window() {
    let mut rig = Rig::in_down();
    let quiet = Report { starts_round: false, in_flight: 6 * SMSS, ..REPORT };
    for _ in 0..60 {
        rig.ack(quiet);
    }
    let cwnd = rig.window.cwnd;
    rig.pass(90);
    rig.ack(Report { acked: 10 * SMSS, ..quiet });
    assert!(rig.bbr.extra_acked() >= 9.9 * SMSS as f64, "{}", rig.bbr.extra_acked());
    for _ in 0..10 {
        rig.ack(quiet);
    }
    assert!(rig.window.cwnd >= cwnd + 8.0, "{} {cwnd}", rig.window.cwnd);
}

#[test]
fn probe_rtt_begins_five_seconds_after_the_last_lower_round_trip_and_lasts_200_ms_and_a_round() {
    let mut rig = Rig::in_down();
    rig.bbr.cycle.wait = Span::from_millis(100_000);
    let quiet =
        Report { starts_round: false, in_flight: 6 * SMSS, rtt: Some(Span::from_millis(101)), ..REPORT };
    let mut end = rig.now;
    for _ in 0..600 {
        rig.ack(quiet);
        if rig.bbr.state == State::ProbeRtt {
            end = rig.now;
            break;
        }
    }
    let begun = end.since(Instant::from_nanos(1_000_000_000)).seconds();
    assert!(begun > 5.0 && begun < 5.1, "{begun}");
    assert!(rig.bbr.limits_rate());
    assert_eq!(rig.bbr.min_rtt.delay, Some(RTT), "not yet ten seconds old");
    assert_eq!(rig.window.cwnd, 5.0, "half of the bandwidth-delay product");
    rig.ack(Report { in_flight: 5 * SMSS, ..quiet });
    for _ in 0..21 {
        rig.ack(quiet);
    }
    assert_eq!(rig.bbr.state, State::ProbeRtt, "no round has passed");
    rig.ack(Report { starts_round: true, ..quiet });
    assert_eq!(rig.bbr.state, State::Cruise);
    assert!(!rig.bbr.limits_rate() && rig.window.cwnd > 5.0);
    assert_eq!(rig.bbr.min_rtt.probe_at, rig.now, "the next one follows in five seconds");
}

#[test]
fn an_idle_period_ends_with_pacing_at_the_bandwidth_and_without_probe_rtt() {
    let mut rig = Rig::in_down();
    rig.pass(20_000);
    let (now, delivered) = (rig.now, rig.delivered);
    let transmit = |is_app_limited| Transmit { now, delivered, is_app_limited, srtt: Some(RTT), mss: SMSS };
    rig.bbr.on_transmit(&mut rig.window, &transmit(false));
    assert!(!rig.bbr.is_idle_restart, "the window or the receiver kept the sender silent");
    rig.bbr.on_transmit(&mut rig.window, &transmit(true));
    assert!(rig.bbr.is_idle_restart);
    assert_eq!(rig.bbr.pacing_rate, 1e5 * 0.99);
    rig.ack(Report { in_flight: 6 * SMSS, ..REPORT });
    assert_ne!(rig.bbr.state, State::ProbeRtt);
    assert!(!rig.bbr.is_idle_restart);
}

#[test]
fn probe_rtt_in_startup_returns_to_startup() {
    let mut rig = Rig::draft();
    let limited = Report { is_app_limited: true, in_flight: 2 * SMSS, ..REPORT };
    rig.ack(limited);
    rig.pass(6000);
    rig.ack(limited);
    assert_eq!(rig.bbr.state, State::ProbeRtt);
    rig.pass(300);
    rig.ack(limited);
    assert_eq!((rig.bbr.state, rig.bbr.full.is_reached), (State::Startup, false));
}

#[test]
fn the_draft_counts_marks_as_losses() {
    let mut rig = Rig::in_up(f64::INFINITY);
    rig.ack(Report { marked: 3 * SMSS, in_flight: 90 * SMSS, flight_when_sent: 100 * SMSS, ..REPORT });
    assert_eq!((rig.bbr.state, rig.bbr.longterm), (State::Down, 100_000.0));
    let mut rig = Rig::in_down();
    rig.ack(Report { in_flight: 6 * SMSS, rate: 1e4, ..REPORT });
    rig.ack(Report { marked: SMSS, in_flight: 6 * SMSS, rate: 1e4, starts_round: false, ..REPORT });
    rig.ack(Report { in_flight: 6 * SMSS, rate: 1e4, ..REPORT });
    assert_eq!(rig.bbr.shortterm.bw, 0.7e5);
}

#[test]
fn linux_ignores_marks_unless_the_response_is_on_and_the_round_trip_is_short() {
    for (ecn, rtt, responds) in [
        (Ecn::Off, Span::from_millis(1), false),
        (Ecn::Low, Span::from_millis(6), false),
        (Ecn::Low, Span::from_millis(5), true),
    ] {
        let mut rig = Rig::linux(ecn);
        rig.bbr.min_rtt.begin(Some(rtt), rig.now);
        let report = Report { rtt: Some(rtt), ..REPORT };
        for _ in 0..5 {
            rig.ack(Report { in_flight: 20 * SMSS, ..report });
        }
        rig.ack(Report { in_flight: 0, ..report });
        assert_eq!(rig.bbr.state, State::Cruise);
        rig.ack(Report { marked: SMSS, starts_round: false, in_flight: 0, ..report });
        rig.bbr.state = State::Cruise;
        rig.phase = RecoveryPhase::Recovery;
        let cwnd = rig.bbr.cwnd;
        rig.ack(Report { in_flight: 0, ..report });
        assert_eq!(rig.bbr.shortterm.inflight.is_finite(), responds, "{ecn:?} {rtt}");
        assert_eq!(rig.bbr.report().marked_share.is_some(), responds);
        if responds {
            let alpha = rig.bbr.report().marked_share.unwrap();
            assert!(alpha > 0.4 && alpha < 1.0, "{alpha}");
            assert!((rig.bbr.shortterm.inflight - (1.0 - alpha / 3.0) * cwnd).abs() < 0.05 * cwnd);
        }
    }
}

#[test]
fn linux_ends_startup_after_two_rounds_of_which_half_is_marked() {
    let mut rig = Rig::linux(Ecn::Low);
    rig.bbr.min_rtt.begin(Some(Span::from_millis(1)), rig.now);
    let marked =
        Report { marked: SMSS, rtt: Some(Span::from_millis(1)), in_flight: 50 * SMSS, rate: 1e6, ..REPORT };
    rig.ack(marked);
    assert!(!rig.bbr.full.is_reached);
    rig.ack(Report { rate: 2e6, ..marked });
    rig.ack(Report { rate: 4e6, ..marked });
    assert!(rig.bbr.full.is_reached);
}

#[test]
fn linux_has_its_own_gains_and_windows() {
    let mut rig = Rig::linux(Ecn::Off);
    // The window grows while it is below two initial windows, although the target is 6 segments.
    rig.bbr.min_rtt.begin(Some(Span::from_millis(10)), rig.now);
    for _ in 0..15 {
        rig.ack(Report { starts_round: false, is_app_limited: true, rate: 1e4, ..REPORT });
    }
    assert_eq!(rig.window.cwnd, 20.0);
    assert_eq!(State::Drain.pacing_gain(Profile::Linux), 1.0 / 2.885);
    assert_eq!(State::Down.pacing_gain(Profile::Linux), 0.91);
    rig.bbr.longterm = 5000.0;
    rig.bbr.shortterm.inflight = 9000.0;
    rig.bbr.start_cruise();
    assert_eq!(rig.bbr.shortterm.inflight, 5000.0);
}

mod invariants {
    use proptest::prelude::*;

    use super::*;

    /// Generates one step: an acknowledgement, losses, a timeout, an undo, or an idle period.
    fn step() -> impl Strategy<Value = (u8, u64, u64, u64, bool, bool)> {
        (0..12_u8, 0..5_000_000_u64, 1..200_000_u64, 0..2_000_000_u64, any::<bool>(), any::<bool>())
    }

    proptest! {
        #[test]
        fn the_window_is_at_least_four_segments_and_the_rate_is_finite_and_positive(
            is_linux in any::<bool>(), is_low in any::<bool>(), steps in prop::collection::vec(step(), 1..300),
        ) {
            let config = Config {
                profile: if is_linux { Profile::Linux } else { Profile::Draft },
                ecn: if is_low { Ecn::Low } else { Ecn::Off },
            };
            let mut rig = Rig::new(&config);
            let mut timed_out = false;
            for (kind, first, second, third, flag, other) in steps {
                match kind {
                    0..=6 => {
                        timed_out &= second % 20_000 == 0;
                        rig.ack(Report {
                        acked: second % 20_000,
                        rate: if kind == 0 { 0.0 } else { first as f64 * 250.0 },
                        starts_round: flag,
                        is_app_limited: other,
                        in_flight: third,
                        flight_when_sent: second,
                        lost: first % 9_000,
                        marked: if kind == 1 { second % 9_000 } else { 0 },
                        is_cwnd_limited: flag == other,
                        rtt: other.then_some(Span::from_nanos(first * 1000)),
                    });
                    }
                    7 => rig.lose(1 + first % 9, 1 + u64::from(other), second, flag),
                    8 => {
                        rig.lose(1 + first % 9, 1, second, flag);
                        rig.bbr.on_timeout(&mut rig.window, third % 3000, SMSS);
                        rig.phase = RecoveryPhase::Loss;
                        timed_out = true;
                    }
                    9 => {
                        rig.recover();
                    }
                    10 => {
                        rig.phase = RecoveryPhase::Open;
                        if flag {
                            rig.bbr.on_event(WindowEvent::Undone);
                        }
                    }
                    _ => {
                        rig.pass(first / 1000);
                        let transmit = Transmit {
                            now: rig.now,
                            delivered: rig.delivered,
                            is_app_limited: flag,
                            srtt: Some(RTT),
                            mss: SMSS,
                        };
                        rig.bbr.on_transmit(&mut rig.window, &transmit);
                    }
                }
                let cwnd = rig.window.cwnd;
                prop_assert!(cwnd.is_finite() && (cwnd >= 3.999 || timed_out), "{cwnd}");
                prop_assert!(cwnd >= 1.0);
                let rate = rig.bbr.pacing_rate().unwrap();
                prop_assert!(rate.is_finite() && rate > 0.0, "{rate}");
            }
        }
    }
}
