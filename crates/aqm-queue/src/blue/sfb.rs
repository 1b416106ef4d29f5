//! SFB: Stochastic Fair Blue, which detects unresponsive flows and limits their rate.
//!
//! W. Feng, D. Kandlur, D. Saha, K. Shin, "Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness",
//! IEEE INFOCOM 2001, as implemented by `sch_sfb` of Linux 6.1 (J. Chroboczek, E. Dumazet), with the defaults of `tc`:
//! - The hash of a flow selects one of 16 bins on each of 8 levels. A bin counts its queued packets and has a 16-bit
//!   probability. An arriving packet lowers the bin's probability by `decrement` if the bin is empty, and raises the
//!   probability by `increment` if the bin contains at least `target` packets.
//! - The probability of a packet is the minimum of the probabilities of its bins. If no other flow uses one of these
//!   bins, the minimum depends only on the packet's own flow. A packet that is selected with this probability is
//!   marked, or dropped if it cannot be marked. If the probability exceeds 1/2, some of the selected packets are
//!   dropped even if they could be marked. The fraction of these packets grows with the probability, and all selected
//!   packets are dropped when the probability is 1.
//! - A packet is dropped if each of its bins contains `max` packets (`bucketdrop`).
//! - A flow whose probability is 1 is unresponsive. The total rate of all unresponsive flows is limited to
//!   `penalty_rate` packets per second, and packets above this rate are dropped (`penaltydrop`). Packets of
//!   unresponsive flows are not dropped at random.
//! - Every `rehash`, flows are assigned to different bins. During the time `db` before this change, packets of
//!   unresponsive flows also update the next bins, so that the next bins are warmed up. Queued packets remain counted
//!   in the bins in which they were counted on arrival.
//! - The packets are stored in an inner queue discipline, by default a FIFO.
//!
//! aqmlab reproduces three peculiarities of the kernel:
//! - The penalty box, which is the token bucket for unresponsive flows, differs from its description in the manual
//!   page. While the box contains no tokens, the box is checked at each packet, and a check adds only the whole tokens
//!   that have accumulated since the previous check. A flow that sends more often than `penalty_rate` is therefore
//!   blocked completely until it pauses.
//! - The bins of the inactive set keep their probabilities until the set becomes active again, although different flows
//!   are then assigned to these bins.
//! - If `db` is zero, or if no flow is unresponsive, the next bins are not warmed up before they are used.
//!
//! `start` determines the time until the first change of bins. If the queue is settled, this time is random, uniformly
//! distributed from 0 to `rehash`. If the queue is fresh, the time is `rehash`. In both cases, no flow has been
//! unresponsive before the run, so all probabilities are initially 0, and the penalty box is full of tokens.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from Linux.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Span, parameters,
};
use serde_json::{Value, json};

use crate::fair::classifier::mix;
use crate::start::Start;
use crate::tc::{self, Class, Qdisc};
use crate::wrappers::wrapper::{self, Inside, Wrapped, Wrapper};
use crate::{
    Build, Context, Derived, Describe, Evidence, Fifo, Gauge, Inner, QueueDiscipline, Reason, Report,
    TestCases,
};

