//! Losses: the bounds of the short-term model, the end of a bandwidth probe, and the undoing of a spurious recovery.
//!
//! draft-ietf-ccwg-bbr, sections "Updating the Model Upon Packet Loss" and "Updating the Model Upon Detecting a
//! Spurious Loss Recovery".

use aqm_net::Instant;

use super::{Ack, Bbr3, Profile, State};
use crate::arithmetic::{Limited, real};
use crate::congestion_control::{LostSegment, RateSample, RecoveryPhase};

/// `LossThresh`.
pub(super) const LOSS_THRESHOLD: f64 = 0.02;
/// `Beta`.
const BETA: f64 = 0.7;
/// `StartupFullLossCnt`.
const STARTUP_LOSSES: u32 = 6;

/// Short-term model, whose bounds are infinite if there were no losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortTerm {
    /// `bw_shortterm`
    pub bw: f64,
    /// `inflight_shortterm`
    pub inflight: f64,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self { bw: f64::INFINITY, inflight: f64::INFINITY }
    }
}

impl ShortTerm {
    /// `ResetShortTermModel`.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Data that was delivered and lost in a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossRound {
    /// `loss_round_delivered`
    end: u64,
    /// `loss_round_start`: whether the current acknowledgement starts a round.
    pub is_start: bool,
    /// `is_loss_in_round`
    pub has_loss: bool,
    /// `bw_latest`
    latest_bw: f64,
    /// `inflight_latest`
    pub latest_inflight: f64,
    /// Number of lost sequence ranges in the round (Linux: number of acknowledgements that revealed losses).
    ranges: u32,
    /// End of the last lost segment.
    last_lost: u64,
    /// Number of bytes that had been delivered when the last loss was detected.
    lost_before: u64,
}

/// State before the last losses, which is restored if these losses were spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// State that ended because of the losses (`undo_state`): `Startup` or `ProbeBW_UP`.
    pub state: Option<State>,
    shortterm: ShortTerm,
    longterm: f64,
    /// Whether the recovery has turned out to be spurious.
    pub is_due: bool,
    /// Whether a recovery is in progress.
    pub is_in_episode: bool,
}

