//! DualPI2: a queue for L4S, a queue for everyone else, and one controller that couples what both are told.
//!
//! K. De Schepper, B. Briscoe, G. White, RFC 9332, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency,
//! Low Loss, and Scalable Throughput (L4S)", January 2023, appendix A, both passes; and `sch_dualpi2` of Linux 6.17
//! (2025, `net/sched/sch_dualpi2.c`; tc: `q_dualpi2.c` of iproute2 6.18), after PI2 of K. De Schepper et al.,
//! CoNEXT 2016. `profile` chooses between the two; where they differ, a parameter of its own says how, so that each
//! difference may be tried alone:
//!
//! | | RFC 9332, appendix A | Linux |
//! | --- | --- | --- |
//! | room (`limit`, `memory_limit`) | 250 ms of bytes, and an MTU must fit | 10,000 packets, or twice an MTU for each |
//! | update (`tupdate`) | `min(target, RTT_max / 3)`, 15 ms | 16 ms |
//! | `rtt_max` sets, where left out | `tupdate`, `alpha`, `beta` | also `target`, to a sixth of it |
//! | arithmetic of `p'` | real numbers | 32 bits, gains rounded to 1/256 Hz |
//! | who is chosen (`marking`) | in turn (`recur`) | by chance; twice for a square |
//! | native AQM of the L4S queue | ramp from 800 to 1200 us | step at 1 ms (`step_thresh`) |
//! | ... not for short queues | one packet left behind (`th_len`) | off; by what an arrival finds (`min_qlen_step`) |
//! | small backlogs (`min_backlog`) | no exception | below 2 MTU the controller is silent |
//! | Classic share of the line (`c_protection`) | 1/16 | 10 % |
//!
//! Alike in both: packets whose ECN bits are ECT(1) or CE go to the L4S queue (`ecn_mask`); every `tupdate`
//! `p' += alpha (q - target) + beta (q - q_old)`, `q` being the time that the older of both heads has waited; Classic
//! packets are chosen with `p_C = p'^2`, and dropped unless ECN-capable; L4S packets are marked with `p_CL = k p'` or
//! what the native AQM says, the greater of both. If `p_CL` reaches 1 (`p_C` then is `p_Cmax`, 1/k^2), what `p_C`
//! chooses is dropped in both queues whatever its ECN bits say, and the rest of the L4S queue is marked; without
//! `drop_overload` `p'` is capped there instead. All this at departure; with `drop_early` the kernel's controller
//! decides at arrival. The scheduler is a round robin by bytes, whose credit moves only while both queues wait, or
//! the RFC's time-shifted FIFO.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

mod controller;
mod scheduler;
mod settled;
mod signal;

use std::ops::ControlFlow;

use aqm_net::{Backlog, ConfigErrors, Instant, Length, Packet, Rate, Rng, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::qdisc::truesize::truesize;
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};
use controller::Controller;
use scheduler::{Scheduler, Which};
use settled::Rules;
use signal::{Chooser, Wish};

