//! The detector of periods in which the application, and not the rate control, limits the rate (libwebrtc,
//! `goog_cc/alr_detector.cc`: application-limited region, ALR).

use aqm_net::{Instant, Span};

/// Share of the target rate below which the application limits the rate (`bandwidth_usage_ratio`).
const USAGE: f64 = 0.65;
/// Length of the budget (libwebrtc, `IntervalBudget`).
const WINDOW: Span = Span::from_millis(500);
/// Levels of the budget at which a period begins and ends (`start_budget_level_ratio`, `stop_budget_level_ratio`).
const BEGIN: f64 = 0.8;
const END: f64 = 0.5;

/// The detector: a budget that fills at a share of the target rate, and that sent packets use up.
#[derive(Clone, Debug, Default)]
pub(super) struct ApplicationLimit {
    fill_bps: f64,
    bits: f64,
    last: Option<Instant>,
    since: Option<Instant>,
}

impl ApplicationLimit {
    /// Returns the time at which the current period began; `None` if the application does not limit the rate.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Sets the target rate.
    pub(super) fn set_target(&mut self, bps: f64) {
        self.fill_bps = USAGE * bps;
        self.bits = self.bits.clamp(-self.full(), self.full());
    }

    /// Adds a sent packet. With `bytes` of zero, only time passes.
    pub(super) fn on_sent(&mut self, bytes: u16, now: Instant) {
        let full = self.full();
        let filled = self.last.replace(now).map_or(0.0, |last| now.since(last).seconds() * self.fill_bps);
        self.bits = (self.bits - 8.0 * f64::from(bytes)).max(-full);
        self.bits = (self.bits + filled).min(full);
        let level = if full > 0.0 { self.bits / full } else { 0.0 };
        if self.since.is_none() && level > BEGIN {
            self.since = Some(now);
        } else if self.since.is_some() && level < END {
            self.since = None;
        }
    }

    fn full(&self) -> f64 {
        self.fill_bps * WINDOW.seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets of 1000 B every 10 ms (800 kb/s) for a second from `from` milliseconds on.
    fn send(limit: &mut ApplicationLimit, from: u64) {
        for step in 0..100 {
            limit.on_sent(1000, Instant::START + Span::from_millis(from + 10 * step));
        }
    }

    #[test]
    fn the_application_limits_the_rate_below_65_per_cent_of_the_target() {
        let mut limit = ApplicationLimit::default();
        limit.set_target(1.2e6);
        send(&mut limit, 0);
        assert_eq!(limit.since(), None, "800 kb/s are 67 % of the target");
        limit.set_target(3e6);
        send(&mut limit, 1000);
        assert!(limit.since().is_some(), "800 kb/s are 27 % of the target");
        limit.set_target(800e3);
        send(&mut limit, 2000);
        assert_eq!(limit.since(), None);
    }

    #[test]
    fn silence_is_a_limit_of_the_application() {
        let mut limit = ApplicationLimit::default();
        limit.set_target(1e6);
        limit.on_sent(1000, Instant::START);
        limit.on_sent(0, Instant::START + Span::from_millis(490));
        assert!(limit.since().is_some());
    }
}
