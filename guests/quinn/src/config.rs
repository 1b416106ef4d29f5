//! The configuration of the guest, which is a JSON table.

use std::sync::Arc;

use quinn_proto::TransportConfig;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use serde::Deserialize;

/// The configuration of one end.
pub type Config = guest_common::QuicConfig<Control>;

/// A congestion control of quinn.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    NewReno,
    #[default]
    Cubic,
    Bbr,
}

/// Returns quinn's transport parameters, which are the defaults except for the congestion control. No congestion control of
/// quinn needs a seed.
pub fn transport(config: &Config, _seed: u64) -> Arc<TransportConfig> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match config.control {
        Control::NewReno => Arc::new(NewRenoConfig::default()),
        Control::Cubic => Arc::new(CubicConfig::default()),
        Control::Bbr => Arc::new(BbrConfig::default()),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control);
    Arc::new(transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::NewReno, size: 5, ecn: false, ..Config::default() };
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
