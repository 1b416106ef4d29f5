//! DualPI2: a queue for L4S traffic, a queue for all other traffic, and one controller that couples the congestion
//! signals of the two queues.
//!
//! K. De Schepper, B. Briscoe, G. White, RFC 9332, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency,
//! Low Loss, and Scalable Throughput (L4S)", January 2023, appendix A, first and second pass of the pseudocode; and
//! `sch_dualpi2` of Linux 6.17 (2025, `net/sched/sch_dualpi2.c`; tc: `q_dualpi2.c` of iproute2 6.18), based on PI2 of
//! K. De Schepper et al., CoNEXT 2016. The `profile` parameter selects one of these two implementations. For each
//! difference between the implementations, there is also a separate parameter, so that each difference can be tested
//! separately:
//!
//! | | RFC 9332, appendix A | Linux |
//! | --- | --- | --- |
//! | buffer (`limit`, `memory_limit`) | bytes sent in 250 ms, at least one MTU | 10,000 packets, 2 MTU of memory each |
//! | update (`tupdate`) | `min(target, RTT_max / 3)`, 15 ms | 16 ms |
//! | parameters derived from `rtt_max` | `tupdate`, `alpha`, `beta` | also `target`, a sixth of `rtt_max` |
//! | arithmetic of `p'` | real numbers | 32 bits, gains rounded to 1/256 Hz |
//! | selection of packets (`marking`) | at even intervals (`recur`) | random; for `p'^2`, two random numbers |
//! | native AQM of the L4S queue | ramp from 800 to 1200 us | step at 1 ms (`step_thresh`) |
//! | short queues without marks | if one packet remains (`th_len`) | off; by backlog on arrival (`min_qlen_step`) |
//! | small backlogs (`min_backlog`) | no exception | below 2 MTU, the controller is inactive |
//! | Classic share of the link (`c_protection`) | 1/16 | 10 % |
//!
//! Both implementations work as follows. Packets whose ECN bits are ECT(1) or CE enter the L4S queue (`ecn_mask`).
//! Every `tupdate`, the controller computes `p' += alpha (q - target) + beta (q - q_old)`, where `q` is the waiting
//! time of the head packet that has waited longer, and `q_old` is the value of `q` at the previous update. Classic
//! packets are selected with probability `p_C = p'^2`; selected packets are marked if they are ECN-capable, and dropped
//! otherwise. L4S packets are marked with probability `p_CL = k p'` or with the probability of the native AQM,
//! whichever is larger. When `p_CL` reaches 1, `p_C` has reached `p_Cmax` (1/k^2). From this point, packets of both
//! queues are dropped with probability `p_C`, regardless of their ECN bits, and all other packets of the L4S queue are
//! marked. Without `drop_overload`, no such drops occur, and `p'` is limited to the value at which `p_CL` is 1. Packets
//! are selected when they depart, except that, with `drop_early`, the kernel's controller selects packets when they
//! arrive. The scheduler is either a byte-based round robin, whose credit changes only while both queues are
//! backlogged, or the RFC's time-shifted FIFO.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

mod config;
mod controller;
mod scheduler;
mod signal;
mod tc;

use std::ops::ControlFlow;

