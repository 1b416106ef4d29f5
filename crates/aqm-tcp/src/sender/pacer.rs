//! Computes the departure times of a paced sender.
//!
//! Linux 6.1: `tcp_update_skb_after_send`, `tcp_update_pacing_rate`, `tcp_tso_autosize`.

use aqm_net::{Instant, Span};

use crate::arithmetic::real;
use crate::config::pacing::{Burst, Pacing};

/// Maximum payload of a burst, in bytes (Linux: `gso_max_size`).
const MAX_BURST: u64 = 65_536;
/// Divisor that yields the basic payload of a burst from the pacing rate in bytes per second (Linux: `sk_pacing_shift`,
/// 10).
const BURSTS_PER_SECOND: f64 = 1024.0;
/// Binary logarithm of a time in microseconds. The additional payload of a burst is halved once for each multiple of
/// this time in the minimum round-trip time (Linux: `tcp_tso_rtt_log`).
const RTT_LOG: u64 = 9;
/// Minimum number of segments in a burst (Linux: `tcp_min_tso_segs`).
const MIN_BURST_SEGMENTS: u64 = 2;

/// State of one sender's pacing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Pacing rate in bytes per second; infinite before the first round-trip sample.
    rate: f64,
    /// Time before which no further burst may depart.
    next: Instant,
    /// Departure time of the current burst, and number of bytes that may still be sent in this burst.
    burst: (Instant, u64),
    /// Whether a segment is waiting for the time `next`.
    is_waiting: bool,
    /// Whether no segment may depart at the time of the last call of `delays`.
    is_closed: bool,
}

/// The departure of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// Payload, in bytes.
    pub payload: u64,
    /// Number of the segment in the order of departure, starting from 1.
    pub number: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
    /// Minimum round-trip time; `None` before the first sample.
    pub min_rtt: Option<Span>,
    pub now: Instant,
}

impl Pacer {
    pub fn new() -> Self {
        Self {
            rate: f64::INFINITY,
            next: Instant::START,
            burst: (Instant::NEVER, 0),
            is_waiting: false,
            is_closed: false,
        }
    }

    /// Returns the pacing rate in bytes per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Sets the pacing rate in bytes per second.
    pub fn set_rate(&mut self, rate: f64, config: &Pacing) {
        self.rate = config.max_rate.map_or(rate, |max| rate.min(max.bytes_per_second()));
    }

    /// Whether a segment must wait at `now`. `has_segment` states whether the windows permit a segment, and is called
    /// only if a segment would have to wait.
    pub fn delays(&mut self, now: Instant, has_segment: impl FnOnce() -> bool) -> bool {
        self.is_closed = now < self.next && !self.is_in_burst(now);
        self.is_waiting = self.is_closed && has_segment();
        self.is_closed
    }

    /// Whether no segment may depart at the time of the last call of `delays`.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether the current burst departs at `now` and has room for further bytes.
    fn is_in_burst(&self, now: Instant) -> bool {
        self.burst.0 == now && self.burst.1 > 0
    }

    /// Returns the time until the next departure.
    pub fn delay(&self, now: Instant) -> Span {
        if self.next > now { self.next.since(now) } else { Span::ZERO }
    }

    /// Permits the next segment to depart immediately, because the retransmission timer has expired (Linux:
    /// `tcp_retransmit_timer`).
    pub fn release(&mut self, now: Instant) {
        self.next = self.next.min(now);
    }

    /// Stops the waiting of a segment because its data has been acknowledged, for example because the original
    /// transmission of a retransmitted segment has arrived.
    pub fn stop_waiting(&mut self) {
        self.is_waiting = false;
    }

    /// Returns the departure time of the waiting segment; `NEVER` if no segment is waiting.
    pub fn until(&self) -> Instant {
        if self.is_waiting { self.next } else { Instant::NEVER }
    }

    /// Records a departure.
    pub fn on_sent(&mut self, departure: &Departure, config: &Pacing) {
        let &Departure { payload, number, mss, min_rtt, now } = departure;
        if self.is_in_burst(now) {
            self.burst.1 = self.burst.1.saturating_sub(payload);
        } else if config.burst == Burst::Offload {
            self.burst = (now, self.burst_size(mss, min_rtt).saturating_sub(payload));
        }
        if self.rate.is_infinite() || number <= config.unpaced_segments {
            self.next = self.next.max(now);
            return;
        }
        // The conversion to a signed integer takes only one instruction.
        let duration = (real(payload) / self.rate * 1e9) as i64 as u64;
        // After a late departure, the sender catches up by sending at up to twice the pacing rate.
        let credit = if now > self.next { now.since(self.next).nanos() } else { 0 };
        self.next = self.next.max(now) + Span::from_nanos(duration - credit.min(duration / 2));
    }

