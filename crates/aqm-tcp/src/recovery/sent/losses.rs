//! Determines which segments are lost (`IsLost` of RFC 6675) and which segments may be lost.

use std::cmp::Reverse;

use aqm_net::Instant;

use super::{Amount, EVER_RESENT, LOST, MAX_BLOCKS, Number, RESENT, SACKED, Sent, Stamp};

impl Sent {
    /// Detects losses according to RFC 6675 (`IsLost`).
    #[inline]
    pub fn lose_uncovered(&mut self, dupthresh: u32) {
        // If no segment beyond `edge` is SACKed, no further segment is lost.
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

    /// Returns whether a segment that is neither SACKed nor lost and was sent only once was sent before `latest`.
    #[inline]
    pub fn is_overtaken(&mut self, latest: Stamp) -> bool {
        let mut at = (self.edge - self.first) as usize;
        let mut is_overtaken = false;
        while let Some(segment) = self.segments.get(at) {
            if segment.state == 0 {
                is_overtaken = segment.stamp < latest;
                break;
            }
            self.beyond -= u64::from(segment.is(SACKED));
            at += 1;
        }
        self.edge = self.first + at as u64;
        is_overtaken
    }

    /// Marks as lost, in the order of transmission, the segments that were sent only once, were sent before `latest` and
    /// satisfy `is_late`. Returns the transmission of the last segment that was sent before `latest` but does not
    /// satisfy `is_late` yet.
    pub fn lose_late(&mut self, latest: Stamp, is_late: impl Fn(Stamp) -> bool) -> Option<Stamp> {
        while self.is_overtaken(latest) {
            if !is_late(self.segments[(self.edge - self.first) as usize].stamp) {
                return self.last_overtaken(latest);
            }
            self.lose(self.edge);
        }
        None
    }

    /// Returns the transmission of the last segment that is neither SACKed nor lost, was sent only once and was sent
    /// before `latest`.
    fn last_overtaken(&mut self, latest: Stamp) -> Option<Stamp> {
        let mut last = None;
        let mut at = (self.edge - self.first) as usize;
        loop {
            at = self.skip(at);
            let Some(segment) = self.segments.get(at) else { return last };
            if segment.state == 0 {
                if segment.stamp >= latest {
                    return last;
                }
                last = Some(segment.stamp);
            }
            at += 1;
        }
    }

    /// Marks a segment as lost, unless the segment is already SACKed or lost.
    pub fn lose(&mut self, number: Number) {
        let segment = &mut self.segments[(number - self.first) as usize];
        if segment.is(LOST | SACKED) {
            return;
        }
        segment.state |= LOST;
        self.lost += segment.len();
        if let Some(rate) = &mut self.rate {
            rate.on_lost((number - self.first) as usize, segment.seq, segment.len());
        }
        if !segment.is(RESENT) {
            self.due.push(Reverse(number));
        }
        self.losses += 1;
    }

    /// Marks the retransmission of a segment as lost.
    pub fn lose_retransmission(&mut self, number: Number) {
        let segment = &mut self.segments[(number - self.first) as usize];
        if !segment.is_resent() {
            return;
        }
        self.resent_bytes -= if segment.is(RESENT) { segment.len() } else { 0 };
        segment.state &= !RESENT;
        if segment.is(LOST) {
            if let Some(rate) = &mut self.rate {
                rate.on_lost((number - self.first) as usize, segment.seq, segment.len());
            }
            self.due.push(Reverse(number));
            self.losses += 1;
        } else {
            self.lose(number);
        }
    }

    /// Marks all segments that have not arrived as lost. If `forget` is true, SACKed segments are also marked as lost.
    /// Segments that were sent after `since` are not marked, except the oldest segment.
    pub fn lose_all(&mut self, forget: bool, since: Option<Instant>) {
        if forget {
            self.sacked = Amount::default();
            self.reported = [(0, 0); MAX_BLOCKS];
            self.highest_sacked = 0;
        }
        self.beyond = 0;
        self.edge = self.first + self.segments.len() as u64;
        (self.lost, self.resent_bytes) = (0, 0);
        let mut due = Vec::new();
        let mut has_excluded = false;
        for (number, segment) in (self.first..).zip(&mut self.segments) {
            if forget && segment.is(SACKED) {
                segment.state &= !SACKED;
                segment.run = 0;
            }
            if segment.is(SACKED) {
                continue;
            }
            if number > self.first && since.is_some_and(|since| segment.stamp.sent > since) {
                self.lost += if segment.is(LOST) { segment.len() } else { 0 };
                self.resent_bytes += if segment.is(RESENT) { segment.len() } else { 0 };
                has_excluded = true;
                if segment.is(LOST) && !segment.is(RESENT) {
                    due.push(Reverse(number));
                }
                continue;
            }
            if let Some(rate) = &mut self.rate
                && (segment.is(RESENT) || !segment.is(LOST))
            {
                rate.on_lost((number - self.first) as usize, segment.seq, segment.len());
            }
            segment.state = segment.state & EVER_RESENT | LOST;
            self.lost += segment.len();
            due.push(Reverse(number));
        }
        self.losses += due.len() as u64;
        self.due = due.into();
        if has_excluded {
            self.edge = self.first;
            self.beyond = self.sacked.segments;
        }
    }

    /// Marks all segments as not lost.
    pub fn lose_none(&mut self) {
        for segment in &mut self.segments {
            segment.state &= !LOST;
        }
        self.lost = 0;
        self.due.clear();
        self.edge = self.first;
        self.beyond = self.sacked.segments;
    }

    /// Returns the first segment at or after `from` that may be lost and of which no retransmission is in flight. The
    /// amount of SACKed data that follows this segment is too small to decide whether the segment is lost.
    pub fn next_possibly_lost(&self, from: Number) -> Option<Number> {
        let mut at = (from.max(self.edge).max(self.first) - self.first) as usize;
        loop {
            let segment = self.segments.get(at)?;
            if segment.end() > self.highest_sacked {
                return None;
            }
            if !segment.is(SACKED | RESENT) {
                return Some(self.first + at as u64);
            }
            at += if segment.is(SACKED) { segment.run as usize } else { 1 };
        }
    }
}
