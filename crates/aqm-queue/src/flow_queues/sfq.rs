//! SFQ: assigns flows to queues by a hash; queues take turns, and the longest queue loses a packet when the limit is
//! exceeded.
//!
//! P. E. McKenney, "Stochastic Fairness Queueing", INFOCOM 1990, as implemented in `net/sched/sch_sfq.c` of Linux 6.1
//! (A. Kuznetsov; E. Dumazet). The parameters have the same names as in `tc`:
//! - A hash assigns each packet to one of `divisor` buckets. A bucket with packets occupies one of `flows` queues. If a
//!   packet arrives in a bucket without a queue and no queue is free, the packet is dropped. When a queue becomes
//!   empty, any bucket may occupy it.
//! - When a packet arrives at an empty queue, the queue joins the end of the round with a deficit of one quantum
//!   (`allot`). The queue at the head of the round sends while its deficit is positive. Then this queue gets another
//!   quantum and moves to the end of the round.
//! - A queue that contains `depth` packets drops the arriving packet, or, with `headdrop`, its oldest packet.
//! - If more than `limit` packets are then queued, the longest queue (in packets) drops its newest packet, or, with
//!   `headdrop`, its oldest packet. The queues are listed by their number of packets, so that the longest queue is
//!   found without a search. If several queues share the greatest length, the queue whose length changed last is
//!   selected. If each queue has one packet, the queue at the head of the round loses its packet. Setting `limit`
//!   reduces `flows` to the same number, so this last case occurs only if `limit` is not set.
//! - The hash changes every `perturb`. The queued packets move to their new buckets, queue by queue and in order, and
//!   each new queue starts with a deficit of one quantum. A packet is dropped if no queue is free, or if its new queue
//!   is full.
//! - With `redflowlimit`, each queue has its own RED, which counts bytes (`red/linux_core.rs`). RED is applied to
//!   packets that arrive at a non-empty queue, and is reset when the queue becomes active. With `headdrop`, the oldest
//!   packet is dropped or marked instead of the arriving packet.
//!
//! The deficit counts bytes, as in the kernel on which runs were recorded (6.1.192). Older kernels count units of eight
//! bytes, rounded up.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

use std::ops::RangeInclusive;

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span, parameters,
};
use serde_json::{Value, json};

