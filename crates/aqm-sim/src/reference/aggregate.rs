//! Transmissions of several packets whose duration the queue determines.

use aqm_net::{Instant, Packet};

use super::managed::{Agenda, Managed, TransmitterEvent};
use crate::network::transit::InTransit;

impl Managed {
    /// Begins the transmission of the aggregate whose first packet is `first`.
    pub(super) fn begin_aggregate(
        &mut self,
        first: (Packet, bool),
        now: Instant,
        transit: &mut InTransit,
        agenda: &mut Agenda,
    ) {
        let mut packets = vec![first];
        let last = loop {
            let transmission = self.discipline.transmission().unwrap();
            if !transmission.continues {
                break transmission;
            }
            packets.extend(self.take(now, transit, agenda));
        };
        self.aggregate = Some(packets);
        agenda.push((now + last.sent, TransmitterEvent::Sent));
        agenda.push((now + last.busy, TransmitterEvent::Over));
    }

    /// Sends the packets of the aggregate over the channel.
    pub(super) fn deliver_aggregate(&mut self, now: Instant, agenda: &mut Agenda) {
        let packets = self.aggregate.as_mut().map(std::mem::take).unwrap_or_default();
        for (packet, _) in packets.into_iter().filter(|(_, lost)| !lost) {
            self.propagate(packet, now, agenda);
        }
    }
}
