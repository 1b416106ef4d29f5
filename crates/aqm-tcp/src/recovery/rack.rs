//! Detects losses by time, and sends probes to detect losses at the end of a transfer.
//!
//! Y. Cheng, N. Cardwell, N. Dukkipati, P. Jha, "The RACK-TLP Loss Detection Algorithm for TCP", RFC 8985, 2021:
//! sections 6 (RACK) and 7 (tail loss probe). Names in backticks are from the RFC. Where Linux 6.1 differs from the RFC
//! (`tcp_recovery.c`, `tcp_dsack_seen`, `tcp_schedule_loss_probe`), `RestartedBy::OldestSegment` selects the behaviour
//! of Linux.
//!
//! aqmlab's choices where the source is silent: the minimum round-trip time is the minimum since the connection was
//! opened, or SRTT before the first measurement. Segments that are sent at the same instant are ordered by
//! transmission, whereas the RFC orders these segments by sequence number (section 6.2, step 2). A timeout marks all
//! data as lost, so that a timeout has the same effect with and without RACK; the RFC excludes data sent within the
//! last round-trip time. aqmlab's RACK does not use timestamps. A retransmission counts as delivered if at least the
//! minimum round-trip time has passed since the retransmission was sent. A probe may not be sent if no round-trip time
//! has been measured since the last probe (section 7.3). In this case, no probe timer is set, so the retransmission
//! timeout is not delayed. If a probe repaired a loss, the window reduction is based on the amount of data that was in
//! flight when the probe was sent.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::sent::{Arrival, Arrived, Number, Sent, Stamp};
use super::{ReceivedAck, TimerContext};
use crate::rtt::MIN_WAIT;

/// Divisor of the minimum round-trip time. The initial reordering window is the minimum round-trip time divided by this
/// number (section 6.2, step 4).
const REORDERING_SHARE: u64 = 4;
/// Number of recoveries without D-SACK after which the reordering window, which D-SACKs have enlarged, is reset
/// (section 6.2, step 4).
const PERSISTENCE: u32 = 16;
/// Maximum time by which a receiver delays the acknowledgement of a single segment (`TLP.max_ack_delay`, section 7.2).
const ACK_DELAY: Span = Span::from_millis(200);
/// Delay of a probe if there is no round-trip estimate (Linux: `TCP_TIMEOUT_INIT`).
const PROBE_DELAY_WITHOUT_RTT: Span = Span::from_millis(1000);

/// The part of the recovery's state that RACK needs to detect losses.
#[derive(Clone, Copy)]
pub(crate) struct RecoveryStatus {
    /// Whether losses are being repaired, including losses after a timeout.
    pub recovering: bool,
    pub dupthresh: u32,
}

/// State of the loss detection by time.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Last transmission of all segments that have arrived (`RACK.xmit_ts`, `RACK.end_seq`).
    latest: Stamp,
    /// Round-trip time of the last segment that arrived (`RACK.rtt`).
    rtt: Span,
    min_rtt: Option<Span>,
    /// End of the highest segment that has arrived (`RACK.fack`).
    highest: u64,
    /// `RACK.reordering_seen`
    reordered: bool,
    /// `RACK.reo_wnd_mult`
    multiple: u64,
    /// `RACK.reo_wnd_persist`
    persistence: u32,
    /// `RACK.dsack_round`
    dsack_round: Option<u64>,
    /// Retransmissions in flight, in order of transmission. Some entries may be outdated.
    resent: VecDeque<(Number, Stamp)>,
    /// Time at which the next segment may be considered lost.
    pub reordering_timer: Instant,
    pub probe: Probe,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            latest: Stamp::FIRST,
            rtt: Span::ZERO,
            min_rtt: None,
            highest: 0,
            reordered: false,
            multiple: 1,
            persistence: PERSISTENCE,
            dsack_round: None,
            resent: VecDeque::new(),
            reordering_timer: Instant::NEVER,
            probe: Probe::default(),
        }
    }
}

