//! The bytes of a stream that have arrived, either in order or beyond a gap.

/// The number of bytes that have arrived in order, and the ranges of bytes that have arrived beyond a gap.
#[derive(Clone, Debug, Default)]
pub(super) struct InOrder {
    end: u64,
    /// Ranges beyond the first gap, sorted, and separated by gaps from each other and from `end`.
    beyond: Vec<(u64, u64)>,
}

impl InOrder {
    /// Returns the number of bytes that have arrived in order.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds `length` bytes that begin at `from`. Returns whether the range increases the number of bytes that have
    /// arrived in order.
    pub(super) fn add(&mut self, from: u64, length: u64) -> bool {
        let to = from + length;
        if to <= self.end {
            return false;
        }
        if from > self.end {
            self.add_beyond(from, to);
            return false;
        }
        self.end = to;
        while let Some(&(first, last)) = self.beyond.first()
            && first <= self.end
        {
            self.end = self.end.max(last);
            self.beyond.remove(0);
        }
        true
    }

    /// Adds a range beyond the first gap, and merges the range with adjacent and overlapping ranges.
    fn add_beyond(&mut self, mut from: u64, mut to: u64) {
        let first = self.beyond.partition_point(|&(_, end)| end < from);
        let end = self.beyond.partition_point(|&(start, _)| start <= to);
        if first < end {
            from = from.min(self.beyond[first].0);
            to = to.max(self.beyond[end - 1].1);
        }
        self.beyond.splice(first..end, [(from, to)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the result with a list of single bytes.
        #[test]
        fn the_bytes_in_order_agree_with_a_list_of_single_bytes(
            ranges in prop::collection::vec((0_u64..60, 1_u64..12), 1..40)
        ) {
            let (mut stream, mut bytes) = (InOrder::default(), [false; 80]);
            for (from, length) in ranges {
                let before = bytes.iter().take_while(|&&arrived| arrived).count();
                bytes[from as usize..(from + length) as usize].fill(true);
                let after = bytes.iter().take_while(|&&arrived| arrived).count();
                prop_assert_eq!(stream.add(from, length), after > before);
                prop_assert_eq!(stream.end(), after as u64);
            }
        }
    }

    #[test]
    fn a_range_that_fills_a_gap_joins_the_following_ranges() {
        let mut stream = InOrder::default();
        assert!(!stream.add(10, 5) && !stream.add(20, 5) && !stream.add(15, 5));
        assert_eq!(stream.beyond, [(10, 25)]);
        assert!(stream.add(0, 10));
        assert_eq!((stream.end(), stream.beyond.len()), (25, 0));
        assert!(!stream.add(3, 10), "duplicates change nothing");
    }
}
