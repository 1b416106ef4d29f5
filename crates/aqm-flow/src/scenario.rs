//! The scenario of a run at flow level, as read: every check is made here, so that a run cannot fail. It is the plan of a
//! run, too.
//!
//! The model: T. Bonald & J. W. Roberts, "Congestion at Flow Level and the Impact of User Behaviour", 2003;
//! sessions arrive as a Poisson process by default, and each is a row of flows with time to think between them. With
//! processor sharing the number of flows in progress depends on the sizes through their mean only.

use std::fmt;

use aqm_net::stage::LEVEL;
use aqm_net::{
    ConfigError, ConfigErrors, ErrorCollector, Parameters as _, Rate, Span, TableReader, choices, parameters,
};
use aqm_traffic::distributions::{self, Amount, Sizes, Times, exponential};
use serde_json::{Value, json};

choices! {
    /// How the flows in progress share the link.
    pub enum Discipline {
        /// All have the same share at every instant, up to their peak rates: max-min.
        ProcessorSharing = "processor-sharing",
        /// Shares are as the weights.
        Weighted = "weighted",
        /// One after another, in the order of arrival.
        Fifo = "fifo",
        /// Whoever has the least left to send has the whole link.
        ShortestRemaining = "shortest-remaining",
    }
}

impl Discipline {
    /// Whether flows share the link, rather than having it in turn.
    pub(crate) fn shares(self) -> bool {
        matches!(self, Self::ProcessorSharing | Self::Weighted)
    }
}

choices! {
    /// What flows do about the rate they get.
    pub enum Service {
        /// They take what they get, and last the longer the less it is.
        Elastic = "elastic",
        /// They last their size over their peak rate; what the link cannot carry is lost.
        Streaming = "streaming",
    }
}

parameters! {
    /// The link of a scenario at flow level.
    pub struct Link {
        /// How fast it sends.
        pub capacity: Rate = Rate::from_bps(50_000_000), "Roberts & Augé talk";
        /// How the flows in progress share it.
        pub discipline: Discipline = Discipline::ProcessorSharing, "Roberts & Augé talk: fair sharing";
    }
}

parameters! {
    /// Traffic at flow level, `[traffic.NAME]`: sessions of one flow or several.
    pub struct Traffic {
        /// The offered load as a share of the capacity; give this or `sessions_per_second`.
        pub load: Option<f64> = None, "no default: this or `sessions_per_second` must be given";
        /// The rate at which sessions come; give this or `load`.
        pub sessions_per_second: Option<f64> = None, "no default: this or `load` must be given";
        /// The mean number of flows in a session, which is geometric.
        pub flows: f64 = 1.0, "aqmlab's choice: Poisson flows";
        /// The gaps between the arrivals of sessions; their mean follows from the load or the rate.
        pub gaps: distributions::Config = distributions::Config::exponential(exponential::Config::default()),
            "Roberts & Augé talk: Poisson flows";
        /// How large flows are.
        pub sizes: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::bytes(100_000))),
            "aqmlab's choice: 100 packets of the size in Roberts & Augé's talk";
        /// From the end of a flow to the next one of its session.
        pub think_time: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::millis(1000))), "aqmlab's choice";
        /// The chance that a flow has the size of the one before in its session.
        pub same_size: f64 = 0.0, "aqmlab's choice: independent sizes";
        /// The most a flow can take of the link, which lies elsewhere, such as in an access line.
        pub peak_rate: Option<Rate> = None, "aqmlab's choice: none";
        /// The flow's weight, if the discipline is `weighted`.
        pub weight: f64 = 1.0, "aqmlab's choice";
        /// What flows do about the rate they get.
        pub service: Service = Service::Elastic, "aqmlab's choice";
    }
}

parameters! {
    /// What a run at flow level records beside distributions and averages, which it always does.
    pub struct Record {
        /// A row for each flow.
        pub flows: bool = true, "aqmlab's choice";
        /// A row for each traffic, so often: its flows in progress; `0s` for never.
        pub every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// The word for all elastic flows together, in the table `distribution`.
pub(crate) const ELASTIC: &str = "elastic";

/// More kinds of traffic than this are taken for a slip of the pen: each event looks at all.
const MOST_TRAFFIC: usize = 100;
/// More flows than this fill any memory, if they are kept.
const MOST_KEPT: f64 = 5e7;
/// More flows than this take hours.
const MOST_FLOWS: f64 = 1e10;
/// More samples than this fill any memory.
const MOST_SAMPLES: f64 = 1e7;

/// One kind of traffic, checked.
#[derive(Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) config: Traffic,
    pub(crate) sizes: Sizes,
    /// In seconds, as `think_time`.
    pub(crate) gaps: Times,
    pub(crate) think_time: Times,
    pub(crate) load: f64,
    pub(crate) sessions_per_second: f64,
}

/// A scenario at flow level, checked, defaults filled in.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) duration: Span,
    pub(crate) warm_up: Span,
    /// The seed of its random streams.
    pub(crate) seed: u64,
    pub(crate) link: Link,
    pub(crate) classes: Vec<Class>,
    pub(crate) record: Record,
}

/// What a scenario's `level` is here.
pub(crate) const FLOW: &str = "flow";

