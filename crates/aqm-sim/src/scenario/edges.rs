//! The edges of a scenario: at which node each stands, and the running ones.

use std::collections::BTreeSet;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Packet, Streams};
use aqm_queue::edge::{self, Edge};
use serde_json::Value;

use crate::scenario::links::LinkSpec;
use crate::scenario::traffic::Traffic;

/// Where packets are told short or long as they come from hosts.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSpec {
    pub(crate) node: String,
    pub(crate) config: edge::Config,
}

impl EdgeSpec {
    /// Builds the edge, with a random stream of its own.
    fn build(&self, streams: Streams) -> Result<Box<dyn Edge>, ConfigErrors> {
        let rng = streams.named(&format!("edge/{}", self.node), 0);
        self.config.build(rng).map_err(|errors| errors.within(&format!("edges.{}", self.node)))
    }
}

/// More edges than this do not fit the byte in which a hop names its edge.
const MOST_EDGES: usize = u8::MAX as usize;

/// Reads the tables of edges, by node; whether the nodes exist is known if the `links` are.
pub(crate) fn read_edges(tables: Value, links: Option<&[LinkSpec]>) -> Result<Vec<EdgeSpec>, ConfigErrors> {
    let Value::Object(tables) = tables else {
        return Err(ConfigError::at("", "must be a table").into());
    };
    let ends = |links: &[LinkSpec]| links.iter().flat_map(|l| [l.from.clone(), l.to.clone()]).collect();
    let known: Option<BTreeSet<String>> = links.map(ends);
    let (mut edges, mut errors) = (Vec::new(), ErrorCollector::default());
    for (node, table) in tables {
        if let Some(known) = &known {
            let nodes: Vec<&str> = known.iter().map(String::as_str).collect();
            let problem = format!("no link touches a node of this name; the nodes are {}", nodes.join(", "));
            errors.check(known.contains(&node), node.as_str(), problem);
        }
        let config = edge::Config::read(table).map_err(|wrong| wrong.within(&node));
        edges.extend(errors.take(config).map(|config| EdgeSpec { node, config }));
    }
    errors.finish(edges)
}

/// The edges that a scenario names, or else one at every node with hosts if a queue wants classes; and
/// whether it is the latter.
pub(crate) fn place_edges(
    mut edges: Vec<EdgeSpec>,
    links: &[LinkSpec],
    traffic: &[Traffic],
) -> Result<(Vec<EdgeSpec>, bool), ConfigError> {
    let wants = links.iter().filter_map(|link| link.queue.as_ref()).any(|queue| queue.config.needs_classes());
    let added = edges.is_empty() && wants;
    if added {
        let nodes: BTreeSet<&str> = traffic.iter().flat_map(|t| [t.from.as_str(), t.to.as_str()]).collect();
        let at = |node: &str| EdgeSpec { node: node.to_owned(), config: edge::Config::default() };
        edges.extend(nodes.into_iter().map(at));
    }
    let problem = format!("at most {MOST_EDGES} edges, not {}", edges.len());
    ConfigError::unless(edges.len() <= MOST_EDGES, "edges", problem)?;
    Ok((edges, added))
}

/// One more than the position of the edge at a node; 0 if there is none.
pub(crate) fn edge_at(edges: &[EdgeSpec], node: &str) -> u8 {
    edges.iter().position(|edge| edge.node == node).map_or(0, |place| place as u8 + 1)
}

/// The edges, in the order of the scenario: of those that were just built, each run takes a clone.
#[derive(Clone)]
pub(crate) struct Edges(Vec<Box<dyn Edge>>);

impl Edges {
    /// Builds every edge; what is wrong in their parameters is told to `errors`.
    pub(crate) fn new(specs: &[EdgeSpec], streams: Streams, errors: &mut ErrorCollector) -> Self {
        Self(specs.iter().filter_map(|spec| errors.take(spec.build(streams))).collect())
    }

    /// The class of `packet` behind the edge that a hop calls `number`, counted from one.
    ///
    /// Takes the packet by value, out of the way of runs without edges: those can keep theirs in registers.
    #[cold]
    pub(crate) fn class_of(&mut self, packet: Packet, number: u8, now: Instant) -> u8 {
        self.0[usize::from(number) - 1].classify(&packet, now)
    }

    /// Each edge, by position.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Edge>> {
        self.0.iter_mut()
    }
}
