//! RED's average queue length, and its decay while the link is idle.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993, section 4.
//!
//! Where the paper is silent, aqmlab follows ns-2. An idle period counts as the arrival of `floor(idle * rate / (8 *
//! mean_packet))` packets at an empty queue, and the arrival that ends the idle period adds one more sample. An arrival
//! that is dropped while the link is idle does not end the idle period.

use aqm_net::{Instant, Rate, Size, Span};

/// The exponentially weighted moving average of the queue length, with one sample per arrival.
#[derive(Clone, Debug)]
pub(crate) struct Average {
    weight: f64,
    /// The current value of the average.
    pub value: f64,
    /// Start of the idle period that the average does not yet take into account.
    idle_since: Option<Instant>,
    /// The link rate. The number of packets that could have been sent in an idle period is computed from
    /// `bits_per_second` and `bit_nanos_per_packet` in integer arithmetic, so that no rounding error can change this
    /// number.
    bits_per_second: u128,
    bit_nanos_per_packet: u128,
}

impl Average {
    /// Creates an average of zero on an idle link.
    pub fn new(weight: f64, mean_packet: Size, rate: Rate) -> Self {
        Self {
            weight,
            value: 0.0,
            idle_since: Some(Instant::START),
            bits_per_second: u128::from(rate.bps()),
            bit_nanos_per_packet: u128::from(mean_packet.bytes()) * 8_000_000_000,
        }
    }

    /// Adds the sample of an arrival at `now`, when the queue length is `queue`.
    pub fn update(&mut self, queue: u64, now: Instant) {
        let idle_packets = self.take_idle_packets(now);
        let factor = 1.0 - self.weight;
        let factor = if idle_packets == 0 { factor } else { libm::pow(factor, idle_packets as f64 + 1.0) };
        // The number is first converted to a signed integer, because the conversion of a signed integer to floating
        // point takes one instruction, whereas the conversion of an unsigned integer takes many.
        self.value = self.value * factor + self.weight * queue as i64 as f64;
    }

    /// Applies the decay for the idle period before an arrival at `now`, without adding a sample for the arrival.
    pub fn decay(&mut self, now: Instant) {
        self.value = self.after_idle(now);
        self.take_idle_packets(now);
    }

    /// Returns the average after the decay for the idle period up to `now`, without changing the state.
    pub fn after_idle(&self, now: Instant) -> f64 {
        match self.idle_since.map_or(0, |since| self.packets_in(now.since(since))) {
            0 => self.value,
            idle_packets => self.value * libm::pow(1.0 - self.weight, idle_packets as f64),
        }
    }

    /// Returns the number of packets that could have been sent in the idle period up to `now`. Each packet is counted
    /// only once.
    fn take_idle_packets(&mut self, now: Instant) -> u128 {
        self.idle_since.map_or(0, |since| {
            self.idle_since = Some(now);
            self.packets_in(now.since(since))
        })
    }

    /// Returns the number of whole packets that can be sent in the given time.
    fn packets_in(&self, time: Span) -> u128 {
        u128::from(time.nanos()) * self.bits_per_second / self.bit_nanos_per_packet
    }

    /// Starts an idle period at `now`.
    pub fn idle_from(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Ends the idle period because a packet has joined the queue.
    pub fn busy(&mut self) {
        self.idle_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_link_adds_samples_for_whole_packets() {
        // The transmission of 974 bytes at 10 Mb/s takes 779.2 us.
        for (idle_nanos, samples) in [(0, 1), (779_199, 1), (779_200, 2), (7_792_000, 11)] {
            let mut average = Average::new(0.25, Size::from_bytes(974), Rate::from_bps(10_000_000));
            average.busy();
            average.value = 64.0;
            average.idle_from(Instant::from_nanos(5));
            average.update(0, Instant::from_nanos(5 + idle_nanos));
            let expected = 64.0 * libm::pow(0.75, f64::from(samples));
            assert!((average.value - expected).abs() < 1e-12, "{idle_nanos}: {}", average.value);
        }
    }
}
