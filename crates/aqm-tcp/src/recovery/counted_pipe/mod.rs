//! Recovers losses with SACK by counting the segments in the network, as in ns-2's `Agent/TCP/Sack1`.
//!
//! The sources are `tcp-sack1.cc`, `scoreboard-rq.cc` and `rq.cc` of ns-2.35, based on K. Fall, S. Floyd,
//! "Simulation-based Comparisons of Tahoe, Reno, and SACK TCP", Computer Communication Review 26(3), 1996, with ns-2's
//! defaults. Only acknowledgements that report new data beyond `SND.UNA` count as duplicate acknowledgements. The
//! acknowledgement that indicates a loss permits only the retransmission of the first segment. From the next
//! acknowledgement on, `pipe` limits transmission: the oldest hole below the highest SACKed segment is sent first, each
//! hole is retransmitted only once, and then new data is sent within the receiver's window. A timeout ends the recovery
//! and clears the SACK scoreboard, so that `sack.at_timeout` has no effect. After a timeout, duplicate acknowledgements
//! are ignored until new data is acknowledged. This module permits a recovery to begin as soon as the previous recovery
//! has ended, which the parameter `fast_retransmit_guard` alone would not permit.
//!
//! aqmlab's choice where the source is silent: an acknowledgement that carries data does not reduce `pipe` unless it
//! reports new data.

use super::sacked::SackedRanges;
use super::{AckKind, AckOutcome, LossRecovery, ReceivedAck, Stream, TimerContext, Transmission, Windows};
use crate::config::Config;
use crate::config::recovery::LimitedTransmit;

/// State of a sender that uses `pipe = "counted"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedPipe {
    /// Oldest unacknowledged byte (`SND.UNA`).
    una: u64,
    /// Next byte in sequence (`SND.NXT`). A timeout resets this number to `una`.
    nxt: u64,
    /// End of all sent data.
    max: u64,
    /// End of the data that had been sent when the last loss was detected; 0 after a recovery has ended.
    recover: u64,
    sacked: SackedRanges,
    /// Sequence number below which all holes have been retransmitted.
    repaired: u64,
    /// Number of segments in the network, as counted during fast recovery.
    pipe: i64,
    windows: Windows,
    dupacks: u32,
    /// Number of bytes sent by limited transmit since the last acknowledgement of new data.
    limited: u32,
    in_recovery: bool,
    /// Whether the first unacknowledged segment must be retransmitted.
    retransmit: bool,
    /// Whether a duplicate acknowledgement permits the transmission of one segment.
    single: bool,
    /// Whether transmission is suspended until the next acknowledgement arrives.
    waits: bool,
    /// Whether duplicate acknowledgements are ignored because of a timeout.
    ignores_duplicates: bool,
}

/// The next transmission.
#[derive(Clone, Copy)]
enum Next {
    /// A segment beyond the window, which is sent by limited transmit.
    Single,
    /// A hole, with its first sequence number and its end.
    Hole(u64, u64),
    /// The next segment in sequence.
    InSequence,
}

impl LossRecovery for CountedPipe {
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if received.ack > self.max {
            return AckOutcome::NONE;
        }
        if self.in_recovery {
            return self.on_ack_in_recovery(received);
        }
        if received.ack > self.una {
            return self.advance(received.ack, AckKind::Advance);
        }
        if received.ack < self.una || self.ignores_duplicates || !self.record_sacks(received) {
            return AckOutcome::NONE;
        }
        AckOutcome { kind: self.on_duplicate(config), ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, _config: &Config) {
        self.forget();
        self.nxt = self.una;
        self.recover = self.max;
        self.ignores_duplicates = true;
    }

    fn set_windows(&mut self, windows: Windows, _config: &Config) {
        self.windows = windows;
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.find_next(stream).is_some()
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        self.retransmit || self.single
    }

    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Transmission> {
        if self.retransmit {
            self.retransmit = false;
            let end = self.sacked.first().unwrap_or(self.max);
            let len = stream.segment(self.una).min(end - self.una);
            self.repaired = self.repaired.max(self.una + len);
            return Some(Transmission { seq: self.una, len, is_retransmission: true });
        }
        let next = self.find_next(stream);
        self.single = false;
        let (seq, len) = match next? {
            Next::Hole(from, to) => (from, stream.segment(from).min(to - from)),
            Next::Single | Next::InSequence => (self.nxt, stream.segment(self.nxt)),
        };
        let is_retransmission = seq < self.max;
        match next? {
            Next::Single if !is_retransmission => self.limited += len as u32,
            Next::Hole(..) => self.repaired = seq + len,
            Next::Single | Next::InSequence => {}
        }
        self.pipe += 1;
        self.nxt = self.nxt.max(seq + len);
        self.max = self.max.max(self.nxt);
        Some(Transmission { seq, len, is_retransmission })
    }

