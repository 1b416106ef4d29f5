//! HTB: hierarchical token buckets. Service classes share a link. Each class has a guaranteed rate, a ceiling that the
//! class never exceeds, and its own queue.
//!
//! M. Devera, "HTB Linux queuing discipline manual", 2002; `tc-htb(8)`; the kernel's `net/sched/sch_htb.c` (Linux 6.1),
//! on which the modules `tree`, `feed` and `bucket` are based. A leaf sends with its own tokens up to `rate`. Above
//! `rate` and up to `ceil`, the leaf borrows tokens from the nearest ancestor that has tokens. Classes with lower
//! `priority` numbers borrow first, and classes with equal numbers take turns of `quantum` bytes.
//!
//! HTB is a shaper: it may delay packets while the link is free. The link rate must therefore exceed the rates of the
//! classes. A packet leaves the queue as soon as the packet may be sent. Because of `burst`, a packet may leave earlier
//! than it would on a link with the class's rate. The backlog does not include the packet in transmission.
//!
//! Peculiarities of the kernel that aqmlab reproduces:
//! - A class sends a whole packet as soon as the class is not in debt, so the debt of a class may reach the size of a
//!   packet.
//! - Leaves that send with their own tokens are served before all leaves that borrow, regardless of priorities.
//! - Each leaf gets its guaranteed rate, even if the sum of the leaves' rates exceeds the rate of their parent. In this
//!   case, the parent's debt grows.
//! - After a leaf has become empty, the `dequeue` method of the leaf's queue is not called again, so the queue does not
//!   detect that it is idle. For example, RED's average does not decrease between bursts.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

mod bucket;
mod feed;
mod plan;
mod tc;
mod tree;

use std::collections::BTreeMap;

use aqm_net::{Backlog, ConfigError, ConfigErrors, Instant, Packet, Rate, Rng, Size, parameters};
use serde_json::{Value, json};

use crate::describe::{derived_inside, warnings_inside};
use crate::label_filter::Filters;
use crate::packet_label::Label;
use crate::qdisc::InnerQdisc;
use crate::red::red;
use crate::tc::Qdisc;
use crate::{Build, ClassCounters, Context, Derived, Describe, Inner, QueueDiscipline, Report, TestCases};
use plan::Plan;
use tree::{LEVELS, Tree};

parameters! {
    /// HTB: service classes that share a link, each with a guaranteed rate, a ceiling and its own queue.
    ///
    /// Classes may borrow unused bandwidth from each other.
    ///
    /// HTB is a shaper, so the link rate must exceed the rates of its classes.
    ///
    /// Differences from Linux:
    ///
    /// - Classes take turns in the order of their names, whereas in the kernel, classes take turns in the order of
    ///   their numbers. A packet that matches several classes is assigned to the first of these classes in the order of
    ///   names.
    /// - A packet that matches no leaf is assigned to the `default` leaf. No packet bypasses the queues (`direct` in
    ///   the kernel).
    /// - The queue of a leaf is built for a link with the leaf's `rate`, which is the leaf's minimum service rate.
    /// - Times are whole nanoseconds, whereas kernels before 2008 counted clock ticks.
    pub struct Config {
        /// Classes, each with a name. A class that is the `parent` of other classes lends tokens to these classes and
        /// has no queue. Default: a single class for all packets, whose rate is the link rate.
        pub classes: BTreeMap<String, Class> = BTreeMap::new(), "aqmlab's choice";
        /// Leaf for packets that match no class. Default: the only leaf. This parameter is required if there are
        /// several leaves.
        pub default: Option<String> = None, "tc-htb: `default`";
        /// Divisor that determines the default of `quantum`: `rate` in bytes per second, divided by `r2q`.
        pub r2q: u64 = 10, "tc-htb";
        /// Whether a class that has used up its tokens changes its mode (borrows, or stops sending) only when its debt
        /// reaches a whole burst. With hysteresis, less computation is needed, but bursts are twice as long.
        pub hysteresis: bool = false, "Linux since 2.6.26; enabled in earlier kernels";
    }
}