parameters! {
    /// Stochastic Fair Blue: marks or drops each packet with the lowest probability among the bins of its flow, and
    /// limits the rate of unresponsive flows.
    ///
    /// Differences from Linux:
    ///
    /// - The clock has one tick per millisecond, as in a kernel with `HZ` 1000.
    /// - Flows are identified by their numbers. The salts of both sets of bins are drawn when the first packet arrives.
    ///   The filters of `tc` are not supported.
    /// - If the inner queue drops a packet, on arrival or later, the packet is removed from its bins and counts as
    ///   `childdrop`. In the kernel, the inner queue must not drop a packet that it has accepted.
    /// - The kernel's SFB always marks ECN-capable packets; here, marking can be switched off with `ecn`.
    /// - If `db` is at least `rehash`, the same packet may activate the next set of bins and begin the warm-up of the
    ///   other set. In the kernel, the warm-up begins with the next packet.
    pub struct Config {
        /// Maximum backlog in packets, excluding the packet in transmission.
        pub limit: Length = Length::Packets(1000), "Linux 6.1: the length of an Ethernet device's queue";
        /// Maximum number of packets in a bin. Default: 5/4 of `target`, or 25p if `target` is not set either.
        pub max: Option<Length> = None, "tc-sfb";
        /// Number of packets in a bin at or above which the bin's probability rises. Default: 4/5 of `max`.
        pub target: Option<Length> = None, "tc-sfb";
        /// Increase of a bin's probability when a packet arrives and the bin contains at least `target` packets.
        pub increment: f64 = 0.0005, "tc-sfb";
        /// Decrease of a bin's probability when a packet arrives and the bin is empty.
        pub decrement: f64 = 0.00005, "tc-sfb";
        /// Maximum total rate of all unresponsive flows, in packets per second.
        pub penalty_rate: u32 = 10, "tc-sfb";
        /// Maximum total burst size of all unresponsive flows, in packets.
        pub penalty_burst: u32 = 20, "tc-sfb";
        /// Interval at which flows are assigned to different bins. With 0s, the assignment never changes.
        pub rehash: Span = Span::from_millis(600_000), "tc-sfb";
        /// Length of the warm-up of the next bins before flows are assigned to them. With 0s, there is no warm-up.
        pub db: Span = Span::from_millis(60_000), "tc-sfb";
        /// Whether ECN-capable packets are marked instead of dropped. If the probability exceeds 1/2, some ECN-capable
        /// packets are dropped.
        pub ecn: bool = true, "Linux 6.1, which always marks";
        /// Inner queue discipline. Default: a FIFO.
        pub queue: Option<Box<crate::Config>> = None, "Linux 6.1";
        /// State of the queue at the start of the run, which matters only if `rehash` is not 0s. `settled`: the time
        /// until the first change of bins is random, at most `rehash`. `fresh`: the time until the first change of bins
        /// is `rehash`.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

/// The parameters that `tc` passes to the kernel, except the times.
#[derive(Clone, Copy)]
struct TcParams {
    limit: u64,
    max: u32,
    target: u32,
    increment: u16,
    decrement: u16,
}

impl Config {
    /// Returns `max` and `target`, each either as configured or derived by default.
    fn lengths(&self) -> (u64, u64) {
        let count = |length: Option<Length>| length.map(Length::count).filter(|packets| *packets > 0);
        let max = count(self.max).unwrap_or(count(self.target).map_or(25, |target| (target * 5 + 1) / 4));
        (max, count(self.target).unwrap_or((max * 4 + 3) / 5))
    }

    /// Returns the kernel's parameters.
    ///
    /// # Errors
    /// Returns an error for every parameter that `tc` rejects or that contradicts another parameter.
    fn params(&self) -> Result<TcParams, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, length) in [("limit", Some(self.limit)), ("max", self.max), ("target", self.target)] {
            let is_packets = length.is_none_or(|length| !length.in_bytes() && length.count() > 0);
            errors.check(is_packets, name, "must be in packets, at least 1p");
        }
        for (name, share) in [("increment", self.increment), ("decrement", self.decrement)] {
            let problem = format_args!("must be from 0 to 1 (got {share})");
            errors.check((0.0..=1.0).contains(&share), name, problem);
        }
        let (max, target) = self.lengths();
        // The kernel counts the packets of a bin in 16 bits.
        let fits = max < u64::from(u16::MAX);
        errors.check(fits, "max", format_args!("must be less than {}p (got {max}p)", u16::MAX));
        errors.check(!fits || target <= max, "target", format_args!("must be at most max ({max}p)"));
        errors.finish(())?;
        let share = |share: f64| (share * f64::from(ONE) + 0.5) as u16;
        Ok(TcParams {
            limit: self.limit.count(),
            max: max as u32,
            target: target as u32,
            increment: share(self.increment),
            decrement: share(self.decrement),
        })
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let params = errors.take(self.params());
        errors.check_effect(!self.rehash.is_zero(), self, &["db", "start"], "with rehash = \"0s\"");
        let inside = self.queue.as_ref().map(|queue| Inside::build(Some(queue), rate)).transpose();
        let inside = errors.take(inside);
        let (params, inside) = errors.finish_some(params.zip(inside))?;
        let sfb = Sfb {
            params,
            ecn: self.ecn,
            waiting: 0,
            sets: [Bins::EMPTY; 2],
            current: 0,
            is_salted: false,
            rehash: self.rehash.nanos() / TICK,
            warm_up: self.db.nanos() / TICK,
            rehash_at: self.rehash.nanos() / TICK,
            start: self.start,
            is_warming_up: false,
            next_check: Instant::START,
            penalty: Penalty {
                rate: self.penalty_rate.into(),
                burst: self.penalty_burst.into(),
                tokens: self.penalty_burst.into(),
                counted_at: 0,
            },
            counts: Counts::default(),
        };
        Ok(match inside {
            Some(inside) => Box::new(Wrapped { wrapper: sfb, inside }),
            None => Box::new(SfbWithFifo { sfb, fifo: Fifo::new(Length::Packets(params.limit)) }),
        })
    }
}

