//! The links between routers, as a scenario gives them: a dumbbell, or a graph.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, Rate, Span, registry};
use serde::Deserialize;
use serde_json::{Map, Value};

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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLink {
    from: String,
    to: String,
    rate: Rate,
    delay: Span,
    #[serde(default)]
    queue: Option<Value>,
    #[serde(default)]
    both_ways: bool,
}

fn read_queue(value: Value, place: &str) -> Result<aqm_queue::Config, ConfigError> {
    aqm_queue::Config::read(value).map_err(|e| e.within(place))
}

/// The links of a dumbbell, given its `[bottleneck]` table.
pub(crate) fn of_dumbbell(mut table: Map<String, Value>) -> Result<Vec<LinkSpec>, ConfigError> {
    let place = "bottleneck.queue";
    let Some(queue) = table.remove("queue") else {
        let problem = format!(
            "is missing: write a `[bottleneck.queue]` table with a `kind`, one of {}",
            aqm_queue::Config::NAMES.join(", ")
        );
        return Err(ConfigError::at(place, problem));
    };
    let queue = read_queue(queue, place)?;
    let line: Bottleneck = registry::read(Value::Object(table)).map_err(|e| e.within("bottleneck"))?;
    let link = |name: &str, from: &str, to: &str, queue| LinkSpec {
        name: name.to_owned(),
        place: place.to_owned(),
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
        registry::check_name("links", &name)?;
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
        let queue = raw.queue.map(|queue| read_queue(queue, &place)).transpose()?;
        links.push(LinkSpec {
            name,
            place,
            from: raw.from,
            to: raw.to,
            rate: raw.rate,
            delay: raw.delay,
            queue,
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
