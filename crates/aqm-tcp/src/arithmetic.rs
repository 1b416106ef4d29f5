//! Arithmetic that takes few instructions.
//!
//! Senders compute with amounts of data and with rates at each packet. The functions in this file take fewer instructions than those of the standard library and of `libm`, because no amount is NaN or negative zero,
//! and all amounts that are converted or rounded are from 0 to 2^63.

/// Converts a number of bytes or segments to a real number.
#[inline(always)]
pub(crate) fn real(amount: u64) -> f64 {
    amount as i64 as f64
}

/// Returns the largest whole number that is at most `amount`.
#[inline(always)]
pub(crate) fn floor(amount: f64) -> f64 {
    amount as i64 as f64
}

/// Returns the smallest whole number that is at least `amount`.
#[inline(always)]
pub(crate) fn ceil(amount: f64) -> f64 {
    let floor = floor(amount);
    if floor < amount { floor + 1.0 } else { floor }
}

/// Limits of an amount.
pub(crate) trait Limited {
    /// Returns the larger of two amounts.
    fn at_least(self, least: f64) -> f64;
    /// Returns the smaller of two amounts.
    fn at_most(self, most: f64) -> f64;
}

impl Limited for f64 {
    #[inline(always)]
    fn at_least(self, least: f64) -> f64 {
        if self > least { self } else { least }
    }

    #[inline(always)]
    fn at_most(self, most: f64) -> f64 {
        if self < most { self } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_by_libm() {
        let large = (1_u64 << 53) as f64;
        for amount in
            [0.0, 1e-300, 0.5, 1.0, 1.0 + f64::EPSILON, 2.999_999, 1e9 + 0.25, large - 0.5, large, 1e18]
        {
            assert_eq!((floor(amount), ceil(amount)), (libm::floor(amount), libm::ceil(amount)), "{amount}");
        }
    }

    #[test]
    fn amounts_are_converted_and_compared_as_by_the_standard_library() {
        for amount in [0, 1, 1448, (1 << 53) + 1, i64::MAX as u64] {
            assert_eq!(real(amount), amount as f64);
        }
        for (a, b) in [(0.0, 1.0), (2.5, 2.5), (f64::INFINITY, 1e9), (1e9, f64::INFINITY)] {
            assert_eq!((a.at_least(b), a.at_most(b)), (a.max(b), a.min(b)));
        }
    }
}
