//! Detects unnecessary window reductions. A reduction was unnecessary if D-SACKs report that all retransmitted data had
//! already arrived, if timestamps show that an acknowledgement responds to an original transmission, or if F-RTO shows
//! that a timeout was spurious.
//!
//! E. Blanton, M. Allman, RFC 3708, 2004 (D-SACK), and R. Ludwig, M. Meyer, "The Eifel Detection Algorithm for TCP",
//! RFC 3522, 2003 (timestamps), as implemented in Linux (`tcp_may_undo`, `tcp_packet_delayed`, `tcp_try_undo_partial`);
//! P. Sarolahti, M. Kojo, K. Yamamoto, M. Hata, "Forward RTO-Recovery (F-RTO)", RFC 5682, 2009, section 3.1.
//!
//! aqmlab differs from Linux in one respect. While a retransmission is in flight, the timestamps of a partial
//! acknowledgement may show that the acknowledgement responds to an original transmission. In Linux, unlike in aqmlab,
//! this acknowledgement prevents the retransmission of the other segments that are considered lost.

use aqm_net::{Instant, Span};

use super::{Phase, Selective};
use crate::config::Config;
use crate::config::recovery::{Frto, Undo};
use crate::recovery::ReceivedAck;
use crate::recovery::rack::duplicate;
use crate::recovery::reduction::WindowReduction;
use crate::recovery::sent::Arrival;

/// The state that is needed to undo a window reduction.
#[derive(Clone, Debug, Default)]
pub(super) struct UndoState {
    retransmissions: Option<Retransmissions>,
    /// Oldest byte that was unacknowledged at the last timeout.
    timed_out_at: Option<u64>,
    frto: FrtoStep,
}

/// Retransmissions that have been sent since a window reduction and may still turn out to be unnecessary (Linux:
/// `undo_marker`, `undo_retrans`, `retrans_stamp`).
#[derive(Clone, Copy, Debug)]
struct Retransmissions {
    /// End of the data that had been acknowledged when the window was reduced.
    from: u64,
    /// Number of retransmissions that no D-SACK has reported yet; `None` if there was no retransmission.
    unanswered: Option<u64>,
    /// Departure time of the first retransmission.
    first: Option<Instant>,
}

impl Retransmissions {
    /// Returns whether the segment that an acknowledgement echoes was sent before the first retransmission.
    fn were_sent_after(&self, echo: Instant) -> bool {
        echo != Instant::START && self.first.is_some_and(|first| ticks(echo) < ticks(first))
    }
}

/// Returns the departure time of the segment whose timestamp is echoed by an acknowledgement that arrives at `now`, at
/// the resolution of the timestamp clock; `None` if the acknowledgement echoes no timestamp. Because of the echoed
/// timestamp, even an acknowledged retransmission yields a round-trip sample (`tcp_ack_update_rtt`).
pub(super) fn echoed_departure(echo: Instant, now: Instant) -> Option<Instant> {
    let round_trip = Span::from_millis(ticks(now).saturating_sub(ticks(echo)).max(1));
    (echo != Instant::START).then(|| Instant::from_nanos(now.nanos().saturating_sub(round_trip.nanos())))
}

/// Converts a time to ticks of the timestamp clock, which are milliseconds (Linux: `TCP_TS_HZ`).
fn ticks(moment: Instant) -> u64 {
    moment.nanos() / 1_000_000
}

/// Current step of F-RTO (RFC 5682, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FrtoStep {
    #[default]
    /// Spurious timeouts are not detected.
    Off,
    /// The oldest segment has been retransmitted, and the acknowledgement of this segment determines the next step
    /// (step 1).
    Waits,
    /// New data must be sent before further retransmissions (step 2).
    NewDataFirst,
}

impl UndoState {
    /// Returns whether an acknowledgement may show that a reduction was unnecessary.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.retransmissions.is_some() || self.frto != FrtoStep::Off
    }

    /// Stops the detection of unnecessary reductions.
    pub fn clear(&mut self) {
        self.frto = FrtoStep::Off;
        self.retransmissions = None;
    }

    /// Records a retransmission.
    pub fn on_resent(&mut self, now: Instant) {
        if let Some(retransmissions) = &mut self.retransmissions {
            *retransmissions.unanswered.get_or_insert(0) += 1;
            retransmissions.first.get_or_insert(now);
        }
    }

    /// Ends F-RTO.
    pub fn end_frto(&mut self) {
        self.frto = FrtoStep::Off;
    }

    /// Returns whether F-RTO requires new data to be sent before further retransmissions.
    pub fn requires_new_data(&self) -> bool {
        self.frto == FrtoStep::NewDataFirst
    }
}

