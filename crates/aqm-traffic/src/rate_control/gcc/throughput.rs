//! The acknowledged throughput: the smaller of the sending and the receiving rate over about the last second (libwebrtc,
//! `goog_cc/robust_throughput_estimator.cc`, which replaced a Bayesian average over windows of 150 ms).

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

/// The oldest packet leaves the window if the window has more packets than this number and is longer than this duration
/// (`window_packets`, `min_window_duration`).
const PACKETS: usize = 20;
const DURATION: Span = Span::from_millis(1000);
/// Maximum number of packets and maximum duration of the window (`max_window_packets`, `max_window_duration`).
const MAX_PACKETS: usize = 500;
const MAX_DURATION: Span = Span::from_millis(5000);
/// Minimum number of packets for an estimate (`required_packets`).
const LEAST_PACKETS: usize = 10;
/// Durations are at least this long, so that a rate is finite.
const LEAST_DURATION: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug)]
struct Packet {
    arrival: Instant,
    sent: Instant,
    bytes: u16,
}

/// The estimate of the acknowledged throughput.
#[derive(Clone, Debug, Default)]
pub(super) struct Throughput {
    /// Packets in the order of their arrivals.
    window: VecDeque<Packet>,
    /// Latest send time of a packet that has left the window.
    left: Instant,
}

impl Throughput {
    /// Adds a packet.
    pub(super) fn add(&mut self, sent: Instant, arrival: Instant, bytes: u16) {
        let earlier = self.window.iter().rev().take_while(|one| one.arrival > arrival).count();
        self.window.insert(self.window.len() - earlier, Packet { arrival, sent, bytes });
        while self.is_too_long() {
            self.left = self.window.pop_front().map_or(self.left, |first| first.sent.max(self.left));
        }
    }

    fn is_too_long(&self) -> bool {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else { return false };
        let duration = last.arrival.since(first.arrival);
        self.window.len() > MAX_PACKETS
            || duration > MAX_DURATION
            || (self.window.len() > PACKETS && duration > DURATION)
    }

    /// Returns the estimate in bits per second; `None` if too few packets have arrived.
    pub(super) fn estimate(&self) -> Option<f64> {
        if self.window.len() < LEAST_PACKETS {
            return None;
        }
        let received = self.receiving_rate()?;
        Some(self.sending_rate().map_or(received, |sent| sent.min(received)))
    }

    /// Returns the receiving rate over the time from the first to the last arrival. The bytes of the first packet do not
    /// count, because these bytes arrived before that time. The longest gap between arrivals counts as the second-longest
    /// gap, because a path that pauses and then releases a burst has not become slower.
    fn receiving_rate(&self) -> Option<f64> {
        let (first, last) = (self.window.front()?, self.window.back()?);
        let bytes: u64 = self.window.iter().skip(1).map(|one| u64::from(one.bytes)).sum();
        let mut longest = [Span::ZERO; 2];
        for (one, next) in self.window.iter().zip(self.window.iter().skip(1)) {
            let gap = next.arrival.since(one.arrival);
            if gap > longest[0] {
                longest = [gap, longest[0]];
            } else {
                longest[1] = longest[1].max(gap);
            }
        }
        let duration = last.arrival.since(first.arrival) - longest[0] + longest[1];
        Some(8.0 * bytes as f64 / duration.max(LEAST_DURATION).seconds())
    }

    /// Returns the sending rate; `None` if too few packets have been sent after those that have left the window. The
    /// last packet closes the interval and is not counted.
    fn sending_rate(&self) -> Option<f64> {
        let counted = || self.window.iter().filter(|one| one.sent >= self.left);
        if counted().count() < LEAST_PACKETS {
            return None;
        }
        let first = counted().map(|one| one.sent).min()?;
        let last = counted().max_by_key(|one| one.sent)?;
        let bytes: u64 = counted().map(|one| u64::from(one.bytes)).sum();
        let duration = last.sent.since(first).max(LEAST_DURATION);
        Some(8.0 * (bytes - u64::from(last.bytes)) as f64 / duration.seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    /// Adds packets of 1000 B that are sent every `sent` ms and arrive every `arrives` ms, from 0 ms on.
    fn feed(throughput: &mut Throughput, packets: u64, sent: u64, arrives: u64) {
        (0..packets).for_each(|number| throughput.add(at(sent * number), at(arrives * number), 1000));
    }

    #[test]
    fn the_estimate_is_the_smaller_rate_and_needs_ten_packets() {
        for (sent, arrives, expected) in [(10, 10, 800e3), (10, 20, 400e3), (20, 10, 400e3)] {
            let mut throughput = Throughput::default();
            feed(&mut throughput, 9, sent, arrives);
            assert_eq!(throughput.estimate(), None);
            feed(&mut throughput, 0, sent, arrives);
            throughput.add(at(9 * sent), at(9 * arrives), 1000);
            assert_eq!(throughput.estimate().map(libm::round), Some(expected));
        }
    }

    #[test]
    fn the_window_is_a_second_long() {
        let mut throughput = Throughput::default();
        feed(&mut throughput, 1000, 10, 10);
        assert_eq!(throughput.window.len(), 101);
        // At 2 packets per second, the window contains more than 1 s, but at most 5 s.
        (0..100)
            .for_each(|number| throughput.add(at(10_000 + 500 * number), at(10_000 + 500 * number), 1000));
        assert_eq!(throughput.window.len(), 11);
        assert_eq!(throughput.estimate().map(libm::round), Some(16e3));
    }

    #[test]
    fn a_pause_of_the_path_does_not_lower_the_estimate() {
        let mut throughput = Throughput::default();
        for number in 0..50 {
            // The path holds the packets from 200 to 300 ms and releases them at 300 ms.
            let arrival = if (20..30).contains(&number) { 300 } else { 10 * number };
            throughput.add(at(10 * number), at(arrival), 1000);
        }
        assert_eq!(throughput.estimate().map(libm::round), Some(800e3));
    }
}
