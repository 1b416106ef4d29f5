//! One flow: its two ends, where its packets go, and what is counted about it.

use std::mem::offset_of;
use std::ops::Range;

use aqm_net::{Instant, Packet, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::Transfer;

use crate::conversation::ConversationState;
use crate::event_queue::Timer;
use crate::network::Network;
use crate::recorder::{Payload, Recorder, carries};
use crate::tables::{FlowRow, TransferRow};

/// What stands at the two ends. A connection lives in place, though streams of datagrams waste the
/// room: there are few of those.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Ends {
    /// A connection, its ends by side.
    Tcp([Endpoint; 2]),
    /// A stream of datagrams.
    Datagrams { sent: u64, arrived: Arrived },
}

/// Datagrams that arrived.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrived {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// The sum of their times on the way.
    pub(crate) travelled: Span,
}

impl Arrived {
    fn since(self, before: Self) -> Self {
        Self {
            count: self.count - before.count,
            bytes: self.bytes - before.bytes,
            travelled: self.travelled - before.travelled,
        }
    }
}

/// What was counted by some moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) delivered: u64,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) fast_retransmits: u64,
    pub(crate) long: u64,
    pub(crate) arrived: Arrived,
}

impl Counted {
    /// What was counted after `before`.
    fn since(self, before: Self) -> Self {
        Self {
            delivered: self.delivered - before.delivered,
            sent: self.sent - before.sent,
            dropped: self.dropped - before.dropped,
            marked: self.marked - before.marked,
            retransmitted: self.retransmitted - before.retransmitted,
            timeouts: self.timeouts - before.timeouts,
            fast_retransmits: self.fast_retransmits - before.fast_retransmits,
            long: self.long - before.long,
            arrived: self.arrived.since(before.arrived),
        }
    }
}

/// A side of a flow, the index of its arrays: where the data of a transfer comes from, and where it
/// goes. Requests go the other way.
pub(crate) const SENDER: usize = 0;
pub(crate) const RECEIVER: usize = 1;

/// The fields stand in the order of use: with very many flows the cost of a packet is that of the
/// cache lines it touches.
#[repr(C, align(64))]
pub(crate) struct Flow {
    /// Unique in the run, in the order of opening.
    pub(crate) number: u32,
    /// The position of its workload.
    pub(crate) traffic: u32,
    /// Where its packets begin their way, and those that come back.
    pub(crate) forward: u32,
    pub(crate) back: u32,
    pub(crate) in_flight: u32,
    /// Alarms in the agenda, and by side the one that counts.
    pub(crate) timers: u16,
    pub(crate) gauged: bool,
    /// Whether the request it waits for has not arrived.
    pub(crate) asked_for: bool,
    pub(crate) timer_at: [Instant; 2],
    /// When the first payload byte, and when the last one arrived; `NEVER` until then.
    pub(crate) first_byte: Instant,
    pub(crate) completed: Instant,
    /// How many payload bytes complete it; more than ever arrive if it does not end.
    pub(crate) goal: u64,
    pub(crate) ends: Ends,
    /// When its connection was closed, or given up; `NEVER` until then.
    pub(crate) closed: Instant,
    /// By side, how long a packet that arrives there is held up before.
    pub(crate) extra_delay: [Span; 2],
    /// By side, when the host is through with the last packet it was given.
    pub(crate) processed_at: [Instant; 2],
    pub(crate) opened: Instant,
    pub(crate) transfer: Transfer,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Packets that arrived where the data goes in the class of long flows.
    pub(crate) long: u64,
    /// What few flows have.
    pub(crate) cold: Option<Box<ColdState>>,
}

/// What is kept beside a flow, because few flows have it.
#[derive(Default)]
pub(crate) struct ColdState {
    /// What was counted when the measurement began; nothing if it was opened later.
    pub(crate) before: Counted,
    pub(crate) conversation: Option<Box<ConversationState>>,
}

/// A moment that may not have come.
fn came(at: Instant) -> Option<Instant> {
    (at != Instant::NEVER).then_some(at)
}

