//! The stage: a scenario goes in, tables come out.
//!
//! This room alone knows queues, transports and traffic together. It reads no clock, opens no file,
//! starts no thread, and a scenario that was read cannot fail to run.

mod conversation;
mod counts;
mod edges;
mod event;
mod event_queue;
mod flow;
mod gauges;
mod links;
mod network;
mod pages;
mod payloads;
mod prefetch;
mod recorder;
#[cfg(test)]
mod reference;
mod ring;
mod scenario;
mod sections;
mod side;
mod size;
mod tables;
mod text;
mod topology;
mod transit;
mod wheel;
mod world;

use std::collections::BTreeMap;

use aqm_net::ConfigError;
use aqm_net::Parameters as _;
use aqm_net::digest::Digest;
use aqm_net::registry::Entry;
use aqm_net::table;
use serde_json::{Value, json};

use crate::network::{LaneNetwork, LinkSnapshot, Network};
use crate::recorder::PacketEvent;
use crate::tables::{
    ClassRow, DropRow, FlowRow, GaugeRow, LinkRow, PacketRow, PageRow, QueueRow, SenderRow, TransferRow,
};
use crate::topology::Topology;
use crate::world::{RunRecord, World};

pub use aqm_net::table::{Column, ColumnDoc, Table, TableDoc};
pub use scenario::{Scenario, drop_curve};
pub use text::toml_value;

/// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
pub const RESULTS_VERSION: u32 = 3;

/// What a run leaves behind.
pub struct Run {
    /// The tables, in the order of the catalogue.
    pub tables: Vec<Table>,
    /// The scenario in full, its digest, versions, and what the workloads say of their loads.
    pub manifest: Value,
    /// Events handled.
    pub events: u64,
    /// Packets sent by the first managed link over the whole run.
    pub forwarded: u64,
}

impl AsRef<[Table]> for Run {
    fn as_ref(&self) -> &[Table] {
        &self.tables
    }
}

impl Run {
    /// A digest of every value of every table: equal for equal runs.
    pub fn digest(&self) -> String {
        table::digest(&self.tables)
    }
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Run {
    let mut topology = scenario.topology().expect("the topology was built when the scenario was read");
    let network = LaneNetwork::new(scenario, &mut topology);
    run_on(scenario, &topology, network)
}

fn run_on(scenario: &Scenario, topology: &Topology, network: impl Network) -> Run {
    let record = World::new(scenario, topology, network).run();
    let forwarded = record.after.links.first().map_or(0, |snapshot| snapshot.counters.departures);
    let traffic = scenario.traffic.iter().zip(&record.facts);
    let facts: Value = traffic
        .map(|(one, facts)| {
            let facts = facts.iter().map(|&(name, value)| (name.to_owned(), json!(value)));
            (one.name.clone(), Value::Object(facts.collect()))
        })
        .collect();
    let manifest = json!({
        "scenario": scenario.to_value(),
        "seed": scenario.seed,
        "version": env!("CARGO_PKG_VERSION"),
        "results_version": RESULTS_VERSION,
        "digest": digest(scenario),
        "facts": facts,
        "edges_added": scenario.edges_added,
        "warnings": scenario.warnings(),
    });
    Run { events: record.events, forwarded, manifest, tables: tables(scenario, record) }
}

/// The name of a result: a digest of the scenario in full, the content of its files, its seed and
/// the results version.
pub fn digest(scenario: &Scenario) -> String {
    let mut digest = Digest::default();
    digest.short(RESULTS_VERSION);
    digest.text(&scenario.to_value().to_string());
    for (name, content) in &scenario.files {
        for text in [name, content] {
            digest.word(text.len() as u64);
            digest.text(text);
        }
    }
    digest.finish()
}

/// Everything that has a name: disciplines, window laws, TCP itself, workloads, sections of a scenario.
pub fn catalog() -> Vec<Entry> {
    let mut all = aqm_queue::Config::catalog();
    all.push(Entry {
        name: "tcp",
        family: aqm_tcp::congestion_control::Control::FAMILY,
        about: aqm_tcp::Config::about(),
        parameters: aqm_tcp::Config::parameters(),
    });
    all.extend(aqm_tcp::congestion_control::Control::catalog());
    all.extend(aqm_traffic::Config::catalog());
    all.extend(aqm_queue::edge::Config::catalog());
    all.extend(sections::catalog());
    all
}

/// A profile of TCP as plain values.
pub struct TcpProfile {
    /// What a scenario calls it.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its parameters in full.
    pub parameters: Value,
    /// Those that differ from `rfc`, by dotted path, and the source of each.
    pub sources: Vec<(&'static str, &'static str)>,
}

/// The profiles of TCP.
pub fn tcp_profiles() -> Vec<TcpProfile> {
    let plain = |profile: aqm_tcp::Profile| TcpProfile {
        name: profile.name,
        about: profile.about,
        parameters: profile.config.to_value(),
        sources: profile.sources,
    };
    aqm_tcp::profiles().into_iter().map(plain).collect()
}

/// The short names of TCPs: a congestion control and a recovery each.
pub fn tcp_aliases() -> &'static [aqm_tcp::Alias] {
    aqm_tcp::aliases()
}

