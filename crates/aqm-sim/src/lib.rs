//! The stage: a scenario goes in, tables come out.
//!
//! This room alone knows queues, transports and traffic together. It reads no clock, opens no file,
//! starts no thread, and a [`Plan`] cannot fail to run.

pub mod emulation;
mod engine;
mod hosts;
mod network;
#[cfg(test)]
mod reference;
mod results;
mod run;
mod scenario;
mod world;

use aqm_net::registry::Entry;
use aqm_net::stage::{self, Files, Stage};
use aqm_net::table::TableDoc;
use aqm_net::{ConfigError, ConfigErrors};
use aqm_traffic::description::Description;
use serde_json::Value;

use crate::scenario::Scenario;

pub use scenario::plan::{Plan, PlannedWorkload};

/// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
pub const RESULTS_VERSION: u32 = 8;

/// The packet level: queues, TCP and workloads, packet by packet.
pub struct PacketLevel;

impl Stage for PacketLevel {
    fn level(&self) -> &'static str {
        scenario::PACKET
    }
    fn results_version(&self) -> u32 {
        RESULTS_VERSION
    }
    fn keys(&self) -> &'static [&'static str] {
        scenario::KEYS
    }
    fn files(&self, scenario: &Value) -> Vec<String> {
        Scenario::files_of(scenario)
    }
    fn read(&self, scenario: Value, files: Files) -> Result<Box<dyn stage::Plan>, ConfigErrors> {
        Ok(Box::new(Plan::of_value(scenario, files)?))
    }
    fn catalog(&self) -> Vec<Entry> {
        catalog()
    }
    fn tables(&self) -> Vec<TableDoc> {
        results::tables::catalog()
    }
}

fn catalog() -> Vec<Entry> {
    let mut all = aqm_queue::catalog();
    all.extend(aqm_tcp::catalog());
    all.extend(aqm_traffic::Config::catalog());
    all.extend(aqm_traffic::distributions::Config::catalog());
    all.extend(aqm_queue::edge::Config::catalog());
    all.extend(scenario::sections::catalog());
    all
}

/// Turns `CONTROL[/RECOVERY]` or a short name into a table to lay over a scenario's `tcp`.
///
/// # Errors
/// If a word is unknown; the problem says what is allowed.
pub fn tcp_transport(text: &str) -> Result<Value, ConfigError> {
    aqm_tcp::transport(text)
}

/// What programs that look at the tables of a run must know of a workload, of its table in `[traffic]`.
///
/// # Errors
/// Everything that is wrong in the table, and what is allowed.
pub fn describe_workload(table: Value) -> Result<Description, ConfigErrors> {
    scenario::traffic::describe(table)
}

/// Lays a `[tcp]` table over another: what a workload's own table does to the scenario's.
pub fn lay_tcp_over(base: &Value, over: Value) -> Value {
    aqm_tcp::overlay(base, over)
}
