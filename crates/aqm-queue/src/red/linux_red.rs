//! Linux's RED, with the parameters of the command `tc`.
//!
//! The sources are A. Kuznetsov's `sch_red` in Linux 6.1 (`net/sched/sch_red.c`, `include/net/red.h`) and in Linux 2.4.
//! `tc.rs` converts the parameters as `tc` does. The algorithm is that of Floyd & Jacobson 1993 without the gentle
//! part. Lengths are in bytes, and the kernel avoids divisions. The average is stored as an integer, which is the
//! average times `2^Wlog`. Instead of one random number per packet, one random number determines the position of the
//! next drop, so that the gaps between drops are uniformly distributed from 1 to `1/p_b` packets. With `adaptive`, a
//! timer adjusts `max_P` every 500 ms so that the average stays midway between the thresholds (`red_adaptative_algo`),
//! based on S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED", 2001.
//!
//! Differences from the paper of 1993:
//! - When the average enters the range between the thresholds, the first packet passes, and a random number is drawn
//!   for the next drop.
//! - An arrival that ends an idle time does not add a sample. Instead, the average decays according to a table
//!   (`tc.rs`).
//! - A drop because of a full queue does not restart the count of packets since the last drop. A packet that arrives
//!   while the average is at `max` or above restarts the count. After the average has returned below `max`, the first
//!   packet passes.
//! - In Linux 2.4, `max_P` is the largest value of the form `(max - min) / 2^Plog` that is below the configured
//!   probability. `harddrop` and `adaptive` do not exist. ECT(1) cannot be marked, because RFC 2481 has only one ECT
//!   codepoint. A packet is admitted if the backlog at its arrival is at most `limit`, so the queue may exceed `limit`
//!   by up to one packet.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from Linux.

use std::ops::RangeInclusive;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, Ecn, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span,
    choices, parameters,
};
use serde_json::{Value, json};

use crate::fifo::Admission;
use crate::red::linux_core::{MaxP, Parms, TcOptions, TcRed, Vars};
use crate::red::tc::{self, Clock, IdleTable};
use crate::start::{Start, first_instant};
use crate::tc::Qdisc;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Linux's RED as configured by `tc`: with lengths in bytes, integer arithmetic, no gentle part, and a slow decay
    /// of the average while the link is idle.
    ///
    /// Differences from Linux:
    ///
    /// - If a packet that arrives at an idle link is dropped, the link remains idle. In the kernel, the link tries to
    ///   dequeue again at once.
    /// - If there is no room for a packet that is selected for marking, the packet is dropped and not marked.
    /// - A timer tick that is due at the same time as an arrival or a departure is processed first.
    /// - The clock of Linux 2.4 has a resolution of one microsecond or more, depending on how the kernel was built. In
    ///   aqmlab, the resolution is one microsecond, and products do not overflow.
    /// - `qevents` are not supported.
    pub struct Config {
        /// Kernel version whose RED is used.
        pub kernel: Kernel = Kernel::Linux61, "aqmlab's choice: the kernel used in the recorded runs";
        /// Maximum backlog, excluding the packet in transmission.
        pub limit: Size = Size::from_bytes(400_000), "tc-red: the manual's example; tc itself has no default";
        /// Average queue length below which no packet is dropped early. Default: a third of `max`.
        pub min: Option<Size> = None, "tc, after Floyd, \"RED: Discussions of Setting Parameters\", 1997";
        /// Average queue length at or above which every packet is dropped or marked. Default: three times `min`, or a
        /// quarter of `limit` if `min` is not set either.
        pub max: Option<Size> = None, "tc, after Floyd 1997";
        /// RED's parameters other than the thresholds.
        #[serde(flatten)]
        pub red: TcRed = TcRed::default();
        /// Rate at which the average decays while the link is idle. Default: the link rate.
        pub bandwidth: Option<Rate> = None, "aqmlab's choice, as tc-red recommends; tc itself uses 10Mbit";
        /// Whether all packets are dropped while the average is at `max` or above, even if `ecn` is true.
        pub harddrop: bool = false, "tc-red";
        /// Whether, with `ecn`, packets that RED has selected but that cannot be marked are enqueued instead of
        /// dropped. If true, these packets are dropped only because of `harddrop` or because the queue is full.
        pub nodrop: bool = false, "tc-red, since Linux 5.7";
        /// Whether `max_P` is adjusted between 1 and 50 %, starting from `probability`, to keep the average near the
        /// midpoint between the thresholds.
        pub adaptive: bool = false, "tc-red";
        /// State of the queue at the start of the run, if `adaptive` is true. `settled`: `max_P` has decreased to 1 %
        /// during an idle period before the run, and the timer is running. `fresh`: `max_P` is `probability`, and the
        /// timer starts at the beginning of the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// Kernel versions with a RED queue.
    pub enum Kernel {
        /// Linux 6.1 with iproute2 6.1.
        Linux61 = "6.1",
        /// Linux 2.4 with an iproute2 version from the same period.
        Linux24 = "2.4",
    }
}

