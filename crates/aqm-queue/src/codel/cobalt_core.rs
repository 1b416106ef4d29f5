//! COBALT's decisions on packets, without a buffer: CoDel and BLUE at once, each for what it does best. CoDel tells
//! senders that listen, by the time packets waited; BLUE drops by chance what comes from senders that do not.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018; Linux 6.1's `net/sched/sch_cake.c` (`cobalt_should_drop` and its neighbours), which
//! the arithmetic follows to the bit; K. Nichols et al., RFC 8289, and W. Feng et al., "The BLUE Active Queue
//! Management Algorithms", IEEE/ACM Transactions on Networking 10(4), 2002, for what it is made of.
//!
//! - `count` is how often CoDel has signalled lately. While packets wait longer than `target` it signals at
//!   `drop_next`, counts, and the next time is `interval / sqrt(count)` later. While they do not, it counts down at
//!   the same times: CoDel remembers for as long as it would have gone on, instead of for 16 intervals.
//! - `1 / sqrt(count)` is kept in 32 binary places; a step of Newton's method follows `count`, and below 16, where
//!   one step is not enough, a table does.
//! - A packet waited too long if it waited for more than `target`, for more than four packets of full size take, and
//!   at an ingress for more than two of each bulk flow take.
//! - BLUE's probability rises by 1/256 when the buffer overflows and falls by 1/4096 when the queue is found empty,
//!   at most once per `target`. BLUE never marks.
//!
//! As in the kernel, and worth knowing:
//! - A queue in which CoDel never counted has no root yet, so the first `drop_next` is the very moment at which a packet
//!   waited too long, and not an `interval` later: the next packet is dropped or marked. CoDel's text, and the comment
//!   in the kernel, say otherwise. This happens once in each queue: `count` gives it a root for good.
//! - An `interval` counts modulo 2^32 nanoseconds, 4.29 s, where it is divided by the root.
//!
//! Ours: at the beginning of a run BLUE may move at once; the kernel's clock has been running since the machine was
//! started.

use crate::Reason;

/// The times that COBALT goes by, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub target: u64,
    pub interval: u64,
    /// What a packet of full size takes on the line; 0 if the rate is not known.
    pub mtu_time: u64,
    /// A packet that waited for longer raises BLUE's probability (ns-3); `u64::MAX` for never.
    pub blue_threshold: u64,
}

impl Times {
    /// CAKE's for what a user asks for, on a line where a packet of full size takes `mtu_time`.
    pub const fn on_line(target: u64, interval: u64, mtu_time: u64) -> Self {
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

/// By how much BLUE's probability moves, in units of 2^-32 (`p_inc`, `p_dec`).
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

/// The state of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cobalt {
    /// In nanoseconds: when CoDel acts next, or for how long it remembers.
    drop_next: i64,
    /// When BLUE's probability last moved.
    blue_timer: i64,
    count: u32,
    /// `1 / sqrt(count)` in units of 2^-32.
    rec_inv_sqrt: u32,
    /// BLUE's probability in units of 2^-32.
    p_drop: u32,
    dropping: bool,
}

/// What is to become of a packet that is taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub marks: bool,
    pub drops: Option<Reason>,
}

impl Cobalt {
    /// A queue that was never used, as Linux has it.
    pub const UNUSED: Self = Self {
        drop_next: 0,
        blue_timer: i64::MIN / 2,
        count: 0,
        rec_inv_sqrt: 0,
        p_drop: 0,
        dropping: false,
    };
    /// The same as ns-3 has it: the first drop comes an `interval` after the first packet that waited too long.
    pub const UNUSED_IN_NS3: Self = Self { blue_timer: 0, rec_inv_sqrt: u32::MAX, ..Self::UNUSED };
    /// A queue that has signalled before and is at rest: it has the root of a `count` of 0, and BLUE may move.
    pub const SETTLED: Self = Self { rec_inv_sqrt: u32::MAX, ..Self::UNUSED };

