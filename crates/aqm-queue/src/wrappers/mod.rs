//! Wrappers: a step before or after a queue, which may be any other discipline (the parameter `queue`).
//!
//! `wrapper.rs` has what wrappers share: the queue inside, and how the fates of its packets are reported.
//! - `ack_filter.rs`: drops acknowledgements that later ones replace (`ack_filter_rules.rs`, from CAKE).
//! - `ce_threshold.rs`: marks packets that waited longer than a threshold.
//! - `policer.rs`: drops packets beyond a rate.
//! - `stab.rs`: packet lengths with link-layer overhead.

pub(crate) mod ack_filter;
pub mod ack_filter_rules;
pub(crate) mod ce_threshold;
pub(crate) mod policer;
pub(crate) mod stab;
pub(crate) mod wrapper;
