//! The results of a run: recorded rows, and the tables built from them.
//!
//! `recorder.rs` records rows of packets, `gauges.rs` samples of queues and edges, and `measurement.rs` counters of
//! links. `rows.rs` builds the tables, whose schemas are in `tables.rs`.

pub(crate) mod gauges;
pub(crate) mod measurement;
pub(crate) mod recorder;
pub(crate) mod rows;
pub(crate) mod tables;
