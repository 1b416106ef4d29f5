//! CoDel and COBALT: drop packets on departure if the queueing delay stays above a target for an interval.
//!
//! `core.rs` contains the control law of CoDel without a buffer (RFC 8289 and Linux). `codel.rs` adds a FIFO, and
//! `flow_queues/fq_codel.rs` applies the control law to each flow queue. `cobalt_core.rs` combines CoDel with BLUE, as
//! in CAKE; `cobalt.rs` adds a FIFO.

pub(crate) mod cobalt;
pub(crate) mod cobalt_core;
#[expect(clippy::module_inception, reason = "the family is named after its first algorithm")]
pub(crate) mod codel;
pub(crate) mod core;
