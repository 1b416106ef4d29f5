//! Slow start, its end and its limit.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1; S. Floyd,
//! "Limited Slow-Start for TCP with Large Congestion Windows", RFC 3742, 2004, section 2.
//!
//! Ours, where the sources are silent: slow start stops at `ssthresh` exactly, as many stacks do;
//! windows keep their fractions, so Limited Slow-Start adds 1/K of a segment, not a whole number of bytes.

use aqm_net::{ConfigError, choices};

/// The most segments that a window, or a threshold, may be set to.
pub(super) const MAX_WINDOW: f64 = 1e9;

choices! {
    /// What the acknowledgement does that takes slow start past `ssthresh`.
    pub enum SlowStartEnd {
        /// It opens the window no further than `ssthresh`.
        AtThreshold = "at-threshold",
        /// It opens the window by a whole segment (ns-2).
        PastThreshold = "past-threshold",
    }
}

choices! {
    /// Where Limited Slow-Start works.
    pub enum LimitedSlowStart {
        /// In slow start, on a window above `max_ssthresh`: in place of a segment, 1/K of one.
        BelowSsthresh = "below-ssthresh",
        /// In congestion avoidance, as the least that is added, until a loss or mark ends it and
        /// again after a time-out; `max_ssthresh` bounds the first `ssthresh`, but no later slow start (ns-2).
        UntilReduction = "until-reduction",
    }
}

/// What opens the window below `ssthresh`.
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    end: SlowStartEnd,
    /// `max_ssthresh`, infinite if there is none.
    limit: f64,
    form: LimitedSlowStart,
    /// Whether the limited form is to go on above `ssthresh`.
    goes_on: bool,
}

impl SlowStart {
    /// Whether `max_ssthresh` makes sense.
    pub(super) fn check(max_ssthresh: Option<f64>) -> Result<(), ConfigError> {
        let sensible = max_ssthresh.is_none_or(|limit| (1.0..=MAX_WINDOW).contains(&limit));
        ConfigError::unless(sensible, "max_ssthresh", "must be 1 to 1000000000 segments")
    }

    pub(super) fn new(end: SlowStartEnd, max_ssthresh: Option<f64>, form: LimitedSlowStart) -> Self {
        let mut slow_start = Self { end, limit: max_ssthresh.unwrap_or(f64::INFINITY), form, goes_on: false };
        slow_start.on_timeout();
        slow_start
    }

    /// The `ssthresh` to begin with, where the sender would begin with `ssthresh`.
    pub(super) fn first_ssthresh(&self, ssthresh: f64) -> f64 {
        if self.goes_on { ssthresh.min(self.limit) } else { ssthresh }
    }

    /// The window after an acknowledgement, or `None` if this is congestion avoidance.
    #[inline]
    pub(super) fn grow(&self, window: f64, ssthresh: f64, counted: f64) -> Option<f64> {
        if window >= ssthresh {
            return None;
        }
        let share = match self.form {
            LimitedSlowStart::BelowSsthresh if window > self.limit => 1.0 / self.rounds(window),
            _ => 1.0,
        };
        let grown = window + share * counted; // equation (2)
        Some(if self.end == SlowStartEnd::AtThreshold { grown.min(ssthresh) } else { grown })
    }

    /// Whether the limited form goes on above `ssthresh`.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The least that an acknowledgement adds in congestion avoidance, in segments.
    #[inline]
    pub(super) fn least(&self, window: f64) -> f64 {
        if !self.goes_on {
            return 0.0;
        }
        let rounds = self.rounds(window);
        if rounds > 0.0 { 1.0 / rounds } else { 0.0 }
    }

    /// A loss or mark ends what goes on above `ssthresh`.
    pub(super) fn on_congestion(&mut self) {
        self.goes_on = false;
    }

    /// A time-out starts it again.
    pub(super) fn on_timeout(&mut self) {
        self.goes_on = self.form == LimitedSlowStart::UntilReduction && self.limit.is_finite();
    }

    /// K: how many acknowledgements add a segment.
    fn rounds(&self, window: f64) -> f64 {
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
        // RFC 3742, section 2: K is 2 up to 1.5 max_ssthresh, then 3, then 4, and so on.
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
    fn the_form_of_ns_2_bounds_the_first_threshold_and_goes_on_above_it() {
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

    #[test]
    fn a_limit_below_a_segment_is_refused() {
        for wrong in [0.0, 0.5, 1e10, f64::NAN, -3.0] {
            assert_eq!(SlowStart::check(Some(wrong)).unwrap_err().place, "max_ssthresh");
        }
        assert!(SlowStart::check(Some(100.0)).is_ok() && SlowStart::check(None).is_ok());
    }
}
