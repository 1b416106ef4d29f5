//! One flow: its two ends, where its packets go, and what is counted about it.

use aqm_net::{Ecn, Instant, Packet, Span};
use aqm_tcp::{Receiver, Sender};
use aqm_traffic::Transfer;

use crate::agenda::Alarm;
use crate::ledger::{Ledger, Parcel};
use crate::network::Network;
use crate::tables::{FlowRow, TransferRow};

/// What stands at the two ends. A sender lives in place, though streams of datagrams waste the room:
/// there are few of those.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Ends {
    /// A connection.
    Tcp { sender: Sender, receiver: Receiver },
    /// A stream of datagrams.
    Datagrams { sent: u64, arrived_bytes: u64 },
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
}

/// A side of a flow: the index of its arrays.
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
    pub(crate) alarms: u16,
    pub(crate) gauged: bool,
    pub(crate) alarm_at: [Instant; 2],
    /// When the first payload byte, and when the last one arrived; `NEVER` until then.
    pub(crate) first_byte: Instant,
    pub(crate) completed: Instant,
    /// When its connection was closed, or given up; `NEVER` until then.
    pub(crate) closed: Instant,
    pub(crate) ends: Ends,
    /// One way, in each direction.
    pub(crate) extra_delay: Span,
    /// By side, when the host is through with the last packet it was given.
    pub(crate) processed_at: [Instant; 2],
    pub(crate) opened: Instant,
    pub(crate) transfer: Transfer,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// What was counted when the measurement began.
    pub(crate) before: Counted,
}

/// A moment that may not have come.
fn came(at: Instant) -> Option<Instant> {
    (at != Instant::NEVER).then_some(at)
}

impl Flow {
    /// All that was counted so far.
    pub(crate) fn counted(&self) -> Counted {
        let (dropped, marked) = (self.dropped, self.marked);
        match &self.ends {
            Ends::Tcp { sender, receiver } => {
                let counts = sender.counts();
                Counted {
                    delivered: receiver.delivered(),
                    sent: counts.segments_sent,
                    dropped,
                    marked,
                    retransmitted: counts.retransmitted,
                    timeouts: counts.timeouts.into(),
                }
            }
            Ends::Datagrams { sent, arrived_bytes } => {
                Counted { delivered: *arrived_bytes, sent: *sent, dropped, marked, ..Counted::default() }
            }
        }
    }

    /// Whether nothing of it is left anywhere, so that its slot can be used again.
    pub(crate) fn is_over(&self) -> bool {
        self.closed != Instant::NEVER && self.in_flight == 0 && self.alarms == 0
    }

    /// Sends what the sender wants to send, and sets its alarm.
    pub(crate) fn pump_sender(
        &mut self,
        slot: u32,
        now: Instant,
        net: &mut impl Network,
        ledger: &mut Ledger,
    ) {
        let Ends::Tcp { sender, .. } = &mut self.ends else { return };
        while let Some(segment) = sender.poll_transmit(now) {
            let packet = Packet {
                id: ledger.parcels.put(Parcel { segment, slot, with_data: true }),
                flow: self.number,
                hop: self.forward,
                bytes: segment.wire,
                cwnd: sender.window_hint(),
                ecn: Ecn::NotEct,
                class: 0,
            };
            self.in_flight += 1;
            net.send(packet, now, ledger);
        }
        let deadline = sender.poll_timeout();
        if self.closed == Instant::NEVER && (sender.is_done() || sender.gave_up().is_some()) {
            self.closed = now;
        }
        self.arm(SENDER, Alarm::Sender(slot), deadline, net);
    }

    /// Sends what the receiver wants to send, and sets its alarm.
    pub(crate) fn pump_receiver(
        &mut self,
        slot: u32,
        now: Instant,
        net: &mut impl Network,
        ledger: &mut Ledger,
    ) {
        let Ends::Tcp { receiver, .. } = &mut self.ends else { return };
        while let Some(segment) = receiver.poll_transmit(now) {
            let packet = Packet {
                id: ledger.parcels.put(Parcel { segment, slot, with_data: false }),
                flow: self.number,
                hop: self.back,
                bytes: segment.wire,
                ..Packet::default()
            };
            self.in_flight += 1;
            net.send(packet, now, ledger);
        }
        let deadline = receiver.poll_timeout();
        self.arm(RECEIVER, Alarm::Receiver(slot), deadline, net);
    }

    /// Sees to it that an alarm goes off at `deadline` or before. An alarm that comes too early is
    /// set again when it does, so that a timer that moves with every packet costs nothing.
    fn arm(&mut self, side: usize, alarm: Alarm, deadline: Option<Instant>, net: &mut impl Network) {
        if let Some(at) = deadline
            && at < self.alarm_at[side]
        {
            self.alarm_at[side] = at;
            self.alarms += 1;
            net.alarm(at, self.number, alarm);
        }
    }

    /// An alarm went off: whether a timer is really due.
    pub(crate) fn is_due(&mut self, side: usize, alarm: Alarm, now: Instant, net: &mut impl Network) -> bool {
        self.alarms -= 1;
        if self.alarm_at[side] != now {
            return false;
        }
        self.alarm_at[side] = Instant::NEVER;
        let deadline = match &self.ends {
            Ends::Tcp { sender, .. } if side == SENDER => sender.poll_timeout(),
            Ends::Tcp { receiver, .. } => receiver.poll_timeout(),
            Ends::Datagrams { .. } => None,
        };
        if deadline.is_some_and(|at| at > now) {
            self.arm(side, alarm, deadline, net);
            return false;
        }
        deadline.is_some()
    }

    pub(crate) fn row(&self, measured: Span) -> FlowRow {
        let (all, before) = (self.counted(), &self.before);
        let delivered = all.delivered - before.delivered;
        FlowRow {
            flow: self.number.into(),
            traffic: self.traffic,
            start_s: self.opened.seconds(),
            end_s: came(self.closed).map(Instant::seconds),
            size_bytes: self.transfer.bytes,
            delivered_bytes: delivered,
            goodput_bps: delivered as f64 * 8.0 / measured.seconds(),
            packets_sent: all.sent - before.sent,
            packets_dropped: all.dropped - before.dropped,
            packets_marked: all.marked - before.marked,
            retransmitted: all.retransmitted - before.retransmitted,
            timeouts: all.timeouts - before.timeouts,
        }
    }

    /// The row of a transfer of a given size.
    pub(crate) fn transfer_row(&self, segments: impl Fn(u64) -> u64) -> Option<TransferRow> {
        let (Ends::Tcp { sender, .. }, Some(bytes)) = (&self.ends, self.transfer.bytes) else { return None };
        let all = self.counted();
        let after = |moment: Option<Instant>| moment.map(|at| at.since(self.opened).seconds());
        Some(TransferRow {
            flow: self.number.into(),
            traffic: self.traffic,
            page: self.transfer.page,
            start_s: self.opened.seconds(),
            size_bytes: bytes,
            segments: segments(bytes),
            handshake_s: after(sender.counts().handshake_done),
            first_byte_s: after(came(self.first_byte)),
            duration_s: after(came(self.completed)),
            packets_sent: all.sent,
            packets_dropped: all.dropped,
            packets_marked: all.marked,
            retransmitted: all.retransmitted,
            timeouts: all.timeouts,
            complete: came(self.completed).is_some(),
        })
    }
}
