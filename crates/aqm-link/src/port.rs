//! A port: a queue, and a transmitter that removes packets from the queue.
//!
//! The state of a [`Transmitter`] at any time is known in advance, so the departures are a function of the arrivals,
//! and no "transmission done" event is needed. The owner of a port passes arrivals to the port ([`Port::accept`]) and
//! lets the port process all transmissions up to a time ([`Port::serve`]). The port reports the exact time of each
//! departure, even if the owner calls `serve` much later.
//!
//! The owner must call `serve` before reading the port's state, and before the packet whose transmission begins next
//! ([`Port::next_start`]) could reach the far end. If the owner follows this rule, the owner learns of each departure
//! before the packet arrives at the far end.

use aqm_net::{Instant, Pace, Packet, Rate, Rng, Span};
use aqm_queue::{
    Acknowledgement, Context, Counters, Evidence, Label, Observer, QueueDiscipline, Reason, Transmission,
};

use crate::transmitter::{Transmitter, Varying, Waiting};

/// Order of an arrival and a departure at the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The transmitter takes its next packet before the arriving packet joins the queue. This order is called the tie
    /// rule.
    #[default]
    DepartureFirst,
    /// The arriving packet joins the queue before the transmitter takes its next packet. A run with this order shows
    /// how strongly ties affect the results.
    ArrivalFirst,
}

/// The departure of a packet from the queue, with the times at which its transmission begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet.
    pub packet: Packet,
    /// Time at which the transmission of the first bit begins.
    pub start: Instant,
    /// Time at which the transmission of the last bit ends.
    pub end: Instant,
}

/// A port, which consists of a queue discipline and a transmitter.
pub struct Port {
    discipline: Box<dyn QueueDiscipline>,
    rng: Rng,
    /// The transmitter's rate, if the rate is constant.
    pace: Pace,
    /// The transmitter, if the rate is not constant.
    varying: Option<Box<Varying>>,
    ties: Ties,
    /// The end of the transmission in progress or, if no transmission is in progress, the end of the last transmission.
    /// While the transmitter cannot send, this field contains the time of the next attempt to send.
    free_at: Instant,
    /// Whether the discipline reported that no packet is queued.
    idle: bool,
    /// Whether the transmitter is free while the discipline is holding packets back until `free_at`.
    held: bool,
    /// Time of the last arrival; `NEVER` before the first arrival.
    last_arrival: Instant,
    last_start: Instant,
    ledger: Ledger,
}

/// The packet counters of a port.
#[derive(Default)]
struct Ledger {
    counters: Counters,
    /// The sum of the times at which packets left the queue, minus the sum of the times at which packets joined the
    /// queue, in nanoseconds and modulo 2^128. The integral of the queue length is computed from this difference and
    /// the number of packets that are still queued.
    left_less_joined: u128,
}

impl Port {
    /// Returns an idle port whose transmitter has a constant rate.
    pub fn new(discipline: Box<dyn QueueDiscipline>, rate: Rate, rng: Rng, ties: Ties) -> Self {
        Self::with_transmitter(discipline, Transmitter::constant(rate), rng, ties)
    }

    /// Returns an idle port with the given transmitter.
    pub fn with_transmitter(
        discipline: Box<dyn QueueDiscipline>,
        transmitter: Transmitter,
        rng: Rng,
        ties: Ties,
    ) -> Self {
        let (pace, varying) = match transmitter {
            Transmitter::Constant(_) if discipline.transmission().is_some() => {
                (Rate::LEAST.pace(), Some(Box::new(Varying::timed_by_queue())))
            }
            Transmitter::Constant(pace) => (pace, None),
            Transmitter::Varying(varying) => (Rate::LEAST.pace(), Some(varying)),
        };
        Self {
            discipline,
            rng,
            pace,
            varying,
            ties,
            free_at: Instant::START,
            idle: true,
            held: false,
            last_arrival: Instant::NEVER,
            last_start: Instant::NEVER,
            ledger: Ledger::default(),
        }
    }

    /// Returns whether the transmitter has a constant rate, in which case methods may be called with `STEADY`.
    #[inline]
    pub fn is_steady(&self) -> bool {
        self.varying.is_none()
    }

