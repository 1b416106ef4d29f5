//! A cellular link that treats short bursts differently from long transfers: CellReplay's two traces.
//!
//! W. Sentosa, B. Chandrasekaran, P. B. Godfrey, H. Hassanieh, "CellReplay: Towards accurate record-and-replay for
//! cellular networks", NSDI 2025; the program is `mm-cellular`, and its algorithm is in `cellular_queue.cc`. The heavy
//! trace contains the opportunities of a link that is always busy, in Mahimahi's format. The light trace describes
//! packet trains on an idle link. Each line contains a time, the delay of the train's first packet (base delay), and
//! the times of the train's opportunities after the first packet, all in whole milliseconds. The last time is the
//! period after which the trace repeats.
//!
//! A packet that arrives after the link has been idle for more than `idle` starts a train. The train uses the line of
//! the light trace for the current time. The base delay is interpolated between this line and the next, and applies to
//! all packets until the next train starts. The first packet leaves at once, at the first opportunity of the train,
//! whose time is 0. Each opportunity delivers `bytes` bytes. When the train has no opportunities left, packets
//! leave at the opportunities of the heavy trace until the link is idle. No packet overtakes an earlier packet.
//!
//! Differences from CellReplay:
//! - The link is idle if no packet is queued. CellReplay compares the arrival of a packet with the release of the
//!   previous packet, whether or not packets are queued.
//! - A packet that exceeds the remaining bytes of an opportunity of a train uses bytes of the next opportunities.
//!   CellReplay does not use the remaining bytes.
//! - In CellReplay, packets pass the base delay before they wait for an opportunity of the heavy trace, and the queue
//!   discipline controls only packets that have passed the base delay. Here, a packet waits in the queue until the
//!   opportunity minus the base delay, and then leaves. The times of arrivals are the same.
//! - Times are nanoseconds instead of whole milliseconds, and the correction of the delay for the size of a packet
//!   (`psize-latency-offset`) is not modelled.

use std::sync::Arc;

use aqm_net::{Instant, Span};

use super::opportunities::{MAX_MILLIS, Trace};
use super::outages::Outages;
use crate::Ties;

/// A line of a light trace.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    at: Span,
    base: Span,
    opportunities: Box<[Span]>,
}

/// Parses a light trace.
pub(super) fn parse(content: &str) -> Result<Trains, String> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, text) in content.lines().enumerate() {
        let line = parse_line(text).map_err(|problem| format!("line {}: {problem}", number + 1))?;
        if let Some(before) = lines.last().filter(|before| before.at >= line.at) {
            return Err(format!(
                "line {}: must be later than the time on the previous line, {}ms (got {}ms)",
                number + 1,
                before.at.nanos() / 1_000_000,
                line.at.nanos() / 1_000_000
            ));
        }
        lines.push(line);
    }
    if lines.len() < 2 {
        return Err(
            "must have at least two lines, each with a time, a base delay and opportunities in ms".into()
        );
    }
    if !lines[0].at.is_zero() {
        return Err(format!("line 1: must have the time 0 (got {})", lines[0].at.nanos() / 1_000_000));
    }
    Ok(Trains(lines.into()))
}

fn parse_line(text: &str) -> Result<Line, String> {
    let mut numbers = text.split_ascii_whitespace().map(|word| {
        let number = word.parse::<u64>().ok().filter(|&number| number <= MAX_MILLIS);
        number.ok_or_else(|| format!("must contain whole numbers of milliseconds (got `{word}`)"))
    });
    let mut next = |what: &str| numbers.next().unwrap_or_else(|| Err(format!("has no {what}")));
    let at = next("time")?;
    let base = next("base delay")?;
    let opportunities = numbers.collect::<Result<Vec<u64>, String>>()?;
    if let Some(pair) = opportunities.windows(2).find(|pair| pair[0] > pair[1]) {
        return Err(format!(
            "the opportunities must be in ascending order (got {} after {})",
            pair[1], pair[0]
        ));
    }
    if let Some(first) = opportunities.first().filter(|&&first| first != 0) {
        return Err(format!("the first opportunity is that of the first packet and must be 0 (got {first})"));
    }
    let opportunities = if opportunities.is_empty() { vec![0] } else { opportunities };
    let opportunities = opportunities.into_iter().map(Span::from_millis).collect();
    Ok(Line { at: Span::from_millis(at), base: Span::from_millis(base), opportunities })
}

/// A light trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trains(Arc<[Line]>);

impl Trains {
    /// Returns the index of the line for a train that starts at `now`, and the base delay.
    fn at(&self, now: Instant) -> (usize, Span) {
        let Self(lines) = self;
        let period = lines[lines.len() - 1].at.nanos();
        let time = now.nanos() % period;
        let index = lines.partition_point(|line| line.at.nanos() <= time) - 1;
        let [from, to] = [&lines[index], &lines[index + 1]];
        let (elapsed, length) = (time - from.at.nanos(), to.at.nanos() - from.at.nanos());
        let [begin, end] = [from.base.nanos(), to.base.nanos()].map(u128::from);
        let (elapsed, length) = (u128::from(elapsed), u128::from(length));
        let base = (begin * (length - elapsed) + end * elapsed) / length;
        (index, Span::from_nanos(base as u64))
    }
}

