//! Computes the fast Fourier transform of complex numbers, and the product of long real sequences.
//!
//! Sources: J. W. Cooley & J. W. Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series", 1965, in
//! the form of C. M. Fiduccia, "Polynomial Evaluation via the Division Algorithm", 1972. A polynomial modulo z^2n - r²
//! is split into its remainders modulo z^n - r and modulo z^n + r, and the remainders are split again until each
//! remainder is a number. If the splitting starts with r² = 1, the result is the ordinary transform. If the splitting
//! starts with r² = i, the result is the right-angle transform of R. Crandall & B. Fagin, "Discrete Weighted Transforms
//! and Large-Integer Arithmetic", 1994, section 5. With the right-angle transform, the product of two real sequences of
//! n values requires complex transforms of size n instead of 2n.
//!
//! aqmlab's choices: transformed values remain in the order in which the splitting produces them, because
//! multiplication does not require a different order. Sums and products are computed in a fixed order, and sines and
//! cosines are computed by libm, so that results are identical on every platform.

use std::f64::consts::PI;

/// Complex numbers, whose real and imaginary parts are stored in separate arrays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complex {
    pub(crate) re: Vec<f64>,
    pub(crate) im: Vec<f64>,
}

impl Complex {
    /// Creates complex numbers from real numbers, padded with zeros to `size`.
    pub(crate) fn real(values: &[f64], size: usize) -> Self {
        let mut re = values.to_vec();
        re.resize(size, 0.0);
        Self { re, im: vec![0.0; size] }
    }

    /// Multiplies each number by the number in `other` that has the same index.
    fn multiply(&mut self, other: &Self) {
        let parts = self.re.iter_mut().zip(&mut self.im);
        for ((a, b), (c, d)) in parts.zip(other.re.iter().zip(&other.im)) {
            (*a, *b) = (*a * c - *b * d, *a * d + *b * c);
        }
    }
}

/// The modulus of the polynomials before the first splitting: z^n - 1 or z^n - i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modulus {
    One,
    I,
}

/// A transform whose size is a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Fourier {
    size: usize,
    /// The numbers r for all splittings, in the order in which the transform uses them.
    roots: Vec<(f64, f64)>,
}

impl Fourier {
    pub(crate) fn new(size: usize, modulus: Modulus) -> Self {
        debug_assert!(size.is_power_of_two());
        let mut roots = Vec::with_capacity(size);
        // The array contains the angles of the numbers r², in half turns.
        let mut angles = vec![if modulus == Modulus::One { 0.0 } else { 0.5 }];
        while roots.len() + 1 < size {
            for angle in &angles {
                let (sin, cos) = libm::sincos(PI * (angle / 2.0));
                roots.push((cos, sin));
            }
            angles = angles.iter().flat_map(|angle| [angle / 2.0, angle / 2.0 + 1.0]).collect();
        }
        Self { size, roots }
    }

    /// Transforms the coefficients of a polynomial into the polynomial's values.
    pub(crate) fn forward(&self, data: &mut Complex) {
        let (mut half, mut first) = (self.size / 2, 0);
        while half > 0 {
            let blocks = data.re.chunks_exact_mut(2 * half).zip(data.im.chunks_exact_mut(2 * half));
            for ((re, im), &(c, s)) in blocks.zip(&self.roots[first..]) {
                let ((re_a, re_b), (im_a, im_b)) = (re.split_at_mut(half), im.split_at_mut(half));
                for (((ra, rb), ia), ib) in re_a.iter_mut().zip(re_b).zip(im_a).zip(im_b) {
                    let (tr, ti) = (c * *rb - s * *ib, c * *ib + s * *rb);
                    (*rb, *ib) = (*ra - tr, *ia - ti);
                    (*ra, *ia) = (*ra + tr, *ia + ti);
                }
            }
            first += self.size / (2 * half);
            half /= 2;
        }
    }

    /// Transforms the values of a polynomial into its coefficients multiplied by the size of the transform.
    pub(crate) fn backward(&self, data: &mut Complex) {
        let (mut half, mut first) = (1, self.roots.len());
        while half < self.size {
            first -= self.size / (2 * half);
            let blocks = data.re.chunks_exact_mut(2 * half).zip(data.im.chunks_exact_mut(2 * half));
            for ((re, im), &(c, s)) in blocks.zip(&self.roots[first..]) {
                let ((re_a, re_b), (im_a, im_b)) = (re.split_at_mut(half), im.split_at_mut(half));
                for (((ra, rb), ia), ib) in re_a.iter_mut().zip(re_b).zip(im_a).zip(im_b) {
                    let (dr, di) = (*ra - *rb, *ia - *ib);
                    (*ra, *ia) = (*ra + *rb, *ia + *ib);
                    (*rb, *ib) = (c * dr + s * di, c * di - s * dr);
                }
            }
            half *= 2;
        }
    }
}

