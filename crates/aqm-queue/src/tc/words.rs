//! Values as `tc` prints them.

use aqm_net::{Rate, Span};

/// Returns a rate in the largest unit in which the rate is a whole number: `10Mbit`, `9500Kbit`. The kernel counts
/// whole bytes per second, so the rate is rounded down to a multiple of 8 bit/s.
pub(super) fn rate(rate: Rate) -> String {
    let bps = rate.bps() / 8 * 8;
    let units = [(1_000_000_000_000, "Tbit"), (1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1000, "Kbit")];
    let unit = units.into_iter().find(|(size, _)| bps >= *size && bps.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "bit"));
    format!("{}{name}", bps / size)
}

/// Returns a time in whole microseconds, in the largest unit in which the time is a whole number: `5ms`, `1500us`.
pub(super) fn time(span: Span) -> String {
    let micros = span.nanos() / 1000;
    let units = [(1_000_000, "s"), (1000, "ms")];
    let unit = units.into_iter().find(|(size, _)| micros >= *size && micros.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "us"));
    format!("{}{name}", micros / size)
}

/// Returns a time in nanoseconds or in a larger unit in which the time is a whole number: `10us`, `1500ns`.
pub(super) fn precise_time(span: Span) -> String {
    if span.nanos().is_multiple_of(1000) { time(span) } else { format!("{}ns", span.nanos()) }
}
