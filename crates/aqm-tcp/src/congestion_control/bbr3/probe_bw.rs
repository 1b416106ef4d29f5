//! The `ProbeBW` cycle: `DOWN`, `CRUISE`, `REFILL` and `UP`.
//!
//! draft-ietf-ccwg-bbr, sections "ProbeBW" and "Time Scale for Bandwidth Probing".

use aqm_net::{Instant, Span};

use super::output::MIN_PIPE_SEGMENTS;
use super::{Ack, Bbr3, Profile, State};
use crate::arithmetic::{Limited, real};

/// Fraction of `inflight_longterm` that is left to other flows (`Headroom`).
const HEADROOM: f64 = 0.15;
/// Minimum time between probes, and maximum of the random time that is added; in seconds.
const PROBE_WAIT: f64 = 2.0;
const PROBE_WAIT_RANGE: f64 = 1.0;
/// Maximum number of rounds between probes.
const MAX_PROBE_ROUNDS: f64 = 63.0;
/// Maximum exponent of the growth of `inflight_longterm` per round.
const MAX_UP_ROUNDS: u32 = 30;

/// Part of a bandwidth probe to which the arriving acknowledgements belong (`ack_phase`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// State of the `ProbeBW` cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycle {
    /// `cycle_stamp`
    since: Instant,
    /// `bw_probe_wait`
    pub wait: Span,
    /// `rounds_since_probe_up`
    pub rounds_since_up: u64,
    /// `ack_phase`
    pub ack_phase: AckPhase,
    /// `is_bw_probe_sample`
    pub is_probe_sample: bool,
    /// `prev_probe_too_high`
    pub was_too_high: bool,
    /// `prev_probe_precautionary`
    pub was_precautionary: bool,
    /// `bw_probe_up_rounds`
    up_rounds: u32,
    /// `bw_probe_up_acked`, in bytes
    up_acked: f64,
    /// `probe_up_acked_per_inc`, in bytes
    acked_per_segment: f64,
}

impl Bbr3 {
    /// `StartProbeBW_DOWN`, at the time when `delivered` bytes have been delivered.
    pub(super) fn start_down(&mut self, now: Instant, delivered: u64) {
        self.reset_congestion_signals();
        self.cycle.acked_per_segment = f64::INFINITY;
        self.cycle.rounds_since_up = self.rng.below(2);
        self.cycle.wait = Span::from_seconds(PROBE_WAIT + PROBE_WAIT_RANGE * self.rng.uniform());
        self.cycle.since = now;
        self.cycle.ack_phase = AckPhase::Stopping;
        self.rounds.start(delivered);
        self.state = State::Down;
    }

    /// `StartProbeBW_CRUISE`.
    pub(super) fn start_cruise(&mut self) {
        if self.profile == Profile::Linux && self.shortterm.inflight.is_finite() {
            self.shortterm.inflight = self.shortterm.inflight.min(self.longterm);
        }
        self.state = State::Cruise;
    }

