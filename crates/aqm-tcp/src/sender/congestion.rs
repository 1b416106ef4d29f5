//! What acknowledgements, losses, marks and time-outs do to the congestion window.
//!
//! M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009; T. Henderson et al., RFC 6582, 2012, section 3.2 (the end of
//! NewReno's fast recovery); RFC 3168, 2001, section 6.1.2. How far the window opens and falls is said by the
//! congestion control; here is when, and what of.

use aqm_net::Instant;

use super::cwnd_validation::CwndUsage;
use super::ecn::ReducedBy;
use super::{PriorWindow, Sender};
use crate::config::CheckedConfig;
use crate::config::cwnd::{GrowthWhenLimited, IdleRestart, ReductionBasis, RepeatedTimeout};
use crate::config::recovery::{ExitAck, ExitWindow, Frto, Inflation, RecoveryKind, TimeoutLoses, Undo};
use crate::congestion_control::{AckInfo, AckSample, Congestion, CongestionSignal};
use crate::recovery::{AckKind, AckOutcome, LossRecovery};

/// What is known of an acknowledgement beside what the recovery makes of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard {
    /// How many bytes were in the network before it; none if the window must not grow.
    pub used: Option<u64>,
    /// When it left the other end; the start of the run if it does not tell.
    pub answered: Instant,
}

impl Sender {
    /// Acts on what the recovery made of an acknowledgement, of which so much is `heard`, or of its timer.
    #[inline(always)]
    pub(super) fn apply(&mut self, outcome: AckOutcome, heard: Heard, now: Instant, tcp: &CheckedConfig) {
        let Heard { used, answered } = heard;
        if self.tells_samples && outcome.what != AckKind::Stale {
            self.tell_sample(&outcome, answered, now, tcp);
        }
        self.update_timer(&outcome, now, tcp);
        if outcome.undone {
            let prior = self.cold.as_ref().map_or_else(PriorWindow::default, |cold| cold.prior);
            self.congestion.restore(prior.cwnd, prior.ssthresh);
            self.timer.retries = 0;
            self.refresh(tcp);
        }
        match outcome.what {
            AckKind::Stale => return,
            AckKind::Duplicate => {}
            AckKind::Advance => self.grow(&outcome, used, now, tcp),
            AckKind::Opened => {
                // What duplicates opened after a time-out stays.
                self.open_by(self.recovery.inflation(), now, tcp);
                self.grow(&outcome, used, now, tcp);
            }
            AckKind::Partial => self.partial = true,
            AckKind::Exit => {
                self.in_recovery = false;
                self.leave(tcp);
                let grows = match tcp.config.recovery.exit_ack {
                    ExitAck::Deflates => false,
                    ExitAck::Grows => !tcp.config.recovery.kind.has_sack(),
                    ExitAck::GrowsWithSack => true,
                };
                if grows {
                    self.grow(&outcome, used, now, tcp);
                }
            }
            AckKind::Loss => self.on_loss(now, tcp),
            AckKind::LossBehindMark => self.on_loss_behind_mark(now, tcp),
            AckKind::Repaired => {
                self.counts.fast_retransmits += 1;
                self.note_cause(ReducedBy::Loss);
                let congestion = self.reduction(CongestionSignal::Loss, tcp);
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
                self.grow(&outcome, used, now, tcp);
            }
        }
        let idle = self.timer.at == Instant::NEVER && self.congestion.cwnd() >= 1.0;
        if tcp.config.cwnd.idle_restart == IdleRestart::ToInitialWindow && idle {
            self.end_pause(now, tcp);
        }
        self.refresh(tcp);
    }

