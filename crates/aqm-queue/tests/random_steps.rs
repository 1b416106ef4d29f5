//! Every discipline, with its defaults, with its hardest parameters and inside other disciplines, executes random steps
//! and satisfies the invariants.
//!
//! The steps include packets of one byte and of 65,535 bytes, of one flow and of thousands of flows, with all ECN code
//! points and many labels, hosts and classes; acknowledgements; a link whose rate changes; bursts, floods, idle times
//! and simultaneous events. Ids are reused as soon as they are free.
//!
//! `AQM_FUZZ_CASES` sets the number of steps (ten per case), and then the seed is random or that of `AQM_FUZZ_SEED`. A
//! failure prints its seed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::testing::invariants;
use aqm_queue::{Acknowledgement, Config, Context, Label, Observer, Protocol, QueueDiscipline, Reason};
use serde_json::{Value, json};

/// Number of steps in a test run.
const STEPS: u64 = 3000;
const SEED: u64 = 11;
/// The link for which disciplines are built.
const LINE: Rate = Rate::from_bps(10_000_000);
const LABELS: u16 = 40;

/// The acknowledgements of packets by id, and a digest of the fates.
#[derive(Clone, Default)]
struct Payloads {
    acknowledgements: Vec<Option<Acknowledgement>>,
    free: Vec<u32>,
    drops: u64,
    marks: u64,
    sent: u64,
    /// A digest of all fates.
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

    fn record(&mut self, packet: &Packet, what: u64, now: Instant) {
        let event = [u64::from(packet.id), u64::from(packet.flow), what, now.nanos()];
        for word in event {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
    }

    fn leave(&mut self, packet: &Packet, now: Instant) {
        self.record(packet, 1000, now);
        self.sent += 1;
        self.free.push(packet.id);
    }
}

impl Observer for Payloads {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.record(packet, u64::from(why.code()), now);
        self.drops += 1;
        self.free.push(packet.id);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.record(packet, 100 + u64::from(why.code()), now);
        self.marks += 1;
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.acknowledgements[packet.id as usize]
    }
}

/// A discipline, a link whose rate changes, and a source of packets.
#[derive(Clone)]
struct Walk {
    queue: Box<dyn QueueDiscipline>,
    queue_rng: Rng,
    rng: Rng,
    payloads: Payloads,
    now: Instant,
    line: Rate,
    /// The time at which the link becomes free. If `idle`, the queue is empty or delays its packets further.
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
            // Some packets arrive at the same instant.
            let count = if self.rng.below(20) == 0 { self.rng.below(40) } else { 1 };
            for _ in 0..count {
                self.arrive();
            }
        }
    }

    /// Changes the rate, the load and the flows.
    fn change(&mut self) {
        let decades = 4.7 * self.rng.uniform();
        self.line = Rate::from_bps((200_000.0 * libm::pow(10.0, decades)) as u64);
        self.load = [0.3, 0.9, 1.05, 1.5, 4.0][self.rng.below(5) as usize];
        self.flows = [1, 4, 60, 5000][self.rng.below(4) as usize];
    }

    /// Advances the time, and the link sends.
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
        // The other direction of the connections does not pass through this queue.
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
        // Fields by which a queue may sort are equal for all packets of a flow.
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

    /// Sends all packets due by `until`.
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

    /// Checks that the queue becomes empty without arrivals, and checks the statistics.
    fn finish(mut self) -> Payloads {
        self.serve(self.now + Span::from_millis(100_000_000));
        assert_eq!(self.queue.backlog().packets, 0, "at the end, all packets have been sent");
        assert_eq!(self.arrivals, self.payloads.sent + self.payloads.drops);
        assert_eq!(self.payloads.free.len(), self.payloads.acknowledgements.len(), "every id is free again");
        let statistics = self.queue.tc_statistics(self.now);
        assert!(statistics.is_null() || is_finite(&statistics), "{statistics}");
        self.payloads
    }
}

/// Whether a statistic is a finite number: JSON represents other numbers as null.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => list.iter().all(is_finite),
        Value::Object(table) => table.values().all(is_finite),
        _ => true,
    }
}

/// Executes the steps. After nine tenths of them, a clone continues next to the original, and both must have the same
/// fates.
fn walk(config: &Config, steps: u64, seed: u64) -> Payloads {
    let mut walk = Walk::new(invariants::watched(config, LINE).expect("the configuration is valid"), seed);
    walk.steps(steps * 9 / 10);
    let mut clone = walk.clone();
    walk.steps(steps / 10);
    clone.steps(steps / 10);
    let (original, clone) = (walk.finish(), clone.finish());
    assert_eq!(original.digest, clone.digest, "a clone behaves like its original");
    original
}

/// The number of steps and the seed.
#[expect(clippy::disallowed_methods, reason = "the environment sets the number of steps and the seed")]
fn steps_and_seed() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let cases = number("AQM_FUZZ_CASES");
    let fresh = || RandomState::new().build_hasher().finish();
    let seed = number("AQM_FUZZ_SEED").unwrap_or_else(|| if cases.is_some() { fresh() } else { SEED });
    (cases.map_or(STEPS, |cases| 10 * cases), seed)
}

fn walk_all(configs: &[Config]) {
    let (steps, seed) = steps_and_seed();
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
    assert!(drops as usize > configs.len() * 9 / 10, "the invariants are meaningful only if there are drops");
}

/// One discipline inside each discipline that accepts any, in turn: as the queue of a wrapper, of each flow, of a
/// class.
fn inside_others() -> Vec<Config> {
    let mut parents = vec![("htb", None)];
    for entry in Config::catalog() {
        let inner = entry.parameters.iter().find(|field| field.schema.family == Some("queues"));
        parents.extend(inner.map(|field| (entry.name, Some(field.name))));
    }
    let inside = |(number, member): (usize, &Config)| {
        let inner = member.to_value();
        // Some disciplines are not allowed in every parameter.
        (0..parents.len()).find_map(|next| {
            let (kind, parameter) = parents[(number + next) % parents.len()];
            let mut table = json!({"kind": kind});
            match parameter {
                Some(parameter) => table[parameter] = inner.clone(),
                None => table["classes"] = json!({"all": {"rate": "6Mbps", "queue": inner}}),
            }
            Config::read(table).ok().filter(|config| config.build(LINE).is_ok())
        })
    };
    Config::corners().iter().enumerate().filter_map(inside).collect()
}

#[test]
fn every_discipline_satisfies_the_invariants_on_a_random_walk() {
    walk_all(&Config::corners());
}

#[test]
fn every_discipline_satisfies_the_invariants_inside_another() {
    let all = inside_others();
    assert_eq!(all.len(), Config::corners().len(), "each discipline is inside another one");
    walk_all(&all);
}
