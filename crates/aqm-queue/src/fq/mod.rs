//! fq: flows take turns, those that have just begun to send first, and each may be paced.
//!
//! `net/sched/sch_fq.c` of Linux 6.1 and 6.18 (E. Dumazet, 2013 on), in the words of the command `tc`:
//! - A flow is a socket, and begins with a credit of `initial_quantum`. Packets without a socket (`orphans`) are hashed
//!   into `orphan_mask` and one flows.
//! - What arrives is refused if `limit` packets wait, or `flow_limit` of its flow.
//! - A flow that gets a packet and is in no list joins that of the new flows. If it has been in none for longer than
//!   `refill_delay`, its credit is a quantum at least; but what it owes it still owes, for the kernel compares without
//!   signs.
//! - The first of the new flows is served, without any the first of the old ones. Whose credit is not above nought gets
//!   a quantum and goes to the end of the old ones. A flow that turns out to be empty goes, if it is new and there are
//!   old ones, to the end of these; otherwise it leaves the lists. With nothing waiting at all nobody is looked at.
//! - Pacing, by `maxrate`: a flow whose credit is spent rests for as long as what it sent last, or a quantum if that is
//!   more, takes at that rate; at most a second (`pkts_too_long`). If it sent late, it rests for less by so much, but for
//!   half at least. At `low_rate_threshold` or less every packet spends all credit. Who would send before the rest is
//!   over is throttled: out of the lists until then, and back at the end of the old ones.
//! - A packet that leaves later by more than `ce_threshold` than it came, or than its pace allowed, is marked if it can
//!   be; `ce_mark` counts it in any case.
//! - Idle flows are remembered. If there are two for each of `buckets`, and more than half of all are idle, an arrival
//!   makes up to eight forgotten that have been so for more than three seconds, but not its own.
//!
//! Since Linux 6.7 (profile `6.18`):
//! - There are three bands of flows (`bands.rs`), by the priority of packets. A band sends until its weight in bytes is
//!   spent, then the next one has its turn. `limit` is that of a band. A flow that was never seen joins the new flows of
//!   the first band, whatever its packet's, for the kernel notes the band only afterwards; then it is in its own.
//! - Packets that find nothing waiting, or nothing but up to seven such packets, pass on the fast path, a queue of their
//!   own that goes first: without a flow, a band, credit or a mark. With `maxrate` there is no fast path.
//! - A new flow that turns out to be empty always goes to the end of the old ones.
//! - Any arrival makes up to eight flows of its bucket forgotten that have been idle for more than three seconds.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

mod bands;

use std::ops::RangeInclusive;

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::fair::classifier::{Classifier, mix};
use crate::fair::flows::Flows;
use crate::fair::heap::Heap;
use crate::fair::ring::Ring;
use crate::{Build, Context, Fifo, Gauge, Label, QueueDiscipline, Reason};
use bands::{BANDS, Band};

