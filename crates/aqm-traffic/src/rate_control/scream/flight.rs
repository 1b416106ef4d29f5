//! The data units in flight (draft, sections 4.1.1 and 4.1.2), and the detection of losses (draft, section 4.2.1.1).

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Ecn, Instant, Span};

use super::super::{PacketReport, SentPacket};

/// Initial reordering window, for which the draft has no value (reference implementation: `kReorderTime`).
const REORDERING: Span = Span::from_millis(30);
/// Time for which a missing unit is remembered (aqmlab's choice: much longer than a reordering).
const REMEMBERED: Span = Span::from_millis(2000);
/// Time without a transmission after which all units in flight count as lost, so that the send window opens again
/// (reference implementation: half a second in `isOkToTransmit`).
const SILENCE: Span = Span::from_millis(500);

/// The data units in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    /// Units that were sent after the highest acknowledged unit.
    units: VecDeque<Unit>,
    /// Number of the first unit in `units`.
    first: u64,
    bytes: u64,
    /// Maximum number of bytes in flight in the current and in the previous round trip.
    most: [u64; 2],
    round_began: Instant,
    last_sent: Instant,
    missing: BTreeMap<u64, Missing>,
    reordering: Span,
}

/// Size and send time of a data unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    bytes: u16,
    sent: Instant,
}

/// A unit that was sent before the highest acknowledged unit and has not been acknowledged.
#[derive(Clone, Copy, Debug)]
struct Missing {
    unit: Unit,
    since: Instant,
    is_lost: bool,
}

/// What feedback tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Acknowledged {
    /// Bytes by which the highest acknowledged byte has moved (`bytes_newly_acked`), and bytes of received units with
    /// the mark CE (`bytes_newly_acked_ce`).
    pub(super) bytes: u64,
    pub(super) marked_bytes: u64,
    /// Number of received units, and of received units with the mark CE.
    pub(super) units: u32,
    pub(super) marked: u32,
    /// Whether units were lost.
    pub(super) lost: bool,
    /// One-way delays of the received units, in the order of the reports.
    pub(super) delays: Vec<Span>,
    /// Round-trip time of the received unit with the highest number; `None` if the highest number has not changed.
    pub(super) rtt: Option<Span>,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            units: VecDeque::new(),
            first: 0,
            bytes: 0,
            most: [0; 2],
            round_began: Instant::START,
            last_sent: Instant::START,
            missing: BTreeMap::new(),
            reordering: REORDERING,
        }
    }
}

impl Flight {
    /// Returns the number of bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the maximum number of bytes in flight in the current and in the previous round trip.
    pub(super) fn most(&self) -> [u64; 2] {
        self.most
    }

    /// Handles a sent unit.
    pub(super) fn on_sent(&mut self, packet: SentPacket) {
        self.units.push_back(Unit { bytes: packet.bytes, sent: packet.at });
        self.bytes += u64::from(packet.bytes);
        self.most[0] = self.most[0].max(self.bytes);
        self.last_sent = packet.at;
    }

    /// Handles feedback.
    pub(super) fn on_feedback(&mut self, reports: &[PacketReport], now: Instant) -> Acknowledged {
        let mut found = Acknowledged::default();
        for report in reports {
            let is_late = report.number < self.first;
            let unit = if is_late { self.late(report, now) } else { self.advance(report, now, &mut found) };
            let (Some(unit), Some(arrival)) = (unit, report.arrival) else { continue };
            found.units += 1;
            if report.ecn == Ecn::Ce {
                found.marked += 1;
                found.marked_bytes += u64::from(unit.bytes);
            }
            found.delays.push(arrival.since(unit.sent));
            if !is_late {
                found.rtt = Some(now.since(unit.sent));
            }
        }
        for missing in self.missing.values_mut().filter(|one| !one.is_lost) {
            missing.is_lost = now.since(missing.since) >= self.reordering;
            found.lost |= missing.is_lost;
        }
        self.missing.retain(|_, one| now.since(one.since) < REMEMBERED);
        found
    }

    /// Takes the units up to the unit of a report out of the flight. Returns the unit of the report, if the unit has
    /// arrived. All other units are missing.
    fn advance(&mut self, report: &PacketReport, now: Instant, found: &mut Acknowledged) -> Option<Unit> {
        let mut received = None;
        while self.first <= report.number {
            let unit = self.units.pop_front()?;
            self.bytes -= u64::from(unit.bytes);
            found.bytes += u64::from(unit.bytes);
            if self.first == report.number && report.arrival.is_some() {
                received = Some(unit);
            } else {
                self.missing.insert(self.first, Missing { unit, since: now, is_lost: false });
            }
            self.first += 1;
        }
        received
    }

    /// Returns the missing unit of a report, if the unit has arrived. The reordering window becomes as long as the time
    /// for which the unit was missing.
    fn late(&mut self, report: &PacketReport, now: Instant) -> Option<Unit> {
        report.arrival?;
        let missing = self.missing.remove(&report.number)?;
        self.reordering = self.reordering.max(now.since(missing.since));
        Some(missing.unit)
    }

