//! Processor sharing: at any time, every flow in progress gets a share of the link. Shares may be weighted, and are
//! limited by the flows' peak rates.
//!
//! Sources: L. Kleinrock, "Time-shared Systems: A Theoretical Treatment", 1967 (processor sharing, and discriminatory
//! processor sharing with weights); D. Bertsekas & R. Gallager, "Data Networks", 1992, section 6.5.2 (max-min shares:
//! capacity that some flows cannot use is divided among the other flows). The rule that streaming flows have priority
//! and that elastic flows share the remaining capacity was taken from T. Bonald & J. W. Roberts, "Congestion at Flow
//! Level and the Impact of User Behaviour", 2003.
//!
//! At any time, all flows of a group have the same rate. A group therefore needs only one virtual clock and one heap.
//! The virtual clock counts the bytes that a permanent flow in the group would have sent, and the heap contains the
//! clock readings at which the group's flows complete. Processing an event takes O(log n) steps for n flows, plus one
//! step per group.
//!
//! aqmlab's choice: the duration of a streaming flow is always its size divided by its peak rate. If the link cannot
//! carry all streaming flows, each streaming flow loses data in proportion to its rate.

use std::collections::BinaryHeap;

use super::{Job, Server};

/// The parameters that determine which share of the link the flows of a class get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Weight of each flow. The rates of all elastic flows that are below their peak rates are proportional to the
    /// weights of these flows.
    pub(crate) weight: f64,
    /// Peak rate of each flow, in bytes per second; the value may be infinite.
    pub(crate) peak: f64,
    /// Whether the flows have priority and always send at their peak rate.
    pub(crate) streaming: bool,
}

/// The state of a group.
struct GroupState {
    group: Group,
    /// Flows, sorted by the virtual time of their departure.
    flows: BinaryHeap<Job>,
    /// Virtual clock, in bytes. In order to limit rounding errors, the clock is reset to zero when the group is empty.
    clock: f64,
    /// Rate of each flow, in bytes per second.
    rate: f64,
    /// Part of `rate` that the link carries, in bytes per second.
    carried_rate: f64,
    carried: f64,
}

/// A link that all flows share.
pub(crate) struct Sharing {
    /// Capacity of the link, in bytes per second.
    capacity: f64,
    groups: Vec<GroupState>,
    /// Indices of the elastic groups, in the order in which the groups would reach their peak rates if the shares
    /// increased.
    elastic: Vec<usize>,
    streaming: Vec<usize>,
    now: f64,
    next: f64,
    /// Index of the group whose flow departs next.
    first: usize,
}

impl Sharing {
    pub(crate) fn new(capacity: f64, groups: &[Group]) -> Self {
        let (streaming, mut elastic): (Vec<usize>, Vec<usize>) =
            (0..groups.len()).partition(|&group| groups[group].streaming);
        let peak_share = |&group: &usize| groups[group].peak / groups[group].weight;
        elastic.sort_by(|a, b| peak_share(a).total_cmp(&peak_share(b)));
        let idle = |&group| GroupState {
            group,
            flows: BinaryHeap::new(),
            clock: 0.0,
            rate: 0.0,
            carried_rate: 0.0,
            carried: 0.0,
        };
        Self {
            capacity,
            groups: groups.iter().map(idle).collect(),
            elastic,
            streaming,
            now: 0.0,
            next: f64::INFINITY,
            first: 0,
        }
    }

    /// Sets all rates and determines the next departure.
    fn update(&mut self) {
        let room = self.set_streaming_rates();
        self.set_elastic_rates(room);
        self.next = f64::INFINITY;
        for (number, group) in self.groups.iter().enumerate() {
            if let Some(job) = group.flows.peek() {
                let at = self.now + ((job.bytes - group.clock) / group.rate).max(0.0);
                if at < self.next {
                    (self.next, self.first) = (at, number);
                }
            }
        }
    }

    /// Sets the rates of streaming flows to their peak rates, and returns the remaining capacity.
    fn set_streaming_rates(&mut self) -> f64 {
        let demand = |&number: &usize| self.groups[number].demand();
        let demand: f64 = self.streaming.iter().map(demand).sum();
        let carried_share = if demand > self.capacity { self.capacity / demand } else { 1.0 };
        for &number in &self.streaming {
            let group = &mut self.groups[number];
            group.rate = group.group.peak;
            group.carried_rate = group.rate * carried_share;
        }
        (self.capacity - demand).max(0.0)
    }