parameters! {
    /// A service class.
    pub struct Class {
        /// Class from which this class borrows. If omitted, this class does not borrow.
        pub parent: Option<String> = None, "tc-htb";
        /// Rate that this class is guaranteed, regardless of the load of the other classes.
        pub rate: Option<Rate> = None, "no default: must be set";
        /// Maximum rate. Default: `rate`, so that the class never borrows.
        pub ceil: Option<Rate> = None, "tc-htb";
        /// Size of the token bucket for `rate`: number of bytes that the class may send at once after an idle period.
        pub burst: Size = Size::from_bytes(1600), "tc-htb: about one packet, with a fine clock";
        /// Size of the token bucket for `ceil`: number of bytes that the class may send at once after an idle period,
        /// with its own tokens and borrowed tokens.
        pub cburst: Size = Size::from_bytes(1600), "tc-htb";
        /// For leaves: priority when borrowing, from 0 (served first) to 7 (served last).
        pub priority: u32 = 0, "tc-htb: `prio`";
        /// For leaves: number of bytes sent per turn while several leaves take turns to borrow. Default: `rate` in
        /// bytes per second divided by `r2q`, but at least 1000B and at most 200kB.
        pub quantum: Option<Size> = None, "tc-htb";
        /// For leaves: queue discipline, which must not be a shaper. Default: `drop-tail` with default parameters.
        pub queue: Option<Box<crate::Config>> = None, "aqmlab's choice";
        /// For leaves: filters that select the packets of the class. The value must be a filter or a list of filters.
        /// If it is a list, at least one of the filters must match.
        pub r#match: Filters = Filters::default(), "aqmlab's choice: unmatched packets go to `default`";
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let Plan { nodes, leaf_of_node, leaves, filters, default } = Plan::new(self, rate)?;
        Ok(Box::new(Htb {
            tree: Tree::new(nodes),
            leaf_of_node,
            leaves,
            filters,
            default,
            leaf_of_label: Vec::new(),
            backlog: Backlog::default(),
        }))
    }
}

impl Describe for Config {
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        let queues = self.classes.iter().filter_map(|(name, class)| {
            let path = plan::queue_of(name);
            Some(Inner { path, config: class.queue.as_deref()?, rate: class.rate? })
        });
        queues.collect()
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn outlet(&self, link: Rate) -> Rate {
        let roots = self.classes.values().filter(|class| class.parent.is_none());
        let ceilings: u64 = roots.filter_map(|class| class.ceil.or(class.rate)).map(Rate::bps).sum();
        if self.classes.is_empty() { link } else { link.min(Rate::from_bps(ceilings)) }
    }

    fn traffic_names(&self) -> Vec<(String, &str)> {
        let mut workloads = Vec::new();
        for (name, class) in &self.classes {
            let path = format!("classes.{name}.match.traffic");
            workloads.extend(class.r#match.traffic().map(|traffic| (path.clone(), traffic)));
        }
        workloads
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let mut derived = plan::derived(self, rate);
        derived.extend(derived_inside(self, rate));
        derived
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        // In the kernel, packets that do not belong to any class may also be queued, up to the queue length of the
        // network device. In aqmlab, every packet belongs to a class.
        let default = plan::default_class(self) + 1;
        Some(json!({
            "kind": "htb", "r2q": self.r2q, "default": format!("{default:#x}"), "direct_packets_stat": 0,
            "direct_qlen": 1000,
        }))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        tc::qdisc(self, rate)
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let mut warnings = plan::warnings(self, rate);
        warnings.extend(warnings_inside(self, rate));
        warnings
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        corners()
    }
}

/// Returns test cases with one class for each of three flows, with and without a parent class.
pub(crate) fn corners() -> Vec<Value> {
    let over = |mut table: Value, change: Value| {
        table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(table, change)| {
            table.extend(change.clone());
        });
        table
    };
    let leaf = |flow: u32, more: Value| {
        let traffic = [format!("flow {flow}")];
        let queue = over(red::small(), json!({"kind": "red"}));
        let leaf =
            json!({"rate": "300kbps", "burst": "3000B", "match": {"traffic": traffic}, "queue": queue});
        over(leaf, more)
    };
    let below =
        |priority: u32| json!({"parent": "link", "ceil": "4Mbps", "priority": priority, "quantum": "1500B"});
    let flat =
        json!({"a": leaf(0, json!({})), "b": leaf(1, json!({"ceil": "3Mbps"})), "rest": {"rate": "1Mbps"}});
    let deep = json!({
        "root": {"rate": "5Mbps"},
        "link": {"parent": "root", "rate": "1Mbps", "ceil": "4Mbps"},
        "a": leaf(0, below(1)),
        "b": leaf(1, below(1)),
        "c": leaf(2, below(0)),
        "rest": {"parent": "root", "rate": "9kbps", "ceil": "5Mbps", "queue": {"kind": "drr", "limit": "9p"}},
    });
    let htb = |classes: &Value, hysteresis: bool| json!({"classes": classes, "default": "rest", "hysteresis": hysteresis});
    vec![htb(&flat, false), htb(&deep, false), htb(&deep, true)]
}

/// A leaf and its queue.
#[derive(Clone)]
struct Leaf {
    /// The index of the leaf's node in the tree.
    node: u32,
    name: String,
    queue: Box<dyn QueueDiscipline>,
    backlog: Backlog,
    changed_at: Instant,
    /// The counters of the leaf. The number of drops is not stored here, because it is computed from the other
    /// counters.
    counters: ClassCounters,
}

