//! HyStart: slow start ends before it loses, once acknowledgements show that the path is full.
//!
//! S. Ha, I. Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55 (2011), in the form of Linux:
//! `tcp_cubic.c` of 6.14, whose rounds are also those of 6.1.129 and later (`hystart_update`, `cubictcp_acked`).
//! Either of two detectors sets `ssthresh` to the window, once until a time-out, in a window of 16 segments and more:
//!
//! - the *ACK train*: acknowledgements of a round, none more than 2 ms after the one before, go on for more than half of
//!   the least round trip and of what offloads may add to it;
//! - the *delay*: after 8 samples the least round trip of a round is longer than the least of all by an eighth of that,
//!   4 ms at least and 16 ms at most.
//!
//! A round lasts until something is acknowledged that was sent after it began. Times are whole microseconds. Samples
//! within a second of the beginning of congestion avoidance are discarded.
//!
//! Ours, where we know less than Linux: after a time-out the ACK train waits for the next round, where Linux takes the
//! time-out for an acknowledgement. A recovery that keeps no times (without SACK) gives a sample a round, too few for the
//! delay; and without timestamps, which no segment carries here, there is none if a retransmission is acknowledged.

use aqm_net::{Instant, Span, choices};

use super::{AckSample, Window};

choices! {
    /// What ends slow start early.
    pub enum HyStart {
        /// Nothing: it lasts until a loss, a mark or `ssthresh`.
        Off = "off",
        /// An ACK train or a longer delay, as in Linux's CUBIC (`hystart`, `hystart_detect` 3).
        Linux = "linux",
    }
}

/// The least window that is looked at, in segments (`hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// How many samples of a round the delay needs before it decides (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// How far acknowledgements of a train may lie apart, in microseconds (`hystart_ack_delta_us`).
const ACK_DELTA: u64 = 2_000;
/// Within which limits the round trip must grow, in microseconds (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_THRESHOLD: (u64, u64) = (4_000, 16_000);
/// The share of the least round trip by which it must grow is one over this.
const DELAY_SHARE: u64 = 8;
/// What offloads may add to the train at most, in microseconds (`hystart_ack_delay`).
const MAX_ACK_DELAY: f64 = 1_000.0;
/// The bytes that they may gather: four of the largest offloaded segments (`sk_gso_max_size`, 64 KiB).
const ACK_DELAY_BYTES: f64 = 4.0 * 65_536.0;
/// For how long samples are discarded in congestion avoidance (`HZ`).
pub(super) const SETTLING: Span = Span::from_millis(1_000);

/// The two detectors of Linux.
#[derive(Clone, Debug)]
pub(super) struct LinuxHyStart {
    /// The least round trip, in microseconds (`delay_min`).
    delay_min: Option<u64>,
    /// Whether a detector has ended slow start (`found`).
    found: bool,
    /// Samples before this are discarded.
    settled: Instant,
    round: Round,
}

/// A round trip of acknowledgements.
#[derive(Clone, Debug)]
struct Round {
    /// Where it ends (`end_seq`); `None` until the first acknowledgement after a time-out.
    end: Option<u64>,
    /// When it began, in microseconds (`round_start`).
    start: u64,
    /// The newest acknowledgement of the train, in microseconds (`last_ack`).
    last_ack: u64,
    /// The least round trip, in microseconds (`curr_rtt`).
    least: u64,
    /// How many samples there were, up to `MIN_SAMPLES` (`sample_cnt`).
    samples: u32,
}

impl LinuxHyStart {
    pub fn new() -> Self {
        let round = Round { end: Some(0), start: 0, last_ack: 0, least: u64::MAX, samples: 0 };
        Self { delay_min: None, found: false, settled: Instant::START, round }
    }

