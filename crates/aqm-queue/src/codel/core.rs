//! CoDel's control law without a buffer, usable with any queue: decides which packets to drop or mark when they are
//! dequeued.
//!
//! K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, "Controlled Delay Active Queue Management", RFC 8289, section 5;
//! Linux 6.1's `include/net/codel.h` and `codel_impl.h` (E. Dumazet, D. Täht).
//! - A packet is late if its sojourn time is at least `target` and more than `mtu` bytes remain behind it.
//! - The dropping state begins when all packets have been late for a whole `interval`. One packet is dropped at once,
//!   and the next packet one `interval` later. Each further drop is due `interval / sqrt(count)` after the time at
//!   which the previous drop was due. The dropping state ends when a packet is not late. Drops that become due between
//!   two dequeues occur at the second dequeue.
//! - If the dropping state begins again within 16 intervals, the drop rate does not start from its minimum. The new
//!   `count` is `count - lastcount`, that is, the `count` that the previous dropping state reached minus the `count`
//!   with which that state began.
//! - With `ecn`, ECN-capable packets are marked instead of dropped. With `ce_threshold`, packets whose sojourn time
//!   exceeds this threshold are marked, regardless of the dropping state.
//!
//! The implementations of Linux and of RFC 8289 differ:
//! - Linux ([`Ticks`]) counts units of 1024 ns modulo 2^32, and stores `1 / sqrt(count)` in 16 bits. Each drop updates
//!   this value by one step of Newton's method. RFC 8289 ([`Nanos`]) uses the exact value; aqmlab's implementation
//!   rounds times down to whole nanoseconds.
//! - In Linux, dropping begins only after the end of the `interval`; in RFC 8289, dropping may also begin exactly at
//!   the end of the `interval`.
//! - In Linux, a queue leaves the dropping state when a dequeue finds the queue empty, but the time since which packets
//!   have been late is kept.
//!
//! aqmlab's choice: because RFC 8289 does not define marking, both implementations mark as Linux does. A packet that is
//! already marked is not reported as marked again, but is counted as marked, as in the kernel.

use std::fmt::Debug;

use aqm_net::{ConfigError, ErrorCollector, Instant, Packet, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::tc::Qdisc;
use crate::{Context, Evidence, Fifo, Label, Reason};

/// A point in time or a time span in the unit of a CoDel implementation.
pub(crate) trait Time: Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The stored form of the square root of the count.
    type Root: Copy + Debug + Send + Sync;
    /// Whether, when a dequeue finds the queue empty, the time since which packets have been late is discarded.
    const EMPTY_FORGETS: bool;
    /// Stored root before the first drop.
    const UNCOUNTED: Self::Root;
    /// Stored root of a count of 1.
    const ONE: Self::Root;

    fn at(moment: Instant) -> Self;
    fn of(span: Span) -> Self;
    fn nanos(self) -> u64;
    fn plus(self, more: Self) -> Self;
    fn minus(self, less: Self) -> Self;
    fn times_16(self) -> Self;
    /// Returns whether this time is after `other`, for distances up to half the range of the clock.
    fn is_after(self, other: Self) -> bool;
    /// Returns whether the interval that ends at `end` is over at this time.
    fn ends(self, end: Self) -> bool;
    /// Returns the stored root for `count`, given the previous root.
    fn root(before: Self::Root, count: u32) -> Self::Root;
    /// Returns this time divided by the square root of the count.
    fn over(self, root: Self::Root) -> Self;

    /// Returns the nanoseconds from `earlier` to this time; negative if this time is before `earlier`.
    fn nanos_after(self, earlier: Self) -> i64 {
        if earlier.is_after(self) {
            -(earlier.minus(self).nanos() as i64)
        } else {
            self.minus(earlier).nanos() as i64
        }
    }
}

/// Linux's clock: units of 1024 ns, modulo 2^32 (`codel_time_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks(u32);

