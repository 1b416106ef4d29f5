//! Loss recovery with SACK: what is lost follows from what has arrived, by counting or by time.
//!
//! E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo, Y. Nishida, "A Conservative Loss Recovery Algorithm
//! Based on Selective Acknowledgment (SACK) for TCP", RFC 6675, 2012; M. Mathis et al., RFC 2018, 1996,
//! section 8 (what a time-out does to SACK); S. Floyd et al., RFC 2883, 2000 (D-SACK, which is never taken
//! for news). With RACK-TLP (RFC 8985, in `rack.rs`) time decides what is lost, and rules (3) and (4) of
//! `NextSeg` give way to probes.
//!
//! Ours, where the sources are silent: a segment is sent if `pipe` is below the window, so that it may
//! overshoot by part of a segment, as without SACK. Recovery also begins with an acknowledgement that brings
//! no SACK but moves on to a segment known to be lost; it does not begin for one whose retransmission is in
//! flight already. After a time-out, what was sent before it is sent again in order as `pipe` allows, then
//! new data; losses among that wait until all before is acknowledged. The rescue retransmission (rule (4))
//! is for a tail without SACK: every hole before has its own. If a time-out finds the oldest segment SACKed,
//! the receiver has discarded it, and what SACK told is forgotten in any case.

use aqm_net::{Instant, Span};

use super::rack::{Rack, Round, duplicate};
use super::reduction::{Descent, Falling, Progress};
use super::sent::{Arrival, Number, Sent};
use super::{AckKind, AckOutcome, LossRecovery, ReceivedAck, Sending, Stream, TimerContext, Windows};
use crate::config::Config;
use crate::config::recovery::{
    Frto, LimitedTransmit, PrrBound, PrrShare, RecoveryKind, Reduction, TimeoutLoses, Undo,
};
use crate::config::rto::{RestartedBy, RttSamples};
use crate::config::sack::{NextSeg, SacksAtTimeout};

/// The board of a sender with SACK.
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
    /// It is to be set anew before anything is sent.
    reschedule: bool,
    undo: Option<Undoing>,
    /// Where the acknowledgement stood at the last time-out.
    timed_out_at: Option<u64>,
    spurious: Spurious,
}

/// What may yet show that a reduction was needless (Linux: `undo_marker`, `undo_retrans`).
#[derive(Clone, Copy, Debug)]
struct Undoing {
    /// Everything below was acknowledged when the window was reduced.
    from: u64,
    /// Retransmissions since that D-SACK has not told of; none if there was no retransmission.
    open: Option<u64>,
}

/// How far F-RTO has got (RFC 5682, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spurious {
    /// It does not look.
    Off,
    /// The oldest segment is sent again.
    Waits,
    /// New data goes first.
    Tries,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery.
    Recovery,
    /// After a time-out, until all that was sent before is acknowledged.
    Loss,
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A segment that is lost (rule (1) of `NextSeg`).
    Lost(Number),
    /// New data of so many sequence numbers (rule (2)).
    New(u64),
    /// A segment that may be lost (rule (3)).
    NextSeg(Number),
    /// The last segment (rule (4), or a probe).
    Last(Number),
    /// New data, as a probe.
    NewProbe(u64),
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
            probed: 0,
            rack: (config.recovery.kind == RecoveryKind::Rack).then(Box::default),
            mss,
            reduction: (config.recovery.reduction, config.recovery.prr_bound, config.recovery.prr_share),
            first_timed: config.rto.samples == RttSamples::FirstSegment,
            doubtful: config.sack.next_seg,
            scheduled: config.rto.restarted_by == RestartedBy::OldestSegment,
            reschedule: false,
            undo: None,
            timed_out_at: None,
            spurious: Spurious::Off,
        }
    }
}

