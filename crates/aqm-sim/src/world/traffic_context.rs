//! The interface between workloads and a run. A workload uses the [`TrafficContext`] during a call to request actions,
//! which are executed after the call.

use std::collections::BTreeMap;

use aqm_guest::{Guest, Origin, Provider};
use aqm_net::level::Failure;
use aqm_net::watch::StopRequest;
use aqm_net::{Ecn, Instant, Span};
use aqm_tcp::Endpoint;
use aqm_traffic::{ConnectionState, Conversation, Exchange, TrafficContext, Transfer, Workload};

use super::World;
use crate::engine::event::Timer;
use crate::hosts::conversation::ConversationState;
use crate::hosts::flow::{Ends, Exchanging, Flow};
use crate::hosts::side::Side;
use crate::network::Network;

/// An action that a workload requests. Rare actions are boxed, because each action is moved twice.
pub(super) enum Action {
    Wake(Instant),
    Open(Transfer),
    Converse(Box<Conversation>),
    Ask(u32, Exchange),
    Finish(u32),
    Reset(u32),
    Datagram { from: Side, stream: u32, bytes: u16, ecn: Ecn },
    ReportWindow { stream: u32, segments: u16 },
    Fail(Box<Failure>),
}

/// The actions that a workload requests during one call, in order. The actions are executed after the call.
struct ActionQueue<'a> {
    now: Instant,
    actions: &'a mut Vec<Action>,
    /// Slots of the workload's conversations, by number.
    conversations: &'a BTreeMap<u32, u32>,
    flows: &'a [Flow],
    guests: &'static dyn Provider,
    stop: &'a StopRequest,
}

impl TrafficContext for ActionQueue<'_> {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        self.actions.push(Action::Wake(at));
    }
    fn open(&mut self, transfer: Transfer) {
        self.actions.push(Action::Open(transfer));
    }
    fn converse(&mut self, conversation: Conversation) {
        self.actions.push(Action::Converse(Box::new(conversation)));
    }
    fn request(&mut self, number: u32, exchange: Exchange) {
        self.actions.push(Action::Ask(number, exchange));
    }
    fn finish(&mut self, number: u32) {
        self.actions.push(Action::Finish(number));
    }
    fn reset(&mut self, number: u32) {
        self.actions.push(Action::Reset(number));
    }
    fn connection(&self, number: u32) -> Option<ConnectionState> {
        let slot = *self.conversations.get(&number)?;
        self.flows.get(slot as usize).and_then(Flow::connection_state)
    }
    fn datagram(&mut self, stream: u32, bytes: u16, ecn: Ecn) {
        self.actions.push(Action::Datagram { from: Side::Sender, stream, bytes, ecn });
    }
    fn datagram_back(&mut self, stream: u32, bytes: u16, ecn: Ecn) {
        self.actions.push(Action::Datagram { from: Side::Receiver, stream, bytes, ecn });
    }
    fn report_window(&mut self, stream: u32, segments: u16) {
        self.actions.push(Action::ReportWindow { stream, segments });
    }
    fn guest(&self, origin: &Origin<'_>) -> Result<Box<dyn Guest>, String> {
        self.guests.guest(origin, self.stop)
    }
    fn fail(&mut self, message: String, report: String) {
        self.actions.push(Action::Fail(Box::new(Failure::Workload { message, report })));
    }
}

