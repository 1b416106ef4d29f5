//! Queue disciplines, and the [`Port`] that serves one: what a router does with packets that wait
//! for a line. Nothing here knows TCP, a simulator or a clock: time, randomness and whoever wants
//! to know of drops and marks come in as arguments.
//!
//! A discipline is one file with a `Config`, and one line in the registry below.

mod ack_filter;
pub mod ack_filter_rules;
mod acknowledgement;
mod adaptation;
mod adaptive_red;
mod average;
mod avq;
mod blue;
mod cake;
mod ce_threshold;
mod choke;
mod cobalt;
mod cobalt_core;
mod codel;
mod codel_core;
mod curve;
mod docsis_pie;
mod drop_nth;
mod drop_random;
mod drop_tail;
mod dualpi2;
pub mod edge;
mod fair;
mod fifo;
mod flow_queues;
mod fq;
mod fq_codel;
mod fq_pie;
mod gauge;
mod gred;
mod hash_index;
mod htb;
pub mod invariants;
pub mod line;
mod linux_red;
mod linux_red_core;
mod packet_label;
mod pi;
mod pie;
mod pimc;
mod pisa;
mod policer;
mod port;
pub mod qdisc;
mod red;
mod red_core;
mod rem;
mod rio;
mod rio_ps;
mod self_configuring_red;
mod sfb;
mod sfq;
mod shred;
mod spacing;
mod stab;
mod stage;
mod start;
mod tc;
#[cfg(test)]
mod template;
pub mod testing;
mod truesize;
mod window_average;

use aqm_net::{Backlog, ConfigError, ConfigErrors, Instant, Length, Packet, Rate, Rng, registry};
use dyn_clone::DynClone;
use serde_json::Value;

use fair::{drr, pfq, rr, scfq, stfq, wfq};
use qdisc::InnerQdisc;

pub use acknowledgement::Acknowledgement;
pub use fifo::Fifo;
pub use gauge::Gauge;
pub use line::Line;
pub use packet_label::{Label, Protocol};
pub use port::{Counters, Departure, Port, Ties};

registry! {
    /// The parameters of any queue discipline.
    pub enum Config: Build, "queues" = "queue discipline" {
        "drop-tail" => drop_tail,
        "drop-nth" => drop_nth,
        "drop-random" => drop_random,
        "red" => red,
        "linux-red" => linux_red,
        "choke" => choke,
        "gred" => gred,
        "sfb" => sfb,
        "adaptive-red" => adaptive_red,
        "self-configuring-red" => self_configuring_red,
        "shred" => shred,
        "rio" => rio,
        "rio-ps" => rio_ps,
        "pi" => pi,
        "pisa" => pisa,
        "pimc" => pimc,
        "blue" => blue,
        "avq" => avq,
        "rem" => rem,
        "cobalt" => cobalt,
        "pie" => pie,
        "docsis-pie" => docsis_pie,
        "fq-pie" => fq_pie,
        "codel" => codel,
        "cake" => cake,
        "dualpi2" => dualpi2,
        "drr" => drr,
        "rr" => rr,
        "stfq" => stfq,
        "scfq" => scfq,
        "wfq" => wfq,
        "pfq" => pfq,
        "fq-codel" => fq_codel,
        "sfq" => sfq,
        "fq" => fq,
        "htb" => htb,
        "ack-filter" => ack_filter,
        "ce-threshold" => ce_threshold,
        "policer" => policer,
        "stab" => stab,
    }
}

impl Config {
    /// Every discipline as it comes, and with the parameters that are hardest for it ([`Build::corners`]).
    ///
    /// # Panics
    /// If a corner is no table of parameters of its discipline.
    pub fn corners() -> Vec<Self> {
        let mut all = Self::every();
        for config in Self::every() {
            for mut table in config.corners() {
                table["kind"] = config.kind().into();
                all.push(Self::read(table).unwrap_or_else(|error| panic!("{}: {error}", config.kind())));
            }
        }
        all
    }
}

