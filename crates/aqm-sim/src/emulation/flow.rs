//! A flow between outside hosts, as the network sees it: who its packets are for and what is counted about them.

use aqm_net::{Instant, Span};
use aqm_queue::edge::LONG;
use aqm_tcp::{Flags, Segment};
use aqm_traffic::Transfer;

use super::in_order::InOrder;
use super::{Carried, Opening};
use crate::counts::Counted;
use crate::side::Side;
use crate::tables::{FlowRow, TransferRow};

/// What the ends of a connection know and the network cannot see.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndCounts {
    /// Retransmission timer expiries; missing if the kernel does not tell.
    pub timeouts: Option<u64>,
    /// Fast retransmits; missing if the kernel does not tell.
    pub fast_retransmits: Option<u64>,
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
    counted: Counted,
    /// By the end that they travel to, datagrams that entered.
    datagrams: [u64; 2],
    /// What was counted when the measurement began.
    before: Counted,
    /// What was counted as each request but the first entered, of a connection with several exchanges.
    requests: Vec<Counted>,
    /// Behind the last byte of a request that entered, and what payload had entered by then the other way.
    asked_to: u64,
    answered_to: u64,
    /// Behind the last payload byte that entered.
    sent_to: u64,
    /// Payload that reached the receiver.
    received: InOrder,
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
            counted: Counted::default(),
            datagrams: [0; 2],
            before: Counted::default(),
            requests: Vec::new(),
            asked_to: 0,
            answered_to: 0,
            sent_to: 0,
            received: InOrder::default(),
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
        self.before = self.counted;
    }

    /// A segment enters the network; whether its payload was sent before.
    pub(super) fn segment_enters(&mut self, segment: &Segment, to: Side) -> bool {
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            self.opener.get_or_insert(to.other());
        }
        if to == Side::Sender {
            self.request_enters(segment);
            return false;
        }
        self.counted.sent += 1;
        let end = segment.seq + u64::from(segment.len);
        let again = segment.len > 0 && segment.seq < self.sent_to;
        self.counted.retransmitted += u64::from(again);
        self.sent_to = self.sent_to.max(end);
        again
    }

    /// A segment enters that travels to the sender: if it carries new payload after an answer, it begins a request.
    fn request_enters(&mut self, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        if segment.len == 0 || end <= self.asked_to {
            return;
        }
        if self.sent_to > self.answered_to {
            self.requests.push(self.counted);
        }
        (self.asked_to, self.answered_to) = (end, self.sent_to);
    }

    /// A datagram enters the network; its number, counted from zero in its direction.
    pub(super) fn datagram_enters(&mut self, to: Side) -> u64 {
        let number = self.datagrams[to as usize];
        self.datagrams[to as usize] += 1;
        self.counted.sent = self.datagrams[Side::Receiver as usize];
        number
    }

    /// A queue dropped one of its packets.
    pub(super) fn packet_dropped(&mut self, to: Side) {
        self.counted.dropped += u64::from(to == Side::Receiver);
    }

    /// A queue marked one of its packets.
    pub(super) fn packet_marked(&mut self) {
        self.counted.marked += 1;
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
        match to {
            Side::Receiver => {
                self.counted.long += u64::from(class == LONG);
                if segment.len > 0 {
                    self.first_byte.get_or_insert(now);
                    if self.received.add(segment.seq, u64::from(segment.len)) {
                        self.received_at = Some(now);
                        self.counted.delivered = self.received.end();
                    }
                }
            }
            Side::Sender => {
                // That of a FIN lies behind all payload.
                let told = segment.ack.min(self.sent_to);
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
        if to == Side::Sender {
            return;
        }
        let arrived = &mut self.counted.arrived;
        arrived.count += 1;
        arrived.bytes += u64::from(bytes);
        arrived.travelled = arrived.travelled + now.since(sent);
        self.counted.delivered = arrived.bytes;
    }

    /// Its row; `size` is how many payload bytes it was opened for, and `measured` from when on, and how long, it was
    /// measured.
    pub(super) fn row(&self, size: Option<u64>, ends: &EndCounts, measured: (Instant, Span)) -> FlowRow {
        let found = self.counted.since(self.before);
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
            mean_delay_s: (found.arrived.count > 0)
                .then(|| found.arrived.travelled.seconds() / found.arrived.count as f64),
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
        let complete = self.received.end() >= bytes;
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
            packets_sent: self.counted.sent,
            packets_dropped: self.counted.dropped,
            packets_marked: self.counted.marked,
            packets_long: self.counted.long,
            retransmitted: self.counted.retransmitted,
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
            let until = begun(number).unwrap_or(self.counted);
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
        !self.connection || self.closed.is_some() || self.acknowledged >= self.sent_to
    }

    /// When its payload was complete, if `bytes` are all.
    pub(super) fn completed(&self, bytes: u64) -> Option<Instant> {
        self.received_at.filter(|_| self.received.end() >= bytes)
    }
}
