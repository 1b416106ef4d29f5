//! A flow between external hosts, as observed in the network. The flow contains the route of its packets and its
//! counts.

use aqm_net::{Instant, Span};
use aqm_queue::edge::LONG;
use aqm_tcp::{Flags, Segment};
use aqm_traffic::Transfer;

use super::in_order::InOrder;
use super::{CarriedTransfer, FlowOpening};
use crate::hosts::counts::Counted;
use crate::hosts::side::Side;
use crate::results::tables::{FlowRow, FromClientRow, TransferRow};

/// Counts that are available only at the ends of a connection, because they cannot be observed in the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndCounts {
    /// Number of expirations of the retransmission timer; `None` if the kernel does not report the number.
    pub timeouts: Option<u64>,
    /// Number of fast retransmits; `None` if the kernel does not report the number.
    pub fast_retransmits: Option<u64>,
}

/// The counts of the packets in one direction.
#[derive(Default)]
struct Direction {
    counted: Counted,
    /// Counts at the beginning of the measurement interval.
    before: Counted,
    /// Sequence number that follows the highest payload byte that has entered the network.
    sent_to: u64,
    /// Payload bytes that have arrived.
    received: InOrder,
}

impl Direction {
    /// Counts a segment that enters the network. Returns whether the payload of the segment is a retransmission.
    fn segment_enters(&mut self, segment: &Segment) -> bool {
        self.counted.sent += 1;
        let retransmitted = segment.len > 0 && segment.seq < self.sent_to;
        self.counted.retransmitted += u64::from(retransmitted);
        self.sent_to = self.sent_to.max(segment.seq + u64::from(segment.len));
        retransmitted
    }

    /// Counts a segment that arrives. Returns whether the segment increases the number of bytes that have arrived in
    /// order.
    fn segment_arrives(&mut self, segment: &Segment) -> bool {
        let more = segment.len > 0 && self.received.add(segment.seq, segment.len.into());
        self.counted.delivered = self.received.end();
        more
    }

    /// Returns the counts since the beginning of the measurement interval.
    fn measured(&self) -> Counted {
        self.counted.since(self.before)
    }
}

/// A flow between external hosts.
pub(super) struct HostFlow {
    /// Number of the flow, which is unique within the run. Flows are numbered in the order in which they are opened.
    pub(super) number: u32,
    /// Position of the flow's workload in the scenario.
    pub(super) traffic: u32,
    /// First hop of the packets that each end sends, by side.
    pub(super) first_hop: [u32; 2],
    /// Additional delay of the packets that arrive at each end, by side.
    pub(super) extra_delay: [Span; 2],
    /// Time at which the last packet was delivered to each end, by side.
    pub(super) delivered_at: [Instant; 2],
    pub(super) opened: Instant,
    connection: bool,
    /// Counts of both directions, by the end to which the packets travel.
    directions: [Direction; 2],
    /// For a connection with several exchanges, the counts of the packets to the receiver at the times when the
    /// requests after the first request entered the network.
    requests: Vec<Counted>,
    /// Value of `sent_to` for the direction to the receiver at the time when the last request entered the network.
    responded_to: u64,
    first_byte: Option<Instant>,
    /// Time at which the number of bytes that have arrived in order last increased.
    received_at: Option<Instant>,
    /// Number of payload bytes that the receiver has acknowledged.
    acknowledged: u64,
    acknowledged_at: Option<Instant>,
    /// The end that sent the first SYN.
    opener: Option<Side>,
    /// Time at which the connection was established at the end that opened the connection.
    established_at: Option<Instant>,
    /// Whether each end has received a FIN, by side.
    received_fin: [bool; 2],
    /// Time at which the second of the two ends received a FIN, or at which one end aborted the connection.
    closed: Option<Instant>,
}

impl HostFlow {
    pub(super) fn new(
        number: u32,
        opening: &FlowOpening,
        first_hop: [u32; 2],
        extra_delay: [Span; 2],
    ) -> Self {
        Self {
            number,
            traffic: opening.traffic,
            first_hop,
            extra_delay,
            delivered_at: [Instant::START; 2],
            opened: opening.at,
            connection: opening.connection,
            directions: Default::default(),
            requests: Vec::new(),
            responded_to: 0,
            first_byte: None,
            received_at: None,
            acknowledged: 0,
            acknowledged_at: None,
            opener: None,
            established_at: None,
            received_fin: [false; 2],
            closed: None,
        }
    }