use crate::fair::classifier::Classifier;
use crate::fair::flows::Flows;
use crate::fair::ring::Ring;
use crate::red::linux_core::{Parms, TcRed, Vars, thresholds};
use crate::red::tc;
use crate::start::Start;
use crate::tc::Qdisc;
use crate::{Build, Context, Derived, Describe, Evidence, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// SFQ: assigns flows to queues by a hash; queues take turns, and the longest queue loses a packet when the limit
    /// is exceeded.
    ///
    /// The algorithm is the one in Linux. With `redflowlimit`, each queue has its own RED.
    ///
    /// Differences from Linux:
    ///
    /// - The hash is computed from the flow number and a salt drawn from the queue's random stream. The kernel hashes
    ///   addresses, ports and protocol. `tc` filters are not supported.
    /// - `perturb` may be any time; `tc` accepts whole seconds. An expired timer takes effect at the next arrival or
    ///   departure.
    /// - As in `tc`, RED's thresholds are derived from `redflowlimit`. Neither the kernel nor aqmlab limits a queue to
    ///   this size.
    /// - The deficit counts bytes, as in Linux 6.1.192. Older kernels count units of eight bytes, rounded up.
    pub struct Config {
        /// Maximum backlog of all queues together, in packets, excluding the packet in transmission. The backlog never
        /// exceeds `flows` times `depth` packets. Default: 127p.
        pub limit: Option<Length> = None, "tc-sfq";
        /// Maximum number of packets in a queue.
        pub depth: u32 = 127, "tc-sfq";
        /// Number of queues. A number above `divisor` is reduced to `divisor`. If `limit` is set, a number above
        /// `limit` is reduced to `limit`.
        pub flows: u32 = 128, "Linux";
        /// Number of hash buckets, a power of two.
        pub divisor: u32 = 1024, "tc-sfq";
        /// Quantum: number of bytes that a queue may send per turn.
        pub quantum: Size = Size::from_bytes(1514), "Linux: psched_mtu on Ethernet";
        /// Interval between changes of the hash, which ensure that no two flows share a queue permanently. If omitted,
        /// the hash does not change.
        pub perturb: Option<Span> = None, "tc-sfq";
        /// Whether the oldest packet of a queue is dropped instead of the newest or the arriving packet.
        pub headdrop: bool = false, "tc-sfq";
        /// Queue size in bytes, from which any RED thresholds that are not set are derived. Setting this parameter
        /// enables RED for each queue. If omitted, RED is disabled.
        pub redflowlimit: Option<Size> = None, "tc-sfq";
        /// Average backlog of a queue below which RED does not drop or mark packets. Default: a third of `max`.
        pub min: Option<Size> = None, "tc-sfq, after Floyd 1997";
        /// Average backlog of a queue at or above which RED drops or marks every packet. Default: a quarter of
        /// `redflowlimit`.
        pub max: Option<Size> = None, "tc-sfq, after Floyd 1997";
        /// RED's parameters other than the thresholds.
        #[serde(flatten)]
        pub red: TcRed = TcRed::default();
        /// Whether RED drops packets even with `ecn` if the average is at least `max`.
        pub harddrop: bool = false, "tc-sfq";
        /// State of the `perturb` timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts at the beginning of the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

/// The default of `limit` (`SFQ_MAX_DEPTH`).
const LIMIT: u64 = 127;
/// The maximum number of packets in a queue (`SFQ_MAX_DEPTH`), and the maximum number of queues (`SFQ_MAX_FLOWS`).
const MAX_DEPTH: u32 = 127;
const MAX_FLOWS: u32 = 0x10000 - MAX_DEPTH - 1;
/// The maximum number of buckets.
const MAX_BUCKETS: u32 = 1 << 16;
/// The quanta that fit into the kernel's integers.
const QUANTA: RangeInclusive<u64> = 1..=i32::MAX as u64;

impl Config {
    /// Returns the effective limit and the effective number of queues.
    fn effective(&self) -> (u64, u32) {
        let flows = self.flows.min(self.divisor);
        let Some(limit) = self.limit else { return (LIMIT, flows) };
        let limit = u32::try_from(limit.count()).unwrap_or(u32::MAX);
        let limit = limit.min(self.depth.saturating_mul(flows));
        (limit.into(), flows.min(limit))
    }

    /// Returns RED's parameters as `tc` computes them, if RED is enabled. The other parameters must have been checked.
    fn red_parms(&self) -> Result<Option<Parms>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Some(limit) = self.redflowlimit else {
            let red_parameters = ["min", "max", "probability", "burst", "avpkt", "ecn", "harddrop"];
            errors.check_effect(false, self, &red_parameters, "without redflowlimit");
            return errors.finish(None);
        };
        errors.check_effect(self.red.ecn, self, &["harddrop"], "without ecn");
        self.red.check_packet(&mut errors);
        let bytes = |size: Option<Size>| size.map(Size::bytes);
        let limit = ("redflowlimit", limit.bytes());
        let thresholds = errors.take(thresholds(limit, bytes(self.min), bytes(self.max), 'B'));
        let thresholds = errors.finish_some(thresholds)?;
        self.red.options(thresholds, 'B').parms().map(Some)
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let is_valid = self.limit.is_none_or(|limit| !limit.in_bytes() && limit.count() > 1);
        errors.check(is_valid, "limit", "must be at least 2p, in packets");
        let problem = format_args!("must be from 1 to {MAX_DEPTH} (got {})", self.depth);
        errors.check((1..=MAX_DEPTH).contains(&self.depth), "depth", problem);
        let problem = format_args!("must be from 1 to {MAX_FLOWS} (got {})", self.flows);
        errors.check((1..=MAX_FLOWS).contains(&self.flows), "flows", problem);
        let problem = format_args!("must be a power of two up to {MAX_BUCKETS} (got {})", self.divisor);
        let is_valid = self.divisor.is_power_of_two() && self.divisor <= MAX_BUCKETS;
        errors.check(is_valid, "divisor", problem);
        let problem = format_args!("must be from 1B to {}B (got {})", QUANTA.end(), self.quantum);
        errors.check(QUANTA.contains(&self.quantum.bytes()), "quantum", problem);
        errors.check_effect(self.depth > 1, self, &["quantum"], "with depth = 1");
        errors.check(self.perturb.is_none_or(|every| !every.is_zero()), "perturb", "must be more than 0s");
        errors.check_effect(self.perturb.is_some(), self, &["start"], "without perturb");
        let red = errors.take(self.red_parms()).flatten();
        errors.finish(())?;
        let (limit, flows) = self.effective();
        Ok(Box::new(Sfq {
            classifier: Classifier::new(Some(self.divisor), self.perturb)?,
            perturbs: self.perturb.is_some(),
            start: self.start,
            slot_of: vec![NONE; self.divisor as usize],
            slots: vec![Slot::default(); flows as usize],
            packets: Flows::numbered(flows),
            round: Ring::default(),
            lengths: Lengths::new(flows),
            limit,
            depth: self.depth.into(),
            quantum: self.quantum.bytes() as i64,
            headdrop: self.headdrop,
            red: red.map(|parms| Red { parms, ecn: self.red.ecn, harddrop: self.harddrop }),
            counts: Counts::default(),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        Some(self.red_parms().ok()??.curve().probability(average))
    }

    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let mut derived = Vec::new();
        let (limit, flows) = self.effective();
        if self.limit != Some(Length::Packets(limit)) {
            derived.push(Derived::new("limit", limit as f64, "packets"));
        }
        if flows != self.flows {
            derived.push(Derived::new("flows", flows.into(), ""));
        }
        if let Ok(Some(parms)) = self.red_parms() {
            let red = [("min", self.min, parms.min), ("max", self.max, parms.max)];
            for (name, _, value) in red.iter().filter(|(_, given, _)| given.is_none()) {
                derived.push(Derived::new(name, *value as f64, "bytes"));
            }
            derived.push(Derived::new("weight", tc::power_of_half(parms.weight_log), ""));
            derived.push(Derived::new("max_p", parms.curve().max_p, ""));
        }
        derived
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let (limit, _) = self.effective();
        let mut options = json!({
            "kind": "sfq", "limit": limit, "quantum": self.quantum.bytes(), "depth": self.depth,
            "divisor": self.divisor,
        });
        if self.headdrop {
            options["headdrop"] = json!(true);
        }
        if let Some(every) = self.perturb {
            options["perturb"] = json!(every.nanos() / 1_000_000_000);
        }
        if let Some(Parms { min, max, weight_log, max_p, .. }) = self.red_parms().ok()? {
            options["ewma"] = json!(weight_log);
            options["min"] = json!(min);
            options["max"] = json!(max);
            options["probability"] = json!(libm::ldexp(max_p.value as f64, -32));
            options["ecn"] = json!(self.red.ecn);
            options["harddrop"] = json!(self.harddrop);
            options["adaptive"] = json!(false);
            options["nodrop"] = json!(false);
        }
        Some(options)
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let (limit, flows) = self.effective();
        let sfq =
            Qdisc::new("sfq").with("flows", flows).with("divisor", self.divisor).with("depth", self.depth);
        // Without `limit`, the kernel does not reduce the number of queues to the limit.
        let sfq = if self.limit.is_some() { sfq.with("limit", limit) } else { sfq };
        let period = self.perturb.map_or(0, |every| every.nanos().div_ceil(1_000_000_000));
        let sfq = sfq
            .count("quantum", self.quantum.bytes())
            .count("perturb", period)
            .flag(self.headdrop, "headdrop")
            .limit_if(
                self.perturb.is_some_and(|every| !every.nanos().is_multiple_of(1_000_000_000)),
                "perturb",
                || {
                    format!(
                        "tc counts whole seconds, so {}ns becomes {period}s",
                        self.perturb.unwrap_or_default().nanos()
                    )
                },
            );
        let (Some(size), Some(parms)) = (self.redflowlimit, self.red_parms()?) else { return sfq.finish() };
        let options = self.red.options((parms.min, parms.max), 'B');
        let red = options.add_tc(sfq.count("redflowlimit", size.bytes()), None);
        let red = red.flag(self.red.ecn, "ecn").flag(self.harddrop, "harddrop");
        red.computes("ewma", parms.weight_log.into()).finish()
    }
}

impl TestCases for Config {
    fn has_flow_queues(&self) -> bool {
        true
    }

    fn max_backlog(&self) -> Option<Length> {
        Some(Length::Packets(self.effective().0))
    }

    fn corners(&self) -> Vec<Value> {
        let red = |change: Value| {
            let mut table = json!({
                "limit": "40p", "divisor": 4, "quantum": "300B", "redflowlimit": "24kB", "min": "2000B",
                "max": "9kB", "probability": 0.5,
            });
            table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
            table
        };
        vec![
            json!({"limit": "9p", "divisor": 2, "quantum": "70B", "perturb": "3ms"}),
            json!({"flows": 200, "depth": 2}),
            json!({"limit": "20p", "depth": 3, "flows": 2, "headdrop": true, "perturb": "50ms"}),
            json!({"limit": "2p", "divisor": 4, "depth": 1}),
            red(json!({"ecn": true})),
            red(json!({"ecn": true, "headdrop": true, "harddrop": true, "perturb": "10ms"})),
            red(json!({"depth": 5, "headdrop": true, "burst": 9})),
        ]
    }
}

/// The slot number of a bucket without a queue.
const NONE: u32 = u32::MAX;

/// An SFQ queue.
#[derive(Clone)]
struct Sfq {
    classifier: Classifier,
    perturbs: bool,
    start: Start,
    /// The slot of each bucket that has packets.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    /// The packets of each slot.
    packets: Flows<()>,
    /// The slots with packets, in the order of service.
    round: Ring,
    lengths: Lengths,
    limit: u64,
    depth: u64,
    quantum: i64,
    headdrop: bool,
    red: Option<Red>,
    counts: Counts,
}

/// A slot, which contains the queue of one bucket.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The bucket whose packets the queue contains.
    bucket: u32,
    allot: i64,
    red: Vars,
}

/// The RED parameters and counters that all queues share.
#[derive(Clone, Copy)]
struct Red {
    parms: Parms,
    ecn: bool,
    harddrop: bool,
}

/// The counters of RED that `tc -s` prints.
#[derive(Clone, Copy, Default)]
struct Counts {
    prob: Decisions,
    forced: Decisions,
}

/// The outcomes of RED's random or forced decisions.
#[derive(Clone, Copy, Default)]
struct Decisions {
    mark: u64,
    mark_head: u64,
    drop: u64,
}

impl QueueDiscipline for Sfq {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.classifier.draw_phase(chance);
        }
    }

    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        if self.classifier.renew_salt(cx.now, cx.rng) {
            self.rehash(cx);
        }
        let bucket = self.classifier.key(&packet);
        let slot = match self.slot_of[bucket as usize] {
            NONE => match self.open(bucket) {
                Some(slot) => slot,
                None => return cx.drop(packet, Reason::Overflow),
            },
            slot => {
                let judged = self.judge(slot, &mut packet, cx);
                let is_full = self.packets.of(slot).packets >= self.depth;
                if let Some(why) = judged.or(is_full.then_some(Reason::FlowLimit)) {
                    let evidence = self.evidence(slot, why);
                    if !self.headdrop {
                        return cx.drop_on(packet, why, evidence);
                    }
                    let oldest = self.packets.take_front(slot).packet;
                    cx.drop_on(oldest, why, evidence);
                    return self.packets.push(slot, packet, ());
                }
                slot
            }
        };
        self.add(slot, packet);
        if self.packets.backlog().packets > self.limit {
            self.drop_from_longest(cx);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if self.perturbs && self.classifier.renew_salt(cx.now, cx.rng) {
            self.rehash(cx);
        }
        loop {
            let first = self.round.front()?;
            let slot = &mut self.slots[first as usize];
            if slot.allot <= 0 {
                slot.allot += self.quantum;
                self.round.rotate();
                continue;
            }
            let packet = self.packets.take_front(first).packet;
            slot.allot -= i64::from(packet.bytes);
            self.on_removed(first);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }
}

impl Report for Sfq {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("flows", self.round.len().into(), "flows"));
        show(Gauge::new("cur_depth", self.lengths.longest.into(), "packets"));
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        if self.red.is_none() {
            return Value::Null;
        }
        let Counts { prob, forced } = self.counts;
        let picked =
            [prob, forced].iter().map(|count| count.mark + count.mark_head + count.drop).sum::<u64>();
        // `tc` prints the counters of RED among the options.
        let options = json!({
            "prob_mark": prob.mark, "prob_mark_head": prob.mark_head, "prob_drop": prob.drop,
            "forced_mark": forced.mark, "forced_mark_head": forced.mark_head, "forced_drop": forced.drop,
        });
        json!({"options": options, "overlimits": picked})
    }
}

