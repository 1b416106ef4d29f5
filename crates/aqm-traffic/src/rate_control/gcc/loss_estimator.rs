//! The rate at which losses begin, and the share of losses that do not depend on the rate (libwebrtc,
//! `goog_cc/loss_based_bwe_v2.cc`, with the default values of its field trials).
//!
//! The sender assumes that packets are lost independently of each other, with the probability of inherent losses up to
//! the loss-limited rate, and with a larger probability above that rate. Among a few candidates, the pair of rate and
//! inherent loss with the greatest likelihood is chosen, with a preference for high rates. In libwebrtc's default
//! configuration, the options for padding, holding and byte-based losses have no effect, so that they are left out.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::super::SentPacket;

/// Number of observations, and minimum number for an estimate (`ObservationWindowSize`, `MinNumObservations`).
const OBSERVATIONS: usize = 20;
const LEAST_OBSERVATIONS: usize = 3;
/// Minimum duration of an observation (`ObservationDurationLowerBound`).
const DURATION: Span = Span::from_millis(250);
/// Ratio between the weights of an observation and of the next observation (`TemporalWeightFactor`,
/// `InstantUpperBoundTemporalWeightFactor`).
const AGEING: f64 = 0.9;
/// Factors of the rate in the candidates (`CandidateFactors`).
const FACTORS: [f64; 3] = [1.02, 1.0, 0.95];
/// Initial and minimum inherent loss (`InitialInherentLossEstimate`, `InherentLossLowerBound`).
const INITIAL_LOSS: f64 = 0.01;
const LEAST_LOSS: f64 = 1e-3;
/// The maximum inherent loss is this value plus this rate in bits per second divided by the candidate's rate
/// (`InherentLossUpperBoundOffset`, `InherentLossUpperBoundBwBalance`).
const LOSS_OFFSET: f64 = 0.05;
const LOSS_BALANCE_BPS: f64 = 75e3;
/// At a mean loss above this value, the rate is at most this rate divided by the excess
/// (`InstantUpperBoundLossOffset`, `InstantUpperBoundBwBalance`).
const LIMIT_OFFSET: f64 = 0.05;
const LIMIT_BALANCE_BPS: f64 = 75e3;
/// Step size of Newton's method, of which one iteration is calculated (`NewtonStepSize`, `NewtonIterations`).
const NEWTON_STEP: f64 = 0.75;
/// Preference for high rates, per kb/s and per logarithm of kb/s (`HigherBwBiasFactor`, `HigherLogBwBiasFactor`). The
/// preference changes its sign at a mean loss of `PREFERENCE_LOSS` (`LossThresholdOfHighBandwidthPreference`,
/// `BandwidthPreferenceSmoothingFactor`).
const PREFERENCE: f64 = 0.0002;
const LOG_PREFERENCE: f64 = 0.02;
const PREFERENCE_LOSS: f64 = 0.15;
const PREFERENCE_SMOOTHING: f64 = 0.002;
/// While losses limit the rate, the rate grows at most by this factor per interval (`MaxIncreaseFactor`,
/// `DelayedIncreaseWindow`).
const MAX_INCREASE: f64 = 1.3;
const INCREASE_INTERVAL: Span = Span::from_millis(300);
/// Bounds of loss probabilities, which keep logarithms finite (`GetLossProbability`).
const PROBABILITIES: (f64, f64) = (1e-6, 1.0 - 1e-6);

/// What feedback tells about a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) packet: SentPacket,
    pub(super) lost: bool,
}

/// Packets that were sent in an interval.
#[derive(Clone, Copy, Debug)]
struct Observation {
    packets: f64,
    lost: f64,
    rate_bps: f64,
}

/// A rate at which losses begin, and the share of losses below that rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Channel {
    rate_bps: f64,
    loss: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increasing,
    Decreasing,
    /// The delay-based rate limits the rate.
    DelayBased,
}

/// The estimator of the loss-based rate.
#[derive(Clone, Debug)]
pub(super) struct LossEstimator {
    /// Minimum and maximum of the rate.
    bounds_bps: (f64, f64),
    /// The last observations, the latest first.
    observations: VecDeque<Observation>,
    /// Packets, lost packets and bytes of the observation in progress.
    packets: u32,
    lost: u32,
    bytes: u64,
    /// Send time of the last packet of the latest observation.
    observed_until: Option<Instant>,
    channel: Option<Channel>,
    /// The rate, which the delay-based rate and the mean loss limit, and what limits the rate.
    rate_bps: f64,
    state: State,
    /// Limit of the increase, and the time at which the limit was set.
    growth_limit_bps: f64,
    limited_at: Option<Instant>,
}

impl LossEstimator {
    pub(super) fn new(bounds_bps: (f64, f64)) -> Self {
        Self {
            bounds_bps,
            observations: VecDeque::with_capacity(OBSERVATIONS + 1),
            packets: 0,
            lost: 0,
            bytes: 0,
            observed_until: None,
            channel: None,
            rate_bps: bounds_bps.1,
            state: State::DelayBased,
            growth_limit_bps: f64::INFINITY,
            limited_at: None,
        }
    }

