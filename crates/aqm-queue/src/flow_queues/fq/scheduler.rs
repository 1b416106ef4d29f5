//! fq at run time: the scheduler, pacing, and the removal of idle flows.

use aqm_net::{Backlog, Instant, Length, Packet, Span};
use serde_json::{Value, json};

use super::Config;
use super::bands::{self, Band};
use crate::fair::classifier::{Classifier, mix};
use crate::fair::flows::Flows;
use crate::fair::heap::Heap;
use crate::fair::ring::Ring;
use crate::{Context, Fifo, Gauge, Label, QueueDiscipline, Reason, Report};

/// The longest pause, in nanoseconds.
const MAX_PAUSE: u64 = 1_000_000_000;
/// Idle time after which a flow is removed (`FQ_GC_AGE`), and maximum number of flows removed at once (`FQ_GC_MAX`).
const GC_AGE: Span = Span::from_millis(3000);
const GC_MAX: u32 = 8;
/// Number of packets at which the fast path is full.
pub(super) const FAST_PATH: u64 = 8;

/// The pacing of a flow.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// The rate, in bytes per second.
    pub rate: u64,
    /// Whether a pause follows every packet, because the rate is at most `low_rate_threshold`.
    pub is_low: bool,
}

/// An fq queue, with one band or, since Linux 6.7, three bands.
#[derive(Clone)]
pub(super) struct Fq<const N: usize> {
    /// The hash for packets without a socket, and the mask that is applied to the hash.
    orphans: Option<(Classifier, u32)>,
    /// The packets, each with its arrival time.
    packets: Flows<Instant>,
    /// The state of each flow.
    states: Vec<State>,
    bands: [Band; N],
    /// Index of the band that is served.
    served: usize,
    /// The band of each label. Packets without a label are treated as best effort.
    band_of_label: Vec<u8>,
    priomap: Vec<u8>,
    /// The packets on the fast path.
    internal: Fifo,
    /// The flows of each bucket, used since Linux 6.7.
    in_buckets: Vec<Vec<u32>>,
    timer_slack: Span,
    /// Flows that are not in any list and have no packets, starting with the flow that has been idle longest.
    idle: Ring,
    /// Throttled flows, sorted by the end of their pause and then by the order in which they were throttled.
    throttled: Heap<(Instant, u64)>,
    limit: u64,
    flow_limit: u64,
    quantum: i64,
    initial_quantum: i64,
    pace: Option<Pace>,
    refill_delay: Span,
    ce_threshold: Option<Span>,
    /// Minimum number of flows at which idle flows are removed.
    collect_from: u32,
    statistics: Statistics,
}

/// The state of a flow.
#[derive(Clone, Copy)]
struct State {
    deficit: i64,
    /// The band of the flow's last packet; the first band before the first packet.
    band: u8,
    /// The time at which the flow may send again (`time_next_packet`); the start of the run if the flow was never
    /// paced.
    next: Instant,
    /// The time at which the flow left the lists; `NEVER` while the flow is in a list or throttled.
    idle_since: Instant,
}

