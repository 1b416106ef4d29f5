//! The links between routers, as a scenario gives them: a dumbbell, or a graph; and the lines that join hosts to them.

use std::fmt;

use aqm_net::{
    ConfigError, ConfigErrors, ErrorCollector, Parameters as _, Rate, Span, TableReader, parameters,
};
use aqm_queue::QueueDiscipline;
use serde_json::{Value, json};

parameters! {
    /// The line of a dumbbell, from the node `left` to the node `right`, and its queue.
    ///
    /// The way back is the link `bottleneck-back`. It has the same rate and delay, and a queue that never drops, unless
    /// a table `bottleneck.reverse` says otherwise.
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
    /// It may have a `queue` of its own, and then is a managed link of the name `bottleneck-back`; left out: one that
    /// never drops.
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
    pub(crate) fn take_from(scenario: &mut TableReader) -> Option<Self> {
        let bottleneck = scenario.value("bottleneck").filter(|table| !table.is_null());
        let graph = scenario.value("links").filter(|links| *links != json!({}));
        let (dumbbell, read) = match (bottleneck, graph) {
            (Some(table), None) => (true, of_dumbbell(table).map_err(|errors| errors.within("bottleneck"))),
            (None, Some(tables)) => (false, of_graph(tables).map_err(|errors| errors.within("links"))),
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

/// Builds the `queue` of a line of this rate.
fn build(config: aqm_queue::Config, rate: Rate, table: &mut TableReader) -> Option<Queue> {
    table.note(Queue::new(config, rate).map_err(|errors| errors.within("queue")))
}

fn of_dumbbell(table: Value) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let line = Bottleneck::take_from(&mut table);
    let remedy = format!(
        "write a `[bottleneck.queue]` table with a `kind`, one of {}",
        aqm_queue::Config::NAMES.join(", ")
    );
    let queue = table.require("queue", &remedy);
    let queue = queue.and_then(|config| build(config, line.rate, &mut table));
    let back = table.take_with("reverse", |reverse| of_way_back(reverse, &line));
    let there = LinkSpec {
        name: "bottleneck".to_owned(),
        place: "bottleneck.queue".to_owned(),
        from: LEFT.to_owned(),
        to: RIGHT.to_owned(),
        rate: line.rate,
        delay: line.delay,
        queue,
    };
    let back = back.unwrap_or_else(|| way_back(line.rate, line.delay, None));
    let managed = there.queue.is_some();
    table.finish(managed.then(|| vec![there, back]))
}

/// The way back that a table `reverse` describes, where the way there is `line`.
fn of_way_back(table: Value, line: &Bottleneck) -> Result<LinkSpec, ConfigErrors> {
    if table.is_null() {
        return Ok(way_back(line.rate, line.delay, None));
    }
    let mut table = TableReader::new(table)?;
    let Reverse { rate, delay } = Reverse::take_from(&mut table);
    let (rate, delay) = (rate.unwrap_or(line.rate), delay.unwrap_or(line.delay));
    let queue = table.take("queue").flatten().and_then(|config| build(config, rate, &mut table));
    table.finish(Some(way_back(rate, delay, queue)))
}

fn way_back(rate: Rate, delay: Span, queue: Option<Queue>) -> LinkSpec {
    LinkSpec {
        name: "bottleneck-back".to_owned(),
        place: "bottleneck.reverse.queue".to_owned(),
        from: RIGHT.to_owned(),
        to: LEFT.to_owned(),
        rate,
        delay,
        queue,
    }
}

fn of_graph(tables: Value) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let read = aqm_net::values::each(tables, of_link)?;
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
fn of_link(name: &str, table: Value) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let from = table.require::<String>("from", "name the router it comes from");
    let to = table.require::<String>("to", "name the router it goes to");
    let rate = table.require::<Rate>("rate", "write how fast it sends, such as \"10Mbps\"");
    let delay = table.require::<Span>("delay", "write its propagation delay, such as \"10ms\"");
    let queue = table.take("queue").flatten().zip(rate);
    let queue = queue.and_then(|(config, rate)| build(config, rate, &mut table));
    let both_ways = table.take("both_ways").unwrap_or(false);
    table.check(from.is_none() || from != to, "to", "must differ from `from`");
    let ends = from.zip(to).zip(rate.zip(delay));
    table.finish(ends.map(|((from, to), (rate, delay))| {
        let place = format!("links.{name}.queue");
        let back = both_ways.then(|| LinkSpec {
            name: format!("{name}-back"),
            place: place.clone(),
            from: to.clone(),
            to: from.clone(),
            rate,
            delay,
            queue: None,
        });
        let there = LinkSpec { name: name.to_owned(), place, from, to, rate, delay, queue };
        [Some(there), back].into_iter().flatten().collect()
    }))
}