/// Turns `CONTROL[/RECOVERY]` or a short name into a table to lay over a scenario's `tcp`.
///
/// # Errors
/// If a word is unknown; the problem says what is allowed.
pub fn tcp_transport(text: &str) -> Result<Value, ConfigError> {
    aqm_tcp::transport(text)
}

/// Lays a `[tcp]` table over another: what a workload's own table does to the scenario's.
pub fn lay_tcp_over(base: &Value, over: Value) -> Value {
    aqm_tcp::lay_over(base, over)
}

/// The schema of every table.
pub fn table_catalog() -> Vec<TableDoc> {
    tables::catalog()
}

fn tables(scenario: &Scenario, record: RunRecord) -> Vec<Table> {
    let links = link_rows(scenario, &record);
    let (class_rows, classes) = class_rows(scenario, &record);
    let words = |column: &str| -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match column {
            "traffic" => scenario.traffic.iter().map(|one| one.name.clone()).collect(),
            "link" => scenario.links.iter().map(|link| link.name.clone()).collect(),
            "reason" => owned(&aqm_queue::Reason::NAMES),
            "node" => scenario.edges.iter().map(|edge| edge.node.clone()).collect(),
            "event" => owned(&PacketEvent::NAMES),
            "class" => classes.clone(),
            "name" => record.gauges.names.list(),
            "unit" => record.gauges.units.list(),
            _ => unreachable!("no column of words is named {column}"),
        }
    };
    let mut packets = record.packets;
    packets.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let mut drops = record.drops;
    drops.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    vec![
        FlowRow::table(record.flows, words),
        TransferRow::table(record.transfers, words),
        PageRow::table(record.pages, words),
        DropRow::table(drops, words),
        QueueRow::table(record.queue, words),
        GaugeRow::table(record.gauges.rows, words),
        SenderRow::table(record.senders, words),
        PacketRow::table(packets, words),
        LinkRow::table(links, words),
        ClassRow::table(class_rows, words),
    ]
}

/// The rows of service classes, and the names of the classes.
fn class_rows(scenario: &Scenario, record: &RunRecord) -> (Vec<ClassRow>, Vec<String>) {
    let seconds = (scenario.duration - scenario.warm_up).seconds();
    let (before, after) = (&record.before.classes, &record.after.classes);
    let managed = scenario.links.iter().enumerate().filter(|(_, link)| link.queue.is_some());
    let (mut rows, mut names, mut places) = (Vec::new(), Vec::new(), BTreeMap::new());
    for ((number, _), (first, last)) in managed.zip(before.iter().zip(after)) {
        for ((name, earlier), (_, later)) in first.iter().zip(last) {
            let found = later.since(*earlier);
            let place = *places.entry(name).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            });
            let waited = found.packet_nanos as f64 / 1e9;
            rows.push(ClassRow {
                link: number as u32,
                class: place as u32,
                arrivals: found.arrivals,
                departures: found.departures,
                departed_bytes: found.departed_bytes,
                borrowed_bytes: found.borrowed_bytes,
                drops: found.drops,
                drop_fraction: share(found.drops, found.arrivals),
                throughput_bps: found.departed_bytes as f64 * 8.0 / seconds,
                mean_queue_packets: waited / seconds,
                mean_queue_delay_s: if found.departures == 0 {
                    0.0
                } else {
                    waited / found.departures as f64
                },
            });
        }
    }
    (rows, names)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn link_rows(scenario: &Scenario, record: &RunRecord) -> Vec<LinkRow> {
    let seconds = (scenario.duration - scenario.warm_up).seconds();
    let (before, after) = (&record.before.links, &record.after.links);
    let managed = scenario.links.iter().enumerate().filter(|(_, link)| link.queue.is_some());
    let snapshots = before.iter().zip(after);
    let row =
        |((number, link), (first, last)): ((usize, &links::LinkSpec), (&LinkSnapshot, &LinkSnapshot))| {
            let (first, last) = (&first.counters, &last.counters);
            let (arrivals, departures) = (last.arrivals - first.arrivals, last.departures - first.departures);
            let departed_bytes = last.departed_bytes - first.departed_bytes;
            let waited = (last.packet_nanos - first.packet_nanos) as f64 / 1e9;
            LinkRow {
                link: number as u32,
                rate_bps: link.rate.bps() as f64,
                arrivals,
                arrived_bytes: last.arrived_bytes - first.arrived_bytes,
                departures,
                departed_bytes,
                drops: last.drops - first.drops,
                marks: last.marks - first.marks,
                utilisation: departed_bytes as f64 * 8.0 / (link.rate.bps() as f64 * seconds),
                drop_fraction: share(last.drops - first.drops, arrivals),
                mark_fraction: share(last.marks - first.marks, arrivals),
                mean_queue_packets: waited / seconds,
                mean_queue_delay_s: if departures == 0 { 0.0 } else { waited / departures as f64 },
                tied_fraction: share(last.tied - first.tied, arrivals),
            }
        };
    managed.zip(snapshots).map(row).collect()
}
