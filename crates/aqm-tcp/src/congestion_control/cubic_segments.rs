//! CUBIC in whole segments: how many acknowledged ones open the window by one.
//!
//! Linux 6.1, `tcp_cubic.c`: `bictcp_update`, `cubictcp_recalc_ssthresh`, `bictcp_reset`, `cubictcp_acked`. The window,
//! the curve and the window of an equivalent Reno are whole segments, and times on the curve 1/1024 s. In small windows
//! that matters: the curve is at its plateau as soon as it is within a segment of it. Other than by RFC 9438, section
//! 4.3, that Reno keeps its pace beyond the window before the reduction, and a window grows by at least a segment for
//! twenty acknowledged as long as nothing has shown how large it may be.
//!
//! Ours: times are not cut to the kernel's ticks, and time on the curve is summed up as in `cubic.rs`.

use aqm_net::{Instant, Span};

use super::cubic::{Config, CurveTime};
use super::hystart::SETTLING;
use super::{AckInfo, AckSample, Window};

/// The units in which Linux has time on the curve, in a second (`1 << BICTCP_HZ`).
const UNITS: f64 = 1024.0;
/// The curve need not be asked again before so long if the window is the same (`HZ / 32`).
const LOOK_AGAIN: Span = Span::from_nanos(1_000_000_000 / 32);
/// So many acknowledged segments open the window by one at least, while no loss has shown how large it may be.
const MOST_BEFORE_LOSS: u64 = 20;
/// And so many at most: half a window in a round trip.
const LEAST: u64 = 2;

/// The state of the curve (`struct bictcp`).
#[derive(Clone, Debug)]
pub(super) struct WholeSegments {
    /// `C` in 1/1024 (`cube_rtt_scale`).
    scale: u64,
    /// Eight times the windows that the Reno needs for a segment (`beta_scale`).
    reno_scale: u64,
    beta: f64,
    tcp_friendliness: bool,
    fast_convergence: bool,
    /// The window before the last reduction; 0 before the first one and after a time-out (`last_max_cwnd`).
    last_max: u64,
    /// What [`Self::each`] found last (`cnt`), for which window, and when.
    found: (u64, u64, Instant),
    /// The least round trip (`delay_min`).
    delay_min: Span,
    epoch: Option<Epoch>,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    began: Instant,
    time: CurveTime,
    /// Where the curve is flat (`bic_origin_point`), and when it gets there (`bic_K`).
    origin: u64,
    k: u64,
    /// Segments acknowledged that the Reno has not grown for (`ack_cnt`), and its window (`tcp_cwnd`).
    acknowledged: f64,
    reno: u64,
}

impl WholeSegments {
    pub fn new(config: &Config) -> Self {
        Self {
            // As the kernel's own 410 for 0.4.
            scale: 10 * libm::round(config.c * UNITS / 10.0).max(1.0) as u64,
            reno_scale: (8.0 * (1.0 + config.beta) / 3.0 / (1.0 - config.beta)) as u64,
            beta: config.beta,
            tcp_friendliness: config.tcp_friendliness,
            fast_convergence: config.fast_convergence,
            last_max: 0,
            found: (0, 0, Instant::START),
            delay_min: Span::ZERO,
            epoch: None,
        }
    }

