//! Queue disciplines, and the [`Port`] that serves them at a link. The crate knows neither TCP nor a simulator nor a
//! clock: time, random numbers and the observer of drops and marks are arguments of every call.
//!
//! Each discipline is one file with a `Config`, and one line in `registry.rs`.

mod acknowledgement;
mod avq;
mod blue;
mod cake;
mod codel;
mod describe;
mod discipline;
mod drop_tail;
mod dualpi2;
pub mod edge;
mod fair;
mod fifo;
mod flow_queues;
mod gauge;
mod hash_index;
mod htb;
mod instruments;
pub mod line;
mod packet_label;
mod pi;
mod pie;
mod port;
pub mod qdisc;
mod reason;
mod red;
mod registry;
mod start;
#[cfg(test)]
mod template;
pub mod testing;
pub mod wrappers;

pub use acknowledgement::Acknowledgement;
pub use describe::{Build, Derived, Describe, Inner, TestCases};
pub use discipline::{ClassCounters, Context, Observer, QueueDiscipline, Report};
pub use fifo::Fifo;
pub use gauge::Gauge;
pub use line::Line;
pub use packet_label::{Label, Protocol};
pub use port::{Counters, Departure, Port, Ties};
pub use reason::Reason;
pub use registry::{Config, drop_curve};
pub use testing::invariants;
