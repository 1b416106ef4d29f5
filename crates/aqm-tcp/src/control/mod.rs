//! Window laws: how far the congestion window opens, and what congestion does to it.
//!
//! A new law is one file beside `reno.rs` and one line in the registry below.

mod reno;

use aqm_net::registry::Parameter;
use aqm_net::{ConfigError, Instant, Rate, registry};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use reno::{Config as RenoConfig, SlowStartEnd, SsthreshRounding};

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
    fn on_ack(&mut self, ack: Ack);
    /// A loss was found by duplicate acknowledgements; at most once a window of data.
    fn on_congestion(&mut self, congestion: Congestion);
    /// The retransmission timer ran out.
    fn on_timeout(&mut self, congestion: Congestion);
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
pub struct Ack {
    /// When it came.
    pub now: Instant,
    /// What it acknowledges for the first time, in segments.
    pub acked: f64,
    /// Whether the window may grow: not if the sender left part of it unused.
    pub may_grow: bool,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// When it was seen.
    pub now: Instant,
    /// What is to be reduced, in segments: data in flight or the window, as `reduction_basis` says.
    pub basis: f64,
    /// Whether the timer ran out again for the same segment and `ssthresh` is to stay.
    pub repeated: bool,
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
    pub enum Control: Build, "TCP" {
        "reno" => reno,
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::reno(reno::Config::default())
    }
}

impl Serialize for Control {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(out)
    }
}

impl<'de> Deserialize<'de> for Control {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(input)?;
        Self::read(value).map_err(serde::de::Error::custom)
    }
}

impl Parameter for Control {
    fn kind() -> String {
        format!("table with a `kind`: {}", Self::NAMES.join(", "))
    }
}