impl Describe for Config {
    fn inner(&self, rate: Rate) -> Vec<Inner<'_>> {
        let queue = self.queue.as_deref();
        queue.map(|config| Inner { path: "queue".to_owned(), config, rate }).into_iter().collect()
    }

    fn holds_back(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.holds_back())
    }

    fn outlet(&self, link: Rate) -> Rate {
        self.queue.as_ref().map_or(link, |queue| queue.outlet(link))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let (max, target) = self.lengths();
        let lengths = [("max", self.max, max), ("target", self.target, target)];
        let own = lengths.into_iter().filter(|(_, configured, _)| configured.is_none());
        let own = own.map(|(name, _, value)| Derived::new(name, value as f64, "packets"));
        own.chain(crate::describe::derived_inside(self, rate)).collect()
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let mut warnings = crate::describe::warnings_inside(self, rate);
        if !self.rehash.is_zero() && self.db >= self.rehash {
            let problem = format!(
                "should be less than rehash ({}), otherwise the next bins are warmed up permanently",
                self.rehash
            );
            warnings.push(ConfigError::at("db", problem));
        }
        warnings
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let TcParams { limit, max, target, increment, decrement } = self.params().ok()?;
        let micros = |time: Span| time.nanos() / 1_000_000 * 1000;
        Some(json!({
            "kind": "sfb", "rehash": micros(self.rehash), "db": micros(self.db), "limit": limit, "max": max,
            "target": target, "increment": as_share(increment), "decrement": as_share(decrement),
            "penalty_rate": self.penalty_rate, "penalty_burst": self.penalty_burst,
        }))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let TcParams { limit, max, target, .. } = self.params()?;
        let millis = |span: Span| span.nanos() / 1_000_000;
        let sfb = Qdisc::new("sfb")
            .count("rehash", millis(self.rehash))
            .count("db", millis(self.db))
            .count("limit", limit)
            .with("max", max)
            .with("target", target)
            .with("increment", self.increment)
            .with("decrement", self.decrement)
            .with("penalty_rate", self.penalty_rate)
            .with("penalty_burst", self.penalty_burst)
            .limit_if(!self.ecn, "ecn", || "the kernel always marks ECN-capable packets".into());
        let Some(queue) = self.queue.as_deref() else { return sfb.finish() };
        let queue = tc::inner(queue, rate, "queue")?;
        sfb.class(Class { number: 1, queue: Some(queue), ..Class::default() }, "queue").finish()
    }
}

impl TestCases for Config {
    fn has_flow_queues(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.has_flow_queues())
    }

    fn corners(&self) -> Vec<Value> {
        let small = |change: Value| {
            let mut table =
                json!({"limit": "24p", "max": "6p", "target": "3p", "increment": 0.01, "decrement": 0.002});
            for (name, value) in change.as_object().into_iter().flatten() {
                table[name] = value.clone();
            }
            table
        };
        wrapper::corners(vec![
            small(json!({"rehash": "50ms", "db": "20ms"})),
            small(
                json!({"increment": 0.5, "decrement": 0.4, "penalty_rate": 100, "rehash": "10ms", "db": "10ms"}),
            ),
            small(json!({"max": "1p", "target": "1p", "ecn": false, "penalty_rate": 0, "rehash": "0s"})),
            small(
                json!({"limit": "5p", "max": "9p", "increment": 1.0, "decrement": 0.3, "penalty_burst": 1}),
            ),
        ])
    }
}

/// Number of levels.
const LEVELS: usize = 8;
/// Number of bins per level.
const BINS: usize = 16;
/// Mask of the bits of a hash that are used: each level has one byte, whose lower four bits contain the number of a
/// bin.
const NUMBERS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
/// Probability 1 (`SFB_MAX_PROB`).
const ONE: u16 = u16::MAX;
/// Nanoseconds per tick of the kernel's clock.
const TICK: u64 = 1_000_000;
const TICKS_PER_SECOND: u64 = 1000;

fn as_share(probability: u16) -> f64 {
    f64::from(probability) / f64::from(ONE)
}

/// A bin: the lower half contains the number of queued packets, the upper half the probability. Of two bins with
/// different probabilities, the bin with the smaller value therefore has the lower probability.
#[derive(Clone, Copy)]
struct Bin(u64);

impl Bin {
    fn packets(self) -> u32 {
        self.0 as u32
    }

    fn p_mark(self) -> u16 {
        (self.0 >> u32::BITS) as u16
    }

    /// Updates the probability when a packet arrives and the bin is empty or contains at least `target` packets.
    /// Returns whether the bin is full.
    fn update(&mut self, params: &TcParams) -> bool {
        let p_mark = if self.packets() == 0 {
            self.p_mark().saturating_sub(params.decrement)
        } else {
            self.p_mark().saturating_add(params.increment)
        };
        self.0 = u64::from(p_mark) << u32::BITS | u64::from(self.packets());
        self.packets() >= params.max
    }
}

