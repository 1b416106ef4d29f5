//! A histogram of times in constant memory, exact to less than a hundredth: each power of two is divided into 128
//! parts of equal width.

use aqm_net::Span;

/// Parts of a power of two, as a power of two.
const PARTS: u32 = 7;

/// How often which time was seen.
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
        let place = place(span.nanos());
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
        self.nanos += u128::from(span.nanos());
    }

    /// The mean in seconds, which is exact; nothing if nothing was seen.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.nanos as f64 / self.total as f64 / 1e9)
    }

    /// The time in seconds that this share of all does not exceed, at most a hundredth too long; nothing if
    /// nothing was seen.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = libm::ceil(share * self.total as f64) as u64;
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= wanted.max(1)
        });
        found.map(|place| upper_end(place) as f64 / 1e9)
    }
}

/// Where a number is counted: by its leading bit and the `PARTS` bits behind it.
fn place(nanos: u64) -> usize {
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(PARTS + 1);
    ((octave as usize) << PARTS) + (nanos >> octave) as usize
}

/// The greatest number that is counted there.
fn upper_end(place: usize) -> u64 {
    let octave = (place >> PARTS).saturating_sub(1) as u32;
    let first = (place - ((octave as usize) << PARTS)) as u64;
    (first << octave) + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_lies_in_its_place_and_the_place_is_narrow() {
        let mut last = 0;
        for power in 0..64 {
            for nanos in [1_u64 << power, (1 << power) + (1 << power) / 3, u64::MAX >> (63 - power)] {
                let end = upper_end(place(nanos));
                assert!(end >= nanos, "{nanos}");
                assert!((end - nanos) as f64 <= nanos as f64 / 128.0, "{nanos} {end}");
                assert!(place(nanos) >= last);
                last = place(nanos);
            }
        }
        assert_eq!((0..300).map(place).filter(|&found| upper_end(found) < 256).count(), 256);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.mean(), histogram.quantile(0.5)), (None, None));
        (1..=1000).for_each(|micros| histogram.add(Span::from_nanos(micros * 1000)));
        assert!((histogram.mean().unwrap() - 500.5e-6).abs() < 1e-12);
        for (share, exact) in [(0.0, 1e-6), (0.5, 500e-6), (0.99, 990e-6), (1.0, 1e-3)] {
            let found = histogram.quantile(share).unwrap();
            assert!(found >= exact && found <= exact * 1.01, "{share}: {found}");
        }
    }
}
