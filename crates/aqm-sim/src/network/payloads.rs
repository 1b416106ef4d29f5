//! What packets carry while they travel, by the id of the packet.

use aqm_net::{Ecn, Instant};
use aqm_tcp::{Flags, Sacks, Segment};

use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::hosts::side::Side;

/// What a packet carries, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) contents: Contents,
    /// Where its flow is kept.
    pub(crate) slot: u32,
    /// The end of the flow it travels to.
    pub(crate) to: Side,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents {
    /// A segment of TCP.
    Segment(Segment),
    /// A datagram: its number within its stream, counted from zero, and when it was sent.
    Datagram { number: u64, sent: Instant },
}

/// A payload as it is kept. Few segments carry options, so those are kept apart.
#[derive(Clone, Copy, Debug)]
enum StoredPayload {
    Segment {
        seq: u64,
        ack: u64,
        slot: u32,
        /// One more than the place of its options; 0 if it has none.
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
    /// What is kept in a place that was never used.
    const NONE: Self = Self::Datagram { number: 0, sent: Instant::START, slot: 0, to: Side::Sender };

    /// The payload as it was put; `options` finds those of a segment that has any, by their place.
    #[inline(always)]
    fn open(self, options: impl FnOnce(u32) -> Options) -> Payload {
        match self {
            Self::Segment { seq, ack, slot, options: place, len, wire, flags, ecn, to } => {
                let Options { sacks, sent, echo } =
                    if place == 0 { Options::default() } else { options(place) };
                let segment = Segment { seq, ack, sacks, len: len.into(), wire, flags, ecn, sent, echo };
                Payload { contents: Contents::Segment(segment), slot, to }
            }
            Self::Datagram { number, sent, slot, to } => {
                Payload { contents: Contents::Datagram { number, sent }, slot, to }
            }
        }
    }
}

/// What few segments carry: blocks of SACK, and timestamps.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    sacks: Sacks,
    sent: Instant,
    echo: Instant,
}

/// The payloads of the packets under way, by the id of their packet. The id that became free last is used first:
/// its place is still in the cache.
#[derive(Default)]
pub(crate) struct PayloadStore {
    stored: Vec<StoredPayload>,
    free: Vec<u32>,
    options: Vec<Options>,
    free_options: Vec<u32>,
}

impl PayloadStore {
    /// Keeps a payload; returns the id of its packet.
    #[inline(always)]
    pub(crate) fn put(&mut self, payload: Payload) -> u32 {
        let Payload { contents, slot, to } = payload;
        let id = self.free.pop().unwrap_or_else(|| self.place_behind());
        self.stored[id as usize] = match contents {
            Contents::Segment(segment) => {
                let Segment { seq, ack, sacks, len, wire, flags, ecn, sent, echo } = segment;
                let plain = sacks.is_empty() && sent == Instant::START && echo == Instant::START;
                let options = if plain { 0 } else { self.put_options(Options { sacks, sent, echo }) };
                // A segment has a header, and all of it fits 16 bits.
                StoredPayload::Segment { seq, ack, slot, options, len: len as u16, wire, flags, ecn, to }
            }
            Contents::Datagram { number, sent } => StoredPayload::Datagram { number, sent, slot, to },
        };
        id
    }

    /// No id is free: another one.
    #[cold]
    fn place_behind(&mut self) -> u32 {
        if self.stored.len() == self.stored.capacity() {
            self.stored.reserve(1);
            prefer_huge_pages(&self.stored);
        }
        self.stored.push(StoredPayload::NONE);
        (self.stored.len() - 1) as u32
    }

    /// The payload of a packet.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Payload {
        self.stored[id as usize].open(|place| self.options[place as usize - 1])
    }

    /// Where the flow of a payload is kept, and the end of it that the packet travels to.
    #[inline]
    pub(crate) fn address(&self, id: u32) -> (u32, Side) {
        match self.stored[id as usize] {
            StoredPayload::Segment { slot, to, .. } | StoredPayload::Datagram { slot, to, .. } => (slot, to),
        }
    }

    /// Whether no packet is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.stored.len()
    }

    /// Asks for a payload that will soon be needed.
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch(&self.stored, id as usize);
    }

    /// The payload of a packet that travels no longer; its id is free.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: u32) -> Payload {
        self.free.push(id);
        let Self { stored, options, free_options, .. } = self;
        stored[id as usize].open(|place| {
            free_options.push(place);
            options[place as usize - 1]
        })
    }

    #[cold]
    fn put_options(&mut self, options: Options) -> u32 {
        if let Some(place) = self.free_options.pop() {
            self.options[place as usize - 1] = options;
            return place;
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
    fn what_is_taken_is_what_was_put() {
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
    fn when_a_segment_was_sent_is_kept_if_it_tells() {
        let mut store = PayloadStore::default();
        let (mut told, sent) = (segment(1, &[]), Instant::from_nanos(77));
        if let Contents::Segment(segment) = &mut told.contents {
            segment.sent = sent;
        }
        let [plain, told] = [segment(1, &[]), told].map(|payload| store.put(payload));
        assert_eq!(store.options.len(), 1);
        assert_eq!([plain, told].map(|id| segment_of(store.take(id)).sent), [Instant::START, sent]);
    }

    #[test]
    fn an_id_is_used_again_once_it_is_free_and_the_blocks_of_sack_are_not_mixed_up() {
        let mut store = PayloadStore::default();
        let blocks = [[(10, 20)], [(30, 40)], [(50, 60)]];
        let [first, second] = [0, 1].map(|place| store.put(segment(place as u64, &blocks[place])));
        assert_eq!((first, second), (0, 1));
        store.take(first);
        let again = store.put(segment(2, &blocks[2]));
        assert_eq!(again, first);
        assert_eq!(segment_of(store.get(second)).sacks, segment_of(segment(1, &blocks[1])).sacks);
        assert_eq!(segment_of(store.get(again)).sacks, segment_of(segment(2, &blocks[2])).sacks);
        assert_eq!(store.options.len(), 2, "the place of the options is used again, too");
        assert!(segment_of(store.get(again)).seq == 2 && store.put(segment(3, &[])) == 2);
    }
}
