//! A managed link: a port, who hears what its queue does, and when it must be served without a packet.

use aqm_net::{Instant, Packet, Span, Streams};
use aqm_queue::{Counters, Departure, Observer, Port, Reason};

use crate::lines::Lines;
use crate::links::LinkSpec;
use crate::propagation::Way;
use crate::recorder::PacketEvent;
use crate::transit::{InTransit, LinkObserver};

/// A port, and what the engine knows of its link.
pub(crate) struct Managed {
    pub(crate) port: Port,
    /// The number of the link.
    link: u32,
    to_far_end: ToFarEnd,
    /// For how long after the beginning of a transmission the packet has surely not reached the far end.
    lookahead: Span,
    /// By hop: the hosts that packets there come from and go to. Empty unless the queue wants to know.
    hosts: Vec<[u16; 2]>,
    /// Whether its packets are recorded.
    pub(crate) traced: bool,
    /// Whether they are, or its line does more than send at one rate, over one delay.
    pub(crate) special: bool,
}

impl Managed {
    pub(crate) fn new(
        port: Port,
        link: u32,
        to_far_end: ToFarEnd,
        hosts: Vec<[u16; 2]>,
        traced: bool,
    ) -> Self {
        let lookahead = Span::from_nanos(to_far_end.least_delay.nanos().saturating_sub(1));
        let special = traced || !port.is_steady() || to_far_end.special.is_some();
        Self { port, link, to_far_end, lookahead, hosts, traced, special }
    }

    /// What the port has counted, and what the line has lost.
    pub(crate) fn with_losses(&self, mut counters: Counters) -> Counters {
        if let Some(special) = &self.to_far_end.special {
            counters.drops += special.lost;
            counters.drops_by_reason[Reason::LineLoss as usize] += special.lost;
            counters.dropped_bytes += special.lost_bytes;
        }
        counters
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

    /// Offers `packet` to the queue of a link that is not special; whatever leaves it departs on `lines`.
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        mut packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        lines: &mut Lines,
    ) {
        tell_hosts(&self.hosts, &mut packet);
        let delay = self.to_far_end.delay;
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_steady_departure_before(now, &mut observer) {
            lines.depart(departure.packet, departure.end.plus(delay));
        }
        if self.port.join_steady(packet, now, &mut observer) {
            observer.note_arrival();
            if let Some(departure) = self.port.next_steady_departure(now, &mut observer) {
                lines.depart(departure.packet, departure.end.plus(delay));
            }
        }
    }

    /// Lets the port send what is due.
    pub(crate) fn serve(&mut self, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        if self.special {
            return self.serve_special(now, transit, lines);
        }
        let delay = self.to_far_end.delay;
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_steady_departure(now, &mut observer) {
            lines.depart(departure.packet, departure.end.plus(delay));
        }
    }

    /// As [`offer`](Self::offer), to the queue of any link.
    #[inline(never)]
    pub(crate) fn offer_special(
        &mut self,
        mut packet: Packet,
        now: Instant,
        transit: &mut InTransit,
        lines: &mut Lines,
    ) {
        if self.traced {
            return self.offer_traced(packet, now, transit, lines);
        }
        tell_hosts(&self.hosts, &mut packet);
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_departure_before(now, &mut observer) {
            self.to_far_end.depart(departure, &mut observer, lines);
        }
        if self.port.join(packet, now, &mut observer) {
            observer.note_arrival();
            if let Some(departure) = self.port.next_departure(now, &mut observer) {
                self.to_far_end.depart(departure, &mut observer, lines);
            }
        }
    }

    #[inline(never)]
    fn serve_special(&mut self, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        if self.traced {
            return self.serve_traced(now, transit, lines);
        }
        let mut observer = self.observer(transit);
        while let Some(departure) = self.port.next_departure(now, &mut observer) {
            self.to_far_end.depart(departure, &mut observer, lines);
        }
    }

