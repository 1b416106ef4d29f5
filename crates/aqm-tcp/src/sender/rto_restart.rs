//! Restarts the retransmission timer, and takes round-trip samples.
//!
//! V. Paxson et al., RFC 6298, 2011, section 5; RFC 6582, section 3.2, step 5 (partial acknowledgements); Linux:
//! `tcp_rearm_rto`.

use aqm_net::{Instant, Span};

use super::Sender;
use crate::config::CheckedConfig;
use crate::config::recovery::{PartialAckTimer, RecoveryKind};
use crate::config::rto::{BackOffEnd, RestartedBy, RttSamples, TimerRestart};
use crate::recovery::{AckKind, AckOutcome, LossRecovery};

impl Sender {
    /// Updates the retransmission timer and the round-trip estimate after an acknowledgement.
    #[inline(always)]
    pub(super) fn update_timer(&mut self, outcome: &AckOutcome, now: Instant, tcp: &CheckedConfig) {
        let config = &tcp.config.rto;
        if outcome.acked > 0 {
            self.timer.retries = 0;
            let before = config.restart == TimerRestart::BeforeSample;
            if before {
                self.timer.restart(now, config);
            }
            if config.back_off_end == BackOffEnd::Progress {
                self.timer.estimator.end_back_off(config);
            }
            self.sample(outcome, now, tcp);
            if self.recovery.una() == self.recovery.sent() {
                self.timer.at = Instant::NEVER;
            } else if !before && (outcome.kind != AckKind::Partial || self.partial_ack_restarts_timer(tcp)) {
                self.timer.restart(now, config);
            }
            self.count_from(outcome.since, now, tcp);
        } else if outcome.restarts {
            self.sample(outcome, now, tcp);
            self.timer.restart(now, config);
        } else if config.samples == RttSamples::FirstSegment {
            self.sample(outcome, now, tcp);
        }
    }

    /// If the retransmission timer is running, sets the timer so that the timeout is counted from `since`, the
    /// departure time of the oldest segment. If `since` is `NEVER`, the timer is unchanged.
    pub(super) fn count_from(&mut self, since: Instant, now: Instant, tcp: &CheckedConfig) {
        if since != Instant::NEVER && self.timer.at != Instant::NEVER {
            let end = since + self.timer.rto();
            let left = if end > now { end.since(now) } else { Span::ZERO };
            self.timer.at = tcp.config.rto.expiry(now, left);
        }
    }

    /// Takes a round-trip sample, if the acknowledgement provides a sample.
    #[inline]
    fn sample(&mut self, outcome: &AckOutcome, now: Instant, tcp: &CheckedConfig) {
        let config = &tcp.config.rto;
        if !self.records_times || config.samples == RttSamples::Window {
            self.timer.on_ack(self.recovery.una(), now, config);
        } else if outcome.sent != Instant::NEVER {
            self.timer.forget();
            self.timer.estimator.reach(self.recovery.una(), self.recovery.sent());
            self.timer.estimator.sample(outcome.sent, now, config);
        }
    }

    /// Restarts the timer when the first retransmission of a recovery is sent, unless the configuration permits only
    /// acknowledgements of new data to restart the timer (RFC 6675, section 6, permits both variants).
    pub(super) fn restart_for_recovery(&mut self, now: Instant, tcp: &CheckedConfig) {
        if tcp.config.rto.restarted_by != RestartedBy::NewData {
            self.timer.restart(now, &tcp.config.rto);
        }
    }

    /// Returns whether a partial acknowledgement restarts the timer.
    fn partial_ack_restarts_timer(&self, tcp: &CheckedConfig) -> bool {
        let config = &tcp.config.recovery;
        config.kind != RecoveryKind::NewReno
            || config.partial_ack_timer == PartialAckTimer::Each
            || !self.has_partial_ack
    }
}
