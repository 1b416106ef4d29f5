//! The bands of fq since Linux 6.7: assigns packets to bands, and stores the flows of each band.

use aqm_net::ErrorCollector;

use crate::fair::ring::Ring;

/// The number of bands (`FQ_BANDS`).
pub(super) const BANDS: usize = 3;

/// Returns the default of `priomap`: the band of each of the kernel's 16 priorities (`sch_default_prio2band`).
pub(super) fn priomap() -> Vec<u32> {
    vec![1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
}

/// Returns the default of `weights`: the quantum of each band in bytes (`fq_init`).
pub(super) fn weights() -> Vec<u32> {
    vec![9 << 16, 3 << 16, 1 << 16]
}

/// The number of priorities in the kernel (`TC_PRIO_MAX + 1`), and the minimum weight (`FQ_MIN_WEIGHT`).
const PRIORITIES: usize = 16;
const MIN_WEIGHT: u32 = 16_384;

/// Reports errors in the parameters of the bands.
pub(super) fn check(priomap: &[u32], weights: &[u32], errors: &mut ErrorCollector) {
    let is_map = priomap.len() == PRIORITIES && priomap.iter().all(|band| (*band as usize) < BANDS);
    errors.check(is_map, "priomap", "must contain 16 bands, each of which is 0, 1 or 2");
    let is_valid = weights.len() == BANDS
        && weights.iter().all(|weight| (MIN_WEIGHT..=i32::MAX as u32).contains(weight));
    let problem = format_args!("must contain 3 numbers of bytes, each from {MIN_WEIGHT} to {}", i32::MAX);
    errors.check(is_valid, "weights", problem);
}

/// Returns the priority that the kernel assigns to a packet with this code point (`ip_tos2prio`). Two bits of the
/// former type-of-service field select best effort, bulk, interactive, or interactive bulk.
pub(super) fn priority(dscp: u8) -> usize {
    [0, 2, 6, 4][usize::from(dscp >> 1 & 3)]
}

/// A band of flows, which take turns; newly active flows are served first.
#[derive(Clone, Default)]
pub(super) struct Band {
    pub new: Ring,
    pub old: Ring,
    /// The number of bytes that the band may still send before the next band's turn. This field is not used if there is
    /// only one band.
    pub deficit: i64,
    /// The band's quantum in bytes.
    pub weight: i64,
    /// Number of packets in the band's flows.
    pub packets: u64,
    /// Number of packets dropped because the band's backlog had reached `limit`.
    pub drops: u64,
}

impl Band {
    /// Creates an empty band.
    pub fn with_weight(weight: u32) -> Self {
        Self { weight: weight.into(), ..Self::default() }
    }

    /// Returns the list of new flows if `is_new` is true, otherwise the list of old flows.
    pub fn list(&mut self, is_new: bool) -> &mut Ring {
        if is_new { &mut self.new } else { &mut self.old }
    }

    /// Returns the flow to serve, and whether this flow is new. Returns `None` if the band has no flow or the band's
    /// deficit is not positive.
    pub fn first(&self) -> Option<(u32, bool)> {
        if self.deficit <= 0 {
            return None;
        }
        self.new.front().map(|flow| (flow, true)).or_else(|| self.old.front().map(|flow| (flow, false)))
    }

    /// Starts a turn of the band. Unused deficit from earlier turns does not accumulate.
    pub fn begin_turn(&mut self) {
        self.deficit = (self.deficit + self.weight).min(self.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bands result from applying `rt_tos2priority` and `sch_default_prio2band` by hand. The code point EF
    /// contains the bits of interactive bulk.
    #[test]
    fn code_points_have_the_bands_of_the_kernel() {
        let band = |dscp: u8| priomap()[priority(dscp)];
        let [best_effort, low_cost_bits, ef, cs6, af11, af12, low_delay] = [0, 1, 46, 48, 10, 12, 4];
        for dscp in [best_effort, low_cost_bits, ef, cs6] {
            assert_eq!(band(dscp), 1, "{dscp}");
        }
        assert_eq!([band(af11), band(af12), band(low_delay)], [2, 0, 0]);
    }
}