impl Sfq {
    /// Assigns a free slot to `bucket`, which must not have a slot yet, and returns the slot. Returns `None` if all
    /// slots are in use.
    fn open(&mut self, bucket: u32) -> Option<u32> {
        let slot = self.lengths.first(0)?;
        self.slots[slot as usize] = Slot { bucket, allot: 0, red: Vars::default() };
        self.slot_of[bucket as usize] = slot;
        Some(slot)
    }

    /// Appends `packet` to `slot`.
    #[inline(always)]
    fn add(&mut self, slot: u32, packet: Packet) {
        self.packets.push(slot, packet, ());
        let length = self.packets.of(slot).packets as u32;
        self.lengths.grow(slot, length);
        if length == 1 {
            self.round.push_back(slot, ());
            self.slots[slot as usize].allot = self.quantum;
        }
    }

    /// Updates the lists after a packet was removed from `slot`.
    #[inline(always)]
    fn on_removed(&mut self, slot: u32) {
        let length = self.packets.of(slot).packets as u32;
        self.lengths.shrink(slot, length);
        if length == 0 {
            self.slot_of[self.slots[slot as usize].bucket as usize] = NONE;
            self.round.remove(slot);
        }
    }

    /// Returns the numbers that led to the drop of a packet of the queue in `slot`.
    #[cold]
    fn evidence(&self, slot: u32, why: Reason) -> Evidence {
        let evidence = |red: &Red| red.parms.evidence(&self.slots[slot as usize].red, 0, why);
        self.red.as_ref().map(evidence).unwrap_or_default()
    }