parameters! {
    /// DualPI2: two queues behind one coupled controller, of which the one for L4S has hardly any delay.
    ///
    /// Differences from Linux and RFC 9332:
    ///
    /// - Packets are classified by ECN bits only, not by filters or priorities, and there is no GSO to split.
    /// - The RFC has no pseudocode for round robin. Its text describes that of the kernel, and so it is here.
    /// - Figure 2 of the RFC gives gains of 0.15 and 3 Hz for an update each 15 ms; the text gives, and calls verified,
    ///   0.16 and 3.2 Hz. The text is followed unless `rtt_max` is set.
    /// - In the pseudocode `lq.count` serves three probabilities; in overload it would grow beyond one for ever and
    ///   drop more than `p_C` says. Each has a count of its own, and in overload the rest is marked without one.
    /// - `lq.len()` and `lq.time()` are read as they are written, after the packet has left: how much it leaves behind,
    ///   and how long it waited.
    /// - A packet larger than `mtu` needs room for itself.
    /// - `tc` cuts gains off after 1/256 Hz, so `alpha 0.16` comes to less than the default of the kernel, 41/256. Here
    ///   gains that are given are rounded, and those that follow from `rtt_max` are cut off.
    /// - An update that meets an arrival or a departure comes first. Updates are `tupdate` apart; the timer of the
    ///   kernel adds its own lateness.
    /// - The reference of the kernel is 6.18; older ones than 6.17 have no DualPI2.
    pub struct Config {
        /// Whose rules: what is left out below is as there.
        pub profile: Profile = Profile::Linux, "ours: the kernel's";
        /// The most that may wait in both queues together; in bytes, a whole `mtu` must find room. Left out: the
        /// profile's, 10,000 packets, or (RFC) the bytes that the line sends in 250 ms.
        pub limit: Option<Length> = None, "Linux 6.17; RFC 9332, figure 2";
        /// The most memory that may be taken, by the kernel's count (`truesize`). Left out: in Linux's profile
        /// twice `mtu` for each packet of `limit`; else no such limit.
        pub memory_limit: Option<Size> = None, "Linux 6.17";
        /// The largest packet on the line, headers included (the kernel's `psched_mtu`).
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Which packets go to the L4S queue.
        pub ecn_mask: EcnMask = EcnMask::L4sEct, "Linux 6.17; RFC 9332, figure 3";
        /// The queue delay that the controller aims at. Left out: 15 ms; in Linux's profile, where `rtt_max` is given, a
        /// sixth of that, and a value here is what tc calls `typical_rtt`.
        pub target: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// The longest round-trip time to be stable with: `tupdate`, `alpha` and `beta`, where left out, follow from
        /// it by figure 2 of the RFC. In Linux's profile this is tc's `max_rtt`, in whole microseconds: `target`, where
        /// left out, follows from it, too. Left out: each has the default of its own.
        pub rtt_max: Option<Span> = None, "RFC 9332, figure 2; iproute2, q_dualpi2.c";
        /// Time from update to update of the probability. Left out: the profile's, 16 ms, or (RFC) `target`, but at
        /// most a third of `rtt_max`.
        pub tupdate: Option<Span> = None, "Linux 6.17; RFC 9332, figure 2";
        /// Integral gain in Hz: what an update adds to the probability for a second of delay beyond `target`. Left
        /// out: 0.16, or by `rtt_max`.
        pub alpha: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// Proportional gain in Hz: what it adds for a second of delay more than at the update before. Left out:
        /// 3.2, or by `rtt_max`.
        pub beta: Option<f64> = None, "Linux 6.17; RFC 9332, appendix A.1";
        /// How many times the base probability L4S packets are marked with (`k`); a whole number in Linux's profile.
        pub coupling: f64 = 2.0, "Linux 6.17; RFC 9332, figure 2";
        /// How packets are chosen. Left out: the profile's, `random`, or (RFC) `recur`.
        pub marking: Option<Marking> = None, "Linux 6.17; RFC 9332, figure 4";
        /// The backlog of both queues below which the controller marks and drops nothing. Left out: the profile's,
        /// twice `mtu`, or (RFC) none.
        pub min_backlog: Option<Size> = None, "Linux 6.17";
        /// The delay beyond which the L4S queue marks all. Left out: 1 ms in Linux's profile, unless another
        /// threshold is given.
        pub step_thresh: Option<Span> = None, "Linux 6.17";
        /// The same in packets: marked is what leaves more of them behind.
        pub step_thresh_packets: Option<u64> = None, "Linux 6.17: off";
        /// The delay from which the L4S queue marks some, on a ramp (`minTh`). Left out: 800 us in the RFC's
        /// profile or where `range` is given, unless there is a step.
        pub min_th: Option<Span> = None, "RFC 9332, figure 2";
        /// How far the ramp goes until all are marked. Left out: 400 us, as `min_th`.
        pub range: Option<Span> = None, "RFC 9332, figure 2";
        /// The native AQM of the L4S queue spares packets that found fewer than so many waiting there.
        pub min_qlen_step: u64 = 0, "Linux 6.17";
        /// It spares packets that leave at most so many behind (`Th_len`). Left out: the profile's, off, or (RFC) 1.
        pub th_len: Option<u64> = None, "RFC 9332, figure 2";
        /// Which queue sends next.
        pub scheduler: Conditional = Conditional::Wrr, "Linux 6.17; RFC 9332, appendix A.2";
        /// The share of the line that is the Classic queue's while both wait, by round robin. Left out: the
        /// profile's, 0.1, or (RFC) 1/16.
        pub c_protection: Option<f64> = None, "Linux 6.17; RFC 9332, section 4.2.2";
        /// How much longer than an L4S packet a Classic one waits at most, with the time-shifted FIFO.
        pub tshift: Span = Span::from_millis(50), "RFC 9332, appendix A.2";
        /// Whether persistent overload is met with drops in both queues. If not, the probability is capped and the
        /// queues grow to `limit`.
        pub drop_overload: bool = true, "Linux 6.17; RFC 9332, appendix A.2";
        /// Whether the controller decides on arrival instead of at departure; Linux's profile only.
        pub drop_early: bool = false, "Linux 6.17";
        /// Whether the timer has been running for long as a run begins (`settled`), or starts with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Whose DualPI2.
    pub enum Profile {
        /// The kernel's, Linux 6.17.
        Linux = "linux",
        /// The pseudo-code of RFC 9332, appendix A.
        Rfc = "rfc",
    }
}

choices! {
    /// Packets that the L4S queue takes.
    pub enum EcnMask {
        /// ECT(1) and CE.
        L4sEct = "l4s-ect",
        /// All that are ECN-capable.
        AnyEct = "any-ect",
    }
}

choices! {
    /// How a probability becomes a choice.
    pub enum Marking {
        /// By chance, each packet by itself.
        Random = "random",
        /// Evenly: one in `1/p`.
        Recur = "recur",
    }
}

choices! {
    /// How the L4S queue comes first without starving the other.
    pub enum Conditional {
        /// Weighted round robin by bytes.
        Wrr = "wrr",
        /// The packet that came first, if a Classic one had come `tshift` later.
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
            tally: Tally::default(),
            start: self.start,
            now: Instant::START,
        }))
    }
}