    /// Divides the capacity `room` among the elastic flows as weighted max-min shares.
    fn set_elastic_rates(&mut self, mut room: f64) {
        let mut weights: f64 = self.elastic.iter().map(|&number| self.groups[number].weights()).sum();
        for &number in &self.elastic {
            let group = &mut self.groups[number];
            let Group { weight, peak, .. } = group.group;
            if group.flows.is_empty() {
                continue;
            }
            group.rate = peak.min(weight / weights * room).max(0.0);
            group.carried_rate = group.rate;
            // If a group is below its peak rate, all later groups are also below their peak rates, and their shares are
            // not changed by this block.
            if group.rate == peak {
                room = (room - group.demand()).max(0.0);
                weights -= group.weights();
            }
        }
    }
}

impl GroupState {
    /// Returns the sum of the peak rates of the group's flows.
    fn demand(&self) -> f64 {
        // The product of zero and an infinite peak rate would be NaN.
        if self.flows.is_empty() { 0.0 } else { self.flows.len() as f64 * self.group.peak }
    }

    fn weights(&self) -> f64 {
        self.flows.len() as f64 * self.group.weight
    }
}

impl Server for Sharing {
    fn next(&self) -> f64 {
        self.next
    }

    fn advance(&mut self, now: f64) {
        let time = now - self.now;
        for group in &mut self.groups {
            if !group.flows.is_empty() {
                group.clock += time * group.rate;
                group.carried += time * group.carried_rate * group.flows.len() as f64;
            }
        }
        self.now = now;
    }

    fn join(&mut self, job: Job) {
        let group = &mut self.groups[job.class as usize];
        group.flows.push(Job { bytes: group.clock + job.bytes, ..job });
        self.update();
    }

    fn leave(&mut self) -> u32 {
        self.advance(self.next);
        let group = &mut self.groups[self.first];
        let job = group.flows.pop().expect("a departure requires a flow in progress");
        group.clock = if group.flows.is_empty() { 0.0 } else { job.bytes };
        self.update();
        job.slot
    }

    fn carried(&self, class: usize) -> f64 {
        self.groups[class].carried
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{assert_close, departures};

    const ELASTIC: Group = Group { weight: 1.0, peak: f64::INFINITY, streaming: false };

    #[test]
    fn equal_flows_share_equally() {
        // The first flow sends 50 B alone. Then both flows send at 5 B/s until the second flow is complete. Finally,
        // the first flow sends another 5 B alone.
        let remaining = departures(&mut Sharing::new(10.0, &[ELASTIC]), &[(0.0, 100.0, 0), (5.0, 45.0, 0)]);
        assert_close(&remaining, &[14.5, 14.0]);
    }

    #[test]
    fn rates_are_as_the_weights() {
        let heavy = Group { weight: 3.0, ..ELASTIC };
        let mut link = Sharing::new(8.0, &[ELASTIC, heavy]);
        let remaining = departures(&mut link, &[(0.0, 40.0, 0), (0.0, 60.0, 1)]);
        assert_close(&remaining, &[12.5, 10.0]);
    }

    #[test]
    fn other_flows_share_the_capacity_that_a_flow_at_its_peak_leaves() {
        let slow = Group { peak: 1.0, ..ELASTIC };
        let mut link = Sharing::new(10.0, &[ELASTIC, slow]);
        let remaining = departures(&mut link, &[(0.0, 45.0, 0), (0.0, 20.0, 1), (0.0, 45.0, 0)]);
        assert_close(&remaining, &[10.0, 20.0, 10.0]);
        assert!((link.carried(0) - 90.0).abs() < 1e-9 && (link.carried(1) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn streaming_flows_have_priority_and_lose_the_excess() {
        let video = Group { peak: 6.0, streaming: true, ..ELASTIC };
        let mut link = Sharing::new(10.0, &[ELASTIC, video]);
        // Until 10 s, one flow streams and leaves 4 B/s for elastic flows. From 10 s to 20 s, two flows stream and
        // leave no capacity.
        let flows = [(0.0, 60.0, 0), (0.0, 120.0, 1), (10.0, 60.0, 1)];
        let remaining = departures(&mut link, &flows);
        assert_close(&remaining, &[22.0, 20.0, 20.0]);
        assert!((link.carried(1) - (60.0 + 100.0)).abs() < 1e-9);
    }
}
