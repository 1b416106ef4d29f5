//! Stores the sent segments that have not been acknowledged, with the SACK state of each segment.
//!
//! E. Blanton et al., "A Conservative Loss Recovery Algorithm Based on Selective Acknowledgement (SACK) for TCP", RFC
//! 6675, 2012, section 4: `Update`, `IsLost` and `SetPipe`, implemented with a set of flags for each segment and with
//! incremental sums, so that the cost of an acknowledgement does not depend on the size of the window.
//!
//! aqmlab's choices where the source is silent: `IsLost` counts segments, whereas the RFC, which considers only bytes,
//! counts separate ranges and full segments. `DupThresh` ranges or full segments always consist of at least `DupThresh`
//! of aqmlab's segments. A segment that SACK blocks cover only in part counts as not arrived. A retransmitted segment
//! that is not known to be lost is counted twice in `pipe`, as in the RFC.

mod arrival;
mod losses;

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use aqm_net::Instant;

use super::delivery_rate::DeliveryRate;

pub(crate) use arrival::{Arrival, Arrived};

/// A SACK block has reported the segment.
const SACKED: u8 = 1;
/// The segment is considered lost.
const LOST: u8 = 2;
/// A retransmission of the segment is in flight.
const RESENT: u8 = 4;
/// The segment was sent more than once.
const EVER_RESENT: u8 = 8;

/// A transmission of a segment. Transmissions are ordered by their numbers, which also order the transmissions of the
/// same instant (RFC 8985, `RACK_sent_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Number of the transmission. The first transmission has the number 1.
    pub number: u64,
    pub sent: Instant,
}

impl Stamp {
    /// Stamp that precedes the stamps of all transmissions.
    pub const FIRST: Self = Self { number: 0, sent: Instant::START };
}

impl PartialOrd for Stamp {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stamp {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

/// A segment that has been sent and has not been acknowledged.
#[derive(Clone, Debug)]
struct Segment {
    seq: u64,
    /// The last transmission.
    stamp: Stamp,
    /// For a SACKed segment, a lower bound on the number of consecutive SACKed segments that begin with this segment.
    run: u32,
    /// Length in sequence numbers, minus one. One is subtracted so that a length of 65536 fits into the field.
    len_minus_one: u16,
    state: u8,
}

impl Segment {
    fn len(&self) -> u64 {
        u64::from(self.len_minus_one) + 1
    }

    fn end(&self) -> u64 {
        self.seq + self.len()
    }

    fn is(&self, bits: u8) -> bool {
        self.state & bits != 0
    }

    /// Returns whether the segment was retransmitted and may still be in the network.
    fn is_resent(&self) -> bool {
        self.is(EVER_RESENT) && !self.is(SACKED) && (self.is(RESENT) || !self.is(LOST))
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

/// Number of SACK blocks of an acknowledgement that are remembered. Most acknowledgements repeat the blocks of the
/// previous acknowledgement, except one.
const MAX_BLOCKS: usize = 3;

/// Number of a segment, which is equal to the number of segments that were sent before this segment.
pub(crate) type Number = u64;

/// All segments from the oldest unacknowledged segment to the newest segment.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    segments: VecDeque<Segment>,
    /// Number of the oldest unacknowledged segment.
    first: Number,
    una: u64,
    end: u64,
    sacked: Amount,
    lost: u64,
    resent_bytes: u64,
    /// End of the highest SACKed segment.
    highest_sacked: u64,
    /// First segment that may be neither SACKed, lost nor retransmitted; all earlier segments are SACKed, lost or
    /// retransmitted.
    edge: Number,
    /// Number of SACKed segments at or after the segment `edge`.
    beyond: u64,
    /// Lost segments of which no retransmission is in flight. All entries except the first may be outdated.
    due: BinaryHeap<Reverse<Number>>,
    /// Number of times that any segment has been detected as lost.
    losses: u64,
    /// Number of unacknowledged segments that were sent more than once.
    repeated: u64,
    /// Number of transmissions.
    transmissions: u64,
    mss: u64,
    /// SACK blocks of the last acknowledgement that carried SACK blocks. All segments in these blocks are SACKed.
    reported: [(u64, u64); MAX_BLOCKS],
    /// State for measuring the delivery rate; `None` if the congestion control does not use the delivery rate.
    rate: Option<Box<DeliveryRate>>,
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
            resent_bytes: 0,
            highest_sacked: 0,
            edge: 0,
            beyond: 0,
            due: BinaryHeap::new(),
            losses: 0,
            repeated: 0,
            transmissions: 0,
            mss,
            reported: [(0, 0); MAX_BLOCKS],
            rate: None,
        }
    }

