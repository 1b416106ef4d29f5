//! TCP segments.
//!
//! W. Eddy, RFC 9293, 2022, section 3.1; M. Mathis et al., "TCP Selective Acknowledgement Options", RFC 2018, 1996; S.
//! Floyd et al., RFC 2883, 2000 (D-SACK); K. Ramakrishnan et al., RFC 3168, 2001 (ECN); D. Borman et al., RFC 7323,
//! 2014 (timestamps).
//!
//! aqmlab's choice where the sources are silent: a segment carries at most three SACK blocks, because a segment with
//! timestamps has no room for more SACK blocks.

use aqm_net::{Ecn, Instant};

/// A TCP segment without its payload. Sequence numbers are 64 bits wide and start at zero, so they never wrap around. A
/// SYN occupies no sequence number. A FIN occupies one sequence number, which follows the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first payload byte, or of the sender's next byte if the segment has no payload.
    pub seq: u64,
    /// Next byte that the segment's sender expects from the other endpoint. In QUIC, the largest received packet number
    /// plus one, or 0 if the packet contains no acknowledgement.
    pub ack: u64,
    /// Ranges of data that has been received beyond `ack`. In QUIC, ranges of packet numbers below `ack`.
    pub sacks: Sacks,
    /// Number of payload bytes; 0 for a pure control segment.
    pub len: u32,
    /// Number of bytes on the wire, including headers.
    pub wire: u16,
    /// Control flags.
    pub flags: Flags,
    /// ECN bits of the packet when the packet is sent or received.
    pub ecn: Ecn,
    /// Departure time according to the sender's clock (TSval, RFC 7323), or the start of the run if there is no
    /// timestamp. In QUIC, this field contains the [packet number](Self::packet_number).
    pub sent: Instant,
    /// Echoed departure time of the segment that triggered this segment (TSecr, RFC 7323), or the start of the run if
    /// the triggering segment had no timestamp. In QUIC, this field contains the delay of the acknowledgement (ACK
    /// Delay, RFC 9000, section 19.3).
    pub echo: Instant,
}

impl Segment {
    /// Returns the sequence number that follows the segment, including a FIN.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.flags.has(Flags::FIN))
    }

    /// Returns the number of a QUIC packet with data; `None` if the packet contains only an acknowledgement. QUIC packets
    /// have no timestamps, so the number is stored in `sent`, plus one. With a field of its own, a segment would not fit
    /// into a cache line.
    pub fn packet_number(&self) -> Option<u64> {
        self.sent.nanos().checked_sub(1)
    }

    /// Returns the contents of the field `sent` of the QUIC packet with this number.
    pub(crate) fn stamp_of(packet_number: u64) -> Instant {
        Instant::from_nanos(packet_number + 1)
    }
}

/// Control flags of a segment, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The segment opens a connection.
    pub const SYN: Self = Self(1);
    /// The `ack` field of the segment is valid.
    pub const ACK: Self = Self(2);
    /// The sender sends no data after this payload.
    pub const FIN: Self = Self(4);
    /// The payload has been sent before.
    pub const RETRANSMISSION: Self = Self(8);
    /// A marked packet has arrived. On a SYN, the flag means that the endpoint supports ECN.
    pub const ECE: Self = Self(16);
    /// The sender has reduced its window. On a SYN, the flag means that the endpoint supports ECN.
    pub const CWR: Self = Self(32);
    /// The sending application requires that all data up to and including this segment be delivered immediately (PSH).
    pub const PUSH: Self = Self(64);
    /// The most significant bit of Accurate ECN's counter of marked packets (AE, RFC 9768). On a SYN, the flag means
    /// that the endpoint supports accurate ECN feedback.
    pub const AE: Self = Self(128);

    /// Returns the union of this set and `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this set without the flags of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether this set contains all flags of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Up to three ranges of data received beyond the acknowledgement number, stored as distances from this number. If the
/// first range is below the acknowledgement number or within the second range, the first range reports data that
/// arrived twice (D-SACK). In place of the third range, a segment may carry the AccECN option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sacks([Block; 3]);

/// Bit in the upper half of the third block. If the bit is set and the block's length is 0, the block contains the
/// AccECN option.
const OPTION: u32 = 1 << 31;

/// A range in a single 64-bit word, which keeps segments small because every segment contains three ranges. The upper
/// 32 bits contain the distance from the acknowledgement number, and the lower 32 bits contain the length. A length of
/// 0 means that the block is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block(u64);

impl Block {
    const fn new(offset: i32, length: u32) -> Self {
        Self((offset as u32 as u64) << 32 | length as u64)
    }

