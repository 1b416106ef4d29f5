//! BBR version 3: the window and the pacing rate follow a model of the path. The long-term model consists of the
//! bottleneck's bandwidth (maximum delivery rate over two cycles), the round-trip time without queueing, and the amount
//! of data in flight that the path can hold without many losses. The short-term model bounds the bandwidth and the data
//! in flight after losses.
//!
//! N. Cardwell, I. Swett, J. Beshay, "BBR Congestion Control", draft-ietf-ccwg-bbr, editor's copy of 3 August 2026
//! (commit 4ce5e87d), called `profile = "draft"` here; Linux with BBR version 3, `github.com/google/bbr`, branch v3,
//! file `net/ipv4/tcp_bbr.c`, called `profile = "linux"` here. Names in backticks are those of the draft.
//!
//! This file contains the parameters, the states and the order of the steps. The bandwidth, the rounds, the test
//! whether the path is full, and aggregation are in `model.rs`. The `ProbeBW` cycle is in `probe_bw.rs`, and the
//! measurement of the round-trip time without queueing is in `probe_rtt.rs`. The response to losses, and how it is
//! undone, are in `loss.rs`. The response to marks is in `ecn.rs`. The pacing rate and the window are in `output.rs`.
//!
//! aqmlab's choices where the draft does not specify the behaviour or contradicts itself:
//!
//! - `CheckStartupHighLoss` has no pseudocode, and the draft's test cases 2 and 6 set `inflight_longterm` although the
//!   application limits the rate, whereas `HandleInflightTooHigh` does not set `inflight_longterm` in this case. Here,
//!   `Startup` always sets `full_bw_reached`, `full_bw_now` and `inflight_longterm`; `ProbeBW_UP` sets
//!   `inflight_longterm` only if the application does not limit the rate. "Discontiguous sequence ranges" are lost
//!   segments that do not directly follow the last lost segment.
//! - The gains of the states are those in the draft's table. `inflight_longterm` bounds the window in `ProbeBW` and
//!   `ProbeRTT` (as in `BoundCwndForModel`), but not in `Drain` (as in the table).
//! - `Inflight(gain)` uses `bw`; `IsTimeToCruise` uses `max_bw`. `SetPacingRate` uses `BBR.pacing_gain`.
//! - `probe_rtt_min_delay` is initially unlimited, and its timestamp is initially the time of the first transmission.
//! - The window after a timeout is the data in flight plus one segment. The losses that a timeout reveals are processed
//!   before the timeout, as in Linux; the state that was saved for an undo when these losses were processed is kept.
//! - `Drain` lasts until the fourth round begins after the start of `Drain` ("after 3 rounds").
//! - The condition that ends a precautionary probe (`IsTimeToGoDown`) uses the data in flight before the
//!   acknowledgement, as in Linux. This data reaches `inflight_longterm` if no further segment fits; without this rule,
//!   a window that is bounded by `inflight_longterm` would never permit enough data in flight to satisfy the condition.
//! - `StartProbeBW_DOWN` discards the losses of the round, so that, according to the draft's `NoteLoss`, the next loss
//!   in the same recovery would overwrite the state that was saved for an undo. Here, if the first loss of a recovery
//!   ends `ProbeBW_UP` or `Startup`, the saved state is kept until the recovery ends.
//! - A spurious recovery is processed with the next acknowledgement of data.
//! - The pacing rate is at least one segment per second, so that no sender stops.
//! - The draft requires that marks count as congestion, but does not specify a rule. Here, a marked byte counts as a
//!   lost byte in the loss rate of a bandwidth probe, and a round with marks counts as a round with losses when the
//!   sender does not probe. Classic ECN (RFC 3168) reports one marked segment per window.
//!
//! Differences from the draft with `profile = "linux"`:
//!
//! - Constants have other values.
//! - The maximum filter of the bandwidth has two slots, and an empty slot does not replace the other slot.
//! - Aggregation is measured over 5 to 10 rounds, and is limited to the data that is sent in 100 ms at the estimated
//!   bandwidth.
//! - The burst size depends on the minimum round-trip time.
//! - In `Startup`, the window grows in any case while it is smaller than two initial windows.
//! - Every acknowledgement, not only the first of a round, can show that the bandwidth is still growing and that the
//!   path is not full.
//! - `Drain` has no time limit.
//! - The data in flight is computed for the time at which the next paced segment departs.
//! - When `CRUISE` begins, `inflight_shortterm` is lowered to `inflight_longterm`.
//! - Too many losses also end a bandwidth probe if the losses are noticed only when an acknowledgement arrives.
//! - An undo restores the model, but does not return to an earlier state.
//! - Round-trip times are in whole microseconds.
//!
//! Differences from Linux: Rates and volumes are real numbers. There is no fast path for application-limited senders,
//! no response to a loss that was repaired only by a tail loss probe, and no load balancing (PLB).

