//! What has been sent, what is lost, and what may be sent next: Reno, without SACK.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.2 (fast
//! retransmit, fast recovery); M. Allman, H. Balakrishnan, S. Floyd, RFC 3042, 2001 (limited
//! transmit); the `recover` variable of RFC 6582, 2012. After a time-out everything from the
//! oldest hole on is sent again, except what acknowledgements skip (go-back-N).
//!
//! Ours, where the sources are silent: the window counts whole segments, so only the last segment
//! of a transfer is ever shorter.

use crate::profile::{Config, FastRetransmitGuard, LimitedTransmit};

/// The sender's record of its data. It knows no windows but those it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scoreboard {
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
    /// Segments by which duplicate acknowledgements inflate the window in fast recovery.
    inflation: u32,
    /// Bytes sent by limited transmit since the last new acknowledgement.
    limited: u32,
    in_recovery: bool,
    retransmit: bool,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing: it is older than others, or acknowledges what was never sent.
    Stale,
    /// So many bytes are acknowledged for the first time.
    Advance {
        /// How many.
        bytes: u64,
        /// Whether fast recovery ends with it.
        ends_recovery: bool,
    },
    /// It is a duplicate; nothing is known to be lost that was not before.
    Duplicate,
    /// It is the duplicate that shows a loss: fast retransmit.
    Loss,
}

/// The windows that bound what is sent, in whole segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub congestion: u64,
    pub receiver: u64,
    pub mss: u64,
}

impl Scoreboard {
    /// Takes in the cumulative acknowledgement `ack`.
    #[inline]
    pub fn on_ack(&mut self, ack: u64, rules: &Config) -> News {
        if ack > self.una && ack <= self.max {
            let news = News::Advance { bytes: ack - self.una, ends_recovery: self.in_recovery };
            self.una = ack;
            self.nxt = self.nxt.max(ack);
            self.dupacks = 0;
            self.inflation = 0;
            self.limited = 0;
            self.in_recovery = false;
            return news;
        }
        if ack != self.una || self.max == self.una {
            return News::Stale;
        }
        self.dupacks += 1;
        if self.dupacks == rules.dupthresh && self.may_retransmit(rules.fast_retransmit_guard) {
            self.recover = self.max;
            self.in_recovery = true;
            self.retransmit = true;
            self.inflation = rules.dupthresh;
            return News::Loss;
        }
        if self.in_recovery {
            self.inflation += 1;
        }
        News::Duplicate
    }

    /// Everything in flight counts as lost.
    pub fn on_timeout(&mut self) {
        self.nxt = self.una;
        self.recover = self.max;
        self.dupacks = 0;
        self.inflation = 0;
        self.limited = 0;
        self.in_recovery = false;
        self.retransmit = false;
    }

    /// Sets how far transmissions may go.
    #[inline]
    pub(crate) fn open(&mut self, windows: Windows, rules: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        if self.dupacks == 0 || self.dupacks >= rules.dupthresh {
            // A fraction of a segment must not stop the sender for good.
            let usable = (congestion + u64::from(self.inflation)).max(1).min(receiver);
            self.limit = self.una + usable * mss;
        } else {
            let may = match rules.limited_transmit {
                LimitedTransmit::Off => false,
                LimitedTransmit::New => self.nxt >= self.max,
                LimitedTransmit::Next => true,
            };
            let usable = (congestion + u64::from(self.dupacks)).min(receiver);
            let one = if may { self.nxt + mss } else { self.nxt };
            self.limit = (self.una + usable * mss).min(one);
        }
    }

    /// Whether the next segment answers duplicate acknowledgements at once: a fast retransmission, or
    /// limited transmit.
    pub(crate) fn is_urgent(&self, rules: &Config) -> bool {
        self.retransmit || (1..rules.dupthresh).contains(&self.dupacks)
    }

    /// Whether the window allows a segment, at most up to `end`.
    pub(crate) fn has_next(&self, end: u64) -> bool {
        self.nxt < self.limit.min(end)
    }

    /// The next segment to send, at most up to `end`: where it begins, how long it is, and whether
    /// it was sent before.
    #[inline]
    pub fn next(&mut self, end: u64, mss: u64) -> Option<(u64, u64, bool)> {
        if self.retransmit {
            self.retransmit = false;
            return Some((self.una, mss.min(end - self.una), true));
        }
        if self.nxt >= self.limit || self.nxt >= end {
            return None;
        }
        let (seq, len) = (self.nxt, mss.min(end - self.nxt));
        let again = seq < self.max;
        self.nxt += len;
        if !again {
            self.max = self.nxt;
            if self.dupacks > 0 && !self.in_recovery {
                self.limited += len as u32;
            }
        }
        Some((seq, len, again))
    }

    /// The oldest byte not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// The end of everything sent.
    pub fn sent(&self) -> u64 {
        self.max
    }

