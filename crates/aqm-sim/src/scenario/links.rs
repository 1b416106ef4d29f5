//! The links between routers, as a scenario gives them: a dumbbell, or a graph; and the lines that join hosts to them.

use std::fmt;

use aqm_link::channel::{self, Impairments};
use aqm_link::transmitter::{self, Service};
use aqm_link::{Channel, Transmitter};
use aqm_net::stage::Files;
use aqm_net::{
    ConfigError, ConfigErrors, ErrorCollector, Instant, Parameter, Parameters as _, Rate, Rng, Span, Streams,
    TableReader, parameters,
};
use aqm_queue::QueueDiscipline;
use serde_json::{Map, Value, json};

parameters! {
    /// The line of a dumbbell, from the node `left` to the node `right`, and its queue.
    ///
    /// What else the line can do say the sections `transmitter` and `channel`. The way back is the link `bottleneck-back`.
    /// It has the same rate and delay, and a queue that never drops, unless a table `bottleneck.reverse` says otherwise.
    pub struct Bottleneck {
        /// How fast it sends.
        pub rate: Rate = Rate::from_bps(10_000_000), "SHRED conversation, slide 17";
        /// Propagation delay, one way.
        pub delay: Span = Span::from_millis(60), "SHRED conversation, slide 17";
    }
}

parameters! {
    /// The way back of a dumbbell, from the node `right` to the node `left`: what acknowledgements meet.
    ///
    /// It may have a `queue` of its own, and then is a managed link of the name `bottleneck-back`, whose line can do what
    /// the sections `transmitter` and `channel` say; left out: one that never drops.
    pub struct Reverse {
        /// How fast it sends; left out: as fast as the bottleneck.
        pub rate: Option<Rate> = None, "ours: lines are the same in both directions unless they are said not to be";
        /// Propagation delay, one way; left out: that of the bottleneck.
        pub delay: Option<Span> = None, "ours: lines are the same in both directions unless they are said not to be";
    }
}

parameters! {
    /// The lines that join hosts to their router, in each direction.
    ///
    /// Their queues never drop.
    pub struct Access {
        /// How fast they send.
        pub rate: Rate = Rate::from_bps(100_000_000), "SHRED conversation, slide 17";
        /// Propagation delay, one way.
        pub delay: Span = Span::from_millis(1), "SHRED conversation, slide 17";
    }
}

/// A link between routers, as the scenario gives it.
#[derive(Clone, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) name: String,
    /// Where its queue stands in the scenario, for errors.
    pub(crate) place: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rate: Rate,
    pub(crate) delay: Span,
    /// None if it never drops.
    pub(crate) queue: Option<Queue>,
    /// Only of a link with a queue.
    pub(crate) line: LineSpec,
}

/// What the line of a link can do beside sending at one rate, over one delay: as it is written, and what is made of it.
/// There is nothing if it does nothing else, and a propagation in any case if there is a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineSpec {
    written: Map<String, Value>,
    pub(crate) service: Option<Service>,
    pub(crate) propagation: Option<Impairments>,
}

impl LinkSpec {
    /// The transmitter of a run, whose stream is one of `chance`.
    pub(crate) fn transmitter(&self, chance: &Streams) -> Transmitter {
        match &self.line.service {
            None => Transmitter::constant(self.rate),
            Some(service) => service.transmitter(self.outages(chance)),
        }
    }

    /// The channel of a run, whose streams are among `chance`.
    pub(crate) fn channel(&self, chance: &Streams) -> Channel {
        match &self.line.propagation {
            None => Channel::constant(self.delay),
            Some(impairments) => impairments.channel(chance, &self.name),
        }
    }

    /// The stream of the line's outages.
    pub(crate) fn outages(&self, chance: &Streams) -> Rng {
        chance.named(&format!("outages/{}", self.name), 0)
    }

    /// The least time from a packet's leaving the line to its arrival.
    pub(crate) fn least_delay(&self) -> Span {
        self.line.propagation.as_ref().map_or(self.delay, Impairments::least_delay)
    }