/// A set of bins with one hash function.
#[derive(Clone)]
struct Bins {
    salt: u64,
    bins: [[Bin; BINS]; LEVELS],
}

impl Bins {
    const EMPTY: Self = Self { salt: 0, bins: [[Bin(0); BINS]; LEVELS] };

    /// Returns the hash of `flow`, which contains the number of one bin per level. The hash is never zero, because zero
    /// means that a packet is not counted in any bin.
    #[inline]
    fn hash(&self, flow: u32) -> u64 {
        (mix(u64::from(flow).wrapping_add(self.salt)) & NUMBERS).max(1)
    }

    /// Calls `act` with the bin that `hash` selects on each level.
    #[inline(always)]
    fn of(&mut self, hash: u64, mut act: impl FnMut(&mut Bin)) {
        for (level, number) in self.bins.iter_mut().zip((hash & NUMBERS).to_le_bytes()) {
            act(&mut level[usize::from(number)]);
        }
    }

    /// Counts an arriving packet in its bins and updates their probabilities. Returns the minimum probability, and
    /// whether all of these bins were full.
    #[inline(always)]
    fn arrive(&mut self, hash: u64, params: &TcParams) -> (u16, bool) {
        let (mut least, mut full) = (Bin(u64::MAX), 0);
        self.of(hash, |bin| {
            // Usually, the bin is not empty and contains fewer than `target` packets.
            if bin.packets().wrapping_sub(1) >= params.target - 1 {
                full += u32::from(bin.update(params));
            }
            least.0 = least.0.min(bin.0);
            bin.0 += 1;
        });
        (least.p_mark(), full == LEVELS as u32)
    }

    /// Removes a packet from its bins.
    #[inline(always)]
    fn leave(&mut self, hash: u64) {
        self.of(hash, |bin| bin.0 -= 1);
    }
}

/// The penalty box: a token bucket that limits the total rate of all unresponsive flows.
#[derive(Clone)]
struct Penalty {
    rate: u64,
    burst: u64,
    tokens: u64,
    counted_at: u64,
}

impl Penalty {
    /// Returns whether a packet may pass at the tick `now`.
    fn admits(&mut self, now: u64) -> bool {
        if self.rate == 0 || self.burst == 0 {
            return false;
        }
        if self.tokens == 0 {
            let age = (now - self.counted_at).min(10 * TICKS_PER_SECOND);
            self.tokens = (age * self.rate / TICKS_PER_SECOND).min(self.burst);
            self.counted_at = now;
        }
        let admits = self.tokens > 0;
        self.tokens -= u64::from(admits);
        admits
    }
}

/// The counters that `tc -s` prints.
#[derive(Clone, Copy, Default)]
struct Counts {
    earlydrop: u64,
    penaltydrop: u64,
    bucketdrop: u64,
    queuedrop: u64,
    marked: u64,
    /// Packets passed to the inner queue.
    entered: u64,
    /// Packets that left the inner queue for transmission. All other packets that left the inner queue were dropped.
    sent: u64,
}

/// An SFB queue: the inner queue discipline, the bins and the penalty box.
#[derive(Clone)]
struct Sfb {
    params: TcParams,
    ecn: bool,
    waiting: u64,
    sets: [Bins; 2],
    /// Index of the active set, whose probabilities apply to arriving packets.
    current: usize,
    is_salted: bool,
    /// Ticks between changes of the sets.
    rehash: u64,
    /// Length of the warm-up of the other set before a change, in ticks.
    warm_up: u64,
    /// The last tick before the next change.
    rehash_at: u64,
    start: Start,
    /// Whether the other set is being warmed up.
    is_warming_up: bool,
    /// Time of the next check whether the sets change or the warm-up begins.
    next_check: Instant,
    penalty: Penalty,
    counts: Counts,
}

impl Sfb {
    /// Draws the time to the first change of the sets. In a settled queue, this time is random because the bins have
    /// been in use for a long time.
    fn draw_phase(&mut self, chance: &mut Rng) {
        if self.start.is_settled() && self.rehash > 0 {
            self.rehash_at = 1 + chance.below(self.rehash);
        }
    }

