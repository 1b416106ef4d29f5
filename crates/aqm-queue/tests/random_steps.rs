//! Every discipline, as it comes, in its corners and inside of others, takes random steps and keeps the invariants.
//!
//! Packets of one byte and of 65,535, of one flow and of thousands, with every code point of ECN and many labels, hosts
//! and classes; acknowledgements; a line whose rate changes; bursts, floods, idle times and instants that meet. Ids are
//! used again as soon as they are free.
//!
//! `AQM_FUZZ_CASES` sets the number of steps, ten for each; then the seed is a fresh one, or that of `AQM_FUZZ_SEED`. A
//! failure names its seed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::{
    Acknowledgement, Config, Context, Label, Observer, Protocol, QueueDiscipline, Reason, invariants,
};
use serde_json::{Value, json};

/// Steps in a run of the tests.
const STEPS: u64 = 3000;
const SEED: u64 = 11;
/// The line that disciplines are built for.
const LINE: Rate = Rate::from_bps(10_000_000);
const LABELS: u16 = 40;

/// What packets carry, by id, and what became of them.
#[derive(Clone, Default)]
struct Payloads {
    acknowledgements: Vec<Option<Acknowledgement>>,
    free: Vec<u32>,
    drops: u64,
    marks: u64,
    sent: u64,
    /// All that was told, in one number.
    digest: u64,
}

impl Payloads {
    fn add(&mut self, carried: Option<Acknowledgement>) -> u32 {
        let id = self.free.pop().unwrap_or(self.acknowledgements.len() as u32);
        if id as usize == self.acknowledgements.len() {
            self.acknowledgements.push(carried);
        } else {
            self.acknowledgements[id as usize] = carried;
        }
        id
    }

    fn tell(&mut self, packet: &Packet, what: u64, now: Instant) {
        let told = [u64::from(packet.id), u64::from(packet.flow), what, now.nanos()];
        for word in told {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
    }

    fn leave(&mut self, packet: &Packet, now: Instant) {
        self.tell(packet, 1000, now);
        self.sent += 1;
        self.free.push(packet.id);
    }
}

impl Observer for Payloads {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.tell(packet, u64::from(why.code()), now);
        self.drops += 1;
        self.free.push(packet.id);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.tell(packet, 100 + u64::from(why.code()), now);
        self.marks += 1;
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.acknowledgements[packet.id as usize]
    }
}

/// A discipline, a line whose rate changes, and whoever sends.
#[derive(Clone)]
struct Walk {
    queue: Box<dyn QueueDiscipline>,
    queue_rng: Rng,
    rng: Rng,
    payloads: Payloads,
    now: Instant,
    line: Rate,
    /// When the line is free; nothing waits, or waits for longer, if `idle`.
    free_at: Instant,
    idle: bool,
    flows: u64,
    load: f64,
    arrivals: u64,
}

impl Walk {
    fn new(queue: Box<dyn QueueDiscipline>, seed: u64) -> Self {
        let streams = Streams::new(seed);
        let mut walk = Self {
            queue,
            queue_rng: streams.named("queue", 0),
            rng: streams.named("steps", 0),
            payloads: Payloads::default(),
            now: Instant::START,
            line: LINE,
            free_at: Instant::START,
            idle: true,
            flows: 1,
            load: 1.0,
            arrivals: 0,
        };
        for number in 0..LABELS {
            let protocol = if number % 3 == 0 { Protocol::Udp } else { Protocol::Tcp };
            let label = Label {
                traffic: format!("flow {number}"),
                protocol,
                port: number * 1000,
                dscp: (number * 5 % 64) as u8,
            };
            walk.queue.on_label(number, &label);
        }
        walk
    }

