//! Loss recovery with SACK: what is lost follows from what has arrived, by counting or by time.
//!
//! E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo, Y. Nishida, "A Conservative Loss Recovery Algorithm
//! Based on Selective Acknowledgement (SACK) for TCP", RFC 6675, 2012; M. Mathis et al., RFC 2018, 1996,
//! section 8 (what a time-out does to SACK); S. Floyd et al., RFC 2883, 2000 (D-SACK, which is never taken
//! for new data). With RACK-TLP (RFC 8985, in `rack.rs`) time decides what is lost, and rules (3) and (4) of
//! `NextSeg` give way to probes.
//!
//! Ours, where the sources are silent: a segment is sent if `pipe` is below the window, so that it may
//! overshoot by part of a segment, as without SACK. Recovery also begins with an acknowledgement that brings
//! no SACK but moves on to a segment known to be lost; it does not begin for one whose retransmission is in
//! flight already. After a time-out, what was sent before it is sent again in order as `pipe` allows, then
//! new data; losses among that wait until all before is acknowledged. The rescue retransmission (rule (4))
//! is for a tail without SACK: every hole before has its own. If a time-out finds the oldest segment SACKed,
//! the receiver has discarded it, and what SACK reported is forgotten in any case.

mod ack;
mod next_seg;
mod probes;
mod undo;

use aqm_net::Instant;

use super::counted_pipe::CountedPipe;
use super::full_tcp::FullTcp;
use super::rack::{Rack, Round};
use super::reduction::{Descent, Falling, Progress};
use super::sent::{Number, Sent};
use super::{
    AckKind, AckOutcome, AnyRecovery, Apart, LossRecovery, ReceivedAck, Sending, Stream, TimerContext,
    Windows,
};
use crate::config::Config;
use crate::config::recovery::{LimitedTransmit, PrrBound, PrrShare, RecoveryKind, Reduction, TimeoutLoses};
use crate::config::rto::{RestartedBy, RttSamples};
use crate::config::sack::{NextSeg, Pipe, SacksAtTimeout};
use undo::Undoing;

pub(super) const HAS_SACK: bool = true;

/// The recovery of `sack` and `rack`, and those of ns-2 where `sack` only counts what is in the network.
pub(super) fn new(config: &Config) -> AnyRecovery {
    match config.sack.pipe {
        Pipe::Counted if config.recovery.kind == RecoveryKind::Sack => {
            AnyRecovery::other(CountedPipe::default())
        }
        Pipe::Ns2Full if config.recovery.kind == RecoveryKind::Sack => AnyRecovery::other(FullTcp::default()),
        _ => AnyRecovery::Apart(Apart::Selective(Box::new(Selective::new(config)))),
    }
}

/// What a sender with SACK knows of its segments and of its recovery.
#[derive(Clone, Debug)]
pub(crate) struct Selective {
    sent: Sent,
    /// Bytes that may be in the network.
    window: u64,
    /// Where the receiver's window ends.
    receiver_end: u64,
    phase: Phase,
    dupacks: u32,
    /// Bytes sent by limited transmit since the last new acknowledgement.
    limited: u64,
    /// What had been sent when the last loss was noticed (`RecoveryPoint`).
    recover: u64,
    /// The first retransmission of a recovery is to be sent, whatever the window.
    urgent: bool,
    /// Where rule (3) goes on (`HighRxt`).
    doubted: Number,
    /// Rule (4) waits for this to be acknowledged (`RescueRxt`).
    rescue: u64,
    falling: Falling,
    /// What the acknowledgement brought that began the recovery.
    entry: u64,
    /// It began while the window came down behind a mark.
    marked_before: bool,
    /// What was in flight when a probe left that repaired a loss, if that was the last to happen.
    probed: u64,
    rack: Option<Box<Rack>>,
    mss: u64,
    reduction: (Reduction, PrrBound, PrrShare),
    /// Whether round trips are those of the first segment that arrived.
    first_timed: bool,
    doubtful: NextSeg,
    /// Whether the timer of the probe is set as Linux does.
    scheduled: bool,
    /// It is to be set anew before anything is sent, with what the acknowledgement told of the round trip.
    reschedule: bool,
    undoing: Undoing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The window comes down behind a mark; nothing is lost.
    Marked,
    /// Fast recovery.
    Recovery,
    /// After a time-out, until all that was sent before is acknowledged.
    Loss,
}

