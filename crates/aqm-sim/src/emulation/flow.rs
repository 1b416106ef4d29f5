//! A flow between outside hosts, as the network sees it: who its packets are for and what is counted about them.

use aqm_net::{Instant, Span};
use aqm_queue::edge::LONG;
use aqm_tcp::{Flags, Segment};
use aqm_traffic::Transfer;

use super::in_order::InOrder;
use super::{Carried, Opening};
use crate::hosts::counts::Counted;
use crate::hosts::side::Side;
use crate::results::tables::{FlowRow, FromClientRow, TransferRow};

/// What the ends of a connection know and the network cannot see.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndCounts {
    /// Retransmission timer expiries; missing if the kernel does not tell.
    pub timeouts: Option<u64>,
    /// Fast retransmits; missing if the kernel does not tell.
    pub fast_retransmits: Option<u64>,
}

/// What is counted of the packets that travel to one end.
#[derive(Default)]
struct Way {
    counted: Counted,
    /// What was counted when the measurement began.
    before: Counted,
    /// Behind the last payload byte that entered.
    sent_to: u64,
    /// Payload that arrived.
    received: InOrder,
}

impl Way {
    /// A segment enters; whether its payload was sent before.
    fn segment_enters(&mut self, segment: &Segment) -> bool {
        self.counted.sent += 1;
        let again = segment.len > 0 && segment.seq < self.sent_to;
        self.counted.retransmitted += u64::from(again);
        self.sent_to = self.sent_to.max(segment.seq + u64::from(segment.len));
        again
    }

    /// A segment arrives; whether more payload is in order than before.
    fn segment_arrives(&mut self, segment: &Segment) -> bool {
        let more = segment.len > 0 && self.received.add(segment.seq, segment.len.into());
        self.counted.delivered = self.received.end();
        more
    }

    /// What was counted since the measurement began.
    fn measured(&self) -> Counted {
        self.counted.since(self.before)
    }
}

/// A flow between outside hosts.
pub(super) struct HostFlow {
    /// Unique in the run, in the order of opening.
    pub(super) number: u32,
    /// The position of its workload.
    pub(super) traffic: u32,
    /// By side, the first hop of the packets that this end sends.
    pub(super) first_hop: [u32; 2],
    /// By side, how long a packet that arrives there is delayed before the host gets it.
    pub(super) extra_delay: [Span; 2],
    /// By side, when the host got the last packet that arrived.
    pub(super) delivered_at: [Instant; 2],
    pub(super) opened: Instant,
    connection: bool,
    /// By the end that its packets travel to.
    ways: [Way; 2],
    /// What was counted to the receiver as each request but the first entered, of a connection with several exchanges.
    requests: Vec<Counted>,
    /// Behind the last payload byte that had entered to the receiver when a request last entered.
    answered_to: u64,
    first_byte: Option<Instant>,
    /// When the payload that has arrived in order last became more.
    received_at: Option<Instant>,
    /// What the sender was told of, and when it became all that had been sent.
    acknowledged: u64,
    acknowledged_at: Option<Instant>,
    /// Who sent the first SYN.
    opener: Option<Side>,
    /// When the opener learnt that the connection stands.
    stands_at: Option<Instant>,
    /// By side, whether it was told that nothing follows.
    finished: [bool; 2],
    /// When both ends were, or one gave up.
    closed: Option<Instant>,
}

impl HostFlow {
    pub(super) fn new(number: u32, opening: &Opening, first_hop: [u32; 2], extra_delay: [Span; 2]) -> Self {
        Self {
            number,
            traffic: opening.traffic,
            first_hop,
            extra_delay,
            delivered_at: [Instant::START; 2],
            opened: opening.at,
            connection: opening.connection,
            ways: Default::default(),
            requests: Vec::new(),
            answered_to: 0,
            first_byte: None,
            received_at: None,
            acknowledged: 0,
            acknowledged_at: None,
            opener: None,
            stands_at: None,
            finished: [false; 2],
            closed: None,
        }
    }

    /// The warm-up is over: what was counted so far does not count.
    pub(super) fn begin_measuring(&mut self) {
        self.ways.iter_mut().for_each(|way| way.before = way.counted);
    }

