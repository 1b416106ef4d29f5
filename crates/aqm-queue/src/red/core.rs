//! RED without its buffer: the average queue, the drop function and the spacing of drops. RED and most queues that are
//! based on RED have one core; RIO has one core per class.

use aqm_net::{Backlog, Instant, Length, Packet, Rng, choices};

use crate::red::average::Average;
use crate::red::curve::Curve;
use crate::red::spacing::DropSpacing;
use crate::{Context, Fifo, Reason};

choices! {
    /// Condition for marking an ECN-capable packet instead of dropping it.
    pub enum EcnRule {
        /// Packets are never marked.
        Off = "off",
        /// Packets are marked while the average is below `max_th`, and dropped otherwise (ns-2 before 2002).
        BelowMaxTh = "below-max-th",
        /// As `below-max-th`, but if `gentle` is on, packets are also marked between `max_th` and twice `max_th`. If
        /// the average is so high that every packet is dropped, packets are not marked.
        UnlessForced = "unless-forced",
        /// Packets are marked whatever the average. They are dropped only if the queue is full.
        Always = "always",
    }
}

/// An average queue and the rules that depend on it.
#[derive(Clone)]
pub(crate) struct RedCore {
    /// The average queue length.
    pub average: Average,
    /// The method that selects packets to drop at a given drop probability.
    pub spacing: DropSpacing,
    /// Condition for marking an ECN-capable packet that was selected for a drop.
    pub ecn: EcnRule,
    /// Maximum of `p_b` at which a packet is marked.
    pub mark_p: f64,
    /// The unit of the average queue length.
    pub unit: Length,
    /// Minimum number of packets in the queue for an early drop.
    pub min_packets: u64,
}

/// The state of the queue when a packet arrives.
#[derive(Clone, Copy)]
pub(crate) struct ArrivalState {
    /// The drop function.
    pub curve: Curve,
    /// The average below which the count of packets since the last drop restarts. It is the lowest `min` that applies
    /// to any packet.
    pub lowest: f64,
    /// Number of packets in the queue whose length is averaged.
    pub packets: u64,
}

impl RedCore {
    /// Updates the average with the queue length `queue` at an arrival at `now`.
    pub fn observe(&mut self, queue: Backlog, now: Instant) {
        self.average.update(queue.in_unit_of(self.unit), now);
    }

    /// Returns the latest `p_b`.
    pub fn probability(&self) -> f64 {
        self.spacing.probability
    }

    /// Drops, marks or enqueues `packet`. Returns `true` if the packet has joined `fifo`.
    #[inline(always)]
    pub fn admit(
        &mut self,
        mut packet: Packet,
        state: ArrivalState,
        fifo: &mut Fifo,
        cx: &mut Context<'_>,
    ) -> bool {
        let reason = self.decide(&packet, state, cx.rng);
        if reason.is_some() {
            self.spacing.restart();
        }
        if !fifo.has_room_for(&packet) {
            self.spacing.restart();
            cx.drop(packet, Reason::Overflow);
            return false;
        }
        if let Some(reason) = reason {
            let allowed = match self.ecn {
                EcnRule::Off => false,
                EcnRule::BelowMaxTh => self.average.value < state.curve.max,
                EcnRule::UnlessForced => reason == Reason::Early,
                EcnRule::Always => true,
            };
            if allowed && packet.ecn.can_be_marked() && self.spacing.probability <= self.mark_p {
                cx.mark(&mut packet, reason);
            } else {
                cx.drop(packet, reason);
                return false;
            }
        }
        fifo.push(packet);
        true
    }

    #[inline(always)]
    fn decide(&mut self, packet: &Packet, state: ArrivalState, rng: &mut Rng) -> Option<Reason> {
        let ArrivalState { curve, lowest, packets } = state;
        let average = self.average.value;
        self.spacing.probability = curve.probability(average);
        if average < lowest || packets < self.min_packets {
            self.spacing.leave_range();
            return None;
        }
        if average < curve.min {
            return None;
        }
        if average >= curve.forced_at() {
            return Some(Reason::Forced);
        }
        self.spacing.selects(u64::from(packet.bytes), rng).then_some(Reason::Early)
    }
}
