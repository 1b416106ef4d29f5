//! The edges of a scenario: the nodes at which they are located, and their state in a run.

use std::collections::BTreeSet;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Packet, Streams};
use aqm_queue::edge::{self, Edge};
use serde_json::Value;

use crate::scenario::links::LinkSpec;
use crate::scenario::traffic::Traffic;

/// A node at which packets from hosts are classified as short or long.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSpec {
    pub(crate) node: String,
    pub(crate) config: edge::Config,
}

impl EdgeSpec {
    /// Builds the edge. The edge has its own random stream.
    fn build(&self, streams: Streams) -> Result<Box<dyn Edge>, ConfigErrors> {
        let rng = streams.named(&format!("edge/{}", self.node), 0);
        self.config.build(rng).map_err(|errors| errors.within(&format!("edges.{}", self.node)))
    }
}

/// Maximum number of edges. A hop stores the number of an edge in one byte.
const MAX_EDGES: usize = u8::MAX as usize;

/// Parses the tables of edges, by node. If `links` is known, also checks that the nodes exist.
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
            let problem = format!("is not a node of any link; available: {}", nodes.join(", "));
            errors.check(known.contains(&node), node.as_str(), problem);
        }
        let config = edge::Config::read(table).map_err(|wrong| wrong.within(&node));
        edges.extend(errors.take(config).map(|config| EdgeSpec { node, config }));
    }
    errors.finish(edges)
}

/// Returns the edges of the scenario. If a queue needs classes and the scenario has no edges, adds an edge at every
/// node with hosts; the second value that is returned is then true.
pub(crate) fn place_edges(
    mut edges: Vec<EdgeSpec>,
    links: &[LinkSpec],
    traffic: &[Traffic],
) -> Result<(Vec<EdgeSpec>, bool), ConfigError> {
    let needs_classes =
        links.iter().filter_map(|link| link.queue.as_ref()).any(|queue| queue.config.needs_classes());
    let added = edges.is_empty() && needs_classes;
    if added {
        let nodes: BTreeSet<&str> = traffic.iter().flat_map(|t| [t.from.as_str(), t.to.as_str()]).collect();
        let at = |node: &str| EdgeSpec { node: node.to_owned(), config: edge::Config::default() };
        edges.extend(nodes.into_iter().map(at));
    }
    let problem = format!("must contain at most {MAX_EDGES} edges (got {})", edges.len());
    ConfigError::unless(edges.len() <= MAX_EDGES, "edges", problem)?;
    Ok((edges, added))
}

/// Returns the position of the edge at a node plus one, or 0 if the node has no edge.
pub(crate) fn edge_at(edges: &[EdgeSpec], node: &str) -> u8 {
    edges.iter().position(|edge| edge.node == node).map_or(0, |index| index as u8 + 1)
}

/// The edges of a scenario, in the order in which the scenario lists them. Each run clones the edges in their initial
/// state.
#[derive(Clone)]
pub(crate) struct Edges(Vec<Box<dyn Edge>>);

impl Edges {
    /// Builds all edges, and adds errors about invalid parameters to `errors`.
    pub(crate) fn new(specs: &[EdgeSpec], streams: Streams, errors: &mut ErrorCollector) -> Self {
        Self(specs.iter().filter_map(|spec| errors.take(spec.build(streams))).collect())
    }

    /// Returns the class that the edge with this `number`, counted from one, assigns to `packet`.
    ///
    /// The packet is passed by value, so that runs without edges can keep their packets in registers.
    #[cold]
    pub(crate) fn class_of(&mut self, packet: Packet, number: u8, now: Instant) -> u8 {
        self.0[usize::from(number) - 1].classify(&packet, now)
    }

    /// Returns the edges in the order of their positions.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Edge>> {
        self.0.iter_mut()
    }
}
