//! RED: Random Early Detection.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking
//! 1(4), 1993. The gentle part of the drop function above `max_th` is from Floyd's note "Recommendation on using the
//! gentle variant of RED", 2000.
//!
//! RED averages the queue length at arrivals, and drops or marks packets with a probability that rises with the
//! average. A count of the packets since the last drop spaces the drops evenly.
//!
//! By default, `gentle` is on, as in ns-2 since 2001 and in later papers about RED. The default spacing of drops is
//! `no-wait`, as printed in the 1993 paper and in talks. The default of ns-2 is `wait`, with which only a third as many
//! packets are dropped at the same average. A comparison of RED queues must therefore state the spacing. Linux's RED is
//! a separate queue discipline (`linux_red.rs`).
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources and
//! aqmlab's choices where the sources are silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, parameters};
use serde_json::{Value, json};

use crate::red::average::Average;
use crate::red::core::{ArrivalState, RedCore, Rules};
use crate::red::curve::Curve;
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// RED: drops (or marks) packets at random before the queue is full, with a probability that rises with the average
    /// queue.
    ///
    /// Where the paper is silent, aqmlab follows ns-2:
    ///
    /// - The queue length is measured before the arriving packet joins the queue. The packet in transmission is not
    ///   part of the queue.
    /// - A queue of at most one packet never drops early. With thresholds in bytes, only an empty queue never drops
    ///   early, because ns-2 requires a length above 1 in either unit.
    /// - Every drop or mark restarts the count, including a drop because of a full queue.
    /// - A full queue drops an arriving packet even if RED decided to mark it, and the packet is not marked.
    pub struct Config {
        /// Average queue below which no packet is dropped early (`min_th`). The unit of `min_th`, packets or bytes, is
        /// the unit of the average.
        pub min_th: Length = Length::Packets(30), "SHRED talk, slide 17";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`), in the unit of `min_th`.
        pub max_th: Length = Length::Packets(90), "SHRED talk, slide 17";
        /// Drop probability `p_b` just below `max_th` (`max_p`): above 0, at most 1.
        pub max_p: f64 = 0.1, "SHRED talk, slide 17";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1.
        pub weight: f64 = 0.0008, "SHRED talk, slide 17";
        /// Maximum backlog in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(225), "SHRED talk, slide 17";
        /// Rules for drops and marks.
        #[serde(flatten)]
        pub rules: Rules = Rules::default();
    }
}

impl Config {
    /// Checks all parameters.
    ///
    /// # Errors
    /// Returns an error for every parameter that is out of range, contradicts another parameter or has no effect.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { min_th, max_th, limit, max_p, weight, .. } = *self;
        let same_unit = max_th.in_bytes() == min_th.in_bytes();
        errors.check(same_unit, "max_th", format_args!("must have the same unit as min_th ({min_th})"));
        let in_order = !same_unit || max_th.count() > min_th.count();
        errors.check(in_order, "max_th", format_args!("must exceed min_th ({min_th})"));
        let is_effective = limit.in_bytes() != min_th.in_bytes() || limit.count() > min_th.count();
        let remedy =
            "otherwise the queue is full before RED drops early; for a queue without RED, use `drop-tail`";
        if limit.count() == 0 {
            errors.check(false, "limit", format_args!("must be at least 1p or 1B (got {limit})"));
        } else {
            errors.check(is_effective, "limit", format_args!("must exceed min_th ({min_th}); {remedy}"));
        }
        for (name, share) in [("max_p", max_p), ("weight", weight)] {
            let problem = format_args!("must be above 0 and at most 1 (got {share})");
            errors.check(share > 0.0 && share <= 1.0, name, problem);
        }
        self.rules.check(&mut errors);
        errors.finish(())
    }

    /// Returns the drop function.
    pub(crate) fn curve(&self) -> Curve {
        let (max_p, gentle) = (self.max_p, self.rules.gentle);
        let (min, max) = (self.min_th.count() as f64, self.max_th.count() as f64);
        Curve { min, max, max_p, gentle, gentle_from: max_p }
    }

    /// Creates the RED algorithm without a buffer. The parameters must have been checked.
    pub(crate) fn core(&self, rate: Rate) -> RedCore {
        RedCore::new(&self.rules, self.weight, self.min_th, rate)
    }

    /// Checks the parameters and builds a RED queue. The queues that are based on RED also call this function.
    pub(crate) fn discipline(&self, rate: Rate) -> Result<Red, ConfigErrors> {
        self.check()?;
        Ok(Red { core: self.core(rate), curve: self.curve(), fifo: Fifo::new(self.limit) })
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.discipline(rate)?))
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

/// Returns the parameters of a RED queue with few packets and an average that changes quickly. A queue with these
/// parameters reaches every state within a short time.
pub(crate) fn small() -> Value {
    json!({"min_th": "3p", "max_th": "9p", "max_p": 0.5, "weight": 0.3, "limit": "24p", "ecn": "unless-forced"})
}

/// Returns test cases of a small RED queue with each spacing, scaling and ECN rule. The queues that are based on RED
/// also use these cases.
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

/// A RED queue: the parameters, the average and the packets.
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
    /// Updates the average with the queue length that an arrival at `now` finds.
    #[inline]
    pub(crate) fn observe(&mut self, now: Instant) {
        self.core.observe(self.fifo.backlog(), now);
    }

    /// Returns the average queue length.
    pub(crate) fn average(&self) -> &Average {
        &self.core.average
    }

    /// Drops, marks or enqueues `packet` according to `curve`. The count of packets since the last drop restarts if the
    /// average is below `lowest`, which is the lowest `min` that applies to any packet.
    #[inline]
    pub(crate) fn admit(&mut self, packet: Packet, curve: Curve, lowest: f64, cx: &mut Context<'_>) {
        let state = ArrivalState { curve, lowest, packets: self.fifo.backlog().packets };
        if self.core.admit(packet, state, &mut self.fifo, cx) {
            self.core.average.busy();
        }
    }
}