/// Binary logarithm of the nanoseconds per tick (`CODEL_SHIFT`).
const TICK_SHIFT: u32 = 10;
/// Number of bits by which the root is shifted so that its bits (`REC_INV_SQRT_BITS`) become the highest bits of a
/// 32-bit value.
const ROOT_SHIFT: u32 = 32 - u16::BITS;

impl Time for Ticks {
    /// `1 / sqrt(count)` in units of 2^-16 (`rec_inv_sqrt`).
    type Root = u16;
    const EMPTY_FORGETS: bool = false;
    const UNCOUNTED: u16 = 0;
    const ONE: u16 = u16::MAX;

    fn at(moment: Instant) -> Self {
        Self((moment.nanos() >> TICK_SHIFT) as u32)
    }

    fn of(span: Span) -> Self {
        Self((span.nanos() >> TICK_SHIFT) as u32)
    }

    fn nanos(self) -> u64 {
        u64::from(self.0) << TICK_SHIFT
    }

    fn plus(self, more: Self) -> Self {
        Self(self.0.wrapping_add(more.0))
    }

    fn minus(self, less: Self) -> Self {
        Self(self.0.wrapping_sub(less.0))
    }

    fn times_16(self) -> Self {
        Self(self.0.wrapping_mul(16))
    }

    fn is_after(self, other: Self) -> bool {
        self.minus(other).0 as i32 > 0
    }

    fn ends(self, end: Self) -> bool {
        self.is_after(end)
    }

    /// Computes one Newton step from `y`: `y (3 - count y^2) / 2`. If `y` is far too large, the result is meaningless,
    /// as in the kernel.
    fn root(before: u16, count: u32) -> u16 {
        let root = u64::from(before) << ROOT_SHIFT;
        let square = (root * root) >> 32;
        let rest = (3_u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
        (rest.wrapping_mul(root) >> (32 - 2 + 1 + ROOT_SHIFT)) as u16
    }

    fn over(self, root: u16) -> Self {
        Self(((u64::from(self.0) * (u64::from(root) << ROOT_SHIFT)) >> 32) as u32)
    }
}

/// RFC 8289's clock, which does not wrap around. aqmlab's implementation counts nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Nanos(u64);

impl Time for Nanos {
    /// The count itself, whose root is computed when needed.
    type Root = u32;
    const EMPTY_FORGETS: bool = true;
    const UNCOUNTED: u32 = 1;
    const ONE: u32 = 1;

    fn at(moment: Instant) -> Self {
        Self(moment.nanos())
    }

    fn of(span: Span) -> Self {
        Self(span.nanos())
    }

    fn nanos(self) -> u64 {
        self.0
    }

    fn plus(self, more: Self) -> Self {
        Self(self.0.wrapping_add(more.0))
    }

    fn minus(self, less: Self) -> Self {
        Self(self.0.wrapping_sub(less.0))
    }

    fn times_16(self) -> Self {
        Self(self.0 * 16)
    }

    fn is_after(self, other: Self) -> bool {
        self.minus(other).0 as i64 > 0
    }

    fn ends(self, end: Self) -> bool {
        !end.is_after(self)
    }

    fn root(_before: u32, count: u32) -> u32 {
        count
    }

