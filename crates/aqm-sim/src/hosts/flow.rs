//! A flow, which consists of its two ends, the routes of its packets, and its counts.
//!
//! Two fifths of this file consist of test code.

use std::mem::offset_of;
use std::ops::Range;

use aqm_net::{Instant, Packet, Span};
use aqm_tcp::{Endpoint, Flags, Segment};
use aqm_traffic::{ConnectionState, Transfer};

use crate::engine::event::Timer;
use crate::hosts::compact_transfer::CompactTransfer;
use crate::hosts::conversation::ConversationState;
use crate::hosts::counts::{Counted, Received};
use crate::hosts::multiplexing::Multiplexing;
use crate::hosts::side::Side;
use crate::hosts::stream_schedule::StreamNumber;
use crate::network::Network;
use crate::network::payloads::{Contents, Payload};
use crate::network::transit::InTransit;
use crate::results::recorder::carries;
use crate::results::tables::{FlowRow, TransferRow};

/// The two ends of a flow.
pub(crate) enum Ends {
    /// The ends of a connection, by side.
    Tcp([Endpoint; 2]),
    /// A stream of datagrams. `window` is the congestion window that the datagrams report, in segments; 0 if the window is
    /// unknown.
    Datagrams { sent: u64, window: u16, received: Received },
}

/// The fields are in the order in which they are used. If there are very many flows, cache misses account for most of
/// the cost of a packet. Processing a packet requires only the first cache line of this structure and the cache line of
/// the end at which the packet arrived.
#[repr(C, align(64))]
pub(crate) struct Flow {
    /// Number of the flow, which is unique within the run. Flows are numbered in the order in which they are opened.
    pub(crate) number: u32,
    /// Position of the flow's workload in the scenario.
    pub(crate) traffic: u32,
    /// First hop of the packets that each end sends, by side.
    pub(crate) first_hop: [u32; 2],
    /// Number of packets in transit, in both directions.
    pub(crate) in_flight: u32,
    /// Number of the flow's entries in the event queue.
    pub(crate) timers: u16,
    /// Whether the state of the sender is sampled.
    pub(crate) sampled: bool,
    pub(crate) exchanging: Exchanging,
    /// Time of each end's valid entry in the event queue, by side; `NEVER` if the end has no valid entry.
    pub(crate) timer_at: [Instant; 2],
    /// Arrival time of the first payload byte; `NEVER` before this time.
    pub(crate) first_byte: Instant,
    pub(crate) completed: Instant,
    /// Number of payload bytes after which the flow is complete; `u64::MAX` if the flow is endless.
    pub(crate) goal: u64,
    pub(crate) ends: Ends,
    /// Time at which the connection was closed or aborted; `NEVER` while the connection is open.
    pub(crate) closed: Instant,
    pub(crate) opened: Instant,
    /// State that only a few flows have.
    pub(crate) cold: Option<Box<ColdState>>,
    pub(crate) dropped: u32,
    pub(crate) marked: u32,
    /// Number of packets of the class "long flows" that arrived at the receiver.
    pub(crate) long: u32,
    pub(crate) transfer: CompactTransfer,
}

/// How the ends of a flow exchange requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchanging {
    /// The sender is not waiting for a request.
    Idle,
    /// The sender is waiting for a request that has not arrived yet.
    AwaitsRequest,
    /// The ends exchange several requests and responses at the same time, each pair in a stream of its own.
    Streams,
}

/// State that is stored separately, because only a few flows have this state.
#[derive(Default)]
pub(crate) struct ColdState {
    /// Counts at the beginning of the measurement interval; zero if the flow was opened later.
    pub(crate) before: Counted,
    pub(crate) conversation: Option<Box<ConversationState>>,
    pub(crate) multiplexing: Option<Box<Multiplexing>>,
}

