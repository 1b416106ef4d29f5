//! Data about packets in transit: their payloads, the drops and marks that have not yet been reported to flows, and the
//! recorded events of the packets.

use aqm_net::{Instant, Packet};
use aqm_queue::{Acknowledgement, Observer, Reason};
use aqm_tcp::Flags;

use crate::hosts::side::Side;
use crate::network::payloads::{Contents, Payload, PayloadStore};
use crate::results::recorder::{PacketEvent, Recorder};
use crate::results::tables::{DropRow, PacketRow};

/// The data about packets in transit.
pub(crate) struct InTransit {
    pub(crate) payloads: PayloadStore,
    pub(crate) fates: Fates,
    pub(crate) recorder: Recorder,
}

/// Drops and marks that have not yet been reported to flows.
#[derive(Default)]
pub(crate) struct Fates {
    /// Dropped packets.
    pub(crate) dropped: Vec<Fate>,
    /// Marked packets.
    pub(crate) marked: Vec<Fate>,
}

/// The dropping or marking of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) packet: Packet,
    /// Slot of the packet's flow. The slot is stored here, because a marked packet may arrive before the mark is
    /// reported to the flow.
    pub(crate) slot: u32,
    /// End of the flow to which the packet travels.
    pub(crate) to: Side,
    /// Number of the queue's link.
    pub(crate) link: u32,
    pub(crate) why: Reason,
    pub(crate) at: Instant,
}

impl Fates {
    /// Returns whether all drops and marks have been reported to flows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.marked.is_empty()
    }
}

impl InTransit {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { payloads: PayloadStore::default(), fates: Fates::default(), recorder }
    }

    /// Returns the observer for a call to the queue of `link`. `arrivals` is the number of packets that have arrived at
    /// the queue before the call, and `traced` is true if `record.packets` contains the link.
    #[inline]
    pub(crate) fn at_link(&mut self, link: u32, arrivals: u64, traced: bool) -> LinkObserver<'_> {
        LinkObserver { transit: self, link, arrivals, traced }
    }

    /// Records that an end of a flow has sent a packet.
    #[inline(always)]
    pub(crate) fn note_sent(&mut self, packet: &Packet, now: Instant) {
        if self.recorder.has_histories() {
            self.record_end(packet, now, Recorder::note_sent);
        }
    }

    /// Records that a packet has arrived at an end of a flow.
    #[inline(always)]
    pub(crate) fn note_arrived(&mut self, packet: &Packet, now: Instant) {
        if self.recorder.has_histories() {
            self.record_end(packet, now, Recorder::note_arrived);
        }
    }

    #[cold]
    fn record_end(
        &mut self,
        packet: &Packet,
        now: Instant,
        note: impl FnOnce(&mut Recorder, &Packet, &Payload, Instant),
    ) {
        if self.recorder.has_history(packet) {
            note(&mut self.recorder, packet, &self.payloads.get(packet.id), now);
        }
    }
}

/// The observer of drops and marks during a call to a link's queue.
pub(crate) struct LinkObserver<'a> {
    transit: &'a mut InTransit,
    link: u32,
    arrivals: u64,
    traced: bool,
}

impl LinkObserver<'_> {
    /// Counts the packet that has just arrived, so that later drops are recorded with the new arrival count.
    #[inline(always)]
    pub(crate) fn note_arrival(&mut self) {
        self.arrivals += 1;
    }

    /// Returns the recorder of the run.
    #[inline(always)]
    pub(crate) fn recorder(&mut self) -> &mut Recorder {
        &mut self.transit.recorder
    }

    /// Returns the number of drops that have not been reported to flows yet.
    #[inline(always)]
    pub(crate) fn dropped_count(&self) -> usize {
        self.transit.fates.dropped.len()
    }

    /// Returns whether `packet` is among the drops since [`dropped_count`](Self::dropped_count) was `count`.
    pub(crate) fn has_dropped_since(&self, count: usize, packet: &Packet) -> bool {
        self.transit.fates.dropped[count..].iter().any(|fate| fate.packet == *packet)
    }

    fn fate(&self, packet: &Packet, why: Reason, at: Instant) -> Fate {
        let (slot, to) = self.transit.payloads.address(packet.id);
        Fate { packet: *packet, slot, to, link: self.link, why, at }
    }

    /// Records an event of a packet at this link. Drops need not be recorded with this method, because the observer
    /// records them automatically.
    pub(crate) fn trace(&mut self, event: PacketEvent, packet: &Packet, now: Instant) {
        let payload = self.transit.payloads.get(packet.id);
        let row = self.transit.recorder.row(event, packet, &payload, now);
        self.transit.recorder.packets.push(PacketRow { link: Some(self.link), ..row });
    }
}

