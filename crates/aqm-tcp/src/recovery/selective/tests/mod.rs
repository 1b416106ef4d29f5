//! Tests of the loss recovery with SACK, with events that a test generates one by one and with random events.

mod chance;
mod counted;
mod linux;
mod timed;
mod undo;

use aqm_net::{Instant, Size, Span};

use super::Selective;
use crate::config::Config;
use crate::recovery::{
    AckKind, AckOutcome, LossRecovery, ReceivedAck, Stream, TimerContext, Transmission, Windows,
};
use crate::rtt::Estimator;
use crate::segment::Sacks;

const MSS: u64 = 1000;
const NOTHING: [u64; 0] = [];

fn with(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

/// A recovery and the state of its sender, for tests that generate events one by one. Segments are numbered from 0.
struct Driver {
    recovery: Selective,
    config: Config,
    estimator: Estimator,
    stream: Stream,
    now: Instant,
    /// The window, in segments. A loss does not change this window.
    window: u64,
}

impl Driver {
    /// Creates a driver that has `segments` full segments to send and a window that never limits transmission.
    fn new(segments: u64, config: Config) -> Self {
        let config = with(config, |config| config.connection.mss = Size::from_bytes(MSS));
        Self {
            recovery: Selective::new(&config),
            estimator: Estimator::new(&config.rto),
            config,
            stream: Stream { end: segments * MSS, fin: false, mss: MSS },
            now: Instant::START,
            window: 10_000,
        }
    }

    /// Creates a driver that has sent all segments.
    fn filled(segments: u64, config: Config) -> Self {
        let mut driver = Self::new(segments, config);
        assert_eq!(driver.send().len() as u64, segments);
        driver
    }

    /// Adds `segments` full segments of data that the application has written.
    fn write(&mut self, segments: u64) {
        self.stream.end += segments * MSS;
    }

    fn advance(&mut self, millis: u64) {
        self.now += Span::from_millis(millis);
    }

    fn open(&mut self) {
        let windows = Windows { congestion: self.window, receiver: 10_000, mss: MSS };
        self.recovery.set_windows(windows, &self.config);
    }

    fn next(&mut self) -> Option<Transmission> {
        self.open();
        let has_next = self.recovery.has_next(self.stream);
        let sending = self.poll();
        assert_eq!(has_next, sending.is_some());
        self.recovery.sent.check();
        sending
    }

    /// Returns the next segment to send, and checks that the fast path and the complete path have the same result.
    fn poll(&mut self) -> Option<Transmission> {
        let at = TimerContext { now: self.now, estimator: &self.estimator, config: &self.config.rto };
        let mut other = self.recovery.clone();
        let may_send = self.recovery.may_send();
        let sending = self.recovery.next(self.stream, at);
        assert_eq!(sending, other.next_chosen(self.stream, at));
        assert_eq!(format!("{:?}", self.recovery), format!("{other:?}"));
        assert!(may_send || sending.is_none());
        sending
    }

    /// Sends all permitted segments. Returns the segment numbers.
    fn send(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.next()).map(|sending| sending.seq / MSS).collect()
    }

    /// Processes an acknowledgement of all segments below `ack`, with SACK blocks for the given ranges `[from, to)` of
    /// segments.
    fn ack(&mut self, ack: u64, ranges: &[(u64, u64)]) -> AckOutcome {
        let ranges: Vec<_> = ranges.iter().map(|&(from, to)| (from * MSS, to * MSS)).collect();
        self.ack_bytes(ack * MSS, &ranges)
    }

    fn ack_bytes(&mut self, ack: u64, ranges: &[(u64, u64)]) -> AckOutcome {
        self.ack_echoing(ack, ranges, Instant::START)
    }

    fn ack_echoing(&mut self, ack: u64, ranges: &[(u64, u64)], echo: Instant) -> AckOutcome {
        let mut sacks = Sacks::default();
        for &(from, to) in ranges {
            sacks.push(ack, from, to);
        }
        let at = TimerContext { now: self.now, estimator: &self.estimator, config: &self.config.rto };
        let received = ReceivedAck { ack, sacks: &sacks, bare: true, echo };
        let mut other = self.recovery.clone();
        let outcome = self.recovery.on_ack(&received, at, &self.config);
        if ack <= self.recovery.sent() {
            // If the fast path was taken, its result must be the same as the result of the complete path.
            assert_eq!(outcome, other.on_full_ack(&received, at, &self.config));
            assert_eq!(format!("{:?}", self.recovery), format!("{other:?}"));
        }
        self.recovery.sent.check();
        self.open();
        outcome
    }

    fn sample(&mut self, millis: u64) {
        let sent = Instant::from_nanos(self.now.nanos() - millis * 1_000_000);
        self.estimator.sample(sent, self.now, &self.config.rto);
    }

    fn time_out(&mut self) {
        let at = TimerContext { now: self.now, estimator: &self.estimator, config: &self.config.rto };
        self.recovery.on_timeout(at, &self.config);
        self.recovery.sent.check();
    }

    /// Advances the clock to the expiry time of the recovery's timer.
    fn run_timer(&mut self) -> AckOutcome {
        self.now = self.recovery.timer();
        assert_ne!(self.now, Instant::NEVER, "no timer is running");
        let at = TimerContext { now: self.now, estimator: &self.estimator, config: &self.config.rto };
        let outcome = self.recovery.on_timer(at, &self.config);
        self.recovery.sent.check();
        outcome
    }

    fn pipe(&self) -> u64 {
        self.recovery.outstanding() / MSS
    }
}
