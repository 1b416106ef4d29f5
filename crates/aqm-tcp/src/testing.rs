//! Helpers for the tests of this crate, and a list of the test environments.
//!
//! - A congestion control alone: [`ack`], [`loss`] and the similar functions create events for a `Controller`
//!   (`congestion_control/*.rs`); `tests/congestion_control.rs` compares congestion controls with published tables.
//! - A receiver or its delayed acknowledgements alone: [`timer_context`] (`receiver/`).
//! - A loss recovery alone: `Bench` in `recovery/counting/`, `recovery/counted_pipe/` and `recovery/full_tcp/`;
//!   `Driver` in `recovery/selective/tests`, which also moves a clock.
//! - Two endpoints, a manual clock and a path that loses the packets that a test selects: `tests/pair`, for
//!   `tests/exchange*.rs` and, with random losses, `tests/invariants.rs`.
//! - One endpoint against the recorded trace of another simulator: `tests/micro.rs`.

use aqm_net::{Instant, Span};

use crate::config::Config;
use crate::congestion_control::{AckInfo, Congestion, CongestionSignal};
use crate::recovery::TimerContext;
use crate::rtt::Estimator;

/// Returns an acknowledgement of `segments` segments that may open the window.
pub(crate) fn ack(segments: f64) -> AckInfo {
    AckInfo { now: Instant::START, acked: segments, counted: segments, may_grow: true, srtt: None }
}

/// Returns an acknowledgement of one segment at `now`, with a known round-trip time.
pub(crate) fn ack_at(now: Instant, rtt: Span) -> AckInfo {
    AckInfo { now, srtt: Some(rtt), ..ack(1.0) }
}

/// Returns a loss whose reduction has a basis of `basis` segments.
pub(crate) fn loss(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Loss, basis, repeated: false }
}

/// Returns a mark whose reduction has a basis of `basis` segments.
pub(crate) fn mark(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Mark, ..loss(basis) }
}

/// Returns a timeout whose reduction has a basis of `basis` segments.
pub(crate) fn timeout(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Timeout, ..loss(basis) }
}

/// Returns a repeated timeout.
pub(crate) fn repeated_timeout() -> Congestion {
    Congestion { repeated: true, ..timeout(1.0) }
}

/// Returns the context at `now` before any round-trip sample.
pub(crate) fn timer_context(now: Instant) -> TimerContext<'static> {
    timer_context_of(&Config::default(), now)
}

/// Same as [`timer_context`], with the clock and the retransmission timer of `config`.
pub(crate) fn timer_context_of(config: &Config, now: Instant) -> TimerContext<'static> {
    let config = Box::leak(Box::new(config.rto.clone()));
    TimerContext { now, estimator: Box::leak(Box::new(Estimator::new(config))), config }
}
