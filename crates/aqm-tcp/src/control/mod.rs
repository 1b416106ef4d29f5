//! Window laws: how far the congestion window opens, and what congestion does to it.
//!
//! A new law is one file beside `reno.rs` and one line in the registry below.

mod cubic;
mod highspeed;
mod reno;
mod scalable;
mod slow_start;

use aqm_net::{ConfigError, Instant, Rate, Span, registry};

pub use cubic::Config as CubicConfig;
pub use highspeed::{Config as HighSpeedConfig, Decrease, LossRate, LowWindowReduction};
pub use reno::{Config as RenoConfig, Growth};
pub use scalable::Config as ScalableConfig;
pub use slow_start::{LimitedSlowStart, SlowStartEnd, SsthreshRounding};

/// A window law. It counts in segments and hears of every event that may move the window; loss
/// detection, retransmission, the receiver's window and the inflation of fast recovery are not
/// its business.
pub trait CongestionControl: Send {
    /// The congestion window (`cwnd`), in segments; fractions count towards the next segment.
    fn window(&self) -> f64;
    /// Where slow start ends (`ssthresh`), in segments.
    fn ssthresh(&self) -> f64;
    /// The handshake is over: data may flow.
    fn on_open(&mut self, start: Start);
    /// New data was acknowledged.
    fn on_ack(&mut self, ack: AckInfo);
    /// A loss was found otherwise than by the timer, or a mark was echoed; at most once a window of data.
    fn on_congestion(&mut self, congestion: Congestion);
    /// The retransmission timer ran out, or a recovery without fast recovery (Tahoe) found a loss.
    fn on_timeout(&mut self, congestion: Congestion);
    /// The window must not exceed `window` segments from now on; `ssthresh` stays. Called after an idle
    /// time (RFC 5681, section 4.1) and where a recovery ends with little in flight (RFC 6582).
    fn cap(&mut self, window: f64, now: Instant);
    /// A reduction is taken back: the window and `ssthresh` are at least what they were (Linux:
    /// `tcp_undo_cwnd_reduction`).
    fn restore(&mut self, window: f64, ssthresh: f64);
    /// How fast segments may leave; `None` if acknowledgements alone clock them.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}

/// What a law starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The first window, in segments.
    pub window: f64,
    /// The first slow-start threshold, in segments.
    pub ssthresh: f64,
}

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckInfo {
    /// When it came.
    pub now: Instant,
    /// What it tells has arrived, for the first time, in segments.
    pub acked: f64,
    /// As much of it as may open the window: at most `abc_limit`.
    pub counted: f64,
    /// Whether the window may grow: not if the sender left part of it unused.
    pub may_grow: bool,
    /// The smoothed round-trip time, with this acknowledgement's sample if it gave one.
    pub srtt: Option<Span>,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// When it was seen.
    pub now: Instant,
    /// What showed it.
    pub sign: Sign,
    /// What is to be reduced, in segments: data in flight or the window, as `reduction_basis` says.
    pub basis: f64,
    /// Whether the timer ran out again for the same segment and `ssthresh` is to stay.
    pub repeated: bool,
}

/// What shows congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A segment was lost.
    Loss,
    /// The receiver echoed a router's mark (ECE, RFC 3168).
    Mark,
}

/// Makes a running law; implemented by the `Config` of every law.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first parameter that makes no sense.
    fn check(&self) -> Result<(), ConfigError>;

    /// A law of its own for one sender; the parameters have been checked.
    fn build(&self, start: Start) -> Box<dyn CongestionControl>;
}

registry! {
    /// A window law and its parameters.
    pub enum Control: Build, "tcp" = "TCP" {
        "reno" => reno,
        "highspeed" => highspeed,
        "scalable" => scalable,
        "cubic" => cubic,
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::reno(reno::Config::default())
    }
}