    /// Returns the rate; `None` before the first observations.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.observations.len() >= LEAST_OBSERVATIONS).then_some(self.rate_bps)
    }

    /// Handles feedback. `throughput_bps` returns the acknowledged throughput outside of application-limited periods.
    pub(super) fn on_feedback(
        &mut self,
        outcomes: &[Outcome],
        delay_based_bps: f64,
        throughput_bps: impl FnOnce() -> Option<f64>,
    ) {
        let Some(now) = self.observe(outcomes) else { return };
        let throughput_bps = throughput_bps();
        let current = *self.channel.get_or_insert(Channel { rate_bps: delay_based_bps, loss: INITIAL_LOSS });
        let mean_loss = self.mean_loss();
        let mut best = self.choose(current, delay_based_bps, throughput_bps, mean_loss);
        if mean_loss > best.loss {
            best.rate_bps = best.rate_bps.min(current.rate_bps);
        }
        let within_interval = self.limited_at.is_some_and(|at| at + INCREASE_INTERVAL > now);
        if self.state != State::DelayBased && within_interval {
            best.rate_bps = best.rate_bps.min(self.growth_limit_bps);
        }
        let bounded = best.rate_bps.min(self.limit(mean_loss)).min(delay_based_bps).max(self.bounds_bps.0);
        self.channel = Some(best);
        let grows = bounded > self.rate_bps || (bounded == self.rate_bps && self.state == State::Increasing);
        self.state = match bounded < delay_based_bps.min(self.bounds_bps.1) {
            true if grows && self.state != State::DelayBased => State::Increasing,
            true => State::Decreasing,
            false => State::DelayBased,
        };
        self.rate_bps = bounded;
        let is_over = self.limited_at.is_none_or(|at| at + INCREASE_INTERVAL < now);
        if self.state != State::DelayBased && is_over {
            self.growth_limit_bps = self.bounds_bps.0.max(MAX_INCREASE * best.rate_bps);
            self.limited_at = Some(now);
        }
    }

    /// Adds packets to the observation in progress. If the observation is complete, returns the send time of its last
    /// packet.
    fn observe(&mut self, outcomes: &[Outcome]) -> Option<Instant> {
        let first = outcomes.iter().map(|one| one.packet.at).min()?;
        let last = outcomes.iter().map(|one| one.packet.at).max()?;
        self.packets += outcomes.len() as u32;
        self.lost += outcomes.iter().filter(|one| one.lost).count() as u32;
        self.bytes += outcomes.iter().map(|one| u64::from(one.packet.bytes)).sum::<u64>();
        let duration = last.since(*self.observed_until.get_or_insert(first));
        if duration < DURATION {
            return None;
        }
        self.observed_until = Some(last);
        self.observations.push_front(Observation {
            packets: f64::from(std::mem::take(&mut self.packets)),
            lost: f64::from(std::mem::take(&mut self.lost)),
            rate_bps: 8.0 * std::mem::take(&mut self.bytes) as f64 / duration.seconds(),
        });
        self.observations.truncate(OBSERVATIONS);
        Some(last)
    }

    /// Returns the observations with their weights.
    fn weighted(&self) -> impl Iterator<Item = (f64, &Observation)> {
        let weights = std::iter::successors(Some(1.0), |weight| Some(AGEING * weight));
        weights.zip(&self.observations)
    }

    fn mean_loss(&self) -> f64 {
        let sums = self.weighted().fold((0.0, 0.0), |sums, (weight, one)| {
            (sums.0 + weight * one.lost, sums.1 + weight * one.packets)
        });
        sums.0 / sums.1
    }

    /// Returns the maximum rate at a mean loss.
    fn limit(&self, mean_loss: f64) -> f64 {
        if mean_loss > LIMIT_OFFSET {
            LIMIT_BALANCE_BPS / (mean_loss - LIMIT_OFFSET)
        } else {
            self.bounds_bps.1
        }
    }

    /// Returns the candidate with the greatest likelihood.
    fn choose(
        &self,
        current: Channel,
        delay_based_bps: f64,
        throughput_bps: Option<f64>,
        mean_loss: f64,
    ) -> Channel {
        let is_limited = self.state != State::DelayBased && self.growth_limit_bps.is_finite();
        let most = if is_limited { self.growth_limit_bps } else { self.bounds_bps.1 };
        let delay_based = (delay_based_bps > current.rate_bps).then_some(delay_based_bps);
        let rates = FACTORS.iter().map(|factor| factor * current.rate_bps);
        let mut best = (f64::NEG_INFINITY, current);
        for rate_bps in rates.chain(throughput_bps).chain(delay_based) {
            let rate_bps = rate_bps.min(most.max(current.rate_bps));
            let loss = self.improve(Channel { rate_bps, loss: feasible(current.loss, rate_bps) });
            let candidate = Channel { rate_bps, loss };
            let objective = self.objective(candidate, mean_loss);
            if objective > best.0 {
                best = (objective, candidate);
            }
        }
        best.1
    }

    /// Returns the inherent loss of a candidate after a step of Newton's method.
    fn improve(&self, candidate: Channel) -> f64 {
        let (mut first, mut second) = (0.0, 0.0);
        for (weight, one) in self.weighted() {
            let lost = loss_probability(candidate, one.rate_bps);
            let (received, kept) = (one.packets - one.lost, 1.0 - lost);
            first += weight * (one.lost / lost - received / kept);
            second -= weight * (one.lost / (lost * lost) + received / (kept * kept));
        }
        feasible(candidate.loss - NEWTON_STEP * first / second, candidate.rate_bps)
    }

    /// Returns the logarithm of a candidate's likelihood, with the preference for high rates.
    fn objective(&self, candidate: Channel, mean_loss: f64) -> f64 {
        let distance = PREFERENCE_LOSS - mean_loss;
        let sign = distance / (PREFERENCE_SMOOTHING + distance.abs());
        let kbps = candidate.rate_bps / 1e3;
        let preference = sign * (PREFERENCE * kbps + LOG_PREFERENCE * libm::log(1.0 + kbps));
        self.weighted()
            .map(|(weight, one)| {
                let lost = loss_probability(candidate, one.rate_bps);
                let likelihood =
                    one.lost * libm::log(lost) + (one.packets - one.lost) * libm::log(1.0 - lost);
                weight * (likelihood + preference * one.packets)
            })
            .sum()
    }
}

