//! HTB: hierarchical token buckets. Service classes share a line; each has a rate that it gets, a ceiling that it
//! never exceeds, and a queue of its own.
//!
//! M. Devera, "HTB Linux queuing discipline manual", 2002; `tc-htb(8)`; the kernel's `net/sched/sch_htb.c`
//! (6.1), which the code follows class by class (`tree`, `feed`, `bucket`). A leaf sends with its own
//! tokens up to `rate`; beyond, up to `ceil`, it borrows from the nearest class above it that has tokens.
//! Lower `priority` numbers borrow first, equals take turns of `quantum` bytes.
//!
//! HTB is a shaper: it holds packets back although the line is free. So it is used on a line faster than
//! its classes, and a packet leaves it when it may be sent, not when a line of the class's rate would
//! have sent it: a burst later, and its queue holds no packet that is being sent.
//!
//! As in the kernel, and worth knowing:
//! - A class sends a whole packet as soon as it is not in debt, so it may overdraw its buckets by one packet.
//! - The tokens of a leaf go before all that is borrowed, whatever the priorities.
//! - Rates of the leaves are given even if they add up to more than the class above has: it goes into debt.
//! - A leaf that has become empty is not asked again, so its queue does not learn that it idles: RED's average
//!   does not fall between bursts.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

mod bucket;
mod feed;
mod plan;
mod tree;

use std::collections::BTreeMap;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, Instant, Packet, Parameter, Rate, Rng, Schema, Several, Size,
    parameters,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::describe::{derived_inside, warnings_inside};
use crate::packet_label::{Label, Protocol};
use crate::qdisc::InnerQdisc;
use crate::red::red;
use crate::{Build, ClassCounters, Context, Derived, Describe, Inner, QueueDiscipline, Report, TestCases};
use plan::Plan;
use tree::{LEVELS, Tree};

parameters! {
    /// HTB: service classes that share a line, each with a guaranteed rate, a ceiling and a queue of its own;
    /// what one leaves unused others may borrow.
    ///
    /// A shaper: put it on a line faster than its classes.
    ///
    /// Differences from Linux:
    ///
    /// - Classes take turns in the order of their names, those of the kernel in the order of their numbers. A packet
    ///   that several match goes to the first of them by name.
    /// - A packet that no leaf matches goes to the `default`; no packet passes without a queue (`direct` in the
    ///   kernel).
    /// - The queue of a leaf is built for a line of the `rate` of the leaf, the least at which it is served.
    /// - Times are whole nanoseconds; kernels before 2008 counted ticks.
    pub struct Config {
        /// The classes by name. One that others name as their `parent` lends to them and has no queue.
        /// Left out: one for everything, at the rate of the line.
        pub classes: BTreeMap<String, Class> = BTreeMap::new(), "ours";
        /// The leaf for packets that none matches. Left out: the only leaf; with more it must be named.
        pub default: Option<String> = None, "tc-htb: `default`";
        /// A `quantum` that is left out is `rate`, in bytes per second, over this.
        pub r2q: u64 = 10, "tc-htb";
        /// Whether a class changes its mode only once it is a whole burst in debt: less work, and
        /// bursts twice as long.
        pub hysteresis: bool = false, "Linux since 2.6.26; on in kernels before";
    }
}

parameters! {
    /// A class.
    pub struct Class {
        /// The class it borrows from. Left out: none.
        pub parent: Option<String> = None, "tc-htb";
        /// What it gets, whatever the others want.
        pub rate: Option<Rate> = None, "no default: must be given";
        /// What it gets at most. Left out: `rate`, so that it never borrows.
        pub ceil: Option<Rate> = None, "tc-htb";
        /// What it may send at once after a pause, at `rate`.
        pub burst: Size = Size::from_bytes(1600), "tc-htb: about one packet, with a fine clock";
        /// The same at `ceil`.
        pub cburst: Size = Size::from_bytes(1600), "tc-htb";
        /// Of a leaf: which goes first when several borrow, from 0, before all others, to 7.
        pub priority: u32 = 0, "tc-htb: `prio`";
        /// Of a leaf: what it sends in its turn when it borrows. Left out: `rate` over `r2q`, but at least
        /// 1000B and at most 200kB.
        pub quantum: Option<Size> = None, "tc-htb";
        /// Of a leaf: its queue, any discipline that does not shape. Left out: `drop-tail` as it comes.
        pub queue: Option<Box<crate::Config>> = None, "ours";
        /// Of a leaf: which packets are its own; one filter, or a list of which one must match.
        pub r#match: Filters = Filters::default(), "ours: what none matches goes to `default`";
    }
}

