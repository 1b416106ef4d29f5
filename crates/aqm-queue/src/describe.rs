//! The parameters of a discipline: what they build, and what they determine without a run.

use aqm_net::{ConfigError, ConfigErrors, Length, Rate};
use serde_json::Value;

use crate::{Config, QueueDiscipline};

/// The parameters of a discipline, from which the running discipline is built.
///
/// All other facts about the parameters are in [`Describe`] and [`TestCases`], whose methods all have defaults.
pub trait Build: Describe + TestCases {
    /// Checks all parameters and builds the running discipline for a link of this rate.
    ///
    /// # Errors
    /// Every wrong field, with what is allowed.
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors>;
}

/// Facts that the parameters determine without a run. A discipline overrides the methods where it differs from the
/// defaults.
pub trait Describe {
    /// The drop function: the probability of dropping a packet at this `average` queue length (in the unit of the
    /// thresholds), before drops are spaced out. `relative_window` is the window of the packet's sender divided by the
    /// average window, and `class` is the packet's class. `None` if the discipline has no drop function, or if its
    /// parameters are wrong. A queue that adapts its function returns the initial one.
    fn drop_curve(&self, _average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        None
    }

    /// The inner disciplines in the parameters. By default the requirements and derived values of the inner disciplines
    /// are added to those of the outer discipline.
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        Vec::new()
    }

    /// Whether the discipline treats classes differently, so that packets must be classified before they arrive.
    fn needs_classes(&self) -> bool {
        any_inner(self, |config| config.needs_classes())
    }

    /// Whether the discipline reads the congestion windows of senders, so that packets must carry them.
    fn needs_windows(&self) -> bool {
        any_inner(self, |config| config.needs_windows())
    }

    /// Whether the discipline reads the source and destination hosts of packets, so that packets must carry them.
    fn needs_hosts(&self) -> bool {
        any_inner(self, |config| config.needs_hosts())
    }

    /// Whether the discipline may hold packets back although the link is free.
    fn holds_back(&self) -> bool {
        false
    }

    /// The maximum rate at which packets leave a link of this rate. A shaper returns its own rate if it is lower.
    fn outlet(&self, link: Rate) -> Rate {
        link
    }

    /// The workloads that the parameters name, each with the path of the parameter.
    fn traffic_names(&self) -> Vec<(String, &str)> {
        let within = |(at, name): (String, _), path: &str| (format!("{path}.{at}"), name);
        of_inner(self.inner(Rate::default()), |config, _| config.traffic_names(), within)
    }

    /// The values that the discipline computes from the parameters and the link rate: thresholds and weights that the
    /// scenario does not set. The parameters have been checked.
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        derived_inside(self, rate)
    }

    /// The `options` of `tc -s -j qdisc show` for this discipline, with its `kind` and `tc`'s own units (bytes, bytes
    /// per second, microseconds). `None` if the kernel has no such discipline.
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        None
    }

    /// Values that are allowed but suspicious on a link of this rate: the path of each value, and the reason. The
    /// parameters have been checked.
    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        warnings_inside(self, rate)
    }
}

/// Information on a discipline for tests and benchmarks.
pub trait TestCases {
    /// Parameters, as changes to the defaults, with which the algorithm is hardest to get right: small queues, fast
    /// averages, every branch. The invariants are checked with each of these tables.
    fn corners(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Whether each flow has a queue of its own, so that the cost of a packet may depend on the number of backlogged
    /// flows.
    fn has_flow_queues(&self) -> bool {
        false
    }

    /// The maximum backlog, if the parameter `limit` does not determine it.
    fn max_backlog(&self) -> Option<Length> {
        None
    }
}

/// A discipline inside another one, as configured by the outer discipline's parameters.
pub struct Inner<'a> {
    /// The path of its parameters, such as `classes.web.queue`.
    pub path: String,
    /// Its parameters.
    pub config: &'a Config,
    /// The link rate for which it is built.
    pub rate: Rate,
}

fn any_inner(outer: &(impl Describe + ?Sized), holds: impl Fn(&Config) -> bool) -> bool {
    // The choice of inner disciplines does not depend on the rate of the link.
    outer.inner(Rate::default()).iter().any(|inner| holds(inner.config))
}

/// The derived values of the disciplines inside `outer`.
pub(crate) fn derived_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<Derived> {
    of_inner(outer.inner(rate), |config, rate| config.derived(rate), Derived::within)
}

/// The warnings of the disciplines inside `outer`.
pub(crate) fn warnings_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<ConfigError> {
    of_inner(outer.inner(rate), |config, rate| config.warnings(rate), ConfigError::within)
}

/// Collects a list from each inner discipline, and adds the discipline's path to each entry.
fn of_inner<'a, T>(
    inside: Vec<Inner<'a>>,
    collect: impl Fn(&'a Config, Rate) -> Vec<T>,
    within: impl Fn(T, &str) -> T,
) -> Vec<T> {
    let of_one = |Inner { path, config, rate }| {
        collect(config, rate).into_iter().map(|entry| within(entry, &path)).collect::<Vec<T>>()
    };
    inside.into_iter().flat_map(of_one).collect()
}

/// A value that a discipline derives from its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The parameter whose value this is, such as `min_th`; for an inner discipline, with the discipline's path in
    /// front.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit: `packets`, `bytes`, `bps`, or empty.
    pub unit: &'static str,
}

impl Derived {
    /// The `value` of `name`.
    pub(crate) fn new(name: &str, value: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, unit }
    }

    /// This value with `path`, the path of its discipline in the outer one, in front of its name.
    pub(crate) fn within(mut self, path: &str) -> Self {
        self.name = format!("{path}.{}", self.name);
        self
    }
}