/// Returns the inherent loss within its bounds.
fn feasible(loss: f64, rate_bps: f64) -> f64 {
    loss.max(LEAST_LOSS).min((LOSS_OFFSET + LOSS_BALANCE_BPS / rate_bps).min(1.0))
}

/// Returns the probability that a packet is lost at a sending rate.
fn loss_probability(channel: Channel, rate_bps: f64) -> f64 {
    let excess = ((rate_bps - channel.rate_bps) / rate_bps).max(0.0);
    (channel.loss + (1.0 - channel.loss) * excess).clamp(PROBABILITIES.0, PROBABILITIES.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u16 = 1200;

    /// Returns the outcomes of ten packets. Bit n of `lost` is set if packet n is lost.
    fn outcomes(first_us: u64, gap_us: u64, lost: u32) -> Vec<Outcome> {
        let outcome = |number: u64| Outcome {
            packet: SentPacket {
                number,
                bytes: PACKET,
                at: Instant::from_nanos((first_us + number * gap_us) * 1000),
                probe: None,
            },
            lost: lost >> number & 1 == 1,
        };
        (0..10).map(outcome).collect()
    }

    /// `loss_estimator.csv` contains feedback with up to 60 % of losses, and the rates that the crate goog_cc 0.1.4, a
    /// port of libwebrtc, computes with the default configuration and the bounds 5 kb/s and 30 Mb/s. The throughput is
    /// empty in application-limited periods, and the rate before the third observation.
    #[test]
    fn the_rates_are_those_of_a_port_of_libwebrtc() {
        let mut estimator = LossEstimator::new((5e3, 30e6));
        let mut largest = 0.0_f64;
        for line in include_str!("loss_estimator.csv").lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |column: usize| cells[column].parse::<u64>().ok();
            let feedback = outcomes(number(0).unwrap(), number(1).unwrap(), number(2).unwrap() as u32);
            let throughput = number(4).map(|bps| bps as f64);
            estimator.on_feedback(&feedback, number(3).unwrap() as f64, || throughput);
            let expected = number(5).map(|bps| bps as f64);
            assert_eq!(estimator.rate().is_some(), expected.is_some(), "{line}");
            if let (Some(rate), Some(expected)) = (estimator.rate(), expected) {
                largest = largest.max((rate / expected - 1.0).abs());
                // libwebrtc rounds rates to bits per second.
                assert!((rate / expected - 1.0).abs() < 1e-4, "{rate} instead of {expected}: {line}");
            }
        }
        assert!(largest > 0.0, "the rates of the file are rounded");
    }

    /// Runs an estimator on a path that loses each `period`-th packet, with the delay-based rate of 2 Mb/s. Returns the
    /// rate after 20 s.
    fn rate_with_losses(period: u64) -> f64 {
        let mut estimator = LossEstimator::new((5e3, 30e6));
        let (mut now_us, mut number) = (0, 0);
        while now_us < 20_000_000 {
            let rate = estimator.rate().unwrap_or(1e6);
            let gap_us = (8e6 * f64::from(PACKET) / rate) as u64;
            let lost = (0..10).filter(|one| (number + one) % period == period - 1).map(|one| 1 << one).sum();
            let received = 1.0 - 1.0 / period as f64;
            estimator.on_feedback(&outcomes(now_us, gap_us, lost), 2e6, || Some(rate * received));
            now_us += 10 * gap_us;
            number += 10;
        }
        estimator.rate().unwrap()
    }

    #[test]
    fn few_losses_count_as_inherent_and_many_losses_limit_the_rate() {
        assert_eq!(rate_with_losses(50), 2e6);
        // At a mean loss of 20 %, the rate is at most 75 kb/s / 0.15 = 500 kb/s, and the mean loss varies.
        let rate = rate_with_losses(5);
        assert!(rate < 560e3, "{rate}");
    }
}