impl Describe for Config {
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        self.left_out(rate)
    }

    fn tc_options(&self, rate: Rate) -> Option<Value> {
        self.is_kernels().then(|| self.told(rate))
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        settled::corners()
    }
}

/// The running discipline.
#[derive(Clone)]
struct DualPi2 {
    rules: Rules,
    /// Beside each packet the moment it came, and whether the native AQM may look at it.
    l4s: Fifo<(Instant, bool)>,
    /// Beside each packet the moment it came.
    classic: Fifo<Instant>,
    controller: Controller,
    chooser: Chooser,
    scheduler: Scheduler,
    tally: Tally,
    start: Start,
    /// The last call.
    now: Instant,
}

/// What the kernel counts.
#[derive(Clone, Default)]
struct Tally {
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
            self.tally.overlimits += 1;
            return cx.drop(packet, Reason::Overflow);
        }
        let memory = self.tally.memory_used + truesize(packet.bytes);
        if memory > self.rules.memory_limit {
            self.tally.overlimits += 1;
            return cx.drop(packet, Reason::Overmemory);
        }
        let which = if packet.ecn as u8 & self.rules.ecn_mask == 0 { Which::Classic } else { Which::L4s };
        if self.rules.drop_early && !self.lets_in(which, &mut packet, cx) {
            return cx.drop(packet, Reason::Early);
        }
        self.tally.maxq = self.tally.maxq.max(packets);
        self.tally.memory_used = memory;
        self.tally.max_memory_used = self.tally.max_memory_used.max(memory);
        match which {
            Which::L4s => {
                self.tally.packets_in_l += 1;
                let is_judged = self.l4s.backlog().packets >= self.rules.min_qlen_step;
                self.l4s.push_with(packet, (cx.now, is_judged));
            }
            Which::Classic => {
                self.tally.packets_in_c += 1;
                self.classic.push_with(packet, cx.now);
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.catch_up(cx.now);
        match self.try_next(cx) {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(()) => self.after_a_drop(cx),
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
        let Tally { packets_in_c, packets_in_l, maxq, ecn_mark, step_marks, .. } = self.tally;
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
            "memory-used": self.tally.memory_used,
            "max-memory-used": self.tally.max_memory_used,
            "memory-limit": self.rules.memory_limit,
            "overlimits": self.tally.overlimits,
        })
    }
}