/// Passes a segment of new data that the end on `side` has sent to the schedule of the streams.
#[inline(never)]
fn note_sent(cold: &mut Option<Box<ColdState>>, side: Side, segment: &Segment) {
    let is_new = segment.len > 0 && !segment.flags.has(Flags::RETRANSMISSION);
    if let Some(state) = cold.as_mut().filter(|_| is_new).and_then(|cold| cold.multiplexing.as_mut()) {
        state.on_sent(side, segment.seq + u64::from(segment.len));
    }
}

/// Returns the time `at`, or `None` if `at` is `NEVER`.
fn known(at: Instant) -> Option<Instant> {
    (at != Instant::NEVER).then_some(at)
}

impl ColdState {
    /// Returns whether the flow is a conversation that has, or may have, further exchanges after the current exchange.
    pub(crate) fn has_next(&self) -> bool {
        self.conversation.as_ref().is_some_and(|conversation| conversation.has_next())
    }
}

impl Flow {
    /// Returns the byte ranges of a [`Flow`] that are accessed when a packet arrives at `side`.
    pub(crate) const fn parts(side: Side) -> [Range<usize>; 2] {
        let ends = offset_of!(Self, ends);
        let end = ends + side as usize * size_of::<Endpoint>();
        [0..ends, end..end + size_of::<Endpoint>()]
    }

    /// Returns all counts so far.
    pub(crate) fn counted(&self) -> Counted {
        let (dropped, marked) = (self.dropped.into(), self.marked.into());
        match &self.ends {
            Ends::Tcp([sender, receiver]) => {
                let counts = sender.counts();
                Counted {
                    delivered: receiver.received().min(self.goal),
                    sent: counts.segments_sent + counts.acks_sent,
                    dropped,
                    marked,
                    retransmitted: counts.retransmitted.into(),
                    timeouts: counts.timeouts.into(),
                    fast_retransmits: counts.fast_retransmits.into(),
                    long: self.long.into(),
                    received: Received::default(),
                }
            }
            &Ends::Datagrams { sent, received, .. } => {
                Counted { delivered: received.bytes, sent, dropped, marked, received, ..Counted::default() }
            }
        }
    }

    /// Returns whether the slot of the flow can be reused, because nothing refers to the flow any more.
    pub(crate) fn is_over(&self) -> bool {
        self.in_flight == 0 && self.timers == 0 && self.closed != Instant::NEVER
    }

