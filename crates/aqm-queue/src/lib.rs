//! Queue disciplines. This crate does not depend on TCP, on a simulator or on a clock: every call receives the time,
//! the random numbers and the observer of drops and marks as arguments.
//!
//! For each discipline, there is a file with its `Config`, and an entry in `registry.rs`.

mod acknowledgement;
mod avq;
mod blue;
mod cake;
mod codel;
mod counters;
mod describe;
mod discipline;
mod drop_tail;
mod dualpi2;
pub mod edge;
mod evidence;
mod fair;
mod fifo;
mod flow_queues;
mod gauge;
mod hash_index;
mod htb;
mod instruments;
mod interval;
mod label_filter;
mod packet_label;
mod pi;
mod pie;
pub mod qdisc;
mod reason;
mod red;
mod registry;
mod start;
pub mod tc;
#[cfg(test)]
mod template;
pub mod testing;
mod wifi;
pub mod wrappers;

pub use acknowledgement::Acknowledgement;
pub use counters::Counters;
pub use describe::{Build, Derived, Describe, Inner, TestCases};
pub use discipline::{ClassCounters, Context, Observer, QueueDiscipline, Report, Transmission};
pub use evidence::Evidence;
pub use fifo::Fifo;
pub use gauge::Gauge;
pub use packet_label::{Label, Protocol};
pub use reason::Reason;
pub use registry::{Config, catalog, drop_curve};
