//! The receiving half of an endpoint, which orders the received data and determines when acknowledgements are sent.
//!
//! W. Eddy, RFC 9293, 2022, section 3.10.7.4; M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009, section 4.2 (delayed
//! acknowledgements, and immediate acknowledgements if data is out of order or fills a gap); RFC 2018, section 4, and
//! RFC 2883 (contents of SACK blocks); RFC 3168, section 6.1.3 (echo of ECN marks).
//!
//! aqmlab's choices where the sources are silent: acknowledgements that become due before the endpoint is polled are
//! merged; the application reads data immediately, so the receive window stays open.

mod adaptive_ack;
mod feedback;
mod packet_numbers;
mod window_tuning;

use aqm_net::{Ecn, Instant, Span};

use crate::config::Config;
use crate::config::ecn::MarkResponse;
use crate::config::receiver::DelayedAck;
use crate::config::recovery::Undo;
use crate::config::sack::{Dsack, SackBytes};
use crate::recovery::TimerContext;
use crate::segment::{Flags, Sacks, Segment};
use adaptive_ack::Adaptive;
pub(crate) use feedback::MarkFeedback;
use packet_numbers::PacketNumbers;
use window_tuning::Arrival;
pub use window_tuning::{INITIAL_BUFFER, packet_memory};

/// The receiving half of an endpoint.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Next expected sequence number (`RCV.NXT`). If the FIN has arrived, this number includes the FIN.
    expected: u64,
    /// Time at which the delayed acknowledgement is sent.
    timer: Instant,
    /// Data beyond a gap, and duplicate data. This state is allocated on demand and released after the data has been
    /// reported.
    disorder: Option<Box<Disorder>>,
    /// State that only some receivers need; `None` at the other receivers.
    cold: Option<Box<ColdState>>,
    /// Number of segments with data or a FIN that have arrived. The counter saturates, and is maintained only if
    /// acknowledgements are delayed.
    segments: u32,
    /// Whether a pure acknowledgement must be sent.
    due: bool,
    /// Whether acknowledgements echo an ECN mark (ECE).
    echo: bool,
    /// Whether all data and the FIN have arrived.
    fin: bool,
}

/// State that only some receivers need.
#[derive(Debug, Default)]
struct ColdState {
    /// State of adaptive acknowledgements, and the timestamp to echo.
    adaptive: Adaptive,
    /// Feedback of ECN marks; `None` if the feedback is classic.
    feedback: Option<MarkFeedback>,
    /// Numbers of the received packets (QUIC only).
    packet_numbers: Option<Box<PacketNumbers>>,
}

#[derive(Debug, Default)]
struct Disorder {
    /// Ranges `[from, to)` in ascending order, separated by gaps.
    ranges: Vec<(u64, u64)>,
    /// The most recently changed ranges. The range that changed last is first. A range that has since been filled keeps
    /// its place; unused places contain empty ranges.
    recent: [(u64, u64); 3],
    /// Duplicate data that has arrived since the last acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// Sequence number of a FIN that arrived beyond a gap.
    fin_at: Option<u64>,
    report: DelayedReport,
}

/// State of the segments whose SACK report is delayed.
#[derive(Clone, Copy, Debug, Default)]
struct DelayedReport {
    /// Sequence number at which the in-order data ends. This number identifies the gap.
    gap: u64,
    /// Number of acknowledgements that were sent immediately for this gap (at most `dupthresh`).
    sent: u64,
    /// Number of segments whose report is delayed.
    waiting: u32,
}