impl Bbr3 {
    /// Returns the value of `delivered` at which the round of losses ends.
    #[cfg(test)]
    pub(super) fn loss_round_end(&self) -> u64 {
        self.loss_round.end
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery(&mut self, ack: &Ack<'_>) {
        let round = &mut self.loss_round;
        round.is_start = false;
        if self.profile == Profile::Linux && ack.rate == 0.0 {
            return;
        }
        round.latest_bw = round.latest_bw.at_least(ack.rate);
        round.latest_inflight = round.latest_inflight.at_least(real(ack.segment.delivered));
        if ack.segment.delivered_when_sent >= round.end {
            round.end = ack.sample.delivered;
            round.is_start = true;
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery(&mut self, ack: &Ack<'_>) {
        if self.loss_round.is_start {
            self.loss_round.latest_bw = ack.rate;
            self.loss_round.latest_inflight = real(ack.segment.delivered);
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_round.has_loss = false;
        (self.loss_round.latest_bw, self.loss_round.latest_inflight) = (0.0, 0.0);
        if let Some(ecn) = &mut self.low_ecn {
            ecn.start_cycle();
        }
    }

    /// The part of `UpdateCongestionSignals` that follows the bandwidth filter.
    pub(super) fn update_congestion(&mut self) {
        if !self.loss_round.is_start {
            return;
        }
        if !self.state.is_probing() {
            self.adapt_lower_bounds();
        }
        self.loss_round.has_loss = false;
        if let Some(ecn) = &mut self.low_ecn {
            ecn.start_round();
        }
    }

    /// `AdaptLowerBoundsFromCongestion`.
    fn adapt_lower_bounds(&mut self) {
        let share_after_marks = self.low_ecn.as_ref().and_then(|ecn| ecn.share_left());
        if share_after_marks.is_none() && !self.loss_round.has_loss {
            return;
        }
        if self.shortterm.inflight.is_infinite() {
            self.shortterm.inflight = self.cwnd;
        }
        let after_marks = share_after_marks.map_or(f64::INFINITY, |share| share * self.shortterm.inflight);
        if self.loss_round.has_loss {
            if self.shortterm.bw.is_infinite() {
                self.shortterm.bw = self.max_bw.get();
            }
            let LossRound { latest_bw, latest_inflight, .. } = self.loss_round;
            self.shortterm.bw = latest_bw.max(BETA * self.shortterm.bw);
            self.shortterm.inflight = latest_inflight.max(BETA * self.shortterm.inflight);
        }
        self.shortterm.inflight = self.shortterm.inflight.min(after_marks);
    }

    /// `NoteLoss`, at the time when `delivered` bytes have been delivered.
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.loss_round.has_loss {
            self.loss_round.end = delivered;
            if !self.undo.is_in_episode || self.undo.state.is_none() {
                self.save_state();
            }
        }
        self.loss_round.has_loss = true;
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_state(&mut self) {
        self.save_cwnd();
        self.undo = Undo { state: None, shortterm: self.shortterm, longterm: self.longterm, ..self.undo };
    }

    /// `HandleLostPacket`.
    pub(super) fn handle_lost_segment(&mut self, lost: &LostSegment) {
        self.note_loss(lost.delivered);
        let round = &mut self.loss_round;
        let begins_range = match self.profile {
            Profile::Draft => lost.begin != round.last_lost,
            Profile::Linux => round.ranges == 0 || lost.delivered != round.lost_before,
        };
        round.ranges += u32::from(begins_range);
        round.last_lost = lost.begin + lost.bytes;
        round.lost_before = lost.delivered;
        if let Some(ecn) = &mut self.low_ecn {
            ecn.has_loss_in_cycle = true;
        }
        if !self.cycle.is_probe_sample {
            return;
        }
        let (flight, size) = (lost.in_flight_when_sent as f64, lost.bytes as f64);
        let total = (lost.total_lost - lost.lost_when_sent) as f64;
        if total <= LOSS_THRESHOLD * flight {
            return;
        }
        // `InflightAtLoss`
        let (before, lost_before) = (flight - size, total - size);
        let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
        let prefix = if self.profile == Profile::Linux { prefix.max(0.0) } else { prefix };
        self.handle_too_high(before + prefix, lost.is_app_limited, lost.now, lost.delivered);
    }

    /// Returns whether too many of the `flight` bytes in flight were lost or marked (`IsInflightTooHigh`). `lost` is
    /// the number of lost bytes.
    pub(super) fn is_too_high(&self, lost: f64, flight: f64, ack: &Ack<'_>) -> bool {
        let marked = if self.counts_marks_as_losses() { ack.marked } else { 0.0 };
        lost + marked > LOSS_THRESHOLD * flight
            || self.low_ecn.as_ref().is_some_and(|ecn| ecn.is_too_high(ack))
    }

    /// `HandleInflightTooHigh`, with `flight` bytes in flight.
    pub(super) fn handle_too_high(
        &mut self,
        flight: f64,
        is_app_limited: bool,
        now: Instant,
        delivered: u64,
    ) {
        self.cycle.was_too_high = true;
        self.cycle.is_probe_sample = false;
        if !is_app_limited {
            self.longterm = flight.max(BETA * self.target_inflight());
        }
        if self.state == State::Up {
            self.undo.state = (self.profile == Profile::Draft).then_some(State::Up);
            self.start_down(now, delivered);
        }
    }

    /// `CheckStartupHighLoss`.
    pub(super) fn check_startup_losses(&mut self, ack: &Ack<'_>) {
        if !self.loss_round.is_start {
            return;
        }
        let ranges = std::mem::take(&mut self.loss_round.ranges);
        let is_lossy = ranges >= STARTUP_LOSSES
            && ack.sample.phase == RecoveryPhase::Recovery
            && self.is_too_high(ack.lost, ack.segment.in_flight_when_sent as f64, ack);
        let is_marked = self.low_ecn.as_ref().is_some_and(|ecn| ecn.ends_startup());
        if self.state == State::Startup && !self.full.is_reached && (is_lossy || is_marked) {
            let bdp = match self.profile {
                Profile::Draft => self.bdp(self.max_bw.get(), 1.0),
                Profile::Linux => self.inflight(self.max_bw.get(), 1.0),
            };
            self.full.end();
            self.longterm = bdp.max(self.loss_round.latest_inflight);
            self.undo.state = (self.profile == Profile::Draft).then_some(State::Startup);
        }
    }

    /// Updates the model after losses that were detected by a timeout (Linux: `bbr_set_state`).
    pub(super) fn on_timeout_losses(&mut self) {
        if self.profile == Profile::Linux {
            self.full.restart(0.0);
            if !self.state.is_probing() && self.shortterm.inflight.is_infinite() {
                self.shortterm.inflight = self.cwnd.max(self.prior_cwnd);
            }
        }
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious_recovery(&mut self, sample: &RateSample) {
        self.restore_cwnd();
        self.loss_round.has_loss = false;
        self.full.restart(0.0);
        let Undo { state, shortterm, longterm, .. } = self.undo;
        self.shortterm.bw = self.shortterm.bw.max(shortterm.bw);
        self.shortterm.inflight = self.shortterm.inflight.max(shortterm.inflight);
        self.longterm = self.longterm.max(longterm);
        self.undo.state = None;
        let returns = self.state != State::ProbeRtt;
        match state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.is_reached = false;
                self.state = if returns { State::Startup } else { self.state };
            }
            Some(State::Up) if self.state != State::Up && returns => self.start_refill(0, sample.delivered),
            _ => {}
        }
    }
}
