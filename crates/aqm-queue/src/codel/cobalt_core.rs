//! COBALT's algorithm without a buffer: a combination of CoDel and BLUE. CoDel uses sojourn times to signal congestion
//! to responsive flows. BLUE drops packets of unresponsive flows at random.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018; Linux 6.1's `net/sched/sch_cake.c` (`cobalt_should_drop` and related functions), whose
//! integer arithmetic is reproduced exactly. The components are from K. Nichols et al., RFC 8289, and W. Feng et al.,
//! "The BLUE Active Queue Management Algorithms", IEEE/ACM Transactions on Networking 10(4), 2002.
//!
//! - `count` is the number of CoDel's recent signals. While packets are late, CoDel signals at `drop_next`, increments
//!   `count`, and schedules the next signal `interval / sqrt(count)` later. While packets are not late, `count`
//!   decreases at the times at which signals would otherwise be due. In the original CoDel, by contrast, `count` is
//!   kept for 16 intervals.
//! - `1 / sqrt(count)` is stored as a 32-bit fraction and updated by one step of Newton's method. For a `count` below
//!   16, for which one step is not accurate enough, a table is used.
//! - A packet is late if its sojourn time exceeds both `target` and the transmission time of four full packets. At an
//!   ingress, the sojourn time must also exceed the transmission time of two full packets per bulk flow.
//! - BLUE's probability increases by 1/256 when the buffer overflows, and decreases by 1/4096 when a dequeue finds the
//!   queue empty. The probability changes at most once per `target`. BLUE never marks.
//!
//! aqmlab reproduces two peculiarities of the kernel:
//! - The inverse square root is not set in a queue whose `count` has never been incremented. When a packet of this
//!   queue is late for the first time, `drop_next` is therefore set to the current time instead of one `interval`
//!   later, so that the next late packet is dropped or marked. CoDel's specification and the comment in the kernel
//!   state that the first drop waits for one `interval`. The wait is missing only once per queue, because the inverse
//!   square root remains set after the first increment.
//! - `interval` is reduced modulo 2^32 nanoseconds (4.29 s) before it is divided by the square root.
//!
//! aqmlab's choice: BLUE's probability may change at the start of a run, because the kernel's clock has been running
//! since the machine was booted.

use crate::{Evidence, Reason};

/// The effective times of COBALT, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub target: u64,
    pub interval: u64,
    /// Transmission time of a full packet; 0 if the rate is not known.
    pub mtu_time: u64,
    /// Sojourn time above which a packet increases BLUE's probability (ns-3); `u64::MAX` if there is no threshold.
    pub blue_threshold: u64,
}

impl Times {
    /// Returns CAKE's effective times for the configured `target` and `interval`. `mtu_time` is the transmission time
    /// of a full packet on the link.
    pub const fn for_link(target: u64, interval: u64, mtu_time: u64) -> Self {
        let longer = mtu_time * 3 / 2;
        let effective = if longer > target { longer } else { target };
        let interval = interval + effective - target;
        let twice = effective * 2;
        Self {
            target: effective,
            interval: if interval > twice { interval } else { twice },
            mtu_time,
            blue_threshold: u64::MAX,
        }
    }
}

/// Steps by which BLUE's probability changes, in units of 2^-32 (`p_inc`, `p_dec`).
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

/// The state of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cobalt {
    /// Time of CoDel's next signal or next decrease of `count`, in nanoseconds.
    drop_next: i64,
    /// Time of the latest change of BLUE's probability, in nanoseconds.
    blue_timer: i64,
    count: u32,
    /// `1 / sqrt(count)` in units of 2^-32.
    rec_inv_sqrt: u32,
    /// BLUE's probability in units of 2^-32.
    p_drop: u32,
    dropping: bool,
}

/// The decision on a packet that is dequeued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub mark: bool,
    /// Reason for a drop; `None` if the packet is not dropped.
    pub drop: Option<Reason>,
}

impl Cobalt {
    /// The state of a new queue in Linux.
    pub const FRESH: Self = Self {
        drop_next: 0,
        blue_timer: i64::MIN / 2,
        count: 0,
        rec_inv_sqrt: 0,
        p_drop: 0,
        dropping: false,
    };
    /// The state of a new queue in ns-3, in which the first drop occurs one `interval` after the first late packet.
    pub const FRESH_NS3: Self = Self { blue_timer: 0, rec_inv_sqrt: u32::MAX, ..Self::FRESH };
    /// The state of a queue that has signalled before and is at rest. The inverse square root is that of a `count` of
    /// 0, and BLUE's probability may change at once.
    pub const SETTLED: Self = Self { rec_inv_sqrt: u32::MAX, ..Self::FRESH };

