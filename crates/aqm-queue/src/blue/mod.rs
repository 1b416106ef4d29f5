//! BLUE and SFB: raise a marking probability after losses and lower it when the link is idle. Neither algorithm uses
//! the length of the whole queue.
//!
//! BLUE (`blue.rs`) has one probability. SFB (`sfb.rs`) has one probability for each bin of a Bloom filter of flows,
//! and limits the rate of unresponsive flows. The BLUE part of COBALT is in `codel/cobalt_core.rs`.

#[expect(clippy::module_inception, reason = "the family is named after its first algorithm")]
pub(crate) mod blue;
pub(crate) mod sfb;
