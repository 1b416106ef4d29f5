//! Applies acknowledgements, losses, ECN marks and timeouts to the congestion window.
//!
//! M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009; T. Henderson et al., RFC 6582, 2012, section 3.2 (the end of
//! NewReno's fast recovery); RFC 3168, 2001, section 6.1.2. The congestion control determines by how much the window
//! grows or shrinks. This file determines when the window changes, and computes the value on which a reduction is
//! based.

use aqm_net::Instant;

use super::cwnd_validation::CwndUsage;
use super::ecn::ReducedBy;
use super::rate_limited_increase::MaxFlight;
use super::{PriorWindow, Sender};
use crate::arithmetic::real;
use crate::config::CheckedConfig;
use crate::config::cwnd::{GrowthWhenLimited, IdleRestart, ReductionBasis, RepeatedTimeout};
use crate::config::recovery::{ExitAck, ExitWindow, Frto, Inflation, RecoveryKind, TimeoutLoses, Undo};
use crate::congestion_control::{AckInfo, AckSample, Congestion, CongestionSignal};
use crate::recovery::{AckKind, AckOutcome, LossRecovery};

/// Information about an acknowledgement in addition to the recovery's result.
#[derive(Clone, Copy, Default)]
pub(super) struct AckContext {
    /// Number of bytes in the network before the acknowledgement arrived.
    pub in_flight: u64,
    /// Whether the window may grow.
    pub may_grow: bool,
    /// Number of bytes newly reported as marked.
    pub marked: u64,
    /// Whether the congestion control has received the round-trip sample.
    pub is_sampled: bool,
    /// Time at which the other endpoint sent the acknowledgement; the start of the run if there is no timestamp.
    pub ack_sent_at: Instant,
}

impl AckContext {
    /// Returns the context of an acknowledgement without marks.
    pub fn unmarked(in_flight: u64, ack_sent_at: Instant) -> Self {
        Self { in_flight, may_grow: true, ack_sent_at, ..Self::default() }
    }
}

impl Sender {
    /// Applies the recovery's result, which was caused either by an acknowledgement, described by `context`, or by the
    /// expiry of the recovery's timer.
    #[inline(always)]
    pub(super) fn apply(
        &mut self,
        outcome: AckOutcome,
        context: AckContext,
        now: Instant,
        tcp: &CheckedConfig,
    ) {
        if self.uses_samples && outcome.kind != AckKind::Stale && !context.is_sampled {
            // The values are copied, so that the compiler never stores the fields that most senders do not use.
            self.report_sample(&{ outcome }, &{ context }, now, tcp);
        }
        self.update_timer(&outcome, now, tcp);
        if outcome.undone {
            let prior = self.cold.as_ref().map_or_else(PriorWindow::default, |cold| cold.prior);
            self.congestion.restore(prior.cwnd, prior.ssthresh);
            self.timer.retries = 0;
            self.refresh(tcp);
        }
        match outcome.kind {
            AckKind::Stale => return,
            AckKind::Duplicate => {}
            AckKind::Advance => self.grow(&outcome, context, now, tcp),
            AckKind::Opened => {
                // The amount by which duplicate acknowledgements inflated the window after a timeout is retained.
                self.open_by(self.recovery.inflation(), now, tcp);
                self.grow(&outcome, context, now, tcp);
            }
            AckKind::Partial => self.has_partial_ack = true,
            AckKind::Exit => {
                self.in_recovery = false;
                self.leave(tcp);
                let grows = match tcp.config.recovery.exit_ack {
                    ExitAck::Deflates => false,
                    ExitAck::Grows => !tcp.config.recovery.kind.has_sack(),
                    ExitAck::GrowsWithSack => true,
                };
                if grows {
                    self.grow(&outcome, context, now, tcp);
                }
            }
            AckKind::Loss => self.on_loss(now, tcp),
            AckKind::LossAfterMark => self.on_loss_after_mark(now, tcp),
            AckKind::PersistentCongestion => self.on_persistent_congestion(now, tcp),
            AckKind::Repaired => {
                self.counts.fast_retransmits += 1;
                self.note_cause(ReducedBy::Loss);
                let congestion = self.reduction(CongestionSignal::Loss, tcp);
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
                self.grow(&outcome, context, now, tcp);
            }
        }
        let idle = self.timer.at == Instant::NEVER && self.congestion.cwnd() >= 1.0;
        if tcp.config.cwnd.idle_restart == IdleRestart::ToInitialWindow && idle {
            self.end_pause(now, tcp);
        }
        if self.cold.is_some() {
            self.report_to_model(&{ outcome }, &{ context }, now, tcp);
        } else {
            self.refresh(tcp);
        }
    }

