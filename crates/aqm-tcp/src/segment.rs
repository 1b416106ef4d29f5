//! What travels between the two ends of a connection.
//!
//! W. Eddy, RFC 9293, 2022, section 3.1; M. Mathis et al., "TCP Selective Acknowledgement Options", RFC
//! 2018, 1996; S. Floyd et al., RFC 2883, 2000 (D-SACK); K. Ramakrishnan et al., RFC 3168, 2001 (ECN);
//! D. Borman et al., RFC 7323, 2014 (timestamps).
//!
//! Ours, where the sources are silent: at most three blocks of SACK, as many as a segment with
//! timestamps has room for.

use aqm_net::{Ecn, Instant};

/// A TCP segment without its payload. Sequence numbers count from zero in 64 bits, so they never wrap.
/// A SYN takes none of them; a FIN takes one, behind the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The first payload byte this segment carries, or the next one its sender would send.
    pub seq: u64,
    /// The next byte its sender expects.
    pub ack: u64,
    /// What its sender has received beyond `ack`.
    pub sacks: Sacks,
    /// Payload bytes carried; 0 for a bare control segment.
    pub len: u32,
    /// Bytes on the wire, headers included.
    pub wire: u16,
    /// What it is.
    pub flags: Flags,
    /// The ECN bits of its packet, as sent or as they arrived.
    pub ecn: Ecn,
    /// When it left, by the clock of its sender (TSval, RFC 7323); the start of the run if it does not tell.
    pub sent: Instant,
    /// When the segment left that it answers, as that segment told (TSecr, RFC 7323); the start of the run if that did
    /// not tell.
    pub echo: Instant,
}

impl Segment {
    /// Where its sequence numbers end, a FIN included.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.flags.has(Flags::FIN))
    }
}

/// What a segment is, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Opens a connection.
    pub const SYN: Self = Self(1);
    /// Its `ack` is meant.
    pub const ACK: Self = Self(2);
    /// Nothing follows its payload.
    pub const FIN: Self = Self(4);
    /// Its payload was sent before.
    pub const RETRANSMISSION: Self = Self(8);
    /// A packet arrived marked; on a SYN: ECN is understood.
    pub const ECE: Self = Self(16);
    /// The window was reduced; on a SYN: ECN is understood.
    pub const CWR: Self = Self(32);
    /// The sender's application waits for what was sent up to here to be read.
    pub const PUSH: Self = Self(64);

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Up to three ranges that a receiver has got beyond its acknowledgement, kept relative to that. The
/// first may lie below it or within the second: then it tells of data that came twice (D-SACK).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sacks([Block; 3]);

/// A range by its distance from the acknowledgement, above its length; empty if it has none. In one word,
/// because every segment carries three.
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
}

impl Sacks {
    /// Adds the range `[from, to)` to a segment that acknowledges `ack`. Without room for it, or if it is too
    /// far away for its fields, it is left out.
    pub fn push(&mut self, ack: u64, from: u64, to: u64) {
        let offset = i32::try_from(from as i64 - ack as i64);
        let length = u32::try_from(to.saturating_sub(from));
        let room = self.0.iter_mut().find(|block| block.length() == 0);
        if let (Ok(offset), Ok(length), Some(block)) = (offset, length, room) {
            *block = Block::new(offset, length);
        }
    }

    /// The ranges `[from, to)` of a segment that acknowledges `ack`, in the order they were added.
    pub fn ranges(self, ack: u64) -> impl Iterator<Item = (u64, u64)> {
        self.0.into_iter().take_while(|block| block.length() > 0).map(move |block| {
            let from = ack.saturating_add_signed(block.offset().into());
            (from, from + u64::from(block.length()))
        })
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0[0].length() == 0
    }

    /// How many there are.
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
    fn what_does_not_fit_its_fields_is_left_out() {
        let mut sacks = Sacks::default();
        sacks.push(0, 1 << 40, (1 << 40) + 5);
        sacks.push(7, 7, 7);
        assert!(sacks.is_empty());
    }

    #[test]
    fn a_fin_takes_a_number_behind_the_data() {
        let mut segment = Segment { seq: 100, len: 20, ..Segment::default() };
        assert_eq!(segment.end(), 120);
        segment.flags = Flags::FIN;
        assert_eq!(segment.end(), 121);
    }
}
