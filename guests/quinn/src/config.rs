//! The configuration of the guest, which is a JSON table.

use std::sync::Arc;

use aqm_guest::Problem;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{TransportConfig, VarInt};
use serde::Deserialize;

/// The configuration of one end. The defaults are those of quinn, except for the size, which is aqmlab's choice.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Whether the datagrams have quinn's ECN bits. Otherwise, all datagrams are Not-ECT, and the guest hides the ECN
    /// bits of received datagrams from quinn.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { control: Control::Cubic, size: guest_common::SIZE, ecn: true }
    }
}

/// A congestion control of quinn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    NewReno,
    Cubic,
    Bbr,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        guest_common::read(text, |config: &Self| config.size, VarInt::MAX.into_inner())
    }

    /// Returns quinn's transport parameters, which are the defaults except for the congestion control.
    pub fn transport(&self) -> Arc<TransportConfig> {
        let control: Arc<dyn ControllerFactory + Send + Sync> = match self.control {
            Control::NewReno => Arc::new(NewRenoConfig::default()),
            Control::Cubic => Arc::new(CubicConfig::default()),
            Control::Bbr => Arc::new(BbrConfig::default()),
        };
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(control);
        Arc::new(transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::NewReno, size: 5, ecn: false };
        assert_eq!(Config::read(r#"{"control": "newreno", "size": 5, "ecn": false}"#), Ok(expected));
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "vegas"}"#, "expected one of `newreno`, `cubic`, `bbr`"),
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": 4611686018427387904}"#, "size must be from 1 to 4611686018427387903"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