    /// Changes the sets or begins the warm-up if either is due, and sets the time of the next check.
    #[cold]
    fn catch_up(&mut self, now: Instant, rng: &mut Rng) {
        if !self.is_salted {
            self.is_salted = true;
            self.sets.iter_mut().for_each(|set| set.salt = rng.bits());
        }
        let tick = now.nanos() / TICK;
        if self.rehash > 0 && tick > self.rehash_at {
            self.sets[self.current].salt = rng.bits();
            self.current ^= 1;
            self.is_warming_up = false;
            self.rehash_at = tick + self.rehash;
        }
        let due = self.rehash_at;
        self.is_warming_up |= self.rehash > 0 && self.warm_up > 0 && tick + self.warm_up > due;
        let next = if self.is_warming_up { due } else { due.saturating_sub(self.warm_up).max(tick) };
        let nanos = next.saturating_add(1).saturating_mul(TICK);
        self.next_check = if self.rehash > 0 { Instant::from_nanos(nanos) } else { Instant::NEVER };
    }

    /// Decides whether an arriving `packet` is accepted, marked or dropped. Returns whether the packet is marked and
    /// the hashes under which the packet is counted, or the reason for the drop.
    #[inline(always)]
    fn decide(&mut self, packet: &Packet, cx: &mut Context<'_>) -> Result<(bool, Note), (Reason, Evidence)> {
        if self.waiting >= self.params.limit {
            self.counts.queuedrop += 1;
            return Err((Reason::Overflow, Evidence::default()));
        }
        if cx.now >= self.next_check {
            self.catch_up(cx.now, cx.rng);
        }
        let set = &mut self.sets[self.current];
        let hash = set.hash(packet.flow);
        let (p, is_full) = set.arrive(hash, &self.params);
        let mut note = [0; 2];
        note[self.current] = hash;
        let decision = if is_full {
            self.counts.bucketdrop += 1;
            Err((Reason::FlowLimit, Evidence::default()))
        } else if p == 0 {
            Ok(false)
        } else {
            // If the probability is 1, the packet is selected without drawing a random number.
            let draw = if p == ONE { 0 } else { (cx.rng.bits() >> 48) as u16 };
            if draw >= p { Ok(false) } else { self.treat_selected((p, draw), packet, &mut note, cx) }
        };
        match decision {
            Ok(_) => self.waiting += 1,
            Err(_) => self.uncount(note),
        }
        decision.map(|is_marked| (is_marked, note))
    }

    /// Returns whether a selected packet is marked, or the reason for the drop. The packet was selected because the
    /// random number `draw` is below the packet's probability `p`.
    #[inline(never)]
    fn treat_selected(
        &mut self,
        (p, draw): (u16, u16),
        packet: &Packet,
        note: &mut Note,
        cx: &mut Context<'_>,
    ) -> Result<bool, (Reason, Evidence)> {
        if p == ONE {
            if self.is_warming_up {
                let next = self.current ^ 1;
                note[next] = self.sets[next].hash(packet.flow);
                self.sets[next].arrive(note[next], &self.params);
            }
            if !self.penalty.admits(cx.now.nanos() / TICK) {
                self.counts.penaltydrop += 1;
                return Err((Reason::Unresponsive, Evidence::certain()));
            }
            return Ok(false);
        }
        // If the probability exceeds 1/2, some of the selected packets are dropped even if they could be marked; the
        // fraction of these packets grows with the probability.
        let beyond_half = 2 * u32::from(p.saturating_sub(ONE / 2));
        if u32::from(draw) < beyond_half || !self.ecn || !packet.ecn.can_be_marked() {
            self.counts.earlydrop += 1;
            let share = |value: u16| f64::from(value) / f64::from(ONE);
            return Err((Reason::Early, Evidence::drawn(share(p), share(draw))));
        }
        self.counts.marked += 1;
        Ok(true)
    }

    #[inline(always)]
    fn uncount(&mut self, note: Note) {
        for (set, hash) in self.sets.iter_mut().zip(note) {
            if hash > 0 {
                set.leave(hash);
            }
        }
    }

    /// Removes an accepted packet that is no longer queued.
    #[inline(always)]
    fn leave(&mut self, note: Note) {
        self.uncount(note);
        self.waiting -= 1;
    }

    /// Returns the maximum number of packets in a bin, the maximum probability and the mean probability of the bins.
    fn extremes(&self) -> (u32, u16, u16) {
        let bins = || self.sets[self.current].bins.iter().flatten();
        let total: u32 = bins().map(|bin| u32::from(bin.p_mark())).sum();
        let packets = bins().map(|bin| bin.packets()).max().unwrap_or(0);
        let p_mark = bins().map(|bin| bin.p_mark()).max().unwrap_or(0);
        (packets, p_mark, (total / (LEVELS * BINS) as u32) as u16)
    }

