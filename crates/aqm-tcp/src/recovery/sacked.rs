//! Stores the ranges of data that SACK blocks have reported, as the scoreboard of ns-2's senders does (`rq.cc`:
//! `ReassemblyQueue`).

use std::collections::VecDeque;

/// Sorted ranges of data that has arrived beyond `SND.UNA`. The ranges neither overlap nor adjoin each other.
#[derive(Clone, Debug, Default)]
pub(super) struct SackedRanges(VecDeque<(u64, u64)>);

impl SackedRanges {
    /// Returns the beginning of the first range.
    pub fn first(&self) -> Option<u64> {
        self.0.front().map(|range| range.0)
    }

    /// Returns the number of bytes in all ranges.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.1 - range.0).sum()
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range and merges the new range with all overlapping and adjacent ranges. Returns whether any part of the
    /// new range was not contained in the existing ranges.
    pub fn add(&mut self, from: u64, to: u64) -> bool {
        if from >= to {
            return false;
        }
        let first = self.0.partition_point(|range| range.1 < from);
        match self.0.get_mut(first) {
            Some(range) if range.0 <= from && to <= range.1 => return false,
            Some(range) if range.0 <= to => {
                *range = (from.min(range.0), to.max(range.1));
                while let Some(&(start, end)) = self.0.get(first + 1) {
                    if start > self.0[first].1 {
                        break;
                    }
                    self.0[first].1 = self.0[first].1.max(end);
                    self.0.remove(first + 1);
                }
            }
            _ => self.0.insert(first, (from, to)),
        }
        true
    }

    /// Removes acknowledged data, which is all data below `una`.
    pub fn trim(&mut self, una: u64) {
        while self.0.front().is_some_and(|range| range.1 <= una) {
            self.0.pop_front();
        }
        if let Some(range) = self.0.front_mut() {
            range.0 = range.0.max(una);
        }
    }

    /// Returns the beginning and the end of the first hole at or after `from` and below the last range (`nexthole`).
    pub fn hole(&self, from: u64) -> Option<(u64, u64)> {
        let at = self.0.partition_point(|range| range.1 < from);
        let (start, end) = *self.0.get(at)?;
        if start > from { Some((from, start)) } else { Some((end, self.0.get(at + 1)?.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_sorted_and_separate_and_adding_reports_new_data() {
        let mut sacked = SackedRanges::default();
        for range in [(10, 12), (20, 22), (30, 32), (12, 13), (19, 20), (28, 31), (2, 3), (11, 24)] {
            assert!(sacked.add(range.0, range.1), "{range:?}");
        }
        assert_eq!(sacked.0, [(2, 3), (10, 24), (28, 32)]);
        for known in [(2, 3), (12, 20), (28, 32), (5, 5)] {
            assert!(!sacked.add(known.0, known.1), "{known:?}");
        }
        assert_eq!((sacked.first(), sacked.bytes()), (Some(2), 19));
        sacked.trim(11);
        assert_eq!(sacked.0, [(11, 24), (28, 32)]);
    }

    #[test]
    fn a_hole_is_below_the_last_range() {
        let mut sacked = SackedRanges::default();
        sacked.add(10, 20);
        sacked.add(30, 40);
        assert_eq!(
            [0, 10, 20, 25].map(|from| sacked.hole(from)),
            [Some((0, 10)), Some((20, 30)), Some((20, 30)), Some((25, 30))]
        );
        assert_eq!([30, 40, 41].map(|from| sacked.hole(from)), [None; 3]);
    }
}
