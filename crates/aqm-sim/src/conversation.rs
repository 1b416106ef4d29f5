//! Conversations: what is asked and answered in turn over one connection, and the delays at its ends.
//!
//! After M. Weigle's DelayBox (ns-2's manual, chapter "DelayBox"): a box before a host holds up each packet
//! of a connection, in both directions.
//!
//! Ours: a host behind a box is kept as one whose clock is late by the delay and to which packets take
//! twice as long, which is the same for all others: it does everything the delay later, and hears of a
//! packet twice the delay after the packet has come to the box. So packets are held up on arrival only, and
//! differences of a host's times stay what they are.

use std::vec::IntoIter;

use aqm_net::{Instant, Span};
use aqm_traffic::{Conversation, Exchange, Transfer};

use crate::event_queue::Timer;
use crate::flow::{ColdState, Counted, Ends, Flow, RECEIVER, SENDER};
use crate::network::Network;

/// What an end does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextAction {
    /// The client opens the connection and asks.
    Open,
    /// The server answers.
    Answer,
    /// The client asks again.
    Ask,
}

/// Where a conversation stands.
pub(crate) struct ConversationState {
    turn: NextAction,
    present: Exchange,
    rest: IntoIter<Exchange>,
    /// Bytes of the requests so far, the present one included.
    requested: u64,
    /// When the client asked, by its clock; `NEVER` while it pauses.
    pub(crate) asked: Instant,
    /// How late the client's clock is.
    pub(crate) late: Span,
    /// What was counted when the client asked.
    pub(crate) before: Counted,
}

impl ConversationState {
    fn goes_on(&self) -> bool {
        !self.rest.as_slice().is_empty()
    }

    /// Bytes of the responses still to come.
    pub(crate) fn to_come(&self) -> u64 {
        self.rest.as_slice().iter().map(|exchange| exchange.response).sum()
    }
}

/// The transfer of an exchange; its request counts all that is `requested` on the connection, which is what the
/// server has to have.
pub(crate) fn transfer(exchange: &Exchange, requested: u64, host: u32) -> Transfer {
    Transfer {
        bytes: Some(exchange.response),
        // The conversation knows what does not fit.
        request: Some(u32::try_from(requested).unwrap_or(u32::MAX)),
        page: None,
        page_objects: 1,
        host,
    }
}

impl ColdState {
    /// Whether a conversation has more exchanges than the present one.
    pub(crate) fn goes_on(&self) -> bool {
        self.conversation.as_ref().is_some_and(|conversation| conversation.goes_on())
    }
}

impl Flow {
    pub(crate) fn conversation(&self) -> Option<&ConversationState> {
        self.cold.as_ref()?.conversation.as_deref()
    }

    /// Begins a conversation on a connection that is not open yet; the client opens it when its turn comes.
    pub(crate) fn converse(&mut self, conversation: Conversation) {
        let Conversation { first, rest, client_delay, server_delay, .. } = conversation;
        self.extra_delay[SENDER] = self.extra_delay[SENDER] + server_delay.saturating_mul(2);
        self.extra_delay[RECEIVER] = self.extra_delay[RECEIVER] + client_delay.saturating_mul(2);
        self.opened += client_delay;
        let conversation = ConversationState {
            turn: NextAction::Open,
            present: first,
            rest: rest.into_iter(),
            requested: first.request,
            asked: self.opened,
            late: client_delay,
            before: Counted::default(),
        };
        self.cold.get_or_insert_default().conversation = Some(Box::new(conversation));
    }

    /// Sets the alarm of the next turn.
    pub(crate) fn set_turn(&mut self, at: Instant, slot: u32, net: &mut impl Network) {
        self.timers += 1;
        net.set_timer(at, self.number, Timer::NextAction(slot));
    }

    /// It is an end's turn; which one has something to send.
    pub(crate) fn take_turn(&mut self, now: Instant) -> usize {
        let counted = self.counted();
        let conversation = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut());
        let (Some(conversation), Ends::Tcp(ends)) = (conversation, &mut self.ends) else { return SENDER };
        match conversation.turn {
            NextAction::Open => ends[RECEIVER].open(now),
            NextAction::Answer => {
                ends[SENDER].write(Some(conversation.present.response), now);
                if !conversation.goes_on() {
                    ends[SENDER].finish();
                }
                return SENDER;
            }
            NextAction::Ask => {
                (conversation.asked, conversation.before) = (now, counted);
                ends[RECEIVER].write(Some(conversation.present.request), now);
            }
        }
        RECEIVER
    }

    /// The request, or enough of it to look, has arrived.
    pub(crate) fn on_request(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let conversation = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut());
        let Ends::Tcp(ends) = &mut self.ends else { return };
        let Some(conversation) = conversation else {
            self.asked_for = false;
            ends[SENDER].write(self.transfer.bytes, now);
            return ends[SENDER].finish();
        };
        if ends[SENDER].received() >= conversation.requested {
            self.asked_for = false;
            conversation.turn = NextAction::Answer;
            let at = now + conversation.present.think;
            self.set_turn(at, slot, net);
        }
    }

    /// The response has arrived and more exchanges follow: the client pauses before the next one.
    pub(crate) fn go_on(&mut self, slot: u32, now: Instant, net: &mut impl Network) {
        let conversation = self.cold.as_mut().and_then(|cold| cold.conversation.as_mut());
        let Some((conversation, next)) =
            conversation.and_then(|conversation| conversation.rest.next().map(|next| (conversation, next)))
        else {
            return;
        };
        conversation.present = next;
        conversation.turn = NextAction::Ask;
        conversation.asked = Instant::NEVER;
        conversation.requested += next.request;
        self.transfer = transfer(&next, conversation.requested, self.transfer.host);
        self.asked_for = true;
        self.goal += next.response;
        (self.first_byte, self.completed) = (Instant::NEVER, Instant::NEVER);
        self.set_turn(now + next.pause, slot, net);
    }
}
