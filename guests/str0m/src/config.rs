//! The configuration of the guest, which is a JSON table.

use aqm_guest::Problem;
use serde::Deserialize;

/// Lowest rate of the video encoder in bits per second (RFC 8867, section 4.3).
pub const MIN_RATE: u64 = 150_000;

/// The configuration of one end.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Seconds from the first frame of the video to the last frame. By default, the video does not end.
    pub duration: Option<f64>,
    /// Maximum rate of the video encoder in bits per second.
    pub max_rate: u64,
    /// Whether the packets are ECN-capable, which str0m does not implement.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        // RFC 8867, section 4.3.
        Self { control: Control::Gcc, duration: None, max_rate: 1_500_000, ecn: false }
    }
}

/// A congestion control of str0m.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// Google Congestion Control with transport-wide feedback.
    Gcc,
}

/// Maximum rate of the video encoder: a frame must consist of fewer packets than an answer may contain.
const MAX_RATE: u64 = 1_000_000_000;

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config: Self = guest_common::read_table(text)?;
        if let Some(duration) = config.duration.filter(|duration| !duration.is_finite() || *duration <= 0.0) {
            return Err(format!("configuration: duration must be greater than 0 (got {duration})").into());
        }
        if !(MIN_RATE..=MAX_RATE).contains(&config.max_rate) {
            let rate = config.max_rate;
            return Err(format!(
                "configuration: max_rate must be from {MIN_RATE} to {MAX_RATE} (got {rate})"
            )
            .into());
        }
        guest_common::refuse_ecn(config.ecn, "str0m")?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}"), Ok(Config::default()));
        let expected = Config { control: Control::Gcc, duration: Some(2.5), max_rate: 200_000, ecn: false };
        let text = r#"{"control": "gcc", "duration": 2.5, "max_rate": 200000, "ecn": false}"#;
        assert_eq!(Config::read(text), Ok(expected));
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "scream"}"#, "unknown variant `scream`, expected `gcc`"),
            (r#"{"size": 5}"#, "unknown field `size`"),
            (r#"{"duration": 0}"#, "duration must be greater than 0 (got 0)"),
            (r#"{"max_rate": 149999}"#, "max_rate must be from 150000 to 1000000000 (got 149999)"),
            (r#"{"ecn": true}"#, "ecn must be false, because str0m has no ECN"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