impl Flow {
    /// Which of its bytes a packet needs that arrives on a `side` of it.
    pub(crate) const fn parts(side: usize) -> [Range<usize>; 2] {
        let ends = offset_of!(Self, ends);
        let end = ends + side * size_of::<Endpoint>();
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
        ends[SENDER].acknowledged() >= self.goal && self.conversation().is_none()
    }

    /// Sends what the end on `side` wants to send, and sets its alarm.
    #[inline]
    pub(crate) fn pump(
        &mut self,
        (side, slot): (usize, u32),
        now: Instant,
        net: &mut impl Network,
        recorder: &mut Recorder,
    ) {
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let end = &mut ends[side];
        let (hop, timer) = match side {
            SENDER => (self.forward, Timer::Sender(slot)),
            _ => (self.back, Timer::Receiver(slot)),
        };
        while let Some(segment) = end.poll_transmit(now) {
            let packet = Packet {
                id: recorder.payloads.put(Payload { segment, slot, forward: side == SENDER }),
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
            if recorder.has_history(&packet) {
                recorder.note_sent(&packet, now);
            }
            net.send(packet, now, recorder);
        }
        let deadline = end.poll_timeout();
        if (end.is_done() || end.gave_up().is_some()) && self.closed == Instant::NEVER {
            let over = |end: &Endpoint| end.is_done() || end.gave_up().is_some();
            if ends.iter().all(over) || ends.iter().any(|end| end.gave_up().is_some()) {
                self.closed = now;
            }
        }
        self.arm(side, timer, deadline, net);
    }

    /// Sees to it that an alarm goes off at `deadline` or before. An alarm that comes too early is
    /// set again when it does, so that a timer that moves with every packet costs nothing.
    fn arm(&mut self, side: usize, timer: Timer, deadline: Option<Instant>, net: &mut impl Network) {
        if let Some(at) = deadline
            && at < self.timer_at[side]
        {
            self.timer_at[side] = at;
            self.timers += 1;
            net.set_timer(at, self.number, timer);
        }
    }

    /// An alarm went off: whether a timer is really due.
    pub(crate) fn is_due(&mut self, side: usize, timer: Timer, now: Instant, net: &mut impl Network) -> bool {
        self.timers -= 1;
        if self.timer_at[side] != now {
            return false;
        }
        self.timer_at[side] = Instant::NEVER;
        let deadline = match &self.ends {
            Ends::Tcp(ends) => ends[side].poll_timeout(),
            Ends::Datagrams { .. } => None,
        };
        if deadline.is_some_and(|at| at > now) {
            self.arm(side, timer, deadline, net);
            return false;
        }
        deadline.is_some()
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
            .map_or((Span::ZERO, 0), |conversation| (conversation.late, conversation.to_come()));
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

    /// The row of a transfer of a given size, whose last byte was `acknowledged` then, or of the present
    /// exchange of a conversation once it is asked for.
    pub(crate) fn transfer_row(
        &self,
        acknowledged: Instant,
        segments: impl Fn(u64) -> u64,
    ) -> Option<TransferRow> {
        let (Ends::Tcp(ends), Some(bytes)) = (&self.ends, self.transfer.bytes) else { return None };
        let opener = &ends[if self.transfer.request.is_some() { RECEIVER } else { SENDER }];
        let (asked, late, before) =
            self.conversation().map_or((self.opened, Span::ZERO, Counted::default()), |conversation| {
                (conversation.asked, conversation.late, conversation.before)
            });
        let asked = came(asked)?;
        let found = self.counted().since(before);
        let after = |moment: Option<Instant>| moment.map(|at| at.since(asked).seconds());
        // A later exchange meets a connection that stands.
        let handshake = opener.counts().handshake_done.filter(|&at| at >= asked);
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
        // Beside it a law of the window at each end, of at most 100 bytes, and its places in lists.
        assert!(size_of::<Flow>() <= 832, "{} with ends of {}", size_of::<Flow>(), size_of::<Endpoint>());
    }
}
