//! Rate controls of real-time media, and the registry of the kinds of rate controls.
//!
//! A rate control runs at the sender of media. The sender reports every packet that it sends, and passes on the
//! feedback of the receiver. The rate control returns the rate at which the sender may send, the rate at which the
//! sender may release the packets of a frame, and probes. Rate controls know neither codecs nor networks.

pub mod fixed;
pub mod gcc;
pub mod scream;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Span, registry};
use dyn_clone::DynClone;

registry! {
    /// The parameters of a rate control of any kind.
    pub enum Config: Build, "rate-controls" = "rate control of real-time media" {
        "gcc" => gcc,
        "scream" => scream,
        "fixed" => fixed,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::gcc(gcc::Config::default())
    }
}

/// Operations that the `Config` of every kind supports.
pub trait Build {
    /// Checks all parameters and creates the rate control of a sender of `media`.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    fn build(&self, media: Media) -> Result<Box<dyn RateControl>, ConfigError>;
}

/// The media whose rate a rate control determines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Media {
    /// The highest rate that the application can use, including headers.
    pub most: Rate,
    /// ECN bits of the packets.
    pub ecn: Ecn,
}

/// A video frame that the encoder has produced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaFrame {
    /// Bytes on the wire, including headers.
    pub bytes: u64,
    /// Bytes that a frame of mean size has at the rate that was requested from the encoder.
    pub nominal_bytes: f64,
    /// Time for which the oldest packet has waited in the pacer.
    pub queued: Span,
    /// Interval of frames.
    pub interval: Span,
}

/// When the receiver sends feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporting {
    /// At regular intervals.
    Regular,
    /// At regular intervals, and at once after the last packet of a video frame or after more than `packets` packets.
    Frames {
        /// Number of packets.
        packets: u32,
    },
}

/// A packet that a sender of media has sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentPacket {
    /// Number of the packet; numbers are consecutive.
    pub number: u64,
    /// Bytes on the wire, including headers.
    pub bytes: u16,
    /// Time at which the packet was sent.
    pub at: Instant,
    /// Number of the probe to which the packet belongs; `None` if the packet belongs to no probe.
    pub probe: Option<u32>,
}

/// What the receiver reports about a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketReport {
    /// Number of the packet.
    pub number: u64,
    /// Time of arrival; `None` if the packet has not arrived, although a later packet has arrived.
    pub arrival: Option<Instant>,
    /// ECN bits with which the packet arrived.
    pub ecn: Ecn,
}

/// A request to send packets faster than the target rate for a short time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Number of the probe.
    pub number: u32,
    /// Rate at which the packets are sent, in bits per second.
    pub rate_bps: f64,
    /// Minimum number of bytes.
    pub bytes: u64,
    /// Minimum number of packets.
    pub packets: u32,
}

/// A rate control of real-time media. Rates are in bits per second and include headers.
pub trait RateControl: DynClone + Send + Sync {
    /// Handles a packet that the sender has sent.
    fn on_sent(&mut self, packet: SentPacket);

    /// Handles feedback that has arrived at the sender.
    fn on_feedback(&mut self, reports: &[PacketReport], now: Instant);

    /// Handles the passing of time. The sender calls this method at regular intervals.
    fn on_timer(&mut self, now: Instant);

    /// Handles a frame that the encoder has produced. By default, frames have no effect.
    fn on_frame(&mut self, _frame: MediaFrame) {}

    /// Returns the rate at which the sender may send on average.
    fn target_rate(&self) -> f64;

    /// Returns the rate at which the sender may send the packets of a frame.
    fn pacing_rate(&self) -> f64;

    /// Returns whether the sender may send several packets at once at the beginning of each interval of 5 ms. If false,
    /// the packets have intervals according to the pacing rate. By default, the sender sends bursts.
    fn sends_bursts(&self) -> bool {
        true
    }

    /// Returns the number of bytes of video that the sender may send now. By default, there is no limit.
    fn send_window(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns when the receiver sends feedback. By default, the receiver sends feedback at regular intervals.
    fn reporting(&self) -> Reporting {
        Reporting::Regular
    }

    /// Returns the next probe that the sender must send, if any. Each probe is returned once.
    fn next_probe(&mut self) -> Option<Probe>;
}

dyn_clone::clone_trait_object!(RateControl);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_control_is_selected_by_its_kind_and_is_gcc_by_default() {
        assert_eq!(Config::default().kind(), "gcc");
        let fixed = Config::read(json!({ "kind": "fixed", "rate": "800kbps" })).unwrap();
        let media = Media { most: Rate::from_bps(2_000_000), ecn: Ecn::NotEct };
        let control = fixed.build(media).unwrap();
        assert_eq!(control.target_rate(), 800e3);
        assert!(Config::read(json!({ "kind": "gcc", "rate": "800kbps" })).is_err());
    }
}
