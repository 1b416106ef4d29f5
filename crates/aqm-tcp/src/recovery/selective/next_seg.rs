//! What is sent next: `NextSeg` of RFC 6675, section 4, with the probes of RFC 8985, section 7, before it.

use aqm_net::{Instant, Span};

use super::{Phase, Selective};
use crate::config::sack::NextSeg;
use crate::recovery::sent::Number;
use crate::recovery::{Sending, Stream, TimerContext};

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A segment that is lost (rule (1) of `NextSeg`).
    Lost(Number),
    /// New data of that many sequence numbers (rule (2)).
    New(u64),
    /// A segment that may be lost (rule (3)).
    NextSeg(Number),
    /// The last segment (rule (4), or a probe).
    Last(Number),
    /// New data, as a probe.
    NewProbe(u64),
}

impl Selective {
    /// Sends what the rules choose.
    #[inline(never)]
    pub(super) fn next_chosen(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending> {
        if std::mem::take(&mut self.reschedule) {
            if self.scheduled {
                self.schedule_probe(at.rto(), at);
            } else {
                self.restart_probe(at);
            }
        }
        if self.undoing.wants_new_data() && self.sent.end() <= self.recover && self.fresh(stream).is_none() {
            self.undoing.end_frto();
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
            Choice::New(_) if self.scheduled && self.phase.is_open() => {
                let until = self.sent.oldest().map_or(at.now, |sent| sent + at.rto());
                self.schedule_probe(if until > at.now { until.since(at.now) } else { Span::ZERO }, at);
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
    pub(super) fn has_room(&self) -> bool {
        let pipe = self.sent.pipe();
        pipe < self.window || pipe == 0
    }

    /// What is to be sent next, if anything (`NextSeg`).
    #[inline]
    pub(super) fn choose(&self, stream: Stream) -> Option<Choice> {
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
        if self.undoing.wants_new_data() && self.phase == Phase::Loss {
            let new = self.fresh(stream).map(Choice::New);
            // What was sent before waits for the answer to what is new.
            if new.is_some() || self.sent.end() > self.recover {
                return new;
            }
        }
        if !self.phase.is_open()
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
    pub(super) fn fresh(&self, stream: Stream) -> Option<u64> {
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

    #[inline(always)]
    pub(super) fn send(&mut self, len: u64, at: TimerContext<'_>) -> Sending {
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
        self.undoing.on_resent(now);
        let (seq, len, stamp) = self.sent.resend(number, now);
        if let Some(rack) = &mut self.rack {
            rack.on_resent(number, stamp);
        }
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
