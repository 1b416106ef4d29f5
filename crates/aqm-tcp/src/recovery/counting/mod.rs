//! Loss recovery that counts duplicate acknowledgements: Tahoe, Reno and NewReno, without SACK.
//!
//! V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988, with the fast retransmit of 4.3BSD-Tahoe; M. Allman,
//! V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.2 (fast retransmit, fast recovery); T.
//! Henderson, S. Floyd, A. Gurtov, Y. Nishida, "The NewReno Modification to TCP's Fast Recovery Algorithm", RFC 6582,
//! 2012; M. Allman, H. Balakrishnan, S. Floyd, RFC 3042, 2001 (limited transmit). After a timeout, all data from the
//! oldest hole onwards is retransmitted, except data that is acknowledged in the meantime (go-back-N). Tahoe's fast
//! retransmit also retransmits all data from the oldest hole onwards. NewReno counts all duplicate acknowledgements
//! that arrive during a recovery together.
//!
//! aqmlab's choices where the sources are silent: the window is counted in whole segments; a partial acknowledgement of
//! less than a full segment leaves the window unchanged. As in ns-2, a timeout does not reset Tahoe's count of
//! duplicate acknowledgements. Also as in ns-2, `max_burst` limits the number of segments that NewReno sends after the
//! third and every later duplicate acknowledgement, except if `send_overhead` delays the segments.

use super::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ReceivedAck, Stream, TimerContext, Transmission, Windows,
};
use crate::config::Config;
use crate::config::recovery::{FastRetransmitGuard, Inflation, LimitedTransmit, RecoveryKind};

pub(super) const HAS_SACK: bool = false;

/// Creates the recovery for `tahoe`, `reno` and `newreno`.
pub(super) fn new(_config: &Config) -> AnyRecovery {
    AnyRecovery::Counting(Counting::default())
}

/// State of Tahoe, Reno and NewReno.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    /// Oldest unacknowledged byte (`SND.UNA`).
    una: u64,
    /// Next byte in sequence (`SND.NXT`). A timeout resets this number to `una`.
    nxt: u64,
    /// End of all sent data.
    max: u64,
    /// End of the data that had been sent when the last loss was detected (`recover`).
    recover: u64,
    /// Sequence number below which data may be sent.
    limit: u64,
    dupacks: u32,
    /// Number of segments by which duplicate acknowledgements inflate the window. An acknowledgement of new data does
    /// not reset this number.
    inflation: u32,
    /// Number of segments by which partial acknowledgements have reduced the window below the congestion control's
    /// window.
    deflation: u32,
    /// Number of bytes sent by limited transmit since the last acknowledgement of new data.
    limited: u32,
    /// Distance from `una`, in bytes, up to which a duplicate acknowledgement permits transmissions. If the number of
    /// duplicate acknowledgements is below the threshold, this distance can extend the window; from the threshold on,
    /// this distance is an upper limit.
    release: u32,
    in_recovery: bool,
    retransmit: bool,
}

impl LossRecovery for Counting {
    #[inline]
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if let Some(outcome) = self.on_expected_ack(received.ack) {
            return outcome;
        }
        if received.ack > self.una && received.ack <= self.max {
            return self.repair(received.ack, config);
        }
        if received.ack != self.una || self.max == self.una || !received.bare {
            return AckOutcome::NONE;
        }
        AckOutcome { kind: self.on_duplicate(config), ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, config: &Config) {
        self.nxt = self.una;
        self.recover = self.max;
        if config.recovery.kind != RecoveryKind::Tahoe {
            self.dupacks = 0;
        }
        self.release = if self.dupacks < config.recovery.dupthresh { 0 } else { u32::MAX };
        self.inflation = 0;
        self.deflation = 0;
        self.limited = 0;
        self.in_recovery = false;
        self.retransmit = false;
    }

    #[inline]
    fn set_windows(&mut self, windows: Windows, config: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        // A window of less than one segment must not block the sender forever.
        let window = congestion.max(1).min(receiver) * mss;
        self.limit =
            self.una + if self.dupacks == 0 { window } else { self.inflated(windows, window, config) };
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.nxt < self.limit.min(stream.limit())
    }

    fn is_urgent(&self, config: &Config) -> bool {
        let released = self.nxt < self.una + u64::from(self.release);
        self.retransmit || (released && (1..config.recovery.dupthresh).contains(&self.dupacks))
    }

    #[inline]
    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Transmission> {
        if self.retransmit {
            self.retransmit = false;
            let len = stream.segment(self.una).min(self.max - self.una);
            return Some(Transmission { seq: self.una, len, is_retransmission: true });
        }
        if self.nxt >= self.limit || self.nxt >= stream.limit() {
            return None;
        }
        let (seq, len) = (self.nxt, stream.segment(self.nxt));
        let is_retransmission = seq < self.max;
        self.nxt += len;
        if !is_retransmission && self.dupacks > 0 && !self.in_recovery {
            self.limited += len as u32;
        }
        self.max = self.max.max(self.nxt);
        Some(Transmission { seq, len, is_retransmission })
    }

    #[inline]
    fn una(&self) -> u64 {
        self.una
    }

    #[inline]
    fn sent(&self) -> u64 {
        self.max
    }

    #[inline]
    fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    fn flight(&self) -> u64 {
        self.max - self.una - u64::from(self.limited)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }

    fn inflation(&self) -> f64 {
        self.inflation.into()
    }

    fn deflation(&self) -> u32 {
        self.deflation
    }
}

impl Counting {
    /// Returns whether the windows permit the transmission of another segment, provided that there is data to send.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.retransmit || self.nxt < self.limit
    }

    /// Processes an acknowledgement of new data that is not preceded by duplicate acknowledgements. Returns `None` for
    /// any other acknowledgement.
    #[inline(always)]
    pub fn on_expected_ack(&mut self, ack: u64) -> Option<AckOutcome> {
        let expected = self.dupacks == 0 && ack > self.una && ack <= self.max;
        expected.then(|| self.advance(ack, AckKind::Advance))
    }

    #[inline(always)]
    fn advance(&mut self, ack: u64, kind: AckKind) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        AckOutcome { acked, delivered: acked, kind, ..AckOutcome::NONE }
    }

    /// Processes an acknowledgement of new data that follows duplicate acknowledgements.
    fn repair(&mut self, ack: u64, config: &Config) -> AckOutcome {
        self.limited = 0;
        if self.in_recovery && config.recovery.kind == RecoveryKind::NewReno && ack < self.recover {
            let outcome = self.advance(ack, AckKind::Partial);
            self.deflate((outcome.acked / config.connection.mss.bytes()) as u32);
            self.retransmit = true;
            self.throttle(config);
            return outcome;
        }
        let kind = match self.in_recovery {
            true => AckKind::Exit,
            false if self.inflation > 0 => AckKind::Opened,
            false => AckKind::Advance,
        };
        if self.in_recovery && config.recovery.fast_retransmit_guard == FastRetransmitGuard::AfterTimeout {
            self.recover = 0;
        }
        self.dupacks = 0;
        self.deflation = 0;
        self.in_recovery = false;
        self.retransmit = false;
        self.advance(ack, kind)
    }

    fn on_duplicate(&mut self, config: &Config) -> AckKind {
        if self.dupacks == 0 {
            self.inflation = 0;
        }
        self.dupacks += 1;
        if self.dupacks < config.recovery.dupthresh {
            let may = match config.recovery.limited_transmit {
                LimitedTransmit::Off => false,
                LimitedTransmit::New => self.nxt >= self.max,
                LimitedTransmit::Next => true,
            };
            self.release = if may { self.within(1, config) } else { 0 };
            return AckKind::Duplicate;
        }
        let mut kind = AckKind::Duplicate;
        if self.dupacks == config.recovery.dupthresh
            && config.recovery.fast_retransmit_guard.allows(self.una, self.recover)
        {
            kind = AckKind::Loss;
            self.recover = self.max;
            if config.recovery.kind == RecoveryKind::Tahoe {
                self.nxt = self.una;
            } else {
                self.in_recovery = true;
                self.retransmit = true;
                self.inflation = config.recovery.dupthresh;
            }
            if config.recovery.inflation == Inflation::InWindow {
                self.release = self.within(0, config);
                return kind;
            }
        } else if self.in_recovery
            || (config.recovery.inflation == Inflation::InWindow && self.dupacks > config.recovery.dupthresh)
        {
            self.inflation += 1;
        }
        self.throttle(config);
        kind
    }

    /// Processes a partial acknowledgement of `acked` segments. The window is reduced by `acked` segments and enlarged
    /// by one segment. The reduction is applied to the inflation first.
    fn deflate(&mut self, acked: u32) {
        if acked == 0 {
            return;
        }
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            self.deflation += acked - self.inflation;
            self.inflation = 1;
        }
    }

    /// Limits the number of segments that may be sent in response to the current acknowledgement.
    fn throttle(&mut self, config: &Config) {
        let bound =
            config.recovery.kind == RecoveryKind::NewReno && config.connection.send_overhead.is_zero();
        self.release = match config.recovery.max_burst {
            Some(segments) if bound => self.within(segments, config),
            _ => u32::MAX,
        };
    }

    /// Returns the distance from `una` to the end of the data after `segments` further segments have been sent.
    fn within(&self, segments: u64, config: &Config) -> u32 {
        let end = self.nxt - self.una + segments.saturating_mul(config.connection.mss.bytes());
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    /// Returns the maximum number of unacknowledged bytes after duplicate acknowledgements.
    fn inflated(&self, windows: Windows, window: u64, config: &Config) -> u64 {
        let Windows { congestion, receiver, mss } = windows;
        let release = u64::from(self.release);
        if self.dupacks < config.recovery.dupthresh {
            window.max(((congestion + u64::from(self.dupacks)).min(receiver) * mss).min(release))
        } else {
            ((congestion + u64::from(self.inflation)).max(1).min(receiver) * mss).min(release)
        }
    }
}

impl FastRetransmitGuard {
    /// Returns whether duplicate acknowledgements of `una` may trigger a fast retransmit. `recover` is the end of the
    /// data that had been sent when the last loss was detected.
    pub(super) fn allows(self, una: u64, recover: u64) -> bool {
        match self {
            Self::None => true,
            Self::Recover | Self::AfterTimeout => una > recover || recover == 0,
            Self::RecoverOrFirst => una > recover || una == 0,
        }
    }
}

#[cfg(test)]
mod tests;