    /// Returns the maximum payload of a burst, in bytes.
    fn burst_size(&self, mss: u64, min_rtt: Option<Span>) -> u64 {
        let of_rate = (self.rate / BURSTS_PER_SECOND).min(MAX_BURST as f64) as u64;
        let halvings = min_rtt.map_or(u64::MAX, |rtt| (rtt.nanos() / 1000) >> RTT_LOG);
        let of_rtt = if halvings < 16 { MAX_BURST >> halvings } else { 0 };
        let segments = ((of_rate + of_rtt).min(MAX_BURST) / mss).max(MIN_BURST_SEGMENTS);
        segments * mss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn departure(number: u64, min_rtt: Option<Span>, now: Instant) -> Departure {
        Departure { payload: 1000, number, mss: 1000, min_rtt, now }
    }

    fn paced(rate: f64) -> (Pacer, Pacing) {
        let config = Pacing { unpaced_segments: 0, ..Pacing::default() };
        let mut pacer = Pacer::new();
        pacer.set_rate(rate, &config);
        (pacer, config)
    }

    #[test]
    fn departures_are_a_packet_time_apart() {
        let (mut pacer, config) = paced(1e6);
        let mut now = at(5000);
        pacer.on_sent(&departure(1, None, now), &config);
        for number in 2..10 {
            assert!(pacer.delays(now, || true));
            let next = pacer.until();
            let expected = if number == 2 { 500_000 } else { 1_000_000 };
            assert_eq!(next.since(now).nanos(), expected, "the first makes up half of the pause");
            now = next;
            assert!(!pacer.delays(now, || true));
            pacer.on_sent(&departure(number, None, now), &config);
        }
        assert!(pacer.delays(now, || false), "nothing waits, and nothing may depart");
        assert_eq!(pacer.until(), Instant::NEVER);
    }

    #[test]
    fn a_late_departure_is_made_up_at_up_to_twice_the_rate() {
        let (mut pacer, config) = paced(1e6);
        pacer.on_sent(&departure(1, None, Instant::START), &config);
        pacer.on_sent(&departure(2, None, at(1300)), &config);
        assert!(pacer.delays(at(1300), || true));
        assert_eq!(pacer.until(), at(2000), "300 µs late, 300 µs less");
        pacer.on_sent(&departure(3, None, at(2900)), &config);
        assert!(pacer.delays(at(2900), || true));
        assert_eq!(pacer.until(), at(3400), "900 µs late, at most 500 µs less");
    }

    #[test]
    fn the_first_segments_are_not_paced() {
        let mut pacer = Pacer::new();
        let config = Pacing::default();
        pacer.set_rate(1e6, &config);
        for number in 1..=10 {
            assert!(!pacer.delays(at(7), || true));
            pacer.on_sent(&departure(number, None, at(7)), &config);
        }
        assert!(!pacer.delays(at(7), || true));
        pacer.on_sent(&departure(11, None, at(7)), &config);
        assert!(pacer.delays(at(7), || true));
    }

    #[test]
    fn with_offload_a_burst_departs_at_once() {
        let config = Pacing { burst: Burst::Offload, unpaced_segments: 0, ..Pacing::default() };
        let mut pacer = Pacer::new();
        pacer.set_rate(1e6, &config);
        for number in 1..=2 {
            assert!(!pacer.delays(Instant::START, || true), "at least two segments");
            pacer.on_sent(&departure(number, Some(Span::from_millis(20)), Instant::START), &config);
        }
        assert!(pacer.delays(Instant::START, || true));
        assert_eq!(pacer.until(), at(2000));
        pacer.set_rate(12.5e6, &config);
        assert_eq!(pacer.burst_size(1000, Some(Span::from_millis(20))), 12_000, "1/1024 s at 100 Mb/s");
        assert_eq!(pacer.burst_size(1000, Some(Span::from_nanos(600_000))), 44_000, "and half of 64 kB");
        assert_eq!(pacer.burst_size(1000, Some(Span::from_nanos(500_000))), 65_000, "at most 64 kB");
    }

    #[test]
    fn the_maximum_rate_limits_the_rate() {
        let config = Pacing { max_rate: Some(aqm_net::Rate::from_bps(8_000_000)), ..Pacing::default() };
        let mut pacer = Pacer::new();
        pacer.set_rate(2e6, &config);
        assert_eq!(pacer.rate(), 1e6);
        pacer.set_rate(5e5, &config);
        assert_eq!(pacer.rate(), 5e5);
    }
}
