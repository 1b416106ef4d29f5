//! When a workload sends: from its start to its stop, or to the end of the run.

use aqm_net::{ConfigError, Instant, Rate, Span};

use crate::BuildContext;
use crate::distributions::Uniform;

/// A part of the run; its end is no part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl Period {
    /// Checks the parameters `start` and `stop` against a run of this duration.
    pub(crate) fn new(start: Span, stop: Option<Span>, duration: Span) -> Result<Self, ConfigError> {
        if stop.is_some_and(|stop| stop <= start) {
            return Err(ConfigError::at("stop", format!("must be later than start, {start}")));
        }
        let end = Instant::START + stop.map_or(duration, |stop| stop.min(duration));
        Ok(Self { start: Instant::START + start, end })
    }

    /// Its length in seconds; zero if the run ends before it begins.
    pub(crate) fn seconds(self) -> f64 {
        self.end.since(self.start).seconds()
    }

    /// The share of `rate` that `bytes` are in this period; zero in an empty period.
    pub(crate) fn load(self, bytes: u64, rate: Rate) -> f64 {
        let room = rate.bytes_per_second() * self.seconds();
        if room > 0.0 { bytes as f64 / room } else { 0.0 }
    }
}

/// How much later than the first may begin flow number `flow` does: uniform on [0, `stagger`), and its own
/// whatever the number of flows.
pub(crate) fn late(stagger: Span, flow: u32, context: &BuildContext<'_>) -> Span {
    let mut stream = context.streams.named(&format!("{}/start", context.name), u64::from(flow));
    Span::from_nanos(Uniform { width: stagger.nanos() as f64 }.draw(&mut stream) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_with_the_run_at_the_latest() {
        let second = Span::from_millis(1000);
        let end = |stop| Period::new(Span::ZERO, stop, second.saturating_mul(10)).unwrap().seconds();
        assert_eq!((end(None), end(Some(second)), end(Some(second.saturating_mul(20)))), (10.0, 1.0, 10.0));
        assert_eq!(Period::new(second, None, Span::ZERO).unwrap().seconds(), 0.0);
        assert_eq!(Period::new(second, Some(second), second).unwrap_err().place, "stop");
    }

    #[test]
    fn a_full_line_is_a_load_of_one() {
        let period = Period::new(Span::ZERO, None, Span::from_millis(2000)).unwrap();
        assert_eq!(period.load(2_500_000, Rate::from_bps(10_000_000)), 1.0);
        let empty = Period::new(Span::from_millis(2000), None, Span::from_millis(1000)).unwrap();
        assert_eq!(empty.load(0, Rate::from_bps(10_000_000)), 0.0);
    }
}