/// The counters that `tc` prints.
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
        if self.backlog_of_band(band) >= self.limit {
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
            // The kernel compares unsigned numbers, so a negative deficit exceeds a quantum and is not raised.
            if state.deficit >= 0 && cx.now.since(state.idle_since) > self.refill_delay {
                state.deficit = state.deficit.max(self.quantum);
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
            if state.deficit <= 0 {
                state.deficit += self.quantum;
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
                let (_, arrival) = self.packets.head(flow);
                let due = arrival.max(state.next);
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
                state.deficit -= i64::from(packet.bytes);
                if Self::HAS_BANDS {
                    let band = self.band_of(packet.label);
                    self.bands[usize::from(band)].packets -= 1;
                    self.bands[self.served].deficit -= i64::from(packet.bytes);
                }
                if let Some(pace) = self.pace {
                    self.pause(flow, pace, packet.bytes, cx.now);
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
        // `tc` prints two numbers under the same name: first the number of throttled flows, and then the number of
        // throttling events.
        let mut statistics = json!({
            "flows": counts.flows,
            "inactive": self.inactive(),
            "gc": counts.gc_flows,
            "highprio": 0,
            "throttled": counts.throttled,
        });
        let next = self.next_ready().map_or(0, |at| at.nanos().saturating_sub(now.nanos()));
        let nonzero = [
            ("fastpath", counts.fastpath),
            ("next_packet_delay", next),
            ("latency", counts.unthrottle_latency),
            ("ce_mark", counts.ce_mark),
            ("flows_plimit", counts.flows_plimit),
            ("pkts_too_long", counts.pkts_too_long),
        ];
        for (name, value) in nonzero.into_iter().filter(|(_, value)| *value > 0) {
            statistics[name] = json!(value);
        }
        if Self::HAS_BANDS {
            for (number, band) in self.bands.iter().enumerate() {
                statistics[format!("band{number}_pkts")] = json!(band.packets);
                if band.drops > 0 {
                    statistics[format!("band{number}_drops")] = json!(band.drops);
                }
            }
        } else if counts.pkts_too_long > 0 {
            statistics["alloc_errors"] = json!(0);
        }
        statistics
    }
}

impl<const N: usize> Fq<N> {
    /// Whether fq has several bands and a fast path, as it has since Linux 6.7.
    const HAS_BANDS: bool = N > 1;

    /// Creates an empty queue with the parameters of `config`, which must have been checked.
    pub fn new(config: &Config, orphans: Option<(Classifier, u32)>, pace: Option<Pace>) -> Self {
        let buckets = config.buckets();
        Self {
            orphans,
            packets: Flows::new(false),
            states: Vec::new(),
            bands: std::array::from_fn(|band| Band::with_weight(config.weights[band])),
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

    /// Returns the band of packets with this label.
    #[inline]
    fn band_of(&self, label: u16) -> u8 {
        if !Self::HAS_BANDS {
            return 0;
        }
        self.band_of_label.get(usize::from(label)).copied().unwrap_or(self.priomap[0])
    }

    /// Returns the number of queued packets in `band`.
    #[inline]
    fn backlog_of_band(&self, band: u8) -> u64 {
        if Self::HAS_BANDS { self.bands[usize::from(band)].packets } else { self.packets.backlog().packets }
    }

    /// Returns whether an arriving packet takes the fast path (`fq_fastpath_check`). The kernel also requires that no
    /// flow is throttled; this condition is always met if there is no pacing rate.
    #[inline]
    fn takes_fast_path(&self) -> bool {
        let has_room = self.packets.active() == 0 && self.internal.backlog().packets < FAST_PATH;
        Self::HAS_BANDS && self.pace.is_none() && has_room
    }

    /// Returns the next flow to visit, and whether this flow is new. Bands take turns until a band has a flow and a
    /// positive deficit.
    #[inline]
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        if !Self::HAS_BANDS {
            let Band { new, old, .. } = &self.bands[0];
            return new.front().map(|flow| (flow, true)).or_else(|| old.front().map(|flow| (flow, false)));
        }
        let mut empty = 0;
        loop {
            let flow = self.bands[self.served].first();
            if flow.is_some() || empty == N {
                return flow;
            }
            self.served = (self.served + 1) % N;
            let band = &mut self.bands[self.served];
            band.begin_turn();
            // A band whose deficit is still not positive is not counted as empty.
            empty = if band.deficit > 0 { empty + 1 } else { 0 };
        }
    }

    /// Returns the number of flows without packets; before Linux 6.7, the number of flows that are not in any list.
    fn inactive(&self) -> u32 {
        if Self::HAS_BANDS { self.statistics.flows - self.packets.active() } else { self.idle.len() }
    }

    /// Returns the flow of `packet`, and creates the flow's state if the flow is new.
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
            let (deficit, next) = (self.initial_quantum, Instant::START);
            let state = State { deficit, band: 0, next, idle_since: cx.now };
            if self.states.len() <= flow as usize {
                self.states.resize(flow as usize + 1, state);
            }
            self.states[flow as usize] = state;
            self.idle.push_back(flow, ());
            self.statistics.flows += 1;
        }
        flow
    }

    /// Removes flows that have been idle for a long time, starting with the flow that has been idle longest, and stops
    /// at the flow `keep`.
    #[cold]
    fn forget_idle(&mut self, keep: u32, now: Instant) {
        for _ in 0..GC_MAX {
            let Some(idlest) = self.idle.front().filter(|idlest| *idlest != keep) else { break };
            if now.since(self.states[idlest as usize].idle_since) <= GC_AGE {
                break;
            }
            self.forget(idlest);
        }
    }

    /// Removes flows that have been idle for a long time from the bucket of `keep`, which is the flow with the key
    /// `key`. If the flow `keep` is new, adds the flow to the bucket.
    fn forget_in_bucket(&mut self, key: u32, keep: u32, is_new: bool, now: Instant) {
        let bucket = mix(key.into()) as usize & (self.in_buckets.len() - 1);
        let mut flows = std::mem::take(&mut self.in_buckets[bucket]);
        let mut most = GC_MAX;
        flows.retain(|&flow| {
            let since = self.states[flow as usize].idle_since;
            let expires = most > 0 && flow != keep && since != Instant::NEVER && now.since(since) > GC_AGE;
            if expires {
                most -= 1;
                self.forget(flow);
            }
            !expires
        });
        if is_new {
            flows.push(keep);
        }
        self.in_buckets[bucket] = flows;
    }

    /// Removes `flow`, which is idle.
    fn forget(&mut self, flow: u32) {
        self.idle.remove(flow);
        self.packets.retire(flow);
        self.statistics.flows -= 1;
        self.statistics.gc_flows += 1;
    }

    /// Moves `flow`, the head of its list, to the tail of its band's old list.
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

    /// Throttles `flow`, which is not in any list, until the time `until`.
    fn throttle(&mut self, flow: u32, until: Instant) {
        self.throttled.set(flow, (until, self.statistics.throttled));
        self.statistics.throttled += 1;
        self.statistics.throttled_flows += 1;
    }

    /// Moves the flows whose pause has ended to their bands' old lists.
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

    /// Computes the time at which `flow` may send again after it has sent `bytes`.
    #[inline]
    fn pause(&mut self, flow: u32, pace: Pace, bytes: u16, now: Instant) {
        let state = &mut self.states[flow as usize];
        let mut bytes = u64::from(bytes);
        if pace.is_low {
            state.deficit = 0;
        } else if state.deficit > 0 {
            return;
        } else {
            bytes = bytes.max(self.quantum as u64);
        }
        let mut pause = bytes * 1_000_000_000 / pace.rate;
        if pause > MAX_PAUSE {
            pause = MAX_PAUSE;
            self.statistics.pkts_too_long += 1;
        }
        if state.next != Instant::START {
            pause -= now.since(state.next).nanos().min(pause / 2);
        }
        state.next = now + Span::from_nanos(pause);
    }
}
