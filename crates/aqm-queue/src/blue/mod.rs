//! BLUE and SFB: losses raise a marking probability and an idle link lowers it; the queue length is not used.
//!
//! `blue.rs` has one probability. SFB (`sfb.rs`) has one for each bin of a Bloom filter of flows, and limits the rate
//! of unresponsive flows. COBALT's BLUE is in `codel/cobalt_core.rs`.

#[expect(clippy::module_inception, reason = "the family has the name of its first algorithm")]
pub(crate) mod blue;
pub(crate) mod sfb;
