//! Selects a random flow from the flows with long queues.
//!
//! aqmlab's choice: flows are grouped by their number of queued packets, and the sizes of the groups are stored in a
//! tree of partial sums (P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", 1994). A change and a
//! selection therefore each take O(log packets) time.

use aqm_net::Rng;

/// Flows, grouped by their number of packets.
#[derive(Clone)]
pub(super) struct RandomLong {
    /// For each number of packets: the flows that have this number of packets, in any order.
    by_packets: Vec<Vec<u32>>,
    /// A Fenwick tree over the sizes of the lists in the previous field. Element 0 is not used.
    sums: Vec<u32>,
    /// The position of each flow in its list.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    packets: u32,
    index: u32,
}

impl RandomLong {
    /// Creates a table without flows.
    pub fn new() -> Self {
        Self { by_packets: vec![Vec::new(); 2], sums: vec![0; 2], slots: Vec::new() }
    }

    /// Records that the queue of `flow` now contains this many packets.
    pub fn on_change(&mut self, flow: u32, packets: u64) {
        if self.slots.len() <= flow as usize {
            self.slots.resize(flow as usize + 1, Slot::default());
        }
        let old = self.slots[flow as usize];
        if old.packets > 0 {
            let list = &mut self.by_packets[old.packets as usize];
            list.swap_remove(old.index as usize);
            if let Some(&moved) = list.get(old.index as usize) {
                self.slots[moved as usize].index = old.index;
            }
            self.add(old.packets as usize, -1);
        }
        let new = packets as usize;
        if new > 0 {
            while new >= self.by_packets.len() {
                self.grow();
            }
            let index = self.by_packets[new].len() as u32;
            self.by_packets[new].push(flow);
            self.add(new, 1);
            self.slots[flow as usize] = Slot { packets: new as u32, index };
        } else {
            self.slots[flow as usize] = Slot::default();
        }
    }

    /// Draws a flow at random, with equal probabilities, from the flows that have at least this many packets. At least
    /// one such flow must exist.
    pub fn pick(&self, packets: u64, rng: &mut Rng) -> u32 {
        let below = self.sum_to(packets as usize - 1);
        let all = self.sum_to(self.by_packets.len() - 1);
        let mut rank = below + rng.below(u64::from(all - below)) as u32;
        // Descends the tree to find the largest number of packets whose partial sum does not exceed the rank.
        let (mut number, mut step) = (0, self.by_packets.len() / 2);
        while step > 0 {
            if number + step < self.sums.len() && self.sums[number + step] <= rank {
                number += step;
                rank -= self.sums[number];
            }
            step /= 2;
        }
        self.by_packets[number + 1][rank as usize]
    }

    /// Returns the number of flows that have at most this many packets.
    fn sum_to(&self, mut packets: usize) -> u32 {
        let mut sum = 0;
        while packets > 0 {
            sum += self.sums[packets];
            packets &= packets - 1;
        }
        sum
    }

    fn add(&mut self, mut packets: usize, change: i32) {
        while packets < self.sums.len() {
            self.sums[packets] = self.sums[packets].wrapping_add_signed(change);
            packets += packets & packets.wrapping_neg();
        }
    }

    /// Doubles the number of lists. This number is always a power of two.
    fn grow(&mut self) {
        let all = self.sum_to(self.by_packets.len() - 1);
        let half = self.by_packets.len();
        self.by_packets.resize(2 * half, Vec::new());
        self.sums.resize(2 * half, 0);
        // Of the new partial sums, only the sum over the first half includes any flows.
        self.sums[half] = all;
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn every_long_queue_is_picked_equally_often_and_no_other() {
        let mut rng = Streams::new(4).named("long", 0);
        let (mut random, mut packets) = (RandomLong::new(), [0_u64; 40]);
        for _ in 0..3000 {
            let flow = rng.below(40) as usize;
            packets[flow] = rng.below(100) / (1 + rng.below(20));
            random.on_change(flow as u32, packets[flow]);
        }
        for least in [1, 2, 5, 17] {
            let expected: Vec<u32> = (0..40).filter(|flow| packets[*flow as usize] >= least).collect();
            assert!(expected.len() > 1, "{least}");
            let mut picked = [0_u32; 40];
            let picks = 20_000;
            (0..picks).for_each(|_| picked[random.pick(least, &mut rng) as usize] += 1);
            let p = 1.0 / expected.len() as f64;
            let mean = f64::from(picks) * p;
            for (flow, count) in picked.iter().enumerate() {
                let deviation = (f64::from(*count) - mean) / (mean * (1.0 - p)).sqrt();
                assert_eq!(*count > 0, expected.contains(&(flow as u32)), "{flow} {least}");
                assert!(*count == 0 || deviation.abs() < 4.5, "{flow}: {deviation} standard errors");
            }
        }
    }
}