    /// Something arrived, and the window has not grown for it yet (`cubictcp_acked`).
    pub fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        // Once slow start has ended early, only a time-out brings it back, and with it another least round trip.
        if self.found || sample.now < self.settled {
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

    /// Congestion avoidance begins at `now`.
    pub fn on_avoidance(&mut self, now: Instant) {
        self.settled = now + SETTLING;
    }

    /// The window is reduced: what the samples tell counts again.
    pub fn on_reduction(&mut self) {
        self.settled = Instant::START;
    }

    /// After a time-out nothing is known of the path, and a new slow start may end early.
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
            let threshold = (delay_min + ack_delay(window, sample)) / 2; // no pacing
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
    /// Whether an acknowledgement at `now` belongs to the train; once one was late, none of the round does.
    fn is_train(&mut self, now: u64) -> bool {
        let follows = now - self.last_ack <= ACK_DELTA;
        if follows {
            self.last_ack = now;
        }
        follows
    }

    /// The least round trip after a sample, if enough came before it.
    fn least_of(&mut self, rtt: u64) -> Option<u64> {
        self.least = self.least.min(rtt);
        let enough = self.samples >= MIN_SAMPLES;
        self.samples += u32::from(!enough);
        enough.then_some(self.least)
    }
}

/// What offloads may add to an ACK train, in microseconds: the time that some large segments take at the rate of
/// pacing (`hystart_ack_delay`, `tcp_update_pacing_rate`).
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

    use super::super::{AckInfo, Controller, CubicConfig, WindowRules};
    use super::*;
    use crate::testing::{ack_at, loss, timeout};

    const MILLI: u64 = 1_000;

    /// Detectors with a window in slow start. Times are in microseconds, data in segments.
    struct Bench {
        hystart: LinuxHyStart,
        window: Window,
        una: u64,
        nxt: u64,
    }

    impl Bench {
        fn new(cwnd: f64) -> Self {
            let window = Window::new(WindowRules::default(), cwnd, 1e9);
            Self { hystart: LinuxHyStart::new(), window, una: 0, nxt: 10 }
        }

        /// A segment is acknowledged `rtt` after it was sent; whether slow start has ended.
        fn ack(&mut self, now: u64, rtt: Option<u64>) -> bool {
            self.una += 1;
            let at = |micros: u64| Instant::from_nanos(micros * 1_000);
            let sample = AckSample {
                now: at(now),
                newest: rtt.map(|rtt| at(now - rtt)),
                ack_sent_at: None,
                srtt: rtt.map(|rtt| Span::from_nanos(rtt * 1_000)),
                snd_una: self.una,
                snd_nxt: self.nxt,
                mss: 1448,
            };
            self.hystart.on_sample(&mut self.window, &sample);
            !self.window.in_slow_start()
        }

        /// A round begins with an acknowledgement at `now`.
        fn begin_round(&mut self, now: u64, rtt: u64) {
            self.una = self.nxt;
            self.nxt += 100_000;
            assert!(!self.ack(now, Some(rtt)));
        }

        /// After how many acknowledgements of a round, `gap` apart, slow start ends; the round trip stays.
        fn train(&mut self, gap: u64, rtt: u64) -> Option<u64> {
            self.begin_round(1_000_000, rtt);
            (1..1_000).find(|place| self.ack(1_000_000 + place * gap, Some(rtt)))
        }
    }

    #[test]
    fn a_train_of_acknowledgements_ends_slow_start_after_half_of_the_least_round_trip() {
        // Half of 60 ms and 1 ms is 30.5 ms: the 15th is at 30 ms, the 16th at 32 ms.
        let mut bench = Bench::new(40.0);
        assert_eq!(bench.train(2 * MILLI, 60 * MILLI), Some(16));
        assert_eq!((bench.window.cwnd, bench.window.ssthresh), (40.0, 40.0));
        // More than that, to the microsecond.
        assert_eq!(Bench::new(40.0).train(500, 60 * MILLI), Some(62));
        assert_eq!(Bench::new(40.0).train(500, 60 * MILLI - 1), Some(61));
    }

    #[test]
    fn one_gap_ends_the_train_of_a_round() {
        assert_eq!(Bench::new(40.0).train(2 * MILLI + 1, 60 * MILLI), None);
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        let late = 1_000_000 + 2 * MILLI + 1;
        assert!((0..100).all(|place| !bench.ack(late + place * 500, Some(60 * MILLI))));
        // The next round begins a train of its own.
        bench.begin_round(2_000_000, 60 * MILLI);
        assert!((1..=61).all(|place| !bench.ack(2_000_000 + place * 500, Some(60 * MILLI))));
        assert!(bench.ack(2_000_000 + 62 * 500, Some(60 * MILLI)));
    }

