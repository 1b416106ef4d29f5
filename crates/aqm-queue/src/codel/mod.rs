//! CoDel and COBALT: packets are dropped as they leave if queueing delay stays above a target for an interval.
//!
//! `core.rs` is the control law of CoDel without a buffer (RFC 8289 and Linux); `codel.rs` adds a FIFO, and
//! `flow_queues/fq_codel.rs` applies the law to each flow queue. `cobalt_core.rs` combines CoDel with BLUE, as CAKE
//! does; `cobalt.rs` adds a FIFO.

pub(crate) mod cobalt;
pub(crate) mod cobalt_core;
#[expect(clippy::module_inception, reason = "CoDel is the first of its family")]
pub(crate) mod codel;
pub(crate) mod core;
