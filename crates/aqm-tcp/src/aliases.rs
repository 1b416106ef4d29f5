//! Short names for pairs of a congestion control and a recovery, for example for the `--tcp` option of `aqmlab
//! compare`.
//!
//! The pairs and their names are aqmlab's choice, which follows the literature. `Config::build` rejects invalid
//! combinations of parameters.

use aqm_net::{ConfigError, Parameter as _, unknown};
use serde_json::{Value, json};

use crate::config::recovery::RecoveryKind;
use crate::congestion_control::Control;

/// A named pair of a congestion control and a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Name of the pair.
    pub name: &'static str,
    /// One-sentence description.
    pub about: &'static str,
    /// The `kind` of the congestion control.
    pub congestion_control: &'static str,
    /// The `kind` of the recovery.
    pub recovery: &'static str,
}

/// Returns all aliases.
pub fn aliases() -> &'static [Alias] {
    ALIASES
}

const ALIASES: &[Alias] = &[
    alias("tahoe", "Slow start after every loss (V. Jacobson 1988).", "reno", "tahoe"),
    alias("reno", "Fast recovery that ends with the first new acknowledgement (RFC 5681).", "reno", "reno"),
    alias("newreno", "Fast recovery that repairs all losses of a window (RFC 6582).", "reno", "newreno"),
    alias("sack", "Reno's window with SACK (RFC 6675).", "reno", "sack"),
    alias("highspeed", "HighSpeed TCP (RFC 3649) with SACK.", "highspeed", "sack"),
    alias("scalable", "Scalable TCP (T. Kelly 2003) with SACK.", "scalable", "sack"),
    alias("cubic", "CUBIC (RFC 9438) with SACK.", "cubic", "sack"),
    alias("ledbat", "LEDBAT (RFC 6817), a less-than-best-effort service, with SACK.", "ledbat", "sack"),
    alias("bbr", "BBR version 3 (draft-ietf-ccwg-bbr) with RACK-TLP (RFC 8985).", "bbr3", "rack"),
    alias("bbr1", "BBR version 1 (Linux) with RACK-TLP (RFC 8985).", "bbr1", "rack"),
    alias("dctcp", "DCTCP (RFC 8257) with RACK-TLP (RFC 8985); sets `ecn.mode`.", "dctcp", "rack"),
    alias("prague", "TCP Prague with RACK-TLP (RFC 8985); sets `ecn.mode`.", "prague", "rack"),
    alias("htcp", "H-TCP (R. Shorten, D. Leith 2004) with SACK.", "htcp", "sack"),
    alias("vegas", "TCP Vegas (L. Brakmo, L. Peterson 1995) with SACK.", "vegas", "sack"),
    alias("westwood", "TCP Westwood+ (L. Grieco, S. Mascolo 2004) with SACK.", "westwood", "sack"),
    alias("linux", "CUBIC with RACK-TLP (RFC 8985), as in current Linux.", "cubic", "rack"),
    alias("quic", "CUBIC over QUIC (RFC 9002); sets the profile `quic`.", "cubic", "quic"),
];

const fn alias(
    name: &'static str,
    about: &'static str,
    congestion_control: &'static str,
    recovery: &'static str,
) -> Alias {
    Alias { name, about, congestion_control, recovery }
}

/// Suffix that sets `ecn.mode = "on"` if it is appended to a name.
const WITH_ECN: &str = "+ecn";

