//! CAKE: a queue discipline that combines a shaper, tins for service classes, fairness between hosts and between flows,
//! and a COBALT instance for each flow.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018; `tc-cake(8)`; Linux 6.1's `net/sched/sch_cake.c` in its last stable releases. The code
//! reproduces each decision of the kernel with the kernel's integer arithmetic. The modules contain:
//! - `shaper`: the time at which the next packet may be sent, and the packet's size on the downstream link.
//! - `diffserv`: the packet's tin, selected by code point. If the shaper is on, the scheduler serves the tin that has
//!   the highest priority among the tins that are below their share. If all tins have reached their shares, the tin
//!   that is due first is served. If the shaper is off, the tins are served by deficit round robin.
//! - `isolation`: the packet's queue, selected by a hash from a set of eight queues, and the number of bulk flows of
//!   the packet's hosts.
//! - `tin`: the order of service within a tin. Sparse queues are served first, and a queue's quantum is divided by the
//!   number of bulk flows of the flow's hosts.
//! - `codel/cobalt_core.rs`: the decision to drop or mark a packet at dequeue. The last packet of a queue is never
//!   dropped.
//! - `longest`: the search for the longest queue. If the memory limit is exceeded, the oldest packet of the longest
//!   queue (in bytes) is dropped.
//! - `wrappers/ack_filter_rules.rs`: the rules by which a new packet makes a queued acknowledgement redundant.
//! - `capacity`: an estimate of the link capacity, for a shaper at an ingress.
//!
//! The memory of a packet is computed by `qdisc/truesize.rs`, according to which a packet of 1514 bytes uses 2304 bytes
//! of memory. The kernel counts the memory allocated for a packet, which is 1.5 to 12 times the packet's size. If
//! aqmlab counted only the packet's size, the memory limit would admit too many small packets.
//!
//! Peculiarities of the kernel that aqmlab reproduces:
//! - In a queue that was never used, the first drop occurs without waiting for the interval (`codel/cobalt_core.rs`). A
//!   burst of ten packets, from which CoDel would drop nothing, therefore loses one packet. This early drop happens
//!   once in each queue, and no longer happens in a CAKE instance that has been in service for hours. The only state
//!   that `start` sets is therefore the inverse square root in each queue of all tins: the inverse square root either
//!   has the value that results from earlier use (`settled`), or is unset (`fresh`). The assignment of queues to flows
//!   and the average delays also survive an idle period, but either have no effect on packets, or are equal for both
//!   values of `start`. The estimate of `autorate_ingress` starts at `bandwidth` for both values of `start`.
//! - Without `bandwidth`, CAKE does not know the rate, so `target` depends only on `rtt`, even on slow links.
//! - The `sent_packets` and `sent_bytes` counters are updated when a packet arrives.
//! - Flows with equal hashes always share a queue; hashes are 32 bits long.
//! - A flow that shares a queue is assigned the next queue of its set that becomes free. Packets of this flow that are
//!   still in the shared queue may be overtaken.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

mod capacity;
mod diffserv;
mod isolation;
mod longest;
mod round_trip;
mod shaper;
mod statistics;
mod tc;
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
use crate::tc::Qdisc;
use crate::wrappers::ack_filter_rules::redundant;
use crate::{Build, Context, Derived, Describe, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};
use capacity::Capacity;
use diffserv::Diffserv;
use isolation::{FlowMode, Hasher, QUEUES};
use longest::Longest;
use round_trip::RoundTrip;
use shaper::{Cells, Framing, NO_SIZES, Shaper};
use tin::{Rates, Tin};

