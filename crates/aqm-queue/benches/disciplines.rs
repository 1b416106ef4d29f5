//! What a packet costs each discipline by itself, without TCP and events: every member of the registry with one flow,
//! a hundred and ten thousand.
//!
//! A packet of 1000 bytes arrives every 762 us at a line of 10 Mb/s, which sends it in 800 us: one in 21 must go, the
//! queue stands where the discipline holds it, at 60 packets if it has a limit that can be so, and whatever it does to
//! packets it does. Flows take turns. Some packets can be marked, some are acknowledgements, and the labels, hosts and
//! classes differ.
//!
//! Without arguments it prints nanoseconds for each packet that arrives, the best of several runs, and the cost of
//! flows that all have packets waiting, in fair queueing and in HTB. `disciplines KIND FLOWS` lets so many flows through
//! this kind once, and prints how many packets came and how many were dropped: then instructions are counted from
//! outside, in functions whose name begins with `counted_` (`benches/disciplines.py`).

use std::hint::black_box;

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::testing::Ignore;
use aqm_queue::{Acknowledgement, Config, Context, Label, Observer, Protocol, QueueDiscipline, Reason};
use serde_json::json;

const PACKETS: u64 = 2_000_000;
const LINE: Rate = Rate::from_bps(10_000_000);
const BYTES: u16 = 1000;
const GAP: Span = Span::from_nanos(762_000);
const FLOWS: [u64; 3] = [1, 100, 10_000];
/// Packets that are counted.
const COUNTED: u64 = 40_000;

/// Counts drops, and knows that of 32 packets the last eight are acknowledgements.
#[derive(Default)]
struct Audience {
    drops: u64,
}

impl Observer for Audience {
    fn dropped(&mut self, _: &Packet, _: Reason, _: Instant) {
        self.drops += 1;
    }
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        (packet.id / 8 % 4 == 3).then(|| Acknowledgement {
            bare: true,
            number: packet.id.into(),
            ..Acknowledgement::default()
        })
    }
}

/// How a discipline is called.
struct Calls {
    enqueue: fn(&mut dyn QueueDiscipline, Packet, &mut Context<'_>),
    dequeue: fn(&mut dyn QueueDiscipline, &mut Context<'_>) -> Option<Packet>,
}

const PLAIN: Calls =
    Calls { enqueue: |queue, packet, cx| queue.enqueue(packet, cx), dequeue: |queue, cx| queue.dequeue(cx) };

const WHILE_COUNTING: Calls = Calls { enqueue: counted_enqueue, dequeue: counted_dequeue };

#[inline(never)]
fn counted_enqueue(queue: &mut dyn QueueDiscipline, packet: Packet, cx: &mut Context<'_>) {
    queue.enqueue(packet, cx);
}

#[inline(never)]
fn counted_dequeue(queue: &mut dyn QueueDiscipline, cx: &mut Context<'_>) -> Option<Packet> {
    queue.dequeue(cx)
}

/// A discipline and its line.
struct Rig {
    queue: Box<dyn QueueDiscipline>,
    rng: Rng,
    audience: Audience,
    flows: u64,
    arrived: u64,
    now: Instant,
    /// When the line is free; `NEVER` if nothing waits.
    free_at: Instant,
}

impl Rig {
    fn new(config: &Config, flows: u64) -> Self {
        let mut queue = config.build(LINE).expect("it is right");
        for (number, dscp) in (0..).zip([0, 8, 10, 26, 46, 48, 34, 1]) {
            let label = Label { traffic: format!("{number}"), protocol: Protocol::Tcp, port: 0, dscp };
            queue.on_label(number, &label);
        }
        Self {
            queue,
            rng: Streams::new(1).named("bench", 0),
            audience: Audience::default(),
            flows,
            arrived: 0,
            now: Instant::START,
            free_at: Instant::NEVER,
        }
    }

    /// So many packets arrive.
    fn run(&mut self, packets: u64, calls: &Calls) {
        let pace = LINE.pace();
        for _ in 0..packets {
            self.now += GAP;
            while self.free_at <= self.now {
                let mut cx = Context { now: self.free_at, rng: &mut self.rng, observer: &mut self.audience };
                match (calls.dequeue)(self.queue.as_mut(), &mut cx) {
                    Some(packet) => self.free_at += pace.time_for(packet.bytes.into()),
                    None => self.free_at = self.queue.next_ready().unwrap_or(Instant::NEVER),
                }
            }
            let k = self.arrived;
            self.arrived += 1;
            // A step that shares no factor with the number of flows visits each once a round.
            let flow = k * 7919 % self.flows;
            let packet = Packet {
                id: k as u32,
                flow: flow as u32,
                bytes: BYTES,
                cwnd: 1 + (k % 31) as u16,
                ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct][(k / 2 % 4) as usize],
                source: (1 + flow % 200) as u16,
                destination: (1 + flow % 7) as u16,
                label: (flow % 8) as u16,
                ..Packet::default()
            };
            let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut self.audience };
            (calls.enqueue)(self.queue.as_mut(), packet, &mut cx);
            if self.free_at == Instant::NEVER && self.queue.backlog().packets > 0 {
                self.free_at = self.now;
            }
        }
    }

