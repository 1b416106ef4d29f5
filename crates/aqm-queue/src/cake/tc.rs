//! The arguments of `tc` for CAKE (iproute2 6.1, `tc/q_cake.c`).

use aqm_net::{Size, Span};
use serde_json::json;

use super::shaper::Cells;
use super::{AckFilter, Config};
use crate::tc::Qdisc;

/// Returns CAKE as `tc` creates it. `raw` and `overhead` precede the framing, because `tc` resets the framing when it
/// reads these words.
pub(super) fn qdisc(config: &Config) -> Qdisc {
    // The names of these values are the words of `tc`.
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let cake = Qdisc::new("cake");
    let cake = match config.bandwidth {
        Some(rate) => cake.rate("bandwidth", rate),
        None => cake.word("unlimited"),
    };
    let ack_filter = match config.ack_filter {
        AckFilter::Disabled => "no-ack-filter",
        AckFilter::Conservative => "ack-filter",
        AckFilter::Aggressive => "ack-filter-aggressive",
    };
    let interval = config.interval_and_target_us().0;
    let cake = cake
        .flag(config.autorate_ingress, "autorate-ingress")
        .word(&word(json!(config.diffserv)))
        .word(&word(json!(config.flows)))
        .word("nonat")
        .word("nowash")
        .either(config.ingress, "ingress", "egress")
        .word(ack_filter)
        .word("split-gso")
        .time("rtt", Span::from_nanos(interval.saturating_mul(1000)));
    let cake = match config.overhead {
        Some(bytes) => cake.with("overhead", bytes),
        None => cake.word("raw"),
    };
    let is_framed = config.overhead.is_some() || config.atm != Cells::None;
    let cake = if is_framed { cake.word(&word(json!(config.atm))) } else { cake };
    let cake = if config.mpu.bytes() > 0 { cake.count("mpu", config.mpu.bytes()) } else { cake };
    let cake = if let Some(limit) = config.memlimit { cake.count("memlimit", limit.bytes()) } else { cake };
    cake.fixed("mtu", config.mtu, Size::from_bytes(1514)).fixed("hdr_offset", config.hdr_offset, 14)
}
