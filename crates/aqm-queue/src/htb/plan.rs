//! Converts the parameters of classes into the nodes of a tree. This file also contains all checks and warnings.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate, Size};

use super::bucket::Buckets;
use super::tree::{LEVELS, Node, PRIORITIES};
use super::{Class, Config, Filters, Leaf};
use crate::{Build as _, Derived, QueueDiscipline, drop_tail};

/// The bounds of the default `quantum`, as in the kernel.
const MIN_QUANTUM: u64 = 1000;
const MAX_QUANTUM: u64 = 200_000;

/// The tree of classes and its leaves, in their initial state.
pub(super) struct Plan {
    pub nodes: Vec<Node>,
    /// For each node, the index of its leaf.
    pub leaf_of_node: Vec<u32>,
    pub leaves: Vec<Leaf>,
    /// The filters of each leaf.
    pub filters: Vec<Filters>,
    /// The index of the leaf for packets that match no class.
    pub default: u32,
}

/// A class with its rates and its position in the tree.
struct ClassNode<'a> {
    name: &'a str,
    class: &'a Class,
    rate: Rate,
    ceil: Rate,
    /// The class's queue, which is not used if the class is an inner class.
    queue: Box<dyn QueueDiscipline>,
    parent: Option<usize>,
    is_inner: bool,
}

impl Plan {
    /// Checks all parameters and builds the tree.
    pub fn new(config: &Config, link: Rate) -> Result<Self, ConfigErrors> {
        let single_class = single_class(link);
        let all = class_nodes(config, &single_class)?;
        let mut errors = ErrorCollector::default();
        check_hierarchy(&all, &mut errors);
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
        for (number, (node, depth)) in all.into_iter().zip(depths).enumerate() {
            let class = node.class;
            let buckets =
                Buckets::new([node.rate, node.ceil], [class.burst, class.cburst], config.hysteresis);
            let parent = node.parent.map(|parent| parent as u32);
            plan.leaf_of_node.push(plan.leaves.len() as u32);
            if node.is_inner {
                plan.nodes.push(Node::inner(parent, buckets, depth));
                continue;
            }
            let quantum = quantum(&node, config).bytes() as i64;
            plan.nodes.push(Node::leaf(parent, buckets, class.priority as usize, quantum));
            plan.leaves.push(Leaf::new(number as u32, node.name, node.queue));
            plan.filters.push(class.r#match.clone());
        }
        plan.default = plan.leaf_of_node[default];
        Ok(plan)
    }
}

/// Returns the only class, which is used if no classes are configured.
fn single_class(link: Rate) -> Class {
    Class { rate: Some(link), ..Class::default() }
}

/// Returns the path to the parameters of this leaf's queue.
pub(super) fn queue_of(leaf: &str) -> String {
    format!("classes.{leaf}.queue")
}

/// Checks each class separately, and returns the classes in the order of their names.
fn class_nodes<'a>(config: &'a Config, single_class: &'a Class) -> Result<Vec<ClassNode<'a>>, ConfigErrors> {
    let mut classes: Vec<(&str, &Class)> =
        config.classes.iter().map(|(name, class)| (name.as_str(), class)).collect();
    if classes.is_empty() {
        classes.push(("all", single_class));
    }
    let mut errors = ErrorCollector::default();
    errors.check(config.r2q > 0, "r2q", "must be at least 1");
    let problem = format_args!("must be at most {} (got {})", u16::MAX, classes.len());
    errors.check(classes.len() <= usize::from(u16::MAX), "classes", problem);
    let names: Vec<&str> = classes.iter().map(|(name, _)| *name).collect();
    let check_class = |(name, class): (&'a str, &'a Class)| {
        let node = ClassNode::new(name, class, &names);
        errors.take(node.map_err(|errors| errors.within(&format!("classes.{name}"))))
    };
    let mut all: Vec<ClassNode<'a>> = classes.into_iter().filter_map(check_class).collect();
    errors.finish(())?;
    for number in 0..all.len() {
        if let Some(parent) = all[number].parent {
            all[parent].is_inner = true;
        }
    }
    Ok(all)
}

impl<'a> ClassNode<'a> {
    /// Checks the parameters of the class with this name. `names` contains the names of all classes, sorted. The field
    /// `is_inner` is set later.
    fn new(name: &'a str, class: &'a Class, names: &[&str]) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let missing =
            || ConfigError::at("rate", "is missing; set the class's guaranteed rate, for example \"70kbps\"");
        let rate = errors.take(class.rate.ok_or_else(missing));
        let ceil = class.ceil.or(rate).unwrap_or_default();
        if let Some(rate) = rate {
            errors.check(ceil >= rate, "ceil", format_args!("must be at least rate, {rate}"));
        }
        for (field, burst) in [("burst", class.burst), ("cburst", class.cburst)] {
            errors.check(burst.bytes() > 0, field, "must be at least 1B");
        }
        let problem = format_args!("must be from 0 to {} (got {})", PRIORITIES - 1, class.priority);
        errors.check((class.priority as usize) < PRIORITIES, "priority", problem);
        let is_positive = class.quantum.is_none_or(|quantum| quantum.bytes() > 0);
        errors.check(is_positive, "quantum", "must be at least 1B; a full packet is recommended");
        let parent_index = |parent: &String| {
            let problem = format!("no class is named `{parent}`; available: {}", names.join(", "));
            names.binary_search(&parent.as_str()).map_err(|_| ConfigError::at("parent", problem))
        };
        let parent = errors.take(class.parent.as_ref().map(parent_index).transpose());
        let queue = rate.and_then(|rate| errors.take(queue(class, rate)));
        let checked = rate.zip(parent).zip(queue);
        let ((rate, parent), queue) = errors.finish_some(checked)?;
        Ok(Self { name, class, rate, ceil, queue, parent, is_inner: false })
    }
}