parameters! {
    /// CAKE: combines a shaper, service classes, fairness between hosts and between flows, and an AQM for each flow.
    ///
    /// Differences from Linux:
    ///
    /// - If CoDel marks a packet and BLUE drops the same packet, the packet is not counted as marked.
    /// - The `mtu` and `hdr_offset` parameters represent the network device. `tc` filters, firewall marks (`fwmark`),
    ///   NAT (`nat`) and the splitting of GSO segments (`split-gso`) are not supported.
    /// - `wash` is not supported. The option would have no effect, because, downstream of a queue, aqmlab identifies
    ///   packets by their labels, not by their code points.
    /// - Hosts are identified by numbers in the packets. The hash of a flow is computed from the flow's number and a
    ///   salt drawn from the queue's random stream.
    /// - A packet's memory is counted as the kernel counts a packet that is copied into a separate buffer: 2304 bytes
    ///   for a full Ethernet packet (`truesize`). With real network drivers, a packet may use a different amount of
    ///   memory.
    /// - The acknowledgement filter ignores timestamps.
    /// - Other kernel versions differ from this model. In Linux 6.13, the inverse square roots of `count` are exact to
    ///   the last digit. Since Linux 6.14, BLUE is not applied to packets that CoDel drops, and the construction of the
    ///   heap of the longest queues starts at a different position, so that queues of equal length may be in a
    ///   different order. Linux 7.0 provides `cake_mq`, which divides one shaper rate among the queues of a device.
    ///   Linux versions before 6.1.110 counted the flows of hosts incorrectly if two flows shared a queue.
    pub struct Config {
        /// Shaper rate, which should be slightly lower than the link rate. If omitted, the shaper is off.
        pub bandwidth: Option<Rate> = None, "tc-cake: `unlimited`";
        /// Whether the shaper rate follows an estimate of the arrival rate, starting at `bandwidth`.
        pub autorate_ingress: bool = false, "tc-cake";
        /// Service classes (tins) to which packets are assigned.
        pub diffserv: Diffserv = Diffserv::Diffserv3, "tc-cake";
        /// Packets that share a queue, and the entities (flows or hosts) between which CAKE is fair.
        pub flows: FlowMode = FlowMode::TripleIsolate, "tc-cake";
        /// Whether CAKE is downstream of the bottleneck link, at the ingress of a host. With `ingress`, dropped packets
        /// are charged like sent packets, because the dropped packets have already crossed the link. In addition,
        /// congestion is signalled earlier.
        pub ingress: bool = false, "tc-cake: `egress`";
        /// Rule by which acknowledgements are dropped in favour of later acknowledgements in the same queue.
        pub ack_filter: AckFilter = AckFilter::Disabled, "tc-cake: `no-ack-filter`";
        /// Typical round-trip time. COBALT's interval equals this time, and COBALT's target is a twentieth of this
        /// time. The value must be a time or one of the keywords of `tc`: `datacentre` (100us), `lan` (1ms), `metro`
        /// (10ms), `regional` (30ms), `internet` (100ms), `oceanic` (300ms), `satellite` (1s), `interplanetary`
        /// (1000s).
        pub rtt: RoundTrip = RoundTrip(Span::from_millis(100)), "tc-cake: `internet`";
        /// Number of bytes that the link adds to each IP packet, from -64 to 256. If omitted, no bytes are added, and
        /// the full size of a packet is used, including `hdr_offset` (`raw`).
        pub overhead: Option<i64> = None, "tc-cake: `raw`";
        /// Minimum size of a packet on the link, at most 256B.
        pub mpu: Size = Size::from_bytes(0), "tc-cake";
        /// Framing of the link layer, which increases the size of packets.
        pub atm: Cells = Cells::None, "tc-cake";
        /// Maximum memory used by queued packets. Default: the number of bytes sent at `bandwidth` during four times
        /// `rtt`, but at least 4194304B and at most the size of 10240 full packets (`mtu`).
        pub memlimit: Option<Size> = None, "Linux 6.1";
        /// Size of a full packet, including headers. On slow links, COBALT's target increases with the transmission
        /// time of a full packet.
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Number of bytes below the IP header that are counted in a packet's size. If `overhead` is set, `overhead`
        /// replaces these bytes.
        pub hdr_offset: u32 = 14, "Ethernet";
        /// State of the flow queues at the start of the run. `settled`: each flow queue has dropped packets before.
        /// `fresh`: no flow queue has ever been used, so the first drop in each queue occurs without waiting for the
        /// interval.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// The condition under which an acknowledgement is dropped in favour of a later acknowledgement.
    pub enum AckFilter {
        /// No acknowledgement is dropped.
        Disabled = "disabled",
        /// An acknowledgement is dropped if another acknowledgement with the same effect remains in the queue
        /// (`ack-filter` of `tc`).
        Conservative = "conservative",
        /// An acknowledgement is dropped if a later acknowledgement makes it redundant.
        Aggressive = "aggressive",
    }
}

/// The largest number of bytes that fits into a 32-bit integer.
const MAX_BYTES: u64 = u32::MAX as u64;
/// The maximum number of packets, which limits memory regardless of the parameters (`sch->limit`).
const MAX_PACKETS: u64 = 10_240;

impl Config {
    /// Returns `rtt`, as passed to the kernel, and the target that `tc` derives from `rtt`, both in microseconds.
    fn interval_and_target_us(&self) -> (u64, u64) {
        let interval = (self.rtt.0.nanos() / 1000).max(1);
        (interval, (interval / 20).max(1))
    }

    /// Returns the values of each tin that depend on the shaper rate `rate`, in bytes per second.
    fn rates(&self, rate: u64) -> impl Iterator<Item = Rates> {
        let (interval, target) = self.interval_and_target_us();
        let mtu = self.mtu.bytes() as u32;
        let shares = self.diffserv.shares(rate).into_iter();
        shares.map(move |share| Rates::new(share, mtu, target * 1000, interval * 1000))
    }

    /// Returns the memory limit, in bytes, at the shaper rate `rate`.
    fn memory_limit(&self, rate: u64) -> u64 {
        let (interval, _) = self.interval_and_target_us();
        let by_packets = MAX_PACKETS * self.mtu.bytes();
        let own = self.memlimit.map(Size::bytes);
        let by_rate = || match rate {
            0 => MAX_BYTES,
            // As in the kernel, the product may wrap around, and only the lower 32 bits of the quotient are compared.
            rate => ((rate.wrapping_mul(interval) / 250_000) & MAX_BYTES).max(4 << 20),
        };
        own.unwrap_or_else(by_rate).min(by_packets.max(own.unwrap_or(0)))
    }

    /// Returns the shaper rate in bytes per second; 0 means unlimited.
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
        let is_time = (1..=MAX_BYTES).contains(&(self.rtt.0.nanos() / 1000));
        errors.check(is_time, "rtt", "must be from 1us to 4294s");
        let is_overhead = self.overhead.is_none_or(|overhead| (-64..=256).contains(&overhead));
        errors.check(is_overhead, "overhead", "must be from -64 to 256");
        errors.check(self.mpu.bytes() <= 256, "mpu", "must be at most 256B");
        let memory = |size: u64| (1..=MAX_BYTES).contains(&size);
        let is_memory = self.memlimit.is_none_or(|limit| memory(limit.bytes()));
        errors.check(is_memory, "memlimit", "must be from 1B to 4294967295B");
        let is_mtu = (64..=u64::from(u16::MAX)).contains(&self.mtu.bytes());
        errors.check(is_mtu, "mtu", "must be from 64B to 65535B");
        errors.check(self.hdr_offset <= 256, "hdr_offset", "must be at most 256");
        let uses_mtu = self.is_shaped() || self.memlimit.is_none();
        errors.check_effect(uses_mtu, self, &["mtu"], "without bandwidth if memlimit is set");
        errors.check_effect(self.overhead.is_some(), self, &["hdr_offset"], "without overhead");
        errors.finish(())?;
        Ok(Box::new(Cake::new(self)))
    }
}