    /// Sets whether the delivery rate is measured. This function must be called before any data is sent.
    pub fn measure_rate(&mut self, is_on: bool) {
        self.rate = is_on.then(Box::default);
    }

    /// Returns the state for measuring the delivery rate; `None` if the delivery rate is not measured.
    pub fn rate(&mut self) -> Option<&mut DeliveryRate> {
        self.rate.as_deref_mut()
    }

    /// Returns the sequence number that follows the acknowledged data (`HighACK + 1`).
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Returns the sequence number that follows the sent data (`HighData + 1`).
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the amount of SACKed data.
    #[inline]
    pub fn sacked(&self) -> Amount {
        self.sacked
    }

    /// Returns the number of times that any segment has been detected as lost.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Returns the number of bytes in the network (`pipe`).
    #[inline]
    pub fn pipe(&self) -> u64 {
        self.end - self.una + self.resent_bytes - self.sacked.bytes - self.lost
    }

    /// Returns whether no segment is SACKed, lost or retransmitted.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sacked.segments == 0 && self.lost == 0 && self.resent_bytes == 0
    }

    /// Returns whether every segment was sent only once.
    #[inline]
    pub fn is_sent_once(&self) -> bool {
        self.repeated == 0
    }

    /// Returns the oldest segment, if `ack` acknowledges this segment and every segment was sent only once.
    #[inline]
    pub fn next_if_sent_once(&self, ack: u64) -> Option<Arrived> {
        let oldest = self.segments.front()?;
        let end = oldest.end();
        (self.is_sent_once() && end <= ack).then_some(Arrived { end, stamp: oldest.stamp })
    }

    /// Returns the number of retransmissions in flight.
    pub fn resent_count(&self) -> u64 {
        self.resent_bytes.div_ceil(self.mss)
    }

    /// Returns the number of segments.
    #[inline]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns the number of the oldest segment.
    #[inline]
    pub fn first(&self) -> Number {
        self.first
    }

    /// Returns the number of the newest segment; `None` if there are no segments.
    pub fn last(&self) -> Option<Number> {
        (!self.segments.is_empty()).then(|| self.first + self.segments.len() as u64 - 1)
    }

    /// Returns whether any segment is lost, including lost segments of which a retransmission is in flight.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns the first lost segment of which no retransmission is in flight.
    #[inline]
    pub fn due(&self) -> Option<Number> {
        self.due.peek().map(|&Reverse(number)| number)
    }

    /// Returns the sequence number at which a segment begins, or the end of all data if the segment has not been sent.
    pub fn seq(&self, number: Number) -> u64 {
        self.get(number).map_or(self.end, |segment| segment.seq)
    }

    /// Returns whether a segment is SACKed.
    pub fn is_sacked(&self, number: Number) -> bool {
        self.get(number).is_some_and(|segment| segment.is(SACKED))
    }

    /// Returns whether a segment is SACKed or its retransmission is in flight.
    pub fn is_sacked_or_resent(&self, number: Number) -> bool {
        self.get(number).is_some_and(|segment| segment.is(SACKED | RESENT))
    }

