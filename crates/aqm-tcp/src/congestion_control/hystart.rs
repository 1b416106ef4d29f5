//! HyStart: ends slow start before a loss occurs, if acknowledgements show that the path is full.
//!
//! S. Ha, I. Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55 (2011), as implemented in Linux:
//! `tcp_cubic.c` of 6.14, in which rounds are defined as in 6.1.129 and later (`hystart_update`, `cubictcp_acked`).
//! Each of two detectors can set `ssthresh` to the window if the window is at least 16 segments. After a detector has
//! set `ssthresh`, neither detector does so again until the next timeout. The detectors are:
//!
//! - The *ACK train* detector responds if the successive acknowledgements of a round, which are at most 2 ms apart,
//!   last longer than half of the sum of the minimum round-trip time and the delay that offloads may add.
//! - The *delay* detector responds if, after 8 samples, the minimum round-trip time of a round exceeds the overall
//!   minimum by more than a threshold. The threshold is an eighth of the overall minimum, but at least 4 ms and at most
//!   16 ms.
//!
//! A round ends when data that was sent after the beginning of the round is acknowledged. Times are in whole
//! microseconds. Samples that arrive within one second after the beginning of congestion avoidance are discarded.
//!
//! aqmlab's choices where less information is available than in Linux: After a timeout, the ACK train starts only with
//! the next round, whereas Linux treats the timeout like an acknowledgement. A loss recovery that does not record
//! departure times (without SACK) provides one sample per round, which is too few for the delay detector. aqmlab does
//! not use timestamps here, so acknowledgements of retransmissions do not provide samples.

use aqm_net::{Instant, Span, choices};

use super::{AckSample, Window};

choices! {
    /// Detector that ends slow start early.
    pub enum HyStart {
        /// No detector. Slow start lasts until a loss, a mark or `ssthresh`.
        Off = "off",
        /// An ACK train or an increased delay, as in Linux's CUBIC (`hystart`, `hystart_detect` 3).
        Linux = "linux",
    }
}

/// Minimum window for detection, in segments (`hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// Number of samples in a round that must precede a decision of the delay detector (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// Maximum gap between two acknowledgements of a train, in microseconds (`hystart_ack_delta_us`).
const ACK_DELTA: u64 = 2_000;
/// Limits of the delay threshold, in microseconds (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_THRESHOLD: (u64, u64) = (4_000, 16_000);
/// Divisor of the minimum round-trip time in the delay threshold.
const DELAY_SHARE: u64 = 8;
/// Maximum time by which offloads may lengthen a train, in microseconds (`hystart_ack_delay`).
const MAX_ACK_DELAY: f64 = 1_000.0;
/// Number of bytes that offloads may aggregate: four segments of the maximum offload size (`sk_gso_max_size`, 64 KiB).
const ACK_DELAY_BYTES: f64 = 4.0 * 65_536.0;
/// Time after the beginning of congestion avoidance in which samples are discarded (`HZ`).
pub(super) const SETTLING: Span = Span::from_millis(1_000);

/// The two detectors of Linux.
#[derive(Clone, Debug)]
pub(super) struct LinuxHyStart {
    /// Minimum round-trip time, in microseconds (`delay_min`).
    delay_min: Option<u64>,
    /// Whether a detector has ended slow start (`found`).
    found: bool,
    /// Samples before this time are discarded.
    discard_until: Instant,
    round: Round,
}

/// A round, which is a round trip of acknowledgements.
#[derive(Clone, Debug)]
struct Round {
    /// End of the round (`end_seq`); `None` until the first acknowledgement after a timeout.
    end: Option<u64>,
    /// Start time, in microseconds (`round_start`).
    start: u64,
    /// Time of the most recent acknowledgement of the train, in microseconds (`last_ack`).
    last_ack: u64,
    /// Minimum round-trip time in the round, in microseconds (`curr_rtt`).
    least: u64,
    /// Number of samples, counted up to `MIN_SAMPLES` (`sample_cnt`).
    samples: u32,
}

impl LinuxHyStart {
    pub fn new() -> Self {
        let round = Round { end: Some(0), start: 0, last_ack: 0, least: u64::MAX, samples: 0 };
        Self { delay_min: None, found: false, discard_until: Instant::START, round }
    }

