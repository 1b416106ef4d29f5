//! The links between routers in a scenario, given as a dumbbell or as a graph, and the access links of hosts.

use std::fmt;

use aqm_link::channel::{self, Impairments};
use aqm_link::transmitter::{self, Service};
use aqm_link::{Channel, Transmitter};
use aqm_net::level::Files;
use aqm_net::{
    ConfigError, ConfigErrors, ErrorCollector, Instant, Parameter, Parameters as _, Rate, Rng, Span, Streams,
    TableReader, parameters,
};
use aqm_queue::QueueDiscipline;
use serde_json::{Map, Value, json};

parameters! {
    /// The link of a dumbbell from the node `left` to the node `right`, and its queue.
    ///
    /// The sections `transmitter` and `channel` describe further properties of the link. The reverse link is named
    /// `bottleneck-back`. It has the same rate and delay and a queue that never drops, unless a table
    /// `bottleneck.reverse` describes it.
    pub struct Bottleneck {
        /// Rate of the link.
        pub rate: Rate = Rate::from_bps(10_000_000), "SHRED conversation, slide 17";
        /// One-way propagation delay.
        pub delay: Span = Span::from_millis(60), "SHRED conversation, slide 17";
    }
}

parameters! {
    /// The reverse link of a dumbbell, from the node `right` to the node `left`, which carries acknowledgements.
    ///
    /// If it has a `queue`, it is a managed link named `bottleneck-back`, to which the sections `transmitter` and
    /// `channel` apply, too. Without a `queue`, it never drops.
    pub struct Reverse {
        /// Rate of the reverse link; by default, the rate of the bottleneck.
        pub rate: Option<Rate> = None, "aqmlab's choice: links are symmetric by default";
        /// One-way propagation delay; by default, the delay of the bottleneck.
        pub delay: Option<Span> = None, "aqmlab's choice: links are symmetric by default";
    }
}

parameters! {
    /// The access links between hosts and their router, in each direction.
    ///
    /// Their queues never drop.
    pub struct Access {
        /// Rate of an access link.
        pub rate: Rate = Rate::from_bps(100_000_000), "SHRED conversation, slide 17";
        /// One-way propagation delay.
        pub delay: Span = Span::from_millis(1), "SHRED conversation, slide 17";
    }
}

/// A link between routers in a scenario.
#[derive(Clone, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) name: String,
    /// Path of the link's queue in the scenario, for error messages.
    pub(crate) queue_path: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rate: Rate,
    pub(crate) delay: Span,
    /// The queue; `None` if the link never drops.
    pub(crate) queue: Option<Queue>,
    /// Properties that only a link with a queue has.
    pub(crate) extras: LinkExtras,
}

/// Properties of a link other than a constant rate and a constant delay: the keys in the scenario, and the objects
/// built from them. A constant link has neither a service nor impairments. A link with a service always has
/// impairments.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkExtras {
    keys: Map<String, Value>,
    pub(crate) service: Option<Service>,
    pub(crate) impairments: Option<Impairments>,
}

impl LinkSpec {
    /// Returns the transmitter of a run with a random stream from `streams`.
    pub(crate) fn transmitter(&self, streams: &Streams) -> Transmitter {
        match &self.extras.service {
            None => Transmitter::constant(self.rate),
            Some(service) => service.transmitter(self.outages(streams)),
        }
    }

    /// Returns the channel of a run with random streams from `streams`.
    pub(crate) fn channel(&self, streams: &Streams) -> Channel {
        match &self.extras.impairments {
            None => Channel::constant(self.delay),
            Some(impairments) => impairments.channel(streams, &self.name),
        }
    }

    /// Returns the random stream of the link's outages.
    pub(crate) fn outages(&self, streams: &Streams) -> Rng {
        streams.named(&format!("outages/{}", self.name), 0)
    }

    /// Returns the minimum time from the end of a transmission to the arrival.
    pub(crate) fn least_delay(&self) -> Span {
        self.extras.impairments.as_ref().map_or(self.delay, Impairments::least_delay)
    }

    /// Returns the highest rate of the link.
    pub(crate) fn peak(&self) -> Rate {
        self.extras.service.as_ref().map_or(self.rate, Service::peak)
    }

