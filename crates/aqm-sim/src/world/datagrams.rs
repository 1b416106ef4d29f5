//! Datagram streams: sending and receiving datagrams.

use aqm_net::{Ecn, Instant, Packet};
use aqm_traffic::{ArrivedDatagram, Transfer};

use super::World;
use crate::hosts::counts::Received;
use crate::hosts::flow::Ends;
use crate::hosts::side::Side;
use crate::network::Network;
use crate::network::payloads::{Contents, Payload};
use crate::results::call_tables::{CallRow, FrameRow};

impl<N: Network> World<'_, N> {
    /// Sends a datagram of the stream `stream` from the side `from`. The first datagram opens the stream.
    pub(super) fn send_datagram(
        &mut self,
        position: u32,
        (from, stream): (Side, u32),
        (bytes, ecn): (u16, Ecn),
        now: Instant,
    ) {
        let streams = &self.workloads[position as usize].streams[from as usize];
        let slot = match streams.get(stream as usize) {
            Some(&Some(slot)) => slot,
            _ => self.open_stream(position, (from, stream), now),
        };
        let flow = &mut self.flows[slot as usize];
        let Ends::Datagrams { sent, .. } = &mut flow.ends else { return };
        let contents = Contents::Datagram { number: *sent, sent: now };
        *sent += 1;
        flow.in_flight += 1;
        let packet = Packet {
            id: self.transit.payloads.put(Payload { contents, slot, to: from.other() }),
            flow: flow.number,
            hop: flow.first_hop[from as usize],
            bytes,
            ecn,
            label: position as u16,
            ..Packet::default()
        };
        self.transit.note_sent(&packet, now);
        self.net.send(packet, now, &mut self.transit);
    }

    /// Opens the stream `stream`, which is sent from the side `from`. Returns the slot of the stream's flow.
    #[cold]
    fn open_stream(&mut self, position: u32, (from, stream): (Side, u32), now: Instant) -> u32 {
        let transfer = Transfer { bytes: None, request: None, page: None, page_objects: 0, host: stream };
        let ends = Ends::Datagrams { sent: 0, received: Received::default() };
        let slot = self.add_flow(position, transfer, ends, now);
        let streams = &mut self.workloads[position as usize].streams[from as usize];
        if streams.len() <= stream as usize {
            streams.resize(stream as usize + 1, None);
        }
        streams[stream as usize] = Some(slot);
        slot
    }

    /// Handles the arrival of the datagram `number` at the side `to`. The datagram was sent at `sent`.
    pub(super) fn on_datagram(
        &mut self,
        packet: &Packet,
        (slot, to): (u32, Side),
        (number, sent): (u64, Instant),
        now: Instant,
    ) {
        let flow = &mut self.flows[slot as usize];
        flow.in_flight -= 1;
        if let Ends::Datagrams { received, .. } = &mut flow.ends {
            received.count += 1;
            received.bytes += u64::from(packet.bytes);
            received.total_delay = received.total_delay + now.since(sent);
        }
        let (position, stream) = (flow.traffic, Transfer::from(flow.transfer).host);
        if self.workloads[position as usize].observes_datagrams {
            let arrived = ArrivedDatagram {
                flow: stream,
                back: to == Side::Sender,
                number,
                sent,
                bytes: packet.bytes,
                ecn: packet.ecn,
            };
            self.call_workload(position, now, |workload, cx| workload.on_datagram(&arrived, cx));
        }
        self.retire_if_over(slot);
    }

    /// Reports the drop of the datagram `number` on its way to the side `to`.
    #[cold]
    pub(super) fn on_datagram_dropped(&mut self, slot: u32, to: Side, number: u64) {
        let flow = &self.flows[slot as usize];
        let state = &mut self.workloads[flow.traffic as usize];
        if state.observes_datagrams {
            let stream = Transfer::from(flow.transfer).host;
            state.workload.on_datagram_dropped(stream, to == Side::Sender, number);
        }
    }

    /// Returns the records of calls in the columns of the tables `calls` and `frames`.
    pub(super) fn call_rows(&self) -> (Vec<CallRow>, Vec<FrameRow>) {
        let (mut seconds, mut frames) = (Vec::new(), Vec::new());
        for (traffic, state) in self.workloads.iter().enumerate() {
            for record in state.workload.call_records() {
                let streams = &state.streams[usize::from(record.flow.back)];
                // A flow that has never been opened has no datagrams.
                let Some(&Some(slot)) = streams.get(record.flow.flow as usize) else { continue };
                let number = self.flows[slot as usize].number.into();
                let flow = (number, traffic as u32, record.flow.back);
                seconds.extend(record.seconds.iter().map(|one| CallRow::new(flow, one)));
                let numbered = (0..).zip(&record.frames);
                frames.extend(numbered.map(|(number, one)| FrameRow::new(flow, number, one)));
            }
        }
        (seconds, frames)
    }
}
