//! Fractional noise: a Gaussian ARFIMA(0, d, 0) process with innovations of variance 1 and a memory of a fixed number
//! of lags. The sum-difference process of fractional noise is a normal sequence with long memory and added white noise.
//!
//! Sources: J. R. M. Hosking, "Fractional Differencing", Biometrika 68, 1981, for the autocovariances and for the
//! predictor over N lags, which the Durbin-Levinson recursion yields if the partial correlations are d/(t - d); J. Cao,
//! W. S. Cleveland, Y. Gao, K. Jeffay, F. D. Smith & M. Weigle, "Stochastic Models for Generating Synthetic HTTP Source
//! Traffic", INFOCOM 2004, for the fractional sum-difference model. As in ns-2's PackMimeHTTP, the recursion stops at N
//! lags, and the predictor remains fixed afterwards. The result is an autoregression of order N whose autocovariances
//! equal those of fractional noise up to lag N.
//!
//! aqmlab's choice is the algorithm, which does not change the distribution. The recursion needs N multiplications for
//! each value. In aqmlab's algorithm, each block of values is the sum of the prediction from past values and the effect
//! of the innovations since the start of the block. The prediction and the effect of the innovations are both products
//! with fixed sequences, and are computed by Fourier transform. The sum of these two products equals the values of the
//! autoregression. The first N values are drawn together, according to their autocovariances, by circulant embedding
//! (R. B. Davies & D. S. Harte, "Tests for Hurst effect", Biometrika 74, 1987), whereas the recursion would draw these
//! values one by one from the same distribution.

use aqm_net::Rng;

use super::fourier::{Complex, Filter, Fourier, Modulus, reciprocal};
use crate::distributions::Normal;

/// The parameters of fractional noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    /// The exponent `d`, between 0 and 1/2.
    pub(crate) d: f64,
    /// The number of lags `N` at which the predictor becomes fixed.
    pub(crate) lags: usize,
}

impl Memory {
    /// Returns the variance of the values.
    fn variance(self) -> f64 {
        let gamma = libm::tgamma(1.0 - self.d);
        libm::tgamma(1.0 - 2.0 * self.d) / (gamma * gamma)
    }

    /// Returns the autocovariances from lag 0 to `last` (Hosking 1981, theorem 1).
    fn autocovariances(self, last: usize) -> Vec<f64> {
        let mut value = self.variance();
        let rest = (1..=last).map(|lag| {
            let lag = lag as f64;
            value *= (lag - 1.0 + self.d) / (lag - self.d);
            value
        });
        std::iter::once(self.variance()).chain(rest).collect()
    }

    /// Returns the predictor over all lags, starting with the coefficient of the most recent value. The predictor is
    /// computed from the closed form of the recursion's result (Hosking 1981, theorem 1).
    fn predictor(self) -> Vec<f64> {
        let n = self.lags as f64;
        let mut value = n * self.d / (n - self.d);
        let mut predictor = vec![value];
        for lag in 1..self.lags {
            let lag = lag as f64;
            value *= (n - lag) / (lag + 1.0) * (lag - self.d) / (n - self.d - lag);
            predictor.push(value);
        }
        predictor
    }

    /// Returns the standard deviation of the prediction error.
    fn error(self) -> f64 {
        let partial = (1..=self.lags).map(|t| self.d / (t as f64 - self.d));
        partial.fold(self.variance(), |left, partial| left * (1.0 - partial * partial)).sqrt()
    }
}

/// Fractional noise. All values are computed on demand, so no work is done before the first value is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Fractional {
    memory: Memory,
    rng: Rng,
    filter: Option<Box<BlockFilter>>,
    /// The current block, and the number of its values that have been drawn.
    block: Vec<f64>,
    used: usize,
}

/// The filters that compute a block from the previous block.
#[derive(Clone, Debug)]
struct BlockFilter {
    /// Filter that predicts a block from the last values of the previous block.
    predict: Filter,
    /// Filter that computes the effect of innovations on the following values.
    grow: Filter,
    error: f64,
    /// Number of values per block.
    block: usize,
    innovations: Vec<f64>,
}

impl Fractional {
    pub(crate) fn new(memory: Memory, rng: Rng) -> Self {
        Self { memory, rng, filter: None, block: Vec::new(), used: 0 }
    }

    /// Draws the next value.
    pub(crate) fn draw(&mut self) -> f64 {
        if self.used == self.block.len() {
            self.refill();
        }
        let value = self.block[self.used];
        self.used += 1;
        value
    }

    #[cold]
    fn refill(&mut self) {
        self.used = 0;
        if let Some(filter) = &mut self.filter {
            return filter.advance(&mut self.block, self.memory.lags, &mut self.rng);
        }
        self.filter = Some(Box::new(BlockFilter::new(self.memory)));
        self.block = self.first_block();
    }

