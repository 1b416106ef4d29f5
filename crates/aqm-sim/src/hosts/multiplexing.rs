//! Conversations whose exchanges take place at the same time, each in a stream of its own, over one connection.
//!
//! The client sends all requests when the connection is open. The server sends each response as soon as the server has
//! the request and the think time has passed; the schedule of the streams determines the order of the bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{Instant, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::{Conversation, Exchange, Transfer};

use crate::hosts::counts::Counted;
use crate::hosts::side::Side;
use crate::hosts::stream_schedule::{StreamNumber, StreamSchedule};

/// An exchange in a stream.
pub(crate) struct StreamExchange {
    exchange: Exchange,
    /// Whether the exchange is a transfer. The handshake is not a transfer.
    is_transfer: bool,
    /// Time at which the client opened the connection or, for an exchange that was added later, sent the request.
    pub(crate) requested_at: Instant,
    /// Arrival time of the response's first byte; `NEVER` before this time.
    pub(crate) first_byte: Instant,
    /// Arrival time of the response's last byte; `NEVER` before this time.
    pub(crate) completed: Instant,
    /// Counts of the flow when the request was sent.
    pub(crate) before: Counted,
}

impl StreamExchange {
    /// Returns a transfer that was requested at `requested_at`, when the connection was opened.
    fn new(exchange: Exchange, requested_at: Instant) -> Self {
        let [first_byte, completed] = [Instant::NEVER; 2];
        Self { exchange, is_transfer: true, requested_at, first_byte, completed, before: Counted::default() }
    }
}

/// The state of a conversation with streams.
pub(crate) struct Multiplexing {
    /// The number that identifies the conversation to the workload, if any.
    pub(crate) number: Option<u32>,
    page: Option<u64>,
    page_objects: u32,
    host: u32,
    streams: Vec<StreamExchange>,
    /// Exchanges that begin after the handshake.
    waiting: Vec<Exchange>,
    /// Number of responses that have not arrived.
    missing: u32,
    /// Whether the workload may request further exchanges.
    is_open: bool,
    /// Streams of the responses and of the requests, by sending side.
    schedules: [StreamSchedule; 2],
    /// Number of bytes that each side has received in order, by side.
    received: [u64; 2],
    /// Number of the stream of the first transfer: 1 if the first stream is the handshake.
    first_transfer: StreamNumber,
    /// Responses that the server sends after its think time.
    due: BinaryHeap<Reverse<(Instant, StreamNumber)>>,
}

/// The effects of an arrival at one side.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// Transfers whose first byte has arrived.
    pub(crate) begun: Vec<StreamNumber>,
    /// Streams whose responses are complete.
    pub(crate) complete: Vec<StreamNumber>,
    /// Times at which the server sends responses after think times.
    pub(crate) wakes: Vec<Instant>,
}

impl Multiplexing {
    /// Creates the state of a conversation whose connection the client opens at `now`, and writes the first requests.
    /// `has_handshake` states whether the transport's own handshake includes TLS.
    pub(crate) fn new(
        conversation: Conversation,
        ends: &mut [Endpoint; 2],
        has_handshake: bool,
        now: Instant,
    ) -> Self {
        let Conversation {
            number,
            page,
            page_objects,
            first,
            rest,
            streams,
            request_frame,
            send_buffer,
            handshake,
            host,
            ..
        } = conversation;
        let priority = streams.unwrap_or(aqm_traffic::http::Priority::InOrder);
        let schedule = |frame| StreamSchedule::new(priority, frame, send_buffer);
        let mut waiting = vec![first];
        waiting.extend(rest);
        let mut state = Self {
            number,
            page,
            page_objects,
            host,
            streams: Vec::new(),
            missing: waiting.len() as u32,
            waiting,
            is_open: number.is_some(),
            schedules: [schedule(1), schedule(request_frame)],
            received: [0; 2],
            first_transfer: 0,
            due: BinaryHeap::new(),
        };
        match handshake.filter(|_| !has_handshake) {
            Some(handshake) => {
                let stream = StreamExchange { is_transfer: false, ..StreamExchange::new(handshake, now) };
                state.request(stream, ends, now);
                state.first_transfer = 1;
            }
            None => state.begin(ends, now, now),
        }
        state
    }

    /// Sends the requests that waited for the handshake. The conversation was opened at `opened`.
    fn begin(&mut self, ends: &mut [Endpoint; 2], opened: Instant, now: Instant) {
        for exchange in std::mem::take(&mut self.waiting) {
            self.request(StreamExchange::new(exchange, opened), ends, now);
        }
    }

    /// Sends the request of an exchange.
    fn request(&mut self, stream: StreamExchange, ends: &mut [Endpoint; 2], now: Instant) {
        let Exchange { request: bytes, urgency, .. } = stream.exchange;
        self.schedules[Side::Receiver as usize].write(self.streams.len() as StreamNumber, bytes, urgency);
        self.streams.push(stream);
        ends[Side::Receiver as usize].write(Some(bytes), now);
    }