impl Describe for Config {
    fn needs_hosts(&self) -> bool {
        self.flows.needs_hosts()
    }

    fn holds_back(&self) -> bool {
        self.is_shaped()
    }

    fn outlet(&self, link: Rate) -> Rate {
        match self.bandwidth {
            Some(bandwidth) if !self.autorate_ingress => link.min(bandwidth),
            _ => link,
        }
    }

    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let mut derived = vec![Derived::new("memlimit", self.memory_limit(self.rate()) as f64, "bytes")];
        let rates: Vec<Rates> = self.rates(self.rate()).collect();
        for (index, &tin) in self.diffserv.order().iter().enumerate() {
            let Rates { share, times, flow_quantum, .. } = rates[tin];
            let mut add = |name: &str, value: f64, unit| {
                derived.push(Derived::new(&format!("tins.{index}.{name}"), value, unit));
            };
            if share.rate > 0 {
                add("threshold_rate", share.rate as f64 * 8.0, "bps");
            }
            add("target", Span::from_nanos(times.target).seconds(), "s");
            add("interval", Span::from_nanos(times.interval).seconds(), "s");
            add("flow_quantum", flow_quantum.into(), "bytes");
        }
        derived
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let too_fast = self.bandwidth.filter(|&bandwidth| bandwidth > rate && !self.autorate_ingress);
        let warning = too_fast.map(|bandwidth| {
            let problem =
                format!("exceeds the link rate of {rate} (got {bandwidth}); the shaper has no effect");
            ConfigError::at("bandwidth", problem)
        });
        warning.into_iter().collect()
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        Some(statistics::options(self))
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        tc::qdisc(self).finish()
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

/// The maximum number of tins. The heap of the longest queues always contains the queues of this many tins.
const MAX_TINS: u32 = 8;

/// Returns a function that computes the length of a queue in bytes, which is 0 for the queues of unused tins.
#[inline]
fn lengths(packets: &Flows<Stamp>) -> impl Fn(u32) -> u64 {
    |number| if number < packets.numbers() { packets.of(number).bytes } else { 0 }
}

/// The data that are recorded for a packet when this packet arrives.
#[derive(Clone, Copy)]
struct Stamp {
    arrival: Instant,
    cost: PacketCost,
}

/// The number of bytes that a packet uses on the link and in memory.
#[derive(Clone, Copy)]
struct PacketCost {
    /// Number of bytes on the downstream link.
    link: u32,
    memory: u32,
}

/// A CAKE queue: its tins, packets, clocks and counters.
#[derive(Clone)]
struct Cake {
    config: Config,
    tins: Vec<Tin>,
    /// The queued packets of all tins. Queue `q` of tin `t` is numbered `t * QUEUES + q`.
    packets: Flows<Stamp>,
    hasher: Hasher,
    /// For each label, the index in `tins` of the tin for packets with this label. `default_tin` is the index for
    /// packets without a label.
    tin_of_label: Vec<u8>,
    default_tin: u8,
    shaper: Shaper,
    framing: Framing,
    /// The size of the last packet and its cost. The initial value is a size that does not occur.
    last_size: (u32, PacketCost),
    capacity: Capacity,
    longest: Longest,
    memory: u64,
    memory_limit: u64,
    /// Maximum memory used so far (`buffer_max_used`).
    memory_used: u64,
    /// The tin that was served last.
    current: usize,
    /// The time at which the shaper may send again, if the shaper delayed all packets at the last call of `dequeue`.
    held_until: i64,
    overlimits: u64,
    /// Packets dropped because of the memory limit.
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
            default_tin: config.diffserv.tin(0),
            framing: Framing {
                hdr_offset: config.hdr_offset,
                overhead: config.overhead,
                mpu: config.mpu.bytes() as u32,
                atm: config.atm,
                network_size: NO_SIZES,
                adjusted_size: NO_SIZES,
                average_offset: 0,
            },
            last_size: (u32::MAX, PacketCost { link: 0, memory: 0 }),
            capacity: Capacity::new(rate),
            longest: Longest::new(QUEUES, MAX_TINS),
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

