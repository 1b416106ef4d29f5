//! Mahimahi's delivery opportunities, which reproduce a recorded link, for example a mobile link.
//!
//! Source: R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", 2015; the program is `mm-link`, and
//! its algorithm is in `link_queue.cc`. Each line of a trace contains a time as a whole number of milliseconds, and the
//! times are in ascending order. At each of these times, the link may deliver a fixed number of bytes (1504, although
//! the manual says 1500). Lines with equal times are separate opportunities. The last time is the period after which
//! the trace repeats.
//!
//! The size of each packet is increased by 4 bytes, which is the length of a TUN device's header, so that a packet of
//! 1500 bytes exactly fills an opportunity. At an opportunity, packets are taken from the queue while bytes of the
//! opportunity remain. The last of these packets may also need bytes of the next opportunity. A packet that needs
//! several opportunities leaves the queue at the first of them, and departs at the opportunity in which its last bytes
//! are sent. If the queue becomes empty, the remaining bytes of the opportunity are lost. If a packet arrives at the
//! time of an opportunity, the opportunity precedes the arrival.
//!
//! aqmlab's choice: a packet larger than an opportunity uses several opportunities, whereas Mahimahi stops with an
//! error.

use std::sync::Arc;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Size, Span, parameters};

use super::Schedule;
use super::outages::Outages;
use super::packet_trains::{self, Cellular};

parameters! {
    /// Delivery opportunities, read from a trace in Mahimahi's format.
    pub struct Opportunities {
        /// Trace file with a whole number of milliseconds on each line.
        pub file: Option<String> = None, "no default: required";
        /// Maximum number of bytes that the link delivers at each opportunity.
        pub bytes: Size = Size::from_bytes(1504), "Mahimahi, link_queue.hh, PACKET_SIZE";
        /// Number of bytes by which each packet is longer on this link than in the queue.
        pub overhead: Size = Size::from_bytes(4), "Mahimahi: length of the TUN device's header";
        /// Light trace of CellReplay, which describes packet trains on an idle link; `file` is the heavy trace. Each
        /// line contains a time, a base delay and the opportunities of a train, in whole milliseconds.
        pub light: Option<String> = None, "CellReplay, cellular_queue.cc";
        /// With `light`: time without queued packets after which a packet starts a new train.
        pub idle: Span = Span::ZERO, "CellReplay, cellularshell.cc: long-to-short-timer";
    }
}

impl Opportunities {
    /// Reads the trace.
    pub(super) fn read<'a>(
        &self,
        content: impl Fn(&str, &str) -> Result<&'a str, ConfigError>,
    ) -> Result<Schedule, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.file.is_some(),
            "file",
            "is missing: set the name of a Mahimahi trace file, which contains a time in ms on each line",
        );
        errors.check(self.bytes.bytes() > 0, "bytes", "must be at least 1B (got 0B)");
        let problem =
            format_args!("must be less than `bytes`, which is {} (got {})", self.bytes, self.overhead);
        errors.check(self.overhead < self.bytes, "overhead", problem);
        let parsed = self.file.as_deref().map(|name| {
            content("file", name)
                .and_then(|text| parse(text).map_err(|problem| ConfigError::at("file", problem)))
        });
        let times = parsed.and_then(|parsed| errors.take(parsed));
        let trains = self.light.as_deref().map(|name| {
            content("light", name).and_then(|text| {
                packet_trains::parse(text).map_err(|problem| ConfigError::at("light", problem))
            })
        });
        let trains = trains.and_then(|trains| errors.take(trains));
        errors.check_effect(self.light.is_some(), self, &["idle"], "without light");
        let (bytes, overhead) = (self.bytes.bytes(), self.overhead.bytes());
        let trace = times.map(|times| Trace::new(times, bytes, overhead));
        errors.finish_some(trace.map(|trace| match trains {
            None => Schedule::Opportunities(trace),
            Some(trains) => {
                Schedule::Cellular(Box::new(Cellular::new(trains, trace, [bytes, overhead], self.idle)))
            }
        }))
    }
}

