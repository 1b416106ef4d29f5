//! The payloads of packets in transit, by packet id.

use aqm_net::{Ecn, Instant};
use aqm_tcp::{Flags, Sacks, Segment};

use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::hosts::side::Side;

/// The payload of a packet, and its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) contents: Contents,
    /// Slot of the flow.
    pub(crate) slot: u32,
    /// End of the flow to which the packet travels.
    pub(crate) to: Side,
}

/// Contents of a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents {
    /// A TCP segment.
    Segment(Segment),
    /// A datagram, with its sending time and its number within its stream, counted from zero.
    Datagram { number: u64, sent: Instant },
}

/// The compact form of a payload in memory. Only a few segments contain options, so options are stored separately.
#[derive(Clone, Copy, Debug)]
enum StoredPayload {
    Segment {
        seq: u64,
        ack: u64,
        slot: u32,
        /// Index of the options plus one; 0 if the segment has no options.
        options: u32,
        len: u16,
        wire: u16,
        flags: Flags,
        ecn: Ecn,
        to: Side,
    },
    Datagram {
        number: u64,
        sent: Instant,
        slot: u32,
        to: Side,
    },
}

impl StoredPayload {
    /// The value of an unused slot.
    const NONE: Self = Self::Datagram { number: 0, sent: Instant::START, slot: 0, to: Side::Sender };

    /// Returns the payload in full form. The function `options` returns the options of a segment; its argument is the
    /// index of the options plus one.
    #[inline(always)]
    fn open(self, options: impl FnOnce(u32) -> Options) -> Payload {
        match self {
            Self::Segment { seq, ack, slot, options: index, len, wire, flags, ecn, to } => {
                let Options { sacks, sent, echo } =
                    if index == 0 { Options::default() } else { options(index) };
                let segment = Segment { seq, ack, sacks, len: len.into(), wire, flags, ecn, sent, echo };
                Payload { contents: Contents::Segment(segment), slot, to }
            }
            Self::Datagram { number, sent, slot, to } => {
                Payload { contents: Contents::Datagram { number, sent }, slot, to }
            }
        }
    }
}

/// Options that only a few segments contain: SACK blocks and timestamps.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    sacks: Sacks,
    sent: Instant,
    echo: Instant,
}

/// The payloads of the packets in transit, by packet id. The id that was freed most recently is reused first, because
/// the slot of this id is still in the cache.
#[derive(Default)]
pub(crate) struct PayloadStore {
    stored: Vec<StoredPayload>,
    free: Vec<u32>,
    options: Vec<Options>,
    free_options: Vec<u32>,
}

impl PayloadStore {
    /// Stores a payload and returns the id of its packet.
    #[inline(always)]
    pub(crate) fn put(&mut self, payload: Payload) -> u32 {
        let Payload { contents, slot, to } = payload;
        let id = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.stored[id as usize] = match contents {
            Contents::Segment(segment) => {
                let Segment { seq, ack, sacks, len, wire, flags, ecn, sent, echo } = segment;
                let plain = sacks.is_empty() && sent == Instant::START && echo == Instant::START;
                let options = if plain { 0 } else { self.put_options(Options { sacks, sent, echo }) };
                // The length of a segment, including the header, fits into 16 bits.
                StoredPayload::Segment { seq, ack, slot, options, len: len as u16, wire, flags, ecn, to }
            }
            Contents::Datagram { number, sent } => StoredPayload::Datagram { number, sent, slot, to },
        };
        id
    }

    /// Adds a slot when no id is free, and returns the id of the new slot.
    #[cold]
    fn add_slot(&mut self) -> u32 {
        if self.stored.len() == self.stored.capacity() {
            self.stored.reserve(1);
            prefer_huge_pages(&self.stored);
        }
        self.stored.push(StoredPayload::NONE);
        (self.stored.len() - 1) as u32
    }

