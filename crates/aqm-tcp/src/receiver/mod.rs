//! The half of an end that gets data: puts it in order and says when to acknowledge it.
//!
//! W. Eddy, RFC 9293, 2022, section 3.10.7.4; M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009,
//! section 4.2 (when an acknowledgement may wait; at once if data is out of order or fills a gap);
//! RFC 2018, section 4, and RFC 2883 (what SACK tells); RFC 3168, section 6.1.3 (the echo of marks).
//!
//! Ours, where the sources are silent: acknowledgements that became due before the end was asked
//! merge into one; the application takes data at once, so the window stays open.

mod adaptive_ack;

use aqm_net::{Ecn, Instant, Span};

use crate::config::Config;
use crate::config::ecn::MarkResponse;
use crate::config::receiver::DelayedAck;
use crate::config::recovery::Undo;
use crate::config::sack::{Dsack, SackBytes};
use crate::recovery::TimerContext;
use crate::segment::{Flags, Sacks, Segment};
use adaptive_ack::Adaptive;

/// The receiving half of an end.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Everything below has arrived (`RCV.NXT`); a FIN counts.
    expected: u64,
    /// When a delayed acknowledgement leaves.
    timer: Instant,
    /// What has arrived beyond a gap, or twice; made when something does, and gone when that is told.
    disorder: Option<Box<Disorder>>,
    /// When to acknowledge, if that adapts, and the time to echo, if segments tell when they left.
    adaptive: Option<Box<Adaptive>>,
    /// Segments with data or a FIN that have arrived, as far as this counts and where their acknowledgements may wait.
    segments: u32,
    /// Whether an acknowledgement is to leave by itself.
    due: bool,
    /// Whether acknowledgements echo a mark.
    echo: bool,
    /// Whether everything up to the FIN has arrived.
    fin: bool,
}

#[derive(Debug, Default)]
struct Disorder {
    /// `[from, to)`, ascending, with gaps between.
    ranges: Vec<(u64, u64)>,
    /// A number within each of the ranges that changed last, the newest first.
    recent: [Option<u64>; 3],
    /// What came twice since the last acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// The number the FIN takes, if it has arrived beyond a gap.
    fin_at: Option<u64>,
    gathered: Gathered,
}

/// What waits to be told by SACK together.
#[derive(Clone, Copy, Debug, Default)]
struct Gathered {
    /// The end of what had arrived in order.
    behind: u64,
    /// How many acknowledgements told at once of what came behind that gap, up to three.
    told: u64,
    /// How many segments wait to be told of.
    waiting: u32,
}

