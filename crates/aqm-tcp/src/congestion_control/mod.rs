//! Congestion control: how far the congestion window opens, and what congestion does to it.
//!
//! A [`Controller`] is a sender's [`Window`] and the [`CongestionControl`] that moves it. The window is kept
//! once, with all that the algorithms share (slow start, the rounding of a reduction, what a time-out and an
//! idle time do to it), so an algorithm is what is its own: how the window opens and what a reduction leaves.
//! A new one is one file beside `reno.rs` and its lines in the registry below; `fixed.rs` is the smallest.

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

/// A congestion control. It counts in segments, and is told of every event that may move the window; the
/// detection of losses, retransmission, the receiver's window and the inflation of fast recovery are not its
/// business.
///
/// One that needs more than acknowledgements and losses takes it from [`AckSample`], which grows by fields (the
/// rate of delivery, for BBR); one that paces says its rate in a function of its own beside these, which the
/// sender asks before it lets a segment go.
pub trait CongestionControl: Send {
    /// New data was acknowledged: opens the window (Linux: `cong_avoid`).
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo);

    /// The window is to be reduced (Linux: `ssthresh`): at most once a window of data, and not at a repeated
    /// time-out. [`Window::reduce`] does it; what a time-out does beyond is the controller's business.
    fn reduce(&mut self, window: &mut Window, congestion: &Congestion);

    /// The window was moved otherwise than by the two above (Linux: `cwnd_event`).
    fn on_event(&mut self, _event: WindowEvent) {}

    /// Whether it is to be told of samples of the round trip; it is asked once.
    fn uses_samples(&self) -> bool {
        false
    }

    /// Something arrived, in order or not, and the window has not moved for it yet (Linux: `pkts_acked`).
    fn on_sample(&mut self, _window: &mut Window, _sample: &AckSample) {}
}

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckInfo {
    /// When it came.
    pub now: Instant,
    /// Segments that are known to have arrived, for the first time.
    pub acked: f64,
    /// As many of them as may open the window: at most `abc_limit`.
    pub counted: f64,
    /// Whether the window may grow: not if the sender left part of it unused.
    pub may_grow: bool,
    /// The smoothed round-trip time, with this acknowledgement's sample if it gave one.
    pub srtt: Option<Span>,
}

/// What any acknowledgement that brings something new tells of the round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// When it came.
    pub now: Instant,
    /// When the newest segment left that is now known to have arrived, of those sent only once, as far as the recovery
    /// keeps times; without SACK it is the one segment of a window that is timed.
    pub newest: Option<Instant>,
    /// When it left the other end, by that end's clock, which is this one's; only where [`Build::has_timestamps`].
    pub ack_sent_at: Option<Instant>,
    /// The smoothed round-trip time without this sample.
    pub srtt: Option<Span>,
    /// The oldest byte not acknowledged (`SND.UNA`).
    pub snd_una: u64,
    /// The end of everything sent (`SND.NXT`).
    pub snd_nxt: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
}

/// Congestion that reduces the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// What showed it.
    pub signal: CongestionSignal,
    /// What is to be reduced, in segments: data in flight or the window, as `reduction_basis` says.
    pub basis: f64,
    /// Whether it is a time-out that follows another, or a loss, and leaves `ssthresh` alone.
    pub repeated: bool,
}

/// What shows congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSignal {
    /// A segment was lost, and fast recovery repairs it.
    Loss,
    /// The receiver echoed a router's mark (ECE, RFC 3168).
    Mark,
    /// The retransmission timer ran out, or Tahoe found a loss: the window starts again from one segment.
    Timeout,
}

/// What else moves the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// After a time-out it is one segment.
    Timeout,
    /// It was capped after an idle time, or a reduction was taken back.
    Moved,
}

/// Makes a running congestion control; implemented by the `Config` of every one.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first parameter that makes no sense.
    fn check(&self) -> Result<(), ConfigError>;

    /// How its window opens in slow start, and how a reduced one is rounded.
    fn window_rules(&self) -> WindowRules {
        WindowRules::default()
    }

    /// Whether segments tell when they were sent (RFC 7323), so that it learns of the delay of one direction.
    fn has_timestamps(&self) -> bool {
        false
    }

    /// A congestion control of one sender; the parameters have been checked.
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