impl Leaf {
    fn new(node: u32, name: &str, queue: Box<dyn QueueDiscipline>) -> Self {
        Self {
            node,
            name: name.to_owned(),
            queue,
            backlog: Backlog::default(),
            changed_at: Instant::START,
            counters: ClassCounters::default(),
        }
    }

    /// Returns the counters up to `now`.
    fn counters_at(&self, now: Instant) -> ClassCounters {
        let Backlog { packets, .. } = self.backlog;
        let waited = u128::from(packets) * u128::from(now.since(self.changed_at).nanos());
        let drops = self.counters.arrivals - self.counters.departures - packets;
        ClassCounters { drops, packet_nanos: self.counters.packet_nanos + waited, ..self.counters }
    }
}

/// An HTB queue.
#[derive(Clone)]
struct Htb {
    tree: Tree,
    /// For each node of the tree, the index of its leaf.
    leaf_of_node: Vec<u32>,
    leaves: Vec<Leaf>,
    /// The filters of each leaf.
    filters: Vec<Filters>,
    default: u32,
    leaf_of_label: Vec<u32>,
    backlog: Backlog,
}

impl QueueDiscipline for Htb {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let leaf = self.leaf_of_label.get(usize::from(packet.label)).copied().unwrap_or(self.default);
        self.with(leaf, cx.now, |queue| queue.enqueue(packet, cx));
        let leaf = &mut self.leaves[leaf as usize];
        leaf.counters.arrivals += 1;
        if leaf.backlog.packets > 0 {
            self.tree.activate(leaf.node);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if self.backlog.packets == 0 {
            return None;
        }
        for level in 0..LEVELS {
            self.tree.do_events(level, cx.now);
            while let Some(node) = self.tree.next_leaf(level) {
                let leaf = self.leaf_of_node[node as usize];
                let packet = self.with(leaf, cx.now, |queue| queue.dequeue(cx));
                let sent = packet.map_or(0, |packet| packet.bytes.into());
                self.tree.on_sent(node, level, sent);
                let leaf = &mut self.leaves[leaf as usize];
                // The leaf's queue may have dropped all of its packets.
                if leaf.backlog.packets == 0 {
                    self.tree.deactivate(node);
                }
                if packet.is_some() {
                    leaf.counters.departures += 1;
                    leaf.counters.departed_bytes += sent;
                    leaf.counters.borrowed_bytes += if level > 0 { sent } else { 0 };
                    self.tree.charge_class(node, level, sent, cx.now);
                    return packet;
                }
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn next_ready(&self) -> Option<Instant> {
        self.tree.next_change().filter(|_| self.backlog.packets > 0)
    }

    fn on_start(&mut self, chance: &mut Rng) {
        self.leaves.iter_mut().for_each(|leaf| leaf.queue.on_start(chance));
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        let index = usize::from(number);
        if self.leaf_of_label.len() <= index {
            self.leaf_of_label.resize(index + 1, self.default);
        }
        let leaf = self
            .filters
            .iter()
            .position(|filters| filters.match_label(label))
            .map_or(self.default, |leaf| leaf as u32);
        self.leaf_of_label[index] = leaf;
        self.leaves[leaf as usize].queue.on_label(number, label);
    }
}

impl Report for Htb {
    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        self.leaves.iter().for_each(|leaf| show(&plan::queue_of(&leaf.name), leaf.queue.as_ref()));
    }

    fn inner_qdiscs(&self, now: Instant, show: &mut dyn FnMut(InnerQdisc<'_>)) {
        for leaf in &self.leaves {
            let (path, counters) = (plan::queue_of(&leaf.name), leaf.counters_at(now));
            show(InnerQdisc { path: &path, class: leaf.node + 1, queue: leaf.queue.as_ref(), counters });
        }
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        json!({"overlimits": self.tree.overlimits})
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.leaves.iter().for_each(|leaf| show(&leaf.name, leaf.counters_at(now)));
    }
}

impl Htb {
    /// Calls `act` on the queue of `leaf`, and updates the backlog counters.
    fn with<T>(&mut self, leaf: u32, now: Instant, act: impl FnOnce(&mut dyn QueueDiscipline) -> T) -> T {
        let leaf = &mut self.leaves[leaf as usize];
        let waited = u128::from(leaf.backlog.packets) * u128::from(now.since(leaf.changed_at).nanos());
        leaf.counters.packet_nanos += waited;
        leaf.changed_at = now;
        let result = act(leaf.queue.as_mut());
        let after = leaf.queue.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - leaf.backlog.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - leaf.backlog.bytes;
        leaf.backlog = after;
        result
    }
}
