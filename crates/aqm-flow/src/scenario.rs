//! The scenario of a run at flow level. The parser checks all settings, so that running a parsed scenario cannot fail.
//! The parsed scenario is also the plan of the run.
//!
//! Model: T. Bonald & J. W. Roberts, "Congestion at Flow Level and the Impact of User Behaviour", 2003. By default,
//! sessions arrive as a Poisson process. Each session is a sequence of flows that are separated by think times. With
//! processor sharing, the distribution of the number of flows in progress depends on the flow sizes only through the
//! mean flow size.

use std::fmt;

use aqm_net::level::LEVEL;
use aqm_net::{
    ConfigError, ConfigErrors, ErrorCollector, Parameters as _, Rate, Span, TableReader, choices, parameters,
};
use aqm_traffic::distributions::{self, Amount, Sizes, Times, exponential};
use serde_json::{Value, json};

choices! {
    /// Sharing of the link by the flows in progress.
    pub enum Discipline {
        /// At any time, all flows get equal shares of the link, limited by their peak rates (max-min fairness).
        ProcessorSharing = "processor-sharing",
        /// Flows get shares of the link in proportion to their weights.
        Weighted = "weighted",
        /// The link serves one flow at a time, in the order of arrival.
        Fifo = "fifo",
        /// The flow with the fewest remaining bytes uses the whole link.
        ShortestRemaining = "shortest-remaining",
    }
}

impl Discipline {
    /// Returns whether flows share the link at the same time.
    pub(crate) fn shares(self) -> bool {
        matches!(self, Self::ProcessorSharing | Self::Weighted)
    }
}

choices! {
    /// Reaction of flows to the available rate.
    pub enum Service {
        /// Flows send at the available rate, so flows take longer if the rate is lower.
        Elastic = "elastic",
        /// The duration of a flow is its size divided by its peak rate; data that the link cannot carry are lost.
        Streaming = "streaming",
    }
}

parameters! {
    /// The link of a scenario at flow level.
    pub struct Link {
        /// Rate of the link.
        pub capacity: Rate = Rate::from_bps(50_000_000), "Roberts & Augé talk";
        /// Sharing of the link by the flows in progress.
        pub discipline: Discipline = Discipline::ProcessorSharing, "Roberts & Augé talk: fair sharing";
    }
}

parameters! {
    /// Traffic at flow level, `[traffic.NAME]`: sessions of one or more flows.
    pub struct Traffic {
        /// Offered load as a fraction of the capacity; set either `load` or `sessions_per_second`.
        pub load: Option<f64> = None, "no default: either `load` or `sessions_per_second` is required";
        /// Mean number of arriving sessions per second; set either `sessions_per_second` or `load`.
        pub sessions_per_second: Option<f64> = None,
            "no default: either `sessions_per_second` or `load` is required";
        /// Mean number of flows per session; the number of flows has a geometric distribution.
        pub flows: f64 = 1.0,
            "aqmlab's choice: one flow per session, so that flows arrive as a Poisson process";
        /// Times between the arrivals of sessions; the mean is determined by `load` or `sessions_per_second`.
        pub gaps: distributions::Config = distributions::Config::exponential(exponential::Config::default()),
            "Roberts & Augé talk: Poisson flows";
        /// Sizes of flows.
        pub sizes: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::bytes(100_000))),
            "aqmlab's choice: 100 packets of the packet size in the Roberts & Augé talk";
        /// Think time from the end of a flow to the start of the next flow in the same session.
        pub think_time: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::millis(1000))), "aqmlab's choice";
        /// Probability that a flow has the same size as the previous flow in the same session.
        pub same_size: f64 = 0.0, "aqmlab's choice: flow sizes are independent";
        /// Maximum rate of each flow, for example the rate of the user's access link.
        pub peak_rate: Option<Rate> = None, "aqmlab's choice: no peak rate";
        /// Weight of each flow under the discipline `weighted`.
        pub weight: f64 = 1.0, "aqmlab's choice";
        /// Reaction of flows to the available rate.
        pub service: Service = Service::Elastic, "aqmlab's choice";
    }
}