    /// The highest rate that the line ever has.
    pub(crate) fn peak(&self) -> Rate {
        self.line.service.as_ref().map_or(self.rate, Service::peak)
    }

    /// When its rate steps, and to what, in the order of time; without an end if the steps come again.
    pub(crate) fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        self.line.service.iter().flat_map(Service::rate_steps)
    }

    /// Whether packets come to the far end in another order than they leave the line.
    pub(crate) fn reorders(&self) -> bool {
        self.line.propagation.as_ref().is_some_and(Impairments::reorders)
    }

    /// Its rate, delay and queue and all that its line can do, as a scenario writes it.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({ "rate": self.rate, "delay": self.delay });
        for (key, written) in &self.line.written {
            value[key] = written.clone();
        }
        if let Some(queue) = &self.queue {
            value["queue"] = queue.config.to_value();
        }
        value
    }
}

/// The queue of a managed link: its parameters, and the discipline they make, of which each run takes a clone.
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

    /// The discipline of a run, on the link `name`; what chance sets in it is drawn from a stream of its own.
    pub(crate) fn for_run(&self, name: &str, chance: &Streams) -> Box<dyn QueueDiscipline> {
        let mut discipline = self.prototype.clone();
        discipline.on_start(&mut chance.named(&format!("queue-start/{name}"), 0));
        discipline
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// The node of a dumbbell that data come from.
pub(crate) const LEFT: &str = "left";
/// The node of a dumbbell that data go to.
pub(crate) const RIGHT: &str = "right";

/// The links of a scenario in its order.
pub(crate) struct Links {
    pub(crate) all: Vec<LinkSpec>,
    /// Whether they were given as a `bottleneck`.
    pub(crate) dumbbell: bool,
}

impl Links {
    /// Takes the links out of a scenario; nothing if none can be read.
    pub(crate) fn take_from(scenario: &mut TableReader, around: &Around<'_>) -> Option<Self> {
        let bottleneck = scenario.value("bottleneck").filter(|table| !table.is_null());
        let graph = scenario.value("links").filter(|links| *links != json!({}));
        let (dumbbell, read) = match (bottleneck, graph) {
            (Some(table), None) => {
                (true, of_dumbbell(table, around).map_err(|errors| errors.within("bottleneck")))
            }
            (None, Some(tables)) => {
                (false, of_graph(tables, around).map_err(|errors| errors.within("links")))
            }
            (None, None) => {
                let problem = "is missing: write a `[bottleneck]` table, or a `[links.NAME]` table for each link of a graph";
                (true, Err(ConfigError::at("bottleneck", problem).into()))
            }
            (Some(_), Some(_)) => {
                let problem = "a scenario has either `bottleneck` or `links`, not both";
                (true, Err(ConfigError::at("links", problem).into()))
            }
        };
        scenario.note(read).map(|all| Self { all, dumbbell })
    }
}

/// The links with a queue discipline, with their numbers.
pub(crate) fn managed(links: &[LinkSpec]) -> impl Iterator<Item = (usize, &LinkSpec, &Queue)> {
    links.iter().enumerate().filter_map(|(number, link)| Some((number, link, link.queue.as_ref()?)))
}

/// The numbers of the links with a queue discipline.
pub(crate) fn managed_numbers(links: &[LinkSpec]) -> Vec<u32> {
    managed(links).map(|(number, ..)| number as u32).collect()
}

/// The names of the files that the links of a scenario in this form refer to.
pub(crate) fn files_of(scenario: &Value) -> impl Iterator<Item = &str> {
    let dumbbell =
        [scenario.get("bottleneck"), scenario.pointer("/bottleneck/reverse")].into_iter().flatten();
    let graph = scenario.get("links").and_then(Value::as_object);
    let tables = dumbbell.chain(graph.into_iter().flat_map(|links| links.values()));
    let places = ["/rate_file", "/opportunities/file"];
    tables.flat_map(move |table| places.map(|place| table.pointer(place))).flatten().filter_map(Value::as_str)
}

/// What links are read with.
pub(crate) struct Around<'a> {
    /// The contents of files by name.
    pub(crate) files: &'a Files,
    /// How long a run lasts.
    pub(crate) duration: Span,
}