    /// Returns the time at which the oldest segment was last sent.
    pub fn oldest(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.stamp.sent)
    }

    /// Returns whether the retransmission `stamp` of a segment may still be in the network.
    pub fn is_resent(&self, number: Number, stamp: Stamp) -> bool {
        self.get(number).is_some_and(|segment| segment.stamp == stamp && segment.is_resent())
    }

    /// Returns the retransmissions that may still be in the network.
    pub fn resent(&self) -> impl Iterator<Item = (Number, Stamp)> {
        let numbered = (self.first..).zip(&self.segments);
        numbered.filter(|(_, segment)| segment.is_resent()).map(|(number, segment)| (number, segment.stamp))
    }

    /// Adds a new segment that occupies `len` sequence numbers.
    #[inline]
    pub fn send(&mut self, len: u64, now: Instant) {
        let stamp = self.next_stamp(now);
        self.segments.push_back(Segment {
            seq: self.end,
            stamp,
            run: 0,
            len_minus_one: (len - 1) as u16,
            state: 0,
        });
        self.end += len;
        if self.rate.is_some() {
            self.note_new(len, now);
        }
    }

    /// Records a new segment for the measurement of the delivery rate.
    #[cold]
    fn note_new(&mut self, len: u64, now: Instant) {
        let in_flight = self.pipe();
        if let Some(rate) = &mut self.rate {
            rate.on_new(len, in_flight, now);
        }
    }

    /// Returns the stamp of a new transmission.
    #[inline]
    fn next_stamp(&mut self, now: Instant) -> Stamp {
        self.transmissions += 1;
        Stamp { number: self.transmissions, sent: now }
    }

    /// Retransmits a segment. Returns the segment's first sequence number, its length in sequence numbers, and the
    /// transmission.
    pub fn resend(&mut self, number: Number, now: Instant) -> (u64, u64, Stamp) {
        let stamp = self.next_stamp(now);
        let segment = &mut self.segments[(number - self.first) as usize];
        if !segment.is(RESENT) {
            self.resent_bytes += segment.len();
        }
        self.repeated += u64::from(!segment.is(EVER_RESENT));
        segment.state |= RESENT | EVER_RESENT;
        segment.stamp = stamp;
        let sent = (segment.seq, segment.len(), stamp);
        let in_flight = self.pipe();
        if let Some(rate) = &mut self.rate {
            rate.on_resent((number - self.first) as usize, sent.1, in_flight, now);
        }
        self.refresh_due();
        sent
    }

    fn get(&self, number: Number) -> Option<&Segment> {
        self.segments.get(number.checked_sub(self.first)? as usize)
    }

    /// Returns the index of the first segment that begins at or after `seq`.
    fn position(&self, seq: u64) -> usize {
        let Some(front) = self.segments.front() else { return 0 };
        // This guess assumes that all segments are full, because most segments are.
        let guess = (seq.saturating_sub(front.seq).div_ceil(self.mss)) as usize;
        match self.segments.get(guess) {
            Some(segment) if segment.seq == seq => guess,
            _ => self.segments.partition_point(|segment| segment.seq < seq),
        }
    }

    /// Returns the index of the first segment that is not SACKed, starting at `from`.
    fn skip(&mut self, from: usize) -> usize {
        let mut to = from;
        while let Some(segment) = self.segments.get(to)
            && segment.is(SACKED)
        {
            to += segment.run as usize;
        }
        // The skipped segments are updated, so that the next search that starts at any of these segments takes only one
        // step.
        let mut at = from;
        while at < to {
            let segment = &mut self.segments[at];
            at += std::mem::replace(&mut segment.run, (to - at) as u32) as usize;
        }
        to
    }

    /// Removes outdated entries from the front of `due`.
    #[inline]
    fn refresh_due(&mut self) {
        while let Some(&Reverse(number)) = self.due.peek() {
            if self.get(number).is_some_and(|segment| segment.state & !EVER_RESENT == LOST) {
                return;
            }
            self.due.pop();
        }
    }
}

#[cfg(test)]
mod tests;
