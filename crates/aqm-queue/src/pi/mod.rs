//! PI controllers of queue length: the drop probability is computed at regular intervals from the queue's deviation
//! from a reference and from its change.
//!
//! `pi.rs` is the controller of Hollot et al.; PISA and PIMC weigh its probability by the window hint of a packet;
//! REM sums up the deviation as a price, from which the probability follows exponentially. PIE, which controls
//! queueing delay, is in `pie/`.

#[expect(clippy::module_inception, reason = "PI is the first of its family")]
pub(crate) mod pi;
pub(crate) mod pimc;
pub(crate) mod pisa;
pub(crate) mod rem;