    /// Processes the expiry of the retransmission timer. The caller must have checked that the maximum number of
    /// retries has not been reached.
    pub fn on_timeout(&mut self, now: Instant, tcp: &CheckedConfig) {
        let config = &tcp.config;
        self.check_app_limited(tcp);
        let repeated = match config.cwnd.repeated_timeout {
            RepeatedTimeout::Holds => self.timer.retries > 0,
            RepeatedTimeout::HoldsInRecovery => {
                self.timer.retries > 0 || self.in_recovery || self.is_reducing()
            }
            RepeatedTimeout::Halves => false,
        };
        let prior = self.prior_window();
        let mut congestion = self.reduction(CongestionSignal::Timeout, tcp);
        if config.recovery.inflation == Inflation::InWindow
            && self.recovery.dupacks() >= config.recovery.dupthresh
        {
            congestion.basis =
                (congestion.basis + self.recovery.inflation()).min(config.receiver.window as f64);
        }
        if self.ecn.as_ref().is_some_and(|ecn| ecn.timeout_spares_ssthresh()) {
            self.congestion.cap(1.0);
            self.open_by(1.0 - self.congestion.cwnd(), now, tcp);
        } else {
            self.congestion.on_congestion(&Congestion { repeated, ..congestion });
            self.note_cause(ReducedBy::Timeout);
        }
        if !repeated {
            self.note_prior(prior, tcp);
        }
        let at = self.timer.context(now, &tcp.config.rto);
        self.recovery.on_timeout(at, config);
        if config.recovery.timeout_loses == TimeoutLoses::Late && !self.uses_rates {
            let left = self.recovery.outstanding() / tcp.mss;
            self.congestion.restore((left + 1) as f64, 0.0);
        }
        self.in_recovery = false;
        self.note_reduction();
        if self.uses_rates {
            self.report_timeout(now, tcp);
        }
        if let Some(pacer) = self.cold.as_mut().and_then(|cold| cold.pacer.as_mut()) {
            pacer.release(now);
        }
        if self.recovery.una() < self.recovery.sent() {
            self.refresh(tcp);
            self.timer.back_off(now, &tcp.config.rto);
        } else {
            // No data was lost. The sender was waiting because its window was below one segment.
            self.end_pause(now, tcp);
            self.refresh(tcp);
            self.timer.forget();
            self.timer.at = Instant::NEVER;
        }
    }

    /// Resets the window when data is sent after an idle period in which all data was acknowledged.
    pub(super) fn end_pause(&mut self, now: Instant, tcp: &CheckedConfig) {
        let initial = tcp.config.cwnd.initial as f64;
        let rto_passed = now.since(self.last_sent) > self.timer.rto();
        match tcp.config.cwnd.idle_restart {
            IdleRestart::InitialWindow if rto_passed => self.congestion.cap(initial),
            IdleRestart::OneSegment if rto_passed => self.congestion.cap(1.0),
            IdleRestart::ToInitialWindow
                if self.timer.estimator.has_passed(self.last_sent, now, &tcp.config.rto) =>
            {
                self.congestion.cap(initial);
                self.open_by(initial - self.congestion.cwnd(), now, tcp);
            }
            _ => {}
        }
    }

    /// Responds to an ECN mark that was echoed on an acknowledgement. `outcome` is the recovery's result for this
    /// acknowledgement.
    pub(super) fn on_echo(&mut self, outcome: &AckOutcome, tcp: &CheckedConfig) {
        let Some(ecn) = &mut self.ecn else { return };
        let reduces_gradually = ecn.reduces_gradually();
        let in_recovery = self.in_recovery || (reduces_gradually && outcome.kind == AckKind::Loss);
        if !ecn.counts_echo(outcome.acked) || ecn.ignores_mark(self.recovery.una(), in_recovery) {
            return;
        }
        ecn.on_mark(self.recovery.sent());
        if self.uses_rates {
            // `report_rates` counts the marked bytes that non-classic feedback reports. Classic feedback does not
            // report the number of marked bytes, so one segment per window counts as marked.
            if ecn.is_classic()
                && let Some(rate) = self.recovery.rate()
            {
                rate.on_marked(tcp.mss);
            }
            return;
        }
        self.recovery.on_mark(outcome.delivered, reduces_gradually);
        let from = self.cwnd;
        self.counts.mark_reductions += 1;
        let before = self.congestion.cwnd();
        let congestion = self.reduction(CongestionSignal::Mark, tcp);
        self.congestion.on_congestion(&congestion);
        // If the window was smaller than the minimum of `ssthresh`, the reduction must not enlarge the window.
        self.congestion.cap(before);
        if reduces_gradually {
            self.recovery.on_reduction(from, self.congestion.cwnd());
        }
        self.refresh(tcp);
    }