use aqm_net::{Backlog, ConfigErrors, Instant, Length, Packet, Rate, Rng, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::qdisc::truesize::truesize;
use crate::start::Start;
use crate::tc::Qdisc;
use crate::{
    Build, Context, Derived, Describe, Evidence, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases,
};
use config::Rules;
use controller::Controller;
use scheduler::{QueueClass, Scheduler};
use signal::{Chooser, MarkDecision};

parameters! {
    /// DualPI2: an L4S queue with a very short delay and a Classic queue, coupled by one controller.
    ///
    /// Differences from Linux and RFC 9332:
    ///
    /// - Packets are classified by ECN bits only, not by filters or priorities. GSO packets are not simulated.
    /// - The RFC has no pseudocode for round robin. aqmlab implements the kernel's round robin, which matches the RFC's
    ///   text.
    /// - Figure 2 of the RFC contains gains of 0.15 and 3 Hz for an update interval of 15 ms. The RFC's text contains
    ///   gains of 0.16 and 3.2 Hz and calls them verified. aqmlab follows the text unless `rtt_max` is set.
    /// - In the pseudocode, `lq.count` is shared by three probabilities. In overload, this count would grow without
    ///   limit, and more packets would be dropped than `p_C` implies. In aqmlab, each probability has a separate count.
    ///   In overload, packets that are not dropped are marked without a count.
    /// - As in the pseudocode, `lq.len()` and `lq.time()` are evaluated after the packet has left the queue: `lq.len()`
    ///   is the number of packets that remain, and `lq.time()` is the time for which the departing packet has waited.
    /// - A packet that is larger than `mtu` is admitted only if the whole packet fits into the buffer.
    /// - `tc` truncates gains to multiples of 1/256 Hz, so that `alpha 0.16` results in a smaller gain than the
    ///   kernel's default of 41/256 Hz. In aqmlab, gains set in the scenario are rounded, and gains derived from
    ///   `rtt_max` are truncated.
    /// - If an update is due at the same time as an arrival or a departure, the update is performed first. The interval
    ///   between updates is exactly `tupdate`, whereas the kernel's timer adds a delay to each interval.
    /// - The reference kernel is Linux 6.18. Kernels before Linux 6.17 do not include DualPI2.
    pub struct Config {
        /// Implementation that the queue reproduces. The profile determines the rules, and the defaults of the
        /// parameters that are not set.
        pub profile: Profile = Profile::Linux, "aqmlab's choice: the kernel's implementation";
        /// Maximum total backlog of both queues. If the limit is in bytes, it must be at least `mtu`. Default: 10,000
        /// packets in the `linux` profile; in the `rfc` profile, the number of bytes sent in 250 ms at the link rate.
        pub limit: Option<Length> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Maximum memory used by queued packets, as the kernel counts it (`truesize`). Default: twice `mtu` for each
        /// packet of `limit` in the `linux` profile, unlimited in the `rfc` profile.
        pub memory_limit: Option<Size> = None, "Linux 6.17";
        /// Largest packet on the link, including headers (the kernel's `psched_mtu`).
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Packets that enter the L4S queue.
        pub ecn_mask: EcnMask = EcnMask::L4sEct, "Linux 6.17; RFC 9332, figure 3";
        /// Target queueing delay of the controller. Default: 15 ms, or, in the `linux` profile and if `rtt_max` is set,
        /// a sixth of `rtt_max`. If `rtt_max` is set, this parameter corresponds to the `typical_rtt` option of `tc`.
        pub target: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Longest round-trip time at which the controller is stable. Unless `tupdate`, `alpha` and `beta` are set,
        /// they are derived from this time as in figure 2 of the RFC. In the `linux` profile, this parameter is the
        /// `max_rtt` option of `tc`, in whole microseconds, and `target` is also derived from this parameter. If
        /// `rtt_max` is omitted, each of the derived parameters has its own default.
        pub rtt_max: Option<Span> = None, "RFC 9332, figure 2; iproute2, q_dualpi2.c";
        /// Interval between updates of the probability. Default: 16 ms in the `linux` profile; in the `rfc` profile,
        /// `target` or a third of `rtt_max`, whichever is smaller.
        pub tupdate: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Integral gain in Hz: increase of the probability per update for each second by which the delay exceeds
        /// `target`. Default: derived from `rtt_max`, or 0.16 if `rtt_max` is not set.
        pub alpha: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// Proportional gain in Hz: increase of the probability per update for each second by which the delay has grown
        /// since the last update. Default: derived from `rtt_max`, or 3.2 if `rtt_max` is not set.
        pub beta: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// Coupling factor `k`: the marking probability of L4S packets divided by the base probability. In the `linux`
        /// profile, `k` must be a whole number.
        pub coupling: f64 = 2.0, "Linux 6.17; RFC 9332, figure 2";
        /// Method of selecting the packets to mark or drop. Default: `random` in the `linux` profile, `recur` in the
        /// `rfc` profile.
        pub marking: Option<Marking> = None, "Linux 6.17; RFC 9332, figure 4";
        /// Total backlog of both queues below which the controller does not mark or drop packets. Default: twice `mtu`
        /// in the `linux` profile, no such threshold in the `rfc` profile.
        pub min_backlog: Option<Size> = None, "Linux 6.17";
        /// Queueing delay above which all packets of the L4S queue are marked. Default: 1 ms in the `linux` profile,
        /// unless another threshold is set.
        pub step_thresh: Option<Span> = None, "Linux 6.17";
        /// Threshold of the L4S queue in packets: a packet is marked if more than this many packets remain in the queue
        /// behind it.
        pub step_thresh_packets: Option<u64> = None, "Linux 6.17: off";
        /// Queueing delay at which the marking probability of the L4S queue begins to rise from 0 (`minTh`). Default:
        /// 800 us in the `rfc` profile or if `range` is set, unless a step threshold is set.
        pub min_th: Option<Span> = None, "RFC 9332, figure 2";
        /// Width of the range of queueing delays, starting at `min_th`, over which the marking probability rises to 1.
        /// Default: 400 us, under the same conditions as the default of `min_th`.
        pub range: Option<Span> = None, "RFC 9332, figure 2";
        /// Minimum length of the L4S queue for marking: the native AQM does not mark a packet if fewer than this many
        /// packets were queued when the packet arrived.
        pub min_qlen_step: u64 = 0, "Linux 6.17";
        /// Maximum length of the L4S queue without marking (`Th_len`): the native AQM does not mark a packet if at most
        /// this many packets remain in the queue behind it. Default: off in the `linux` profile, 1 in the `rfc`
        /// profile.
        pub th_len: Option<u64> = None, "RFC 9332, figure 2";
        /// Scheduler of the two queues.
        pub scheduler: Conditional = Conditional::Wrr, "Linux 6.17; RFC 9332, appendix A.2";
        /// With the `wrr` scheduler: share of the link for the Classic queue while both queues are backlogged. Default:
        /// 0.1 in the `linux` profile, 1/16 in the `rfc` profile.
        pub c_protection: Option<f64> = None, "Linux 6.17; RFC 9332, section 4.2.2";
        /// With the `time-shifted-fifo` scheduler: maximum time by which a Classic packet waits longer than an L4S
        /// packet that arrives at the same time.
        pub tshift: Span = Span::from_millis(50), "RFC 9332, appendix A.2";
        /// Whether both queues drop packets in persistent overload. If false, the probability is limited instead, and
        /// the queues may grow up to `limit`.
        pub drop_overload: bool = true, "Linux 6.17; RFC 9332, appendix A.2";
        /// Whether the controller decides to mark or drop a packet when the packet arrives, not when it departs.
        /// Allowed only in the `linux` profile.
        pub drop_early: bool = false, "Linux 6.17";
        /// State of the update timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts when the run begins.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// Implementations of DualPI2.
    pub enum Profile {
        /// The implementation in the Linux kernel, version 6.17.
        Linux = "linux",
        /// The pseudocode of RFC 9332, appendix A.
        Rfc = "rfc",
    }
}

choices! {
    /// Packets that enter the L4S queue.
    pub enum EcnMask {
        /// Packets with ECT(1) or CE.
        L4sEct = "l4s-ect",
        /// All ECN-capable packets.
        AnyEct = "any-ect",
    }
}

choices! {
    /// The method of selecting packets with a given probability.
    pub enum Marking {
        /// Packets are selected at random, independently of each other.
        Random = "random",
        /// Packets are selected at even intervals: one in every `1/p` packets.
        Recur = "recur",
    }
}

choices! {
    /// The scheduler, which gives priority to the L4S queue without starving the Classic queue.
    pub enum Conditional {
        /// Weighted round robin, counted in bytes.
        Wrr = "wrr",
        /// Order of arrival, as if Classic packets had arrived `tshift` later.
        TimeShiftedFifo = "time-shifted-fifo",
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.check(rate)?;
        Ok(Box::new(DualPi2 {
            rules: self.rules(rate),
            l4s: Fifo::new(self.rules(rate).limit),
            classic: Fifo::new(self.rules(rate).limit),
            controller: self.controller(),
            chooser: self.chooser(),
            scheduler: self.scheduler(),
            statistics: Statistics::default(),
            start: self.start,
            now: Instant::START,
        }))
    }
}

impl Describe for Config {
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        self.derived_parameters(rate)
    }

    fn tc_options(&self, rate: Rate) -> Option<Value> {
        self.is_kernels().then(|| self.kernel_options(rate))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        self.as_tc(rate)
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        config::corners()
    }
}

/// A DualPI2 queue.
#[derive(Clone)]
struct DualPi2 {
    rules: Rules,
    /// The packets of the L4S queue, each with its arrival time and a flag that states whether the native AQM may mark
    /// the packet.
    l4s: Fifo<(Instant, bool)>,
    /// The packets of the Classic queue, each with its arrival time.
    classic: Fifo<Instant>,
    controller: Controller,
    chooser: Chooser,
    scheduler: Scheduler,
    statistics: Statistics,
    start: Start,
    /// The time of the last call to `enqueue` or `dequeue`.
    now: Instant,
}

/// The counters that the kernel reports.
#[derive(Clone, Default)]
struct Statistics {
    packets_in_c: u64,
    packets_in_l: u64,
    maxq: u64,
    ecn_mark: u64,
    step_marks: u64,
    overlimits: u64,
    memory_used: u64,
    max_memory_used: u64,
}

impl QueueDiscipline for DualPi2 {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.controller.draw_phase(chance);
            self.chooser.draw_sums(chance);
        }
    }

    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        let Backlog { packets, bytes } = self.backlog();
        let has_room = match self.rules.limit {
            Length::Packets(limit) => packets < limit,
            Length::Bytes(limit) => bytes + self.rules.mtu.max(packet.bytes.into()) <= limit,
        };
        if !has_room {
            self.statistics.overlimits += 1;
            return cx.drop(packet, Reason::Overflow);
        }
        let memory = self.statistics.memory_used + truesize(packet.bytes);
        if memory > self.rules.memory_limit {
            self.statistics.overlimits += 1;
            return cx.drop(packet, Reason::Overmemory);
        }
        let class =
            if packet.ecn as u8 & self.rules.ecn_mask == 0 { QueueClass::Classic } else { QueueClass::L4s };
        if self.rules.drop_early && !self.accept_arrival(class, &mut packet, cx) {
            return cx.drop_on(packet, Reason::Early, self.evidence());
        }
        self.statistics.maxq = self.statistics.maxq.max(packets);
        self.statistics.memory_used = memory;
        self.statistics.max_memory_used = self.statistics.max_memory_used.max(memory);
        match class {
            QueueClass::L4s => {
                self.statistics.packets_in_l += 1;
                let may_mark = self.l4s.backlog().packets >= self.rules.min_qlen_step;
                self.l4s.push_with(packet, (cx.now, may_mark));
            }
            QueueClass::Classic => {
                self.statistics.packets_in_c += 1;
                self.classic.push_with(packet, cx.now);
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.catch_up(cx.now);
        match self.try_next(cx) {
            ControlFlow::Break(packet) => packet,
            ControlFlow::Continue(()) => self.dequeue_after_drop(cx),
        }
    }

    fn backlog(&self) -> Backlog {
        let (l4s, classic) = (self.l4s.backlog(), self.classic.backlog());
        Backlog { packets: l4s.packets + classic.packets, bytes: l4s.bytes + classic.bytes }
    }
}