impl<N: Network> World<'_, N> {
    /// Calls a workload and executes the actions that the workload requests.
    pub(super) fn call_workload(
        &mut self,
        position: u32,
        now: Instant,
        call: impl FnOnce(&mut dyn Workload, &mut dyn TrafficContext),
    ) {
        let mut actions = std::mem::take(&mut self.actions);
        let state = &mut self.workloads[position as usize];
        let (conversations, flows) = (&state.conversations, &self.flows[..]);
        let (guests, stop) = (self.guests, &self.stop);
        let mut queue = ActionQueue { now, actions: &mut actions, conversations, flows, guests, stop };
        call(state.workload.as_mut(), &mut queue);
        for action in actions.drain(..) {
            match action {
                Action::Wake(at) => self.net.set_timer(at.max(now), 0, Timer::Workload(position)),
                Action::Open(transfer) => self.open(position, transfer, now),
                Action::Converse(conversation) => self.converse(position, *conversation, now),
                Action::Ask(number, exchange) => self.ask(position, number, exchange, now),
                Action::Finish(number) => self.finish_conversation(position, number, now),
                Action::Reset(number) => self.reset_conversation(position, number, now),
                Action::Datagram { from, stream, bytes, ecn } => {
                    self.send_datagram(position, (from, stream), (bytes, ecn), now);
                }
                Action::ReportWindow { stream, segments } => {
                    self.report_window(position, stream, segments, now);
                }
                Action::Fail(failure) => self.fail(*failure),
            }
        }
        self.actions = actions;
    }

    /// Ends the run with an error.
    #[cold]
    fn fail(&mut self, mut failure: Failure) {
        if let Failure::Workload { message, report } = &mut failure
            && !report.is_empty()
        {
            *report = format!("fault: {message}\nseed: {}\n\n{report}", self.scenario.seed);
        }
        self.failure.get_or_insert(failure);
        self.end = Instant::START;
    }

    /// Opens a connection for a transfer.
    fn open(&mut self, position: u32, transfer: Transfer, now: Instant) {
        self.pages.open(position, &transfer, now);
        let mut ends = self.ends(position);
        let opener = match transfer.request {
            None => {
                ends[Side::Sender as usize].write(transfer.bytes, now);
                ends[Side::Sender as usize].finish();
                Side::Sender
            }
            Some(bytes) => {
                ends[Side::Receiver as usize].write(Some(bytes.into()), now);
                Side::Receiver
            }
        };
        ends[opener.other() as usize].listen(now);
        ends[opener as usize].open(now);
        let slot = self.add_flow(position, transfer, Ends::Tcp(ends), now);
        self.flows[slot as usize].pump_seldom((opener, slot), now, &mut self.net, &mut self.transit);
    }

    /// Creates a connection for a conversation. If the client has a delay, the client opens the connection after this
    /// delay.
    fn converse(&mut self, position: u32, mut conversation: Conversation, now: Instant) {
        if conversation.streams.is_some() {
            return self.converse_in_streams(position, conversation, now);
        }
        if self.tcp[position as usize].has_streams() {
            conversation.handshake = None;
        }
        let (number, host, delay) = (conversation.number, conversation.host, conversation.client_delay);
        let extra = [conversation.server_delay, delay].map(|delay| delay.saturating_mul(2));
        self.hosts_take_time |= extra != [Span::ZERO; 2];
        let mut ends = self.ends(position);
        let first = conversation.handshake.unwrap_or(conversation.first);
        ends[Side::Receiver as usize].write(Some(first.request), now);
        ends[Side::Sender as usize].listen(now);
        let state = ConversationState::new(conversation, now + delay);
        let transfer = state.transfer(host);
        let of_page = if state.is_handshake() { Transfer { bytes: None, ..transfer } } else { transfer };
        self.pages.open(position, &of_page, now);
        let slot = self.add_flow(position, transfer, Ends::Tcp(ends), now);
        if self.hosts_take_time {
            self.delays.lengthen(slot, extra);
        }
        let flow = &mut self.flows[slot as usize];
        flow.converse(state);
        flow.set_conversation_timer(now + delay, slot, &mut self.net);
        if let Some(number) = number {
            self.workloads[position as usize].conversations.insert(number, slot);
        }
    }

    /// Adds an exchange to a conversation, unless the conversation is over.
    fn ask(&mut self, position: u32, number: u32, exchange: Exchange, now: Instant) {
        let Some(&slot) = self.workloads[position as usize].conversations.get(&number) else { return };
        if self.flows[slot as usize].exchanging == Exchanging::Streams {
            return self.ask_in_stream(slot, exchange, now);
        }
        let conversation = self.flows[slot as usize].conversation_mut();
        if conversation.is_some_and(|conversation| conversation.append(exchange)) {
            self.begin_exchange(slot, now);
        }
    }

    /// Records that a workload requests no further exchanges in a conversation.
    fn finish_conversation(&mut self, position: u32, number: u32, now: Instant) {
        let Some(&slot) = self.workloads[position as usize].conversations.get(&number) else { return };
        if self.flows[slot as usize].exchanging == Exchanging::Streams {
            return self.finish_streams(slot, now);
        }
        let conversation = self.flows[slot as usize].conversation_mut();
        if conversation.is_some_and(|conversation| conversation.finish()) {
            self.hang_up(slot, now);
        }
    }

    /// Ends a conversation at both ends at once.
    fn reset_conversation(&mut self, position: u32, number: u32, now: Instant) {
        let Some(slot) = self.workloads[position as usize].conversations.remove(&number) else { return };
        self.catch_up(now);
        let flow = &mut self.flows[slot as usize];
        if let Ends::Tcp(ends) = &mut flow.ends {
            ends.iter_mut().for_each(Endpoint::abort);
        }
        flow.pump_seldom((Side::Sender, slot), now, &mut self.net, &mut self.transit);
        self.retire_if_over(slot);
    }

    /// Returns the two ends of a workload's next connection.
    pub(super) fn ends(&self, position: u32) -> [Endpoint; 2] {
        let (streams, number) = (self.scenario.chance(), u64::from(self.next_flow));
        let tcp = &self.tcp[position as usize];
        let sender = tcp
            .endpoint()
            .with_random(|| streams.named("tcp/send-overhead", number))
            .with_control_random(|| streams.named("tcp/congestion-control", number));
        [sender, tcp.endpoint()]
    }
}