    /// Applies RED to a packet that arrives at a non-empty `slot`. Marks the packet if necessary. Returns the reason if
    /// a packet must be dropped.
    fn judge(&mut self, slot: u32, packet: &mut Packet, cx: &mut Context<'_>) -> Option<Reason> {
        let Red { parms, ecn, harddrop } = self.red.as_ref()?;
        let vars = &mut self.slots[slot as usize].red;
        parms.sample(vars, self.packets.of(slot).bytes);
        let why = parms.decide(vars, 0, cx.rng)?;
        let is_forced = why == Reason::Forced;
        let count = if is_forced { &mut self.counts.forced } else { &mut self.counts.prob };
        if *ecn && !(is_forced && *harddrop) {
            let head = self.packets.head_mut(slot);
            if self.headdrop && head.ecn.can_be_marked() {
                cx.mark(head, why);
                count.mark_head += 1;
                return None;
            }
            if packet.ecn.can_be_marked() {
                cx.mark(packet, why);
                count.mark += 1;
                return None;
            }
        }
        count.drop += 1;
        Some(why)
    }

    /// Drops a packet from the longest queue.
    #[inline(never)]
    fn drop_from_longest(&mut self, cx: &mut Context<'_>) {
        let slot = match self.lengths.longest {
            // If the longest queue has one packet, every queue has one packet.
            1 => self.round.front(),
            longest => self.lengths.first(longest),
        };
        let slot = slot.expect("the queue is not empty");
        let removed =
            if self.headdrop { self.packets.take_front(slot) } else { self.packets.take_back(slot) };
        self.on_removed(slot);
        cx.drop(removed.packet, Reason::Overflow);
    }