impl Report for DualPi2 {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let [l4s, classic] = self.delays(self.now).map(Span::seconds);
        show(Gauge::number("prob", self.controller.base.p));
        show(Gauge::new("delay_c", classic, "s"));
        show(Gauge::new("delay_l", l4s, "s"));
        show(Gauge::number("credit", self.scheduler.credit()));
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        if !self.rules.is_kernels {
            return Value::Null;
        }
        let [l4s, classic] = self.delays(now).map(|delay| delay.nanos() / 1000);
        let Statistics { packets_in_c, packets_in_l, maxq, ecn_mark, step_marks, .. } = self.statistics;
        json!({
            "prob": self.controller.base.p,
            "delay-c": classic,
            "delay-l": l4s,
            "pkts-in-c": packets_in_c,
            "pkts-in-l": packets_in_l,
            "maxq": maxq,
            "ecn-mark": ecn_mark,
            "step-mark": step_marks,
            "credit": self.scheduler.credit() as i64,
            "memory-used": self.statistics.memory_used,
            "max-memory-used": self.statistics.max_memory_used,
            "memory-limit": self.rules.memory_limit,
            "overlimits": self.statistics.overlimits,
        })
    }
}

impl DualPi2 {
    /// Removes the next packet. Returns the packet, `None` if both queues are empty, or `Continue` if the packet was
    /// dropped.
    #[inline(always)]
    fn try_next(&mut self, cx: &mut Context<'_>) -> ControlFlow<Option<Packet>> {
        let [l4s, classic] = self.heads();
        let dequeued = self.scheduler.pick(l4s, classic).and_then(|class| Some((class, self.take(class)?)));
        let Some((class, (mut packet, native))) = dequeued else { return ControlFlow::Break(None) };
        self.statistics.memory_used -= truesize(packet.bytes);
        if self.rules.drop_early {
            self.mark_natively(&mut packet, native, cx);
        } else if !self.accept(class, &mut packet, native, cx) {
            cx.drop_on(packet, Reason::Early, self.evidence());
            return ControlFlow::Continue(());
        }
        if l4s.is_some() && classic.is_some() {
            self.scheduler.sent(class, packet.bytes);
        }
        ControlFlow::Break(Some(packet))
    }

