//! The segments that are sent and not acknowledged, and what SACK tells of each.
//!
//! E. Blanton et al., "A Conservative Loss Recovery Algorithm Based on Selective Acknowledgment (SACK) for
//! TCP", RFC 6675, 2012, section 4: `Update`, `IsLost` and `SetPipe`, as bits of segments and sums that are
//! kept up to date, so that no acknowledgement costs more in a large window than in a small one.
//!
//! Ours, where the source is silent: `IsLost` counts segments where the RFC, which knows only bytes, counts
//! separate ranges and full segments; `DupThresh` of either are never fewer of ours.
//! A segment that SACK covers in part has not arrived. One that was sent again and is not known to be lost counts
//! twice in `pipe`, as the RFC has it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use aqm_net::Instant;

/// SACK tells that it has arrived.
const SACKED: u8 = 1;
/// It is known to be lost.
const LOST: u8 = 2;
/// A retransmission of it is in flight.
const AGAIN: u8 = 4;
/// It was sent more than once.
const EVER: u8 = 8;

/// When a segment left and where it ends: the order of sending (RFC 8985, `RACK_sent_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub sent: Instant,
    pub end: u64,
}

/// A segment, from when it is first sent until it is acknowledged.
#[derive(Clone, Debug)]
struct Segment {
    seq: u64,
    /// When it was sent last.
    sent: Instant,
    /// If SACKed: how many segments from this one on are, at least.
    skip: u32,
    /// Its length in sequence numbers less one, so that 65536 fit.
    longer: u16,
    state: u8,
}

impl Segment {
    fn len(&self) -> u64 {
        u64::from(self.longer) + 1
    }

    fn end(&self) -> u64 {
        self.seq + self.len()
    }

    fn stamp(&self) -> Stamp {
        Stamp { sent: self.sent, end: self.end() }
    }

    fn is(&self, bits: u8) -> bool {
        self.state & bits != 0
    }
}

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub segments: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.segments += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: u64) {
        self.segments -= 1;
        self.bytes -= bytes;
    }
}

/// What one acknowledgement shows to have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub bytes: u64,
    /// The newest of those sent only once.
    pub once: Option<Stamp>,
    /// The newest of the others, but only of those that left by `credible`.
    pub again: Option<Stamp>,
    /// When the first left that is acknowledged, had not arrived before, and was sent only once.
    pub first: Option<Instant>,
    /// When the first left that SACK tells of, if it was sent only once.
    pub first_sacked: Option<Instant>,
    /// Whether anything is acknowledged that was sent again.
    pub twice: bool,
    /// A retransmission that left later than this cannot have been acknowledged yet; none can without.
    credible: Option<Instant>,
    /// Where the lowest of those ends that were sent only once.
    pub lowest: u64,
    /// Where the highest ends.
    pub highest: u64,
}

impl Arrival {
    pub fn new(credible: Option<Instant>) -> Self {
        Self {
            bytes: 0,
            once: None,
            again: None,
            first: None,
            first_sacked: None,
            twice: false,
            credible,
            lowest: u64::MAX,
            highest: 0,
        }
    }

    #[inline]
    fn add(&mut self, segment: &Segment) {
        let stamp = segment.stamp();
        self.bytes += segment.len();
        self.highest = self.highest.max(stamp.end);
        if !segment.is(EVER) {
            self.lowest = self.lowest.min(stamp.end);
            self.once = self.once.max(Some(stamp));
        } else if Some(stamp.sent) <= self.credible {
            self.again = self.again.max(Some(stamp));
        }
    }
}

/// A segment by its number: how many were sent before it.
pub(crate) type Number = u64;

/// All segments from the oldest not acknowledged to the newest.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    segments: VecDeque<Segment>,
    /// The number of the first of them.
    first: Number,
    una: u64,
    end: u64,
    sacked: Amount,
    lost: u64,
    again: u64,
    /// Where the highest SACKed segment ends.
    highest_sacked: u64,
    /// All before this one are SACKed, lost, or were sent again.
    edge: Number,
    /// How many are SACKed from there on.
    beyond: u64,
    /// Those that are lost and not in flight again; the first of them is always up to date.
    due: BinaryHeap<Reverse<Number>>,
    /// How often a segment was found lost.
    losses: u64,
    mss: u64,
}

