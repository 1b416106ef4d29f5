//! Nanoseconds for an edge to classify a packet, for every member of the registry, with 100,000
//! flows alive: best and median of stretches short enough to fit between interruptions. Flows come in
//! random order, the worst there is for the machine's caches, or each in bursts of eight packets.

use std::hint::black_box;

use aqm_net::{Instant, Packet, Streams};
use aqm_queue::edge::{Config, Edge};

const FLOWS: u64 = 100_000;
const PACKETS: usize = 4_000_000;
const STRETCH: usize = 20_000;
/// Between packets: a scattered flow is seen every 100 ms and hardly ever forgotten, one in bursts every
/// 800 ms and often.
const GAP: u64 = 1_000;

#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_per_packet(edge: &mut dyn Edge, flows: &[u32], begin_at: u64) -> f64 {
    let mut classes = 0_u64;
    let begin = std::time::Instant::now();
    for (k, flow) in flows.iter().enumerate() {
        let packet = Packet { flow: *flow, bytes: 500, ..Packet::default() };
        classes += u64::from(edge.classify(&packet, Instant::from_nanos(begin_at + k as u64 * GAP)));
    }
    let nanos = begin.elapsed().as_nanos() as f64;
    black_box(classes);
    nanos / flows.len() as f64
}

fn main() {
    let mut rng = Streams::new(1).named("bench", 0);
    let mut any_flow = |_| rng.below(FLOWS) as u32;
    let scattered: Vec<u32> = (0..PACKETS).map(&mut any_flow).collect();
    let in_bursts: Vec<u32> = scattered[..PACKETS / 8].iter().flat_map(|flow| [*flow; 8]).collect();
    for config in Config::every() {
        for (order, flows) in [("scattered", &scattered), ("in bursts", &in_bursts)] {
            let mut edge = config.build(Streams::new(1).named("edge", 0)).expect("defaults are right");
            let mut stretches = Vec::new();
            for (k, stretch) in flows.chunks(STRETCH).enumerate() {
                stretches.push(nanos_per_packet(&mut *edge, stretch, (k * STRETCH) as u64 * GAP));
            }
            let mut warm = stretches.split_off(PACKETS / STRETCH / 2);
            warm.sort_by(f64::total_cmp);
            let (best, median) = (warm[0], warm[warm.len() / 2]);
            let mut alive = 0.0;
            edge.gauges(&mut |gauge| alive = if gauge.name == "flows" { gauge.value } else { alive });
            println!(
                "{:<12} {order} {best:6.1} ns, median {median:6.1} ns, {alive} flows alive",
                config.kind()
            );
        }
    }
}
