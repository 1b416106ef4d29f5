//! Linux's RED, in the words of the command `tc` that sets it up.
//!
//! A. Kuznetsov's `sch_red` in Linux 6.1 (`net/sched/sch_red.c`, `include/net/red.h`) and in Linux 2.4; what `tc`
//! makes of the parameters is in `tc.rs`. The algorithm is Floyd & Jacobson's of 1993, not gentle, in bytes,
//! without divisions: the average is an integer `2^Wlog` times too large, and instead of a draw for each packet one
//! draw tells where the next drop is, which makes the gaps uniform on 1 to `1/p_b`. With `adaptive`, a timer moves
//! `max_P` every 500 ms so that the average stays midway between the thresholds (`red_adaptative_algo`), after
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED", 2001.
//!
//! How it differs from the paper of 1993:
//! - The first packet of an average within the thresholds passes, and draws.
//! - An arrival that ends an idle time adds no sample; the average falls by a table (`tc.rs`).
//! - A packet that meets a full queue does not start the count anew. One at `max` or above does, and the first
//!   one below it passes.
//! - Linux 2.4: `max_P` is `(max - min) / 2^Plog`, the largest below the one asked for; there is no `harddrop` and
//!   nothing adapts; ECT(1) cannot be marked (RFC 2481 has only one ECT); and a packet is admitted if at most
//!   `limit` wait before it, so up to one packet more.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use std::ops::RangeInclusive;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, Ecn, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span,
    choices, parameters,
};
use serde_json::{Value, json};

use crate::fifo::Admission;
use crate::red::linux_core::{Asked, MaxP, Parms, Vars};
use crate::red::tc::{self, Clock, IdleTable};
use crate::start::{Start, first_instant};
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Linux's RED as `tc` sets it up: in bytes and integers, not gentle, and slow to forget when idle.
    ///
    /// Differences from Linux:
    ///
    /// - A refused packet that found the line idle leaves it idle: the kernel asks the queue again at once.
    /// - A packet that is to be marked but finds no room is dropped, and leaves unmarked.
    /// - An instant of the timer that meets an arrival or a departure comes first.
    /// - The clock of Linux 2.4, microseconds or coarser as the kernel was built, has whole microseconds here, and
    ///   products do not overflow.
    /// - There are no `qevents`.
    pub struct Config {
        /// Whose RED this is.
        pub kernel: Kernel = Kernel::Linux61, "ours: the kernel of the recorded runs";
        /// The most that may wait; the packet on the line is not counted.
        pub limit: Size = Size::from_bytes(400_000), "tc-red: the manual's example; tc itself has no default";
        /// Average queue below which nothing is dropped early. Left out: a third of `max`.
        pub min: Option<Size> = None, "tc, after Floyd, \"RED: Discussions of Setting Parameters\", 1997";
        /// Average queue from which every packet is dropped, or marked. Left out: three times `min`; without
        /// `min` a quarter of `limit`.
        pub max: Option<Size> = None, "tc, after Floyd 1997";
        /// Drop probability as the average reaches `max` (`max_P`); above 0, below 1.
        pub probability: f64 = 0.02, "tc-red";
        /// Packets of a burst that should pass: `tc` takes the weight of the average from it, a power of 1/2.
        /// Left out: `(2 min + max) / (3 avpkt)`.
        pub burst: Option<u32> = None, "tc-red";
        /// Typical size of a packet: of those of `burst`, and of those that the line could have sent while it
        /// idled.
        pub avpkt: Size = Size::from_bytes(1000), "tc-red: \"1000 is a good value\"; tc itself has no default";
        /// The rate by which the average falls while the line idles. Left out: that of the line.
        pub bandwidth: Option<Rate> = None, "ours: what tc-red asks for; tc itself takes 10Mbit";
        /// Whether ECN-capable packets are marked instead of dropped, as long as there is room.
        pub ecn: bool = false, "tc-red";
        /// Whether, with `ecn`, packets are dropped nevertheless where the average is at `max` or above.
        pub harddrop: bool = false, "tc-red";
        /// Whether, with `ecn`, a packet that cannot be marked is queued where RED chose it, and dropped only where
        /// `harddrop` says so or no room is left.
        pub nodrop: bool = false, "tc-red, since Linux 5.7";
        /// Whether `max_P` moves between 1 and 50 %, from `probability` on, to hold the average near the middle
        /// of the thresholds.
        pub adaptive: bool = false, "tc-red";
        /// With `adaptive`: whether `max_P` has fallen to 1 % in an idle time before the run and the timer is running
        /// (`settled`), or `max_P` begins at `probability` and the timer with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Kernels that have a RED.
    pub enum Kernel {
        /// Linux 6.1 with iproute2 6.1.
        Linux61 = "6.1",
        /// Linux 2.4 with the iproute2 of its days.
        Linux24 = "2.4",
    }
}

