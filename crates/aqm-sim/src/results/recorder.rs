//! Recorded events of packets, which are the rows of the tables `drops` and `packets`.

use aqm_net::{Instant, Packet};
use aqm_queue::{Evidence, QueueDiscipline};
use aqm_tcp::{Flags, Segment};

use crate::hosts::side::Side;
use crate::network::payloads::{Contents, Payload};
use crate::results::tables::{DropRow, PacketRow};
use crate::scenario::Scenario;

/// Returns whether a segment contains payload, SYN or FIN, and is therefore not a pure acknowledgement.
#[inline]
pub(crate) fn carries(segment: &Segment) -> bool {
    segment.len > 0 || segment.flags.has(Flags::SYN) || segment.flags.has(Flags::FIN)
}

/// The events of a packet. Events at a link come first, in the order in which they are recorded if they occur at the
/// same instant. Events at the ends of a flow follow.
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
    /// Creates the row of an event at an end of the packet's flow. `is_quic` states whether the packet belongs to a QUIC
    /// connection. For an event at a link, the caller then sets the column `link`.
    fn new(event: PacketEvent, packet: &Packet, payload: &Payload, is_quic: bool, now: Instant) -> Self {
        let (sequence_bytes, payload_bytes, ack_bytes, flags) = match payload.contents {
            // To an observer, a QUIC packet is a datagram: its contents are encrypted.
            Contents::Segment(segment) if is_quic => {
                (segment.packet_number().unwrap_or(0), segment.wire.into(), None, None)
            }
            Contents::Segment(Segment { seq, ack, len, flags, .. }) => {
                (seq, len.into(), flags.has(Flags::ACK).then_some(ack), Some(bits(flags)))
            }
            Contents::Datagram { number, .. } => (number, packet.bytes.into(), None, None),
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
            ack_bytes,
            flags,
            ecn: packet.ecn as u32,
            length_packets: None,
            average: None,
        }
    }
}

/// The values of the column `ecn`, by the ECN bits of the header (RFC 3168, section 5).
pub(crate) const ECN_NAMES: [&str; 4] = ["not-ect", "ect-1", "ect-0", "ce"];

/// Returns the flags as a number with the bits of the TCP header (RFC 9293, section 3.1).
fn bits(flags: Flags) -> u64 {
    let all = [
        (Flags::FIN, 1),
        (Flags::SYN, 2),
        (Flags::PUSH, 8),
        (Flags::ACK, 16),
        (Flags::ECE, 64),
        (Flags::CWR, 128),
    ];
    all.into_iter().filter(|&(flag, _)| flags.has(flag)).map(|(_, bit)| bit).sum()
}

/// The recorded rows, and the information about which packets are recorded.
pub(crate) struct Recorder {
    pub(crate) drops: Vec<DropRow>,
    pub(crate) packets: Vec<PacketRow>,
    pub(crate) keep_drops: bool,
    /// The numbers that led to the drop that is reported next.
    pub(crate) evidence: Evidence,
    /// Whether all events of the packets with a label are recorded, by label. The labels of workloads come first.
    histories: Vec<bool>,
    any_history: bool,
    /// Whether the packets with a label belong to QUIC connections, by label; shorter if no further label does.
    quic: Vec<bool>,
}

