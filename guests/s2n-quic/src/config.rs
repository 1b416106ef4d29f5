//! The configuration of the guest, which is a JSON table.

use serde::Deserialize;

/// The configuration of one end.
pub type Config = guest_common::QuicConfig<Control>;

/// A congestion control of s2n-quic.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    #[default]
    Cubic,
    Bbr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::Bbr, size: 5, ecn: false, ..Config::default() };
        assert_eq!(Config::read(r#"{"control": "bbr", "size": 5, "ecn": false}"#), Ok(expected));
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "newreno"}"#, "expected `cubic` or `bbr`"),
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": 4611686018427387904}"#, "size must be from 1 to 4611686018427387903"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
