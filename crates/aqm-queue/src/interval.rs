//! The minimum interval of periodic updates.

use aqm_net::Span;

/// Minimum interval between updates. This minimum limits the number of updates that must be performed when a packet
/// arrives after a long time without packets.
pub(crate) const MIN_INTERVAL: Span = Span::from_nanos(10_000);
