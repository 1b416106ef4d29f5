//! Congestion control, which determines the growth and the reduction of the congestion window.
//!
//! A [`Controller`] consists of a sender's [`Window`] and the [`CongestionControl`] that changes this window. The
//! window implements everything that all algorithms share: slow start, the rounding of reductions, and the effects of a
//! timeout and of an idle period. An algorithm implements only the growth of the window and the size of a reduction. A
//! new algorithm needs one file next to `reno.rs` and its lines in the registry below. The smallest example is
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
/// A congestion control does not implement loss detection, retransmission, the receiver's window, or the inflation in
/// fast recovery.
///
/// An algorithm that needs more than acknowledgements and losses uses [`AckSample`]. A model of the path, such as BBR's,
/// uses [`RateSample`] and sets the pacing rate.
pub trait CongestionControl: Send {
    /// Opens the window after an acknowledgement of new data (Linux: `cong_avoid`). Not called with [`Build::uses_rates`].
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

    /// Processes a transmission of data with nothing else in the network, before it is paced (Linux: `CA_EVENT_TX_START`);
    /// only with [`Build::uses_rates`].
    fn on_transmit(&mut self, _window: &mut Window, _transmit: &Transmit) {}

    /// Processes a segment that is considered lost; only with [`Build::uses_rates`]. `on_rates` follows.
    fn on_lost(&mut self, _window: &mut Window, _lost: &LostSegment) {}

    /// Processes an acknowledgement after all other effects; only with [`Build::uses_rates`]. The algorithm sets the
    /// window here (Linux: `cong_control`).
    fn on_rates(&mut self, _window: &mut Window, _sample: &RateSample) {}

    /// Processes a timeout after the data has been considered lost; `in_flight` bytes of segments of `mss` bytes remain in
    /// the network. Only with [`Build::uses_rates`], in place of [`WindowEvent::Timeout`].
    fn on_timeout(&mut self, _window: &mut Window, _in_flight: u64, _mss: u64) {}

    /// Whether the algorithm itself limits the rate at present, so that delivery-rate samples count as limited by the
    /// application (BBR: `PROBE_RTT`). Evaluated after `on_rates`.
    fn limits_rate(&self) -> bool {
        false
    }

    /// Sets the random numbers; only with [`Build::uses_random`].
    fn set_random(&mut self, _random: Rng) {}

    /// Reports that the sender is paced. This function is called before the first acknowledgement.
    fn set_paced(&mut self) {}

    /// Returns the pacing rate in bytes per second; `None` for a share of the window per round trip (`tcp.pacing`).
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Returns the algorithm's state and estimates for histories.
    fn report(&self) -> ControlReport {
        ControlReport::default()
    }
}

/// Phase of the loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// No loss is known.
    Open,
    /// The window is decreasing because of a mark (Linux: `TCP_CA_CWR`).
    Marked,
    /// Fast recovery.
    Recovery,
    /// After a timeout, until all data sent before it is acknowledged.
    Loss,
}

/// Transmission of data with nothing else in the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmit {
    /// Departure time.
    pub now: Instant,
    /// Bytes delivered since the connection was opened.
    pub delivered: u64,
    /// Whether the application limits the rate.
    pub is_app_limited: bool,
    /// Smoothed round-trip time; with a handshake, known from the first transmission on.
    pub srtt: Option<Span>,
    /// Payload of a full segment.
    pub mss: u64,
}

/// A segment that is considered lost, with the state of the connection when the segment was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Time of the detection.
    pub now: Instant,
    /// First byte.
    pub begin: u64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Bytes delivered since the connection was opened.
    pub delivered: u64,
    /// Bytes lost since the connection was opened, including this segment.
    pub total_lost: u64,
    /// Bytes delivered when the segment was sent.
    pub delivered_when_sent: u64,
    /// Bytes lost when the segment was sent.
    pub lost_when_sent: u64,
    /// Bytes in the network when the segment was sent, including the segment.
    pub in_flight_when_sent: u64,
    /// Whether the application limited the rate when the segment was sent.
    pub is_app_limited: bool,
}

/// Delivery-rate sample of an acknowledgement, with the state of the connection (`RS` and `C` of
/// draft-ietf-ccwg-bbr). All amounts are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Newly delivered.
    pub newly_acked: u64,
    /// Newly considered lost.
    pub newly_lost: u64,
    /// Newly reported as marked.
    pub newly_marked: u64,
    /// Delivered since the connection was opened.
    pub delivered: u64,
    /// Lost since the connection was opened.
    pub lost: u64,
    /// Reported as marked since the connection was opened.
    pub marked: u64,
    /// Sample of the newest delivered segment; `None` if nothing was delivered.
    pub segment: Option<DeliveredSegment>,
    /// Round trip of the newest delivered segment that was sent once; `None` if there is no such segment.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// In the network before the acknowledgement.
    pub in_flight_before: u64,
    /// In the network now.
    pub in_flight: u64,
    /// Whether the window limited the sender at any time in the last round trip.
    pub is_cwnd_limited: bool,
    /// Phase of the recovery after the acknowledgement.
    pub phase: RecoveryPhase,
    /// Time until the next paced departure; zero if a segment may depart now.
    pub pacing_delay: Span,
    /// Payload of a full segment.
    pub mss: u64,
}

/// The newest delivered segment, with the state of the connection when it was last sent. All amounts are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveredSegment {
    /// Delivered when the segment was sent (`P.delivered`).
    pub delivered_when_sent: u64,
    /// Lost when the segment was sent.
    pub lost_when_sent: u64,
    /// Reported as marked when the segment was sent.
    pub marked_when_sent: u64,
    /// In the network when the segment was sent, including the segment.
    pub in_flight_when_sent: u64,
    /// Whether the application limited the rate when the segment was sent.
    pub is_app_limited: bool,
    /// Delivered in the interval of the sample.
    pub delivered: u64,
    /// Interval of the sample; `None` if it is shorter than the smallest round trip.
    pub interval: Option<Span>,
}

impl DeliveredSegment {
    /// Returns the delivery rate in bytes per second, if the sample has an interval.
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
    /// Bytes newly known to have arrived.
    pub delivered: u64,
    /// Bytes newly reported as marked.
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
    /// The window was capped after an idle period or at the end of a recovery.
    Capped,
    /// A reduction was undone.
    Undone,
}

/// Creation of a congestion control. The `Config` of each algorithm implements this trait.
pub trait Build {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

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

    /// Whether the algorithm uses delivery rates, requires pacing, and sets the window itself: neither losses, timeouts, marks nor idle
    /// periods change the window unless the algorithm does.
    fn uses_rates(&self) -> bool {
        false
    }

    /// Returns what the algorithm requires of ECN.
    fn ecn(&self) -> EcnNeeds {
        EcnNeeds::default()
    }

    /// Whether the algorithm uses random numbers.
    fn uses_random(&self) -> bool {
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
