//! A queue and the line that empties it.
//!
//! What a line can do at which time is known ([`Transmitter`]), so what it does is a function of the arrivals: no "transmission
//! done" event is needed. A port is told of arrivals ([`Port::accept`]) and told to catch up
//! ([`Port::serve`]), and hands out departures, each at its own instant.
//!
//! Whoever holds a port owes it this: to call `serve` before looking at it, and before the packet whose
//! transmission begins next ([`Port::next_start`]) could reach the other end. So nothing is ever served late.

use aqm_net::{Instant, Pace, Packet, Rate, Rng, Span};
use aqm_queue::{Acknowledgement, Context, Counters, Label, Observer, QueueDiscipline, Reason};

use crate::transmitter::{Transmitter, Varying, Waiting};

/// What happens first when a packet arrives at the very instant the line becomes free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The line takes its next packet first (the rule).
    #[default]
    DepartureFirst,
    /// The arriving packet joins first (to see how much ties matter).
    ArrivalFirst,
}

/// A packet leaves the queue: its transmission lasts from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet.
    pub packet: Packet,
    /// When its first bit is sent.
    pub start: Instant,
    /// When its last bit is sent.
    pub end: Instant,
}

/// A queue discipline and the line behind it.
pub struct Port {
    discipline: Box<dyn QueueDiscipline>,
    rng: Rng,
    /// Of the line, if it always sends at the same rate.
    pace: Pace,
    /// The line, if it does not.
    varying: Option<Box<Varying>>,
    ties: Ties,
    /// When the transmission in progress ends, or the last one ended; or when the line, which does not always send, is
    /// asked anew.
    free_at: Instant,
    /// The discipline has said that nothing waits.
    idle: bool,
    /// The line is free, and the discipline holds back what waits until `free_at`.
    held: bool,
    /// When the last packet arrived, and when the last transmission began; `NEVER` before the first.
    last_arrival: Instant,
    last_start: Instant,
    ledger: Ledger,
}

/// What a port writes down of its packets.
#[derive(Default)]
struct Ledger {
    counters: Counters,
    /// The moments at which packets left the queue less those at which they joined it, in nanoseconds and modulo
    /// 2^128: with those that wait now it makes the integral of the queue.
    left_less_joined: u128,
}

impl Port {
    /// An idle port, whose line always sends at this rate.
    pub fn new(discipline: Box<dyn QueueDiscipline>, rate: Rate, rng: Rng, ties: Ties) -> Self {
        Self::with_transmitter(discipline, Transmitter::constant(rate), rng, ties)
    }

