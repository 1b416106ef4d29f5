//! Mahimahi's delivery opportunities: a recorded link, for example a mobile link.
//!
//! Source: R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", 2015; the program is `mm-link`, and
//! its algorithm is in `link_queue.cc`. A trace is a list of whole milliseconds in ascending order, one on each line.
//! At each of them, the link may deliver a fixed number of bytes (1504, although the manual says 1500). Equal lines are
//! separate opportunities. After its last millisecond, which is its period, the trace repeats.
//!
//! Each packet counts with 4 additional bytes, the header of a TUN device, so that a packet of 1500 bytes fits exactly.
//! At an opportunity, packets are taken from the queue while bytes of the opportunity remain. The last packet may need
//! bytes of the next opportunity: it leaves the queue when its service begins, and departs at the opportunity that
//! completes it. The remainder of an opportunity is lost when the queue is empty. Opportunities of a millisecond
//! precede packets that arrive at the same time.
//!
//! aqmlab's choice, where Mahimahi stops with an error: a packet larger than an opportunity uses several opportunities.

use std::sync::Arc;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Size, Span, parameters};

use super::outages::Outages;

parameters! {
    /// Delivery opportunities of a trace in Mahimahi's format.
    pub struct Opportunities {
        /// Trace file with a whole number of milliseconds on each line.
        pub file: Option<String> = None, "no default: required";
        /// Maximum number of bytes that leave at each opportunity.
        pub bytes: Size = Size::from_bytes(1504), "Mahimahi, link_queue.hh, PACKET_SIZE";
        /// Number of bytes added to each packet's length in the queue.
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
            "is missing: write the name of a Mahimahi trace, with a time in ms on each line",
        );
        errors.check(self.bytes.bytes() > 0, "bytes", "must be at least 1B (got 0B)");
        let problem = format_args!("must be less than `bytes`, {} (got {})", self.bytes, self.overhead);
        errors.check(self.overhead < self.bytes, "overhead", problem);
        let parsed = self.file.as_deref().map(|name| {
            content(name).and_then(|text| parse(text).map_err(|problem| ConfigError::at("file", problem)))
        });
        let times = parsed.and_then(|parsed| errors.take(parsed));
        let (bytes, overhead) = (self.bytes.bytes(), self.overhead.bytes());
        errors.finish_some(times.map(|times| Trace::new(times, bytes, overhead)))
    }
}

/// Parses the milliseconds of a trace.
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
                "line {}: must not be less than the previous line, {before} (got {time})",
                number + 1
            ));
        }
        times.push(time);
    }
    match times.last() {
        None => Err("is empty: write a time in ms on each line".to_owned()),
        Some(0) => Err("ends with 0: the last line is the period, and must be at least 1".to_owned()),
        Some(_) => Ok(times),
    }
}

/// One year.
const MAX_MILLIS: u64 = 366 * 86_400_000;

/// A trace and the current position in it.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Times of the opportunities within a period.
    times: Arc<[Span]>,
    bytes: u64,
    overhead: u64,
    /// The next opportunity: its index, and the start of its period.
    next: usize,
    round: Instant,
    /// The last used opportunity: its time, and its remaining bytes.
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

    /// Returns the mean rate of full packets in bits per second, with lengths as in the queue.
    pub(super) fn mean_bps(&self) -> f64 {
        let bits = 8 * (self.bytes - self.overhead) * self.times.len() as u64;
        bits as f64 / self.period().seconds()
    }

    /// Returns the number of bits that can be sent after the first time and up to the second.
    pub(super) fn bits(mut self, outages: &mut Outages, [from, to]: [Instant; 2]) -> f64 {
        let mut opportunities = 0_u64;
        self.pass(from);
        while self.skip_outages(outages) <= to {
            opportunities += 1;
            self.advance();
        }
        (8 * (self.bytes - self.overhead) * opportunities) as f64
    }

    /// Returns the earliest time from `now` on at which a packet can be taken.
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

    /// Discards the opportunities up to `now` and the remainder of the last one.
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
        // The end of a period is an opportunity, too, and precedes the start of the next period.
        let rounds = (now.since(self.round).nanos() - 1) / self.period().nanos();
        if rounds > 0 {
            self.round += self.period().saturating_mul(rounds);
            self.next = 0;
        }
        let since = now.since(self.round);
        self.next += self.times[self.next..].partition_point(|&time| time < since);
    }

    /// Skips opportunities during outages, which are lost. Returns the time of the next opportunity.
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
