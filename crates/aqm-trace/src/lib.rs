//! Traces: packets out of a capture, a list of flows or a generator go through a queue at a chosen rate,
//! and tables come out.
//!
//! This room stands beside the stages of the packet level and of the flow level and knows neither. It opens
//! files, but no socket, starts no thread and reads no clock. What a file holds may be anything: it is read
//! as far as it makes sense, and what did not is said in a warning.

mod capture;
mod file;
mod flows;
mod frame;
mod generate;
mod histogram;
mod input;
mod list;
mod packets;
mod power;
mod progress;
mod replay;
mod sample;
mod scenario;
mod tables;
mod watch;
mod write;

use aqm_net::Parameters as _;
use aqm_net::digest::Digest;
use aqm_net::registry::{Entry, Family};
use aqm_net::table::{Table, TableDoc};
use serde_json::{Value, json};

use crate::packets::Config as SourceConfig;
use crate::replay::Replay;
use crate::scenario::Settings;

pub use packets::Failure;
pub use scenario::Scenario;
pub use watch::Watch;
pub use write::write;

/// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
pub const RESULTS_VERSION: u32 = 1;

/// What a replay leaves behind.
pub struct Run {
    /// The tables, in the order of the catalogue.
    pub tables: Vec<Table>,
    /// The scenario in full, its digest, versions, warnings, and what follows from the trace.
    pub manifest: Value,
    /// Packets that came.
    pub packets: u64,
    /// Packets that the line sent.
    pub sent: u64,
}

impl AsRef<[Table]> for Run {
    fn as_ref(&self) -> &[Table] {
        &self.tables
    }
}

/// Replays a trace through a queue; `watch` sees how far it is, and can stop it.
///
/// # Errors
/// If there is no trace to read, if it is too short to measure anything, or if `watch` stopped it.
pub fn run(scenario: &Scenario, watch: &Watch) -> Result<Run, Failure> {
    let mut packets = scenario.source.open(scenario.settings.seed, watch)?;
    let mut replay = Replay::new(scenario);
    let mut taken = 0_u64;
    while let Some(arrival) = packets.next()? {
        watch.check(taken)?;
        taken += 1;
        if !replay.take(arrival) {
            break;
        }
    }
    let found = packets.close()?;
    let record = replay.finish()?;
    let warnings = [found.warnings, record.warnings].concat();
    let manifest = json!({
        "scenario": scenario.to_value(),
        "seed": scenario.settings.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "results_version": RESULTS_VERSION,
        "digest": name(scenario, &found.contents),
        "warnings": warnings,
        "facts": { "trace": found.facts, "most_flows_known": record.most_flows_known },
    });
    Ok(Run { tables: record.tables, manifest, packets: record.packets, sent: record.sent })
}

/// The name of a result: a digest of the scenario in full, its seed, the contents of the file it names and
/// the results version.
///
/// # Errors
/// If the file cannot be read.
pub fn digest(scenario: &Scenario) -> Result<String, Failure> {
    Ok(name(scenario, &scenario.source.contents()?))
}

fn name(scenario: &Scenario, contents: &str) -> String {
    let mut digest = Digest::default();
    digest.text("trace");
    digest.short(RESULTS_VERSION);
    digest.text(&scenario.to_value().to_string());
    digest.text(contents);
    digest.finish()
}

/// Everything that has a name: what a scenario may say, and where packets come from.
pub fn catalog() -> Vec<Entry> {
    let settings = Entry {
        name: "trace",
        family: Family { name: "trace", title: "trace section" },
        about: Settings::about(),
        parameters: Settings::parameters(),
    };
    let mut all = vec![settings];
    all.extend(SourceConfig::catalog());
    all
}

/// The schema of every table.
pub fn table_catalog() -> Vec<TableDoc> {
    tables::catalog()
}
