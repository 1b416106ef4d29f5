//! The number of bytes that a transfer needs on the wire, which is used to compute loads. A load is a fraction of a
//! link's rate and includes headers.
//!
//! The formula assumes that every full-sized packet adds the same number of bytes, and that the last packet is either
//! padded to full size or grows by the same number of bytes for each byte of its payload. Under these assumptions,
//! three values determine the number of bytes on the wire, and the mean over a distribution of sizes is a sum over
//! packets: E\[packets\] = 1 + Σ P(size > k·payload).

use crate::Packetisation;
use crate::distributions::Sizes;

/// A formula for the number of bytes that a transfer needs on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// Number of payload bytes in a full-sized packet.
    payload: u64,
    /// Number of bytes on the wire for a transfer of one byte.
    least: u64,
    /// Number of additional bytes on the wire for a transfer of one full-sized packet, compared with a transfer of one
    /// byte.
    fill: u64,
    /// Number of bytes on the wire for each further packet.
    full: u64,
}

impl Wire {
    pub(crate) fn of(packetisation: &dyn Packetisation) -> Self {
        let payload = packetisation.payload().max(1);
        let [least, one, two] = [1, payload, 2 * payload].map(|bytes| packetisation.wire_bytes(bytes));
        let wire = Self { payload, least, fill: one - least, full: two - one };
        debug_assert!(
            [payload / 2 + 1, payload + 1, 3 * payload - 1]
                .into_iter()
                .all(|b| wire.bytes(b) == packetisation.wire_bytes(b)),
            "a packetisation must add the same number of bytes for every full packet"
        );
        wire
    }

    /// Returns the number of bytes on the wire for a transfer of `bytes`.
    pub(crate) fn bytes(&self, bytes: u64) -> u64 {
        let before = (bytes.max(1) - 1) / self.payload;
        let last = (bytes.max(1) - 1) % self.payload;
        self.least + before * self.full + last * self.fill / (self.payload - 1).max(1)
    }

    /// Returns the mean number of bytes on the wire for transfers whose sizes have this distribution.
    pub(crate) fn mean(&self, sizes: &Sizes) -> f64 {
        let before = packets_before_the_last(sizes, self.payload);
        let last = sizes.mean() - 1.0 - self.payload as f64 * before;
        let per_byte = self.fill as f64 / (self.payload - 1).max(1) as f64;
        self.least as f64 + self.full as f64 * before + per_byte * last
    }
}

/// Number of packets over which the sum is computed. For the remaining packets, an integral (the midpoint rule)
/// replaces the sum. The integral is accurate to nine digits, or to half a packet if the minimum size exceeds this
/// number of packets.
const SUMMED_PACKETS: u64 = 10_000;

/// Returns Σ P(size > k·payload) over k = 1, 2, ...
fn packets_before_the_last(sizes: &Sizes, payload: u64) -> f64 {
    let most = (sizes.maximum() - 1) / payload;
    let summed: f64 = (1..=most.min(SUMMED_PACKETS)).map(|k| sizes.at_least(k * payload + 1)).sum();
    if most <= SUMMED_PACKETS {
        return summed;
    }
    let middle = |k: u64| (k as f64 + 0.5) * payload as f64 + 0.5;
    summed + sizes.survival_between(middle(SUMMED_PACKETS), middle(most)) / payload as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::lomax::{Config, Truncation};
    use crate::distributions::{self, Amount};
    use crate::testing::{FullPackets, ShortLast};

    /// Returns sizes with a Lomax distribution that has the shape of the Web model.
    fn lomax([mean, minimum, maximum]: [u64; 3], truncation: Truncation) -> Sizes {
        let [mean, minimum, maximum] = [mean, minimum, maximum].map(|bytes| Some(Amount::bytes(bytes)));
        let config = Config { mean, minimum, maximum, truncation, ..Config::default() };
        distributions::Config::lomax(config).sizes(None).unwrap()
    }

    #[test]
    fn the_formula_is_the_packetisation() {
        for packetisation in [&FullPackets as &dyn Packetisation, &ShortLast] {
            let wire = Wire::of(packetisation);
            assert!((1..10_000).all(|bytes| wire.bytes(bytes) == packetisation.wire_bytes(bytes)));
        }
    }

    #[test]
    fn the_mean_is_that_of_the_reference_runs() {
        // A SYN of 40 B and 11.24004 packets of 974 B add up to 10987.80 B. The minimum of 12 B has no effect on the
        // mean.
        let sizes = lomax([10_000, 1, 2_000_000], Truncation::Clip);
        let mean = Wire::of(&FullPackets).mean(&sizes);
        assert!((mean - 10_987.80).abs() < 0.005, "{mean}");
    }

    #[test]
    fn the_mean_is_right_where_the_least_size_is_beyond_the_sum() {
        // The sizes are between 12,000 and 20,000 packets. The integral covers these sizes, because the sum ends at
        // 10,000 packets.
        for truncation in [Truncation::Clip, Truncation::Redraw] {
            let sizes = lomax([13_000, 12_000, 20_000].map(|packets| packets * 934), truncation);
            let packets = 1.0 + (1..20_000).map(|k| sizes.at_least(k * 934 + 1)).sum::<f64>();
            let mean = Wire::of(&FullPackets).mean(&sizes);
            assert!((mean / (40.0 + 974.0 * packets) - 1.0).abs() < 0.5 / 12_000.0, "{mean} {packets}");
        }
    }

    #[test]
    fn the_mean_is_the_sum_over_all_sizes() {
        for packetisation in [&FullPackets as &dyn Packetisation, &ShortLast] {
            for truncation in [Truncation::Clip, Truncation::Redraw] {
                // The sizes are so large that the integral is needed.
                let sizes = lomax([2_000_000, 12, 20_000_000], truncation);
                let (mut sum, mut above) = (0.0, 1.0);
                for bytes in 1..=sizes.maximum() {
                    let beyond = sizes.at_least(bytes + 1);
                    sum += (above - beyond) * packetisation.wire_bytes(bytes) as f64;
                    above = beyond;
                }
                let mean = Wire::of(packetisation).mean(&sizes);
                assert!((mean / sum - 1.0).abs() < 1e-7, "{mean} {sum}");
            }
        }
    }
}
