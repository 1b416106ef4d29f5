//! The ranges of packet numbers that a QUIC acknowledgement reports.
//!
//! J. Iyengar, M. Thomson, RFC 9000, 2021, section 19.3 (ACK frames).
//!
//! aqmlab's choice: an acknowledgement reports the four ranges with the largest numbers, and each range contains at most
//! 65,535 packets. RFC 9000, section 13.2.3, permits a receiver to limit the number of ranges.

use crate::segment::Sacks;

/// Number of ranges in an acknowledgement.
const RANGES: usize = 4;

/// Up to four ranges of packet numbers below the acknowledgement number, which is the largest received packet number
/// plus one. The ranges are in descending order. Each range is stored as the number of missing packets above the range
/// and the number of packets in the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketRanges([(u16, u16); RANGES]);

impl PacketRanges {
    /// Returns the ranges that a segment contains instead of SACK blocks.
    pub fn of(sacks: &Sacks) -> Self {
        let [first, second] = sacks.words();
        let pair = |word: u64| ((word >> 16) as u16, word as u16);
        Self([pair(first), pair(first >> 32), pair(second), pair(second >> 32)])
    }

    /// Stores the ranges in a segment instead of SACK blocks.
    pub fn write(self, sacks: &mut Sacks) {
        let word = |(gap, length): (u16, u16)| u64::from(gap) << 16 | u64::from(length);
        let [a, b, c, d] = self.0.map(word);
        sacks.set_words([a | b << 32, c | d << 32]);
    }

    /// Creates the ranges of an acknowledgement from `received`, which returns ranges `[from, to)` in descending order.
    /// Returns the ranges and the acknowledgement number.
    pub fn new(received: impl Iterator<Item = (u64, u64)>) -> (Self, u64) {
        let (mut ranges, mut ack, mut below) = (Self::default(), 0, None);
        for (entry, (from, to)) in ranges.0.iter_mut().zip(received) {
            let end = *below.get_or_insert(to);
            ack = ack.max(to);
            let (Ok(gap), length) = (u16::try_from(end - to), (to - from).min(u16::MAX.into()) as u16) else {
                break;
            };
            *entry = (gap, length);
            below = Some(to - u64::from(length));
            if u64::from(length) < to - from {
                break;
            }
        }
        (ranges, ack)
    }

    /// Returns the ranges `[from, to)` of an acknowledgement with the number `ack`, in descending order.
    pub fn ranges(self, ack: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut below = ack;
        self.0.into_iter().take_while(|&(_, length)| length > 0).map(move |(gap, length)| {
            let to = below.saturating_sub(gap.into());
            below = to.saturating_sub(length.into());
            (below, to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(received: &[(u64, u64)]) -> (Vec<(u64, u64)>, u64) {
        let (ranges, ack) = PacketRanges::new(received.iter().copied());
        let mut sacks = Sacks::default();
        ranges.write(&mut sacks);
        (PacketRanges::of(&sacks).ranges(ack).collect(), ack)
    }

    #[test]
    fn ranges_are_read_as_they_were_written() {
        let received = [(90, 100), (80, 85), (70, 71), (3, 60)];
        assert_eq!(written(&received), (received.to_vec(), 100));
        assert_eq!(written(&[(0, 1)]), (vec![(0, 1)], 1));
        assert_eq!(written(&[]), (vec![], 0));
    }

    #[test]
    fn only_the_newest_four_ranges_and_the_newest_packets_of_a_long_range_are_reported() {
        let received = [(90, 100), (80, 85), (70, 71), (50, 60), (0, 40)];
        assert_eq!(written(&received).0, received[..4]);
        assert_eq!(written(&[(0, 100_000)]), (vec![(34_465, 100_000)], 100_000));
        assert_eq!(written(&[(99_999, 100_000), (0, 9)]).0, [(99_999, 100_000)], "the gap is too long");
    }

    #[test]
    fn the_ranges_leave_room_for_the_counter_of_marked_bytes() {
        let mut sacks = Sacks::default();
        sacks.set_marked_bytes(77);
        PacketRanges::new([(5, 9)].into_iter()).0.write(&mut sacks);
        assert_eq!(
            (sacks.marked_bytes(), PacketRanges::of(&sacks).ranges(9).next()),
            (Some(77), Some((5, 9)))
        );
        assert!(!sacks.is_empty());
    }
}