    /// Processes the arrival of data before the arrival opens the window (`cubictcp_acked`).
    pub fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        // After HyStart has ended slow start, only a timeout restarts slow start and discards the minimum round-trip
        // time.
        if self.found || sample.now < self.discard_until {
            return;
        }
        let rtt = sample.newest.map(|sent| (micros(sample.now) - micros(sent)).max(1));
        if let Some(rtt) = rtt {
            self.delay_min = Some(self.delay_min.map_or(rtt, |least| least.min(rtt)));
        }
        if window.in_slow_start() {
            self.detect(window, sample, rtt);
        }
    }

    /// Records the beginning of congestion avoidance.
    pub fn on_avoidance(&mut self, now: Instant) {
        self.discard_until = now + SETTLING;
    }

    /// Ensures that samples are accepted again after a reduction of the window.
    pub fn on_reduction(&mut self) {
        self.discard_until = Instant::START;
    }

    /// Resets the detectors after a timeout, so that the detectors can end the next slow start early.
    pub fn on_timeout(&mut self) {
        *self = Self::new();
        self.round.end = None;
    }

    /// `hystart_update`
    fn detect(&mut self, window: &mut Window, sample: &AckSample, rtt: Option<u64>) {
        let now = micros(sample.now);
        let end = *self.round.end.get_or_insert(sample.snd_nxt);
        if sample.snd_una > end {
            let end = Some(sample.snd_nxt);
            self.round = Round { end, start: now, last_ack: now, least: u64::MAX, samples: 0 };
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        let Some(delay_min) = self.delay_min else { return };
        if self.round.is_train(now) {
            let threshold = (delay_min + ack_delay(window, sample)) / 2; // as for senders without pacing
            self.found = now - self.round.start > threshold;
        }
        if let Some(rtt) = rtt {
            let (least, most) = DELAY_THRESHOLD;
            let longer = (delay_min / DELAY_SHARE).clamp(least, most);
            self.found |= self.round.least_of(rtt).is_some_and(|least| least > delay_min + longer);
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }
}

impl Round {
    /// Returns whether an acknowledgement at `now` belongs to the train. After an acknowledgement that is too late, no
    /// further acknowledgement of the round belongs to the train.
    fn is_train(&mut self, now: u64) -> bool {
        let follows = now - self.last_ack <= ACK_DELTA;
        if follows {
            self.last_ack = now;
        }
        follows
    }

    /// Returns the minimum round-trip time including the sample `rtt`; `None` if too few samples preceded this sample.
    fn least_of(&mut self, rtt: u64) -> Option<u64> {
        self.least = self.least.min(rtt);
        let enough = self.samples >= MIN_SAMPLES;
        self.samples += u32::from(!enough);
        enough.then_some(self.least)
    }
}

/// Returns the time by which offloads may lengthen an ACK train, in microseconds. This is the transmission time of
/// several large segments at the pacing rate (`hystart_ack_delay`, `tcp_update_pacing_rate`).
fn ack_delay(window: &Window, sample: &AckSample) -> u64 {
    let Some(srtt) = sample.srtt.filter(|srtt| !srtt.is_zero()) else { return 0 };
    let ratio = if window.cwnd < window.ssthresh / 2.0 { 2.0 } else { 1.2 };
    let rate = ratio * window.cwnd * sample.mss as f64 / srtt.seconds();
    (ACK_DELAY_BYTES / rate * 1e6).min(MAX_ACK_DELAY) as u64
}

fn micros(at: Instant) -> u64 {
    at.nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{AckInfo, Controller, CubicConfig};
    use super::*;
    use crate::testing::{ack_at, loss, timeout};

    const MILLI: u64 = 1_000;

    /// The detectors and a window in slow start. Times are in microseconds, and data is in segments.
    struct Bench {
        hystart: LinuxHyStart,
        window: Window,
        una: u64,
        nxt: u64,
    }

    impl Bench {
        fn new(cwnd: f64) -> Self {
            let window = Window::with_defaults(cwnd, 1e9);
            Self { hystart: LinuxHyStart::new(), window, una: 0, nxt: 10 }
        }

        /// Acknowledges a segment that was sent `rtt` before `now`. Returns whether slow start has ended.
        fn ack(&mut self, now: u64, rtt: Option<u64>) -> bool {
            self.una += 1;
            let at = |micros: u64| Instant::from_nanos(micros * 1_000);
            let sample = AckSample {
                now: at(now),
                newest: rtt.map(|rtt| at(now - rtt)),
                ack_sent_at: None,
                srtt: rtt.map(|rtt| Span::from_nanos(rtt * 1_000)),
                delivered: 0,
                marked: 0,
                snd_una: self.una,
                snd_nxt: self.nxt,
                mss: 1448,
            };
            self.hystart.on_sample(&mut self.window, &sample);
            !self.window.in_slow_start()
        }

        /// Begins a round with an acknowledgement at `now`.
        fn begin_round(&mut self, now: u64, rtt: u64) {
            self.una = self.nxt;
            self.nxt += 100_000;
            assert!(!self.ack(now, Some(rtt)));
        }

        /// Returns the number of acknowledgements in a round after which slow start ends. The acknowledgements are
        /// `gap` apart, and the round-trip time is constant.
        fn train(&mut self, gap: u64, rtt: u64) -> Option<u64> {
            self.begin_round(1_000_000, rtt);
            (1..1_000).find(|index| self.ack(1_000_000 + index * gap, Some(rtt)))
        }
    }

    #[test]
    fn a_train_of_acknowledgements_ends_slow_start_after_half_of_the_least_round_trip() {
        // Half of the sum of 60 ms and 1 ms is 30.5 ms. The 15th acknowledgement arrives at 30 ms, and the 16th at 32
        // ms.
        let mut bench = Bench::new(40.0);
        assert_eq!(bench.train(2 * MILLI, 60 * MILLI), Some(16));
        assert_eq!((bench.window.cwnd, bench.window.ssthresh), (40.0, 40.0));
        // The duration of the train must exceed this value by at least one microsecond.
        assert_eq!(Bench::new(40.0).train(500, 60 * MILLI), Some(62));
        assert_eq!(Bench::new(40.0).train(500, 60 * MILLI - 1), Some(61));
    }

    #[test]
    fn one_gap_ends_the_train_of_a_round() {
        assert_eq!(Bench::new(40.0).train(2 * MILLI + 1, 60 * MILLI), None);
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        let late = 1_000_000 + 2 * MILLI + 1;
        assert!((0..100).all(|index| !bench.ack(late + index * 500, Some(60 * MILLI))));
        // A new train begins in the next round.
        bench.begin_round(2_000_000, 60 * MILLI);
        assert!((1..=61).all(|index| !bench.ack(2_000_000 + index * 500, Some(60 * MILLI))));
        assert!(bench.ack(2_000_000 + 62 * 500, Some(60 * MILLI)));
    }

    #[test]
    fn the_delay_added_by_offloads_shrinks_at_gigabit_rates() {
        // At twice 2000 * 1448 B per 1 ms, 4 * 64 KiB take 45.2 us, so the train must last 522 us. If the added delay
        // were 1 ms, the train would have to last 1 ms.
        let mut bench = Bench::new(2_000.0);
        assert_eq!(bench.train(1, MILLI), Some(523));
    }

    /// Returns whether slow start ends if the minimum round-trip time is `rtt` in a round and `least` overall. The
    /// first value is for the first 8 samples, and the second value is for the 9th sample.
    fn delayed(least: u64, rtt: u64) -> [bool; 2] {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, least);
        bench.begin_round(2_000_000, rtt);
        let first = (1..8).any(|index| bench.ack(2_000_000 + 3 * MILLI * index, Some(rtt)));
        [first, bench.ack(2_100_000, Some(rtt))]
    }

    #[test]
    fn a_longer_delay_ends_slow_start_with_the_ninth_sample_of_a_round() {
        assert_eq!(delayed(60 * MILLI, 67_501), [false, true]);
        assert_eq!(delayed(60 * MILLI, 67_500), [false, false]);
        // The threshold is at least 4 ms and at most 16 ms.
        assert_eq!(delayed(10 * MILLI, 14_001), [false, true]);
        assert_eq!(delayed(10 * MILLI, 14_000), [false, false]);
        assert_eq!(delayed(400 * MILLI, 416_001), [false, true]);
        assert_eq!(delayed(400 * MILLI, 416_000), [false, false]);
    }

    #[test]
    fn one_short_round_trip_in_a_round_is_enough_to_stay_in_slow_start() {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        bench.begin_round(2_000_000, 61 * MILLI);
        assert!((1..100).all(|index| !bench.ack(2_000_000 + 3 * MILLI * index, Some(100 * MILLI))));
    }

    #[test]
    fn a_round_begins_with_the_first_acknowledgement_of_data_sent_after_the_last_began() {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        let (end, next) = (bench.nxt, bench.nxt + 7);
        (bench.una, bench.nxt) = (end - 2, next);
        bench.ack(2_000_000, Some(60 * MILLI));
        assert_eq!(bench.hystart.round.end, Some(end));
        bench.ack(2_000_100, Some(60 * MILLI));
        assert_eq!((bench.una, bench.hystart.round.end), (end, Some(end)), "the complete round, and no more");
        bench.ack(2_000_200, Some(60 * MILLI));
        assert_eq!((bench.hystart.round.end, bench.hystart.round.start), (Some(next), 2_000_200));
    }

    #[test]
    fn rounds_are_counted_in_small_windows_too() {
        // A round that begins with a window of 10 segments does not restart when the window reaches 16 segments (Linux
        // 6.14).
        let mut bench = Bench::new(10.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        bench.window.cwnd = 16.0;
        bench.ack(1_001_000, Some(60 * MILLI));
        assert_eq!(bench.hystart.round.start, 1_000_000);
    }

    #[test]
    fn after_a_timeout_slow_start_may_end_early_again() {
        let mut bench = Bench::new(40.0);
        assert_eq!(bench.train(2 * MILLI, 60 * MILLI), Some(16));
        bench.window.ssthresh = 100.0;
        assert!((1..200).all(|index| !bench.ack(1_100_000 + 2 * MILLI * index, Some(90 * MILLI))), "once");
        bench.hystart.on_timeout();
        // The acknowledgements of the data that was sent before the timeout form a round without a train.
        assert!((1..200).all(|index| !bench.ack(3_000_000 + 2 * MILLI * index, Some(30 * MILLI))));
        bench.begin_round(4_000_000, 30 * MILLI);
        assert!((1..8).all(|index| !bench.ack(4_000_000 + 2 * MILLI * index, Some(30 * MILLI))));
        assert!(bench.ack(4_016_000, Some(30 * MILLI)), "15.5 ms");
    }

    #[test]
    fn samples_in_the_first_second_of_congestion_avoidance_are_discarded() {
        let mut bench = Bench::new(40.0);
        bench.hystart.on_avoidance(Instant::from_nanos(1_000_000));
        bench.ack(1_000_999, Some(10 * MILLI));
        assert_eq!(bench.hystart.delay_min, None);
        bench.ack(1_001_000, Some(20 * MILLI));
        assert_eq!(bench.hystart.delay_min, Some(20_000));
        bench.hystart.on_avoidance(Instant::from_nanos(1_001_000_000));
        bench.hystart.on_reduction();
        bench.ack(1_002_000, Some(15 * MILLI));
        assert_eq!(bench.hystart.delay_min, Some(15_000));
    }

    #[test]
    fn an_acknowledgement_without_a_sample_counts_for_the_train_only() {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        assert_eq!((1..100).find(|index| bench.ack(1_000_000 + 2 * MILLI * index, None)), Some(16));
        assert_eq!(bench.hystart.round.samples, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(9438), ..ProptestConfig::default()
        })]

        #[test]
        fn slow_start_ends_early_at_the_current_window_and_never_below_16_segments(
            acks in prop::collection::vec((1..4_000u64, 1..200_000u64, 1..4u64, 0..40u64), 1..400),
        ) {
            let config = CubicConfig { hystart: HyStart::Linux, ..CubicConfig::default() };
            let mut cubic = Controller::new(&config, 2.0, 1e9);
            let (mut now, mut una, mut nxt) = (1_000_000, 0, 10);
            for (gap, rtt, acked, fate) in acks {
                now += gap;
                una += acked;
                nxt = nxt.max(una) + 2 * acked;
                let before = (cubic.cwnd(), cubic.ssthresh());
                let at = |micros: u64| Instant::from_nanos(micros * 1_000);
                let srtt = Span::from_nanos(rtt * 1_000);
                cubic.on_sample(&AckSample {
                    now: at(now),
                    newest: (fate != 2).then(|| at(now - rtt)),
                    ack_sent_at: None,
                    srtt: Some(srtt),
                    delivered: 0, marked: 0, snd_una: una,
                    snd_nxt: nxt,
                    mss: 1448,
                });
                if cubic.ssthresh() != before.1 {
                    prop_assert_eq!(cubic.ssthresh(), before.0);
                    prop_assert!(before.0 >= 16.0 && before.0 < before.1);
                    prop_assert!(!cubic.in_slow_start());
                }
                let segments = acked as f64;
                cubic.on_ack(&AckInfo {
                    acked: segments, counted: segments, may_grow: fate != 1, ..ack_at(at(now), srtt)
                });
                match fate {
                    3 => cubic.on_congestion(&loss(cubic.cwnd())),
                    4 => cubic.on_congestion(&timeout(cubic.cwnd())),
                    5 => cubic.cap(10.0),
                    _ => {}
                }
            }
        }
    }
}
