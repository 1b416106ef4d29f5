//! The reference window: its reduction at losses, marks and long queueing delays, and its increase (draft, section
//! 4.2.2).

use aqm_net::Instant;

use super::{MSS, VIRTUAL_RTT_S};

/// Minimum window in bytes (draft: `MIN_REF_WND`).
pub(super) const MINIMUM: f64 = 3000.0;
/// Factors of the window after a loss and after a mark of classic ECN (draft: `BETA_LOSS`, `BETA_ECN`).
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
/// Ratio between the largest window to which the window grows and the bytes in flight (draft:
/// `BYTES_IN_FLIGHT_HEAD_ROOM`).
const HEADROOM: f64 = 1.5;
/// Number of round-trip times after a congestion in which the growth is slower (draft: `POST_CONGESTION_DELAY_RTT`).
const CAUTION_RTTS: f64 = 100.0;
/// Number of round-trip times without a reduction after which the window may be too large (draft, section 4.2.2.1).
const LONG_RTTS: f64 = 100.0;
/// Share of the window by which the window can grow in a round-trip time (draft: `MUL_INCREASE_FACTOR`).
const GROWTH: f64 = 0.02;
/// Minimum scale near the inflection point, and minimum scale because of jitter (draft, sections 4.2.2.1 and 4.2.2.2).
const LEAST_SCALE: f64 = 0.25;
const LEAST_JITTER_SCALE: f64 = 0.1;

/// The reference window (draft: `ref_wnd`).
#[derive(Clone, Debug)]
pub(super) struct ReferenceWindow {
    bytes: f64,
    /// Whether marks are marks of L4S (draft: `IS_L4S`).
    is_l4s: bool,
    /// Size before the last congestion (draft: `ref_wnd_i`), and whether the next congestion determines this size.
    inflection: f64,
    notes_inflection: bool,
    /// Whether units were lost or marked since the last reduction (draft: `loss_detected`, `data_units_marked`).
    lost: bool,
    marked: bool,
    /// Times of the last loss or mark, and of the last reduction (draft: `last_congestion_detected_time`,
    /// `last_reaction_to_congestion_time`).
    congested_at: Option<Instant>,
    reduced_at: Option<Instant>,
}

/// What the sender knows about the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    /// Newly acknowledged bytes, and those of them with a mark.
    pub(super) acknowledged: f64,
    pub(super) marked_bytes: f64,
    /// Whether units were lost or marked.
    pub(super) lost: bool,
    pub(super) marked: bool,
    /// Average fraction of marked units (draft: `l4s_alpha`).
    pub(super) alpha: f64,
    /// Smoothed round-trip time, queueing delay, its average, and its target, in seconds.
    pub(super) rtt_s: f64,
    pub(super) delay_s: f64,
    pub(super) average_delay_s: f64,
    pub(super) target_delay_s: f64,
    /// Factor of the growth because of jitter (draft: `ref_wnd_delay_scale`).
    pub(super) jitter_scale: f64,
    /// Maximum number of bytes in flight in the current and in the previous round trip.
    pub(super) most_in_flight: [u64; 2],
    /// Whether the target rate is below its maximum.
    pub(super) may_grow: bool,
}

/// Why the window is reduced.
enum Congestion {
    Loss,
    Mark,
    /// The queueing delay exceeds half of its target. The value is the virtual fraction of marked units.
    Delay(f64),
}

impl ReferenceWindow {
    pub(super) fn new(is_l4s: bool) -> Self {
        Self {
            bytes: MINIMUM,
            is_l4s,
            inflection: 1.0,
            notes_inflection: true,
            lost: false,
            marked: false,
            congested_at: None,
            reduced_at: None,
        }
    }

    /// Returns the window in bytes.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Returns the ratio between the maximum segment size and the window, at most 1 (draft: `ref_wnd_ratio`).
    pub(super) fn ratio(&self) -> f64 {
        (MSS / self.bytes).min(1.0)
    }

    /// Returns whether the window is larger than the bytes in flight allow, so that the window does not grow.
    pub(super) fn exceeds(&self, most_in_flight: [u64; 2]) -> bool {
        self.bytes > largest(most_in_flight)
    }

    /// Limits the window.
    pub(super) fn limit(&mut self, bytes: f64) {
        self.bytes = self.bytes.min(bytes).max(MINIMUM);
    }

    /// Handles feedback.
    pub(super) fn update(&mut self, signals: &Signals, now: Instant) {
        let distance = 8.0 * (self.bytes - self.inflection) / self.inflection;
        let scale = (distance * distance).clamp(0.1, 1.0);
        self.lost |= signals.lost;
        self.marked |= signals.marked;
        if signals.lost || signals.marked {
            self.congested_at = Some(now);
        }
        if let Some(congestion) = self.congestion(signals, now) {
            if std::mem::take(&mut self.notes_inflection) {
                self.inflection = self.bytes;
            }
            self.reduce(&congestion, scale, signals, now);
            self.reduced_at = Some(now);
            (self.lost, self.marked) = (false, false);
        }
        self.increase(scale, signals, now);
    }

