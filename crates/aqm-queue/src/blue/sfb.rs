//! SFB: Stochastic Fair Blue, which finds out who does not respond.
//!
//! W. Feng, D. Kandlur, D. Saha, K. Shin, "Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness",
//! IEEE INFOCOM 2001, as `sch_sfb` of Linux 6.1 has it (J. Chroboczek, E. Dumazet), with the numbers of `tc`:
//! - A flow's hash puts it into one of 16 bins on each of 8 levels. A bin counts its packets that wait and has a
//!   probability in 16 bits. An arrival lowers it by `decrement` if the bin is empty, and raises it by `increment`
//!   from `target` packets on.
//! - A packet is judged by the least probability of its bins, which is its flow's own if it is alone in one. It is
//!   marked, or dropped if it cannot be. Above 1/2 part of the chosen are dropped in any case, at 1 all of them.
//! - A packet whose bins all have `max` packets is dropped (`bucketdrop`).
//! - At probability 1 a flow does not respond: what all such flows send passes at `penalty_rate` packets a second at
//!   most, without chance (`penaltydrop`).
//! - Every `rehash` the flows get other bins. For the time `db` before, the next bins learn from the flows that do not
//!   respond. Packets that wait are counted in the bins that they came into.
//! - The queue itself is another discipline, a FIFO if none is named.
//!
//! As in the kernel, and worth knowing:
//! - The penalty box is not what its manual says: when it is out of tokens it counts those since it last looked, in
//!   whole tokens, and looks at each packet. So a flow that sends more often than `penalty_rate` gets nothing at all
//!   until it pauses.
//! - Bins that had their time keep their probabilities while others are in force, and have them still when it is their
//!   turn again, although other flows fall into them.
//! - With `db` nought, or as long as no flow is beyond help, nothing is learnt before a change.
//!
//! What `start` sets is the time until the first change of bins: drawn from one `rehash` if the queue is settled, a whole
//! one if it is fresh. In both no flow has failed to respond, so all probabilities are 0, and the penalty box is full.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Span, parameters,
};
use serde_json::{Value, json};

use crate::fair::classifier::mix;
use crate::start::Start;
use crate::wrappers::wrapper::{self, Inside, Wrapped, Wrapper};
use crate::{
    Build, Context, Derived, Describe, Fifo, Gauge, Inner, QueueDiscipline, Reason, Report, TestCases,
};