    /// Starts the measurement interval; earlier counts are excluded.
    pub(super) fn begin_measuring(&mut self) {
        self.directions.iter_mut().for_each(|direction| direction.before = direction.counted);
    }

    /// Returns the counts of the packets that travel to the receiver.
    fn forward(&self) -> &Direction {
        &self.directions[Side::Receiver as usize]
    }

    /// Handles a segment that enters the network. Returns whether the payload of the segment is a retransmission.
    pub(super) fn segment_enters(&mut self, segment: &Segment, to: Side) -> bool {
        if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
            self.opener.get_or_insert(to.other());
        }
        if to == Side::Sender {
            self.request_enters(segment);
        }
        self.directions[to as usize].segment_enters(segment)
    }

    /// Handles a segment that enters the network and travels to the sender. If the segment contains new payload and
    /// follows a response, the segment begins a request.
    fn request_enters(&mut self, segment: &Segment) {
        let end = segment.seq + u64::from(segment.len);
        if segment.len == 0 || end <= self.directions[Side::Sender as usize].sent_to {
            return;
        }
        let Direction { sent_to, counted, .. } = self.directions[Side::Receiver as usize];
        if sent_to > self.responded_to {
            self.requests.push(counted);
        }
        self.responded_to = sent_to;
    }

    /// Handles a datagram that enters the network. Returns the number of the datagram, counted from zero in each
    /// direction.
    pub(super) fn datagram_enters(&mut self, to: Side) -> u64 {
        let sent = &mut self.directions[to as usize].counted.sent;
        *sent += 1;
        *sent - 1
    }

    /// Counts a packet that was addressed to the end `to` and was dropped by a queue.
    pub(super) fn packet_dropped(&mut self, to: Side) {
        self.directions[to as usize].counted.dropped += 1;
    }

    /// Counts a packet that is addressed to the end `to` and was marked by a queue.
    pub(super) fn packet_marked(&mut self, to: Side) {
        self.directions[to as usize].counted.marked += 1;
    }

    /// Handles a segment of the class `class` that is delivered to a host.
    pub(super) fn segment_arrives(&mut self, segment: &Segment, to: Side, class: u8, now: Instant) {
        let is_syn_ack = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        if is_syn_ack && self.opener == Some(to) {
            self.established_at.get_or_insert(now);
        }
        if segment.flags.has(Flags::FIN) {
            self.received_fin[to as usize] = true;
            if self.received_fin == [true; 2] {
                self.closed.get_or_insert(now);
            }
        }
        let direction = &mut self.directions[to as usize];
        direction.counted.long += u64::from(class == LONG);
        let more = direction.segment_arrives(segment);
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
                // An acknowledgement number that also covers a FIN is greater than the number of payload bytes.
                let acknowledged = segment.ack.min(self.forward().sent_to);
                if segment.flags.has(Flags::ACK) && acknowledged > self.acknowledged {
                    self.acknowledged = acknowledged;
                    self.acknowledged_at = Some(now);
                }
            }
        }
    }

    /// Handles a reset of the connection by one of the two ends.
    pub(super) fn reset(&mut self, now: Instant) {
        self.closed.get_or_insert(now);
    }

    /// Handles a datagram of `bytes` bytes that entered the network at `sent` and is delivered to a host.
    pub(super) fn datagram_arrives(&mut self, bytes: u16, sent: Instant, to: Side, now: Instant) {
        let Counted { received, delivered, .. } = &mut self.directions[to as usize].counted;
        received.count += 1;
        received.bytes += u64::from(bytes);
        received.total_delay = received.total_delay + now.since(sent);
        *delivered = received.bytes;
    }

    /// Returns the row of the flow for the table `flows`. `size` is the number of payload bytes to send, and `measured`
    /// is the start and the duration of the measurement interval.
    pub(super) fn row(&self, size: Option<u64>, ends: &EndCounts, measured: (Instant, Span)) -> FlowRow {
        let counts = self.forward().measured();
        // Datagrams are never retransmitted. Counts that are obtained from the ends of a connection include the time
        // before the measurement interval.
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
            delivered_bytes: counts.delivered,
            goodput_bps: counts.delivered as f64 * 8.0 / measured.1.seconds(),
            packets_sent: counts.sent,
            packets_dropped: counts.dropped,
            packets_marked: counts.marked,
            retransmitted: counts.retransmitted,
            timeouts: known(ends.timeouts),
            fast_retransmits: known(ends.fast_retransmits),
            datagrams_received: (!self.connection).then_some(counts.received.count),
            mean_delay_s: counts.received.mean_delay_s(),
        }
    }

    /// Returns the row of the data that the client sent. `measured` is the duration of the measurement interval.
    pub(super) fn client_row(&self, measured: Span) -> FromClientRow {
        let counts = self.directions[Side::Sender as usize].measured();
        FromClientRow {
            flow: self.number.into(),
            traffic: self.traffic,
            delivered_bytes: counts.delivered,
            goodput_bps: counts.delivered as f64 * 8.0 / measured.seconds(),
            packets_sent: counts.sent,
            packets_dropped: counts.dropped,
            packets_marked: counts.marked,
            retransmitted: counts.retransmitted,
            datagrams_received: (!self.connection).then_some(counts.received.count),
            mean_delay_s: counts.received.mean_delay_s(),
        }
    }

    /// Returns the row of the flow's transfer. The transfer consists of `bytes` bytes, for which `segments` segments
    /// are needed.
    pub(super) fn transfer_row(
        &self,
        transfer: &Transfer,
        bytes: u64,
        segments: u64,
        ends: &EndCounts,
    ) -> TransferRow {
        let after = |moment: Option<Instant>| moment.map(|at| at.since(self.opened).seconds());
        let Direction { counted, received, .. } = self.forward();
        let complete = received.end() >= bytes;
        TransferRow {
            flow: self.number.into(),
            traffic: self.traffic,
            page: transfer.page,
            start_s: self.opened.seconds(),
            size_bytes: bytes,
            segments,
            handshake_s: after(self.established_at),
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

    /// Returns the rows of the exchanges of a conversation. The times are measured by the client. The counts of an
    /// exchange cover the time from the exchange's request to the next request.
    pub(super) fn exchange_rows(
        &self,
        carried: &CarriedTransfer,
        segments: impl Fn(u64) -> u64,
    ) -> impl Iterator<Item = TransferRow> {
        carried.exchanges.iter().enumerate().map(move |(number, exchange)| {
            let before_request = |number: usize| self.requests.get(number).copied();
            let before = number.checked_sub(1).map_or(Some(Counted::default()), before_request);
            let until = before_request(number).unwrap_or(self.forward().counted);
            let counts = before.map_or(Counted::default(), |before| until.since(before));
            let after = |moment: Option<Instant>| moment.map(|at| at.since(exchange.requested_at).seconds());
            TransferRow {
                flow: self.number.into(),
                traffic: self.traffic,
                page: carried.transfer.page,
                start_s: exchange.requested_at.seconds(),
                size_bytes: exchange.response,
                segments: segments(exchange.response),
                handshake_s: after(self.established_at).filter(|_| number == 0),
                first_byte_s: after(exchange.first_byte),
                duration_s: after(exchange.completed),
                acknowledged_s: None,
                packets_sent: counts.sent,
                packets_dropped: counts.dropped,
                packets_marked: counts.marked,
                packets_long: counts.long,
                retransmitted: counts.retransmitted,
                // The kernel counts time-outs for a whole connection, not for each exchange.
                timeouts: None,
                fast_retransmits: None,
                complete: exchange.completed.is_some(),
            }
        })
    }

    /// Returns whether the flow is closed or all payload of the flow is acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        !self.connection || self.closed.is_some() || self.acknowledged >= self.forward().sent_to
    }

    /// Returns the time at which the last of the `bytes` payload bytes arrived, or `None` if some of these bytes have
    /// not arrived.
    pub(super) fn completed(&self, bytes: u64) -> Option<Instant> {
        self.received_at.filter(|_| self.forward().received.end() >= bytes)
    }
}
