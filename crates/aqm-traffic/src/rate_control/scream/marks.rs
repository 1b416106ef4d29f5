//! The fraction of marked data units in L4S mode (draft, section 4.2.1.3).

use aqm_net::Instant;

/// Weight of a larger fraction, and weight by which the average decays (draft: `L4S_AVG_G_UP`, `L4S_AVG_G_DOWN`).
const UP: f64 = 1.0 / 8.0;
const DOWN: f64 = 1.0 / 128.0;
/// Maximum interval of updates in seconds (draft).
const INTERVAL_S: f64 = 0.01;

/// The average fraction of marked units (draft: `l4s_alpha`): the average rises fast and decays slowly.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    alpha: f64,
    units: u32,
    marked: u32,
    updated_at: Instant,
}

impl Marks {
    /// Returns the average.
    pub(super) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Handles feedback about received units, of which `marked` are marked.
    pub(super) fn add(&mut self, units: u32, marked: u32, rtt_s: f64, now: Instant) {
        self.units += units;
        self.marked += marked;
        // Without received units, the fraction is unknown.
        if self.units == 0 || now.since(self.updated_at).seconds() < INTERVAL_S.min(rtt_s) {
            return;
        }
        let fraction = f64::from(self.marked) / f64::from(self.units);
        self.alpha = if fraction >= self.alpha {
            UP * fraction + (1.0 - UP) * self.alpha
        } else {
            (1.0 - DOWN) * self.alpha
        };
        (self.units, self.marked, self.updated_at) = (0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;

    use super::*;

    #[test]
    fn the_average_rises_by_an_eighth_and_decays_by_a_hundred_and_twenty_eighth() {
        let mut marks = Marks::default();
        let at = |millis| Instant::START + Span::from_millis(millis);
        marks.add(10, 5, 0.05, at(10));
        assert_eq!(marks.alpha(), 0.0625);
        // The fraction of two reports within 10 ms is 3/4.
        marks.add(1, 0, 0.05, at(15));
        assert_eq!(marks.alpha(), 0.0625);
        marks.add(3, 3, 0.05, at(20));
        assert_eq!(marks.alpha(), 0.75 / 8.0 + 0.0625 * 7.0 / 8.0);
        let before = marks.alpha();
        marks.add(10, 1, 0.05, at(30));
        assert_eq!(marks.alpha(), before * 127.0 / 128.0);
        // The interval is the round-trip time if this time is shorter than 10 ms.
        marks.add(4, 4, 0.002, at(32));
        assert!(marks.alpha() > before);
    }

    #[test]
    fn the_average_stays_between_zero_and_one() {
        let mut marks = Marks::default();
        for step in 1..1000 {
            marks.add(3, 3, 0.05, Instant::START + Span::from_millis(10 * step));
            assert!((0.0..=1.0).contains(&marks.alpha()));
        }
        assert!(marks.alpha() > 0.999);
    }
}
