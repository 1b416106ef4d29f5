//! The running fq: which flow has its turn, which rests, and which flows the queue forgets.

use aqm_net::{Backlog, Instant, Length, Packet, Span};
use serde_json::{Value, json};

use super::Config;
use super::bands::{self, Band};
use crate::fair::classifier::{Classifier, mix};
use crate::fair::flows::Flows;
use crate::fair::heap::Heap;
use crate::fair::ring::Ring;
use crate::{Context, Fifo, Gauge, Label, QueueDiscipline, Reason, Report};

/// The longest rest, in nanoseconds.
const LONGEST_REST: u64 = 1_000_000_000;
/// How long a flow must have been idle to be forgotten (`FQ_GC_AGE`), and how many are at once (`FQ_GC_MAX`).
const GC_AGE: Span = Span::from_millis(3000);
const GC_MAX: u32 = 8;
/// The packets from which on the fast path takes no more.
pub(super) const FAST_PATH: u64 = 8;

/// The rate of a flow.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// In bytes per second.
    pub rate: u64,
    /// Whether every packet is spaced.
    pub is_low: bool,
}

/// The running discipline, with one band or, since Linux 6.7, three.
#[derive(Clone)]
pub(super) struct Fq<const N: usize> {
    /// The hash of packets without a socket, and the bits of it that count.
    orphans: Option<(Classifier, u32)>,
    /// Beside each packet, when it came.
    packets: Flows<Instant>,
    /// By flow.
    states: Vec<State>,
    bands: [Band; N],
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

impl<const N: usize> QueueDiscipline for Fq<N> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let band = self.band_of(packet.label);
        if self.waiting(band) >= self.limit {
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
            let last_band = if Self::HAS_BANDS { usize::from(state.band) } else { 0 };
            self.bands[last_band].new.push_back(flow, ());
        }
        if Self::HAS_BANDS {
            state.band = band;
            self.bands[usize::from(band)].packets += 1;
        }
        self.packets.push(flow, packet, cx.now);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if Self::HAS_BANDS
            && let Some(packet) = self.internal.pop()
        {
            return Some(packet);
        }
        if self.packets.backlog().packets == 0 {
            return None;
        }
        self.wake(cx.now);
        while let Some((flow, is_new)) = self.next_flow() {
            let state = &mut self.states[flow as usize];
            if state.credit <= 0 {
                state.credit += self.quantum;
                self.end_turn(flow, is_new);
            } else if self.packets.of(flow).packets == 0 {
                if is_new && (Self::HAS_BANDS || self.bands[0].old.len() > 0) {
                    self.end_turn(flow, true);
                } else {
                    state.idle_since = cx.now;
                    self.bands[self.served].list(is_new).remove(flow);
                    self.idle.push_back(flow, ());
                }
            } else {
                let (_, came) = self.packets.head(flow);
                let due = came.max(state.next);
                if due > cx.now {
                    self.bands[self.served].list(is_new).remove(flow);
                    self.throttle(flow, due);
                    continue;
                }
                let mut packet = self.packets.take_front(flow).packet;
                if self.ce_threshold.is_some_and(|threshold| cx.now.since(due) > threshold) {
                    self.statistics.ce_mark += 1;
                    if packet.ecn.can_be_marked() {
                        cx.mark(&mut packet, Reason::CeThreshold);
                    }
                }
                state.credit -= i64::from(packet.bytes);
                if Self::HAS_BANDS {
                    let band = self.band_of(packet.label);
                    self.bands[usize::from(band)].packets -= 1;
                    self.bands[self.served].credit -= i64::from(packet.bytes);
                }
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
        if !Self::HAS_BANDS {
            return flows;
        }
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
}

impl<const N: usize> Report for Fq<N> {
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
        if Self::HAS_BANDS {
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

impl<const N: usize> Fq<N> {
    /// Whether there are bands and a fast path, as since Linux 6.7.
    const HAS_BANDS: bool = N > 1;

    /// An empty queue with the parameters of `config`, which must be right.
    pub fn new(config: &Config, orphans: Option<(Classifier, u32)>, pace: Option<Pace>) -> Self {
        let buckets = config.buckets();
        Self {
            orphans,
            packets: Flows::new(false),
            states: Vec::new(),
            bands: std::array::from_fn(|band| Band::of_weight(config.weights[band])),
            served: 0,
            band_of_label: Vec::new(),
            priomap: config.priomap.iter().map(|band| *band as u8).collect(),
            internal: Fifo::new(Length::Packets(u64::MAX)),
            in_buckets: if Self::HAS_BANDS { vec![Vec::new(); buckets as usize] } else { Vec::new() },
            timer_slack: config.timer_slack,
            idle: Ring::default(),
            throttled: Heap::new(),
            limit: config.limit.count(),
            flow_limit: config.flow_limit.count(),
            quantum: config.quantum.bytes() as i64,
            initial_quantum: config.initial_quantum.bytes() as i64,
            pace,
            refill_delay: config.refill_delay,
            ce_threshold: config.ce_threshold,
            collect_from: 2 * buckets,
            statistics: Statistics::default(),
        }
    }

    /// The band of packets with this label.
    #[inline]
    fn band_of(&self, label: u16) -> u8 {
        if !Self::HAS_BANDS {
            return 0;
        }
        self.band_of_label.get(usize::from(label)).copied().unwrap_or(self.priomap[0])
    }

    /// The packets of `band` that wait.
    #[inline]
    fn waiting(&self, band: u8) -> u64 {
        if Self::HAS_BANDS { self.bands[usize::from(band)].packets } else { self.packets.backlog().packets }
    }

    /// Whether a packet that arrives passes all flows by (`fq_fastpath_check`). Without a rate no flow rests.
    #[inline]
    fn takes_fast_path(&self) -> bool {
        let has_room = self.packets.active() == 0 && self.internal.backlog().packets < FAST_PATH;
        Self::HAS_BANDS && self.pace.is_none() && has_room
    }

    /// The flow to look at, and whether it is a new one; bands take turns until one has a flow and credit.
    #[inline]
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        if !Self::HAS_BANDS {
            let Band { new, old, .. } = &self.bands[0];
            return new.front().map(|flow| (flow, true)).or_else(|| old.front().map(|flow| (flow, false)));
        }
        let mut empty = 0;
        loop {
            let found = self.bands[self.served].first();
            if found.is_some() || empty == N {
                return found;
            }
            self.served = (self.served + 1) % N;
            let band = &mut self.bands[self.served];
            band.begin_turn();
            // One that owes more than its weight is no empty one.
            empty = if band.credit > 0 { empty + 1 } else { 0 };
        }
    }

    /// Flows without packets; before Linux 6.7 without a place in any list.
    fn inactive(&self) -> u32 {
        if Self::HAS_BANDS { self.statistics.flows - self.packets.active() } else { self.idle.len() }
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
        if Self::HAS_BANDS {
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
        let own = if Self::HAS_BANDS { usize::from(self.states[flow as usize].band) } else { 0 };
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
