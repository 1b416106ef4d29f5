//! From the parameters of classes to the nodes of a tree: every check, and what is doubtful.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate, Size};

use super::bucket::Buckets;
use super::tree::{LEVELS, Node, PRIORITIES};
use super::{Class, Config, Filters, Leaf};
use crate::{Build as _, Derived, QueueDiscipline, drop_tail};

/// Bounds of a `quantum` that is left out, as in the kernel.
const LEAST_QUANTUM: u64 = 1000;
const MOST_QUANTUM: u64 = 200_000;

/// The tree, ready to run.
pub(super) struct Plan {
    pub nodes: Vec<Node>,
    /// By node.
    pub leaf_of_node: Vec<u32>,
    pub leaves: Vec<Leaf>,
    /// By leaf.
    pub filters: Vec<Filters>,
    /// The leaf of what none matches.
    pub default: u32,
}

/// A class with its rates, and where it stands.
struct Placed<'a> {
    name: &'a str,
    class: &'a Class,
    rate: Rate,
    ceil: Rate,
    /// The running queue, if it is a leaf's.
    queue: Box<dyn QueueDiscipline>,
    parent: Option<usize>,
    is_inner: bool,
}

impl Plan {
    /// Checks everything.
    pub fn new(config: &Config, line: Rate) -> Result<Self, ConfigErrors> {
        let everything = everything(line);
        let all = placed(config, &everything)?;
        let mut errors = ErrorCollector::default();
        check_places(&all, &mut errors);
        let default = errors.take(default(config, &all));
        let depths: Vec<usize> =
            (0..all.len()).filter_map(|number| errors.take(depth(&all, number))).collect();
        let default = errors.finish_some(default)?;
        let mut plan = Self {
            nodes: Vec::new(),
            leaf_of_node: Vec::new(),
            leaves: Vec::new(),
            filters: Vec::new(),
            default: 0,
        };
        for (number, (one, depth)) in all.into_iter().zip(depths).enumerate() {
            let class = one.class;
            let buckets = Buckets::new([one.rate, one.ceil], [class.burst, class.cburst], config.hysteresis);
            let parent = one.parent.map(|parent| parent as u32);
            plan.leaf_of_node.push(plan.leaves.len() as u32);
            if one.is_inner {
                plan.nodes.push(Node::inner(parent, buckets, depth));
                continue;
            }
            let quantum = quantum(&one, config).bytes() as i64;
            plan.nodes.push(Node::leaf(parent, buckets, class.priority as usize, quantum));
            plan.leaves.push(Leaf::new(number as u32, one.name, one.queue));
            plan.filters.push(class.r#match.clone());
        }
        plan.default = plan.leaf_of_node[default];
        Ok(plan)
    }
}

/// The classes of a configuration that names none.
fn everything(line: Rate) -> Class {
    Class { rate: Some(line), ..Class::default() }
}

/// Where the parameters of the queue of this leaf stand.
pub(super) fn queue_of(leaf: &str) -> String {
    format!("classes.{leaf}.queue")
}

/// The classes in the order of their names, each checked by itself.
fn placed<'a>(config: &'a Config, everything: &'a Class) -> Result<Vec<Placed<'a>>, ConfigErrors> {
    let mut classes: Vec<(&str, &Class)> =
        config.classes.iter().map(|(name, class)| (name.as_str(), class)).collect();
    if classes.is_empty() {
        classes.push(("all", everything));
    }
    let mut errors = ErrorCollector::default();
    errors.check(config.r2q > 0, "r2q", "must be at least 1");
    let problem = format_args!("must be at most {}, not {}", u16::MAX, classes.len());
    errors.check(classes.len() <= usize::from(u16::MAX), "classes", problem);
    let names: Vec<&str> = classes.iter().map(|(name, _)| *name).collect();
    let of_class = |(name, class): (&'a str, &'a Class)| {
        let one = Placed::new(name, class, &names);
        errors.take(one.map_err(|errors| errors.within(&format!("classes.{name}"))))
    };
    let mut all: Vec<Placed<'a>> = classes.into_iter().filter_map(of_class).collect();
    errors.finish(())?;
    for number in 0..all.len() {
        if let Some(parent) = all[number].parent {
            all[parent].is_inner = true;
        }
    }
    Ok(all)
}

impl<'a> Placed<'a> {
    /// The class of this name, one of `names` in their order; whether it has others below it is not known yet.
    fn new(name: &'a str, class: &'a Class, names: &[&str]) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let missing = || ConfigError::at("rate", "is missing: write what the class gets, such as \"70kbps\"");
        let rate = errors.take(class.rate.ok_or_else(missing));
        let ceil = class.ceil.or(rate).unwrap_or_default();
        if let Some(rate) = rate {
            errors.check(ceil >= rate, "ceil", format_args!("must be at least rate, {rate}"));
        }
        for (field, burst) in [("burst", class.burst), ("cburst", class.cburst)] {
            errors.check(burst.bytes() > 0, field, "must be at least 1B");
        }
        let problem = format_args!("must be 0 to {}, not {}", PRIORITIES - 1, class.priority);
        errors.check((class.priority as usize) < PRIORITIES, "priority", problem);
        let sends = class.quantum.is_none_or(|quantum| quantum.bytes() > 0);
        errors.check(sends, "quantum", "must be at least 1B, better a full packet");
        let place_of = |parent: &String| {
            let problem = format!("no class is named `{parent}`; there is {}", names.join(", "));
            names.binary_search(&parent.as_str()).map_err(|_| ConfigError::at("parent", problem))
        };
        let parent = errors.take(class.parent.as_ref().map(place_of).transpose());
        let queue = rate.and_then(|rate| errors.take(queue(class, rate)));
        let found = rate.zip(parent).zip(queue);
        let ((rate, parent), queue) = errors.finish_some(found)?;
        Ok(Self { name, class, rate, ceil, queue, parent, is_inner: false })
    }
}

