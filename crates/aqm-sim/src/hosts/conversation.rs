//! Conversations: alternating requests and responses over one connection, and the additional delays at the two ends of
//! the connection.
//!
//! Source: M. Weigle's DelayBox (ns-2 manual, chapter "DelayBox"). A DelayBox is placed before a host and delays each
//! packet of a connection in both directions.
//!
//! aqmlab's choice: a host behind a DelayBox is modelled as a host whose clock lags by the delay and whose arriving
//! packets are delayed by twice the delay. To all other hosts, the model is equivalent to a DelayBox: a packet reaches
//! the delayed host twice the delay after arriving at the box, and the host performs each of its actions later by the
//! delay. The simulator therefore has to delay packets only on arrival, and the differences between a host's times do
//! not change.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::{Conversation, Exchange, Transfer};

use crate::hosts::counts::Counted;
use crate::hosts::side::Side;

/// The next action of a conversation, which is performed when the conversation's timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAction {
    /// The client opens the connection and sends the first request.
    Open,
    /// The server sends its response.
    Respond,
    /// The client sends its next request.
    Request,
}

/// The state of a conversation.
pub(crate) struct ConversationState {
    next: NextAction,
    current: Exchange,
    rest: VecDeque<Exchange>,
    /// The number that identifies the conversation if the workload requests further exchanges; `None` if the workload
    /// does not request further exchanges.
    pub(crate) number: Option<u32>,
    /// Whether the current exchange is the handshake, which is not a transfer.
    is_handshake: bool,
    /// Time at which the connection was opened, if the first request follows a handshake and has not been sent.
    opened_at: Option<Instant>,
    /// Whether the workload may request further exchanges.
    open: bool,
    /// Number of the page to which the responses belong, if any.
    page: Option<u64>,
    page_objects: u32,
    /// Whether the current exchange is complete and the next exchange has not yet begun.
    waits: bool,
    /// Total size of all requests so far, including the current request.
    requested: u64,
    /// Time at which the client sent the current request, measured by the client's clock; `NEVER` while the client
    /// pauses.
    pub(crate) requested_at: Instant,
    /// Time by which the client's clock lags.
    pub(crate) late: Span,
    /// Counts of the flow when the current request was sent.
    pub(crate) before: Counted,
}

impl ConversationState {
    /// Creates a conversation. The client opens the connection at `opened` and sends the first request.
    pub(crate) fn new(conversation: Conversation, opened: Instant) -> Self {
        let Conversation { number, page, page_objects, first, rest, handshake, client_delay, .. } =
            conversation;
        let mut rest = VecDeque::from(rest);
        let current = if let Some(handshake) = handshake {
            rest.push_front(first);
            handshake
        } else {
            first
        };
        Self {
            next: NextAction::Open,
            current,
            rest,
            is_handshake: handshake.is_some(),
            opened_at: handshake.map(|_| opened),
            number,
            open: number.is_some(),
            page,
            page_objects,
            waits: false,
            requested: current.request,
            requested_at: opened,
            late: client_delay,
            before: Counted::default(),
        }
    }

    /// Returns whether the current exchange is the handshake.
    pub(crate) fn is_handshake(&self) -> bool {
        self.is_handshake
    }

    /// Returns whether further exchanges follow, or may follow, the current exchange.
    pub(crate) fn has_next(&self) -> bool {
        self.open || !self.rest.is_empty()
    }

    /// Appends an exchange that the workload requests. Returns whether the exchange begins immediately.
    pub(crate) fn append(&mut self, exchange: Exchange) -> bool {
        if self.open {
            self.rest.push_back(exchange);
        }
        self.open && self.waits
    }

    /// Records that the workload will request no further exchanges. Returns whether the conversation is over.
    pub(crate) fn finish(&mut self) -> bool {
        self.open = false;
        self.waits && self.rest.is_empty()
    }

    /// Returns the transfer that corresponds to the current exchange. The request size of the transfer is the total
    /// size of all requests on the connection so far, because the server must have received all of these bytes.
    pub(crate) fn transfer(&self, host: u32) -> Transfer {
        Transfer {
            bytes: Some(self.current.response),
            // If the total size exceeds 32 bits, the server still responds correctly, because `on_request` compares the
            // exact size.
            request: Some(u32::try_from(self.requested).unwrap_or(u32::MAX)),
            page: self.page,
            page_objects: self.page_objects,
            host,
        }
    }