/// What stands in the table of a link beside its ends.
struct LinkTable {
    rate: Option<Value>,
    delay: Option<Value>,
    queue: Option<aqm_queue::Config>,
    line: transmitter::Config,
    propagation: channel::Config,
}

/// The same, built.
struct Link {
    rate: Rate,
    delay: Span,
    queue: Option<Queue>,
    line: LineSpec,
}

impl LinkTable {
    /// Takes it out of a table; `queue` reads the queue.
    fn take_from(
        table: &mut TableReader,
        queue: impl FnOnce(&mut TableReader) -> Option<aqm_queue::Config>,
    ) -> Self {
        let [rate, delay] = ["rate", "delay"].map(|key| table.value(key).filter(|value| !value.is_null()));
        let queue = queue(table);
        let (line, propagation) = (transmitter::Config::take_from(table), channel::Config::take_from(table));
        Self { rate, delay, queue, line, propagation }
    }

    /// Notes in `table` if the line can do something but has no queue.
    fn check_queue(&self, table: &mut TableReader) {
        let plain = self.line.is_constant() && self.propagation.is_plain();
        let problem = "is missing: only the line of a link with a queue does more than send at one rate; \
                       write a table with a `kind`";
        table.check(plain || self.queue.is_some(), "queue", problem);
    }

    /// Builds it. A rate and a delay that are not written are those given, if any are, or the mean rate if the line
    /// says when it sends. What is wrong is noted in `table`.
    fn build(
        self,
        given: (Option<Rate>, Option<Span>),
        table: &mut TableReader,
        around: &Around<'_>,
    ) -> Option<Link> {
        let Self { rate, delay, queue, line, propagation } = self;
        let schedule = table.note(line.schedule(|name| around.files.get(name).map(String::as_str)));
        let mean = schedule.as_ref().and_then(|schedule| schedule.mean_rate(around.duration));
        let problem =
            "is missing, and the line sends less than 16bps in the mean: write a rate, such as \"10Mbps\"";
        table.check(rate.is_some() || mean != Some(Rate::default()), "rate", problem);
        let rate =
            read_or(rate, mean.or(given.0), "rate", "write how fast it sends, such as \"10Mbps\"", table);
        let remedy = "write its propagation delay, such as \"10ms\"";
        let delay = read_or(delay, given.1, "delay", remedy, table);
        let written = written(&line, &propagation);
        let rate = rate.filter(|&rate| rate != Rate::default());
        let service =
            rate.zip(schedule).and_then(|(rate, schedule)| table.note(line.service(rate, schedule)));
        let service = service.filter(|_| !line.is_constant());
        let ways = delay.and_then(|delay| table.note(propagation.impairments(delay)));
        let queue = queue.zip(rate).and_then(|(queue, rate)| {
            table.note(Queue::new(queue, rate).map_err(|errors| errors.within("queue")))
        });
        let instant = service.as_ref().is_some_and(Service::takes_no_time);
        let least = ways.as_ref().map(Impairments::least_delay);
        let problem =
            "must be more than 0s: a packet may leave at the opportunity at which its service begins";
        table.check(!instant || least != Some(Span::ZERO), "delay", problem);
        let propagation = ways.filter(|_| service.is_some() || !propagation.is_plain());
        Some(Link { rate: rate?, delay: delay?, queue, line: LineSpec { written, service, propagation } })
    }
}

/// Reads what was written under `key`, or else takes what is `given`; what is missing is noted with its remedy.
fn read_or<T: Parameter>(
    written: Option<Value>,
    given: Option<T>,
    key: &str,
    remedy: &str,
    table: &mut TableReader,
) -> Option<T> {
    match written {
        Some(written) => table.note(T::read(written).map_err(|errors| errors.within(key))),
        None => {
            table.check(given.is_some(), key, format_args!("is missing: {remedy}"));
            given
        }
    }
}