    /// The buffer was full, and a packet of this queue was dropped. Whether BLUE's probability was nought before.
    pub fn on_overflow(&mut self, times: &Times, now: i64) -> bool {
        let rises = self.blue_may_move(times, now);
        let was_nought = self.p_drop == 0;
        if rises {
            self.raise_blue(now);
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        rises && was_nought
    }

    /// The queue was served and turned out to be empty. Whether BLUE's probability has just become nought.
    pub fn on_empty(&mut self, times: &Times, now: i64) -> bool {
        let mut is_quiet = false;
        if self.p_drop > 0 && self.blue_may_move(times, now) {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
            is_quiet = self.p_drop == 0;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.step_down(times);
        }
        is_quiet
    }

    /// What becomes of a packet that waited for `sojourn`, where `bulk_flows` others want their turn (0 unless CAKE
    /// stands at an ingress); `draw` gives 32 random bits.
    #[inline]
    pub fn judge(&mut self, times: &Times, now: i64, packet: Judged, draw: impl FnOnce() -> u32) -> Verdict {
        let Judged { sojourn, can_be_marked, bulk_flows } = packet;
        let Times { target, mtu_time, blue_threshold, .. } = *times;
        let too_long =
            sojourn > target && sojourn > mtu_time * u64::from(bulk_flows) * 2 && sojourn > mtu_time * 4;
        // Whether CoDel's time has come is asked before the time may be set anew.
        let mut behind = now - self.drop_next;
        let due = self.count > 0 && behind >= 0;
        if too_long {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after(now, times);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut verdict = Verdict { marks: false, drops: None };
        if due && self.dropping {
            verdict.marks = can_be_marked;
            verdict.drops = (!can_be_marked).then_some(Reason::Sojourn);
            self.count = self.count.saturating_add(1);
            self.follow_count();
            self.drop_next = self.after(self.drop_next, times);
            behind = now - self.drop_next;
        } else if due {
            loop {
                self.step_down(times);
                behind = now - self.drop_next;
                if self.count == 0 || behind < 0 {
                    break;
                }
            }
        }
        if sojourn > blue_threshold && self.blue_may_move(times, now) {
            self.raise_blue(now);
        }
        if self.p_drop > 0 && draw() < self.p_drop && verdict.drops.is_none() {
            verdict.drops = Some(Reason::Unresponsive);
        }
        if self.count == 0 {
            self.drop_next = now + times.interval as i64;
        } else if behind > 0 && verdict.drops.is_none() {
            self.drop_next = now;
        }
        verdict
    }

    /// Whether nothing is left that a queue without packets must remember at `now`.
    pub fn is_at_rest(&self, now: i64) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// BLUE's probability.
    pub fn p_drop(&self) -> f64 {
        f64::from(self.p_drop) / (1_u64 << 32) as f64
    }

    fn blue_may_move(&self, times: &Times, now: i64) -> bool {
        now - self.blue_timer > times.target as i64
    }

    fn raise_blue(&mut self, now: i64) {
        self.p_drop = self.p_drop.saturating_add(BLUE_UP);
        self.blue_timer = now;
    }

    /// CoDel's control law: an `interval` over the root of `count` after `time`.
    fn after(&self, time: i64, times: &Times) -> i64 {
        time + ((u64::from(times.interval as u32) * u64::from(self.rec_inv_sqrt)) >> 32) as i64
    }

    fn step_down(&mut self, times: &Times) {
        self.count -= 1;
        self.follow_count();
        self.drop_next = self.after(self.drop_next, times);
    }

    fn follow_count(&mut self) {
        self.rec_inv_sqrt = match ROOTS.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.rec_inv_sqrt, self.count),
        };
    }
}

/// A packet that is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// How long it waited, in nanoseconds.
    pub sojourn: u64,
    pub can_be_marked: bool,
    pub bulk_flows: u32,
}

/// One over the root of each small `count`, in units of 2^-32; that of 0 is that of 1.
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

