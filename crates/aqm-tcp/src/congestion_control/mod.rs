//! Congestion control, which determines the growth and the reduction of the congestion window.
//!
//! A [`Controller`] consists of a sender's [`Window`] and the [`CongestionControl`] that changes this window. The
//! window implements everything that all algorithms share: slow start, the rounding of reductions, and the effects of a
//! timeout and of an idle period. An algorithm implements only the growth of the window and the size of a reduction. A
//! new algorithm needs one file next to `reno.rs` and its lines in the registry below. The smallest example is
//! `fixed.rs`.

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

/// A congestion control. A congestion control counts in segments and processes every event that may change the window.
/// A congestion control does not implement loss detection, retransmission, the receiver's window, or the inflation in
/// fast recovery.
///
/// An algorithm that needs more information than acknowledgements and losses uses [`AckSample`]. Further fields can be
/// added to this type, for example the delivery rate for BBR. An algorithm with pacing needs a further function in this
/// trait, which returns the algorithm's pacing rate and which the sender calls before it sends a segment.
pub trait CongestionControl: Send {
    /// Opens the window after an acknowledgement of new data (Linux: `cong_avoid`).
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo);

    /// Reduces the window (Linux: `ssthresh`). This function is called at most once per window of data, and not at a
    /// repeated timeout. Use [`Window::reduce`]. The controller implements all further effects of a timeout.
    fn reduce(&mut self, window: &mut Window, congestion: &Congestion);

    /// Processes any other change of the window (Linux: `cwnd_event`).
    fn on_event(&mut self, _event: WindowEvent) {}

    /// Returns whether the algorithm uses round-trip samples. The result must be constant.
    fn uses_samples(&self) -> bool {
        false
    }

    /// Processes the arrival of data, in order or out of order, before the window changes because of the arrival
    /// (Linux: `pkts_acked`).
    fn on_sample(&mut self, _window: &mut Window, _sample: &AckSample) {}
}

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckInfo {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Number of segments that are newly known to have arrived.
    pub acked: f64,
    /// Number of segments that may open the window: `acked`, but at most `abc_limit`.
    pub counted: f64,
    /// Whether the window may grow; `false` if the sender left a part of the window unused.
    pub may_grow: bool,
    /// Smoothed round-trip time, including the sample of this acknowledgement.
    pub srtt: Option<Span>,
}

/// Round-trip sample of an acknowledgement that reports new information.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Departure time of the newest segment that is newly known to have arrived and that was sent only once; `None` if
    /// the recovery does not record departure times. Without SACK, one segment per window is measured.
    pub newest: Option<Instant>,
    /// Departure time of the acknowledgement by the other endpoint's clock, which agrees with this endpoint's clock.
    /// Only with [`Build::has_timestamps`].
    pub ack_sent_at: Option<Instant>,
    /// Smoothed round-trip time, excluding this sample.
    pub srtt: Option<Span>,
    /// Oldest unacknowledged byte (`SND.UNA`).
    pub snd_una: u64,
    /// First byte after all sent data (`SND.NXT`).
    pub snd_nxt: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
}

/// A congestion event that reduces the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// Congestion signal.
    pub signal: CongestionSignal,
    /// Basis of the reduction, in segments. The basis is the data in flight or the window, according to
    /// `reduction_basis`.
    pub basis: f64,
    /// Whether the event is a timeout that follows another timeout or a loss, so that `ssthresh` remains unchanged.
    pub repeated: bool,
}

/// Congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSignal {
    /// A segment was lost, and fast recovery repairs the loss.
    Loss,
    /// The receiver echoed a router's mark (ECE, RFC 3168).
    Mark,
    /// The retransmission timer expired, or Tahoe detected a loss. The window restarts from one segment.
    Timeout,
}

/// Other changes of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// The window was set to one segment after a timeout.
    Timeout,
    /// The window was limited after an idle period, or a reduction was undone.
    Moved,
}

/// Creation of a congestion control. The `Config` of each algorithm implements this trait.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    fn check(&self) -> Result<(), ConfigError>;

    /// Returns the rules of slow start and of the rounding of a reduced window.
    fn window_rules(&self) -> WindowRules {
        WindowRules::default()
    }

    /// Returns whether segments carry timestamps (RFC 7323), so that the algorithm can measure the one-way delay.
    fn has_timestamps(&self) -> bool {
        false
    }

    /// Creates the congestion control of one sender. The parameters must have been checked.
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
