//! Equal gaps in which rounding errors do not accumulate. The k-th time is the start plus k gaps, rounded to the
//! nearest nanosecond. The rounding error is carried to the next gap, as in Bresenham's line algorithm (1965).

use aqm_net::Span;

/// The length of a gap as an integer and a fraction: `whole` + `part`/`of` nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenGaps {
    whole: u64,
    part: u64,
    of: u64,
}

/// Accumulated rounding error, in units of 1/`of` nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundingError(u64);

impl EvenGaps {
    /// Returns the transmission time of `bytes` at a rate of `bps`, which must not be zero.
    pub(crate) fn new(bytes: u64, bps: u64) -> Self {
        let numerator = u128::from(bytes) * 8_000_000_000;
        let whole = u64::try_from(numerator / u128::from(bps)).unwrap_or(u64::MAX);
        Self { whole, part: (numerator % u128::from(bps)) as u64, of: bps }
    }

    /// Returns the mean transmission time, at a rate of `bps`, of packets whose mean size is `bytes`, which need not be
    /// an integer.
    pub(crate) fn of_mean(bytes: f64, bps: u64) -> Self {
        if bytes == libm::trunc(bytes) {
            return Self::new(bytes as u64, bps);
        }
        let parts = 1 << 10;
        Self::new((bytes * parts as f64 + 0.5) as u64, bps.saturating_mul(parts))
    }

    /// Returns the gap in nanoseconds.
    pub(crate) fn nanos(self) -> f64 {
        self.whole as f64 + self.part as f64 / self.of as f64
    }

    /// Returns the initial rounding error, which is one half, so that times are rounded to the nearest nanosecond.
    pub(crate) fn initial_error(self) -> RoundingError {
        RoundingError(self.of / 2)
    }

    /// Returns the next gap in whole nanoseconds.
    pub(crate) fn next(self, error: &mut RoundingError) -> Span {
        error.0 += self.part;
        let carry = error.0 >= self.of;
        if carry {
            error.0 -= self.of;
        }
        Span::from_nanos(self.whole.saturating_add(u64::from(carry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_of_a_mean_that_is_not_whole_is_right_to_a_thousandth_of_a_byte() {
        let nanos = EvenGaps::of_mean(1000.3, 8_000_000).nanos();
        assert!((nanos - 1_000_300.0).abs() < 0.5, "{nanos}");
        assert_eq!(EvenGaps::of_mean(1000.0, 8_000_000).nanos(), 1_000_000.0);
    }

    #[test]
    fn the_kth_moment_is_k_gaps_away_to_the_nearest_nanosecond() {
        // 1000 B at 1.2347 Mb/s take 6479306.714... ns. 1 B at 7 Tb/s takes less than 1 ns.
        for (bytes, bps) in [(1000_u64, 1_234_700_u64), (1500, 10_000_000), (1, 7_000_000_000_000)] {
            let gap = EvenGaps::new(bytes, bps);
            let (mut rest, mut moment) = (gap.initial_error(), 0);
            for k in 1..100_000_u128 {
                moment += gap.next(&mut rest).nanos();
                let exact = (k * u128::from(bytes) * 8_000_000_000 + u128::from(bps) / 2) / u128::from(bps);
                assert_eq!(u128::from(moment), exact, "{k}");
            }
        }
    }
}