    const fn offset(self) -> i32 {
        (self.0 >> 32) as i32
    }

    const fn length(self) -> u32 {
        self.0 as u32
    }

    /// Returns the distance of the range's end from the acknowledgement number.
    const fn end(self) -> i64 {
        self.offset() as i64 + self.length() as i64
    }
}

impl Sacks {
    /// Adds the range `[from, to)` to a segment that acknowledges `ack`. The range is omitted if all blocks are in use,
    /// or if the values do not fit into the fields of a block.
    pub fn push(&mut self, ack: u64, from: u64, to: u64) {
        let offset = i32::try_from(from as i64 - ack as i64);
        let length = u32::try_from(to.saturating_sub(from));
        let room = self.0.iter_mut().find(|block| block.length() == 0);
        if let (Ok(offset), Ok(length), Some(block)) = (offset, length, room) {
            *block = Block::new(offset, length);
        }
    }

    /// Returns the ranges `[from, to)` of a segment that acknowledges `ack`, in the order of insertion.
    pub fn ranges(self, ack: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..3).map(move |position| self.block(position, ack)).take_while(|(from, to)| from < to)
    }

    /// Returns the block at the given position of a segment that acknowledges `ack`. An unused block contains an empty
    /// range.
    #[inline(always)]
    pub(crate) fn block(&self, position: usize, ack: u64) -> (u64, u64) {
        let block = self.0[position];
        let from = ack.saturating_add_signed(block.offset().into());
        (from, from + u64::from(block.length()))
    }

    /// Returns the end of the data that arrived twice, in a segment that acknowledges `ack`; `None` if the first range
    /// does not report such data.
    #[inline]
    pub(crate) fn duplicate_end(&self, ack: u64) -> Option<u64> {
        let [first, second, _] = self.0;
        // Most acknowledgements with ranges have one range, which is beyond the acknowledgement number.
        if first.offset() >= 0 && second.length() == 0 {
            return None;
        }
        let is_inside = second.offset() <= first.offset() && first.end() <= second.end();
        let is_duplicate = first.length() > 0 && (first.end() <= 0 || (second.length() > 0 && is_inside));
        is_duplicate.then(|| ack.saturating_add_signed(first.end()))
    }

    /// Adds the AccECN option with the 24-bit counter of marked bytes, if the third block is unused.
    pub fn set_marked_bytes(&mut self, bytes: u32) {
        if self.0[2].length() == 0 {
            self.0[2] = Block(u64::from(bytes | OPTION) << 32);
        }
    }

    /// Returns the counter of marked bytes from the AccECN option; `None` if the segment has no AccECN option.
    #[inline]
    pub fn marked_bytes(&self) -> Option<u32> {
        let upper = (self.0[2].0 >> 32) as u32;
        (self.0[2].length() == 0 && upper & OPTION != 0).then_some(upper & !OPTION)
    }

    /// Returns the first two blocks as words, for QUIC, which stores ranges of packet numbers in these blocks.
    pub(crate) fn words(&self) -> [u64; 2] {
        [self.0[0].0, self.0[1].0]
    }

    /// Sets the first two blocks.
    pub(crate) fn set_words(&mut self, [first, second]: [u64; 2]) {
        (self.0[0], self.0[1]) = (Block(first), Block(second));
    }

    /// Whether there are no ranges.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0[0].length() == 0
    }

    /// Returns the number of ranges.
    pub fn count(&self) -> u16 {
        self.0.iter().filter(|block| block.length() > 0).count() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_were_written() {
        let mut sacks = Sacks::default();
        assert!(sacks.is_empty() && sacks.count() == 0);
        for (from, to) in [(500, 600), (1000, 1200), (1300, 1400), (9000, 9001)] {
            sacks.push(1000, from, to);
        }
        assert_eq!(sacks.ranges(1000).collect::<Vec<_>>(), [(500, 600), (1000, 1200), (1300, 1400)]);
        assert_eq!(sacks.count(), 3);
    }

    #[test]
    fn a_range_that_does_not_fit_is_omitted() {
        let mut sacks = Sacks::default();
        sacks.push(0, 1 << 40, (1 << 40) + 5);
        sacks.push(7, 7, 7);
        assert!(sacks.is_empty());
    }

    #[test]
    fn a_fin_occupies_a_sequence_number_after_the_data() {
        let mut segment = Segment { seq: 100, len: 20, ..Segment::default() };
        assert_eq!(segment.end(), 120);
        segment.flags = Flags::FIN;
        assert_eq!(segment.end(), 121);
    }
}
