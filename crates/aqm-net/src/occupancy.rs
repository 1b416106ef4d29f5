//! Time at each value of a number, for example of the flows in progress or the queues with a packet.

/// Time at each value of a number since the end of the warm-up. Times are in seconds and must not decrease.
#[derive(Clone, Debug)]
pub struct Occupancy {
    now: usize,
    since: f64,
    /// Seconds at each value.
    pub seconds: Vec<f64>,
}

impl Occupancy {
    /// Creates an occupancy of zero, which counts time from `warm_up` on.
    pub fn new(warm_up: f64) -> Self {
        // Until the end of the warm-up, `since` is in the future and no time is counted.
        Self { now: 0, since: warm_up, seconds: vec![0.0] }
    }

    /// Returns the present value.
    pub fn now(&self) -> usize {
        self.now
    }

    /// Sets the value from `at` on.
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

    /// Returns the time average.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.seconds.iter().sum();
        let area: f64 = self.seconds.iter().enumerate().map(|(value, time)| value as f64 * time).sum();
        area / total
    }

    /// Returns the smallest value that was not exceeded for at least this share of the time.
    pub fn quantile(&self, share: f64) -> usize {
        let target = share * self.seconds.iter().sum::<f64>();
        let mut below = 0.0;
        let value = self.seconds.iter().position(|time| {
            below += time;
            below >= target
        });
        // Because of rounding, the sum may be smaller than the total.
        value.unwrap_or_else(|| self.maximum())
    }

    /// Returns the largest value with a time above zero.
    pub fn maximum(&self) -> usize {
        self.seconds.iter().rposition(|&time| time > 0.0).unwrap_or(0)
    }

    /// Returns the share of the time at which the value was not zero.
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
