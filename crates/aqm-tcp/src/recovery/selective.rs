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

use aqm_net::Instant;

use super::rack::{Rack, Round};
use super::reduction::{Descent, Falling, Progress};
use super::sent::{Arrival, Number, Sent};
use super::{Board, Heard, Moment, News, Sending, Stream, What, Windows};
use crate::profile::{Config, LimitedTransmit, PrrBound, Recovery, Reduction, SacksAtTimeout};

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
    reduction: (Reduction, PrrBound),
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
    Doubtful(Number),
    /// The last segment (rule (4), or a probe).
    Last(Number),
    /// New data, as a probe.
    NewProbe(u64),
}

impl Selective {
    pub fn new(config: &Config) -> Self {
        let mss = config.mss.bytes();
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
            rack: (config.recovery == Recovery::Rack).then(Box::default),
            mss,
            reduction: (config.reduction, config.prr_bound),
        }
    }
}

impl Board for Selective {
    #[inline]
    fn on_ack(&mut self, heard: &Heard, at: Moment<'_>, config: &Config) -> News {
        if heard.ack > self.sent.end() {
            return News::NONE;
        }
        if self.rack.is_none() && heard.sacks.is_empty() && self.sent.is_plain() && self.phase == Phase::Open
        {
            return self.on_plain_ack(heard.ack);
        }
        self.on_full_ack(heard, at, config)
    }

    fn on_timeout(&mut self, config: &Config) {
        if self.sent.una() == self.sent.end() {
            return;
        }
        self.phase = Phase::Loss;
        self.recover = self.sent.end();
        self.dupacks = 0;
        self.limited = 0;
        self.probed = 0;
        self.urgent = false;
        self.falling = Falling::AtOnce;
        let discarded = self.sent.is_sacked(self.sent.first());
        self.sent.lose_all(discarded || config.sacks_at_timeout == SacksAtTimeout::Forgotten);
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
    }

    fn on_alarm(&mut self, at: Moment<'_>, config: &Config) -> News {
        let probes = at.now >= self.probe_alarm();
        let Some(rack) = &mut self.rack else { return News::NONE };
        rack.probe.due |= probes;
        rack.probe.on_timer_start(at);
        self.probed = 0;
        if at.now < rack.alarm {
            return News::NONE;
        }
        let recovering = self.phase != Phase::Open;
        rack.find_losses(&mut self.sent, at, Round { recovering, dupthresh: config.dupthresh });
        if self.begins(config) {
            self.enter(0, at);
            return News { what: What::Loss, ..News::NONE };
        }
        self.falling.on_alarm(self.sent.pipe());
        self.window = self.falling.window().unwrap_or(self.window);
        News::NONE
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
        let (reduction, bound) = self.reduction;
        self.falling = Falling::new(reduction, bound, descent, entry);
    }

    #[inline]
    fn open(&mut self, windows: Windows, config: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        self.receiver_end = self.sent.una() + receiver * mss;
        self.window = self.falling.window().unwrap_or(congestion.max(1) * mss);
        if config.limited_transmit == LimitedTransmit::Off && self.phase == Phase::Open {
            // What SACK covers leaves the network but makes no room.
            self.window = self.window.saturating_sub(self.sent.sacked().bytes);
        }
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.choose(stream).is_some()
    }

    fn is_urgent(&self, config: &Config) -> bool {
        let probes = self.rack.as_ref().is_some_and(|rack| rack.probe.due);
        let limited = self.phase == Phase::Open && (1..config.dupthresh).contains(&self.dupacks);
        self.urgent || probes || limited
    }

    #[inline]
    fn next(&mut self, stream: Stream, at: Moment<'_>) -> Option<Sending> {
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

    fn flight(&self) -> u64 {
        (self.sent.end() - self.sent.una() - self.limited).max(self.probed)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }
}

/// An acknowledgement that was taken in.
struct Judged<'a> {
    heard: &'a Heard<'a>,
    arrival: &'a Arrival,
    acked: u64,
    /// Whether it ends a recovery.
    ends: bool,
}

impl Selective {
    /// Nothing is missing, as far as is known. It does what the long way does, only faster.
    #[inline]
    fn on_plain_ack(&mut self, ack: u64) -> News {
        self.probed = 0;
        if ack <= self.sent.una() {
            return News::NONE;
        }
        self.dupacks = 0;
        self.limited = 0;
        let acked = ack - self.sent.una();
        let sent = self.sent.acknowledge_plain(ack);
        News { acked, delivered: acked, sent: sent.unwrap_or(Instant::NEVER), what: What::Advance }
    }

