//! The results of a run: what is recorded, and the tables made of it.
//!
//! `recorder.rs` keeps rows of packets, `gauges.rs` the sampled state of queues and edges, `measurement.rs` the counters
//! of links. `rows.rs` makes the tables, `tables.rs` has their schemas.

pub(crate) mod gauges;
pub(crate) mod measurement;
pub(crate) mod recorder;
pub(crate) mod rows;
pub(crate) mod tables;
