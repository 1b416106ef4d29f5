//! What an acknowledgement shows to have arrived, in order and by SACK (`Update` of RFC 6675).

use aqm_net::Instant;

use super::{AGAIN, EVER, LOST, SACKED, Segment, Sent, Stamp};

/// What one acknowledgement shows to have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub bytes: u64,
    /// The newest of those sent only once.
    pub once: Option<Stamp>,
    /// The one that left last, of those sent again only if it left by `credible`.
    pub newest: Option<Stamp>,
    /// Where the highest of the same ends, and when it left; of what is acknowledged in order, if anything is, and
    /// else of what SACK tells of.
    pub last: Option<(u64, Instant)>,
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
            newest: None,
            last: None,
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
        } else if Some(stamp.sent) > self.credible {
            return;
        }
        self.newest = self.newest.max(Some(stamp));
        self.last = self.last.max(Some((stamp.end, stamp.sent)));
    }
}

impl Sent {
    /// As `acknowledge`, if no more is known of any segment than that it was sent: when the first and the last
    /// left that have arrived, and where they end.
    #[inline]
    pub fn acknowledge_plain(&mut self, ack: u64) -> Option<(Stamp, Stamp)> {
        let mut left = None;
        while let Some(segment) = self.segments.front_mut() {
            if segment.end() > ack {
                let gone = ack.saturating_sub(segment.seq);
                segment.seq += gone;
                segment.longer -= gone as u16;
                break;
            }
            let stamp = segment.stamp();
            left = Some((left.map_or(stamp, |(first, _)| first), stamp));
            self.repeated -= u64::from(segment.is(EVER));
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
            segment.place = 1;
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
        self.repeated -= u64::from(segment.is(EVER));
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
}
