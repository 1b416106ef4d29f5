//! The regularised incomplete gamma function, which occurs in integrals of Weibull and gamma distributions. The
//! function is computed from a series or from a continued fraction (M. Abramowitz & I. A. Stegun, "Handbook of
//! Mathematical Functions", 1964, 6.5.29 and 6.5.31), whichever converges faster.

/// Returns P(`a`, `x`), the fraction of the gamma function's integral that lies below `x`.
pub(super) fn lower(a: f64, x: f64) -> f64 {
    if x < a + 1.0 { series(a, x) } else { 1.0 - fraction(a, x) }
}

/// Returns Q(`a`, `x`), the fraction of the gamma function's integral that lies above `x`.
pub(super) fn upper(a: f64, x: f64) -> f64 {
    if x < a + 1.0 { 1.0 - series(a, x) } else { fraction(a, x) }
}

/// Maximum number of terms. For every allowed shape parameter, the series and the continued fraction converge after
/// fewer terms.
const MAX_TERMS: u32 = 10_000;

fn series(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum) = (1.0 / a, 1.0 / a);
    for n in 1..MAX_TERMS {
        term *= x / (a + f64::from(n));
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum * factor(a, x)
}

fn fraction(a: f64, x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    let factor = factor(a, x);
    // The continued fraction is evaluated from its first term onwards (W. J. Lentz, 1976).
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (f64::MAX, 1.0 / b);
    let mut value = d;
    for n in 1..MAX_TERMS {
        let term = -f64::from(n) * (f64::from(n) - a);
        b += 2.0;
        d = 1.0 / (term * d + b);
        c = b + term / c;
        let step = c * d;
        value *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value * factor
}

/// Returns x^a exp(-x) divided by the gamma function of `a`.
fn factor(a: f64, x: f64) -> f64 {
    libm::exp(a * libm::log(x) - x - libm::lgamma(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_closed_forms() {
        for x in [0.01, 0.5, 1.0, 3.0, 10.0, 40.0] {
            let forms = [
                (1.0, libm::exp(-x)),
                (2.0, (1.0 + x) * libm::exp(-x)),
                (0.5, libm::erfc(f64::sqrt(x))),
                (4.0, (1.0 + x + x * x / 2.0 + x * x * x / 6.0) * libm::exp(-x)),
            ];
            for (a, expected) in forms {
                assert!((upper(a, x) / expected - 1.0).abs() < 1e-11, "{a} {x}: {}", upper(a, x));
                assert!((lower(a, x) + upper(a, x) - 1.0).abs() < 1e-14);
            }
        }
        assert_eq!((lower(0.5, 0.0), upper(3.0, 1e6), lower(3.0, f64::INFINITY)), (0.0, 0.0, 1.0));
    }
}
