//! Wrappers: a processing step before or after an inner queue, which may be any other discipline (the parameter
//! `queue`).
//!
//! `wrapper.rs` contains the parts that all wrappers share: the inner queue, and the translation of packet ids in its
//! reports.
//! - `ack_filter.rs`: drops acknowledgements that later acknowledgements make redundant (`ack_filter_rules.rs`, with
//!   the rules of CAKE).
//! - `ce_threshold.rs`: marks packets that waited longer than a threshold.
//! - `policer.rs`: drops packets that exceed a rate.
//! - `stab.rs`: changes packet lengths by the overhead of a link layer.

pub(crate) mod ack_filter;
pub mod ack_filter_rules;
pub(crate) mod ce_threshold;
pub(crate) mod policer;
pub(crate) mod stab;
pub(crate) mod wrapper;
