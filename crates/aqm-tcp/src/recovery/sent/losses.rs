//! Which segments count as lost (`IsLost` of RFC 6675), and which only may be.

use std::cmp::Reverse;

use aqm_net::Instant;

use super::{AGAIN, Amount, EVER, LOST, Number, SACKED, Sent, Stamp};

impl Sent {
    /// Finds losses as RFC 6675 does (`IsLost`).
    #[inline]
    pub fn lose_uncovered(&mut self, dupthresh: u32) {
        // With none SACKed beyond, none is lost.
        while self.beyond > 0 {
            if self.segments[(self.edge - self.first) as usize].is(SACKED) {
                self.beyond -= 1;
            } else if self.beyond >= u64::from(dupthresh) {
                self.lose(self.edge);
            } else {
                break;
            }
            self.edge += 1;
        }
    }

    /// Finds losses among the segments sent once and `overtaken`, in the order of sending: those `is_late` holds for.
    /// Returns the last of the others, which may be late yet.
    pub fn lose_late(
        &mut self,
        overtaken: impl Fn(Stamp) -> bool,
        is_late: impl Fn(Stamp) -> bool,
    ) -> Option<Stamp> {
        loop {
            let segment = self.segments.get((self.edge - self.first) as usize)?;
            if segment.is(SACKED) {
                self.beyond -= 1;
            } else if !segment.is(LOST | EVER) {
                let stamp = segment.stamp();
                if !overtaken(stamp) {
                    return None;
                }
                if !is_late(stamp) {
                    break;
                }
                self.lose(self.edge);
            }
            self.edge += 1;
        }
        let mut last = None;
        let mut at = (self.edge - self.first) as usize;
        loop {
            at = self.skip(at);
            let Some(segment) = self.segments.get(at) else { return last };
            if !segment.is(LOST | EVER) {
                if !overtaken(segment.stamp()) {
                    return last;
                }
                last = Some(segment.stamp());
            }
            at += 1;
        }
    }

    /// A segment is lost, unless it was sent again or is known to be.
    pub fn lose(&mut self, number: Number) {
        let segment = &mut self.segments[(number - self.first) as usize];
        if segment.is(LOST | SACKED) {
            return;
        }
        segment.state |= LOST;
        self.lost += segment.len();
        if !segment.is(AGAIN) {
            self.due.push(Reverse(number));
        }
        self.losses += 1;
    }

    /// The retransmission of a segment is lost.
    pub fn lose_again(&mut self, number: Number) {
        let segment = &mut self.segments[(number - self.first) as usize];
        if !segment.is_resent() {
            return;
        }
        self.again -= if segment.is(AGAIN) { segment.len() } else { 0 };
        segment.state &= !AGAIN;
        if segment.is(LOST) {
            self.due.push(Reverse(number));
            self.losses += 1;
        } else {
            self.lose(number);
        }
    }

    /// All that has not arrived is lost; if `forget`, nothing has. What left after `since` is spared, unless it
    /// is the oldest.
    pub fn lose_all(&mut self, forget: bool, since: Option<Instant>) {
        if forget {
            self.sacked = Amount::default();
            self.highest_sacked = 0;
        }
        self.beyond = 0;
        self.edge = self.first + self.segments.len() as u64;
        (self.lost, self.again) = (0, 0);
        let mut due = Vec::new();
        let mut spared = false;
        for (number, segment) in (self.first..).zip(&mut self.segments) {
            if forget && segment.is(SACKED) {
                segment.state &= !SACKED;
                segment.place = 0;
            }
            if segment.is(SACKED) {
                continue;
            }
            if number > self.first && since.is_some_and(|since| segment.sent > since) {
                self.lost += if segment.is(LOST) { segment.len() } else { 0 };
                self.again += if segment.is(AGAIN) { segment.len() } else { 0 };
                spared = true;
                if segment.is(LOST) && !segment.is(AGAIN) {
                    due.push(Reverse(number));
                }
                continue;
            }
            segment.state = segment.state & EVER | LOST;
            self.lost += segment.len();
            due.push(Reverse(number));
        }
        self.losses += due.len() as u64;
        self.due = due.into();
        if spared {
            self.edge = self.first;
            self.beyond = self.sacked.segments;
        }
    }

    /// Nothing is lost after all.
    pub fn lose_none(&mut self) {
        for segment in &mut self.segments {
            segment.state &= !LOST;
        }
        self.lost = 0;
        self.due.clear();
        self.edge = self.first;
        self.beyond = self.sacked.segments;
    }

    /// The first segment from `from` on that may be lost though too little SACKed data lies beyond it to
    /// tell, and that is not in flight again.
    pub fn doubtful(&self, from: Number) -> Option<Number> {
        let mut at = (from.max(self.edge).max(self.first) - self.first) as usize;
        loop {
            let segment = self.segments.get(at)?;
            if segment.end() > self.highest_sacked {
                return None;
            }
            if !segment.is(SACKED | AGAIN) {
                return Some(self.first + at as u64);
            }
            at += if segment.is(SACKED) { segment.place as usize } else { 1 };
        }
    }
}
