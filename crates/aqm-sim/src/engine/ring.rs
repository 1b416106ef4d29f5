//! A first-in-first-out buffer on a power of two of places: the lanes of the event queue are most of what
//! a run does, and this takes half the instructions of the standard library's.

use crate::engine::huge_pages::prefer_huge_pages;

/// Entries in the order in which they came.
pub(crate) struct Ring<T> {
    places: Vec<T>,
    first: usize,
    count: usize,
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy + Default> Ring<T> {
    pub(crate) fn new() -> Self {
        Self { places: vec![T::default(); 16], first: 0, count: 0 }
    }

    /// The oldest entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.count == 0 { None } else { Some(&self.places[self.first & (self.places.len() - 1)]) }
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The entry that comes `distance` after the oldest.
    #[inline]
    pub(crate) fn after(&self, distance: usize) -> Option<&T> {
        (distance < self.count).then(|| &self.places[(self.first + distance) & (self.places.len() - 1)])
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        *self.next_place() = entry;
    }

    /// Puts `entry` before the oldest.
    pub(crate) fn push_front(&mut self, entry: T) {
        if self.count == self.places.len() {
            self.grow();
        }
        self.first = self.first.wrapping_sub(1) & (self.places.len() - 1);
        self.places[self.first] = entry;
        self.count += 1;
    }

    /// Where the entry behind the newest goes; it counts from now on.
    #[inline]
    pub(crate) fn next_place(&mut self) -> &mut T {
        if self.count == self.places.len() {
            self.grow();
        }
        let place = (self.first + self.count) & (self.places.len() - 1);
        self.count += 1;
        &mut self.places[place]
    }

    /// Puts `entry` before those of the newest that `comes_before` says it precedes, if they are at most
    /// `most`; whether it did.
    #[inline]
    pub(crate) fn insert(&mut self, entry: T, most: usize, comes_before: impl Fn(&T) -> bool) -> bool {
        if most < self.count && self.after(self.count - 1 - most).is_some_and(&comes_before) {
            return false;
        }
        let mut passed = 0;
        while passed < self.count && self.after(self.count - 1 - passed).is_some_and(&comes_before) {
            passed += 1;
        }
        self.push(entry);
        let mask = self.places.len() - 1;
        let last = self.first + self.count - 1;
        for place in (last - passed..last).rev() {
            self.places.swap(place & mask, (place + 1) & mask);
        }
        true
    }

    /// Hands out at `most` so many entries, the oldest first, as long as `is_due` says so of the next one.
    #[inline(always)]
    pub(crate) fn take_while(&mut self, most: usize, is_due: impl Fn(&T) -> bool, mut take: impl FnMut(T)) {
        let (mask, most) = (self.places.len() - 1, most.min(self.count));
        let mut taken = 0;
        while taken < most {
            let entry = self.places[(self.first + taken) & mask];
            if !is_due(&entry) {
                break;
            }
            taken += 1;
            take(entry);
        }
        self.first = (self.first + taken) & mask;
        self.count -= taken;
    }

    /// Drops the oldest entry, if there is one.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) & (self.places.len() - 1);
            self.count -= 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.places.rotate_left(self.first);
        self.first = 0;
        self.places.resize(2 * self.places.len(), T::default());
        prefer_huge_pages(&self.places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_may_pass_a_few_but_not_many() {
        let mut ring = Ring::new();
        for entry in [10_u32, 20, 30, 40] {
            ring.push(entry);
        }
        assert!(ring.insert(25, 2, |other| 25 < *other));
        assert!(!ring.insert(15, 2, |other| 15 < *other));
        assert!(ring.insert(5, 5, |other| 5 < *other));
        let left: Vec<u32> = (0..).map_while(|place| ring.after(place).copied()).collect();
        assert_eq!(left, [5, 10, 20, 25, 30, 40]);
    }

    #[test]
    fn an_entry_can_be_put_before_all_others() {
        let mut ring = Ring::new();
        for entry in 1..=16_u32 {
            ring.push(entry);
        }
        ring.push_front(0);
        let mut taken = Vec::new();
        ring.take_while(3, |entry| *entry < 15, |entry| taken.push(entry));
        ring.take_while(99, |entry| *entry < 15, |entry| taken.push(entry));
        assert_eq!((taken, ring.len()), ((0..15).collect(), 2));
    }

    #[test]
    fn entries_leave_in_the_order_in_which_they_came_however_many_there_are() {
        let (mut ring, mut next, mut expected) = (Ring::new(), 0_u32, 0_u32);
        for burst in [3, 20, 1, 100, 0, 7] {
            for _ in 0..burst {
                ring.push(next);
                next += 1;
            }
            for _ in 0..burst / 2 {
                assert_eq!(ring.first(), Some(&expected));
                ring.drop_first();
                expected += 1;
            }
        }
        while let Some(&entry) = ring.first() {
            ring.drop_first();
            assert_eq!(entry, expected);
            expected += 1;
        }
        assert_eq!(expected, next);
    }
}
