//! Wrappers: each wrapper is a processing step before or after an inner queue, which may be any other discipline (the
//! `queue` parameter).
//!
//! `wrapper.rs` contains the parts that all wrappers share: the inner queue, and the translation of packet ids in the
//! reports of the inner queue.
//! - `ack_filter.rs`: drops acknowledgements that later acknowledgements make redundant (`ack_filter_rules.rs` contains
//!   the rules, which are those of CAKE).
//! - `ce_threshold.rs`: marks packets that have waited longer than a threshold.
//! - `policer.rs`: drops packets that exceed a rate.
//! - `stab.rs`: changes the lengths of packets according to the overhead of a link layer.

pub(crate) mod ack_filter;
pub mod ack_filter_rules;
pub(crate) mod ce_threshold;
pub(crate) mod policer;
pub(crate) mod stab;
pub(crate) mod wrapper;
