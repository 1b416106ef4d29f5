//! Nanoseconds for one packet in and one packet out, for every member of the registry: the
//! best of several runs, at a queue that stands near 60 packets; and for schedulers also with 10 and
//! with 100,000 flows of two packets each, to see how the cost grows; for HTB with one leaf and with 1,000.

use std::hint::black_box;

use aqm_net::{Instant, Packet, Rate, Span, Streams};
use aqm_queue::testing::Ignore;
use aqm_queue::{Config, Context, Label, Protocol};
use serde_json::json;

const PACKETS: u64 = 2_000_000;

#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_per_packet(config: &Config) -> f64 {
    let mut queue = config.build(Rate::from_bps(10_000_000)).expect("defaults are right");
    let mut rng = Streams::new(1).named("bench", 0);
    let mut observer = Ignore;
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
    let mut observer = Ignore;
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

/// HTB with so many leaves below one class, each with two packets and as much of the line; one in and one out
/// whenever the class has tokens.
#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_with_leaves(leaves: u64, ceil: &str) -> f64 {
    let line = Rate::from_bps(1_000_000_000);
    let mut classes = json!({"link": {"rate": "1Gbps"}});
    for leaf in 0..leaves {
        let rate = format!("{}bps", line.bps() / leaves);
        let traffic = [format!("{leaf}")];
        let ceil = if ceil.is_empty() { &rate } else { ceil };
        classes[format!("leaf-{leaf}")] = json!({
            "parent": "link", "rate": rate, "ceil": ceil, "quantum": "1500B", "match": {"traffic": traffic},
        });
    }
    let config =
        Config::read(json!({"kind": "htb", "default": "leaf-0", "classes": classes})).expect("it is right");
    let mut queue = config.build(line).expect("it is right");
    for leaf in 0..leaves {
        let label = Label { traffic: format!("{leaf}"), protocol: Protocol::Udp, port: 0, dscp: 0 };
        queue.on_label(leaf as u16, &label);
    }
    let mut rng = Streams::new(1).named("bench", 0);
    let mut observer = Ignore;
    let packet = |id: u32, leaf: u64| Packet {
        id,
        flow: leaf as u32,
        label: leaf as u16,
        bytes: 1500,
        ..Packet::default()
    };
    let mut now = Instant::START;
    for k in 0..2 * leaves {
        let mut cx = Context { now, rng: &mut rng, observer: &mut observer };
        queue.enqueue(packet(k as u32, k % leaves), &mut cx);
    }
    let begin = std::time::Instant::now();
    for k in 0..PACKETS {
        let sent = loop {
            let mut cx = Context { now, rng: &mut rng, observer: &mut observer };
            match queue.dequeue(&mut cx) {
                Some(sent) => break sent,
                None => now = queue.next_ready().expect("packets wait"),
            }
        };
        now += Span::from_nanos(12_000);
        let mut cx = Context { now, rng: &mut rng, observer: &mut observer };
        queue.enqueue(packet(k as u32, sent.flow.into()), &mut cx);
    }
    begin.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn main() {
    for config in Config::every() {
        let best = (0..5).map(|_| nanos_per_packet(&config)).fold(f64::INFINITY, f64::min);
        println!("{:<16} {best:6.1} ns", config.kind());
    }
    println!("{:<16} {:>9} {:>13}", "", "10 flows", "100,000 flows");
    for config in Config::every().iter().filter(|config| config.has_flow_queues()) {
        let kind = config.kind();
        let best = |flows| (0..5).map(|_| nanos_with_flows(kind, flows)).fold(f64::INFINITY, f64::min);
        let (few, many) = (best(10), best(100_000));
        println!("{kind:<16} {few:6.1} ns {many:10.1} ns, {:.2} times", many / few);
    }
    println!("{:<16} {:>9} {:>13}", "", "1 leaf", "1,000 leaves");
    for (what, ceil) in [("htb", ""), ("htb, borrowing", "1Gbps")] {
        let best = |leaves| (0..5).map(|_| nanos_with_leaves(leaves, ceil)).fold(f64::INFINITY, f64::min);
        let (one, many) = (best(1), best(1000));
        println!("{what:<16} {one:6.1} ns {many:10.1} ns, {:.2} times", many / one);
    }
}
