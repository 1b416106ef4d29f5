//! Records how late packets are delivered, and when the router stalls.

use aqm_net::{Instant, Span};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// If a packet is delivered later than this, the router is considered to have stalled.
pub const STALL: Span = Span::from_millis(10);

/// Maximum number of stalls that are listed individually; all stalls are counted.
const LISTED: usize = 100;

/// The lateness of the packets delivered to hosts, in units of 0.1 microseconds.
pub struct Lateness {
    histogram: Histogram<u64>,
    /// Due time and lateness of the first late packet in each listed stall.
    stalls: Vec<(Instant, Span)>,
    stall_count: u64,
    /// Late packets that were due at or before this time belong to the current stall.
    stalled_until: Instant,
}

impl Lateness {
    /// Returns an empty record.
    pub fn new() -> Self {
        // The histogram covers the range from 0.1 microseconds to 1000 s with three significant digits. These bounds
        // are valid, so the call cannot fail.
        let histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3);
        Self {
            histogram: histogram.unwrap_or_else(|error| unreachable!("bounds of a histogram: {error}")),
            stalls: Vec::with_capacity(LISTED),
            stall_count: 0,
            stalled_until: Instant::START,
        }
    }

    /// Records a packet that was due at `due` and delivered at `now`.
    #[inline]
    pub fn note(&mut self, due: Instant, now: Instant) {
        let late = now.since(due);
        self.histogram.saturating_record(late.nanos() / 100);
        if late > STALL {
            self.note_stall(due, now, late);
        }
    }

    #[cold]
    fn note_stall(&mut self, due: Instant, now: Instant, late: Span) {
        if due > self.stalled_until {
            self.stall_count += 1;
            if self.stalls.len() < LISTED {
                self.stalls.push((due, late));
            }
        }
        self.stalled_until = self.stalled_until.max(now);
    }

    /// Returns the number of delivered packets.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns a quantile of the lateness: the fraction `share` of the packets was late by no more than the result.
    pub fn quantile(&self, share: f64) -> Span {
        Span::from_nanos(100 * self.histogram.value_at_quantile(share))
    }

    /// Returns the maximum lateness.
    pub fn maximum(&self) -> Span {
        Span::from_nanos(100 * self.histogram.max())
    }

    /// Returns the number of stalls, during which packets are late by more than [`STALL`].
    pub fn stalls(&self) -> u64 {
        self.stall_count
    }

    /// Returns the lateness in the format of the manifest.
    pub fn to_value(&self) -> Value {
        let micros = |span: Span| span.nanos() as f64 / 1e3;
        let stalls =
            self.stalls.iter().map(|(at, late)| json!({"at_s": at.seconds(), "late_s": late.seconds()}));
        json!({
            "packets": self.count(),
            "p50_us": micros(self.quantile(0.5)),
            "p90_us": micros(self.quantile(0.9)),
            "p99_us": micros(self.quantile(0.99)),
            "p999_us": micros(self.quantile(0.999)),
            "max_us": micros(self.maximum()),
            "stalls": self.stall_count,
            "first_stalls": stalls.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_values() {
        let mut lateness = Lateness::new();
        for late in 1..=100 {
            lateness.note(at(1000 * late), at(1000 * late + late));
        }
        assert_eq!(lateness.quantile(0.5), Span::from_nanos(50_000));
        assert_eq!((lateness.maximum(), lateness.stalls()), (Span::from_nanos(100_000), 0));
    }

    #[test]
    fn packets_delayed_by_one_pause_are_one_stall() {
        let mut lateness = Lateness::new();
        // No packet is delivered for one second.
        for due in (0..1000).map(|milli| 2_000_000 + 1000 * milli) {
            lateness.note(at(due), at(3_000_000));
        }
        lateness.note(at(3_000_100), at(3_000_130));
        lateness.note(at(4_000_000), at(4_020_000));
        assert_eq!(lateness.stalls(), 2);
        let listed = &lateness.to_value()["first_stalls"];
        assert_eq!(listed[0], serde_json::json!({"at_s": 2.0, "late_s": 1.0}));
        assert_eq!(listed[1]["at_s"], 4.0);
    }
}
