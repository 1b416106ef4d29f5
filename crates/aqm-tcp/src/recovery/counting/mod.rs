//! Loss recovery that counts duplicate acknowledgements: Tahoe, Reno and NewReno, without SACK.
//!
//! V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988, with the fast retransmit of
//! 4.3BSD-Tahoe; M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.2
//! (fast retransmit, fast recovery); T. Henderson, S. Floyd, A. Gurtov, Y. Nishida, "The NewReno
//! Modification to TCP's Fast Recovery Algorithm", RFC 6582, 2012; M. Allman, H. Balakrishnan, S. Floyd,
//! RFC 3042, 2001 (limited transmit). After a time-out everything from the oldest hole on is sent again,
//! except what acknowledgements skip (go-back-N); Tahoe's fast retransmit does the same. NewReno counts
//! the duplicates of a whole recovery together.
//!
//! Ours, where the sources are silent: the window counts whole segments; a partial acknowledgement of
//! less than a full segment leaves it alone. As in ns-2, a time-out of Tahoe does not forget the
//! duplicates before it, and `max_burst` binds NewReno with every duplicate from the third on,
//! except those whose segments `send_overhead` delays.

use super::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ReceivedAck, Sending, Stream, TimerContext, Windows,
};
use crate::config::Config;
use crate::config::recovery::{FastRetransmitGuard, Inflation, LimitedTransmit, RecoveryKind};

pub(super) const HAS_SACK: bool = false;

/// The recovery of `tahoe`, `reno` and `newreno`.
pub(super) fn new(_config: &Config) -> AnyRecovery {
    AnyRecovery::Counting(Counting::default())
}

/// What Tahoe, Reno and NewReno know of what was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    /// Everything below is acknowledged (`SND.UNA`).
    una: u64,
    /// The next byte in line; falls back to `una` at a time-out (`SND.NXT`).
    nxt: u64,
    /// Everything below has been sent.
    max: u64,
    /// What had been sent when the last loss was noticed (`recover`).
    recover: u64,
    /// Transmissions may go up to here.
    limit: u64,
    dupacks: u32,
    /// Segments by which duplicate acknowledgements inflate the window, or did until new data was acknowledged.
    inflation: u32,
    /// Segments by which partial acknowledgements took the window below that of the congestion control.
    deflation: u32,
    /// Bytes sent by limited transmit since the last new acknowledgement.
    limited: u32,
    /// How far beyond `una` a duplicate lets transmissions go: below the threshold beside the window,
    /// from there on at most.
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
        AckOutcome { what: self.on_duplicate(config), ..AckOutcome::NONE }
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
        // A fraction of a segment must not stop the sender for good.
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
    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Sending> {
        if self.retransmit {
            self.retransmit = false;
            let len = stream.segment(self.una).min(self.max - self.una);
            return Some(Sending { seq: self.una, len, again: true });
        }
        if self.nxt >= self.limit || self.nxt >= stream.limit() {
            return None;
        }
        let (seq, len) = (self.nxt, stream.segment(self.nxt));
        let again = seq < self.max;
        self.nxt += len;
        if !again && self.dupacks > 0 && !self.in_recovery {
            self.limited += len as u32;
        }
        self.max = self.max.max(self.nxt);
        Some(Sending { seq, len, again })
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
    /// Whether the windows allow another segment, if there is one to send.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.retransmit || self.nxt < self.limit
    }

    /// Takes in an acknowledgement of new data where there were no duplicates; none if it is another.
    #[inline(always)]
    pub fn on_expected_ack(&mut self, ack: u64) -> Option<AckOutcome> {
        let expected = self.dupacks == 0 && ack > self.una && ack <= self.max;
        expected.then(|| self.advance(ack, AckKind::Advance))
    }

    #[inline(always)]
    fn advance(&mut self, ack: u64, what: AckKind) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        AckOutcome { acked, delivered: acked, what, ..AckOutcome::NONE }
    }

    /// New data is acknowledged after duplicates.
    fn repair(&mut self, ack: u64, config: &Config) -> AckOutcome {
        self.limited = 0;
        if self.in_recovery && config.recovery.kind == RecoveryKind::NewReno && ack < self.recover {
            let outcome = self.advance(ack, AckKind::Partial);
            self.deflate((outcome.acked / config.connection.mss.bytes()) as u32);
            self.retransmit = true;
            self.throttle(config);
            return outcome;
        }
        let what = match self.in_recovery {
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
        self.advance(ack, what)
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
        let mut what = AckKind::Duplicate;
        if self.dupacks == config.recovery.dupthresh
            && config.recovery.fast_retransmit_guard.allows(self.una, self.recover)
        {
            what = AckKind::Loss;
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
                return what;
            }
        } else if self.in_recovery
            || (config.recovery.inflation == Inflation::InWindow && self.dupacks > config.recovery.dupthresh)
        {
            self.inflation += 1;
        }
        self.throttle(config);
        what
    }

    /// A partial acknowledgement of `acked` segments takes them out of the window and adds one back:
    /// first from what duplicates added to it.
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

    /// Sets how much this acknowledgement releases.
    fn throttle(&mut self, config: &Config) {
        let bound =
            config.recovery.kind == RecoveryKind::NewReno && config.connection.send_overhead.is_zero();
        self.release = match config.recovery.max_burst {
            Some(segments) if bound => self.within(segments, config),
            _ => u32::MAX,
        };
    }

    /// Where `segments` more segments would end, beyond `una`.
    fn within(&self, segments: u64, config: &Config) -> u32 {
        let end = self.nxt - self.una + segments.saturating_mul(config.connection.mss.bytes());
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    /// What may be outstanding after duplicates.
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
    /// Whether duplicates of `una` may start a fast retransmit; `recover` is what had been sent at the
    /// last loss.
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
