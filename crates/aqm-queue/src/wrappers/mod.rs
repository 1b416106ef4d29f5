//! Wrappers: a processing step before or after a queue, which may be any other discipline (the parameter `queue`).
//!
//! `wrapper.rs` contains the common parts of all wrappers: the inner queue and the translation of its packets' fates.
//! - `ack_filter.rs`: drops acknowledgements made redundant by later ones (`ack_filter_rules.rs`, from CAKE).
//! - `ce_threshold.rs`: marks packets that waited longer than a threshold.
//! - `policer.rs`: drops packets that exceed a rate.
//! - `stab.rs`: packet lengths with link-layer overhead.

pub(crate) mod ack_filter;
pub mod ack_filter_rules;
pub(crate) mod ce_threshold;
pub(crate) mod policer;
pub(crate) mod stab;
pub(crate) mod wrapper;