    /// Returns the payload of a packet.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Payload {
        self.stored[id as usize].open(|index| self.options[index as usize - 1])
    }

    /// Returns the slot of a payload's flow, and the end to which the packet travels.
    #[inline]
    pub(crate) fn address(&self, id: u32) -> (u32, Side) {
        match self.stored[id as usize] {
            StoredPayload::Segment { slot, to, .. } | StoredPayload::Datagram { slot, to, .. } => (slot, to),
        }
    }

    /// Returns whether no packet is in transit.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.stored.len()
    }

    /// Prefetches a payload.
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch(&self.stored, id as usize);
    }

    /// Removes and returns the payload of a packet. Afterwards, the packet's id may be reused.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: u32) -> Payload {
        self.free.push(id);
        let Self { stored, options, free_options, .. } = self;
        stored[id as usize].open(|index| {
            free_options.push(index);
            options[index as usize - 1]
        })
    }

    #[cold]
    fn put_options(&mut self, options: Options) -> u32 {
        if let Some(index) = self.free_options.pop() {
            self.options[index as usize - 1] = options;
            return index;
        }
        self.options.push(options);
        self.options.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u64, blocks: &[(u64, u64)]) -> Payload {
        let mut sacks = Sacks::default();
        for &(from, to) in blocks {
            sacks.push(7, from, to);
        }
        let segment = Segment { seq, ack: 7, sacks, len: 960, wire: 1000, ..Segment::default() };
        Payload { contents: Contents::Segment(segment), slot: 3, to: Side::Sender }
    }

    fn segment_of(payload: Payload) -> Segment {
        let Contents::Segment(segment) = payload.contents else { panic!("a datagram: {payload:?}") };
        segment
    }

    #[test]
    fn a_stored_payload_is_half_a_cache_line() {
        assert_eq!(size_of::<StoredPayload>(), 32);
    }

    #[test]
    fn a_payload_is_returned_unchanged() {
        let mut store = PayloadStore::default();
        let datagram = Contents::Datagram { number: 9, sent: Instant::from_nanos(5) };
        let first = store.put(segment(1, &[(2000, 3000)]));
        let second = store.put(Payload { contents: datagram, slot: 4, to: Side::Receiver });
        assert_eq!(store.address(first), (3, Side::Sender));
        assert_eq!(store.address(second), (4, Side::Receiver));
        let (put, found) = (segment_of(segment(1, &[(2000, 3000)])), store.take(first));
        assert_eq!((segment_of(found), found.slot, found.to), (put, 3, Side::Sender));
        let found = store.take(second);
        let Contents::Datagram { number, sent } = found.contents else { panic!("a segment: {found:?}") };
        assert_eq!((number, sent, found.slot), (9, Instant::from_nanos(5), 4));
    }

    #[test]
    fn the_timestamp_of_a_segment_is_stored_if_there_is_one() {
        let mut store = PayloadStore::default();
        let (mut stamped, sent) = (segment(1, &[]), Instant::from_nanos(77));
        if let Contents::Segment(segment) = &mut stamped.contents {
            segment.sent = sent;
        }
        let [plain, stamped] = [segment(1, &[]), stamped].map(|payload| store.put(payload));
        assert_eq!(store.options.len(), 1);
        assert_eq!([plain, stamped].map(|id| segment_of(store.take(id)).sent), [Instant::START, sent]);
    }

    #[test]
    fn free_ids_are_reused_and_sack_blocks_are_not_mixed_up() {
        let mut store = PayloadStore::default();
        let blocks = [[(10, 20)], [(30, 40)], [(50, 60)]];
        let [first, second] = [0, 1].map(|index| store.put(segment(index as u64, &blocks[index])));
        assert_eq!((first, second), (0, 1));
        store.take(first);
        let again = store.put(segment(2, &blocks[2]));
        assert_eq!(again, first);
        assert_eq!(segment_of(store.get(second)).sacks, segment_of(segment(1, &blocks[1])).sacks);
        assert_eq!(segment_of(store.get(again)).sacks, segment_of(segment(2, &blocks[2])).sacks);
        assert_eq!(store.options.len(), 2, "the slot of the options is reused, too");
        assert!(segment_of(store.get(again)).seq == 2 && store.put(segment(3, &[])) == 2);
    }
}
