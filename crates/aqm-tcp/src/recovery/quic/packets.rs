//! The packets that a QUIC sender has sent and whose fate is unknown, by packet number, and the detection of losses.
//!
//! J. Iyengar, I. Swett, "QUIC Loss Detection and Congestion Control", RFC 9002, 2021, sections 6.1 and 7.6 and
//! appendices A.10 and B.8. Names in backticks are from the RFC.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::content::PieceNumber;

/// `kTimeThreshold`, as a fraction.
const TIME_THRESHOLD: (u64, u64) = (9, 8);
/// `kPersistentCongestionThreshold`.
pub(super) const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acknowledged,
    Lost,
}

/// A packet that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub sent: Instant,
    pub piece: PieceNumber,
    pub seq: u64,
    pub len: u32,
    state: State,
}

/// The thresholds of loss detection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// `kPacketThreshold`.
    pub packets: u64,
    /// `kGranularity`.
    pub granularity: Span,
}

/// All packets from the first packet that is in flight to the newest packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    packets: VecDeque<Packet>,
    /// Number of the first packet in `packets`.
    first: u64,
    bytes_in_flight: u64,
    /// `largest_acked_packet`.
    largest_acknowledged: Option<u64>,
    /// Departure time of the first packet of the newest sequence of consecutive lost packets, and number of the last
    /// packet of this sequence.
    lost_since: Option<(Instant, u64)>,
}

/// Result of one detection of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Losses {
    /// Number of the newest lost packet; `None` if no packet is lost.
    pub newest: Option<u64>,
    /// Longest time between the departures of two packets of a sequence of consecutive lost packets.
    pub longest: Span,
    /// `loss_time`: time at which the next packet is lost; `NEVER` if there is no such packet.
    pub next: Instant,
}

impl Packets {
    /// Returns the number of the next packet.
    pub fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Returns the number of bytes in flight.
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Adds a packet.
    pub fn send(&mut self, piece: PieceNumber, seq: u64, len: u64, now: Instant) {
        self.bytes_in_flight += len;
        self.packets.push_back(Packet { sent: now, piece, seq, len: len as u32, state: State::InFlight });
    }

    /// Records that the packets `[from, to)` are acknowledged. Calls `arrived` with the index, the number and the
    /// contents of each packet that was in flight, in descending order of numbers.
    pub fn acknowledge(&mut self, from: u64, to: u64, mut arrived: impl FnMut(usize, u64, &Packet)) {
        let from = from.max(self.first);
        for number in (from..to.min(self.next())).rev() {
            let index = (number - self.first) as usize;
            let packet = &mut self.packets[index];
            if packet.state == State::InFlight {
                packet.state = State::Acknowledged;
                self.bytes_in_flight -= u64::from(packet.len);
                arrived(index, number, packet);
            }
        }
        self.largest_acknowledged = self.largest_acknowledged.max(to.checked_sub(1));
    }

    /// Marks as lost each packet that was sent before an acknowledged packet and is overdue by number or by time
    /// (`DetectAndRemoveLostPackets`). `rtt` is the larger of the smoothed and the latest round-trip time. Calls `lost`
    /// with the index, the number and the contents of each lost packet.
    pub fn detect_losses(
        &mut self,
        now: Instant,
        rtt: Span,
        thresholds: Thresholds,
        mut lost: impl FnMut(usize, u64, &Packet),
    ) -> Losses {
        let mut losses = Losses { newest: None, longest: Span::ZERO, next: Instant::NEVER };
        let Some(largest) = self.largest_acknowledged else { return losses };
        let (numerator, denominator) = TIME_THRESHOLD;
        let delay = Span::from_nanos(rtt.nanos() / denominator * numerator).max(thresholds.granularity);
        for (index, number) in (self.first..largest.min(self.next())).enumerate() {
            let packet = &mut self.packets[index];
            if packet.state != State::InFlight {
                continue;
            }
            let is_lost = number + thresholds.packets <= largest || packet.sent + delay <= now;
            if !is_lost {
                losses.next = losses.next.min(packet.sent + delay);
                continue;
            }
            packet.state = State::Lost;
            self.bytes_in_flight -= u64::from(packet.len);
            let since = match self.lost_since {
                Some((since, last)) if last + 1 == number => since,
                _ => packet.sent,
            };
            self.lost_since = Some((since, number));
            losses.newest = Some(number);
            losses.longest = losses.longest.max(packet.sent.since(since));
            lost(index, number, packet);
        }
        losses
    }

