//! Rounds, bandwidth, the test whether the path is full, and the aggregation of acknowledgements.
//!
//! draft-ietf-ccwg-bbr, sections "BBR.round_count", "BBR.max_bw", "Exiting Acceleration Based on Bandwidth Plateau" and
//! "BBR.extra_acked".

use aqm_net::Instant;

use super::{Ack, Bbr3, Profile};
use crate::arithmetic::{Limited, real};
use crate::congestion_control::ack_aggregation::{AckInterval, TwoWindowMax};
use crate::congestion_control::windowed_max::WindowedMax;

/// Factor by which the bandwidth grows if the path is not yet full.
const FULL_GROWTH: f64 = 1.25;
/// Number of rounds without this growth after which the path is considered full.
const FULL_ROUNDS: u32 = 3;
/// `ExtraAckedFilterLen`, in rounds.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Length of each of the two windows over which Linux measures aggregation, in rounds.
const LINUX_WINDOW_ROUNDS: u32 = 5;
/// Limit of the aggregation in Linux, as a transmission time at the estimated bandwidth, in seconds.
const LINUX_MAX_EXTRA: f64 = 0.1;

/// Packet-timed round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// `next_round_delivered`
    pub next_delivered: u64,
    /// `round_count`
    pub count: u64,
    /// Whether the current acknowledgement starts a round.
    pub is_start: bool,
}

impl Rounds {
    /// Starts a round at the time when `delivered` bytes have been delivered (`StartRound`).
    pub fn start(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Maximum delivery rate of the current and the previous cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    current: f64,
    previous: f64,
    /// Maximum that was computed at the last sample.
    maximum: f64,
}

impl MaxBandwidth {
    pub fn get(&self) -> f64 {
        self.maximum
    }

    pub fn add(&mut self, rate: f64) {
        self.current = self.current.at_least(rate);
        self.maximum = self.current.at_least(self.previous);
    }

    /// Begins a new cycle (`AdvanceMaxBwFilter`).
    pub fn advance(&mut self, profile: Profile) {
        if profile == Profile::Linux {
            if self.current > 0.0 {
                (self.previous, self.current) = (self.current, 0.0);
                self.maximum = self.previous;
            }
            return;
        }
        // `maximum` is updated only with the next sample.
        (self.previous, self.current) = (self.current, 0.0);
    }
}

/// Test whether the path is full: the path is considered full if the delivery rate does not grow for three rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPath {
    /// `full_bw`
    bw: f64,
    /// `full_bw_count`
    pub rounds: u32,
    /// `full_bw_now`
    pub is_now: bool,
    /// `full_bw_reached`
    pub is_reached: bool,
}

impl FullPath {
    /// Restarts the test from a bandwidth of `bw` (`ResetFullBW`).
    pub fn restart(&mut self, bw: f64) {
        *self = Self { bw, is_reached: self.is_reached, ..Self::default() };
    }

    /// Ends the test with the result that the path is full.
    pub fn end(&mut self) {
        (self.is_now, self.is_reached) = (true, true);
    }

    /// `CheckFullBWReached`.
    pub fn check(&mut self, ack: &Ack<'_>, is_round_start: bool, profile: Profile) {
        let is_checked = is_round_start || profile == Profile::Linux;
        if self.is_now || !is_checked || ack.segment.is_app_limited {
            return;
        }
        if ack.rate >= FULL_GROWTH * self.bw {
            return self.restart(ack.rate);
        }
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= FULL_ROUNDS {
                self.end();
            }
        }
    }
}

/// State of the measurement of aggregation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    interval: AckInterval,
    draft: WindowedMax,
    linux: TwoWindowMax,
}

impl Aggregation {
    pub fn begin(&mut self, now: Instant) {
        self.interval.restart(now);
    }

    /// Restarts the measurement interval after an idle period.
    pub fn on_idle_restart(&mut self, now: Instant, profile: Profile) {
        match profile {
            Profile::Draft => self.interval.restart_time(now),
            Profile::Linux => self.interval.restart(now),
        }
    }
}

impl Bbr3 {
    /// `UpdateRound` and `UpdateMaxBw`.
    pub(super) fn update_round_and_bandwidth(&mut self, ack: &Ack<'_>) {
        let is_valid = ack.rate > 0.0 || self.profile == Profile::Draft;
        self.rounds.is_start = is_valid && ack.segment.delivered_when_sent >= self.rounds.next_delivered;
        if self.rounds.is_start {
            self.rounds.start(ack.sample.delivered);
            self.rounds.count += 1;
            self.cycle.rounds_since_up += 1;
        }
        let is_credible = !ack.segment.is_app_limited || ack.rate >= self.max_bw.get();
        if ack.rate > 0.0 && is_credible {
            self.max_bw.add(ack.rate);
        }
    }

    /// `UpdateACKAggregation`.
    pub(super) fn update_aggregation(&mut self, ack: &Ack<'_>) {
        if self.profile == Profile::Linux && ack.rate == 0.0 {
            return;
        }
        let excess = self.aggregation.interval.excess(ack.sample.now, real(ack.sample.newly_acked), self.bw);
        let excess = excess.at_most(self.cwnd);
        let is_reached = self.full.is_reached;
        match self.profile {
            Profile::Draft => {
                let window = if is_reached { EXTRA_ACKED_ROUNDS } else { 1 };
                self.aggregation.draft.add(window, self.rounds.count, excess);
            }
            Profile::Linux => {
                if self.rounds.is_start {
                    self.aggregation.linux.on_round(if is_reached { LINUX_WINDOW_ROUNDS } else { 1 });
                }
                self.aggregation.linux.add(excess);
            }
        }
    }

    /// Returns the amount of data by which the window is enlarged because of aggregation (`extra_acked`).
    pub(super) fn extra_acked(&self) -> f64 {
        match self.profile {
            Profile::Draft => self.aggregation.draft.get(),
            Profile::Linux => self.aggregation.linux.get().at_most(self.bw * LINUX_MAX_EXTRA),
        }
    }
}
