//! Loss recovery with SACK of ns-2's two-way TCP: `Agent/TCP/FullTcp/Sack`.
//!
//! `tcp-full.cc` (`SackFullTcpAgent`), `tcp-full.h` and `rq.cc` of ns-2.35 with ns-2's defaults. Every acknowledgement
//! that brings no data and no progress is a duplicate, whatever SACK tells. The third begins a recovery in which
//! `pipe`, in bytes, says how much may leave; it begins as what is neither acknowledged nor SACKed. Holes below
//! the highest SACKed byte are filled in order and once, also without a recovery while data is not acknowledged
//! that had been sent before the last reduction: by a mark, a loss or a time-out. A time-out forgets what SACK
//! reported, but neither `pipe` nor up to where holes were filled (so `sacks_at_timeout` has no say); three
//! duplicates behind it send nothing, but close the window to growth until all before it is acknowledged.
//!
//! Ours, where the source is silent or odd: an acknowledgement that is due never pushes data into the network; holes
//! are not looked for below what is acknowledged, which ns-2 may do after a window that the receiver's bounded.

use super::sacked::SackedRanges;
use super::{AckKind, AckOutcome, LossRecovery, ReceivedAck, Sending, Stream, TimerContext, Windows};
use crate::config::Config;

/// What the sender knows with `pipe = "ns-2-full"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullTcp {
    /// Everything below is acknowledged (`highest_ack_`).
    una: u64,
    /// The next byte in line; falls back to `una` at a time-out (`t_seqno_`).
    nxt: u64,
    /// Everything below has been sent (`maxseq_`).
    max: u64,
    /// What had been sent at the last reduction; 0 before the first (`recover_`).
    recover: u64,
    sacked: SackedRanges,
    /// Holes below have been filled (`h_seqno_`).
    filled: u64,
    /// Bytes in the network, as counted (`pipe_`).
    pipe: i64,
    windows: Windows,
    dupacks: u32,
    /// Whether acknowledgements take something out of `pipe` (`fastrecov_`).
    in_recovery: bool,
    /// Whether `pipe` says how much may leave, and not the window (`pipectrl_`).
    controls_pipe: bool,
    /// Whether a mark was the last to reduce the window (`last_cwnd_action_`).
    marked: bool,
    /// The first segment is to be sent again.
    retransmit: bool,
    /// A time-out lets one segment leave, whatever `pipe` says.
    forced: bool,
    /// Nothing leaves before the next acknowledgement.
    waits: bool,
}

impl LossRecovery for FullTcp {
    /// `FullTcpAgent::recv`, from `process_sack` on.
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
        let what = if reached { self.on_threshold() } else { AckKind::Duplicate };
        AckOutcome { what, ..AckOutcome::NONE }
    }

    /// `SackFullTcpAgent::timeout_action`, and `timeout`, which sends a segment by force.
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

    /// `TcpAgent::ecn` sets `recover_` as a loss does.
    fn on_mark(&mut self, _delivered: u64, _falls: bool) {
        self.recover = self.max;
        self.marked = true;
    }

    fn set_windows(&mut self, windows: Windows, _config: &Config) {
        self.windows = windows;
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.retransmit || self.allows(self.next_in_turn(), stream)
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        self.retransmit || self.forced
    }

    /// `send_much`, `foutput` and `sent`; a segment that `dupack_action` sends is not counted in `pipe`.
    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Sending> {
        let retransmit = std::mem::take(&mut self.retransmit);
        let seq = if retransmit { self.una } else { self.next_in_turn() };
        if !retransmit && !self.allows(seq, stream) {
            return None;
        }
        let len = stream.segment(seq);
        let (again, end) = (seq < self.max, seq + len);
        if retransmit {
            self.filled = end;
        } else {
            self.forced = false;
            self.pipe += len as i64;
            // What is in line fills holes, too, if it is where these are looked for.
            let fills = seq != self.nxt || seq == self.filled;
            self.filled = if fills { self.filled.max(end) } else { self.filled };
            self.nxt = if seq == self.nxt { end } else { self.nxt };
        }
        self.max = self.max.max(end);
        Some(Sending { seq, len, again })
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
    /// New data is acknowledged (`newack`, `pack`, `pack_action` and `ack_action`).
    fn advance(&mut self, ack: u64, mss: i64) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.filled = self.filled.max(ack);
        self.sacked.trim(ack);
        let what = match self.in_recovery {
            true if ack < self.recover => AckKind::Partial,
            true => AckKind::Exit,
            false => AckKind::Advance,
        };
        if what == AckKind::Partial {
            // Both the segment that was lost and the one sent in its place have left the network.
            self.pipe -= mss;
        } else {
            self.in_recovery = false;
            self.controls_pipe = false;
            self.dupacks = 0;
        }
        AckOutcome { acked, delivered: acked, what, ..AckOutcome::NONE }
    }

    /// There are as many duplicates as mean a loss (`dupack_action`).
    fn on_threshold(&mut self) -> AckKind {
        self.in_recovery = true;
        self.pipe = (self.max - self.una) as i64 - self.sacked.bytes() as i64;
        let recovered = self.una > self.recover || self.recover == 0;
        if !recovered && !self.marked {
            // The window was reduced for it already (`bug_fix_`).
            self.waits = true;
            return AckKind::Duplicate;
        }
        self.marked = false;
        self.recover = self.max;
        self.controls_pipe = true;
        self.retransmit = true;
        if recovered { AckKind::Loss } else { AckKind::LossBehindMark }
    }

    /// What goes next if anything may (`nxt_tseq`).
    fn next_in_turn(&self) -> u64 {
        let hole = if self.una < self.recover { self.sacked.hole(self.filled) } else { None };
        hole.map_or(self.nxt, |hole| hole.0)
    }

    /// Whether a segment may leave that begins at `seq` (`send_allowed`).
    fn allows(&self, seq: u64, stream: Stream) -> bool {
        let Windows { congestion, receiver, mss } = self.windows;
        if self.waits || seq >= stream.limit() {
            return false;
        }
        // A fraction of a segment must not stop the sender for good.
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