    /// Packets that arrive before anything is measured: every flow is known, and what adapts has had some 20 s.
    fn warm_up(&mut self) {
        self.run(25_000.max(3 * self.flows), &PLAIN);
    }
}

/// A kind as it comes, but for a limit of 60 packets where it takes one.
fn config(kind: &str) -> Config {
    let read = |table| Config::read(table).ok().filter(|config| config.build(LINE).is_ok());
    read(json!({"kind": kind, "limit": "60p"}))
        .or_else(|| read(json!({"kind": kind})))
        .unwrap_or_else(|| panic!("{kind} does not work as it comes"))
}

#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_per_packet(kind: &str, flows: u64) -> f64 {
    let mut rig = Rig::new(&config(kind), flows);
    rig.warm_up();
    let packets = PACKETS / 4;
    let begin = std::time::Instant::now();
    rig.run(packets, &PLAIN);
    begin.elapsed().as_nanos() as f64 / packets as f64
}

/// As many flows as said, two packets each: one in and one out, flows in an order of no pattern.
#[allow(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]
fn nanos_with_flows(kind: &str, flows: u64) -> f64 {
    let roomy = [("limit", "1000000p"), ("memlimit", "4GB")];
    let read = |(name, room): (&str, &str)| Config::read(json!({"kind": kind, (name): room})).ok();
    let config = roomy.into_iter().find_map(read).expect("it is right");
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

#[allow(clippy::disallowed_methods, reason = "what is counted is named on the command line")]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.as_slice() {
        [] => print_nanos(),
        [kind, flows] => count(kind, flows.parse().expect("a number of flows")),
        _ => panic!("disciplines [KIND FLOWS]"),
    }
}

/// Lets packets through this kind while they are counted from outside.
fn count(kind: &str, flows: u64) {
    let mut rig = Rig::new(&config(kind), flows);
    rig.warm_up();
    let drops = rig.audience.drops;
    rig.run(COUNTED, &WHILE_COUNTING);
    println!("{COUNTED} packets, {} dropped", rig.audience.drops - drops);
}

fn print_nanos() {
    println!("{:<22}{:>9}{:>12}{:>15}", "ns", "1 flow", "100 flows", "10,000 flows");
    for config in Config::every() {
        let kind = config.kind();
        let best = |flows| (0..5).map(|_| nanos_per_packet(kind, flows)).fold(f64::INFINITY, f64::min);
        let [one, some, many] = FLOWS.map(best);
        println!("{kind:<22}{one:>9.1}{some:>12.1}{many:>15.1}");
    }
    println!("{:<16} {:>9} {:>13}", "all waiting", "10 flows", "100,000 flows");
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
