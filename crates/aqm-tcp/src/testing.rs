//! Helpers for the tests of this crate, and a list of the environments in which the tests run.
//!
//! - A congestion control alone: [`ack`], [`loss`] and similar functions create events for a `Controller`, and
//!   [`Bottleneck`] simulates the delays and rates that the `Controller` observes (`congestion_control/*.rs`);
//!   `tests/congestion_control.rs` compares congestion controls with published tables.
//! - A receiver, or only its delayed acknowledgements: [`timer_context`] (`receiver/`).
//! - A loss recovery alone: `Bench` in `recovery/counting/`, `recovery/counted_pipe/` and `recovery/full_tcp/`;
//!   `Driver` in `recovery/selective/tests`, which also advances a clock.
//! - Two endpoints, a clock that the test advances, and a path that loses the packets that the test selects:
//!   `tests/pair`, for `tests/exchange*.rs` and, with random losses, `tests/invariants.rs`.
//! - One endpoint, compared with the recorded trace of another simulator: `tests/micro.rs`.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use crate::config::Config;
use crate::congestion_control::{AckInfo, AckSample, Build, Congestion, CongestionSignal, Controller};
use crate::recovery::TimerContext;
use crate::rtt::Estimator;

/// Returns an acknowledgement of `segments` segments that may increase the window.
pub(crate) fn ack(segments: f64) -> AckInfo {
    AckInfo { now: Instant::START, acked: segments, counted: segments, may_grow: true, srtt: None }
}

/// Returns an acknowledgement of one segment at `now`, with a known round-trip time.
pub(crate) fn ack_at(now: Instant, rtt: Span) -> AckInfo {
    AckInfo { now, srtt: Some(rtt), ..ack(1.0) }
}

/// Returns a loss event; the window reduction is based on `basis` segments.
pub(crate) fn loss(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Loss, basis, repeated: false }
}

/// Returns an ECN mark event; the window reduction is based on `basis` segments.
pub(crate) fn mark(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Mark, ..loss(basis) }
}

/// Returns a timeout event; the window reduction is based on `basis` segments.
pub(crate) fn timeout(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Timeout, ..loss(basis) }
}

/// Returns a repeated timeout event.
pub(crate) fn repeated_timeout() -> Congestion {
    Congestion { repeated: true, ..timeout(1.0) }
}

/// Returns the context at `now` before any round-trip sample has been taken.
pub(crate) fn timer_context(now: Instant) -> TimerContext<'static> {
    timer_context_of(&Config::default(), now)
}

/// Like [`timer_context`], but with the clock and the retransmission timer of `config`.
pub(crate) fn timer_context_of(config: &Config, now: Instant) -> TimerContext<'static> {
    let config = Box::leak(Box::new(config.rto.clone()));
    TimerContext { now, estimator: Box::leak(Box::new(Estimator::new(config))), config }
}

/// A sender without loss recovery that sends through a bottleneck with an unlimited queue. Each segment contains 1000
/// bytes, and every segment is acknowledged.
pub(crate) struct Bottleneck {
    pub controller: Controller,
    pub now: Instant,
    /// Departure times of the segments in the network.
    sent: VecDeque<Instant>,
    snd_nxt: u64,
    snd_una: u64,
    /// Time from which the bottleneck is idle.
    idle_from: Span,
    /// Transmission time of a segment.
    transmission: Span,
    delay: Span,
}

impl Bottleneck {
    /// Creates a sender with an initial window of ten segments and an `ssthresh` of a million segments. The bottleneck
    /// transmits `rate` segments per millisecond, and `delay` is the round-trip time without transmission and queueing.
    pub fn new(config: &dyn Build, rate: f64, delay: Span) -> Self {
        let mut bottleneck = Self {
            controller: Controller::new(config, 10.0, 1e6),
            now: Instant::START,
            sent: VecDeque::new(),
            snd_nxt: 0,
            snd_una: 0,
            idle_from: Span::ZERO,
            transmission: Span::from_seconds(1e-3 / rate),
            delay,
        };
        bottleneck.send();
        bottleneck
    }

    /// Acknowledges the next segment, and sends as many segments as the window permits. Returns whether the sender is
    /// in slow start.
    pub fn step(&mut self) -> bool {
        let sent = self.sent.pop_front().expect("a segment is in the network");
        self.idle_from = self.idle_from.max(sent.since(Instant::START)) + self.transmission;
        self.now = Instant::START + self.idle_from + self.delay;
        self.snd_una += 1000;
        if self.controller.uses_samples() {
            self.controller.on_sample(&AckSample {
                now: self.now,
                newest: Some(sent),
                ack_sent_at: Some(self.now),
                srtt: Some(self.delay),
                delivered: 1000,
                marked: 0,
                snd_una: self.snd_una,
                snd_nxt: self.snd_nxt,
                mss: 1000,
            });
        }
        self.controller.on_ack(&ack_at(self.now, self.delay));
        self.send();
        self.controller.in_slow_start()
    }

    /// Sends as many segments as the window permits. At least one segment is always kept in flight, as by a sender in
    /// recovery, so that an acknowledgement always follows.
    fn send(&mut self) {
        while self.sent.is_empty() || (self.sent.len() + 1) as f64 <= self.controller.cwnd() {
            self.sent.push_back(self.now);
            self.snd_nxt += 1000;
        }
    }
}
