//! CAKE: a shaper, tins for classes of service, fairness between hosts and flows, and COBALT for each flow, in one.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018; `tc-cake(8)`; Linux 6.1's `net/sched/sch_cake.c` as its last stable releases have it,
//! which the code follows decision by decision and in the kernel's integers:
//! - `shaper`: when the next packet may go, and how large it is on the line behind.
//! - `diffserv`: its tin, by its code point. With a rate, the tin of the highest priority goes that has not had its
//!   share; if all have, the one whose time comes first. Without one, tins take turns by deficit.
//! - `isolation`: its queue, by a hash into sets of eight; how many bulk flows its hosts have.
//! - `tin`: whose turn it is. Sparse queues go first; a quantum shrinks with the bulk flows of the hosts.
//! - `cobalt_core.rs`: whether it is dropped or marked when it is taken. The last packet of a queue never is dropped.
//! - `longest`: memory is limited, and beyond it the oldest packet of the longest queue goes, by bytes.
//! - `ack_filter_rules.rs`: which acknowledgement of its queue a packet makes needless as it comes.
//! - `capacity`: an estimate of the rate, for a shaper at an ingress.
//!
//! Memory is counted as in `truesize.rs`, a packet of 1514 bytes as 2304: the kernel counts what it allocates for a
//! packet, 1.5 to 12 times its bytes, and without it a limit meant for small packets would hold too many.
//!
//! As in the kernel, and worth knowing:
//! - The first drop of a queue that was never used comes without the interval (`cobalt_core.rs`). So a burst of ten
//!   packets, which CoDel lets pass, loses one. This happens once in each queue: a CAKE that has been in service for
//!   hours does it no more. What `start` sets is just this: the root of each queue, of all tins, as after a use
//!   (`settled`), or none (`fresh`). All else that outlasts an idle time has no effect on packets, or is the same in
//!   both: which flow had a queue, averages of delays, `autorate_ingress`, whose estimate begins with `bandwidth`.
//! - Without `bandwidth` no rate is known: `target` stays that of `rtt` on slow lines.
//! - Packets are counted as sent (`sent_packets`, `sent_bytes`) when they come.
//! - What cannot be told apart by its hash shares a queue for good: hashes have 32 bits.
//! - A flow that shared a queue gets the next one of its set that is free, while packets of it still wait in the old
//!   one: they may be overtaken.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

mod capacity;
mod diffserv;
mod isolation;
mod longest;
mod round_trip;
mod shaper;
mod statistics;
mod tin;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Packet, Rate, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::codel::cobalt_core::PacketState;
use crate::fair::flows::Flows;
use crate::qdisc::truesize::truesize;
use crate::start::Start;
use crate::wrappers::ack_filter_rules::needless;
use crate::{Build, Context, Derived, Describe, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};
use capacity::Capacity;
use diffserv::Diffserv;
use isolation::{FlowMode, Hasher, QUEUES};
use longest::Longest;
use round_trip::RoundTrip;
use shaper::{Cells, Framing, NO_SIZES, Shaper};
use tin::{Rates, Tin};