    /// Returns the next packet after a drop. This loop is in a separate function because it is rarely needed: the first
    /// packet is seldom dropped.
    #[inline(never)]
    fn dequeue_after_drop(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        loop {
            if let ControlFlow::Break(packet) = self.try_next(cx) {
                return packet;
            }
        }
    }

    /// Returns the arrival times of the head packets of the L4S queue and the Classic queue, in this order.
    #[inline]
    fn heads(&self) -> [Option<Instant>; 2] {
        [
            self.l4s.front().map(|(_, (arrival, _))| *arrival),
            self.classic.front().map(|(_, arrival)| *arrival),
        ]
    }

    /// Returns the waiting times of the two head packets. The waiting time is zero if the queue is empty.
    fn delays(&self, now: Instant) -> [Span; 2] {
        self.heads().map(|head| head.map_or(Span::ZERO, |arrival| now.since(arrival)))
    }

    /// Performs the controller's updates that are due up to `now`.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        self.now = now;
        if self.controller.is_due(now) {
            self.update(now);
        }
    }

    #[cold]
    fn update(&mut self, now: Instant) {
        let oldest = self.heads().into_iter().flatten().min();
        self.controller.catch_up(oldest, now);
    }

    /// Removes the head packet of a queue. Returns the packet and its marking probability according to the native AQM.
    #[inline]
    fn take(&mut self, class: QueueClass) -> Option<(Packet, f64)> {
        if class == QueueClass::Classic {
            return self.classic.pop_with().map(|(packet, _)| (packet, 0.0));
        }
        let (packet, (arrival, may_mark)) = self.l4s.pop_with()?;
        let behind = self.l4s.backlog().packets;
        let is_exempt = !may_mark || self.rules.th_len.is_some_and(|max_behind| behind <= max_behind);
        let native =
            if is_exempt { 0.0 } else { self.rules.native.probability(self.now.since(arrival), behind) };
        Some((packet, native))
    }

    /// Applies [`accept`](Self::accept) to an arriving packet.
    #[inline(never)]
    fn accept_arrival(&mut self, class: QueueClass, packet: &mut Packet, cx: &mut Context<'_>) -> bool {
        self.accept(class, packet, 0.0, cx)
    }

    /// Decides whether a packet of this queue is sent, marked or dropped, with the probabilities of the controller and
    /// of the native AQM. Marks the packet if necessary, and returns whether the packet is sent.
    #[inline(always)]
    fn accept(&mut self, class: QueueClass, packet: &mut Packet, native: f64, cx: &mut Context<'_>) -> bool {
        let is_active = self.backlog().bytes >= self.rules.min_backlog;
        let base = &self.controller.base;
        if class == QueueClass::Classic {
            if !is_active || !self.chooser.classic(base, cx.rng) {
                return true;
            }
            let is_marked = !base.disables_ecn && packet.ecn.can_be_marked();
            if is_marked {
                self.mark(packet, MarkDecision { coupled: true, native: false }, cx);
            }
            return is_marked;
        }
        let decision = if is_active && base.saturates {
            if self.chooser.saturated(base, cx.rng) {
                return false;
            }
            MarkDecision { coupled: true, native: native >= 1.0 }
        } else {
            self.chooser.l4s(is_active.then_some(base), native, cx.rng)
        };
        self.mark(packet, decision, cx);
        true
    }

    /// Applies the native AQM to a packet to which the controller was already applied on arrival.
    #[inline(never)]
    fn mark_natively(&mut self, packet: &mut Packet, native: f64, cx: &mut Context<'_>) {
        if native > 0.0 {
            let decision = self.chooser.l4s(None, native, cx.rng);
            self.mark(packet, decision, cx);
        }
    }

    /// Returns the numbers that led to a drop. A packet is selected with two random numbers or with none, so that no
    /// draw is reported.
    #[cold]
    fn evidence(&self) -> Evidence {
        Evidence { probability: Some(self.controller.base.classic), ..Evidence::default() }
    }

    /// Marks `packet` according to `decision`. As in the kernel, both the controller's marks and the native AQM's marks
    /// are counted, even if the packet is already marked.
    fn mark(&mut self, packet: &mut Packet, decision: MarkDecision, cx: &mut Context<'_>) {
        if decision.coupled {
            self.statistics.ecn_mark += 1;
            cx.mark(packet, Reason::Early);
        }
        if decision.native {
            self.statistics.ecn_mark += 1;
            self.statistics.step_marks += 1;
            cx.mark(packet, Reason::CeThreshold);
        }
    }
}