parameters! {
    /// The kernel's fq: flows take turns, those that have just begun to send first, and each is paced if it has a rate.
    ///
    /// As Linux has it on the line of a sender. Our senders set no pacing rates and no departure times, so a flow is
    /// paced by `maxrate` alone.
    ///
    /// Differences from Linux:
    ///
    /// - Packets bring no pacing rate of their sender (`sk_pacing_rate`), which the kernel takes if it is less than
    ///   `maxrate`. So without `maxrate` nothing is paced.
    /// - Packets bring no time at which they are to leave (`SO_TXTIME`; TCP of the kernel sets one on each), so
    ///   `horizon` and `horizon_drop` would never act. A flow is paced as packets without a departure time are, those
    ///   of UDP and those that are forwarded. Packets with one rest after each packet, at high rates, too.
    /// - Control packets (`TC_PRIO_CONTROL`), which pass all flows by in Linux 6.1 (`highprio`), do not exist: only a
    ///   local program makes one, by `SO_PRIORITY`.
    /// - Each connection is a socket. A router that forwards for others has `orphans` only, told apart by a hash over
    ///   the number of the flow and a salt from the random stream of the queue.
    /// - The flows that are forgotten are the idlest, since Linux 6.7 the first of the bucket. In the kernel they are those
    ///   that the search for a flow meets in the tree of its bucket.
    /// - Times are exact. The kernel counts `refill_delay` and idle times in ticks of its clock.
    /// - Since Linux 6.7 the priority of a packet is that which forwarding gives it by its code point. Programs that set
    ///   another (`SO_PRIORITY`) do not exist.
    /// - `offload_horizon` does not exist: the kernel refuses it unless the device paces packets itself, and lines do not.
    pub struct Config {
        /// Whose fq this is.
        pub kernel: Kernel = Kernel::Linux61, "ours: as `linux-red`";
        /// The most packets that may wait, all flows together, since Linux 6.7 those of a band; the packet on the line is
        /// not counted.
        pub limit: Length = Length::Packets(10_000), "tc-fq";
        /// The most packets that may wait of a flow.
        pub flow_limit: Length = Length::Packets(100), "tc-fq";
        /// Bytes that a turn is worth.
        pub quantum: Size = Size::from_bytes(3028), "tc-fq: two full packets of Ethernet";
        /// Bytes that the first turn of a flow is worth.
        pub initial_quantum: Size = Size::from_bytes(15_140), "tc-fq: ten full packets of Ethernet";
        /// Whether flows are paced.
        pub pacing: bool = true, "tc-fq";
        /// The rate of each flow at most. Left out: none is paced.
        pub maxrate: Option<Rate> = None, "tc-fq";
        /// The `maxrate` up to which every packet is spaced; beyond, those that a turn is worth leave together.
        pub low_rate_threshold: Rate = Rate::from_bps(550_000), "tc-fq";
        /// The time without packets after which a flow has credit for a turn.
        pub refill_delay: Span = Span::from_millis(40), "tc-fq";
        /// Packets that leave later by more than this than they might have are marked if they can be. Left out: none
        /// are.
        pub ce_threshold: Option<Span> = None, "tc-fq";
        /// Whether packets come from elsewhere, as in a router, and have no socket: flows are hashed.
        pub orphans: bool = false, "ours: the line of a sender";
        /// The bits of the hash by which `orphans` are told apart: 1023 for 1024 flows.
        pub orphan_mask: u32 = 1023, "tc-fq";
        /// Half the flows that are remembered at least, idle ones too; rounded up to a power of two. Since Linux 6.7 the
        /// buckets of which an arrival looks at one for flows to forget.
        pub buckets: u32 = 1024, "tc-fq";
        /// How much later than at the end of a rest the timer may go off that ends it. It does so as late as that, unless a
        /// packet arrives before.
        pub timer_slack: Span = Span::from_nanos(10_000), "tc-fq";
        /// The band of each of the 16 priorities, of which the code point chooses one: 0 best effort, 2 bulk, 4 interactive
        /// bulk, 6 interactive.
        pub priomap: Vec<u32> = bands::priomap(), "tc-fq, since Linux 6.7";
        /// The bytes that a turn of each band is worth.
        pub weights: Vec<u32> = bands::weights(), "tc-fq, since Linux 6.7";
    }
}

choices! {
    /// Kernels between which fq has changed.
    pub enum Kernel {
        /// Linux 6.1: one band.
        Linux61 = "6.1",
        /// Linux 6.18, since 6.7: bands and a fast path.
        Linux618 = "6.18",
    }
}

/// The greatest quantum that the kernel takes, and the greatest credit that it can count.
const QUANTA: RangeInclusive<u64> = 1..=1 << 20;
const CREDITS: RangeInclusive<u64> = 0..=i32::MAX as u64;
/// The most buckets.
const MOST_BUCKETS: u32 = 1 << 18;
/// The bytes per second that the kernel can be told; the greatest number is no rate.
const RATES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;
/// The longest rest.
const LONGEST_REST: u64 = 1_000_000_000;
/// How long a flow must have been idle to be forgotten (`FQ_GC_AGE`), and how many are at once (`FQ_GC_MAX`).
const GC_AGE: Span = Span::from_millis(3000);
const GC_MAX: u32 = 8;
/// The packets from which on the fast path takes no more.
const FAST_PATH: u64 = 8;

