//! Recovers losses with SACK, as in ns-2's two-way TCP `Agent/TCP/FullTcp/Sack`.
//!
//! The sources are `tcp-full.cc` (`SackFullTcpAgent`), `tcp-full.h` and `rq.cc` of ns-2.35, with ns-2's defaults. Every
//! acknowledgement without data and without progress is a duplicate acknowledgement, regardless of its SACK blocks. The
//! third duplicate acknowledgement begins a recovery in which `pipe` limits transmission. `pipe` is in bytes, and its
//! initial value is the amount of data that is neither acknowledged nor SACKed. Holes below the highest SACKed byte are
//! retransmitted in order, and only once. Holes are also retransmitted outside a recovery, as long as data that was
//! sent before the last window reduction (caused by a mark, a loss or a timeout) is unacknowledged. A timeout clears
//! the SACK scoreboard, but changes neither `pipe` nor the position up to which holes have been retransmitted, so
//! `sack.at_timeout` has no effect. If three duplicate acknowledgements arrive after a timeout, no segment is sent, and
//! the window does not grow until all data sent before the timeout has been acknowledged.
//!
//! aqmlab's choices where the source is silent or irregular: a pending acknowledgement never triggers the transmission
//! of data; the search for holes never includes data below the acknowledgement number, whereas ns-2 may search there
//! after the receiver's window has limited transmission.

use super::sacked::SackedRanges;
use super::{AckKind, AckOutcome, LossRecovery, ReceivedAck, Stream, TimerContext, Transmission, Windows};
use crate::config::Config;

/// State of a sender that uses `pipe = "ns-2-full"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullTcp {
    /// Oldest unacknowledged byte (`highest_ack_`).
    una: u64,
    /// Next byte in sequence (`t_seqno_`). A timeout resets this number to `una`.
    nxt: u64,
    /// End of all sent data (`maxseq_`).
    max: u64,
    /// End of the data that had been sent when the window was last reduced; 0 before the first reduction (`recover_`).
    recover: u64,
    sacked: SackedRanges,
    /// Sequence number below which all holes have been retransmitted (`h_seqno_`).
    filled: u64,
    /// Number of bytes in the network, as counted by ns-2 (`pipe_`).
    pipe: i64,
    windows: Windows,
    dupacks: u32,
    /// Whether acknowledgements reduce `pipe` (`fastrecov_`).
    in_recovery: bool,
    /// Whether `pipe`, rather than the amount of unacknowledged data, limits transmission (`pipectrl_`).
    controls_pipe: bool,
    /// Whether a mark caused the last reduction of the window (`last_cwnd_action_`).
    marked: bool,
    /// Whether the first unacknowledged segment must be retransmitted.
    retransmit: bool,
    /// Whether a timeout permits the transmission of one segment regardless of `pipe`.
    forced: bool,
    /// Whether transmission is suspended until the next acknowledgement arrives.
    waits: bool,
}