impl Rack {
    /// Returns the latest departure time of a retransmission whose acknowledgement can have arrived by now. Returns
    /// `None` before a round-trip time has been measured, because no acknowledgement is then attributed to a
    /// retransmission.
    pub fn credible(&self, at: TimerContext<'_>) -> Option<Instant> {
        let rtt = self.least(at).or_else(|| at.srtt())?;
        at.now.nanos().checked_sub(rtt.nanos()).map(Instant::from_nanos)
    }

    /// Returns whether no decision is required when an acknowledgement arrives for segments that were sent only once,
    /// the first of which is `oldest`. No decision is required if these segments were sent after all segments that have
    /// already arrived, and no retransmission, probe or D-SACK is pending.
    #[inline]
    pub fn is_settled(&self, oldest: Stamp) -> bool {
        self.resent.is_empty() && !self.probe.is_out() && self.dsack_round.is_none() && oldest >= self.latest
    }

    /// Processes the in-order arrival of the segments from `oldest` to `newest` if `is_settled` is true. The result is
    /// the same as if `on_arrival`, `find_losses` and the other functions had been called.
    #[inline(always)]
    pub fn on_expected(&mut self, oldest: Arrived, newest: Arrived, at: TimerContext<'_>) {
        self.rtt = at.now.since(newest.stamp.sent);
        self.min_rtt = Some(self.min_rtt.map_or(self.rtt, |least| least.min(self.rtt)));
        self.latest = newest.stamp;
        self.reordered |= oldest.end < self.highest;
        self.highest = self.highest.max(newest.end);
        self.reordering_timer = Instant::NEVER;
        self.probe.is_measured = true;
        self.start(at);
        self.probe.due = false;
        self.probe.at = Instant::NEVER;
    }