/// Parses a trace, which contains a time in milliseconds on each line.
fn parse(content: &str) -> Result<Vec<u64>, String> {
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let text = line.trim();
        let time = text.parse::<u64>().ok().filter(|&time| time <= MAX_MILLIS);
        let problem =
            || format!("line {}: must be a whole number of milliseconds (got `{text}`)", number + 1);
        let time = time.ok_or_else(problem)?;
        if let Some(&before) = times.last().filter(|&&before| before > time) {
            return Err(format!(
                "line {}: must not be less than the value on the previous line, {before} (got {time})",
                number + 1
            ));
        }
        times.push(time);
    }
    match times.last() {
        None => Err("is empty: each line must contain a time in ms".to_owned()),
        Some(0) => Err("ends with 0: the last line is the period and must be at least 1".to_owned()),
        Some(_) => Ok(times),
    }
}

/// The longest time in a trace: one leap year.
pub(super) const MAX_MILLIS: u64 = 366 * 86_400_000;

/// A trace and the current position in it.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Times of the opportunities within a period.
    times: Arc<[Span]>,
    bytes: u64,
    overhead: u64,
    /// Index of the next opportunity within its period.
    next: usize,
    round: Instant,
    /// Time of the opportunity that was used last.
    last: Instant,
    left: u64,
}

impl Trace {
    fn new(millis: Vec<u64>, bytes: u64, overhead: u64) -> Self {
        let times = millis.into_iter().map(Span::from_millis).collect();
        let (round, last) = (Instant::START, Instant::NEVER);
        Self { times, bytes, overhead, next: 0, round, last, left: 0 }
    }

    fn period(&self) -> Span {
        self.times[self.times.len() - 1]
    }

    /// Returns the mean rate in bits per second if each packet exactly fills an opportunity. The overhead that this
    /// link adds to each packet is not counted.
    pub(super) fn mean_bps(&self) -> f64 {
        let bits = 8 * (self.bytes - self.overhead) * self.times.len() as u64;
        bits as f64 / self.period().seconds()
    }

    /// Returns the number of bits that can be sent later than `from`, but no later than `to`.
    pub(super) fn bits(mut self, outages: &mut Outages, [from, to]: [Instant; 2]) -> f64 {
        let mut opportunities = 0_u64;
        self.pass(from);
        while self.skip_outages(outages) <= to {
            opportunities += 1;
            self.advance();
        }
        (8 * (self.bytes - self.overhead) * opportunities) as f64
    }

    /// Returns the earliest time, at or after `now`, at which a packet can be taken from the queue.
    pub(super) fn ready(&mut self, now: Instant, outages: &mut Outages) -> Instant {
        if self.left > 0 && self.last == now {
            return now;
        }
        self.skip_before(now);
        self.skip_outages(outages)
    }

    /// Returns the departure time of a packet taken at `start`.
    pub(super) fn transmit(&mut self, start: Instant, bytes: u64, outages: &mut Outages) -> Instant {
        let mut needed = bytes + self.overhead;
        if self.last != start {
            self.left = 0;
        }
        while needed > self.left {
            needed -= self.left;
            self.last = self.skip_outages(outages);
            self.left = self.bytes;
            self.advance();
        }
        self.left -= needed;
        self.last
    }

    /// Discards the opportunities up to `now` and the remaining bytes of the opportunity that was used last.
    pub(super) fn pass(&mut self, now: Instant) {
        self.left = 0;
        self.skip_before(now + Span::from_nanos(1));
    }

    fn next_time(&self) -> Instant {
        self.round + self.times[self.next]
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
            self.round += self.period();
        }
    }

    fn skip_before(&mut self, now: Instant) {
        if self.next_time() >= now {
            return;
        }
        // The opportunity at the end of a period precedes the start of the next period.
        let rounds = (now.since(self.round).nanos() - 1) / self.period().nanos();
        if rounds > 0 {
            self.round += self.period().saturating_mul(rounds);
            self.next = 0;
        }
        let since = now.since(self.round);
        self.next += self.times[self.next..].partition_point(|&time| time < since);
    }

    /// Skips opportunities that occur during outages, because they are lost. Returns the time of the next usable
    /// opportunity.
    fn skip_outages(&mut self, outages: &mut Outages) -> Instant {
        loop {
            let next = self.next_time();
            match outages.at(next) {
                (true, Instant::NEVER) => return Instant::NEVER,
                (true, up) => self.skip_before(up),
                (false, _) => return next,
            }
        }
    }
}