    /// Draws the first block, which contains as many values as there are lags.
    fn first_block(&mut self) -> Vec<f64> {
        let size = self.memory.lags.next_power_of_two();
        let fourier = Fourier::new(2 * size, Modulus::One);
        let mut data = embedding(self.memory, &fourier, size);
        for (re, im) in data.re.iter_mut().zip(&mut data.im) {
            // Without rounding errors, the smallest eigenvalues would be zero.
            let scale = (re.max(0.0) / (2 * size) as f64).sqrt();
            let [a, b] = Normal::pair(&mut self.rng);
            (*re, *im) = (scale * a, scale * b);
        }
        fourier.backward(&mut data);
        data.re.truncate(self.memory.lags);
        data.re
    }
}

/// Returns the eigenvalues of a circulant matrix as real parts. The first row of the matrix contains the
/// autocovariances up to lag `size`, followed by the same autocovariances in reverse order.
fn embedding(memory: Memory, fourier: &Fourier, size: usize) -> Complex {
    let mut row = memory.autocovariances(size);
    row.extend_from_within(1..size);
    row[size + 1..].reverse();
    let mut data = Complex::real(&row, 2 * size);
    fourier.forward(&mut data);
    data
}

impl BlockFilter {
    fn new(memory: Memory) -> Self {
        let predictor = memory.predictor();
        let size = memory.lags.next_power_of_two();
        // Longer blocks need less time per value for the prediction, but more cache memory.
        let block = 2 * size;
        let series: Vec<f64> = std::iter::once(1.0).chain(predictor.iter().map(|value| -value)).collect();
        // The first coefficient of the predictor is that of lag one.
        Self {
            predict: Filter::new(&predictor, size),
            grow: Filter::new(&reciprocal(&series, block), block),
            error: memory.error(),
            block,
            innovations: Vec::with_capacity(block),
        }
    }

    /// Replaces `past`, which must contain at least `lags` values, by the next block, and draws new innovations.
    fn advance(&mut self, past: &mut Vec<f64>, lags: usize, rng: &mut Rng) {
        self.innovations.clear();
        while self.innovations.len() < self.block {
            self.innovations.extend(Normal::pair(rng).map(|value| self.error * value));
        }
        self.follow(past, lags);
    }

    /// Replaces `past` by the next block, using the current innovations.
    fn follow(&mut self, past: &mut Vec<f64>, lags: usize) {
        let (low, high) = self.predict.apply(&past[past.len() - lags..]);
        // The prediction of the first new value from all past values has the same index as the last lag.
        let predicted = low[lags - 1..].iter().chain(high).take(lags);
        for (innovation, predicted) in self.innovations.iter_mut().zip(predicted) {
            *innovation += predicted;
        }
        past.clear();
        past.extend_from_slice(self.grow.apply(&self.innovations).0);
    }
}

/// The fractional sum-difference process, which consists of normal values with mean 0 and variance 1. Each value is the
/// sum of two terms: √(1-θ) times the normalised sum of two consecutive values of fractional noise, and √θ times white
/// noise.
#[derive(Clone, Debug)]
pub(crate) struct SumDifference {
    noise: Fractional,
    last: Option<f64>,
    /// Factors by which the sum of two consecutive values and the white noise are multiplied.
    sum: f64,
    white: f64,
    rng: Rng,
    spare: Option<f64>,
}

impl SumDifference {
    /// Creates the process. `theta` is the fraction of the variance that is white noise. The first random stream is
    /// used for the fractional noise, and the second for the white noise.
    pub(crate) fn new(memory: Memory, theta: f64, [noise, white]: [Rng; 2]) -> Self {
        let d = memory.d;
        let variance = memory.variance() * (2.0 + 2.0 * d / (1.0 - d));
        Self {
            noise: Fractional::new(memory, noise),
            last: None,
            sum: ((1.0 - theta) / variance).sqrt(),
            white: theta.sqrt(),
            rng: white,
            spare: None,
        }
    }

    /// Draws the next value.
    pub(crate) fn draw(&mut self) -> f64 {
        let before = self.last.unwrap_or_else(|| self.noise.draw());
        let now = self.noise.draw();
        self.last = Some(now);
        let white = self.spare.take().unwrap_or_else(|| {
            let [one, other] = Normal::pair(&mut self.rng);
            self.spare = Some(other);
            one
        });
        self.sum * (before + now) + self.white * white
    }

