//! PIE: a PI controller of queueing delay.
//!
//! `pie.rs` has the parameters and the queue. The control law stands in three forms: `rfc.rs` has that of RFC 8033 and
//! that of ns-3, `linux.rs` that of Linux, each with its burst allowance. `timer.rs` says when the probability is
//! updated. DOCSIS-PIE (RFC 8034) is in `docsis_pie.rs`; FQ-PIE in `flow_queues/` uses the law of Linux.

pub(crate) mod docsis_pie;
pub(crate) mod linux;
#[expect(clippy::module_inception, reason = "PIE is the first of its family")]
pub(crate) mod pie;
pub(crate) mod rfc;
pub(crate) mod timer;
