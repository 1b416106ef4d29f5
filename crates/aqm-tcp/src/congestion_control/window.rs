//! The congestion window, and the rules that all congestion controls share: slow start and rounding.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1.
//!
//! aqmlab's choice where the source does not specify the behaviour: windows have fractions of segments.

use aqm_net::{ConfigError, choices, parameters};

use super::slow_start::{LimitedSlowStart, MAX_WINDOW, SlowStart, SlowStartEnd};
use super::slow_start_exit::SlowStartExit;

choices! {
    /// Rounding of a reduced window.
    pub enum SsthreshRounding {
        /// No rounding. `ssthresh` is the result of the reduction, but at least 2 segments, and the window is reduced
        /// to `ssthresh`.
        Exact = "exact",
        /// `ssthresh` is rounded down to whole segments, but is at least 2 segments. The window keeps its fraction and
        /// may be smaller than 2 segments (ns-2: `precisionReduce_ true`).
        Down = "down",
        /// The window and `ssthresh` are rounded down to whole segments. `ssthresh` is at least 2 segments (ns-2 until
        /// January 2006: `precisionReduce_ false`).
        Whole = "whole",
        /// The window and `ssthresh` are rounded down to whole segments, but are at least 2 segments (Linux).
        Segments = "segments",
    }
}

/// Minimum value of `ssthresh`, in segments (RFC 5681, equation (4)).
const MIN_SSTHRESH: f64 = 2.0;

parameters! {
    /// Rules for slow start and for the rounding of a reduced window.
    pub struct WindowRules {
        /// Rounding of a reduced window.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 5681, equation (4); RFC 9438, section 4.6";
        /// Last step of slow start, in which the window reaches `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "aqmlab's choice, as in ns-3";
        /// Window above which Limited Slow-Start applies (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
        /// Rule that ends the initial slow start before a loss or mark occurs.
        #[serde(skip_serializing_if = "SlowStartExit::is_none")]
        pub slow_start_exit: SlowStartExit = SlowStartExit::None, "RFC 5681, 3.1; RFC 9406: optional";
    }
}

impl WindowRules {
    /// Checks the rules.
    ///
    /// # Errors
    /// Returns an error if `max_ssthresh` is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let sensible = self.max_ssthresh.is_none_or(|limit| (1.0..=MAX_WINDOW).contains(&limit));
        ConfigError::unless(sensible, "max_ssthresh", "must be from 1 to 1000000000 segments")
    }
}

/// A congestion window, in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// The window (`cwnd`), in segments. Fractions of a segment accumulate until they add up to a whole segment.
    pub cwnd: f64,
    /// Slow-start threshold.
    pub ssthresh: f64,
    /// Number of segments acknowledged since the window last grew, if the window grows by whole segments (Linux:
    /// `snd_cwnd_cnt`).
    acknowledged: f64,
    slow_start: SlowStart,
    rounding: SsthreshRounding,
    /// Whether only the congestion control changes the window (`Build::uses_rates`).
    pub(super) is_model_based: bool,
}

impl Window {
    /// Creates a window of `cwnd` segments.
    pub fn new(rules: &WindowRules, limited_slow_start: LimitedSlowStart, cwnd: f64, ssthresh: f64) -> Self {
        let slow_start = SlowStart::new(rules.slow_start_end, rules.max_ssthresh, limited_slow_start);
        let ssthresh = slow_start.first_ssthresh(ssthresh);
        let rounding = rules.ssthresh_rounding;
        Self { cwnd, ssthresh, acknowledged: 0.0, slow_start, rounding, is_model_based: false }
    }

    /// Creates a window of `cwnd` segments with the default rules.
    #[cfg(test)]
    pub(super) fn with_defaults(cwnd: f64, ssthresh: f64) -> Self {
        Self::new(&WindowRules::default(), LimitedSlowStart::BelowSsthresh, cwnd, ssthresh)
    }

    /// Sets the initial window when the connection opens.
    pub(super) fn open(&mut self, cwnd: f64, ssthresh: f64) {
        self.cwnd = cwnd;
        self.ssthresh = self.slow_start.first_ssthresh(ssthresh);
    }

    /// Returns whether the window is below `ssthresh`.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Opens the window for `counted` acknowledged segments in slow start (equation (2)). Returns the growth in
    /// segments. In congestion avoidance, the window stays constant and the function returns `None`.
    #[inline]
    pub fn slow_start(&mut self, counted: f64) -> Option<f64> {
        let grown = self.slow_start.grow(self.cwnd, self.ssthresh, counted)?;
        Some(grown - std::mem::replace(&mut self.cwnd, grown))
    }