    /// Returns whether the window is being reduced gradually after an ECN mark. During this reduction, the window does
    /// not grow.
    pub(super) fn is_reducing(&self) -> bool {
        self.ecn.as_ref().is_some_and(|ecn| ecn.is_reducing(self.recovery.una()))
    }

    /// Records the cause of a window reduction.
    fn note_cause(&mut self, cause: ReducedBy) {
        if let Some(ecn) = &mut self.ecn {
            ecn.reduced_by = cause;
        }
    }

    /// Records a window reduction.
    fn note_reduction(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.on_reduction(self.recovery.sent());
        }
    }

    /// Responds to a detected loss.
    fn on_loss(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.counts.fast_retransmits += 1;
        self.timer.forget();
        self.has_partial_ack = false;
        self.note_cause(ReducedBy::Loss);
        let from = self.cwnd;
        self.note_prior(self.prior_window(), tcp);
        let ecn = self.ecn.as_ref().filter(|ecn| ecn.is_marked(self.recovery.una()));
        let (is_marked, halves) = (ecn.is_some(), ecn.is_some_and(|ecn| ecn.loss_halves_marked()));
        let congestion = self.reduction(CongestionSignal::Loss, tcp);
        if tcp.config.recovery.kind == RecoveryKind::Tahoe {
            let signal = CongestionSignal::Timeout;
            self.congestion.on_congestion(&Congestion { signal, repeated: is_marked, ..congestion });
            self.note_reduction();
        } else {
            self.in_recovery = true;
            if !is_marked || self.uses_rates {
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
            } else if halves {
                self.congestion.cap(congestion.basis / 2.0);
            }
        }
        if tcp.config.recovery.inflation == Inflation::InWindow && !tcp.config.recovery.kind.has_sack() {
            // The window becomes `ssthresh` plus the number of duplicate acknowledgements, so a fraction of a segment
            // in the window is discarded.
            self.congestion.cap(self.congestion.ssthresh());
        }
        if !self.uses_rates {
            self.recovery.on_reduction(from, self.congestion.cwnd());
        }
        self.restart_for_recovery(now, tcp);
    }

    /// Responds to persistent congestion: the window is reduced as after a loss, and then restarts from its minimum of
    /// two segments (RFC 9002, sections 7.2 and 7.6.2).
    fn on_persistent_congestion(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.on_loss(now, tcp);
        self.in_recovery = false;
        if self.uses_rates {
            self.report_timeout(now, tcp);
            return;
        }
        let congestion = self.reduction(CongestionSignal::Timeout, tcp);
        self.congestion.on_congestion(&Congestion { repeated: true, ..congestion });
        self.open_by(1.0, now, tcp);
    }

    /// Responds to a loss in a window that an ECN mark has already reduced. The window stays constant (ns-2's
    /// `SackFullTcpAgent::dupack_action`).
    fn on_loss_after_mark(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.counts.fast_retransmits += 1;
        self.timer.forget();
        self.in_recovery = true;
        if let Some(ecn) = &mut self.ecn {
            ecn.on_loss_after_mark(self.recovery.sent());
        }
        self.restart_for_recovery(now, tcp);
    }

    /// Sets the window at the end of fast recovery.
    fn leave(&mut self, tcp: &CheckedConfig) {
        if tcp.config.recovery.kind == RecoveryKind::NewReno {
            match tcp.config.recovery.exit_window {
                ExitWindow::Ssthresh => {}
                ExitWindow::Deflated => self.congestion.cap(self.cwnd),
                ExitWindow::Flight => {
                    let flight = (self.recovery.flight() as f64 / tcp.mss as f64).max(1.0);
                    self.congestion.cap(flight + 1.0);
                }
            }
        }
    }

    /// Increases the window in response to the data that an acknowledgement reports as delivered.
    #[inline(always)]
    fn grow(&mut self, outcome: &AckOutcome, context: AckContext, now: Instant, tcp: &CheckedConfig) {
        let mut limit = None;
        let in_flight = context.in_flight;
        let may_grow = context.may_grow
            && match tcp.config.cwnd.growth_when_limited {
                GrowthWhenLimited::Grows => true,
                GrowthWhenLimited::Holds => in_flight >= self.whole_window().saturating_mul(tcp.mss),
                GrowthWhenLimited::GrowsIfUsed => {
                    let usage = self.cold.as_ref().map_or_else(CwndUsage::default, |cold| cold.usage);
                    let cwnd = self.whole_window().saturating_mul(tcp.mss);
                    usage.may_grow(self.congestion.in_slow_start(), cwnd)
                }
                GrowthWhenLimited::RateLimitedIncrease => {
                    let most = self.growth_limit(in_flight, tcp);
                    limit = Some(most);
                    self.congestion.cwnd() < most
                }
            };
        let acked = real(outcome.delivered) / real(tcp.mss);
        let counted = tcp.config.cwnd.abc_limit.filter(|&limit| limit < acked).unwrap_or(acked);
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted, may_grow, srtt });
        if let Some(limit) = limit.filter(|_| may_grow) {
            self.limit_growth(limit);
        }
    }

    /// Returns the maximum window, in segments, if `in_flight` bytes were in the network before an acknowledgement
    /// arrived (`GrowthWhenLimited::RateLimitedIncrease`).
    #[cold]
    fn growth_limit(&mut self, in_flight: u64, tcp: &CheckedConfig) -> f64 {
        let (cwnd, in_slow_start) = (self.congestion.cwnd(), self.congestion.in_slow_start());
        let flight = in_flight as f64 / tcp.mss as f64;
        let cold = self.cold.get_or_insert_default();
        cold.max_flight.get_or_insert_with(|| MaxFlight::new(cwnd)).limit(flight, cwnd, in_slow_start)
    }

    /// Limits the window to `limit` segments after the window has grown.
    #[cold]
    fn limit_growth(&mut self, limit: f64) {
        self.congestion.limit_growth(limit);
        let cwnd = self.congestion.cwnd();
        if let Some(flight) = self.cold.as_mut().and_then(|cold| cold.max_flight.as_mut()) {
            flight.on_growth(cwnd);
        }
    }

    /// Passes to the congestion control the round-trip time that was measured with an acknowledgement.
    #[inline(never)]
    pub(super) fn report_sample(
        &mut self,
        outcome: &AckOutcome,
        context: &AckContext,
        now: Instant,
        tcp: &CheckedConfig,
    ) {
        let (snd_una, snd_nxt) = (self.recovery.una(), self.recovery.sent());
        let newest = if self.records_times {
            (outcome.newest != Instant::NEVER).then_some(outcome.newest)
        } else {
            self.timer.timed_by(snd_una)
        };
        self.congestion.on_sample(&AckSample {
            now,
            newest,
            ack_sent_at: Some(context.ack_sent_at).filter(|&at| at != Instant::START),
            delivered: outcome.delivered,
            marked: context.marked,
            srtt: self.timer.estimator.srtt(&tcp.config.rto),
            snd_una,
            snd_nxt,
            mss: tcp.mss,
        });
    }

    /// Increases the window by at most `segments` segments, but not above `ssthresh`.
    #[cold]
    fn open_by(&mut self, segments: f64, now: Instant, tcp: &CheckedConfig) {
        let room = (self.congestion.ssthresh() - self.congestion.cwnd()).max(0.0);
        let acked = segments.min(room);
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted: acked, may_grow: true, srtt });
    }

    /// Returns the window and the `ssthresh` that must be restored if a reduction is undone (Linux:
    /// `tcp_current_ssthresh`).
    fn prior_window(&self) -> PriorWindow {
        let cwnd = self.congestion.cwnd();
        PriorWindow { cwnd, ssthresh: self.congestion.ssthresh().max(libm::floor(cwnd * 0.75)) }
    }

    /// Records the window and the `ssthresh` that must be restored if a reduction is undone.
    fn note_prior(&mut self, prior: PriorWindow, tcp: &CheckedConfig) {
        if tcp.config.recovery.undo != Undo::Off || tcp.config.recovery.frto == Frto::On {
            self.cold.get_or_insert_default().prior = prior;
        }
    }

    /// Returns the congestion event for `signal`, including the value on which the reduction is based.
    fn reduction(&self, signal: CongestionSignal, tcp: &CheckedConfig) -> Congestion {
        let config = &tcp.config;
        let basis = match config.cwnd.reduction_basis {
            ReductionBasis::FlightSize => {
                let flight = self.recovery.flight() as f64 / tcp.mss as f64;
                if config.recovery.kind.has_sack() { flight.min(self.cwnd) } else { flight }
            }
            ReductionBasis::Pipe => self.recovery.outstanding() as f64 / tcp.mss as f64,
            ReductionBasis::Window => self.cwnd.min(config.receiver.window as f64),
        };
        Congestion { signal, basis, repeated: false }
    }
}
