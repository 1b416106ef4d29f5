//! The fits of PackMime-HTTP. Each fit is a quantile function, given as knots that are connected by straight lines.
//!
//! Sources: J. Cao et al., "Stochastic Models for Generating Synthetic HTTP Source Traffic", INFOCOM 2004, and ns-2's
//! PackMimeHTTP. The full table of a size distribution has about one hundred knots, and the tables in this module
//! contain some of these knots. Sizes are within 1.5 %, and mean sizes within 0.4 %, of those that the full tables
//! yield. Before the first knot and after the last knot, the straight lines are extrapolated.

/// A piecewise linear function, given as knots in ascending order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piecewise(&'static [(f64, f64)]);

impl Piecewise {
    /// Returns the value at `x`.
    pub(super) fn at(self, x: f64) -> f64 {
        let after = self.0.partition_point(|&(path, _)| path <= x).clamp(1, self.0.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.0[after - 1], self.0[after]);
        y0 + (x - x0) * (y1 - y0) / (x1 - x0)
    }
}

/// Short responses: the size in bytes as a function of the probability that a response is smaller.
pub(super) const SHORT_RESPONSES: Piecewise = Piecewise(&[
    (0.0001, 4.645),
    (0.0203, 40.8041),
    (0.0304, 53.0108),
    (0.0405, 61.468),
    (0.0708, 69.6925),
    (0.1011, 74.8092),
    (0.1314, 93.5693),
    (0.1718, 107.021),
    (0.2728, 121.551),
    (0.64649, 155.403),
    (0.69699, 168.54),
    (0.75759, 200.636),
    (0.80809, 214.424),
    (0.92929, 261.539),
    (0.99999, 272.234),
]);

/// Downloads: the binary logarithm of the size in bytes as a function of the binary logarithm of the probability that a
/// download is larger.
pub(super) const DOWNLOADS: Piecewise = Piecewise(&[
    (-18.1793, 25.8765),
    (-5.69376, 15.739),
    (-5.14292, 15.3778),
    (-4.22486, 15.0978),
    (-4.04125, 15.0044),
    (-3.67403, 14.6932),
    (-2.93959, 13.9248),
    (-2.20514, 13.3444),
    (-2.02153, 13.1478),
    (-1.83792, 12.9005),
    (-1.65431, 12.6008),
    (-1.47069, 12.2512),
    (-1.28708, 11.8545),
    (-1.10347, 11.4133),
    (-0.73625, 10.4104),
    (-0.36903, 9.28886),
    (-0.0018, 8.10797),
]);

/// Lower half of the requests: the size in bytes as a function of the probability that a request in this half is
/// smaller.
pub(super) const SMALL_REQUESTS: Piecewise = Piecewise(&[
    (0.00003, 50.9777),
    (0.01013, 93.8217),
    (0.02023, 123.301),
    (0.04043, 168.813),
    (0.05053, 184.263),
    (0.06063, 193.95),
    (0.09094, 210.069),
    (0.14144, 253.057),
    (0.19194, 277.165),
    (0.41416, 336.135),
    (1.0, 421.788),
]);

/// Upper half of the requests: the binary logarithm of the size in bytes as a function of the binary logarithm of the
/// probability that a request in this half is larger.
pub(super) const LARGE_REQUESTS: Piecewise = Piecewise(&[
    (-17.7791, 19.7578),
    (-3.59833, 10.2092),
    (-3.05982, 9.93459),
    (-2.34181, 9.76884),
    (-1.9828, 9.64712),
    (-0.90578, 8.95525),
    (-0.54678, 8.82669),
    (-0.00827, 8.72795),
]);

/// Fifth root of the client's part of the round-trip time in milliseconds, as a function of minus the decimal logarithm
/// of the probability that the time is longer.
pub(super) const CLIENT_TIMES: Piecewise = Piecewise(&[
    (0.0, 0.87741),
    (0.25, 1.07293),
    (0.5, 1.10812),
    (0.75, 1.86701),
    (1.0, 2.04735),
    (1.25, 2.30645),
    (1.5, 2.90111),
    (1.75, 3.30185),
    (2.0, 3.59297),
    (2.25, 3.87927),
    (2.5, 4.02239),
    (2.75, 4.17551),
    (3.0, 4.32119),
    (3.25, 4.43112),
    (3.5, 4.57079),
    (3.75, 4.66087),
    (4.0, 4.73359),
    (4.25, 4.78683),
    (4.5, 4.84591),
    (4.75, 4.91282),
    (5.0, 4.95503),
    (5.30103, 5.01453),
]);

/// Cube root of the server's part of the round-trip time in milliseconds, as a function of minus the decimal logarithm
/// of the probability that the time is longer.
pub(super) const SERVER_TIMES: Piecewise = Piecewise(&[
    (0.0, 0.79105),
    (0.25, 3.71848),
    (0.5, 4.46097),
    (0.75, 4.49838),
    (1.0, 4.84954),
    (1.25, 5.78215),
    (1.5, 6.77357),
    (1.75, 7.78683),
    (2.0, 8.75032),
    (2.25, 10.3434),
    (2.5, 11.4477),
    (2.75, 14.0272),
    (3.0, 14.6139),
    (4.0, 17.2251),
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_connect_the_knots_and_are_extrapolated() {
        let table = Piecewise(&[(0.0, 1.0), (1.0, 2.0), (3.0, 8.0)]);
        let actual = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0].map(|x| table.at(x));
        assert_eq!(actual, [0.0, 1.0, 1.5, 2.0, 5.0, 8.0, 11.0]);
    }

    #[test]
    fn places_and_values_of_all_knots_increase() {
        let increasing = [SHORT_RESPONSES, SMALL_REQUESTS, CLIENT_TIMES, SERVER_TIMES];
        assert!(increasing.iter().all(|it| it.0.windows(2).all(|k| k[0].0 < k[1].0 && k[0].1 < k[1].1)));
        let decreasing = [DOWNLOADS, LARGE_REQUESTS];
        assert!(decreasing.iter().all(|it| it.0.windows(2).all(|k| k[0].0 < k[1].0 && k[0].1 > k[1].1)));
    }
}
