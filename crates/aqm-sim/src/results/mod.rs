//! The results of a run: recorded rows, and the tables that are built from the rows.
//!
//! `recorder.rs` records events of packets, `gauges.rs` records samples of queues and edges, and `measurement.rs`
//! records counters of links. `rows.rs` builds the tables, and `tables.rs` contains the schemas of the tables. The schemas
//! of tables that only some workloads record are in `call_tables.rs`, `guest_tables.rs`, `page_tables.rs` and `probe_tables.rs`.

pub(crate) mod call_tables;
pub(crate) mod gauges;
pub(crate) mod guest_tables;
pub(crate) mod measurement;
pub(crate) mod page_tables;
pub(crate) mod probe_tables;
pub(crate) mod recorder;
pub(crate) mod rows;
pub(crate) mod tables;