impl LossRecovery for Selective {
    #[inline]
    fn on_ack(&mut self, ack_info: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if ack_info.ack > self.sent.end() {
            return AckOutcome::NONE;
        }
        if self.rack.is_none()
            && ack_info.sacks.is_empty()
            && self.sent.is_plain()
            && self.phase == Phase::Open
        {
            return self.on_plain_ack(ack_info.ack);
        }
        self.on_full_ack(ack_info, at, config)
    }

    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config) {
        if self.sent.una() == self.sent.end() {
            return;
        }
        let repeated = self.timed_out_at == Some(self.sent.una());
        self.timed_out_at = Some(self.sent.una());
        if self.phase == Phase::Open || (self.phase == Phase::Loss && !repeated) {
            self.begin_undo(config);
        }
        let looks = config.recovery.frto == Frto::On && (self.phase == Phase::Open || repeated);
        self.spurious = if looks { Spurious::Waits } else { Spurious::Off };
        self.phase = Phase::Loss;
        self.recover = self.sent.end();
        self.dupacks = 0;
        self.limited = 0;
        self.probed = 0;
        self.urgent = false;
        self.falling = Falling::AtOnce;
        let discarded = self.sent.is_sacked(self.sent.first());
        let spares = config.recovery.timeout_loses == TimeoutLoses::Late;
        let since = self.rack.as_ref().filter(|_| spares).and_then(|rack| rack.since(at.now));
        self.sent.lose_all(discarded || config.sack.at_timeout == SacksAtTimeout::Forgotten, since);
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
    }

    fn on_alarm(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        let probes = at.now >= self.probe_alarm();
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
        if at.now < rack.alarm {
            return AckOutcome { since, ..AckOutcome::NONE };
        }
        let recovering = self.phase != Phase::Open;
        rack.find_losses(&mut self.sent, at, Round { recovering, dupthresh: config.recovery.dupthresh });
        if self.begins(config) {
            // Linux counts a segment as delivered (`tcp_rack_reo_timeout`).
            let delivered = if self.scheduled { self.mss } else { 0 };
            self.enter(delivered, at, config);
            return AckOutcome { what: AckKind::Loss, since, ..AckOutcome::NONE };
        }
        self.falling.on_alarm(self.sent.pipe());
        self.window = self.falling.window().unwrap_or(self.window);
        AckOutcome { since, ..AckOutcome::NONE }
    }

    #[inline]
    fn alarm(&self) -> Instant {
        match &self.rack {
            Some(rack) => rack.alarm.min(self.probe_alarm()),
            None => Instant::NEVER,
        }
    }

    fn on_reduction(&mut self, from: f64, to: f64) {
        let flight = self.sent.end() - self.sent.una();
        if self.phase != Phase::Recovery || flight == 0 {
            return;
        }
        let bytes = |segments: f64| (segments * self.mss as f64) as u64;
        let descent = Descent { from: bytes(from), to: bytes(to), flight, mss: self.mss };
        let entry = Progress { delivered: self.entry, pipe: self.sent.pipe(), safe: false };
        let (reduction, bound, share) = self.reduction;
        let descent = match share {
            PrrShare::Flight => descent,
            PrrShare::Window => Descent { flight: descent.from, ..descent },
        };
        self.falling = Falling::new(reduction, bound, descent, entry);
    }

    #[inline]
    fn open(&mut self, windows: Windows, config: &Config) {
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
        if self.phase != Phase::Open || self.rack.is_some() {
            return self.next_chosen(stream, at);
        }
        // What `choose` comes to without a loss in sight, only faster.
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
}

/// An acknowledgement that was taken in.
struct Judged<'a> {
    ack_info: &'a ReceivedAck<'a>,
    arrival: &'a Arrival,
    acked: u64,
    /// Whether it ends a recovery.
    ends: bool,
}

impl Selective {
    /// Nothing is missing, as far as is known. It does what the long way does, only faster.
    #[inline]
    fn on_plain_ack(&mut self, ack: u64) -> AckOutcome {
        self.probed = 0;
        if ack <= self.sent.una() {
            return AckOutcome::NONE;
        }
        self.dupacks = 0;
        self.limited = 0;
        let acked = ack - self.sent.una();
        let left = self.sent.acknowledge_plain(ack);
        let sent = left.map_or(Instant::NEVER, |(first, last)| if self.first_timed { first } else { last });
        AckOutcome { acked, delivered: acked, sent, what: AckKind::Advance, ..AckOutcome::NONE }
    }

