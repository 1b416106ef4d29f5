//! A histogram of times, which needs constant memory. Each power of two is divided into 128 bins of equal width, so the
//! error is below 1 %.

use aqm_net::Span;

/// Binary logarithm of the number of bins per power of two.
const PARTS: u32 = 7;

/// The counts of a histogram.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    nanos: u128,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: Vec::new(), total: 0, nanos: 0 }
    }

    pub(crate) fn add(&mut self, span: Span) {
        let bin = bin(span.nanos());
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.total += 1;
        self.nanos += u128::from(span.nanos());
    }

    /// Returns the exact mean in seconds; `None` if the histogram is empty.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.nanos as f64 / self.total as f64 / 1e9)
    }

    /// Returns the quantile of the times, in seconds: at least the fraction `share` of all times does not exceed the
    /// result. The result is at most 1 % too large. Returns `None` if the histogram is empty.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = libm::ceil(share * self.total as f64) as u64;
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        bin.map(|bin| bin_end(bin) as f64 / 1e9)
    }
}

/// Returns the bin of a number. The leading bit and the next `PARTS` bits of the number determine the bin.
fn bin(nanos: u64) -> usize {
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(PARTS + 1);
    ((octave as usize) << PARTS) + (nanos >> octave) as usize
}

/// Returns the largest number that belongs to a bin.
fn bin_end(bin: usize) -> u64 {
    let octave = (bin >> PARTS).saturating_sub(1) as u32;
    let first = (bin - ((octave as usize) << PARTS)) as u64;
    (first << octave) + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_its_bin_and_bins_are_narrow() {
        let mut last = 0;
        for power in 0..64 {
            for nanos in [1_u64 << power, (1 << power) + (1 << power) / 3, u64::MAX >> (63 - power)] {
                let end = bin_end(bin(nanos));
                assert!(end >= nanos, "{nanos}");
                assert!((end - nanos) as f64 <= nanos as f64 / 128.0, "{nanos} {end}");
                assert!(bin(nanos) >= last);
                last = bin(nanos);
            }
        }
        assert_eq!((0..300).map(bin).filter(|&bin| bin_end(bin) < 256).count(), 256);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.mean(), histogram.quantile(0.5)), (None, None));
        (1..=1000).for_each(|micros| histogram.add(Span::from_nanos(micros * 1000)));
        assert!((histogram.mean().unwrap() - 500.5e-6).abs() < 1e-12);
        for (share, exact) in [(0.0, 1e-6), (0.5, 500e-6), (0.99, 990e-6), (1.0, 1e-3)] {
            let time = histogram.quantile(share).unwrap();
            assert!(time >= exact && time <= exact * 1.01, "{share}: {time}");
        }
    }
}
