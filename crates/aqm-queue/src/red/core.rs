//! RED without its buffer: the average queue, the drop function and the spacing of drops put together. RED and
//! those built on it have one core, RIO one for each class.

use aqm_net::{Backlog, Instant, Length, Packet, Rng, choices};

use crate::red::average::Average;
use crate::red::curve::Curve;
use crate::red::spacing::DropSpacing;
use crate::{Context, Fifo, Reason};

choices! {
    /// When a router marks instead of dropping.
    pub enum EcnRule {
        /// Never.
        Off = "off",
        /// While the average is below `max_th`; above, it drops (ns-2 before 2002).
        BelowMaxTh = "below-max-th",
        /// Also on the gentle line, up to twice `max_th`; where drops are forced, it drops.
        UnlessForced = "unless-forced",
        /// At any average: only a full queue drops.
        Always = "always",
    }
}

/// An average queue, and what decides by it.
#[derive(Clone)]
pub(crate) struct RedCore {
    /// The average queue.
    pub average: Average,
    /// Which packets are dropped, given the drop function.
    pub spacing: DropSpacing,
    /// What is done with an ECN-capable packet that is to be dropped.
    pub ecn: EcnRule,
    /// The largest `p_b` at which a packet is marked.
    pub mark_p: f64,
    /// The unit of the average.
    pub unit: Length,
    /// A queue of fewer packets drops nothing early.
    pub min_packets: u64,
}

/// What an arriving packet meets.
#[derive(Clone, Copy)]
pub(crate) struct ArrivalState {
    /// The drop function.
    pub curve: Curve,
    /// The average below which the count starts afresh: the smallest `min` that any packet may meet.
    pub lowest: f64,
    /// Packets in the queue that the average measures.
    pub packets: u64,
}

impl RedCore {
    /// Takes the `queue` that an arrival at `now` finds into the average.
    pub fn observe(&mut self, queue: Backlog, now: Instant) {
        self.average.update(queue.in_unit_of(self.unit), now);
    }

    /// The last `p_b`.
    pub fn probability(&self) -> f64 {
        self.spacing.probability
    }

    /// Decides on a `packet`, and carries it out; `true` if it has joined `fifo`.
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
            self.spacing.leave();
            return None;
        }
        if average < curve.min {
            return None;
        }
        if average >= curve.forced_at() {
            return Some(Reason::Forced);
        }
        self.spacing.chooses(u64::from(packet.bytes), rng).then_some(Reason::Early)
    }
}
