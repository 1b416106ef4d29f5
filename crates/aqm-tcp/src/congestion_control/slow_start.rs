//! Slow start, the end of slow start, and Limited Slow-Start.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1; S. Floyd, "Limited
//! Slow-Start for TCP with Large Congestion Windows", RFC 3742, 2004, section 2.
//!
//! aqmlab's choices where the sources do not specify the behaviour: Slow start ends exactly at `ssthresh`, as in many
//! TCP implementations. Windows have fractions of segments, so that Limited Slow-Start adds 1/K of a segment instead of
//! a whole number of bytes.

use aqm_net::choices;

/// Maximum value of a window or a threshold, in segments.
pub(super) const MAX_WINDOW: f64 = 1e9;

choices! {
    /// Last step of slow start, in which the window reaches `ssthresh`.
    pub enum SlowStartEnd {
        /// The window grows to at most `ssthresh`.
        AtThreshold = "at-threshold",
        /// The window grows by a whole segment and may exceed `ssthresh` (ns-2).
        PastThreshold = "past-threshold",
    }
}

choices! {
    /// Phases in which Limited Slow-Start applies.
    pub enum LimitedSlowStart {
        /// In slow start, if the window is above `max_ssthresh`. Each acknowledgement then adds 1/K of a segment
        /// instead of a whole segment.
        BelowSsthresh = "below-ssthresh",
        /// In congestion avoidance, as the minimum growth, until a loss or mark occurs, and again after a timeout.
        /// `max_ssthresh` limits the initial `ssthresh`, but does not limit any later slow start (ns-2).
        UntilReduction = "until-reduction",
    }
}

/// Growth of the window below `ssthresh`.
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    end: SlowStartEnd,
    /// `max_ssthresh`; infinite if the parameter is not set.
    limit: f64,
    form: LimitedSlowStart,
    /// Whether Limited Slow-Start continues above `ssthresh`.
    continues: bool,
}

impl SlowStart {
    pub(super) fn new(end: SlowStartEnd, max_ssthresh: Option<f64>, form: LimitedSlowStart) -> Self {
        let mut slow_start =
            Self { end, limit: max_ssthresh.unwrap_or(f64::INFINITY), form, continues: false };
        slow_start.on_timeout();
        slow_start
    }

    /// Returns the initial `ssthresh` of a sender whose configured initial value is `ssthresh`.
    pub(super) fn first_ssthresh(&self, ssthresh: f64) -> f64 {
        if self.continues { ssthresh.min(self.limit) } else { ssthresh }
    }

    /// Returns the window after an acknowledgement; `None` in congestion avoidance.
    #[inline]
    pub(super) fn grow(&self, window: f64, ssthresh: f64, counted: f64) -> Option<f64> {
        if window >= ssthresh {
            return None;
        }
        let share = match self.form {
            LimitedSlowStart::BelowSsthresh if window > self.limit => 1.0 / self.acks_per_segment(window),
            _ => 1.0,
        };
        let grown = window + share * counted; // equation (2)
        Some(if self.end == SlowStartEnd::AtThreshold { grown.min(ssthresh) } else { grown })
    }

    /// Returns whether Limited Slow-Start continues above `ssthresh`.
    #[inline]
    pub(super) fn continues(&self) -> bool {
        self.continues
    }

    /// Returns the minimum growth per acknowledgement in congestion avoidance, in segments.
    #[inline]
    pub(super) fn least(&self, window: f64) -> f64 {
        if !self.continues {
            return 0.0;
        }
        let acks = self.acks_per_segment(window);
        if acks > 0.0 { 1.0 / acks } else { 0.0 }
    }

    /// Ends Limited Slow-Start above `ssthresh` after a loss or mark.
    pub(super) fn on_congestion(&mut self) {
        self.continues = false;
    }

    /// Restarts Limited Slow-Start after a timeout.
    pub(super) fn on_timeout(&mut self) {
        self.continues = self.form == LimitedSlowStart::UntilReduction && self.limit.is_finite();
    }

    /// Returns K, the number of acknowledgements that are needed to add one segment.
    fn acks_per_segment(&self, window: f64) -> f64 {
        libm::floor(window / (0.5 * self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(form: LimitedSlowStart) -> SlowStart {
        SlowStart::new(SlowStartEnd::AtThreshold, Some(100.0), form)
    }

    #[test]
    fn limited_slow_start_adds_at_most_half_of_max_ssthresh_a_round_trip() {
        let slow_start = limited(LimitedSlowStart::BelowSsthresh);
        // RFC 3742, section 2: K is 2 up to a window of 1.5 max_ssthresh; for larger windows, K is 3, then 4, and so
        // on.
        let steps =
            [(99.0, 1.0), (100.0, 1.0), (101.0, 0.5), (149.0, 0.5), (150.0, 1.0 / 3.0), (200.0, 0.25)];
        for (window, step) in steps {
            assert_eq!(slow_start.grow(window, 1e9, 1.0), Some(window + step), "{window}");
        }
        let mut window = 100.0;
        for _ in 0..100 {
            let before: f64 = window;
            for _ in 0..before as u64 {
                window = slow_start.grow(window, 1e9, 1.0).unwrap();
            }
            assert!(window - before <= 51.0, "{before} to {window}");
        }
        assert_eq!((slow_start.grow(150.0, 150.0, 1.0), slow_start.least(150.0)), (None, 0.0));
    }

    #[test]
    fn the_form_of_ns_2_limits_the_first_threshold_and_continues_above_it() {
        let mut slow_start = limited(LimitedSlowStart::UntilReduction);
        assert_eq!((slow_start.first_ssthresh(1e9), slow_start.first_ssthresh(20.0)), (100.0, 20.0));
        assert_eq!(slow_start.grow(300.0, 400.0, 1.0), Some(301.0));
        assert_eq!(
            [49.0, 50.0, 99.0, 100.0, 150.0].map(|w| slow_start.least(w)),
            [0.0, 1.0, 1.0, 0.5, 1.0 / 3.0]
        );
        slow_start.on_congestion();
        assert_eq!(slow_start.least(100.0), 0.0);
        slow_start.on_timeout();
        assert_eq!(slow_start.least(100.0), 0.5);
    }
}
