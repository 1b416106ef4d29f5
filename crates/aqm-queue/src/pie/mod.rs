//! PIE: controls the queueing delay with a PI controller.
//!
//! `pie.rs` contains the parameters and the queue. The control law has three forms: `rfc.rs` contains the forms of RFC
//! 8033 and of ns-3, and `linux.rs` contains the form of Linux. Each form includes the rules for the burst allowance.
//! `timer.rs` schedules the updates of the probability. DOCSIS-PIE (RFC 8034) is in `docsis_pie.rs`. FQ-PIE in
//! `flow_queues/` uses the control law of Linux.

pub(crate) mod docsis_pie;
pub(crate) mod linux;
#[expect(clippy::module_inception, reason = "the family is named after its first algorithm")]
pub(crate) mod pie;
pub(crate) mod rfc;
pub(crate) mod timer;