    fn over(self, count: u32) -> Self {
        Self((self.0 as f64 / f64::from(count).sqrt()) as u64)
    }
}

choices! {
    /// Implementation of CoDel.
    pub enum Profile {
        /// Linux 6.1, with identical integer arithmetic.
        Linux = "linux",
        /// RFC 8289; in FQ-CoDel, together with RFC 8290.
        Rfc = "rfc",
    }
}

parameters! {
    /// CoDel's parameters.
    pub struct Settings {
        /// Implementation of CoDel.
        pub profile: Profile = Profile::Linux, "aqmlab's choice: the kernel used in the recorded runs";
        /// Acceptable standing queueing delay.
        pub target: Span = Span::from_millis(5), "RFC 8289, RFC 8290, Linux";
        /// Time for which the queueing delay must stay at or above `target` before a packet is dropped; about the
        /// maximum round-trip time.
        pub interval: Span = Span::from_millis(100), "RFC 8289, RFC 8290, Linux";
        /// Whether ECN-capable packets are marked instead of dropped, unless the queue is full.
        pub ecn: bool = false, "tc-codel: off; RFC 8290 and tc-fq_codel: on";
        /// Queueing delay above which ECN-capable packets are marked, regardless of `ecn`. Default: no packet is marked
        /// because of its queueing delay alone.
        pub ce_threshold: Option<Span> = None, "RFC 8290, Linux";
        /// Value that the DS field (DSCP and ECN) of a packet, masked with `ce_threshold_mask`, must have for the
        /// packet to be marked because of `ce_threshold`. For example, 1 with a mask of 3 selects packets with ECT(1).
        pub ce_threshold_selector: u32 = 0, "Linux: tc-fq_codel";
        /// Bits of the DS field that are compared with `ce_threshold_selector`; 0 selects all packets.
        pub ce_threshold_mask: u32 = 0, "Linux: tc-fq_codel";
        /// Size of a full packet. A packet is not dropped if at most this many bytes remain behind it.
        pub mtu: Size = Size::from_bytes(1514), "Linux: psched_mtu, of Ethernet";
    }
}

/// Minimum value of a time parameter: one tick of Linux's clock.
const MIN_TIME: Span = Span::from_nanos(1024);
/// Maximum value of a time parameter, chosen so that 16 times this value fits into Linux's clock.
const MAX_TIME: Span = Span::from_millis(100_000);

impl Settings {
    /// Reports every invalid parameter.
    pub fn check(&self, errors: &mut ErrorCollector) {
        for (name, span) in [("target", self.target), ("interval", self.interval)] {
            let problem = format_args!("must be from {MIN_TIME} to {MAX_TIME} (got {span})");
            errors.check(span >= MIN_TIME && span <= MAX_TIME, name, problem);
        }
        let is_short = self.ce_threshold.is_none_or(|threshold| threshold <= MAX_TIME);
        errors.check(is_short, "ce_threshold", format_args!("must be at most {MAX_TIME}"));
        let problem = format_args!("must be at most 4294967295B (got {})", self.mtu);
        errors.check(self.mtu.bytes() <= u32::MAX.into(), "mtu", problem);
        let (selector, mask) = (self.ce_threshold_selector, self.ce_threshold_mask);
        for (name, value) in [("ce_threshold_selector", selector), ("ce_threshold_mask", mask)] {
            errors.check(value <= 0xff, name, format_args!("must be at most 255 (got {value})"));
        }
        let selection = [("ce_threshold_mask", mask), ("ce_threshold_selector", selector)];
        for (name, _) in selection.into_iter().filter(|(_, bits)| self.ce_threshold.is_none() && *bits != 0) {
            errors.add(ConfigError::without_effect(name, "without ce_threshold"));
        }
        let problem =
            format_args!("matches no packet: some of its bits are not in ce_threshold_mask ({mask})");
        let can_match = selector & !mask == 0 || self.ce_threshold.is_none();
        errors.check(can_match, "ce_threshold_selector", problem);
    }

    /// Adds the arguments of `tc` that `codel` and `fq_codel` have in common.
    pub fn add_tc(&self, qdisc: Qdisc) -> Qdisc {
        let qdisc = qdisc.time("target", self.target).time("interval", self.interval);
        let qdisc = match self.ce_threshold {
            Some(threshold) => qdisc.time("ce_threshold", threshold),
            None => qdisc,
        };
        let is_rfc = self.profile == Profile::Rfc;
        qdisc
            .either(self.ecn, "ecn", "noecn")
            .limit_if(is_rfc, "profile", || {
                "the kernel always uses its own variant of CoDel, not the RFC's".into()
            })
            .fixed("mtu", self.mtu, Size::from_bytes(1514))
    }

