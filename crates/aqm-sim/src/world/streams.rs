//! Conversations with streams: the opening of their connections, the arrival of requests and responses, and their rows.

use aqm_net::{Instant, Span};
use aqm_tcp::Segment;
use aqm_traffic::page_record::ObjectFetch;
use aqm_traffic::{Conversation, Exchange, Transfer};

use super::World;
use crate::hosts::flow::{Ends, Exchanging};
use crate::hosts::multiplexing::{Arrivals, Multiplexing};
use crate::hosts::side::Side;
use crate::network::Network;
use crate::results::page_tables::{PageLoadRow, PageObjectRow};

impl<N: Network> World<'_, N> {
    /// Opens a connection for a conversation with streams.
    pub(super) fn converse_in_streams(&mut self, position: u32, conversation: Conversation, now: Instant) {
        let has_handshake = self.tcp[position as usize].has_streams();
        let number = conversation.number;
        let extra = [conversation.server_delay.saturating_mul(2), Span::ZERO];
        self.hosts_take_time |= extra[0] != Span::ZERO;
        let mut ends = self.ends(position);
        let state = Multiplexing::new(conversation, &mut ends, has_handshake, now);
        ends[Side::Sender as usize].listen(now);
        ends[Side::Receiver as usize].open(now);
        let transfers = state.transfers();
        for transfer in &transfers {
            self.pages.open(position, transfer, now);
        }
        let transfer = Transfer { bytes: Some(state.total_bytes()), ..transfers[0] };
        let slot = self.add_flow(position, transfer, Ends::Tcp(ends), now);
        if self.hosts_take_time {
            self.delays.lengthen(slot, extra);
        }
        let flow = &mut self.flows[slot as usize];
        flow.cold.get_or_insert_default().multiplexing = Some(Box::new(state));
        flow.exchanging = Exchanging::Streams;
        flow.pump_seldom((Side::Receiver, slot), now, &mut self.net, &mut self.transit);
        if let Some(number) = number {
            self.workloads[position as usize].conversations.insert(number, slot);
        }
    }

    /// Adds an exchange to a conversation with streams.
    pub(super) fn ask_in_stream(&mut self, slot: u32, exchange: Exchange, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        let counted = flow.counted();
        let added = flow.with_streams(|state, ends| {
            let added = state.append(exchange, ends, counted, now);
            (added, state.total_bytes())
        });
        let Some((Some((transfer, is_sent)), total)) = added else { return };
        flow.goal = total;
        self.pages.open(flow.traffic, &transfer, now);
        if is_sent {
            flow.pump_seldom((Side::Receiver, slot), now, &mut self.net, &mut self.transit);
        }
    }

    /// Records that a workload requests no further exchanges in a conversation with streams.
    pub(super) fn finish_streams(&mut self, slot: u32, now: Instant) {
        let is_over = self.flows[slot as usize].with_streams(|state, _| {
            state.finish();
            state.is_over()
        });
        if is_over == Some(true) {
            self.close_streams(slot, now);
        }
    }

    /// Processes a segment that has arrived at an end of a conversation with streams.
    #[inline(never)]
    pub(super) fn on_stream_segment(
        &mut self,
        (side, slot): (Side, u32),
        segment: &Segment,
        is_long: bool,
        now: Instant,
    ) {
        let flow = &mut self.flows[slot as usize];
        let opened = flow.opened;
        flow.long += u32::from(is_long && side == Side::Receiver);
        if side == Side::Receiver && flow.first_byte == Instant::NEVER && segment.len > 0 {
            flow.first_byte = now;
        }
        let has_streams = self.tcp[flow.traffic as usize].has_streams();
        let packet = has_streams.then(|| (segment.seq, segment.seq + u64::from(segment.len)));
        let arrivals = flow.with_streams(|state, ends| state.on_arrived(side, packet, ends, (opened, now)));
        let Some(Arrivals { begun, complete, wakes }) = arrivals else { return };
        for at in wakes {
            flow.set_conversation_timer(at, slot, &mut self.net);
        }
        flow.pump::<true>((side, slot), now, &mut self.net, &mut self.transit);
        let traffic = flow.traffic;
        if side == Side::Sender && flow.sampled {
            self.sample_sender(slot, now);
        }
        if !begun.is_empty() {
            self.on_first_bytes(slot, traffic, &begun, now);
        }
        if !complete.is_empty() {
            self.catch_up(now);
            self.on_complete_streams(slot, traffic, &complete, now);
        }
        self.retire_if_over(slot);
    }

    /// Reports the first bytes of responses to the workload.
    fn on_first_bytes(&mut self, slot: u32, traffic: u32, begun: &[u32], now: Instant) {
        let Some(number) = self.flows[slot as usize].workload_number() else { return };
        for &stream in begun {
            let Some(state) = self.flows[slot as usize].multiplexing() else { return };
            let position = state.position(stream);
            self.call_workload(traffic, now, |workload, cx| workload.on_first_byte(number, position, cx));
        }
    }

    /// Writes the rows of complete responses, reports the responses to the workload, and closes the connection after the
    /// last response.
    fn on_complete_streams(&mut self, slot: u32, traffic: u32, complete: &[u32], now: Instant) {
        let number = self.flows[slot as usize].workload_number();
        for &stream in complete {
            let flow = &self.flows[slot as usize];
            let tcp = &self.tcp[traffic as usize];
            if let Some(row) = flow.stream_row(stream, |bytes| tcp.segments(bytes)) {
                self.record.write_transfer(row);
            }
            let Some(state) = flow.multiplexing() else { return };
            let Some(transfer) = state.transfer(stream) else { continue };
            let position = state.position(stream);
            if let Some(row) = self.pages.complete(traffic, &transfer, now) {
                self.record.write_page(row);
            }
            match number {
                Some(number) => {
                    self.call_workload(traffic, now, |workload, cx| {
                        workload.on_stream_response(number, position, cx);
                    });
                }
                None => self.call_workload(traffic, now, |workload, cx| workload.on_done(transfer, cx)),
            }
        }
        if self.flows[slot as usize].multiplexing().is_some_and(Multiplexing::is_over) {
            self.close_streams(slot, now);
        }
    }

    /// Sends the responses that are due.
    pub(super) fn on_stream_timer(&mut self, slot: u32, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        flow.timers -= 1;
        flow.with_streams(|state, ends| state.on_timer(ends, now));
        flow.pump_seldom((Side::Sender, slot), now, &mut self.net, &mut self.transit);
        self.retire_if_over(slot);
    }

    /// Closes the connection of a conversation with streams at both ends.
    fn close_streams(&mut self, slot: u32, now: Instant) {
        self.forget_number(slot);
        let flow = &mut self.flows[slot as usize];
        if flow.completed != Instant::NEVER {
            return;
        }
        flow.completed = now;
        flow.with_streams(|_, ends| ends.iter_mut().for_each(aqm_tcp::Endpoint::finish));
        for side in [Side::Receiver, Side::Sender] {
            flow.pump_seldom((side, slot), now, &mut self.net, &mut self.transit);
        }
        self.retire_if_over(slot);
    }

    /// Returns the records of pages in the columns of the tables `page_loads` and `page_objects`.
    pub(super) fn page_rows(&self) -> (Vec<PageLoadRow>, Vec<PageObjectRow>) {
        let (mut loads, mut objects) = (Vec::new(), Vec::new());
        for (traffic, state) in (0..).zip(&self.workloads) {
            let Some(record) = state.workload.page_record() else { continue };
            loads.extend(record.loads.iter().map(|load| PageLoadRow::new(traffic, load)));
            let of_object = |object: &ObjectFetch| {
                let load = record.loads.get(object.page as usize)?;
                Some(PageObjectRow::new(traffic, load.start, object))
            };
            objects.extend(record.objects.iter().filter_map(of_object));
        }
        (loads, objects)
    }

    /// Writes the rows of the responses that are incomplete.
    #[cold]
    pub(super) fn write_incomplete_streams(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        let tcp = &self.tcp[flow.traffic as usize];
        let Some(state) = flow.multiplexing() else { return };
        let rows =
            state.incomplete().filter_map(|stream| flow.stream_row(stream, |bytes| tcp.segments(bytes)));
        rows.for_each(|row| self.record.write_transfer(row));
    }
}
