//! The bands of fq since Linux 6.7: which packets are in which, and whose turn it is.

use aqm_net::ErrorCollector;

use crate::fair::ring::Ring;

/// How many there are (`FQ_BANDS`).
pub(super) const BANDS: usize = 3;

/// The bands of the 16 priorities of the kernel (`sch_default_prio2band`).
pub(super) fn priomap() -> Vec<u32> {
    vec![1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
}

/// The bytes that a turn of each band is worth (`fq_init`).
pub(super) fn weights() -> Vec<u32> {
    vec![9 << 16, 3 << 16, 1 << 16]
}

/// The priorities of the kernel (`TC_PRIO_MAX + 1`), and the least weight (`FQ_MIN_WEIGHT`).
const PRIORITIES: usize = 16;
const LEAST_WEIGHT: u32 = 16_384;

/// Notes what is wrong with the bands.
pub(super) fn check(priomap: &[u32], weights: &[u32], errors: &mut ErrorCollector) {
    let is_map = priomap.len() == PRIORITIES && priomap.iter().all(|band| (*band as usize) < BANDS);
    errors.check(is_map, "priomap", "must be 16 bands, each 0, 1 or 2");
    let is_right = weights.len() == BANDS
        && weights.iter().all(|weight| (LEAST_WEIGHT..=i32::MAX as u32).contains(weight));
    let problem = format_args!("must be 3 numbers of bytes from {LEAST_WEIGHT} to {}", i32::MAX);
    errors.check(is_right, "weights", problem);
}

/// The priority that the kernel gives to a packet with this code point (`ip_tos2prio`): best effort, bulk, interactive,
/// or interactive bulk, by two bits of the old type of service.
pub(super) fn priority(dscp: u8) -> usize {
    [0, 2, 6, 4][usize::from(dscp >> 1 & 3)]
}

/// Flows that take turns, those that have just begun to send first.
#[derive(Clone, Default)]
pub(super) struct Band {
    pub new: Ring,
    pub old: Ring,
    /// The bytes that it may send before another band has its turn; those of a single band do not count.
    pub credit: i64,
    /// What a turn is worth.
    pub weight: i64,
    /// Packets in its flows.
    pub packets: u64,
    /// Packets refused because it had `limit` of them.
    pub drops: u64,
}

impl Band {
    /// An empty one.
    pub fn of_weight(weight: u32) -> Self {
        Self { weight: weight.into(), ..Self::default() }
    }

    /// The list of its new flows, or of the others.
    pub fn list(&mut self, is_new: bool) -> &mut Ring {
        if is_new { &mut self.new } else { &mut self.old }
    }

    /// The flow to serve, and whether it is a new one; none if the band has no credit.
    pub fn first(&self) -> Option<(u32, bool)> {
        if self.credit <= 0 {
            return None;
        }
        self.new.front().map(|flow| (flow, true)).or_else(|| self.old.front().map(|flow| (flow, false)))
    }

    /// Has a turn: unused credit does not add up.
    pub fn begin_turn(&mut self) {
        self.credit = (self.credit + self.weight).min(self.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rt_tos2priority` and `sch_default_prio2band`, by hand: EF has the bits of interactive bulk.
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