/// The drop function of the discipline that the table `queue` describes, for drawing it: the probability at each
/// of `averages` for a packet of this `class` whose window is `relative_window` times the average one. `None` where
/// the discipline has no such function; see [`Build::drop_curve`].
///
/// # Errors
/// If the table is no queue discipline, or its parameters are wrong.
pub fn drop_curve(
    queue: Value,
    averages: &[f64],
    relative_window: f64,
    class: u8,
) -> Result<Vec<Option<f64>>, ConfigErrors> {
    let config = Config::read(queue)?;
    config.build(Rate::from_bps(10_000_000))?;
    Ok(averages.iter().map(|&average| config.drop_curve(average, relative_window, class)).collect())
}

/// What every discipline's `Config` can do.
pub trait Build {
    /// Checks all parameters and makes the running discipline for a line of this rate.
    ///
    /// # Errors
    /// Every field that is wrong, and what is allowed.
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors>;

    /// The drop function: the probability of dropping a packet at this `average` queue (in the unit of the
    /// thresholds), before drops are spaced; `relative_window` is the window of the packet's sender over the
    /// average window, and `class` the packet's class. `None` if the discipline has no such function, or its
    /// parameters are wrong; that of a queue that adapts is the one it begins with.
    fn drop_curve(&self, _average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        None
    }

    /// The disciplines inside that the parameters name. What these want and choose is told with what the discipline
    /// wants and chooses itself, unless it says otherwise.
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        Vec::new()
    }

    /// Whether the discipline treats classes differently, so that packets ought to be classified before
    /// they arrive.
    fn wants_classes(&self) -> bool {
        any_inner(self, |config| config.wants_classes())
    }

    /// Whether the discipline looks at the windows of senders, so that packets ought to tell them.
    fn wants_windows(&self) -> bool {
        any_inner(self, |config| config.wants_windows())
    }

    /// Whether the discipline looks at the hosts that packets come from and go to, so that packets ought to tell them.
    fn wants_hosts(&self) -> bool {
        any_inner(self, |config| config.wants_hosts())
    }

    /// Whether the discipline holds packets back from a free line.
    fn holds_back(&self) -> bool {
        false
    }

    /// The rate at which packets leave a line of this rate at most: a shaper's own, if that is less.
    fn outlet(&self, line: Rate) -> Rate {
        line
    }

    /// The workloads that the parameters name, each with the place where they do.
    fn names_traffic(&self) -> Vec<(String, &str)> {
        let within = |(at, name): (String, _), place: &str| (format!("{place}.{at}"), name);
        of_inner(self.inner(Rate::default()), |config, _| config.names_traffic(), within)
    }

    /// What follows from the parameters and a line of this rate, and is written nowhere: thresholds and weights
    /// that a discipline chooses by itself. The parameters have been checked.
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        derived_inside(self, rate)
    }

    /// Tables of parameters, laid over the defaults, with which the algorithm has the hardest time: small
    /// queues, quick averages, every branch. The invariants are checked with each of them.
    fn corners(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Whether each flow has a queue of its own, so that the cost of a packet may depend on the flows that wait.
    fn has_flow_queues(&self) -> bool {
        false
    }

    /// The most that may wait, if that is not what the parameter `limit` says.
    fn holds_at_most(&self) -> Option<Length> {
        None
    }

    /// The `options` of `tc -s -j qdisc show` for this discipline, with its `kind` and `tc`'s own units (bytes, bytes
    /// per second, microseconds). `None` if the kernel has no such discipline.
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        None
    }

    /// What is allowed but suspicious, for a line of this rate: the place, and why. The parameters have
    /// been checked.
    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        warnings_inside(self, rate)
    }
}

/// A discipline inside another, as the parameters of the other have it.
pub struct Inner<'a> {
    /// Where its parameters stand, such as `classes.web.queue`.
    pub place: String,
    /// Its parameters.
    pub config: &'a Config,
    /// The rate of the line that it is built for.
    pub rate: Rate,
}

fn any_inner(outer: &(impl Build + ?Sized), holds: impl Fn(&Config) -> bool) -> bool {
    // Which disciplines are inside does not depend on the line.
    outer.inner(Rate::default()).iter().any(|inner| holds(inner.config))
}