mod ecn;
mod loss;
mod model;
mod output;
mod probe_bw;
mod probe_rtt;
#[cfg(test)]
mod tests;

use aqm_net::{Rng, Streams, choices, parameters};

use super::window::Window;
use super::{
    AckInfo, AnyControl, Build, Congestion, CongestionControl, CongestionSignal, ControlReport,
    DeliveredSegment, LostSegment, RateSample, RecoveryPhase, SenderState, Transmit, WindowEvent,
};
use crate::arithmetic::{Limited, real};
use ecn::LowEcn;
use loss::{LossRound, ShortTerm, Undo};
use model::{Aggregation, FullPath, MaxBandwidth, Rounds};
use probe_bw::Cycle;
use probe_rtt::MinRtt;

choices! {
    /// Version of BBRv3.
    pub enum Profile {
        /// draft-ietf-ccwg-bbr, editor's copy of 2026-08-03.
        Draft = "draft",
        /// Linux with BBRv3 (github.com/google/bbr, branch v3), which was used in the public L4S measurements.
        Linux = "linux",
    }
}

choices! {
    /// Response to marks.
    pub enum Ecn {
        /// With `profile = "draft"`, a marked byte counts as a lost byte; with `profile = "linux"`, marks are ignored.
        Off = "off",
        /// Linux's response to marks from a queue with a low marking threshold (`ecn_low`): in each round, the data in
        /// flight is reduced by up to a third, in proportion to the share of marked data. The response begins when the
        /// minimum round-trip time is at most 5 ms; until then, marks are treated as with `off`.
        Low = "low",
    }
}

parameters! {
    /// BBR version 3 (draft-ietf-ccwg-bbr, editor's copy of 2026-08-03): paces at the measured bandwidth, probes for
    /// more bandwidth every 2 to 3 seconds, and limits the amount of data in flight after losses.
    pub struct Config {
        /// Version of the algorithm.
        pub profile: Profile = Profile::Draft, "aqmlab's choice: the specification";
        /// Response to marks.
        pub ecn: Ecn = Ecn::Off, "Linux: off unless the route has the feature `ecn_low`";
    }
}

impl Build for Config {
    fn uses_rates(&self) -> bool {
        true
    }

    fn uses_random(&self) -> bool {
        true
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Bbr3::new(self))
    }
}

/// States of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// `IsInAProbeBWState`.
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Returns the gain of the pacing rate.
    fn pacing_gain(self, profile: Profile) -> f64 {
        let is_linux = profile == Profile::Linux;
        match self {
            Self::Startup => 2.77,
            Self::Drain if is_linux => 1.0 / 2.885,
            Self::Drain => 0.5,
            Self::Down if is_linux => 0.91,
            Self::Down => 0.9,
            Self::Up => 1.25,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
        }
    }

    /// Returns the gain of the window.
    fn cwnd_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => probe_rtt::CWND_GAIN,
            _ => 2.0,
        }
    }
}

/// An acknowledgement of data (`RS`). Volumes are in bytes, and the delivery rate is in bytes per second.
struct Ack<'a> {
    sample: &'a RateSample,
    segment: DeliveredSegment,
    /// Delivery rate; 0 if the measured interval is too short.
    rate: f64,
    /// Data lost since the segment was sent (`RS.lost`).
    lost: f64,
    /// Data reported as marked since the segment was sent.
    marked: f64,
}

