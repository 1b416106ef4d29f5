//! Processor sharing: every flow has its share at every instant, weighted if there are weights, and never
//! more than its peak rate.
//!
//! L. Kleinrock, "Time-shared Systems: A Theoretical Treatment", 1967 (processor sharing; with weights,
//! discriminatory processor sharing); D. Bertsekas & R. Gallager, "Data Networks", 1992, section 6.5.2
//! (max-min shares, where what a flow cannot take is shared by the others). Streaming flows have their rate
//! first and elastic ones what that leaves: T. Bonald & J. W. Roberts, "Congestion at Flow Level and the
//! Impact of User Behaviour", 2003.
//!
//! The flows of a group have one rate at any instant, so a group needs a single virtual clock, the bytes
//! that each of its flows would have sent had it been there all along, and one heap of the readings at
//! which its flows are done: O(log n) for each event, and one step for each group.
//!
//! Ours: a streaming flow lasts its size over its peak rate whatever happens; what the link cannot carry
//! of it is lost, from all streaming flows in proportion.

use std::collections::BinaryHeap;

use super::{Job, Server};

/// What the flows of a class may take of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Of two elastic flows that are not at their peak rates, the rates are as the weights.
    pub(crate) weight: f64,
    /// The most a flow takes, in bytes per second; may be infinite.
    pub(crate) peak: f64,
    /// Whether its flows take their peak rate first.
    pub(crate) streaming: bool,
}

/// A group at work.
struct Running {
    group: Group,
    /// Its flows, by the reading of the virtual clock at which they are done.
    flows: BinaryHeap<Job>,
    /// The virtual clock, in bytes; at zero whenever the group is empty, which keeps it exact.
    clock: f64,
    /// How fast a flow of it goes, in bytes per second.
    rate: f64,
    /// The part of that which the link carries.
    through: f64,
    carried: f64,
}

/// A link that all flows share.
pub(crate) struct Sharing {
    /// Bytes per second.
    capacity: f64,
    groups: Vec<Running>,
    /// The elastic groups, those first that reach their peak rates first.
    elastic: Vec<usize>,
    streaming: Vec<usize>,
    now: f64,
    next: f64,
    /// The group whose flow leaves next.
    first: usize,
}

impl Sharing {
    pub(crate) fn new(capacity: f64, groups: &[Group]) -> Self {
        let (streaming, mut elastic): (Vec<usize>, Vec<usize>) =
            (0..groups.len()).partition(|&group| groups[group].streaming);
        let reach = |&group: &usize| groups[group].peak / groups[group].weight;
        elastic.sort_by(|a, b| reach(a).total_cmp(&reach(b)));
        let idle = |&group| Running {
            group,
            flows: BinaryHeap::new(),
            clock: 0.0,
            rate: 0.0,
            through: 0.0,
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

    /// Sets all rates, and finds who leaves next.
    fn settle(&mut self) {
        let room = self.settle_streaming();
        self.settle_elastic(room);
        self.next = f64::INFINITY;
        for (number, running) in self.groups.iter().enumerate() {
            if let Some(job) = running.flows.peek() {
                let at = self.now + ((job.bytes - running.clock) / running.rate).max(0.0);
                if at < self.next {
                    (self.next, self.first) = (at, number);
                }
            }
        }
    }

    /// Streaming flows have their peak rate; returns what they leave of the capacity.
    fn settle_streaming(&mut self) -> f64 {
        let asked = |&number: &usize| self.groups[number].asked();
        let asked: f64 = self.streaming.iter().map(asked).sum();
        let carried = if asked > self.capacity { self.capacity / asked } else { 1.0 };
        for &number in &self.streaming {
            let running = &mut self.groups[number];
            running.rate = running.group.peak;
            running.through = running.rate * carried;
        }
        (self.capacity - asked).max(0.0)
    }

    /// Max-min shares by weight, of what there is room for.
    fn settle_elastic(&mut self, mut room: f64) {
        let mut weights: f64 = self.elastic.iter().map(|&number| self.groups[number].weights()).sum();
        for &number in &self.elastic {
            let running = &mut self.groups[number];
            let Group { weight, peak, .. } = running.group;
            if running.flows.is_empty() {
                continue;
            }
            running.rate = peak.min(weight / weights * room).max(0.0);
            running.through = running.rate;
            // Once a group is below its peak, so are all that follow, and these lines leave their shares as
            // they are.
            if running.rate == peak {
                room = (room - running.asked()).max(0.0);
                weights -= running.weights();
            }
        }
    }
}

impl Running {
    /// What its flows would take if they could.
    fn asked(&self) -> f64 {
        // None of an infinite peak rate is none.
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
        for running in &mut self.groups {
            if !running.flows.is_empty() {
                running.clock += time * running.rate;
                running.carried += time * running.through * running.flows.len() as f64;
            }
        }
        self.now = now;
    }

    fn join(&mut self, job: Job) {
        let running = &mut self.groups[job.class as usize];
        running.flows.push(Job { bytes: running.clock + job.bytes, ..job });
        self.settle();
    }

    fn leave(&mut self) -> u32 {
        self.advance(self.next);
        let running = &mut self.groups[self.first];
        let job = running.flows.pop().expect("a flow leaves only if there is one");
        running.clock = if running.flows.is_empty() { 0.0 } else { job.bytes };
        self.settle();
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
        // 50 B alone; then both at 5 B/s until the second is done; then 5 B more alone.
        let left = departures(&mut Sharing::new(10.0, &[ELASTIC]), &[(0.0, 100.0, 0), (5.0, 45.0, 0)]);
        assert_close(&left, &[14.5, 14.0]);
    }

    #[test]
    fn rates_are_as_the_weights() {
        let heavy = Group { weight: 3.0, ..ELASTIC };
        let mut link = Sharing::new(8.0, &[ELASTIC, heavy]);
        let left = departures(&mut link, &[(0.0, 40.0, 0), (0.0, 60.0, 1)]);
        assert_close(&left, &[12.5, 10.0]);
    }

    #[test]
    fn what_a_flow_at_its_peak_leaves_is_shared_by_the_others() {
        let slow = Group { peak: 1.0, ..ELASTIC };
        let mut link = Sharing::new(10.0, &[ELASTIC, slow]);
        let left = departures(&mut link, &[(0.0, 45.0, 0), (0.0, 20.0, 1), (0.0, 45.0, 0)]);
        assert_close(&left, &[10.0, 20.0, 10.0]);
        assert!((link.carried(0) - 90.0).abs() < 1e-9 && (link.carried(1) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn streaming_flows_go_first_and_lose_what_does_not_fit() {
        let video = Group { peak: 6.0, streaming: true, ..ELASTIC };
        let mut link = Sharing::new(10.0, &[ELASTIC, video]);
        // Until 10 s one streams and leaves 4 B/s, from 10 s to 20 s two stream and leave nothing.
        let flows = [(0.0, 60.0, 0), (0.0, 120.0, 1), (10.0, 60.0, 1)];
        let left = departures(&mut link, &flows);
        assert_close(&left, &[22.0, 20.0, 20.0]);
        assert!((link.carried(1) - (60.0 + 100.0)).abs() < 1e-9);
    }
}