/// Maximum number of segments whose report is delayed (Linux: `tcp_comp_sack_nr`), and the divisor that yields the
/// maximum delay from the round-trip time.
const MAX_DELAYED_REPORTS: u32 = 44;
const ROUND_TRIP_SHARE: u64 = 20;

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            expected: 0,
            timer: Instant::NEVER,
            disorder: None,
            cold: None,
            segments: 0,
            due: false,
            echo: false,
            fin: false,
        }
    }

    /// Processes a segment with data or a FIN. `at` returns the current time and the round-trip estimate.
    #[inline(always)]
    pub(crate) fn on_segment<'a>(
        &mut self,
        segment: &Segment,
        at: impl FnOnce() -> TimerContext<'a>,
        config: &Config,
    ) {
        if config.recovery.undo == Undo::DsackOrTimestamps {
            self.cold.get_or_insert_default().adaptive.on_timestamp(segment);
        }
        let reduced = segment.flags.has(Flags::CWR);
        let first_mark = segment.ecn == Ecn::Ce && (reduced || !self.echo);
        self.echo = segment.ecn == Ecn::Ce || (self.echo && !reduced);
        let in_order = self.disorder.as_ref().is_none_or(|it| it.ranges.is_empty());
        if segment.seq == self.expected && in_order {
            self.expected = segment.end();
            self.fin |= segment.flags.has(Flags::FIN);
            if config.receiver.delayed_ack != DelayedAck::Off {
                let last = self.fin
                    || self.due
                    || (reduced && config.ecn.response == MarkResponse::Linux)
                    || self.is_mark_urgent();
                if let Some(until) = self.wait(segment, first_mark, at(), config).filter(|_| !last) {
                    self.timer = until;
                    return;
                }
            }
        } else if self.on_disorder(segment, first_mark, at(), config) {
            return;
        }
        self.acknowledge();
    }

    /// Processes a segment that is not the next segment in order, or that arrives while there is a gap. Returns whether
    /// the segment's acknowledgement is delayed.
    #[inline(never)]
    fn on_disorder(
        &mut self,
        segment: &Segment,
        first_mark: bool,
        at: TimerContext<'_>,
        config: &Config,
    ) -> bool {
        self.segments = self.segments.saturating_add(1);
        let (before, end) = (self.expected, segment.end());
        self.store(segment, end, config.recovery.kind.has_sack());
        if config.receiver.delayed_ack == DelayedAck::Adaptive {
            let advances = self.expected > before;
            let stored =
                self.disorder.as_ref().map_or(0, |it| it.ranges.iter().map(|(from, to)| to - from).sum());
            let adaptive = &mut self.cold.get_or_insert_default().adaptive;
            if end <= before {
                adaptive.on_old(at, config);
            } else if advances {
                adaptive.on_data(at, config);
            }
            if end > before {
                let arrival = Arrival { segment, expected: self.expected, stored, now: at.now };
                adaptive.tune_window(&arrival, config);
            }
            adaptive.on_ecn(segment.ecn, first_mark, at, config);
            let waits = end > before && !config.receiver.sack_delay.is_zero();
            return waits && !adaptive.is_quick(self.expected, config) && self.delays_report(at, config);
        }
        false
    }

    /// Processes a QUIC packet with data.
    #[inline(never)]
    pub(crate) fn on_packet(&mut self, packet: &Segment, now: Instant, config: &Config) {
        let numbers = self.cold.get_or_insert_default().packet_numbers.get_or_insert_default();
        let until = numbers.on_packet(packet, now, &config.receiver);
        if packet.seq == self.expected && self.disorder.as_ref().is_none_or(|it| it.ranges.is_empty()) {
            self.expected = packet.end();
        } else {
            self.store(packet, packet.end(), false);
        }
        match until {
            Some(until) => self.timer = self.timer.min(until),
            None => self.acknowledge(),
        }
    }

    /// Returns whether the SACK report of a segment is delayed until further segments have arrived (Linux:
    /// `__tcp_ack_snd_check`).
    fn delays_report(&mut self, at: TimerContext<'_>, config: &Config) -> bool {
        let Some(disorder) = self.disorder.as_mut().filter(|it| !it.ranges.is_empty()) else { return false };
        let report = &mut disorder.report;
        if report.gap != self.expected {
            (report.gap, report.sent) = (self.expected, 0);
        }
        let reports_immediately = report.sent < u64::from(config.recovery.dupthresh);
        if !config.recovery.kind.has_sack() || report.waiting >= MAX_DELAYED_REPORTS || reports_immediately {
            report.sent += u64::from(reports_immediately);
            return false;
        }
        report.waiting += 1;
        if report.waiting == 1 {
            let share = at.srtt().map_or(u64::MAX, |srtt| srtt.nanos() / ROUND_TRIP_SHARE);
            self.timer = at.now + config.receiver.sack_delay.min(Span::from_nanos(share));
        }
        true
    }

    /// Returns the time until which the acknowledgement of an in-order segment may be delayed; `None` if the
    /// acknowledgement must not be delayed.
    #[inline]
    fn wait(
        &mut self,
        segment: &Segment,
        first_mark: bool,
        at: TimerContext<'_>,
        config: &Config,
    ) -> Option<Instant> {
        self.segments = self.segments.saturating_add(1);
        let receiver = &config.receiver;
        let first = self.timer == Instant::NEVER && u64::from(self.segments) > receiver.quick_acks;
        match receiver.delayed_ack {
            DelayedAck::Off => None,
            DelayedAck::EverySecond => first.then(|| at.now + receiver.delayed_ack_timer),
            DelayedAck::Heartbeat => first.then(|| at.now.next_multiple(receiver.delayed_ack_timer)),
            DelayedAck::Adaptive => {
                let adaptive = &mut self.cold.get_or_insert_default().adaptive;
                adaptive.on_data(at, config);
                let arrival = Arrival { segment, expected: self.expected, stored: 0, now: at.now };
                adaptive.tune_window(&arrival, config);
                adaptive.on_ecn(segment.ecn, first_mark, at, config);
                let until = adaptive.wait(self.expected, self.timer, at, config);
                until.filter(|_| !segment.flags.has(Flags::PUSH))
            }
        }
    }

    /// Processes the expiry of the timer for delayed acknowledgements.
    pub(crate) fn on_timer(&mut self, at: TimerContext<'_>) {
        if at.now >= self.timer {
            let is_report = self.disorder.as_ref().is_some_and(|it| it.report.waiting > 0);
            if let Some(cold) = self.cold.as_mut().filter(|_| !is_report) {
                cold.adaptive.on_timer(at);
            }
            self.acknowledge();
        }
    }

    /// Requests that an acknowledgement be sent immediately.
    pub(crate) fn acknowledge(&mut self) {
        self.timer = Instant::NEVER;
        self.due = true;
    }

    /// Returns whether a pure acknowledgement must be sent.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Writes the acknowledgement fields of a segment. The segment serves as the acknowledgement that was due or
    /// delayed, if any.
    #[inline(always)]
    pub(crate) fn write_acknowledgement(&mut self, segment: &mut Segment, now: Instant, config: &Config) {
        if self.cold.is_some() {
            // The segment is copied so that, for the other receivers, the compiler can keep the segment in registers.
            let mut copy = *segment;
            self.write_cold_acknowledgement(&mut copy, now, config);
            *segment = copy;
        } else {
            self.write_fields(segment, config);
        }
    }

    /// Writes the fields of an acknowledgement with classic feedback.
    #[inline(always)]
    fn write_fields(&mut self, segment: &mut Segment, config: &Config) {
        self.due = false;
        self.timer = Instant::NEVER;
        segment.ack = self.expected;
        segment.flags =
            segment.flags.union(if self.echo { Flags::ACK.union(Flags::ECE) } else { Flags::ACK });
        if self.disorder.is_some() {
            segment.sacks = self.sack_blocks(config);
            segment.wire = segment.wire.saturating_add(option_bytes(segment.sacks, config));
        }
    }

    /// Writes an acknowledgement with a timestamp or with non-classic feedback, or an earlier acknowledgement that must
    /// be sent first.
    #[inline(never)]
    fn write_cold_acknowledgement(&mut self, segment: &mut Segment, now: Instant, config: &Config) {
        if self.cold.as_ref().is_some_and(|cold| cold.packet_numbers.is_some()) {
            return self.write_packet_ranges(segment, now);
        }
        let is_pending = self.due || self.timer != Instant::NEVER;
        if let Some(cold) = &mut self.cold {
            if let Some(early) = cold.feedback.as_mut().and_then(MarkFeedback::take_early) {
                early.write(segment);
                return;
            }
            cold.adaptive.on_ack_sent(self.expected, is_pending, config);
            segment.echo = cold.adaptive.echo();
        }
        self.write_fields(segment, config);
        if let Some(feedback) = self.cold.as_mut().and_then(|cold| cold.feedback.as_mut()) {
            feedback.write(segment);
        }
    }

    /// Writes an acknowledgement of QUIC packets, if any packet has arrived since the last acknowledgement.
    fn write_packet_ranges(&mut self, segment: &mut Segment, now: Instant) {
        self.due = false;
        self.timer = Instant::NEVER;
        let Some(cold) = &mut self.cold else { return };
        if let Some(numbers) = cold.packet_numbers.as_mut().filter(|numbers| numbers.has_unacknowledged()) {
            numbers.write(segment, now);
            if let Some(feedback) = &mut cold.feedback {
                feedback.write(segment);
            }
        }
    }

    /// Makes the receiver report ECN marks with a feedback mode other than the classic mode.
    pub(crate) fn set_feedback(&mut self, feedback: MarkFeedback) {
        self.cold.get_or_insert_default().feedback = Some(feedback);
    }

    /// Processes the ECN bits of a segment. This function must be called before the segment's data is processed.
    #[inline(always)]
    pub(crate) fn on_ecn(&mut self, segment: &Segment) {
        if self.cold.is_some() {
            // The segment is copied so that the compiler can keep the original in registers.
            self.count_marks(&{ *segment });
        }
    }

    /// Passes a segment to the feedback mode, which counts ECN marks.
    #[inline(never)]
    fn count_marks(&mut self, segment: &Segment) {
        if let Some(feedback) = self.cold.as_mut().and_then(|cold| cold.feedback.as_mut()) {
            let is_pending = self.due || self.timer != Instant::NEVER;
            feedback.on_segment(segment, self.expected, is_pending);
        }
    }

    /// Whether the ECN bits of the last segment require an immediate acknowledgement.
    #[inline]
    fn is_mark_urgent(&self) -> bool {
        self.cold.as_ref().and_then(|cold| cold.feedback.as_ref()).is_some_and(MarkFeedback::is_urgent)
    }

    /// Returns the SACK blocks that report data beyond a gap and duplicate data.
    #[inline(never)]
    fn sack_blocks(&mut self, config: &Config) -> Sacks {
        let Some(disorder) = &mut self.disorder else { return Sacks::default() };
        disorder.report.waiting = 0;
        let has_sack = config.recovery.kind.has_sack();
        let sacks =
            if has_sack { disorder.sacks(self.expected, config.sack.dsack) } else { Sacks::default() };
        if disorder.ranges.is_empty() {
            self.disorder = None;
        }
        sacks
    }

    /// Returns the time at which `on_timer` must be called next.
    #[inline]
    pub(crate) fn timer(&self) -> Instant {
        self.timer
    }

    /// Returns the number of payload bytes that arrived in order.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.expected - u64::from(self.fin)
    }

    /// Returns whether all data and the FIN have arrived.
    #[inline]
    pub(crate) fn has_fin(&self) -> bool {
        self.fin
    }

    /// Stores the segment's data, which is not the next data in order and ends at `to`, and updates the SACK state.
    #[inline(always)]
    fn store(&mut self, segment: &Segment, to: u64, has_sack: bool) {
        let from = segment.seq;
        let disorder = self.disorder.get_or_insert_default();
        if to <= self.expected {
            disorder.duplicate = Some((from, to));
            return;
        }
        if segment.flags.has(Flags::FIN) {
            disorder.fin_at = Some(to - 1);
        }
        if from < self.expected {
            disorder.duplicate = Some((from, self.expected));
        }
        let range = disorder.add(from.max(self.expected), to);
        if from <= self.expected {
            // Gaps separate the ranges, so only the first range has become the next data in order.
            disorder.ranges.remove(0);
            self.expected = range.1;
        } else if has_sack {
            disorder.move_to_front(range);
        }
        self.fin |= disorder.fin_at.is_some_and(|at| self.expected > at);
    }
}

