//! The packet level, which parses a scenario, simulates the scenario packet by packet, and returns tables.
//!
//! This is the only crate that depends on the crates for queues, TCP and traffic at the same time. The crate does not
//! read a clock, open a file or start a thread. Running a [`Plan`] without guests cannot fail.

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

use aqm_guest::{NoGuests, Provider};
use aqm_net::level::{self, Files, Level};
use aqm_net::registry::Entry;
use aqm_net::table::TableDoc;
use aqm_net::{ConfigError, ConfigErrors};
use aqm_traffic::description::Description;
use serde_json::Value;

use crate::scenario::Scenario;

pub use scenario::plan::{Plan, PlannedWorkload};

/// Version of the results. The version is increased whenever the same scenario and seed give different numbers than
/// before; CHANGELOG states the reasons.
pub const RESULTS_VERSION: u32 = 9;

/// The packet-level model, which simulates queues, TCP and workloads packet by packet.
pub struct PacketLevel {
    /// Source of the guests of workloads of the kind `guest`.
    pub guests: &'static dyn Provider,
}

/// The packet-level model without guests.
pub static PACKET_LEVEL: PacketLevel = PacketLevel { guests: &NoGuests };

impl Level for PacketLevel {
    fn name(&self) -> &'static str {
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
    fn read(&self, scenario: Value, files: Files) -> Result<Box<dyn level::Plan>, ConfigErrors> {
        let plan = Plan::of_value(scenario, files)?;
        Ok(Box::new(Plan { guests: self.guests, ..plan }))
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
    all.extend(aqm_traffic::rate_control::Config::catalog());
    all.extend(aqm_traffic::distributions::Config::catalog());
    all.extend(aqm_queue::edge::Config::catalog());
    all.extend(scenario::sections::catalog());
    all
}

/// Converts `CONTROL[/RECOVERY]` or a short name to a table that is merged into a scenario's `tcp`.
///
/// # Errors
/// Returns an error if a name is unknown. The error lists the valid names.
pub fn tcp_transport(text: &str) -> Result<Value, ConfigError> {
    aqm_tcp::transport(text)
}

/// Returns properties of a workload that a program needs to interpret the tables of a run. `table` is the workload's
/// table in `[traffic]`.
///
/// # Errors
/// Returns an error for each invalid field, with the allowed values.
pub fn describe_workload(table: Value) -> Result<Description, ConfigErrors> {
    scenario::traffic::describe(table)
}

/// Merges the `[tcp]` table `over` into the table `base`, in the same way as a workload's own table is merged into the
/// scenario's table.
pub fn lay_tcp_over(base: &Value, over: Value) -> Value {
    aqm_tcp::overlay(base, over)
}
