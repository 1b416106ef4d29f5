//! The edges of a scenario: at which node each stands, and the running ones.

use std::collections::BTreeSet;

use aqm_net::{ConfigError, ConfigErrors, Instant, Packet, Streams};
use aqm_queue::edge::{self, Edge};
use serde_json::{Map, Value};

use crate::links::LinkSpec;
use crate::scenario::Traffic;

/// Where packets are told short or long as they come from hosts.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSpec {
    pub(crate) node: String,
    pub(crate) config: edge::Config,
}

/// More edges than this do not fit the byte in which a hop names its edge.
const MOST_EDGES: usize = u8::MAX as usize;

/// The edges that a scenario names, or else one at every node with hosts if a queue wants classes; and
/// whether it is the latter.
pub(crate) fn place_edges(
    tables: Map<String, Value>,
    links: &[LinkSpec],
    traffic: &[Traffic],
) -> Result<(Vec<EdgeSpec>, bool), ConfigErrors> {
    let mut edges = Vec::new();
    for (node, table) in tables {
        let place = format!("edges.{node}");
        let known: BTreeSet<&str> = links.iter().flat_map(|l| [l.from.as_str(), l.to.as_str()]).collect();
        if !known.contains(node.as_str()) {
            let nodes: Vec<&str> = known.into_iter().collect();
            let problem = format!("no link touches a node of this name; the nodes are {}", nodes.join(", "));
            return Err(ConfigError::at(place, problem).into());
        }
        let config = edge::Config::read(table).map_err(|e| e.within(&place))?;
        config.build(Streams::new(0).named("edge", 0)).map_err(|e| e.within(&place))?;
        edges.push(EdgeSpec { node, config });
    }
    let wants = links.iter().filter_map(|link| link.queue.as_ref()).any(|queue| queue.wants_classes());
    let added = edges.is_empty() && wants;
    if added {
        let nodes: BTreeSet<&str> = traffic.iter().flat_map(|t| [t.from.as_str(), t.to.as_str()]).collect();
        let at = |node: &str| EdgeSpec { node: node.to_owned(), config: edge::Config::default() };
        edges.extend(nodes.into_iter().map(at));
    }
    let problem = format_args!("at most {MOST_EDGES} edges, not {}", edges.len());
    ConfigError::unless(edges.len() <= MOST_EDGES, "edges", problem)?;
    Ok((edges, added))
}

/// The running edges, in the order of the scenario.
pub(crate) struct Edges(Vec<Box<dyn Edge>>);

impl Edges {
    /// Makes every edge, with random streams of its own.
    pub(crate) fn new(specs: &[EdgeSpec], seed: u64) -> Self {
        let streams = Streams::new(seed);
        let build = |spec: &EdgeSpec| {
            let rng = streams.named(&format!("edge/{}", spec.node), 0);
            spec.config.build(rng).expect("the edge was built when the scenario was read")
        };
        Self(specs.iter().map(build).collect())
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
