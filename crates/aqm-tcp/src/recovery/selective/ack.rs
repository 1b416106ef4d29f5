//! Processes acknowledgements, and begins and ends recoveries.
//!
//! RFC 6675, sections 5 and 5.1; with RACK, RFC 8985, section 6.2.

use aqm_net::Instant;

use super::undo::echoed_departure;
use super::{Phase, Selective};
use crate::config::Config;
use crate::recovery::rack::RecoveryStatus;
use crate::recovery::reduction::{Progress, WindowReduction};
use crate::recovery::sent::{Arrival, Stamp};
use crate::recovery::{AckKind, AckOutcome, ReceivedAck, TimerContext};

/// An acknowledgement whose contents have been recorded in the scoreboard.
struct ProcessedAck<'a> {
    received: &'a ReceivedAck<'a>,
    arrival: &'a Arrival,
    acked: u64,
    /// Whether the acknowledgement ends a recovery.
    ends: bool,
    /// Whether the acknowledgement causes a window reduction to be undone.
    undone: bool,
}

impl Selective {
    /// Processes an acknowledgement that acknowledges the next data and reports nothing else, if no data is known to be
    /// missing. Returns `None` for any other acknowledgement. This function is a fast path with the same result as
    /// `on_full_ack`.
    #[inline(always)]
    pub fn on_expected_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>) -> Option<AckOutcome> {
        let acked = received.ack.wrapping_sub(self.sent.una());
        let is_plain = received.sacks.is_empty()
            && self.phase == Phase::Open
            && self.sent.is_plain()
            && (1..=self.sent.end() - self.sent.una()).contains(&acked);
        if !is_plain {
            return None;
        }
        let oldest = self.sent.next_if_sent_once(received.ack);
        let is_expected = match &self.rack {
            Some(rack) => oldest.is_some_and(|oldest| rack.is_settled(oldest.stamp)),
            None => self.sent.is_sent_once(),
        };
        if !is_expected {
            return None;
        }
        self.probe_flight = 0;
        self.dupacks = 0;
        self.limited = 0;
        let newest = self.sent.acknowledge_plain(received.ack, oldest);
        if let (Some(rack), Some(oldest), Some(newest)) = (&mut self.rack, oldest, newest) {
            rack.on_expected(oldest, newest, at);
            self.reschedule = true;
        }
        let newest = newest.map_or(Instant::NEVER, |newest| newest.stamp.sent);
        let sent = oldest.filter(|_| self.samples_first).map_or(newest, |oldest| oldest.stamp.sent);
        Some(AckOutcome { acked, delivered: acked, sent, newest, kind: AckKind::Advance, ..AckOutcome::NONE })
    }

    /// Processes an acknowledgement if data is known to be missing, or if the acknowledgement may show that data is
    /// missing.
    #[inline(never)]
    pub(super) fn on_full_ack(
        &mut self,
        received: &ReceivedAck,
        at: TimerContext<'_>,
        config: &Config,
    ) -> AckOutcome {
        let mut arrival = Arrival::new(self.rack.as_ref().and_then(|rack| rack.credible(at)));
        let acked = received.ack.saturating_sub(self.sent.una());
        if acked > 0 {
            self.sent.acknowledge(received.ack, &mut arrival);
            self.dupacks = 0;
            self.limited = 0;
        }
        let in_order = arrival.highest_departure;
        let sacked = !received.sacks.is_empty() && self.sent.sack_all(received, &mut arrival);
        if in_order.0 > 0 {
            arrival.highest_departure = in_order;
        }
        let delayed = self.is_delayed();
        let before = self.phase;
        let losses = self.sent.losses();
        let undone = self.undo.is_active() && self.undo_if_unnecessary(received, &arrival, sacked, acked);
        let ends = acked > 0
            && match self.phase {
                Phase::Open => false,
                // The segment that carries the CWR flag has arrived.
                Phase::Marked => self.sent.una() > self.recover,
                Phase::Recovery | Phase::Loss => self.sent.una() >= self.recover,
            };
        if ends {
            self.phase = Phase::Open;
            self.reduction = WindowReduction::AtOnce;
        }
        self.urgent &= !ends && self.sent.due().is_some();
        self.dupacks += u32::from(sacked && self.phase != Phase::Recovery);
        // The oldest segment was sent after a SACKed segment, so the retransmission timer restarts now.
        let restarts = self.linux_timers && acked == 0 && self.sent.oldest() > Some(arrival.first_sacked);
        let rearms = restarts || (self.linux_timers && acked > 0);
        if let Some(rack) = self.rack.as_mut().filter(|_| rearms) {
            rack.probe.at = Instant::NEVER;
            rack.reordering_timer = Instant::NEVER;
        }
        let lost = self.detect_losses(
            &ProcessedAck { received, arrival: &arrival, acked, ends, undone },
            at,
            config,
        );
        let kind = match before {
            _ if lost => AckKind::Loss,
            Phase::Open | Phase::Marked if self.linux_timers && self.probe_flight > 0 => AckKind::Repaired,
            Phase::Recovery if ends || undone => AckKind::Exit,
            Phase::Recovery if acked > 0 => AckKind::Partial,
            _ if acked > 0 => AckKind::Advance,
            _ if sacked => AckKind::Duplicate,
            _ => AckKind::Stale,
        };
        let marked = before == Phase::Marked && self.phase == Phase::Marked;
        let falls = marked && matches!(kind, AckKind::Advance | AckKind::Duplicate);
        if falls || kind == AckKind::Partial || (kind == AckKind::Duplicate && before == Phase::Recovery) {
            let safe = acked > 0 && self.sent.losses() == losses;
            self.reduction.on_ack(Progress { delivered: arrival.bytes, pipe: self.sent.pipe(), safe });
        }
        let mut since = Instant::NEVER;
        if rearms && self.rack.is_some() {
            self.reschedule = self.phase.is_open() && self.sent.is_plain();
            if delayed && !self.reschedule {
                since = self.sent.oldest().unwrap_or(since);
            }
        }
        let newest = arrival.newest_departure();
        let sent = match arrival.first {
            _ if !self.samples_first => newest,
            first if first != Instant::NEVER && !arrival.has_retransmission => first,
            _ if arrival.first_sacked == Instant::NEVER && acked > 0 => {
                echoed_departure(received.echo, at.now).unwrap_or(Instant::NEVER)
            }
            _ => arrival.first_sacked,
        };
        let is_unclear = arrival.has_retransmission && arrival.first_sacked == Instant::NEVER;
        AckOutcome {
            acked,
            delivered: arrival.bytes,
            sent,
            newest: if is_unclear { Instant::NEVER } else { newest },
            undone,
            restarts,
            since,
            kind,
        }
    }

    /// Returns whether another timer is running instead of the retransmission timer. In this case, the retransmission
    /// timeout is measured from the departure of the oldest segment (Linux: `tcp_rearm_rto`).
    fn is_delayed(&self) -> bool {
        let timer = self.rack.as_ref().filter(|_| self.linux_timers);
        timer.is_some_and(|rack| rack.probe.at.min(rack.reordering_timer) != Instant::NEVER)
    }

    /// Detects losses after an acknowledgement. Returns whether a recovery begins.
    #[inline]
    fn detect_losses(&mut self, processed: &ProcessedAck<'_>, at: TimerContext<'_>, config: &Config) -> bool {
        self.probe_flight = 0;
        let resent_before = if self.phase == Phase::Loss { self.sent.resent_count() } else { 0 };
        if let Some(rack) = &mut self.rack {
            let ProcessedAck { received, arrival, acked, ends, undone } = *processed;
            rack.on_arrival(arrival, at.now);
            rack.adapt(received, &self.sent, ends, self.linux_timers);
            let recovering = !self.phase.is_open();
            let status = RecoveryStatus { recovering, dupthresh: config.recovery.dupthresh };
            if !self.linux_timers {
                rack.reordering_timer = rack.find_losses(&mut self.sent, at, status);
            } else if undone || arrival.newest > Stamp::FIRST {
                // In Linux, probes and loss detection share one timer. If no further segment may be lost, this timer
                // keeps running (`tcp_rack_mark_lost`).
                let timer = rack.find_losses(&mut self.sent, at, status);
                if timer != Instant::NEVER {
                    rack.reordering_timer = timer;
                    rack.probe.at = Instant::NEVER;
                }
            }
            if acked > 0 {
                rack.start(at);
                self.reschedule |= !self.linux_timers;
            }
            if rack.probe.on_ack(received, acked > 0) {
                self.probe_flight = rack.probe.flight;
            }
            self.miss_probe(at.now);
        } else {
            self.sent.lose_uncovered(config.recovery.dupthresh);
        }
        let lost_again = resent_before > 0 && self.sent.resent_count() < resent_before;
        let begins = (self.probe_flight > 0 && !self.linux_timers) || self.begins(lost_again, config);
        if begins {
            self.enter(processed.arrival.bytes, at, config);
        }
        begins
    }

    /// Returns whether a recovery begins (RFC 6675, section 5, (1) and (2); section 5.1). With Linux's timers, a
    /// recovery also begins in two further cases: after a timeout, if RACK detects the loss of data that was sent after
    /// the timeout (`tcp_fastretrans_alert`: `FLAG_LOST_RETRANS`); and immediately after a recovery, if data that was
    /// lost later has been retransmitted but has not arrived (`tcp_time_to_recover`: `lost_out`).
    #[inline(always)]
    pub(super) fn begins(&mut self, lost_since: bool, config: &Config) -> bool {
        let first = self.sent.first();
        let counted = self.rack.is_none() && self.dupacks >= config.recovery.dupthresh;
        match self.phase {
            Phase::Recovery => false,
            Phase::Open | Phase::Marked if self.sent.due().is_some() => true,
            Phase::Open | Phase::Marked if self.linux_timers && self.sent.has_lost() => true,
            Phase::Open | Phase::Marked => {
                let begins = counted && !self.sent.is_sacked_or_resent(first);
                if begins {
                    self.sent.lose(first);
                }
                begins
            }
            Phase::Loss if self.rack.is_some() => {
                self.linux_timers && lost_since && self.sent.due().is_some()
            }
            Phase::Loss => {
                let guard = config.recovery.fast_retransmit_guard;
                let begins = counted && guard.allows(self.sent.una(), self.recover);
                if begins {
                    self.sent.lose_retransmission(first);
                }
                begins
            }
        }
    }

    /// Begins fast recovery. The acknowledgement that triggers fast recovery delivered `arrived` bytes.
    pub(super) fn enter(&mut self, arrived: u64, at: TimerContext<'_>, config: &Config) {
        self.begin_undo(config);
        let first = self.sent.due();
        self.marked_before = self.phase == Phase::Marked;
        self.phase = Phase::Recovery;
        self.recover = self.sent.end();
        self.urgent = first.is_some();
        self.high_rxt = first.map_or(0, |number| number + 1);
        self.rescue = self.sent.seq(self.high_rxt);
        self.entry = arrived;
        if !self.marked_before {
            self.reduction = WindowReduction::AtOnce;
        }
        if let Some(rack) = &mut self.rack {
            rack.probe.cancel();
            rack.probe.on_timer_start(at);
        }
    }
}
