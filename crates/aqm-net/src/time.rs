//! Time on the clock of a run. An [`Instant`] is a point in time, and a [`Span`] is a duration.
//!
//! Both types are integers in nanoseconds, so that rounding causes no drift. aqmlab does not use `std::time::Duration`,
//! because that type stores seconds and nanoseconds separately, which makes every addition slower.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use crate::Quantity;
use crate::units;

/// A point in time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A duration in nanoseconds; written `250us`, `60ms`, `1.5s` or `2min` in a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Instant {
    /// The start of the run.
    pub const START: Self = Self(0);
    /// A time that is later than the end of every run.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the run.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time that is later than this time by `span`. This method is faster than `+`, but the result must not
    /// overflow; `+` saturates instead.
    #[inline]
    pub const fn plus(self, span: Span) -> Self {
        debug_assert!(self.0.checked_add(span.0).is_some());
        Self(self.0.wrapping_add(span.0))
    }

    /// Returns the duration from `earlier` to this time; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time that is earlier than this time by `span`, but not earlier than the start of the run.
    pub const fn earlier_by(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns the first multiple of `period` after this time, counted from the start of the run; `NEVER` if `period`
    /// is zero.
    pub const fn next_multiple(self, period: Span) -> Self {
        match self.0.checked_div(period.0) {
            Some(passed) => Self(period.0.saturating_mul(passed + 1)),
            None => Self::NEVER,
        }
    }
}

impl Span {
    /// A span of zero.
    pub const ZERO: Self = Self(0);

    /// Returns a span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Returns a span of `seconds` seconds, rounded to a nanosecond. Negative values and NaN are converted to zero.
    pub fn from_seconds(seconds: f64) -> Self {
        // `as` saturates, and converts NaN and negative values to zero.
        Self((seconds * 1e9 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns this span multiplied by `times`, or the maximum span if the product is larger.
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Quantity for Span {
    const NAME: &'static str = "time";
    const SCALE: &'static [(&'static str, f64)] =
        &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];

    fn parse(text: &str) -> Result<Self, String> {
        let nanos = units::parse::<Self>(text, "60ms")?;
        // Times longer than a century are assumed to be typing errors, and would overflow the clock.
        if nanos > 3.2e18 {
            return Err(format!("`{text}` is longer than a century"));
        }
        Ok(Self((nanos + 0.5) as u64))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::show(
            self.0,
            "s",
            &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
        ))
    }
}

units::quantity_parameter!(Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_what_it_writes() {
        for text in ["0s", "1ns", "779us", "60ms", "1500ms", "160s", "1234567ns"] {
            let span = Span::parse(text).unwrap();
            assert_eq!(Span::parse(&span.to_string()).unwrap(), span, "{text}");
        }
        assert_eq!(Span::parse("1.5s").unwrap(), Span::from_millis(1500));
        assert_eq!(Span::from_millis(60).to_string(), "60ms");
    }

    #[test]
    fn a_time_without_a_unit_is_rejected() {
        for text in ["60", "", "ms", "-1s", "NaNs", "infs", "1 fortnight", "1e300s", "1e-"] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_multiple_is_after_the_moment() {
        let period = Span::from_nanos(100);
        for (now, next) in [(0, 100), (99, 100), (100, 200), (250, 300)] {
            assert_eq!(Instant::from_nanos(now).next_multiple(period), Instant::from_nanos(next));
        }
        assert_eq!(Instant::START.next_multiple(Span::ZERO), Instant::NEVER);
        assert_eq!(Instant::from_nanos(u64::MAX - 1).next_multiple(period), Instant::NEVER);
    }

    #[test]
    fn earlier_times_are_clamped_to_the_start() {
        assert_eq!(Instant::from_nanos(7).earlier_by(Span::from_nanos(5)), Instant::from_nanos(2));
        assert_eq!(Instant::from_nanos(7).earlier_by(Span::from_nanos(9)), Instant::START);
    }

    #[test]
    fn earlier_minus_later_is_nothing() {
        assert_eq!(Instant::START.since(Instant::from_nanos(5)), Span::ZERO);
    }
}
