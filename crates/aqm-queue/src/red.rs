//! RED: Random Early Detection.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993. The gentle line above `max_th` is Floyd's note
//! "Recommendation on using the gentle variant of RED", 2000.
//!
//! RED averages the queue it finds at arrivals and drops, or marks, with a probability that rises
//! with the average. A count of packets since the last drop spaces the drops evenly.
//!
//! Ours, where the paper is silent, and after ns-2 (more in `average.rs` and `spacing.rs`):
//! - The queue is measured before the packet joins; the packet on the line is not in the queue.
//! - A queue of at most one packet never drops early; one packet also where thresholds are in bytes.
//! - Every drop or mark starts the count anew, a full queue's too.
//! - A full queue refuses a packet whatever the law decided, and the packet leaves unmarked.
//!
//! Defaults: `gentle` is on, ns-2's default since 2001 and what later papers mean by RED; the count
//! law is `no-wait`, the one that paper and talks print. ns-2's own default, `wait`, drops a third as
//! often at the same average, so a comparison must say which it uses.

use aqm_net::{Backlog, ConfigError, Instant, Length, Packet, Rate, Rng, Size, choices, parameters};

use crate::average::Average;
use crate::spacing::{CountLaw, PacketScaling, Spacing};
use crate::{Build, Context, Fifo, QueueDiscipline, Reason};

