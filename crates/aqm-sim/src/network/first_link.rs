//! First links. A first link is a link between routers at which all packets arrive directly from hosts, over access
//! links.
//!
//! The behaviour of a first link depends only on the arriving packets, and has no effect on other parts of the
//! simulation before a packet reaches the far end. Arrivals at a first link are therefore not part of the global order
//! of events. A first link collects arriving packets and processes them in one batch, each packet with its exact
//! arrival time, before the first of these packets could reach the far end.

use std::collections::BTreeSet;

use aqm_net::{Instant, Packet, Span};

use crate::engine::event::rank_of_link;
use crate::engine::event_queue::{EventQueue, LanePair};
use crate::scenario::links::LinkSpec;
use crate::scenario::plan::Plan;

/// Approximate maximum number of collected packets, for packets of the usual size. More packets would not fit into the
/// cache.
const MAX_COLLECTED: u64 = 1000;
const USUAL_BYTES: u64 = 1000;

/// A first link, and the packets that arrive at it.
pub(crate) struct FirstLink {
    /// Number of the link.
    pub(crate) link: u32,
    arrivals: EventQueue,
    /// Maximum time between an arrival and the next time the link is served. Within this time, the arriving packet
    /// cannot reach the far end, and the link does not collect too many packets.
    lookahead: Span,
}

impl FirstLink {
    /// Creates the state of the link with the number `link`. `classes` is the number of classes of access links that
    /// lead to the link, and `many` is true if the scenario has very many access links.
    pub(crate) fn new(link: u32, spec: &LinkSpec, classes: usize, reversed_ties: bool, many: bool) -> Self {
        let longest = spec.peak().pace().time_for(USUAL_BYTES).saturating_mul(MAX_COLLECTED);
        Self {
            link,
            arrivals: EventQueue::new(reversed_ties, classes, many),
            lookahead: Span::from_nanos(spec.least_delay().nanos().saturating_sub(1)).min(longest),
        }
    }

    /// Returns the lanes of the packets on a class of access links. `number` is the index of the class among the
    /// classes that lead to this link.
    pub(crate) fn lanes(&self, number: usize) -> LanePair {
        self.arrivals.lanes(number)
    }

    /// Adds a packet that arrives at `at` over the access link `link`. Returns the time by which the link must be
    /// served.
    #[inline(always)]
    pub(crate) fn put(&mut self, lane: u8, at: Instant, link: u32, packet: Packet) -> Instant {
        self.arrivals.put_packet(lane, at, rank_of_link(link), packet);
        at.plus(self.lookahead)
    }

    /// Removes the packets that arrived at or before `now`, and passes them with their arrival times to `take`.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Instant, take: impl FnMut(Instant, Packet)) {
        self.arrivals.take_packets(now, take);
    }

    /// Returns the latest time whose events may be processed before the link is served.
    pub(crate) fn serve_by(&self) -> Instant {
        self.arrivals.next_due() + self.lookahead
    }
}

/// Returns the number of classes of access links that lead to each link between routers. The number is 0 if the link
/// cannot be a first link, because some packets arrive over a link between routers or pass an edge.
pub(crate) fn access_classes(plan: &Plan) -> Vec<usize> {
    let links = plan.scenario.links.len();
    let (mut classes, mut possible) = (vec![BTreeSet::new(); links], vec![true; links]);
    let mut access = None;
    for hop in plan.topology.hops() {
        let Some(classes) = classes.get_mut(hop.link as usize) else {
            access = (!hop.last).then_some(hop.class);
            continue;
        };
        classes.extend(access);
        possible[hop.link as usize] &= access.take().is_some() && hop.edge == 0;
    }
    classes.iter().zip(possible).map(|(classes, possible)| if possible { classes.len() } else { 0 }).collect()
}