    fn show_gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let (maxqlen, maxprob, avgprob) = self.extremes();
        show(Gauge::new("maxqlen", maxqlen.into(), "packets"));
        show(Gauge::number("maxprob", as_share(maxprob)));
        show(Gauge::number("avgprob", as_share(avgprob)));
    }

    fn statistics(&self) -> Value {
        let Counts { earlydrop, penaltydrop, bucketdrop, queuedrop, marked, entered, sent } = self.counts;
        let (maxqlen, maxprob, avgprob) = self.extremes();
        json!({
            "overlimits": queuedrop + bucketdrop + penaltydrop, "earlydrop": earlydrop,
            "penaltydrop": penaltydrop, "bucketdrop": bucketdrop, "queuedrop": queuedrop,
            "childdrop": entered.saturating_sub(sent + self.waiting), "marked": marked, "maxqlen": maxqlen,
            "maxprob": as_share(maxprob), "avgprob": as_share(avgprob),
        })
    }
}

/// The hashes under which a packet is counted in the two sets. A hash of zero means that the packet is not counted in
/// the corresponding set.
type Note = [u64; 2];

impl Wrapper for Sfb {
    type Note = Note;

    fn on_start(&mut self, chance: &mut Rng) {
        self.draw_phase(chance);
    }

    fn on_arrival(&mut self, mut packet: Packet, inside: &mut Inside<Note>, cx: &mut Context<'_>) {
        match self.decide(&packet, cx) {
            Err((reason, evidence)) => cx.drop_on(packet, reason, evidence),
            Ok((is_marked, note)) => {
                if is_marked {
                    cx.mark(&mut packet, Reason::Early);
                }
                self.counts.entered += 1;
                inside.enqueue(packet, note, cx);
            }
        }
    }

    fn on_removed(&mut self, _slot: u32, note: Note) {
        self.leave(note);
    }

    fn on_departure(&mut self, _: &mut Packet, _: Note, _: &Inside<Note>, _: &mut Context<'_>) {
        self.counts.sent += 1;
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.show_gauges(show);
    }

    fn tc_statistics(&self) -> Value {
        self.statistics()
    }
}

/// An SFB queue whose inner queue is a built-in FIFO.
#[derive(Clone)]
struct SfbWithFifo {
    sfb: Sfb,
    fifo: Fifo<Note>,
}