parameters! {
    /// What a packet must be like; what is left out does not matter.
    pub struct Filter {
        /// It belongs to one of these workloads, in either direction.
        pub traffic: Vec<String> = Vec::new(), "ours";
        /// It is of this protocol.
        pub protocol: Option<Protocol> = None, "ours";
        /// Its data goes to one of these ports.
        pub port: Vec<u64> = Vec::new(), "ours";
        /// It carries one of these code points (RFC 2474).
        pub dscp: Vec<u64> = Vec::new(), "ours";
    }
}

impl Filter {
    fn matches(&self, label: &Label) -> bool {
        let among = |list: &[u64], value: u64| list.is_empty() || list.contains(&value);
        (self.traffic.is_empty() || self.traffic.contains(&label.traffic))
            && self.protocol.is_none_or(|protocol| protocol == label.protocol)
            && among(&self.port, label.port.into())
            && among(&self.dscp, label.dscp.into())
    }
}

/// Filters of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Filters(Vec<Filter>);

impl Parameter for Filters {
    fn schema() -> Schema {
        Schema { several: Some(Several::OneOrList), ..Filter::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        if value.is_array() {
            Vec::read(value).map(Self)
        } else {
            Filter::read(value).map(|one| Self(vec![one]))
        }
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
            let place = plan::queue_of(name);
            Some(Inner { place, config: class.queue.as_deref()?, rate: class.rate? })
        });
        queues.collect()
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn outlet(&self, line: Rate) -> Rate {
        let roots = self.classes.values().filter(|class| class.parent.is_none());
        let ceilings: u64 = roots.filter_map(|class| class.ceil.or(class.rate)).map(Rate::bps).sum();
        if self.classes.is_empty() { line } else { line.min(Rate::from_bps(ceilings)) }
    }

    fn names_traffic(&self) -> Vec<(String, &str)> {
        let mut named = Vec::new();
        for (name, class) in &self.classes {
            let traffic = class.r#match.0.iter().flat_map(|filter| &filter.traffic);
            named.extend(traffic.map(|traffic| (format!("classes.{name}.match.traffic"), traffic.as_str())));
        }
        named
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let mut derived = plan::derived(self, rate);
        derived.extend(derived_inside(self, rate));
        derived
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        // As many packets as a device holds may wait without a class; here there are none.
        let default = plan::default_class(self) + 1;
        Some(json!({
            "kind": "htb", "r2q": self.r2q, "default": format!("{default:#x}"), "direct_packets_stat": 0,
            "direct_qlen": 1000,
        }))
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

/// A class for each of three flows, with and without a class to borrow from.
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
    /// Its place in the tree.
    node: u32,
    name: String,
    queue: Box<dyn QueueDiscipline>,
    backlog: Backlog,
    changed_at: Instant,
    /// Without the drops, which follow from the rest.
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

    /// What was counted up to `now`.
    fn counted(&self, now: Instant) -> ClassCounters {
        let Backlog { packets, .. } = self.backlog;
        let waited = u128::from(packets) * u128::from(now.since(self.changed_at).nanos());
        let drops = self.counters.arrivals - self.counters.departures - packets;
        ClassCounters { drops, packet_nanos: self.counters.packet_nanos + waited, ..self.counters }
    }
}

/// The running discipline.
#[derive(Clone)]
struct Htb {
    tree: Tree,
    /// By place in the tree.
    leaf_of_node: Vec<u32>,
    leaves: Vec<Leaf>,
    /// By leaf.
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
                // It may have dropped all it had.
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
        let place = usize::from(number);
        if self.leaf_of_label.len() <= place {
            self.leaf_of_label.resize(place + 1, self.default);
        }
        let matches = |filters: &Filters| filters.0.iter().any(|filter| filter.matches(label));
        let leaf = self.filters.iter().position(matches).map_or(self.default, |leaf| leaf as u32);
        self.leaf_of_label[place] = leaf;
        self.leaves[leaf as usize].queue.on_label(number, label);
    }
}

impl Report for Htb {
    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        self.leaves.iter().for_each(|leaf| show(&plan::queue_of(&leaf.name), leaf.queue.as_ref()));
    }

    fn inner_qdiscs(&self, now: Instant, show: &mut dyn FnMut(InnerQdisc<'_>)) {
        for leaf in &self.leaves {
            let (place, counters) = (plan::queue_of(&leaf.name), leaf.counted(now));
            show(InnerQdisc { place: &place, class: leaf.node + 1, queue: leaf.queue.as_ref(), counters });
        }
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        json!({"overlimits": self.tree.overlimits})
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.leaves.iter().for_each(|leaf| show(&leaf.name, leaf.counted(now)));
    }
}

impl Htb {
    /// Lets the queue of `leaf` act, and keeps the counts of what waits.
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