    fn steps(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.rng.below(200) == 0 {
                self.change();
            }
            self.advance();
            // Some arrive at one instant.
            let count = if self.rng.below(20) == 0 { self.rng.below(40) } else { 1 };
            for _ in 0..count {
                self.arrive();
            }
        }
    }

    /// Another rate, another load, other flows.
    fn change(&mut self) {
        let decades = 4.7 * self.rng.uniform();
        self.line = Rate::from_bps((200_000.0 * libm::pow(10.0, decades)) as u64);
        self.load = [0.3, 0.9, 1.05, 1.5, 4.0][self.rng.below(5) as usize];
        self.flows = [1, 4, 60, 5000][self.rng.below(4) as usize];
    }

    /// Time passes, and the line sends.
    fn advance(&mut self) {
        let full_packet = self.line.pace().time_for(1000).nanos() as f64;
        let gap = match self.rng.below(1000) {
            0 => 100e9 * self.rng.uniform(),
            1..20 => 0.3e9 * self.rng.uniform(),
            20..200 => 0.0,
            _ => full_packet / self.load * -libm::log(self.rng.uniform_positive()),
        };
        self.serve(self.now + Span::from_nanos(gap as u64));
    }

    fn arrive(&mut self) {
        let flow = self.rng.below(self.flows) as u32;
        // The other direction of their connections is elsewhere.
        let acknowledges = flow % 4 == 3;
        let bytes = match self.rng.below(40) {
            0 => 1,
            1 => u16::MAX,
            2..38 if acknowledges => 40,
            2..12 => 40 + 12 * self.rng.below(3) as u16,
            12..20 => 1 + self.rng.below(1500) as u16,
            _ => 1500,
        };
        let carried = (bytes < 100).then(|| self.acknowledgement());
        let id = self.payloads.add(carried);
        // What a queue may sort by is the same for all packets of a flow.
        let packet = Packet {
            id,
            flow,
            hop: self.rng.below(3) as u32,
            bytes,
            cwnd: self.rng.below(50) as u16,
            ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][(flow % 4) as usize],
            class: (flow / 3 % 12) as u8,
            source: (flow % 7) as u16,
            destination: (flow / 2 % 5) as u16,
            label: (flow % u32::from(LABELS)) as u16,
        };
        self.arrivals += 1;
        self.call(|queue, cx| queue.enqueue(packet, cx));
        if self.idle && self.queue.backlog().packets > 0 {
            self.free_at = self.free_at.max(self.now);
            self.idle = false;
        }
    }

    fn acknowledgement(&mut self) -> Acknowledgement {
        let (number, from) = (self.arrivals / 3 * 1000, self.arrivals * 1000);
        let block = if self.rng.below(9) == 0 { [from, from + 1000] } else { [0; 2] };
        Acknowledgement {
            bare: self.rng.below(30) > 0,
            number,
            sacked: [block, [0; 2], [0; 2], [0; 2]],
            ece: self.rng.below(20) == 0,
            cwr: self.rng.below(30) == 0,
        }
    }

    /// Sends all that is due by `until`.
    fn serve(&mut self, until: Instant) {
        while !self.idle && self.free_at <= until {
            self.now = self.free_at;
            match self.call(|queue, cx| queue.dequeue(cx)) {
                Some(packet) => {
                    self.payloads.leave(&packet, self.now);
                    self.free_at = self.now + self.line.pace().time_for(packet.bytes.into());
                }
                None => match self.queue.next_ready().filter(|_| self.queue.backlog().packets > 0) {
                    Some(at) => self.free_at = at,
                    None => self.idle = true,
                },
            }
        }
        self.now = until;
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> T) -> T {
        let mut cx = Context { now: self.now, rng: &mut self.queue_rng, observer: &mut self.payloads };
        act(self.queue.as_mut(), &mut cx)
    }

    /// Checks that nothing is left once nobody sends, and what is told beside.
    fn finish(mut self) -> Payloads {
        self.serve(self.now + Span::from_millis(100_000_000));
        assert_eq!(self.queue.backlog().packets, 0, "in the end everything is sent");
        assert_eq!(self.arrivals, self.payloads.sent + self.payloads.drops);
        assert_eq!(self.payloads.free.len(), self.payloads.acknowledgements.len(), "every id is free again");
        let statistics = self.queue.tc_statistics(self.now);
        assert!(statistics.is_null() || is_told(&statistics), "{statistics}");
        self.payloads
    }
}

/// Whether a statistic is something: JSON has nothing for a number that is not finite.
fn is_told(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => list.iter().all(is_told),
        Value::Object(table) => table.values().all(is_told),
        _ => true,
    }
}

/// Walks; at nine tenths of the way a clone goes on beside the original, and both have the same fate.
fn walk(config: &Config, steps: u64, seed: u64) -> Payloads {
    let mut walk = Walk::new(invariants::watched(config, LINE).expect("it is right"), seed);
    walk.steps(steps * 9 / 10);
    let mut clone = walk.clone();
    walk.steps(steps / 10);
    clone.steps(steps / 10);
    let (original, clone) = (walk.finish(), clone.finish());
    assert_eq!(original.digest, clone.digest, "a clone is like what it was made of");
    original
}

/// How many steps, from which seed.
#[expect(clippy::disallowed_methods, reason = "how many steps, from which seed, is said from outside")]
fn asked() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let wanted = number("AQM_FUZZ_CASES");
    let fresh = || RandomState::new().build_hasher().finish();
    let seed = number("AQM_FUZZ_SEED").unwrap_or_else(|| if wanted.is_some() { fresh() } else { SEED });
    (wanted.map_or(STEPS, |cases| 10 * cases), seed)
}

fn walk_all(configs: &[Config]) {
    let (steps, seed) = asked();
    let [mut drops, mut marks] = [0, 0];
    for config in configs {
        let fates = catch_unwind(AssertUnwindSafe(|| walk(config, steps, seed))).unwrap_or_else(|why| {
            println!("{}\nagain with: AQM_FUZZ_SEED={seed} AQM_FUZZ_CASES={}", config.to_value(), steps / 10);
            resume_unwind(why)
        });
        drops += u64::from(fates.drops > 0);
        marks += u64::from(fates.marks > 0);
    }
    println!("{} walks of {steps} steps, seed {seed}: {drops} with drops, {marks} with marks", configs.len());
    assert!(drops as usize > configs.len() * 9 / 10, "invariants mean nothing if nothing happens");
}

/// A discipline inside each of those that take any, in turn: as the queue of a wrapper, of each flow, of a class.
fn inside_of_others() -> Vec<Config> {
    let mut places = vec![("htb", None)];
    for entry in Config::catalog() {
        let inner = entry.parameters.iter().find(|field| field.schema.family == Some("queues"));
        places.extend(inner.map(|field| (entry.name, Some(field.name))));
    }
    let inside = |(number, member): (usize, &Config)| {
        let inner = member.to_value();
        // Not all may stand everywhere.
        (0..places.len()).find_map(|next| {
            let (kind, place) = places[(number + next) % places.len()];
            let mut table = json!({"kind": kind});
            match place {
                Some(place) => table[place] = inner.clone(),
                None => table["classes"] = json!({"all": {"rate": "6Mbps", "queue": inner}}),
            }
            Config::read(table).ok().filter(|config| config.build(LINE).is_ok())
        })
    };
    Config::corners().iter().enumerate().filter_map(inside).collect()
}

#[test]
fn every_member_keeps_the_invariants_on_a_random_walk() {
    walk_all(&Config::corners());
}

#[test]
fn every_member_keeps_the_invariants_inside_another() {
    let all = inside_of_others();
    assert_eq!(all.len(), Config::corners().len(), "each finds a place");
    walk_all(&all);
}
