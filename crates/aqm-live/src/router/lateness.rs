//! How late packets were handed over, and when the router was stalled.

use aqm_net::{Instant, Span};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// A delay beyond this is a stall, listed by itself.
pub const STALL: Span = Span::from_millis(10);

/// So many stalls are listed; all are counted.
const LISTED: usize = 100;

/// The lateness of packets that were handed over to their hosts, in microseconds.
pub struct Lateness {
    histogram: Histogram<u64>,
    /// When packets were handed over late, and how late the first of them was.
    stalls: Vec<(Instant, Span)>,
    stall_count: u64,
    /// Until when packets that come late belong to the last stall.
    stalled_until: Instant,
}

impl Lateness {
    /// Nothing was handed over so far.
    pub fn new() -> Self {
        // A tenth of a microsecond to 1000 s, three digits; these bounds are right.
        let histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3);
        Self {
            histogram: histogram.unwrap_or_else(|error| unreachable!("bounds of a histogram: {error}")),
            stalls: Vec::with_capacity(LISTED),
            stall_count: 0,
            stalled_until: Instant::START,
        }
    }

    /// A packet that was due at `due` was handed over at `now`.
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

    /// Packets handed over.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The lateness that this share of packets did not exceed.
    pub fn quantile(&self, share: f64) -> Span {
        Span::from_nanos(100 * self.histogram.value_at_quantile(share))
    }

    /// The greatest.
    pub fn greatest(&self) -> Span {
        Span::from_nanos(100 * self.histogram.max())
    }

    /// How often packets were late by more than [`STALL`].
    pub fn stalls(&self) -> u64 {
        self.stall_count
    }

    /// For the record of a run.
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
            "max_us": micros(self.greatest()),
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
    fn quantiles_are_those_of_what_was_noted() {
        let mut lateness = Lateness::new();
        for late in 1..=100 {
            lateness.note(at(1000 * late), at(1000 * late + late));
        }
        assert_eq!(lateness.quantile(0.5), Span::from_nanos(50_000));
        assert_eq!((lateness.greatest(), lateness.stalls()), (Span::from_nanos(100_000), 0));
    }

    #[test]
    fn packets_that_one_pause_made_late_are_one_stall() {
        let mut lateness = Lateness::new();
        // A second in which nothing was handed over.
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
