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
mod progress;
mod replay;
mod sample;
mod scenario;
mod source;
mod tables;
mod write;

use std::path::Path;

use aqm_net::ConfigErrors;
use aqm_net::registry::{Entry, Family};
use aqm_net::stage::{self, Failure, Files, Plan, Run, Stage};
use aqm_net::table::TableDoc;
use aqm_net::watch::Watch;
use serde_json::{Value, json};

use crate::replay::Replay;
use crate::scenario::Settings;
use crate::source::Config as SourceConfig;

pub use scenario::Scenario;
pub use write::write;

/// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
pub const RESULTS_VERSION: u32 = 2;

/// Traces: packets of a file, or made up, that a queue is offered.
pub struct Traces;

impl Stage for Traces {
    fn level(&self) -> &'static str {
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
    fn stage(&self) -> &'static dyn Stage {
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
        Ok(name(self, &self.source.contents()?))
    }
    fn run(&self, watch: &Watch) -> Result<Run, Failure> {
        let mut packets = self.source.open(self.settings.seed, watch)?;
        let mut replay = Replay::new(self);
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
        let facts = json!({ "trace": found.facts, "most_flows_known": record.most_flows_known });
        let manifest = stage::manifest(self, name(self, &found.contents), facts, warnings);
        Ok(Run { tables: record.tables, manifest, events: record.packets, forwarded: Some(record.sent) })
    }
}

/// The name of a result, given the digest of the file that is read.
fn name(scenario: &Scenario, contents: &str) -> String {
    stage::digest(scenario, [("", contents)])
}

/// Everything that has a name: what a scenario may say, and where packets come from.
fn catalog() -> Vec<Entry> {
    let family = Family { name: "trace", title: "trace section" };
    let mut all = vec![Entry::of_parameters::<Settings>("trace", family)];
    all.extend(SourceConfig::catalog());
    all
}
