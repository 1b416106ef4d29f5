//! What a run records of packets: rows of the tables `drops` and `packets`.

use aqm_net::{Instant, Packet};
use aqm_queue::QueueDiscipline;
use aqm_tcp::{Flags, Segment};

use crate::payloads::{Contents, Payload};
use crate::side::Side;
use crate::tables::{DropRow, PacketRow};

/// Whether a segment is more than a bare acknowledgement.
#[inline]
pub(crate) fn carries(segment: &Segment) -> bool {
    segment.end() > segment.seq || segment.flags.has(Flags::SYN)
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
    /// What happened to a packet, at an end of its flow unless a link is named.
    pub(crate) fn new(event: PacketEvent, packet: &Packet, payload: &Payload, now: Instant) -> Self {
        let (sequence_bytes, payload_bytes) = match payload.contents {
            Contents::Segment(segment) => (segment.seq, segment.len.into()),
            Contents::Datagram { number, .. } => (number, packet.bytes.into()),
        };
        Self {
            time_s: now.seconds(),
            link: None,
            event: event as u32,
            flow: packet.flow.into(),
            backward: payload.to == Side::Sender,
            sequence_bytes,
            payload_bytes,
            size_bytes: packet.bytes.into(),
            length_packets: None,
            average: None,
        }
    }
}

/// Rows for the tables, and of which packets there are any.
pub(crate) struct Recorder {
    pub(crate) drops: Vec<DropRow>,
    pub(crate) packets: Vec<PacketRow>,
    pub(crate) keep_drops: bool,
    /// By workload, whether all that happens to its packets is recorded.
    histories: Vec<bool>,
    any_history: bool,
}

impl Recorder {
    pub(crate) fn new(keep_drops: bool, histories: Vec<bool>) -> Self {
        let any_history = histories.contains(&true);
        Self { drops: Vec::new(), packets: Vec::new(), keep_drops, histories, any_history }
    }

    /// Whether all that happens to a packet is recorded: its label is the position of its workload.
    #[inline]
    pub(crate) fn has_history(&self, packet: &Packet) -> bool {
        self.any_history && self.histories[usize::from(packet.label)]
    }

    /// The rows from number `first` on are those of an event that left `queue` as it is, but for the packets
    /// it has `sent` since.
    pub(crate) fn note_queue(&mut self, first: usize, queue: &dyn QueueDiscipline, sent: usize) {
        let length = queue.backlog().packets + sent as u64;
        let mut average = None;
        queue.gauges(&mut |gauge| average = average.or((gauge.name == "average").then_some(gauge.value)));
        for row in &mut self.packets[first..] {
            (row.length_packets, row.average) = (Some(length), average);
        }
    }

    /// A packet with a history leaves an end of its flow.
    #[cold]
    pub(crate) fn note_sent(&mut self, packet: &Packet, payload: &Payload, now: Instant) {
        let event = match &payload.contents {
            Contents::Segment(segment) if !carries(segment) => return,
            Contents::Segment(segment) if segment.flags.has(Flags::RETRANSMISSION) => PacketEvent::Retransmit,
            _ => PacketEvent::Send,
        };
        self.packets.push(PacketRow::new(event, packet, payload, now));
    }

    /// A packet with a history has come to an end of its flow.
    #[cold]
    pub(crate) fn note_arrived(&mut self, packet: &Packet, payload: &Payload, now: Instant) {
        let row = |event| PacketRow::new(event, packet, payload, now);
        let Contents::Segment(segment) = &payload.contents else {
            return self.packets.push(row(PacketEvent::Receive));
        };
        if carries(segment) {
            self.packets.push(row(PacketEvent::Receive));
        }
        if payload.to == Side::Receiver || !segment.flags.has(Flags::ACK) {
            return;
        }
        let told =
            |event, from, to| PacketRow { sequence_bytes: from, payload_bytes: to - from, ..row(event) };
        self.packets.push(told(PacketEvent::Acknowledge, segment.ack, segment.ack));
        let blocks = segment.sacks.ranges(segment.ack);
        self.packets.extend(blocks.map(|(from, to)| told(PacketEvent::Sack, from, to)));
    }
}
