//! Congestion control, which determines the growth and the reduction of the congestion window.
//!
//! A [`Controller`] consists of a sender's [`Window`] and the [`CongestionControl`] that changes this window. The
//! window implements everything that all algorithms share: slow start, the rounding of reductions, and the effects of a
//! timeout and of an idle period. An algorithm implements only the growth of the window and the size of a reduction. A
//! new algorithm needs one file next to `reno.rs` and its entries in the registry below. The simplest example is
//! `fixed.rs`.

mod ack_aggregation;
mod bbr1;
mod bbr3;
mod controller;
mod cubic;
mod cubic_segments;
mod dctcp;
#[cfg(test)]
mod fixed;
mod highspeed;
mod htcp;
mod hystart;
mod hystart_plus_plus;
mod ledbat;
mod prague;
mod reno;
mod report;
mod scalable;
mod search;
mod slow_start;
mod slow_start_exit;
mod vegas;
mod westwood;
mod window;
mod windowed_max;

use aqm_net::{ConfigError, Instant, Rng, Span, registry};

use crate::config::ecn::EcnNeeds;

pub use bbr1::Config as Bbr1Config;
pub use bbr3::{Config as Bbr3Config, Ecn as Bbr3Ecn, Profile as Bbr3Profile};
pub use controller::{AnyControl, Controller};
pub use cubic::{Config as CubicConfig, SpuriousLoss};
pub use dctcp::{Config as DctcpConfig, ShareArithmetic};
pub use highspeed::{Config as HighSpeedConfig, Decrease, LossRate, LowWindowReduction};
pub use htcp::Config as HTcpConfig;
pub use hystart::HyStart;
pub use ledbat::{Config as LedbatConfig, Delay};
pub use reno::{Config as RenoConfig, Growth};
pub use report::{ControlReport, SenderState};
pub use scalable::Config as ScalableConfig;
pub use slow_start::{LimitedSlowStart, SlowStartEnd};
pub use slow_start_exit::SlowStartExit;
pub use vegas::Config as VegasConfig;
pub use westwood::Config as WestwoodConfig;
pub use window::{SsthreshRounding, Window, WindowRules};

/// A congestion control. A congestion control counts in segments and processes every event that may change the window.
/// Loss detection, retransmission, the receiver's window, and the inflation in fast recovery are implemented elsewhere.
///
/// An algorithm that needs more information than acknowledgements and losses provide uses [`AckSample`]. An algorithm
/// that models the path, such as BBR, uses [`RateSample`] and sets the pacing rate.
pub trait CongestionControl: Send {
    /// Opens the window after an acknowledgement of new data (Linux: `cong_avoid`). Not called if [`Build::uses_rates`]
    /// is true.
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo);

    /// Reduces the window (Linux: `ssthresh`). This function is called at most once per window of data, and is not
    /// called at a repeated timeout. Implementations use [`Window::reduce`]. The controller implements all further
    /// effects of a timeout.
    fn reduce(&mut self, window: &mut Window, congestion: &Congestion);

    /// Processes any other change of the window (Linux: `cwnd_event`).
    fn on_event(&mut self, _event: WindowEvent) {}

    /// Returns whether the algorithm uses round-trip samples. The result must not change.
    fn uses_samples(&self) -> bool {
        false
    }

    /// Processes the arrival of data, in order or out of order, before the arrival changes the window (Linux:
    /// `pkts_acked`).
    fn on_sample(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// Processes a transmission of data when no other data is in the network, before the data is paced (Linux:
    /// `CA_EVENT_TX_START`). Called only if [`Build::uses_rates`] is true.
    fn on_transmit(&mut self, _window: &mut Window, _transmit: &Transmit) {}

    /// Processes a segment that is considered lost. Called only if [`Build::uses_rates`] is true, and before
    /// `on_rates`.
    fn on_lost(&mut self, _window: &mut Window, _lost: &LostSegment) {}

    /// Processes an acknowledgement after all other effects of the acknowledgement. Called only if
    /// [`Build::uses_rates`] is true. The algorithm sets the window here (Linux: `cong_control`).
    fn on_rates(&mut self, _window: &mut Window, _sample: &RateSample) {}

    /// Processes a timeout after the data has been considered lost. At this time, `in_flight` bytes remain in the
    /// network, and the payload of a full segment is `mss` bytes. Called only if [`Build::uses_rates`] is true, instead
    /// of `on_event` with [`WindowEvent::Timeout`].
    fn on_timeout(&mut self, _window: &mut Window, _in_flight: u64, _mss: u64) {}

    /// Returns whether the algorithm itself currently limits the rate, so that delivery-rate samples count as
    /// application-limited (BBR: `PROBE_RTT`). Called after `on_rates`.
    fn limits_rate(&self) -> bool {
        false
    }

    /// Sets the generator of random numbers. Called only if [`Build::uses_random`] is true.
    fn set_random(&mut self, _random: Rng) {}

    /// Reports that the sender paces its segments. This function is called before the first acknowledgement.
    fn set_paced(&mut self) {}

    /// Returns the pacing rate in bytes per second; `None` means that `tcp.pacing` determines the rate from the window
    /// and the round-trip time.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Returns the algorithm's state and estimates, which are recorded over time.
    fn report(&self) -> ControlReport {
        ControlReport::default()
    }
}

/// Phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// No loss is known.
    Open,
    /// The window is decreasing because of a mark (Linux: `TCP_CA_CWR`).
    Marked,
    /// Fast recovery.
    Recovery,
    /// After a timeout, until all data sent before the timeout is acknowledged.
    Loss,
}

/// Transmission of data when no other data is in the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmit {
    /// Departure time.
    pub now: Instant,
    /// Number of bytes delivered since the connection was opened.
    pub delivered: u64,
    /// Whether the application limits the rate.
    pub is_app_limited: bool,
    /// Smoothed round-trip time. If there is a handshake, this value is known from the first transmission on.
    pub srtt: Option<Span>,
    /// Payload of a full segment.
    pub mss: u64,
}

/// A segment that is considered lost, and the state of the connection when the segment was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Time at which the loss was detected.
    pub now: Instant,
    /// Sequence number of the first byte.
    pub begin: u64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Number of bytes delivered since the connection was opened.
    pub delivered: u64,
    /// Number of bytes lost since the connection was opened, including this segment.
    pub total_lost: u64,
    /// Number of bytes that had been delivered when the segment was sent.
    pub delivered_when_sent: u64,
    /// Number of bytes that had been lost when the segment was sent.
    pub lost_when_sent: u64,
    /// Number of bytes in the network when the segment was sent, including the segment.
    pub in_flight_when_sent: u64,
    /// Whether the application limited the rate when the segment was sent.
    pub is_app_limited: bool,
}

/// Delivery-rate sample of an acknowledgement, and the state of the connection (`RS` and `C` in draft-ietf-ccwg-bbr).
/// All amounts are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Data newly delivered.
    pub newly_acked: u64,
    /// Data newly considered lost.
    pub newly_lost: u64,
    /// Data newly reported as marked.
    pub newly_marked: u64,
    /// Data delivered since the connection was opened.
    pub delivered: u64,
    /// Data lost since the connection was opened.
    pub lost: u64,
    /// Data reported as marked since the connection was opened.
    pub marked: u64,
    /// Sample of the newest delivered segment; `None` if nothing was delivered.
    pub segment: Option<DeliveredSegment>,
    /// Round-trip time of the newest delivered segment that was sent only once; `None` if there is no such segment.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Data in the network before the acknowledgement.
    pub in_flight_before: u64,
    /// Data in the network after the acknowledgement.
    pub in_flight: u64,
    /// Whether the window limited the sender at any time in the last round trip.
    pub is_cwnd_limited: bool,
    /// Phase of loss recovery after the acknowledgement.
    pub phase: RecoveryPhase,
    /// Time until the next paced departure; zero if a segment may depart now.
    pub pacing_delay: Span,
    /// Payload of a full segment.
    pub mss: u64,
}