/// What a scenario writes of a line that does more than send at one rate.
fn written(line: &transmitter::Config, propagation: &channel::Config) -> Map<String, Value> {
    let tables = [json!(line), json!(propagation)];
    let keys = tables.into_iter().flat_map(|table| match table {
        Value::Object(keys) => keys,
        _ => Map::new(),
    });
    keys.filter(|(_, value)| !value.is_null() && *value != json!([])).collect()
}

fn of_dumbbell(table: Value, around: &Around<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let remedy = format!(
        "write a `[bottleneck.queue]` table with a `kind`, one of {}",
        aqm_queue::Config::NAMES.join(", ")
    );
    let found = LinkTable::take_from(&mut table, |table| table.require("queue", &remedy));
    let reverse = table.value("reverse").filter(|reverse| !reverse.is_null());
    let Bottleneck { rate, delay } = Bottleneck::default();
    let there = found.build((Some(rate), Some(delay)), &mut table, around);
    let like = there.as_ref().map_or((rate, delay), |there| (there.rate, there.delay));
    let back =
        reverse.map(|reverse| of_way_back(reverse, like, around).map_err(|errors| errors.within("reverse")));
    let back = match back {
        None => Some(Link { rate: like.0, delay: like.1, queue: None, line: LineSpec::default() }),
        Some(back) => table.note(back),
    };
    let there = there.filter(|there| there.queue.is_some());
    table.finish(there.zip(back).map(|(there, back)| {
        let names = ["bottleneck", "bottleneck.queue"];
        let names_back = ["bottleneck-back", "bottleneck.reverse.queue"];
        vec![there.between(LEFT, RIGHT, names), back.between(RIGHT, LEFT, names_back)]
    }))
}

/// The way back that a table `reverse` describes, where the way there has this rate and delay.
fn of_way_back(table: Value, there: (Rate, Span), around: &Around<'_>) -> Result<Link, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let found = LinkTable::take_from(&mut table, |table| table.take("queue").flatten());
    found.check_queue(&mut table);
    let back = found.build((Some(there.0), Some(there.1)), &mut table, around);
    table.finish(back)
}

impl Link {
    /// The link from one node to another, with its name and the place of its queue.
    fn between(self, from: &str, to: &str, [name, place]: [&str; 2]) -> LinkSpec {
        let Self { rate, delay, queue, line } = self;
        LinkSpec {
            name: name.to_owned(),
            place: place.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            rate,
            delay,
            queue,
            line,
        }
    }
}

fn of_graph(tables: Value, around: &Around<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let read = aqm_net::values::read_entries(tables, |name, table| of_link(name, table, around))?;
    let links: Vec<LinkSpec> = read.into_values().flatten().collect();
    let mut errors = ErrorCollector::default();
    for (number, link) in links.iter().enumerate() {
        let unique = links[..number].iter().all(|other| other.name != link.name);
        let problem = "`both_ways` of another link makes a link of this name: choose another name";
        errors.check(unique, link.name.as_str(), problem);
    }
    errors.check(
        links.iter().any(|link| link.queue.is_some()),
        "",
        "at least one link needs a `queue` table",
    );
    errors.finish(links)
}

/// A link of a graph, and the one back if it goes both ways.
fn of_link(name: &str, table: Value, around: &Around<'_>) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let from = table.require::<String>("from", "name the router it comes from");
    let to = table.require::<String>("to", "name the router it goes to");
    let found = LinkTable::take_from(&mut table, |table| table.take("queue").flatten());
    found.check_queue(&mut table);
    let link = found.build((None, None), &mut table, around);
    let both_ways = table.take("both_ways").unwrap_or(false);
    table.check(from.is_none() || from != to, "to", "must differ from `from`");
    table.finish(from.zip(to).zip(link).map(|((from, to), link)| {
        let place = format!("links.{name}.queue");
        let back = Link { rate: link.rate, delay: link.delay, queue: None, line: LineSpec::default() };
        let back = both_ways.then(|| back.between(&to, &from, [&format!("{name}-back"), &place]));
        [Some(link.between(&from, &to, [name, &place])), back].into_iter().flatten().collect()
    }))
}
