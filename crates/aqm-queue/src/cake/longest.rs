//! Uses a heap to find the longest queue across all tins. The heap is maintained only for some time after an overflow.
//!
//! The heap works like the kernel's heap, so that queues of equal length are in the same order as in the kernel: the
//! heap always contains every queue of eight tins, and is put in order at the first search. From then on, whenever the
//! length of a queue changes, the queue moves to its new position in the heap, until 65,535 packets have departed
//! without an overflow.

/// The heap of all queues, ordered by length.
#[derive(Clone)]
pub(super) struct Longest {
    /// Queue numbers in heap order; empty until the first overflow.
    heap: Vec<u16>,
    /// The heap position of each queue.
    position: Vec<u16>,
    queues: u32,
    tins: u32,
    /// Number of further departures during which the heap is maintained (`overflow_timeout`).
    maintained_for: u16,
}

impl Longest {
    /// Creates a heap for `tins` tins with `queues` queues each. Queue `q` of tin `t` is numbered `t * queues + q`.
    pub fn new(queues: u32, tins: u32) -> Self {
        Self { heap: Vec::new(), position: Vec::new(), queues, tins, maintained_for: 0 }
    }

    /// Returns the queue for which `length` is largest.
    pub fn find(&mut self, length: impl Fn(u32) -> u64) -> u32 {
        if self.heap.is_empty() {
            // The heap begins with the first queue of each tin, followed by the second queue of each tin, and so on.
            let (queues, tins) = (self.queues as u16, self.tins as u16);
            self.heap =
                (0..queues).flat_map(|queue| (0..tins).map(move |tin| tin * queues + queue)).collect();
            self.position = vec![0; self.heap.len()];
            for (position, &queue) in self.heap.iter().enumerate() {
                self.position[usize::from(queue)] = position as u16;
            }
        }
        if self.maintained_for == 0 {
            for position in (0..=self.heap.len() / 2).rev() {
                self.sink(position, &length);
            }
        }
        self.maintained_for = u16::MAX;
        self.heap[0].into()
    }

    /// Moves the longest queue to its new position after a packet was removed from this queue.
    pub fn on_longest_shrunk(&mut self, length: impl Fn(u32) -> u64) {
        self.sink(0, &length);
    }

    /// Makes the next search restore the order of the heap, because the queue that the last search found was empty.
    pub fn on_wrong_result(&mut self) {
        self.maintained_for = 0;
    }

    /// Updates the position of `queue` after a packet arrived in this queue.
    #[inline]
    pub fn on_arrival(&mut self, queue: u32, length: impl Fn(u32) -> u64) {
        if self.maintained_for > 0 {
            self.rise(self.position[queue as usize].into(), &length);
        }
    }

    /// Updates the position of `queue` after a packet was removed from this queue.
    #[inline]
    pub fn on_removed(&mut self, queue: u32, length: impl Fn(u32) -> u64) {
        if self.maintained_for > 0 {
            self.sink(self.position[queue as usize].into(), &length);
        }
    }

    /// Counts a departure: reduces by one the number of further departures during which the heap is maintained.
    #[inline]
    pub fn on_departure(&mut self) {
        self.maintained_for = self.maintained_for.saturating_sub(1);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for position in [one, other] {
            self.position[usize::from(self.heap[position])] = position as u16;
        }
    }

    fn sink(&mut self, mut position: usize, length: &impl Fn(u32) -> u64) {
        let length_at = |heap: &[u16], position: usize| length(heap[position].into());
        let own = length_at(&self.heap, position);
        loop {
            let (mut longest, mut most) = (position, own);
            for child in [2 * position + 1, 2 * position + 2] {
                if child < self.heap.len() && length_at(&self.heap, child) > most {
                    (longest, most) = (child, length_at(&self.heap, child));
                }
            }
            if longest == position {
                return;
            }
            self.swap(position, longest);
            position = longest;
        }
    }

    fn rise(&mut self, mut position: usize, length: &impl Fn(u32) -> u64) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if length(self.heap[position].into()) <= length(self.heap[parent].into()) {
                return;
            }
            self.swap(position, parent);
            position = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn the_search_finds_the_longest_queue_after_any_changes() {
        let mut rng = Streams::new(1).named("longest", 0);
        let (mut heap, mut lengths) = (Longest::new(16, 3), [0_u64; 48]);
        for _ in 0..20_000 {
            let queue = rng.below(48) as u32;
            match rng.below(3) {
                0 => {
                    lengths[queue as usize] += rng.below(1500);
                    heap.on_arrival(queue, |queue| lengths[queue as usize]);
                }
                1 => {
                    let length = &mut lengths[queue as usize];
                    *length -= rng.below(1500).min(*length);
                    heap.on_removed(queue, |queue| lengths[queue as usize]);
                }
                _ => {
                    let longest = heap.find(|queue| lengths[queue as usize]) as usize;
                    assert_eq!(Some(&lengths[longest]), lengths.iter().max());
                    lengths[longest] -= 1000.min(lengths[longest]);
                    heap.on_longest_shrunk(|queue| lengths[queue as usize]);
                }
            }
        }
    }

    #[test]
    fn the_heap_is_discarded_after_65_535_departures_and_rebuilt() {
        let mut lengths = [0_u64; 8];
        let mut heap = Longest::new(4, 2);
        lengths[3] = 9;
        assert_eq!(heap.find(|queue| lengths[queue as usize]), 3);
        (0..u16::MAX).for_each(|_| heap.on_departure());
        lengths = [0, 0, 0, 0, 0, 5, 0, 0];
        heap.on_arrival(5, |_| panic!("the heap is not maintained"));
        assert_eq!(heap.find(|queue| lengths[queue as usize]), 5);
    }
}