    /// Returns the rate steps in order of time. The iterator is endless if the steps repeat.
    pub(crate) fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        self.extras.service.iter().flat_map(Service::rate_steps)
    }

    /// Whether packets may arrive at the far end in a different order than they were sent.
    pub(crate) fn reorders(&self) -> bool {
        self.extras.impairments.as_ref().is_some_and(Impairments::reorders)
    }

    /// Returns the rate, delay, queue and further properties in the form of a scenario.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({ "rate": self.rate, "delay": self.delay });
        for (key, extra) in &self.extras.keys {
            value[key] = extra.clone();
        }
        if let Some(queue) = &self.queue {
            value["queue"] = queue.config.to_value();
        }
        value
    }
}

/// The queue of a managed link: its parameters, and the discipline built from them, which each run clones.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) config: aqm_queue::Config,
    pub(crate) prototype: Box<dyn QueueDiscipline>,
}

impl Queue {
    pub(crate) fn new(config: aqm_queue::Config, rate: Rate) -> Result<Self, ConfigErrors> {
        let prototype = config.build(rate)?;
        Ok(Self { config, prototype })
    }

    /// Returns the discipline of a run on the link `name`. Its random initial state is drawn from a separate stream.
    pub(crate) fn for_run(&self, name: &str, streams: &Streams) -> Box<dyn QueueDiscipline> {
        let mut discipline = self.prototype.clone();
        discipline.on_start(&mut streams.named(&format!("queue-start/{name}"), 0));
        discipline
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// The node of a dumbbell from which data are sent.
pub(crate) const LEFT: &str = "left";
/// The node of a dumbbell to which data are sent.
pub(crate) const RIGHT: &str = "right";

/// The links of a scenario in its order.
pub(crate) struct Links {
    pub(crate) all: Vec<LinkSpec>,
    /// Whether the scenario has a `bottleneck` instead of `links`.
    pub(crate) dumbbell: bool,
}

impl Links {
    /// Reads the links of a scenario. Returns `None` if no links can be read.
    pub(crate) fn take_from(scenario: &mut TableReader, reader: &LinkReader<'_>) -> Option<Self> {
        let bottleneck = scenario.value("bottleneck").filter(|table| !table.is_null());
        let graph = scenario.value("links").filter(|links| *links != json!({}));
        let (dumbbell, read) = match (bottleneck, graph) {
            (Some(table), None) => {
                (true, read_dumbbell(table, reader).map_err(|errors| errors.within("bottleneck")))
            }
            (None, Some(tables)) => {
                (false, read_graph(tables, reader).map_err(|errors| errors.within("links")))
            }
            (None, None) => {
                let problem = "is missing: write a table `[bottleneck]`, or a table `[links.NAME]` for each link of a graph";
                (true, Err(ConfigError::at("bottleneck", problem).into()))
            }
            (Some(_), Some(_)) => {
                let problem = "must not be combined with `bottleneck`: write one of them";
                (true, Err(ConfigError::at("links", problem).into()))
            }
        };
        scenario.note(read).map(|all| Self { all, dumbbell })
    }
}

/// Returns the links with a queue discipline, with their numbers.
pub(crate) fn managed(links: &[LinkSpec]) -> impl Iterator<Item = (usize, &LinkSpec, &Queue)> {
    links.iter().enumerate().filter_map(|(number, link)| Some((number, link, link.queue.as_ref()?)))
}

/// Returns the numbers of the links with a queue discipline.
pub(crate) fn managed_numbers(links: &[LinkSpec]) -> Vec<u32> {
    managed(links).map(|(number, ..)| number as u32).collect()
}

/// Returns the names of the files to which the links of a scenario refer.
pub(crate) fn files_of(scenario: &Value) -> impl Iterator<Item = &str> {
    let dumbbell =
        [scenario.get("bottleneck"), scenario.pointer("/bottleneck/reverse")].into_iter().flatten();
    let graph = scenario.get("links").and_then(Value::as_object);
    let tables = dumbbell.chain(graph.into_iter().flat_map(|links| links.values()));
    let paths = ["/rate_file", "/opportunities/file"];
    tables.flat_map(move |table| paths.map(|path| table.pointer(path))).flatten().filter_map(Value::as_str)
}

/// Inputs for reading links.
pub(crate) struct LinkReader<'a> {
    /// Contents of files by name.
    pub(crate) files: &'a Files,
    /// Duration of the run.
    pub(crate) duration: Span,
}

/// The parsed table of a link, without its ends.
struct LinkTable {
    rate: Option<Value>,
    delay: Option<Value>,
    queue: Option<aqm_queue::Config>,
    transmitter: transmitter::Config,
    channel: channel::Config,
}

/// A link built from its table, without its ends.
struct Link {
    rate: Rate,
    delay: Span,
    queue: Option<Queue>,
    extras: LinkExtras,
}

impl LinkTable {
    /// Reads the table of a link; `queue` reads its queue.
    fn take_from(
        table: &mut TableReader,
        queue: impl FnOnce(&mut TableReader) -> Option<aqm_queue::Config>,
    ) -> Self {
        let [rate, delay] = ["rate", "delay"].map(|key| table.value(key).filter(|value| !value.is_null()));
        let queue = queue(table);
        let (transmitter, channel) =
            (transmitter::Config::take_from(table), channel::Config::take_from(table));
        Self { rate, delay, queue, transmitter, channel }
    }