    /// Sets the shaper rate, in bytes per second.
    #[cold]
    fn set_rate(&mut self, rate: u64) {
        for (tin, rates) in self.tins.iter_mut().zip(self.config.rates(rate)) {
            tin.rates = rates;
        }
        self.shaper.pace = self.tins[0].rates.pace;
        self.memory_limit = self.config.memory_limit(rate);
    }

    /// Returns the cost of a packet of this size.
    #[inline]
    fn cost(&mut self, bytes: u16) -> PacketCost {
        if self.last_size.0 != u32::from(bytes) {
            let cost = PacketCost { link: self.framing.adjusted(bytes), memory: truesize(bytes) as u32 };
            self.last_size = (bytes.into(), cost);
        }
        self.last_size.1
    }

    /// Drops the acknowledgement that becomes redundant when `packet` joins queue `number`. Returns the size of the
    /// dropped packet in bytes, or 0 if no acknowledgement is redundant.
    #[inline(never)]
    fn filter_acks(&mut self, tin: usize, number: u32, packet: &Packet, cx: &mut Context<'_>) -> u16 {
        let aggressive = self.config.ack_filter == AckFilter::Aggressive;
        let Some(newest) = cx.observer.acknowledgement(packet) else { return 0 };
        let connection = |packet: &Packet| (packet.flow, packet.source, packet.destination);
        let waiting = self.packets.packets(number).map(|(older, stamp)| {
            let is_same_connection = connection(older) == connection(packet);
            let acknowledgement = is_same_connection.then(|| cx.observer.acknowledgement(older)).flatten();
            ((older.id, stamp.cost), acknowledgement)
        });
        let Some((id, cost)) = redundant(waiting, &newest, aggressive) else { return 0 };
        let redundant = self.packets.take_id(number, id).packet;
        self.memory -= u64::from(cost.memory);
        let tin = &mut self.tins[tin];
        tin.backlog_bytes -= u64::from(redundant.bytes);
        tin.counters.ack_drops += 1;
        if self.config.ingress {
            tin.charge(&mut self.shaper, cost.link, cx.now.nanos() as i64, true);
        }
        cx.drop(redundant, Reason::AckFilter);
        redundant.bytes
    }

