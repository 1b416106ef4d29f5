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
pub(crate) struct Payload {
    pub(crate) segment: Segment,
    /// Where its flow is kept.
    pub(crate) slot: u32,
    /// Whether it travels as the data of its transfer does, or back.
    pub(crate) forward: bool,
}

/// Whether a segment is more than a bare acknowledgement.
#[inline]
pub(crate) fn carries(segment: &Segment) -> bool {
    segment.end() > segment.seq || segment.flags.has(Flags::SYN)
}

/// A parcel as it is kept: few segments carry blocks of SACK, so those are kept apart.
#[derive(Clone, Copy, Debug)]
struct StoredPayload {
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
    kept: Vec<StoredPayload>,
    free: Ring<u32>,
    sacks: Vec<Sacks>,
    free_sacks: Vec<u32>,
}

impl Parcels {
    #[inline(always)]
    pub(crate) fn put(&mut self, payload: Payload) -> u32 {
        let Payload { segment, slot, forward } = payload;
        let Segment { seq, ack, len, wire, flags, ecn, .. } = segment;
        let sacks = if segment.sacks.is_empty() { 0 } else { self.put_sacks(segment.sacks) };
        // A segment has a header, and all of it fits 16 bits.
        let kept = StoredPayload { seq, ack, slot, sacks, len: len as u16, wire, flags, ecn, forward };
        if let Some(id) = self.free.take_first() {
            self.kept[id as usize] = kept;
            return id;
        }
        self.kept.push(kept);
        (self.kept.len() - 1) as u32
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Payload {
        let StoredPayload { seq, ack, slot, sacks, len, wire, flags, ecn, forward } = self.kept[id as usize];
        let sacks = if sacks == 0 { Sacks::default() } else { self.sacks[sacks as usize - 1] };
        let segment = Segment { seq, ack, sacks, len: len.into(), wire, flags, ecn };
        Payload { segment, slot, forward }
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
    pub(crate) fn take(&mut self, id: u32) -> Payload {
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

/// What may happen to a packet at a link, in the order of events of one instant, and at the ends of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketEvent {
    Start,
    Deliver,
    Enqueue,
    Drop,
    Send,
    Retransmit,
    Receive,
    Acknowledge,
    Sack,
}

impl PacketEvent {
    pub(crate) const NAMES: [&'static str; 9] =
        ["start", "deliver", "enqueue", "drop", "send", "retransmit", "receive", "acknowledge", "sack"];
}

impl PacketRow {
    /// What happened to a packet at an end of its flow.
    fn new(event: PacketEvent, packet: &Packet, payload: &Payload, now: Instant) -> Self {
        Self {
            time_s: now.seconds(),
            link: None,
            event: event as u32,
            flow: packet.flow.into(),
            backward: !payload.forward,
            sequence_bytes: payload.segment.seq,
            payload_bytes: payload.segment.len.into(),
            size_bytes: packet.bytes.into(),
            length_packets: None,
            average: None,
        }
    }
}

/// Parcels under way, fates not yet told to their flows, and rows for the tables.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) payloads: Parcels,
    /// Packets dropped since the flows were last told.
    pub(crate) dropped: Vec<Packet>,
    /// Slots of the flows of packets marked since the flows were last told.
    pub(crate) marked: Vec<u32>,
    pub(crate) drops: Vec<DropRow>,
    pub(crate) packets: Vec<PacketRow>,
    keep_drops: bool,
    /// By workload, whether all that happens to its packets is recorded.
    histories: Vec<bool>,
    any_history: bool,
    /// The link whose queue is at work, how many packets have arrived there before, and whether it is traced.
    link: u32,
    arrival: u64,
    traced: bool,
}

impl Recorder {
    pub(crate) fn new(keep_drops: bool, histories: Vec<bool>) -> Self {
        let any_history = histories.contains(&true);
        Self { keep_drops, histories, any_history, ..Self::default() }
    }

    /// Whether all that happens to a packet is recorded: its label is the position of its workload.
    #[inline]
    pub(crate) fn has_history(&self, packet: &Packet) -> bool {
        self.any_history && self.histories[usize::from(packet.label)]
    }

    /// The queue of `link` is about to be called.
    pub(crate) fn at(&mut self, link: u32, arrival: u64, traced: bool) {
        (self.link, self.arrival, self.traced) = (link, arrival, traced);
    }

    /// A packet met an event at the link whose queue is at work. A drop is noted by itself.
    pub(crate) fn trace(&mut self, event: PacketEvent, packet: &Packet, now: Instant) {
        let row = PacketRow::new(event, packet, &self.payloads.get(packet.id), now);
        self.packets.push(PacketRow { link: Some(self.link), ..row });
    }

    /// The rows from number `first` on are those of an event that left `queue` as it is, but for the packets
    /// it has `sent` since.
    pub(crate) fn snapshot(&mut self, first: usize, queue: &dyn QueueDiscipline, sent: usize) {
        let length = queue.backlog().packets + sent as u64;
        for row in &mut self.packets[first..] {
            (row.length_packets, row.average) = (Some(length), gauge(queue, "average"));
        }
    }

    /// A packet with a history leaves an end of its flow.
    #[cold]
    pub(crate) fn note_sent(&mut self, packet: &Packet, now: Instant) {
        let payload = self.payloads.get(packet.id);
        if carries(&payload.segment) {
            let again = payload.segment.flags.has(Flags::RETRANSMISSION);
            let event = if again { PacketEvent::Retransmit } else { PacketEvent::Send };
            self.packets.push(PacketRow::new(event, packet, &payload, now));
        }
    }

    /// A packet with a history has come to an end of its flow.
    #[cold]
    pub(crate) fn note_arrived(&mut self, packet: &Packet, now: Instant) {
        let payload = self.payloads.get(packet.id);
        let segment = &payload.segment;
        if carries(segment) {
            self.packets.push(PacketRow::new(PacketEvent::Receive, packet, &payload, now));
        }
        if payload.forward || !segment.flags.has(Flags::ACK) {
            return;
        }
        let heard = |event, from, to| PacketRow {
            sequence_bytes: from,
            payload_bytes: to - from,
            ..PacketRow::new(event, packet, &payload, now)
        };
        self.packets.push(heard(PacketEvent::Acknowledge, segment.ack, segment.ack));
        let blocks = segment.sacks.ranges(segment.ack);
        self.packets.extend(blocks.map(|(from, to)| heard(PacketEvent::Sack, from, to)));
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

impl Observer for Recorder {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.dropped.push(*packet);
        if self.traced || self.has_history(packet) {
            self.trace(PacketEvent::Drop, packet, now);
        }
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
        self.marked.push(self.payloads.address(packet.id).0);
    }
}
