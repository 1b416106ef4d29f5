//! The longest queue of all tins: a heap that is kept only for a while after a buffer overflowed.
//!
//! As in the kernel, so that queues of one length come in its order: the heap holds every queue of eight tins from the
//! beginning, and is put in order when it is asked. From then on a queue that has changed moves to its place, until
//! 65,535 packets have left without an overflow.

/// Places of all queues, by length.
#[derive(Clone)]
pub(super) struct Longest {
    /// Queues, in the order of the heap; empty until there is an overflow.
    heap: Vec<u16>,
    /// By queue: where in the heap it is.
    place: Vec<u16>,
    queues: u32,
    tins: u32,
    /// For how many more departures the heap is kept in order (`overflow_timeout`).
    kept: u16,
}

impl Longest {
    /// For so many queues in each of so many tins; queue `q` of tin `t` has the number `t * queues + q`.
    pub fn new(queues: u32, tins: u32) -> Self {
        Self { heap: Vec::new(), place: Vec::new(), queues, tins, kept: 0 }
    }

    /// The longest queue, by `length`.
    pub fn find(&mut self, length: impl Fn(u32) -> u64) -> u32 {
        if self.heap.is_empty() {
            // The first queues of all tins, then the second ones, and so on.
            let (queues, tins) = (self.queues as u16, self.tins as u16);
            self.heap =
                (0..queues).flat_map(|queue| (0..tins).map(move |tin| tin * queues + queue)).collect();
            self.place = vec![0; self.heap.len()];
            for (place, &queue) in self.heap.iter().enumerate() {
                self.place[usize::from(queue)] = place as u16;
            }
        }
        if self.kept == 0 {
            for place in (0..=self.heap.len() / 2).rev() {
                self.sink(place, &length);
            }
        }
        self.kept = u16::MAX;
        self.heap[0].into()
    }

    /// The longest queue has lost a packet.
    pub fn on_longest_shrunk(&mut self, length: impl Fn(u32) -> u64) {
        self.sink(0, &length);
    }

    /// What was found has no packet: the heap is put in order again.
    pub fn on_mistake(&mut self) {
        self.kept = 0;
    }

    /// A packet has come to `queue`.
    #[inline]
    pub fn on_arrival(&mut self, queue: u32, length: impl Fn(u32) -> u64) {
        if self.kept > 0 {
            self.rise(self.place[queue as usize].into(), &length);
        }
    }

    /// A packet has been taken from `queue`.
    #[inline]
    pub fn on_taken(&mut self, queue: u32, length: impl Fn(u32) -> u64) {
        if self.kept > 0 {
            self.sink(self.place[queue as usize].into(), &length);
        }
    }

    /// A packet has left.
    #[inline]
    pub fn on_departure(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.place[usize::from(self.heap[place])] = place as u16;
        }
    }

    fn sink(&mut self, mut place: usize, length: &impl Fn(u32) -> u64) {
        let at = |heap: &[u16], place: usize| length(heap[place].into());
        let own = at(&self.heap, place);
        loop {
            let (mut longest, mut most) = (place, own);
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && at(&self.heap, child) > most {
                    (longest, most) = (child, at(&self.heap, child));
                }
            }
            if longest == place {
                return;
            }
            self.swap(place, longest);
            place = longest;
        }
    }

    fn rise(&mut self, mut place: usize, length: &impl Fn(u32) -> u64) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if length(self.heap[place].into()) <= length(self.heap[parent].into()) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn what_is_found_is_the_longest_however_queues_have_changed() {
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
                    heap.on_taken(queue, |queue| lengths[queue as usize]);
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
    fn the_heap_is_forgotten_after_65_535_departures_and_made_anew() {
        let mut lengths = [0_u64; 8];
        let mut heap = Longest::new(4, 2);
        lengths[3] = 9;
        assert_eq!(heap.find(|queue| lengths[queue as usize]), 3);
        (0..u16::MAX).for_each(|_| heap.on_departure());
        lengths = [0, 0, 0, 0, 0, 5, 0, 0];
        heap.on_arrival(5, |_| panic!("it is not kept"));
        assert_eq!(heap.find(|queue| lengths[queue as usize]), 5);
    }
}
