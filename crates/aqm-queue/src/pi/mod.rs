//! PI controllers of queue length: the drop probability is computed at regular intervals from the queue's deviation
//! from a reference and from its change.
//!
//! `pi.rs` is the controller of Hollot et al. PISA and PIMC multiply its probability by a factor that depends on the
//! packet's congestion window. REM integrates the deviation to a price, and its probability is an exponential function
//! of the price. PIE, which controls queueing delay, is in `pie/`.

#[expect(clippy::module_inception, reason = "the family has the name of its first algorithm")]
pub(crate) mod pi;
pub(crate) mod pimc;
pub(crate) mod pisa;
pub(crate) mod rem;
pub(crate) mod selection;