/// A cellular link and the current position in both traces.
#[derive(Clone, Debug)]
pub struct Cellular {
    trains: Trains,
    heavy: Trace,
    bytes: u64,
    overhead: u64,
    idle: Span,
    /// The start of the current train, the line of the light trace, and the base delay.
    start: Instant,
    line: usize,
    base: Span,
    /// The number of the next opportunity of the train, and the bytes that remain of the previous one.
    next: usize,
    left: u64,
    /// Whether a train has started.
    has_train: bool,
    last_taken: Instant,
    last_end: Instant,
}

impl Cellular {
    pub(super) fn new(trains: Trains, heavy: Trace, [bytes, overhead]: [u64; 2], idle: Span) -> Self {
        Self {
            trains,
            heavy,
            bytes,
            overhead,
            idle,
            start: Instant::START,
            line: 0,
            base: Span::ZERO,
            next: 1,
            left: 0,
            has_train: false,
            last_taken: Instant::START,
            last_end: Instant::START,
        }
    }

    /// Returns the mean rate of the heavy trace in bits per second.
    pub(super) fn mean_bps(&self) -> f64 {
        self.heavy.mean_bps()
    }

    /// Returns the number of bits that the heavy trace can deliver between two times.
    pub(super) fn bits(self, outages: &mut Outages, between: [Instant; 2]) -> f64 {
        self.heavy.bits(outages, between)
    }

    /// Handles the arrival of a packet at `now` while the transmitter is idle.
    pub(super) fn begin(&mut self, now: Instant, ties: Ties) {
        if !self.has_train || now > self.last_taken + self.idle {
            let (line, base) = self.trains.at(now);
            (self.start, self.line, self.base, self.has_train) = (now, line, base, true);
            (self.next, self.left) = (1, self.bytes);
        } else if ties == Ties::DepartureFirst && self.train_time(now).is_none() {
            self.heavy.pass(self.in_heavy(now));
        }
    }

    /// Returns the time at which the train may send at or after `now`, if the train has opportunities left.
    fn train_time(&self, now: Instant) -> Option<Instant> {
        if self.left > 0 && self.previous() >= now {
            return Some(self.previous());
        }
        let times = self.trains.0[self.line].opportunities[self.next..].iter();
        times.map(|&offset| self.start + offset).find(|&at| at >= now)
    }

    /// Returns the time of the opportunity whose bytes are being used.
    fn previous(&self) -> Instant {
        self.start + self.trains.0[self.line].opportunities[self.next - 1]
    }

    /// Returns the time in the heavy trace that corresponds to `now`.
    fn in_heavy(&self, now: Instant) -> Instant {
        (now + self.base).max(self.last_end)
    }

    /// Returns the earliest time, at or after `now`, at which a packet can be taken from the queue.
    pub(super) fn ready(&mut self, now: Instant, outages: &mut Outages) -> Instant {
        if let Some(at) = self.train_time(now) {
            return at;
        }
        let at = self.heavy.ready(self.in_heavy(now), outages);
        if at == Instant::NEVER { at } else { at.earlier_by(self.base).max(now) }
    }

    /// Returns the arrival time of a packet taken at `start`, without the propagation delay of the link, and the time
    /// at which the next packet may be taken.
    pub(super) fn transmit(&mut self, start: Instant, bytes: u64, outages: &mut Outages) -> [Instant; 2] {
        self.last_taken = start;
        let mut needed = bytes + self.overhead;
        let mut at = start;
        while needed > 0 {
            if self.left == 0 || self.previous() < at {
                self.left = 0;
                if !self.advance(at) {
                    break;
                }
                at = self.previous();
            }
            let used = needed.min(self.left);
            (needed, self.left) = (needed - used, self.left - used);
        }
        let end = if needed == 0 {
            at + self.base
        } else {
            let begin = self.in_heavy(at);
            let begin = self.heavy.ready(begin, outages);
            self.heavy.transmit(begin, needed.saturating_sub(self.overhead), outages)
        };
        if end == Instant::NEVER {
            return [end; 2];
        }
        self.last_end = end.max(self.last_end);
        let free = self.last_end.earlier_by(self.base).max(start);
        [self.last_end, free]
    }

    /// Moves to the next opportunity of the train at or after `at`. Returns false if there is none.
    fn advance(&mut self, at: Instant) -> bool {
        let opportunities = &self.trains.0[self.line].opportunities;
        while let Some(&offset) = opportunities.get(self.next) {
            self.next += 1;
            if self.start + offset >= at {
                self.left = self.bytes;
                return true;
            }
        }
        false
    }
}