/// The keys of a scenario, beside `level`.
pub(crate) const KEYS: &[&str] = &["duration", "warm_up", "seed", "link", "traffic", "record"];

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Scenario {
    /// Reads and checks a scenario given as a plain value.
    ///
    /// # Errors
    /// Everything that is wrong, where, and what is allowed.
    pub fn from_value(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let level = table.value(LEVEL);
        table.check(level.is_none_or(|level| level == FLOW), LEVEL, "must be `flow` here");
        let remedy = "write how long the run lasts, such as \"1000s\"";
        let duration = table.require::<Span>("duration", remedy);
        table.check(duration != Some(Span::ZERO), "duration", "must be more than 0s");
        let warm_up = table.take("warm_up").unwrap_or(Span::ZERO);
        let run = duration.unwrap_or(Span::ZERO);
        let problem = format_args!("must be shorter than the duration, {run}");
        table.check(run.is_zero() || warm_up < run, "warm_up", problem);
        let seed = table.take("seed").unwrap_or(1);
        let link = table.take("link").unwrap_or_default();
        let classes = table.take_each("traffic", |name, value| Class::read(name, value, &link));
        if let Some(classes) = &classes {
            table.check(!classes.is_empty(), "traffic", "is missing: write a `[traffic.NAME]` table");
            let problem = format_args!("{} tables; at most {MOST_TRAFFIC} are allowed", classes.len());
            table.check(classes.len() <= MOST_TRAFFIC, "traffic", problem);
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

    /// The scenario in full, every default filled in; reading it gives the same scenario.
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

    /// Refuses what no machine could run.
    fn check_size(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let seconds = self.duration.seconds();
        let most = if self.record.flows { MOST_KEPT } else { MOST_FLOWS };
        let mut flows = 0.0;
        for class in &self.classes {
            let before = flows;
            flows += class.sessions_per_second * class.config.flows * seconds;
            let problem = format!(
                "makes about {flows:.0e} flows; at most {most:.0e} are allowed, {MOST_FLOWS:.0e} with \
                 `record.flows = false`: lower it or shorten `duration`"
            );
            errors.check(flows <= most || before > most, format!("traffic.{}", class.name), problem);
        }
        // What an overloaded link cannot carry stays.
        let load: f64 = self.classes.iter().map(|class| class.load).sum();
        let problem = format!(
            "the load, {load}, leaves more than {MOST_KEPT:.0e} flows in progress: shorten it, or lower the load"
        );
        errors.check(flows == 0.0 || flows * (1.0 - 1.0 / load) <= MOST_KEPT, "duration", problem);
        if !self.record.every.is_zero() {
            let rows = seconds / self.record.every.seconds() * self.classes.len() as f64;
            let problem = format!(
                "would make {rows:.0e} rows; at most {MOST_SAMPLES:.0e} are allowed: look less often"
            );
            errors.check(rows <= MOST_SAMPLES, "record.every", problem);
        }
        errors.finish(())
    }
}

impl Class {
    fn read(name: &str, value: Value, link: &Link) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let problem = format_args!("`{ELASTIC}` means all elastic traffic: give it another name");
        table.check(name != ELASTIC, "", problem);
        let config = Traffic::take_from(&mut table);
        let sizes = table.note(config.sizes.sizes(None).map_err(|error| error.within("sizes")));
        let think_time = table.note(config.think_time.seconds().map_err(|error| error.within("think_time")));
        let problem = format_args!("must be between 1 and 1000000, is {}", config.flows);
        table.check((1.0..=1e6).contains(&config.flows), "flows", problem);
        let problem = format_args!("must be between 0 and 1, is {}", config.same_size);
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
    /// The rate of sessions, each of which offers the load `session` if one comes in a second.
    fn sessions_per_second(&self, session: f64) -> Result<f64, ConfigError> {
        let (place, problem) = match (self.load, self.sessions_per_second) {
            (Some(load), None) if load > 0.0 && load <= 10.0 => return Ok(load / session),
            (None, Some(rate)) if rate > 0.0 && rate * session <= 10.0 => return Ok(rate),
            (Some(load), None) => ("load", format!("must be above 0 and at most 10, is {load}")),
            (None, Some(rate)) => {
                let most = 10.0 / session;
                let problem = format!("must be above 0 and at most {most:.3e}, a load of 10, is {rate}");
                ("sessions_per_second", problem)
            }
            (None, None) => ("load", "is missing: give `load` or `sessions_per_second`".to_owned()),
            (Some(_), Some(_)) => {
                ("load", "give either `load` or `sessions_per_second`, not both".to_owned())
            }
        };
        Err(ConfigError::at(place, problem))
    }

    /// Checks what a flow may take of the link.
    fn check_rates(&self, link: &Link, table: &mut TableReader) {
        let streaming = self.service == Service::Streaming;
        let shared = "must be left out unless the discipline is `processor-sharing` or `weighted`";
        if streaming {
            table.check(link.discipline.shares(), "service", shared);
            let problem =
                format_args!("must be given for streaming, at most the capacity, {}", link.capacity);
            table.check(self.peak_rate.is_some_and(|rate| rate <= link.capacity), "peak_rate", problem);
        } else {
            table.check(link.discipline.shares() || self.peak_rate.is_none(), "peak_rate", shared);
        }
        let may_weigh = link.discipline == Discipline::Weighted && !streaming;
        let problem = "must be 1 unless the discipline is `weighted` and the flows elastic";
        table.check(self.weight == 1.0 || may_weigh, "weight", problem);
        let problem = format_args!("must be between 0.001 and 1000, is {}", self.weight);
        table.check((1e-3..=1e3).contains(&self.weight), "weight", problem);
    }
}
