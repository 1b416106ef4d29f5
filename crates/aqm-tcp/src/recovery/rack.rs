//! Losses found by time, and probes for lost tails.
//!
//! Y. Cheng, N. Cardwell, N. Dukkipati, P. Jha, "The RACK-TLP Loss Detection Algorithm for TCP", RFC 8985,
//! 2021: sections 6 (RACK) and 7 (tail loss probe). Names in backticks are the RFC's. Where Linux 6.1 does otherwise
//! (`tcp_recovery.c`, `tcp_dsack_seen`, `tcp_schedule_loss_probe`), it does so with `RestartedBy::OldestSegment`.
//!
//! Ours, where the source is silent: the least round trip is that of the whole connection, at first SRTT. Of what leaves
//! at the same instant the order of sending tells, for which the RFC takes that of sequence numbers (section 6.2, step
//! 2). A time-out holds everything for lost (the RFC spares what left within the last round trip), so that it does the
//! same with and without RACK. There are no timestamps: a retransmission counts as delivered by itself if it took the
//! least round trip. A probe that may not be sent, without a round trip measured since the last (section 7.3), has no
//! timer, and so does not put the time-out off. A loss that a probe repaired reduces what was in flight when the probe
//! left.

use std::cell::LazyCell;
use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::sent::{Arrival, Number, Sent, Stamp};
use super::{ReceivedAck, TimerContext};
use crate::rtt::LEAST_WAIT;

/// Segments may be reordered by a round trip over this (section 6.2, step 4).
const REORDERING_SHARE: u64 = 4;
/// How many recoveries without D-SACK undo what D-SACK taught (section 6.2, step 4).
const PERSISTENCE: u32 = 16;
/// What a receiver may wait with the acknowledgement of a single segment (`TLP.max_ack_delay`, section 7.2).
const ACK_DELAY: Span = Span::from_millis(200);
/// When a probe leaves without any estimate of the round trip (Linux: `TCP_TIMEOUT_INIT`).
const BLIND_PROBE: Span = Span::from_millis(1000);

/// What RACK is told of the recovery when it looks for losses.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Whether losses are being repaired, after a time-out too.
    pub recovering: bool,
    pub dupthresh: u32,
}