impl Config {
    fn buckets(&self) -> u32 {
        self.buckets.clamp(2, MOST_BUCKETS).next_power_of_two()
    }
}

/// As the kernel is told it.
fn bytes_per_second(rate: Rate) -> u64 {
    rate.bps() / 8
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (place, length) in [("limit", self.limit), ("flow_limit", self.flow_limit)] {
            let is_right = !length.in_bytes() && length.count() > 0;
            errors.check(is_right, place, "must be at least 1p, and in packets");
        }
        let low_rate = bytes_per_second(self.low_rate_threshold);
        let problem = format_args!("must be at most {}bps", u64::from(u32::MAX) * 8);
        errors.check(u32::try_from(low_rate).is_ok(), "low_rate_threshold", problem);
        let problem = format_args!("must be from 1B to {}B, not {}", QUANTA.end(), self.quantum);
        errors.check(QUANTA.contains(&self.quantum.bytes()), "quantum", problem);
        let problem = format_args!("must be at most {}B", CREDITS.end());
        errors.check(CREDITS.contains(&self.initial_quantum.bytes()), "initial_quantum", problem);
        if let Some(rate) = self.maxrate {
            let problem = format_args!("must be from 8bps to {}bps, not {rate}", RATES.end() * 8);
            errors.check(RATES.contains(&bytes_per_second(rate)), "maxrate", problem);
        }
        errors.check_effect(self.pacing, self, &["maxrate"], "without pacing");
        let of_paced = ["low_rate_threshold", "timer_slack"];
        errors.check_effect(self.maxrate.is_some(), self, &of_paced, "without maxrate");
        let problem = "must be at most 4294967295ns";
        errors.check(u32::try_from(self.timer_slack.nanos()).is_ok(), "timer_slack", problem);
        bands::check(&self.priomap, &self.weights, &mut errors);
        let has_bands = self.kernel == Kernel::Linux618;
        errors.check_effect(has_bands, self, &["priomap", "weights"], "before Linux 6.7");
        let is_low = self.maxrate.is_some_and(|rate| bytes_per_second(rate) <= low_rate);
        errors.check_effect(!is_low, self, &["quantum"], "with maxrate up to low_rate_threshold");
        errors.check_effect(self.orphans, self, &["orphan_mask"], "without orphans");
        let problem = format_args!("must be from 2 to {MOST_BUCKETS}, not {}", self.buckets);
        errors.check((2..=MOST_BUCKETS).contains(&self.buckets), "buckets", problem);
        errors.finish(())?;
        let pace = self.maxrate.map(bytes_per_second).map(|rate| Pace { rate, is_low: rate <= low_rate });
        // Any number of 32 bits, of which the mask takes some.
        let hash = self.orphans.then(|| Classifier::new(Some(u32::MAX), None)).transpose()?;
        Ok(Box::new(Fq {
            orphans: hash.map(|hash| (hash, self.orphan_mask)),
            packets: Flows::new(false),
            states: Vec::new(),
            bands: if has_bands {
                self.weights.iter().map(|weight| Band::of_weight(*weight)).collect()
            } else {
                vec![Band::default()]
            },
            served: 0,
            band_of_label: Vec::new(),
            priomap: self.priomap.iter().map(|band| *band as u8).collect(),
            internal: Fifo::new(Length::Packets(u64::MAX)),
            in_buckets: if has_bands { vec![Vec::new(); self.buckets() as usize] } else { Vec::new() },
            timer_slack: self.timer_slack,
            idle: Ring::default(),
            throttled: Heap::new(),
            limit: self.limit.count(),
            flow_limit: self.flow_limit.count(),
            quantum: self.quantum.bytes() as i64,
            initial_quantum: self.initial_quantum.bytes() as i64,
            pace,
            refill_delay: self.refill_delay,
            ce_threshold: self.ce_threshold,
            collect_from: 2 * self.buckets(),
            statistics: Statistics::default(),
        }))
    }

    fn holds_back(&self) -> bool {
        self.maxrate.is_some()
    }

    fn holds_at_most(&self) -> Option<Length> {
        let of_bands =
            Length::Packets(self.limit.count().saturating_mul(BANDS as u64).saturating_add(FAST_PATH));
        (self.kernel == Kernel::Linux618).then_some(of_bands)
    }

    fn has_flow_queues(&self) -> bool {
        true
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let micros = |span: Span| span.nanos() / 1000;
        let mut options = json!({
            "kind": "fq", "limit": self.limit.count(), "flow_limit": self.flow_limit.count(),
            "buckets": self.buckets(), "orphan_mask": self.orphan_mask, "quantum": self.quantum.bytes(),
            "initial_quantum": self.initial_quantum.bytes(), "refill_delay": micros(self.refill_delay),
            "timer_slack": self.timer_slack.nanos(), "horizon": 10_000_000, "horizon_drop": null,
        });
        if self.kernel == Kernel::Linux618 {
            options["bands"] = json!(BANDS);
            options["priomap"] = json!(self.priomap);
            options["weights"] = json!(self.weights);
            options["offload_horizon"] = json!(0);
        }
        if !self.pacing {
            options["pacing"] = json!(false);
        }
        if let Some(rate) = self.maxrate {
            options["maxrate"] = json!(bytes_per_second(rate));
        }
        let low_rate = bytes_per_second(self.low_rate_threshold);
        if low_rate > 0 {
            options["low_rate_threshold"] = json!(low_rate);
        }
        if let Some(threshold) = self.ce_threshold {
            options["ce_threshold"] = json!(micros(threshold));
        }
        Some(options)
    }

    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "20p", "flow_limit": "8p", "quantum": "70B", "initial_quantum": "0B"}),
            json!({"maxrate": "3Mbps", "refill_delay": "1ms", "ce_threshold": "2ms"}),
            json!({"maxrate": "400kbps", "limit": "50p"}),
            json!({"maxrate": "600kbps", "limit": "50p"}),
            json!({"maxrate": "8kbps", "flow_limit": "9p", "orphans": true, "orphan_mask": 1}),
            json!({"ce_threshold": "0s", "pacing": false, "buckets": 2}),
            json!({
                "kernel": "6.18", "limit": "20p", "flow_limit": "8p", "quantum": "500B", "weights": [16384, 20000, 99999],
                "buckets": 2, "ce_threshold": "1ms",
            }),
            json!({
                "kernel": "6.18", "maxrate": "3Mbps", "timer_slack": "1ms", "limit": "30p",
                "priomap": [2, 1, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            }),
        ]
    }
}