impl QueueDiscipline for SfbWithFifo {
    fn on_start(&mut self, chance: &mut Rng) {
        self.sfb.draw_phase(chance);
    }

    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        match self.sfb.decide(&packet, cx) {
            Err((reason, evidence)) => cx.drop_on(packet, reason, evidence),
            Ok((is_marked, note)) => {
                if is_marked {
                    cx.mark(&mut packet, Reason::Early);
                }
                self.fifo.push_with(packet, note);
            }
        }
    }

    fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
        let (packet, note) = self.fifo.pop_with()?;
        self.sfb.leave(note);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for SfbWithFifo {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.sfb.show_gauges(show);
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        self.sfb.statistics()
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;
    use crate::testing::{Driver, ect, packet};

    fn driver(change: Value, seed: u64) -> Driver {
        let mut table = json!({"kind": "sfb"});
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Driver::new(table, seed)
    }

    fn of(flow: u32) -> Packet {
        Packet { flow, ..packet(1000) }
    }

    fn at(driver: &mut Driver, millis: u64) {
        driver.now = Instant::from_nanos(millis * 1_000_000);
    }

    fn count(driver: &Driver, name: &str) -> u64 {
        driver.queue.tc_statistics(driver.now)[name].as_u64().unwrap()
    }

    #[test]
    fn the_configuration_matches_the_one_reported_by_a_kernel() {
        // `tc` shows `sfb limit 200` as: limit 200p max 25p target 20p increment 0.000503548 decrement 4.57771e-05.
        let config = Config { limit: Length::Packets(200), ..Config::default() };
        let options = config.tc_options(Rate::from_bps(10_000_000)).unwrap();
        let expected = json!({
            "kind": "sfb", "rehash": 600_000_000, "db": 60_000_000, "limit": 200, "max": 25, "target": 20,
            "increment": 33.0 / 65_535.0, "decrement": 3.0 / 65_535.0, "penalty_rate": 10, "penalty_burst": 20,
        });
        assert_eq!(options, expected);
        let lengths = |max: Option<u64>, target: Option<u64>| {
            let length = |packets: Option<u64>| packets.map(Length::Packets);
            Config { max: length(max), target: length(target), ..Config::default() }.lengths()
        };
        assert_eq!((lengths(Some(50), None), lengths(None, Some(9))), ((50, 40), (11, 9)));
    }

    #[test]
    fn a_bin_admits_max_packets_and_its_probability_rises_from_target_on() {
        let mut driver = driver(json!({"increment": 0.01, "decrement": 0.1}), 1);
        let mut p = Vec::new();
        while count(&driver, "bucketdrop") < 3 {
            driver.offer(of(1));
            p.push((driver.gauge("maxprob") * 65_535.0) as u32);
        }
        let rising = p.iter().filter(|p| **p > 0).count();
        // The probability 0.01 is stored as 655 / 65,535.
        assert_eq!((p[19], p[20], p[p.len() - 1]), (0, 655, 655 * rising as u32));
        assert_eq!((driver.gauge("maxqlen"), driver.queue.backlog().packets), (25.0, 25));
        while driver.take().is_some() {}
        driver.offer(of(1));
        assert_eq!(driver.gauge("maxprob") * 65_535.0, f64::from((655 * rising as u32).saturating_sub(6554)));
    }

    #[test]
    fn an_unresponsive_flow_reaches_probability_1_and_the_others_are_not_affected() {
        // Nine flows of 50 packets per second and one flow of 2000 packets per second share a link of 1250 packets per
        // second.
        let mut driver = driver(json!({"limit": "1000p"}), 3);
        let (mut sent, mut most) = ([0_u32; 2], 0.0);
        for k in 0..120_000_u64 {
            driver.now = Instant::from_nanos(k * 500_000);
            driver.offer(of(0));
            if k % 40 < 9 {
                driver.offer(of(1 + (k % 40) as u32));
            }
            if k % 8 < 5
                && let Some(packet) = driver.take()
            {
                sent[usize::from(packet.flow > 0)] += 1;
            }
            most = f64::max(most, driver.gauge("maxprob"));
        }
        let dropped = driver.fates.dropped_packets().filter(|packet| packet.flow > 0).count();
        assert_eq!((most, dropped), (1.0, 0), "{sent:?} {}", driver.queue.tc_statistics(driver.now));
    }

    /// Creates a queue with one queued packet, in which flow 7 has the probability `p`.
    fn with_probability(p: f64, change: Value) -> Driver {
        let mut table = json!({"target": "2p", "max": "9p", "increment": p, "decrement": 0.0});
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut driver = driver(table, 5);
        (0..3).for_each(|_| {
            driver.offer(of(7));
        });
        while driver.queue.backlog().packets > 1 {
            driver.take();
        }
        driver.fates = crate::testing::Fates::default();
        driver
    }

    #[test]
    fn above_one_half_a_growing_part_of_the_selected_packets_is_dropped_although_it_could_be_marked() {
        for (p, dropped) in [(0.3, 0.0), (0.5, 0.0), (0.75, 0.5), (0.9, 0.8)] {
            for (like, ecn) in [(ect(1000), true), (ect(1000), false), (packet(1000), true)] {
                let mut driver = with_probability(p, json!({"ecn": ecn}));
                let before = [count(&driver, "marked"), count(&driver, "earlydrop")];
                let packets = 20_000;
                for _ in 0..packets {
                    driver.offer(Packet { flow: 7, ..like });
                    while driver.queue.backlog().packets > 1 {
                        driver.take();
                    }
                }
                let counts = driver.fates.counts;
                let [drops, marks] =
                    [counts.early, counts.marks].map(|count| count as f64 / f64::from(packets));
                let marked = if ecn && like.ecn.can_be_marked() { p - dropped } else { 0.0 };
                assert!(
                    (marks - marked).abs() < 0.015 && (drops + marks - p).abs() < 0.015,
                    "{p} {drops} {marks}"
                );
                assert_eq!(count(&driver, "marked") - before[0], counts.marks);
                assert_eq!(count(&driver, "earlydrop") - before[1], counts.early);
            }
        }
    }

    #[test]
    fn the_penalty_box_counts_whole_tokens_since_its_last_check() {
        let mut driver = with_probability(1.0, json!({}));
        let mut passed = |millis: u64| {
            at(&mut driver, millis);
            while driver.queue.backlog().packets > 1 {
                driver.take();
            }
            let before = driver.fates.counts.other;
            driver.offer(of(7));
            driver.fates.counts.other == before
        };
        // The packet that raised the probability has used one token of the burst.
        assert_eq!((1..=100).filter(|millis| passed(*millis)).count(), 19);
        assert_eq!(
            (101..=3000).filter(|millis| passed(*millis)).count(),
            0,
            "the manual says ten per second"
        );
        assert_eq!([3099, 3199, 3200, 3500].map(&mut passed), [false, true, false, true]);
        assert_eq!((3501..=3503).map(&mut passed).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(count(&driver, "penaltydrop"), driver.fates.counts.other);
    }

    #[test]
    fn new_bins_have_the_probability_of_an_unresponsive_flow_only_after_a_warm_up() {
        for (db, is_known) in [("0s", false), ("5s", true)] {
            let change =
                json!({"rehash": "10s", "db": db, "increment": 1.0, "decrement": 0.0, "penalty_rate": 1000});
            let mut driver = driver(change, 2);
            let mut p = Vec::new();
            for millis in 1..=10_001 {
                at(&mut driver, millis);
                driver.offer(of(7));
                driver.offer(of(7));
                driver.take();
                p.push(driver.gauge("maxprob"));
            }
            assert_eq!((p[9_999], p[10_000] == 1.0), (1.0, is_known), "{db}");
        }
    }

    #[test]
    fn bins_keep_their_probabilities_while_they_are_inactive() {
        let change = json!({"rehash": "10s", "db": "0s", "increment": 1.0, "decrement": 0.0});
        let mut driver = driver(change, 2);
        let p = [1, 2, 10_002, 20_004].map(|millis| {
            at(&mut driver, millis);
            (0..22).for_each(|_| {
                driver.offer(of(7));
            });
            let p = driver.gauge("maxprob");
            while driver.take().is_some() {}
            driver.offer(of(7));
            while driver.take().is_some() {}
            p
        });
        assert_eq!(p, [1.0; 4]);
        let mut probabilities = Vec::new();
        for millis in [30_006, 40_008] {
            at(&mut driver, millis);
            driver.offer(of(8));
            driver.take();
            probabilities.push(driver.gauge("maxprob"));
        }
        assert_eq!(probabilities, [1.0, 1.0], "the probability of a flow that has ended");
    }

    #[test]
    fn after_a_change_bins_count_queued_packets_and_become_empty_with_the_queue() {
        let mut driver =
            driver(json!({"rehash": "7ms", "db": "6ms", "increment": 0.2, "penalty_rate": 1000}), 2);
        for k in 0..3000 {
            at(&mut driver, k);
            (0..3).for_each(|flow| {
                driver.offer(of(flow * 17));
            });
            if k % 50 > 10 {
                driver.take();
            }
        }
        assert!(driver.fates.counts.drops() > 3000);
        while driver.take().is_some() {}
        assert_eq!(driver.gauge("maxqlen"), 0.0);
    }

    #[test]
    fn a_flow_shares_all_its_bins_with_unresponsive_flows_as_often_as_the_manual_says() {
        // According to tc-sfb(8), M unresponsive flows affect another flow with a probability of (1 - (1 - 1/16)^M)^8,
        // which is 0.26 % for M = 10.
        let (mut hit, salts) = (0, 4000_u32);
        let mut rng = Streams::new(1).named("salts", 0);
        for _ in 0..salts {
            let mut bins = Bins { salt: rng.bits(), ..Bins::EMPTY };
            (0..10).for_each(|hog| bins.of(bins.hash(hog), |bin| bin.0 = u64::from(ONE) << 32));
            for flow in 10..30 {
                let mut least = ONE;
                bins.of(bins.hash(flow), |bin| least = least.min(bin.p_mark()));
                hit += u32::from(least == ONE);
            }
        }
        let p = libm::pow(1.0 - libm::pow(15.0 / 16.0, 10.0), 8.0);
        let expected = p * f64::from(20 * salts);
        assert!((f64::from(hit) - expected).abs() < 5.0 * expected.sqrt(), "{hit}, not {expected}");
    }

    #[test]
    fn packets_that_the_inner_queue_drops_leave_the_bins() {
        let mut driver = driver(json!({"queue": {"kind": "drop-tail", "limit": "4p"}}), 1);
        (0..10).for_each(|_| {
            driver.offer(of(7));
        });
        assert_eq!((count(&driver, "childdrop"), driver.gauge("maxqlen")), (6, 4.0));
        while driver.take().is_some() {}
        assert_eq!((count(&driver, "childdrop"), driver.gauge("maxqlen")), (6, 0.0));
        assert_eq!(count(&driver, "overlimits"), 0);
    }

    #[test]
    fn invalid_parameters_are_rejected_with_their_names() {
        let refused = |change: Value, path: &str, problem: &str| {
            let mut table = json!({"kind": "sfb"});
            table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let errors = crate::Config::read(table).unwrap().build(Rate::from_bps(10_000_000)).err().unwrap();
            assert_eq!(errors.first().path, path, "{errors}");
            assert!(errors.first().problem.contains(problem), "{errors}");
        };
        refused(json!({"limit": "20kB"}), "limit", "in packets");
        refused(json!({"max": "0p"}), "max", "at least 1p");
        refused(json!({"max": "10p", "target": "11p"}), "target", "at most max (10p)");
        refused(json!({"max": "65535p"}), "max", "less than 65535p");
        refused(json!({"increment": 1.5}), "increment", "from 0 to 1");
        refused(json!({"queue": {"kind": "drop-tail", "limit": "0p"}}), "queue.limit", "at least");
    }
}
