//! Recovers losses with SACK. Losses are detected when later data arrives, either by counting or by time.
//!
//! E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo, Y. Nishida, "A Conservative Loss Recovery Algorithm Based on
//! Selective Acknowledgement (SACK) for TCP", RFC 6675, 2012; M. Mathis et al., RFC 2018, 1996, section 8 (effect of a
//! timeout on SACK); S. Floyd et al., RFC 2883, 2000 (D-SACK; data that a D-SACK reports never counts as new data).
//! With RACK-TLP (RFC 8985, in `rack.rs`), losses are detected by time, and probes replace rules (3) and (4) of
//! `NextSeg`.
//!
//! aqmlab's choices where the sources are silent: a segment is sent if `pipe` is below the window, so that `pipe` may
//! exceed the window by a part of a segment, as may also happen without SACK. Recovery also begins when an
//! acknowledgement without SACK blocks advances to a segment that is known to be lost. Recovery does not begin for a
//! segment whose retransmission is in flight. After a timeout, the data sent before the timeout is retransmitted in
//! order, as far as `pipe` permits, and then new data is sent. Losses of new data are repaired only after all data sent
//! before the timeout has been acknowledged. The rescue retransmission (rule (4)) is used only if the last segment has
//! not been SACKed, because every earlier hole is retransmitted anyway. If the oldest segment is SACKed when a timeout
//! occurs, the receiver has discarded this segment, so the scoreboard is always cleared.

mod ack;
mod next_seg;
mod probes;
mod undo;

use aqm_net::Instant;

use super::counted_pipe::CountedPipe;
use super::delivery_rate::DeliveryRate;
use super::full_tcp::FullTcp;
use super::rack::{Rack, RecoveryStatus};
use super::reduction::{Progress, ReductionGoal, WindowReduction};
use super::sent::{Number, Sent};
use super::{
    AckKind, AckOutcome, AnyRecovery, BoxedRecovery, LossRecovery, ReceivedAck, Stream, TimerContext,
    Transmission, Windows,
};
use crate::config::Config;
use crate::config::recovery::{LimitedTransmit, PrrBound, PrrShare, RecoveryKind, Reduction, TimeoutLoses};
use crate::config::rto::{RestartedBy, RttSamples};
use crate::config::sack::{NextSeg, Pipe, SacksAtTimeout};
use crate::congestion_control::RecoveryPhase;
use undo::UndoState;

pub(super) const HAS_SACK: bool = true;

/// Creates the recovery for `sack` and `rack`. If `sack.pipe` specifies that the data in the network is counted as in
/// ns-2, creates one of ns-2's recoveries.
pub(super) fn new(config: &Config) -> AnyRecovery {
    match config.sack.pipe {
        Pipe::Counted if config.recovery.kind == RecoveryKind::Sack => {
            AnyRecovery::other(CountedPipe::default())
        }
        Pipe::Ns2Full if config.recovery.kind == RecoveryKind::Sack => AnyRecovery::other(FullTcp::default()),
        _ => AnyRecovery::Boxed(BoxedRecovery::Selective(Box::new(Selective::new(config)))),
    }
}

/// State of a sender that uses SACK.
#[derive(Clone, Debug)]
pub(crate) struct Selective {
    sent: Sent,
    /// Maximum number of bytes that may be in the network.
    window: u64,
    /// Sequence number at which the receiver's window ends.
    receiver_end: u64,
    phase: Phase,
    dupacks: u32,
    /// Number of bytes sent by limited transmit since the last acknowledgement of new data.
    limited: u64,
    /// End of the data that had been sent when the last loss was detected (`RecoveryPoint`).
    recover: u64,
    /// Whether the first retransmission of a recovery must be sent regardless of the window.
    urgent: bool,
    /// First segment that rule (3) considers (`HighRxt`).
    high_rxt: Number,
    /// Byte that must be acknowledged before rule (4) applies (`RescueRxt`).
    rescue: u64,
    reduction: WindowReduction,
    /// Number of bytes delivered by the acknowledgement that began the recovery.
    entry: u64,
    /// Whether the recovery began while a mark was reducing the window.
    marked_before: bool,
    /// If the last acknowledgement showed that a probe repaired a loss: amount of data that was in flight when the
    /// probe was sent; otherwise 0.
    probe_flight: u64,
    rack: Option<Box<Rack>>,
    mss: u64,
    reduction_rules: (Reduction, PrrBound, PrrShare),
    /// Whether the first of the segments that have newly arrived is used to measure the round-trip time.
    samples_first: bool,
    next_seg: NextSeg,
    /// Whether the probe timer behaves as in Linux.
    linux_timers: bool,
    /// Whether the probe timer must be reset before the next transmission, using the latest round-trip sample.
    reschedule: bool,
    undo: UndoState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The window is decreasing after an ECN mark, and no data is known to be lost.
    Marked,
    /// Fast recovery.
    Recovery,
    /// The phase from a timeout until all data sent before the timeout has been acknowledged.
    Loss,
}