parameters! {
    /// Settings for the optional tables of a run at flow level.
    ///
    /// Distributions and averages are always recorded.
    pub struct Record {
        /// Whether to record a row for each flow.
        pub flows: bool = true, "aqmlab's choice";
        /// Interval at which the number of flows in progress is recorded, in one row per traffic class; with `0s`, the
        /// number is not recorded.
        pub every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// Name of the aggregate of all elastic flows in the table `distribution`.
pub(crate) const ELASTIC: &str = "elastic";

/// Maximum number of traffic classes. The processing time of each event grows with the number of classes.
const MAX_TRAFFIC: usize = 100;
/// Maximum number of recorded flows, because each recorded flow needs memory.
const MAX_KEPT: f64 = 5e7;
/// Maximum number of flows; a run with more flows would take hours.
const MAX_FLOWS: f64 = 1e10;
/// Maximum number of samples, because each sample needs memory.
const MAX_SAMPLES: f64 = 1e7;

/// A checked traffic class.
#[derive(Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) config: Traffic,
    pub(crate) sizes: Sizes,
    /// Times between the arrivals of sessions, in seconds.
    pub(crate) gaps: Times,
    pub(crate) think_time: Times,
    pub(crate) load: f64,
    pub(crate) sessions_per_second: f64,
}

/// A checked scenario at flow level, with all defaults filled in.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) duration: Span,
    pub(crate) warm_up: Span,
    /// Seed of the random streams.
    pub(crate) seed: u64,
    pub(crate) link: Link,
    pub(crate) classes: Vec<Class>,
    pub(crate) record: Record,
}

/// Value of the key `level` that selects the flow level.
pub(crate) const FLOW: &str = "flow";

/// Keys of a scenario, except `level`.
pub(crate) const KEYS: &[&str] = &["duration", "warm_up", "seed", "link", "traffic", "record"];

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Scenario {
    /// Parses and checks a scenario given as a JSON value.
    ///
    /// # Errors
    /// Returns all errors, with their paths and the allowed values.
    pub fn from_value(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let level = table.value(LEVEL);
        table.check(level.is_none_or(|level| level == FLOW), LEVEL, "must be `flow`");
        let remedy = "set it to the duration of the run, such as \"1000s\"";
        let duration = table.require::<Span>("duration", remedy);
        table.check(duration != Some(Span::ZERO), "duration", "must be greater than zero");
        let warm_up = table.take("warm_up").unwrap_or(Span::ZERO);
        let run = duration.unwrap_or(Span::ZERO);
        let problem = format_args!("must be shorter than `duration`, which is {run}");
        table.check(run.is_zero() || warm_up < run, "warm_up", problem);
        let seed = table.take("seed").unwrap_or(1);
        let link = table.take("link").unwrap_or_default();
        let classes = table.take_each("traffic", |name, value| Class::read(name, value, &link));
        if let Some(classes) = &classes {
            table.check(!classes.is_empty(), "traffic", "is missing: add a `[traffic.NAME]` table");
            let problem = format_args!("must have at most {MAX_TRAFFIC} tables (got {})", classes.len());
            table.check(classes.len() <= MAX_TRAFFIC, "traffic", problem);
        }
        let record = table.take("record").unwrap_or_default();
        let read = || {
            let (duration, classes) = (duration?, classes?.into_values().collect());
            Some(Self { duration, warm_up, seed, link, classes, record })
        };
        let read = read();
        table.note(read.as_ref().map_or(Ok(()), Self::check_size));
        table.finish(read)
    }

    /// Returns the complete scenario, including all defaults, as a JSON value; parsing the value returns the same
    /// scenario.
    pub fn to_value(&self) -> Value {
        let traffic = self.classes.iter().map(|class| (class.name.clone(), json!(class.config)));
        json!({
            LEVEL: FLOW,
            "duration": self.duration,
            "warm_up": self.warm_up,
            "seed": self.seed,
            "link": self.link,
            "traffic": Value::Object(traffic.collect()),
            "record": self.record,
        })
    }

    /// Rejects scenarios that need too much memory or time.
    fn check_size(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let seconds = self.duration.seconds();
        let most = if self.record.flows { MAX_KEPT } else { MAX_FLOWS };
        let mut flows = 0.0;
        for class in &self.classes {
            let before = flows;
            flows += class.sessions_per_second * class.config.flows * seconds;
            let problem = format!(
                "would cause about {flows:.0e} flows; the maximum is {most:.0e}, or {MAX_FLOWS:.0e} with \
                 `record.flows = false`: lower it or shorten `duration`"
            );
            errors.check(flows <= most || before > most, format!("traffic.{}", class.name), problem);
        }
        // On an overloaded link, unfinished flows accumulate.
        let load: f64 = self.classes.iter().map(|class| class.load).sum();
        let problem = format!(
            "is too long for a load of {load}: more than {MAX_KEPT:.0e} flows would be in progress; \
             shorten the duration, or lower the load"
        );
        errors.check(flows == 0.0 || flows * (1.0 - 1.0 / load) <= MAX_KEPT, "duration", problem);
        if !self.record.every.is_zero() {
            let rows = seconds / self.record.every.seconds() * self.classes.len() as f64;
            let problem = format!(
                "would cause {rows:.0e} rows; the maximum is {MAX_SAMPLES:.0e}: lengthen the interval"
            );
            errors.check(rows <= MAX_SAMPLES, "record.every", problem);
        }
        errors.finish(())
    }
}