parameters! {
    /// RED: drops (or marks) at random before the queue is full, with a probability that rises with
    /// the average queue.
    pub struct Config {
        /// Average queue below which nothing is dropped early (`min_th`). Its unit, packets or
        /// bytes, is the unit of the average.
        pub min_th: Length = Length::Packets(30), "SHRED talk, slide 17";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`); in the unit of
        /// `min_th`.
        pub max_th: Length = Length::Packets(90), "SHRED talk, slide 17";
        /// Drop probability `p_b` as the average reaches `max_th` (`max_p`).
        pub max_p: f64 = 0.1, "SHRED talk, slide 17";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1.
        pub weight: f64 = 0.0008, "SHRED talk, slide 17";
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(225), "SHRED talk, slide 17";
        /// Typical size of a packet: tells how fast the average falls while the line is idle, and is
        /// the size that `packet_scaling` compares with.
        pub mean_packet: Size = Size::from_bytes(974), "SHRED talk, slide 17";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false).
        pub gentle: bool = true, "Floyd 2000; ns-2 since 2001";
        /// How drops are spaced: the law that turns `p_b` into the probability `p_a` of dropping this
        /// packet, given the `count` of packets since the last drop.
        pub spacing: Spacing = Spacing::NoWait, "Floyd & Jacobson 1993, section 4";
        /// Whether the first packet after the average has crossed `min_th` always passes. The paper
        /// draws for this packet too (false).
        pub spare_first: bool = true, "ns-2";
        /// Whether big packets are dropped more often than small ones.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode";
        /// What happens to an ECN-capable packet that the law chose. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ours: the studies before 2001 drop";
        /// Mark only while `p_b` is at most this, and drop above it (ns-2's `mark_p_`, there 0.1
        /// since 2002). Left out: no such bound.
        pub mark_p: Option<f64> = None, "ours: ECN as in RFC 3168 knows no such bound";
    }
}

choices! {
    /// When a router marks instead of dropping.
    pub enum EcnRule {
        /// Never.
        Off = "off",
        /// While the average is below `max_th`; above, it drops (ns-2 before 2002).
        BelowMaxTh = "below-max-th",
        /// Also on the gentle line, up to twice `max_th`; where drops are forced, it drops.
        UnlessForced = "unless-forced",
        /// At any average, as Linux: only a full queue drops.
        Always = "always",
    }
}

impl Config {
    /// All checks on the parameters.
    ///
    /// # Errors
    /// The first parameter with which RED would not do what its name says.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |place: &str, problem: String| Err(ConfigError::new(place, problem));
        let Self { min_th, max_th, limit, .. } = *self;
        if max_th.in_bytes() != min_th.in_bytes() {
            return wrong("max_th", format!("must be in the unit of min_th, {min_th}"));
        }
        if max_th.count() <= min_th.count() {
            return wrong("max_th", format!("must exceed min_th, {min_th}"));
        }
        if !(self.max_p > 0.0 && self.max_p <= 1.0) {
            return wrong("max_p", format!("must be above 0 and at most 1, not {}", self.max_p));
        }
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return wrong("weight", format!("must be above 0 and at most 1, not {}", self.weight));
        }
        if limit.count() == 0 {
            return wrong("limit", "must be at least 1p or 1B".to_owned());
        }
        if limit.in_bytes() == min_th.in_bytes() && limit.count() <= min_th.count() {
            let remedy = "or the queue is full before RED acts; for a plain queue use `drop-tail`";
            return wrong("limit", format!("must exceed min_th, {min_th}, {remedy}"));
        }
        if self.mean_packet.bytes() == 0 {
            return wrong("mean_packet", "must be at least 1B".to_owned());
        }
        match self.mark_p {
            Some(_) if self.ecn == EcnRule::Off => {
                wrong("mark_p", "has no effect with ecn = \"off\": leave it out".to_owned())
            }
            Some(p) if !(0.0..=1.0).contains(&p) => wrong("mark_p", format!("must be from 0 to 1, not {p}")),
            _ => Ok(()),
        }
    }

    /// The drop function.
    pub(crate) fn curve(&self) -> Curve {
        let Self { max_p, gentle, .. } = *self;
        let (min, max) = (self.min_th.count() as f64, self.max_th.count() as f64);
        Curve { min, max, max_p, gentle, gentle_from: max_p }
    }

    /// The running RED, for those who build on it.
    pub(crate) fn running(&self, rate: Rate) -> Result<Red, ConfigError> {
        self.check()?;
        Ok(Red { judge: self.judge(rate), curve: self.curve(), fifo: Fifo::new(self.limit) })
    }

    /// RED without its buffer; the parameters have been checked.
    pub(crate) fn judge(&self, rate: Rate) -> Judge {
        Judge {
            average: Average::new(self.weight, self.mean_packet, rate),
            law: CountLaw::new(self.spacing, self.packet_scaling, self.spare_first, self.mean_packet),
            ecn: self.ecn,
            mark_p: self.mark_p.unwrap_or(1.0),
            unit: self.min_th,
            spares: 2,
        }
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigError> {
        Ok(Box::new(self.running(rate)?))
    }

    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        self.check().ok()?;
        Some(self.curve().probability(average))
    }
}

/// The running discipline.
pub struct Red {
    judge: Judge,
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
            self.judge.average.idle_from(cx.now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn gauges(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("average", self.judge.average.value);
        show("probability", self.judge.probability());
    }
}

impl Red {
    /// Takes the queue that an arrival at `now` finds into the average.
    pub(crate) fn observe(&mut self, now: Instant) {
        self.judge.observe(self.fifo.backlog(), now);
    }

    /// The average queue.
    pub(crate) fn average(&self) -> &Average {
        &self.judge.average
    }

    /// Decides on a `packet` that meets `curve`, and carries it out. Below `lowest`, the smallest
    /// `min` that any packet may meet, the law starts afresh.
    pub(crate) fn admit(&mut self, packet: Packet, curve: Curve, lowest: f64, cx: &mut Context<'_>) {
        let meets = Meets { curve, lowest, packets: self.fifo.backlog().packets };
        if self.judge.admit(packet, meets, &mut self.fifo, cx) {
            self.judge.average.busy();
        }
    }
}

/// RED without its buffer: an average and the law that acts on it. RED has one, RIO one for each class.
pub(crate) struct Judge {
    /// The average queue.
    pub average: Average,
    law: CountLaw,
    ecn: EcnRule,
    mark_p: f64,
    unit: Length,
    /// A queue of fewer packets drops nothing early.
    pub spares: u64,
}

/// What a packet meets.
#[derive(Clone, Copy)]
pub(crate) struct Meets {
    /// The drop function.
    pub curve: Curve,
    /// Average below which the law starts afresh: the smallest `min` that any packet may meet.
    pub lowest: f64,
    /// Packets in the queue that the average measures.
    pub packets: u64,
}

impl Judge {
    /// Takes the `queue` that an arrival at `now` finds into the average.
    pub fn observe(&mut self, queue: Backlog, now: Instant) {
        self.average.update(queue.in_unit_of(self.unit), now);
    }

    /// The last `p_b`.
    pub fn probability(&self) -> f64 {
        self.law.probability
    }

    /// Decides on a `packet`, and carries it out: whether it has joined `fifo`.
    pub fn admit(&mut self, mut packet: Packet, meets: Meets, fifo: &mut Fifo, cx: &mut Context<'_>) -> bool {
        let reason = self.decide(&packet, meets, cx.rng);
        if reason.is_some() {
            self.law.restart();
        }
        if !fifo.has_room_for(&packet) {
            self.law.restart();
            cx.drop(packet, Reason::Overflow);
            return false;
        }
        if let Some(reason) = reason {
            let allowed = match self.ecn {
                EcnRule::Off => false,
                EcnRule::BelowMaxTh => self.average.value < meets.curve.max,
                EcnRule::UnlessForced => reason == Reason::Early,
                EcnRule::Always => true,
            };
            if allowed && packet.ecn.can_be_marked() && self.law.probability <= self.mark_p {
                cx.mark(&mut packet, reason);
            } else {
                cx.drop(packet, reason);
                return false;
            }
        }
        fifo.push(packet);
        true
    }

    fn decide(&mut self, packet: &Packet, meets: Meets, rng: &mut Rng) -> Option<Reason> {
        let Meets { curve, lowest, packets } = meets;
        let average = self.average.value;
        self.law.probability = curve.probability(average);
        if average < lowest || packets < self.spares {
            self.law.leave();
            return None;
        }
        if average < curve.min {
            return None;
        }
        if average >= curve.forced_at() {
            return Some(Reason::Forced);
        }
        self.law.chooses(u64::from(packet.bytes), rng).then_some(Reason::Early)
    }
}

/// RED's drop function: zero below `min`, a line to `max_p` at `max`, and above it either 1 or the
/// gentle line to 1 at twice `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Curve {
    pub min: f64,
    pub max: f64,
    pub max_p: f64,
    pub gentle: bool,
    /// Where the gentle line begins at `max`: at `max_p`, unless that has moved since.
    pub gentle_from: f64,
}

impl Curve {
    /// `p_b` at this average.
    pub fn probability(&self, average: f64) -> f64 {
        let &Self { min, max, max_p, .. } = self;
        if average >= self.forced_at() {
            1.0
        } else if average >= max {
            let begin = self.gentle_from;
            (begin + (1.0 - begin) * (average - max) / max).clamp(0.0, 1.0)
        } else if average >= min {
            (max_p * (average - min) / (max - min)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The average from which every packet is dropped.
    pub fn forced_at(&self) -> f64 {
        if self.gentle { 2.0 * self.max } else { self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gentle_line_continues_the_curve_and_ends_at_one() {
        let curve = Config::default().curve();
        let step = 1e-9;
        assert!((curve.probability(90.0) - 0.1).abs() < 1e-12);
        assert!((curve.probability(90.0 - step) - 0.1).abs() < 1e-9);
        assert!((curve.probability(180.0 - step) - 1.0).abs() < 1e-9);
        assert_eq!(curve.probability(180.0), 1.0);
        let steep = Curve { gentle: false, ..curve };
        assert_eq!(steep.probability(90.0), 1.0);
    }
}