/// A flow's rate.
#[derive(Clone, Copy)]
struct Pace {
    /// In bytes per second.
    rate: u64,
    /// Whether every packet is spaced.
    is_low: bool,
}

/// The running discipline.
#[derive(Clone)]
struct Fq {
    /// The hash of packets without a socket, and the bits of it that count.
    orphans: Option<(Classifier, u32)>,
    /// Beside each packet, when it came, and its band.
    packets: Flows<(Instant, u8)>,
    /// By flow.
    states: Vec<State>,
    /// One, or since Linux 6.7 three.
    bands: Vec<Band>,
    /// The band that has its turn.
    served: usize,
    /// By label; that of best effort for packets without one.
    band_of_label: Vec<u8>,
    priomap: Vec<u8>,
    /// The fast path.
    internal: Fifo,
    /// The flows of each bucket, since Linux 6.7.
    in_buckets: Vec<Vec<u32>>,
    timer_slack: Span,
    /// Flows in no list and without packets, the idlest first.
    idle: Ring,
    /// Flows that rest, by when they may send, and the order in which they began to.
    throttled: Heap<(Instant, u64)>,
    limit: u64,
    flow_limit: u64,
    quantum: i64,
    initial_quantum: i64,
    pace: Option<Pace>,
    refill_delay: Span,
    ce_threshold: Option<Span>,
    /// The flows from which on idle ones are forgotten.
    collect_from: u32,
    statistics: Statistics,
}

