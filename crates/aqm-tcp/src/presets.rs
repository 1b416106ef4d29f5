//! Short names for a window law with a recovery, as `aqmlab compare --tcp` takes them.
//!
//! Ours: the names, after what the literature calls each pair. What a pair may not be combined with is
//! found by `Config::build`.

use aqm_net::{ConfigError, Parameter as _, unknown};
use serde_json::{Value, json};

use crate::control::Control;
use crate::profile::Recovery;

/// A window law with a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The `kind` of its window law.
    pub control: &'static str,
    /// Its recovery, as the parameter writes it.
    pub recovery: &'static str,
}

/// All presets.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

const PRESETS: &[Preset] = &[
    preset("tahoe", "Slow start after every loss (V. Jacobson 1988).", "reno", "tahoe"),
    preset("reno", "Fast recovery that ends with the first new acknowledgement (RFC 5681).", "reno", "reno"),
    preset("newreno", "Fast recovery that repairs a whole window (RFC 6582).", "reno", "newreno"),
    preset("sack", "Reno's window with SACK (RFC 6675).", "reno", "sack"),
    preset("highspeed", "HighSpeed TCP (RFC 3649) with SACK.", "highspeed", "sack"),
    preset("scalable", "Scalable TCP (T. Kelly 2003) with SACK.", "scalable", "sack"),
    preset("cubic", "CUBIC (RFC 9438) with SACK.", "cubic", "sack"),
    preset("linux", "CUBIC with RACK-TLP (RFC 8985), as in today's Linux.", "cubic", "rack"),
];

const fn preset(
    name: &'static str,
    about: &'static str,
    control: &'static str,
    recovery: &'static str,
) -> Preset {
    Preset { name, about, control, recovery }
}

/// Turns `LAW/RECOVERY`, a preset's name or a law's into a `[tcp]` table that sets both, to lay over
/// another. A law without a preset of its own recovers with SACK.
///
/// # Errors
/// If a word is unknown; the problem says which are not.
pub fn transport(text: &str) -> Result<Value, ConfigError> {
    let (law, recovery) = match (text.split_once('/'), presets().iter().find(|preset| preset.name == text)) {
        (Some((law, recovery)), _) => (law, recovery),
        (None, Some(preset)) => (preset.control, preset.recovery),
        (None, None) => (text, "sack"),
    };
    if !Control::NAMES.contains(&law) {
        let problem = if text.contains('/') {
            unknown("window law", law, Control::NAMES)
        } else {
            let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
            format!("{}, or LAW/RECOVERY", unknown("transport", text, &names))
        };
        return Err(ConfigError::at("", problem));
    }
    Recovery::read(recovery.into())
        .map_err(|errors| ConfigError::at("", format!("recovery: {}", errors.first().problem)))?;
    Ok(json!({ "control": { "kind": law }, "recovery": recovery }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::read;

    #[test]
    fn every_preset_is_a_transport_that_builds() {
        for preset in presets() {
            let table = transport(preset.name).unwrap();
            assert_eq!(table, json!({"control": {"kind": preset.control}, "recovery": preset.recovery}));
            let config = read(table).unwrap();
            config.build().unwrap();
            assert_eq!(config.control.kind(), preset.control);
        }
    }

    #[test]
    fn every_law_is_a_transport_by_itself_and_with_every_recovery_but_tahoe() {
        for law in Control::NAMES {
            assert_eq!(transport(law).unwrap()["control"]["kind"], *law);
            for recovery in ["reno", "newreno", "sack", "rack"] {
                let table = transport(&format!("{law}/{recovery}")).unwrap();
                assert_eq!(table["recovery"], recovery);
                read(table).unwrap().build().unwrap();
            }
        }
    }

    #[test]
    fn no_two_presets_share_a_name_or_a_pair() {
        for (index, one) in presets().iter().enumerate() {
            for other in &presets()[..index] {
                assert_ne!(one.name, other.name);
                assert_ne!((one.control, one.recovery), (other.control, other.recovery));
            }
        }
    }

    #[test]
    fn an_unknown_word_is_told_what_is_allowed() {
        let problem = |text| transport(text).unwrap_err().to_string();
        assert_eq!(
            problem("vegas"),
            "unknown transport `vegas`; allowed: `tahoe`, `reno`, `newreno`, `sack`, `highspeed`, \
             `scalable`, `cubic`, `linux`, or LAW/RECOVERY"
        );
        assert!(problem("newreno/sack").starts_with("unknown window law `newreno`; allowed: `reno`, "));
        assert_eq!(
            problem("cubic/fack"),
            "recovery: unknown word `fack`; did you mean `rack`? allowed: `tahoe`, `reno`, `newreno`, `sack`, `rack`"
        );
        assert!(problem("").starts_with("unknown transport ``"));
        assert!(problem("reno/").starts_with("recovery: unknown word ``"));
    }
}