/// The running queue of a class, if it is a leaf.
fn queue(class: &Class, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
    let Some(queue) = &class.queue else { return drop_tail::Config::default().build(rate) };
    let problem = format_args!("must not be `{}`: write classes below this one instead", queue.kind());
    ConfigError::unless(!queue.holds_back(), "queue.kind", problem)?;
    queue.build(rate).map_err(|errors| errors.within("queue"))
}

/// Checks each class against those above and below it.
fn check_places(all: &[Placed<'_>], errors: &mut ErrorCollector) {
    for one in all {
        let Some(above) = one.parent.map(|parent| &all[parent]) else { continue };
        let problem = format_args!("must not exceed the ceil of its parent `{}`, {}", above.name, above.ceil);
        errors.check(one.rate <= above.ceil, format!("classes.{}.rate", one.name), problem);
    }
    for one in all.iter().filter(|one| one.is_inner) {
        let useless = [
            ("queue", one.class.queue.is_some()),
            ("match", !one.class.r#match.0.is_empty()),
            ("quantum", one.class.quantum.is_some()),
            ("priority", one.class.priority != 0),
        ];
        for (field, is_given) in useless {
            let problem = "belongs to a leaf, and this class is the parent of others: leave it out";
            errors.check(!is_given, format!("classes.{}.{field}", one.name), problem);
        }
    }
}

/// How many classes are above a class.
fn depth(all: &[Placed<'_>], number: usize) -> Result<usize, ConfigError> {
    let (mut depth, mut place) = (0, number);
    while let Some(parent) = all[place].parent {
        depth += 1;
        place = parent;
        // A leaf has level 0, so the lowest class above one is at most the seventh.
        let problem =
            format_args!("must not lead back to the class, nor be more than {} classes deep", LEVELS - 1);
        ConfigError::unless(depth < LEVELS, format!("classes.{}.parent", all[number].name), problem)?;
    }
    Ok(depth)
}

fn quantum(one: &Placed<'_>, config: &Config) -> Size {
    let automatic = || Size::from_bytes((one.rate.bps() / 8 / config.r2q).clamp(LEAST_QUANTUM, MOST_QUANTUM));
    one.class.quantum.unwrap_or_else(automatic)
}

/// The number of the leaf of what none matches.
fn default(config: &Config, all: &[Placed<'_>]) -> Result<usize, ConfigError> {
    let leaves: Vec<&str> = all.iter().filter(|one| !one.is_inner).map(|one| one.name).collect();
    let Some(name) = &config.default else {
        let problem =
            format_args!("is missing: name the leaf of what none matches, one of {}", leaves.join(", "));
        ConfigError::unless(leaves.len() <= 1, "default", problem)?;
        return Ok(all.iter().position(|one| !one.is_inner).unwrap_or_default());
    };
    let found = all.iter().position(|one| one.name == name && !one.is_inner);
    let problem = format!("no leaf is named `{name}`; there is {}", leaves.join(", "));
    found.ok_or_else(|| ConfigError::at("default", problem))
}

/// The number, among all classes, of the leaf of what none matches; the parameters have been checked.
pub(super) fn default_class(config: &Config) -> usize {
    let is_parent = |name: &String| config.classes.values().any(|class| class.parent.as_ref() == Some(name));
    let only_leaf = || config.classes.keys().find(|name| !is_parent(name));
    let default = config.default.as_ref().or_else(only_leaf);
    default.and_then(|default| config.classes.keys().position(|name| name == default)).unwrap_or_default()
}

/// What follows from the rates: quanta that are left out.
pub(super) fn derived(config: &Config, line: Rate) -> Vec<Derived> {
    let everything = everything(line);
    let Ok(all) = placed(config, &everything) else { return Vec::new() };
    let mut derived = Vec::new();
    for leaf in all.iter().filter(|one| !one.is_inner) {
        if leaf.class.quantum.is_none() {
            let bytes = quantum(leaf, config).bytes() as f64;
            derived.push(Derived::new("quantum", bytes, "bytes").within(&format!("classes.{}", leaf.name)));
        }
    }
    derived
}

/// What the kernel would warn about, and what it would do without a word.
pub(super) fn warnings(config: &Config, line: Rate) -> Vec<ConfigError> {
    let everything = everything(line);
    let Ok(all) = placed(config, &everything) else { return Vec::new() };
    let mut found = Vec::new();
    let mut warn = |one: &Placed<'_>, field: &str, problem: String| {
        found.push(ConfigError::at(format!("classes.{}.{field}", one.name), problem));
    };
    for (number, one) in all.iter().enumerate() {
        match one.parent.map(|parent| &all[parent]) {
            None if one.rate > line => {
                warn(
                    one,
                    "rate",
                    format!("is above that of the line, {line}: the class never holds anything back"),
                );
            }
            Some(parent) if one.ceil > parent.ceil => {
                let problem = format!(
                    "is above that of its parent `{}`, {}, which will not lend so much",
                    parent.name, parent.ceil
                );
                warn(one, "ceil", problem);
            }
            _ => {}
        }
        if one.is_inner {
            let below = all.iter().filter(|other| other.parent == Some(number));
            let sum: u64 = below.map(|other| other.rate.bps()).sum();
            if sum > one.ceil.bps() {
                let problem = format!(
                    "the classes below have rates of {} in all, more than the ceil {}: together they will exceed it",
                    Rate::from_bps(sum),
                    one.ceil
                );
                warn(one, "ceil", problem);
            }
            continue;
        }
        let wanted = one.rate.bps() / 8 / config.r2q;
        match one.class.quantum {
            Some(given) if given.bytes() < LEAST_QUANTUM => {
                warn(
                    one,
                    "quantum",
                    format!("{given} is less than a packet: classes that borrow share packets, not bytes"),
                );
            }
            None if one.rate < one.ceil && !(LEAST_QUANTUM..=MOST_QUANTUM).contains(&wanted) => {
                let taken = quantum(one, config);
                let problem = format!(
                    "rate over r2q is {wanted}B, so {taken} is taken, as by Linux: set quantum, or r2q"
                );
                warn(one, "quantum", problem);
            }
            _ => {}
        }
    }
    found
}
