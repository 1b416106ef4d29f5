//! Converts queue disciplines to the commands of Linux's `tc`.
//!
//! The sources are the manual pages and the sources of iproute2 (`tc/q_*.c`) in version 6.1; for `dualpi2` and for fq's
//! bands, the version of June 2026.
//!
//! aqmlab's choices:
//! - A command contains every parameter of the discipline, also if the value is the kernel's default. Defaults differ
//!   between kernel versions, distributions (OpenWrt changes those of `fq_codel`) and MTUs, and a complete command also
//!   documents itself.
//! - Values are rounded as `tc` and the kernel round them: rates to whole bytes per second, times to whole
//!   microseconds. If a value changes, the rounding is one of the [`Qdisc::limits`].
//! - A parameter that `tc` cannot set, and whose value differs from what the kernel always does, is one of the
//!   [`Qdisc::limits`], too. A parameter without which the command would configure another discipline is rejected.

mod qdisc;
mod words;

pub use qdisc::{Argument, Class, Limit, Qdisc};

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate};

use crate::Config;

/// The error of a discipline that Linux does not have. [`qdisc`] adds the names of the disciplines that Linux has.
const ABSENT: &str = "does not exist in Linux";

/// Returns the error of a discipline that Linux does not have.
pub(crate) fn absent() -> ConfigErrors {
    ConfigError::at("kind", ABSENT).into()
}

/// Returns the error of a parameter value that `tc` cannot express.
pub(crate) fn rejected(path: &str, problem: &str) -> ConfigErrors {
    ConfigError::at(path, format!("cannot be expressed by tc: {problem}")).into()
}

/// A discipline with a rate limit for a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    /// The discipline at the root of the device.
    pub root: Qdisc,
    /// Rate of the discipline's own shaper. If this rate is missing or exceeds the rate of the link, `root` is an `htb`
    /// that limits the rate.
    pub own_rate: Option<Rate>,
}

/// Returns the discipline at the root of a device that sends at this `rate`. Unless the discipline itself is a shaper
/// with at most this rate, the discipline becomes the leaf of an `htb`.
///
/// # Errors
/// Returns an error if the parameters are invalid, if Linux does not have the discipline, or if `tc` cannot express a
/// parameter.
pub fn shaped(config: &Config, rate: Rate) -> Result<Shaped, ConfigErrors> {
    let queue = qdisc(config, rate)?;
    let unlimited = Rate::from_bps(u64::MAX);
    let own_rate = Some(config.outlet(unlimited)).filter(|own| *own < unlimited);
    // Without classes, an `htb` has a single class with the rate of the link.
    let is_shaper = own_rate.map_or(queue.kind == "htb", |own| own <= rate);
    let root = if is_shaper { queue } else { queue.under_htb(rate).finish()? };
    Ok(Shaped { root, own_rate })
}

/// Returns the discipline as `tc` creates it, on a link with this `rate`.
///
/// # Errors
/// See [`shaped`].
pub fn qdisc(config: &Config, rate: Rate) -> Result<Qdisc, ConfigErrors> {
    config.build(rate)?;
    let with_names = |error: ConfigError| {
        if error.problem != ABSENT {
            return error;
        }
        ConfigError::at(error.path, format!("{ABSENT}; available: {}", kinds().join(", ")))
    };
    config.tc(rate).map_err(|errors| errors.map(with_names))
}

/// Returns the kinds of queues that exist in Linux.
pub fn kinds() -> Vec<&'static str> {
    let rate = Rate::from_bps(10_000_000);
    Config::every().iter().filter(|config| config.tc(rate).is_ok()).map(|config| config.kind()).collect()
}

/// Returns the discipline of a parameter `queue` inside another discipline, whose size table is not supported by Linux.
pub(crate) fn inner(config: &Config, rate: Rate, path: &str) -> Result<Qdisc, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let queue = errors.take(config.tc(rate).map_err(|errors| errors.within(path)));
    let at_root = queue.as_ref().is_none_or(|queue| queue.size_table.is_empty());
    let problem = "cannot be expressed by tc: the kernel allows a size table only at the root of a device";
    errors.check(at_root, format!("{path}.kind"), problem);
    errors.finish_some(queue)
}

#[cfg(test)]
mod tests;
