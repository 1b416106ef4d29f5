//! The configuration of the guest, which is a JSON table.

use std::sync::Arc;
use std::time::Instant;

use noq_proto::TransportConfig;
use noq_proto::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use serde::Deserialize;

/// The configuration of one end.
pub type Config = guest_common::QuicConfig<Control>;

/// A congestion control of noq.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    NewReno,
    #[default]
    Cubic,
    Bbr3,
}

/// Returns noq's transport parameters, which are the defaults except for the congestion control. `seed` is the seed
/// of the guest.
pub fn transport(config: &Config, seed: u64) -> Arc<TransportConfig> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match config.control {
        Control::NewReno => Arc::new(NewRenoConfig::default()),
        Control::Cubic => Arc::new(CubicConfig::default()),
        Control::Bbr3 => Arc::new(SeededBbr3 { seed }),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control);
    Arc::new(transport)
}

/// BBRv3, whose random intervals between probes depend on the seed of the guest. noq draws the seed of the intervals from
/// `rand::rng()` when noq builds the congestion control, and has no public parameter for this seed.
#[derive(Debug)]
struct SeededBbr3 {
    seed: u64,
}

impl ControllerFactory for SeededBbr3 {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        getrandom::seed(self.seed);
        // The error type has no values.
        let Ok(()) = rand::rng().reseed();
        Arc::new(Bbr3Config::default()).build(now, current_mtu)
    }
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
            (r#"{"control": "vegas"}"#, "expected one of `newreno`, `cubic`, `bbr3`"),
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": 4611686018427387904}"#, "size must be from 1 to 4611686018427387903"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