parameters! {
    /// CAKE: a shaper, classes of service, fairness between hosts and between flows, and an AQM for each flow.
    ///
    /// Differences from Linux:
    ///
    /// - A packet that is to be marked and to be dropped by BLUE is dropped, and not counted as marked.
    /// - Of a device there are `mtu` and `hdr_offset`. Filters of `tc`, firewall marks (`fwmark`), NAT (`nat`) and the
    ///   splitting of segments (`split-gso`) do not exist.
    /// - `wash` does not exist: it clears the code point for nobody, because everything behind a queue knows packets by
    ///   their labels.
    /// - Hosts are the numbers that packets carry. The hash of a flow is over its number and a salt from the random
    ///   stream of the queue.
    /// - What a packet takes of memory is counted as the kernel counts a packet that is copied into memory of its own:
    ///   2304 bytes for a full packet of Ethernet (`truesize`). Drivers differ.
    /// - The acknowledgement filter looks at no timestamps.
    /// - Later kernels differ: 6.13 has roots of `count` that are right to the last place; since 6.14 BLUE is not asked
    ///   about a packet that CoDel drops, and the heap of the longest queues is built from another place on, so that
    ///   queues of one length may come in another order; 7.0 has `cake_mq`, which shares a rate among the queues of a
    ///   device. Linux before 6.1.110 counted the flows of hosts wrongly where two flows shared a queue.
    pub struct Config {
        /// The rate to shape to, somewhat less than that of the line. Left out: unlimited, the line itself.
        pub bandwidth: Option<Rate> = None, "tc-cake: `unlimited`";
        /// Whether the rate follows an estimate of what arrives, beginning with `bandwidth`.
        pub autorate_ingress: bool = false, "tc-cake";
        /// The classes of service.
        pub diffserv: Diffserv = Diffserv::Diffserv3, "tc-cake";
        /// Which packets share a queue, and between whom queues are fair.
        pub flows: FlowMode = FlowMode::TripleIsolate, "tc-cake";
        /// Whether it stands behind the line that it shapes, at the ingress of a host: what is dropped has been sent,
        /// too, and senders are told earlier.
        pub ingress: bool = false, "tc-cake: `egress`";
        /// Which acknowledgements go for later ones of their queue.
        pub ack_filter: AckFilter = AckFilter::Disabled, "tc-cake: `no-ack-filter`";
        /// A typical round trip: the interval of COBALT, whose target is a twentieth of it. Beside times it may be one of
        /// tc's words: `datacentre` (100us), `lan` (1ms), `metro` (10ms), `regional` (30ms), `internet` (100ms), `oceanic`
        /// (300ms), `satellite` (1s), `interplanetary` (1000s).
        pub rtt: RoundTrip = RoundTrip(Span::from_millis(100)), "tc-cake: `internet`";
        /// What the line adds to each packet of IP, -64 to 256 bytes. Left out: nothing, and a packet counts with all
        /// its bytes (`raw`).
        pub overhead: Option<i64> = None, "tc-cake: `raw`";
        /// The least size on the line, at most 256B.
        pub mpu: Size = Size::from_bytes(0), "tc-cake";
        /// How the line frames what it sends.
        pub atm: Cells = Cells::None, "tc-cake";
        /// The most memory that may be used. Left out: what `bandwidth` sends in four times `rtt`, but at least 4194304B;
        /// and never more than 10240 packets of `mtu` have.
        pub memlimit: Option<Size> = None, "Linux 6.1";
        /// The size of a full packet, headers included: what `target` makes room for on slow lines.
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// The bytes of a packet's size that lie below IP, which `overhead` takes the place of.
        pub hdr_offset: u32 = 14, "Ethernet";
        /// Whether each flow queue has dropped before (`settled`), or none was ever used: then the first drop in each comes
        /// without the interval.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// When an acknowledgement goes for a later one.
    pub enum AckFilter {
        /// Never.
        Disabled = "disabled",
        /// If another one that would do still waits (tc's `ack-filter`).
        Conservative = "conservative",
        /// Whenever a later one says all it says.
        Aggressive = "aggressive",
    }
}

/// The most bytes that a size in 32 bits tells of.
const MOST_BYTES: u64 = u32::MAX as u64;
/// The most packets, by which memory is limited whatever else is said (`sch->limit`).
const MOST_PACKETS: u64 = 10_240;

impl Config {
    /// `rtt` in microseconds, as the kernel is told, and the target that `tc` makes of it.
    fn interval_and_target_us(&self) -> (u64, u64) {
        let interval = (self.rtt.0.nanos() / 1000).max(1);
        (interval, (interval / 20).max(1))
    }

    /// What the tins have of this rate, in bytes per second.
    fn rates(&self, rate: u64) -> impl Iterator<Item = Rates> {
        let (interval, target) = self.interval_and_target_us();
        let mtu = self.mtu.bytes() as u32;
        let shares = self.diffserv.shares(rate).into_iter();
        shares.map(move |share| Rates::new(share, mtu, target * 1000, interval * 1000))
    }

    /// The most memory at this rate.
    fn memory_limit(&self, rate: u64) -> u64 {
        let (interval, _) = self.interval_and_target_us();
        let by_packets = MOST_PACKETS * self.mtu.bytes();
        let own = self.memlimit.map(Size::bytes);
        let by_rate = || match rate {
            0 => MOST_BYTES,
            // Products wrap in the kernel, too; the lower 32 bits of the quotient are compared.
            rate => ((rate.wrapping_mul(interval) / 250_000) & MOST_BYTES).max(4 << 20),
        };
        own.unwrap_or_else(by_rate).min(by_packets.max(own.unwrap_or(0)))
    }

    /// In bytes per second; 0 for unlimited.
    fn rate(&self) -> u64 {
        self.bandwidth.map_or(0, |bandwidth| bandwidth.bps() / 8)
    }

    fn is_shaped(&self) -> bool {
        self.bandwidth.is_some() || self.autorate_ingress
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let least = Rate::from_bps(8);
        let is_rate = self.bandwidth.is_none_or(|bandwidth| bandwidth >= least);
        errors.check(is_rate, "bandwidth", format_args!("must be at least {least}"));
        let is_time = (1..=MOST_BYTES).contains(&(self.rtt.0.nanos() / 1000));
        errors.check(is_time, "rtt", "must be from 1us to 4294s");
        let is_overhead = self.overhead.is_none_or(|overhead| (-64..=256).contains(&overhead));
        errors.check(is_overhead, "overhead", "must be from -64 to 256");
        errors.check(self.mpu.bytes() <= 256, "mpu", "must be at most 256B");
        let memory = |size: u64| (1..=MOST_BYTES).contains(&size);
        let is_memory = self.memlimit.is_none_or(|limit| memory(limit.bytes()));
        errors.check(is_memory, "memlimit", "must be from 1B to 4294967295B");
        let is_mtu = (64..=u64::from(u16::MAX)).contains(&self.mtu.bytes());
        errors.check(is_mtu, "mtu", "must be from 64B to 65535B");
        errors.check(self.hdr_offset <= 256, "hdr_offset", "must be at most 256");
        let makes_room = self.is_shaped() || self.memlimit.is_none();
        errors.check_effect(makes_room, self, &["mtu"], "without bandwidth where memlimit is given");
        errors.check_effect(self.overhead.is_some(), self, &["hdr_offset"], "without overhead");
        errors.finish(())?;
        Ok(Box::new(Cake::new(self)))
    }
}

impl Describe for Config {
    fn wants_hosts(&self) -> bool {
        self.flows.wants_hosts()
    }

    fn holds_back(&self) -> bool {
        self.is_shaped()
    }

    fn outlet(&self, line: Rate) -> Rate {
        match self.bandwidth {
            Some(bandwidth) if !self.autorate_ingress => line.min(bandwidth),
            _ => line,
        }
    }

    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let mut derived = vec![Derived::new("memlimit", self.memory_limit(self.rate()) as f64, "bytes")];
        let rates: Vec<Rates> = self.rates(self.rate()).collect();
        for (place, &tin) in self.diffserv.order().iter().enumerate() {
            let Rates { share, times, flow_quantum, .. } = rates[tin];
            let mut tell = |name: &str, value: f64, unit| {
                derived.push(Derived::new(&format!("tins.{place}.{name}"), value, unit));
            };
            if share.rate > 0 {
                tell("threshold_rate", share.rate as f64 * 8.0, "bps");
            }
            tell("target", Span::from_nanos(times.target).seconds(), "s");
            tell("interval", Span::from_nanos(times.interval).seconds(), "s");
            tell("flow_quantum", flow_quantum.into(), "bytes");
        }
        derived
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let too_fast = self.bandwidth.filter(|&bandwidth| bandwidth > rate && !self.autorate_ingress);
        let told = too_fast.map(|bandwidth| {
            let problem = format!("{bandwidth} is more than the line has, {rate}: the shaper never acts");
            ConfigError::at("bandwidth", problem)
        });
        told.into_iter().collect()
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        Some(statistics::options(self))
    }
}