    /// Draws the next value, and returns the probability that a normally distributed value exceeds it. This probability
    /// is uniformly distributed on (0, 1).
    pub(crate) fn exceeded(&mut self) -> f64 {
        0.5 * libm::erfc(self.draw() * std::f64::consts::FRAC_1_SQRT_2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::distance;
    use aqm_net::Streams;

    const ARRIVALS: Memory = Memory { d: 0.33, lags: 1000 };

    fn rng(index: u64) -> Rng {
        Streams::new(3).named("fractional", index)
    }

    /// Implements the Durbin-Levinson recursion as published. Returns the predictor over N lags and the prediction
    /// error.
    fn durbin_levinson(memory: Memory) -> (Vec<f64>, f64) {
        let (mut predictor, mut variance) = (Vec::new(), memory.variance());
        for t in 1..=memory.lags {
            let partial = memory.d / (t as f64 - memory.d);
            let before: Vec<f64> = predictor.clone();
            for (value, mirrored) in predictor.iter_mut().zip(before.iter().rev()) {
                *value -= partial * mirrored;
            }
            predictor.push(partial);
            variance *= 1.0 - partial * partial;
        }
        (predictor, variance.sqrt())
    }

    #[test]
    fn the_predictor_is_the_result_of_the_durbin_levinson_recursion() {
        for memory in [ARRIVALS, Memory { d: 0.31, lags: 2000 }, Memory { d: 0.4, lags: 1 }] {
            let (expected, error) = durbin_levinson(memory);
            for (actual, expected) in memory.predictor().iter().zip(&expected) {
                assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} {expected}");
            }
            assert!((memory.error() - error).abs() < 1e-12);
        }
    }

    #[test]
    fn blocks_are_the_autoregression_value_for_value() {
        for memory in [Memory { d: 0.31, lags: 37 }, Memory { d: 0.32, lags: 64 }, ARRIVALS] {
            let predictor = durbin_levinson(memory).0;
            let mut block = Fractional::new(memory, rng(0)).first_block();
            let mut path = block.clone();
            let mut filter = BlockFilter::new(memory);
            let mut innovations = rng(1);
            for _ in 0..3 {
                filter.innovations = (0..filter.block).map(|_| innovations.uniform() - 0.5).collect();
                let plain = filter.innovations.clone();
                filter.follow(&mut block, memory.lags);
                for innovation in plain {
                    let recent = path.iter().rev().zip(&predictor);
                    path.push(innovation + recent.map(|(value, weight)| value * weight).sum::<f64>());
                }
                for (actual, expected) in block.iter().rev().zip(path.iter().rev()) {
                    assert!((actual - expected).abs() < 1e-10, "{actual} {expected}");
                }
            }
        }
    }

    #[test]
    fn the_first_values_have_the_covariances_of_the_law_exactly() {
        for memory in [ARRIVALS, Memory { d: 0.31, lags: 5000 }, Memory { d: 0.32, lags: 1000 }] {
            let size = memory.lags.next_power_of_two();
            let fourier = Fourier::new(2 * size, Modulus::One);
            let mut data = embedding(memory, &fourier, size);
            // All eigenvalues of the covariance matrix are real and non-negative.
            assert!(data.re.iter().all(|&value| value > 0.0));
            assert!(data.im.iter().all(|value| value.abs() < 1e-9));
            fourier.backward(&mut data);
            for (actual, expected) in data.re.iter().zip(memory.autocovariances(memory.lags)) {
                assert!((actual / (2 * size) as f64 - expected).abs() < 1e-12, "{actual} {expected}");
            }
        }
    }

    #[test]
    fn the_sum_difference_is_standard_normal_with_the_autocorrelations_of_the_law() {
        let (theta, runs, length) = (0.3, 400, 4000);
        let covariances = ARRIVALS.autocovariances(1001);
        let sums = |lag: usize| {
            let before = covariances[lag.abs_diff(1)];
            before + 2.0 * covariances[lag] + covariances[lag + 1]
        };
        // Some lags are within the first block, and others extend across blocks.
        let lags = [1, 2, 10, 100, 500, 999];
        let mut actual = vec![[0.0; 6]; runs];
        let (mut ends, mut squares) = (Vec::new(), Vec::new());
        for (run, actual) in actual.iter_mut().enumerate() {
            let streams = [rng(2 * run as u64 + 1), rng(2 * run as u64 + 2)];
            let mut process = SumDifference::new(ARRIVALS, theta, streams);
            let z: Vec<f64> = (0..length).map(|_| process.draw()).collect();
            for (actual, lag) in actual.iter_mut().zip(lags) {
                let products = z.windows(lag + 1).map(|pair| pair[0] * pair[lag]);
                *actual = products.sum::<f64>() / (length - lag) as f64;
            }
            squares.push(z.iter().map(|z| z * z).sum::<f64>() / length as f64);
            ends.extend([z[0], z[length - 1]]);
        }
        // The mean is known to be zero, so these estimates are unbiased.
        let check = |values: Vec<f64>, expected: f64| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
            let error = (variance / n).sqrt();
            assert!((mean - expected).abs() < 3.5 * error && error < 0.01, "{mean} {expected} {error}");
        };
        for (index, &lag) in lags.iter().enumerate() {
            let expected = (1.0 - theta) * sums(lag) / (2.0 * (covariances[0] + covariances[1]));
            check(actual.iter().map(|actual| actual[index]).collect(), expected);
        }
        check(squares, 1.0);
        assert!(distance(ends, |z| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)) < 1.63);
    }
}