    /// Adds an exchange that the workload requests at `now`. Returns the transfer, and whether the request was sent;
    /// `None` if the conversation is over.
    pub(crate) fn append(
        &mut self,
        exchange: Exchange,
        ends: &mut [Endpoint; 2],
        counted: Counted,
        now: Instant,
    ) -> Option<(Transfer, bool)> {
        if !self.is_open {
            return None;
        }
        self.missing += 1;
        let is_sent = self.waiting.is_empty();
        if is_sent {
            self.request(StreamExchange { before: counted, ..StreamExchange::new(exchange, now) }, ends, now);
        } else {
            self.waiting.push(exchange);
        }
        Some((self.transfer_of(exchange), is_sent))
    }

    /// Records that the workload will request no further exchanges.
    pub(crate) fn finish(&mut self) {
        self.is_open = false;
    }

    /// Returns whether all responses have arrived and the workload requests no further exchanges.
    pub(crate) fn is_over(&self) -> bool {
        self.missing == 0 && !self.is_open
    }

    /// Returns the transfer of a stream; `None` for the handshake.
    pub(crate) fn transfer(&self, stream: StreamNumber) -> Option<Transfer> {
        let stream = &self.streams[stream as usize];
        stream.is_transfer.then(|| self.transfer_of(stream.exchange))
    }

    fn transfer_of(&self, exchange: Exchange) -> Transfer {
        Transfer {
            bytes: Some(exchange.response),
            request: Some(exchange.request as u32),
            page: self.page,
            page_objects: self.page_objects,
            host: self.host,
        }
    }

    /// Returns the transfers of all exchanges that were requested when the conversation began.
    pub(crate) fn transfers(&self) -> Vec<Transfer> {
        let waiting = self.waiting.iter().map(|&exchange| self.transfer_of(exchange));
        let begun = (0..self.streams.len() as StreamNumber).filter_map(|stream| self.transfer(stream));
        begun.chain(waiting).collect()
    }

    /// Returns the position of a transfer's exchange in the conversation.
    pub(crate) fn position(&self, stream: StreamNumber) -> u32 {
        stream - self.first_transfer
    }

    /// Returns the exchange of a stream.
    pub(crate) fn stream(&self, stream: StreamNumber) -> &StreamExchange {
        &self.streams[stream as usize]
    }

    /// Returns the streams whose responses are incomplete.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = StreamNumber> {
        let numbered = (0..).zip(&self.streams);
        numbered.filter(|(_, stream)| stream.completed == Instant::NEVER).map(|(number, _)| number)
    }

    /// Returns the total size of all responses.
    pub(crate) fn total_bytes(&self) -> u64 {
        let begun = self.streams.iter().map(|stream| stream.exchange.response);
        begun.chain(self.waiting.iter().map(|exchange| exchange.response)).sum()
    }

    /// Records that the end on `side` has sent the bytes below `end` for the first time.
    #[inline]
    pub(crate) fn on_sent(&mut self, side: Side, end: u64) {
        self.schedules[side as usize].on_sent(end);
    }

    /// Processes the arrival of data at the end on `side` at `now`; the connection was opened at `opened`. `packet` is
    /// the range of bytes of the packet if the transport delivers the data of each stream independently; `None` if the
    /// transport delivers all bytes in order.
    pub(crate) fn on_arrived(
        &mut self,
        side: Side,
        packet: Option<(u64, u64)>,
        ends: &mut [Endpoint; 2],
        (opened, now): (Instant, Instant),
    ) -> Arrivals {
        let received = ends[side as usize].received();
        let before = std::mem::replace(&mut self.received[side as usize], received);
        let (from, to) = packet.unwrap_or((before, received));
        let mut arrivals = Arrivals::default();
        if from == to {
            return arrivals;
        }
        let (schedule, streams) = (&mut self.schedules[side.other() as usize], &mut self.streams);
        let mut requested = Vec::new();
        schedule.on_arrived(from, to, |number, missing| {
            let stream = &mut streams[number as usize];
            if side == Side::Receiver && stream.first_byte == Instant::NEVER {
                stream.first_byte = now;
                arrivals.begun.extend(stream.is_transfer.then_some(number));
            }
            match side {
                _ if missing > 0 => {}
                Side::Sender => requested.push(number),
                Side::Receiver => {
                    stream.completed = now;
                    arrivals.complete.push(number);
                }
            }
        });
        for number in requested {
            let think = self.streams[number as usize].exchange.think;
            if think == Span::ZERO {
                self.respond(number, ends, now);
            } else {
                self.due.push(Reverse((now + think, number)));
                arrivals.wakes.push(now + think);
            }
        }
        let is_handshake = |number: &StreamNumber| !self.streams[*number as usize].is_transfer;
        if arrivals.complete.iter().any(is_handshake) {
            arrivals.complete.retain(|number| self.streams[*number as usize].is_transfer);
            self.begin(ends, opened, now);
        }
        self.missing -= arrivals.complete.len() as u32;
        arrivals
    }

    /// Sends the responses whose think time has passed.
    pub(crate) fn on_timer(&mut self, ends: &mut [Endpoint; 2], now: Instant) {
        while let Some(&Reverse((_, number))) = self.due.peek().filter(|due| due.0.0 <= now) {
            self.due.pop();
            self.respond(number, ends, now);
        }
    }

    fn respond(&mut self, number: StreamNumber, ends: &mut [Endpoint; 2], now: Instant) {
        let Exchange { response: bytes, urgency, .. } = self.streams[number as usize].exchange;
        self.schedules[Side::Sender as usize].write(number, bytes, urgency);
        ends[Side::Sender as usize].write(Some(bytes), now);
    }
}