impl TestCases for Config {
    fn has_flow_queues(&self) -> bool {
        true
    }

    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"bandwidth": "4Mbps", "diffserv": "besteffort", "flows": "flows", "memlimit": "60kB"}),
            json!({"diffserv": "diffserv4", "flows": "flowblind", "memlimit": "60kB", "rtt": "5ms"}),
            json!({"bandwidth": "6Mbps", "diffserv": "diffserv8", "flows": "dual-srchost", "ingress": true}),
            json!({"diffserv": "precedence", "flows": "dual-dsthost", "ack_filter": "aggressive", "rtt": "1ms"}),
            json!({"bandwidth": "3Mbps", "flows": "hosts", "atm": "atm", "overhead": 32, "mpu": "64B", "memlimit": "70kB"}),
            json!({"bandwidth": "64kbps", "flows": "srchost", "atm": "ptm", "overhead": -14, "ingress": true}),
            json!({"autorate_ingress": true, "ingress": true, "flows": "dsthost", "memlimit": "60kB"}),
            json!({"autorate_ingress": true, "bandwidth": "20Mbps", "ack_filter": "conservative", "rtt": "10ms"}),
        ]
    }
}

/// The most tins, all of which the heap of the longest queue knows.
const MOST_TINS: u32 = 8;

/// How long a queue is, in bytes; those of tins that do not exist are empty.
#[inline]
fn lengths(packets: &Flows<Stamp>) -> impl Fn(u32) -> u64 {
    |number| if number < packets.numbers() { packets.of(number).bytes } else { 0 }
}

