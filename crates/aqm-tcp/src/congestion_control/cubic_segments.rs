//! CUBIC in whole segments: computes the number of acknowledged segments that are needed to open the window by one
//! segment.
//!
//! The functions are from Linux 6.1, `tcp_cubic.c`: `bictcp_update`, `cubictcp_recalc_ssthresh`, `bictcp_reset`, and
//! `cubictcp_acked`. The window, the curve and the window of an equivalent Reno sender are whole numbers of segments,
//! and times on the curve are multiples of 1/1024 s. The rounding affects small windows, because the curve reaches its
//! plateau as soon as the distance to the plateau is less than one segment. In contrast to RFC 9438, section 4.3, the
//! Reno window continues to grow at the same rate when it exceeds the window before the reduction. Before the first
//! loss, a window grows by at least one segment for every twenty acknowledged segments.
//!
//! aqmlab's choices: times are not rounded to the kernel's ticks, and the time on the curve is computed as in
//! `cubic.rs`.

use aqm_net::{Instant, Span};

use super::cubic::{Config, CurveTime};
use super::hystart::SETTLING;
use super::{AckInfo, AckSample, Window};

/// Number of Linux's time units per second on the curve (`1 << BICTCP_HZ`).
const UNITS: f64 = 1024.0;
/// Time for which the result of [`WholeSegments::acks_per_segment`] is reused if the window does not change (`HZ /
/// 32`).
const REUSE_TIME: Span = Span::from_nanos(1_000_000_000 / 32);
/// Before the first loss: maximum number of acknowledged segments that are needed to open the window by one segment.
const MAX_BEFORE_LOSS: u64 = 20;
/// Minimum number of acknowledged segments that are needed to open the window by one segment. Therefore, the window
/// grows by at most half per round trip.
const MIN_ACKS: u64 = 2;

/// State of the curve (`struct bictcp`).
#[derive(Clone, Debug)]
pub(super) struct WholeSegments {
    /// `C` in units of 1/1024 (`cube_rtt_scale`).
    scale: u64,
    /// Eight times the number of windows that must be acknowledged before the Reno window grows by one segment
    /// (`beta_scale`).
    reno_scale: u64,
    beta: f64,
    tcp_friendliness: bool,
    fast_convergence: bool,
    /// Window before the last reduction; 0 before the first reduction and after a timeout (`last_max_cwnd`).
    last_max: u64,
    /// Last result of [`Self::acks_per_segment`] (`cnt`), and the window and the time of this result.
    last_result: (u64, u64, Instant),
    /// Minimum round-trip time (`delay_min`).
    delay_min: Span,
    epoch: Option<Epoch>,
}

/// An epoch of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    began: Instant,
    time: CurveTime,
    /// Plateau of the curve (`bic_origin_point`), and time until the plateau (`bic_K`).
    origin: u64,
    k: u64,
    /// Number of acknowledged segments that have not yet opened the Reno window (`ack_cnt`), and the Reno window
    /// (`tcp_cwnd`).
    acknowledged: f64,
    reno: u64,
}

impl WholeSegments {
    pub fn new(config: &Config) -> Self {
        Self {
            // The value is rounded so that the result for 0.4 is the kernel's 410.
            scale: 10 * libm::round(config.c * UNITS / 10.0).max(1.0) as u64,
            reno_scale: (8.0 * (1.0 + config.beta) / 3.0 / (1.0 - config.beta)) as u64,
            beta: config.beta,
            tcp_friendliness: config.tcp_friendliness,
            fast_convergence: config.fast_convergence,
            last_max: 0,
            last_result: (0, 0, Instant::START),
            delay_min: Span::ZERO,
            epoch: None,
        }
    }