    /// What is counted of the packets that travel to the receiver.
    fn forward(&self) -> &Way {
        &self.ways[Side::Receiver as usize]
    }

    /// A segment enters the network; whether its payload was sent before.
    pub(super) fn segment_enters(&mut self, segment: &Segment, to: Side) -> bool {
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            self.opener.get_or_insert(to.other());
        }
        if to == Side::Sender {
            self.request_enters(segment);
        }
        self.ways[to as usize].segment_enters(segment)
    }

    /// A segment enters that travels to the sender: if it carries new payload after an answer, it begins a request.
    fn request_enters(&mut self, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        if segment.len == 0 || end <= self.ways[Side::Sender as usize].sent_to {
            return;
        }
        let Way { sent_to, counted, .. } = self.ways[Side::Receiver as usize];
        if sent_to > self.answered_to {
            self.requests.push(counted);
        }
        self.answered_to = sent_to;
    }

    /// A datagram enters the network; its number, counted from zero in its direction.
    pub(super) fn datagram_enters(&mut self, to: Side) -> u64 {
        let sent = &mut self.ways[to as usize].counted.sent;
        *sent += 1;
        *sent - 1
    }

    /// A queue dropped one of its packets.
    pub(super) fn packet_dropped(&mut self, to: Side) {
        self.ways[to as usize].counted.dropped += 1;
    }

    /// A queue marked one of its packets.
    pub(super) fn packet_marked(&mut self, to: Side) {
        self.ways[to as usize].counted.marked += 1;
    }

    /// A host gets a segment of this class.
    pub(super) fn segment_arrives(&mut self, segment: &Segment, to: Side, class: u8, now: Instant) {
        let answers = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        if answers && self.opener == Some(to) {
            self.stands_at.get_or_insert(now);
        }
        if segment.flags.has(Flags::FIN) {
            self.finished[to as usize] = true;
            if self.finished == [true; 2] {
                self.closed.get_or_insert(now);
            }
        }
        let way = &mut self.ways[to as usize];
        way.counted.long += u64::from(class == LONG);
        let more = way.segment_arrives(segment);
        match to {
            Side::Receiver => {
                if segment.len > 0 {
                    self.first_byte.get_or_insert(now);
                }
                if more {
                    self.received_at = Some(now);
                }
            }
            Side::Sender => {
                // That of a FIN lies behind all payload.
                let told = segment.ack.min(self.forward().sent_to);
                if segment.flags.has(Flags::ACK) && told > self.acknowledged {
                    self.acknowledged = told;
                    self.acknowledged_at = Some(now);
                }
            }
        }
    }

    /// An end gave the connection up.
    pub(super) fn reset(&mut self, now: Instant) {
        self.closed.get_or_insert(now);
    }

    /// A host gets a datagram of `bytes` that entered at `sent`.
    pub(super) fn datagram_arrives(&mut self, bytes: u16, sent: Instant, to: Side, now: Instant) {
        let Counted { arrived, delivered, .. } = &mut self.ways[to as usize].counted;
        arrived.count += 1;
        arrived.bytes += u64::from(bytes);
        arrived.travelled = arrived.travelled + now.since(sent);
        *delivered = arrived.bytes;
    }

    /// Its row; `size` is how many payload bytes it was opened for, and `measured` from when on, and how long, it was
    /// measured.
    pub(super) fn row(&self, size: Option<u64>, ends: &EndCounts, measured: (Instant, Span)) -> FlowRow {
        let found = self.forward().measured();
        // Datagrams are sent once; the end of a connection counts from its beginning.
        let known = |count: Option<u64>| match self.connection {
            true => count.filter(|_| self.opened >= measured.0),
            false => Some(0),
        };
        FlowRow {
            flow: self.number.into(),
            traffic: self.traffic,
            start_s: self.opened.seconds(),
            end_s: self.closed.map(Instant::seconds),
            size_bytes: size,
            delivered_bytes: found.delivered,
            goodput_bps: found.delivered as f64 * 8.0 / measured.1.seconds(),
            packets_sent: found.sent,
            packets_dropped: found.dropped,
            packets_marked: found.marked,
            retransmitted: found.retransmitted,
            timeouts: known(ends.timeouts),
            fast_retransmits: known(ends.fast_retransmits),
            datagrams_received: (!self.connection).then_some(found.arrived.count),
            mean_delay_s: found.arrived.mean_delay_s(),
        }
    }

    /// The row of what its client sent, which was measured for so long.
    pub(super) fn client_row(&self, measured: Span) -> FromClientRow {
        let found = self.ways[Side::Sender as usize].measured();
        FromClientRow {
            flow: self.number.into(),
            traffic: self.traffic,
            delivered_bytes: found.delivered,
            goodput_bps: found.delivered as f64 * 8.0 / measured.seconds(),
            packets_sent: found.sent,
            packets_dropped: found.dropped,
            packets_marked: found.marked,
            retransmitted: found.retransmitted,
            datagrams_received: (!self.connection).then_some(found.arrived.count),
            mean_delay_s: found.arrived.mean_delay_s(),
        }
    }

    /// The row of the transfer of `bytes` that it was opened for; `segments` are what so many bytes need.
    pub(super) fn transfer_row(
        &self,
        transfer: &Transfer,
        bytes: u64,
        segments: u64,
        ends: &EndCounts,
    ) -> TransferRow {
        let after = |moment: Option<Instant>| moment.map(|at| at.since(self.opened).seconds());
        let Way { counted, received, .. } = self.forward();
        let complete = received.end() >= bytes;
        TransferRow {
            flow: self.number.into(),
            traffic: self.traffic,
            page: transfer.page,
            start_s: self.opened.seconds(),
            size_bytes: bytes,
            segments,
            handshake_s: after(self.stands_at),
            first_byte_s: after(self.first_byte),
            duration_s: after(self.received_at.filter(|_| complete)),
            acknowledged_s: after(self.acknowledged_at.filter(|_| self.acknowledged >= bytes)),
            packets_sent: counted.sent,
            packets_dropped: counted.dropped,
            packets_marked: counted.marked,
            packets_long: counted.long,
            retransmitted: counted.retransmitted,
            timeouts: ends.timeouts,
            fast_retransmits: ends.fast_retransmits,
            complete,
        }
    }

    /// The rows of the exchanges of a conversation. Their times are the client's; what is counted of one is what was
    /// counted from its request to the next one.
    pub(super) fn exchange_rows(
        &self,
        carried: &Carried,
        segments: impl Fn(u64) -> u64,
    ) -> impl Iterator<Item = TransferRow> {
        carried.exchanges.iter().enumerate().map(move |(number, exchange)| {
            let begun = |number: usize| self.requests.get(number).copied();
            let before = number.checked_sub(1).map_or(Some(Counted::default()), begun);
            let until = begun(number).unwrap_or(self.forward().counted);
            let found = before.map_or(Counted::default(), |before| until.since(before));
            let after = |moment: Option<Instant>| moment.map(|at| at.since(exchange.asked).seconds());
            TransferRow {
                flow: self.number.into(),
                traffic: self.traffic,
                page: carried.transfer.page,
                start_s: exchange.asked.seconds(),
                size_bytes: exchange.response,
                segments: segments(exchange.response),
                handshake_s: after(self.stands_at).filter(|_| number == 0),
                first_byte_s: after(exchange.first_byte),
                duration_s: after(exchange.done),
                acknowledged_s: None,
                packets_sent: found.sent,
                packets_dropped: found.dropped,
                packets_marked: found.marked,
                packets_long: found.long,
                retransmitted: found.retransmitted,
                // The kernel counts by connection.
                timeouts: None,
                fast_retransmits: None,
                complete: exchange.done.is_some(),
            }
        })
    }

    /// Whether it is closed, or nothing waits to be acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        !self.connection || self.closed.is_some() || self.acknowledged >= self.forward().sent_to
    }

    /// When its payload was complete, if `bytes` are all.
    pub(super) fn completed(&self, bytes: u64) -> Option<Instant> {
        self.received_at.filter(|_| self.forward().received.end() >= bytes)
    }
}