    /// Bytes sent since the start or the last time-out and not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    /// Bytes sent and not acknowledged, without those of limited transmit (`FlightSize`).
    pub fn flight(&self) -> u64 {
        self.max - self.una - u64::from(self.limited)
    }

    /// Duplicate acknowledgements since the last new one.
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    fn may_retransmit(&self, guard: FastRetransmitGuard) -> bool {
        match guard {
            FastRetransmitGuard::None => true,
            FastRetransmitGuard::Recover => self.una > self.recover || self.recover == 0,
            FastRetransmitGuard::RecoverOrFirst => self.una > self.recover || self.una == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: Windows = Windows { congestion: 10, receiver: 100, mss: 1 };

    /// Sends all it may, of data without end; returns what.
    fn send(scoreboard: &mut Scoreboard, windows: Windows, rules: &Config) -> Vec<u64> {
        scoreboard.open(windows, rules);
        std::iter::from_fn(|| scoreboard.next(u64::MAX, 1)).map(|(seq, ..)| seq).collect()
    }

    fn filled(rules: &Config) -> Scoreboard {
        let mut scoreboard = Scoreboard::default();
        send(&mut scoreboard, WINDOWS, rules);
        scoreboard
    }

    fn duplicates(scoreboard: &mut Scoreboard, count: usize, rules: &Config) -> Vec<News> {
        (0..count).map(|_| scoreboard.on_ack(scoreboard.una(), rules)).collect()
    }

    #[test]
    fn acknowledgements_of_the_past_and_of_the_unsent_are_stale() {
        let rules = Config::default();
        let mut scoreboard = filled(&rules);
        assert_eq!(scoreboard.on_ack(11, &rules), News::Stale);
        assert_eq!(scoreboard.on_ack(10, &rules), News::Advance { bytes: 10, ends_recovery: false });
        assert_eq!(scoreboard.on_ack(9, &rules), News::Stale);
        assert_eq!(scoreboard.on_ack(10, &rules), News::Stale, "nothing is outstanding");
    }

    #[test]
    fn only_the_duplicate_at_the_threshold_shows_a_loss() {
        for guard in [FastRetransmitGuard::None, FastRetransmitGuard::Recover] {
            let rules = Config { fast_retransmit_guard: guard, ..Config::default() };
            let news = duplicates(&mut filled(&rules), 9, &rules);
            assert_eq!(news[2], News::Loss);
            assert_eq!(news.iter().filter(|&&news| news == News::Loss).count(), 1);
        }
    }

    #[test]
    fn the_guard_decides_whether_duplicates_after_a_time_out_show_a_loss() {
        use FastRetransmitGuard::{None, Recover, RecoverOrFirst};
        for (guard, at_first, later) in
            [(None, true, true), (Recover, false, false), (RecoverOrFirst, true, false)]
        {
            let rules = Config { fast_retransmit_guard: guard, ..Config::default() };
            for (una, expected) in [(0, at_first), (5, later)] {
                let mut scoreboard = filled(&rules);
                scoreboard.on_ack(una, &rules);
                scoreboard.on_timeout();
                send(&mut scoreboard, WINDOWS, &rules);
                let lost = duplicates(&mut scoreboard, 4, &rules).contains(&News::Loss);
                assert_eq!(lost, expected, "{guard:?} with {una} acknowledged");
            }
        }
    }

    #[test]
    fn limited_transmit_sends_one_segment_a_duplicate() {
        for (limited_transmit, fresh, after_timeout) in [
            (LimitedTransmit::Off, vec![], vec![]),
            (LimitedTransmit::New, vec![10], vec![]),
            (LimitedTransmit::Next, vec![10], vec![1]),
        ] {
            let rules = Config { limited_transmit, ..Config::default() };
            let mut scoreboard = filled(&rules);
            duplicates(&mut scoreboard, 1, &rules);
            assert_eq!(send(&mut scoreboard, WINDOWS, &rules), fresh);
            assert_eq!(scoreboard.flight(), 10, "what it sends is not part of the flight size");
            scoreboard.on_timeout();
            let one = Windows { congestion: 1, ..WINDOWS };
            assert_eq!(send(&mut scoreboard, one, &rules), [0]);
            duplicates(&mut scoreboard, 1, &rules);
            assert_eq!(send(&mut scoreboard, one, &rules), after_timeout);
        }
    }

    #[test]
    fn a_time_out_takes_back_a_retransmission_that_was_not_sent() {
        let rules = Config::default();
        let mut scoreboard = filled(&rules);
        duplicates(&mut scoreboard, 3, &rules);
        scoreboard.on_timeout();
        let one = Windows { congestion: 1, ..WINDOWS };
        assert_eq!(send(&mut scoreboard, one, &rules), [0]);
    }
}