impl<'a> Ack<'a> {
    fn new(sample: &'a RateSample, segment: DeliveredSegment) -> Self {
        Self {
            sample,
            segment,
            rate: segment.rate().unwrap_or(0.0),
            lost: real(sample.lost - segment.lost_when_sent),
            marked: real(sample.marked - segment.marked_when_sent),
        }
    }
}

/// State of BBR version 3 for one sender. Volumes are in bytes, and rates are in bytes per second.
struct Bbr3 {
    profile: Profile,
    rng: Rng,
    state: State,
    /// Payload of a full segment; 0 before the first transmission.
    smss: f64,
    initial_cwnd: f64,
    cwnd: f64,
    pacing_rate: f64,
    /// Whether the pacing rate is based on a measured round-trip time.
    has_rtt: bool,
    rounds: Rounds,
    max_bw: MaxBandwidth,
    /// `bw`
    bw: f64,
    full: FullPath,
    aggregation: Aggregation,
    min_rtt: MinRtt,
    cycle: Cycle,
    drain_start_round: u64,
    /// `inflight_longterm`
    longterm: f64,
    shortterm: ShortTerm,
    loss_round: LossRound,
    undo: Undo,
    /// `prior_cwnd`
    prior_cwnd: f64,
    /// Recovery phase at the last acknowledgement.
    phase: RecoveryPhase,
    is_idle_restart: bool,
    low_ecn: Option<LowEcn>,
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, _window: &mut Window, _ack: &AckInfo) {}

    /// `OnEnterFastRecovery`. Timeouts are processed by `on_timeout`.
    fn reduce(&mut self, _window: &mut Window, congestion: &Congestion) {
        if congestion.signal != CongestionSignal::Timeout {
            self.save_state();
            self.undo.is_in_episode = true;
        }
    }

    fn on_event(&mut self, event: WindowEvent) {
        self.undo.is_due |= event == WindowEvent::Undone;
    }

    /// `HandleRestartFromIdle`.
    fn on_transmit(&mut self, window: &mut Window, transmit: &Transmit) {
        if self.smss == 0.0 {
            self.begin(window, transmit);
        }
        if transmit.is_app_limited {
            self.is_idle_restart = true;
            self.aggregation.on_idle_restart(transmit.now, self.profile);
            if self.state.is_probe_bw() {
                self.set_pacing_rate(1.0);
            } else if self.state == State::ProbeRtt {
                self.check_probe_rtt_done(transmit.now, transmit.delivered);
                window.cwnd = self.cwnd / self.smss;
            }
        }
    }

    fn on_lost(&mut self, _window: &mut Window, lost: &LostSegment) {
        self.handle_lost_segment(lost);
    }

    /// `UpdateOnACK`.
    fn on_rates(&mut self, window: &mut Window, sample: &RateSample) {
        let was_in_recovery = is_recovery(self.phase);
        self.phase = sample.phase;
        if sample.newly_acked > 0 && std::mem::take(&mut self.undo.is_due) {
            self.handle_spurious_recovery(sample);
        }
        if !is_recovery(sample.phase) {
            self.undo.is_in_episode = false;
            if was_in_recovery {
                self.restore_cwnd();
            }
        }
        if let Some(segment) = sample.segment {
            self.update_model(&Ack::new(sample, segment));
        }
        self.update_pacing_rate(sample.srtt);
        self.update_cwnd(sample);
        window.cwnd = self.cwnd / self.smss;
    }

    /// `OnEnterRTO`.
    fn on_timeout(&mut self, window: &mut Window, in_flight: u64, _mss: u64) {
        self.save_cwnd();
        self.on_timeout_losses();
        self.phase = RecoveryPhase::Loss;
        self.cwnd = in_flight as f64 + self.smss;
        window.cwnd = self.cwnd / self.smss;
    }

    fn limits_rate(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn set_random(&mut self, random: Rng) {
        self.rng = random;
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing_rate > 0.0).then_some(self.pacing_rate)
    }

    fn report(&self) -> ControlReport {
        let state = match self.state {
            State::Startup => SenderState::Startup,
            State::Drain => SenderState::Drain,
            State::Down => SenderState::ProbeBwDown,
            State::Cruise => SenderState::ProbeBwCruise,
            State::Refill => SenderState::ProbeBwRefill,
            State::Up => SenderState::ProbeBwUp,
            State::ProbeRtt => SenderState::ProbeRtt,
        };
        ControlReport {
            state: Some(state),
            bandwidth: Some(self.bw).filter(|&bw| bw > 0.0),
            min_rtt: self.min_rtt.delay,
            marked_share: self.low_ecn.as_ref().and_then(LowEcn::share),
        }
    }
}

