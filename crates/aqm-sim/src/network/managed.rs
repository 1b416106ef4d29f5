//! A managed link: a link with a queue, an observer of drops and marks, and the time by which the link must be served.

use aqm_link::{Departure, Link, Port};
use aqm_net::{Instant, Packet};

use crate::network::transit::{InTransit, LinkObserver};
use crate::network::unmanaged::UnmanagedLinks;
use crate::results::recorder::PacketEvent;

/// A link with a queue, and the data that the engine needs for this link.
pub(crate) struct Managed {
    pub(crate) link: Link,
    /// The number of the link.
    number: u32,
    /// The source and destination hosts of packets, by hop; empty if the queue does not use the hosts.
    hosts: Vec<[u16; 2]>,
    /// Whether the packets of the link are recorded.
    pub(crate) traced: bool,
    /// Whether the link is [plain](Link::is_plain) and not traced. If this field is true, methods may be called with
    /// `PLAIN`, which makes them cheaper.
    plain: bool,
}

impl Managed {
    pub(crate) fn new(link: Link, number: u32, hosts: Vec<[u16; 2]>, traced: bool) -> Self {
        let plain = !traced && link.is_plain();
        Self { link, number, hosts, traced, plain }
    }

    /// Returns the observer for a call to the link.
    #[inline]
    pub(crate) fn observer<'a>(&self, transit: &'a mut InTransit) -> LinkObserver<'a> {
        transit.at_link(self.number, self.link.port.arrivals(), self.traced)
    }

    /// Offers `packet` to the queue. Departing packets are passed to `links`.
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        links: &mut UnmanagedLinks,
    ) {
        if self.plain {
            self.accept::<true>(packet, now, transit, links);
        } else {
            self.accept_not_inlined(packet, now, transit, links);
        }
    }

    /// Sends all packets whose transmission is due.
    #[inline]
    pub(crate) fn serve(&mut self, now: Instant, transit: &mut InTransit, links: &mut UnmanagedLinks) {
        if self.plain {
            self.send_due::<true>(now, transit, links);
        } else {
            self.send_due::<false>(now, transit, links);
        }
    }

    #[inline(never)]
    fn accept_not_inlined(
        &mut self,
        packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        links: &mut UnmanagedLinks,
    ) {
        self.accept::<false>(packet, now, transit, links);
    }

    #[inline(always)]
    fn accept<const PLAIN: bool>(
        &mut self,
        mut packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        links: &mut UnmanagedLinks,
    ) {
        write_hosts(&self.hosts, &mut packet);
        let mut observer = self.observer(transit);
        while let Some(departure) = self
            .next::<PLAIN>(&mut observer, |port, observer| port.next_departure_before::<PLAIN>(now, observer))
        {
            self.depart::<PLAIN>(departure, &mut observer, links);
        }
        let (dropped, first) = (observer.dropped_count(), observer.recorder().packets.len());
        let departure = if self.link.port.join::<PLAIN>(packet, now, &mut observer) {
            observer.note_arrival();
            self.link.port.next_departure::<PLAIN>(now, &mut observer)
        } else {
            None
        };
        if !PLAIN && self.traced {
            if !observer.has_dropped_since(dropped, &packet) {
                observer.trace(PacketEvent::Enqueue, &packet, now);
            }
            // A packet that is sent immediately was in the queue for an instant and is therefore counted.
            let at_once = departure.iter().count();
            observer.recorder().note_queue(first, self.link.port.discipline(), at_once);
        }
        if let Some(departure) = departure {
            self.depart::<PLAIN>(departure, &mut observer, links);
        }
    }

    #[inline(always)]
    fn send_due<const PLAIN: bool>(
        &mut self,
        now: Instant,
        transit: &mut InTransit,
        links: &mut UnmanagedLinks,
    ) {
        let mut observer = self.observer(transit);
        while let Some(departure) =
            self.next::<PLAIN>(&mut observer, |port, observer| port.next_departure::<PLAIN>(now, observer))
        {
            self.depart::<PLAIN>(departure, &mut observer, links);
        }
    }

    /// Returns the next departure, if any. If the queue drops packets during this call, the rows of these packets
    /// contain the state of the queue after the call.
    #[inline(always)]
    fn next<const PLAIN: bool>(
        &mut self,
        observer: &mut LinkObserver<'_>,
        next: impl FnOnce(&mut Port, &mut LinkObserver<'_>) -> Option<Departure>,
    ) -> Option<Departure> {
        let first = observer.recorder().packets.len();
        let departure = next(&mut self.link.port, observer);
        if !PLAIN && self.traced {
            let count = departure.iter().count();
            observer.recorder().note_queue(first, self.link.port.discipline(), count);
        }
        departure
    }

    /// Sends a packet to the far end.
    #[inline(always)]
    fn depart<const PLAIN: bool>(
        &mut self,
        departure: Departure,
        observer: &mut LinkObserver<'_>,
        links: &mut UnmanagedLinks,
    ) {
        let traced = !PLAIN && self.traced;
        let first = observer.recorder().packets.len();
        if traced {
            observer.trace(PacketEvent::Start, &departure.packet, departure.start);
        }
        if let Some(arrival) = self.link.arrival::<PLAIN>(&departure, observer) {
            links.depart(departure.packet, arrival);
        }
        if traced {
            observer.recorder().note_queue(first, self.link.port.discipline(), 0);
        }
    }
}

/// Writes the source and destination hosts into `packet`, if `hosts` contains the hosts of the packet's hop.
#[inline]
pub(crate) fn write_hosts(hosts: &[[u16; 2]], packet: &mut Packet) {
    if let Some(&[source, destination]) = hosts.get(packet.hop as usize) {
        (packet.source, packet.destination) = (source, destination);
    }
}