    /// An idle port with any line.
    pub fn with_transmitter(
        discipline: Box<dyn QueueDiscipline>,
        transmitter: Transmitter,
        rng: Rng,
        ties: Ties,
    ) -> Self {
        let (pace, varying) = match transmitter {
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

    /// Whether the transmitter always sends at the same rate, so that methods may be called with `STEADY`.
    #[inline]
    pub fn is_steady(&self) -> bool {
        self.varying.is_none()
    }

    /// A packet arrives. Everything due before it departs first.
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

    /// Catches up with what departs before a packet that arrives at `now` joins, by the rule of ties.
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

    /// Catches up: every transmission that starts at or before `until` is handed to `depart`.
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

    /// A packet arrives, after the departures before it. Returns whether the transmitter, which was free, may send now.
    ///
    /// `STEADY` says that the transmitter [always sends at the same rate](Self::is_steady), which costs less.
    #[inline]
    pub fn join<const STEADY: bool>(
        &mut self,
        packet: Packet,
        now: Instant,
        observer: &mut dyn Observer,
    ) -> bool {
        let begins = self.join_queue(packet, now, observer);
        let begins = if STEADY { begins } else { self.line_begins(begins, now) };
        self.begins(begins, now)
    }

    /// The next departure before a packet that arrives at `now` joins, by the tie rule.
    #[inline]
    pub fn next_departure_before<const STEADY: bool>(
        &mut self,
        now: Instant,
        observer: &mut dyn Observer,
    ) -> Option<Departure> {
        self.next_departure::<STEADY>(self.last_before(now)?, observer)
    }

    /// A packet joins the queue; whether it may be that the line, which waits for the queue, sends now.
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

    /// The line is asked at `now` if it `begins`, which is returned.
    #[inline(always)]
    fn begins(&mut self, begins: bool, now: Instant) -> bool {
        if begins {
            self.free_at = now;
            self.idle = false;
        }
        begins
    }

    /// The last moment at which departures come before a packet that arrives at `now`, by the rule of ties.
    #[inline(always)]
    fn last_before(&self, now: Instant) -> Option<Instant> {
        match self.ties {
            Ties::DepartureFirst => Some(now),
            Ties::ArrivalFirst => now.nanos().checked_sub(1).map(Instant::from_nanos),
        }
    }

    /// The next transmission that starts at or before `until`.
    #[inline]
    pub fn next_departure<const STEADY: bool>(
        &mut self,
        until: Instant,
        observer: &mut dyn Observer,
    ) -> Option<Departure> {
        debug_assert!(!STEADY || self.is_steady());
        while !self.idle && self.free_at <= until {
            let start = self.free_at;
            if !STEADY && !self.line_is_ready(start) {
                continue;
            }
            let Some(packet) = self.call(start, observer, |discipline, cx| discipline.dequeue(cx)) else {
                self.wait(start);
                continue;
            };
            self.held = false;
            self.last_start = start;
            self.free_at = match &mut self.varying {
                Some(line) if !STEADY => line.transmit(start, u64::from(packet.bytes)),
                _ => start.plus(self.pace.time_for(u64::from(packet.bytes))),
            };
            let Ledger { counters, left_less_joined } = &mut self.ledger;
            *left_less_joined = left_less_joined.wrapping_add(start.nanos().into());
            counters.departures += 1;
            counters.departed_bytes += u64::from(packet.bytes);
            return Some(Departure { packet, start, end: self.free_at });
        }
        None
    }

    /// The line is free at `now`, and the discipline sends nothing: nothing waits, or it holds back what does.
    fn wait(&mut self, now: Instant) {
        if let Some(line) = &mut self.varying {
            line.rest(now);
        }
        self.held = self.waiting() > 0;
        let ready = self.discipline.next_ready().filter(|_| self.held);
        debug_assert_eq!(ready.is_some(), self.held, "a discipline that holds packets back says how long");
        self.idle = ready.is_none();
        // Whatever a discipline says, time goes on.
        self.free_at = ready.map_or(now, |at| at.max(now + Span::from_nanos(1)));
    }

    /// Whether a line that does not always send is asked anew as a packet joins, which `begins` its work or not.
    #[inline(never)]
    fn line_begins(&mut self, begins: bool, now: Instant) -> bool {
        let Some(line) = &mut self.varying else { return begins };
        if begins {
            line.begin(now, self.ties);
        }
        begins || line.waits_for_more()
    }

    /// Whether a line that does not always send may take a packet at `now`; if not it is asked anew when it may. The
    /// queue hears of the end of a busy period at once.
    #[inline(never)]
    fn line_is_ready(&mut self, now: Instant) -> bool {
        let waiting = Waiting { packets: self.waiting(), bytes: self.discipline.backlog().bytes };
        let Some(line) = &mut self.varying else { return true };
        if waiting.packets == 0 {
            return true;
        }
        self.free_at = line.ready(now, waiting);
        let is_ready = self.free_at == now;
        // Otherwise it is the line that is waited for, whatever arrives.
        self.held &= is_ready;
        is_ready
    }

    /// The rate at which the line sends at `now`, if it is not always the same; nothing if it has none.
    pub fn rate_at(&self, now: Instant) -> Option<Rate> {
        self.varying.as_ref()?.rate_at(now)
    }

    /// Packets that have arrived so far.
    pub fn arrivals(&self) -> u64 {
        self.ledger.counters.arrivals
    }

    /// When the next transmission begins at the earliest; `None` if nothing waits.
    pub fn next_start(&self) -> Option<Instant> {
        (!self.idle).then_some(self.free_at)
    }

    /// Packets that carry this `number` have the headers that `label` says: told before the first of them.
    pub fn on_label(&mut self, number: u16, label: &Label) {
        self.discipline.on_label(number, label);
    }

    /// The discipline, for its backlog and gauges. Valid up to the last `accept` or `serve`.
    pub fn discipline(&self) -> &dyn QueueDiscipline {
        self.discipline.as_ref()
    }

    /// What went through up to the last `accept` or `serve`, but for the integral of the queue.
    pub fn counted(&self) -> &Counters {
        &self.ledger.counters
    }

    /// What went through up to `now`, to which the port must have caught up.
    pub fn counters(&self, now: Instant) -> Counters {
        let waiting = u128::from(self.waiting()) * u128::from(now.nanos());
        Counters { packet_nanos: self.ledger.left_less_joined.wrapping_add(waiting), ..self.ledger.counters }
    }

    /// How many packets wait: those that arrived and neither departed nor were dropped.
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
        let mut tally = Tally { ledger: &mut self.ledger, outer: observer };
        let mut cx = Context { now, rng: &mut self.rng, observer: &mut tally };
        act(self.discipline.as_mut(), &mut cx)
    }
}

/// Counts fates on their way to the observer.
struct Tally<'a> {
    ledger: &'a mut Ledger,
    outer: &'a mut dyn Observer,
}

impl Observer for Tally<'_> {
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
    fn each_departure_keeps_its_own_instant_however_late_it_is_asked_for() {
        let (mut port, mut ends) = (port(10, Ties::DepartureFirst), Vec::new());
        for id in 0..3 {
            port.accept(packet(id), at(1), &mut Ignore, |d| ends.push((d.packet.id, d.end)));
        }
        assert_eq!(ends, [(0, at(9))]);
        port.serve(at(500), &mut Ignore, |d| ends.push((d.packet.id, d.end)));
        assert_eq!(ends, [(0, at(9)), (1, at(17)), (2, at(25))]);
    }

    #[test]
    fn the_packet_on_the_line_is_not_in_the_queue() {
        let mut port = port(1, Ties::DepartureFirst);
        for id in 0..3 {
            port.accept(packet(id), at(0), &mut Ignore, |_| {});
        }
        let counters = port.counters(at(0));
        assert_eq!((counters.arrivals, counters.departures, counters.drops), (3, 1, 1));
        assert_eq!(port.discipline().backlog().packets, 1);
    }

    #[test]
    fn a_tie_of_arrival_and_departure_is_settled_by_rule() {
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
        // Two wait for 8 ms, one for another 8 ms.
        assert_eq!(port.counters(at(100)).packet_nanos, 24_000_000);
    }
}