    /// Returns the total size of the responses after the current exchange.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        self.rest.iter().map(|exchange| exchange.response).sum()
    }

    /// Performs the next action, in which one of the two ends writes data. Returns the end that wrote the data.
    /// `counted` contains the current counts of the flow.
    pub(crate) fn act(&mut self, ends: &mut [Endpoint; 2], counted: Counted, now: Instant) -> Side {
        let [server, client] = ends;
        match self.next {
            NextAction::Open => client.open(now),
            NextAction::Respond => {
                server.write(Some(self.current.response), now);
                if !self.has_next() {
                    server.finish();
                }
                return Side::Sender;
            }
            NextAction::Request => {
                (self.requested_at, self.before) = match self.opened_at.take() {
                    Some(opened_at) => (opened_at, Counted::default()),
                    None => (now, counted),
                };
                client.write(Some(self.current.request), now);
            }
        }
        Side::Receiver
    }

    /// Returns the server's think time, provided that the server has received the whole request. `received` is the
    /// total number of bytes that the server has received.
    pub(crate) fn on_request(&mut self, received: u64) -> Option<Span> {
        (received >= self.requested).then(|| {
            self.next = NextAction::Respond;
            self.current.think
        })
    }

    /// Begins the next exchange, if any, after a response has arrived. An exchange begins with the client's pause.
    pub(crate) fn begin_next_exchange(&mut self) -> Option<Exchange> {
        self.requested_at = Instant::NEVER;
        self.is_handshake = false;
        self.waits = self.rest.is_empty();
        let next = self.rest.pop_front()?;
        self.current = next;
        self.next = NextAction::Request;
        self.requested += next.request;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(request: u64, response: u64) -> Exchange {
        let (pause, think) = (Span::from_millis(3), Span::from_millis(5));
        Exchange { pause, think, ..Exchange::immediate(request, response) }
    }

    fn conversation() -> ConversationState {
        let conversation = Conversation {
            rest: vec![exchange(200, 2000), exchange(300, 3000)],
            client_delay: Span::from_millis(7),
            ..Conversation::single(exchange(100, 1000))
        };
        ConversationState::new(conversation, Instant::from_nanos(9))
    }

    #[test]
    fn the_server_responds_once_it_has_all_bytes_requested_so_far() {
        let mut state = conversation();
        assert_eq!((state.on_request(99), state.next), (None, NextAction::Open));
        assert_eq!((state.on_request(100), state.next), (Some(Span::from_millis(5)), NextAction::Respond));
        state.begin_next_exchange();
        assert_eq!((state.on_request(299), state.next), (None, NextAction::Request));
        assert_eq!(state.on_request(300), Some(Span::from_millis(5)));
    }

    #[test]
    fn the_remaining_bytes_decrease_with_each_exchange() {
        let mut state = conversation();
        let mut seen = Vec::new();
        loop {
            seen.push((state.has_next(), state.remaining_bytes(), state.requested));
            if state.begin_next_exchange().is_none() {
                break;
            }
        }
        assert_eq!(seen, [(true, 5000, 100), (true, 3000, 300), (false, 0, 600)]);
    }

    #[test]
    fn a_pausing_client_has_sent_no_request() {
        let mut state = conversation();
        assert_eq!((state.requested_at, state.late), (Instant::from_nanos(9), Span::from_millis(7)));
        state.begin_next_exchange();
        assert_eq!(state.requested_at, Instant::NEVER);
    }

    #[test]
    fn the_request_of_a_transfer_saturates_at_four_gigabytes() {
        let with = |requested| ConversationState { requested, page: Some(8), ..conversation() }.transfer(4);
        assert_eq!(with(5_000_000_000).request, Some(u32::MAX));
        assert_eq!(
            with(77),
            Transfer { bytes: Some(1000), request: Some(77), page: Some(8), page_objects: 1, host: 4 }
        );
    }

    #[test]
    fn a_conversation_with_a_number_waits_for_exchanges_until_it_is_finished() {
        let numbered = Conversation { number: Some(5), ..Conversation::single(exchange(100, 1000)) };
        let mut state = ConversationState::new(numbered, Instant::START);
        assert!(state.has_next() && !state.append(exchange(10, 20)), "the current exchange is not complete");
        assert_eq!(state.begin_next_exchange(), Some(exchange(10, 20)));
        assert_eq!((state.begin_next_exchange(), state.requested_at), (None, Instant::NEVER));
        assert!(state.has_next() && state.append(exchange(30, 40)), "no exchange is in progress");
        assert!(!state.finish() && state.has_next());
        assert_eq!(state.begin_next_exchange(), Some(exchange(30, 40)));
        assert_eq!((state.has_next(), state.number, state.requested), (false, Some(5), 140));
        assert!(!state.append(exchange(50, 60)) && !state.has_next(), "no exchange follows the last one");
        assert_eq!((state.begin_next_exchange(), state.finish()), (None, true));
    }
}