    /// Removes the packets before the first packet that is in flight. Returns their number.
    pub fn remove_settled(&mut self) -> usize {
        let settled = self.packets.iter().take_while(|packet| packet.state != State::InFlight).count();
        self.packets.drain(..settled);
        self.first += settled as u64;
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { packets: 3, granularity: Span::from_millis(1) };

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    /// Sends one packet of 100 bytes at each of the given times, in milliseconds.
    fn sent(times: &[u64]) -> Packets {
        let mut packets = Packets::default();
        for (number, &millis) in times.iter().enumerate() {
            packets.send(number as u64, 100 * number as u64, 100, at(millis));
        }
        packets
    }

    fn lost(packets: &mut Packets, now: u64, rtt: u64) -> (Vec<u64>, Losses) {
        let mut numbers = Vec::new();
        let losses = packets.detect_losses(at(now), Span::from_millis(rtt), THRESHOLDS, |_, number, _| {
            numbers.push(number);
        });
        (numbers, losses)
    }

    #[test]
    fn packets_three_numbers_below_the_largest_acknowledged_one_are_lost() {
        let mut packets = sent(&[0; 10]);
        packets.acknowledge(4, 5, |_, _, _| ());
        let (numbers, losses) = lost(&mut packets, 10, 100);
        assert_eq!((numbers, losses.newest), (vec![0, 1], Some(1)));
        assert_eq!(losses.next, at(0) + Span::from_nanos(112_500_000), "9/8 of the round-trip time");
        assert_eq!(packets.bytes_in_flight(), 700);
        assert_eq!(lost(&mut packets, 113, 100).0, [2, 3], "packets 5 to 9 are above the largest");
        assert_eq!(packets.remove_settled(), 5);
        assert_eq!((packets.next(), packets.bytes_in_flight()), (10, 500));
    }

    #[test]
    fn the_time_threshold_is_at_least_the_granularity() {
        let mut packets = sent(&[0, 0]);
        packets.acknowledge(1, 2, |_, _, _| ());
        assert_eq!(lost(&mut packets, 0, 0).1.next, at(1));
        assert_eq!(lost(&mut packets, 1, 0).0, [0]);
    }

    #[test]
    fn an_acknowledgement_counts_each_packet_once() {
        let mut packets = sent(&[0; 6]);
        let mut numbers = Vec::new();
        for (from, to) in [(2, 4), (0, 5), (0, 5), (0, 99)] {
            packets.acknowledge(from, to, |_, number, _| numbers.push(number));
        }
        assert_eq!((numbers, packets.bytes_in_flight()), (vec![3, 2, 4, 1, 0, 5], 0));
    }

    #[test]
    fn the_example_of_persistent_congestion() {
        // RFC 9002, section 7.6.3: packets 2 to 8 are lost, and the acknowledgement of packet 9 reports it. The
        // numbers here are smaller by one.
        let mut packets = sent(&[0, 1000, 2000, 3000, 4000, 5000, 6000, 8000, 12_000]);
        packets.acknowledge(0, 1, |_, _, _| ());
        packets.acknowledge(8, 9, |_, _, _| ());
        let (numbers, losses) = lost(&mut packets, 12_200, 200);
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(losses.longest, Span::from_millis(7000), "the congestion period is 7 s");
    }

    #[test]
    fn an_acknowledged_packet_separates_two_sequences_of_losses() {
        let mut packets = sent(&[0, 1000, 2000, 3000, 4000]);
        packets.acknowledge(4, 5, |_, _, _| ());
        packets.acknowledge(1, 2, |_, _, _| ());
        assert_eq!(lost(&mut packets, 4200, 200).1.longest, Span::from_millis(1000));
    }
}