    /// Moves the queued packets to their new buckets after the hash has changed.
    #[cold]
    fn rehash(&mut self, cx: &mut Context<'_>) {
        let mut waiting = Vec::with_capacity(self.packets.backlog().packets as usize);
        for slot in 0..self.slots.len() as u32 {
            while self.packets.of(slot).packets > 0 {
                waiting.push(self.packets.take_front(slot).packet);
                self.on_removed(slot);
            }
        }
        for packet in waiting {
            let bucket = self.classifier.key(&packet);
            let slot = match self.slot_of[bucket as usize] {
                NONE => self.open(bucket),
                slot => Some(slot),
            };
            let Some(slot) = slot else {
                cx.drop(packet, Reason::Overflow);
                continue;
            };
            let before = self.packets.of(slot);
            if before.packets >= self.depth {
                cx.drop(packet, Reason::FlowLimit);
                continue;
            }
            if let Some(Red { parms, .. }) = &self.red {
                parms.sample(&mut self.slots[slot as usize].red, before.bytes);
            }
            self.add(slot, packet);
        }
    }
}

/// The slots, grouped by queue length. There is one list per length, which begins with the slot that reached this
/// length most recently.
#[derive(Clone)]
struct Lengths {
    /// The neighbours of each slot in its list, followed by the first and the last slot of each list, from length 0 on.
    links: Vec<Link>,
    slots: u32,
    /// The length of the longest queue (`cur_depth`).
    longest: u32,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

impl Lengths {
    fn new(slots: u32) -> Self {
        let alone = |at| Link { before: at, after: at };
        let mut lengths = Self { links: (0..=slots + MAX_DEPTH).map(alone).collect(), slots, longest: 0 };
        (0..slots).for_each(|slot| lengths.link(slot, 0));
        lengths
    }