parameters! {
    /// Stochastic Fair Blue: marks or drops by the probability of the least busy of a flow's hashed bins, and lets
    /// little pass of flows that do not respond.
    ///
    /// Differences from Linux:
    ///
    /// - The clock of the kernel ticks each millisecond (`HZ` 1000).
    /// - Flows are told apart by their numbers. The salts of both sets of bins are drawn as the first packet arrives.
    ///   There are no filters of `tc`.
    /// - A packet that the queue drops at any time leaves its bins, and counts as `childdrop`. In the kernel the queue
    ///   must not drop a packet that it has accepted.
    /// - The SFB of the kernel always marks; here `ecn` may be off.
    /// - With `db` of at least `rehash` the bins that take over may begin to teach the next ones with the same packet,
    ///   in the kernel with the next packet.
    pub struct Config {
        /// The most that may wait, in packets; the packet on the line is not counted.
        pub limit: Length = Length::Packets(1000), "Linux 6.1: the length of an Ethernet device's queue";
        /// Packets in a bin from which on nothing enters it. Left out: 5/4 of `target`, without it 25p.
        pub max: Option<Length> = None, "tc-sfb";
        /// Packets in a bin from which on its probability rises. Left out: 4/5 of `max`.
        pub target: Option<Length> = None, "tc-sfb";
        /// What a packet that meets a long bin adds to its probability.
        pub increment: f64 = 0.0005, "tc-sfb";
        /// What a packet that meets an empty bin takes from its probability.
        pub decrement: f64 = 0.00005, "tc-sfb";
        /// Packets a second that may pass of all flows that do not respond.
        pub penalty_rate: u32 = 10, "tc-sfb";
        /// How many of these may pass at once.
        pub penalty_burst: u32 = 20, "tc-sfb";
        /// How often the bins of flows change; 0s: never.
        pub rehash: Span = Span::from_millis(600_000), "tc-sfb";
        /// How long before a change the next bins begin to learn; 0s: they do not.
        pub db: Span = Span::from_millis(60_000), "tc-sfb";
        /// Whether ECN-capable packets are marked instead of dropped while the probability is moderate.
        pub ecn: bool = true, "Linux 6.1, which always does";
        /// The queue, any discipline. Left out: first in, first out.
        pub queue: Option<Box<crate::Config>> = None, "Linux 6.1";
        /// With `rehash`: whether its time is running as a run begins (`settled`), or starts with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

/// What the kernel is told, but for times.
#[derive(Clone, Copy)]
struct Told {
    limit: u64,
    max: u32,
    target: u32,
    increment: u16,
    decrement: u16,
}

impl Config {
    /// `max` and `target`, given or not.
    fn lengths(&self) -> (u64, u64) {
        let count = |length: Option<Length>| length.map(Length::count).filter(|packets| *packets > 0);
        let max = count(self.max).unwrap_or(count(self.target).map_or(25, |target| (target * 5 + 1) / 4));
        (max, count(self.target).unwrap_or((max * 4 + 3) / 5))
    }

    /// What the kernel is told.
    ///
    /// # Errors
    /// What `tc` refuses, or makes no sense.
    fn told(&self) -> Result<Told, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (place, length) in [("limit", Some(self.limit)), ("max", self.max), ("target", self.target)] {
            let is_packets = length.is_none_or(|length| !length.in_bytes() && length.count() > 0);
            errors.check(is_packets, place, "must be in packets, at least 1p");
        }
        for (place, share) in [("increment", self.increment), ("decrement", self.decrement)] {
            let problem = format_args!("must be from 0 to 1, not {share}");
            errors.check((0.0..=1.0).contains(&share), place, problem);
        }
        let (max, target) = self.lengths();
        // The kernel's bin counts in 16 bits.
        let fits = max < u64::from(u16::MAX);
        errors.check(fits, "max", format_args!("must be less than {}p", u16::MAX));
        errors.check(!fits || target <= max, "target", format_args!("must be at most max, {max}p"));
        errors.finish(())?;
        let share = |share: f64| (share * f64::from(ONE) + 0.5) as u16;
        Ok(Told {
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
        let told = errors.take(self.told());
        errors.check_effect(!self.rehash.is_zero(), self, &["db", "start"], "with rehash = \"0s\"");
        let inside = self.queue.as_ref().map(|queue| Inside::build(Some(queue), rate)).transpose();
        let inside = errors.take(inside);
        let (told, inside) = errors.finish_some(told.zip(inside))?;
        let sfb = Sfb {
            told,
            ecn: self.ecn,
            waiting: 0,
            sets: [Bins::EMPTY; 2],
            current: 0,
            is_salted: false,
            rehash: self.rehash.nanos() / TICK,
            warm_up: self.db.nanos() / TICK,
            rehash_at: self.rehash.nanos() / TICK,
            start: self.start,
            next_learns: false,
            looks_at: Instant::START,
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
            None => Box::new(Alone { sfb, fifo: Fifo::new(Length::Packets(told.limit)) }),
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

    fn outlet(&self, line: Rate) -> Rate {
        self.queue.as_ref().map_or(line, |queue| queue.outlet(line))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let (max, target) = self.lengths();
        let chosen = [("max", self.max, max), ("target", self.target, target)];
        let own = chosen.into_iter().filter(|(_, given, _)| given.is_none());
        let own = own.map(|(name, _, value)| Derived::new(name, value as f64, "packets"));
        own.chain(crate::describe::derived_inside(self, rate)).collect()
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let mut warnings = crate::describe::warnings_inside(self, rate);
        if !self.rehash.is_zero() && self.db >= self.rehash {
            let problem =
                format!("should be less than rehash, {}: the next bins learn all the time", self.rehash);
            warnings.push(ConfigError::at("db", problem));
        }
        warnings
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let Told { limit, max, target, increment, decrement } = self.told().ok()?;
        let micros = |time: Span| time.nanos() / 1_000_000 * 1000;
        Some(json!({
            "kind": "sfb", "rehash": micros(self.rehash), "db": micros(self.db), "limit": limit, "max": max,
            "target": target, "increment": as_share(increment), "decrement": as_share(decrement),
            "penalty_rate": self.penalty_rate, "penalty_burst": self.penalty_burst,
        }))
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

/// The levels, and the bins of each.
const LEVELS: usize = 8;
const BINS: usize = 16;
/// The bits of a hash: a byte for each level, that has the number of a bin.
const NUMBERS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
/// Probability 1 (`SFB_MAX_PROB`).
const ONE: u16 = u16::MAX;
/// The kernel's clock.
const TICK: u64 = 1_000_000;
const TICKS_A_SECOND: u64 = 1000;

fn as_share(probability: u16) -> f64 {
    f64::from(probability) / f64::from(ONE)
}

/// A bin: packets that wait in the lower half, its probability in the upper, so that the one of two that is less has
/// the lower probability.
#[derive(Clone, Copy)]
struct Bin(u64);

impl Bin {
    fn packets(self) -> u32 {
        self.0 as u32
    }

    fn p_mark(self) -> u16 {
        (self.0 >> u32::BITS) as u16
    }

    /// A packet arrives where nothing waits, or much; whether it is the most that may.
    fn learn(&mut self, told: &Told) -> bool {
        let p_mark = if self.packets() == 0 {
            self.p_mark().saturating_sub(told.decrement)
        } else {
            self.p_mark().saturating_add(told.increment)
        };
        self.0 = u64::from(p_mark) << u32::BITS | u64::from(self.packets());
        self.packets() >= told.max
    }
}

/// The bins under one hash.
#[derive(Clone)]
struct Bins {
    salt: u64,
    bins: [[Bin; BINS]; LEVELS],
}

impl Bins {
    const EMPTY: Self = Self { salt: 0, bins: [[Bin(0); BINS]; LEVELS] };

    /// Where the packets of `flow` are counted: a bin of each level. Never nought, which says nowhere.
    #[inline]
    fn hash(&self, flow: u32) -> u64 {
        (mix(u64::from(flow).wrapping_add(self.salt)) & NUMBERS).max(1)
    }

    /// Calls `act` with the flow's bin of each level.
    #[inline(always)]
    fn of(&mut self, hash: u64, mut act: impl FnMut(&mut Bin)) {
        for (level, number) in self.bins.iter_mut().zip((hash & NUMBERS).to_le_bytes()) {
            act(&mut level[usize::from(number)]);
        }
    }

    /// A packet arrives in these bins: their probabilities move, and it is counted. Returns the least probability, and
    /// whether all of the bins had the most that they may have.
    #[inline(always)]
    fn arrive(&mut self, hash: u64, told: &Told) -> (u16, bool) {
        let (mut least, mut full) = (Bin(u64::MAX), 0);
        self.of(hash, |bin| {
            // Neither nothing waits nor much, mostly.
            if bin.packets().wrapping_sub(1) >= told.target - 1 {
                full += u32::from(bin.learn(told));
            }
            least.0 = least.0.min(bin.0);
            bin.0 += 1;
        });
        (least.p_mark(), full == LEVELS as u32)
    }

    /// A packet is not in these bins any more.
    #[inline(always)]
    fn leave(&mut self, hash: u64) {
        self.of(hash, |bin| bin.0 -= 1);
    }
}

/// What flows that do not respond may send.
#[derive(Clone)]
struct Penalty {
    rate: u64,
    burst: u64,
    tokens: u64,
    counted_at: u64,
}

impl Penalty {
    /// Whether a packet may pass at this tick of the clock.
    fn admits(&mut self, now: u64) -> bool {
        if self.rate == 0 || self.burst == 0 {
            return false;
        }
        if self.tokens == 0 {
            let age = (now - self.counted_at).min(10 * TICKS_A_SECOND);
            self.tokens = (age * self.rate / TICKS_A_SECOND).min(self.burst);
            self.counted_at = now;
        }
        let admits = self.tokens > 0;
        self.tokens -= u64::from(admits);
        admits
    }
}

/// What `tc -s` shows.
#[derive(Clone, Copy, Default)]
struct Counts {
    earlydrop: u64,
    penaltydrop: u64,
    bucketdrop: u64,
    queuedrop: u64,
    marked: u64,
    /// Packets that passed, and that left: of the others the queue knows.
    entered: u64,
    sent: u64,
}

/// The running wrapper.
#[derive(Clone)]
struct Sfb {
    told: Told,
    ecn: bool,
    waiting: u64,
    sets: [Bins; 2],
    /// The set by which packets are judged.
    current: usize,
    is_salted: bool,
    /// Ticks from change to change of the sets, and before it those in which the other set learns.
    rehash: u64,
    warm_up: u64,
    /// The last tick before the next change.
    rehash_at: u64,
    start: Start,
    next_learns: bool,
    /// When it may be time for one of both.
    looks_at: Instant,
    penalty: Penalty,
    counts: Counts,
}

impl Sfb {
    /// The bins have been in use for long as the run begins.
    fn draw_phase(&mut self, chance: &mut Rng) {
        if self.start.is_settled() && self.rehash > 0 {
            self.rehash_at = 1 + chance.below(self.rehash);
        }
    }

    /// Changes the sets if it is time, and says when to look again.
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
            self.next_learns = false;
            self.rehash_at = tick + self.rehash;
        }
        let due = self.rehash_at;
        self.next_learns |= self.rehash > 0 && self.warm_up > 0 && tick + self.warm_up > due;
        let next = if self.next_learns { due } else { due.saturating_sub(self.warm_up).max(tick) };
        let nanos = next.saturating_add(1).saturating_mul(TICK);
        self.looks_at = if self.rehash > 0 { Instant::from_nanos(nanos) } else { Instant::NEVER };
    }

    /// Why `packet` must go, or whether it is to be marked, and where it is counted from now on.
    #[inline(always)]
    fn judge(&mut self, packet: &Packet, cx: &mut Context<'_>) -> Result<(bool, Note), Reason> {
        if self.waiting >= self.told.limit {
            self.counts.queuedrop += 1;
            return Err(Reason::Overflow);
        }
        if cx.now >= self.looks_at {
            self.catch_up(cx.now, cx.rng);
        }
        let set = &mut self.sets[self.current];
        let hash = set.hash(packet.flow);
        let (p, is_full) = set.arrive(hash, &self.told);
        let mut note = [0; 2];
        note[self.current] = hash;
        let judged = if is_full {
            self.counts.bucketdrop += 1;
            Err(Reason::FlowLimit)
        } else if p == 0 {
            Ok(false)
        } else {
            // Probability 1 leaves nothing to chance.
            let draw = if p == ONE { 0 } else { (cx.rng.bits() >> 48) as u16 };
            if draw >= p { Ok(false) } else { self.choose((p, draw), packet, &mut note, cx) }
        };
        match judged {
            Ok(_) => self.waiting += 1,
            Err(_) => self.uncount(note),
        }
        judged.map(|is_marked| (is_marked, note))
    }

    /// Whether a packet that met this least probability, and drew a number below it, is marked, or why it is dropped.
    #[inline(never)]
    fn choose(
        &mut self,
        (p, draw): (u16, u16),
        packet: &Packet,
        note: &mut Note,
        cx: &mut Context<'_>,
    ) -> Result<bool, Reason> {
        if p == ONE {
            if self.next_learns {
                let next = self.current ^ 1;
                note[next] = self.sets[next].hash(packet.flow);
                self.sets[next].arrive(note[next], &self.told);
            }
            if !self.penalty.admits(cx.now.nanos() / TICK) {
                self.counts.penaltydrop += 1;
                return Err(Reason::Unresponsive);
            }
            return Ok(false);
        }
        // From 1/2 on a growing part of the chosen cannot buy themselves off with a mark.
        let beyond_half = 2 * u32::from(p.saturating_sub(ONE / 2));
        if u32::from(draw) < beyond_half || !self.ecn || !packet.ecn.can_be_marked() {
            self.counts.earlydrop += 1;
            return Err(Reason::Early);
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

    /// A packet that passed does not wait any more.
    #[inline(always)]
    fn leave(&mut self, note: Note) {
        self.uncount(note);
        self.waiting -= 1;
    }

    /// The longest bin, the largest probability and the mean one.
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

/// The hashes under which a packet is counted, of both sets; nought where it is not.
type Note = [u64; 2];

impl Wrapper for Sfb {
    type Note = Note;

    fn on_start(&mut self, chance: &mut Rng) {
        self.draw_phase(chance);
    }

    fn on_arrival(&mut self, mut packet: Packet, inside: &mut Inside<Note>, cx: &mut Context<'_>) {
        match self.judge(&packet, cx) {
            Err(reason) => cx.drop(packet, reason),
            Ok((is_marked, note)) => {
                if is_marked {
                    cx.mark(&mut packet, Reason::Early);
                }
                self.counts.entered += 1;
                inside.enqueue(packet, note, cx);
            }
        }
    }

    fn on_removed(&mut self, _place: u32, note: Note) {
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

/// With a FIFO of its own.
#[derive(Clone)]
struct Alone {
    sfb: Sfb,
    fifo: Fifo<Note>,
}

impl QueueDiscipline for Alone {
    fn on_start(&mut self, chance: &mut Rng) {
        self.sfb.draw_phase(chance);
    }

    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        match self.sfb.judge(&packet, cx) {
            Err(reason) => cx.drop(packet, reason),
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

impl Report for Alone {
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
    fn what_was_read_back_from_a_kernel_is_what_follows_from_the_same_words() {
        // `sfb limit 200`: limit 200p max 25p target 20p increment 0.000503548 decrement 4.57771e-05.
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
        // 0.01 is 655 of 65,535.
        assert_eq!((p[19], p[20], p[p.len() - 1]), (0, 655, 655 * rising as u32));
        assert_eq!((driver.gauge("maxqlen"), driver.queue.backlog().packets), (25.0, 25));
        while driver.take().is_some() {}
        driver.offer(of(1));
        assert_eq!(driver.gauge("maxprob") * 65_535.0, f64::from((655 * rising as u32).saturating_sub(6554)));
    }

    #[test]
    fn a_hog_comes_to_probability_1_and_the_others_do_not_feel_it() {
        // 9 flows of 50 packets a second and one of 2000, on a line of 1250.
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

    /// A queue in which the flow 7 has this probability, with one packet that waits.
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
    fn from_a_half_on_a_growing_part_of_the_chosen_is_dropped_although_it_could_be_marked() {
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
    fn the_penalty_box_counts_whole_tokens_since_it_last_looked() {
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
        // One of the burst has gone with the packet that raised the probability.
        assert_eq!((1..=100).filter(|millis| passed(*millis)).count(), 19);
        assert_eq!((101..=3000).filter(|millis| passed(*millis)).count(), 0, "ten a second, says the manual");
        assert_eq!([3099, 3199, 3200, 3500].map(&mut passed), [false, true, false, true]);
        assert_eq!((3501..=3503).map(&mut passed).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(count(&driver, "penaltydrop"), driver.fates.counts.other);
    }

    #[test]
    fn bins_change_at_rehash_and_know_a_hog_only_if_they_have_learnt_before() {
        for (db, known) in [("0s", false), ("5s", true)] {
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
            assert_eq!((p[9_999], p[10_000] == 1.0), (1.0, known), "{db}");
        }
    }

    #[test]
    fn bins_have_their_probabilities_still_when_it_is_their_turn_again() {
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
        let mut seen = Vec::new();
        for millis in [30_006, 40_008] {
            at(&mut driver, millis);
            driver.offer(of(8));
            driver.take();
            seen.push(driver.gauge("maxprob"));
        }
        assert_eq!(seen, [1.0, 1.0], "of a flow that is gone");
    }

    #[test]
    fn bins_that_changed_count_what_waits_and_are_empty_in_the_end() {
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
    fn a_flow_meets_a_hog_in_all_its_bins_as_often_as_the_manual_says() {
        // tc-sfb: (1 - (1 - 1/16)^M)^8, which is 0.26 % for 10 hogs.
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
    fn what_the_queue_inside_drops_leaves_the_bins() {
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
    fn what_cannot_be_is_refused_with_its_place() {
        let refused = |change: Value, place: &str, problem: &str| {
            let mut table = json!({"kind": "sfb"});
            table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let errors = crate::Config::read(table).unwrap().build(Rate::from_bps(10_000_000)).err().unwrap();
            assert_eq!(errors.first().place, place, "{errors}");
            assert!(errors.first().problem.contains(problem), "{errors}");
        };
        refused(json!({"limit": "20kB"}), "limit", "in packets");
        refused(json!({"max": "0p"}), "max", "at least 1p");
        refused(json!({"max": "10p", "target": "11p"}), "target", "at most max, 10p");
        refused(json!({"max": "65535p"}), "max", "less than 65535p");
        refused(json!({"increment": 1.5}), "increment", "from 0 to 1");
        refused(json!({"queue": {"kind": "drop-tail", "limit": "0p"}}), "queue.limit", "at least");
    }
}
