//! The flow level: a link shared by flows that come and go, without packets. A scenario goes in, tables
//! come out.
//!
//! This room stands beside the stage of the packet level and knows nothing of it, of queues or of TCP. It
//! reads no clock, opens no file, starts no thread, and a scenario that was read cannot fail to run.

mod scenario;
mod server;
mod sources;
mod tables;
mod world;

use aqm_net::Parameters as _;
use aqm_net::digest::Digest;
use aqm_net::registry::{Entry, Family};
use aqm_net::table::{Table, TableDoc};
use aqm_traffic::flow_sizes;
use serde_json::{Value, json};

use crate::scenario::{Discipline, ELASTIC, Link, Record, Service, Traffic};
use crate::server::{Fifo, Group, Sharing, Shortest};
use crate::tables::{ClassRow, DistributionRow, FlowRow, LinkRow, SampleRow};
use crate::world::{RunRecord, World};

pub use scenario::Scenario;

/// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
pub const RESULTS_VERSION: u32 = 1;

/// What a run leaves behind.
pub struct Run {
    /// The tables, in the order of the catalogue.
    pub tables: Vec<Table>,
    /// The scenario in full, its digest, versions, and what follows for each traffic.
    pub manifest: Value,
    /// Flows that came, and flows that left.
    pub events: u64,
}

impl AsRef<[Table]> for Run {
    fn as_ref(&self) -> &[Table] {
        &self.tables
    }
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Run {
    let capacity = scenario.link.capacity.bytes_per_second();
    let classes = scenario.classes.len();
    let record = match scenario.link.discipline {
        Discipline::ProcessorSharing | Discipline::Weighted => {
            World::new(scenario, Sharing::new(capacity, &groups(scenario))).run()
        }
        Discipline::Fifo => World::new(scenario, Fifo::new(capacity, classes)).run(),
        Discipline::ShortestRemaining => World::new(scenario, Shortest::new(capacity, classes)).run(),
    };
    let facts = scenario.classes.iter().map(|class| {
        let flows_per_second = class.sessions_per_second * class.config.flows;
        let facts = json!({
            "load": class.load,
            "mean_size_bytes": class.mean_size,
            "sessions_per_second": class.sessions_per_second,
            "flows_per_second": flows_per_second,
        });
        (class.name.clone(), facts)
    });
    let manifest = json!({
        "scenario": scenario.to_value(),
        "seed": scenario.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "results_version": RESULTS_VERSION,
        "digest": digest(scenario),
        "facts": Value::Object(facts.collect()),
    });
    Run { events: record.events, manifest, tables: tables(scenario, record) }
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

/// The name of a result: a digest of the scenario in full, its seed and the results version.
pub fn digest(scenario: &Scenario) -> String {
    let mut digest = Digest::default();
    digest.text("flow-level");
    digest.short(RESULTS_VERSION);
    digest.text(&scenario.to_value().to_string());
    digest.finish()
}

/// Everything that has a name: the sections of a scenario, and the size laws.
pub fn catalog() -> Vec<Entry> {
    let family = Family { name: "flow-level", title: "flow-level section" };
    let entry = |name, about, parameters| Entry { name, family, about, parameters };
    let mut all = vec![
        entry("flow-level.link", Link::about(), Link::parameters()),
        entry("flow-level.traffic", Traffic::about(), Traffic::parameters()),
        entry("flow-level.record", Record::about(), Record::parameters()),
    ];
    all.extend(flow_sizes::Config::catalog());
    all
}

/// The schema of every table.
pub fn table_catalog() -> Vec<TableDoc> {
    tables::catalog()
}
