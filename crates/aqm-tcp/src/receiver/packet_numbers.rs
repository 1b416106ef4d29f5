//! The receiving half of a QUIC endpoint: which packets have arrived, and when acknowledgements are sent.
//!
//! J. Iyengar, M. Thomson, RFC 9000, 2021, sections 13.2 and 19.3; J. Iyengar, I. Swett, M. Kühlewind, "QUIC
//! Acknowledgement Frequency", draft-ietf-quic-ack-frequency-14 (`ack_every` is the draft's threshold plus one).
//!
//! aqmlab's choice: a receiver remembers the 32 newest ranges of packet numbers (RFC 9000, section 13.2.3, requires a
//! limit).

use std::collections::VecDeque;

use aqm_net::{Ecn, Instant, Span};

use crate::config::receiver::{DelayedAck, Receiver as Config};
use crate::packet_ranges::PacketRanges;
use crate::segment::Segment;

/// Maximum number of ranges that a receiver remembers.
const MAX_RANGES: usize = 32;

/// The packets that have arrived at an endpoint.
#[derive(Debug, Default)]
pub(super) struct PacketNumbers {
    /// Ranges `[from, to)` of the received packet numbers in descending order, separated by gaps.
    ranges: VecDeque<(u64, u64)>,
    /// Arrival time of the packet with the largest number.
    largest_at: Instant,
    /// Number of packets that have arrived since the last acknowledgement.
    unacknowledged: u64,
}

impl PacketNumbers {
    /// Records a packet with data. Returns the time until which its acknowledgement may be delayed; `None` if the
    /// acknowledgement must be sent immediately (section 13.2.1: every packet that arrives out of order or after a gap,
    /// and every marked packet; section 13.2.2: every second packet).
    pub fn on_packet(&mut self, segment: &Segment, now: Instant, config: &Config) -> Option<Instant> {
        let number = segment.packet_number()?;
        self.unacknowledged += 1;
        let is_next = self.add(number, now);
        let is_urgent = !is_next || segment.ecn == Ecn::Ce || self.unacknowledged >= config.ack_every;
        (!is_urgent && config.delayed_ack != DelayedAck::Off).then(|| now + config.delayed_ack_timer)
    }

    /// Adds a packet number. Returns whether the number follows the largest number so far.
    fn add(&mut self, number: u64, now: Instant) -> bool {
        let is_next = match self.ranges.front_mut() {
            Some(range) if number == range.1 => {
                range.1 += 1;
                true
            }
            Some(range) if number < range.1 => {
                self.insert(number);
                return false;
            }
            largest => {
                let is_first = largest.is_none() && number == 0;
                self.ranges.push_front((number, number + 1));
                self.ranges.truncate(MAX_RANGES);
                is_first
            }
        };
        self.largest_at = now;
        is_next
    }

    /// Adds a packet number below the largest number.
    fn insert(&mut self, number: u64) {
        let index = self.ranges.partition_point(|range| range.0 > number);
        if self.ranges.get(index).is_some_and(|range| number < range.1) {
            return;
        }
        let extends_lower = self.ranges.get(index).is_some_and(|range| range.1 == number);
        let extends_upper = index > 0 && self.ranges[index - 1].0 == number + 1;
        match (extends_lower, extends_upper) {
            (true, true) => {
                self.ranges[index].1 = self.ranges[index - 1].1;
                self.ranges.remove(index - 1);
            }
            (true, false) => self.ranges[index].1 = number + 1,
            (false, true) => self.ranges[index - 1].0 = number,
            (false, false) => {
                self.ranges.insert(index, (number, number + 1));
                self.ranges.truncate(MAX_RANGES);
            }
        }
    }

    /// Returns whether any packet has arrived since the last acknowledgement.
    pub fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Writes an acknowledgement into a packet that is sent at `now`.
    pub fn write(&mut self, segment: &mut Segment, now: Instant) {
        self.unacknowledged = 0;
        let (ranges, ack) = PacketRanges::new(self.ranges.iter().copied());
        ranges.write(&mut segment.sacks);
        segment.ack = ack;
        segment.echo = Instant::START + self.delay(now);
    }

    /// Returns the time since the arrival of the packet with the largest number.
    fn delay(&self, now: Instant) -> Span {
        now.since(self.largest_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    fn packet(number: u64, ecn: Ecn) -> Segment {
        Segment { len: 1000, ecn, sent: Segment::stamp_of(number), ..Segment::default() }
    }

    /// Returns whether each packet is acknowledged immediately. An acknowledgement is sent whenever one is due.
    fn immediate(config: &Config, packets: &[(u64, Ecn)]) -> Vec<bool> {
        let mut numbers = PacketNumbers::default();
        let mut acknowledge = |&(number, ecn): &(u64, Ecn)| {
            let is_immediate = numbers.on_packet(&packet(number, ecn), at(1), config).is_none();
            if is_immediate {
                numbers.write(&mut Segment::default(), at(1));
            }
            is_immediate
        };
        packets.iter().map(&mut acknowledge).collect()
    }

    #[test]
    fn every_second_packet_is_acknowledged_immediately() {
        let config = Config::default();
        let packets: Vec<(u64, Ecn)> = (0..6).map(|number| (number, Ecn::Ect0)).collect();
        assert_eq!(immediate(&config, &packets), [false, true, false, true, false, true]);
        let rarely = Config { ack_every: 3, ..Config::default() };
        assert_eq!(immediate(&rarely, &packets), [false, false, true, false, false, true]);
        let always = Config { delayed_ack: DelayedAck::Off, ..Config::default() };
        assert_eq!(immediate(&always, &packets), [true; 6]);
    }

    #[test]
    fn a_packet_after_a_gap_or_out_of_order_or_with_a_mark_is_acknowledged_immediately() {
        let config = Config { ack_every: 9, ..Config::default() };
        let (ect, ce) = (Ecn::Ect0, Ecn::Ce);
        let packets = [(0, ect), (2, ect), (3, ect), (1, ect), (4, ce), (5, ect)];
        assert_eq!(immediate(&config, &packets), [false, true, false, true, true, false]);
        assert_eq!(immediate(&config, &[(1, ect)]), [true], "packet 0 is missing");
    }

    #[test]
    fn the_acknowledgement_reports_ranges_and_the_delay_of_the_largest_packet() {
        let mut numbers = PacketNumbers::default();
        for (number, millis) in [(0, 1), (1, 2), (5, 3), (3, 4), (4, 9), (5, 9)] {
            numbers.on_packet(&packet(number, Ecn::NotEct), at(millis), &Config::default());
        }
        let mut ack = Segment::default();
        assert!(numbers.has_unacknowledged());
        numbers.write(&mut ack, at(10));
        assert!(!numbers.has_unacknowledged());
        let ranges: Vec<_> = PacketRanges::of(&ack.sacks).ranges(ack.ack).collect();
        assert_eq!((ack.ack, ranges, ack.echo), (6, vec![(3, 6), (0, 2)], at(7)));
    }

    #[test]
    fn a_packet_that_fills_a_gap_joins_two_ranges() {
        let mut numbers = PacketNumbers::default();
        for number in [0, 2, 4, 6, 3, 5, 1, 3] {
            numbers.add(number, at(0));
        }
        assert_eq!(numbers.ranges, [(0, 7)]);
    }

    #[test]
    fn only_the_newest_ranges_are_remembered() {
        let mut numbers = PacketNumbers::default();
        for number in 0..100 {
            numbers.add(2 * number, at(0));
        }
        assert_eq!((numbers.ranges.len(), numbers.ranges[31]), (32, (136, 137)));
    }
}
