//! Maximum of the samples in a sliding window.
//!
//! K. Nichols, "Controlling queue delay", 2012 (the estimator); Linux 6.1: `lib/win_minmax.c`. The estimator stores
//! only the best, second-best and third-best samples, so that its memory does not depend on the number of samples.
//! After the best sample has left the window, the maximum may be that of only a part of the window.

/// Windowed maximum. Times are counters, such as the number of round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowedMax {
    /// Times and values of the best samples, beginning with the best.
    best: [(u64, f64); 3],
}

impl WindowedMax {
    /// Returns the maximum; 0 before the first sample.
    pub fn get(&self) -> f64 {
        self.best[0].1
    }

    /// Adds a sample at `time` to a window of length `window`, and returns the maximum.
    pub fn add(&mut self, window: u64, time: u64, value: f64) -> f64 {
        let sample = (time, value);
        let age = |of: (u64, f64)| time - of.0;
        let [first, second, third] = &mut self.best;
        if value >= first.1 || age(*third) > window {
            self.best = [sample; 3];
            return value;
        }
        if value >= second.1 {
            (*second, *third) = (sample, sample);
        } else if value >= third.1 {
            *third = sample;
        }
        if age(*first) > window {
            self.best = [self.best[1], self.best[2], sample];
            if age(self.best[0]) > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if second.0 == first.0 && age(*first) > window / 4 {
            // A quarter of the window has passed without a second-best sample.
            (*second, *third) = (sample, sample);
        } else if third.0 == second.0 && age(*first) > window / 2 {
            *third = sample;
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_lasts_for_the_window_and_the_next_best_follows() {
        let mut filter = WindowedMax::default();
        assert_eq!(filter.get(), 0.0);
        assert_eq!(filter.add(10, 0, 5.0), 5.0);
        assert_eq!(filter.add(10, 3, 4.0), 5.0);
        assert_eq!(filter.add(10, 6, 3.0), 5.0);
        assert_eq!(filter.add(10, 10, 1.0), 5.0, "ten rounds later the sample is still in the window");
        assert_eq!(filter.add(10, 11, 1.0), 4.0);
        assert_eq!(filter.add(10, 14, 1.0), 3.0);
        assert_eq!(filter.add(10, 40, 0.5), 0.5, "all samples are too old");
        assert_eq!(filter.add(10, 41, 9.0), 9.0);
    }
}