    /// Something is missing, or may be found to be.
    #[inline(never)]
    fn on_full_ack(&mut self, ack_info: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        let mut arrival = Arrival::new(self.rack.as_ref().and_then(|rack| rack.credible(at)));
        let acked = ack_info.ack.saturating_sub(self.sent.una());
        if acked > 0 {
            self.sent.acknowledge(ack_info.ack, &mut arrival);
            self.dupacks = 0;
            self.limited = 0;
        }
        let sacked = !ack_info.sacks.is_empty() && self.take_in(ack_info, &mut arrival);
        let delayed = self.is_delayed();
        let before = self.phase;
        let losses = self.sent.losses();
        let mut undone = self.is_undone(ack_info, acked);
        undone |= self.is_spurious(&arrival, sacked, acked);
        if undone {
            self.spurious = Spurious::Off;
            self.undo = None;
            self.sent.lose_none();
            self.phase = Phase::Open;
            self.falling = Falling::AtOnce;
        }
        let ends = acked > 0 && self.phase != Phase::Open && self.sent.una() >= self.recover;
        if ends {
            self.phase = Phase::Open;
            self.falling = Falling::AtOnce;
        }
        self.urgent &= !ends && self.sent.due().is_some();
        self.dupacks += u32::from(sacked && self.phase != Phase::Recovery);
        let lost = self.judge(&Judged { ack_info, arrival: &arrival, acked, ends }, at, config);
        let what = match before {
            _ if lost => AckKind::Loss,
            Phase::Open if self.scheduled && self.probed > 0 => AckKind::Repaired,
            Phase::Recovery if ends || undone => AckKind::Exit,
            Phase::Recovery if acked > 0 => AckKind::Partial,
            _ if acked > 0 => AckKind::Advance,
            _ if sacked => AckKind::Duplicate,
            _ => AckKind::Stale,
        };
        if what == AckKind::Partial || (what == AckKind::Duplicate && before == Phase::Recovery) {
            let safe = acked > 0 && self.sent.losses() == losses;
            self.falling.on_ack(Progress { delivered: arrival.bytes, pipe: self.sent.pipe(), safe });
        }
        // The oldest left after what SACK tells of: the time-out is to be counted from now.
        let restarts = acked == 0 && arrival.first_sacked.is_some_and(|left| self.sent.oldest() > Some(left));
        let mut since = Instant::NEVER;
        if self.scheduled
            && (acked > 0 || restarts)
            && let Some(rack) = &mut self.rack
        {
            rack.probe.at = Instant::NEVER;
            self.reschedule = self.phase == Phase::Open && self.sent.is_plain();
            if delayed && !self.reschedule {
                since = self.sent.oldest().unwrap_or(since);
            }
        }
        let sent = if self.first_timed {
            arrival.first.filter(|_| !arrival.twice).or(arrival.first_sacked)
        } else {
            arrival.once.map(|stamp| stamp.sent)
        };
        AckOutcome {
            acked,
            delivered: arrival.bytes,
            sent: sent.unwrap_or(Instant::NEVER),
            undone,
            restarts,
            since,
            what,
        }
    }

    /// Whether another timer runs in place of that of the time-out, which then counts from when the oldest
    /// segment left (Linux: `tcp_rearm_rto`).
    fn is_delayed(&self) -> bool {
        let timer = self.rack.as_ref().filter(|_| self.scheduled);
        timer.is_some_and(|rack| rack.probe.at.min(rack.alarm) != Instant::NEVER)
    }

    /// Takes in what SACK tells; whether it is news.
    fn take_in(&mut self, ack_info: &ReceivedAck, arrival: &mut Arrival) -> bool {
        let mut outcome = false;
        for (from, to) in ack_info.sacks.ranges(ack_info.ack) {
            outcome |= self.sent.sack(from, to, arrival);
        }
        outcome
    }

    /// Looks for losses after an acknowledgement; whether a recovery begins.
    #[inline]
    fn judge(&mut self, judged: &Judged<'_>, at: TimerContext<'_>, config: &Config) -> bool {
        self.probed = 0;
        if let Some(rack) = &mut self.rack {
            let Judged { ack_info, arrival, acked, ends } = *judged;
            rack.on_arrival(arrival, at.now);
            rack.adapt(ack_info, &self.sent, ends);
            let recovering = self.phase != Phase::Open;
            rack.find_losses(&mut self.sent, at, Round { recovering, dupthresh: config.recovery.dupthresh });
            if acked > 0 {
                rack.start(at);
            }
            if rack.probe.on_ack(ack_info, acked > 0) {
                self.probed = rack.probe.flight;
            }
            self.miss_probe(at.now);
        } else {
            self.sent.lose_uncovered(config.recovery.dupthresh);
        }
        let begins = (self.probed > 0 && !self.scheduled) || self.begins(config);
        if begins {
            self.enter(judged.arrival.bytes, at, config);
        }
        begins
    }