/// So many segments at most wait to be told of (Linux: `tcp_comp_sack_nr`), and for this share of a round trip.
const MOST_GATHERED: u32 = 44;
const ROUND_TRIP_SHARE: u64 = 20;

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            expected: 0,
            timer: Instant::NEVER,
            disorder: None,
            adaptive: None,
            segments: 0,
            due: false,
            echo: false,
            fin: false,
        }
    }

    /// A segment with data or a FIN arrived; `at` tells the present and what is known of the path.
    #[inline(always)]
    pub(crate) fn on_segment<'a>(
        &mut self,
        segment: &Segment,
        at: impl FnOnce() -> TimerContext<'a>,
        config: &Config,
    ) {
        if config.recovery.undo == Undo::DsackOrTimestamps {
            self.adaptive.get_or_insert_default().on_timestamp(segment);
        }
        let reduced = segment.flags.has(Flags::CWR);
        let first_mark = segment.ecn == Ecn::Ce && (reduced || !self.echo);
        self.echo = segment.ecn == Ecn::Ce || (self.echo && !reduced);
        let in_order = self.disorder.as_ref().is_none_or(|it| it.ranges.is_empty());
        if segment.seq == self.expected && in_order {
            self.expected = segment.end();
            self.fin |= segment.flags.has(Flags::FIN);
            if config.receiver.delayed_ack != DelayedAck::Off {
                let last = self.fin || self.due || (reduced && config.ecn.response == MarkResponse::Linux);
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

    /// A segment arrived that is not simply the next; whether its acknowledgement waits.
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
            let adaptive = self.adaptive.get_or_insert_default();
            if end <= before {
                adaptive.on_old(at, config);
            } else if advances {
                adaptive.on_data(at, config);
            }
            adaptive.on_ecn(segment.ecn, first_mark, at, config);
            let waits = end > before && !config.receiver.sack_delay.is_zero();
            return waits && !adaptive.is_quick(self.expected, config) && self.gathers(at, config);
        }
        false
    }

    /// Whether what SACK has to tell waits for more (Linux: `__tcp_ack_snd_check`).
    fn gathers(&mut self, at: TimerContext<'_>, config: &Config) -> bool {
        let Some(disorder) = self.disorder.as_mut().filter(|it| !it.ranges.is_empty()) else { return false };
        let gathered = &mut disorder.gathered;
        if gathered.behind != self.expected {
            (gathered.behind, gathered.told) = (self.expected, 0);
        }
        let told_at_once = gathered.told < u64::from(config.recovery.dupthresh);
        if !config.recovery.kind.has_sack() || gathered.waiting >= MOST_GATHERED || told_at_once {
            gathered.told += u64::from(told_at_once);
            return false;
        }
        gathered.waiting += 1;
        if gathered.waiting == 1 {
            let share = at.srtt().map_or(u64::MAX, |srtt| srtt.nanos() / ROUND_TRIP_SHARE);
            self.timer = at.now + config.receiver.sack_delay.min(Span::from_nanos(share));
        }
        true
    }

    /// Until when the acknowledgement of a segment in order may wait; none if it may not.
    #[inline]
    fn wait(
        &mut self,
        segment: &Segment,
        first_mark: bool,
        at: TimerContext<'_>,
        config: &Config,
    ) -> Option<Instant> {
        self.segments = self.segments.saturating_add(1);
        let config_of = &config.receiver;
        let first = self.timer == Instant::NEVER && u64::from(self.segments) > config_of.quick_acks;
        match config_of.delayed_ack {
            DelayedAck::Off => None,
            DelayedAck::EverySecond => first.then(|| at.now + config_of.delayed_ack_timer),
            DelayedAck::Heartbeat => first.then(|| at.now.next_multiple(config_of.delayed_ack_timer)),
            DelayedAck::Adaptive => {
                let adaptive = self.adaptive.get_or_insert_default();
                adaptive.on_data(at, config);
                adaptive.on_ecn(segment.ecn, first_mark, at, config);
                let until = adaptive.wait(self.expected, self.timer, at, config);
                until.filter(|_| !segment.flags.has(Flags::PUSH))
            }
        }
    }

    /// Time has passed; a delayed acknowledgement may be due.
    pub(crate) fn on_timer(&mut self, at: TimerContext<'_>) {
        if at.now >= self.timer {
            let gathered = self.disorder.as_ref().is_some_and(|it| it.gathered.waiting > 0);
            if let Some(adaptive) = self.adaptive.as_mut().filter(|_| !gathered) {
                adaptive.on_timer(at);
            }
            self.acknowledge();
        }
    }

    /// An acknowledgement is to leave.
    pub(crate) fn acknowledge(&mut self) {
        self.timer = Instant::NEVER;
        self.due = true;
    }

    /// Whether an acknowledgement is to leave by itself.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Writes into a segment what has arrived; an acknowledgement that was due goes with it.
    #[inline]
    pub(crate) fn fill_in(&mut self, segment: &mut Segment, config: &Config) {
        if let Some(adaptive) = &mut self.adaptive {
            let owed = self.due || self.timer != Instant::NEVER;
            adaptive.on_ack_sent(self.expected, owed, config);
            segment.echo = adaptive.echo();
        }
        self.due = false;
        self.timer = Instant::NEVER;
        segment.ack = self.expected;
        segment.flags =
            segment.flags.union(if self.echo { Flags::ACK.union(Flags::ECE) } else { Flags::ACK });
        if self.disorder.is_some() {
            segment.sacks = self.tell(config);
            segment.wire = segment.wire.saturating_add(option_bytes(segment.sacks, config));
        }
    }

    /// Tells what has arrived beyond a gap, or twice.
    #[inline(never)]
    fn tell(&mut self, config: &Config) -> Sacks {
        let Some(disorder) = &mut self.disorder else { return Sacks::default() };
        disorder.gathered.waiting = 0;
        let has_sack = config.recovery.kind.has_sack();
        let sacks =
            if has_sack { disorder.sacks(self.expected, config.sack.dsack) } else { Sacks::default() };
        if disorder.ranges.is_empty() {
            self.disorder = None;
        }
        sacks
    }

    /// When `on_timer` wants to be called next.
    #[inline]
    pub(crate) fn timer(&self) -> Instant {
        self.timer
    }

    /// Payload bytes that arrived in order.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.expected - u64::from(self.fin)
    }

    /// Whether everything up to the FIN has arrived.
    #[inline]
    pub(crate) fn has_fin(&self) -> bool {
        self.fin
    }

    /// Takes in data up to `to` that is not simply the next, and what is told of it by SACK if there is any.
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
        disorder.add(from.max(self.expected), to);
        if from > self.expected && has_sack {
            disorder.remember(from);
        }
        let filled = disorder.ranges.iter().take_while(|range| range.0 <= self.expected).count();
        for range in disorder.ranges.drain(..filled) {
            self.expected = self.expected.max(range.1);
        }
        self.fin |= disorder.fin_at.is_some_and(|at| self.expected > at);
    }
}

