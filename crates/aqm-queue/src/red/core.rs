//! RED without its buffer: the average queue, the drop function and the spacing of drops. RED and most queues that are
//! based on RED have one core; RIO has one core per class.

use aqm_net::{Backlog, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, choices, parameters};

use crate::red::average::Average;
use crate::red::curve::Curve;
use crate::red::spacing::{DropSpacing, PacketScaling, Selection, Spacing};
use crate::{Context, Evidence, Fifo, Reason};

choices! {
    /// Condition for marking an ECN-capable packet instead of dropping it.
    pub enum EcnRule {
        /// Packets are never marked.
        Off = "off",
        /// Packets are marked while the average is below `max_th`, and dropped otherwise (ns-2 before 2002).
        BelowMaxTh = "below-max-th",
        /// Like `below-max-th`, but if `gentle` is on, packets are also marked between `max_th` and twice `max_th`. If
        /// the average is so high that every packet is dropped, packets are not marked.
        UnlessForced = "unless-forced",
        /// Packets are marked regardless of the average, and are dropped only if the queue is full.
        Always = "always",
    }
}

parameters! {
    /// Rules for RED's drops and marks.
    pub struct Rules {
        /// Typical packet size, which is used to convert the link rate to packets. The link rate in packets determines
        /// how fast the average decays while the link is idle. `mean_packet` is also the reference size for
        /// `packet_scaling`.
        pub mean_packet: Size = Size::from_bytes(974), "SHRED talk, slide 17: 974 bytes; ns-2: 500 bytes";
        /// Whether the drop probability rises from `max_p` at `max_th` to 1 at twice `max_th`. If false, every packet
        /// is dropped above `max_th`.
        pub gentle: bool = true, "Floyd 2000; Floyd, Gummadi & Shenker 2001; ns-2 since 2001; ns-2's RIO: off";
        /// Spacing of drops: the formula that computes the probability `p_a` of dropping a packet from `p_b`, given the
        /// `count` of packets since the last drop.
        pub spacing: Spacing = Spacing::NoWait, "Floyd & Jacobson 1993, section 4; ns-2's RIO: wait";
        /// Whether the first packet that arrives after the average has risen above `min_th` is always admitted. In the
        /// paper, a random number is drawn for this packet, too (false).
        pub spare_first: bool = true, "ns-2";
        /// Dependence of the drop probability on the packet size.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode";
        /// Treatment of an ECN-capable packet that is selected for an early drop. A selected packet that is not
        /// ECN-capable is always dropped.
        pub ecn: EcnRule = EcnRule::Off, "aqmlab's choice, as in ns-2's RIO: queues in studies before 2001 drop packets";
        /// Maximum value of `p_b` at which packets are marked. If `p_b` is higher, selected packets are dropped
        /// (`mark_p_` in ns-2, 0.1 since 2002). Default: no maximum.
        pub mark_p: Option<f64> = None, "aqmlab's choice, as in ns-2's RIO: ECN in RFC 3168 has no maximum";
    }
}

impl Rules {
    /// Reports every invalid rule.
    pub(super) fn check(&self, errors: &mut ErrorCollector) {
        errors.check(self.mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
        let marks = self.ecn != EcnRule::Off;
        errors.check_effect(marks, self, &["mark_p"], "with ecn = \"off\"");
        if let Some(p) = self.mark_p {
            let is_share = !marks || (0.0..=1.0).contains(&p);
            errors.check(is_share, "mark_p", format_args!("must be from 0 to 1 (got {p})"));
        }
    }
}

/// An average queue and the rules that depend on it.
#[derive(Clone)]
pub(crate) struct RedCore {
    /// The average queue length.
    pub average: Average,
    /// The method that selects packets to drop at a given drop probability.
    pub spacing: DropSpacing,
    /// Condition for marking an ECN-capable packet that is selected to be dropped.
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
    /// The average below which the count of packets since the last drop restarts. This value is the lowest `min` that
    /// applies to any packet.
    pub lowest: f64,
    /// Number of packets in the queue whose length is averaged.
    pub packets: u64,
}

impl RedCore {
    /// Creates RED's state before the first packet. `weight` is the weight of the average, and `unit` has the unit of
    /// the average. The rules must have been checked.
    pub fn new(rules: &Rules, weight: f64, unit: Length, rate: Rate) -> Self {
        Self {
            average: Average::new(weight, rules.mean_packet, rate),
            spacing: DropSpacing::new(
                rules.spacing,
                rules.packet_scaling,
                rules.spare_first,
                rules.mean_packet,
            ),
            ecn: rules.ecn,
            mark_p: rules.mark_p.unwrap_or(1.0),
            unit,
            min_packets: if unit.in_bytes() { 1 } else { 2 },
        }
    }

    /// Updates the average with the backlog `queue` that an arrival at `now` finds.
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
            cx.drop_on(packet, Reason::Overflow, self.evidence(Reason::Overflow));
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
                cx.drop_on(packet, reason, self.evidence(reason));
                return false;
            }
        }
        fifo.push(packet);
        true
    }

    /// Returns the numbers that led to the drop of the arriving packet.
    #[cold]
    fn evidence(&self, reason: Reason) -> Evidence {
        let average = Some(self.average.value);
        if reason != Reason::Early {
            return Evidence { average, ..Evidence::default() };
        }
        let Selection { probability, count, draw } = self.spacing.selection();
        Evidence { average, count: Some(count), ..Evidence::drawn(probability, draw) }
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
