//! RED's drop function.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993, section 4. The gentle part is
//! from Floyd's note of 2000 (`red.rs`).

/// RED's drop function: the drop probability is zero below `min` and then rises linearly to `max_p` at `max`. Above
/// `max`, the probability is 1 or, with `gentle`, rises linearly to 1 at twice `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Curve {
    pub min: f64,
    pub max: f64,
    pub max_p: f64,
    pub gentle: bool,
    /// Drop probability at which the gentle part begins, at an average of `max`. The value is the initial or the
    /// current `max_p`.
    pub gentle_from: f64,
}

impl Curve {
    /// Returns `p_b` at the given average.
    pub fn probability(&self, average: f64) -> f64 {
        let &Self { min, max, max_p, .. } = self;
        if average >= self.forced_at() {
            1.0
        } else if average >= max {
            let begin = self.gentle_from;
            (begin + (1.0 - begin) * (average - max) / max).clamp(0.0, 1.0)
        } else if average >= min {
            (max_p * (average - min) / (max - min)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Returns the lowest average at which every packet is dropped.
    pub fn forced_at(&self) -> f64 {
        if self.gentle { 2.0 * self.max } else { self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gentle_line_continues_the_curve_and_ends_at_one() {
        let curve = Curve { min: 30.0, max: 90.0, max_p: 0.1, gentle: true, gentle_from: 0.1 };
        let step = 1e-9;
        assert!((curve.probability(90.0) - 0.1).abs() < 1e-12);
        assert!((curve.probability(90.0 - step) - 0.1).abs() < 1e-9);
        assert!((curve.probability(180.0 - step) - 1.0).abs() < 1e-9);
        assert_eq!(curve.probability(180.0), 1.0);
        let steep = Curve { gentle: false, ..curve };
        assert_eq!(steep.probability(90.0), 1.0);
    }
}
