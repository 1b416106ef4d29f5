//! Conversations: what is asked and answered in turn over one connection, and the delays at its ends.
//!
//! After M. Weigle's DelayBox (ns-2's manual, chapter "DelayBox"): a box before a host delays each packet
//! of a connection, in both directions.
//!
//! Ours: a host behind a box is kept as one whose clock is late by the delay and to which packets take
//! twice as long, which is the same for all others: it does everything the delay later, and a packet reaches
//! it twice the delay after the packet has come to the box. So packets are delayed on arrival only, and
//! differences of a host's times stay what they are.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::{Conversation, Exchange, Transfer};

use crate::hosts::counts::Counted;
use crate::hosts::side::Side;

/// What is done when the timer of the conversation expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAction {
    /// The client opens the connection, with the first request.
    Open,
    /// The server sends its response.
    Respond,
    /// The client sends its next request.
    Request,
}

/// How far a conversation is.
pub(crate) struct ConversationState {
    next: NextAction,
    present: Exchange,
    rest: VecDeque<Exchange>,
    /// Its number, if it has one: the workload asks for more by it.
    pub(crate) number: Option<u32>,
    /// Whether the workload may still ask for more.
    open: bool,
    /// The page that the responses are a part of, and how many transfers that has.
    page: Option<u64>,
    page_objects: u32,
    /// Whether the present exchange is over, and none has followed yet.
    waits: bool,
    /// Bytes of the requests so far, the present one included.
    requested: u64,
    /// When the client sent its request, by its clock; `NEVER` while it pauses.
    pub(crate) asked: Instant,
    /// How late the client's clock is.
    pub(crate) late: Span,
    /// What was counted when the client sent its request.
    pub(crate) before: Counted,
}

impl ConversationState {
    /// A conversation whose connection the client opens, with its first request, at `opened`.
    pub(crate) fn new(conversation: Conversation, opened: Instant) -> Self {
        let Conversation { number, page, page_objects, first, rest, client_delay, .. } = conversation;
        Self {
            next: NextAction::Open,
            present: first,
            rest: rest.into(),
            number,
            open: number.is_some(),
            page,
            page_objects,
            waits: false,
            requested: first.request,
            asked: opened,
            late: client_delay,
            before: Counted::default(),
        }
    }

    /// Whether exchanges follow after the present one, or may.
    pub(crate) fn goes_on(&self) -> bool {
        self.open || !self.rest.is_empty()
    }

    /// Its workload asks for an exchange after those before. Whether it is to begin now.
    pub(crate) fn ask(&mut self, exchange: Exchange) -> bool {
        if self.open {
            self.rest.push_back(exchange);
        }
        self.open && self.waits
    }

    /// Its workload asks for no more. Whether it is over.
    pub(crate) fn finish(&mut self) -> bool {
        self.open = false;
        self.waits && self.rest.is_empty()
    }

    /// The transfer of the present exchange, on a host. Its request counts all that is requested on the connection,
    /// which is what the server has to have.
    pub(crate) fn transfer(&self, host: u32) -> Transfer {
        Transfer {
            bytes: Some(self.present.response),
            // Where it does not fit, the conversation knows better: `on_request` is asked again and again.
            request: Some(u32::try_from(self.requested).unwrap_or(u32::MAX)),
            page: self.page,
            page_objects: self.page_objects,
            host,
        }
    }

    /// Bytes of the responses after the present one.
    pub(crate) fn bytes_to_come(&self) -> u64 {
        self.rest.iter().map(|exchange| exchange.response).sum()
    }

    /// The end whose turn it is writes what it has to send, and is returned. `counted` is what was counted so
    /// far.
    pub(crate) fn act(&mut self, ends: &mut [Endpoint; 2], counted: Counted, now: Instant) -> Side {
        let [server, client] = ends;
        match self.next {
            NextAction::Open => client.open(now),
            NextAction::Respond => {
                server.write(Some(self.present.response), now);
                if !self.goes_on() {
                    server.finish();
                }
                return Side::Sender;
            }
            NextAction::Request => {
                (self.asked, self.before) = (now, counted);
                client.write(Some(self.present.request), now);
            }
        }
        Side::Receiver
    }

    /// The server has received so many bytes in all: how long it takes to respond if it has the request.
    pub(crate) fn on_request(&mut self, received: u64) -> Option<Span> {
        (received >= self.requested).then(|| {
            self.next = NextAction::Respond;
            self.present.think
        })
    }

    /// The response has arrived: the next exchange, if there is one, begins with the client's pause.
    pub(crate) fn begin_next_exchange(&mut self) -> Option<Exchange> {
        self.asked = Instant::NEVER;
        self.waits = self.rest.is_empty();
        let next = self.rest.pop_front()?;
        self.present = next;
        self.next = NextAction::Request;
        self.requested += next.request;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(request: u64, response: u64) -> Exchange {
        Exchange { pause: Span::from_millis(3), request, think: Span::from_millis(5), response }
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
    fn what_is_to_come_shrinks_with_each_exchange_until_nothing_follows() {
        let mut state = conversation();
        let mut seen = Vec::new();
        loop {
            seen.push((state.goes_on(), state.bytes_to_come(), state.requested));
            if state.begin_next_exchange().is_none() {
                break;
            }
        }
        assert_eq!(seen, [(true, 5000, 100), (true, 3000, 300), (false, 0, 600)]);
    }

    #[test]
    fn a_client_that_pauses_has_not_asked() {
        let mut state = conversation();
        assert_eq!((state.asked, state.late), (Instant::from_nanos(9), Span::from_millis(7)));
        state.begin_next_exchange();
        assert_eq!(state.asked, Instant::NEVER);
    }

    #[test]
    fn a_request_of_more_than_four_gigabytes_is_left_to_the_conversation() {
        let with = |requested| ConversationState { requested, page: Some(8), ..conversation() }.transfer(4);
        assert_eq!(with(5_000_000_000).request, Some(u32::MAX));
        assert_eq!(
            with(77),
            Transfer { bytes: Some(1000), request: Some(77), page: Some(8), page_objects: 1, host: 4 }
        );
    }

    #[test]
    fn one_with_a_number_waits_for_what_is_asked_until_it_is_finished() {
        let numbered = Conversation { number: Some(5), ..Conversation::single(exchange(100, 1000)) };
        let mut state = ConversationState::new(numbered, Instant::START);
        assert!(state.goes_on() && !state.ask(exchange(10, 20)), "the present exchange is under way");
        assert_eq!(state.begin_next_exchange(), Some(exchange(10, 20)));
        assert_eq!((state.begin_next_exchange(), state.asked), (None, Instant::NEVER));
        assert!(state.goes_on() && state.ask(exchange(30, 40)), "nothing is under way");
        assert!(!state.finish() && state.goes_on());
        assert_eq!(state.begin_next_exchange(), Some(exchange(30, 40)));
        assert_eq!((state.goes_on(), state.number, state.requested), (false, Some(5), 140));
        assert!(!state.ask(exchange(50, 60)) && !state.goes_on(), "after the last nothing follows");
        assert_eq!((state.begin_next_exchange(), state.finish()), (None, true));
    }
}
