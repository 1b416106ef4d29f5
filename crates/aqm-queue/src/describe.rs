//! The parameters of a queue discipline: what is built from them, and which values follow from them without a
//! simulation.

use aqm_net::{ConfigError, ConfigErrors, Length, Rate};
use serde_json::Value;

use crate::{Config, QueueDiscipline};

/// The parameters of a queue discipline, from which the discipline is built.
///
/// [`Describe`] and [`TestCases`] define all other facts about the parameters. All of their methods have defaults.
pub trait Build: Describe + TestCases {
    /// Checks all parameters and builds the queue discipline for a link with this rate.
    ///
    /// # Errors
    /// Returns one error per invalid field, which states what is allowed.
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors>;
}

/// Facts that the parameters determine without a simulation. A discipline overrides each method whose default does not
/// apply.
pub trait Describe {
    /// Returns the value of the drop function: the probability of dropping a packet at this `average` queue length (in
    /// the unit of the thresholds), before the discipline spaces drops. `relative_window` is the window of the packet's
    /// sender divided by the average window of all senders, and `class` is the packet's class. Returns `None` if the
    /// discipline has no drop function, or if the parameters are invalid. A discipline that adapts its drop function
    /// uses the initial function.
    fn drop_curve(&self, _average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        None
    }

    /// Returns the inner disciplines that the parameters configure. By default, the requirements and derived values of
    /// the inner disciplines are added to those of the outer discipline.
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        Vec::new()
    }

    /// Returns whether the discipline treats classes differently, so that packets must be classified before they
    /// arrive.
    fn needs_classes(&self) -> bool {
        any_inner(self, |config| config.needs_classes())
    }

    /// Returns whether the discipline reads the congestion windows of senders, so that packets must carry them.
    fn needs_windows(&self) -> bool {
        any_inner(self, |config| config.needs_windows())
    }

    /// Returns whether the discipline reads the source and destination hosts of packets, so that packets must carry
    /// them.
    fn needs_hosts(&self) -> bool {
        any_inner(self, |config| config.needs_hosts())
    }

    /// Returns whether the discipline may delay packets although the link is free.
    fn holds_back(&self) -> bool {
        false
    }

    /// Returns the maximum rate at which packets leave a link with this rate. A shaper returns the shaper rate if it is
    /// lower.
    fn outlet(&self, link: Rate) -> Rate {
        link
    }

    /// Returns the names of workloads that occur in the parameters, each with the path of the parameter.
    fn traffic_names(&self) -> Vec<(String, &str)> {
        let within = |(at, name): (String, _), path: &str| (format!("{path}.{at}"), name);
        of_inner(self.inner(Rate::default()), |config, _| config.traffic_names(), within)
    }

    /// Returns the values that the discipline computes from the parameters and the link rate, such as thresholds and
    /// weights that the scenario does not set. The parameters must have been checked.
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        derived_inside(self, rate)
    }

    /// Returns the `options` that `tc -s -j qdisc show` prints for this discipline, with the discipline's `kind`, in
    /// the units of `tc` (bytes, bytes per second, microseconds). Returns `None` if the kernel does not have this
    /// discipline.
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        None
    }

    /// Returns the values that are allowed, but are probably mistakes on a link with this rate. Each entry contains the
    /// path of the value and the reason. The parameters must have been checked.
    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        warnings_inside(self, rate)
    }
}

/// Facts about a discipline that tests and benchmarks use.
pub trait TestCases {
    /// Returns tables of parameters that differ from the defaults and are difficult for the algorithm: small queues,
    /// fast averages, and parameters that reach every branch. Tests check the invariants with each of these tables.
    fn corners(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Returns whether each flow has a separate queue, so that the cost of a packet may depend on the number of
    /// backlogged flows.
    fn has_flow_queues(&self) -> bool {
        false
    }

    /// Returns the maximum backlog if it is determined by something other than the parameter `limit`.
    fn max_backlog(&self) -> Option<Length> {
        None
    }
}

/// A discipline inside another discipline, as configured by the outer discipline's parameters.
pub struct Inner<'a> {
    /// The path of the inner discipline's parameters, such as `classes.web.queue`.
    pub path: String,
    /// The inner discipline's parameters.
    pub config: &'a Config,
    /// The link rate for which the inner discipline is built.
    pub rate: Rate,
}

fn any_inner(outer: &(impl Describe + ?Sized), holds: impl Fn(&Config) -> bool) -> bool {
    // The link rate does not matter, because it does not change which inner disciplines exist.
    outer.inner(Rate::default()).iter().any(|inner| holds(inner.config))
}

/// Returns the derived values of the disciplines inside `outer`.
pub(crate) fn derived_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<Derived> {
    of_inner(outer.inner(rate), |config, rate| config.derived(rate), Derived::within)
}

/// Returns the warnings of the disciplines inside `outer`.
pub(crate) fn warnings_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<ConfigError> {
    of_inner(outer.inner(rate), |config, rate| config.warnings(rate), ConfigError::within)
}

/// Collects the entries of a list from each inner discipline, and prefixes each entry with the inner discipline's path.
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
    /// The name of the parameter, such as `min_th`. In an inner discipline, the name is prefixed with the path of the
    /// discipline.
    pub name: String,
    /// The value of the parameter.
    pub value: f64,
    /// The unit of the value: `packets`, `bytes`, `bps`, or empty.
    pub unit: &'static str,
}

impl Derived {
    /// Creates the derived value `value` of the parameter `name`.
    pub(crate) fn new(name: &str, value: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, unit }
    }

    /// Returns this value with its name prefixed by `path`, the path of its discipline within the outer discipline.
    pub(crate) fn within(mut self, path: &str) -> Self {
        self.name = format!("{path}.{}", self.name);
        self
    }
}
