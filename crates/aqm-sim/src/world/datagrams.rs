//! Datagram streams: sending and receiving datagrams.

use aqm_net::{Ecn, Instant, Packet};
use aqm_traffic::Transfer;

use super::World;
use crate::hosts::counts::Received;
use crate::hosts::flow::Ends;
use crate::hosts::side::Side;
use crate::network::Network;
use crate::network::payloads::{Contents, Payload};

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

    /// Handles the arrival of a datagram that was sent at `sent`.
    pub(super) fn on_datagram(&mut self, packet: &Packet, slot: u32, sent: Instant, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        flow.in_flight -= 1;
        if let Ends::Datagrams { received, .. } = &mut flow.ends {
            received.count += 1;
            received.bytes += u64::from(packet.bytes);
            received.total_delay = received.total_delay + now.since(sent);
        }
        self.retire_if_over(slot);
    }
}