    /// Whether a recovery begins (RFC 6675, section 5, (1) and (2); section 5.1).
    #[inline]
    fn begins(&mut self, config: &Config) -> bool {
        let first = self.sent.first();
        let counted = self.rack.is_none() && self.dupacks >= config.recovery.dupthresh;
        match self.phase {
            Phase::Recovery => false,
            Phase::Open if self.sent.due().is_some() => true,
            Phase::Open => {
                let begins = counted && !self.sent.is_underway(first);
                if begins {
                    self.sent.lose(first);
                }
                begins
            }
            Phase::Loss => {
                let guard = config.recovery.fast_retransmit_guard;
                let begins = counted && guard.allows(self.sent.una(), self.recover);
                if begins {
                    self.sent.lose_again(first);
                }
                begins
            }
        }
    }

    /// From now on a reduction may turn out to be needless.
    fn begin_undo(&mut self, config: &Config) {
        self.undo =
            (config.recovery.undo == Undo::Dsack).then(|| Undoing { from: self.sent.una(), open: None });
    }

    /// Whether all that was sent again had arrived before, as the acknowledgement of so many bytes tells.
    fn is_undone(&mut self, ack_info: &ReceivedAck, acked: u64) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        if let Some(open) = &mut undo.open
            && duplicate(ack_info).is_some_and(|end| end > undo.from)
        {
            *open = open.saturating_sub(1);
        }
        undo.open == Some(0) && (self.phase == Phase::Open || acked > 0)
    }

    /// Whether F-RTO shows that a time-out was spurious; takes its next step if not.
    fn is_spurious(&mut self, arrival: &Arrival, sacked: bool, acked: u64) -> bool {
        if self.phase != Phase::Loss || self.spurious == Spurious::Off {
            return false;
        }
        self.spurious = Spurious::Waits;
        if arrival.lowest <= self.recover {
            self.spurious = Spurious::Off;
            return true;
        }
        if self.sent.end() > self.recover {
            if sacked || acked == 0 {
                self.spurious = Spurious::Off;
            }
        } else if acked > 0 && self.sent.una() < self.recover {
            self.spurious = Spurious::Tries;
        }
        false
    }

    /// Fast recovery begins; so many bytes have just arrived.
    fn enter(&mut self, arrived: u64, at: TimerContext<'_>, config: &Config) {
        self.begin_undo(config);
        let first = self.sent.due();
        self.phase = Phase::Recovery;
        self.recover = self.sent.end();
        self.urgent = first.is_some();
        self.doubted = first.map_or(0, |number| number + 1);
        self.rescue = self.sent.seq(self.doubted);
        self.entry = arrived;
        self.falling = Falling::AtOnce;
        if let Some(rack) = &mut self.rack {
            rack.probe.cancel();
            rack.probe.on_timer_start(at);
        }
    }

    /// When a probe leaves: not in a recovery, nor while SACK tells of holes (RFC 8985, section 7.2).
    #[inline]
    fn probe_alarm(&self) -> Instant {
        match &self.rack {
            Some(rack) if self.scheduled => rack.probe.at,
            Some(rack)
                if self.phase == Phase::Open && self.sent.len() > 0 && self.sent.sacked().segments == 0 =>
            {
                rack.probe.alarm(self.sent.len() == 1)
            }
            _ => Instant::NEVER,
        }
    }

    /// A probe whose time ran out while another was in flight is not made up for (RFC 8985, section 7.3).
    #[inline]
    fn miss_probe(&mut self, now: Instant) {
        let missed = !self.scheduled && self.probe_alarm() < now;
        if let Some(rack) = self.rack.as_mut().filter(|_| missed) {
            rack.probe.since = Instant::NEVER;
        }
    }

    /// Sets the timer of the probe, for the retransmission timer would run out after `time_out`.
    fn schedule(&mut self, time_out: Span, at: TimerContext<'_>) {
        let open = self.phase == Phase::Open && self.sent.is_plain() && self.sent.len() > 0;
        if let Some(rack) = self.rack.as_mut().filter(|_| open) {
            rack.probe.schedule(self.sent.len() == 1, time_out, at);
        }
    }

    /// Sends what the rules choose.
    #[inline(never)]
    fn next_chosen(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending> {
        if std::mem::take(&mut self.reschedule) {
            self.schedule(at.rto(), at);
        }
        let choice = self.choose(stream)?;
        let sending = match choice {
            Choice::New(len) | Choice::NewProbe(len) => self.send(len, at),
            Choice::Lost(number) | Choice::NextSeg(number) | Choice::Last(number) => {
                self.resend(number, at.now)
            }
        };
        match choice {
            Choice::New(len) if self.phase == Phase::Open && self.dupacks > 0 => self.limited += len,
            Choice::New(_) if self.scheduled && self.phase == Phase::Open => {
                let until = self.sent.oldest().map_or(at.now, |sent| sent + at.rto());
                self.schedule(if until > at.now { until.since(at.now) } else { Span::ZERO }, at);
            }
            Choice::New(_) => {}
            Choice::Lost(_) => self.urgent = false,
            Choice::NextSeg(number) => self.doubted = number + 1,
            Choice::Last(_) | Choice::NewProbe(_) => self.on_tail_sent(sending.again),
        }
        self.falling.on_sent(sending.len);
        Some(sending)
    }

    /// Whether less is in the network than the window allows.
    #[inline]
    fn has_room(&self) -> bool {
        let pipe = self.sent.pipe();
        pipe < self.window || pipe == 0
    }

    /// What is to be sent next, if anything (`NextSeg`).
    #[inline]
    fn choose(&self, stream: Stream) -> Option<Choice> {
        if let Some(rack) = &self.rack
            && rack.probe.due
        {
            let new = self.fresh(stream).map(Choice::NewProbe);
            let last = self.sent.last().filter(|&last| !self.sent.is_sacked(last)).map(Choice::Last);
            if let Some(probe) = new.or(last) {
                return Some(probe);
            }
        }
        if !self.urgent && !self.has_room() {
            return None;
        }
        if self.spurious == Spurious::Tries && self.phase == Phase::Loss {
            let new = self.fresh(stream).map(Choice::New);
            // What was sent before waits for the answer to what is new.
            if new.is_some() || self.sent.end() > self.recover {
                return new;
            }
        }
        if self.phase != Phase::Open
            && let Some(number) = self.sent.due()
            && (self.phase == Phase::Recovery || self.sent.seq(number) < self.recover)
        {
            return Some(Choice::Lost(number));
        }
        match self.fresh(stream) {
            Some(len) => Some(Choice::New(len)),
            None => self.last_resort(),
        }
    }

    /// How many sequence numbers the next new segment takes, if there is one and the receiver takes it.
    #[inline]
    fn fresh(&self, stream: Stream) -> Option<u64> {
        let seq = self.sent.end();
        let len = stream.segment(seq);
        (len > 0 && seq + len.min(stream.mss) <= self.receiver_end).then_some(len)
    }

    /// A segment that is not known to be lost (rules (3) and (4) of `NextSeg`).
    fn last_resort(&self) -> Option<Choice> {
        if self.phase != Phase::Recovery || self.rack.is_some() || self.doubtful == NextSeg::LostOnly {
            return None;
        }
        if let Some(number) = self.sent.doubtful(self.doubted) {
            return Some(Choice::NextSeg(number));
        }
        let last = self.sent.last().filter(|&last| !self.sent.is_underway(last))?;
        (self.sent.una() > self.rescue).then_some(Choice::Last(last))
    }

    #[inline]
    fn send(&mut self, len: u64, at: TimerContext<'_>) -> Sending {
        let seq = self.sent.end();
        if let Some(rack) = &mut self.rack {
            if self.sent.len() == 0 {
                rack.start(at);
            }
            rack.probe.on_new(at.now);
        }
        self.sent.send(len, at.now);
        Sending { seq, len, again: false }
    }

    fn resend(&mut self, number: Number, now: Instant) -> Sending {
        if let Some(rack) = &mut self.rack {
            rack.on_resent(number, now);
        }
        if let Some(undo) = &mut self.undo {
            *undo.open.get_or_insert(0) += 1;
        }
        let (seq, len) = self.sent.resend(number, now);
        Sending { seq, len, again: true }
    }

    /// The rescue of a recovery or a probe was sent.
    fn on_tail_sent(&mut self, again: bool) {
        match &mut self.rack {
            Some(rack) => rack.probe.on_sent(self.sent.end(), self.sent.end() - self.sent.una(), again),
            None => self.rescue = self.recover,
        }
    }
}

#[cfg(test)]
mod tests;