    fn una(&self) -> u64 {
        self.una
    }

    fn sent(&self) -> u64 {
        self.max
    }

    fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    fn flight(&self) -> u64 {
        self.max - self.una - u64::from(self.limited)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }
}

impl CountedPipe {
    /// Processes an acknowledgement of new data that either arrives outside a recovery or ends a recovery.
    fn advance(&mut self, ack: u64, kind: AckKind) -> AckOutcome {
        self.forget();
        self.ignores_duplicates = false;
        self.move_to(ack, kind)
    }

    fn move_to(&mut self, ack: u64, kind: AckKind) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.limited = 0;
        AckOutcome { acked, delivered: acked, kind, ..AckOutcome::NONE }
    }

    /// Clears the scoreboard, the count of duplicate acknowledgements, and the transmissions that duplicate
    /// acknowledgements have requested.
    fn forget(&mut self) {
        self.sacked.clear();
        self.repaired = 0;
        self.dupacks = 0;
        self.limited = 0;
        self.in_recovery = false;
        self.retransmit = false;
        self.single = false;
        self.waits = false;
    }

    fn on_ack_in_recovery(&mut self, received: &ReceivedAck) -> AckOutcome {
        if received.ack >= self.recover {
            self.recover = 0;
            return self.advance(received.ack, AckKind::Exit);
        }
        if received.ack > self.una {
            let outcome = self.move_to(received.ack, AckKind::Partial);
            self.sacked.trim(self.una);
            self.record_sacks(received);
            // The lost segment and its retransmission have left the network.
            self.pipe -= 2;
            self.waits = false;
            return outcome;
        }
        let is_new = self.record_sacks(received);
        if !is_new && !received.bare {
            return AckOutcome::NONE;
        }
        self.dupacks += u32::from(is_new);
        self.pipe -= 1;
        self.waits = false;
        AckOutcome { kind: AckKind::Duplicate, ..AckOutcome::NONE }
    }

    fn on_duplicate(&mut self, config: &Config) -> AckKind {
        self.dupacks += 1;
        if self.dupacks < config.recovery.dupthresh {
            self.single = match config.recovery.limited_transmit {
                LimitedTransmit::Off => false,
                LimitedTransmit::New => self.nxt >= self.max,
                LimitedTransmit::Next => true,
            };
            return AckKind::Duplicate;
        }
        self.single = false;
        if self.dupacks > config.recovery.dupthresh
            || !config.recovery.fast_retransmit_guard.allows(self.una, self.recover)
        {
            return AckKind::Duplicate;
        }
        self.recover = self.max;
        let sent = (self.max - self.una).div_ceil(config.connection.mss.bytes());
        self.pipe = sent as i64 - i64::from(config.recovery.dupthresh);
        self.in_recovery = true;
        self.retransmit = true;
        self.waits = true;
        AckKind::Loss
    }

    /// Records all SACK blocks except those that report duplicate data. Returns whether the SACK blocks report new
    /// data.
    fn record_sacks(&mut self, received: &ReceivedAck) -> bool {
        let mut is_new = false;
        for (from, to) in received.sacks.ranges(received.ack) {
            is_new |= from > self.una && self.sacked.add(from, to.min(self.max));
        }
        is_new
    }

    fn find_next(&self, stream: Stream) -> Option<Next> {
        let Windows { congestion, receiver, mss } = self.windows;
        let up_to = |segments: u64| (self.una + segments * mss).min(stream.limit());
        if self.single && self.nxt < up_to((congestion + u64::from(self.dupacks)).min(receiver)) {
            return Some(Next::Single);
        }
        // A window of less than one segment must not block the sender forever.
        let window = congestion.max(1).min(receiver);
        let open = match self.in_recovery {
            true => !self.waits && self.pipe < congestion as i64,
            false => self.nxt < up_to(window),
        };
        if !open {
            return None;
        }
        if let Some((from, to)) = self.sacked.hole(self.repaired.max(self.una)) {
            return (self.recover > 0 && from < up_to(receiver)).then_some(Next::Hole(from, to));
        }
        let bound = if self.in_recovery { receiver } else { window };
        (self.nxt < up_to(bound)).then_some(Next::InSequence)
    }
}

#[cfg(test)]
mod tests;
