//! Detection of a token-bucket policer, and of the rate that it permits.
//!
//! Linux 6.1: `bbr_lt_bw_sampling`; T. Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016. A
//! policer is detected if two successive intervals end with a loss, have a high loss rate and have similar delivery
//! rates.

use aqm_net::Instant;

/// Minimum length of an interval, in rounds (`bbr_lt_intvl_min_rtts`); the maximum is four times as long.
const MIN_ROUNDS: u32 = 4;
/// Ratio of lost data to delivered data that indicates a policer (`bbr_lt_loss_thresh`).
const LOSS_SHARE: f64 = 50.0 / 256.0;
/// Maximum relative and absolute difference between the rates of two intervals that are considered similar
/// (`bbr_lt_bw_ratio`, `bbr_lt_bw_diff`). The absolute difference is in bytes per second.
const SIMILAR_SHARE: f64 = 1.0 / 8.0;
const SIMILAR_RATE: f64 = 500.0;
/// Pacing rate at a gain of 1, as a fraction of the bandwidth. Linux multiplies the difference between two rates by
/// this fraction before comparing it with `SIMILAR_RATE` (`bbr_rate_bytes_per_sec`).
const PACED_SHARE: f64 = 0.99;
/// Number of rounds for which the policer's rate is used (`bbr_lt_bw_max_rtts`).
const MAX_ROUNDS: u32 = 48;
/// Minimum duration of an interval, in seconds.
const MIN_DURATION: f64 = 1e-3;

/// State of the connection when an interval begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    /// Time of the last delivery.
    pub at: Instant,
    /// Number of bytes delivered since the connection was opened.
    pub delivered: u64,
    /// Number of bytes lost since the connection was opened.
    pub lost: u64,
}

/// An acknowledgement or a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// State of the connection after the event.
    pub now: Interval,
    pub has_losses: bool,
    pub is_app_limited: bool,
    pub is_round_start: bool,
    /// Whether the sender is in `PROBE_BW`.
    pub is_probing: bool,
}

/// Result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unchanged,
    /// A policer was detected.
    Detected,
    /// The policer's rate has been used for the maximum number of rounds.
    Expired,
}

/// Detector of a token-bucket policer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// The policer's rate if a policer was detected; otherwise the rate of the last interval, or 0 if there is none
    /// (`lt_bw`).
    rate: f64,
    is_detected: bool,
    is_sampling: bool,
    rounds: u32,
    start: Interval,
}

impl Policer {
    /// Returns the policer's rate in bytes per second, if a policer was detected.
    pub fn rate(&self) -> Option<f64> {
        self.is_detected.then_some(self.rate)
    }

    /// Discards all samples and the detected policer (`bbr_reset_lt_bw_sampling`).
    pub fn restart(&mut self, now: Interval) {
        *self = Self { start: now, ..Self::default() };
    }

    /// Processes an acknowledgement or a timeout.
    pub fn sample(&mut self, event: &Event) -> Verdict {
        let &Event { now, has_losses, is_app_limited, is_round_start, is_probing } = event;
        if self.is_detected {
            if is_probing && is_round_start {
                self.rounds += 1;
                if self.rounds >= MAX_ROUNDS {
                    self.restart(now);
                    return Verdict::Expired;
                }
            }
            return Verdict::Unchanged;
        }
        if !self.is_sampling {
            if !has_losses {
                return Verdict::Unchanged;
            }
            (self.start, self.rounds, self.is_sampling) = (now, 0, true);
        }
        if is_app_limited {
            self.restart(now);
            return Verdict::Unchanged;
        }
        self.rounds += u32::from(is_round_start);
        if self.rounds > 4 * MIN_ROUNDS {
            self.restart(now);
        } else if self.rounds >= MIN_ROUNDS && has_losses {
            return self.end_interval(now);
        }
        Verdict::Unchanged
    }