/// What is noted of a packet as it comes.
#[derive(Clone, Copy)]
struct Stamp {
    came: Instant,
    takes: Takes,
}

/// What a packet of some size takes, in bytes.
#[derive(Clone, Copy)]
struct Takes {
    /// Of the line behind.
    line: u32,
    memory: u32,
}

/// The running discipline.
#[derive(Clone)]
struct Cake {
    config: Config,
    tins: Vec<Tin>,
    /// The packets of all queues; queue `q` of tin `t` has the number `t * QUEUES + q`.
    packets: Flows<Stamp>,
    hasher: Hasher,
    /// By label, and of packets without one; the place of the tin in `tins`.
    tin_of_label: Vec<u8>,
    tin_of_others: u8,
    shaper: Shaper,
    framing: Framing,
    /// The size of the last packet, and what it takes; no size at first.
    last_size: (u32, Takes),
    capacity: Capacity,
    longest: Longest,
    memory: u64,
    memory_limit: u64,
    /// The most that was used (`buffer_max_used`).
    memory_used: u64,
    /// The tin that was served last.
    current: usize,
    /// Until when all that waits is held back, if the last call found it so.
    held_until: i64,
    overlimits: u64,
    /// Packets dropped because memory was full.
    drop_overlimit: u64,
}

impl Cake {
    fn new(config: &Config) -> Self {
        let rate = config.rate();
        let counts = config.flows.counts();
        let tins: Vec<Tin> = config.rates(rate).map(|rates| Tin::new(rates, counts, config.start)).collect();
        let count = tins.len() as u32;
        Self {
            shaper: Shaper::new(tins[0].rates.pace),
            tins,
            packets: Flows::numbered(count * QUEUES),
            hasher: Hasher::new(config.flows),
            tin_of_label: Vec::new(),
            tin_of_others: config.diffserv.tin(0),
            framing: Framing {
                hdr_offset: config.hdr_offset,
                overhead: config.overhead,
                mpu: config.mpu.bytes() as u32,
                atm: config.atm,
                network_size: NO_SIZES,
                adjusted_size: NO_SIZES,
                average_offset: 0,
            },
            last_size: (u32::MAX, Takes { line: 0, memory: 0 }),
            capacity: Capacity::new(rate),
            longest: Longest::new(QUEUES, MOST_TINS),
            memory: 0,
            memory_limit: config.memory_limit(rate),
            memory_used: 0,
            current: 0,
            held_until: 0,
            overlimits: 0,
            drop_overlimit: 0,
            config: config.clone(),
        }
    }

    /// Makes this the rate, in bytes per second.
    #[cold]
    fn set_rate(&mut self, rate: u64) {
        for (tin, rates) in self.tins.iter_mut().zip(self.config.rates(rate)) {
            tin.rates = rates;
        }
        self.shaper.pace = self.tins[0].rates.pace;
        self.memory_limit = self.config.memory_limit(rate);
    }

    /// What a packet of this size takes.
    #[inline]
    fn takes(&mut self, bytes: u16) -> Takes {
        if self.last_size.0 != u32::from(bytes) {
            let takes = Takes { line: self.framing.adjusted(bytes), memory: truesize(bytes) as u32 };
            self.last_size = (bytes.into(), takes);
        }
        self.last_size.1
    }