    /// `acked` segments arrived in congestion avoidance; whether that begins with them.
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckInfo, acked: f64) -> bool {
        let begins = self.epoch.is_none();
        let each = self.each(window.cwnd as u64, ack, acked);
        window.add_one_for_each(each as f64, acked);
        begins
    }

    /// The window could not grow at `now`.
    pub fn on_pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.time.pause(now);
        }
    }

    /// The window of `cwnd` segments is reduced.
    pub fn on_reduction(&mut self, cwnd: f64) {
        let cwnd = cwnd as u64;
        let yields = self.fast_convergence && cwnd < self.last_max;
        self.last_max = if yields { (cwnd as f64 * (1.0 + self.beta) / 2.0) as u64 } else { cwnd };
        self.epoch = None;
    }

    /// Congestion avoidance is over and begins anew, after a time-out with nothing known any more.
    pub fn on_event(&mut self, is_timeout: bool) {
        self.epoch = None;
        if is_timeout {
            (self.last_max, self.delay_min, self.found) = (0, Span::ZERO, (0, 0, Instant::START));
        }
    }

    /// A round trip was measured.
    pub fn on_sample(&mut self, sample: &AckSample) {
        let settles = self.epoch.as_ref().is_some_and(|epoch| sample.now < epoch.began + SETTLING);
        if let Some(sent) = sample.newest.filter(|_| !settles) {
            let rtt = sample.now.since(sent);
            self.delay_min = if self.delay_min.is_zero() { rtt } else { self.delay_min.min(rtt) };
        }
    }

    /// So many acknowledged segments open a window of `cwnd` by one (`bictcp_update`).
    fn each(&mut self, cwnd: u64, ack: &AckInfo, acked: f64) -> u64 {
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
        let (before, of_window, when) = self.found;
        if before > 0 && of_window == cwnd && now.since(when) <= LOOK_AGAIN {
            return before;
        }

        let time = ((epoch.time.so_far + self.delay_min).seconds() * UNITS) as u64;
        let away = u128::from(time.abs_diff(epoch.k));
        let delta = (u128::from(scale) * away * away * away) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target = if time < epoch.k {
            epoch.origin.saturating_sub(delta)
        } else {
            epoch.origin.saturating_add(delta)
        };
        let mut each = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 {
            each = each.min(MOST_BEFORE_LOSS);
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
        let each = each.max(LEAST);
        self.found = (each, cwnd, now);
        each
    }
}

#[cfg(test)]
mod tests {
    use super::super::WindowRules;
    use super::*;
    use crate::testing::ack_at;

    const RTT: Span = Span::from_millis(100);

    fn curve() -> WholeSegments {
        WholeSegments::new(&Config::default())
    }

    /// How many acknowledged segments open the window by one, `millis` after congestion avoidance began.
    fn each_after(curve: &mut WholeSegments, cwnd: u64, millis: u64) -> u64 {
        curve.each(cwnd, &ack_at(Instant::START, RTT), 1.0);
        let mut each = 0;
        for at in (50..=millis).step_by(50) {
            each = curve.each(cwnd, &ack_at(Instant::START + Span::from_millis(at), RTT), 0.0);
        }
        each
    }

    #[test]
    fn the_scales_are_those_of_the_kernel() {
        let WholeSegments { scale, reno_scale, .. } = curve();
        assert_eq!((scale, reno_scale), (410, 15));
    }

    #[test]
    fn before_a_loss_a_window_grows_by_a_segment_for_twenty() {
        assert_eq!(curve().each(100, &ack_at(Instant::START, RTT), 1.0), 20);
        let mut lost = curve();
        lost.on_reduction(100.0);
        assert_eq!(lost.each(100, &ack_at(Instant::START, RTT), 1.0), 10_000, "at the plateau");
    }

    #[test]
    fn a_curve_within_a_segment_of_its_plateau_is_there() {
        // K = cbrt(3/0.4) = 1.957 s; C 1.357 s^3 is a segment, so from 0.6 s on the target is all of 10 segments.
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
    fn the_window_of_reno_keeps_its_pace() {
        // 15/8 of a window of 100 for each segment, and no more beyond the window before the reduction.
        let mut curve = curve();
        curve.on_reduction(100.0);
        let mut now = Instant::START;
        for _ in 0..4 {
            curve.each(100, &ack_at(now, RTT), 100.0);
            now += RTT;
        }
        assert_eq!(curve.epoch.as_ref().unwrap().reno, 102, "400 acknowledged are twice 187");
    }

    #[test]
    fn a_flow_that_loses_early_leaves_room_and_a_time_out_forgets() {
        let mut curve = curve();
        curve.on_reduction(100.0);
        curve.on_reduction(70.0);
        assert_eq!(curve.last_max, 59);
        curve.on_event(true);
        assert_eq!(curve.last_max, 0);
    }

    #[test]
    fn the_window_grows_by_whole_segments() {
        let mut window = Window::new(WindowRules::default(), 100.0, 50.0);
        let mut curve = curve();
        for _ in 0..19 {
            curve.on_ack(&mut window, &ack_at(Instant::START, RTT), 1.0);
        }
        assert_eq!(window.cwnd, 100.0);
        curve.on_ack(&mut window, &ack_at(Instant::START, RTT), 1.0);
        assert_eq!(window.cwnd, 101.0);
    }
}
