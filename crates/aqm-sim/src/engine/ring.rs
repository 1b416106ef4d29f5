//! A first-in-first-out buffer whose capacity is a power of two. The lanes of the event queue account for most of the
//! processing time of a run, and this buffer needs half as many instructions as the standard library's `VecDeque`.

use crate::engine::huge_pages::prefer_huge_pages;

/// Entries in order of insertion.
pub(crate) struct Ring<T> {
    slots: Vec<T>,
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
        Self { slots: vec![T::default(); 16], first: 0, count: 0 }
    }

    /// Returns the oldest entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.count == 0 { None } else { Some(&self.slots[self.first & (self.slots.len() - 1)]) }
    }

    /// Returns the number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the entry `distance` positions after the oldest entry.
    #[inline]
    pub(crate) fn after(&self, distance: usize) -> Option<&T> {
        (distance < self.count).then(|| &self.slots[(self.first + distance) & (self.slots.len() - 1)])
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        *self.next_slot() = entry;
    }

    /// Inserts `entry` before the oldest entry.
    pub(crate) fn push_front(&mut self, entry: T) {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.first = self.first.wrapping_sub(1) & (self.slots.len() - 1);
        self.slots[self.first] = entry;
        self.count += 1;
    }

    /// Adds an entry after the newest entry, and returns the slot of the new entry.
    #[inline]
    pub(crate) fn next_slot(&mut self) -> &mut T {
        if self.count == self.slots.len() {
            self.grow();
        }
        let slot = (self.first + self.count) & (self.slots.len() - 1);
        self.count += 1;
        &mut self.slots[slot]
    }

    /// Inserts `entry` before the newest entries for which `comes_before` is true, unless there are more than `most` of
    /// these entries. Returns whether `entry` was inserted.
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
        let mask = self.slots.len() - 1;
        let last = self.first + self.count - 1;
        for slot in (last - passed..last).rev() {
            self.slots.swap(slot & mask, (slot + 1) & mask);
        }
        true
    }

    /// Removes entries, starting with the oldest entry, as long as `is_due` is true for the next entry, and passes them
    /// to `take`. At most `most` entries are removed.
    #[inline(always)]
    pub(crate) fn take_while(&mut self, most: usize, is_due: impl Fn(&T) -> bool, mut take: impl FnMut(T)) {
        let (mask, most) = (self.slots.len() - 1, most.min(self.count));
        let mut taken = 0;
        while taken < most {
            let entry = self.slots[(self.first + taken) & mask];
            if !is_due(&entry) {
                break;
            }
            taken += 1;
            take(entry);
        }
        self.first = (self.first + taken) & mask;
        self.count -= taken;
    }

    /// Removes the oldest entry. Does nothing if the buffer is empty.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) & (self.slots.len() - 1);
            self.count -= 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.rotate_left(self.first);
        self.first = 0;
        self.slots.resize(2 * self.slots.len(), T::default());
        prefer_huge_pages(&self.slots);
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
        let left: Vec<u32> = (0..).map_while(|distance| ring.after(distance).copied()).collect();
        assert_eq!(left, [5, 10, 20, 25, 30, 40]);
    }

    #[test]
    fn an_entry_can_be_inserted_before_all_others() {
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
    fn any_number_of_entries_leave_in_order_of_insertion() {
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