/// What time tells about losses.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// The segment that left last of those that have arrived (`RACK.xmit_ts`, `RACK.end_seq`).
    latest: Stamp,
    /// The round trip of the last that arrived (`RACK.rtt`).
    rtt: Span,
    min_rtt: Option<Span>,
    /// The end of the highest segment that has arrived (`RACK.fack`).
    highest: u64,
    /// `RACK.reordering_seen`
    reordered: bool,
    /// `RACK.reo_wnd_mult`
    multiple: u64,
    /// `RACK.reo_wnd_persist`
    persistence: u32,
    /// `RACK.dsack_round`
    dsack_round: Option<u64>,
    /// Retransmissions in flight, in the order of sending; some are out of date.
    resent: VecDeque<(Number, Stamp)>,
    /// When the next segment may count as lost.
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
    /// Retransmissions that left later cannot have been acknowledged by now.
    /// Before any round trip is known, none is credible.
    pub fn credible(&self, at: TimerContext<'_>) -> Option<Instant> {
        let rtt = self.least(at).or_else(|| at.srtt())?;
        at.now.nanos().checked_sub(rtt.nanos()).map(Instant::from_nanos)
    }

    /// Whether an acknowledgement of segments that were each sent once, from `oldest` on, finds nothing to decide:
    /// they left after all that have arrived, and neither a retransmission, a probe nor a D-SACK waits for an answer.
    #[inline]
    pub fn is_settled(&self, oldest: Stamp) -> bool {
        self.resent.is_empty() && !self.probe.is_out() && self.dsack_round.is_none() && oldest >= self.latest
    }

    /// Segments arrived in order, from `oldest` to `newest`, where all is settled: what `on_arrival`, `find_losses` and
    /// the others come to then.
    #[inline(always)]
    pub fn on_expected(&mut self, oldest: Stamp, newest: Stamp, at: TimerContext<'_>) {
        self.rtt = at.now.since(newest.sent);
        self.min_rtt = Some(self.min_rtt.map_or(self.rtt, |least| least.min(self.rtt)));
        self.latest = newest;
        self.reordered |= oldest.end < self.highest;
        self.highest = self.highest.max(newest.end);
        self.reordering_timer = Instant::NEVER;
        self.probe.is_measured = true;
        self.start(at);
        self.probe.due = false;
        self.probe.at = Instant::NEVER;
    }

    /// Something arrived (section 6.2, steps 1 to 3).
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival, now: Instant) {
        if let Some(stamp) = arrival.once {
            let rtt = now.since(stamp.sent);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            self.probe.is_measured = true;
        }
        if let Some((_, left)) = arrival.last {
            self.rtt = now.since(left);
        }
        self.latest = self.latest.max(arrival.newest.unwrap_or(Stamp::FIRST));
        self.reordered |= arrival.lowest < self.highest;
        self.highest = self.highest.max(arrival.highest);
    }

    /// Adapts the tolerance of reordering to D-SACK (section 6.2, step 4); if `doubts`, only once reordering is seen,
    /// and not to that of a probe (Linux: `tcp_dsack_seen`).
    pub fn adapt(&mut self, received: &ReceivedAck, sent: &Sent, ended: bool, doubts: bool) {
        if self.dsack_round.is_some_and(|round| sent.una() >= round) {
            self.dsack_round = None;
        }
        let told =
            duplicate(received).filter(|&end| !doubts || (self.reordered && self.probe.end != Some(end)));
        if self.dsack_round.is_none() && told.is_some() {
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

    /// Marks what is lost by now (`RACK_detect_loss`, section 6.2, step 5). When the last is due
    /// that may be lost yet, which the timer of reordering waits for.
    pub fn find_losses(&mut self, sent: &mut Sent, at: TimerContext<'_>, round: Round) -> Instant {
        let many = sent.sacked().segments >= u64::from(round.dupthresh);
        // Asked for only if something was overtaken.
        let patience = LazyCell::new(|| self.patience(at, many || round.recovering));
        let latest = self.latest;
        let overtaken = |stamp| stamp < latest;
        let last = sent.lose_late(overtaken, |stamp| stamp.sent + *patience <= at.now);
        let due = last.map(|stamp| stamp.sent + *patience);
        let due = if self.resent.is_empty() {
            due
        } else {
            due.max(self.find_lost_again(sent, at.now, self.patience(at, many || round.recovering)))
        };
        due.map_or(Instant::NEVER, |due| at.config.late_expiry(at.now, due.since(at.now)))
    }

    /// Marks what is lost by now of what was sent again: what something overtook by `patience`. When the last of the
    /// others is due that was overtaken.
    fn find_lost_again(&mut self, sent: &mut Sent, now: Instant, patience: Span) -> Option<Instant> {
        let mut due = None;
        let mut place = 0;
        while let Some(&(number, stamp)) = self.resent.get(place) {
            let underway = sent.is_resent(number, stamp);
            if underway && stamp >= self.latest {
                break;
            }
            if underway && stamp.sent + patience > now {
                due = Some(stamp.sent + patience);
                place += 1;
                continue;
            }
            if underway {
                sent.lose_again(number);
            }
            self.resent.remove(place);
        }
        due
    }

    /// New data was acknowledged, or is sent with nothing in flight.
    #[inline(always)]
    pub fn start(&mut self, at: TimerContext<'_>) {
        let measured = (!self.rtt.is_zero()).then_some(self.rtt);
        let srtt = at.srtt().or(measured);
        self.probe.wait = srtt.map(|srtt| srtt.saturating_mul(2));
        self.probe.since = at.now;
        self.probe.on_timer_start(at);
    }

    /// A segment was sent again.
    pub fn on_resent(&mut self, number: Number, stamp: Stamp) {
        self.resent.push_back((number, stamp));
    }

    /// Nothing is lost after all.
    pub fn on_undo(&mut self, sent: &Sent) {
        self.resent = sent.resent().collect();
        self.resent.make_contiguous().sort_unstable_by_key(|&(_, stamp)| stamp);
    }

    /// What left later than this may still arrive, if the last round trip is a measure.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        now.nanos().checked_sub(self.rtt.nanos()).map(Instant::from_nanos).filter(|_| !self.rtt.is_zero())
    }

    /// Everything is lost.
    pub fn on_timeout(&mut self) {
        self.reordering_timer = Instant::NEVER;
        self.probe.cancel();
    }

    /// The least round trip, that of the handshake too.
    fn least(&self, at: TimerContext<'_>) -> Option<Span> {
        self.min_rtt.into_iter().chain(at.estimator.least()).min()
    }

    /// How long a segment may take that another overtook; `hurried` in a recovery, or once SACK covers many.
    fn patience(&self, at: TimerContext<'_>, hurried: bool) -> Span {
        self.rtt + self.tolerance(at, hurried)
    }

    /// How much longer than another a segment may take (`RACK_update_reo_wnd`).
    fn tolerance(&self, at: TimerContext<'_>, hurried: bool) -> Span {
        if !self.reordered && hurried {
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
    /// When new data was last sent or acknowledged; `NEVER` if no probe is to follow it.
    pub since: Instant,
    /// Twice the round trip; none before one was measured.
    wait: Option<Span>,
    /// When the retransmission timer started, and how long it runs.
    timer: (Instant, Span),
    /// A probe is to be sent.
    pub due: bool,
    /// When it is to leave, if that was set when the last acknowledgement came or new data left
    /// (`RestartedBy::OldestSegment`).
    pub at: Instant,
    /// The end of what was sent when the probe left that is not answered (`TLP.end_seq`).
    end: Option<u64>,
    /// Whether it was a retransmission (`TLP.is_retrans`).
    again: bool,
    /// What was in flight when it left.
    pub flight: u64,
    /// Whether none has left since a round trip was measured.
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
            again: false,
            flight: 0,
            is_measured: true,
        }
    }
}