    /// Processes the arrival of data (section 6.2, steps 1 to 3).
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival, now: Instant) {
        if arrival.newest_sent_once > Stamp::FIRST {
            let rtt = now.since(arrival.newest_sent_once.sent);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            self.probe.is_measured = true;
        }
        let (end, left) = arrival.highest_departure;
        if end > 0 {
            self.rtt = now.since(left);
        }
        self.latest = self.latest.max(arrival.newest);
        self.reordered |= arrival.lowest_sent_once < self.highest;
        self.highest = self.highest.max(arrival.highest);
    }

    /// Adapts the reordering window to D-SACKs (section 6.2, step 4). If `linux_timers` is true, a D-SACK is considered
    /// only after reordering has been observed, and a D-SACK that a probe caused is ignored (Linux: `tcp_dsack_seen`).
    pub fn adapt(&mut self, received: &ReceivedAck, sent: &Sent, ended: bool, linux_timers: bool) {
        if self.dsack_round.is_some_and(|round| sent.una() >= round) {
            self.dsack_round = None;
        }
        let reported = duplicate(received)
            .filter(|&end| !linux_timers || (self.reordered && self.probe.end != Some(end)));
        if self.dsack_round.is_none() && reported.is_some() {
            self.dsack_round = Some(sent.end());
            self.multiple += 1;
            self.persistence = PERSISTENCE;
        } else if ended {
            self.persistence = self.persistence.saturating_sub(1);
            if self.persistence == 0 {
                self.multiple = 1;
            }
        }
    }

    /// Marks the segments that are now considered lost (`RACK_detect_loss`, section 6.2, step 5). Returns the latest
    /// time at which another segment may be considered lost. The reordering timer is set to this time.
    pub fn find_losses(&mut self, sent: &mut Sent, at: TimerContext<'_>, status: RecoveryStatus) -> Instant {
        let is_overtaken = sent.is_overtaken(self.latest);
        if !is_overtaken && self.resent.front().is_none_or(|&(_, stamp)| stamp > self.latest) {
            return Instant::NEVER;
        }
        let has_many_sacked = sent.sacked().segments >= u64::from(status.dupthresh);
        let loss_delay = self.loss_delay(at, has_many_sacked || status.recovering);
        let is_late = |stamp: Stamp| stamp.sent + loss_delay <= at.now;
        let last = if is_overtaken { sent.lose_late(self.latest, is_late) } else { None };
        let due = last.max(self.find_lost_again(sent, is_late)).map(|stamp| stamp.sent + loss_delay);
        due.map_or(Instant::NEVER, |due| at.config.late_expiry(at.now, due.since(at.now)))
    }

    /// Marks the overtaken retransmissions that satisfy `is_late` as lost, because a segment sent later has arrived.
    /// Returns the last overtaken retransmission that does not satisfy `is_late` yet. Because the retransmissions are in
    /// order of transmission, no retransmission satisfies `is_late` if an earlier one does not.
    fn find_lost_again(&mut self, sent: &mut Sent, is_late: impl Fn(Stamp) -> bool) -> Option<Stamp> {
        while let Some(&(number, stamp)) = self.resent.front()
            && stamp <= self.latest
        {
            if sent.is_resent(number, stamp) {
                if !is_late(stamp) {
                    return self.last_overtaken(sent);
                }
                sent.lose_retransmission(number);
            }
            self.resent.pop_front();
        }
        None
    }

    /// Returns the last retransmission in flight that has been overtaken.
    fn last_overtaken(&self, sent: &Sent) -> Option<Stamp> {
        let overtaken = self.resent.partition_point(|&(_, stamp)| stamp <= self.latest);
        let last = self.resent.range(..overtaken).rfind(|&&(number, stamp)| sent.is_resent(number, stamp));
        last.map(|&(_, stamp)| stamp)
    }

    /// Restarts the probe timer. The probe timer must be restarted when new data is acknowledged, and when data is sent
    /// while no data is in flight.
    #[inline(always)]
    pub fn start(&mut self, at: TimerContext<'_>) {
        let measured = (!self.rtt.is_zero()).then_some(self.rtt);
        let srtt = at.srtt().or(measured);
        self.probe.wait = srtt.map(|srtt| srtt.saturating_mul(2));
        self.probe.since = at.now;
        self.probe.on_timer_start(at);
    }

    /// Records a retransmission.
    pub fn on_resent(&mut self, number: Number, stamp: Stamp) {
        self.resent.push_back((number, stamp));
    }

    /// Rebuilds the list of retransmissions after a window reduction has been undone.
    pub fn on_undo(&mut self, sent: &Sent) {
        self.resent = sent.resent().collect();
        self.resent.make_contiguous().sort_unstable_by_key(|&(_, stamp)| stamp);
    }

    /// Returns the earliest departure time of the segments that may still be in flight, according to the last
    /// round-trip time.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        now.nanos().checked_sub(self.rtt.nanos()).map(Instant::from_nanos).filter(|_| !self.rtt.is_zero())
    }

    /// Stops the reordering timer and the probe timer after a timeout.
    pub fn on_timeout(&mut self) {
        self.reordering_timer = Instant::NEVER;
        self.probe.cancel();
    }

    /// Returns the minimum round-trip time, including the round-trip time of the handshake.
    fn least(&self, at: TimerContext<'_>) -> Option<Span> {
        match (self.min_rtt, at.estimator.least()) {
            (Some(measured), Some(of_handshake)) => Some(measured.min(of_handshake)),
            (measured, of_handshake) => measured.or(of_handshake),
        }
    }

    /// Returns the time between the departure of an overtaken segment and the moment at which the segment is considered
    /// lost. `immediate` is true during a recovery, and if SACK blocks cover many segments.
    fn loss_delay(&self, at: TimerContext<'_>, immediate: bool) -> Span {
        self.rtt + self.reordering_window(at, immediate)
    }

    /// Returns the reordering window (`RACK_update_reo_wnd`).
    fn reordering_window(&self, at: TimerContext<'_>, immediate: bool) -> Span {
        if !self.reordered && immediate {
            return Span::ZERO;
        }
        let least = self.least(at).unwrap_or(Span::ZERO).nanos();
        let window = Span::from_nanos(least.saturating_mul(self.multiple) / REORDERING_SHARE);
        window.min(at.srtt().unwrap_or(window))
    }
}