impl Observer for LinkObserver<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        let fate = self.fate(packet, why, now);
        self.transit.fates.dropped.push(fate);
        if self.traced || self.transit.recorder.has_history(packet) {
            self.trace(PacketEvent::Drop, packet, now);
        }
        if self.transit.recorder.keep_drops {
            self.transit.recorder.drops.push(DropRow {
                time_s: now.seconds(),
                link: self.link,
                flow: packet.flow.into(),
                reason: why.code(),
                size_bytes: packet.bytes.into(),
                window: packet.window().map(u64::from),
                arrival: self.arrivals,
            });
        }
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        let fate = self.fate(packet, why, now);
        self.transit.fates.marked.push(fate);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        let Payload { contents: Contents::Segment(segment), .. } = self.transit.payloads.get(packet.id)
        else {
            return None;
        };
        if segment.flags.has(Flags::SYN) || !segment.flags.has(Flags::ACK) {
            return None;
        }
        let more = [Flags::FIN, Flags::PUSH].iter().any(|&flag| segment.flags.has(flag));
        let mut sacked = [[0; 2]; 4];
        for (block, (from, to)) in sacked.iter_mut().zip(segment.sacks.ranges(segment.ack)) {
            *block = [from, to];
        }
        Some(Acknowledgement {
            bare: segment.len == 0 && !more,
            number: segment.ack,
            sacked,
            ece: segment.flags.has(Flags::ECE),
            cwr: segment.flags.has(Flags::CWR),
        })
    }
}

#[cfg(test)]
mod tests {
    use aqm_tcp::Segment;

    use super::*;

    fn packet(transit: &mut InTransit, slot: u32, label: u16) -> Packet {
        let segment = Segment { len: 100, wire: 140, ..Segment::default() };
        let payload = Payload { contents: Contents::Segment(segment), slot, to: Side::Receiver };
        let id = transit.payloads.put(payload);
        Packet { id, flow: 40 + slot, bytes: 140, label, ..Packet::default() }
    }

    #[test]
    fn drops_and_marks_are_recorded_for_the_link_of_the_queue() {
        let mut transit = InTransit::new(Recorder::new(true, vec![false, true]));
        let (first, second) = (packet(&mut transit, 5, 0), packet(&mut transit, 6, 1));
        let now = Instant::from_nanos(2_000_000_000);
        transit.at_link(3, 17, false).dropped(&first, Reason::Early, now);
        transit.at_link(4, 18, false).dropped(&second, Reason::Overflow, now);
        transit.at_link(3, 19, false).marked(&second, Reason::Early, now);
        let fate = |packet, slot, link, why| Fate { packet, slot, to: Side::Receiver, link, why, at: now };
        let early = Reason::Early;
        let dropped = [fate(first, 5, 3, early), fate(second, 6, 4, Reason::Overflow)];
        assert_eq!(transit.fates.dropped, dropped);
        assert_eq!(transit.fates.marked, [fate(second, 6, 3, early)]);
        let found = transit.recorder.drops.iter().map(|row| (row.link, row.arrival, row.flow, row.reason));
        let expected = [(3, 17, 45, Reason::Early.code()), (4, 18, 46, Reason::Overflow.code())];
        assert!(found.eq(expected));
        // The label is the position of the workload. Only the second workload has histories.
        let events = transit.recorder.packets.iter().map(|row| (row.link, row.flow, row.event));
        assert!(events.eq([(Some(4), 46, PacketEvent::Drop as u32)]));
    }

    #[test]
    fn a_queue_learns_the_acknowledgement_in_a_packet_and_whether_it_is_bare() {
        let mut transit = InTransit::new(Recorder::new(false, vec![false]));
        let mut acknowledgement = |segment: Segment| {
            let payload = Payload { contents: Contents::Segment(segment), slot: 0, to: Side::Sender };
            let id = transit.payloads.put(payload);
            transit.at_link(0, 0, false).acknowledgement(&Packet { id, ..Packet::default() })
        };
        let mut sacks = aqm_tcp::Sacks::default();
        sacks.push(5000, 6000, 7000);
        let bare = Segment { ack: 5000, sacks, flags: Flags::ACK.union(Flags::ECE), ..Segment::default() };
        let expected = Acknowledgement {
            bare: true,
            number: 5000,
            sacked: [[6000, 7000], [0; 2], [0; 2], [0; 2]],
            ece: true,
            cwr: false,
        };
        assert_eq!(acknowledgement(bare), Some(expected));
        let not_bare = Acknowledgement { bare: false, ..expected };
        assert_eq!(acknowledgement(Segment { len: 1, ..bare }), Some(not_bare));
        for flag in [Flags::FIN, Flags::PUSH] {
            assert_eq!(acknowledgement(Segment { flags: bare.flags.union(flag), ..bare }), Some(not_bare));
        }
        assert_eq!(acknowledgement(Segment { flags: Flags::SYN.union(Flags::ACK), ..bare }), None);
        assert_eq!(acknowledgement(Segment { flags: Flags::SYN, ..bare }), None);
        let contents = Contents::Datagram { number: 0, sent: Instant::START };
        let id = transit.payloads.put(Payload { contents, slot: 0, to: Side::Receiver });
        assert_eq!(transit.at_link(0, 0, false).acknowledgement(&Packet { id, ..Packet::default() }), None);
    }

    #[test]
    fn a_drop_at_a_traced_link_is_traced_without_recorded_drops_and_histories() {
        let mut transit = InTransit::new(Recorder::new(false, vec![false]));
        let packet = packet(&mut transit, 0, 0);
        transit.at_link(2, 0, true).dropped(&packet, Reason::Overflow, Instant::START);
        assert!(transit.recorder.drops.is_empty());
        assert_eq!(transit.recorder.packets.len(), 1);
        assert!(!transit.fates.is_empty(), "the drop was not yet reported to its flow");
    }
}
