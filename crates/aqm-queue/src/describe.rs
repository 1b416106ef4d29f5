//! What the parameters of a discipline build, and what they tell of it without a run.

use aqm_net::{ConfigError, ConfigErrors, Length, Rate};
use serde_json::Value;

use crate::{Config, QueueDiscipline};

/// The parameters of a discipline: they build the running discipline.
///
/// What else there is to know of the parameters is in [`Describe`] and [`TestCases`], whose methods all have defaults.
pub trait Build: Describe + TestCases {
    /// Checks all parameters and makes the running discipline for a link of this rate.
    ///
    /// # Errors
    /// Every field that is wrong, and what is allowed.
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors>;
}

/// What the parameters of a discipline tell without a run. A discipline overrides what differs from the defaults.
pub trait Describe {
    /// The drop function: the probability of dropping a packet at this `average` queue (in the unit of the
    /// thresholds), before drops are spaced; `relative_window` is the window of the packet's sender over the
    /// average window, and `class` the packet's class. `None` if the discipline has no such function, or its
    /// parameters are wrong; that of a queue that adapts is the one it begins with.
    fn drop_curve(&self, _average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        None
    }

    /// The disciplines inside that the parameters name. What these need and choose is added to what the discipline
    /// itself needs and chooses, unless it overrides the method.
    fn inner(&self, _rate: Rate) -> Vec<Inner<'_>> {
        Vec::new()
    }

    /// Whether the discipline treats classes differently, so that packets must be classified before they arrive.
    fn wants_classes(&self) -> bool {
        any_inner(self, |config| config.wants_classes())
    }

    /// Whether the discipline reads the congestion windows of senders, so that packets must carry them.
    fn wants_windows(&self) -> bool {
        any_inner(self, |config| config.wants_windows())
    }

    /// Whether the discipline reads the source and destination hosts of packets, so that packets must carry them.
    fn wants_hosts(&self) -> bool {
        any_inner(self, |config| config.wants_hosts())
    }

    /// Whether the discipline may hold packets back although the link is free.
    fn holds_back(&self) -> bool {
        false
    }

    /// The maximum rate at which packets leave a link of this rate: that of a shaper, if it is lower.
    fn outlet(&self, link: Rate) -> Rate {
        link
    }

    /// The workloads that the parameters name, each with the path of the parameter.
    fn names_traffic(&self) -> Vec<(String, &str)> {
        let within = |(at, name): (String, _), place: &str| (format!("{place}.{at}"), name);
        of_inner(self.inner(Rate::default()), |config, _| config.names_traffic(), within)
    }

    /// The values that the discipline computes from the parameters and the rate of the link: thresholds and weights
    /// that a scenario leaves out. The parameters have been checked.
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        derived_inside(self, rate)
    }

    /// The `options` of `tc -s -j qdisc show` for this discipline, with its `kind` and `tc`'s own units (bytes, bytes
    /// per second, microseconds). `None` if the kernel has no such discipline.
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        None
    }

    /// Values that are allowed but suspicious on a link of this rate: the path of each, and the reason. The parameters
    /// have been checked.
    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        warnings_inside(self, rate)
    }
}

/// What tests and benchmarks know of a discipline.
pub trait TestCases {
    /// Tables of parameters, laid over the defaults, that are hardest for the algorithm: small queues, quick averages,
    /// every branch. The invariants are checked with each of them.
    fn corners(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Whether each flow has a queue of its own, so that the cost of a packet may depend on the number of backlogged
    /// flows.
    fn has_flow_queues(&self) -> bool {
        false
    }

    /// The maximum backlog, if the parameter `limit` does not say it.
    fn holds_at_most(&self) -> Option<Length> {
        None
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

fn any_inner(outer: &(impl Describe + ?Sized), holds: impl Fn(&Config) -> bool) -> bool {
    // Which disciplines are inside does not depend on the line.
    outer.inner(Rate::default()).iter().any(|inner| holds(inner.config))
}

/// What the disciplines inside of `outer` choose by themselves.
pub(crate) fn derived_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<Derived> {
    of_inner(outer.inner(rate), |config, rate| config.derived(rate), Derived::within)
}

/// What is suspicious in the disciplines inside of `outer`.
pub(crate) fn warnings_inside(outer: &(impl Describe + ?Sized), rate: Rate) -> Vec<ConfigError> {
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
    pub(crate) fn new(name: &str, value: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, unit }
    }

    /// The same seen from outside: its discipline stands at `place`.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.name = format!("{place}.{}", self.name);
        self
    }
}
