//! Estimates the capacity of the link upstream of an ingress from the times between packets (`autorate-ingress`).
//!
//! The times between the packets of a burst contain no information about the capacity. The average time between packets
//! is therefore a moving average in which a time above the average has a weight of 1/4 and any other time has a weight
//! of 1/256. A window ends with the first packet that arrives after a gap longer than this average. The bytes that
//! arrived in a window, divided by the window's duration, are a sample of the rate. The estimate follows higher samples
//! quickly and lower samples slowly. The shaper rate is 15/16 of the estimate.
//!
//! As in the kernel, the shaper rate is set after each window. The kernel's authors intended a minimum interval of 250
//! ms between changes of the rate, but the kernel never stores the time of the last change.
//!
//! aqmlab's choice: when a run begins, the router's clock has already been running for an hour.

/// One hour in nanoseconds.
const HOUR: i64 = 3_600_000_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone)]
pub(super) struct Capacity {
    last_packet: i64,
    window_begin: i64,
    /// The average time between packets.
    packet_interval: u64,
    window_bytes: u64,
    /// Estimated capacity in bytes per second (`avg_peak_bandwidth`).
    estimate: u64,
}

impl Capacity {
    /// Creates an estimator whose initial estimate is `rate`, in bytes per second.
    pub fn new(rate: u64) -> Self {
        Self { last_packet: -HOUR, window_begin: -HOUR, packet_interval: 0, window_bytes: 0, estimate: rate }
    }

    /// Returns the estimated capacity, in bytes per second.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Records packets that arrive at `now` and increase the backlog by `bytes`. Returns the new shaper rate, in bytes
    /// per second, if a window ends.
    pub fn on_arrival(&mut self, bytes: i64, now: i64) -> Option<u64> {
        self.window_bytes = self.window_bytes.wrapping_add_signed(bytes);
        let interval = ((now - self.last_packet) as u64).min(SECOND);
        let shift = if interval > self.packet_interval { 2 } else { 8 };
        self.packet_interval = average(self.packet_interval, interval, shift);
        self.last_packet = now;
        if interval <= self.packet_interval {
            return None;
        }
        let window = (now - self.window_begin) as u64;
        let sample = self.window_bytes.wrapping_mul(SECOND) / window;
        let shift = if sample > self.estimate { 2 } else { 8 };
        self.estimate = average(self.estimate, sample, shift);
        (self.window_bytes, self.window_begin) = (0, now);
        Some((self.estimate * 15) >> 4)
    }
}

/// Returns the kernel's exponential moving average (`cake_ewma`), in which `sample` has the weight 2^-`shift`.
pub(super) fn average(before: u64, sample: u64, shift: u32) -> u64 {
    before - (before >> shift) + (sample >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_packets_yield_the_rate_of_their_link() {
        // Packets of 1250 bytes arrive once per millisecond (10 Mb/s); some are slightly late.
        let mut capacity = Capacity::new(0);
        let mut set = Vec::new();
        for k in 0..20_000_i64 {
            let late = if k % 10 == 0 { 100_000 } else { 0 };
            set.extend(capacity.on_arrival(1250, k * 1_000_000 + late));
        }
        assert!(set.len() > 1000);
        let rate = capacity.estimate() as f64;
        assert!((rate / 1_250_000.0 - 1.0).abs() < 0.05, "{rate}");
        assert_eq!(set.last(), Some(&((capacity.estimate() * 15) >> 4)));
    }

    #[test]
    fn a_burst_does_not_appear_as_a_fast_link() {
        // Eight packets arrive together every 8 ms.
        let mut capacity = Capacity::new(0);
        for k in 0..20_000_i64 {
            capacity.on_arrival(1250, k / 8 * 8_000_000 + k % 8 * 1000);
        }
        let rate = capacity.estimate() as f64;
        assert!((rate / 1_250_000.0 - 1.0).abs() < 0.1, "{rate}");
    }
}