    /// As [`offer`](Self::offer), and records what happens.
    #[cold]
    fn offer_traced(&mut self, mut packet: Packet, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        tell_hosts(&self.hosts, &mut packet);
        while let Some(departure) =
            self.next_traced(transit, |port, observer| port.next_departure_before(now, observer))
        {
            self.depart_traced(departure, transit, lines);
        }
        let (dropped, first) = (transit.fates.dropped.len(), transit.recorder.packets.len());
        let begins = self.port.join(packet, now, &mut self.observer(transit));
        let mut observer = self.observer(transit);
        let departure = if begins { self.port.next_departure(now, &mut observer) } else { None };
        if !transit.fates.dropped[dropped..].iter().any(|fate| fate.packet == packet) {
            self.observer(transit).trace(PacketEvent::Enqueue, &packet, now);
        }
        // A packet that goes straight to the line has joined the queue for a moment.
        transit.recorder.note_queue(first, self.port.discipline(), departure.iter().count());
        if let Some(departure) = departure {
            self.depart_traced(departure, transit, lines);
        }
    }

    #[cold]
    fn serve_traced(&mut self, now: Instant, transit: &mut InTransit, lines: &mut Lines) {
        while let Some(departure) =
            self.next_traced(transit, |port, observer| port.next_departure(now, observer))
        {
            self.depart_traced(departure, transit, lines);
        }
    }

    /// The next departure, if any; each row of what the queue drops then shows the queue as it was.
    fn next_traced(
        &mut self,
        transit: &mut InTransit,
        next: impl FnOnce(&mut Port, &mut LinkObserver<'_>) -> Option<Departure>,
    ) -> Option<Departure> {
        let first = transit.recorder.packets.len();
        let mut observer = self.observer(transit);
        let departure = next(&mut self.port, &mut observer);
        transit.recorder.note_queue(first, self.port.discipline(), departure.iter().count());
        departure
    }

    fn depart_traced(&mut self, departure: Departure, transit: &mut InTransit, lines: &mut Lines) {
        let first = transit.recorder.packets.len();
        let mut observer = self.observer(transit);
        observer.trace(PacketEvent::Start, &departure.packet, departure.start);
        self.to_far_end.depart(departure, &mut observer, lines);
        transit.recorder.note_queue(first, self.port.discipline(), 0);
    }
}

/// The way from the line of a link to its far end.
pub(crate) struct ToFarEnd {
    delay: Span,
    /// Of all packets.
    least_delay: Span,
    /// If not every packet takes the same time, or arrives.
    special: Option<Box<Special>>,
}

struct Special {
    way: Way,
    /// Packets and bytes that the line has lost.
    lost: u64,
    lost_bytes: u64,
}

impl ToFarEnd {
    /// That of a link; `chance` has its streams.
    pub(crate) fn new(spec: &LinkSpec, chance: &Streams) -> Self {
        let way = spec.line.propagation.as_ref().map(|propagation| propagation.running(chance, &spec.name));
        let special = way.map(|way| Box::new(Special { way, lost: 0, lost_bytes: 0 }));
        Self { delay: spec.delay, least_delay: spec.least_delay(), special }
    }

    /// A packet is on the line, and then on its way.
    fn depart(&mut self, departure: Departure, observer: &mut LinkObserver<'_>, lines: &mut Lines) {
        match &mut self.special {
            None => lines.depart(departure.packet, departure.end + self.delay),
            Some(special) => special.depart(&departure, observer, lines),
        }
    }
}

impl Special {
    fn depart(&mut self, departure: &Departure, observer: &mut LinkObserver<'_>, lines: &mut Lines) {
        match self.way.arrival(departure.end) {
            // On a line that sends nothing any more a packet stays for ever.
            Some(there) if there >= FOR_EVER => {}
            Some(there) => lines.depart(departure.packet, there),
            None => {
                self.lost += 1;
                self.lost_bytes += u64::from(departure.packet.bytes);
                observer.dropped(&departure.packet, Reason::LineLoss, departure.start);
            }
        }
    }
}

/// No run lasts as long, and no event later than this fits the clock of the event queue.
const FOR_EVER: Instant = Instant::from_nanos(1 << 60);

/// Writes into `packet` which hosts it comes from and goes to, if `hosts` knows, by hop.
#[inline]
pub(crate) fn tell_hosts(hosts: &[[u16; 2]], packet: &mut Packet) {
    if let Some(&[source, destination]) = hosts.get(packet.hop as usize) {
        (packet.source, packet.destination) = (source, destination);
    }
}