    /// Handles the arrival of a packet, after first processing all departures that precede the arrival.
    pub fn accept(
        &mut self,
        packet: Packet,
        now: Instant,
        observer: &mut dyn Observer,
        mut depart: impl FnMut(Departure),
    ) {
        self.serve_before(now, observer, &mut depart);
        if self.join::<false>(packet, now, observer) {
            self.serve(now, observer, depart);
        }
    }

    /// Reports the departures that precede a packet arriving at `now`, according to the tie rule.
    pub fn serve_before(
        &mut self,
        now: Instant,
        observer: &mut dyn Observer,
        mut depart: impl FnMut(Departure),
    ) {
        if self.is_steady() {
            while let Some(departure) = self.next_departure_before::<true>(now, observer) {
                depart(departure);
            }
        } else {
            while let Some(departure) = self.next_departure_before::<false>(now, observer) {
                depart(departure);
            }
        }
    }

    /// Calls `depart` for every transmission that starts at or before `until`.
    pub fn serve(&mut self, until: Instant, observer: &mut dyn Observer, mut depart: impl FnMut(Departure)) {
        if self.is_steady() {
            while let Some(departure) = self.next_departure::<true>(until, observer) {
                depart(departure);
            }
        } else {
            while let Some(departure) = self.next_departure::<false>(until, observer) {
                depart(departure);
            }
        }
    }

    /// Handles the arrival of a packet; the caller must already have served the departures that precede the arrival.
    /// Returns whether the transmitter was free and may send now.
    ///
    /// By setting `STEADY`, the caller asserts that the transmitter [has a constant rate](Self::is_steady), which makes
    /// the call cheaper.
    #[inline]
    pub fn join<const STEADY: bool>(
        &mut self,
        packet: Packet,
        now: Instant,
        observer: &mut dyn Observer,
    ) -> bool {
        let begins = self.join_queue(packet, now, observer);
        let begins = if STEADY { begins } else { self.transmitter_begins(begins, now) };
        self.begins(begins, now)
    }

    /// Returns the next departure that precedes a packet arriving at `now`, according to the tie rule.
    #[inline]
    pub fn next_departure_before<const STEADY: bool>(
        &mut self,
        now: Instant,
        observer: &mut dyn Observer,
    ) -> Option<Departure> {
        self.next_departure::<STEADY>(self.last_before(now)?, observer)
    }

    /// Adds a packet to the queue. Returns whether the transmitter was waiting for the queue and may now be able to
    /// send.
    #[inline(always)]
    fn join_queue(&mut self, packet: Packet, now: Instant, observer: &mut dyn Observer) -> bool {
        let Ledger { counters, left_less_joined } = &mut self.ledger;
        let at_departure =
            self.last_start == now || (self.free_at == now && !self.held && counters.departures > 0);
        counters.tied += u64::from(at_departure || self.last_arrival == now);
        self.last_arrival = now;
        counters.arrivals += 1;
        counters.arrived_bytes += u64::from(packet.bytes);
        *left_less_joined = left_less_joined.wrapping_sub(now.nanos().into());
        self.call(now, observer, |discipline, cx| discipline.enqueue(packet, cx));
        (self.idle || self.held) && self.waiting() > 0
    }

    /// If `begins` is true, schedules an attempt to send at `now`. Returns `begins`.
    #[inline(always)]
    fn begins(&mut self, begins: bool, now: Instant) -> bool {
        if begins {
            self.free_at = now;
            self.idle = false;
        }
        begins
    }

    /// Returns the latest departure time that precedes an arrival at `now` according to the tie rule, or `None` if no
    /// departure can precede the arrival.
    #[inline(always)]
    fn last_before(&self, now: Instant) -> Option<Instant> {
        match self.ties {
            Ties::DepartureFirst => Some(now),
            Ties::ArrivalFirst => now.nanos().checked_sub(1).map(Instant::from_nanos),
        }
    }

    /// Returns the next transmission that starts at or before `until`.
    #[inline]
    pub fn next_departure<const STEADY: bool>(
        &mut self,
        until: Instant,
        observer: &mut dyn Observer,
    ) -> Option<Departure> {
        debug_assert!(!STEADY || self.is_steady());
        while !self.idle && self.free_at <= until {
            let start = self.free_at;
            if !STEADY && !self.transmitter_is_ready(start) {
                continue;
            }
            let Some(packet) = self.call(start, observer, |discipline, cx| discipline.dequeue(cx)) else {
                self.wait(start);
                continue;
            };
            self.held = false;
            self.last_start = start;
            let end = if STEADY || self.is_steady() {
                self.free_at = start.plus(self.pace.time_for(u64::from(packet.bytes)));
                self.free_at
            } else {
                self.transmit(start, &packet)
            };
            let Ledger { counters, left_less_joined } = &mut self.ledger;
            *left_less_joined = left_less_joined.wrapping_add(start.nanos().into());
            counters.departures += 1;
            counters.departed_bytes += u64::from(packet.bytes);
            return Some(Departure { packet, start, end });
        }
        None
    }