    #[test]
    fn what_offloads_may_add_to_a_train_shrinks_at_gigabits() {
        // 4 * 64 KiB at twice 2000 * 1448 B in 1 ms take 45.2 us, so the train lasts 522 us; 1 ms would make it 1 ms.
        let mut bench = Bench::new(2_000.0);
        assert_eq!(bench.train(1, MILLI), Some(523));
    }

    /// Whether the least round trip `rtt` of a round ends slow start where the least of all is `least`: with its
    /// first 8 samples, and with the 9th.
    fn delayed(least: u64, rtt: u64) -> [bool; 2] {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, least);
        bench.begin_round(2_000_000, rtt);
        let first = (1..8).any(|place| bench.ack(2_000_000 + 3 * MILLI * place, Some(rtt)));
        [first, bench.ack(2_100_000, Some(rtt))]
    }

    #[test]
    fn a_longer_delay_ends_slow_start_with_the_ninth_sample_of_a_round() {
        assert_eq!(delayed(60 * MILLI, 67_501), [false, true]);
        assert_eq!(delayed(60 * MILLI, 67_500), [false, false]);
        // At least 4 ms, at most 16 ms.
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
        assert!((1..100).all(|place| !bench.ack(2_000_000 + 3 * MILLI * place, Some(100 * MILLI))));
    }

    #[test]
    fn a_round_begins_with_the_first_acknowledgement_beyond_what_was_sent_when_the_last_began() {
        let mut bench = Bench::new(40.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        let (end, next) = (bench.nxt, bench.nxt + 7);
        (bench.una, bench.nxt) = (end - 2, next);
        bench.ack(2_000_000, Some(60 * MILLI));
        assert_eq!(bench.hystart.round.end, Some(end));
        bench.ack(2_000_100, Some(60 * MILLI));
        assert_eq!((bench.una, bench.hystart.round.end), (end, Some(end)), "all of the round, and no more");
        bench.ack(2_000_200, Some(60 * MILLI));
        assert_eq!((bench.hystart.round.end, bench.hystart.round.start), (Some(next), 2_000_200));
    }

    #[test]
    fn rounds_are_counted_in_small_windows_too() {
        // A round that begins with 10 segments is not begun anew when there are 16 (Linux 6.14).
        let mut bench = Bench::new(10.0);
        bench.begin_round(1_000_000, 60 * MILLI);
        bench.window.cwnd = 16.0;
        bench.ack(1_001_000, Some(60 * MILLI));
        assert_eq!(bench.hystart.round.start, 1_000_000);
    }

    #[test]
    fn after_a_time_out_nothing_is_known_and_slow_start_may_end_early_again() {
        let mut bench = Bench::new(40.0);
        assert_eq!(bench.train(2 * MILLI, 60 * MILLI), Some(16));
        bench.window.ssthresh = 100.0;
        assert!((1..200).all(|place| !bench.ack(1_100_000 + 2 * MILLI * place, Some(90 * MILLI))), "once");
        bench.hystart.on_timeout();
        // What was sent before the time-out is a round without a train.
        assert!((1..200).all(|place| !bench.ack(3_000_000 + 2 * MILLI * place, Some(30 * MILLI))));
        bench.begin_round(4_000_000, 30 * MILLI);
        assert!((1..8).all(|place| !bench.ack(4_000_000 + 2 * MILLI * place, Some(30 * MILLI))));
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
        assert_eq!((1..100).find(|place| bench.ack(1_000_000 + 2 * MILLI * place, None)), Some(16));
        assert_eq!(bench.hystart.round.samples, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(9438), ..ProptestConfig::default()
        })]

        #[test]
        fn slow_start_ends_early_at_the_window_of_the_moment_and_never_below_16_segments(
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
                    snd_una: una,
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