    /// Processes an acknowledgement of `acked` segments in congestion avoidance. Returns whether an epoch begins.
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckInfo, acked: f64) -> bool {
        let begins = self.epoch.is_none();
        let each = self.acks_per_segment(window.cwnd as u64, ack, acked);
        window.add_one_for_each(each as f64, acked);
        begins
    }

    /// Records that the window was not permitted to grow at the time `now`.
    pub fn on_pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.time.pause(now);
        }
    }

    /// Records a reduction. Before the reduction, the window was `cwnd` segments.
    pub fn on_reduction(&mut self, cwnd: f64) {
        let cwnd = cwnd as u64;
        let converges_fast = self.fast_convergence && cwnd < self.last_max;
        self.last_max = if converges_fast { (cwnd as f64 * (1.0 + self.beta) / 2.0) as u64 } else { cwnd };
        self.epoch = None;
    }

    /// Ends the epoch. After a timeout, all state is reset.
    pub fn on_event(&mut self, is_timeout: bool) {
        self.epoch = None;
        if is_timeout {
            (self.last_max, self.delay_min, self.last_result) = (0, Span::ZERO, (0, 0, Instant::START));
        }
    }

    /// Processes a round-trip sample.
    pub fn on_sample(&mut self, sample: &AckSample) {
        let is_early = self.epoch.as_ref().is_some_and(|epoch| sample.now < epoch.began + SETTLING);
        if let Some(sent) = sample.newest.filter(|_| !is_early) {
            let rtt = sample.now.since(sent);
            self.delay_min = if self.delay_min.is_zero() { rtt } else { self.delay_min.min(rtt) };
        }
    }

    /// Returns the number of acknowledged segments that are needed to open a window of `cwnd` by one segment
    /// (`bictcp_update`).
    fn acks_per_segment(&mut self, cwnd: u64, ack: &AckInfo, acked: f64) -> u64 {
        let now = ack.now;
        let scale = self.scale;
        let begin = || {
            let origin = self.last_max.max(cwnd);
            let k = libm::cbrt((origin - cwnd) as f64 / scale as f64 * UNITS) * UNITS;
            Epoch {
                began: now,
                time: CurveTime::from(now),
                origin,
                k: k as u64,
                acknowledged: 0.0,
                reno: cwnd,
            }
        };
        let epoch = self.epoch.get_or_insert_with(begin);
        epoch.time.advance(ack);
        epoch.acknowledged += acked;
        let (before, of_window, when) = self.last_result;
        if before > 0 && of_window == cwnd && now.since(when) <= REUSE_TIME {
            return before;
        }

        let time = ((epoch.time.total + self.delay_min).seconds() * UNITS) as u64;
        let distance = u128::from(time.abs_diff(epoch.k));
        let delta = (u128::from(scale) * distance * distance * distance) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target = if time < epoch.k {
            epoch.origin.saturating_sub(delta)
        } else {
            epoch.origin.saturating_add(delta)
        };
        let mut each = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 {
            each = each.min(MAX_BEFORE_LOSS);
        }
        if self.tcp_friendliness {
            let step = ((cwnd * self.reno_scale) >> 3).max(1);
            while epoch.acknowledged > step as f64 {
                epoch.acknowledged -= step as f64;
                epoch.reno += 1;
            }
            if epoch.reno > cwnd {
                each = each.min(cwnd / (epoch.reno - cwnd));
            }
        }
        let each = each.max(MIN_ACKS);
        self.last_result = (each, cwnd, now);
        each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack_at;

    const RTT: Span = Span::from_millis(100);

    fn curve() -> WholeSegments {
        WholeSegments::new(&Config::default())
    }

    /// Returns the number of acknowledged segments that are needed to open the window by one segment, `millis`
    /// milliseconds after congestion avoidance has begun.
    fn each_after(curve: &mut WholeSegments, cwnd: u64, millis: u64) -> u64 {
        curve.acks_per_segment(cwnd, &ack_at(Instant::START, RTT), 1.0);
        let mut each = 0;
        for at in (50..=millis).step_by(50) {
            each = curve.acks_per_segment(cwnd, &ack_at(Instant::START + Span::from_millis(at), RTT), 0.0);
        }
        each
    }

    #[test]
    fn the_scales_are_those_of_the_kernel() {
        let WholeSegments { scale, reno_scale, .. } = curve();
        assert_eq!((scale, reno_scale), (410, 15));
    }

    #[test]
    fn before_a_loss_a_window_grows_by_a_segment_per_twenty() {
        assert_eq!(curve().acks_per_segment(100, &ack_at(Instant::START, RTT), 1.0), 20);
        let mut lost = curve();
        lost.on_reduction(100.0);
        assert_eq!(lost.acks_per_segment(100, &ack_at(Instant::START, RTT), 1.0), 10_000, "at the plateau");
    }

    #[test]
    fn a_curve_within_a_segment_of_its_plateau_has_reached_it() {
        // K = cbrt(3/0.4) = 1.957 s, and the curve grows by one segment in the last 1.357 s before K, because C 1.357^3
        // = 1. Therefore, from 0.6 s on, the target is all 10 segments.
        let each = |millis| {
            let mut curve = curve();
            curve.tcp_friendliness = false;
            curve.on_reduction(10.0);
            each_after(&mut curve, 7, millis)
        };
        assert_eq!(each(300), 7 / 2, "to 9 segments, since 0.4 1.657^3 is less than 2");
        assert_eq!(each(700), 7 / 3);
    }

    #[test]
    fn the_reno_window_keeps_its_growth_rate() {
        // If the window is 100 segments, 15/8 of a window must be acknowledged for each segment of growth. This number
        // does not change when the Reno window exceeds the window before the reduction.
        let mut curve = curve();
        curve.on_reduction(100.0);
        let mut now = Instant::START;
        for _ in 0..4 {
            curve.acks_per_segment(100, &ack_at(now, RTT), 100.0);
            now += RTT;
        }
        assert_eq!(curve.epoch.as_ref().unwrap().reno, 102, "400 acknowledged are twice 187");
    }

    #[test]
    fn an_early_loss_lowers_the_plateau_and_a_timeout_resets_it() {
        let mut curve = curve();
        curve.on_reduction(100.0);
        curve.on_reduction(70.0);
        assert_eq!(curve.last_max, 59);
        curve.on_event(true);
        assert_eq!(curve.last_max, 0);
    }

    #[test]
    fn the_window_grows_by_whole_segments() {
        let mut window = Window::with_defaults(100.0, 50.0);
        let mut curve = curve();
        for _ in 0..19 {
            curve.on_ack(&mut window, &ack_at(Instant::START, RTT), 1.0);
        }
        assert_eq!(window.cwnd, 100.0);
        curve.on_ack(&mut window, &ack_at(Instant::START, RTT), 1.0);
        assert_eq!(window.cwnd, 101.0);
    }
}