impl Phase {
    /// Whether nothing is known to be lost.
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
            doubted: 0,
            rescue: 0,
            falling: Falling::AtOnce,
            entry: 0,
            marked_before: false,
            probed: 0,
            rack: (config.recovery.kind == RecoveryKind::Rack).then(Box::default),
            mss,
            reduction: (config.recovery.reduction, config.recovery.prr_bound, config.recovery.prr_share),
            first_timed: config.rto.samples == RttSamples::FirstSegment,
            doubtful: config.sack.next_seg,
            scheduled: config.rto.restarted_by == RestartedBy::OldestSegment,
            reschedule: false,
            undoing: Undoing::default(),
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
        self.probed = 0;
        self.urgent = false;
        self.falling = Falling::AtOnce;
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
    }

    fn on_timer(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        let probes = at.now >= self.probe_timer();
        let Some(rack) = &mut self.rack else { return AckOutcome::NONE };
        if self.scheduled {
            rack.probe.at = if probes { Instant::NEVER } else { rack.probe.at };
            rack.probe.due |= probes && !rack.probe.is_out();
        } else {
            rack.probe.due |= probes;
        }
        rack.probe.on_timer_start(at);
        self.probed = 0;
        let since = match self.sent.oldest() {
            Some(oldest) if self.scheduled && !rack.probe.due => oldest,
            _ => Instant::NEVER,
        };
        if at.now < rack.reordering_timer {
            return AckOutcome { since, ..AckOutcome::NONE };
        }
        let recovering = !self.phase.is_open();
        let round = Round { recovering, dupthresh: config.recovery.dupthresh };
        let losses = self.sent.losses();
        let timer = rack.find_losses(&mut self.sent, at, round);
        rack.reordering_timer = if self.scheduled { Instant::NEVER } else { timer };
        if self.begins(self.sent.losses() > losses, config) {
            // Linux counts a segment as delivered (`tcp_rack_reo_timeout`).
            let delivered = if self.scheduled { self.mss } else { 0 };
            self.enter(delivered, at, config);
            return AckOutcome { what: AckKind::Loss, since, ..AckOutcome::NONE };
        }
        if !self.scheduled {
            self.falling.on_timer(self.sent.pipe());
            self.window = self.falling.window().unwrap_or(self.window);
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
        let goes_on = std::mem::take(&mut self.marked_before);
        if !matches!(self.phase, Phase::Recovery | Phase::Marked) || flight == 0 {
            return;
        }
        let bytes = |segments: f64| (segments * self.mss as f64) as u64;
        let descent = Descent { from: bytes(from), to: bytes(to), flight, mss: self.mss };
        let safe = self.phase == Phase::Marked;
        let entry = Progress { delivered: self.entry, pipe: self.sent.pipe(), safe };
        if goes_on {
            self.falling.on_ack(entry);
            return;
        }
        let (reduction, bound, share) = self.reduction;
        let descent = match share {
            PrrShare::Flight => descent,
            PrrShare::Window => Descent { flight: descent.from, ..descent },
        };
        self.falling = Falling::new(reduction, bound, descent, entry);
    }

    fn on_mark(&mut self, delivered: u64, falls: bool) {
        if falls && self.phase == Phase::Open {
            self.phase = Phase::Marked;
            self.recover = self.sent.end();
            self.entry = delivered;
        }
    }

    #[inline(never)]
    fn set_windows(&mut self, windows: Windows, config: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        self.receiver_end = self.sent.una() + receiver * mss;
        self.window = self.falling.window().unwrap_or(congestion.max(1) * mss);
        if config.recovery.limited_transmit == LimitedTransmit::Off && self.phase == Phase::Open {
            // What SACK covers leaves the network but makes no room.
            self.window = self.window.saturating_sub(self.sent.sacked().bytes);
        }
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.choose(stream).is_some()
    }

    fn is_urgent(&self, config: &Config) -> bool {
        let probes = self.rack.as_ref().is_some_and(|rack| rack.probe.due);
        let limited = self.phase == Phase::Open && (1..config.recovery.dupthresh).contains(&self.dupacks);
        self.urgent || probes || limited
    }

    #[inline]
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending> {
        if self.reschedule && !self.scheduled {
            self.reschedule = false;
            self.restart_probe(at);
        }
        let probes = self.rack.as_ref().is_some_and(|rack| self.scheduled || rack.probe.due);
        if self.phase != Phase::Open || probes {
            return self.next_chosen(stream, at);
        }
        // What `choose` comes to without a loss in sight and no probe to send, only faster.
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
        (self.sent.end() - self.sent.una() - self.limited).max(self.probed)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }

    fn keeps_times(&self) -> bool {
        true
    }
}

impl Selective {
    /// Whether `next` may have another segment, or something to set if it has not; it says so in doubt.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.has_room()
            || self.urgent
            || self.rack.as_ref().is_some_and(|rack| self.reschedule || rack.probe.due)
    }
}

#[cfg(test)]
mod tests;