    /// Opens the window by `step` segments in congestion avoidance, or by more if Limited Slow-Start continues above
    /// `ssthresh`.
    #[inline]
    pub fn add(&mut self, step: f64) {
        self.cwnd +=
            if self.slow_start.continues() { step.max(self.slow_start.least(self.cwnd)) } else { step };
    }

    /// Opens the window by one segment for every `each` acknowledged segments. `counted` is the number of newly
    /// acknowledged segments (Linux: `tcp_cong_avoid_ai`).
    pub fn add_one_for_each(&mut self, each: f64, counted: f64) {
        if self.acknowledged >= each {
            self.acknowledged = 0.0;
            self.cwnd += 1.0;
        }
        self.acknowledged += counted;
        let more = libm::floor(self.acknowledged / each);
        self.acknowledged -= more * each;
        self.cwnd += more;
    }

    /// Reduces the window and `ssthresh` to `left` segments, and rounds both values.
    pub fn reduce(&mut self, left: f64) {
        self.reduce_above(MIN_SSTHRESH, left);
    }

    /// Same as [`reduce`](Self::reduce), except that, without rounding, the minimum of the window is `least` segments.
    /// The minimum of `ssthresh` does not change.
    pub fn reduce_above(&mut self, least: f64, left: f64) {
        let whole = libm::floor(left);
        (self.cwnd, self.ssthresh) = match self.rounding {
            SsthreshRounding::Exact => (left.max(least), left.max(MIN_SSTHRESH)),
            SsthreshRounding::Down => (left, whole.max(MIN_SSTHRESH)),
            SsthreshRounding::Whole => (whole, whole.max(MIN_SSTHRESH)),
            SsthreshRounding::Segments => (whole.max(MIN_SSTHRESH), whole.max(MIN_SSTHRESH)),
        };
        self.acknowledged = 0.0;
        self.slow_start.on_congestion();
    }

    /// Restarts the window from one segment in slow start after a timeout (RFC 5681, section 3.1).
    pub(super) fn restart(&mut self) {
        self.cwnd = 1.0;
        self.acknowledged = 0.0;
        self.slow_start.on_timeout();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_a_segment_is_rejected() {
        let check = |max_ssthresh| WindowRules { max_ssthresh, ..WindowRules::default() }.check();
        for wrong in [0.0, 0.5, 1e10, f64::NAN, -3.0] {
            assert_eq!(check(Some(wrong)).unwrap_err().path, "max_ssthresh");
        }
        assert!(check(Some(100.0)).is_ok() && check(None).is_ok());
    }

    #[test]
    fn rounding_of_a_reduced_window_and_its_threshold() {
        use SsthreshRounding::{Down, Exact, Segments, Whole};
        let reduced = |left, least| {
            [Exact, Down, Whole, Segments].map(|ssthresh_rounding| {
                let rules = WindowRules { ssthresh_rounding, ..WindowRules::default() };
                let mut window = Window::new(&rules, LimitedSlowStart::BelowSsthresh, 20.0, 30.0);
                window.reduce_above(least, left);
                (window.cwnd, window.ssthresh)
            })
        };
        assert_eq!(reduced(7.75, 2.0), [(7.75, 7.75), (7.75, 7.0), (7.0, 7.0), (7.0, 7.0)]);
        assert_eq!(reduced(1.5, 2.0), [(2.0, 2.0), (1.5, 2.0), (1.0, 2.0), (2.0, 2.0)]);
        assert_eq!(reduced(1.5, 1.0), [(1.5, 2.0), (1.5, 2.0), (1.0, 2.0), (2.0, 2.0)]);
    }

    #[test]
    fn a_segment_is_added_per_acknowledged_window_and_a_reduction_resets_the_count() {
        let mut window = Window::with_defaults(4.0, 2.0);
        let mut seen = |segments: &[f64]| {
            for &counted in segments {
                window.add_one_for_each(window.cwnd, counted);
            }
            window.cwnd
        };
        assert_eq!([seen(&[1.0; 3]), seen(&[1.0]), seen(&[4.0]), seen(&[6.0])], [4.0, 5.0, 5.0, 7.0]);
        window.add_one_for_each(window.cwnd, 6.0);
        window.reduce(4.0);
        window.add_one_for_each(window.cwnd, 3.0);
        assert_eq!(window.cwnd, 4.0);
        window.add_one_for_each(window.cwnd, 1.0);
        assert_eq!(window.cwnd, 5.0);
        window.add_one_for_each(window.cwnd, 4.0);
        window.restart();
        window.add_one_for_each(window.cwnd, 0.0);
        assert_eq!(window.cwnd, 1.0, "a timeout discards the acknowledged segments");
    }
}