    /// Returns the options of `tc` that all CoDel queues have. As in the kernel, times are rounded to ticks before they
    /// are reported.
    pub fn tc_options(&self, kind: &str) -> Value {
        let micros = |span: Span| Ticks::of(span).nanos() / 1000;
        let mut options =
            json!({"kind": kind, "target": micros(self.target), "interval": micros(self.interval)});
        if self.ecn {
            options["ecn"] = json!(true);
        }
        if let Some(threshold) = self.ce_threshold {
            options["ce_threshold"] = json!(micros(threshold));
        }
        options
    }
}

/// A queue that removes its oldest packet first.
pub(crate) trait Source<T> {
    /// Removes the oldest packet and returns it with its arrival time.
    fn take(&mut self) -> Option<(Packet, T)>;

    /// Returns the bytes that remain in the queue behind the packet that was removed last.
    fn bytes_behind(&self) -> u64;
}

impl<T> Source<T> for Fifo<T> {
    fn take(&mut self) -> Option<(Packet, T)> {
        self.pop_with()
    }

    fn bytes_behind(&self) -> u64 {
        self.backlog().bytes
    }
}

/// The state of CoDel for one queue (`codel_vars`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control<T: Time> {
    /// Drops and marks since the dropping state began, plus the count carried over from the previous dropping state.
    pub count: u32,
    /// `count` when the dropping state began.
    pub lastcount: u32,
    root: T::Root,
    /// Whether the queue is in the dropping state.
    pub dropping: bool,
    /// Time at which packets will have been late for an interval; `None` while packets are not late.
    first_above: Option<T>,
    /// In the dropping state, the time at which the next drop is due; otherwise, the time at which the last drop was
    /// due.
    drop_next: T,
    /// Sojourn time of the packet that was removed last.
    ldelay: T,
}

impl<T: Time> Control<T> {
    /// Returns the state of a queue from which no packet has been removed yet.
    pub fn new() -> Self {
        Self {
            count: 0,
            lastcount: 0,
            root: T::UNCOUNTED,
            dropping: false,
            first_above: None,
            drop_next: T::default(),
            ldelay: T::default(),
        }
    }

    /// Returns the state of a queue that is created at the start of the run, when the clock reads `age`. CoDel's
    /// behaviour depends on the time that has passed since `drop_next`, and the value of `drop_next` is zero in a new
    /// queue.
    pub fn fresh(age: Span) -> Self {
        Self { drop_next: T::default().minus(T::of(age)), ..Self::new() }
    }

    /// Returns the state of a queue that dropped its last packet 16 intervals before the run.
    pub fn settled(interval: Span) -> Self {
        let drop_next = T::default().minus(T::of(interval).times_16());
        Self { count: 1, lastcount: 1, root: T::ONE, drop_next, ..Self::new() }
    }

    /// Returns the sojourn time of the packet that was removed last.
    pub fn ldelay(&self) -> Span {
        Span::from_nanos(self.ldelay.nanos())
    }

    /// Returns the nanoseconds from `now` until the next drop is due, which are negative if the drop is overdue, and
    /// zero outside the dropping state.
    pub fn drop_next(&self, now: T) -> i64 {
        if self.dropping { self.drop_next.nanos_after(now) } else { 0 }
    }

    /// Counts a drop or a mark.
    fn increment(&mut self) {
        self.count = self.count.wrapping_add(1);
        self.root = T::root(self.root, self.count);
    }

    /// Schedules the next drop, relative to the time at which the previous drop was due.
    fn schedule(&mut self, interval: T) {
        self.drop_next = self.drop_next.plus(interval.over(self.root));
    }

    /// Enters the dropping state after the first drop or mark.
    fn begin(&mut self, now: T, interval: T) {
        self.dropping = true;
        let reached = self.count.wrapping_sub(self.lastcount);
        if reached > 1 && interval.times_16().is_after(now.minus(self.drop_next)) {
            self.count = reached;
            self.root = T::root(self.root, reached);
        } else {
            self.count = 1;
            self.root = T::ONE;
        }
        self.lastcount = self.count;
        self.drop_next = now;
        self.schedule(interval);
    }
}

