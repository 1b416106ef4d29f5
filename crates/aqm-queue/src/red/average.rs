//! The average queue of RED, and how it falls while the line idles.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993, section 4.
//!
//! Ours, where the paper is silent, and after ns-2: an idle line counts as `floor(idle * rate / (8 *
//! mean_packet))` packets that met an empty queue, and the arrival that ends the idleness adds one
//! sample more. An arrival that is refused although the line idles does not end the idleness.

use aqm_net::{Instant, Rate, Size, Span};

/// The exponentially weighted average of the queue, one sample for each arrival.
#[derive(Clone, Debug)]
pub(crate) struct Average {
    weight: f64,
    /// The average now.
    pub value: f64,
    /// Since when the line idles without the average knowing.
    idle_since: Option<Instant>,
    /// Idle packets fit into time as bits times nanoseconds fit into this: exact, so no rounding
    /// decides whether one more packet would have been sent.
    bits_per_second: u128,
    bit_nanos_per_packet: u128,
}

impl Average {
    /// An average of zero, on a line that idles.
    pub fn new(weight: f64, mean_packet: Size, rate: Rate) -> Self {
        Self {
            weight,
            value: 0.0,
            idle_since: Some(Instant::START),
            bits_per_second: u128::from(rate.bps()),
            bit_nanos_per_packet: u128::from(mean_packet.bytes()) * 8_000_000_000,
        }
    }

    /// An arrival at `now` finds this `queue`.
    pub fn update(&mut self, queue: u64, now: Instant) {
        let missed = self.missed(now);
        let kept = 1.0 - self.weight;
        let kept = if missed == 0 { kept } else { libm::pow(kept, missed as f64 + 1.0) };
        // Signed, because that is one instruction and the unsigned conversion is many.
        self.value = self.value * kept + self.weight * queue as i64 as f64;
    }

    /// An arrival at `now` that is no sample: only the idle time before it counts.
    pub fn forget(&mut self, now: Instant) {
        self.value = self.after_idle(now);
        self.missed(now);
    }

    /// What the average would be after the idle time up to `now`; nothing is taken into account yet.
    pub fn after_idle(&self, now: Instant) -> f64 {
        match self.idle_since.map_or(0, |since| self.fit_into(now.since(since))) {
            0 => self.value,
            missed => self.value * libm::pow(1.0 - self.weight, missed as f64),
        }
    }

    /// The packets that could have been sent in the idle time up to `now`, each counted once.
    fn missed(&mut self, now: Instant) -> u128 {
        self.idle_since.map_or(0, |since| {
            self.idle_since = Some(now);
            self.fit_into(now.since(since))
        })
    }

    /// Whole packets that can be sent in this time.
    fn fit_into(&self, time: Span) -> u128 {
        u128::from(time.nanos()) * self.bits_per_second / self.bit_nanos_per_packet
    }

    /// The line has nothing to send from `now` on.
    pub fn idle_from(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// A packet has joined: the line idles no more.
    pub fn busy(&mut self) {
        self.idle_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_line_forgets_by_whole_packets() {
        // 974 bytes at 10 Mb/s take 779.2 us.
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
