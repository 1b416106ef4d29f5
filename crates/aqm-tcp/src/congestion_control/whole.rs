//! Rounds amounts to whole numbers.
//!
//! BBR and Prague round amounts at each acknowledgement. The functions in this file convert an amount to an integer and
//! back, which takes fewer instructions than the functions of `libm`. The amounts must be from 0 to 2^63.

/// Returns the largest whole number that is at most `amount`.
pub(super) fn floor(amount: f64) -> f64 {
    amount as i64 as f64
}

/// Returns the smallest whole number that is at least `amount`.
pub(super) fn ceil(amount: f64) -> f64 {
    let floor = floor(amount);
    if floor < amount { floor + 1.0 } else { floor }
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
}