    /// Something is missing, or may be found to be.
    #[inline(never)]
    fn on_full_ack(&mut self, heard: &Heard, at: Moment<'_>, config: &Config) -> News {
        let mut arrival = Arrival::new(self.rack.as_ref().and_then(|rack| rack.credible(at)));
        let acked = heard.ack.saturating_sub(self.sent.una());
        if acked > 0 {
            self.sent.acknowledge(heard.ack, &mut arrival);
            self.dupacks = 0;
            self.limited = 0;
        }
        let sacked = !heard.sacks.is_empty() && self.take_in(heard, &mut arrival);
        let before = self.phase;
        let losses = self.sent.losses();
        let ends = acked > 0 && before != Phase::Open && self.sent.una() >= self.recover;
        if ends {
            self.phase = Phase::Open;
            self.falling = Falling::AtOnce;
        }
        self.urgent &= !ends && self.sent.due().is_some();
        self.dupacks += u32::from(sacked && self.phase != Phase::Recovery);
        let lost = self.judge(&Judged { heard, arrival: &arrival, acked, ends }, at, config);
        let what = match before {
            _ if lost => What::Loss,
            Phase::Recovery if ends => What::Exit,
            Phase::Recovery if acked > 0 => What::Partial,
            _ if acked > 0 => What::Advance,
            _ if sacked => What::Duplicate,
            _ => What::Stale,
        };
        if what == What::Partial || (what == What::Duplicate && before == Phase::Recovery) {
            let safe = acked > 0 && self.sent.losses() == losses;
            self.falling.on_ack(Progress { delivered: arrival.bytes, pipe: self.sent.pipe(), safe });
        }
        let sent = arrival.once.map_or(Instant::NEVER, |stamp| stamp.sent);
        News { acked, delivered: arrival.bytes, sent, what }
    }

    /// Takes in what SACK tells; whether it is news.
    fn take_in(&mut self, heard: &Heard, arrival: &mut Arrival) -> bool {
        let mut news = false;
        for (from, to) in heard.sacks.ranges(heard.ack) {
            news |= self.sent.sack(from, to, arrival);
        }
        news
    }

    /// Looks for losses after an acknowledgement; whether a recovery begins.
    #[inline]
    fn judge(&mut self, judged: &Judged<'_>, at: Moment<'_>, config: &Config) -> bool {
        self.probed = 0;
        if let Some(rack) = &mut self.rack {
            let Judged { heard, arrival, acked, ends } = *judged;
            rack.on_arrival(arrival, at.now);
            rack.adapt(heard, &self.sent, ends);
            let recovering = self.phase != Phase::Open;
            rack.find_losses(&mut self.sent, at, Round { recovering, dupthresh: config.dupthresh });
            if acked > 0 {
                rack.start(at);
            }
            if rack.probe.on_ack(heard, acked > 0) {
                self.probed = rack.probe.flight;
            }
            self.miss_probe(at.now);
        } else {
            self.sent.lose_uncovered(config.dupthresh);
        }
        let begins = self.probed > 0 || self.begins(config);
        if begins {
            self.enter(judged.arrival.bytes, at);
        }
        begins
    }

    /// Whether a recovery begins (RFC 6675, section 5, (1) and (2); section 5.1).
    #[inline]
    fn begins(&mut self, config: &Config) -> bool {
        let first = self.sent.first();
        let counted = self.rack.is_none() && self.dupacks >= config.dupthresh;
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
                let guard = config.fast_retransmit_guard;
                let begins = counted && guard.allows(self.sent.una(), self.recover);
                if begins {
                    self.sent.lose_again(first);
                }
                begins
            }
        }
    }

    /// Fast recovery begins; so many bytes have just arrived.
    fn enter(&mut self, arrived: u64, at: Moment<'_>) {
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
        let missed = self.probe_alarm() < now;
        if let Some(rack) = self.rack.as_mut().filter(|_| missed) {
            rack.probe.since = Instant::NEVER;
        }
    }

    /// Sends what the rules choose.
    #[inline(never)]
    fn next_chosen(&mut self, stream: Stream, at: Moment<'_>) -> Option<Sending> {
        let choice = self.choose(stream)?;
        let sending = match choice {
            Choice::New(len) | Choice::NewProbe(len) => self.send(len, at),
            Choice::Lost(number) | Choice::Doubtful(number) | Choice::Last(number) => {
                self.resend(number, at.now)
            }
        };
        match choice {
            Choice::New(len) if self.phase == Phase::Open && self.dupacks > 0 => self.limited += len,
            Choice::New(_) => {}
            Choice::Lost(_) => self.urgent = false,
            Choice::Doubtful(number) => self.doubted = number + 1,
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
            return new.or_else(|| self.sent.last().map(Choice::Last));
        }
        if !self.urgent && !self.has_room() {
            return None;
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
        if self.phase != Phase::Recovery || self.rack.is_some() {
            return None;
        }
        if let Some(number) = self.sent.doubtful(self.doubted) {
            return Some(Choice::Doubtful(number));
        }
        let last = self.sent.last().filter(|&last| !self.sent.is_underway(last))?;
        (self.sent.una() > self.rescue).then_some(Choice::Last(last))
    }

    #[inline]
    fn send(&mut self, len: u64, at: Moment<'_>) -> Sending {
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