/// What the disciplines inside of `outer` choose by themselves.
fn derived_inside(outer: &(impl Build + ?Sized), rate: Rate) -> Vec<Derived> {
    of_inner(outer.inner(rate), |config, rate| config.derived(rate), Derived::within)
}

/// What is suspicious in the disciplines inside of `outer`.
fn warnings_inside(outer: &(impl Build + ?Sized), rate: Rate) -> Vec<ConfigError> {
    of_inner(outer.inner(rate), |config, rate| config.warnings(rate), ConfigError::within)
}

/// What the disciplines inside tell, each with its place.
fn of_inner<'a, T>(
    inside: Vec<Inner<'a>>,
    ask: impl Fn(&'a Config, Rate) -> Vec<T>,
    within: impl Fn(T, &str) -> T,
) -> Vec<T> {
    let told = |Inner { place, config, rate }| {
        ask(config, rate).into_iter().map(|one| within(one, &place)).collect::<Vec<T>>()
    };
    inside.into_iter().flat_map(told).collect()
}

/// A value that a discipline has chosen by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The parameter that it stands for, such as `min_th`; of an inner discipline with its place before it.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit: `packets`, `bytes`, `bps`, or empty.
    pub unit: &'static str,
}

impl Derived {
    /// The `value` of `name`.
    fn new(name: &str, value: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, unit }
    }

    /// The same seen from outside: its discipline stands at `place`.
    fn within(mut self, place: &str) -> Self {
        self.name = format!("{place}.{}", self.name);
        self
    }
}

/// Packets that wait for a line, and the algorithm that admits, drops, marks and orders them.
///
/// A discipline is told of every arrival ([`enqueue`](Self::enqueue)) and asked for a packet each
/// time the line is free ([`dequeue`](Self::dequeue)). The packet on the line is no longer in the
/// queue. `dequeue` returns `None` only if nothing waits, or if [`next_ready`](Self::next_ready) says until when
/// all that waits is held back. At the end of a busy period it is called exactly once more, at the instant the
/// last transmission ends: this is when a queue becomes idle.
///
/// Fates are told through the [`Context`], not returned: RED refuses the packet that arrives,
/// CoDel drops while serving, fair queueing drops a packet of another flow. Calls come in the order
/// of time; an algorithm that adapts at intervals catches up on the next call.
///
/// A discipline that was just built is a prototype, too: each run takes a clone of it.
pub trait QueueDiscipline: DynClone + Send + Sync {
    /// A packet arrives at `cx.now`: keep it, or report its fate to `cx`.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// The line is free at `cx.now`: the packet to send next. `None` if nothing waits, or if all that waits is
    /// held back until [`next_ready`](Self::next_ready).
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// After a `dequeue` that returned `None` although packets wait: when to call it again, if none arrives before.
    fn next_ready(&self) -> Option<Instant> {
        None
    }

    /// A run begins: called once, before the first packet, by whoever runs a clone of what was built. Timers that have
    /// been running for long (`start = "settled"`) take a phase that `chance` draws, a stream for this alone. Without
    /// this call they start with the run.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Packets that carry this `number` have the headers that `label` says: told before the first of them.
    fn on_label(&mut self, _number: u16, _label: &Label) {}

    /// Shows the values worth plotting, each with a name of its own. The table `gauges` has a row for each; that of
    /// the name `average` also stands beside each packet of a link whose packets are recorded.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// The statistics that `tc -s -j qdisc show` has of this discipline beyond those of every one (bytes, packets,
    /// drops, backlog), a table under `tc`'s names and in its units; null if there are none. `overlimits`, which is
    /// one of every one, is 0 unless it stands here.
    fn tc_statistics(&self, _now: Instant) -> Value {
        Value::Null
    }