    /// Begins a new round trip if the current round trip has lasted for a smoothed round-trip time.
    pub(super) fn update_round(&mut self, rtt_s: f64, now: Instant) {
        if now.since(self.round_began).seconds() >= rtt_s {
            self.most = [self.bytes, self.most[0]];
            self.round_began = now;
        }
    }

    /// Gives up the units in flight after a long time without a transmission.
    pub(super) fn on_timer(&mut self, now: Instant) {
        if !self.units.is_empty() && now.since(self.last_sent) > SILENCE {
            self.first += self.units.len() as u64;
            self.units.clear();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    /// A flight of ten units of 1000 B that were sent 1 ms apart from 0 ms on.
    fn flight() -> Flight {
        let mut flight = Flight::default();
        for number in 0..10 {
            flight.on_sent(SentPacket { number, bytes: 1000, at: at(number), probe: None });
        }
        flight
    }

    fn report(number: u64, arrival: Option<u64>, ecn: Ecn) -> PacketReport {
        PacketReport { number, arrival: arrival.map(at), ecn }
    }

    #[test]
    fn units_before_the_highest_acknowledged_unit_are_not_in_flight() {
        let mut flight = flight();
        assert_eq!((flight.bytes(), flight.most()), (10_000, [10_000, 0]));
        // The draft's example in section 4.1.2: N + 3 is acknowledged and N + 2 is lost.
        let reports =
            [report(0, Some(50), Ecn::Ect1), report(1, None, Ecn::NotEct), report(2, Some(53), Ecn::Ce)];
        let found = flight.on_feedback(&reports, at(103));
        let delays = vec![Span::from_millis(50), Span::from_millis(51)];
        let rtt = Some(Span::from_millis(101));
        let expected =
            Acknowledged { bytes: 3000, marked_bytes: 1000, units: 2, marked: 1, lost: false, delays, rtt };
        assert_eq!(found, expected);
        assert_eq!(flight.bytes(), 7000);
        // Units whose reports were lost count as missing.
        assert_eq!(flight.on_feedback(&[report(9, Some(60), Ecn::Ect1)], at(110)).bytes, 7000);
        assert_eq!((flight.bytes(), flight.missing.len()), (0, 7));
    }

    #[test]
    fn a_unit_is_lost_after_the_reordering_window_and_only_once() {
        let mut flight = flight();
        flight.on_feedback(&[report(0, None, Ecn::NotEct), report(1, Some(51), Ecn::NotEct)], at(100));
        assert!(!flight.on_feedback(&[report(2, Some(52), Ecn::NotEct)], at(129)).lost);
        assert!(flight.on_feedback(&[report(3, Some(53), Ecn::NotEct)], at(130)).lost);
        assert!(!flight.on_feedback(&[report(4, Some(54), Ecn::NotEct)], at(131)).lost);
    }

    #[test]
    fn a_late_unit_widens_the_reordering_window() {
        let mut flight = flight();
        flight.on_feedback(&[report(0, None, Ecn::NotEct), report(1, Some(51), Ecn::NotEct)], at(100));
        let found = flight.on_feedback(&[report(0, Some(140), Ecn::Ce)], at(180));
        assert_eq!((found.bytes, found.units, found.marked, found.rtt), (0, 1, 1, None));
        assert_eq!(flight.reordering, Span::from_millis(80));
        flight.on_feedback(&[report(2, None, Ecn::NotEct), report(3, Some(190), Ecn::NotEct)], at(200));
        assert!(!flight.on_feedback(&[report(4, Some(200), Ecn::NotEct)], at(279)).lost);
        assert!(flight.on_feedback(&[report(5, Some(200), Ecn::NotEct)], at(280)).lost);
    }

    #[test]
    fn the_maxima_belong_to_round_trips() {
        let mut flight = flight();
        flight.update_round(0.1, at(99));
        assert_eq!(flight.most(), [10_000, 0]);
        flight.on_feedback(&[report(7, Some(60), Ecn::NotEct)], at(100));
        flight.update_round(0.1, at(100));
        assert_eq!(flight.most(), [2000, 10_000]);
    }

    #[test]
    fn after_half_a_second_of_silence_the_flight_is_empty() {
        let mut flight = flight();
        flight.on_timer(at(509));
        assert_eq!(flight.bytes(), 10_000);
        flight.on_timer(at(510));
        assert_eq!(flight.bytes(), 0);
        flight.on_sent(SentPacket { number: 10, bytes: 700, at: at(520), probe: None });
        assert_eq!(flight.on_feedback(&[report(3, Some(520), Ecn::NotEct)], at(530)).units, 0);
        assert_eq!(flight.on_feedback(&[report(10, Some(570), Ecn::NotEct)], at(620)).bytes, 700);
    }
}