    /// Updates the state after a packet of this queue was dropped because the buffer was full. Returns whether BLUE's
    /// probability has risen from zero.
    pub fn on_overflow(&mut self, times: &Times, now: i64) -> bool {
        let rises = self.blue_may_change(times, now);
        let was_zero = self.p_drop == 0;
        if rises {
            self.raise_blue(now);
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        rises && was_zero
    }

    /// Updates the state after a dequeue found the queue empty. Returns whether BLUE's probability has just become
    /// zero.
    pub fn on_empty(&mut self, times: &Times, now: i64) -> bool {
        let mut becomes_zero = false;
        if self.p_drop > 0 && self.blue_may_change(times, now) {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
            becomes_zero = self.p_drop == 0;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.decrement(times);
        }
        becomes_zero
    }

    /// Decides whether a packet that is dequeued at `now` is dropped or marked. `draw` returns 32 random bits.
    #[inline]
    pub fn decide(
        &mut self,
        times: &Times,
        now: i64,
        packet: PacketState,
        draw: impl FnOnce() -> u32,
    ) -> Verdict {
        let PacketState { sojourn, can_be_marked, bulk_flows } = packet;
        let Times { target, mtu_time, blue_threshold, .. } = *times;
        let is_late =
            sojourn > target && sojourn > mtu_time * u64::from(bulk_flows) * 2 && sojourn > mtu_time * 4;
        // `due` must be computed first, because `drop_next` may change below.
        let mut behind = now - self.drop_next;
        let due = self.count > 0 && behind >= 0;
        if is_late {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after(now, times);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut verdict = Verdict { mark: false, drop: None };
        if due && self.dropping {
            verdict.mark = can_be_marked;
            verdict.drop = (!can_be_marked).then_some(Reason::Sojourn);
            self.count = self.count.saturating_add(1);
            self.update_root();
            self.drop_next = self.after(self.drop_next, times);
            behind = now - self.drop_next;
        } else if due {
            loop {
                self.decrement(times);
                behind = now - self.drop_next;
                if self.count == 0 || behind < 0 {
                    break;
                }
            }
        }
        if sojourn > blue_threshold && self.blue_may_change(times, now) {
            self.raise_blue(now);
        }
        if self.p_drop > 0 && draw() < self.p_drop && verdict.drop.is_none() {
            verdict.drop = Some(Reason::Unresponsive);
        }
        if self.count == 0 {
            self.drop_next = now + times.interval as i64;
        } else if behind > 0 && verdict.drop.is_none() {
            self.drop_next = now;
        }
        verdict
    }

    /// Returns whether the state of an empty queue at `now` equals its initial state, apart from the root.
    pub fn is_at_rest(&self, now: i64) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// Returns BLUE's probability.
    pub fn p_drop(&self) -> f64 {
        f64::from(self.p_drop) / (1_u64 << 32) as f64
    }

    /// Returns the numbers that led to the drop of a packet.
    #[cold]
    pub fn evidence(&self, why: Reason) -> Evidence {
        if why == Reason::Unresponsive {
            return Evidence { probability: Some(self.p_drop()), ..Evidence::default() };
        }
        Evidence::counted(self.count)
    }

    fn blue_may_change(&self, times: &Times, now: i64) -> bool {
        now - self.blue_timer > times.target as i64
    }

    fn raise_blue(&mut self, now: i64) {
        self.p_drop = self.p_drop.saturating_add(BLUE_UP);
        self.blue_timer = now;
    }

    /// Computes CoDel's control law: `time` plus the `interval` divided by the square root of `count`.
    fn after(&self, time: i64, times: &Times) -> i64 {
        time + ((u64::from(times.interval as u32) * u64::from(self.rec_inv_sqrt)) >> 32) as i64
    }

    fn decrement(&mut self, times: &Times) {
        self.count -= 1;
        self.update_root();
        self.drop_next = self.after(self.drop_next, times);
    }

    fn update_root(&mut self) {
        self.rec_inv_sqrt = match ROOTS.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.rec_inv_sqrt, self.count),
        };
    }
}

