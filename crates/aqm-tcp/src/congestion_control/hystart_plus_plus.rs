//! HyStart++: if the round-trip time increases, slow start ends after a phase of slower growth, from which the sender
//! can return to slow start.
//!
//! P. Balasubramanian, Y. Huang, M. Olson, "HyStart++: Modified Slow Start for TCP", RFC 9406, 2023, sections 4.2 and
//! 4.3 (algorithm, constants). If the minimum round-trip time of a round exceeds that of the last round by a threshold,
//! slow start becomes *Conservative Slow Start* (CSS), in which the window grows at a quarter of the speed. If the
//! minimum round-trip time falls below its value at the start of CSS, the increase is considered jitter, and slow start
//! resumes. After five rounds of CSS, congestion avoidance begins.
//!
//! Section 4.3 limits the growth per acknowledgement to `L` segments. The limit `cwnd.abc_limit` also applies, so that
//! `L` has an effect only if `abc_limit` is larger than `L`.
//!
//! aqmlab's choices where the source does not specify the behaviour: the acknowledgement that ends a round counts as a
//! sample of this round, and the first round ends with the data that was sent before the first acknowledgement. A loss
//! recovery that does not record departure times (without SACK) provides one sample per round, which is too few for
//! HyStart++.

use aqm_net::Span;

use super::AckSample;
use super::slow_start_exit::Decision;

/// Limits of the threshold by which the round-trip time must increase (`MIN_RTT_THRESH`, `MAX_RTT_THRESH`).
const RTT_THRESH: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));
/// Divisor of the last round's minimum round-trip time in the threshold (`MIN_RTT_DIVISOR`).
const MIN_RTT_DIVISOR: u64 = 8;
/// Minimum number of samples in a round (`N_RTT_SAMPLE`).
const N_RTT_SAMPLE: u32 = 8;
/// Divisor of the growth in CSS (`CSS_GROWTH_DIVISOR`).
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// Maximum number of rounds of CSS (`CSS_ROUNDS`).
const CSS_ROUNDS: u32 = 5;
/// Maximum growth of the window per acknowledgement if the sender does not pace, in segments (`L`).
const UNPACED_LIMIT: f64 = 8.0;

/// State of HyStart++ for one sender.
#[derive(Clone, Debug)]
pub(super) struct HyStartPlusPlus {
    /// Maximum growth of the window per acknowledgement, in segments (`L`).
    limit: f64,
    /// End of the current round (`windowEnd`); `None` before the first acknowledgement.
    round_end: Option<u64>,
    /// Minimum round-trip time of the last round (`lastRoundMinRTT`).
    last_min: Option<Span>,
    /// Minimum round-trip time of the current round (`currentRoundMinRTT`).
    current_min: Option<Span>,
    /// Number of samples in the current round (`rttSampleCount`).
    samples: u32,
    css: Option<ConservativeSlowStart>,
}

/// State of Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct ConservativeSlowStart {
    /// Minimum round-trip time at the start of CSS (`cssBaselineMinRtt`).
    baseline: Span,
    /// Number of completed rounds. The round in which CSS begins is counted as well.
    rounds: u32,
}

impl HyStartPlusPlus {
    pub fn new() -> Self {
        Self {
            limit: UNPACED_LIMIT,
            round_end: None,
            last_min: None,
            current_min: None,
            samples: 0,
            css: None,
        }
    }

    /// Removes the limit on the growth per acknowledgement, because the sender paces its segments.
    pub fn set_paced(&mut self) {
        self.limit = f64::INFINITY;
    }

    /// Returns whether the sender is in CSS.
    pub fn is_conservative(&self) -> bool {
        self.css.is_some()
    }

    /// Returns the number of segments by which an acknowledgement of `counted` segments opens the window.
    pub fn growth(&self, counted: f64) -> f64 {
        let counted = counted.min(self.limit);
        if self.css.is_some() { counted / CSS_GROWTH_DIVISOR } else { counted }
    }

