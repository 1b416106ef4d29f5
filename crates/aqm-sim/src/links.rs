//! The links between routers, as a scenario gives them: a dumbbell, or a graph.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, ConfigErrors, Parameters as _, Rate, Span, TableReader};
use serde_json::Value;

use crate::sections::Bottleneck;

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
    pub(crate) queue: Option<aqm_queue::Config>,
}

/// A link of a graph: from one router to another.
#[derive(Clone, Debug)]
pub(crate) struct RawLink {
    from: String,
    to: String,
    rate: Rate,
    delay: Span,
    queue: Option<aqm_queue::Config>,
    both_ways: bool,
}

impl RawLink {
    pub(crate) fn read(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let from = table.require("from", "name the node that data come from");
        let to = table.require("to", "name the node that data go to");
        let rate = table.require("rate", "write how fast it sends, such as \"10Mbps\"");
        let delay = table.require("delay", "write its propagation delay, such as \"10ms\"");
        let queue = table.take("queue").flatten();
        let both_ways = table.take("both_ways").unwrap_or(false);
        let read = || Some(Self { from: from?, to: to?, rate: rate?, delay: delay?, queue, both_ways });
        table.finish(read())
    }
}

/// The links of a dumbbell, given its `[bottleneck]` table.
pub(crate) fn of_dumbbell(table: Value) -> Result<Vec<LinkSpec>, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let line = Bottleneck::take_from(&mut table);
    let remedy = format!(
        "write a `[bottleneck.queue]` table with a `kind`, one of {}",
        aqm_queue::Config::NAMES.join(", ")
    );
    let queue = table.require("queue", &remedy);
    let queue: aqm_queue::Config = table.finish(queue)?;
    let link = |name: &str, from: &str, to: &str, queue| LinkSpec {
        name: name.to_owned(),
        place: "bottleneck.queue".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        rate: line.rate,
        delay: line.delay,
        queue,
    };
    Ok(vec![link("bottleneck", LEFT, RIGHT, Some(queue)), link("bottleneck-back", RIGHT, LEFT, None)])
}

/// The node of a dumbbell that data come from.
pub(crate) const LEFT: &str = "left";
/// The node of a dumbbell that data go to.
pub(crate) const RIGHT: &str = "right";

/// The links of a graph, given its `[links.NAME]` tables.
pub(crate) fn of_graph(tables: BTreeMap<String, RawLink>) -> Result<Vec<LinkSpec>, ConfigError> {
    let mut links = Vec::new();
    for (name, raw) in tables {
        let place = format!("links.{name}.queue");
        if raw.from == raw.to {
            return Err(ConfigError::at(format!("links.{name}.to"), "must differ from `from`"));
        }
        let back = raw.both_ways.then(|| LinkSpec {
            name: format!("{name}-back"),
            place: place.clone(),
            from: raw.to.clone(),
            to: raw.from.clone(),
            rate: raw.rate,
            delay: raw.delay,
            queue: None,
        });
        links.push(LinkSpec {
            name,
            place,
            from: raw.from,
            to: raw.to,
            rate: raw.rate,
            delay: raw.delay,
            queue: raw.queue,
        });
        links.extend(back);
    }
    for pair in 1..links.len() {
        if links[..pair].iter().any(|other| other.name == links[pair].name) {
            let problem = "`both_ways` of another link makes a link of this name: choose another name";
            return Err(ConfigError::at(format!("links.{}", links[pair].name), problem));
        }
    }
    if links.iter().all(|link| link.queue.is_none()) {
        return Err(ConfigError::at("links", "at least one link needs a `queue` table"));
    }
    Ok(links)
}