/// The properties of a packet on which the decision depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketState {
    /// Sojourn time in nanoseconds.
    pub sojourn: u64,
    pub can_be_marked: bool,
    /// Number of bulk flows if CAKE is at an ingress, otherwise 0.
    pub bulk_flows: u32,
}

/// `1 / sqrt(count)` for each small `count`, in units of 2^-32. The value for a `count` of 0 equals the value for 1.
const ROOTS: [u32; 16] = {
    let mut roots = [u32::MAX; 16];
    let mut count = 1;
    while count < 16 {
        let mut root = roots[count - 1];
        let mut step = 0;
        while step < 4 {
            root = newton_step(root, count as u32);
            step += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
};

/// Returns half of `root (3 - count root^2)`, which is a better approximation of `1 / sqrt(count)` than `root` is.
const fn newton_step(root: u32, count: u32) -> u32 {
    let root = root as u64;
    let square = (root * root) >> 32;
    let factor = ((3 << 32) - count as u64 * square) >> 2;
    ((factor * root) >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const TIMES: Times = Times::for_link(5_000_000, 100_000_000, 0);

    fn after_ms(sojourn: u64) -> PacketState {
        PacketState { sojourn: sojourn * 1_000_000, can_be_marked: false, bulk_flows: 0 }
    }

    fn decide(cobalt: &mut Cobalt, at_ms: i64, sojourn_ms: u64) -> Option<Reason> {
        cobalt.decide(&TIMES, at_ms * MS, after_ms(sojourn_ms), || 0).drop
    }

    #[test]
    fn the_table_of_roots_is_accurate_and_newtons_step_is_within_one_percent_beyond() {
        for (count, &root) in ROOTS.iter().enumerate().skip(1) {
            let exact = (1_u64 << 32) as f64 / (count as f64).sqrt();
            assert!((f64::from(root) / exact - 1.0).abs() < 1e-3, "{count}: {root}, exactly {exact}");
        }
        assert_eq!(ROOTS[0], u32::MAX);
        let mut cobalt = Cobalt { count: 15, rec_inv_sqrt: ROOTS[15], ..Cobalt::FRESH };
        for count in 16..100_000_u32 {
            cobalt.count = count;
            cobalt.update_root();
            let exact = (1_u64 << 32) as f64 / f64::from(count).sqrt();
            assert!((f64::from(cobalt.rec_inv_sqrt) / exact - 1.0).abs() < 0.01, "{count}");
        }
    }

    #[test]
    fn the_first_drop_of_a_fresh_queue_does_not_wait_for_the_interval_but_later_ones_do() {
        let mut cobalt = Cobalt::FRESH;
        assert_eq!(decide(&mut cobalt, 10, 4), None);
        assert_eq!(decide(&mut cobalt, 11, 6), None, "the first late packet");
        assert_eq!(decide(&mut cobalt, 12, 6), Some(Reason::Sojourn), "the next late packet");
        assert_eq!(cobalt.count(), 2);
        // All values except the root return to their initial values.
        for at in 13..2000 {
            assert_eq!(decide(&mut cobalt, at, 1), None);
        }
        assert_eq!(cobalt.count(), 0);
        assert!(cobalt.is_at_rest(cobalt.drop_next) && !cobalt.is_at_rest(cobalt.drop_next - 1));
        let dropped: Vec<i64> = (2000..2200).filter(|&at| decide(&mut cobalt, at, 6).is_some()).collect();
        assert_eq!(dropped[0], 2100, "one interval after the first late packet");
        let gaps: Vec<i64> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [71]);
    }

    #[test]
    fn the_interval_shrinks_with_the_root_of_the_count_and_then_grows_again() {
        let mut cobalt = Cobalt::FRESH_NS3;
        assert_eq!((decide(&mut cobalt, 0, 1), decide(&mut cobalt, 1, 9)), (None, None));
        let mut next = 101.0;
        for count in 1..40_u32 {
            assert!((cobalt.drop_next as f64 / 1e6 - next).abs() < 0.002 * next, "{count}");
            assert_eq!(cobalt.count(), count);
            let at = cobalt.drop_next;
            assert_eq!(cobalt.decide(&TIMES, at - 1, after_ms(9), || 0).drop, None);
            assert_eq!(cobalt.decide(&TIMES, at, after_ms(9), || 0).drop, Some(Reason::Sojourn));
            next += 100.0 / f64::from(count + 1).sqrt();
        }
        // When packets are no longer late, `count` decreases at the times at which signals would have been due.
        let (from, count) = (cobalt.drop_next, cobalt.count());
        let ends = from + 1000 * MS;
        assert_eq!(cobalt.decide(&TIMES, ends, after_ms(0), || 0).drop, None);
        let mut at = from as f64;
        let expected = (0..count).rev().take_while(|&left| {
            let due = at <= ends as f64;
            at += 1e8 / f64::from(left.max(1)).sqrt();
            due
        });
        assert_eq!(cobalt.count(), count - expected.count() as u32);
    }

    #[test]
    fn a_packet_is_late_only_beyond_four_packets_and_two_of_each_bulk_flow() {
        let times = Times::for_link(5_000_000, 100_000_000, 6_056_000);
        assert_eq!((times.target, times.interval), (9_084_000, 104_084_000), "2 Mb/s and 1514 bytes");
        let starts = |sojourn: u64, bulk_flows: u32| {
            let mut cobalt = Cobalt::FRESH;
            let state = PacketState { sojourn, can_be_marked: false, bulk_flows };
            cobalt.decide(&times, 0, state, || 0);
            cobalt.is_dropping()
        };
        assert_eq!([24_224_000, 24_224_001].map(|sojourn| starts(sojourn, 0)), [false, true]);
        assert_eq!([60_560_000, 60_560_001].map(|sojourn| starts(sojourn, 5)), [false, true]);
        let slow = Times::for_link(5_000_000, 100_000_000, 100_000_000);
        assert_eq!((slow.target, slow.interval), (150_000_000, 300_000_000), "at least twice the target");
    }

    #[test]
    fn an_interval_wraps_at_two_to_the_32_nanoseconds() {
        let times = Times { interval: (1 << 32) + 1000, ..TIMES };
        let cobalt = Cobalt { rec_inv_sqrt: u32::MAX, ..Cobalt::FRESH };
        assert_eq!(cobalt.after(0, &times), 999);
    }

    #[test]
    fn blue_changes_at_most_once_per_target_and_drops_ecn_capable_packets() {
        let mut cobalt = Cobalt::FRESH;
        assert!(cobalt.on_overflow(&TIMES, 0));
        assert!(!cobalt.on_overflow(&TIMES, 5 * MS), "only once in 5 ms");
        assert_eq!(cobalt.p_drop(), 1.0 / 256.0);
        assert!(!cobalt.on_overflow(&TIMES, 5 * MS + 1), "the probability was not zero");
        assert_eq!(cobalt.p_drop(), 2.0 / 256.0);
        let can_be_marked = PacketState { sojourn: 0, can_be_marked: true, bulk_flows: 0 };
        let mut with = |bits: u32| cobalt.decide(&TIMES, 6 * MS, can_be_marked, || bits);
        assert_eq!(with((1 << 25) - 1), Verdict { mark: false, drop: Some(Reason::Unresponsive) });
        assert_eq!(with(1 << 25), Verdict { mark: false, drop: None });
        let falls: Vec<bool> = (1..=40).map(|k| cobalt.on_empty(&TIMES, 6 * MS + k * 6 * MS)).collect();
        assert_eq!(falls.iter().position(|&becomes_zero| becomes_zero), Some(31), "32 steps of 1/4096");
        assert_eq!(cobalt.p_drop(), 0.0);
    }

    #[test]
    fn blues_probability_is_at_most_one() {
        let mut cobalt = Cobalt::FRESH;
        (0..300).for_each(|k| {
            cobalt.on_overflow(&TIMES, k * 6 * MS);
        });
        assert_eq!(cobalt.p_drop, u32::MAX);
    }

    #[test]
    fn codel_marks_ecn_capable_packets() {
        let mut cobalt = Cobalt::FRESH;
        let state = PacketState { can_be_marked: true, ..after_ms(9) };
        let mut at = |ms: i64| cobalt.decide(&TIMES, ms * MS, state, || 0);
        assert_eq!(at(1), Verdict { mark: false, drop: None });
        assert_eq!(at(2), Verdict { mark: true, drop: None });
    }
}
