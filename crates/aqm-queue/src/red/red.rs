//! RED: Random Early Detection.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993. The gentle line above `max_th` is Floyd's note
//! "Recommendation on using the gentle variant of RED", 2000.
//!
//! RED averages the queue it finds at arrivals and drops, or marks, with a probability that rises
//! with the average. A count of packets since the last drop spaces the drops evenly.
//!
//! Defaults: `gentle` is on, ns-2's default since 2001 and what later papers mean by RED; drops are spaced
//! `no-wait`, as that paper and talks print it. ns-2's own default, `wait`, drops a third as often at the same
//! average, so a comparison must say which it uses. Linux's RED is another queue (`linux_red.rs`).
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, parameters};
use serde_json::{Value, json};

use crate::red::average::Average;
use crate::red::core::{ArrivalState, EcnRule, RedCore};
use crate::red::curve::Curve;
use crate::red::spacing::{DropSpacing, PacketScaling, Spacing};
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// RED: drops (or marks) at random before the queue is full, with a probability that rises with
    /// the average queue.
    ///
    /// Where the paper is silent, after ns-2:
    ///
    /// - The queue is measured before the packet joins; the packet on the line is not in the queue.
    /// - A queue of at most one packet never drops early; where thresholds are in bytes, only an empty one: ns-2 asks
    ///   for a length above 1, whatever its unit.
    /// - Every drop or mark starts the count anew, that of a full queue, too.
    /// - A full queue refuses a packet whatever was decided, and the packet leaves unmarked.
    pub struct Config {
        /// Average queue below which nothing is dropped early (`min_th`). Its unit, packets or
        /// bytes, is the unit of the average.
        pub min_th: Length = Length::Packets(30), "SHRED talk, slide 17";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`); in the unit of
        /// `min_th`.
        pub max_th: Length = Length::Packets(90), "SHRED talk, slide 17";
        /// Drop probability `p_b` as the average reaches `max_th` (`max_p`): above 0, at most 1.
        pub max_p: f64 = 0.1, "SHRED talk, slide 17";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1.
        pub weight: f64 = 0.0008, "SHRED talk, slide 17";
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(225), "SHRED talk, slide 17";
        /// Typical size of a packet: tells how fast the average falls while the line is idle, and is the
        /// size that `packet_scaling` compares with.
        pub mean_packet: Size = Size::from_bytes(974), "SHRED talk, slide 17";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false).
        pub gentle: bool = true, "Floyd 2000; ns-2 since 2001";
        /// How drops are spaced: what turns `p_b` into the probability `p_a` of dropping this packet,
        /// given the `count` of packets since the last drop.
        pub spacing: Spacing = Spacing::NoWait, "Floyd & Jacobson 1993, section 4";
        /// Whether the first packet after the average has crossed `min_th` always passes. The paper
        /// draws for this packet too (false).
        pub spare_first: bool = true, "ns-2";
        /// Whether big packets are dropped more often than small ones.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode";
        /// What happens to an ECN-capable packet that is to be dropped early. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ours: the studies before 2001 drop";
        /// Mark only while `p_b` is at most this, and drop above it (ns-2's `mark_p_`, there 0.1
        /// since 2002). Left out: no such bound.
        pub mark_p: Option<f64> = None, "ours: ECN as in RFC 3168 knows no such bound";
    }
}

impl Config {
    /// All checks on the parameters.
    ///
    /// # Errors
    /// Every parameter with which RED would not do what its name says.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { min_th, max_th, limit, max_p, weight, .. } = *self;
        let same_unit = max_th.in_bytes() == min_th.in_bytes();
        errors.check(same_unit, "max_th", format_args!("must be in the unit of min_th, {min_th}"));
        let in_order = !same_unit || max_th.count() > min_th.count();
        errors.check(in_order, "max_th", format_args!("must exceed min_th, {min_th}"));
        let is_met = limit.in_bytes() != min_th.in_bytes() || limit.count() > min_th.count();
        let remedy = "or the queue is full before RED acts; for a plain queue use `drop-tail`";
        if limit.count() == 0 {
            errors.check(false, "limit", "must be at least 1p or 1B");
        } else {
            errors.check(is_met, "limit", format_args!("must exceed min_th, {min_th}, {remedy}"));
        }
        for (place, share) in [("max_p", max_p), ("weight", weight)] {
            let problem = format_args!("must be above 0 and at most 1, not {share}");
            errors.check(share > 0.0 && share <= 1.0, place, problem);
        }
        errors.check(self.mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
        let marks = self.ecn != EcnRule::Off;
        errors.check_effect(marks, self, &["mark_p"], "with ecn = \"off\"");
        if let Some(p) = self.mark_p {
            let is_share = !marks || (0.0..=1.0).contains(&p);
            errors.check(is_share, "mark_p", format_args!("must be from 0 to 1, not {p}"));
        }
        errors.finish(())
    }

    /// The drop function.
    pub(crate) fn curve(&self) -> Curve {
        let Self { max_p, gentle, .. } = *self;
        let (min, max) = (self.min_th.count() as f64, self.max_th.count() as f64);
        Curve { min, max, max_p, gentle, gentle_from: max_p }
    }

    /// RED without its buffer; the parameters have been checked.
    pub(crate) fn core(&self, rate: Rate) -> RedCore {
        RedCore {
            average: Average::new(self.weight, self.mean_packet, rate),
            spacing: DropSpacing::new(self.spacing, self.packet_scaling, self.spare_first, self.mean_packet),
            ecn: self.ecn,
            mark_p: self.mark_p.unwrap_or(1.0),
            unit: self.min_th,
            min_packets: if self.min_th.in_bytes() { 1 } else { 2 },
        }
    }

    /// The running RED, for those who build on it; all checks made.
    pub(crate) fn running(&self, rate: Rate) -> Result<Red, ConfigErrors> {
        self.check()?;
        Ok(Red { core: self.core(rate), curve: self.curve(), fifo: Fifo::new(self.limit) })
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.running(rate)?))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        self.check().ok()?;
        Some(self.curve().probability(average))
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        corners()
    }
}

/// A RED of a few packets that forgets quickly: it meets every state soon.
pub(crate) fn small() -> Value {
    json!({"min_th": "3p", "max_th": "9p", "max_p": 0.5, "weight": 0.3, "limit": "24p", "ecn": "unless-forced"})
}

/// A small RED with each spacing, scaling and ECN rule; for those who build on it, too.
pub(crate) fn corners() -> Vec<Value> {
    let variants = [
        json!({}),
        json!({"gentle": false, "spacing": "wait", "ecn": "below-max-th"}),
        json!({"gentle": false, "spacing": "none", "ecn": "always", "limit": "5001B"}),
        json!({"ecn": "always", "mark_p": 0.3, "spare_first": false, "packet_scaling": "before-count"}),
        json!({"min_th": "2kB", "max_th": "6kB", "limit": "9999B", "packet_scaling": "after-count"}),
    ];
    let over_small = |variant: Value| {
        let mut red = small();
        for (name, value) in variant.as_object().into_iter().flatten() {
            red[name] = value.clone();
        }
        red
    };
    variants.map(over_small).into()
}

/// The running discipline.
#[derive(Clone)]
pub struct Red {
    core: RedCore,
    curve: Curve,
    fifo: Fifo,
}

impl QueueDiscipline for Red {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.observe(cx.now);
        self.admit(packet, self.curve, self.curve.min, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.fifo.pop();
        if packet.is_none() {
            self.core.average.idle_from(cx.now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Red {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::length("average", self.core.average.value, self.core.unit));
        show(Gauge::number("probability", self.core.probability()));
    }
}

impl Red {
    /// Takes the queue that an arrival at `now` finds into the average.
    #[inline]
    pub(crate) fn observe(&mut self, now: Instant) {
        self.core.observe(self.fifo.backlog(), now);
    }

    /// The average queue.
    pub(crate) fn average(&self) -> &Average {
        &self.core.average
    }

    /// Decides on a `packet` that meets `curve`, and carries it out. Below `lowest`, the smallest
    /// `min` that any packet may meet, the count starts afresh.
    #[inline]
    pub(crate) fn admit(&mut self, packet: Packet, curve: Curve, lowest: f64, cx: &mut Context<'_>) {
        let state = ArrivalState { curve, lowest, packets: self.fifo.backlog().packets };
        if self.core.admit(packet, state, &mut self.fifo, cx) {
            self.core.average.busy();
        }
    }
}
