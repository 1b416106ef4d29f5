//! What the tests of this crate share, and which rig is for what.
//!
//! - A congestion control alone: [`ack`], [`loss`] and its kin tell a `Controller` what happened
//!   (`congestion_control/*.rs`); `tests/congestion_control.rs` drives one against published tables.
//! - A receiver, or when it acknowledges, alone: [`timer_context`] (`receiver/`).
//! - A loss recovery alone: the `Bench` of `recovery/counting/`, `recovery/counted_pipe/` and `recovery/full_tcp/`, and
//!   the `Hand` of `recovery/selective/tests`, which moves a clock too.
//! - Two whole ends, a clock moved by hand and a path that loses what a test says: `tests/pair`, for
//!   `tests/exchange*.rs` and, with chance in charge, `tests/invariants.rs`.
//! - One end against the recorded trace of another simulator: `tests/micro.rs`.

use aqm_net::{Instant, Span};

use crate::config::Config;
use crate::congestion_control::{AckInfo, Congestion, CongestionSignal};
use crate::recovery::TimerContext;
use crate::rtt::Estimator;

/// An acknowledgement of `segments` segments that may open the window.
pub(crate) fn ack(segments: f64) -> AckInfo {
    AckInfo { now: Instant::START, acked: segments, counted: segments, may_grow: true, srtt: None }
}

/// An acknowledgement of a segment at `now`, with the round-trip time known.
pub(crate) fn ack_at(now: Instant, rtt: Span) -> AckInfo {
    AckInfo { now, srtt: Some(rtt), ..ack(1.0) }
}

/// A loss that reduces `basis` segments.
pub(crate) fn loss(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Loss, basis, repeated: false }
}

/// A mark that reduces `basis` segments.
pub(crate) fn mark(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Mark, ..loss(basis) }
}

/// A time-out that reduces `basis` segments.
pub(crate) fn timeout(basis: f64) -> Congestion {
    Congestion { signal: CongestionSignal::Timeout, ..loss(basis) }
}

/// A time-out after another.
pub(crate) fn repeated_timeout() -> Congestion {
    Congestion { repeated: true, ..timeout(1.0) }
}

/// `now`, where nothing is known of the path yet.
pub(crate) fn timer_context(now: Instant) -> TimerContext<'static> {
    timer_context_of(&Config::default(), now)
}

/// As [`timer_context`], with a clock and a retransmission timer as `config` says.
pub(crate) fn timer_context_of(config: &Config, now: Instant) -> TimerContext<'static> {
    let config = Box::leak(Box::new(config.rto.clone()));
    TimerContext { now, estimator: Box::leak(Box::new(Estimator::new(config))), config }
}