    /// Returns the first slot whose queue has this length.
    fn first(&self, length: u32) -> Option<u32> {
        let first = self.links[(self.slots + length) as usize].after;
        (first < self.slots).then_some(first)
    }

    /// Records that the queue of `slot` has grown to `length`.
    #[inline]
    fn grow(&mut self, slot: u32, length: u32) {
        self.unlink(slot);
        self.longest = self.longest.max(length);
        self.link(slot, length);
    }

    /// Records that the queue of `slot` has shrunk to `length`.
    #[inline]
    fn shrink(&mut self, slot: u32, length: u32) {
        self.unlink(slot);
        if self.longest == length + 1 && self.first(length + 1).is_none() {
            self.longest = length;
        }
        self.link(slot, length);
    }

    fn link(&mut self, slot: u32, length: u32) {
        let end = self.slots + length;
        let after = std::mem::replace(&mut self.links[end as usize].after, slot);
        self.links[slot as usize] = Link { before: end, after };
        self.links[after as usize].before = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Link { before, after } = self.links[slot as usize];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn length_lists_yield_the_longest_queue_that_changed_last(
            steps in prop::collection::vec((0_u32..5, any::<bool>()), 1..300),
        ) {
            let mut lengths = Lengths::new(5);
            let (mut plain, mut changed, mut clock) = ([0_u32; 5], [0, 1, 2, 3, 4], 5);
            for (slot, grows) in steps {
                let length = &mut plain[slot as usize];
                if grows && *length < MAX_DEPTH {
                    *length += 1;
                    lengths.grow(slot, *length);
                } else if !grows && *length > 0 {
                    *length -= 1;
                    lengths.shrink(slot, *length);
                } else {
                    continue;
                }
                changed[slot as usize] = clock;
                clock += 1;
                let longest = *plain.iter().max().unwrap();
                prop_assert_eq!(lengths.longest, longest);
                for length in 0..=longest {
                    let of_length = (0..5_u32).filter(|slot| plain[*slot as usize] == length);
                    let last = of_length.max_by_key(|slot| changed[*slot as usize]);
                    prop_assert_eq!(lengths.first(length), last);
                }
            }
        }
    }
}
