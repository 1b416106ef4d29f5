//! DualPI2: a queue for L4S traffic, a queue for all other traffic, and one controller that couples the congestion
//! signals of the two queues.
//!
//! K. De Schepper, B. Briscoe, G. White, RFC 9332, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency,
//! Low Loss, and Scalable Throughput (L4S)", January 2023, appendix A, first and second pass of the pseudocode; and
//! `sch_dualpi2` of Linux 6.17 (2025, `net/sched/sch_dualpi2.c`; tc: `q_dualpi2.c` of iproute2 6.18), based on PI2 of
//! K. De Schepper et al., CoNEXT 2016. The parameter `profile` selects one of these two implementations. Each
//! difference between the implementations can also be selected by a separate parameter and thus be tested alone:
//!
//! | | RFC 9332, appendix A | Linux |
//! | --- | --- | --- |
//! | buffer (`limit`, `memory_limit`) | bytes sent in 250 ms, at least one MTU | 10,000 packets, 2 MTU of memory each |
//! | update (`tupdate`) | `min(target, RTT_max / 3)`, 15 ms | 16 ms |
//! | parameters derived from `rtt_max` | `tupdate`, `alpha`, `beta` | also `target`, a sixth of `rtt_max` |
//! | arithmetic of `p'` | real numbers | 32 bits, gains rounded to 1/256 Hz |
//! | choice of packets (`marking`) | in turn (`recur`) | random; for `p'^2`, two random numbers |
//! | native AQM of the L4S queue | ramp from 800 to 1200 us | step at 1 ms (`step_thresh`) |
//! | short queues without marks | if one packet remains (`th_len`) | off; by backlog on arrival (`min_qlen_step`) |
//! | small backlogs (`min_backlog`) | no exception | below 2 MTU, the controller is inactive |
//! | Classic share of the link (`c_protection`) | 1/16 | 10 % |
//!
//! The implementations have the following in common. Packets whose ECN bits are ECT(1) or CE enter the L4S queue
//! (`ecn_mask`). Every `tupdate`, the controller computes `p' += alpha (q - target) + beta (q - q_old)`, where `q` is
//! the waiting time of the head packet that has waited longer, and `q_old` is the value of `q` at the previous update.
//! Classic packets are chosen with the probability `p_C = p'^2`; chosen packets are marked if they are ECN-capable, and
//! dropped otherwise. L4S packets are marked with the probability `p_CL = k p'` or with the probability of the native
//! AQM, whichever is larger. If `p_CL` reaches 1, `p_C` is `p_Cmax` (1/k^2). Packets chosen with `p_C` are then dropped
//! in both queues regardless of their ECN bits, and all other packets of the L4S queue are marked. Without
//! `drop_overload`, `p'` is limited to the value at which `p_CL` is 1 instead. Packets are chosen when they depart;
//! with `drop_early`, the kernel's controller chooses them when they arrive. The scheduler is either a round robin by
//! bytes, whose credit changes only while both queues are backlogged, or the RFC's time-shifted FIFO.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

mod config;
mod controller;
mod scheduler;
mod signal;

use std::ops::ControlFlow;

use aqm_net::{Backlog, ConfigErrors, Instant, Length, Packet, Rate, Rng, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::qdisc::truesize::truesize;
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};
use config::Rules;
use controller::Controller;
use scheduler::{QueueClass, Scheduler};
use signal::{Chooser, MarkDecision};

