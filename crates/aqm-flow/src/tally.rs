//! What is counted while a link works: for how long how many flows were in progress.

/// For how long a number had which value, from the warm-up on.
pub(crate) struct Occupancy {
    now: usize,
    since: f64,
    /// Seconds at each value.
    pub(crate) seconds: Vec<f64>,
}

impl Occupancy {
    pub(crate) fn new(warm_up: f64) -> Self {
        // Until the warm-up `since` lies ahead, and no time is counted.
        Self { now: 0, since: warm_up, seconds: vec![0.0] }
    }

    /// The number now.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// The number is another from `at` on.
    pub(crate) fn set(&mut self, value: usize, at: f64) {
        if at > self.since {
            self.seconds[self.now] += at - self.since;
            self.since = at;
        }
        if value >= self.seconds.len() {
            self.seconds.resize(value + 1, 0.0);
        }
        self.now = value;
    }

    /// Its time average.
    pub(crate) fn mean(&self) -> f64 {
        let total: f64 = self.seconds.iter().sum();
        let area: f64 = self.seconds.iter().enumerate().map(|(value, time)| value as f64 * time).sum();
        area / total
    }

    /// The share of the time at which it was not zero.
    pub(crate) fn above_zero(&self) -> f64 {
        let total: f64 = self.seconds.iter().sum();
        self.seconds[1..].iter().sum::<f64>() / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