/// A flow.
#[derive(Clone, Copy)]
struct State {
    credit: i64,
    /// The band of its last packet; the first if there was none.
    band: u8,
    /// When it may send again (`time_next_packet`); the start if it was never paced.
    next: Instant,
    /// Since when it is in no list; `NEVER` while it is in one, or throttled.
    idle_since: Instant,
}

/// What `tc` counts.
#[derive(Clone, Copy, Default)]
struct Statistics {
    flows: u32,
    throttled_flows: u32,
    gc_flows: u64,
    throttled: u64,
    unthrottle_latency: u64,
    ce_mark: u64,
    flows_plimit: u64,
    pkts_too_long: u64,
    fastpath: u64,
}

impl QueueDiscipline for Fq {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let band = self.band_of(packet.label);
        if self.bands[usize::from(band)].packets >= self.limit {
            self.bands[usize::from(band)].drops += 1;
            return cx.drop(packet, Reason::Overflow);
        }
        if self.takes_fast_path() {
            self.statistics.fastpath += 1;
            return self.internal.push(packet);
        }
        let flow = self.flow_of(&packet, cx);
        if self.packets.of(flow).packets >= self.flow_limit {
            self.statistics.flows_plimit += 1;
            return cx.drop(packet, Reason::FlowLimit);
        }
        let state = &mut self.states[flow as usize];
        if state.idle_since != Instant::NEVER {
            // Without a sign, what is owed is more than a quantum.
            if state.credit >= 0 && cx.now.since(state.idle_since) > self.refill_delay {
                state.credit = state.credit.max(self.quantum);
            }
            state.idle_since = Instant::NEVER;
            self.idle.remove(flow);
            self.bands[usize::from(state.band)].new.push_back(flow, ());
        }
        state.band = band;
        self.bands[usize::from(band)].packets += 1;
        self.packets.push(flow, packet, (cx.now, band));
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if let Some(packet) = self.internal.pop() {
            return Some(packet);
        }
        if self.packets.backlog().packets == 0 {
            return None;
        }
        self.wake(cx.now);
        let has_bands = self.has_bands();
        while let Some((flow, is_new)) = self.next_flow() {
            let state = &mut self.states[flow as usize];
            if state.credit <= 0 {
                state.credit += self.quantum;
                self.end_turn(flow, is_new);
            } else if self.packets.of(flow).packets == 0 {
                if is_new && (has_bands || self.bands[0].old.len() > 0) {
                    self.end_turn(flow, true);
                } else {
                    state.idle_since = cx.now;
                    self.bands[self.served].list(is_new).remove(flow);
                    self.idle.push_back(flow, ());
                }
            } else {
                let (_, (came, band)) = self.packets.head(flow);
                let due = came.max(state.next);
                if due > cx.now {
                    self.bands[self.served].list(is_new).remove(flow);
                    self.throttle(flow, due);
                    continue;
                }
                let mut packet = self.packets.take_front(flow).packet;
                self.bands[usize::from(band)].packets -= 1;
                if self.ce_threshold.is_some_and(|threshold| cx.now.since(due) > threshold) {
                    self.statistics.ce_mark += 1;
                    if packet.ecn.can_be_marked() {
                        cx.mark(&mut packet, Reason::CeThreshold);
                    }
                }
                state.credit -= i64::from(packet.bytes);
                self.bands[self.served].credit -= i64::from(packet.bytes);
                if let Some(pace) = self.pace {
                    self.rest(flow, pace, packet.bytes, cx.now);
                }
                return Some(packet);
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        let (flows, fast) = (self.packets.backlog(), self.internal.backlog());
        Backlog { packets: flows.packets + fast.packets, bytes: flows.bytes + fast.bytes }
    }

    fn next_ready(&self) -> Option<Instant> {
        self.throttled.first().map(|((at, _), _)| at + self.timer_slack)
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        let number = usize::from(number);
        if self.band_of_label.len() <= number {
            self.band_of_label.resize(number + 1, self.priomap[0]);
        }
        self.band_of_label[number] = self.priomap[bands::priority(label.dscp)];
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("flows", self.statistics.flows.into(), "flows"));
        show(Gauge::new("inactive_flows", self.inactive().into(), "flows"));
        show(Gauge::new("throttled_flows", self.statistics.throttled_flows.into(), "flows"));
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        let counts = &self.statistics;
        // `tc` shows first how many flows are throttled, and then how often one was, under the same name.
        let mut told = json!({
            "flows": counts.flows,
            "inactive": self.inactive(),
            "gc": counts.gc_flows,
            "highprio": 0,
            "throttled": counts.throttled,
        });
        let next = self.next_ready().map_or(0, |at| at.nanos().saturating_sub(now.nanos()));
        let unless_nought = [
            ("fastpath", counts.fastpath),
            ("next_packet_delay", next),
            ("latency", counts.unthrottle_latency),
            ("ce_mark", counts.ce_mark),
            ("flows_plimit", counts.flows_plimit),
            ("pkts_too_long", counts.pkts_too_long),
        ];
        for (name, value) in unless_nought.into_iter().filter(|(_, value)| *value > 0) {
            told[name] = json!(value);
        }
        if self.has_bands() {
            for (number, band) in self.bands.iter().enumerate() {
                told[format!("band{number}_pkts")] = json!(band.packets);
                if band.drops > 0 {
                    told[format!("band{number}_drops")] = json!(band.drops);
                }
            }
        } else if counts.pkts_too_long > 0 {
            told["alloc_errors"] = json!(0);
        }
        told
    }
}

