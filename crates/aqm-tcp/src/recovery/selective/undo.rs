//! Whether a reduction turns out to be needless: D-SACK tells that what was sent again had arrived, timestamps that
//! an acknowledgement answers what was sent before, or F-RTO that a time-out was spurious.
//!
//! E. Blanton, M. Allman, RFC 3708, 2004 (D-SACK), and R. Ludwig, M. Meyer, "The Eifel Detection Algorithm for TCP",
//! RFC 3522, 2003 (timestamps), as Linux has them (`tcp_may_undo`, `tcp_packet_delayed`, `tcp_try_undo_partial`);
//! P. Sarolahti, M. Kojo, K. Yamamoto, M. Hata, "Forward RTO-Recovery (F-RTO)", RFC 5682, 2009, section 3.1.
//!
//! Not as in Linux: while a retransmission is in flight, a partial acknowledgement that timestamps show to be of an
//! original keeps Linux from sending again what else counts as lost.

use aqm_net::{Instant, Span};

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

/// The retransmissions since a reduction, which may yet turn out to be needless (Linux: `undo_marker`,
/// `undo_retrans`, `retrans_stamp`).
#[derive(Clone, Copy, Debug)]
struct Retransmissions {
    /// Everything below was acknowledged when the window was reduced.
    from: u64,
    /// How many D-SACK has not reported; none if there was no retransmission.
    unanswered: Option<u64>,
    /// When the first of them left.
    first: Option<Instant>,
}

impl Retransmissions {
    /// Whether the segment that an acknowledgement echoes left before the first of them.
    fn are_younger_than(&self, echo: Instant) -> bool {
        echo != Instant::START && self.first.is_some_and(|first| ticks(echo) < ticks(first))
    }
}

/// When the segment left that an acknowledgement echoes at `now`, as far as the clock of timestamps tells; none if it
/// does not. So a retransmission gives a sample of the round trip, too (`tcp_ack_update_rtt`).
pub(super) fn echoed_departure(echo: Instant, now: Instant) -> Option<Instant> {
    let round_trip = Span::from_millis(ticks(now).saturating_sub(ticks(echo)).max(1));
    (echo != Instant::START).then(|| Instant::from_nanos(now.nanos().saturating_sub(round_trip.nanos())))
}

/// A moment by the clock of timestamps, in milliseconds (Linux: `TCP_TS_HZ`).
fn ticks(moment: Instant) -> u64 {
    moment.nanos() / 1_000_000
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
    pub fn on_resent(&mut self, now: Instant) {
        if let Some(retransmissions) = &mut self.retransmissions {
            *retransmissions.unanswered.get_or_insert(0) += 1;
            retransmissions.first.get_or_insert(now);
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
        let first = self.undoing.retransmissions.and_then(|before| before.first.filter(|_| underway > 0));
        self.undoing.retransmissions = (config.recovery.undo != Undo::Off).then(|| Retransmissions {
            from: self.sent.una(),
            unanswered,
            first,
        });
    }

    /// Whether what was sent again had arrived before, as an acknowledgement of `acked` new bytes tells.
    pub(super) fn is_undone(&mut self, received: &ReceivedAck, acked: u64) -> bool {
        let Some(sent_again) = &mut self.undoing.retransmissions else { return false };
        if let Some(unanswered) = &mut sent_again.unanswered
            && duplicate(received).is_some_and(|end| end > sent_again.from)
        {
            *unanswered = unanswered.saturating_sub(1);
        }
        sent_again.unanswered == Some(0) && (self.phase != Phase::Loss || acked > 0)
    }

    /// Whether timestamps tell that `acked` new bytes arrived as they were sent first.
    pub(super) fn arrives_delayed(&self, received: &ReceivedAck, acked: u64) -> bool {
        let Some(sent_again) = &self.undoing.retransmissions else { return false };
        acked > 0
            && sent_again.are_younger_than(received.echo)
            && match self.phase {
                Phase::Open | Phase::Marked => false,
                Phase::Recovery => self.sent.una() >= self.recover || self.sent.resent_count() == 0,
                Phase::Loss => true,
            }
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