impl LossRecovery for FullTcp {
    /// Implements `FullTcpAgent::recv`, beginning with the call of `process_sack`.
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if received.ack > self.max {
            return AckOutcome::NONE;
        }
        self.waits = false;
        let above = received.sacks.ranges(received.ack).filter(|range| range.0 > self.una);
        above.for_each(|(from, to)| {
            self.sacked.add(from, to.min(self.max));
        });
        let mss = config.connection.mss.bytes() as i64;
        if self.in_recovery && (received.bare || received.ack > self.una) {
            self.pipe -= mss;
        }
        if received.ack > self.una {
            return self.advance(received.ack, mss);
        }
        if !received.bare {
            return AckOutcome::NONE;
        }
        if received.ack < self.una || self.una == self.max {
            self.dupacks = 0;
            return AckOutcome::NONE;
        }
        self.dupacks += 1;
        let reached = self.dupacks == config.recovery.dupthresh;
        let kind = if reached { self.on_threshold() } else { AckKind::Duplicate };
        AckOutcome { kind, ..AckOutcome::NONE }
    }

    /// Implements `SackFullTcpAgent::timeout_action` and `timeout`; a timeout always sends a segment.
    fn on_timeout(&mut self, _at: TimerContext<'_>, _config: &Config) {
        self.sacked.clear();
        self.nxt = self.una;
        self.recover = self.max;
        self.dupacks = 0;
        self.in_recovery = false;
        self.retransmit = false;
        self.forced = true;
        self.waits = false;
    }

    /// Implements `TcpAgent::ecn`, which sets `recover_` in the same way as a loss.
    fn on_mark(&mut self, _delivered: u64, _gradual: bool) {
        self.recover = self.max;
        self.marked = true;
    }

    fn set_windows(&mut self, windows: Windows, _config: &Config) {
        self.windows = windows;
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.retransmit || self.allows(self.next_seq(), stream)
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        self.retransmit || self.forced
    }

    /// Implements `send_much`, `foutput` and `sent`. `pipe` does not include a segment that `dupack_action` sends.
    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Transmission> {
        let retransmit = std::mem::take(&mut self.retransmit);
        let seq = if retransmit { self.una } else { self.next_seq() };
        if !retransmit && !self.allows(seq, stream) {
            return None;
        }
        let len = stream.segment(seq);
        let (is_retransmission, end) = (seq < self.max, seq + len);
        if retransmit {
            self.filled = end;
        } else {
            self.forced = false;
            self.pipe += len as i64;
            // The next segment in sequence also fills a hole if the search for holes has reached this segment.
            let fills = seq != self.nxt || seq == self.filled;
            self.filled = if fills { self.filled.max(end) } else { self.filled };
            self.nxt = if seq == self.nxt { end } else { self.nxt };
        }
        self.max = self.max.max(end);
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
        self.max - self.una
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }
}

impl FullTcp {
    /// Processes an acknowledgement of new data (`newack`, `pack`, `pack_action` and `ack_action`).
    fn advance(&mut self, ack: u64, mss: i64) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.filled = self.filled.max(ack);
        self.sacked.trim(ack);
        let kind = match self.in_recovery {
            true if ack < self.recover => AckKind::Partial,
            true => AckKind::Exit,
            false => AckKind::Advance,
        };
        if kind == AckKind::Partial {
            // The lost segment and its retransmission have left the network.
            self.pipe -= mss;
        } else {
            self.in_recovery = false;
            self.controls_pipe = false;
            self.dupacks = 0;
        }
        AckOutcome { acked, delivered: acked, kind, ..AckOutcome::NONE }
    }

    /// Processes the duplicate acknowledgement that reaches the threshold (`dupack_action`).
    fn on_threshold(&mut self) -> AckKind {
        self.in_recovery = true;
        self.pipe = (self.max - self.una) as i64 - self.sacked.bytes() as i64;
        let recovered = self.una > self.recover || self.recover == 0;
        if !recovered && !self.marked {
            // The window has already been reduced for this loss (`bug_fix_`).
            self.waits = true;
            return AckKind::Duplicate;
        }
        self.marked = false;
        self.recover = self.max;
        self.controls_pipe = true;
        self.retransmit = true;
        if recovered { AckKind::Loss } else { AckKind::LossAfterMark }
    }

    /// Returns the first sequence number of the next segment to send, if the windows permit another segment
    /// (`nxt_tseq`).
    fn next_seq(&self) -> u64 {
        let hole = if self.una < self.recover { self.sacked.hole(self.filled) } else { None };
        hole.map_or(self.nxt, |hole| hole.0)
    }

    /// Returns whether the segment that begins at `seq` may be sent (`send_allowed`).
    fn allows(&self, seq: u64, stream: Stream) -> bool {
        let Windows { congestion, receiver, mss } = self.windows;
        if self.waits || seq >= stream.limit() {
            return false;
        }
        // A window of less than one segment must not block the sender forever.
        let window = congestion.max(1);
        if self.controls_pipe {
            let room = seq < self.una + receiver * mss && self.pipe < (window * mss) as i64;
            room || self.forced
        } else {
            seq < self.una + window.min(receiver) * mss
        }
    }
}

#[cfg(test)]
mod tests;
