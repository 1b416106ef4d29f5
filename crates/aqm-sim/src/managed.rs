//! A managed link: a port, who hears what its queue does, and when it must be served without a packet.

use aqm_net::{Instant, Packet, Span};
use aqm_queue::{Departure, Port};

use crate::lines::Lines;
use crate::recorder::PacketEvent;
use crate::transit::{InTransit, LinkObserver};

/// A port, and what the engine knows of its link.
pub(crate) struct Managed {
    pub(crate) port: Port,
    /// The number of the link.
    link: u32,
    delay: Span,
    /// For how long after the beginning of a transmission the packet has surely not reached the far end.
    lookahead: Span,
    /// By hop: the hosts that packets there come from and go to. Empty unless the queue wants to know.
    hosts: Vec<[u16; 2]>,
    /// Whether its packets are recorded.
    pub(crate) traced: bool,
}

impl Managed {
    pub(crate) fn new(port: Port, link: u32, delay: Span, hosts: Vec<[u16; 2]>, traced: bool) -> Self {
        let lookahead = Span::from_nanos(delay.nanos().saturating_sub(1));
        Self { port, link, delay, lookahead, hosts, traced }
    }

    /// What hears of fates while the port is called.
    #[inline]
    pub(crate) fn observer<'a>(&self, transit: &'a mut InTransit) -> LinkObserver<'a> {
        transit.at_link(self.link, self.port.arrivals(), self.traced)
    }

    /// The moment after whose events the port must catch up at the latest, if no packet arrives before: no packet
    /// that is sent later reaches the far end by then.
    #[inline]
    pub(crate) fn serve_by(&self) -> Instant {
        self.port.next_start().map_or(Instant::NEVER, |start| start + self.lookahead)
    }

    /// Offers `packet` to the queue; whatever leaves it departs on `lines`.
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        mut packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        lines: &mut Lines,
    ) {
        tell_hosts(&self.hosts, &mut packet);
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_departure_before(now, &mut observer) {
            lines.depart(departure.packet, departure.end + self.delay);
        }
        if self.port.join(packet, now, &mut observer)
            && let Some(departure) = self.port.next_departure(now, &mut observer)
        {
            lines.depart(departure.packet, departure.end + self.delay);
        }
    }

    /// Lets the port send what is due.
    pub(crate) fn serve(&mut self, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        if self.traced {
            return self.serve_traced(now, transit, lines);
        }
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_departure(now, &mut observer) {
            lines.depart(departure.packet, departure.end + self.delay);
        }
    }

    /// As [`offer`](Self::offer), and records what happens.
    #[cold]
    pub(crate) fn offer_traced(
        &mut self,
        mut packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        lines: &mut Lines,
    ) {
        tell_hosts(&self.hosts, &mut packet);
        // What departs before it joins goes first, so that each row shows the queue as it was.
        let mut departures = Vec::new();
        let mut observer = self.observer(transit);
        self.port.serve_before(now, &mut observer, |departure| departures.push(departure));
        self.note_departures(&departures, transit, lines);
        departures.clear();
        let (dropped, first) = (transit.fates.dropped.len(), transit.recorder.packets.len());
        let mut observer = self.observer(transit);
        self.port.accept(packet, now, &mut observer, |departure| departures.push(departure));
        if !transit.fates.dropped[dropped..].iter().any(|fate| fate.packet == packet) {
            self.observer(transit).trace(PacketEvent::Enqueue, &packet, now);
        }
        // A packet that goes straight to the line has joined the queue for a moment.
        transit.recorder.note_queue(first, self.port.discipline(), departures.len());
        self.note_departures(&departures, transit, lines);
    }

    #[cold]
    fn serve_traced(&mut self, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        let mut departures = Vec::new();
        let mut observer = self.observer(transit);
        self.port.serve(now, &mut observer, |departure| departures.push(departure));
        self.note_departures(&departures, transit, lines);
    }

    fn note_departures(&self, departures: &[Departure], transit: &mut InTransit, lines: &mut Lines) {
        for (place, departure) in departures.iter().enumerate() {
            // The queue has already seen the departures that follow this one.
            let first = transit.recorder.packets.len();
            self.observer(transit).trace(PacketEvent::Start, &departure.packet, departure.start);
            transit.recorder.note_queue(first, self.port.discipline(), departures.len() - 1 - place);
            lines.depart(departure.packet, departure.end + self.delay);
        }
    }
}

/// Writes into `packet` which hosts it comes from and goes to, if `hosts` knows, by hop.
#[inline]
pub(crate) fn tell_hosts(hosts: &[[u16; 2]], packet: &mut Packet) {
    if let Some(&[source, destination]) = hosts.get(packet.hop as usize) {
        (packet.source, packet.destination) = (source, destination);
    }
}
