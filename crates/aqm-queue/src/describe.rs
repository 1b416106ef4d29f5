//! Traits for the parameters of a queue discipline, which build the discipline from its parameters and derive facts
//! from the parameters without a simulation.

use aqm_net::{ConfigError, ConfigErrors, Length, Rate};
use serde_json::Value;

use crate::tc::{self, Qdisc};
use crate::{Config, QueueDiscipline};

/// The parameters of a queue discipline, from which the discipline is built.
///
/// The traits [`Describe`] and [`TestCases`] provide all other facts about the parameters. All methods of these two
/// traits have default implementations.
pub trait Build: Describe + TestCases {
    /// Checks all parameters and builds the queue discipline for a link with this rate.
    ///
    /// # Errors
    /// Returns one error for each invalid field. The error states the allowed values.
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors>;
}

/// Facts that follow from the parameters without a simulation. A discipline overrides each method whose default does
/// not apply to the discipline.
pub trait Describe {
    /// Returns the value of the drop function: the probability of dropping a packet at this `average` queue length (in
    /// the unit of the thresholds), before the discipline adjusts this probability to space its drops.
    /// `relative_window` is the window of the packet's sender divided by the average window of all senders, and `class`
    /// is the packet's class. Returns `None` if the discipline has no drop function, or if the parameters are invalid.
    /// If a discipline adapts its drop function, the initial drop function is used.
    fn drop_curve(&self, _average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        None
    }

    /// Returns the inner disciplines that the parameters configure. By default, the outer discipline also has the
    /// requirements and the derived values of its inner disciplines.
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        Vec::new()
    }

    /// Returns whether packets must be classified before they arrive, because the discipline treats the classes
    /// differently.
    fn needs_classes(&self) -> bool {
        any_inner(self, |config| config.needs_classes())
    }

    /// Returns whether packets must carry the congestion windows of their senders, because the discipline reads these
    /// windows.
    fn needs_windows(&self) -> bool {
        any_inner(self, |config| config.needs_windows())
    }

    /// Returns whether packets must carry their source and destination hosts, because the discipline reads these hosts.
    fn needs_hosts(&self) -> bool {
        any_inner(self, |config| config.needs_hosts())
    }

    /// Returns whether the discipline may hold back packets while the link is free.
    fn holds_back(&self) -> bool {
        false
    }

    /// Returns the maximum rate at which packets leave a link with this rate. A shaper returns the shaper rate if the
    /// shaper rate is lower than the link rate.
    fn outlet(&self, link: Rate) -> Rate {
        link
    }

    /// Returns the workload names that occur in the parameters, each with the path of its parameter.
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

    /// Returns the discipline as the command `tc` creates it on a link with this rate. The parameters must have been
    /// checked.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have this discipline, or if `tc` cannot express a parameter without
    /// which the command would create another discipline.
    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        Err(tc::absent())
    }

    /// Returns warnings about values that are allowed but are probably mistakes on a link with this rate. Each warning
    /// contains the path of the value and the reason. The parameters must have been checked.
    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        warnings_inside(self, rate)
    }
}

/// Facts about a discipline that are used by tests and benchmarks.
pub trait TestCases {
    /// Returns tables of parameters that differ from the defaults and are difficult for the algorithm: small queues,
    /// fast averages, and values that exercise every branch. Tests check the invariants with each of these tables.
    fn corners(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Returns whether each flow has a separate queue. If so, the processing cost of a packet may depend on the number
    /// of backlogged flows.
    fn has_flow_queues(&self) -> bool {
        false
    }

    /// Returns the maximum backlog, if this maximum is determined by something other than the `limit` parameter.
    fn max_backlog(&self) -> Option<Length> {
        None
    }
}

/// A discipline inside another discipline. The outer discipline's parameters configure the inner discipline.
pub struct Inner<'a> {
    /// The path of the inner discipline's parameters, such as `classes.web.queue`.
    pub path: String,
    /// The inner discipline's parameters.
    pub config: &'a Config,
    /// The link rate for which the inner discipline is built.
    pub rate: Rate,
}

fn any_inner(outer: &(impl Describe + ?Sized), holds: impl Fn(&Config) -> bool) -> bool {
    // Any link rate can be used here, because the link rate does not determine which inner disciplines exist.
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

/// Collects the entries of the inner disciplines' lists, and prefixes each entry with the path of its inner discipline.
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
    /// The name of the parameter, such as `min_th`. For an inner discipline, the name is prefixed with the path of the
    /// inner discipline.
    pub name: String,
    /// The value of the parameter.
    pub value: f64,
    /// The unit of the value: `packets`, `bytes`, `bps`, or empty.
    pub unit: &'static str,
}

impl Derived {
    /// Creates a derived value: the parameter `name` has the value `value`.
    pub(crate) fn new(name: &str, value: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, unit }
    }

    /// Returns this derived value after prefixing its name with `path`, the path of its discipline within the outer
    /// discipline.
    pub(crate) fn within(mut self, path: &str) -> Self {
        self.name = format!("{path}.{}", self.name);
        self
    }
}