impl Bbr3 {
    fn new(config: &Config) -> Self {
        Self {
            profile: config.profile,
            rng: Streams::new(0).named("tcp/congestion-control", 0),
            state: State::Startup,
            smss: 0.0,
            initial_cwnd: 0.0,
            cwnd: 0.0,
            pacing_rate: 0.0,
            has_rtt: false,
            rounds: Rounds::default(),
            max_bw: MaxBandwidth::default(),
            bw: 0.0,
            full: FullPath::default(),
            aggregation: Aggregation::default(),
            min_rtt: MinRtt::default(),
            cycle: Cycle::default(),
            drain_start_round: 0,
            longterm: f64::INFINITY,
            shortterm: ShortTerm::default(),
            loss_round: LossRound::default(),
            undo: Undo::default(),
            prior_cwnd: 0.0,
            phase: RecoveryPhase::Open,
            is_idle_restart: false,
            low_ecn: (config.ecn == Ecn::Low).then(LowEcn::default),
        }
    }

    /// `OnInit`.
    fn begin(&mut self, window: &Window, transmit: &Transmit) {
        self.smss = transmit.mss as f64;
        self.cwnd = window.cwnd * self.smss;
        self.initial_cwnd = self.cwnd;
        self.min_rtt.begin(transmit.srtt, transmit.now);
        self.aggregation.begin(transmit.now);
        self.initialise_pacing_rate(transmit.srtt);
    }

    /// `UpdateModelAndState`.
    fn update_model(&mut self, ack: &Ack<'_>) {
        self.update_latest_delivery(ack);
        self.update_round_and_bandwidth(ack);
        self.update_marks(ack);
        self.update_congestion();
        self.update_aggregation(ack);
        self.full.check(ack, self.rounds.is_start, self.profile);
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        self.update_probe_bw(ack);
        self.update_min_rtt(ack);
        self.advance_latest_delivery(ack);
        self.bw = self.max_bw.get().at_most(self.shortterm.bw);
    }

    /// `CheckStartupDone`.
    fn check_startup_done(&mut self, ack: &Ack<'_>) {
        self.check_startup_losses(ack);
        if self.state == State::Startup && self.full.is_reached {
            self.state = State::Drain;
            self.drain_start_round = self.rounds.count;
            if self.profile == Profile::Linux {
                self.reset_congestion_signals();
            }
        }
    }

    /// `CheckDrainDone`.
    fn check_drain_done(&mut self, ack: &Ack<'_>) {
        /// Number of rounds after which `Drain` ends in any case.
        const MAX_ROUNDS: u64 = 3;
        if self.state != State::Drain {
            return;
        }
        let is_drained = match self.profile {
            Profile::Draft => {
                real(ack.sample.in_flight) <= self.inflight(self.bw, 1.0)
                    || self.rounds.count > self.drain_start_round + MAX_ROUNDS
            }
            Profile::Linux => {
                self.inflight_at_departure(ack.sample.in_flight, ack.sample)
                    <= self.inflight(self.max_bw.get(), 1.0)
            }
        };
        if is_drained {
            self.start_down(ack.sample.now, ack.sample.delivered);
        }
    }
}

/// `InLossRecovery`.
fn is_recovery(phase: RecoveryPhase) -> bool {
    matches!(phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
}
