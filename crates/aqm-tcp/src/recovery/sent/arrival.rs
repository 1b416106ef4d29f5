//! Records the data that an acknowledgement reports as arrived, either cumulatively or with SACK blocks (`Update` of
//! RFC 6675).

use aqm_net::Instant;

use super::{EVER_RESENT, LOST, MAX_BLOCKS, RESENT, SACKED, Segment, Sent, Stamp};
use crate::recovery::ReceivedAck;

/// Data that one acknowledgement reports as arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub bytes: u64,
    /// Last transmission of the arrived segments that were sent only once; [`Stamp::FIRST`] if there are none.
    pub newest_sent_once: Stamp,
    /// Last transmission of the arrived segments; [`Stamp::FIRST`] if there are none. A retransmission is considered
    /// only if the retransmission was sent at or before `credible`.
    pub newest: Stamp,
    /// End and departure time of the highest of the segments that `newest` considers; the end is 0 if there are none.
    pub highest_departure: (u64, Instant),
    /// Departure time of the first newly acknowledged segment that was sent only once and had not been SACKed before;
    /// `NEVER` if there is none.
    pub first: Instant,
    /// Departure time of the first newly SACKed segment that was sent only once; `NEVER` if there is none.
    pub first_sacked: Instant,
    /// Whether a retransmitted segment was acknowledged.
    pub has_retransmission: bool,
    /// Latest departure time of a retransmission that can have been acknowledged by now; `None` if no retransmission
    /// can have been acknowledged.
    credible: Option<Instant>,
    /// End of the lowest of the arrived segments that were sent only once.
    pub lowest_sent_once: u64,
    /// End of the highest arrived segment.
    pub highest: u64,
}

impl Arrival {
    pub fn new(credible: Option<Instant>) -> Self {
        Self {
            bytes: 0,
            newest_sent_once: Stamp::FIRST,
            newest: Stamp::FIRST,
            highest_departure: (0, Instant::START),
            first: Instant::NEVER,
            first_sacked: Instant::NEVER,
            has_retransmission: false,
            credible,
            lowest_sent_once: u64::MAX,
            highest: 0,
        }
    }

    /// Returns the departure time of `newest_sent_once`; `NEVER` if there is no such segment.
    pub fn newest_departure(&self) -> Instant {
        if self.newest_sent_once > Stamp::FIRST { self.newest_sent_once.sent } else { Instant::NEVER }
    }

    /// Records a newly acknowledged segment that was sent only once and had not been SACKed before.
    #[inline]
    fn note_first(&mut self, segment: &Segment) {
        if self.first == Instant::NEVER {
            self.first = segment.stamp.sent;
        }
    }

    #[inline]
    fn add(&mut self, segment: &Segment) {
        let (stamp, end) = (segment.stamp, segment.end());
        self.bytes += segment.len();
        self.highest = self.highest.max(end);
        if !segment.is(EVER_RESENT) {
            self.lowest_sent_once = self.lowest_sent_once.min(end);
            self.newest_sent_once = self.newest_sent_once.max(stamp);
        } else if Some(stamp.sent) > self.credible {
            return;
        }
        self.newest = self.newest.max(stamp);
        if end > self.highest_departure.0 {
            self.highest_departure = (end, stamp.sent);
        }
    }
}

/// A segment that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub end: u64,
    pub stamp: Stamp,
}

impl Sent {
    /// Like `acknowledge`, but only if every segment was sent only once and no segment is SACKed or lost. `oldest` is
    /// the oldest segment, if this segment has arrived. Returns the last segment that arrived.
    #[inline(always)]
    pub fn acknowledge_plain(&mut self, ack: u64, oldest: Option<Arrived>) -> Option<Arrived> {
        if oldest.is_none_or(|oldest| oldest.end < ack) {
            return self.acknowledge_several(ack);
        }
        if self.rate.is_some() {
            self.note_front(ack - self.una);
        }
        self.segments.pop_front();
        self.first += 1;
        self.una = ack;
        self.edge = self.first;
        oldest
    }

    /// Records the arrival of the oldest segment, of `len` bytes, for the measurement of the delivery rate.
    #[cold]
    fn note_front(&mut self, len: u64) {
        if let (Some(rate), Some(oldest)) = (&mut self.rate, self.segments.front()) {
            rate.on_front_delivered(len, oldest.stamp);
        }
    }

    /// Like `acknowledge_plain`, for any number of segments.
    #[inline(never)]
    fn acknowledge_several(&mut self, ack: u64) -> Option<Arrived> {
        let mut last = None;
        while let Some(segment) = self.segments.front_mut() {
            let end = segment.end();
            if end > ack {
                let removed = ack.saturating_sub(segment.seq);
                segment.seq += removed;
                segment.len_minus_one -= removed as u16;
                if let Some(rate) = self.rate.as_mut().filter(|_| removed > 0) {
                    rate.on_partly_delivered(removed);
                }
                break;
            }
            last = Some(Arrived { end, stamp: segment.stamp });
            if let Some(rate) = &mut self.rate {
                rate.on_front_delivered(segment.len(), segment.stamp);
            }
            self.segments.pop_front();
            self.first += 1;
        }
        self.una = ack;
        self.edge = self.first;
        last
    }

