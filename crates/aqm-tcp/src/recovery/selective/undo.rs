//! Whether a reduction turns out to be needless: D-SACK tells that what was sent again had arrived, or F-RTO
//! that a time-out was spurious.
//!
//! E. Blanton, M. Allman, RFC 3708, 2004 (D-SACK), as Linux has it (`tcp_may_undo`); P. Sarolahti, M. Kojo,
//! K. Yamamoto, M. Hata, "Forward RTO-Recovery (F-RTO)", RFC 5682, 2009, section 3.1.

use super::{Phase, Selective};
use crate::config::Config;
use crate::config::recovery::{Frto, Undo};
use crate::recovery::ReceivedAck;
use crate::recovery::rack::duplicate;
use crate::recovery::sent::Arrival;

/// What a sender remembers to take a reduction back.
#[derive(Clone, Debug, Default)]
pub(super) struct Undoing {
    retransmissions: Option<Retransmissions>,
    /// The oldest byte not acknowledged at the last time-out.
    timed_out_at: Option<u64>,
    frto: FrtoStep,
}

/// The retransmissions since a reduction, which D-SACK may yet show to be needless (Linux: `undo_marker`,
/// `undo_retrans`).
#[derive(Clone, Copy, Debug)]
struct Retransmissions {
    /// Everything below was acknowledged when the window was reduced.
    from: u64,
    /// How many D-SACK has not reported; none if there was no retransmission.
    unanswered: Option<u64>,
}

/// How far F-RTO has got (RFC 5682, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FrtoStep {
    #[default]
    /// It is not looking for a spurious time-out.
    Off,
    /// The oldest segment is sent again, and the answer decides (step 1).
    Waits,
    /// New data goes first (step 2).
    NewDataFirst,
}

impl Undoing {
    /// Nothing is left to take back.
    pub fn clear(&mut self) {
        self.frto = FrtoStep::Off;
        self.retransmissions = None;
    }

    /// A segment was sent again.
    pub fn on_resent(&mut self) {
        if let Some(retransmissions) = &mut self.retransmissions {
            *retransmissions.unanswered.get_or_insert(0) += 1;
        }
    }

    /// F-RTO looks no further.
    pub fn end_frto(&mut self) {
        self.frto = FrtoStep::Off;
    }

    /// Whether F-RTO wants new data to go before what was sent already.
    pub fn wants_new_data(&self) -> bool {
        self.frto == FrtoStep::NewDataFirst
    }
}

impl Selective {
    /// The retransmission timer ran out.
    pub(super) fn note_timeout(&mut self, config: &Config) {
        let repeated = self.undoing.timed_out_at.replace(self.sent.una()) == Some(self.sent.una());
        if self.phase == Phase::Open || (self.phase == Phase::Loss && !repeated) {
            self.begin_undo(config);
        }
        let looks = config.recovery.frto == Frto::On && (self.phase.is_open() || repeated);
        self.undoing.frto = if looks { FrtoStep::Waits } else { FrtoStep::Off };
    }

    /// From now on a reduction may turn out to be needless.
    pub(super) fn begin_undo(&mut self, config: &Config) {
        // Those that are in flight again may yet come twice (`tcp_init_undo`).
        let underway = self.sent.resent_count();
        let unanswered = (underway > 0).then_some(underway);
        self.undoing.retransmissions = (config.recovery.undo == Undo::Dsack)
            .then(|| Retransmissions { from: self.sent.una(), unanswered });
    }

    /// Whether all that was sent again had arrived before, as an acknowledgement of `acked` new bytes tells.
    pub(super) fn is_undone(&mut self, received: &ReceivedAck, acked: u64) -> bool {
        let Some(sent_again) = &mut self.undoing.retransmissions else { return false };
        if let Some(unanswered) = &mut sent_again.unanswered
            && duplicate(received).is_some_and(|end| end > sent_again.from)
        {
            *unanswered = unanswered.saturating_sub(1);
        }
        sent_again.unanswered == Some(0) && (self.phase != Phase::Loss || acked > 0)
    }

    /// Whether F-RTO shows that a time-out was spurious; takes its next step if not.
    pub(super) fn is_spurious(
        &mut self,
        received: &ReceivedAck,
        arrival: &Arrival,
        sacked: bool,
        acked: u64,
    ) -> bool {
        if self.phase != Phase::Loss || self.undoing.frto == FrtoStep::Off {
            return false;
        }
        self.undoing.frto = FrtoStep::Waits;
        if arrival.lowest <= self.recover {
            self.undoing.frto = FrtoStep::Off;
            return true;
        }
        if self.sent.end() > self.recover {
            let repeats = acked == 0 && received.bare && duplicate(received).is_none();
            if sacked || repeats {
                self.undoing.frto = FrtoStep::Off;
            }
        } else if acked > 0 && self.sent.una() < self.recover {
            self.undoing.frto = FrtoStep::NewDataFirst;
        }
        false
    }
}
