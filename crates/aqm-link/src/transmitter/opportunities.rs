//! Mahimahi's delivery opportunities: a recorded link, such as one of a phone.
//!
//! R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", 2015; the program is `mm-link`, and what it does
//! is in its `link_queue.cc`. A trace is a list of whole milliseconds that do not decrease, one a line: at each of them
//! the link may deliver so many bytes (1504, though the manual says 1500). Equal lines are as many opportunities. The
//! trace begins anew after its last millisecond, which is its period.
//!
//! A packet is measured with 4 bytes on top, the header of a TUN device, so that one of 1500 bytes fits exactly. At an
//! opportunity packets are taken from the queue as long as bytes are left of it. The last one may need some of the
//! next opportunity: it is out of the queue from when its service began, and leaves at the opportunity that finishes
//! it. What is left of an opportunity when the queue is empty is lost. Opportunities of a millisecond are over before
//! a packet that arrives then joins.
//!
//! Ours, where Mahimahi stops with an error: a packet that is larger than an opportunity takes several.

use std::sync::Arc;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Size, Span, parameters};

use super::outages::Outages;

parameters! {
    /// A trace of delivery opportunities, in the form of Mahimahi.
    pub struct Opportunities {
        /// The file: a whole number of milliseconds on each line.
        pub file: Option<String> = None, "no default: it must be given";
        /// How much may leave at each of them.
        pub bytes: Size = Size::from_bytes(1504), "Mahimahi, link_queue.hh, PACKET_SIZE";
        /// By how much each packet is larger there than in the queue.
        pub overhead: Size = Size::from_bytes(4), "Mahimahi: the header of its TUN device";
    }
}

impl Opportunities {
    /// Reads the trace.
    pub(super) fn read<'a>(
        &self,
        content: impl FnOnce(&str) -> Result<&'a str, ConfigError>,
    ) -> Result<Trace, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.file.is_some(),
            "file",
            "is missing: name a file of Mahimahi's, with a time in ms on each line",
        );
        errors.check(self.bytes.bytes() > 0, "bytes", "must be at least 1B");
        let problem = "must be less than `bytes`";
        errors.check(self.overhead < self.bytes, "overhead", problem);
        let parsed = self.file.as_deref().map(|name| {
            content(name).and_then(|text| parse(text).map_err(|problem| ConfigError::at("file", problem)))
        });
        let times = parsed.and_then(|parsed| errors.take(parsed));
        let (bytes, overhead) = (self.bytes.bytes(), self.overhead.bytes());
        errors.finish_some(times.map(|times| Trace::new(times, bytes, overhead)))
    }
}

/// The milliseconds of a trace.
fn parse(content: &str) -> Result<Vec<u64>, String> {
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let text = line.trim();
        let time = text.parse::<u64>().ok().filter(|&time| time <= MOST_MILLIS);
        let wrong = || format!("line {}: `{text}` must be a whole number of milliseconds", number + 1);
        let time = time.ok_or_else(wrong)?;
        if let Some(&before) = times.last().filter(|&&before| before > time) {
            return Err(format!("line {}: {time} is before the line above, {before}", number + 1));
        }
        times.push(time);
    }
    match times.last() {
        None => Err("has no lines: write a time in ms on each".to_owned()),
        Some(0) => Err("ends at 0: the last line is the period, and must be more".to_owned()),
        Some(_) => Ok(times),
    }
}

/// A year.
const MOST_MILLIS: u64 = 366 * 86_400_000;

/// A trace, and how much of it has passed.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When the opportunities of a round are.
    times: Arc<[Span]>,
    bytes: u64,
    overhead: u64,
    /// The next opportunity: its place, and when its round begins.
    next: usize,
    round: Instant,
    /// The one that was used last: when it was, and the bytes left of it.
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

    /// The rate at which full packets leave in the mean, in bits per second as a queue measures them.
    pub(super) fn mean_bps(&self) -> f64 {
        let bits = 8 * (self.bytes - self.overhead) * self.times.len() as u64;
        bits as f64 / self.period().seconds()
    }

    /// How many bits it could send after the first of two moments and up to the second.
    pub(super) fn bits(mut self, outages: &mut Outages, [from, to]: [Instant; 2]) -> f64 {
        let mut opportunities = 0_u64;
        self.pass(from);
        while self.skip_outages(outages) <= to {
            opportunities += 1;
            self.go_on();
        }
        (8 * (self.bytes - self.overhead) * opportunities) as f64
    }

    /// The first moment from `now` on at which a packet can be taken.
    pub(super) fn ready(&mut self, now: Instant, outages: &mut Outages) -> Instant {
        if self.left > 0 && self.last == now {
            return now;
        }
        self.skip_before(now);
        self.skip_outages(outages)
    }

    /// When a packet leaves that is taken at `start`.
    pub(super) fn transmit(&mut self, start: Instant, bytes: u64, outages: &mut Outages) -> Instant {
        let mut needed = bytes + self.overhead;
        if self.last != start {
            self.left = 0;
        }
        while needed > self.left {
            needed -= self.left;
            self.last = self.skip_outages(outages);
            self.left = self.bytes;
            self.go_on();
        }
        self.left -= needed;
        self.last
    }

    /// Opportunities up to `now`, and what is left of the last one, are lost.
    pub(super) fn pass(&mut self, now: Instant) {
        self.left = 0;
        self.skip_before(now + Span::from_nanos(1));
    }

    fn next_time(&self) -> Instant {
        self.round + self.times[self.next]
    }

    fn go_on(&mut self) {
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
        // The end of a round is an opportunity, too, and comes before the beginning of the next one.
        let rounds = (now.since(self.round).nanos() - 1) / self.period().nanos();
        if rounds > 0 {
            self.round += self.period().saturating_mul(rounds);
            self.next = 0;
        }
        let since = now.since(self.round);
        self.next += self.times[self.next..].partition_point(|&time| time < since);
    }

    /// Opportunities while the line is down are lost; returns the next one.
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
