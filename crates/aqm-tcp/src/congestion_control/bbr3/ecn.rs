//! Response to marks: marks count as losses (draft), or the response depends on the share of marked data (Linux's
//! response to a queue with a low marking threshold).
//!
//! google/bbr, branch v3: `bbr_update_ecn_alpha`, `bbr_ecn_lower_bounds`, `bbr_is_inflight_too_high`,
//! `bbr_check_ecn_too_high_in_startup`, `bbr_check_time_to_probe_bw`.

use aqm_net::Span;

use super::{Ack, Bbr3, Profile};
use crate::congestion_control::RecoveryPhase;

/// Minimum round-trip time up to which the response is activated (`bbr_ecn_max_rtt_us`).
const MAX_RTT: Span = Span::from_millis(5);
/// Weight of a round in the average share of marked data (`bbr_ecn_alpha_gain`).
const GAIN: f64 = 1.0 / 16.0;
/// Fraction by which a completely marked round reduces the data in flight (`bbr_ecn_factor`).
const FACTOR: f64 = 1.0 / 3.0;
/// Share of marked data above which a bandwidth probe has too much data in flight (`bbr_ecn_thresh`).
const TOO_HIGH_SHARE: f64 = 0.5;
/// Number of rounds with too many marks after which `Startup` ends (`bbr_full_ecn_cnt`).
const STARTUP_ROUNDS: u32 = 2;
/// Fraction of `inflight_longterm` by which this bound grows in the first round of a quick probe
/// (`bbr_ecn_reprobe_gain`).
const QUICK_GROWTH: f64 = 0.5;
/// Maximum exponent of the growth in a quick probe.
const MAX_QUICK_ROUNDS: f64 = 30.0;

/// State of the response to the share of marked data.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowEcn {
    /// Whether the round-trip time has been short enough for the response (`ecn_eligible`).
    is_eligible: bool,
    /// Average share of marked data (`ecn_alpha`).
    alpha: f64,
    /// Bytes delivered and bytes marked up to the last update of the average.
    delivered: u64,
    marked: u64,
    /// `startup_ecn_rounds`
    startup_rounds: u32,
    /// `ecn_in_round`
    has_marks_in_round: bool,
    /// `ecn_in_cycle`
    has_marks_in_cycle: bool,
    /// `loss_in_cycle`
    pub has_loss_in_cycle: bool,
}

impl Default for LowEcn {
    fn default() -> Self {
        Self {
            is_eligible: false,
            alpha: 1.0,
            delivered: 0,
            marked: 0,
            startup_rounds: 0,
            has_marks_in_round: false,
            has_marks_in_cycle: false,
            has_loss_in_cycle: false,
        }
    }
}

impl LowEcn {
    /// Returns the average share of marked data, if the response is active.
    pub fn share(&self) -> Option<f64> {
        self.is_eligible.then_some(self.alpha)
    }

    /// Returns the fraction of the data in flight that remains after a round with marks.
    pub fn share_left(&self) -> Option<f64> {
        self.has_marks_in_round.then_some(1.0 - self.alpha * FACTOR)
    }

    /// Returns whether `Startup` ends because of marks.
    pub fn ends_startup(&self) -> bool {
        self.startup_rounds >= STARTUP_ROUNDS
    }

    /// Returns whether the sample shows that too much data is in flight.
    pub fn is_too_high(&self, ack: &Ack<'_>) -> bool {
        self.is_eligible && ack.marked > TOO_HIGH_SHARE * ack.segment.delivered as f64
    }

    /// Begins a `ProbeBW` cycle or `Drain`.
    pub fn start_cycle(&mut self) {
        self.has_marks_in_round = false;
        (self.has_marks_in_cycle, self.has_loss_in_cycle) = (false, false);
    }

    /// Begins a round in which losses and marks are counted.
    pub fn start_round(&mut self) {
        self.has_marks_in_round = false;
    }

    /// Updates the average share of marked data at the start of a round.
    fn update_average(&mut self, ack: &Ack<'_>, min_rtt: Option<Span>, is_full: bool) {
        self.is_eligible |= min_rtt.is_some_and(|rtt| rtt <= MAX_RTT);
        let delivered = (ack.sample.delivered - self.delivered) as f64;
        if !self.is_eligible || delivered == 0.0 {
            return;
        }
        let share = ((ack.sample.marked - self.marked) as f64 / delivered).min(1.0);
        self.alpha = (1.0 - GAIN) * self.alpha + GAIN * share;
        (self.delivered, self.marked) = (ack.sample.delivered, ack.sample.marked);
        if !is_full {
            self.startup_rounds = if share >= TOO_HIGH_SHARE { self.startup_rounds + 1 } else { 0 };
        }
    }
}

impl Bbr3 {
    /// Returns whether marks count as losses.
    pub(super) fn counts_marks_as_losses(&self) -> bool {
        self.profile == Profile::Draft && self.low_ecn.as_ref().is_none_or(|ecn| !ecn.is_eligible)
    }

    /// Processes the marks that an acknowledgement reports.
    pub(super) fn update_marks(&mut self, ack: &Ack<'_>) {
        let has_marks = ack.sample.newly_marked > 0;
        if let Some(ecn) = &mut self.low_ecn {
            if self.rounds.is_start {
                ecn.update_average(ack, self.min_rtt.delay, self.full.is_reached);
            }
            ecn.has_marks_in_round |= has_marks && ecn.is_eligible;
            ecn.has_marks_in_cycle |= ack.marked > 0.0;
        }
        if has_marks && self.counts_marks_as_losses() {
            self.note_loss(ack.sample.delivered);
        }
    }

    /// If this cycle had marks but no losses, the next probe begins immediately. Returns the exponent of the growth of
    /// `inflight_longterm` in the first round of that probe.
    pub(super) fn quick_probe(&self, ack: &Ack<'_>) -> Option<u32> {
        let ecn = self.low_ecn.as_ref()?;
        let is_quick = ecn.is_eligible
            && ecn.has_marks_in_cycle
            && !ecn.has_loss_in_cycle
            && ack.sample.phase == RecoveryPhase::Open;
        let segments = (QUICK_GROWTH * self.longterm / self.smss).max(1.0);
        is_quick.then(|| libm::log2(segments).min(MAX_QUICK_ROUNDS) as u32)
    }
}
