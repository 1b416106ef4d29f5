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
//! often at the same average, so a comparison must say which it uses. The presets of Linux are in
//! `linux_red.rs`.

use aqm_net::{Backlog, ConfigError, Instant, Length, Packet, Rate, Rng, Size, choices, parameters};

use crate::automatic::wrong;
use crate::average::Average;
use crate::curve::Curve;
use crate::linux_red::LinuxRed;
use crate::spacing::{DropSpacing, PacketScaling, Spacing};
use crate::{Build, Context, Fifo, Gauge, QueueDiscipline, Reason};

parameters! {
    /// RED: drops (or marks) at random before the queue is full, with a probability that rises with
    /// the average queue.
    pub struct Config {
        /// Whose RED this is, and whose values hold for all that is left out below.
        pub preset: Preset = Preset::Paper, "Floyd & Jacobson 1993";
        /// Average queue below which nothing is dropped early (`min_th`). Its unit, packets or
        /// bytes, is the unit of the average; in Linux bytes.
        pub min_th: Length = Length::Packets(30), "SHRED talk, slide 17";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`); in the unit of
        /// `min_th`.
        pub max_th: Length = Length::Packets(90), "SHRED talk, slide 17";
        /// Drop probability `p_b` as the average reaches `max_th` (`max_p`). Left out: 0.1; with
        /// `linux` and `linux-2.4` 0.02.
        pub max_p: Option<f64> = None, "SHRED talk, slide 17; tc-red: `probability`";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1. Left out: 0.0008;
        /// with `linux` and `linux-2.4`, where it is 1/2, 1/4, 1/8 and so on, from `burst`.
        pub weight: Option<f64> = None, "SHRED talk, slide 17; tc-red";
        /// Packets of a burst that should pass, from which Linux takes its weight. Left out:
        /// `(2 min_th + max_th) / (3 mean_packet)`. Without meaning with `paper`.
        pub burst: Option<u32> = None, "tc-red";
        /// The most that may wait, in packets or bytes, in Linux in bytes; the packet on the line is not
        /// counted.
        pub limit: Length = Length::Packets(225), "SHRED talk, slide 17";
        /// Typical size of a packet (`avpkt`): tells how fast the average falls while the line is idle, is
        /// the size that `packet_scaling` compares with, and that of the packets of `burst`. Left out: 974B;
        /// with `linux` and `linux-2.4` 1000B.
        pub mean_packet: Option<Size> = None, "SHRED talk, slide 17; tc-red";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false). Left out: true; in Linux always false.
        pub gentle: Option<bool> = None, "Floyd 2000; ns-2 since 2001; Linux";
        /// How drops are spaced: the law that turns `p_b` into the probability `p_a` of dropping this
        /// packet, given the `count` of packets since the last drop. In Linux always `no-wait`.
        pub spacing: Spacing = Spacing::NoWait, "Floyd & Jacobson 1993, section 4; Linux";
        /// Whether the first packet after the average has crossed `min_th` always passes. The paper
        /// draws for this packet too (false). In Linux always true.
        pub spare_first: bool = true, "ns-2; Linux";
        /// Whether big packets are dropped more often than small ones. In Linux always `none`.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode; Linux";
        /// What happens to an ECN-capable packet that the law chose. Others are always dropped. Linux has
        /// `off`, `always` (tc's `ecn`) and since 2.6 `below-max-th` (`ecn harddrop`).
        pub ecn: EcnRule = EcnRule::Off, "ours: the studies before 2001 drop";
        /// Mark only while `p_b` is at most this, and drop above it (ns-2's `mark_p_`, there 0.1
        /// since 2002). Left out: no such bound; Linux has none.
        pub mark_p: Option<f64> = None, "ours: ECN as in RFC 3168 knows no such bound";
    }
    completed by Config::completed;
}

choices! {
    /// Systems that have a RED.
    pub enum Preset {
        /// The paper of 1993, and ns-2's variants of it.
        Paper = "paper",
        /// Linux 6.1 and iproute2's `tc`: in bytes and integers, not gentle, and slow to forget when idle.
        Linux = "linux",
        /// Linux 2.4: as `linux`, but `max_p` is `max_th - min_th` over a power of two, and ECN is RFC 2481's.
        Linux24 = "linux-2.4",
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

/// The paper's weight; that of Linux follows from `burst`.
const WEIGHT: f64 = 0.0008;

/// RED's parameters as the paper has them, none left out.
pub(crate) struct Parameters {
    pub min_th: Length,
    pub max_th: Length,
    pub max_p: f64,
    pub weight: f64,
    pub limit: Length,
    pub mean_packet: Size,
    pub gentle: bool,
    pub spacing: Spacing,
    pub spare_first: bool,
    pub packet_scaling: PacketScaling,
    pub ecn: EcnRule,
    pub mark_p: Option<f64>,
}

impl Config {
    /// With what the preset decides filled in.
    fn completed(self) -> Self {
        let (max_p, mean_packet, gentle) = self.values();
        Self {
            max_p: Some(max_p),
            weight: self.weight.or((self.preset == Preset::Paper).then_some(WEIGHT)),
            mean_packet: Some(mean_packet),
            gentle: Some(gentle),
            ..self
        }
    }

    /// What the preset decides, given or not: `max_p`, `mean_packet` and `gentle`.
    pub(crate) fn values(&self) -> (f64, Size, bool) {
        let is_paper = self.preset == Preset::Paper;
        let (max_p, mean_packet) = if is_paper { (0.1, 974) } else { (0.02, 1000) };
        let mean_packet = self.mean_packet.unwrap_or(Size::from_bytes(mean_packet));
        (self.max_p.unwrap_or(max_p), mean_packet, self.gentle.unwrap_or(is_paper))
    }

    /// The parameters of the paper's RED, checked; for those who build on it too.
    ///
    /// # Errors
    /// If the preset is another, or the first parameter with which RED would not do what its name says.
    pub(crate) fn paper(&self) -> Result<Parameters, ConfigError> {
        if self.preset != Preset::Paper {
            return wrong("preset", "must be \"paper\" here: no other RED can be built on".to_owned());
        }
        if self.burst.is_some() {
            let remedy = "has an effect only if preset is \"linux\" or \"linux-2.4\": leave it out";
            return wrong("burst", remedy.to_owned());
        }
        let Self { min_th, max_th, limit, spacing, spare_first, packet_scaling, ecn, mark_p, .. } = *self;
        let (max_p, mean_packet, gentle) = self.values();
        let weight = self.weight.unwrap_or(WEIGHT);
        let parameters = Parameters {
            min_th,
            max_th,
            max_p,
            weight,
            limit,
            mean_packet,
            gentle,
            spacing,
            spare_first,
            packet_scaling,
            ecn,
            mark_p,
        };
        parameters.check()?;
        Ok(parameters)
    }
}

impl Parameters {
    /// All checks on the parameters.
    ///
    /// # Errors
    /// The first parameter with which RED would not do what its name says.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self { max_p, weight, mean_packet, .. } = *self;
        check_lengths(self.min_th, self.max_th, self.limit)?;
        if !(max_p > 0.0 && max_p <= 1.0) {
            return wrong("max_p", format!("must be above 0 and at most 1, not {max_p}"));
        }
        if !(weight > 0.0 && weight <= 1.0) {
            return wrong("weight", format!("must be above 0 and at most 1, not {weight}"));
        }
        if mean_packet.bytes() == 0 {
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
        Ok(Red { core: self.core(rate), curve: self.curve(), fifo: Fifo::new(self.limit) })
    }

    /// RED without its buffer; the parameters have been checked.
    pub(crate) fn core(&self, rate: Rate) -> RedCore {
        RedCore {
            average: Average::new(self.weight, self.mean_packet, rate),
            law: DropSpacing::new(self.spacing, self.packet_scaling, self.spare_first, self.mean_packet),
            ecn: self.ecn,
            mark_p: self.mark_p.unwrap_or(1.0),
            unit: self.min_th,
            spares: 2,
        }
    }
}

/// Checks what any RED asks of thresholds and limit.
///
/// # Errors
/// The first of them with which RED would not do what its name says.
pub(crate) fn check_lengths(min_th: Length, max_th: Length, limit: Length) -> Result<(), ConfigError> {
    if max_th.in_bytes() != min_th.in_bytes() {
        return wrong("max_th", format!("must be in the unit of min_th, {min_th}"));
    }
    if max_th.count() <= min_th.count() {
        return wrong("max_th", format!("must exceed min_th, {min_th}"));
    }
    if limit.count() == 0 {
        return wrong("limit", "must be at least 1p or 1B".to_owned());
    }
    if limit.in_bytes() == min_th.in_bytes() && limit.count() <= min_th.count() {
        let remedy = "or the queue is full before RED acts; for a plain queue use `drop-tail`";
        return wrong("limit", format!("must exceed min_th, {min_th}, {remedy}"));
    }
    Ok(())
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigError> {
        Ok(match self.preset {
            Preset::Paper => Box::new(self.paper()?.running(rate)?),
            Preset::Linux | Preset::Linux24 => Box::new(LinuxRed::new(self.linux()?, rate)?),
        })
    }

    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        let curve = match self.preset {
            Preset::Paper => self.paper().ok()?.curve(),
            Preset::Linux | Preset::Linux24 => self.linux().ok()?.curve(),
        };
        Some(curve.probability(average))
    }
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

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::length("average", self.core.average.value, self.core.unit));
        show(Gauge::number("probability", self.core.probability()));
    }
}

impl Red {
    /// Takes the queue that an arrival at `now` finds into the average.
    pub(crate) fn observe(&mut self, now: Instant) {
        self.core.observe(self.fifo.backlog(), now);
    }

    /// The average queue.
    pub(crate) fn average(&self) -> &Average {
        &self.core.average
    }

    /// Decides on a `packet` that meets `curve`, and carries it out. Below `lowest`, the smallest
    /// `min` that any packet may meet, the law starts afresh.
    pub(crate) fn admit(&mut self, packet: Packet, curve: Curve, lowest: f64, cx: &mut Context<'_>) {
        let meets = ArrivalState { curve, lowest, packets: self.fifo.backlog().packets };
        if self.core.admit(packet, meets, &mut self.fifo, cx) {
            self.core.average.busy();
        }
    }
}

/// RED without its buffer: an average and the law that acts on it. RED has one, RIO one for each class.
#[derive(Clone)]
pub(crate) struct RedCore {
    /// The average queue.
    pub average: Average,
    law: DropSpacing,
    ecn: EcnRule,
    mark_p: f64,
    pub unit: Length,
    /// A queue of fewer packets drops nothing early.
    pub spares: u64,
}

/// What a packet meets.
#[derive(Clone, Copy)]
pub(crate) struct ArrivalState {
    /// The drop function.
    pub curve: Curve,
    /// Average below which the law starts afresh: the smallest `min` that any packet may meet.
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
        self.law.probability
    }

    /// Decides on a `packet`, and carries it out: whether it has joined `fifo`.
    pub fn admit(
        &mut self,
        mut packet: Packet,
        meets: ArrivalState,
        fifo: &mut Fifo,
        cx: &mut Context<'_>,
    ) -> bool {
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

    fn decide(&mut self, packet: &Packet, meets: ArrivalState, rng: &mut Rng) -> Option<Reason> {
        let ArrivalState { curve, lowest, packets } = meets;
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
