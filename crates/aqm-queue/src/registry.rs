//! The registry of queue disciplines: the name and the module of each discipline.

use aqm_net::registry::Entry;
use aqm_net::{ConfigErrors, Rate, registry};
use serde_json::Value;

use crate::blue::{blue, sfb};
use crate::codel::{cobalt, codel};
use crate::fair::{drr, pfq, rr, scfq, stfq, wfq};
use crate::flow_queues::{fq, fq_codel, fq_pie, sfq};
use crate::instruments::{drop_nth, drop_random};
use crate::pi::{pi, pimc, pisa, rem};
use crate::pie::{docsis_pie, pie};
use crate::red::{adaptive_red, choke, gred, linux_red, red, rio, rio_ps, self_configuring_red, shred};
use crate::wrappers::{ack_filter, ce_threshold, policer, stab};
use crate::*;

registry! {
    /// The parameters of any queue discipline.
    pub enum Config: Build, "queues" = "queue discipline" {
        "drop-tail" => drop_tail,
        "drop-nth" => drop_nth,
        "drop-random" => drop_random,
        "red" => red,
        "linux-red" => linux_red,
        "choke" => choke,
        "gred" => gred,
        "sfb" => sfb,
        "adaptive-red" => adaptive_red,
        "self-configuring-red" => self_configuring_red,
        "shred" => shred,
        "rio" => rio,
        "rio-ps" => rio_ps,
        "pi" => pi,
        "pisa" => pisa,
        "pimc" => pimc,
        "blue" => blue,
        "avq" => avq,
        "rem" => rem,
        "cobalt" => cobalt,
        "pie" => pie,
        "docsis-pie" => docsis_pie,
        "fq-pie" => fq_pie,
        "codel" => codel,
        "cake" => cake,
        "dualpi2" => dualpi2,
        "drr" => drr,
        "rr" => rr,
        "stfq" => stfq,
        "scfq" => scfq,
        "wfq" => wfq,
        "pfq" => pfq,
        "fq-codel" => fq_codel,
        "sfq" => sfq,
        "fq" => fq,
        "htb" => htb,
        "wifi" => wifi,
        "ack-filter" => ack_filter,
        "ce-threshold" => ce_threshold,
        "policer" => policer,
        "stab" => stab,
    }
}

impl Config {
    /// Returns every discipline with its default parameters, and also with each set of parameters that is difficult for
    /// the algorithm of the discipline ([`TestCases::corners`]).
    ///
    /// # Panics
    /// Panics if an entry of `corners` is not a valid table of parameters for its discipline.
    pub fn corners() -> Vec<Self> {
        let mut all = Self::every();
        for config in Self::every() {
            for mut table in config.corners() {
                table["kind"] = config.kind().into();
                all.push(Self::read(table).unwrap_or_else(|error| panic!("{}: {error}", config.kind())));
            }
        }
        all
    }
}

/// Returns the documentation entry of every discipline. If Linux has the discipline, the entry contains the kind that
/// `tc` uses.
pub fn catalog() -> Vec<Entry> {
    let tc = |config: &Config| {
        let options = config.tc_options(Rate::from_bps(10_000_000))?;
        options["kind"].as_str().map(str::to_owned)
    };
    let entries = Config::catalog().into_iter().zip(Config::every());
    entries.map(|(entry, config)| Entry { tc: tc(&config), ..entry }).collect()
}

/// Returns the drop function of the queue discipline that the `queue` table describes, so that the function can be
/// plotted. For each value of `averages`, the result contains the drop probability of a packet of this `class` whose
/// sender's window is `relative_window` times the average window, or `None` if the discipline has no drop function (see
/// [`Describe::drop_curve`]).
///
/// # Errors
/// Returns an error if the `queue` table does not describe a queue discipline, or if the parameters are invalid.
pub fn drop_curve(
    queue: Value,
    averages: &[f64],
    relative_window: f64,
    class: u8,
) -> Result<Vec<Option<f64>>, ConfigErrors> {
    let config = Config::read(queue)?;
    config.build(Rate::from_bps(10_000_000))?;
    Ok(averages.iter().map(|&average| config.drop_curve(average, relative_window, class)).collect())
}