    /// Sends a packet whose transmission begins at `start` with a transmitter whose rate is not constant. Returns the
    /// end of the packet's transmission.
    #[inline(never)]
    fn transmit(&mut self, start: Instant, packet: &Packet) -> Instant {
        let Some(varying) = &mut self.varying else { unreachable!("the rate is not constant") };
        let end;
        [end, self.free_at] = match self.discipline.transmission() {
            Some(Transmission { sent, busy, continues }) => {
                [start + sent, if continues { start } else { start + busy }]
            }
            None => varying.transmit(start, u64::from(packet.bytes)),
        };
        end
    }

    /// Handles a transmitter that is free at `now` while the discipline sends nothing, because no packet is queued or
    /// because the discipline holds packets back.
    fn wait(&mut self, now: Instant) {
        if let Some(varying) = &mut self.varying {
            varying.rest(now);
        }
        self.held = self.waiting() > 0;
        let ready = self.discipline.next_ready().filter(|_| self.held);
        debug_assert_eq!(
            ready.is_some(),
            self.held,
            "a discipline that holds packets back reports when the next packet is ready"
        );
        self.idle = ready.is_none();
        // Even if the discipline returns a time in the past, the next attempt is later than `now`.
        self.free_at = ready.map_or(now, |at| at.max(now + Span::from_nanos(1)));
    }

    /// Returns whether the transmitter must try to send when a packet joins the queue. `begins` is the result for a
    /// transmitter with a constant rate; for a varying rate, the result may be different.
    #[inline(never)]
    fn transmitter_begins(&mut self, begins: bool, now: Instant) -> bool {
        let Some(varying) = &mut self.varying else { return begins };
        if begins {
            varying.begin(now, self.ties);
        }
        begins || varying.waits_for_more()
    }

    /// Returns whether a transmitter with a varying rate may take a packet at `now`. If not, schedules the next attempt
    /// for the time at which the transmitter may take a packet. The discipline is called even if no packet is queued,
    /// so that it can detect immediately that the busy period has ended.
    #[inline(never)]
    fn transmitter_is_ready(&mut self, now: Instant) -> bool {
        let waiting = Waiting { packets: self.waiting(), bytes: self.discipline.backlog().bytes };
        let Some(varying) = &mut self.varying else { return true };
        if waiting.packets == 0 {
            return true;
        }
        self.free_at = varying.ready(now, waiting);
        let is_ready = self.free_at == now;
        // If the transmitter is not ready, the port waits for the transmitter and not for the discipline, even if
        // packets arrive.
        self.held &= is_ready;
        is_ready
    }

    /// Returns the rate at `now` of a transmitter with a varying rate, or `None` if the transmitter sends at delivery
    /// opportunities, or if the queue determines how long transmissions take.
    pub fn rate_at(&self, now: Instant) -> Option<Rate> {
        let varying = self.varying.as_ref().filter(|_| self.discipline.transmission().is_none());
        varying?.rate_at(now)
    }

    /// Returns the number of packets that have arrived.
    pub fn arrivals(&self) -> u64 {
        self.ledger.counters.arrivals
    }

    /// Returns the earliest time of the next transmission, or `None` if no packet is queued.
    pub fn next_start(&self) -> Option<Instant> {
        (!self.idle).then_some(self.free_at)
    }

    /// Passes to the discipline the headers (`label`) that all packets with the label `number` have. This method must
    /// be called before the first packet with this label arrives.
    pub fn on_label(&mut self, number: u16, label: &Label) {
        self.discipline.on_label(number, label);
    }

    /// Returns the discipline, whose backlog and gauges the caller can read. The discipline is in the state in which
    /// the last call to `accept` or `serve` left it.
    pub fn discipline(&self) -> &dyn QueueDiscipline {
        self.discipline.as_ref()
    }

    /// Returns the counters as of the last call to `accept` or `serve`, without the integral of the queue length.
    pub fn counted(&self) -> &Counters {
        &self.ledger.counters
    }

