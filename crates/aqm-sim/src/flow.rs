//! One flow: its two ends, where its packets go, and what is counted about it.

use std::mem::offset_of;
use std::ops::Range;

use aqm_net::{Instant, Packet, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::{Conversation, Transfer};

use crate::conversation::{ConversationState, transfer};
use crate::counts::{Arrived, Counted};
use crate::event::Timer;
use crate::network::Network;
use crate::payloads::{Contents, Payload};
use crate::recorder::carries;
use crate::side::Side;
use crate::tables::{FlowRow, TransferRow};
use crate::transit::InTransit;

/// What stands at the two ends. A connection lives in place, though streams of datagrams waste the
/// room: there are few of those.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Ends {
    /// A connection, its ends by side.
    Tcp([Endpoint; 2]),
    /// A stream of datagrams.
    Datagrams { sent: u64, arrived: Arrived },
}

/// The fields stand in the order of use: with very many flows the cost of a packet is that of the
/// cache lines it touches.
#[repr(C, align(64))]
pub(crate) struct Flow {
    /// Unique in the run, in the order of opening.
    pub(crate) number: u32,
    /// The position of its workload.
    pub(crate) traffic: u32,
    /// By side, the first hop of the packets that this end sends.
    pub(crate) first_hop: [u32; 2],
    /// Packets under way, in both directions.
    pub(crate) in_flight: u32,
    /// Entries of the event queue that will call it.
    pub(crate) timers: u16,
    /// Whether its sender's state is sampled.
    pub(crate) sampled: bool,
    /// Whether the request it waits for has not arrived.
    pub(crate) asked_for: bool,
    /// By side, when the entry that counts calls it; `NEVER` without one.
    pub(crate) timer_at: [Instant; 2],
    /// When the first payload byte, and when the last one arrived; `NEVER` until then.
    pub(crate) first_byte: Instant,
    pub(crate) completed: Instant,
    /// How many payload bytes complete it; more than ever arrive if it does not end.
    pub(crate) goal: u64,
    pub(crate) ends: Ends,
    /// When its connection was closed, or given up; `NEVER` until then.
    pub(crate) closed: Instant,
    /// By side, how long a packet that arrives there is delayed before the host processes it.
    pub(crate) extra_delay: [Span; 2],
    /// By side, when the host has processed the last packet that arrived.
    pub(crate) processed_at: [Instant; 2],
    pub(crate) opened: Instant,
    pub(crate) transfer: Transfer,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Packets that arrived where the data goes in the class of long flows.
    pub(crate) long: u64,
    /// State that few flows have.
    pub(crate) cold: Option<Box<ColdState>>,
}

/// State that is kept apart from its flow, because few flows have it.
#[derive(Default)]
pub(crate) struct ColdState {
    /// What was counted when the measurement began; nothing if it was opened later.
    pub(crate) before: Counted,
    pub(crate) conversation: Option<Box<ConversationState>>,
}

/// A moment, unless it has not come.
fn came(at: Instant) -> Option<Instant> {
    (at != Instant::NEVER).then_some(at)
}

impl ColdState {
    /// Whether a conversation has exchanges after the present one.
    pub(crate) fn goes_on(&self) -> bool {
        self.conversation.as_ref().is_some_and(|conversation| conversation.goes_on())
    }
}

impl Flow {
    /// Which of its bytes a packet needs that arrives on a `side` of it.
    pub(crate) const fn parts(side: Side) -> [Range<usize>; 2] {
        let ends = offset_of!(Self, ends);
        let end = ends + side as usize * size_of::<Endpoint>();
        [0..ends, end..end + size_of::<Endpoint>()]
    }