    /// Drops what the packet that is to join the queue `number` makes needless; how many bytes that are.
    #[inline(never)]
    fn filter_acks(&mut self, tin: usize, number: u32, packet: &Packet, cx: &mut Context<'_>) -> u16 {
        let aggressive = self.config.ack_filter == AckFilter::Aggressive;
        let Some(newest) = cx.observer.acknowledgement(packet) else { return 0 };
        let connection = |packet: &Packet| (packet.flow, packet.source, packet.destination);
        let waiting = self.packets.packets(number).map(|(older, stamp)| {
            let is_of_it = connection(older) == connection(packet);
            let told = is_of_it.then(|| cx.observer.acknowledgement(older)).flatten();
            ((older.id, stamp.takes), told)
        });
        let Some((id, takes)) = needless(waiting, &newest, aggressive) else { return 0 };
        let needless = self.packets.take_id(number, id).packet;
        self.memory -= u64::from(takes.memory);
        let tin = &mut self.tins[tin];
        tin.backlog_bytes -= u64::from(needless.bytes);
        tin.counters.ack_drops += 1;
        if self.config.ingress {
            tin.charge(&mut self.shaper, takes.line, cx.now.nanos() as i64, true);
        }
        cx.drop(needless, Reason::AckFilter);
        needless.bytes
    }

    /// Drops the oldest packet of the longest queue.
    #[cold]
    fn drop_from_longest(&mut self, cx: &mut Context<'_>) {
        let now = cx.now.nanos() as i64;
        let number = self.longest.find(lengths(&self.packets));
        if self.packets.of(number).packets == 0 {
            return self.longest.on_mistake();
        }
        let (tin, queue) = ((number / QUEUES) as usize, number % QUEUES);
        let (packet, Stamp { takes, .. }) = self.packets.take_front_stamped(number);
        self.memory -= u64::from(takes.memory);
        self.drop_overlimit += 1;
        let tin = &mut self.tins[tin];
        tin.backlog_bytes -= u64::from(packet.bytes);
        tin.on_overflow(queue, now);
        if self.config.ingress {
            tin.charge(&mut self.shaper, takes.line, now, true);
        }
        self.longest.on_longest_shrunk(lengths(&self.packets));
        cx.drop(packet, Reason::Overmemory);
    }

    /// Moves on to the tin that is served next; `false` if none has anything.
    #[inline]
    fn choose_tin(&mut self, now: i64) -> bool {
        if self.shaper.pace.is_unlimited() { self.choose_by_deficit() } else { self.choose_by_time(now) }
    }

    /// The highest of the tins that have not had their share, or the one that will be first to have one.
    #[inline]
    fn choose_by_time(&mut self, now: i64) -> bool {
        let mut best = None;
        for (place, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
            let ahead = tin.clock.0 - now;
            if best.is_none_or(|(least, _)| ahead <= 0 || ahead <= least) {
                best = Some((ahead, place));
            }
        }
        self.current = best.map_or(0, |(_, place)| place);
        best.is_some()
    }

    /// Tins in turn, as long as their credit lasts.
    #[inline]
    fn choose_by_deficit(&mut self) -> bool {
        let (mut place, mut rounds, mut is_empty) = (self.current, 0, true);
        loop {
            let Some(tin) = self.tins.get_mut(place) else {
                place = 0;
                rounds += 1;
                if rounds > 1 && is_empty {
                    self.current = place;
                    return false;
                }
                continue;
            };
            let has_flows = tin.has_flows();
            if has_flows && tin.deficit >= 0 {
                self.current = place;
                return true;
            }
            if tin.deficit <= 0 {
                tin.deficit += i32::from(tin.rates.share.quantum);
            }
            is_empty &= !has_flows;
            place += 1;
        }
    }

