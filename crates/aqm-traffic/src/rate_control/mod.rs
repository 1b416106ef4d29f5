//! Rate controls of real-time media, and the registry of the kinds of rate controls.
//!
//! A rate control runs at the sender of media. The sender reports every packet that it sends, and passes on the
//! feedback of the receiver. The rate control returns the rate at which the sender may send, the rate at which the
//! sender may release the packets of a frame, and probes. Rate controls know neither codecs nor networks.

pub mod fixed;
pub mod gcc;

use aqm_net::{ConfigError, Ecn, Instant, Rate, registry};
use dyn_clone::DynClone;

registry! {
    /// The parameters of a rate control of any kind.
    pub enum Config: Build, "rate-controls" = "rate control of real-time media" {
        "gcc" => gcc,
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
    /// Checks all parameters and creates the rate control of a sender whose application can use at most `most`.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    fn build(&self, most: Rate) -> Result<Box<dyn RateControl>, ConfigError>;
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

    /// Returns the rate at which the sender may send on average.
    fn target_rate(&self) -> f64;

    /// Returns the rate at which the sender may send the packets of a frame.
    fn pacing_rate(&self) -> f64;

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
        let control = fixed.build(Rate::from_bps(2_000_000)).unwrap();
        assert_eq!(control.target_rate(), 800e3);
        assert!(Config::read(json!({ "kind": "gcc", "rate": "800kbps" })).is_err());
    }
}
