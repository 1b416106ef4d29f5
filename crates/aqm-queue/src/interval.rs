//! The minimum interval of periodic updates.

use aqm_net::Span;

/// Minimum interval between updates. The limit bounds the number of updates to process after a long time without packets.
pub(crate) const MIN_INTERVAL: Span = Span::from_nanos(10_000);
