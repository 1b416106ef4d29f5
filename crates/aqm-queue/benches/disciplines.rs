//! Nanoseconds for one packet in and one packet out, for every member of the registry: the
//! best of several runs, at a queue that stands near 60 packets; and for schedulers also with 10 and
//! with 100,000 flows of two packets each, to see how the cost grows.

use std::hint::black_box;

use aqm_net::{Instant, Packet, Rate, Streams};
use aqm_queue::{Config, Context, Observer, Reason};
use serde_json::json;

const PACKETS: u64 = 2_000_000;

struct Deaf;
impl Observer for Deaf {
    fn dropped(&mut self, _: &Packet, _: Reason, _: Instant) {}
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
}

#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_per_packet(config: &Config) -> f64 {
    let mut queue = config.build(Rate::from_bps(10_000_000)).expect("defaults are right");
    let mut rng = Streams::new(1).named("bench", 0);
    let mut observer = Deaf;
    let begin = std::time::Instant::now();
    for k in 0..PACKETS {
        let now = Instant::from_nanos(k * 779_200);
        let mut cx = Context { now, rng: &mut rng, observer: &mut observer };
        let packet = Packet {
            id: k as u32,
            flow: (k % 16) as u32,
            bytes: 974,
            cwnd: 1 + (k % 31) as u16,
            ..Packet::default()
        };
        queue.enqueue(packet, &mut cx);
        if queue.backlog().packets > 60 {
            black_box(queue.dequeue(&mut cx));
        }
    }
    begin.elapsed().as_nanos() as f64 / PACKETS as f64
}

/// As many flows as said, two packets each: one in and one out, flows in an order of no pattern.
#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_with_flows(kind: &str, flows: u64) -> f64 {
    let config = Config::read(json!({"kind": kind, "limit": "1000000p"})).expect("it is right");
    let mut queue = config.build(Rate::from_bps(1_000_000_000)).expect("it is right");
    let mut rng = Streams::new(1).named("bench", 0);
    let mut observer = Deaf;
    let mut begin = std::time::Instant::now();
    for k in 0..PACKETS + 2 * flows {
        if k == 2 * flows {
            begin = std::time::Instant::now();
        }
        let mut cx = Context { now: Instant::from_nanos(k * 8000), rng: &mut rng, observer: &mut observer };
        // A step that shares no factor with the number of flows visits each once a round.
        let flow = (k * 7919 % flows) as u32;
        queue.enqueue(Packet { id: k as u32, flow, bytes: 1500, ..Packet::default() }, &mut cx);
        if k >= 2 * flows {
            black_box(queue.dequeue(&mut cx));
        }
    }
    begin.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn main() {
    for config in Config::every() {
        let best = (0..5).map(|_| nanos_per_packet(&config)).fold(f64::INFINITY, f64::min);
        println!("{:<16} {best:6.1} ns", config.kind());
    }
    println!("{:<16} {:>9} {:>13}", "", "10 flows", "100,000 flows");
    for kind in ["drr", "rr", "stfq", "scfq", "wfq", "pfq"] {
        let best = |flows| (0..5).map(|_| nanos_with_flows(kind, flows)).fold(f64::INFINITY, f64::min);
        let (few, many) = (best(10), best(100_000));
        println!("{kind:<16} {few:6.1} ns {many:10.1} ns, {:.2} times", many / few);
    }
}