    /// Reports an error if the link has further properties but no queue.
    fn check_queue(&self, table: &mut TableReader) {
        let plain = self.transmitter.is_constant() && self.channel.is_plain();
        let problem = "is missing: a link without a queue has a constant rate and delay; write a table with a `kind`, \
                       or leave out the other keys";
        table.check(plain || self.queue.is_some(), "queue", problem);
    }

    /// Builds the link. A missing rate or delay is taken from `defaults`. If the transmitter determines its rate over
    /// time, its mean rate precedes the default. Errors are reported to `table`.
    fn build(
        self,
        defaults: (Option<Rate>, Option<Span>),
        table: &mut TableReader,
        reader: &LinkReader<'_>,
    ) -> Option<Link> {
        let Self { rate, delay, queue, transmitter, channel } = self;
        let schedule = table.note(transmitter.schedule(|name| reader.files.get(name).map(String::as_str)));
        let mean = schedule.as_ref().and_then(|schedule| schedule.mean_rate(reader.duration));
        let problem =
            "is missing, and the mean rate of the link is below 16bps: write a rate, for example \"10Mbps\"";
        table.check(rate.is_some() || mean != Some(Rate::default()), "rate", problem);
        let rate = read_or(
            rate,
            mean.or(defaults.0),
            "rate",
            "write the rate of the link, for example \"10Mbps\"",
            table,
        );
        let remedy = "write the propagation delay of the link, for example \"10ms\"";
        let delay = read_or(delay, defaults.1, "delay", remedy, table);
        let keys = extra_keys(&transmitter, &channel);
        let rate = rate.filter(|&rate| rate != Rate::default());
        let service =
            rate.zip(schedule).and_then(|(rate, schedule)| table.note(transmitter.service(rate, schedule)));
        let service = service.filter(|_| !transmitter.is_constant());
        let impairments = delay.and_then(|delay| table.note(channel.impairments(delay)));
        let queue = queue.zip(rate).and_then(|(queue, rate)| {
            table.note(Queue::new(queue, rate).map_err(|errors| errors.within("queue")))
        });
        let instant = service.as_ref().is_some_and(Service::takes_no_time);
        let least = impairments.as_ref().map(Impairments::least_delay);
        let problem = "must be more than 0s, because a packet may depart at the opportunity at which its service begins";
        table.check(!instant || least != Some(Span::ZERO), "delay", problem);
        let impairments = impairments.filter(|_| service.is_some() || !channel.is_plain());
        Some(Link { rate: rate?, delay: delay?, queue, extras: LinkExtras { keys, service, impairments } })
    }
}

/// Reads the value of `key`, or returns the `default` if there is no value. A missing value is reported with its
/// remedy.
fn read_or<T: Parameter>(
    written: Option<Value>,
    default: Option<T>,
    key: &str,
    remedy: &str,
    table: &mut TableReader,
) -> Option<T> {
    match written {
        Some(written) => table.note(T::read(written).map_err(|errors| errors.within(key))),
        None => {
            table.check(default.is_some(), key, format_args!("is missing: {remedy}"));
            default
        }
    }
}

/// Returns the keys of a link other than those of a constant link, in the form of a scenario.
fn extra_keys(transmitter: &transmitter::Config, channel: &channel::Config) -> Map<String, Value> {
    let tables = [json!(transmitter), json!(channel)];
    let keys = tables.into_iter().flat_map(|table| match table {
        Value::Object(keys) => keys,
        _ => Map::new(),
    });
    keys.filter(|(_, value)| !value.is_null() && *value != json!([])).collect()
}

fn read_dumbbell(table: Value, reader: &LinkReader<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let remedy = format!(
        "write a table `[bottleneck.queue]` with a `kind`; available: {}",
        aqm_queue::Config::NAMES.join(", ")
    );
    let parsed = LinkTable::take_from(&mut table, |table| table.require("queue", &remedy));
    let reverse = table.value("reverse").filter(|reverse| !reverse.is_null());
    let Bottleneck { rate, delay } = Bottleneck::default();
    let forward = parsed.build((Some(rate), Some(delay)), &mut table, reader);
    let defaults = forward.as_ref().map_or((rate, delay), |forward| (forward.rate, forward.delay));
    let back = reverse
        .map(|reverse| read_reverse(reverse, defaults, reader).map_err(|errors| errors.within("reverse")));
    let back = match back {
        None => {
            Some(Link { rate: defaults.0, delay: defaults.1, queue: None, extras: LinkExtras::default() })
        }
        Some(back) => table.note(back),
    };
    let forward = forward.filter(|forward| forward.queue.is_some());
    table.finish(forward.zip(back).map(|(forward, back)| {
        let names = ["bottleneck", "bottleneck.queue"];
        let names_back = ["bottleneck-back", "bottleneck.reverse.queue"];
        vec![forward.between(LEFT, RIGHT, names), back.between(RIGHT, LEFT, names_back)]
    }))
}

/// Reads the reverse link in a table `reverse`, whose default rate and delay are those of the forward link.
fn read_reverse(table: Value, forward: (Rate, Span), reader: &LinkReader<'_>) -> Result<Link, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let parsed = LinkTable::take_from(&mut table, |table| table.take("queue").flatten());
    parsed.check_queue(&mut table);
    let back = parsed.build((Some(forward.0), Some(forward.1)), &mut table, reader);
    table.finish(back)
}

impl Link {
    /// Returns the link from one node to another, with its name and the path of its queue.
    fn between(self, from: &str, to: &str, [name, queue_path]: [&str; 2]) -> LinkSpec {
        let Self { rate, delay, queue, extras } = self;
        LinkSpec {
            name: name.to_owned(),
            queue_path: queue_path.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            rate,
            delay,
            queue,
            extras,
        }
    }
}

fn read_graph(tables: Value, reader: &LinkReader<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let read = aqm_net::values::read_entries(tables, |name, table| read_link(name, table, reader))?;
    let links: Vec<LinkSpec> = read.into_values().flatten().collect();
    let mut errors = ErrorCollector::default();
    for (number, link) in links.iter().enumerate() {
        let unique = links[..number].iter().all(|other| other.name != link.name);
        let problem = "is also the name of the reverse link of a link with `both_ways`: choose another name";
        errors.check(unique, link.name.as_str(), problem);
    }
    errors.check(
        links.iter().any(|link| link.queue.is_some()),
        "",
        "must contain at least one link with a table `queue`",
    );
    errors.finish(links)
}

/// Reads a link of a graph, and adds the reverse link if `both_ways` is set.
fn read_link(name: &str, table: Value, reader: &LinkReader<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let from = table.require::<String>("from", "write the name of the router from which the link leads");
    let to = table.require::<String>("to", "write the name of the router to which the link leads");
    let parsed = LinkTable::take_from(&mut table, |table| table.take("queue").flatten());
    parsed.check_queue(&mut table);
    let link = parsed.build((None, None), &mut table, reader);
    let both_ways = table.take("both_ways").unwrap_or(false);
    table.check(from.is_none() || from != to, "to", "must differ from `from`");
    table.finish(from.zip(to).zip(link).map(|((from, to), link)| {
        let queue_path = format!("links.{name}.queue");
        let back = Link { rate: link.rate, delay: link.delay, queue: None, extras: LinkExtras::default() };
        let back = both_ways.then(|| back.between(&to, &from, [&format!("{name}-back"), &queue_path]));
        [Some(link.between(&from, &to, [name, &queue_path])), back].into_iter().flatten().collect()
    }))
}