impl DualPi2 {
    /// The next packet, if it is not dropped; `None` if nothing waits.
    #[inline(always)]
    fn try_next(&mut self, cx: &mut Context<'_>) -> ControlFlow<Option<Packet>> {
        let [l4s, classic] = self.heads();
        let taken = self.scheduler.pick(l4s, classic).and_then(|which| Some((which, self.take(which)?)));
        let Some((which, (mut packet, native))) = taken else { return ControlFlow::Break(None) };
        self.tally.memory_used -= truesize(packet.bytes);
        if self.rules.drop_early {
            self.mark_natively(&mut packet, native, cx);
        } else if !self.lets_pass(which, &mut packet, native, cx) {
            cx.drop(packet, Reason::Early);
            return ControlFlow::Continue(());
        }
        if l4s.is_some() && classic.is_some() {
            self.scheduler.sent(which, packet.bytes);
        }
        ControlFlow::Break(Some(packet))
    }

    /// The next packet after one that was dropped. A loop of its own: mostly the first packet is the one.
    #[inline(never)]
    fn after_a_drop(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        loop {
            if let ControlFlow::Break(found) = self.try_next(cx) {
                return found;
            }
        }
    }

    /// When the packets at the heads of the queues came, the L4S one first.
    #[inline]
    fn heads(&self) -> [Option<Instant>; 2] {
        [self.l4s.front().map(|(_, (came, _))| *came), self.classic.front().map(|(_, came)| *came)]
    }

    /// How long they have waited; nought where nothing waits.
    fn delays(&self, now: Instant) -> [Span; 2] {
        self.heads().map(|head| head.map_or(Span::ZERO, |came| now.since(came)))
    }

    /// Makes the updates up to `now`.
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

    /// Takes the packet at the head of a queue, and what the native AQM makes of it.
    #[inline]
    fn take(&mut self, which: Which) -> Option<(Packet, f64)> {
        if which == Which::Classic {
            return self.classic.pop_with().map(|(packet, _)| (packet, 0.0));
        }
        let (packet, (came, is_judged)) = self.l4s.pop_with()?;
        let behind = self.l4s.backlog().packets;
        let is_spared = !is_judged || self.rules.th_len.is_some_and(|spared| behind <= spared);
        let native =
            if is_spared { 0.0 } else { self.rules.native.probability(self.now.since(came), behind) };
        Some((packet, native))
    }

    /// As [`lets_pass`](Self::lets_pass), of a packet that arrives.
    #[inline(never)]
    fn lets_in(&mut self, which: Which, packet: &mut Packet, cx: &mut Context<'_>) -> bool {
        self.lets_pass(which, packet, 0.0, cx)
    }

    /// Whether a packet of this queue may go on, marked or not, with what the controller and the native AQM say.
    #[inline(always)]
    fn lets_pass(&mut self, which: Which, packet: &mut Packet, native: f64, cx: &mut Context<'_>) -> bool {
        let counts = self.backlog().bytes >= self.rules.min_backlog;
        let base = &self.controller.base;
        if which == Which::Classic {
            if !counts || !self.chooser.classic(base, cx.rng) {
                return true;
            }
            let is_marked = !base.disables_ecn && packet.ecn.can_be_marked();
            if is_marked {
                self.mark(packet, Wish { coupled: true, native: false }, cx);
            }
            return is_marked;
        }
        let wish = if counts && base.saturates {
            if self.chooser.saturated(base, cx.rng) {
                return false;
            }
            Wish { coupled: true, native: native >= 1.0 }
        } else {
            self.chooser.l4s(counts.then_some(base), native, cx.rng)
        };
        self.mark(packet, wish, cx);
        true
    }

    /// Marks a packet about which the controller was asked when it came.
    #[inline(never)]
    fn mark_natively(&mut self, packet: &mut Packet, native: f64, cx: &mut Context<'_>) {
        if native > 0.0 {
            let wish = self.chooser.l4s(None, native, cx.rng);
            self.mark(packet, wish, cx);
        }
    }

    /// Marks `packet` if one of the two wishes it. The kernel counts both, and what was marked already.
    fn mark(&mut self, packet: &mut Packet, wish: Wish, cx: &mut Context<'_>) {
        if wish.coupled {
            self.tally.ecn_mark += 1;
            cx.mark(packet, Reason::Early);
        }
        if wish.native {
            self.tally.ecn_mark += 1;
            self.tally.step_marks += 1;
            cx.mark(packet, Reason::CeThreshold);
        }
    }
}