impl Disorder {
    /// Adds a range and merges the new range with all overlapping and adjacent ranges. Returns the merged range.
    #[inline(always)]
    fn add(&mut self, mut from: u64, mut to: u64) -> (u64, u64) {
        match self.ranges.last_mut() {
            // In most cases, new data extends the highest range or begins a new range above the highest range.
            Some(last) if from == last.1 => {
                last.1 = to;
                return *last;
            }
            Some(last) if from <= last.1 => {
                let first = self.ranges.partition_point(|range| range.1 < from);
                let end = self.ranges.partition_point(|range| range.0 <= to);
                if let Some(touched) = self.ranges.get(first..end).filter(|touched| !touched.is_empty()) {
                    let overlap = touched.iter().find(|range| range.0 <= from && to <= range.1);
                    self.duplicate = overlap.map(|_| (from, to)).or(self.duplicate);
                    from = from.min(touched[0].0);
                    to = to.max(touched[touched.len() - 1].1);
                }
                if first == end {
                    self.ranges.insert(first, (from, to));
                } else {
                    self.ranges[first] = (from, to);
                    self.ranges.drain(first + 1..end);
                }
            }
            _ => self.ranges.push((from, to)),
        }
        (from, to)
    }

    /// Moves a range that has just changed to the front of the list of most recently changed ranges. Ranges that have
    /// become parts of this range leave the list.
    #[inline(always)]
    fn move_to_front(&mut self, range: (u64, u64)) {
        let is_part = |&(from, to): &(u64, u64)| range.0 <= from && to <= range.1;
        let mut others = self.recent.into_iter().filter(|other| !is_part(other));
        self.recent = [range, others.next().unwrap_or_default(), others.next().unwrap_or_default()];
    }

    /// Returns the SACK blocks of an acknowledgement: first the duplicate data, then the most recently changed ranges.
    fn sacks(&mut self, ack: u64, dsack: Dsack) -> Sacks {
        let mut sacks = Sacks::default();
        if let Some((from, to)) = self.duplicate.take()
            && dsack == Dsack::On
        {
            sacks.push(ack, from, to);
        }
        for (from, to) in self.recent.into_iter().filter(|&(_, to)| to > ack) {
            sacks.push(ack, from, to);
        }
        sacks
    }
}

/// Returns the number of bytes that the SACK blocks add to a segment.
fn option_bytes(sacks: Sacks, config: &Config) -> u16 {
    if sacks.is_empty() {
        return 0;
    }
    let option = match config.sack.option_bytes {
        SackBytes::Counted => 4, // kind, length, and padding to a word
        SackBytes::Blocks => 0,
        SackBytes::Unpadded => 2,
    };
    option + 8 * sacks.count()
}

#[cfg(test)]
mod tests;