impl Selective {
    /// Processes a timeout.
    pub(super) fn note_timeout(&mut self, config: &Config) {
        let repeated = self.undo.timed_out_at.replace(self.sent.una()) == Some(self.sent.una());
        if self.phase == Phase::Open || (self.phase == Phase::Loss && !repeated) {
            self.begin_undo(config);
        }
        let is_enabled = config.recovery.frto == Frto::On && (self.phase.is_open() || repeated);
        self.undo.frto = if is_enabled { FrtoStep::Waits } else { FrtoStep::Off };
    }

    /// Starts to detect whether a new window reduction was unnecessary.
    pub(super) fn begin_undo(&mut self, config: &Config) {
        // Retransmissions that are in flight may still arrive as duplicates (`tcp_init_undo`).
        let resent = self.sent.resent_count();
        let unanswered = (resent > 0).then_some(resent);
        let first = self.undo.retransmissions.and_then(|previous| previous.first.filter(|_| resent > 0));
        self.undo.retransmissions = (config.recovery.undo != Undo::Off).then(|| Retransmissions {
            from: self.sent.una(),
            unanswered,
            first,
        });
    }

    /// Undoes the last window reduction, if an acknowledgement of `acked` new bytes shows that the reduction was
    /// unnecessary. `sacked` states whether SACK blocks report new data. Returns whether the reduction was undone.
    #[inline(never)]
    pub(super) fn undo_if_unnecessary(
        &mut self,
        received: &ReceivedAck,
        arrival: &Arrival,
        sacked: bool,
        acked: u64,
    ) -> bool {
        let mut undone = self.is_undone(received, acked);
        let nothing_lost =
            self.arrives_delayed(received, acked) | self.is_spurious(received, arrival, sacked, acked);
        undone |= nothing_lost;
        if undone {
            self.undo.clear();
            if self.phase == Phase::Loss || nothing_lost {
                self.sent.lose_none();
                if let Some(rack) = &mut self.rack {
                    rack.on_undo(&self.sent);
                }
            }
            self.phase = Phase::Open;
            self.reduction = WindowReduction::AtOnce;
        }
        undone
    }

    /// Returns whether an acknowledgement of `acked` new bytes shows that all retransmitted data had already arrived
    /// without the retransmissions.
    fn is_undone(&mut self, received: &ReceivedAck, acked: u64) -> bool {
        let Some(retransmissions) = &mut self.undo.retransmissions else { return false };
        if let Some(unanswered) = &mut retransmissions.unanswered
            && duplicate(received).is_some_and(|end| end > retransmissions.from)
        {
            *unanswered = unanswered.saturating_sub(1);
        }
        retransmissions.unanswered == Some(0) && (self.phase != Phase::Loss || acked > 0)
    }

    /// Returns whether timestamps show that the original transmission of the `acked` newly acknowledged bytes has
    /// arrived.
    fn arrives_delayed(&self, received: &ReceivedAck, acked: u64) -> bool {
        let Some(retransmissions) = &self.undo.retransmissions else { return false };
        acked > 0
            && retransmissions.were_sent_after(received.echo)
            && match self.phase {
                Phase::Open | Phase::Marked => false,
                Phase::Recovery => self.sent.una() >= self.recover || self.sent.resent_count() == 0,
                Phase::Loss => true,
            }
    }

    /// Returns whether F-RTO shows that a timeout was spurious. If the timeout cannot be considered spurious, this
    /// function performs the next step of F-RTO.
    fn is_spurious(&mut self, received: &ReceivedAck, arrival: &Arrival, sacked: bool, acked: u64) -> bool {
        if self.phase != Phase::Loss || self.undo.frto == FrtoStep::Off {
            return false;
        }
        self.undo.frto = FrtoStep::Waits;
        if arrival.lowest_sent_once <= self.recover {
            self.undo.frto = FrtoStep::Off;
            return true;
        }
        if self.sent.end() > self.recover {
            let repeats = acked == 0 && received.bare && duplicate(received).is_none();
            if sacked || repeats {
                self.undo.frto = FrtoStep::Off;
            }
        } else if acked > 0 && self.sent.una() < self.recover {
            self.undo.frto = FrtoStep::NewDataFirst;
        }
        false
    }
}