/// The newest delivered segment, and the state of the connection when this segment was last sent. All amounts are in
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveredSegment {
    /// Data that had been delivered when the segment was sent (`P.delivered`).
    pub delivered_when_sent: u64,
    /// Data that had been lost when the segment was sent.
    pub lost_when_sent: u64,
    /// Data that had been reported as marked when the segment was sent.
    pub marked_when_sent: u64,
    /// Data in the network when the segment was sent, including the segment.
    pub in_flight_when_sent: u64,
    /// Whether the application limited the rate when the segment was sent.
    pub is_app_limited: bool,
    /// Data delivered in the interval of the sample.
    pub delivered: u64,
    /// Interval of the sample; `None` if the interval is shorter than the minimum round-trip time.
    pub interval: Option<Span>,
}

impl DeliveredSegment {
    /// Returns the delivery rate in bytes per second; `None` if the sample has no interval.
    pub fn rate(&self) -> Option<f64> {
        Some(self.delivered as f64 / self.interval?.seconds())
    }
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
    /// Whether the window may grow; `false` if the sender left part of the window unused.
    pub may_grow: bool,
    /// Smoothed round-trip time, including the sample of this acknowledgement.
    pub srtt: Option<Span>,
}

/// Round-trip sample from an acknowledgement that carries new information.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Departure time of the newest segment that is newly known to have arrived and that was sent only once; `None` if
    /// the loss recovery does not record departure times. Without SACK, one segment per window is measured.
    pub newest: Option<Instant>,
    /// Departure time of the acknowledgement according to the other endpoint's clock, which agrees with this endpoint's
    /// clock. Available only if [`Build::has_timestamps`] is true.
    pub ack_sent_at: Option<Instant>,
    /// Smoothed round-trip time, excluding this sample.
    pub srtt: Option<Span>,
    /// Number of bytes that are newly known to have arrived.
    pub delivered: u64,
    /// Number of bytes that are newly reported as marked.
    pub marked: u64,
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
    /// Basis of the reduction, in segments: either the data in flight or the window, depending on `reduction_basis`.
    pub basis: f64,
    /// Whether the event is a timeout after an earlier timeout or loss, so that `ssthresh` remains unchanged.
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

/// Changes of the window that are not caused by an acknowledgement or a congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// The window was set to one segment after a timeout.
    Timeout,
    /// The window was limited to a maximum after an idle period or at the end of a recovery.
    Capped,
    /// A reduction was undone.
    Undone,
}

/// Creates a congestion control from its parameters. The `Config` of each algorithm implements this trait.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error that describes the first invalid parameter.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Returns the rules for slow start and for the rounding of a reduced window.
    fn window_rules(&self) -> WindowRules {
        WindowRules::default()
    }

    /// Returns the phases in which Limited Slow-Start applies.
    fn limited_slow_start(&self) -> LimitedSlowStart {
        LimitedSlowStart::BelowSsthresh
    }

    /// Returns whether segments carry timestamps (RFC 7323), so that the algorithm can measure the one-way delay.
    fn has_timestamps(&self) -> bool {
        false
    }

    /// Returns whether the algorithm uses delivery rates, requires pacing, and sets the window itself. If so, losses,
    /// timeouts, marks and idle periods change the window only if the algorithm changes it.
    fn uses_rates(&self) -> bool {
        false
    }

    /// Returns the ECN requirements of the algorithm.
    fn ecn(&self) -> EcnNeeds {
        EcnNeeds::default()
    }

    /// Returns whether the algorithm uses random numbers.
    fn uses_random(&self) -> bool {
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
        "dctcp" => dctcp,
        "ledbat" => ledbat,
        "prague" => prague,
        "bbr3" => bbr3,
        "bbr1" => bbr1,
        "htcp" => htcp,
        "vegas" => vegas,
        "westwood" => westwood,
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::reno(reno::Config::default())
    }
}
