//! The links in a scenario: the links between routers, which form a dumbbell or a graph, and the access links of hosts.

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
    /// `bottleneck-back`. Unless a table `bottleneck.reverse` describes the reverse link, the reverse link has the same
    /// rate and delay as the bottleneck, and its queue never drops packets.
    pub struct Bottleneck {
        /// Rate of the link.
        pub rate: Rate = Rate::from_bps(10_000_000), "SHRED talk, slide 17";
        /// One-way propagation delay.
        pub delay: Span = Span::from_millis(60), "SHRED talk, slide 17";
    }
}

parameters! {
    /// The reverse link of a dumbbell, from the node `right` to the node `left`, which carries acknowledgements.
    ///
    /// If the table contains the key `queue`, the reverse link is a managed link named `bottleneck-back`, and the keys
    /// of the sections `transmitter` and `channel` may also be set. Without a `queue`, the reverse link never drops
    /// packets.
    pub struct Reverse {
        /// Rate of the reverse link. The default is the rate of the bottleneck.
        pub rate: Option<Rate> = None, "aqmlab's choice: links are symmetric by default";
        /// One-way propagation delay of the reverse link. The default is the delay of the bottleneck.
        pub delay: Option<Span> = None, "aqmlab's choice: links are symmetric by default";
    }
}

parameters! {
    /// The access links between each host and its router, in both directions.
    ///
    /// The queues of access links never drop packets.
    pub struct Access {
        /// Rate of each access link.
        pub rate: Rate = Rate::from_bps(100_000_000), "SHRED talk, slide 17";
        /// One-way propagation delay.
        pub delay: Span = Span::from_millis(1), "SHRED talk, slide 17";
    }
}

/// A link between routers in a scenario.
#[derive(Clone, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) name: String,
    /// Path of the link's queue in the scenario, used in error messages.
    pub(crate) queue_path: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rate: Rate,
    pub(crate) delay: Span,
    /// The queue; `None` if the link never drops packets.
    pub(crate) queue: Option<Queue>,
    /// Properties that only a link with a queue can have.
    pub(crate) extras: LinkExtras,
}

/// Properties of a link other than a constant rate and a constant delay. The structure contains the keys of the
/// scenario and the objects built from the keys. A constant link has neither a service nor impairments. A link that has
/// a service always has impairments, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkExtras {
    keys: Map<String, Value>,
    pub(crate) service: Option<Service>,
    pub(crate) impairments: Option<Impairments>,
}

impl LinkSpec {
    /// Returns the transmitter for a run. The transmitter's random numbers are drawn from one of the streams in
    /// `streams`.
    pub(crate) fn transmitter(&self, streams: &Streams) -> Transmitter {
        match &self.extras.service {
            None => Transmitter::constant(self.rate),
            Some(service) => service.transmitter(self.outages(streams)),
        }
    }

    /// Returns the channel for a run. The channel's random numbers are drawn from several of the streams in `streams`.
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

    /// Returns the minimum time from the end of a packet's transmission to the packet's arrival.
    pub(crate) fn least_delay(&self) -> Span {
        self.extras.impairments.as_ref().map_or(self.delay, Impairments::least_delay)
    }

    /// Returns the highest rate of the link.
    pub(crate) fn peak(&self) -> Rate {
        self.extras.service.as_ref().map_or(self.rate, Service::peak)
    }

    /// Returns the rate steps in chronological order. The iterator is infinite if the steps repeat.
    pub(crate) fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        self.extras.service.iter().flat_map(Service::rate_steps)
    }

    /// Returns whether packets may arrive at the far end out of order.
    pub(crate) fn reorders(&self) -> bool {
        self.extras.impairments.as_ref().is_some_and(Impairments::reorders)
    }

    /// Returns the rate, delay, queue and further properties in the format of a scenario.
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

/// The queue of a managed link: the parameters, and the discipline built from them. Each run clones the discipline.
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

    /// Returns the discipline for a run on the link `name`. The random initial state of the discipline is drawn from a
    /// separate random stream.
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

/// The node of a dumbbell at which data enters the network by default.
pub(crate) const LEFT: &str = "left";
/// The node of a dumbbell at which data leaves the network by default.
pub(crate) const RIGHT: &str = "right";

/// The links of a scenario, in the order in which the scenario lists them.
pub(crate) struct Links {
    pub(crate) all: Vec<LinkSpec>,
    /// Whether the scenario has a `bottleneck` instead of `links`.
    pub(crate) dumbbell: bool,
}

impl Links {
    /// Parses the links of a scenario. Returns `None` if no link can be parsed.
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
                let problem = "is missing: add a table `[bottleneck]`, or a table `[links.NAME]` for each link \
                               of a graph";
                (true, Err(ConfigError::at("bottleneck", problem).into()))
            }
            (Some(_), Some(_)) => {
                let problem = "must not be combined with `bottleneck`: set either `links` or `bottleneck`";
                (true, Err(ConfigError::at("links", problem).into()))
            }
        };
        scenario.note(read).map(|all| Self { all, dumbbell })
    }
}