parameters! {
    /// DualPI2: two queues with one coupled controller; packets in the L4S queue wait very briefly.
    ///
    /// Differences from Linux and RFC 9332:
    ///
    /// - Packets are classified by ECN bits only, not by filters or priorities. GSO packets are not simulated.
    /// - The RFC has no pseudocode for round robin. aqmlab implements the kernel's round robin, which matches the RFC's
    ///   text.
    /// - Figure 2 of the RFC contains gains of 0.15 and 3 Hz for an update interval of 15 ms. The RFC's text contains
    ///   gains of 0.16 and 3.2 Hz and calls them verified. aqmlab follows the text unless `rtt_max` is set.
    /// - As in the pseudocode, `lq.len()` and `lq.time()` are evaluated after the packet has left the queue: `lq.len()`
    ///   is the number of packets that remain, and `lq.time()` is the time for which the packet has waited.
    /// - As in the pseudocode, `lq.len()` and `lq.time()` are evaluated after the packet has left the queue: they are
    ///   the number of packets that remain, and the waiting time of the first of them.
    /// - A packet that is larger than `mtu` is admitted only if the whole packet fits into the buffer.
    /// - `tc` truncates gains to multiples of 1/256 Hz, so that `alpha 0.16` results in a smaller gain than the
    ///   kernel's default of 41/256 Hz. In aqmlab, gains set in the scenario are rounded, and gains derived from
    ///   `rtt_max` are truncated.
    /// - An update that is due at the same time as an arrival or a departure is executed before it. The interval
    ///   between updates is exactly `tupdate`, whereas the kernel's timer adds delays.
    /// - The reference kernel is Linux 6.18. Kernels before 6.17 have no DualPI2.
    pub struct Config {
        /// Implementation that the queue reproduces. The profile determines the rules, and the defaults of all
        /// parameters that are not set.
        pub profile: Profile = Profile::Linux, "aqmlab's choice: the kernel's implementation";
        /// Maximum backlog of both queues together. If the limit is in bytes, it must be at least `mtu`. Default:
        /// 10,000 packets in the profile `linux`, and the bytes sent in 250 ms at the link rate in `rfc`.
        pub limit: Option<Length> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Maximum memory used by queued packets, as the kernel counts it (`truesize`). Default: twice `mtu` for each
        /// packet of `limit` in the profile `linux`, unlimited in `rfc`.
        pub memory_limit: Option<Size> = None, "Linux 6.17";
        /// Largest packet on the link, including headers (the kernel's `psched_mtu`).
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Packets that enter the L4S queue.
        pub ecn_mask: EcnMask = EcnMask::L4sEct, "Linux 6.17; RFC 9332, figure 3";
        /// Target queueing delay of the controller. Default: 15 ms; in the profile `linux`, a sixth of `rtt_max` if
        /// `rtt_max` is set. If `rtt_max` is set, `tc` calls this parameter `typical_rtt`.
        pub target: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Longest round-trip time for which the controller is stable. `tupdate`, `alpha` and `beta` are derived from
        /// this time as in figure 2 of the RFC, unless they are set. In the profile `linux`, this parameter is
        /// `max_rtt` of `tc`, in whole microseconds, and `target` is also derived from it. If `rtt_max` is omitted,
        /// each of the derived parameters has its own default.
        pub rtt_max: Option<Span> = None, "RFC 9332, figure 2; iproute2, q_dualpi2.c";
        /// Interval between updates of the probability. Default: 16 ms in the profile `linux`; in `rfc`, the smaller of
        /// `target` and a third of `rtt_max`.
        pub tupdate: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Integral gain in Hz: increase of the probability per update and per second of delay above `target`. Default:
        /// derived from `rtt_max`, or 0.16 if `rtt_max` is not set.
        pub alpha: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// Proportional gain in Hz: increase of the probability per update and per second by which the delay has grown
        /// since the last update. Default: derived from `rtt_max`, or 3.2 if `rtt_max` is not set.
        pub beta: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// Coupling factor `k`: the marking probability of L4S packets divided by the base probability. In the profile
        /// `linux`, `k` must be a whole number.
        pub coupling: f64 = 2.0, "Linux 6.17; RFC 9332, figure 2";
        /// Method by which packets are chosen to be marked or dropped. Default: `random` in the profile `linux`,
        /// `recur` in `rfc`.
        pub marking: Option<Marking> = None, "Linux 6.17; RFC 9332, figure 4";
        /// Backlog of both queues together below which the controller does not mark or drop packets. Default: twice
        /// `mtu` in the profile `linux`, no such limit in `rfc`.
        pub min_backlog: Option<Size> = None, "Linux 6.17";
        /// Queueing delay above which all packets of the L4S queue are marked. Default: 1 ms in the profile `linux`,
        /// unless another threshold is set.
        pub step_thresh: Option<Span> = None, "Linux 6.17";
        /// Threshold of the L4S queue in packets: a packet is marked if more than this many packets remain in the queue
        /// behind it.
        pub step_thresh_packets: Option<u64> = None, "Linux 6.17: off";
        /// Queueing delay at which the marking probability of the L4S queue begins to rise from 0 (`minTh`). Default:
        /// 800 us in the profile `rfc` or if `range` is set, unless a step threshold is set.
        pub min_th: Option<Span> = None, "RFC 9332, figure 2";
        /// Range of queueing delays above `min_th` over which the marking probability rises to 1. Default: 400 us,
        /// under the same conditions as the default of `min_th`.
        pub range: Option<Span> = None, "RFC 9332, figure 2";
        /// Minimum length of the L4S queue for marks: the native AQM does not mark a packet that arrived while fewer
        /// than this many packets were queued.
        pub min_qlen_step: u64 = 0, "Linux 6.17";
        /// Maximum length without marks (`Th_len`): the native AQM does not mark a packet if at most this many packets
        /// remain in the queue behind it. Default: off in the profile `linux`, 1 in `rfc`.
        pub th_len: Option<u64> = None, "RFC 9332, figure 2";
        /// Scheduler of the two queues.
        pub scheduler: Conditional = Conditional::Wrr, "Linux 6.17; RFC 9332, appendix A.2";
        /// Share of the link for the Classic queue while both queues are backlogged, with the scheduler `wrr`. Default:
        /// 0.1 in the profile `linux`, 1/16 in `rfc`.
        pub c_protection: Option<f64> = None, "Linux 6.17; RFC 9332, section 4.2.2";
        /// Maximum time by which a Classic packet waits longer than an L4S packet that arrives at the same time, with
        /// the scheduler `time-shifted-fifo`.
        pub tshift: Span = Span::from_millis(50), "RFC 9332, appendix A.2";
        /// Whether both queues drop packets in persistent overload. If false, the probability is limited, and the
        /// queues grow up to `limit`.
        pub drop_overload: bool = true, "Linux 6.17; RFC 9332, appendix A.2";
        /// Whether the controller decides on a packet at its arrival instead of at its departure. Only allowed in the
        /// profile `linux`.
        pub drop_early: bool = false, "Linux 6.17";
        /// State of the update timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts with the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// Implementations of DualPI2.
    pub enum Profile {
        /// The implementation in the kernel, Linux 6.17.
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
    /// The method of choosing packets according to a probability.
    pub enum Marking {
        /// Packets are chosen at random, independently of each other.
        Random = "random",
        /// Packets are chosen evenly: one in every `1/p` packets.
        Recur = "recur",
    }
}

choices! {
    /// The scheduler, which gives priority to the L4S queue and prevents that the Classic queue starves.
    pub enum Conditional {
        /// Weighted round robin by bytes.
        Wrr = "wrr",
        /// Order of arrival, as if Classic packets had arrived later by `tshift`.
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
    /// The packets of the L4S queue, each with its arrival time and whether the native AQM may mark it.
    l4s: Fifo<(Instant, bool)>,
    /// The packets of the Classic queue, each with its arrival time.
    classic: Fifo<Instant>,
    controller: Controller,
    chooser: Chooser,
    scheduler: Scheduler,
    statistics: Statistics,
    start: Start,
    /// The time of the last call of `enqueue` or `dequeue`.
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
            return cx.drop(packet, Reason::Early);
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
            cx.drop(packet, Reason::Early);
            return ControlFlow::Continue(());
        }
        if l4s.is_some() && classic.is_some() {
            self.scheduler.sent(class, packet.bytes);
        }
        ControlFlow::Break(Some(packet))
    }

    /// Returns the next packet after a drop. The loop is a separate function because the first packet is rarely
    /// dropped.
    #[inline(never)]
    fn dequeue_after_drop(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        loop {
            if let ControlFlow::Break(packet) = self.try_next(cx) {
                return packet;
            }
        }
    }

    /// Returns the arrival times of the two head packets, that of the L4S queue first.
    #[inline]
    fn heads(&self) -> [Option<Instant>; 2] {
        [
            self.l4s.front().map(|(_, (arrival, _))| *arrival),
            self.classic.front().map(|(_, arrival)| *arrival),
        ]
    }

    /// Returns the waiting times of the two head packets; zero for an empty queue.
    fn delays(&self, now: Instant) -> [Span; 2] {
        self.heads().map(|head| head.map_or(Span::ZERO, |arrival| now.since(arrival)))
    }

    /// Executes the controller's updates up to `now`.
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

    /// Removes the head packet of a queue. Returns the packet and the native AQM's marking probability.
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

    /// Decides, with the probabilities of the controller and of the native AQM, whether a packet of this queue is sent
    /// or dropped. Marks the packet if necessary. Returns whether the packet is sent.
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

    /// Applies the native AQM to a packet on which the controller has already decided at arrival.
    #[inline(never)]
    fn mark_natively(&mut self, packet: &mut Packet, native: f64, cx: &mut Context<'_>) {
        if native > 0.0 {
            let decision = self.chooser.l4s(None, native, cx.rng);
            self.mark(packet, decision, cx);
        }
    }

    /// Marks `packet` according to `decision`. As in the kernel, marks by the controller and marks by the native AQM
    /// are both counted, even if the packet is already marked.
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
