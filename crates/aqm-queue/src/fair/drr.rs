//! DRR: deficit round robin.
//!
//! M. Shreedhar and G. Varghese, "Efficient Fair Queueing Using Deficit Round Robin", IEEE/ACM Transactions on
//! Networking 4(3), 1996. Flows take turns. At each turn of a flow, a quantum is added to the flow's deficit, and the
//! flow sends packets as long as its first packet is not larger than the deficit. The flow keeps the remaining deficit
//! for its next turn. If a flow's queue becomes empty, the flow's deficit is reset to zero. The quantum of a flow of
//! weight `w` is `w` times as large as the quantum of a flow of weight 1.
//!
//! As stated in the paper, the work per packet is O(1) if the quantum is at least the size of the largest packet. A
//! smaller quantum is allowed, but leads to rounds in which no flow may send.

use aqm_net::{ConfigError, Instant, Rate, Size};

use super::ring::Ring;
use super::tags::Unit;
use super::{Order, scheduler};

scheduler! {
    /// Deficit round robin: flows take turns, and backlogged flows send equal numbers of bytes, regardless of packet
    /// sizes.
    pub struct Config {
        /// Quantum: number of bytes that a flow of weight 1 may send per turn.
        pub quantum: Size = Size::from_bytes(1500),
            "Shreedhar & Varghese 1996: the largest packet; aqmlab's choice: the largest on Ethernet";
    }
}

/// The largest allowed quantum. With larger values, turns would be unreasonably long.
const MAX_QUANTUM: u64 = 1_000_000_000;

impl Config {
    fn order(&self, _unit: Unit, _rate: Rate) -> Result<Drr, ConfigError> {
        let quantum = self.quantum.bytes();
        if !(1..=MAX_QUANTUM).contains(&quantum) {
            return Err(ConfigError::at("quantum", format!("must be from 1B to 1GB (got {})", self.quantum)));
        }
        Ok(Drr { quantum, turns: Ring::default(), has_quantum: false })
    }
}

/// The order in which flows send, including the state of DRR.
#[derive(Clone)]
struct Drr {
    quantum: u64,
    turns: Ring<Flow>,
    /// Whether the current flow has received its quantum.
    has_quantum: bool,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    deficit: u64,
    weight: u32,
}

impl Order for Drr {
    type Stamp = ();
    const REMEMBERS: bool = false;

    fn on_arrival(&mut self, _flow: u32, _bytes: u16, _now: Instant) {}

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        self.turns.push_back(flow, Flow { deficit: 0, weight });
    }

    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32 {
        loop {
            let flow = self.turns.front().expect("a flow is backlogged");
            let Flow { deficit, weight } = self.turns.value(flow);
            if !self.has_quantum {
                *deficit += self.quantum * u64::from(*weight);
                self.has_quantum = true;
            }
            if u64::from(head_bytes(flow)) <= *deficit {
                return flow;
            }
            self.turns.rotate();
            self.has_quantum = false;
        }
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        // The packet can be larger than the deficit only if a child has dropped the expected packet.
        let deficit = &mut self.turns.value(flow).deficit;
        *deficit = deficit.saturating_sub(u64::from(bytes));
    }

    fn on_empty(&mut self, flow: u32) {
        self.has_quantum &= self.turns.front() != Some(flow);
        self.turns.remove(flow);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use aqm_net::Streams;

    use super::*;

    /// A DRR scheduler and its flows, which are always backlogged with packets of random sizes.
    struct Backlogged {
        drr: Drr,
        heads: Vec<u16>,
        sizes: aqm_net::Rng,
    }

    impl Backlogged {
        fn new(quantum: u64, weights: &[u32]) -> Self {
            let config = Config { quantum: Size::from_bytes(quantum), ..Config::default() };
            let mut drr = config.order(Unit::of(&[]).unwrap(), Rate::from_bps(1)).unwrap();
            (0..).zip(weights).for_each(|(flow, weight)| drr.on_backlogged(flow, *weight));
            let mut sizes = Streams::new(1).named("sizes", 0);
            let heads = weights.iter().map(|_| 1 + sizes.below(1500) as u16).collect();
            Self { drr, heads, sizes }
        }

        /// Sends a packet. Returns the packet's flow, the packet's size, and the number of packet sizes that DRR has
        /// read.
        fn send(&mut self) -> (u32, u16, u64) {
            let reads = Cell::new(0);
            let flow = self.drr.next(|flow| {
                reads.set(reads.get() + 1);
                self.heads[flow as usize]
            });
            let bytes = self.heads[flow as usize];
            self.drr.on_sent(flow, bytes);
            self.heads[flow as usize] = 1 + self.sizes.below(1500) as u16;
            (flow, bytes, reads.get())
        }
    }

    #[test]
    fn after_m_turns_a_flow_has_sent_m_quanta_within_one_packet() {
        // Lemma 2 of the paper bounds this difference.
        let weights = [1, 2, 5, 1];
        let mut flows = Backlogged::new(1500, &weights);
        let (mut sent, mut turns, mut last) = ([0_u64; 4], [0_u64; 4], u32::MAX);
        for _ in 0..20_000 {
            let (flow, bytes, _) = flows.send();
            if flow != last && last != u32::MAX {
                let done = last as usize;
                let quanta = turns[done] * 1500 * u64::from(weights[done]);
                assert!((quanta - 1499..=quanta).contains(&sent[done]), "{} of {quanta}", sent[done]);
            }
            turns[flow as usize] += u64::from(flow != last);
            sent[flow as usize] += u64::from(bytes);
            last = flow;
        }
    }

    #[test]
    fn a_packet_costs_at_most_two_reads_on_average_for_any_number_of_flows() {
        for flows in [10_usize, 1000, 100_000] {
            let mut backlogged = Backlogged::new(1500, &vec![1; flows]);
            let packets = 3 * flows as u64;
            let reads: u64 = (0..packets).map(|_| backlogged.send().2).sum();
            assert!(reads <= 2 * packets, "{flows} flows: {reads} looks for {packets} packets");
        }
    }

    #[test]
    fn the_papers_example_is_served_in_the_papers_order() {
        // Figures 3 and 4 of the paper: the quantum is 500 bytes, queue 1 contains packets of 200, 750 and 20 bytes,
        // and queue 2 contains two packets of 500 bytes.
        let mut queues = [VecDeque::from([200_u16, 750, 20]), VecDeque::from([500, 500])];
        let config = Config { quantum: Size::from_bytes(500), ..Config::default() };
        let mut drr = config.order(Unit::of(&[]).unwrap(), Rate::from_bps(1)).unwrap();
        drr.on_backlogged(0, 1);
        drr.on_backlogged(1, 1);
        let mut sent = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            let flow = drr.next(|flow| queues[flow as usize][0]);
            let bytes = queues[flow as usize].pop_front().unwrap();
            drr.on_sent(flow, bytes);
            sent.push(bytes);
            if queues[flow as usize].is_empty() {
                drr.on_empty(flow);
            }
        }
        assert_eq!(sent, [200, 500, 750, 20, 500]);
    }
}