    /// Returns why the window must be reduced, at most once per round-trip time or `VIRTUAL_RTT`.
    fn congestion(&self, signals: &Signals, now: Instant) -> Option<Congestion> {
        let interval = VIRTUAL_RTT_S.min(signals.rtt_s);
        if self.reduced_at.is_some_and(|at| now.since(at).seconds() < interval) {
            return None;
        }
        let threshold = signals.target_delay_s / 2.0;
        if self.lost {
            Some(Congestion::Loss)
        } else if self.marked {
            Some(Congestion::Mark)
        } else if signals.average_delay_s > threshold {
            Some(Congestion::Delay(((signals.average_delay_s - threshold) / threshold).min(1.0)))
        } else {
            None
        }
    }

    fn reduce(&mut self, congestion: &Congestion, scale: f64, signals: &Signals, now: Instant) {
        // Several reductions can occur within a long round-trip time.
        let times = (signals.rtt_s / VIRTUAL_RTT_S).max(1.0);
        let factor = match *congestion {
            Congestion::Loss => BETA_LOSS,
            Congestion::Mark if !self.is_l4s => BETA_ECN,
            Congestion::Mark => {
                let mut backoff = signals.alpha / 2.0 / times;
                if signals.delay_s < signals.target_delay_s * 0.25 {
                    backoff *= scale.max(LEAST_SCALE) * signals.jitter_scale.max(LEAST_SCALE);
                }
                let long = LONG_RTTS * VIRTUAL_RTT_S.max(signals.rtt_s);
                if self.reduced_at.is_none_or(|at| now.since(at).seconds() > long) {
                    self.bytes = self.bytes.min(signals.most_in_flight[1] as f64);
                }
                1.0 - backoff
            }
            Congestion::Delay(fraction) => 1.0 - fraction / 2.0 / times,
        };
        self.bytes = (factor * self.bytes).max(MINIMUM);
    }

    fn increase(&mut self, scale: f64, signals: &Signals, now: Instant) {
        let long = CAUTION_RTTS * VIRTUAL_RTT_S.max(signals.rtt_s);
        let calm = self.congested_at.map_or(1.0, |at| (now.since(at).seconds() / long).clamp(0.0, 1.0));
        let mut increment = (signals.acknowledged - signals.marked_bytes).max(0.0) * self.ratio();
        increment *= (signals.rtt_s / VIRTUAL_RTT_S).min(1.0);
        increment *= scale.max(LEAST_SCALE) * signals.jitter_scale.max(LEAST_JITTER_SCALE);
        increment *= 1.0 + GROWTH * self.bytes / MSS * calm * scale;
        let fits = self.bytes + increment <= largest(signals.most_in_flight);
        if signals.may_grow && increment > 0.0 && fits {
            self.bytes += increment;
            self.notes_inflection = true;
        }
    }
}