impl Probe {
    /// New data is sent.
    #[inline]
    pub fn on_new(&mut self, now: Instant) {
        self.since = now;
    }

    /// The retransmission timer starts anew.
    #[inline(always)]
    pub fn on_timer_start(&mut self, at: TimerContext<'_>) {
        self.timer = (at.now, at.rto());
    }

    /// When a probe leaves, if nothing forbids it; `alone` if a single segment is in flight. It needs a round trip that
    /// was measured since the last one left (section 7.3).
    #[inline]
    pub fn timer_at(&self, alone: bool) -> Instant {
        if self.end.is_some() || self.due || self.since == Instant::NEVER || !self.is_measured {
            return Instant::NEVER;
        }
        let Some(wait) = self.wait else { return Instant::NEVER };
        let delay = if alone { ACK_DELAY } else { Span::ZERO };
        (self.since + wait + delay).min(self.timer.0 + self.timer.1)
    }

    /// Sets the timer at once, for the retransmission timer would run out after `time_out` (Linux:
    /// `tcp_schedule_loss_probe`).
    pub fn schedule(&mut self, alone: bool, time_out: Span, at: TimerContext<'_>) {
        let wait = match at.srtt() {
            None => BLIND_PROBE,
            Some(srtt) if alone => srtt.saturating_mul(2) + ACK_DELAY,
            Some(srtt) => srtt.saturating_mul(2) + LEAST_WAIT,
        };
        self.at = at.config.expiry(at.now, if time_out.is_zero() { wait } else { wait.min(time_out) });
    }

    /// Whether one is under way.
    pub fn is_out(&self) -> bool {
        self.end.is_some()
    }

    /// It left (`TLP_send_probe`); everything below `end` has been sent.
    pub fn on_sent(&mut self, end: u64, flight: u64, again: bool) {
        self.due = false;
        (self.end, self.again, self.flight) = (Some(end), again, flight);
        self.is_measured = false;
    }

    /// An acknowledgement came, of new data or not (`TLP_process_ack`, section 7.4.2). Whether it shows that
    /// the probe repaired a loss.
    #[inline]
    pub fn on_ack(&mut self, received: &ReceivedAck, advances: bool) -> bool {
        self.due &= !advances;
        let Some(end) = self.end.filter(|&end| received.ack >= end) else { return false };
        // A FIN is not data, and may be missing from what the other end reports.
        let twice = duplicate(received).is_some_and(|to| to == end || to + 1 == end);
        let repaired = self.again && !twice && received.ack > end;
        let repeated = !advances && received.bare && received.sacks.is_empty();
        if !self.again || twice || repaired || repeated {
            self.end = None;
        }
        repaired
    }

    /// There is nothing to probe for any more.
    pub fn cancel(&mut self) {
        (self.due, self.end, self.at) = (false, None, Instant::NEVER);
    }
}

/// Where the data ends that arrived twice, if the acknowledgement tells of some (RFC 2883, section 4).
pub fn duplicate(received: &ReceivedAck) -> Option<u64> {
    let mut ranges = received.sacks.ranges(received.ack);
    let (from, to) = ranges.next()?;
    let inside = |(low, high): (u64, u64)| low <= from && to <= high;
    (to <= received.ack || ranges.next().is_some_and(inside)).then_some(to)
}

#[cfg(test)]
mod tests;
