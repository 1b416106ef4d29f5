//! PI controllers for the queue length: compute the drop probability at regular intervals from the difference between
//! the queue length and a reference, and from the change of the queue length.
//!
//! `pi.rs` contains the controller of Hollot et al. PISA and PIMC multiply the drop probability of this controller by a
//! factor that depends on the congestion window of the packet's sender. REM accumulates the differences in a price, and
//! REM's drop probability is an exponential function of the price. PIE, which controls queueing delay, is in `pie/`.

#[expect(clippy::module_inception, reason = "the family is named after its first algorithm")]
pub(crate) mod pi;
pub(crate) mod pimc;
pub(crate) mod pisa;
pub(crate) mod rem;
pub(crate) mod selection;