/// Converts `CONTROL/RECOVERY`, an alias, or the kind of a congestion control into a `[tcp]` table. The table sets the
/// kinds of congestion control and recovery, and can be overlaid on another table. A congestion control whose kind is
/// not the name of an alias is paired with the recovery of the first alias that uses this congestion control, or with
/// `sack` if there is no such alias. If `text` has the suffix `+ecn`, or if the congestion control requires ECN, the
/// table also sets `ecn.mode = "on"`.
///
/// # Errors
/// Returns an error if a name is unknown. The error message lists the valid names.
pub fn transport(text: &str) -> Result<Value, ConfigError> {
    let (name, has_suffix) = text.strip_suffix(WITH_ECN).map_or((text, false), |name| (name, true));
    let (control, recovery) = match (name.split_once('/'), aliases().iter().find(|alias| alias.name == name))
    {
        (Some((control, recovery)), _) => (control, recovery),
        (None, Some(alias)) => (alias.congestion_control, alias.recovery),
        (None, None) => {
            let alias = aliases().iter().find(|alias| alias.congestion_control == name);
            (name, alias.map_or("sack", |alias| alias.recovery))
        }
    };
    if !Control::NAMES.contains(&control) {
        let problem = if name.contains('/') {
            unknown("congestion control", control, Control::NAMES)
        } else {
            let names: Vec<&str> = aliases().iter().map(|alias| alias.name).collect();
            format!("{}, or CONTROL/RECOVERY", unknown("transport", name, &names))
        };
        return Err(ConfigError::at("", problem));
    }
    RecoveryKind::read(recovery.into())
        .map_err(|errors| ConfigError::at("", format!("recovery: {}", errors.first().problem)))?;
    let mut table = json!({ "congestion_control": { "kind": control }, "recovery": { "kind": recovery } });
    if recovery == "quic" {
        table["profile"] = "quic".into();
    }
    let requires_ecn =
        Control::read(json!({ "kind": control })).is_ok_and(|control| control.ecn().is_required);
    if has_suffix || requires_ecn {
        table["ecn"] = json!({ "mode": "on" });
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::read;

    #[test]
    fn every_alias_is_a_transport_that_builds() {
        for alias in aliases() {
            let table = transport(alias.name).unwrap();
            assert_eq!(table["congestion_control"]["kind"], alias.congestion_control);
            assert_eq!(table["recovery"]["kind"], alias.recovery);
            let config = read(table).unwrap();
            config.build().unwrap();
            assert_eq!(config.congestion_control.kind(), alias.congestion_control);
        }
    }

    #[test]
    fn every_congestion_control_builds_alone_and_with_every_recovery_except_tahoe() {
        for control in Control::NAMES {
            let table = transport(control).unwrap();
            assert_eq!(table["congestion_control"]["kind"], *control);
            read(table).unwrap().build().unwrap();
            for recovery in ["reno", "newreno", "sack", "rack", "quic"] {
                let table = transport(&format!("{control}/{recovery}")).unwrap();
                assert_eq!(table["recovery"]["kind"], recovery);
                let built = read(table).unwrap().build();
                let uses_rates = control.starts_with("bbr") || *control == "prague";
                let is_permitted = match recovery {
                    "quic" => *control != "ledbat",
                    _ => !uses_rates || ["sack", "rack"].contains(&recovery),
                };
                assert_eq!(built.is_ok(), is_permitted, "{control}/{recovery}");
            }
        }
    }

    #[test]
    fn bbr_is_bbr3_with_the_same_recovery() {
        assert_eq!(transport("bbr").unwrap(), transport("bbr3").unwrap());
        assert_eq!(transport("bbr1").unwrap()["recovery"]["kind"], "rack");
    }

    #[test]
    fn the_suffix_and_a_scalable_congestion_control_set_ecn() {
        let mode = |name: &str| transport(name).unwrap()["ecn"]["mode"].clone();
        assert_eq!(["cubic+ecn", "reno/rack+ecn", "prague", "dctcp"].map(mode), ["on"; 4]);
        assert_eq!(["cubic", "bbr"].map(mode), [Value::Null, Value::Null]);
        assert!(transport("+ecn").is_err());
    }

    #[test]
    fn no_two_aliases_share_a_name_or_a_pair() {
        for (index, alias) in aliases().iter().enumerate() {
            for other in &aliases()[..index] {
                assert_ne!(alias.name, other.name);
                assert_ne!(
                    (alias.congestion_control, alias.recovery),
                    (other.congestion_control, other.recovery)
                );
            }
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_valid_names() {
        let problem = |text| transport(text).unwrap_err().to_string();
        assert_eq!(
            problem("copa"),
            "unknown transport `copa`; allowed: `tahoe`, `reno`, `newreno`, `sack`, `highspeed`, \
             `scalable`, `cubic`, `ledbat`, `bbr`, `bbr1`, `dctcp`, `prague`, \
             `htcp`, `vegas`, `westwood`, `linux`, `quic`, or CONTROL/RECOVERY"
        );
        assert!(
            problem("newreno/sack").starts_with("unknown congestion control `newreno`; allowed: `reno`, ")
        );
        assert_eq!(
            problem("cubic/fack"),
            "recovery: unknown word `fack`; did you mean `sack`? allowed: `tahoe`, `reno`, `newreno`, `sack`, `rack`, `quic`"
        );
        assert!(problem("").starts_with("unknown transport ``"));
        assert!(problem("reno/").starts_with("recovery: unknown word ``"));
    }
}