    /// Drops the oldest packet of the longest queue.
    #[cold]
    fn drop_from_longest(&mut self, cx: &mut Context<'_>) {
        let now = cx.now.nanos() as i64;
        let number = self.longest.find(lengths(&self.packets));
        if self.packets.of(number).packets == 0 {
            return self.longest.on_wrong_result();
        }
        let (tin, queue) = ((number / QUEUES) as usize, number % QUEUES);
        let (packet, Stamp { cost, .. }) = self.packets.take_front_stamped(number);
        self.memory -= u64::from(cost.memory);
        self.drop_overlimit += 1;
        let tin = &mut self.tins[tin];
        tin.backlog_bytes -= u64::from(packet.bytes);
        tin.on_overflow(queue, now);
        if self.config.ingress {
            tin.charge(&mut self.shaper, cost.link, now, true);
        }
        self.longest.on_longest_shrunk(lengths(&self.packets));
        cx.drop(packet, Reason::Overmemory);
    }

    /// Selects the next tin to serve. Returns `false` if all tins are empty.
    #[inline]
    fn choose_tin(&mut self, now: i64) -> bool {
        if self.shaper.pace.is_unlimited() { self.choose_by_deficit() } else { self.choose_by_time(now) }
    }

    /// Selects the tin with the highest priority among the tins that are below their share. If no tin is below its
    /// share, selects the tin that is due first.
    #[inline]
    fn choose_by_time(&mut self, now: i64) -> bool {
        let mut best = None;
        for (index, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
            let ahead = tin.clock.0 - now;
            if best.is_none_or(|(least, _)| ahead <= 0 || ahead <= least) {
                best = Some((ahead, index));
            }
        }
        self.current = best.map_or(0, |(_, index)| index);
        best.is_some()
    }

    /// Selects the next tin in turn whose deficit is not negative.
    #[inline]
    fn choose_by_deficit(&mut self) -> bool {
        let (mut index, mut rounds, mut is_empty) = (self.current, 0, true);
        loop {
            let Some(tin) = self.tins.get_mut(index) else {
                index = 0;
                rounds += 1;
                if rounds > 1 && is_empty {
                    self.current = index;
                    return false;
                }
                continue;
            };
            let has_flows = tin.has_flows();
            if has_flows && tin.deficit >= 0 {
                self.current = index;
                return true;
            }
            if tin.deficit <= 0 {
                tin.deficit += i32::from(tin.rates.share.quantum);
            }
            is_empty &= !has_flows;
            index += 1;
        }
    }