/// Creates the queue of a class, which is used if the class is a leaf.
fn queue(class: &Class, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
    let Some(queue) = &class.queue else { return drop_tail::Config::default().build(rate) };
    let problem = format_args!("must not be the shaper `{}`; add child classes instead", queue.kind());
    ConfigError::unless(!queue.holds_back(), "queue.kind", problem)?;
    queue.build(rate).map_err(|errors| errors.within("queue"))
}

/// Checks that each class is consistent with its parent and its children.
fn check_hierarchy(all: &[ClassNode<'_>], errors: &mut ErrorCollector) {
    for node in all {
        let Some(parent) = node.parent.map(|parent| &all[parent]) else { continue };
        let problem =
            format_args!("must not exceed the ceil of its parent `{}`, {}", parent.name, parent.ceil);
        errors.check(node.rate <= parent.ceil, format!("classes.{}.rate", node.name), problem);
    }
    for node in all.iter().filter(|node| node.is_inner) {
        let useless = [
            ("queue", node.class.queue.is_some()),
            ("match", !node.class.r#match.is_empty()),
            ("quantum", node.class.quantum.is_some()),
            ("priority", node.class.priority != 0),
        ];
        for (field, is_given) in useless {
            let problem =
                "is allowed only in leaves; omit it, because this class is the parent of other classes";
            errors.check(!is_given, format!("classes.{}.{field}", node.name), problem);
        }
    }
}

/// Returns the number of ancestors of a class.
fn depth(all: &[ClassNode<'_>], number: usize) -> Result<usize, ConfigError> {
    let (mut depth, mut ancestor) = (0, number);
    while let Some(parent) = all[ancestor].parent {
        depth += 1;
        ancestor = parent;
        // A leaf is on level 0, so a leaf has at most seven ancestors.
        let problem = format_args!("must not form a cycle or give a leaf more than {} ancestors", LEVELS - 1);
        ConfigError::unless(depth < LEVELS, format!("classes.{}.parent", all[number].name), problem)?;
    }
    Ok(depth)
}

fn quantum(node: &ClassNode<'_>, config: &Config) -> Size {
    let automatic = || Size::from_bytes((node.rate.bps() / 8 / config.r2q).clamp(MIN_QUANTUM, MAX_QUANTUM));
    node.class.quantum.unwrap_or_else(automatic)
}

/// Returns the index of the leaf for packets that match no class.
fn default(config: &Config, all: &[ClassNode<'_>]) -> Result<usize, ConfigError> {
    let leaves: Vec<&str> = all.iter().filter(|node| !node.is_inner).map(|node| node.name).collect();
    let Some(name) = &config.default else {
        let problem = format_args!(
            "is missing; name the leaf for packets that match no class; available: {}",
            leaves.join(", ")
        );
        ConfigError::unless(leaves.len() <= 1, "default", problem)?;
        return Ok(all.iter().position(|node| !node.is_inner).unwrap_or_default());
    };
    let index = all.iter().position(|node| node.name == name && !node.is_inner);
    let problem = format!("no leaf is named `{name}`; available: {}", leaves.join(", "));
    index.ok_or_else(|| ConfigError::at("default", problem))
}

/// Returns the index, among all classes, of the leaf for packets that match no class. The parameters must have been
/// checked.
pub(super) fn default_class(config: &Config) -> usize {
    let is_parent = |name: &String| config.classes.values().any(|class| class.parent.as_ref() == Some(name));
    let only_leaf = || config.classes.keys().find(|name| !is_parent(name));
    let default = config.default.as_ref().or_else(only_leaf);
    default.and_then(|default| config.classes.keys().position(|name| name == default)).unwrap_or_default()
}

/// Returns the quanta that are derived from the rates because they are not set.
pub(super) fn derived(config: &Config, link: Rate) -> Vec<Derived> {
    let single_class = single_class(link);
    let Ok(all) = class_nodes(config, &single_class) else { return Vec::new() };
    let mut derived = Vec::new();
    for leaf in all.iter().filter(|node| !node.is_inner) {
        if leaf.class.quantum.is_none() {
            let bytes = quantum(leaf, config).bytes() as f64;
            derived.push(Derived::new("quantum", bytes, "bytes").within(&format!("classes.{}", leaf.name)));
        }
    }
    derived
}

/// Returns warnings about parameters for which the kernel also prints warnings, and about parameters that have
/// unexpected effects.
pub(super) fn warnings(config: &Config, link: Rate) -> Vec<ConfigError> {
    let single_class = single_class(link);
    let Ok(all) = class_nodes(config, &single_class) else { return Vec::new() };
    let mut warnings = Vec::new();
    let mut warn = |node: &ClassNode<'_>, field: &str, problem: String| {
        warnings.push(ConfigError::at(format!("classes.{}.{field}", node.name), problem));
    };
    for (number, node) in all.iter().enumerate() {
        match node.parent.map(|parent| &all[parent]) {
            None if node.rate > link => {
                warn(
                    node,
                    "rate",
                    format!("exceeds the link rate of {link}; the class never delays a packet"),
                );
            }
            Some(parent) if node.ceil > parent.ceil => {
                let problem = format!(
                    "exceeds the ceil of its parent `{}`, {}, which limits this class",
                    parent.name, parent.ceil
                );
                warn(node, "ceil", problem);
            }
            _ => {}
        }
        if node.is_inner {
            let children = all.iter().filter(|other| other.parent == Some(number));
            let sum: u64 = children.map(|other| other.rate.bps()).sum();
            if sum > node.ceil.bps() {
                let problem = format!(
                    "the rates of the child classes add up to {}, which exceeds the class's ceil of {}",
                    Rate::from_bps(sum),
                    node.ceil
                );
                warn(node, "ceil", problem);
            }
            continue;
        }
        let quotient = node.rate.bps() / 8 / config.r2q;
        match node.class.quantum {
            Some(given) if given.bytes() < MIN_QUANTUM => {
                warn(
                    node,
                    "quantum",
                    format!(
                        "{given} is less than a packet, so borrowing classes send equal numbers of packets, not bytes"
                    ),
                );
            }
            None if node.rate < node.ceil && !(MIN_QUANTUM..=MAX_QUANTUM).contains(&quotient) => {
                let effective = quantum(node, config);
                let problem = format!(
                    "rate divided by r2q is {quotient}B, so {effective} is used, as in Linux; set quantum or r2q"
                );
                warn(node, "quantum", problem);
            }
            _ => {}
        }
    }
    warnings
}