/// How often `max_P` may move (`HZ/2`).
const ADAPT_EVERY: Span = Span::from_millis(500);

/// One percent of `max_P`, which counts in 2^-32 (`RED_ONE_PERCENT`).
const ONE_PERCENT: u64 = ((1 << 32) + 50) / 100;

/// The sizes that the kernel can be told, in bytes.
const IN_32_BITS: RangeInclusive<u64> = 1..=u32::MAX as u64;
const OUT_OF_RANGE: &str = "must be from 1B to 4294967295B";

impl Config {
    /// The thresholds, given or not.
    ///
    /// # Errors
    /// If they are none, or the limit leaves them no room.
    fn thresholds(&self) -> Result<(u64, u64), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let bytes = |size: Option<Size>| size.map(Size::bytes);
        let without_max = || bytes(self.min).map_or(self.limit.bytes() / 4, |min| min.saturating_mul(3));
        let max = bytes(self.max).unwrap_or_else(without_max);
        let min = bytes(self.min).unwrap_or(max / 3);
        let limit = self.limit.bytes();
        let has_limit = IN_32_BITS.contains(&limit);
        errors.check(has_limit, "limit", OUT_OF_RANGE);
        if has_limit || self.min.is_some() || self.max.is_some() {
            let remedy = if self.min.is_some() { "" } else { ", and is a third of max: write it" };
            errors.check(min > 0, "min", format_args!("must be at least 1B{remedy}"));
            errors.check(min == 0 || max > min, "max", format_args!("must exceed min, {min}B"));
        }
        let remedy = "or the queue is full before RED acts; for a plain queue use `drop-tail`";
        let is_met = !has_limit || limit > min;
        errors.check(is_met, "limit", format_args!("must exceed min, {min}B, {remedy}"));
        errors.finish((min, max))
    }

    /// What the kernel is told; all checks made but those of the table of idle times.
    ///
    /// # Errors
    /// Every parameter that Linux does not have, or with which RED would not do what its name says.
    fn told(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let thresholds = errors.take(self.thresholds());
        let later = [("harddrop", self.harddrop), ("nodrop", self.nodrop), ("adaptive", self.adaptive)];
        for (place, is_on) in later {
            let exists = self.kernel != Kernel::Linux24;
            errors.check(exists || !is_on, place, "does not exist in Linux 2.4: leave it out");
        }
        errors.check_effect(self.ecn, self, &["harddrop", "nodrop"], "without ecn");
        errors.check_effect(self.adaptive, self, &["start"], "without adaptive");
        let has_packet = IN_32_BITS.contains(&self.avpkt.bytes());
        errors.check(has_packet, "avpkt", OUT_OF_RANGE);
        let probability = self.probability;
        let is_share = probability > 0.0 && probability <= 1.0;
        let problem = format_args!("must be above 0 and at most 1, not {probability}");
        errors.check(is_share, "probability", problem);
        // What follows from others can be judged only if these can.
        let asked = thresholds.map(|(min, max)| Asked {
            min,
            max,
            unit: 'B',
            probability,
            burst: self.burst,
            avpkt: self.avpkt.bytes(),
        });
        let max_p = asked.filter(|_| is_share).and_then(|asked| errors.take(self.max_p(asked)));
        let weight_log = asked.filter(|_| has_packet).and_then(|asked| errors.take(asked.weight_log()));
        let told = thresholds.zip(weight_log).zip(max_p);
        let (((min, max), weight_log), max_p) = errors.finish_some(told)?;
        Ok(Parms::new(min, max, weight_log, max_p))
    }

    /// Where `max_P` begins.
    fn max_p(&self, asked: Asked) -> Result<MaxP, ConfigError> {
        if self.kernel == Kernel::Linux24 {
            let slope = 1 << (32 - asked.probability_log()?);
            return Ok(MaxP { value: slope * (asked.max - asked.min), slope });
        }
        asked.max_p()
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut parms = self.told()?;
        if self.adaptive && self.start.is_settled() {
            parms.max_p = at_rest(&parms);
        }
        let (clock, admission) = match self.kernel {
            Kernel::Linux24 => (Clock::Micros, Admission::UntilBeyond),
            Kernel::Linux61 => (Clock::Ticks, Admission::WhatFits),
        };
        let idle = IdleTable::new(parms.weight_log, self.avpkt, self.bandwidth.unwrap_or(rate), clock)?;
        Ok(Box::new(LinuxRed {
            idle,
            idle_since: Some(Instant::START),
            parms,
            vars: Vars::default(),
            start: self.start,
            adapts_at: if self.adaptive { Instant::START + ADAPT_EVERY } else { Instant::NEVER },
            ecn: self.ecn,
            harddrop: self.harddrop,
            nodrop: self.nodrop,
            marks_ect1: self.kernel != Kernel::Linux24,
            counts: Counts::default(),
            fifo: Fifo::new(Length::Bytes(self.limit.bytes())).with_admission(admission),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        Some(self.told().ok()?.curve().probability(average))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Ok(parms) = self.told() else { return Vec::new() };
        let Parms { min, max, weight_log, .. } = parms;
        let mut derived = Vec::new();
        if self.min.is_none() {
            derived.push(Derived::new("min", min as f64, "bytes"));
        }
        if self.max.is_none() {
            derived.push(Derived::new("max", max as f64, "bytes"));
        }
        derived.push(Derived::new("weight", tc::power_of_half(weight_log), ""));
        derived.push(Derived::new("max_p", parms.curve().max_p, ""));
        if self.bandwidth.is_none() {
            derived.push(Derived::new("bandwidth", rate.bps() as f64, "bps"));
        }
        derived
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let Parms { min, max, .. } = self.told().ok()?;
        let Self { limit, ecn, harddrop, adaptive, nodrop, .. } = self;
        Some(json!({
            "kind": "red", "limit": limit.bytes(), "min": min, "max": max, "ecn": ecn, "harddrop": harddrop,
            "adaptive": adaptive, "nodrop": nodrop,
        }))
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let variants = [
            json!({}),
            json!({"ecn": true, "limit": "10kB"}),
            json!({"ecn": true, "harddrop": true, "burst": 40, "probability": 0.5}),
            json!({"ecn": true, "adaptive": true, "burst": 5}),
            json!({"ecn": true, "nodrop": true, "limit": "12kB"}),
            json!({"ecn": true, "nodrop": true, "harddrop": true}),
            json!({"kernel": "2.4", "ecn": true, "avpkt": "500B"}),
            json!({"kernel": "2.4", "burst": 2, "probability": 1.0, "limit": "9999B"}),
        ];
        let over_small = |variant: Value| {
            let mut red = json!({"min": "2000B", "max": "9kB", "limit": "24kB"});
            for (name, value) in variant.as_object().into_iter().flatten() {
                red[name] = value.clone();
            }
            red
        };
        variants.map(over_small).into()
    }
}

impl MaxP {
    /// One step towards an `average` in the middle of the thresholds (`red_adaptative_algo`).
    fn adapted(self, average: u64, min: u64, max: u64) -> Self {
        let width = max - min;
        let (target_min, target_max) = (min + 2 * (width / 5), min + 3 * (width / 5));
        let value = if average > target_max && self.value <= 50 * ONE_PERCENT {
            self.value + ONE_PERCENT.min(self.value / 4)
        } else if average < target_min && self.value >= ONE_PERCENT {
            self.value / 10 * 9
        } else {
            self.value
        };
        Self { value, slope: ((value + width / 2) / width).max(1) }
    }
}

/// The running discipline.
#[derive(Clone)]
pub struct LinuxRed {
    idle: IdleTable,
    idle_since: Option<Instant>,
    parms: Parms,
    vars: Vars,
    /// The next instant of the timer; never if nothing adapts.
    adapts_at: Instant,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
    marks_ect1: bool,
    start: Start,
    counts: Counts,
    fifo: Fifo,
}

/// `max_P` after an idle time in which the timer has moved it as far as it goes.
fn at_rest(parms: &Parms) -> MaxP {
    let mut max_p = parms.max_p;
    loop {
        let next = max_p.adapted(0, parms.min, parms.max);
        if next.value >= max_p.value {
            return max_p;
        }
        max_p = next;
    }
}

/// What `tc -s` shows.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Packets that were to go before the queue is full, dropped or marked.
    chosen: u64,
    marked: u64,
    /// Of those, dropped.
    early: u64,
    pdrop: u64,
}

impl LinuxRed {
    /// Lets the timer run out as often as it has by `now`.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        if self.adapts_at <= now {
            self.adapt_until(now);
        }
    }

    #[cold]
    fn adapt_until(&mut self, now: Instant) {
        while self.adapts_at <= now {
            let average = match self.idle_since {
                Some(since) => self.vars.after_idle(&self.idle, since, self.adapts_at),
                None => self.vars.average,
            };
            let Parms { min, max, weight_log, max_p, .. } = self.parms;
            self.parms.max_p = max_p.adapted(average >> weight_log, min, max);
            self.adapts_at += ADAPT_EVERY;
        }
    }

    /// Carries out what was decided: `true` if `packet` has joined the queue.
    fn carry_out(&mut self, reason: Option<Reason>, mut packet: Packet, cx: &mut Context<'_>) -> bool {
        if let Some(reason) = reason {
            self.counts.chosen += 1;
            if self.may_mark(packet.ecn, reason) {
                self.counts.marked += 1;
                if self.fifo.has_room_for(&packet) {
                    cx.mark(&mut packet, reason);
                }
            } else if !self.spares(reason) {
                self.counts.early += 1;
                cx.drop(packet, reason);
                return false;
            }
        }
        if !self.fifo.has_room_for(&packet) {
            self.counts.pdrop += 1;
            cx.drop(packet, Reason::Overflow);
            return false;
        }
        self.fifo.push(packet);
        true
    }

    fn may_mark(&self, ecn: Ecn, reason: Reason) -> bool {
        self.ecn
            && ecn.can_be_marked()
            && (self.marks_ect1 || ecn != Ecn::Ect1)
            && (reason == Reason::Early || !self.harddrop)
    }

    /// Whether a packet that was chosen and cannot be marked is queued.
    fn spares(&self, reason: Reason) -> bool {
        self.nodrop && (reason == Reason::Early || !self.harddrop)
    }
}