    /// Returns the counters as of the time `now`. The port must have been served up to `now`.
    pub fn counters(&self, now: Instant) -> Counters {
        let waiting = u128::from(self.waiting()) * u128::from(now.nanos());
        Counters { packet_nanos: self.ledger.left_less_joined.wrapping_add(waiting), ..self.ledger.counters }
    }

    /// Returns the number of queued packets, which have arrived but have neither departed nor been dropped.
    #[inline]
    fn waiting(&self) -> u64 {
        let Counters { arrivals, departures, drops, .. } = self.ledger.counters;
        arrivals - departures - drops
    }

    /// Calls the discipline.
    #[inline(always)]
    fn call<R>(
        &mut self,
        now: Instant,
        observer: &mut dyn Observer,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> R,
    ) -> R {
        let mut counting = CountingObserver { ledger: &mut self.ledger, outer: observer };
        let mut cx = Context { now, rng: &mut self.rng, observer: &mut counting };
        act(self.discipline.as_mut(), &mut cx)
    }
}

/// An observer that counts drops and marks and then passes them to another observer.
struct CountingObserver<'a> {
    ledger: &'a mut Ledger,
    outer: &'a mut dyn Observer,
}

impl Observer for CountingObserver<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        let Ledger { counters, left_less_joined } = &mut *self.ledger;
        counters.drops += 1;
        counters.drops_by_reason[why as usize] += 1;
        counters.dropped_bytes += u64::from(packet.bytes);
        *left_less_joined = left_less_joined.wrapping_add(now.nanos().into());
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.ledger.counters.marks += 1;
        self.outer.marked(packet, why, now);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        self.outer.evidence(evidence);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(packet)
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Quantity, Streams};

    use aqm_queue::testing::Ignore;
    use serde_json::json;

    use super::*;

    fn port(limit: u64, ties: Ties) -> Port {
        let rate = Rate::parse("1Mbps").unwrap();
        let config =
            aqm_queue::Config::read(json!({"kind": "drop-tail", "limit": format!("{limit}p")})).unwrap();
        Port::new(config.build(rate).unwrap(), rate, Streams::new(1).named("port", 0), ties)
    }

    fn packet(id: u32) -> Packet {
        Packet { id, bytes: 1000, ..Packet::default() }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn each_departure_has_its_exact_time_however_late_the_port_is_served() {
        let (mut port, mut ends) = (port(10, Ties::DepartureFirst), Vec::new());
        for id in 0..3 {
            port.accept(packet(id), at(1), &mut Ignore, |d| ends.push((d.packet.id, d.end)));
        }
        assert_eq!(ends, [(0, at(9))]);
        port.serve(at(500), &mut Ignore, |d| ends.push((d.packet.id, d.end)));
        assert_eq!(ends, [(0, at(9)), (1, at(17)), (2, at(25))]);
    }

    #[test]
    fn the_packet_in_transmission_is_not_in_the_queue() {
        let mut port = port(1, Ties::DepartureFirst);
        for id in 0..3 {
            port.accept(packet(id), at(0), &mut Ignore, |_| {});
        }
        let counters = port.counters(at(0));
        assert_eq!((counters.arrivals, counters.departures, counters.drops), (3, 1, 1));
        assert_eq!(port.discipline().backlog().packets, 1);
    }

    #[test]
    fn ties_of_arrival_and_departure_follow_the_tie_rule() {
        for (ties, drops) in [(Ties::DepartureFirst, 0), (Ties::ArrivalFirst, 1)] {
            let mut port = port(1, ties);
            for (id, time) in [(0, 0), (1, 0), (2, 8)] {
                port.accept(packet(id), at(time), &mut Ignore, |_| {});
            }
            let counters = port.counters(at(8));
            assert_eq!((counters.drops, counters.tied), (drops, 2), "{ties:?}");
        }
    }

    #[test]
    fn the_integral_of_the_queue_is_exact() {
        let mut port = port(10, Ties::DepartureFirst);
        for id in 0..3 {
            port.accept(packet(id), at(0), &mut Ignore, |_| {});
        }
        port.serve(at(100), &mut Ignore, |_| {});
        // Two packets wait for 8 ms, and one of them for another 8 ms.
        assert_eq!(port.counters(at(100)).packet_nanos, 24_000_000);
    }
}