impl Class {
    fn read(name: &str, value: Value, link: &Link) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let problem =
            format_args!("the name `{ELASTIC}` is reserved for all elastic flows together: use another name");
        table.check(name != ELASTIC, "", problem);
        let config = Traffic::take_from(&mut table);
        let sizes = table.note(config.sizes.sizes(None).map_err(|error| error.within("sizes")));
        let think_time = table.note(config.think_time.seconds().map_err(|error| error.within("think_time")));
        let problem = format_args!("must be between 1 and 1000000 (got {})", config.flows);
        table.check((1.0..=1e6).contains(&config.flows), "flows", problem);
        let problem = format_args!("must be between 0 and 1 (got {})", config.same_size);
        table.check((0.0..=1.0).contains(&config.same_size), "same_size", problem);
        config.check_rates(link, &mut table);
        let read = sizes.zip(think_time).and_then(|(sizes, think_time)| {
            let session = config.flows * sizes.mean() / link.capacity.bytes_per_second();
            let sessions_per_second = table.note(config.sessions_per_second(session))?;
            let gaps = config.gaps.times_with_mean(1.0 / sessions_per_second);
            let gaps = table.note(gaps.map_err(|error| error.within("gaps")))?;
            let (name, load) = (name.to_owned(), sessions_per_second * session);
            Some(Self { name, config, sizes, gaps, think_time, load, sessions_per_second })
        });
        table.finish(read)
    }
}

impl Traffic {
    /// Returns the configured number of sessions per second. `session` is the load that is offered by one session per
    /// second.
    fn sessions_per_second(&self, session: f64) -> Result<f64, ConfigError> {
        let (path, problem) = match (self.load, self.sessions_per_second) {
            (Some(load), None) if load > 0.0 && load <= 10.0 => return Ok(load / session),
            (None, Some(rate)) if rate > 0.0 && rate * session <= 10.0 => return Ok(rate),
            (Some(load), None) => ("load", format!("must be above 0 and at most 10 (got {load})")),
            (None, Some(rate)) => {
                let most = 10.0 / session;
                let problem =
                    format!("must be above 0 and at most {most:.3e}, which is a load of 10 (got {rate})");
                ("sessions_per_second", problem)
            }
            (None, None) => ("load", "is missing: set either `load` or `sessions_per_second`".to_owned()),
            (Some(_), Some(_)) => ("load", "set either `load` or `sessions_per_second`, not both".to_owned()),
        };
        Err(ConfigError::at(path, problem))
    }

    /// Checks the peak rate and the weight of a flow.
    fn check_rates(&self, link: &Link, table: &mut TableReader) {
        let streaming = self.service == Service::Streaming;
        let shared = "must not be set unless the discipline is `processor-sharing` or `weighted`";
        if streaming {
            table.check(link.discipline.shares(), "service", shared);
            let problem = format_args!(
                "must be set for streaming, and must be at most the capacity of {}",
                link.capacity
            );
            table.check(self.peak_rate.is_some_and(|rate| rate <= link.capacity), "peak_rate", problem);
        } else {
            table.check(link.discipline.shares() || self.peak_rate.is_none(), "peak_rate", shared);
        }
        let may_weigh = link.discipline == Discipline::Weighted && !streaming;
        let problem = "must be 1 unless the discipline is `weighted` and the flows are elastic";
        table.check(self.weight == 1.0 || may_weigh, "weight", problem);
        let problem = format_args!("must be between 0.001 and 1000 (got {})", self.weight);
        table.check((1e-3..=1e3).contains(&self.weight), "weight", problem);
    }
}
