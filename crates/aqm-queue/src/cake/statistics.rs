//! CAKE's reports: the gauges, and the output of `tc -s -j qdisc show` (iproute2 6.1, `tc/q_cake.c`).
//!
//! Tins are listed in order of priority. The name of a tin's gauge ends with the tin's rank in this order. For
//! `diffserv3`, rank 0 is bulk, rank 1 is best effort and rank 2 is voice.

use aqm_net::Span;
use serde_json::{Value, json};

use super::shaper::Cells;
use super::tin::{FlowCounts, Tin};
use super::{AckFilter, Cake, Config};
use crate::Gauge;

/// Returns the options, as `tc` prints them.
pub(super) fn options(config: &Config) -> Value {
    let (interval, _) = config.interval_and_target_us();
    let ack_filter = match config.ack_filter {
        AckFilter::Disabled => "disabled",
        AckFilter::Conservative => "enabled",
        AckFilter::Aggressive => "aggressive",
    };
    let raw = config.overhead.is_none();
    let mut options = json!({
        "kind": "cake", "diffserv": config.diffserv, "flowmode": config.flows, "nat": false, "wash": false,
        "ingress": config.ingress, "ack-filter": ack_filter, "split_gso": true, "rtt": interval, "raw": raw,
        "overhead": config.overhead.unwrap_or(0), "fwmark": "0",
    });
    options["bandwidth"] = match config.rate() {
        0 => json!("unlimited"),
        rate => json!(rate),
    };
    if config.autorate_ingress {
        options["autorate"] = json!("autorate-ingress");
    }
    if config.atm != Cells::None || !raw {
        options["atm"] = json!(config.atm);
    }
    if config.mpu.bytes() > 0 {
        options["mpu"] = json!(config.mpu.bytes());
    }
    if let Some(limit) = config.memlimit {
        options["memlimit"] = json!(limit.bytes());
    }
    options
}

/// Returns the statistics, as `tc` prints them.
pub(super) fn statistics(cake: &Cake) -> Value {
    let [least_network, most_network] = cake.framing.network_size;
    let [least_adjusted, most_adjusted] = cake.framing.adjusted_size;
    let tins: Vec<Value> = in_order(cake).map(tin).collect();
    json!({
        "overlimits": cake.overlimits,
        "memory_used": cake.memory_used,
        "memory_limit": cake.memory_limit,
        "capacity_estimate": cake.capacity.estimate(),
        "min_network_size": least_network,
        "max_network_size": most_network,
        "min_adj_size": least_adjusted,
        "max_adj_size": most_adjusted,
        "avg_hdr_offset": (cake.framing.average_offset + 0x8000) >> 16,
        "tins": tins,
    })
}

fn tin(tin: &Tin) -> Value {
    let (times, counters, delays, flows) = (tin.rates.times, &tin.counters, tin.delays, tin.flows);
    json!({
        "threshold_rate": tin.rates.share.rate,
        "sent_bytes": counters.bytes,
        "backlog_bytes": tin.backlog_bytes,
        "target_us": times.target / 1000,
        "interval_us": times.interval / 1000,
        "peak_delay_us": delays.peak / 1000,
        "avg_delay_us": delays.average / 1000,
        "base_delay_us": delays.base / 1000,
        "sent_packets": counters.packets,
        "way_indirect_hits": counters.way_indirect_hits,
        "way_misses": counters.way_misses,
        "way_collisions": counters.way_collisions,
        "drops": counters.drops,
        "ecn_mark": counters.ecn_marks,
        "ack_drops": counters.ack_drops,
        "sparse_flows": flows.sparse + flows.decaying,
        "bulk_flows": flows.bulk,
        "unresponsive_flows": flows.unresponsive,
        "max_pkt_len": counters.max_bytes,
        "flow_quantum": tin.rates.flow_quantum,
    })
}

fn in_order(cake: &Cake) -> impl Iterator<Item = &Tin> {
    cake.config.diffserv.order().iter().map(|&tin| &cake.tins[tin])
}

/// Names of the gauges, indexed by the tin's rank.
const AVG_DELAY: [&str; 8] = [
    "avg_delay_0",
    "avg_delay_1",
    "avg_delay_2",
    "avg_delay_3",
    "avg_delay_4",
    "avg_delay_5",
    "avg_delay_6",
    "avg_delay_7",
];

/// Reports the values of CAKE's gauges.
pub(super) fn gauges(cake: &Cake, show: &mut dyn FnMut(Gauge)) {
    let sum =
        |count: fn(&FlowCounts) -> u32| f64::from(cake.tins.iter().map(|tin| count(&tin.flows)).sum::<u32>());
    show(Gauge::new("sparse_flows", sum(|flows| flows.sparse + flows.decaying), "flows"));
    show(Gauge::new("bulk_flows", sum(|flows| flows.bulk), "flows"));
    show(Gauge::new("unresponsive_flows", sum(|flows| flows.unresponsive), "flows"));
    show(Gauge::new("memory_used", cake.memory as f64, "bytes"));
    show(Gauge::new("drop_overlimit", cake.drop_overlimit as f64, "packets"));
    if cake.config.autorate_ingress {
        show(Gauge::new("capacity_estimate", cake.capacity.estimate() as f64 * 8.0, "bps"));
    }
    for (name, tin) in AVG_DELAY.into_iter().zip(in_order(cake)) {
        show(Gauge::new(name, Span::from_nanos(tin.delays.average).seconds(), "s"));
    }
}