impl Fq {
    #[inline]
    fn has_bands(&self) -> bool {
        self.bands.len() == BANDS
    }

    /// The band of packets with this label.
    #[inline]
    fn band_of(&self, label: u16) -> u8 {
        if !self.has_bands() {
            return 0;
        }
        self.band_of_label.get(usize::from(label)).copied().unwrap_or(self.priomap[0])
    }

    /// Whether a packet that arrives passes all flows by (`fq_fastpath_check`). Without a rate no flow rests.
    #[inline]
    fn takes_fast_path(&self) -> bool {
        let has_room = self.packets.active() == 0 && self.internal.backlog().packets < FAST_PATH;
        self.has_bands() && self.pace.is_none() && has_room
    }

    /// The flow to look at, and whether it is a new one; bands take turns until one has a flow and credit.
    #[inline]
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        if !self.has_bands() {
            let Band { new, old, .. } = &self.bands[0];
            return new.front().map(|flow| (flow, true)).or_else(|| old.front().map(|flow| (flow, false)));
        }
        let mut empty = 0;
        loop {
            let found = self.bands[self.served].first();
            if found.is_some() || empty == BANDS {
                return found;
            }
            self.served = (self.served + 1) % BANDS;
            let band = &mut self.bands[self.served];
            band.begin_turn();
            // One that owes more than its weight is no empty one.
            empty = if band.credit > 0 { empty + 1 } else { 0 };
        }
    }

    /// Flows without packets; before Linux 6.7 without a place in any list.
    fn inactive(&self) -> u32 {
        if self.has_bands() { self.statistics.flows - self.packets.active() } else { self.idle.len() }
    }

    /// The flow of `packet`, with a state.
    #[inline]
    fn flow_of(&mut self, packet: &Packet, cx: &mut Context<'_>) -> u32 {
        let key = match &mut self.orphans {
            None => packet.flow,
            Some((hash, mask)) => {
                hash.renew_salt(Instant::START, cx.rng);
                hash.key(packet) & *mask
            }
        };
        let (flow, is_new) = self.packets.number(key);
        if self.has_bands() {
            self.forget_in_bucket(key, flow, is_new, cx.now);
        } else if self.statistics.flows >= self.collect_from && self.idle.len() > self.statistics.flows / 2 {
            self.forget_idle(flow, cx.now);
        }
        if is_new {
            let (credit, next) = (self.initial_quantum, Instant::START);
            let state = State { credit, band: 0, next, idle_since: cx.now };
            if self.states.len() <= flow as usize {
                self.states.resize(flow as usize + 1, state);
            }
            self.states[flow as usize] = state;
            self.idle.push_back(flow, ());
            self.statistics.flows += 1;
        }
        flow
    }

    /// Forgets some of those that have been idle for long, until it meets `wanted`.
    #[cold]
    fn forget_idle(&mut self, wanted: u32, now: Instant) {
        for _ in 0..GC_MAX {
            let Some(idlest) = self.idle.front().filter(|idlest| *idlest != wanted) else { break };
            if now.since(self.states[idlest as usize].idle_since) <= GC_AGE {
                break;
            }
            self.forget(idlest);
        }
    }

    /// The same of the bucket of `wanted`, the flow with this key; notes it there if it is new.
    fn forget_in_bucket(&mut self, key: u32, wanted: u32, is_new: bool, now: Instant) {
        let bucket = mix(key.into()) as usize & (self.in_buckets.len() - 1);
        let mut flows = std::mem::take(&mut self.in_buckets[bucket]);
        let mut most = GC_MAX;
        flows.retain(|&flow| {
            let since = self.states[flow as usize].idle_since;
            let goes = most > 0 && flow != wanted && since != Instant::NEVER && now.since(since) > GC_AGE;
            if goes {
                most -= 1;
                self.forget(flow);
            }
            !goes
        });
        if is_new {
            flows.push(wanted);
        }
        self.in_buckets[bucket] = flows;
    }

    /// Forgets an idle flow.
    fn forget(&mut self, flow: u32) {
        self.idle.remove(flow);
        self.packets.retire(flow);
        self.statistics.flows -= 1;
        self.statistics.gc_flows += 1;
    }

    /// Puts `flow`, the first of its list, at the end of the old ones of its band.
    #[inline]
    fn end_turn(&mut self, flow: u32, is_new: bool) {
        let own = usize::from(self.states[flow as usize].band);
        if is_new || own != self.served {
            self.bands[self.served].list(is_new).remove(flow);
            self.bands[own].old.push_back(flow, ());
        } else {
            self.bands[own].old.rotate();
        }
    }

    /// `flow`, which is in no list, rests.
    fn throttle(&mut self, flow: u32, until: Instant) {
        self.throttled.set(flow, (until, self.statistics.throttled));
        self.statistics.throttled += 1;
        self.statistics.throttled_flows += 1;
    }

    /// Those whose rest is over join the old flows.
    #[inline]
    fn wake(&mut self, now: Instant) {
        let Some(((first, _), _)) = self.throttled.first().filter(|((at, _), _)| *at <= now) else { return };
        let latency = &mut self.statistics.unthrottle_latency;
        *latency = *latency - (*latency >> 3) + (now.since(first).nanos() >> 3);
        while let Some(((at, _), flow)) = self.throttled.first()
            && at <= now
        {
            self.throttled.remove(flow);
            self.statistics.throttled_flows -= 1;
            let band = usize::from(self.states[flow as usize].band);
            self.bands[band].old.push_back(flow, ());
        }
    }

    /// `flow` has sent so many bytes: when it may send again.
    #[inline]
    fn rest(&mut self, flow: u32, pace: Pace, bytes: u16, now: Instant) {
        let state = &mut self.states[flow as usize];
        let mut bytes = u64::from(bytes);
        if pace.is_low {
            state.credit = 0;
        } else if state.credit > 0 {
            return;
        } else {
            bytes = bytes.max(self.quantum as u64);
        }
        let mut rest = bytes * 1_000_000_000 / pace.rate;
        if rest > LONGEST_REST {
            rest = LONGEST_REST;
            self.statistics.pkts_too_long += 1;
        }
        if state.next != Instant::START {
            rest -= now.since(state.next).nanos().min(rest / 2);
        }
        state.next = now + Span::from_nanos(rest);
    }
}
