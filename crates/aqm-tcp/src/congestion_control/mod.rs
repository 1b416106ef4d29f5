//! Congestion control: the growth of the congestion window and its reduction.
//!
//! A [`Controller`] consists of a sender's [`Window`] and the [`CongestionControl`] that changes it. The window
//! implements everything that the algorithms share (slow start, the rounding of a reduction, the effects of a timeout
//! and of an idle period). An algorithm only implements the growth of the window and the size of a reduction. A new
//! algorithm needs one file next to `reno.rs` and its lines in the registry below; `fixed.rs` is the smallest.

mod controller;
mod cubic;
mod cubic_segments;
#[cfg(test)]
mod fixed;
mod highspeed;
mod hystart;
mod ledbat;
mod reno;
mod scalable;
mod slow_start;
mod window;

use aqm_net::{ConfigError, Instant, Span, registry};

pub use controller::{AnyControl, Controller};
pub use cubic::Config as CubicConfig;
pub use highspeed::{Config as HighSpeedConfig, Decrease, LossRate, LowWindowReduction};
pub use hystart::HyStart;
pub use ledbat::{Config as LedbatConfig, Delay};
pub use reno::{Config as RenoConfig, Growth};
pub use scalable::Config as ScalableConfig;
pub use slow_start::{LimitedSlowStart, SlowStartEnd};
pub use window::{SsthreshRounding, Window, WindowRules};

/// A congestion control. It counts in segments and processes every event that may change the window. Loss detection,
/// retransmission, the receiver's window and the inflation of fast recovery are not its task.
///
/// An algorithm that needs more than acknowledgements and losses uses [`AckSample`], which can get further fields (for
/// example the delivery rate, for BBR). An algorithm with pacing needs a further function here for its rate, which the
/// sender calls before it sends a segment.
pub trait CongestionControl: Send {
    /// Opens the window after new data was acknowledged (Linux: `cong_avoid`).
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo);

    /// Reduces the window (Linux: `ssthresh`): at most once per window of data, and not at a repeated timeout. Use
    /// [`Window::reduce`]. The controller implements the further effects of a timeout.
    fn reduce(&mut self, window: &mut Window, congestion: &Congestion);

    /// Processes any other change of the window (Linux: `cwnd_event`).
    fn on_event(&mut self, _event: WindowEvent) {}

    /// Whether the algorithm uses round-trip samples; constant.
    fn uses_samples(&self) -> bool {
        false
    }

    /// Processes an arrival, in order or not, before the window changes because of it (Linux: `pkts_acked`).
    fn on_sample(&mut self, _window: &mut Window, _sample: &AckSample) {}
}

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckInfo {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Segments newly known to have arrived.
    pub acked: f64,
    /// Segments that may open the window: `acked`, but at most `abc_limit`.
    pub counted: f64,
    /// Whether the window may grow; `false` if the sender left part of it unused.
    pub may_grow: bool,
    /// Smoothed round-trip time, including this acknowledgement's sample.
    pub srtt: Option<Span>,
}

/// Round-trip sample of an acknowledgement that reports anything new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Departure time of the newest segment that is newly known to have arrived, among segments sent once, if the
    /// recovery records times. Without SACK, one segment per window is measured.
    pub newest: Option<Instant>,
    /// Departure time of the acknowledgement, by the clock of the other endpoint, which is also this endpoint's clock;
    /// only with [`Build::has_timestamps`].
    pub ack_sent_at: Option<Instant>,
    /// Smoothed round-trip time, without this sample.
    pub srtt: Option<Span>,
    /// Oldest unacknowledged byte (`SND.UNA`).
    pub snd_una: u64,
    /// End of all sent data (`SND.NXT`).
    pub snd_nxt: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
}

/// Congestion that reduces the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// Congestion signal.
    pub signal: CongestionSignal,
    /// Basis of the reduction, in segments: data in flight or the window, according to `reduction_basis`.
    pub basis: f64,
    /// Whether this is a timeout after another timeout or a loss, which leaves `ssthresh` unchanged.
    pub repeated: bool,
}

/// Congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSignal {
    /// A segment was lost, and fast recovery repairs the loss.
    Loss,
    /// The receiver echoed a router's mark (ECE, RFC 3168).
    Mark,
    /// The retransmission timer expired, or Tahoe detected a loss: the window restarts from one segment.
    Timeout,
}

/// Other changes of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// The window is one segment after a timeout.
    Timeout,
    /// The window was capped after an idle period, or a reduction was undone.
    Moved,
}

/// Creates a congestion control; implemented by the `Config` of each algorithm.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    fn check(&self) -> Result<(), ConfigError>;

    /// Returns the rules of slow start and of the rounding of a reduced window.
    fn window_rules(&self) -> WindowRules {
        WindowRules::default()
    }

    /// Returns the scope of Limited Slow-Start.
    fn limited_slow_start(&self) -> LimitedSlowStart {
        LimitedSlowStart::BelowSsthresh
    }

    /// Whether segments carry timestamps (RFC 7323), so that the algorithm can measure the one-way delay.
    fn has_timestamps(&self) -> bool {
        false
    }

    /// Creates the congestion control of one sender; the parameters have been checked.
    fn build(&self) -> AnyControl;
}

registry! {
    /// A congestion control and its parameters.
    pub enum Control: Build, "congestion-controls" = "TCP congestion control" {
        "reno" => reno,
        "highspeed" => highspeed,
        "scalable" => scalable,
        "cubic" => cubic,
        "ledbat" => ledbat,
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::reno(reno::Config::default())
    }
}