    /// Returns the next packet of the current tin, or `None` if the visited queue or the whole tin is empty. If
    /// `decaying_first` is true, decaying queues are visited before other queues, and the flag is reset.
    #[inline]
    fn serve(&mut self, decaying_first: &mut bool, cx: &mut Context<'_>) -> Option<Packet> {
        let now = cx.now.nanos() as i64;
        let Self { tins, packets, longest, shaper, memory, current, config: Config { ingress, .. }, .. } =
            self;
        let (tin, first) = (&mut tins[*current], *current as u32 * QUEUES);
        'turn: loop {
            let queue = tin.turn(std::mem::take(decaying_first))?;
            let number = first + queue;
            let mut is_backlogged = packets.of(number).packets > 0;
            if !tin.has_deficit(queue, is_backlogged, cx.rng) {
                continue;
            }
            while is_backlogged {
                let (mut packet, Stamp { arrival, cost }) = packets.take_front_stamped(number);
                is_backlogged = packets.of(number).packets > 0;
                *memory -= u64::from(cost.memory);
                tin.backlog_bytes -= u64::from(packet.bytes);
                longest.on_removed(number, lengths(packets));
                let delay = cx.now.since(arrival).nanos();
                let packet_state = PacketState {
                    sojourn: delay,
                    can_be_marked: packet.ecn.can_be_marked(),
                    bulk_flows: if *ingress { tin.flows.bulk } else { 0 },
                };
                let verdict = tin.judge(queue, packet_state, now, cx.rng);
                match verdict.drop {
                    Some(why) if is_backlogged => {
                        tin.counters.drops += 1;
                        cx.drop_on(packet, why, tin.evidence(queue, why));
                        if *ingress {
                            tin.charge(shaper, cost.link, now, true);
                            tin.charge_queue(queue, cost.link);
                            continue 'turn;
                        }
                    }
                    _ => {
                        if verdict.mark {
                            tin.counters.ecn_marks += 1;
                            cx.mark(&mut packet, Reason::Sojourn);
                        }
                        tin.delays.add(delay);
                        tin.charge(shaper, cost.link, now, false);
                        tin.charge_queue(queue, cost.link);
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
        let index = usize::from(*label.unwrap_or(&self.default_tin));
        let flow = self.hasher.flow(&packet, cx.rng);
        let tin = &mut self.tins[index];
        let is_blind = self.config.flows == FlowMode::FlowBlind;
        let queue = if is_blind { 0 } else { tin.queue_of(flow, || self.hasher.hosts(&packet)) };
        let number = index as u32 * QUEUES + queue;
        if tin.backlog_bytes == 0 {
            tin.clock.on_first(now);
            if self.packets.backlog().packets == 0 {
                self.overlimits += u64::from(self.shaper.on_first(now));
            }
        }
        tin.counters.max_bytes = tin.counters.max_bytes.max(packet.bytes);
        let cost = self.cost(packet.bytes);
        self.framing.count_offset();
        let has_filter = self.config.ack_filter != AckFilter::Disabled;
        let removed_bytes = if has_filter { self.filter_acks(index, number, &packet, cx) } else { 0 };
        self.packets.push(number, packet, Stamp { arrival: cx.now, cost });
        self.memory += u64::from(cost.memory);
        let tin = &mut self.tins[index];
        tin.backlog_bytes += u64::from(packet.bytes);
        tin.counters.packets += 1;
        tin.counters.bytes += u64::from(packet.bytes);
        self.longest.on_arrival(number, lengths(&self.packets));
        if self.config.autorate_ingress {
            let bytes = i64::from(packet.bytes) - i64::from(removed_bytes);
            if let Some(rate) = self.capacity.on_arrival(bytes, now) {
                self.set_rate(rate);
            }
        }
        self.tins[index].on_arrival(queue, cx.rng);
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
            self.tin_of_label.resize(number + 1, self.default_tin);
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