/// A better value of `1 / sqrt(count)` than `root`: half of `root (3 - count root^2)`.
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
    const TIMES: Times = Times::on_line(5_000_000, 100_000_000, 0);

    fn after_ms(sojourn: u64) -> Judged {
        Judged { sojourn: sojourn * 1_000_000, can_be_marked: false, bulk_flows: 0 }
    }

    fn judge(cobalt: &mut Cobalt, at_ms: i64, sojourn_ms: u64) -> Option<Reason> {
        cobalt.judge(&TIMES, at_ms * MS, after_ms(sojourn_ms), || 0).drops
    }

    #[test]
    fn roots_of_the_table_are_right_and_newtons_step_is_within_a_percent_beyond() {
        for (count, &root) in ROOTS.iter().enumerate().skip(1) {
            let exact = (1_u64 << 32) as f64 / (count as f64).sqrt();
            assert!((f64::from(root) / exact - 1.0).abs() < 1e-3, "{count}: {root}, exactly {exact}");
        }
        assert_eq!(ROOTS[0], u32::MAX);
        let mut cobalt = Cobalt { count: 15, rec_inv_sqrt: ROOTS[15], ..Cobalt::UNUSED };
        for count in 16..100_000_u32 {
            cobalt.count = count;
            cobalt.follow_count();
            let exact = (1_u64 << 32) as f64 / f64::from(count).sqrt();
            assert!((f64::from(cobalt.rec_inv_sqrt) / exact - 1.0).abs() < 0.01, "{count}");
        }
    }

    #[test]
    fn the_first_drop_of_a_queue_comes_without_the_interval_and_that_of_a_used_one_with_it() {
        let mut cobalt = Cobalt::UNUSED;
        assert_eq!(judge(&mut cobalt, 10, 4), None);
        assert_eq!(judge(&mut cobalt, 11, 6), None, "the first too long");
        assert_eq!(judge(&mut cobalt, 12, 6), Some(Reason::Sojourn), "the next");
        assert_eq!(cobalt.count(), 2);
        // All is forgotten, but for the root.
        for at in 13..2000 {
            assert_eq!(judge(&mut cobalt, at, 1), None);
        }
        assert_eq!(cobalt.count(), 0);
        assert!(cobalt.is_at_rest(cobalt.drop_next) && !cobalt.is_at_rest(cobalt.drop_next - 1));
        let dropped: Vec<i64> = (2000..2200).filter(|&at| judge(&mut cobalt, at, 6).is_some()).collect();
        assert_eq!(dropped[0], 2100, "an interval after the first too long");
        let gaps: Vec<i64> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [71]);
    }

    #[test]
    fn the_interval_shrinks_with_the_root_of_the_count_and_grows_back() {
        let mut cobalt = Cobalt::UNUSED_IN_NS3;
        assert_eq!((judge(&mut cobalt, 0, 1), judge(&mut cobalt, 1, 9)), (None, None));
        let mut next = 101.0;
        for count in 1..40_u32 {
            assert!((cobalt.drop_next as f64 / 1e6 - next).abs() < 0.002 * next, "{count}");
            assert_eq!(cobalt.count(), count);
            let at = cobalt.drop_next;
            assert_eq!(cobalt.judge(&TIMES, at - 1, after_ms(9), || 0).drops, None);
            assert_eq!(cobalt.judge(&TIMES, at, after_ms(9), || 0).drops, Some(Reason::Sojourn));
            next += 100.0 / f64::from(count + 1).sqrt();
        }
        // It counts down at the same pace once packets are quick.
        let (from, count) = (cobalt.drop_next, cobalt.count());
        let ends = from + 1000 * MS;
        assert_eq!(cobalt.judge(&TIMES, ends, after_ms(0), || 0).drops, None);
        let mut at = from as f64;
        let expected = (0..count).rev().take_while(|&left| {
            let due = at <= ends as f64;
            at += 1e8 / f64::from(left.max(1)).sqrt();
            due
        });
        assert_eq!(cobalt.count(), count - expected.count() as u32);
    }

    #[test]
    fn a_packet_waited_too_long_only_beyond_four_packets_and_two_of_each_bulk_flow() {
        let times = Times::on_line(5_000_000, 100_000_000, 6_056_000);
        assert_eq!((times.target, times.interval), (9_084_000, 104_084_000), "2 Mb/s and 1514 bytes");
        let starts = |sojourn: u64, bulk_flows: u32| {
            let mut cobalt = Cobalt::UNUSED;
            let judged = Judged { sojourn, can_be_marked: false, bulk_flows };
            cobalt.judge(&times, 0, judged, || 0);
            cobalt.is_dropping()
        };
        assert_eq!([24_224_000, 24_224_001].map(|sojourn| starts(sojourn, 0)), [false, true]);
        assert_eq!([60_560_000, 60_560_001].map(|sojourn| starts(sojourn, 5)), [false, true]);
        let slow = Times::on_line(5_000_000, 100_000_000, 100_000_000);
        assert_eq!((slow.target, slow.interval), (150_000_000, 300_000_000), "at least twice the target");
    }

    #[test]
    fn an_interval_wraps_at_two_to_the_32_nanoseconds() {
        let times = Times { interval: (1 << 32) + 1000, ..TIMES };
        let cobalt = Cobalt { rec_inv_sqrt: u32::MAX, ..Cobalt::UNUSED };
        assert_eq!(cobalt.after(0, &times), 999);
    }

    #[test]
    fn blue_moves_at_most_once_per_target_and_drops_what_could_be_marked() {
        let mut cobalt = Cobalt::UNUSED;
        assert!(cobalt.on_overflow(&TIMES, 0));
        assert!(!cobalt.on_overflow(&TIMES, 5 * MS), "only once in 5 ms");
        assert_eq!(cobalt.p_drop(), 1.0 / 256.0);
        assert!(!cobalt.on_overflow(&TIMES, 5 * MS + 1), "no longer from nought");
        assert_eq!(cobalt.p_drop(), 2.0 / 256.0);
        let can_be_marked = Judged { sojourn: 0, can_be_marked: true, bulk_flows: 0 };
        let mut with = |bits: u32| cobalt.judge(&TIMES, 6 * MS, can_be_marked, || bits);
        assert_eq!(with((1 << 25) - 1), Verdict { marks: false, drops: Some(Reason::Unresponsive) });
        assert_eq!(with(1 << 25), Verdict { marks: false, drops: None });
        let falls: Vec<bool> = (1..=40).map(|k| cobalt.on_empty(&TIMES, 6 * MS + k * 6 * MS)).collect();
        assert_eq!(falls.iter().position(|&quiet| quiet), Some(31), "32 steps of 1/4096");
        assert_eq!(cobalt.p_drop(), 0.0);
    }

    #[test]
    fn blues_probability_ends_at_one() {
        let mut cobalt = Cobalt::UNUSED;
        (0..300).for_each(|k| {
            cobalt.on_overflow(&TIMES, k * 6 * MS);
        });
        assert_eq!(cobalt.p_drop, u32::MAX);
    }

    #[test]
    fn what_can_be_marked_is_marked_by_codel() {
        let mut cobalt = Cobalt::UNUSED;
        let judged = Judged { can_be_marked: true, ..after_ms(9) };
        let mut at = |ms: i64| cobalt.judge(&TIMES, ms * MS, judged, || 0);
        assert_eq!(at(1), Verdict { marks: false, drops: None });
        assert_eq!(at(2), Verdict { marks: true, drops: None });
    }
}