/// Interval between adjustments of `max_P` (`HZ/2`).
const ADAPTATION_INTERVAL: Span = Span::from_millis(500);

/// A probability of one percent, in units of 2^-32 (`RED_ONE_PERCENT`).
const ONE_PERCENT: u64 = ((1 << 32) + 50) / 100;

/// The sizes that the kernel can store, in bytes.
const IN_32_BITS: RangeInclusive<u64> = 1..=u32::MAX as u64;
const OUT_OF_RANGE: &str = "must be from 1B to 4294967295B";

impl Config {
    /// Returns the configured or automatic thresholds.
    ///
    /// # Errors
    /// Returns an error if the thresholds are not in ascending order, or if the limit does not exceed `min`.
    fn thresholds(&self) -> Result<(u64, u64), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let bytes = |size: Option<Size>| size.map(Size::bytes);
        let default_max = || bytes(self.min).map_or(self.limit.bytes() / 4, |min| min.saturating_mul(3));
        let max = bytes(self.max).unwrap_or_else(default_max);
        let min = bytes(self.min).unwrap_or(max / 3);
        let limit = self.limit.bytes();
        let has_limit = IN_32_BITS.contains(&limit);
        errors.check(has_limit, "limit", OUT_OF_RANGE);
        if has_limit || self.min.is_some() || self.max.is_some() {
            let remedy = if self.min.is_some() { "" } else { "; the default is a third of max, so set min" };
            errors.check(min > 0, "min", format_args!("must be at least 1B{remedy}"));
            errors.check(min == 0 || max > min, "max", format_args!("must exceed min ({min}B)"));
        }
        let remedy =
            "otherwise the queue is full before RED drops early; for a queue without RED, use `drop-tail`";
        let is_effective = !has_limit || limit > min;
        errors.check(is_effective, "limit", format_args!("must exceed min ({min}B); {remedy}"));
        errors.finish((min, max))
    }

    /// Returns the parameters as the kernel stores them. All parameters are checked except those of the idle table.
    ///
    /// # Errors
    /// Returns an error for every parameter that Linux does not have, is out of range, contradicts another parameter or
    /// has no effect.
    fn parms(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let thresholds = errors.take(self.thresholds());
        let linux61_only =
            [("harddrop", self.harddrop), ("nodrop", self.nodrop), ("adaptive", self.adaptive)];
        for (name, is_on) in linux61_only {
            let exists = self.kernel != Kernel::Linux24;
            errors.check(exists || !is_on, name, "does not exist in Linux 2.4; omit it");
        }
        errors.check_effect(self.red.ecn, self, &["harddrop", "nodrop"], "without ecn");
        errors.check_effect(self.adaptive, self, &["start"], "without adaptive");
        let has_packet = self.red.check_packet(&mut errors);
        let probability = self.red.probability;
        let is_share = probability > 0.0 && probability <= 1.0;
        let problem = format_args!("must be above 0 and at most 1 (got {probability})");
        errors.check(is_share, "probability", problem);
        // Derived values can be checked only if the values on which they depend are valid.
        let options = thresholds.map(|thresholds| self.red.options(thresholds, 'B'));
        let max_p = options.filter(|_| is_share).and_then(|options| errors.take(self.max_p(options)));
        let weight_log = options.filter(|_| has_packet).and_then(|options| errors.take(options.weight_log()));
        let values = thresholds.zip(weight_log).zip(max_p);
        let (((min, max), weight_log), max_p) = errors.finish_some(values)?;
        Ok(Parms::new(min, max, weight_log, max_p))
    }

    /// Returns the initial `max_P`.
    fn max_p(&self, options: TcOptions) -> Result<MaxP, ConfigError> {
        if self.kernel == Kernel::Linux24 {
            let slope = 1 << (32 - options.probability_log()?);
            return Ok(MaxP { value: slope * (options.max - options.min), slope });
        }
        options.max_p()
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut parms = self.parms()?;
        if self.adaptive && self.start.is_settled() {
            parms.max_p = settled_max_p(&parms);
        }
        let (clock, admission) = match self.kernel {
            Kernel::Linux24 => (Clock::Micros, Admission::UntilBeyond),
            Kernel::Linux61 => (Clock::Ticks, Admission::WhatFits),
        };
        let idle = IdleTable::new(parms.weight_log, self.red.avpkt, self.bandwidth.unwrap_or(rate), clock)?;
        Ok(Box::new(LinuxRed {
            idle,
            idle_since: Some(Instant::START),
            parms,
            vars: Vars::default(),
            start: self.start,
            next_adaptation: if self.adaptive {
                Instant::START + ADAPTATION_INTERVAL
            } else {
                Instant::NEVER
            },
            ecn: self.red.ecn,
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
        Some(self.parms().ok()?.curve().probability(average))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Ok(parms) = self.parms() else { return Vec::new() };
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
        let Parms { min, max, .. } = self.parms().ok()?;
        let Self { limit, red: TcRed { ecn, .. }, harddrop, adaptive, nodrop, .. } = self;
        Some(json!({
            "kind": "red", "limit": limit.bytes(), "min": min, "max": max, "ecn": ecn, "harddrop": harddrop,
            "adaptive": adaptive, "nodrop": nodrop,
        }))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let (parms, bandwidth) = (self.parms()?, self.bandwidth.unwrap_or(rate));
        let options = self.red.options((parms.min, parms.max), 'B');
        let idle = IdleTable::new(parms.weight_log, self.red.avpkt, bandwidth, Clock::Ticks)?;
        let of_today = "cannot be expressed by tc: Linux 2.4 had another RED, so set \"6.1\"";
        options
            .add_tc(Qdisc::new("red").count("limit", self.limit.bytes()), Some(bandwidth))
            .flag(self.red.ecn, "ecn")
            .flag(self.harddrop, "harddrop")
            .flag(self.nodrop, "nodrop")
            .flag(self.adaptive, "adaptive")
            .computes("ewma", parms.weight_log.into())
            .computes("Scell_log", idle.cell_log.into())
            .rejected_unless(self.kernel == Kernel::Linux61, "kernel", of_today)
            .finish()
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
    /// Returns `max_P` after one adjustment, which moves the average towards the midpoint between the thresholds
    /// (`red_adaptative_algo`).
    fn step(self, average: u64, min: u64, max: u64) -> Self {
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

/// A queue with Linux's RED.
#[derive(Clone)]
pub struct LinuxRed {
    idle: IdleTable,
    idle_since: Option<Instant>,
    parms: Parms,
    vars: Vars,
    /// Time of the next adjustment of `max_P`; without `adaptive`, the timer never expires.
    next_adaptation: Instant,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
    marks_ect1: bool,
    start: Start,
    counts: Counts,
    fifo: Fifo,
}

/// Returns `max_P` after an idle time that is so long that `max_P` no longer decreases.
fn settled_max_p(parms: &Parms) -> MaxP {
    let mut max_p = parms.max_p;
    loop {
        let next = max_p.step(0, parms.min, parms.max);
        if next.value >= max_p.value {
            return max_p;
        }
        max_p = next;
    }
}

/// The counters that `tc -s` prints.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Packets dropped or marked before the queue was full (`overlimits`).
    selected: u64,
    /// Selected packets that were marked.
    marked: u64,
    /// Selected packets that were dropped.
    early: u64,
    pdrop: u64,
}

impl LinuxRed {
    /// Executes all adjustments of `max_P` that are due up to `now`.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        if self.next_adaptation <= now {
            self.adapt_until(now);
        }
    }

    #[cold]
    fn adapt_until(&mut self, now: Instant) {
        while self.next_adaptation <= now {
            let average = match self.idle_since {
                Some(since) => self.vars.after_idle(&self.idle, since, self.next_adaptation),
                None => self.vars.average,
            };
            let Parms { min, max, weight_log, max_p, .. } = self.parms;
            self.parms.max_p = max_p.step(average >> weight_log, min, max);
            self.next_adaptation += ADAPTATION_INTERVAL;
        }
    }

    /// Drops, marks or enqueues `packet`. Returns `true` if the packet has joined the queue.
    fn apply(&mut self, reason: Option<Reason>, mut packet: Packet, cx: &mut Context<'_>) -> bool {
        if let Some(reason) = reason {
            self.counts.selected += 1;
            if self.may_mark(packet.ecn, reason) {
                self.counts.marked += 1;
                if self.fifo.has_room_for(&packet) {
                    cx.mark(&mut packet, reason);
                }
            } else if !self.passes(reason) {
                self.counts.early += 1;
                cx.drop_on(packet, reason, self.parms.evidence(&self.vars, 0, reason));
                return false;
            }
        }
        if !self.fifo.has_room_for(&packet) {
            self.counts.pdrop += 1;
            cx.drop_on(packet, Reason::Overflow, self.parms.evidence(&self.vars, 0, Reason::Overflow));
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

    /// Returns whether a packet that was selected, but cannot be marked, is enqueued.
    fn passes(&self, reason: Reason) -> bool {
        self.nodrop && (reason == Reason::Early || !self.harddrop)
    }
}

impl QueueDiscipline for LinuxRed {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() && self.next_adaptation < Instant::NEVER {
            self.next_adaptation = first_instant(ADAPTATION_INTERVAL, chance);
        }
    }

    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        let idle_since = self.idle_since.take();
        let queue = self.fifo.backlog().bytes;
        let decayed = idle_since.map(|since| self.vars.after_idle(&self.idle, since, cx.now));
        self.parms.observe(&mut self.vars, queue, decayed);
        let reason = self.parms.decide(&mut self.vars, 0, cx.rng);
        if !self.apply(reason, packet, cx) && idle_since.is_some() {
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
        if self.next_adaptation != Instant::NEVER {
            show(Gauge::number("max_p", curve.max_p));
        }
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let Counts { selected, marked, early, pdrop } = self.counts;
        json!({"marked": marked, "early": early, "pdrop": pdrop, "other": 0, "overlimits": selected})
    }
}
