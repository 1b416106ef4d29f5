//! The configuration of the guest, which is a JSON table.

use aqm_guest::Problem;
use serde::Deserialize;

/// The configuration of one end. The defaults are those of s2n-quic, except for the size, which is aqmlab's choice.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Whether the datagrams have s2n-quic's ECN bits. Otherwise, all datagrams are Not-ECT, and the guest hides the ECN
    /// bits of received datagrams from s2n-quic.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { control: Control::Cubic, size: guest_common::SIZE, ecn: true }
    }
}

/// A congestion control of s2n-quic.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    Cubic,
    Bbr,
}

/// Maximum offset in a stream of QUIC (RFC 9000, section 4.1).
const MAX_SIZE: u64 = (1 << 62) - 1;

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        guest_common::read(text, |config: &Self| config.size, MAX_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::Bbr, size: 5, ecn: false };
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