/// The tail loss probe.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// Time at which new data was last sent or acknowledged; `NEVER` if no probe may be sent.
    pub since: Instant,
    /// Twice the round-trip time; `None` before the first measurement.
    wait: Option<Span>,
    /// Start time and duration of the retransmission timer.
    timer: (Instant, Span),
    /// Whether a probe must be sent.
    pub due: bool,
    /// Expiry time of the probe timer, if the timer was set when the last acknowledgement arrived or when new data was
    /// sent (`RestartedBy::OldestSegment`).
    pub at: Instant,
    /// End of the data that had been sent when the pending probe was sent (`TLP.end_seq`).
    end: Option<u64>,
    /// Whether the probe was a retransmission (`TLP.is_retrans`).
    is_retransmission: bool,
    /// Amount of data that was in flight when the probe was sent.
    pub flight: u64,
    /// Whether a round-trip time has been measured since the last probe.
    is_measured: bool,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            since: Instant::NEVER,
            wait: None,
            timer: (Instant::NEVER, Span::ZERO),
            due: false,
            at: Instant::NEVER,
            end: None,
            is_retransmission: false,
            flight: 0,
            is_measured: true,
        }
    }
}

impl Probe {
    /// Records the transmission of new data.
    #[inline]
    pub fn on_new(&mut self, now: Instant) {
        self.since = now;
    }

    /// Records a restart of the retransmission timer.
    #[inline(always)]
    pub fn on_timer_start(&mut self, at: TimerContext<'_>) {
        self.timer = (at.now, at.rto());
    }

    /// Returns the departure time of the next probe, if a probe is permitted. `single` states whether only one segment
    /// is in flight. A probe is permitted only if a round-trip time has been measured since the last probe (section
    /// 7.3).
    #[inline]
    pub fn timer_at(&self, single: bool) -> Instant {
        if self.end.is_some() || self.due || self.since == Instant::NEVER || !self.is_measured {
            return Instant::NEVER;
        }
        let Some(wait) = self.wait else { return Instant::NEVER };
        let delay = if single { ACK_DELAY } else { Span::ZERO };
        (self.since + wait + delay).min(self.timer.0 + self.timer.1)
    }

    /// Sets the probe timer immediately. `timeout` is the remaining time until the retransmission timer would expire
    /// (Linux: `tcp_schedule_loss_probe`).
    pub fn schedule(&mut self, single: bool, timeout: Span, at: TimerContext<'_>) {
        let wait = match at.srtt() {
            None => PROBE_DELAY_WITHOUT_RTT,
            Some(srtt) if single => srtt.saturating_mul(2) + ACK_DELAY,
            Some(srtt) => srtt.saturating_mul(2) + MIN_WAIT,
        };
        self.at = at.config.expiry(at.now, if timeout.is_zero() { wait } else { wait.min(timeout) });
    }

    /// Returns whether a probe is pending.
    pub fn is_out(&self) -> bool {
        self.end.is_some()
    }

    /// Records the transmission of a probe (`TLP_send_probe`). All data below `end` has been sent.
    pub fn on_sent(&mut self, end: u64, flight: u64, is_retransmission: bool) {
        self.due = false;
        (self.end, self.is_retransmission, self.flight) = (Some(end), is_retransmission, flight);
        self.is_measured = false;
    }

    /// Processes an acknowledgement (`TLP_process_ack`, section 7.4.2). Returns whether the acknowledgement shows that
    /// the probe repaired a loss.
    #[inline]
    pub fn on_ack(&mut self, received: &ReceivedAck, advances: bool) -> bool {
        self.due &= !advances;
        let Some(end) = self.end.filter(|&end| received.ack >= end) else { return false };
        // A FIN is not data and may be missing from the other endpoint's report.
        let twice = duplicate(received).is_some_and(|to| to == end || to + 1 == end);
        let repaired = self.is_retransmission && !twice && received.ack > end;
        let repeated = !advances && received.bare && received.sacks.is_empty();
        if !self.is_retransmission || twice || repaired || repeated {
            self.end = None;
        }
        repaired
    }

    /// Cancels the probe, because there is no longer a tail of unacknowledged data to probe.
    pub fn cancel(&mut self) {
        (self.due, self.end, self.at) = (false, None, Instant::NEVER);
    }
}

/// Returns the end of the data that arrived twice; `None` if the acknowledgement does not report duplicate data (RFC
/// 2883, section 4).
pub fn duplicate(received: &ReceivedAck) -> Option<u64> {
    received.sacks.duplicate_end(received.ack)
}

#[cfg(test)]
mod tests;