impl Phase {
    /// Returns whether no data is known to be lost.
    #[inline]
    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Marked)
    }
}

impl Selective {
    pub fn new(config: &Config) -> Self {
        let mss = config.connection.mss.bytes();
        Self {
            sent: Sent::new(mss),
            window: 0,
            receiver_end: 0,
            phase: Phase::Open,
            dupacks: 0,
            limited: 0,
            recover: 0,
            urgent: false,
            high_rxt: 0,
            rescue: 0,
            reduction: WindowReduction::AtOnce,
            entry: 0,
            marked_before: false,
            probe_flight: 0,
            rack: (config.recovery.kind == RecoveryKind::Rack).then(Box::default),
            mss,
            reduction_rules: (
                config.recovery.reduction,
                config.recovery.prr_bound,
                config.recovery.prr_share,
            ),
            samples_first: config.rto.samples == RttSamples::FirstSegment,
            next_seg: config.sack.next_seg,
            linux_timers: config.rto.restarted_by == RestartedBy::OldestSegment,
            reschedule: false,
            undo: UndoState::default(),
        }
    }
}

impl LossRecovery for Selective {
    #[inline]
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if let Some(outcome) = self.on_expected_ack(received, at) {
            return outcome;
        }
        if received.ack > self.sent.end() {
            return AckOutcome::NONE;
        }
        self.on_full_ack(received, at, config)
    }

    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config) {
        if self.sent.una() == self.sent.end() {
            return;
        }
        let discarded = self.sent.is_sacked(self.sent.first());
        let spares = config.recovery.timeout_loses == TimeoutLoses::Late && !discarded;
        let since = self.rack.as_ref().filter(|_| spares).and_then(|rack| rack.since(at.now));
        self.sent.lose_all(discarded || config.sack.at_timeout == SacksAtTimeout::Forgotten, since);
        self.note_timeout(config);
        self.phase = Phase::Loss;
        self.recover = self.sent.end();
        self.dupacks = 0;
        self.limited = 0;
        self.probe_flight = 0;
        self.urgent = false;
        self.reduction = WindowReduction::AtOnce;
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
    }

    fn on_timer(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        let probe_due = at.now >= self.probe_timer();
        let Some(rack) = &mut self.rack else { return AckOutcome::NONE };
        if self.linux_timers {
            rack.probe.at = if probe_due { Instant::NEVER } else { rack.probe.at };
            rack.probe.due |= probe_due && !rack.probe.is_out();
        } else {
            rack.probe.due |= probe_due;
        }
        rack.probe.on_timer_start(at);
        self.probe_flight = 0;
        let since = match self.sent.oldest() {
            Some(oldest) if self.linux_timers && !rack.probe.due => oldest,
            _ => Instant::NEVER,
        };
        if at.now < rack.reordering_timer {
            return AckOutcome { since, ..AckOutcome::NONE };
        }
        let recovering = !self.phase.is_open();
        let status = RecoveryStatus { recovering, dupthresh: config.recovery.dupthresh };
        let losses = self.sent.losses();
        let timer = rack.find_losses(&mut self.sent, at, status);
        rack.reordering_timer = if self.linux_timers { Instant::NEVER } else { timer };
        if self.begins(self.sent.losses() > losses, config) {
            // Linux counts one segment as delivered (`tcp_rack_reo_timeout`).
            let delivered = if self.linux_timers { self.mss } else { 0 };
            self.enter(delivered, at, config);
            return AckOutcome { kind: AckKind::Loss, since, ..AckOutcome::NONE };
        }
        if !self.linux_timers {
            self.reduction.on_timer(self.sent.pipe());
            self.window = self.reduction.window().unwrap_or(self.window);
        }
        AckOutcome { since, ..AckOutcome::NONE }
    }

    #[inline]
    fn timer(&self) -> Instant {
        match &self.rack {
            Some(rack) => rack.reordering_timer.min(self.probe_timer()),
            None => Instant::NEVER,
        }
    }

    fn on_reduction(&mut self, from: f64, to: f64) {
        let flight = self.sent.end() - self.sent.una();
        let continues = std::mem::take(&mut self.marked_before);
        if !matches!(self.phase, Phase::Recovery | Phase::Marked) || flight == 0 {
            return;
        }
        let bytes = |segments: f64| (segments * self.mss as f64) as u64;
        let goal = ReductionGoal { from: bytes(from), to: bytes(to), flight, mss: self.mss };
        let safe = self.phase == Phase::Marked;
        let entry = Progress { delivered: self.entry, pipe: self.sent.pipe(), safe };
        if continues {
            self.reduction.on_ack(entry);
            return;
        }
        let (reduction, bound, share) = self.reduction_rules;
        let goal = match share {
            // RFC 9937, section 6.1: data that was SACKed before recovery is not delivered during recovery.
            _ if reduction == Reduction::Rfc9937 => {
                ReductionGoal { flight: flight - self.sent.sacked().bytes + self.entry, ..goal }
            }
            PrrShare::Flight => goal,
            PrrShare::Window => ReductionGoal { flight: goal.from, ..goal },
        };
        self.reduction = WindowReduction::new(reduction, bound, goal, entry);
    }

    fn on_mark(&mut self, delivered: u64, gradual: bool) {
        if gradual && self.phase == Phase::Open {
            self.phase = Phase::Marked;
            self.recover = self.sent.end();
            self.entry = delivered;
        }
    }

    #[inline]
    fn set_windows(&mut self, windows: Windows, config: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        self.receiver_end = self.sent.una() + receiver * mss;
        self.window = self.reduction.window().unwrap_or(congestion.max(1) * mss);
        if config.recovery.limited_transmit == LimitedTransmit::Off && self.phase == Phase::Open {
            // SACKed data has left the network, but must not permit further transmissions.
            self.window = self.window.saturating_sub(self.sent.sacked().bytes);
        }
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.choose(stream).is_some()
    }

    fn is_urgent(&self, config: &Config) -> bool {
        let probe_due = self.rack.as_ref().is_some_and(|rack| rack.probe.due);
        let limited = self.phase == Phase::Open && (1..config.recovery.dupthresh).contains(&self.dupacks);
        self.urgent || probe_due || limited
    }

    #[inline]
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission> {
        if self.reschedule && !self.linux_timers {
            self.reschedule = false;
            self.restart_probe(at);
        }
        let probe_due = self.rack.as_ref().is_some_and(|rack| self.linux_timers || rack.probe.due);
        if self.phase != Phase::Open || probe_due {
            return self.next_chosen(stream, at);
        }
        // If no loss is known and no probe is due, this fast path has the same result as `choose`.
        if !self.has_room() {
            return None;
        }
        let len = self.fresh(stream)?;
        self.limited += if self.dupacks > 0 { len } else { 0 };
        Some(self.send(len, at))
    }

    #[inline]
    fn una(&self) -> u64 {
        self.sent.una()
    }

    #[inline]
    fn sent(&self) -> u64 {
        self.sent.end()
    }

    #[inline]
    fn outstanding(&self) -> u64 {
        self.sent.pipe()
    }

    fn is_full(&self, _window: u64) -> bool {
        self.sent.pipe() >= self.window
    }

    fn flight(&self) -> u64 {
        (self.sent.end() - self.sent.una() - self.limited).max(self.probe_flight)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }

    fn records_times(&self) -> bool {
        true
    }

    fn phase(&self) -> RecoveryPhase {
        match self.phase {
            Phase::Open => RecoveryPhase::Open,
            Phase::Marked => RecoveryPhase::Marked,
            Phase::Recovery => RecoveryPhase::Recovery,
            Phase::Loss => RecoveryPhase::Loss,
        }
    }

    fn has_lost(&self) -> bool {
        self.sent.due().is_some()
    }

    fn measure_rate(&mut self, is_on: bool) {
        self.sent.measure_rate(is_on);
    }

    fn rate(&mut self) -> Option<&mut DeliveryRate> {
        self.sent.rate()
    }
}

impl Selective {
    /// Returns whether `next` may return another segment or may have to update its state. If the result is `false`,
    /// calling `next` is unnecessary; if the result is `true`, calling `next` may still have no effect.
    #[inline(always)]
    pub fn may_send(&self) -> bool {
        self.has_room()
            || self.urgent
            || self.rack.as_ref().is_some_and(|rack| self.reschedule || rack.probe.due)
    }
}

#[cfg(test)]
mod tests;