/// Returns the links that have a queue discipline, with the number and the queue of each link.
pub(crate) fn managed(links: &[LinkSpec]) -> impl Iterator<Item = (usize, &LinkSpec, &Queue)> {
    links.iter().enumerate().filter_map(|(number, link)| Some((number, link, link.queue.as_ref()?)))
}

/// Returns the numbers of the links that have a queue discipline.
pub(crate) fn managed_numbers(links: &[LinkSpec]) -> Vec<u32> {
    managed(links).map(|(number, ..)| number as u32).collect()
}

/// Returns the names of the files to which the links of a scenario refer.
pub(crate) fn files_of(scenario: &Value) -> impl Iterator<Item = &str> {
    let dumbbell =
        [scenario.get("bottleneck"), scenario.pointer("/bottleneck/reverse")].into_iter().flatten();
    let graph = scenario.get("links").and_then(Value::as_object);
    let tables = dumbbell.chain(graph.into_iter().flat_map(|links| links.values()));
    let paths = ["/rate_file", "/opportunities/file", "/opportunities/light"];
    tables.flat_map(move |table| paths.map(|path| table.pointer(path))).flatten().filter_map(Value::as_str)
}

/// Inputs for parsing links.
pub(crate) struct LinkReader<'a> {
    /// Contents of files, by file name.
    pub(crate) files: &'a Files,
    /// Duration of the run.
    pub(crate) duration: Span,
}

/// The parsed table of a link, without the nodes at its ends.
struct LinkTable {
    rate: Option<Value>,
    delay: Option<Value>,
    queue: Option<aqm_queue::Config>,
    transmitter: transmitter::Config,
    channel: channel::Config,
}

/// A link built from its table, without the nodes at its ends.
struct Link {
    rate: Rate,
    delay: Span,
    queue: Option<Queue>,
    extras: LinkExtras,
}

impl LinkTable {
    /// Parses the table of a link. The function `queue` parses the queue of the link.
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

    /// Reports an error if the link has no queue, but its rate or delay is not constant or its channel has impairments.
    fn check_queue(&self, table: &mut TableReader) {
        let plain = self.transmitter.is_constant() && self.channel.is_plain();
        let problem = "is missing: a link without a queue has a constant rate and delay; add a table with a `kind`, \
                       or remove the other keys";
        table.check(plain || self.queue.is_some(), "queue", problem);
    }

    /// Builds the link. If the rate or the delay is missing, the value from `defaults` is used. However, if the
    /// transmitter's keys determine how the rate changes over time, a missing rate is set to the mean of the changing
    /// rate. Errors are added to `table`.
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
            "is missing, and the mean rate of the link is below 16bps: set a rate, for example \"10Mbps\"";
        table.check(rate.is_some() || mean != Some(Rate::default()), "rate", problem);
        let rate = read_or(
            rate,
            mean.or(defaults.0),
            "rate",
            "set the rate of the link, for example \"10Mbps\"",
            table,
        );
        let remedy = "set the propagation delay of the link, for example \"10ms\"";
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
        let is_timed = queue.as_ref().is_some_and(|queue| queue.prototype.transmission().is_some());
        let problem = "determines how long transmissions take, and cannot be combined with a varying rate, \
                       opportunities, outages, aggregation or framing of the link: remove these keys";
        table.check(!is_timed || service.is_none(), "queue.kind", problem);
        let instant = service.as_ref().is_some_and(Service::takes_no_time);
        let least = impairments.as_ref().map(Impairments::least_delay);
        let problem = "must be greater than zero, because a packet may depart at the instant at which its \
                       service begins";
        table.check(!instant || least != Some(Span::ZERO), "delay", problem);
        let impairments = impairments.filter(|_| service.is_some() || !channel.is_plain());
        Some(Link { rate: rate?, delay: delay?, queue, extras: LinkExtras { keys, service, impairments } })
    }
}

/// Parses the value of `key`. If the value is missing, returns `default`; if `default` is `None`, reports an error that
/// contains the remedy.
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

/// Returns the keys that a constant link does not have, in the format of a scenario.
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
        "add a table `[bottleneck.queue]` with a `kind`; available: {}",
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

/// Parses the table `reverse` of a link. The default rate and delay of the reverse link are those of the forward link.
fn read_reverse(table: Value, forward: (Rate, Span), reader: &LinkReader<'_>) -> Result<Link, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let parsed = LinkTable::take_from(&mut table, |table| table.take("queue").flatten());
    parsed.check_queue(&mut table);
    let back = parsed.build((Some(forward.0), Some(forward.1)), &mut table, reader);
    table.finish(back)
}

impl Link {
    /// Returns the specification of this link between the nodes `from` and `to`.
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
        let problem = "is also the name of the reverse link of a link with `both_ways`: use another name";
        errors.check(unique, link.name.as_str(), problem);
    }
    errors.check(
        links.iter().any(|link| link.queue.is_some()),
        "",
        "must contain at least one link with a `queue` table",
    );
    errors.finish(links)
}

/// Parses a link of a graph. If `both_ways` is true, also returns the reverse link.
fn read_link(name: &str, table: Value, reader: &LinkReader<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let from = table.require::<String>("from", "set the name of the router at which the link starts");
    let to = table.require::<String>("to", "set the name of the router at which the link ends");
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