    /// Shows the disciplines inside, each with the place of its parameters, such as `classes.web.queue`.
    fn inner(&self, _show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {}

    /// Shows the disciplines inside that the kernel has as disciplines of their own, with what each did up to `now`.
    fn inner_qdiscs(&self, _now: Instant, _show: &mut dyn FnMut(InnerQdisc<'_>)) {}

    /// Shows what each service class did up to `now`, by name, in a fixed order.
    fn classes(&self, _now: Instant, _show: &mut dyn FnMut(&str, ClassCounters)) {}
}

dyn_clone::clone_trait_object!(QueueDiscipline);

/// What went through a service class since the discipline was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets that arrived, the dropped ones included.
    pub arrivals: u64,
    /// Packets that left.
    pub departures: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Of those, sent with what another class lent.
    pub borrowed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// The integral of the number of waiting packets over time, in packet nanoseconds.
    pub packet_nanos: u128,
}

impl ClassCounters {
    /// What was counted after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            arrivals: self.arrivals - before.arrivals,
            departures: self.departures - before.departures,
            departed_bytes: self.departed_bytes - before.departed_bytes,
            borrowed_bytes: self.borrowed_bytes - before.borrowed_bytes,
            drops: self.drops - before.drops,
            packet_nanos: self.packet_nanos - before.packet_nanos,
        }
    }
}

/// What a discipline is told with every call.
pub struct Context<'a> {
    /// The present moment.
    pub now: Instant,
    /// The queue's own random stream.
    pub rng: &'a mut Rng,
    /// Whoever wants to know the fates of packets.
    pub observer: &'a mut dyn Observer,
}

impl Context<'_> {
    /// Drops `packet`.
    pub fn drop(&mut self, packet: Packet, why: Reason) {
        self.observer.dropped(&packet, why, self.now);
    }

    /// Marks `packet` with "congestion experienced". A packet that carries the mark already stays
    /// as it is, and is not reported twice.
    pub fn mark(&mut self, packet: &mut Packet, why: Reason) {
        debug_assert!(packet.ecn.can_be_marked(), "only an ECN-capable packet can be marked");
        if packet.ecn != aqm_net::Ecn::Ce {
            packet.ecn = aqm_net::Ecn::Ce;
            self.observer.marked(packet, why, self.now);
        }
    }
}

/// Is told the fate of packets that are not simply sent, and knows what they carry.
pub trait Observer {
    /// `packet` was dropped at `now`.
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// `packet` was marked at `now`.
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// What the header of `packet` says, if it is one of TCP that acknowledges and does not open a connection. Whoever
    /// passes on fates passes on this question.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}

/// Why a packet was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No room was left (the kernel's `drop_overlimit`).
    Overflow,
    /// Chance chose it before the buffer was full.
    Early,
    /// The algorithm leaves no choice, such as RED above `max_th`.
    Forced,
    /// It waited too long, as CoDel and its kin judge it.
    Sojourn,
    /// A threshold that only marks was passed (the kernel's `ce_mark`, `step_mark`).
    CeThreshold,
    /// What waits takes too much memory (the kernel's `drop_overmemory`).
    Overmemory,
    /// Its flow has no room left (the kernel's `flows_plimit`).
    FlowLimit,
    /// It is to leave too far in the future (the kernel's `horizon_drops`).
    Horizon,
    /// It is of the same flow as a packet that was drawn from the queue (the kernel's `matched`).
    Matched,
    /// Its flow does not respond to congestion (BLUE's probability of a flow, SFB's `penaltydrop`).
    Unresponsive,
    /// A later acknowledgement says all it says (the kernel's `ack_drops`).
    AckFilter,
    /// A policer found it beyond the rate.
    Policed,
    /// The line lost it.
    LineLoss,
}

impl Reason {
    /// Every reason, in the order of [`Reason::code`].
    pub const NAMES: [&'static str; 13] = [
        "overflow",
        "early",
        "forced",
        "sojourn",
        "ce-threshold",
        "overmemory",
        "flow-limit",
        "horizon",
        "matched",
        "unresponsive",
        "ack-filter",
        "policed",
        "line-loss",
    ];

    /// The index of this reason in [`Reason::NAMES`].
    pub const fn code(self) -> u32 {
        self as u32
    }
}
