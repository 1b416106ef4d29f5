//! A link between routers to which packets come from hosts only, over their access lines.
//!
//! What such a link does follows from what comes to it, and nobody sees what it does before its packets reach their
//! hosts. So it takes no part in the order of all events: it gathers what comes and catches up in one go, each
//! packet at its own instant, before the first of them could reach the far end.

use std::collections::BTreeSet;

use aqm_net::{Instant, Packet, Span};

use crate::engine::event::rank_of_link;
use crate::engine::event_queue::{EventQueue, Places};
use crate::scenario::links::LinkSpec;
use crate::scenario::plan::Plan;

/// At most about so many packets of the usual size gather, lest they outgrow the cache.
const MOST_GATHERED: u64 = 1000;
const USUAL_BYTES: u64 = 1000;

/// A link, and what comes to it.
pub(crate) struct FirstLink {
    /// The number of the link.
    pub(crate) link: u32,
    coming: EventQueue,
    /// For how long after a packet came it surely has not reached the far end, nor have too many gathered.
    lookahead: Span,
}

impl FirstLink {
    /// That of the link with this number, to which so many classes of lines lead; `many` lines if they are so many.
    pub(crate) fn new(link: u32, spec: &LinkSpec, classes: usize, reversed_ties: bool, many: bool) -> Self {
        let most = spec.peak().pace().time_for(USUAL_BYTES).saturating_mul(MOST_GATHERED);
        Self {
            link,
            coming: EventQueue::new(reversed_ties, classes, many),
            lookahead: Span::from_nanos(spec.least_delay().nanos().saturating_sub(1)).min(most),
        }
    }

    /// Where packets wait of the class of lines with this number among those that lead here.
    pub(crate) fn places(&self, number: usize) -> Places {
        self.coming.places(number)
    }

    /// A packet comes at `at` over the access line `link`; returns when to look after it at the latest.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: u8, at: Instant, link: u32, packet: Packet) -> Instant {
        self.coming.put_packet(place, at, rank_of_link(link), packet);
        at.plus(self.lookahead)
    }

    /// Hands out the packets that have come by `now`, and when each came.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Instant, take: impl FnMut(Instant, Packet)) {
        self.coming.take_packets(now, take);
    }

    /// The moment after whose events it must catch up at the latest.
    pub(crate) fn serve_by(&self) -> Instant {
        self.coming.next_due() + self.lookahead
    }
}

/// How many classes of access lines lead to each link between routers, 0 if it cannot be a first link: packets come
/// to it from another link, or an edge takes note of them on the way.
pub(crate) fn classes_that_lead_to(plan: &Plan) -> Vec<usize> {
    let links = plan.scenario.links.len();
    let (mut classes, mut possible) = (vec![BTreeSet::new(); links], vec![true; links]);
    let mut line = None;
    for hop in plan.topology.hops() {
        let Some(classes) = classes.get_mut(hop.link as usize) else {
            line = (!hop.last).then_some(hop.class);
            continue;
        };
        classes.extend(line);
        possible[hop.link as usize] &= line.take().is_some() && hop.edge == 0;
    }
    classes.iter().zip(possible).map(|(classes, possible)| if possible { classes.len() } else { 0 }).collect()
}
