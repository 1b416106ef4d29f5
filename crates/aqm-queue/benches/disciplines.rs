//! Nanoseconds for one packet in and one packet out, for every member of the registry: the
//! best of several runs, at a queue that stands near 60 packets.

use std::hint::black_box;

use aqm_net::{Instant, Packet, Rate, Streams};
use aqm_queue::{Config, Context, Observer, Reason};

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

fn main() {
    for config in Config::every() {
        let best = (0..5).map(|_| nanos_per_packet(&config)).fold(f64::INFINITY, f64::min);
        println!("{:<16} {best:6.1} ns", config.kind());
    }
}
