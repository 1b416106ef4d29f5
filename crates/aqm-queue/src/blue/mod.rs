//! BLUE and SFB: losses raise a marking probability and an idle link lowers it; queue length has no part in it.
//!
//! `blue.rs` keeps one probability. SFB (`sfb.rs`) keeps one for each bin of a Bloom filter of flows, and limits the
//! rate of flows that do not respond. COBALT's BLUE is in `codel/cobalt_core.rs`.

#[expect(clippy::module_inception, reason = "BLUE is the first of its family")]
pub(crate) mod blue;
pub(crate) mod sfb;