    /// Records that all data below `ack` has arrived. `ack` must be within the sent data.
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
        self.refresh_due();
    }

    /// Records the SACK blocks of an acknowledgement. Returns whether any of the reported data is new.
    #[inline(always)]
    pub fn sack_all(&mut self, received: &ReceivedAck, arrival: &mut Arrival) -> bool {
        let mut is_new = false;
        let mut previous = (0, 0);
        for at in 0..MAX_BLOCKS {
            let (from, to) = received.sacks.block(at, received.ack);
            if from == to {
                break;
            }
            // A block is often repeated, either in the same place or after a new block.
            let reported = self.reported[at];
            if (from, to) != reported {
                if (from, to) != previous {
                    let known = if from == reported.0 { reported.1 } else { from };
                    is_new |= self.sack((from, to), known, arrival);
                }
                // A block beyond the sent data is invalid.
                self.reported[at] = if to <= self.end { (from, to) } else { (0, 0) };
            }
            previous = reported;
        }
        is_new
    }

    /// Records that a SACK block covers `[from, to)`, of which all segments up to `known` are SACKed already. Returns
    /// whether any of this data is new. An invalid range contains no new data.
    #[inline(never)]
    pub fn sack(&mut self, (from, to): (u64, u64), known: u64, arrival: &mut Arrival) -> bool {
        // A block that begins at or below `una` contradicts the acknowledgement number or is a D-SACK.
        if from <= self.una || from >= to || to > self.end {
            return false;
        }
        let mut at = self.position(known);
        if known > from && self.segments.get(at).is_none_or(|segment| segment.seq != known) {
            at = self.position(from);
        }
        let mut is_new = false;
        while let Some(segment) = self.segments.get_mut(at)
            && segment.end() <= to
        {
            if segment.is(SACKED) {
                at = self.skip(at);
                continue;
            }
            arrival.add(segment);
            if !segment.is(EVER_RESENT) && arrival.first_sacked == Instant::NEVER {
                arrival.first_sacked = segment.stamp.sent;
            }
            let len = segment.len();
            if let Some(rate) = &mut self.rate {
                rate.on_delivered(at, len, segment.stamp);
            }
            self.lost -= if segment.is(LOST) { len } else { 0 };
            self.resent_bytes -= if segment.is(RESENT) { len } else { 0 };
            segment.state = segment.state & EVER_RESENT | SACKED;
            segment.run = 1;
            self.sacked.add(len);
            self.highest_sacked = self.highest_sacked.max(segment.end());
            self.beyond += u64::from(self.first + at as u64 >= self.edge);
            is_new = true;
            at += 1;
        }
        if is_new {
            self.refresh_due();
        }
        is_new
    }

    /// Removes all segments that end at or before `ack`.
    #[inline]
    fn take(&mut self, ack: u64, arrival: &mut Arrival) {
        while let Some(segment) = self.segments.front()
            && segment.end() <= ack
        {
            if let Some(rate) = &mut self.rate {
                if segment.is(SACKED) {
                    rate.pop_front();
                } else {
                    rate.on_front_delivered(segment.len(), segment.stamp);
                }
            }
            if segment.state == 0 {
                arrival.note_first(segment);
                arrival.add(segment);
            } else {
                self.release(arrival);
            }
            self.segments.pop_front();
            self.first += 1;
        }
    }

    /// Records the arrival of the first segment, if any of the segment's flags is set.
    fn release(&mut self, arrival: &mut Arrival) {
        let segment = &self.segments[0];
        let len = segment.len();
        arrival.has_retransmission |= segment.is(EVER_RESENT);
        self.repeated -= u64::from(segment.is(EVER_RESENT));
        if !segment.is(EVER_RESENT | SACKED) {
            arrival.note_first(segment);
        }
        if segment.is(SACKED) {
            self.sacked.remove(len);
            self.beyond -= u64::from(self.first >= self.edge);
            return;
        }
        arrival.add(segment);
        self.lost -= if segment.is(LOST) { len } else { 0 };
        self.resent_bytes -= if segment.is(RESENT) { len } else { 0 };
    }

    /// Records that a part of the first segment has arrived.
    fn trim(&mut self, ack: u64, arrival: &mut Arrival) {
        let segment = &mut self.segments[0];
        let removed = ack - segment.seq;
        segment.seq = ack;
        segment.len_minus_one -= removed as u16;
        if segment.is(SACKED) {
            self.sacked.bytes -= removed;
            return;
        }
        arrival.bytes += removed;
        if let Some(rate) = &mut self.rate {
            rate.on_partly_delivered(removed);
        }
        self.lost -= if segment.is(LOST) { removed } else { 0 };
        self.resent_bytes -= if segment.is(RESENT) { removed } else { 0 };
    }
}