impl QueueDiscipline for LinuxRed {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() && self.adapts_at < Instant::NEVER {
            self.adapts_at = first_instant(ADAPT_EVERY, chance);
        }
    }

    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        let idle_since = self.idle_since.take();
        let queue = self.fifo.backlog().bytes;
        let left = idle_since.map(|since| self.vars.after_idle(&self.idle, since, cx.now));
        self.parms.observe(&mut self.vars, queue, left);
        let reason = self.parms.decide(&mut self.vars, 0, cx.rng);
        if !self.carry_out(reason, packet, cx) && idle_since.is_some() {
            self.idle_since = Some(cx.now);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.catch_up(cx.now);
        let packet = self.fifo.pop();
        if packet.is_none() {
            self.idle_since.get_or_insert(cx.now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for LinuxRed {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let average = self.parms.length(self.vars.average);
        let curve = self.parms.curve();
        show(Gauge::new("average", average, "bytes"));
        show(Gauge::number("probability", curve.probability(average)));
        if self.adapts_at != Instant::NEVER {
            show(Gauge::number("max_p", curve.max_p));
        }
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let Counts { chosen, marked, early, pdrop } = self.counts;
        json!({"marked": marked, "early": early, "pdrop": pdrop, "other": 0, "overlimits": chosen})
    }
}
