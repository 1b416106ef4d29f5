//! The segments that are sent and not acknowledged, and what SACK tells of each.
//!
//! E. Blanton et al., "A Conservative Loss Recovery Algorithm Based on Selective Acknowledgement (SACK) for
//! TCP", RFC 6675, 2012, section 4: `Update`, `IsLost` and `SetPipe`, as bits of segments and sums that are
//! kept up to date, so that no acknowledgement costs more in a large window than in a small one.
//!
//! Ours, where the source is silent: `IsLost` counts segments where the RFC, which knows only bytes, counts
//! separate ranges and full segments; `DupThresh` of either are never fewer of ours.
//! A segment that SACK covers in part has not arrived. One that was sent again and is not known to be lost counts
//! twice in `pipe`, as the RFC has it.

mod arrival;
mod losses;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use aqm_net::Instant;

pub(crate) use arrival::Arrival;

/// SACK tells that it has arrived.
const SACKED: u8 = 1;
/// It is known to be lost.
const LOST: u8 = 2;
/// A retransmission of it is in flight.
const AGAIN: u8 = 4;
/// It was sent more than once.
const EVER: u8 = 8;

/// When a segment left, how many left before it at the same instant, and where it ends: the order of sending (RFC 8985,
/// `RACK_sent_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub sent: Instant,
    pub turn: u32,
    pub end: u64,
}

impl Stamp {
    /// Before that of any segment.
    pub const FIRST: Self = Self { sent: Instant::START, turn: 0, end: 0 };
}

/// A segment, from when it is first sent until it is acknowledged.
#[derive(Clone, Debug)]
struct Segment {
    seq: u64,
    /// When it was sent last.
    sent: Instant,
    /// If SACKed: how many segments from this one on are, at least. If not: how many were sent before it at the same
    /// instant.
    place: u32,
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
        Stamp { sent: self.sent, turn: self.place, end: self.end() }
    }

    fn is(&self, bits: u8) -> bool {
        self.state & bits != 0
    }

    /// Whether it was sent again and may be in the network.
    fn is_resent(&self) -> bool {
        self.is(EVER) && !self.is(SACKED) && (self.is(AGAIN) || !self.is(LOST))
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
    /// How many of the segments were sent more than once.
    repeated: u64,
    /// When a segment was sent last, and how many were before it at that instant.
    latest: (Instant, u32),
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
            repeated: 0,
            latest: (Instant::START, 0),
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

    /// Whether no more is known of any segment than that it was sent.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sacked.segments == 0 && self.lost == 0 && self.again == 0
    }

    /// Whether none of the segments was sent more than once.
    #[inline]
    pub fn is_sent_once(&self) -> bool {
        self.repeated == 0
    }

    /// The oldest, if `ack` acknowledges it and none was sent more than once.
    #[inline]
    pub fn next_once(&self, ack: u64) -> Option<Stamp> {
        let oldest = self.segments.front()?.stamp();
        (self.is_sent_once() && oldest.end <= ack).then_some(oldest)
    }

    /// How many segments are in flight again.
    pub fn resent_count(&self) -> u64 {
        self.again.div_ceil(self.mss)
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

    /// Whether a segment is lost, in flight again or not.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
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

    /// Whether a segment that was sent again at `stamp` may be in the network.
    pub fn is_resent(&self, number: Number, stamp: Stamp) -> bool {
        self.get(number).is_some_and(|segment| segment.is_resent() && segment.stamp() == stamp)
    }

    /// Those that were sent again and may be in the network, and when they left.
    pub fn resent(&self) -> impl Iterator<Item = (Number, Stamp)> {
        let numbered = (self.first..).zip(&self.segments);
        numbered.filter(|(_, segment)| segment.is_resent()).map(|(number, segment)| (number, segment.stamp()))
    }

    /// Adds a new segment of `len` sequence numbers.
    #[inline]
    pub fn send(&mut self, len: u64, now: Instant) {
        let place = self.turn(now);
        self.segments.push_back(Segment {
            seq: self.end,
            sent: now,
            place,
            longer: (len - 1) as u16,
            state: 0,
        });
        self.end += len;
    }

    /// How many segments have been sent before at this instant.
    #[inline]
    fn turn(&mut self, now: Instant) -> u32 {
        self.latest = (now, if self.latest.0 == now { self.latest.1 + 1 } else { 0 });
        self.latest.1
    }

    /// Sends a segment again: where it begins, how many sequence numbers it takes, and when it left.
    pub fn resend(&mut self, number: Number, now: Instant) -> (u64, u64, Stamp) {
        let place = self.turn(now);
        let segment = &mut self.segments[(number - self.first) as usize];
        if !segment.is(AGAIN) {
            self.again += segment.len();
        }
        self.repeated += u64::from(!segment.is(EVER));
        segment.state |= AGAIN | EVER;
        (segment.sent, segment.place) = (now, place);
        let sent = (segment.seq, segment.len(), segment.stamp());
        self.tidy();
        sent
    }

    fn get(&self, number: Number) -> Option<&Segment> {
        self.segments.get(number.checked_sub(self.first)? as usize)
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
            && segment.is(SACKED)
        {
            to += segment.place as usize;
        }
        // The next walk from any of these takes one step.
        let mut at = from;
        while at < to {
            let segment = &mut self.segments[at];
            at += std::mem::replace(&mut segment.place, (to - at) as u32) as usize;
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