impl Disorder {
    /// Adds a range, joined with all that it touches.
    fn add(&mut self, mut from: u64, mut to: u64) {
        match self.ranges.last_mut() {
            // Nearly always the newest data continues the newest range or opens one behind it.
            Some(last) if from == last.1 => last.1 = to,
            Some(last) if from > last.1 => self.ranges.push((from, to)),
            None => self.ranges.push((from, to)),
            Some(_) => {
                let first = self.ranges.partition_point(|range| range.1 < from);
                let behind = self.ranges.partition_point(|range| range.0 <= to);
                if let Some(touched) = self.ranges.get(first..behind).filter(|touched| !touched.is_empty()) {
                    let overlap = touched.iter().find(|range| range.0 <= from && to <= range.1);
                    self.duplicate = overlap.map(|_| (from, to)).or(self.duplicate);
                    from = from.min(touched[0].0);
                    to = to.max(touched[touched.len() - 1].1);
                }
                self.ranges.splice(first..behind, [(from, to)]);
            }
        }
    }

    /// Puts the range that holds `number` first among those that changed last.
    fn remember(&mut self, number: u64) {
        let range = self.holding(number);
        let others = self.recent.into_iter().flatten().filter(|&one| self.holding(one) != range);
        let mut recent = [Some(number), None, None];
        for (place, other) in recent[1..].iter_mut().zip(others) {
            *place = Some(other);
        }
        self.recent = recent;
    }

    /// The range that holds `number`, if any still does.
    fn holding(&self, number: u64) -> Option<(u64, u64)> {
        let behind = self.ranges.partition_point(|range| range.0 <= number);
        self.ranges[..behind].last().copied().filter(|range| number < range.1)
    }

    /// The blocks of an acknowledgement: what came twice, then the ranges that changed last.
    fn sacks(&mut self, ack: u64, dsack: Dsack) -> Sacks {
        let mut sacks = Sacks::default();
        if let Some((from, to)) = self.duplicate.take()
            && dsack == Dsack::On
        {
            sacks.push(ack, from, to);
        }
        for range in self.recent.into_iter().flatten().filter_map(|one| self.holding(one)) {
            sacks.push(ack, range.0, range.1);
        }
        sacks
    }
}

/// By how much blocks of SACK lengthen a segment.
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