    /// The next packet of the current tin; `None` if a queue, or all, turned out to be empty. Decaying queues are looked
    /// at first if `decaying_first`, once.
    #[inline]
    fn serve(&mut self, decaying_first: &mut bool, cx: &mut Context<'_>) -> Option<Packet> {
        let now = cx.now.nanos() as i64;
        let Self { tins, packets, longest, shaper, memory, current, config: Config { ingress, .. }, .. } =
            self;
        let (tin, first) = (&mut tins[*current], *current as u32 * QUEUES);
        'turn: loop {
            let queue = tin.turn(std::mem::take(decaying_first))?;
            let number = first + queue;
            let mut waits = packets.of(number).packets > 0;
            if !tin.has_credit(queue, waits, cx.rng) {
                continue;
            }
            while waits {
                let (mut packet, Stamp { came, takes }) = packets.take_front_stamped(number);
                waits = packets.of(number).packets > 0;
                *memory -= u64::from(takes.memory);
                tin.backlog_bytes -= u64::from(packet.bytes);
                longest.on_taken(number, lengths(packets));
                let delay = cx.now.since(came).nanos();
                let judged = PacketState {
                    sojourn: delay,
                    can_be_marked: packet.ecn.can_be_marked(),
                    bulk_flows: if *ingress { tin.flows.bulk } else { 0 },
                };
                let verdict = tin.judge(queue, judged, now, cx.rng);
                match verdict.drop {
                    Some(why) if waits => {
                        tin.counters.drops += 1;
                        cx.drop(packet, why);
                        if *ingress {
                            tin.charge(shaper, takes.line, now, true);
                            tin.take_credit(queue, takes.line);
                            continue 'turn;
                        }
                    }
                    _ => {
                        if verdict.mark {
                            tin.counters.ecn_marks += 1;
                            cx.mark(&mut packet, Reason::Sojourn);
                        }
                        tin.delays.add(delay);
                        tin.charge(shaper, takes.line, now, false);
                        tin.take_credit(queue, takes.line);
                        longest.on_departure();
                        return Some(packet);
                    }
                }
            }
            tin.on_empty(queue, now);
            return None;
        }
    }
}

impl QueueDiscipline for Cake {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let now = cx.now.nanos() as i64;
        let label = self.tin_of_label.get(usize::from(packet.label));
        let place = usize::from(*label.unwrap_or(&self.tin_of_others));
        let flow = self.hasher.flow(&packet, cx.rng);
        let tin = &mut self.tins[place];
        let is_blind = self.config.flows == FlowMode::FlowBlind;
        let queue = if is_blind { 0 } else { tin.queue_of(flow, || self.hasher.hosts(&packet)) };
        let number = place as u32 * QUEUES + queue;
        if tin.backlog_bytes == 0 {
            tin.clock.on_first(now);
            if self.packets.backlog().packets == 0 {
                self.overlimits += u64::from(self.shaper.on_first(now));
            }
        }
        tin.counters.max_bytes = tin.counters.max_bytes.max(packet.bytes);
        let takes = self.takes(packet.bytes);
        self.framing.count_offset();
        let filters = self.config.ack_filter != AckFilter::Disabled;
        let gone = if filters { self.filter_acks(place, number, &packet, cx) } else { 0 };
        self.packets.push(number, packet, Stamp { came: cx.now, takes });
        self.memory += u64::from(takes.memory);
        let tin = &mut self.tins[place];
        tin.backlog_bytes += u64::from(packet.bytes);
        tin.counters.packets += 1;
        tin.counters.bytes += u64::from(packet.bytes);
        self.longest.on_arrival(number, lengths(&self.packets));
        if self.config.autorate_ingress {
            let bytes = i64::from(packet.bytes) - i64::from(gone);
            if let Some(rate) = self.capacity.on_arrival(bytes, now) {
                self.set_rate(rate);
            }
        }
        self.tins[place].on_arrival(queue, cx.rng);
        self.memory_used = self.memory_used.max(self.memory);
        while self.memory > self.memory_limit {
            self.drop_from_longest(cx);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let now = cx.now.nanos() as i64;
        let mut decaying_first = true;
        while self.packets.backlog().packets > 0 {
            if let Some(until) = self.shaper.held_until(now) {
                self.held_until = until;
                self.overlimits += 1;
                return None;
            }
            if !self.choose_tin(now) {
                return None;
            }
            if let Some(packet) = self.serve(&mut decaying_first, cx) {
                return Some(packet);
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn next_ready(&self) -> Option<Instant> {
        (self.packets.backlog().packets > 0).then(|| Instant::from_nanos(self.held_until as u64))
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        let number = usize::from(number);
        if self.tin_of_label.len() <= number {
            self.tin_of_label.resize(number + 1, self.tin_of_others);
        }
        self.tin_of_label[number] = self.config.diffserv.tin(label.dscp);
    }
}

impl Report for Cake {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        statistics::gauges(self, show);
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        statistics::statistics(self)
    }
}