    /// Ends an interval at a loss, unless the loss rate of the interval is too low (`bbr_lt_bw_interval_done`).
    fn end_interval(&mut self, now: Interval) -> Verdict {
        let lost = (now.lost - self.start.lost) as f64;
        let delivered = (now.delivered - self.start.delivered) as f64;
        let duration = now.at.since(self.start.at).seconds();
        if delivered == 0.0 || lost < LOSS_SHARE * delivered || duration < MIN_DURATION {
            return Verdict::Unchanged;
        }
        let rate = delivered / duration;
        let difference = (rate - self.rate).abs();
        let is_similar = difference <= SIMILAR_SHARE * self.rate || PACED_SHARE * difference <= SIMILAR_RATE;
        if self.rate > 0.0 && is_similar {
            self.rate = (rate + self.rate) / 2.0;
            (self.is_detected, self.rounds) = (true, 0);
            return Verdict::Detected;
        }
        (self.rate, self.start, self.rounds) = (rate, now, 0);
        Verdict::Unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Event = Event {
        now: Interval { at: Instant::START, delivered: 0, lost: 0 },
        has_losses: true,
        is_app_limited: false,
        is_round_start: true,
        is_probing: true,
    };

    /// Delivers data at the given rate in rounds of 100 ms. In each round, the lost data is the given share of the
    /// delivered data.
    fn detect(rounds: u64, share: f64, rate: impl Fn(u64) -> u64) -> Option<u64> {
        let mut policer = Policer::default();
        let mut now = Interval::default();
        for round in 1..rounds {
            let delivered = rate(round) / 10;
            now = Interval {
                at: Instant::from_nanos(round * 100_000_000),
                delivered: now.delivered + delivered,
                lost: now.lost + (share * delivered as f64) as u64,
            };
            if policer.sample(&Event { now, has_losses: share > 0.0, ..LOSS }) == Verdict::Detected {
                let expected = (rate(round) + rate(round - 4)) as f64 / 2.0;
                assert!((policer.rate().unwrap() / expected - 1.0).abs() < 0.07, "{:?}", policer.rate());
                return Some(round);
            }
        }
        None
    }

    #[test]
    fn two_lossy_intervals_of_similar_rates_show_a_policer() {
        // The first interval begins with the first loss and includes that round: it consists of rounds 1 to 4. The
        // second interval consists of rounds 5 to 8.
        assert_eq!(detect(30, 0.25, |_| 100_000), Some(8));
        assert_eq!(detect(30, 0.19, |_| 100_000), None, "19 % are fewer than 50/256");
        assert_eq!(detect(30, 0.25, |round| if round / 4 % 2 == 0 { 100_000 } else { 200_000 }), None);
        assert_eq!(detect(30, 0.0, |_| 100_000), None);
    }

    #[test]
    fn the_rate_is_used_for_48_rounds_of_probe_bw() {
        let mut policer = Policer { rate: 1e5, is_detected: true, ..Policer::default() };
        for _ in 0..100 {
            assert_eq!(policer.sample(&Event { is_probing: false, ..LOSS }), Verdict::Unchanged);
        }
        for _ in 0..47 {
            assert_eq!(policer.sample(&LOSS), Verdict::Unchanged);
        }
        assert_eq!(policer.sample(&LOSS), Verdict::Expired);
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn an_application_limited_sample_or_a_long_interval_discards_the_samples() {
        let mut policer = Policer::default();
        policer.sample(&LOSS);
        assert!(policer.is_sampling);
        policer.sample(&Event { has_losses: false, is_app_limited: true, ..LOSS });
        assert!(!policer.is_sampling);
        policer.sample(&LOSS);
        for _ in 0..15 {
            policer.sample(&Event { has_losses: false, ..LOSS });
            assert!(policer.is_sampling);
        }
        policer.sample(&Event { has_losses: false, ..LOSS });
        assert!(!policer.is_sampling, "17 rounds without a loss");
    }
}