    /// All that was counted so far.
    pub(crate) fn counted(&self) -> Counted {
        let (dropped, marked) = (self.dropped, self.marked);
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
                    long: self.long,
                    arrived: Arrived::default(),
                }
            }
            &Ends::Datagrams { sent, arrived } => {
                Counted { delivered: arrived.bytes, sent, dropped, marked, arrived, ..Counted::default() }
            }
        }
    }

    /// Whether nothing of it is left anywhere, so that its slot can be used again.
    pub(crate) fn is_over(&self) -> bool {
        self.in_flight == 0 && self.timers == 0 && self.closed != Instant::NEVER
    }

    /// Whether its sender knows that all it was opened for has arrived. Not asked of a conversation, whose ends
    /// have clocks of their own.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let Ends::Tcp(ends) = &self.ends else { return false };
        ends[Side::Sender as usize].acknowledged() >= self.goal && self.conversation().is_none()
    }

    /// Sends what the end on `side` wants to send, and sets its timer.
    #[inline]
    pub(crate) fn pump(
        &mut self,
        (side, slot): (Side, u32),
        now: Instant,
        net: &mut impl Network,
        transit: &mut InTransit,
    ) {
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let end = &mut ends[side as usize];
        let (hop, to) = (self.first_hop[side as usize], side.other());
        while let Some(segment) = end.poll_transmit(now) {
            let packet = Packet {
                id: transit.payloads.put(Payload { contents: Contents::Segment(segment), slot, to }),
                flow: self.number,
                hop,
                bytes: segment.wire,
                // A bare acknowledgement is not what its sender's window governs.
                cwnd: if carries(&segment) { end.window_hint() } else { 0 },
                ecn: segment.ecn,
                class: 0,
                label: self.traffic as u16,
            };
            self.in_flight += 1;
            transit.note_sent(&packet, now);
            net.send(packet, now, transit);
        }
        let deadline = end.poll_timeout();
        if (end.is_done() || end.gave_up().is_some()) && self.closed == Instant::NEVER {
            let over = |end: &Endpoint| end.is_done() || end.gave_up().is_some();
            if ends.iter().all(over) || ends.iter().any(|end| end.gave_up().is_some()) {
                self.closed = now;
            }
        }
        self.arm(side, slot, deadline, net);
    }

    /// Sees to it that the end on `side` is called at `deadline` or before. An entry of the event queue that
    /// comes too early is set again when it does, so that a deadline that moves with every packet costs nothing.
    fn arm(&mut self, side: Side, slot: u32, deadline: Option<Instant>, net: &mut impl Network) {
        if let Some(at) = deadline
            && at < self.timer_at[side as usize]
        {
            self.timer_at[side as usize] = at;
            self.timers += 1;
            net.set_timer(at, self.number, Timer::End(side, slot));
        }
    }

    /// The event queue calls the end on `side`: whether a timer of it expires now.
    pub(crate) fn is_due(&mut self, side: Side, slot: u32, now: Instant, net: &mut impl Network) -> bool {
        self.timers -= 1;
        if self.timer_at[side as usize] != now {
            return false;
        }
        self.timer_at[side as usize] = Instant::NEVER;
        let deadline = match &self.ends {
            Ends::Tcp(ends) => ends[side as usize].poll_timeout(),
            Ends::Datagrams { .. } => None,
        };
        if deadline.is_some_and(|at| at > now) {
            self.arm(side, slot, deadline, net);
            return false;
        }
        deadline.is_some()
    }

    /// Its conversation, if it has one.
    pub(crate) fn conversation(&self) -> Option<&ConversationState> {
        self.cold.as_ref()?.conversation.as_deref()
    }

    fn conversation_mut(&mut self) -> Option<&mut ConversationState> {
        self.cold.as_mut()?.conversation.as_deref_mut()
    }

    /// Begins a conversation on a connection that is not open yet; the client opens it later.
    pub(crate) fn converse(&mut self, conversation: Conversation) {
        let delays = [conversation.server_delay, conversation.client_delay];
        for (extra_delay, delay) in self.extra_delay.iter_mut().zip(delays) {
            *extra_delay = *extra_delay + delay.saturating_mul(2);
        }
        self.opened += conversation.client_delay;
        let state = ConversationState::new(conversation, self.opened);
        self.cold.get_or_insert_default().conversation = Some(Box::new(state));
    }

    /// Sets the timer of what the conversation does next.
    pub(crate) fn set_conversation_timer(&mut self, at: Instant, slot: u32, net: &mut impl Network) {
        self.timers += 1;
        net.set_timer(at, self.number, Timer::Conversation(slot));
    }

    /// The timer of the conversation expires: an end acts, and has something to send.
    pub(crate) fn on_conversation_timer(&mut self, now: Instant) -> Side {
        self.timers -= 1;
        let counted = self.counted();
        let conversation = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut());
        let (Some(conversation), Ends::Tcp(ends)) = (conversation, &mut self.ends) else {
            unreachable!("only a conversation sets this timer")
        };
        conversation.act(ends, counted, now)
    }

    /// The request, or a part of it that may be all, has arrived.
    pub(crate) fn on_request(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let sender = &mut ends[Side::Sender as usize];
        let received = sender.received();
        let Some(conversation) = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut()) else {
            self.asked_for = false;
            sender.write(self.transfer.bytes, now);
            return sender.finish();
        };
        if let Some(think) = conversation.on_request(received) {
            self.asked_for = false;
            self.set_conversation_timer(now + think, slot, net);
        }
    }

    /// The response has arrived and another exchange follows: the client pauses before it.
    pub(crate) fn begin_next_exchange(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let Some(conversation) = self.conversation_mut() else { return };
        let Some(next) = conversation.begin_next_exchange() else { return };
        let requested = conversation.requested();
        self.transfer = transfer(&next, requested, self.transfer.host);
        self.asked_for = true;
        self.goal += next.response;
        (self.first_byte, self.completed) = (Instant::NEVER, Instant::NEVER);
        self.set_conversation_timer(now + next.pause, slot, net);
    }

    /// Keeps what was counted so far as what came before the measurement.
    pub(crate) fn begin_measuring(&mut self) {
        let counted = self.counted();
        self.cold.get_or_insert_default().before = counted;
    }

    pub(crate) fn row(&self, measured: Span) -> FlowRow {
        let before = self.cold.as_ref().map_or(Counted::default(), |cold| cold.before);
        let found = self.counted().since(before);
        let (late, to_come) = self
            .conversation()
            .map_or((Span::ZERO, 0), |conversation| (conversation.late, conversation.bytes_to_come()));
        FlowRow {
            flow: self.number.into(),
            traffic: self.traffic,
            start_s: self.opened.earlier_by(late).seconds(),
            end_s: came(self.closed).map(Instant::seconds),
            size_bytes: self.transfer.bytes.map(|_| self.goal + to_come),
            delivered_bytes: found.delivered,
            goodput_bps: found.delivered as f64 * 8.0 / measured.seconds(),
            packets_sent: found.sent,
            packets_dropped: found.dropped,
            packets_marked: found.marked,
            retransmitted: found.retransmitted,
            timeouts: found.timeouts,
            fast_retransmits: found.fast_retransmits,
            datagrams_received: matches!(self.ends, Ends::Datagrams { .. }).then_some(found.arrived.count),
            mean_delay_s: (found.arrived.count > 0)
                .then(|| found.arrived.travelled.seconds() / found.arrived.count as f64),
        }
    }

    /// The row of a transfer of a given size, whose last byte was acknowledged at `acknowledged`, or of the
    /// present exchange of a conversation once its request was sent. `segments` is what so many bytes need.
    pub(crate) fn transfer_row(
        &self,
        acknowledged: Instant,
        segments: impl Fn(u64) -> u64,
    ) -> Option<TransferRow> {
        let (Ends::Tcp(ends), Some(bytes)) = (&self.ends, self.transfer.bytes) else { return None };
        let opener = if self.transfer.request.is_some() { Side::Receiver } else { Side::Sender };
        let (asked, late, before) =
            self.conversation().map_or((self.opened, Span::ZERO, Counted::default()), |conversation| {
                (conversation.asked, conversation.late, conversation.before)
            });
        let asked = came(asked)?;
        let found = self.counted().since(before);
        let after = |moment: Option<Instant>| moment.map(|at| at.since(asked).seconds());
        // A later exchange meets a connection that stands.
        let handshake = ends[opener as usize].counts().handshake_done.filter(|&at| at >= asked);
        Some(TransferRow {
            flow: self.number.into(),
            traffic: self.traffic,
            page: self.transfer.page,
            start_s: asked.earlier_by(late).seconds(),
            size_bytes: bytes,
            segments: segments(bytes),
            handshake_s: after(handshake),
            first_byte_s: after(came(self.first_byte)),
            duration_s: after(came(self.completed)),
            acknowledged_s: after(came(acknowledged)),
            packets_sent: found.sent,
            packets_dropped: found.dropped,
            packets_marked: found.marked,
            packets_long: found.long,
            retransmitted: found.retransmitted,
            timeouts: found.timeouts,
            fast_retransmits: found.fast_retransmits,
            complete: came(self.completed).is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_takes_less_than_a_kibibyte() {
        // Beside it a congestion control at each end, of at most 100 bytes, and its places in lists.
        assert!(size_of::<Flow>() <= 832, "{} with ends of {}", size_of::<Flow>(), size_of::<Endpoint>());
    }
}
