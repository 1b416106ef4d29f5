//! Measures for how long a number takes each of its values. Examples are the number of flows in progress and the number
//! of non-empty queues.

/// The total time for which a number took each of its values since the end of the warm-up. Times are in seconds and
/// must not decrease.
#[derive(Clone, Debug)]
pub struct Occupancy {
    now: usize,
    since: f64,
    /// Total time for which the number took each value, in seconds; the index is the value.
    pub seconds: Vec<f64>,
}

impl Occupancy {
    /// Creates an occupancy whose number is zero. Time before `warm_up` is not counted.
    pub fn new(warm_up: f64) -> Self {
        // Until the end of the warm-up, `since` is in the future, so no time is counted.
        Self { now: 0, since: warm_up, seconds: vec![0.0] }
    }

    /// Returns the current value of the number.
    pub fn now(&self) -> usize {
        self.now
    }

    /// Sets the number to `value` at the time `at`.
    pub fn set(&mut self, value: usize, at: f64) {
        if at > self.since {
            self.seconds[self.now] += at - self.since;
            self.since = at;
        }
        if value >= self.seconds.len() {
            self.seconds.resize(value + 1, 0.0);
        }
        self.now = value;
    }

    /// Returns the time average of the number.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.seconds.iter().sum();
        let area: f64 = self.seconds.iter().enumerate().map(|(value, time)| value as f64 * time).sum();
        area / total
    }

    /// Returns the smallest value that the number did not exceed during at least the fraction `share` of the time.
    pub fn quantile(&self, share: f64) -> usize {
        let target = share * self.seconds.iter().sum::<f64>();
        let mut below = 0.0;
        let value = self.seconds.iter().position(|time| {
            below += time;
            below >= target
        });
        // Because of rounding errors, the sum of the durations may be smaller than the target.
        value.unwrap_or_else(|| self.maximum())
    }

    /// Returns the largest value that the number took for a time greater than zero.
    pub fn maximum(&self) -> usize {
        self.seconds.iter().rposition(|&time| time > 0.0).unwrap_or(0)
    }

    /// Returns the fraction of the time during which the number was not zero.
    pub fn above_zero(&self) -> f64 {
        let total: f64 = self.seconds.iter().sum();
        self.seconds[1..].iter().sum::<f64>() / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_not_exceeded_for_its_share_of_the_time() {
        let mut number = Occupancy::new(0.0);
        for (value, at) in [(5, 90.0), (9, 99.0), (7, 100.0), (7, 100.0)] {
            number.set(value, at);
        }
        assert_eq!([0.5, 0.9, 0.95, 0.99, 1.0].map(|share| number.quantile(share)), [0, 0, 5, 5, 9]);
        assert_eq!(number.maximum(), 9);
    }

    #[test]
    fn time_counts_from_the_warm_up_on() {
        let mut number = Occupancy::new(10.0);
        for (value, at) in [(1, 2.0), (2, 8.0), (3, 11.0), (0, 14.0), (0, 20.0)] {
            number.set(value, at);
        }
        assert_eq!(number.seconds, [6.0, 0.0, 1.0, 3.0]);
        assert!((number.mean() - 1.1).abs() < 1e-12 && (number.above_zero() - 0.4).abs() < 1e-12);
    }
}
