//! What the stage keeps while packets travel: the segments they carry, and the fates of those that
//! do not arrive.

use aqm_net::{Ecn, Instant, Packet};
use aqm_queue::{Observer, QueueDiscipline, Reason};
use aqm_tcp::{Flags, Sacks, Segment};

use crate::prefetch::prefetch;
use crate::ring::Ring;
use crate::tables::{DropRow, PacketRow};

/// What a packet carries, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) segment: Segment,
    /// Where its flow is kept.
    pub(crate) slot: u32,
    /// Whether it travels as the data of its transfer does, or back.
    pub(crate) forward: bool,
}

/// A parcel as it is kept: few segments carry blocks of SACK, so those are kept apart.
#[derive(Clone, Copy, Debug)]
struct Kept {
    seq: u64,
    ack: u64,
    slot: u32,
    /// One more than the place of its blocks; 0 if it has none.
    sacks: u32,
    len: u16,
    wire: u16,
    flags: Flags,
    ecn: Ecn,
    forward: bool,
}

/// The parcels under way, by the id of their packet. Ids are used again in the order in which they
/// became free, which is nearly that in which they were given out: so memory is walked in order.
#[derive(Default)]
pub(crate) struct Parcels {
    kept: Vec<Kept>,
    free: Ring<u32>,
    sacks: Vec<Sacks>,
    free_sacks: Vec<u32>,
}

impl Parcels {
    #[inline(always)]
    pub(crate) fn put(&mut self, parcel: Parcel) -> u32 {
        let Parcel { segment, slot, forward } = parcel;
        let Segment { seq, ack, len, wire, flags, ecn, .. } = segment;
        let sacks = if segment.sacks.is_empty() { 0 } else { self.put_sacks(segment.sacks) };
        // A segment has a header, and all of it fits 16 bits.
        let kept = Kept { seq, ack, slot, sacks, len: len as u16, wire, flags, ecn, forward };
        if let Some(id) = self.free.take_first() {
            self.kept[id as usize] = kept;
            return id;
        }
        self.kept.push(kept);
        (self.kept.len() - 1) as u32
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Parcel {
        let Kept { seq, ack, slot, sacks, len, wire, flags, ecn, forward } = self.kept[id as usize];
        let sacks = if sacks == 0 { Sacks::default() } else { self.sacks[sacks as usize - 1] };
        Parcel { segment: Segment { seq, ack, sacks, len: len.into(), wire, flags, ecn }, slot, forward }
    }

    /// Where the flow of a parcel is kept, and whether it travels forward.
    #[inline]
    pub(crate) fn address(&self, id: u32) -> (u32, bool) {
        let kept = &self.kept[id as usize];
        (kept.slot, kept.forward)
    }

    /// Asks for a parcel that will soon be needed.
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch(&self.kept, id as usize);
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, id: u32) -> Parcel {
        self.free.push(id);
        let sacks = self.kept[id as usize].sacks;
        if sacks > 0 {
            self.free_sacks.push(sacks);
        }
        self.get(id)
    }

    #[cold]
    fn put_sacks(&mut self, sacks: Sacks) -> u32 {
        if let Some(place) = self.free_sacks.pop() {
            self.sacks[place as usize - 1] = sacks;
            return place;
        }
        self.sacks.push(sacks);
        self.sacks.len() as u32
    }
}

/// What may happen to a packet at a link, in the order of events of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketEvent {
    Start,
    Deliver,
    Enqueue,
    Drop,
}

impl PacketEvent {
    pub(crate) const NAMES: [&'static str; 4] = ["start", "deliver", "enqueue", "drop"];
}

/// Parcels under way, fates not yet told to their flows, and rows for the tables.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) parcels: Parcels,
    /// Packets dropped since the flows were last told.
    pub(crate) fallen: Vec<Packet>,
    /// Slots of the flows of packets marked since the flows were last told.
    pub(crate) marked: Vec<u32>,
    pub(crate) drops: Vec<DropRow>,
    pub(crate) packets: Vec<PacketRow>,
    keep_drops: bool,
    /// The link whose queue is at work, and how many packets have arrived there before.
    link: u32,
    arrival: u64,
}

impl Ledger {
    pub(crate) fn new(keep_drops: bool) -> Self {
        Self { keep_drops, ..Self::default() }
    }

    /// The queue of `link` is about to be called.
    pub(crate) fn at(&mut self, link: u32, arrival: u64) {
        (self.link, self.arrival) = (link, arrival);
    }

    /// A packet met an event at a traced link, whose queue has sent so many packets since.
    pub(crate) fn trace(
        &mut self,
        event: PacketEvent,
        packet: &Packet,
        now: Instant,
        queue: Option<(&dyn QueueDiscipline, usize)>,
    ) {
        let segment = self.parcels.get(packet.id).segment;
        self.packets.push(PacketRow {
            time_s: now.seconds(),
            link: self.link,
            event: event as u32,
            flow: packet.flow.into(),
            sequence_bytes: segment.seq,
            payload_bytes: segment.len.into(),
            size_bytes: packet.bytes.into(),
            length_packets: queue.map(|(queue, sent)| queue.backlog().packets + sent as u64),
            average: queue.and_then(|(queue, _)| gauge(queue, "average")),
        });
    }
}

/// The gauge of this name, if the discipline has it.
pub(crate) fn gauge(queue: &dyn QueueDiscipline, wanted: &str) -> Option<f64> {
    let mut found = None;
    queue.gauges(&mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found
}

impl Observer for Ledger {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.fallen.push(*packet);
        if self.keep_drops {
            self.drops.push(DropRow {
                time_s: now.seconds(),
                link: self.link,
                flow: packet.flow.into(),
                reason: why.code(),
                size_bytes: packet.bytes.into(),
                window: packet.window().map(u64::from),
                arrival: self.arrival,
            });
        }
    }

    fn marked(&mut self, packet: &Packet, _why: Reason, _now: Instant) {
        self.marked.push(self.parcels.address(packet.id).0);
    }
}