/// Multiplies real sequences by a fixed sequence (a filter).
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    fourier: Fourier,
    /// The transform of the filter's coefficients, divided by the size of the transform.
    response: Complex,
    work: Complex,
}

impl Filter {
    /// Creates a filter of at most `size` coefficients for sequences of at most `size` values.
    pub(crate) fn new(coefficients: &[f64], size: usize) -> Self {
        let fourier = Fourier::new(size, Modulus::I);
        let mut response = Complex::real(coefficients, size);
        fourier.forward(&mut response);
        for value in response.re.iter_mut().chain(&mut response.im) {
            *value /= size as f64;
        }
        Self { fourier, response, work: Complex::default() }
    }

    /// Returns the product of the filter and `values`, as two halves of `size` values each.
    pub(crate) fn apply(&mut self, values: &[f64]) -> (&[f64], &[f64]) {
        self.work.re.clear();
        self.work.re.extend_from_slice(values);
        self.work.re.resize(self.fourier.size, 0.0);
        self.work.im.clear();
        self.work.im.resize(self.fourier.size, 0.0);
        self.fourier.forward(&mut self.work);
        self.work.multiply(&self.response);
        self.fourier.backward(&mut self.work);
        (&self.work.re, &self.work.im)
    }
}

/// Returns the first `size` coefficients of the power series 1/f, computed by Newton's method. `size` must be a power
/// of two. The first coefficient of f must be 1.
pub(crate) fn reciprocal(f: &[f64], size: usize) -> Vec<f64> {
    let mut g = vec![1.0];
    while g.len() < size {
        let next = 2 * g.len();
        let mut filter = Filter::new(&g, next);
        // This is the Newton step g (2 - f g), modulo z^next.
        let mut rest: Vec<f64> = filter.apply(&f[..f.len().min(next)]).0.iter().map(|value| -value).collect();
        rest[0] += 2.0;
        g = filter.apply(&rest).0.to_vec();
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;

    fn values(count: usize, index: u64) -> Vec<f64> {
        let mut rng = Streams::new(1).named("fourier", index);
        (0..count).map(|_| rng.uniform() - 0.3).collect()
    }

    #[test]
    fn the_inverse_transform_restores_the_values() {
        for modulus in [Modulus::One, Modulus::I] {
            let fourier = Fourier::new(64, modulus);
            let (re, im) = (values(64, 0), values(64, 1));
            let mut data = Complex { re: re.clone(), im: im.clone() };
            fourier.forward(&mut data);
            fourier.backward(&mut data);
            for k in 0..64 {
                assert!((data.re[k] / 64.0 - re[k]).abs() < 1e-14);
                assert!((data.im[k] / 64.0 - im[k]).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn the_values_are_those_of_the_discrete_fourier_transform() {
        let (n, input) = (16, values(16, 2));
        let mut data = Complex::real(&input, n);
        Fourier::new(n, Modulus::One).forward(&mut data);
        for k in 0..n {
            let term = |j: usize| libm::sincos(2.0 * PI * ((j * k) % n) as f64 / n as f64);
            let (mut re, mut im) = (0.0, 0.0);
            for (j, value) in input.iter().enumerate() {
                let (sin, cos) = term(j);
                re += value * cos;
                im += value * sin;
            }
            let actual = (0..n).any(|p| (data.re[p] - re).abs() < 1e-13 && (data.im[p] - im).abs() < 1e-13);
            assert!(actual, "{k}");
        }
    }

    #[test]
    fn a_filter_multiplies_as_by_hand() {
        let (a, b) = (values(50, 3), values(64, 4));
        let mut filter = Filter::new(&a, 64);
        let (low, high) = filter.apply(&b);
        for k in 0..128 {
            let expected: f64 = (0..=k).filter(|&j| j < 50 && k - j < 64).map(|j| a[j] * b[k - j]).sum();
            let actual = if k < 64 { low[k] } else { high[k - 64] };
            assert!((actual - expected).abs() < 1e-13, "{k}");
        }
    }

    #[test]
    fn the_reciprocal_times_the_series_is_one() {
        // The power series of 1/(1 - z)^(1/2) begins with 1, 1/2, 3/8, 5/16.
        let root = [1.0, -0.5, -0.125, -0.0625, -0.0390625, -0.02734375, -0.0205078125, -0.01611328125];
        let actual = reciprocal(&root, 8);
        for (actual, expected) in actual.iter().zip([1.0, 0.5, 0.375, 0.3125, 0.2734375]) {
            assert!((actual - expected).abs() < 1e-14, "{actual} {expected}");
        }
    }
}
