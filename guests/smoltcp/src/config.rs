//! The configuration of the guest, which is a JSON table.

use aqm_guest::Problem;
use serde::Deserialize;
use smoltcp::socket::tcp::CongestionControl;

/// The configuration of one end.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Bytes of the socket's receive buffer and of its send buffer. The receive buffer limits the window that the
    /// receiver offers.
    pub buffer: usize,
    /// Whether the packets are ECN-capable, which smoltcp does not implement.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { control: Control::Cubic, size: guest_common::SIZE, buffer: 4_194_304, ecn: false }
    }
}

/// A congestion control of smoltcp.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    Reno,
    Cubic,
    /// No congestion control: the receiver's window is the only limit.
    None,
}

/// Maximum size of a buffer: the maximum window of TCP (RFC 7323, section 2.3), which is smoltcp's limit too.
const MAX_BUFFER: usize = 1 << 30;

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config = guest_common::read(text, |config: &Self| config.size, u64::MAX)?;
        if config.buffer == 0 || config.buffer > MAX_BUFFER {
            let buffer = config.buffer;
            return Err(format!("configuration: buffer must be from 1 to {MAX_BUFFER} (got {buffer})").into());
        }
        guest_common::refuse_ecn(config.ecn, "smoltcp")?;
        Ok(config)
    }

    /// Returns smoltcp's name of the congestion control.
    pub fn control(&self) -> CongestionControl {
        match self.control {
            Control::Reno => CongestionControl::Reno,
            Control::Cubic => CongestionControl::Cubic,
            Control::None => CongestionControl::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::None, size: 5, buffer: 7, ecn: false };
        assert_eq!(
            Config::read(r#"{"control": "none", "size": 5, "buffer": 7, "ecn": false}"#),
            Ok(expected)
        );
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "bbr"}"#, "expected one of `reno`, `cubic`, `none`"),
            (r#"{"buffer": 0}"#, "buffer must be from 1 to 1073741824 (got 0)"),
            (r#"{"buffer": 1073741825}"#, "buffer must be from 1 to 1073741824 (got 1073741825)"),
            (r#"{"ecn": true}"#, "ecn must be false, because smoltcp has no ECN"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
