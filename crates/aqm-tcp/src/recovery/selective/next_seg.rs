//! Selects the next transmission: first a probe that is due (RFC 8985, section 7), and then the segment that `NextSeg`
//! selects (RFC 6675, section 4).

use aqm_net::{Instant, Span};

use super::{Phase, Selective};
use crate::config::sack::NextSeg;
use crate::recovery::sent::Number;
use crate::recovery::{Stream, TimerContext, Transmission};

/// The next transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A lost segment (rule (1) of `NextSeg`).
    Lost(Number),
    /// New data, with the number of sequence numbers that the new data occupies (rule (2)).
    New(u64),
    /// A segment that may have been lost (rule (3)).
    NextSeg(Number),
    /// The last segment (rule (4) or a probe).
    Last(Number),
    /// New data that is sent as a probe.
    NewProbe(u64),
}

impl Selective {
    /// Sends the selected segment.
    #[inline(never)]
    pub(super) fn next_chosen(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission> {
        if std::mem::take(&mut self.reschedule) {
            if self.linux_timers {
                self.schedule_probe(at.rto(), at);
            } else {
                self.restart_probe(at);
            }
        }
        if self.undo.requires_new_data() && self.sent.end() <= self.recover && self.fresh(stream).is_none() {
            self.undo.end_frto();
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
            Choice::New(_) if self.linux_timers && self.phase.is_open() => {
                let until = self.sent.oldest().map_or(at.now, |sent| sent + at.rto());
                self.schedule_probe(if until > at.now { until.since(at.now) } else { Span::ZERO }, at);
            }
            Choice::New(_) => {}
            Choice::Lost(_) => self.urgent = false,
            Choice::NextSeg(number) => self.high_rxt = number + 1,
            Choice::Last(_) | Choice::NewProbe(_) => self.on_tail_sent(sending.is_retransmission),
        }
        self.reduction.on_sent(sending.len);
        Some(sending)
    }

    /// Returns whether the amount of data in the network is below the window.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let pipe = self.sent.pipe();
        pipe < self.window || pipe == 0
    }

    /// Selects the next transmission (`NextSeg`).
    #[inline(always)]
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
        if self.undo.requires_new_data() && self.phase == Phase::Loss {
            let new = self.fresh(stream).map(Choice::New);
            // Data sent before the timeout is not retransmitted until new data has been acknowledged.
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

    /// Returns the number of sequence numbers that the next new segment occupies; `None` if there is no new segment or
    /// the new segment would exceed the receiver's window.
    #[inline]
    pub(super) fn fresh(&self, stream: Stream) -> Option<u64> {
        let seq = self.sent.end();
        let len = stream.segment(seq);
        (len > 0 && seq + len.min(stream.mss) <= self.receiver_end).then_some(len)
    }

    /// Returns a segment that may have been lost but is not known to be lost (rules (3) and (4) of `NextSeg`).
    fn last_resort(&self) -> Option<Choice> {
        if self.phase != Phase::Recovery || self.rack.is_some() || self.next_seg == NextSeg::LostOnly {
            return None;
        }
        if let Some(number) = self.sent.next_possibly_lost(self.high_rxt) {
            return Some(Choice::NextSeg(number));
        }
        let last = self.sent.last().filter(|&last| !self.sent.is_sacked_or_resent(last))?;
        (self.sent.una() > self.rescue).then_some(Choice::Last(last))
    }

    #[inline(always)]
    pub(super) fn send(&mut self, len: u64, at: TimerContext<'_>) -> Transmission {
        let seq = self.sent.end();
        if let Some(rack) = &mut self.rack {
            if self.sent.len() == 0 {
                rack.start(at);
            }
            rack.probe.on_new(at.now);
        }
        self.sent.send(len, at.now);
        Transmission { seq, len, is_retransmission: false }
    }

    fn resend(&mut self, number: Number, now: Instant) -> Transmission {
        self.undo.on_resent(now);
        let (seq, len, stamp) = self.sent.resend(number, now);
        if let Some(rack) = &mut self.rack {
            rack.on_resent(number, stamp);
        }
        Transmission { seq, len, is_retransmission: true }
    }

    /// Records the transmission of a rescue retransmission or a probe.
    fn on_tail_sent(&mut self, is_retransmission: bool) {
        match &mut self.rack {
            Some(rack) => {
                rack.probe.on_sent(self.sent.end(), self.sent.end() - self.sent.una(), is_retransmission)
            }
            None => self.rescue = self.recover,
        }
    }
}