impl Sent {
    pub fn new(mss: u64) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            una: 0,
            end: 0,
            sacked: Amount::default(),
            lost: 0,
            again: 0,
            highest_sacked: 0,
            edge: 0,
            beyond: 0,
            due: BinaryHeap::new(),
            losses: 0,
            mss,
        }
    }

    /// Everything below is acknowledged (`HighACK + 1`).
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Everything below has been sent (`HighData + 1`).
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// What SACK covers.
    #[inline]
    pub fn sacked(&self) -> Amount {
        self.sacked
    }

    /// How often a segment was found lost.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Bytes in the network (`pipe`).
    #[inline]
    pub fn pipe(&self) -> u64 {
        self.end - self.una + self.again - self.sacked.bytes - self.lost
    }

    /// Whether no more is known of any segment than that it was sent, once.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sacked.segments == 0 && self.lost == 0 && self.again == 0
    }

    /// How many segments there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// The number of the oldest.
    #[inline]
    pub fn first(&self) -> Number {
        self.first
    }

    /// The number of the newest, if there is one.
    pub fn last(&self) -> Option<Number> {
        (!self.segments.is_empty()).then(|| self.first + self.segments.len() as u64 - 1)
    }

    /// The first segment that is lost and not in flight again.
    #[inline]
    pub fn due(&self) -> Option<Number> {
        self.due.peek().map(|&Reverse(number)| number)
    }

    /// Where a segment begins; the end of everything if it was not sent.
    pub fn seq(&self, number: Number) -> u64 {
        self.get(number).map_or(self.end, |segment| segment.seq)
    }

    /// Whether SACK covers a segment.
    pub fn is_sacked(&self, number: Number) -> bool {
        self.get(number).is_some_and(|segment| segment.is(SACKED))
    }

    /// Whether SACK covers a segment or its retransmission is in flight.
    pub fn is_underway(&self, number: Number) -> bool {
        self.get(number).is_some_and(|segment| segment.is(SACKED | AGAIN))
    }

    /// When the oldest left, for the last time.
    pub fn oldest(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.sent)
    }

    /// Where a segment ends if it is in flight again since `sent`.
    pub fn resent(&self, number: Number, sent: Instant) -> Option<u64> {
        let segment = self.get(number)?;
        (segment.is(AGAIN) && segment.sent == sent).then(|| segment.end())
    }

    /// Adds a new segment of `len` sequence numbers.
    #[inline]
    pub fn send(&mut self, len: u64, now: Instant) {
        self.segments.push_back(Segment {
            seq: self.end,
            sent: now,
            skip: 0,
            longer: (len - 1) as u16,
            state: 0,
        });
        self.end += len;
    }

    /// Sends a segment again: where it begins and how many sequence numbers it takes.
    pub fn resend(&mut self, number: Number, now: Instant) -> (u64, u64) {
        let segment = &mut self.segments[(number - self.first) as usize];
        if !segment.is(AGAIN) {
            self.again += segment.len();
        }
        segment.state |= AGAIN | EVER;
        segment.sent = now;
        let sent = (segment.seq, segment.len());
        self.tidy();
        sent
    }

    /// As `acknowledge`, if no more is known of any segment than that it was sent: when the first and the last
    /// left that have arrived.
    #[inline]
    pub fn acknowledge_plain(&mut self, ack: u64) -> Option<(Instant, Instant)> {
        let mut left = None;
        while let Some(segment) = self.segments.front_mut() {
            if segment.end() > ack {
                let gone = ack.saturating_sub(segment.seq);
                segment.seq += gone;
                segment.longer -= gone as u16;
                break;
            }
            left = Some((left.map_or(segment.sent, |(first, _)| first), segment.sent));
            self.segments.pop_front();
            self.first += 1;
        }
        self.una = ack;
        self.edge = self.first;
        left
    }

    /// Everything below `ack` has arrived; it must not lie outside of what was sent.
    #[inline]
    pub fn acknowledge(&mut self, ack: u64, arrival: &mut Arrival) {
        self.take(ack, arrival);
        if let Some(segment) = self.segments.front()
            && segment.seq < ack
        {
            self.trim(ack, arrival);
        }
        self.una = ack;
        self.edge = self.edge.max(self.first);
        self.tidy();
    }

    /// SACK covers `[from, to)`. Returns whether any of that is new; what makes no sense is not.
    pub fn sack(&mut self, from: u64, to: u64, arrival: &mut Arrival) -> bool {
        // A block that reaches down to `una` contradicts the acknowledgement, or is a D-SACK.
        if from <= self.una || from >= to || to > self.end {
            return false;
        }
        let mut at = self.position(from);
        let mut is_new = false;
        loop {
            at = self.skip(at);
            let Some(segment) = self.segments.get_mut(at) else { break };
            if segment.end() > to {
                break;
            }
            arrival.add(segment);
            if !segment.is(EVER) {
                arrival.first_sacked = arrival.first_sacked.or(Some(segment.sent));
            }
            let len = segment.len();
            self.lost -= if segment.is(LOST) { len } else { 0 };
            self.again -= if segment.is(AGAIN) { len } else { 0 };
            segment.state = segment.state & EVER | SACKED;
            segment.skip = 1;
            self.sacked.add(len);
            self.highest_sacked = self.highest_sacked.max(segment.end());
            self.beyond += u64::from(self.first + at as u64 >= self.edge);
            is_new = true;
        }
        if is_new {
            self.tidy();
        }
        is_new
    }

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

    /// Finds losses among the segments sent once: those `is_late` holds for, in the order of sending.
    /// Returns the first it does not hold for.
    pub fn lose_late(&mut self, is_late: impl Fn(Stamp) -> bool) -> Option<Stamp> {
        loop {
            let segment = self.segments.get((self.edge - self.first) as usize)?;
            if segment.is(SACKED) {
                self.beyond -= 1;
            } else if !segment.is(LOST | EVER) {
                let stamp = segment.stamp();
                if !is_late(stamp) {
                    return Some(stamp);
                }
                self.lose(self.edge);
            }
            self.edge += 1;
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
        if !segment.is(AGAIN) {
            return;
        }
        segment.state &= !AGAIN;
        self.again -= segment.len();
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
            if forget {
                segment.state &= !SACKED;
                segment.skip = 0;
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
            at += segment.skip.max(1) as usize;
        }
    }

    fn get(&self, number: Number) -> Option<&Segment> {
        self.segments.get(number.checked_sub(self.first)? as usize)
    }

    /// All segments that end by `ack` have arrived.
    #[inline]
    fn take(&mut self, ack: u64, arrival: &mut Arrival) {
        while let Some(segment) = self.segments.front()
            && segment.end() <= ack
        {
            if segment.state == 0 {
                arrival.first = arrival.first.or(Some(segment.sent));
                arrival.add(segment);
            } else {
                self.release(arrival);
            }
            self.segments.pop_front();
            self.first += 1;
        }
    }

    /// The first segment, of which more is known than that it was sent, has arrived.
    fn release(&mut self, arrival: &mut Arrival) {
        let segment = &self.segments[0];
        let len = segment.len();
        arrival.twice |= segment.is(EVER);
        if !segment.is(EVER | SACKED) {
            arrival.first = arrival.first.or(Some(segment.sent));
        }
        if segment.is(SACKED) {
            self.sacked.remove(len);
            self.beyond -= u64::from(self.first >= self.edge);
            return;
        }
        arrival.add(segment);
        self.lost -= if segment.is(LOST) { len } else { 0 };
        self.again -= if segment.is(AGAIN) { len } else { 0 };
    }

    /// The first segment has arrived in part.
    fn trim(&mut self, ack: u64, arrival: &mut Arrival) {
        let segment = &mut self.segments[0];
        let gone = ack - segment.seq;
        segment.seq = ack;
        segment.longer -= gone as u16;
        if segment.is(SACKED) {
            self.sacked.bytes -= gone;
            return;
        }
        arrival.bytes += gone;
        self.lost -= if segment.is(LOST) { gone } else { 0 };
        self.again -= if segment.is(AGAIN) { gone } else { 0 };
    }

    /// The position of the first segment that begins at `seq` or later.
    fn position(&self, seq: u64) -> usize {
        let Some(front) = self.segments.front() else { return 0 };
        // Most segments are full.
        let guess = (seq.saturating_sub(front.seq).div_ceil(self.mss)) as usize;
        match self.segments.get(guess) {
            Some(segment) if segment.seq == seq => guess,
            _ => self.segments.partition_point(|segment| segment.seq < seq),
        }
    }

    /// The position of the first segment from `from` on that is not SACKed.
    fn skip(&mut self, from: usize) -> usize {
        let mut to = from;
        while let Some(segment) = self.segments.get(to)
            && segment.skip > 0
        {
            to += segment.skip as usize;
        }
        // The next walk from any of these takes one step.
        let mut at = from;
        while at < to {
            let segment = &mut self.segments[at];
            at += std::mem::replace(&mut segment.skip, (to - at) as u32) as usize;
        }
        to
    }

    /// Keeps the first of those due up to date.
    #[inline]
    fn tidy(&mut self) {
        while let Some(&Reverse(number)) = self.due.peek() {
            if self.get(number).is_some_and(|segment| segment.state & !EVER == LOST) {
                return;
            }
            self.due.pop();
        }
    }
}

#[cfg(test)]
mod tests;
