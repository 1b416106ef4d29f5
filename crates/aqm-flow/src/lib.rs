//! The flow level models a link that is shared by arriving and departing flows, without individual packets. The input
//! is a scenario, and the output consists of tables.
//!
//! This crate does not depend on the packet level, on queues or on TCP. It does not use clocks, files or threads.
//! Running a parsed scenario cannot fail.

mod scenario;
mod server;
mod sources;
mod tables;
mod world;

use aqm_net::ConfigErrors;
use aqm_net::level::{self, Failure, Files, Level, Plan, Run};
use aqm_net::registry::{Entry, Family};
use aqm_net::table::{Row, Table, TableDoc};
use aqm_net::watch::{Unit, Watch};
use serde_json::{Value, json};

use crate::scenario::{Discipline, ELASTIC, Link, Record, Service, Traffic};
use crate::server::{Fifo, Group, Sharing, Shortest};
use crate::tables::{ClassRow, DistributionRow, FlowRow, LinkRow, SampleRow};
use crate::world::{RunRecord, World};

pub use scenario::Scenario;

/// Version of the results. The version is increased whenever the same scenario and seed yield numbers that differ from
/// those of the previous version; CHANGELOG states the reasons.
pub const RESULTS_VERSION: u32 = 1;

/// The flow-level model, in which flows share a link and there are no individual packets.
pub struct FlowLevel;

impl Level for FlowLevel {
    fn name(&self) -> &'static str {
        scenario::FLOW
    }
    fn results_version(&self) -> u32 {
        RESULTS_VERSION
    }
    fn keys(&self) -> &'static [&'static str] {
        scenario::KEYS
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
        &FlowLevel
    }
    fn to_value(&self) -> Value {
        self.to_value()
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn with_seed(&self, seed: u64) -> Result<Box<dyn Plan>, ConfigErrors> {
        Ok(Box::new(Self { seed, ..self.clone() }))
    }
    fn digest(&self) -> Result<String, Failure> {
        Ok(level::digest(self, []))
    }
    fn run(&self, watch: &Watch) -> Result<Run, Failure> {
        watch.expect(self.duration.nanos(), Unit::Nanoseconds);
        let capacity = self.link.capacity.bytes_per_second();
        let classes = self.classes.len();
        let record = match self.link.discipline {
            Discipline::ProcessorSharing | Discipline::Weighted => {
                World::new(self, Sharing::new(capacity, &groups(self))).run(watch)?
            }
            Discipline::Fifo => World::new(self, Fifo::new(capacity, classes)).run(watch)?,
            Discipline::ShortestRemaining => World::new(self, Shortest::new(capacity, classes)).run(watch)?,
        };
        let manifest = level::manifest(self, level::digest(self, []), facts(self), Vec::new());
        let events = record.events;
        Ok(Run { tables: tables(self, record), manifest, events, forwarded: None })
    }
}

/// Returns the quantities that are derived from the scenario for each traffic class.
fn facts(scenario: &Scenario) -> Value {
    let facts = scenario.classes.iter().map(|class| {
        let facts = json!({
            "load": class.load,
            "mean_size_bytes": class.sizes.mean(),
            "sessions_per_second": class.sessions_per_second,
            "flows_per_second": class.sessions_per_second * class.config.flows,
        });
        (class.name.clone(), facts)
    });
    Value::Object(facts.collect())
}

fn groups(scenario: &Scenario) -> Vec<Group> {
    let group = |class: &scenario::Class| Group {
        weight: class.config.weight,
        peak: class.config.peak_rate.map_or(f64::INFINITY, |rate| rate.bytes_per_second()),
        streaming: class.config.service == Service::Streaming,
    };
    scenario.classes.iter().map(group).collect()
}

fn tables(scenario: &Scenario, record: RunRecord) -> Vec<Table> {
    let words = |_: &str| {
        let names = scenario.classes.iter().map(|class| class.name.clone());
        names.chain([ELASTIC.to_owned()]).collect()
    };
    vec![
        FlowRow::table(record.flows, words),
        SampleRow::table(record.samples, words),
        DistributionRow::table(record.distribution, words),
        ClassRow::table(record.classes, words),
        LinkRow::table(record.link, words),
    ]
}

/// Returns the descriptions of a scenario's sections.
fn catalog() -> Vec<Entry> {
    let family = Family { name: "flow-level", title: "flow-level section" };
    vec![
        Entry::of_parameters::<Link>("flow-level.link", family),
        Entry::of_parameters::<Traffic>("flow-level.traffic", family),
        Entry::of_parameters::<Record>("flow-level.record", family),
    ]
}