    /// Processes an acknowledgement in slow start.
    pub fn on_sample(&mut self, sample: &AckSample) -> Decision {
        let round_end = *self.round_end.get_or_insert(sample.snd_nxt);
        if let Some(sent) = sample.newest {
            let rtt = sample.now.since(sent);
            self.current_min = Some(self.current_min.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
            self.compare();
        }
        if sample.snd_una < round_end {
            return Decision::Continue;
        }
        self.round_end = Some(sample.snd_nxt);
        (self.last_min, self.current_min, self.samples) = (self.current_min, None, 0);
        let Some(css) = &mut self.css else { return Decision::Continue };
        css.rounds += 1;
        if css.rounds < CSS_ROUNDS { Decision::Continue } else { Decision::Exit }
    }

    /// Compares the minimum round-trip time of the current round with that of the last round or, in CSS, with the
    /// baseline.
    fn compare(&mut self) {
        let Some(current) = self.current_min.filter(|_| self.samples >= N_RTT_SAMPLE) else { return };
        match (self.css, self.last_min) {
            (Some(css), _) if current < css.baseline => self.css = None,
            (None, Some(last)) => {
                let (least, most) = RTT_THRESH;
                let threshold = Span::from_nanos(last.nanos() / MIN_RTT_DIVISOR).min(most).max(least);
                if current >= last + threshold {
                    self.css = Some(ConservativeSlowStart { baseline: current, rounds: 0 });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Rng, Streams};

    use super::*;

    const fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    /// The algorithm and the data that is sent and acknowledged. Each segment is one byte long.
    struct Bench {
        hystart: HyStartPlusPlus,
        now: Instant,
        una: u64,
        nxt: u64,
    }

    impl Bench {
        /// Starts with a window of ten segments in the network.
        fn new() -> Self {
            Self { hystart: HyStartPlusPlus::new(), now: Instant::START, una: 0, nxt: 10 }
        }

        /// Acknowledges a segment with a round-trip time of `rtt`, and sends two segments.
        fn ack(&mut self, rtt: Option<Span>) -> Decision {
            self.now += ms(1);
            self.una += 1;
            let now = Instant::START + ms(10_000) + self.now.since(Instant::START);
            let decision = self.hystart.on_sample(&AckSample {
                now,
                newest: rtt.map(|rtt| now.earlier_by(rtt)),
                ack_sent_at: None,
                srtt: rtt,
                delivered: 1,
                marked: 0,
                snd_una: self.una,
                snd_nxt: self.nxt,
                mss: 1,
            });
            self.nxt += 2;
            decision
        }

        /// Acknowledges all segments of a round, each with a round-trip time of `rtt()`. Returns the last decision.
        fn round(&mut self, mut rtt: impl FnMut() -> Span) -> Decision {
            let end = self.hystart.round_end.unwrap_or(self.nxt);
            let mut decision = Decision::Continue;
            while self.una < end {
                assert_eq!(decision, Decision::Continue);
                decision = self.ack(Some(rtt()));
            }
            decision
        }

        /// Acknowledges `count` segments with a round-trip time of `rtt`.
        fn acks(&mut self, count: u64, rtt: Span) {
            for _ in 0..count {
                assert_eq!(self.ack(Some(rtt)), Decision::Continue);
            }
        }
    }

    /// Returns whether CSS begins if the round-trip time is `last` in one round and `current` in the next round.
    fn begins_css(last: Span, current: Span) -> bool {
        let mut bench = Bench::new();
        bench.round(|| last);
        bench.round(|| current);
        bench.hystart.is_conservative()
    }

    #[test]
    fn the_threshold_is_an_eighth_of_the_last_round_between_4_and_16_ms() {
        let nano = Span::from_nanos(1);
        for (last, threshold) in [(10, 4.0), (32, 4.0), (40, 5.0), (100, 12.5), (128, 16.0), (400, 16.0)] {
            let longer = ms(last) + Span::from_seconds(threshold / 1000.0);
            assert!(begins_css(ms(last), longer), "{last} ms");
            assert!(!begins_css(ms(last), Span::from_nanos(longer.nanos() - nano.nanos())), "{last} ms");
        }
    }

    #[test]
    fn css_begins_with_the_eighth_sample_and_not_in_the_first_round() {
        let mut bench = Bench::new();
        bench.acks(9, ms(40));
        bench.acks(1, ms(60));
        assert!(!bench.hystart.is_conservative(), "no last round");
        bench.acks(7, ms(60));
        assert!(!bench.hystart.is_conservative());
        bench.acks(1, ms(60));
        assert!(bench.hystart.is_conservative());
    }

    #[test]
    fn one_sample_per_round_is_not_enough() {
        let mut bench = Bench::new();
        for round in 1..20 {
            let end = bench.nxt;
            assert_eq!(bench.ack(Some(ms(40 * round))), Decision::Continue);
            while bench.una < end {
                assert_eq!(bench.ack(None), Decision::Continue);
            }
        }
        assert!(!bench.hystart.is_conservative());
    }

    #[test]
    fn css_divides_the_growth_by_four_and_pacing_removes_its_limit() {
        let mut bench = Bench::new();
        let growths = |hystart: &HyStartPlusPlus| [1.0, 8.0, 20.0].map(|counted| hystart.growth(counted));
        assert_eq!(growths(&bench.hystart), [1.0, 8.0, 8.0]);
        bench.round(|| ms(40));
        bench.round(|| ms(60));
        assert_eq!(growths(&bench.hystart), [0.25, 2.0, 2.0]);
        bench.hystart.set_paced();
        assert_eq!(growths(&bench.hystart), [0.25, 2.0, 5.0]);
    }

    #[test]
    fn five_rounds_of_css_end_slow_start_and_the_partial_round_counts() {
        let mut bench = Bench::new();
        bench.round(|| ms(40));
        let decisions: Vec<Decision> = (0..5).map(|_| bench.round(|| ms(60))).collect();
        assert_eq!(decisions[..4], [Decision::Continue; 4]);
        assert_eq!(decisions[4], Decision::Exit);
    }

    #[test]
    fn a_shorter_round_trip_than_the_baseline_resumes_slow_start() {
        let mut bench = Bench::new();
        bench.round(|| ms(40));
        bench.round(|| ms(60));
        assert!(bench.hystart.is_conservative());
        bench.acks(7, ms(59));
        assert!(bench.hystart.is_conservative(), "seven samples");
        bench.acks(1, ms(59));
        assert!(!bench.hystart.is_conservative());
        bench.round(|| ms(59));
        // HyStart++ remains active: the last round's minimum is 59 ms, and the threshold is 7.375 ms.
        bench.round(|| ms(66));
        assert!(!bench.hystart.is_conservative());
        bench.round(|| ms(75));
        assert!(bench.hystart.is_conservative());
        assert_eq!((0..3).map(|_| bench.round(|| ms(75))).last(), Some(Decision::Continue));
        assert_eq!(
            bench.round(|| ms(75)),
            Decision::Exit,
            "the rounds are counted from the new start of CSS"
        );
    }

    #[test]
    fn jitter_of_3_ms_does_not_end_slow_start_and_20_ms_more_does_within_two_rounds() {
        for (seed, base) in [(1, 20), (2, 50), (3, 100)] {
            let mut random: Rng = Streams::new(seed).named("jitter", 0);
            let mut rtt =
                |base: u64| Span::from_seconds((base as f64 - 3.0 + 6.0 * random.uniform()) / 1000.0);
            let mut bench = Bench::new();
            for _ in 0..12 {
                assert_eq!(bench.round(|| rtt(base)), Decision::Continue);
                assert!(!bench.hystart.is_conservative(), "{base} ms");
            }
            let begin = (0..2).find(|_| {
                bench.round(|| rtt(base + 20));
                bench.hystart.is_conservative()
            });
            assert!(begin.is_some(), "{base} ms");
        }
    }
}