/// Statistics of all queues with the same parameters (`codel_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    /// Size of the largest packet.
    pub maxpacket: u16,
    /// Packets marked instead of dropped.
    pub ecn_mark: u64,
    /// Packets marked because of `ce_threshold`.
    pub ce_mark: u64,
}

/// The CoDel algorithm with its parameters, which serves any number of queues.
#[derive(Clone, Debug)]
pub(crate) struct Codel<T> {
    target: T,
    interval: T,
    mtu: u64,
    ecn: bool,
    ce_threshold: Option<T>,
    selector: u8,
    mask: u8,
    /// DSCPs, indexed by label number.
    dscps: Vec<u8>,
    pub statistics: Statistics,
}

impl<T: Time> Codel<T> {
    /// Creates the algorithm from parameters that have already been checked.
    pub fn new(settings: &Settings) -> Self {
        Self {
            target: T::of(settings.target),
            interval: T::of(settings.interval),
            mtu: settings.mtu.bytes(),
            ecn: settings.ecn,
            ce_threshold: settings.ce_threshold.map(T::of),
            selector: settings.ce_threshold_selector as u8,
            mask: settings.ce_threshold_mask as u8,
            dscps: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Stores the DSCP of packets with the label `number`.
    pub fn on_label(&mut self, number: u16, label: &Label) {
        let number = usize::from(number);
        if self.dscps.len() <= number {
            self.dscps.resize(number + 1, 0);
        }
        self.dscps[number] = label.dscp;
    }

    /// Returns the next packet to send from the queue `source` with the state `control`. Returns `None` if the queue is
    /// empty or all of its packets were dropped.
    #[inline]
    pub fn dequeue(
        &mut self,
        control: &mut Control<T>,
        source: &mut impl Source<T>,
        cx: &mut Context<'_>,
    ) -> Option<Packet> {
        let now = T::at(cx.now);
        let first_above = control.first_above;
        let Some((mut packet, may_drop)) = self.take(control, source, now) else {
            control.dropping = false;
            if !T::EMPTY_FORGETS {
                control.first_above = first_above;
            }
            return None;
        };
        if control.dropping {
            control.dropping = may_drop;
            if may_drop && !control.drop_next.is_after(now) {
                packet = self.continue_dropping(control, packet, source, cx)?;
            }
        } else if may_drop {
            packet = self.begin_dropping(control, packet, source, cx)?;
        }
        if self.ce_threshold.is_some_and(|threshold| control.ldelay.is_after(threshold)) {
            self.mark_for_threshold(&mut packet, cx);
        }
        Some(packet)
    }

    /// Removes a packet. Returns the packet and whether it may be dropped (`codel_should_drop`).
    #[inline(always)]
    fn take(
        &mut self,
        control: &mut Control<T>,
        source: &mut impl Source<T>,
        now: T,
    ) -> Option<(Packet, bool)> {
        let Some((packet, arrival)) = source.take() else {
            control.first_above = None;
            return None;
        };
        self.statistics.maxpacket = self.statistics.maxpacket.max(packet.bytes);
        control.ldelay = now.minus(arrival);
        if self.target.is_after(control.ldelay) || source.bytes_behind() <= self.mtu {
            control.first_above = None;
            return Some((packet, false));
        }
        let end = *control.first_above.get_or_insert(now.plus(self.interval));
        Some((packet, now.ends(end)))
    }

    /// Executes all drops or marks that are due, beginning with `packet`. Returns the packet to send.
    #[inline(never)]
    fn continue_dropping(
        &mut self,
        control: &mut Control<T>,
        mut packet: Packet,
        source: &mut impl Source<T>,
        cx: &mut Context<'_>,
    ) -> Option<Packet> {
        let now = T::at(cx.now);
        while control.dropping && !control.drop_next.is_after(now) {
            control.increment();
            if self.mark(&mut packet, cx) {
                control.schedule(self.interval);
                break;
            }
            cx.drop_on(packet, Reason::Sojourn, Evidence::counted(control.count));
            let next = self.take(control, source, now);
            control.dropping = next.is_some_and(|(_, may_drop)| may_drop);
            packet = next?.0;
            if control.dropping {
                control.schedule(self.interval);
            }
        }
        Some(packet)
    }

    /// Enters the dropping state with a drop or mark of `packet`. Returns the packet to send.
    #[inline(never)]
    fn begin_dropping(
        &mut self,
        control: &mut Control<T>,
        mut packet: Packet,
        source: &mut impl Source<T>,
        cx: &mut Context<'_>,
    ) -> Option<Packet> {
        let now = T::at(cx.now);
        control.begin(now, self.interval);
        if self.mark(&mut packet, cx) {
            return Some(packet);
        }
        cx.drop_on(packet, Reason::Sojourn, Evidence::counted(control.count));
        self.take(control, source, now).map(|(next, _)| next)
    }

    /// Marks `packet` instead of dropping it. Returns `false` if the packet cannot be marked.
    fn mark(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> bool {
        let marks = self.ecn && packet.ecn.can_be_marked();
        if marks {
            self.statistics.ecn_mark += 1;
            cx.mark(packet, Reason::Sojourn);
        }
        marks
    }

    /// Marks `packet`, whose sojourn time exceeds `ce_threshold`, if the selector matches.
    #[inline(never)]
    fn mark_for_threshold(&mut self, packet: &mut Packet, cx: &mut Context<'_>) {
        let dscp = self.dscps.get(usize::from(packet.label)).copied().unwrap_or(0);
        let field = dscp << 2 | packet.ecn as u8;
        if packet.ecn.can_be_marked() && field & self.mask == self.selector {
            self.statistics.ce_mark += 1;
            cx.mark(packet, Reason::CeThreshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Length, Streams};

    use super::*;
    use crate::testing::{Fates, packet};

    /// Returns the packets that are sent and dropped in a simulation in which overload and underload alternate every
    /// four seconds.
    fn fates<T: Time>(mut control: Control<T>) -> (Vec<Option<u32>>, Fates) {
        let mut codel = Codel::<T>::new(&Settings::default());
        let mut fifo = Fifo::new(Length::Packets(5000));
        let (mut rng, mut fates) = (Streams::new(3).named("load", 0), Fates::default());
        let mut sent = Vec::new();
        for millis in 0..40_000_u32 {
            let now = Instant::from_nanos(u64::from(millis) * 1_000_000);
            if rng.chance(if millis / 4000 % 2 == 0 { 0.65 } else { 0.2 }) {
                fifo.push_with(Packet { id: millis, ..packet(1000) }, T::at(now));
            }
            if rng.chance(0.5) {
                let mut cx = Context { now, rng: &mut rng, observer: &mut fates };
                sent.push(codel.dequeue(&mut control, &mut fifo, &mut cx).map(|packet| packet.id));
            }
        }
        (sent, fates)
    }

    /// Because earlier use of a queue has no effect, `codel` has no parameter `start`.
    #[test]
    fn without_overflow_drops_the_use_of_a_queue_before_the_run_has_no_effect() {
        fn compare<T: Time>() {
            let unused = fates(Control::<T>::new());
            assert!(unused.1.list.len() > 300, "{}", unused.1.list.len());
            assert_eq!(unused, fates(Control::<T>::settled(Span::from_millis(100))));
            assert_eq!(unused, fates(Control::<T>::fresh(Span::from_millis(2_500_000))));
        }
        compare::<Ticks>();
        compare::<Nanos>();
    }

    /// Returns the stored roots of the counts `1..=last`, which are incremented one by one.
    fn roots(last: u32) -> Vec<u16> {
        let mut root = Ticks::ONE;
        let step = |count| {
            root = if count == 1 { root } else { Ticks::root(root, count) };
            root
        };
        (1..=last).map(step).collect()
    }

    /// The expected values are ns-3's test vectors, which match the kernel's arithmetic.
    #[test]
    fn newton_steps_and_the_control_law_match_the_kernel() {
        let interval = Ticks::of(Span::from_millis(100));
        assert_eq!((interval, Ticks::of(Span::from_millis(5))), (Ticks(97_656), Ticks(4_882)));
        assert_eq!(
            roots(16),
            [
                65_535, 32_769, 36_864, 31_968, 28_935, 26_481, 24_588, 23_037, 21_746, 20_647, 19_699,
                18_869, 18_136, 17_481, 16_893, 16_360
            ]
        );
        let terms: Vec<u32> = roots(16).into_iter().map(|root| interval.over(root).0).collect();
        assert_eq!(
            terms,
            [
                97_654, 48_829, 54_931, 47_635, 43_116, 39_459, 36_638, 34_327, 32_403, 30_766, 29_353,
                28_116, 27_024, 26_048, 25_172, 24_378
            ]
        );
        for (before, after, term) in [
            (255, 382, 379),
            (127, 190, 189),
            (63, 94, 93),
            (31, 46, 46),
            (15, 22, 22),
            (7, 10, 10),
            (3, 4, 4),
            (1, 1, 1),
        ] {
            for count in [1, 2, 4, 8, 16, 32, 64, 128] {
                assert_eq!(Ticks::root(before, count), after);
            }
            assert_eq!(interval.over(before).0, term);
        }
    }

    /// The time to the next drop is `interval / sqrt(count)` for `count` = 1, 2, ... Some implementations are known to
    /// violate this rule.
    #[test]
    fn drop_intervals_shrink_with_the_square_root_of_the_count() {
        fn relative_error<T: Time>(count: u32) -> f64 {
            let interval = T::of(Span::from_millis(100));
            let mut control = Control::<T> { root: T::ONE, count: 1, ..Control::new() };
            while control.count < count {
                control.increment();
            }
            control.schedule(interval);
            control.drop_next.nanos() as f64 / (interval.nanos() as f64 / f64::from(count).sqrt()) - 1.0
        }
        for count in 1..=1000 {
            assert!(
                relative_error::<Nanos>(count).abs() < 1e-6,
                "{count}: {}",
                relative_error::<Nanos>(count)
            );
            // The first Newton step is inaccurate, and the second is more accurate. For later steps, the 16 bits of the
            // root limit the accuracy.
            let tolerance = match count {
                2 => 0.3,
                3..30 => 0.03,
                _ => 1e-3,
            };
            assert!(
                relative_error::<Ticks>(count).abs() < tolerance,
                "{count}: {}",
                relative_error::<Ticks>(count)
            );
        }
    }

    #[test]
    fn a_jump_of_the_count_makes_the_root_meaningless_as_in_the_kernel() {
        assert_eq!(Ticks::root(0, 64), 0, "the root of a queue that never dropped remains zero");
        // 3 - 66 is negative, so the expected value is calculated by hand modulo 2^64: (2^64 + (3 << 32) - 66 *
        // 0xfffe0001) >> 2, and so on.
        let rest = ((3_u128 << 32) + (1 << 64) - 66 * 0xfffe_0001) >> 2;
        let root = ((rest * 0xffff_0000) % (1 << 64)) >> 47;
        assert_eq!(u128::from(Ticks::root(u16::MAX, 66)), root % 65_536);
    }

    #[test]
    fn the_clock_of_the_kernel_wraps_around() {
        let turn = Span::from_nanos(1 << 42);
        let before = Ticks::at(Instant::from_nanos((1 << 42) - 2048));
        let after = Ticks::at(Instant::START + turn + Span::from_nanos(5 * 1024));
        assert!(after.is_after(before) && !before.is_after(after) && !before.is_after(before));
        assert_eq!((after.minus(before), before.plus(Ticks(7))), (Ticks(7), after));
        assert_eq!((after.nanos_after(before), before.nanos_after(after)), (7 * 1024, -7 * 1024));
        assert!(before.ends(before.minus(Ticks(1))) && !before.ends(before) && Nanos(5).ends(Nanos(5)));
    }
}