    /// The retransmission timer ran out; the caller has checked the limit of retries.
    pub fn on_timeout(&mut self, now: Instant, tcp: &CheckedConfig) {
        let config = &tcp.config;
        let repeated = match config.cwnd.repeated_timeout {
            RepeatedTimeout::Holds => self.timer.retries > 0,
            RepeatedTimeout::HoldsInRecovery => {
                self.timer.retries > 0 || self.in_recovery || self.is_falling()
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
        if config.recovery.timeout_loses == TimeoutLoses::Late {
            let left = self.recovery.outstanding() / tcp.mss;
            self.congestion.restore((left + 1) as f64, 0.0);
        }
        self.in_recovery = false;
        self.note_reduction();
        if self.recovery.una() < self.recovery.sent() {
            self.refresh(tcp);
            self.timer.back_off(now, &tcp.config.rto);
        } else {
            // Nothing is lost: a window below a segment has waited.
            self.end_pause(now, tcp);
            self.refresh(tcp);
            self.timer.forget();
            self.timer.at = Instant::NEVER;
        }
    }

    /// Data may leave after a pause: everything before is acknowledged.
    pub(super) fn end_pause(&mut self, now: Instant, tcp: &CheckedConfig) {
        let initial = tcp.config.cwnd.initial as f64;
        let rto_passed = now.since(self.last_sent) > self.timer.rto(&tcp.config.rto);
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

    /// A mark was echoed on an acknowledgement that brought this.
    pub(super) fn on_echo(&mut self, brought: &AckOutcome, tcp: &CheckedConfig) {
        let Some(ecn) = &mut self.ecn else { return };
        let descends = ecn.descends();
        let in_recovery = self.in_recovery || (descends && brought.what == AckKind::Loss);
        if !ecn.counts_echo(brought.acked) || ecn.ignores_mark(self.recovery.una(), in_recovery) {
            return;
        }
        ecn.on_mark(self.recovery.sent());
        self.recovery.on_mark(brought.delivered, descends);
        let from = self.cwnd;
        self.counts.mark_reductions += 1;
        let before = self.congestion.cwnd();
        let congestion = self.reduction(CongestionSignal::Mark, tcp);
        self.congestion.on_congestion(&congestion);
        // The least `ssthresh` must not open a smaller window.
        self.congestion.cap(before);
        if descends {
            self.recovery.on_reduction(from, self.congestion.cwnd());
        }
        self.refresh(tcp);
    }

    /// Whether a mark lets the window come down, which does not open meanwhile.
    pub(super) fn is_falling(&self) -> bool {
        self.ecn.as_ref().is_some_and(|ecn| ecn.falls(self.recovery.una()))
    }

    /// Something other than a mark shows congestion.
    fn note_cause(&mut self, cause: ReducedBy) {
        if let Some(ecn) = &mut self.ecn {
            ecn.reduced_by = cause;
        }
    }

    /// The window was reduced.
    fn note_reduction(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.on_reduction(self.recovery.sent());
        }
    }

    /// A loss was found.
    fn on_loss(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.counts.fast_retransmits += 1;
        self.timer.forget();
        self.partial = false;
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
            if !is_marked {
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
            } else if halves {
                self.congestion.cap(congestion.basis / 2.0);
            }
        }
        if tcp.config.recovery.inflation == Inflation::InWindow && !tcp.config.recovery.kind.has_sack() {
            // It becomes `ssthresh` and the duplicates, so a fraction of a segment is lost.
            self.congestion.cap(self.congestion.ssthresh());
        }
        self.recovery.on_reduction(from, self.congestion.cwnd());
        self.restart_for_recovery(now, tcp);
    }

    /// A loss was found in a window that a mark has reduced: it stays (ns-2's `SackFullTcpAgent::dupack_action`).
    fn on_loss_behind_mark(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.counts.fast_retransmits += 1;
        self.timer.forget();
        self.in_recovery = true;
        if let Some(ecn) = &mut self.ecn {
            ecn.on_loss_behind_mark(self.recovery.sent());
        }
        self.restart_for_recovery(now, tcp);
    }

    /// Fast recovery is over.
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

    /// Lets the window grow for what an acknowledgement tells has arrived; `used` is as in `apply`.
    #[inline(always)]
    fn grow(&mut self, outcome: &AckOutcome, used: Option<u64>, now: Instant, tcp: &CheckedConfig) {
        let may_grow = used.is_some_and(|used| match tcp.config.cwnd.growth_when_limited {
            GrowthWhenLimited::Grows => true,
            GrowthWhenLimited::Holds => used >= self.whole_window().saturating_mul(tcp.mss),
            GrowthWhenLimited::GrowsIfUsed => {
                let usage = self.cold.as_ref().map_or_else(CwndUsage::default, |cold| cold.usage);
                let cwnd = self.whole_window().saturating_mul(tcp.mss);
                usage.may_grow(self.congestion.in_slow_start(), cwnd)
            }
        });
        let acked = outcome.delivered as i64 as f64 / tcp.mss as i64 as f64; // signed: one instruction each
        let counted = tcp.config.cwnd.abc_limit.filter(|&limit| limit < acked).unwrap_or(acked);
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted, may_grow, srtt });
    }

    /// Tells the congestion control of the round trip that an acknowledgement shows.
    #[inline(never)]
    fn tell_sample(&mut self, outcome: &AckOutcome, answered: Instant, now: Instant, tcp: &CheckedConfig) {
        let (snd_una, snd_nxt) = (self.recovery.una(), self.recovery.sent());
        let newest = if self.keeps_times {
            (outcome.newest != Instant::NEVER).then_some(outcome.newest)
        } else {
            self.timer.timed_by(snd_una)
        };
        self.congestion.on_sample(&AckSample {
            now,
            newest,
            answered: (answered != Instant::START).then_some(answered),
            srtt: self.timer.estimator.srtt(&tcp.config.rto),
            snd_una,
            snd_nxt,
            mss: tcp.mss,
        });
    }

    /// Opens the window by at most `segments` segments, as far as slow start goes.
    #[cold]
    fn open_by(&mut self, segments: f64, now: Instant, tcp: &CheckedConfig) {
        let room = (self.congestion.ssthresh() - self.congestion.cwnd()).max(0.0);
        let acked = segments.min(room);
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted: acked, may_grow: true, srtt });
    }

    /// The window now, and what `ssthresh` is to be if a reduction is taken back (Linux: `tcp_current_ssthresh`).
    fn prior_window(&self) -> PriorWindow {
        let cwnd = self.congestion.cwnd();
        PriorWindow { cwnd, ssthresh: self.congestion.ssthresh().max(libm::floor(cwnd * 0.75)) }
    }

    /// A reduction may be taken back to `prior`.
    fn note_prior(&mut self, prior: PriorWindow, tcp: &CheckedConfig) {
        if tcp.config.recovery.undo != Undo::Off || tcp.config.recovery.frto == Frto::On {
            self.cold.get_or_insert_default().prior = prior;
        }
    }

    /// What there is to reduce.
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