/// Returns the size to which the window can grow.
fn largest([current, previous]: [u64; 2]) -> f64 {
    MSS + HEADROOM * current.max(previous) as f64
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    /// Nothing is acknowledged on a path with a round-trip time of 50 ms and without a queue.
    const CALM: Signals = Signals {
        acknowledged: 0.0,
        marked_bytes: 0.0,
        lost: false,
        marked: false,
        alpha: 0.0,
        rtt_s: 0.05,
        delay_s: 0.0,
        average_delay_s: 0.0,
        target_delay_s: 0.06,
        jitter_scale: 1.0,
        most_in_flight: [100_000, 100_000],
        may_grow: true,
    };

    fn window(bytes: f64, is_l4s: bool) -> ReferenceWindow {
        ReferenceWindow { bytes, ..ReferenceWindow::new(is_l4s) }
    }

    /// Returns the size of a window of 20,000 B after feedback.
    fn after(is_l4s: bool, signals: Signals) -> f64 {
        let mut window = window(20_000.0, is_l4s);
        window.update(&signals, at(1000));
        window.bytes()
    }

    #[test]
    fn a_loss_and_a_mark_of_classic_ecn_have_fixed_factors() {
        assert_eq!(after(false, Signals { lost: true, ..CALM }), 14_000.0);
        assert_eq!(after(true, Signals { lost: true, marked: true, alpha: 1.0, ..CALM }), 14_000.0);
        assert_eq!(after(false, Signals { marked: true, ..CALM }), 16_000.0);
        let mut window = window(4000.0, false);
        window.update(&Signals { lost: true, ..CALM }, at(1000));
        assert_eq!(window.bytes(), MINIMUM);
    }

    #[test]
    fn a_mark_of_l4s_reduces_the_window_by_half_the_fraction_per_virtual_round_trip() {
        // 0.4 / 2 divided by 50 ms / 25 ms is 0.1. The inflection point of a new window is far away.
        let marked = Signals { marked: true, alpha: 0.4, ..CALM };
        assert!((after(true, marked) - 18_000.0).abs() < 1e-9);
        assert!((after(true, Signals { rtt_s: 0.01, ..marked }) - 16_000.0).abs() < 1e-9);
        // After a long time without a reduction, the window is at most the bytes in flight.
        let idle = Signals { most_in_flight: [9000, 10_000], ..marked };
        assert!((after(true, idle) - 9000.0).abs() < 1e-9);
        // With an inflection point at 16,000 B, the distance is 8 * (20 - 16) / 16 = 2, and the scale 1; at 19,000 B,
        // (8 / 19)^2 is 0.177, which counts as 0.25.
        let near = |inflection: f64, delay_s: f64| {
            let mut window = window(20_000.0, true);
            window.inflection = inflection;
            window.update(&Signals { delay_s, ..marked }, at(1000));
            window.bytes()
        };
        assert!((near(16_000.0, 0.0) - 18_000.0).abs() < 1e-9);
        assert!((near(19_000.0, 0.0) - 19_500.0).abs() < 1e-9);
        assert!(
            (near(19_000.0, 0.015) - 18_000.0).abs() < 1e-9,
            "the queue is longer than a quarter of the target"
        );
    }

    #[test]
    fn a_delay_above_half_of_the_target_reduces_the_window_like_marks() {
        // (45 - 30) / 30 = 0.5; half of 0.5 divided by 2 is 0.125.
        assert!((after(false, Signals { average_delay_s: 0.045, ..CALM }) - 17_500.0).abs() < 1e-9);
        assert_eq!(after(false, Signals { average_delay_s: 0.03, ..CALM }), 20_000.0);
        // From the target on, the virtual fraction is 1.
        assert!((after(true, Signals { average_delay_s: 0.3, ..CALM }) - 15_000.0).abs() < 1e-9);
    }

    #[test]
    fn reductions_are_a_virtual_round_trip_apart_and_losses_are_not_forgotten() {
        let mut window = window(40_000.0, false);
        window.update(&Signals { lost: true, ..CALM }, at(1000));
        assert_eq!((window.bytes(), window.inflection), (28_000.0, 40_000.0));
        window.update(&Signals { lost: true, ..CALM }, at(1024));
        assert_eq!(window.bytes(), 28_000.0);
        window.update(&CALM, at(1025));
        assert!((window.bytes() - 19_600.0).abs() < 1e-9);
        assert_eq!(window.inflection, 40_000.0, "the window has not grown since");
        window.update(&CALM, at(1050));
        assert!((window.bytes() - 19_600.0).abs() < 1e-9);
    }

    #[test]
    fn the_window_grows_by_a_segment_per_round_trip_and_multiplicatively_without_congestion() {
        let acknowledged = Signals { acknowledged: 20_000.0, ..CALM };
        // One segment, times 1 + 0.02 * 20.
        assert!((after(false, acknowledged) - 21_400.0).abs() < 1e-9);
        // Marked bytes do not count.
        let marked_bytes = Signals { marked_bytes: 5000.0, ..acknowledged };
        assert!((after(true, marked_bytes) - 21_050.0).abs() < 1e-9);
        // With 10 ms, the window grows by 10 / 25 of this size.
        assert!((after(false, Signals { rtt_s: 0.01, ..acknowledged }) - 20_560.0).abs() < 1e-9);
        assert!((after(false, Signals { jitter_scale: 0.0, ..acknowledged }) - 20_140.0).abs() < 1e-9);
        assert_eq!(after(false, Signals { may_grow: false, ..acknowledged }), 20_000.0);
        // 1000 + 1.5 * 13,000 is less than 20,000.
        assert_eq!(after(false, Signals { most_in_flight: [12_000, 13_000], ..acknowledged }), 20_000.0);
    }

    #[test]
    fn the_growth_is_slow_after_a_congestion_and_near_the_inflection_point() {
        let acknowledged = Signals { acknowledged: 20_000.0, ..CALM };
        let mut caution = window(20_000.0, false);
        caution.congested_at = Some(at(0));
        // Half of 100 round-trip times has passed: 1 + 0.02 * 20 / 2.
        caution.update(&acknowledged, at(2500));
        assert!((caution.bytes() - 21_200.0).abs() < 1e-9, "{}", caution.bytes());
        let mut near = window(20_000.0, false);
        near.inflection = 20_000.0;
        // The scale is 0.1: a quarter of a segment, times 1 + 0.02 * 20 * 0.1.
        near.update(&acknowledged, at(1000));
        assert!((near.bytes() - 20_260.0).abs() < 1e-9, "{}", near.bytes());
    }
}