    /// Returns whether the sender knows that all payload has arrived. The result is always false for a conversation,
    /// because the ends of a conversation have separate clocks.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let Ends::Tcp(ends) = &self.ends else { return false };
        ends[Side::Sender as usize].acknowledged() >= self.goal && self.conversation().is_none()
    }

    /// Sends the pending segments of the end on `side`, and sets the timer of this end. `STREAMS` must be true if the
    /// ends exchange streams.
    #[inline(always)]
    pub(crate) fn pump<const STREAMS: bool>(
        &mut self,
        (side, slot): (Side, u32),
        now: Instant,
        net: &mut impl Network,
        transit: &mut InTransit,
    ) {
        debug_assert_eq!(STREAMS, self.exchanging == Exchanging::Streams);
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let end = &mut ends[side as usize];
        let (hop, to) = (self.first_hop[side as usize], side.other());
        while let Some(segment) = end.poll_transmit(now) {
            let packet = Packet {
                id: transit.payloads.put(Payload { contents: Contents::Segment(segment), slot, to }),
                flow: self.number,
                hop,
                bytes: segment.wire,
                // An acknowledgement without payload is not limited by the congestion window and therefore reports no
                // window.
                cwnd: if carries(&segment) { end.window_hint() } else { 0 },
                ecn: segment.ecn,
                label: self.traffic as u16,
                ..Packet::default()
            };
            self.in_flight += 1;
            if STREAMS {
                note_sent(&mut self.cold, side, &segment);
            }
            transit.note_sent(&packet, now);
            net.send(packet, now, transit);
            if !end.may_transmit() {
                break;
            }
        }
        let deadline = end.poll_timeout();
        if end.is_over() && self.closed == Instant::NEVER {
            let gave_up = ends.iter().any(|end| end.gave_up().is_some());
            if gave_up || ends.iter().all(Endpoint::is_over) {
                self.closed = now;
            }
        }
        self.arm(side, slot, deadline, net);
    }

    /// Does the same as `pump`, but is not inlined; for all callers except the arrival of packets.
    #[inline(never)]
    pub(crate) fn pump_seldom(
        &mut self,
        end: (Side, u32),
        now: Instant,
        net: &mut impl Network,
        transit: &mut InTransit,
    ) {
        if self.exchanging == Exchanging::Streams {
            self.pump::<true>(end, now, net, transit);
        } else {
            self.pump::<false>(end, now, net, transit);
        }
    }

    /// Ensures that the event queue has an entry for the end on `side` at or before `deadline`. An entry that is too
    /// early is replaced when the entry is due. Therefore, if every packet postpones the deadline, a new entry is not
    /// needed for each packet.
    #[inline]
    fn arm(&mut self, side: Side, slot: u32, deadline: Option<Instant>, net: &mut impl Network) {
        let at = deadline.unwrap_or(Instant::NEVER);
        if at < self.timer_at[side as usize] {
            self.timer_at[side as usize] = at;
            self.timers += 1;
            net.set_timer(at, self.number, Timer::End(side, slot));
        }
    }

    /// Handles an entry of the event queue for the end on `side`. Returns whether a timer of this end has expired.
    pub(crate) fn is_due(&mut self, side: Side, slot: u32, now: Instant, net: &mut impl Network) -> bool {
        self.timers -= 1;
        if self.timer_at[side as usize] != now {
            return false;
        }
        self.timer_at[side as usize] = Instant::NEVER;
        let Ends::Tcp(ends) = &self.ends else { return false };
        let end = &ends[side as usize];
        if end.departs(now) {
            return true;
        }
        let deadline = end.poll_timeout();
        if deadline.is_some_and(|at| at > now) {
            self.arm(side, slot, deadline, net);
            return false;
        }
        deadline.is_some()
    }

    /// Returns the conversation, or `None` if the flow is not a conversation.
    pub(crate) fn conversation(&self) -> Option<&ConversationState> {
        self.cold.as_ref()?.conversation.as_deref()
    }

    /// Returns the state of the connection; `None` for datagrams.
    pub(crate) fn connection_state(&self) -> Option<ConnectionState> {
        let Ends::Tcp([server, client]) = &self.ends else { return None };
        Some(ConnectionState {
            established: client.counts().handshake_done,
            received: client.received(),
            received_by_server: server.received(),
            server_rtt: server.srtt(),
            client_rtt: client.srtt(),
        })
    }

    /// Returns the number that identifies the conversation to the workload, if any.
    pub(crate) fn workload_number(&self) -> Option<u32> {
        let cold = self.cold.as_ref()?;
        let of_streams = || cold.multiplexing.as_ref().and_then(|state| state.number);
        cold.conversation.as_ref().map_or_else(of_streams, |conversation| conversation.number)
    }

    pub(crate) fn conversation_mut(&mut self) -> Option<&mut ConversationState> {
        self.cold.as_mut()?.conversation.as_deref_mut()
    }

    /// Returns the streams; `None` if the flow is not a conversation with streams.
    pub(crate) fn multiplexing(&self) -> Option<&Multiplexing> {
        self.cold.as_ref()?.multiplexing.as_deref()
    }

    /// Calls `act` with the streams and the ends of a conversation with streams.
    pub(crate) fn with_streams<T>(
        &mut self,
        act: impl FnOnce(&mut Multiplexing, &mut [Endpoint; 2]) -> T,
    ) -> Option<T> {
        let state = self.cold.as_mut()?.multiplexing.as_mut()?;
        let Ends::Tcp(ends) = &mut self.ends else { return None };
        Some(act(state, ends))
    }

    /// Turns the flow into a conversation. The client opens the connection later.
    pub(crate) fn converse(&mut self, conversation: ConversationState) {
        self.opened = conversation.requested_at;
        self.cold.get_or_insert_default().conversation = Some(Box::new(conversation));
    }

    /// Sets the timer of the conversation's next action.
    pub(crate) fn set_conversation_timer(&mut self, at: Instant, slot: u32, net: &mut impl Network) {
        self.timers += 1;
        net.set_timer(at, self.number, Timer::Conversation(slot));
    }

    /// Handles the expired timer of the conversation. Returns the end that performed the action and may now have data
    /// to send.
    pub(crate) fn on_conversation_timer(&mut self, now: Instant) -> Side {
        self.timers -= 1;
        let counted = self.counted();
        let conversation = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut());
        let (Some(conversation), Ends::Tcp(ends)) = (conversation, &mut self.ends) else {
            unreachable!("only a conversation sets this timer")
        };
        conversation.act(ends, counted, now)
    }

    /// Handles the arrival of a request, or of a part of a request that may complete the request.
    #[inline(never)]
    pub(crate) fn on_request(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let sender = &mut ends[Side::Sender as usize];
        let received = sender.received();
        let Some(conversation) = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut()) else {
            self.exchanging = Exchanging::Idle;
            sender.write(self.transfer.bytes(), now);
            return sender.finish();
        };
        if let Some(think) = conversation.on_request(received) {
            self.exchanging = Exchanging::Idle;
            self.set_conversation_timer(now + think, slot, net);
        }
    }

    /// Begins the next exchange, if any, after a response has arrived. An exchange begins with the client's pause.
    pub(crate) fn begin_next_exchange(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let host = Transfer::from(self.transfer).host;
        let Some(conversation) = self.conversation_mut() else { return };
        let Some(next) = conversation.begin_next_exchange() else { return };
        self.transfer = conversation.transfer(host).into();
        self.exchanging = Exchanging::AwaitsRequest;
        self.goal += next.response;
        (self.first_byte, self.completed) = (Instant::NEVER, Instant::NEVER);
        self.set_conversation_timer(now + next.pause, slot, net);
    }

    /// Starts the measurement interval by storing the current counts, so that they can be excluded later.
    pub(crate) fn begin_measuring(&mut self) {
        let counted = self.counted();
        self.cold.get_or_insert_default().before = counted;
    }

    pub(crate) fn row(&self, measured: Span) -> FlowRow {
        let before = self.cold.as_ref().map_or(Counted::default(), |cold| cold.before);
        let counts = self.counted().since(before);
        let (late, remaining) = self
            .conversation()
            .map_or((Span::ZERO, 0), |conversation| (conversation.late, conversation.remaining_bytes()));
        FlowRow {
            flow: self.number.into(),
            traffic: self.traffic,
            start_s: self.opened.earlier_by(late).seconds(),
            end_s: known(self.closed).map(Instant::seconds),
            size_bytes: self.transfer.bytes().map(|_| self.goal + remaining),
            delivered_bytes: counts.delivered,
            goodput_bps: counts.delivered as f64 * 8.0 / measured.seconds(),
            packets_sent: counts.sent,
            packets_dropped: counts.dropped,
            packets_marked: counts.marked,
            retransmitted: counts.retransmitted,
            timeouts: Some(counts.timeouts),
            fast_retransmits: Some(counts.fast_retransmits),
            datagrams_received: matches!(self.ends, Ends::Datagrams { .. }).then_some(counts.received.count),
            mean_delay_s: counts.received.mean_delay_s(),
        }
    }

    /// Returns the row of a stream of a conversation; `None` for the handshake. The counts are those of the connection
    /// since the request.
    pub(crate) fn stream_row(
        &self,
        stream: StreamNumber,
        segments: impl Fn(u64) -> u64,
    ) -> Option<TransferRow> {
        let state = self.multiplexing()?;
        let transfer = state.transfer(stream)?;
        let stream = state.stream(stream);
        let Ends::Tcp(ends) = &self.ends else { return None };
        let bytes = transfer.bytes?;
        let counts = self.counted().since(stream.before);
        let after = |at: Instant| known(at).map(|at| at.since(stream.requested_at).seconds());
        let handshake = ends[Side::Receiver as usize].counts().handshake_done;
        Some(TransferRow {
            start_s: stream.requested_at.seconds(),
            segments: segments(bytes),
            handshake_s: handshake.filter(|&at| at >= stream.requested_at).and_then(after),
            first_byte_s: after(stream.first_byte),
            duration_s: after(stream.completed),
            complete: known(stream.completed).is_some(),
            ..self.row_of(transfer.page, bytes, counts)
        })
    }

    /// Returns the row of a transfer of `bytes` bytes with the counts of the transfer and without times.
    pub(crate) fn row_of(&self, page: Option<u64>, bytes: u64, counts: Counted) -> TransferRow {
        TransferRow {
            flow: self.number.into(),
            traffic: self.traffic,
            page,
            start_s: 0.0,
            size_bytes: bytes,
            segments: 0,
            handshake_s: None,
            first_byte_s: None,
            duration_s: None,
            acknowledged_s: None,
            packets_sent: counts.sent,
            packets_dropped: counts.dropped,
            packets_marked: counts.marked,
            packets_long: counts.long,
            retransmitted: counts.retransmitted,
            timeouts: Some(counts.timeouts),
            fast_retransmits: Some(counts.fast_retransmits),
            complete: false,
        }
    }

    /// Returns the row of a transfer, or of the current exchange of a conversation. `acknowledged` is the time at which
    /// the last byte was acknowledged, and `segments` returns the number of segments for a given number of bytes.
    /// Returns `None` for an endless transfer, and for an exchange whose request was not sent.
    pub(crate) fn transfer_row(
        &self,
        acknowledged: Instant,
        segments: impl Fn(u64) -> u64,
    ) -> Option<TransferRow> {
        let transfer = Transfer::from(self.transfer);
        let (Ends::Tcp(ends), Some(bytes)) = (&self.ends, transfer.bytes) else { return None };
        if self.exchanging == Exchanging::Streams
            || self.conversation().is_some_and(ConversationState::is_handshake)
        {
            return None;
        }
        let opener = if transfer.request.is_some() { Side::Receiver } else { Side::Sender };
        let (requested_at, late, before) =
            self.conversation().map_or((self.opened, Span::ZERO, Counted::default()), |conversation| {
                (conversation.requested_at, conversation.late, conversation.before)
            });
        let requested_at = known(requested_at)?;
        let counts = self.counted().since(before);
        let after = |moment: Option<Instant>| moment.map(|at| at.since(requested_at).seconds());
        // A later exchange uses an established connection and therefore has no handshake.
        let handshake = ends[opener as usize].counts().handshake_done.filter(|&at| at >= requested_at);
        Some(TransferRow {
            start_s: requested_at.earlier_by(late).seconds(),
            segments: segments(bytes),
            handshake_s: after(handshake),
            first_byte_s: after(known(self.first_byte)),
            duration_s: after(known(self.completed)),
            acknowledged_s: after(known(acknowledged)),
            complete: known(self.completed).is_some(),
            ..self.row_of(transfer.page, bytes, counts)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aqm_queue::QueueDiscipline;

    use super::*;
    use crate::network::{HostEvent, LinkSnapshot};
    use crate::results::recorder::Recorder;
    use crate::scenario::edges::Edges;

    #[test]
    fn a_flow_is_four_cache_lines_of_which_each_end_is_one() {
        assert_eq!((size_of::<Flow>(), size_of::<Endpoint>()), (256, 64));
        assert_eq!(Flow::parts(Side::Sender), [0..64, 64..128]);
        assert_eq!(Flow::parts(Side::Receiver), [0..64, 128..192]);
    }

    /// A network that records packets, by their first hop, and the entries of the event queue.
    #[derive(Default)]
    struct RecordingNetwork {
        packets: Vec<Packet>,
        timers: Vec<(Instant, Timer)>,
    }

    impl Network for RecordingNetwork {
        fn send(&mut self, packet: Packet, _now: Instant, _transit: &mut InTransit) {
            self.packets.push(packet);
        }
        fn set_timer(&mut self, at: Instant, _flow: u32, timer: Timer) {
            self.timers.push((at, timer));
        }
        fn hold(&mut self, _packet: Packet, _until: Instant) {}
        fn next(&mut self, _: Instant, _: &mut Packet, _: &mut InTransit) -> Option<(Instant, HostEvent)> {
            None
        }
        fn catch_up(&mut self, _now: Instant, _transit: &mut InTransit) {}
        fn snapshot(&mut self, _now: Instant) -> Vec<LinkSnapshot> {
            Vec::new()
        }
        fn glance(&self) -> Vec<LinkSnapshot> {
            Vec::new()
        }
        fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
            std::iter::empty()
        }
        fn edges(&mut self) -> &mut Edges {
            unreachable!("a flow does not use edges")
        }
        fn events(&self) -> u64 {
            0
        }
    }

    /// A flow of 5000 bytes, with a network that records its packets.
    struct Rig {
        flow: Flow,
        net: RecordingNetwork,
        transit: InTransit,
    }

    fn millis(count: u64) -> Instant {
        Instant::START + Span::from_millis(count)
    }

    impl Rig {
        /// Creates a connection that is opened immediately by the sender.
        fn new() -> Self {
            let tcp = Arc::new(aqm_tcp::Config::default().build().unwrap());
            let mut ends = [tcp.endpoint(), tcp.endpoint()];
            let [sender, receiver] = &mut ends;
            sender.write(Some(5000), Instant::START);
            sender.finish();
            receiver.listen(Instant::START);
            sender.open(Instant::START);
            let transfer =
                Transfer { bytes: Some(5000), request: None, page: None, page_objects: 1, host: 0 };
            let flow = Flow {
                number: 7,
                traffic: 0,
                first_hop: [10, 20],
                in_flight: 0,
                timers: 0,
                sampled: false,
                exchanging: Exchanging::Idle,
                timer_at: [Instant::NEVER; 2],
                first_byte: Instant::NEVER,
                completed: Instant::NEVER,
                goal: 5000,
                ends: Ends::Tcp(ends),
                closed: Instant::NEVER,
                opened: Instant::START,
                transfer: transfer.into(),
                dropped: 0,
                marked: 0,
                long: 0,
                cold: None,
            };
            let transit = InTransit::new(Recorder::new(false, vec![false]));
            Self { flow, net: RecordingNetwork::default(), transit }
        }

        fn pump(&mut self, side: Side, now: Instant) {
            self.flow.pump::<false>((side, 3), now, &mut self.net, &mut self.transit);
        }

        /// Delivers all packets in transit at `now`. Afterwards, the packets sent in response are in transit.
        fn arrive(&mut self, now: Instant) {
            for packet in std::mem::take(&mut self.net.packets) {
                let payload = self.transit.payloads.take(packet.id);
                self.flow.in_flight -= 1;
                let (Contents::Segment(segment), Ends::Tcp(ends)) = (payload.contents, &mut self.flow.ends)
                else {
                    panic!("a connection sends segments")
                };
                ends[payload.to as usize].on_segment(&segment, now);
                self.pump(payload.to, now);
            }
        }
    }

    #[test]
    fn a_packet_starts_at_the_first_hop_of_its_sending_end() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        let syn = rig.net.packets[0];
        assert_eq!((syn.hop, syn.flow, rig.flow.in_flight), (10, 7, 1));
        assert_eq!(rig.transit.payloads.address(syn.id), (3, Side::Receiver));
        rig.arrive(millis(50));
        let syn_ack = rig.net.packets[0];
        assert_eq!((syn_ack.hop, rig.flow.in_flight), (20, 1));
        assert_eq!(rig.transit.payloads.address(syn_ack.id), (3, Side::Sender));
    }

    #[test]
    fn all_packets_but_bare_acknowledgements_report_the_window() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        let mut counts = [0, 0];
        for step in 1..=20 {
            for packet in &rig.net.packets {
                let Contents::Segment(segment) = rig.transit.payloads.get(packet.id).contents else {
                    panic!("a connection sends segments")
                };
                assert_eq!(packet.window().is_some(), carries(&segment), "{segment:?}");
                counts[usize::from(carries(&segment))] += 1;
            }
            rig.arrive(millis(50 * step));
        }
        assert!(counts[0] > 1 && counts[1] > 5, "{counts:?}");
    }

    #[test]
    fn a_postponed_deadline_adds_no_entry_until_the_early_entry_is_due() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        let entry = rig.flow.timer_at[Side::Sender as usize];
        assert_eq!(rig.net.timers, [(entry, Timer::End(Side::Sender, 3))]);
        rig.arrive(millis(50));
        rig.arrive(millis(100));
        let Ends::Tcp(ends) = &rig.flow.ends else { panic!("it is a connection") };
        let deadline = ends[Side::Sender as usize].poll_timeout().unwrap();
        assert!(deadline > entry, "data was sent after the SYN");
        let of_sender =
            |rig: &Rig| rig.net.timers.iter().filter(|(_, t)| *t == Timer::End(Side::Sender, 3)).count();
        assert_eq!(of_sender(&rig), 1);
        let timers = rig.flow.timers;
        assert!(!rig.flow.is_due(Side::Sender, 3, entry, &mut rig.net), "the deadline is later");
        assert_eq!((rig.flow.timers, rig.flow.timer_at[Side::Sender as usize]), (timers, deadline));
        assert_eq!(rig.net.timers.last(), Some(&(deadline, Timer::End(Side::Sender, 3))));
        assert!(rig.flow.is_due(Side::Sender, 3, deadline, &mut rig.net));
        assert_eq!((rig.flow.timers, rig.flow.timer_at[Side::Sender as usize]), (timers - 1, Instant::NEVER));
    }

    #[test]
    fn a_replaced_entry_has_no_effect() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        let entry = rig.flow.timer_at[Side::Sender as usize];
        rig.flow.arm(Side::Sender, 3, Some(millis(10)), &mut rig.net);
        assert_eq!((rig.flow.timers, rig.flow.timer_at[Side::Sender as usize]), (2, millis(10)));
        assert!(!rig.flow.is_due(Side::Sender, 3, entry, &mut rig.net));
        assert_eq!(rig.flow.timer_at[Side::Sender as usize], millis(10), "the valid entry remains");
    }

    #[test]
    fn a_flow_is_over_when_it_is_closed_without_packets_and_entries() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        for step in 1..=20 {
            rig.arrive(millis(50 * step));
        }
        assert!(rig.flow.closed < millis(1000) && rig.flow.in_flight == 0);
        assert!(rig.flow.is_acknowledged());
        assert!(!rig.flow.is_over(), "the event queue still has an entry of the flow");
        let Rig { flow, net, .. } = &mut rig;
        for (at, timer) in std::mem::take(&mut net.timers) {
            let Timer::End(side, slot) = timer else { panic!("{timer:?} is not a timer of an end") };
            flow.is_due(side, slot, at, net);
        }
        assert!(flow.is_over());
    }

    #[test]
    fn the_row_of_a_flow_counts_from_the_end_of_the_warm_up() {
        let mut rig = Rig::new();
        rig.pump(Side::Sender, Instant::START);
        rig.flow.dropped = 2;
        rig.flow.begin_measuring();
        rig.flow.dropped = 5;
        for step in 1..=20 {
            rig.arrive(millis(50 * step));
        }
        let row = rig.flow.row(Span::from_millis(4000));
        assert_eq!((row.packets_dropped, row.delivered_bytes, row.goodput_bps), (3, 5000, 10_000.0));
        let transfer = rig.flow.transfer_row(millis(900), |bytes| bytes / 1000).unwrap();
        assert_eq!(
            (transfer.packets_dropped, transfer.segments),
            (5, 5),
            "the counts of a transfer include the warm-up"
        );
        assert_eq!(transfer.packets_sent, row.packets_sent + 1, "the SYN was sent before");
        assert_eq!((transfer.acknowledged_s, transfer.handshake_s), (Some(0.9), Some(0.1)));
    }
}