impl Recorder {
    /// Creates the recorder of a run of `scenario`.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let histories = scenario.traffic.iter().map(|one| scenario.record.histories.contains(&one.name));
        let quic = scenario.traffic.iter().map(|one| scenario.tcp_of(one).checked.has_streams());
        Self { quic: quic.collect(), ..Self::new(scenario.record.drops, histories.collect()) }
    }

    pub(crate) fn new(keep_drops: bool, histories: Vec<bool>) -> Self {
        let any_history = histories.contains(&true);
        Self {
            drops: Vec::new(),
            packets: Vec::new(),
            keep_drops,
            evidence: Evidence::default(),
            histories,
            any_history,
            quic: Vec::new(),
        }
    }

    /// Adds a label for packets of the workload `traffic`.
    pub(crate) fn add_label(&mut self, traffic: u32) {
        self.histories.push(self.histories[traffic as usize]);
    }

    /// Returns whether any workload has packet histories, which means that all events of its packets are recorded.
    #[inline]
    pub(crate) fn has_histories(&self) -> bool {
        self.any_history
    }

    /// Returns the row of an event of a packet.
    pub(crate) fn row(
        &self,
        event: PacketEvent,
        packet: &Packet,
        payload: &Payload,
        now: Instant,
    ) -> PacketRow {
        let is_quic = self.quic.get(usize::from(packet.label)).is_some_and(|&is_quic| is_quic);
        PacketRow::new(event, packet, payload, is_quic, now)
    }

    /// Returns whether all events of a packet are recorded, which depends on the workload to which the packet's label
    /// belongs.
    #[inline]
    pub(crate) fn has_history(&self, packet: &Packet) -> bool {
        self.any_history && self.histories[usize::from(packet.label)]
    }

    /// Sets the columns that describe the queue's state, in all rows from index `first` onwards. `sent` is the number
    /// of packets that the queue has sent since the event.
    pub(crate) fn note_queue(&mut self, first: usize, queue: &dyn QueueDiscipline, sent: usize) {
        let length = queue.backlog().packets + sent as u64;
        let mut average = None;
        queue.gauges(&mut |gauge| average = average.or((gauge.name == "average").then_some(gauge.value)));
        for row in &mut self.packets[first..] {
            (row.length_packets, row.average) = (Some(length), average);
        }
    }

    /// Records that an end of a flow has sent a packet whose workload has packet histories.
    #[cold]
    pub(crate) fn note_sent(&mut self, packet: &Packet, payload: &Payload, now: Instant) {
        let event = match &payload.contents {
            Contents::Segment(segment) if !carries(segment) => return,
            Contents::Segment(segment) if segment.flags.has(Flags::RETRANSMISSION) => PacketEvent::Retransmit,
            _ => PacketEvent::Send,
        };
        let row = self.row(event, packet, payload, now);
        self.packets.push(row);
    }

    /// Records that a packet whose workload has packet histories has arrived at an end of a flow.
    #[cold]
    pub(crate) fn note_arrived(&mut self, packet: &Packet, payload: &Payload, now: Instant) {
        let template = self.row(PacketEvent::Receive, packet, payload, now);
        let row = |event: PacketEvent| PacketRow { event: event as u32, ..template };
        let Contents::Segment(segment) = &payload.contents else {
            return self.packets.push(row(PacketEvent::Receive));
        };
        if carries(segment) {
            self.packets.push(row(PacketEvent::Receive));
        }
        if payload.to == Side::Receiver || !segment.flags.has(Flags::ACK) {
            return;
        }
        let acknowledged =
            |event, from, to| PacketRow { sequence_bytes: from, payload_bytes: to - from, ..row(event) };
        self.packets.push(acknowledged(PacketEvent::Acknowledge, segment.ack, segment.ack));
        let blocks = segment.sacks.ranges(segment.ack);
        self.packets.extend(blocks.map(|(from, to)| acknowledged(PacketEvent::Sack, from, to)));
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Ecn;
    use aqm_tcp::Sacks;

    use super::*;

    /// Returns the events that are recorded when a segment is sent and when the segment arrives at an end. For each
    /// event, the result contains the first byte and the length.
    fn events(segment: Segment, to: Side) -> [Vec<(u32, u64, u64)>; 2] {
        let payload = Payload { contents: Contents::Segment(segment), slot: 0, to };
        let packet = Packet { bytes: segment.wire, ecn: Ecn::NotEct, ..Packet::default() };
        let mut recorder = Recorder::new(false, vec![true]);
        recorder.note_sent(&packet, &payload, Instant::START);
        let sent = recorder.packets.len();
        recorder.note_arrived(&packet, &payload, Instant::START);
        let row = |row: &PacketRow| (row.event, row.sequence_bytes, row.payload_bytes);
        let rows: Vec<_> = recorder.packets.iter().map(row).collect();
        [rows[..sent].to_vec(), rows[sent..].to_vec()]
    }

    #[test]
    fn a_bare_acknowledgement_is_recorded_at_the_sender_only_with_its_blocks() {
        let mut sacks = Sacks::default();
        sacks.push(1000, 3000, 4000);
        let segment = Segment { ack: 1000, sacks, wire: 52, flags: Flags::ACK, ..Segment::default() };
        let expected = [(PacketEvent::Acknowledge as u32, 1000, 0), (PacketEvent::Sack as u32, 3000, 1000)];
        assert_eq!(events(segment, Side::Sender), [vec![], expected.to_vec()]);
        assert_eq!(events(segment, Side::Receiver), [vec![], vec![]]);
    }

    #[test]
    fn segments_with_payload_syn_or_fin_are_sent_and_received() {
        let (send, again, receive) =
            (PacketEvent::Send as u32, PacketEvent::Retransmit as u32, PacketEvent::Receive as u32);
        for (len, flags, event) in [
            (500, Flags::ACK, send),
            (500, Flags::ACK.union(Flags::RETRANSMISSION), again),
            (0, Flags::SYN, send),
            (0, Flags::ACK.union(Flags::FIN), send),
        ] {
            let segment = Segment { seq: 10, len, wire: 552, flags, ..Segment::default() };
            let expected = [vec![(event, 10, len.into())], vec![(receive, 10, len.into())]];
            assert_eq!(events(segment, Side::Receiver), expected, "{flags:?} of {len}");
        }
    }

    #[test]
    fn a_packet_has_a_history_if_its_workload_has() {
        let recorder = Recorder::new(false, vec![false, true]);
        let of = |label| recorder.has_history(&Packet { label, ..Packet::default() });
        assert_eq!([of(0), of(1)], [false, true]);
        assert!(!Recorder::new(false, vec![false]).has_history(&Packet { label: 0, ..Packet::default() }));
    }
}
