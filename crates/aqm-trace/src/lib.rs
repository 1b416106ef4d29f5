//! Traces. Packets from a capture, a list of flows or a generator are replayed through a queue at a selected link rate,
//! and the results are tables.
//!
//! This crate does not depend on the packet level or the flow level. The crate opens files, but uses no sockets,
//! threads or clocks. A file may contain arbitrary data. If a capture is damaged, it is read only up to the damaged
//! part, and a warning reports the damage.

mod capture;
mod file;
mod flows;
mod frame;
mod generate;
mod histogram;
mod input;
mod list;
mod packets;
mod progress;
mod replay;
mod sample;
mod scenario;
mod source;
mod tables;
mod write;

use std::path::Path;

use aqm_net::ConfigErrors;
use aqm_net::level::{self, Failure, Files, Level, Plan, Run};
use aqm_net::registry::{Entry, Family};
use aqm_net::table::TableDoc;
use aqm_net::watch::Watch;
use serde_json::{Value, json};

use crate::replay::Replay;
use crate::scenario::Settings;
use crate::source::Config as SourceConfig;

pub use scenario::Scenario;
pub use write::write;

/// Version of the results. The version is increased whenever the same scenario and seed give different numbers than
/// before; CHANGELOG states the reasons.
pub const RESULTS_VERSION: u32 = 2;

/// The trace-level model: packets from a file or a generator are replayed through a queue.
pub struct Traces;

impl Level for Traces {
    fn name(&self) -> &'static str {
        scenario::TRACE
    }
    fn results_version(&self) -> u32 {
        RESULTS_VERSION
    }
    fn keys(&self) -> &'static [&'static str] {
        scenario::KEYS
    }
    fn resolve_paths(&self, scenario: &mut Value, folder: &Path) {
        if let Some(Value::String(path)) = scenario.pointer_mut("/source/path") {
            *path = folder.join(&*path).to_string_lossy().into_owned();
        }
    }
    fn read(&self, scenario: Value, _files: Files) -> Result<Box<dyn Plan>, ConfigErrors> {
        Ok(Box::new(Scenario::from_value(scenario)?))
    }
    fn catalog(&self) -> Vec<Entry> {
        catalog()
    }
    fn tables(&self) -> Vec<TableDoc> {
        tables::catalog()
    }
}

impl Plan for Scenario {
    fn level(&self) -> &'static dyn Level {
        &Traces
    }
    fn to_value(&self) -> Value {
        self.to_value()
    }
    fn seed(&self) -> u64 {
        self.settings.seed
    }
    fn with_seed(&self, seed: u64) -> Result<Box<dyn Plan>, ConfigErrors> {
        let mut other = self.clone();
        other.settings.seed = seed;
        Ok(Box::new(other))
    }
    fn digest(&self) -> Result<String, Failure> {
        Ok(result_digest(self, &self.source.contents()?))
    }
    fn run(&self, watch: &Watch) -> Result<Run, Failure> {
        let mut packets = self.source.open(self.settings.seed, watch)?;
        let mut replay = Replay::new(self);
        let mut count = 0_u64;
        while let Some(arrival) = packets.next()? {
            watch.check(count)?;
            count += 1;
            if !replay.accept(arrival) {
                break;
            }
        }
        let summary = packets.close()?;
        let record = replay.finish()?;
        let warnings = [summary.warnings, record.warnings].concat();
        let facts = json!({ "trace": summary.facts, "most_flows_known": record.most_flows_known });
        let manifest = level::manifest(self, result_digest(self, &summary.contents), facts, warnings);
        Ok(Run { tables: record.tables, manifest, events: record.packets, forwarded: Some(record.sent) })
    }
}

/// Returns the digest that identifies a result. `contents` is the digest of the file.
fn result_digest(scenario: &Scenario, contents: &str) -> String {
    level::digest(scenario, [("", contents)])
}

/// Returns the descriptions of a scenario's parameters and of the sources of packets.
fn catalog() -> Vec<Entry> {
    let family = Family { name: "trace", title: "trace section" };
    let mut all = vec![Entry::of_parameters::<Settings>("trace", family)];
    all.extend(SourceConfig::catalog());
    all
}