    /// `StartProbeBW_REFILL`. The growth of `inflight_longterm` begins at 2^`up_rounds` segments per round.
    pub(super) fn start_refill(&mut self, up_rounds: u32, delivered: u64) {
        self.shortterm.reset();
        self.cycle.up_rounds = up_rounds;
        self.cycle.up_acked = 0.0;
        self.cycle.was_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.start(delivered);
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, ack: &Ack<'_>) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.rounds.start(ack.sample.delivered);
        self.full.restart(ack.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw(&mut self, ack: &Ack<'_>) {
        if !self.full.is_reached || self.adapt_longterm(ack) {
            return;
        }
        let delivered = ack.sample.delivered;
        match self.state {
            State::Down => {
                if !self.check_time_to_probe(ack) && self.is_time_to_cruise(ack) {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.check_time_to_probe(ack);
            }
            State::Refill => {
                if self.rounds.is_start {
                    self.cycle.is_probe_sample = true;
                    self.start_up(ack);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(ack) {
                    self.cycle.was_too_high = false;
                    self.start_down(ack.sample.now, delivered);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// `AdaptLongTermModel`. Returns whether the state changed.
    fn adapt_longterm(&mut self, ack: &Ack<'_>) -> bool {
        if self.cycle.ack_phase == AckPhase::Starting && self.rounds.is_start {
            self.cycle.ack_phase = AckPhase::Feedback;
        }
        if self.cycle.ack_phase == AckPhase::Stopping && self.rounds.is_start {
            self.cycle.is_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !ack.segment.is_app_limited {
                self.max_bw.advance(self.profile);
            }
            if self.state.is_probe_bw() && self.cycle.was_precautionary && !self.cycle.was_too_high {
                self.start_refill(0, ack.sample.delivered);
                return true;
            }
        }
        let flight = real(ack.segment.in_flight_when_sent);
        if self.is_too_high(ack.lost, flight, ack) {
            // The draft counts losses when they are detected, but marks become known only when the acknowledgement
            // arrives.
            let counts = self.profile == Profile::Linux || ack.marked > 0.0;
            if counts && self.cycle.is_probe_sample {
                let sample = ack.sample;
                self.handle_too_high(flight, ack.segment.is_app_limited, sample.now, sample.delivered);
            }
            return false;
        }
        if self.longterm.is_infinite() {
            return false;
        }
        self.longterm = self.longterm.at_least(flight);
        if self.state == State::Up {
            self.probe_longterm_upward(ack);
        }
        false
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_longterm_upward(&mut self, ack: &Ack<'_>) {
        if !self.is_limited_by_longterm(ack) {
            return;
        }
        self.cycle.up_acked += real(ack.sample.newly_acked);
        let segments = libm::floor(self.cycle.up_acked / self.cycle.acked_per_segment);
        if segments >= 1.0 {
            self.cycle.up_acked -= segments * self.cycle.acked_per_segment;
            self.longterm += segments * self.smss;
        }
        if self.rounds.is_start {
            self.raise_slope();
        }
    }

    /// Returns whether the sender uses its whole window while `inflight_longterm` bounds the window.
    fn is_limited_by_longterm(&self, ack: &Ack<'_>) -> bool {
        ack.sample.is_cwnd_limited && self.cwnd >= self.longterm
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_slope(&mut self) {
        let growth = (1_u64 << self.cycle.up_rounds) as f64;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.cycle.acked_per_segment = (self.cwnd / growth).max(self.smss);
    }

    /// Begins a probe if enough time has passed (`IsTimeToProbeBW`). Returns whether a probe has begun.
    fn check_time_to_probe(&mut self, ack: &Ack<'_>) -> bool {
        let delivered = ack.sample.delivered;
        if let Some(up_rounds) = self.quick_probe(ack) {
            self.start_refill(up_rounds, delivered);
            return true;
        }
        let has_elapsed = ack.sample.now > self.cycle.since + self.cycle.wait;
        // `IsRenoCoexistenceProbeTime`
        let reno_rounds = (self.target_inflight() / self.smss).at_most(MAX_PROBE_ROUNDS);
        let is_time = has_elapsed || real(self.cycle.rounds_since_up) >= reno_rounds;
        if is_time {
            self.start_refill(0, delivered);
        }
        is_time
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self, ack: &Ack<'_>) -> bool {
        let inflight = match self.profile {
            Profile::Draft => real(ack.sample.in_flight),
            Profile::Linux => self.inflight_at_departure(ack.sample.in_flight_before, ack.sample),
        };
        inflight <= self.longterm_with_headroom() && inflight <= self.inflight(self.max_bw.get(), 1.0)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, ack: &Ack<'_>) -> bool {
        let before = ack.sample.in_flight_before;
        let reaches_longterm = match self.profile {
            Profile::Draft => real(before) + self.smss > self.longterm,
            Profile::Linux => self.inflight_at_departure(before, ack.sample) >= self.longterm,
        };
        if self.cycle.was_too_high && reaches_longterm {
            self.cycle.was_precautionary = true;
            return true;
        }
        if self.is_limited_by_longterm(ack) {
            self.full.restart(ack.rate);
            return false;
        }
        self.full.is_now
    }

    /// `InflightWithHeadroom`.
    pub(super) fn longterm_with_headroom(&self) -> f64 {
        if self.longterm.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = self.smss.at_least(HEADROOM * self.longterm);
        (self.longterm - headroom).at_least(MIN_PIPE_SEGMENTS * self.smss)
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self) -> f64 {
        let bdp = match self.profile {
            Profile::Draft => self.bdp(self.bw, 1.0),
            Profile::Linux => self.inflight(self.bw, 1.0),
        };
        bdp.at_most(self.cwnd)
    }
}
