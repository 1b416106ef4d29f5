//! The life cycle of a flow, from its opening to its last row: allocation of its slot, reporting of drops and marks,
//! and the end of the flow.

use aqm_net::Instant;
use aqm_traffic::Transfer;

use super::World;
use crate::hosts::flow::{Ends, Exchanging, Flow};
use crate::hosts::side::Side;
use crate::network::Network;
use crate::network::payloads::{Contents, Payload};
use crate::network::transit::Fate;

impl<N: Network> World<'_, N> {
    /// Opens a flow of the workload at `position` and returns the slot of the flow.
    pub(super) fn add_flow(&mut self, position: u32, transfer: Transfer, ends: Ends, now: Instant) -> u32 {
        let state = &mut self.workloads[position as usize];
        let traffic = &self.scenario.traffic[position as usize];
        let extra_delay = traffic.extra_delay(self.scenario.seed, state.flows_opened);
        state.flows_opened += 1;
        let routes = self.topology.routes[position as usize];
        let host = if traffic.config.own_hosts() { transfer.host } else { 0 };
        let flow = Flow {
            number: self.next_flow,
            traffic: position,
            exchanging: if transfer.request.is_some() { Exchanging::AwaitsRequest } else { Exchanging::Idle },
            transfer: transfer.into(),
            ends,
            first_hop: routes.first_hops(host),
            opened: now,
            first_byte: Instant::NEVER,
            completed: Instant::NEVER,
            goal: transfer.bytes.unwrap_or(u64::MAX),
            closed: Instant::NEVER,
            dropped: 0,
            marked: 0,
            long: 0,
            cold: None,
            in_flight: 0,
            sampled: state.sampled,
            timers: 0,
            timer_at: [Instant::NEVER; 2],
        };
        self.next_flow += 1;
        let slot = if let Some(slot) = self.free.pop() {
            self.flows[slot as usize] = flow;
            self.acknowledged[slot as usize] = Instant::NEVER;
            slot
        } else {
            self.flows.push(flow);
            self.acknowledged.push(Instant::NEVER);
            (self.flows.len() - 1) as u32
        };
        if self.hosts_take_time {
            self.delays.open(slot, [extra_delay; 2]);
        }
        slot
    }

    /// Serves all links up to `now`, and reports the drops and marks of their queues to the affected flows.
    pub(super) fn catch_up(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        self.apply_fates();
    }

    /// Reports drops and marks to the flows of the packets.
    #[inline(never)]
    pub(super) fn apply_fates(&mut self) {
        while let Some(Fate { packet, .. }) = self.transit.fates.dropped.pop() {
            let Payload { contents, slot, to } = self.transit.payloads.take(packet.id);
            if let Contents::Datagram { number, .. } = contents {
                self.on_datagram_dropped(slot, to, number);
            }
            let flow = &mut self.flows[slot as usize];
            flow.in_flight -= 1;
            // A datagram stream has only one direction.
            flow.dropped += u32::from(to == Side::Receiver || matches!(flow.ends, Ends::Datagrams { .. }));
            self.retire_if_over(slot);
        }
        while let Some(Fate { slot, .. }) = self.transit.fates.marked.pop() {
            self.flows[slot as usize].marked += 1;
        }
    }

    /// Frees the slot of a flow if nothing refers to the flow any more.
    #[inline]
    pub(super) fn retire_if_over(&mut self, slot: u32) {
        if self.flows[slot as usize].is_over() {
            self.retire(slot);
        }
    }

    /// Handles a flow whose connection was aborted by one end at `now`. Reports the failed transfer to the workload.
    #[cold]
    pub(super) fn on_failure(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        let (traffic, transfer) = (flow.traffic, flow.transfer.into());
        let Some(number) = flow.workload_number() else {
            return self.call_workload(traffic, now, |workload, cx| workload.on_failed(transfer, cx));
        };
        self.forget_number(slot);
        self.call_workload(traffic, now, |workload, cx| workload.on_connection_failed(number, cx));
    }

    /// Writes the rows of a flow and frees its slot.
    #[inline(never)]
    pub(super) fn retire(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        if !self.measuring {
            // The whole flow precedes the measurement interval, so all of its counts are excluded.
            flow.begin_measuring();
        }
        self.write_rows(slot);
        self.free.push(slot);
        // This assignment ensures that the slot is freed only once, because a flow that is not closed is never over.
        self.flows[slot as usize].closed = Instant::NEVER;
    }

    pub(super) fn write_rows(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        let row = flow.row(self.scenario.duration - self.scenario.warm_up);
        if self.workloads[flow.traffic as usize].workload.guest_record().is_some() {
            return self.write_guest_flow(slot, row);
        }
        self.record.write_flow(row);
        self.write_transfer_row(slot);
    }

    pub(super) fn write_transfer_row(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        let tcp = &self.tcp[flow.traffic as usize];
        let acknowledged = self.acknowledged[slot as usize];
        if let Some(row) = flow.transfer_row(acknowledged, |bytes| tcp.segments(bytes)) {
            self.record.write_transfer(row);
        }
        if flow.exchanging == Exchanging::Streams {
            self.write_incomplete_streams(slot);
        }
    }
}
