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
