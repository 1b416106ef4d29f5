//! Which links there are, and which way packets go: routers joined by directed links, hosts joined
//! to their router by access lines, static routes over the fewest links.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, Rate, Span};

use crate::agenda::{LANES, NO_LANE};
use crate::scenario::{Access, Scenario};

/// Ends every route: the packet is at a host.
pub(crate) const HOST: u32 = u32::MAX;

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

/// A directed line, between routers or between a host and its router.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) rate: Rate,
    pub(crate) delay: Span,
    /// Where packets on it wait in the agenda.
    pub(crate) lane: u8,
}

/// The ways of a workload's flows: where in `hops` a packet of host `h` begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    first: u32,
    forward_length: u32,
    length: u32,
}

impl Ways {
    /// Where the way of the data from this host begins.
    pub(crate) fn forward(&self, host: u32) -> u32 {
        self.first + host * self.length
    }

    /// Where the way back to this host begins.
    pub(crate) fn back(&self, host: u32) -> u32 {
        self.forward(host) + self.forward_length
    }
}

/// Links by number, and routes over them. Those between routers come first, in the scenario's order;
/// then the access lines by what they do: from the senders' hosts, to the receivers' hosts, from
/// those, and back to the senders; lines that do the same by rate, by delay, and in the order of
/// workloads and hosts. So lines of a kind are neighbours.
pub(crate) struct Topology {
    pub(crate) lines: Vec<Line>,
    /// Link numbers, each route closed by [`HOST`].
    pub(crate) hops: Vec<u32>,
    /// By workload.
    pub(crate) ways: Vec<Ways>,
    slowest: Vec<Rate>,
    slowest_managed: Rate,
}

/// What links of one kind have in common: what they do, rate and delay. Those that share a lane must
/// share a delay.
type Class = (usize, Rate, Span);

impl Topology {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, ConfigError> {
        let routers = &scenario.links;
        let mut building = Building::default();
        for (number, link) in routers.iter().enumerate() {
            building.add(number, link.rate, link.delay);
        }
        let (mut hops, mut ways, mut slowest) = (Vec::new(), Vec::new(), Vec::new());
        for one in &scenario.traffic {
            let path = |from: &str, to: &str, key: &str| {
                route(routers, from, to)
                    .map_err(|problem| ConfigError::new(format!("traffic.{}.{key}", one.name), problem))
            };
            let (there, back) = (path(&one.from, &one.to, "to")?, path(&one.to, &one.from, "from")?);
            let hosts = one.config.hosts().max(1) as u32;
            for &link in there.iter().chain(&back) {
                building.weigh(link, u64::from(hosts));
            }
            let first = hops.len() as u32;
            for _ in 0..hosts {
                hops.extend(building.with_access(&one.access, &there, FROM_SENDER));
                hops.extend(building.with_access(&one.access, &back, FROM_RECEIVER));
            }
            let forward_length = there.len() as u32 + 3;
            ways.push(Ways { first, forward_length, length: forward_length + back.len() as u32 + 3 });
            let rates = there.iter().map(|&link| routers[link as usize].rate);
            slowest.push(rates.min().unwrap_or(one.access.rate));
        }
        let managed = routers.iter().filter(|link| link.queue.is_some()).map(|link| link.rate);
        let slowest_managed = managed.min().unwrap_or(routers[0].rate);
        let (lines, number_of) = building.lines();
        for hop in hops.iter_mut().filter(|hop| **hop != HOST) {
            *hop = number_of[*hop as usize];
        }
        Ok(Self { lines, hops, ways, slowest, slowest_managed })
    }

    /// The rate of the slowest link on the way of this workload's data: what its load is a share of.
    pub(crate) fn slowest(&self, workload: usize) -> Rate {
        self.slowest[workload]
    }

    /// The rate of the slowest link with a queue discipline.
    pub(crate) fn slowest_managed(&self) -> Rate {
        self.slowest_managed
    }
}

/// What access lines do, above the numbers of links between routers.
const FROM_SENDER: usize = 1 << 20;
const FROM_RECEIVER: usize = FROM_SENDER + 2;

#[derive(Default)]
struct Building {
    classes: BTreeMap<Class, u64>,
    links: Vec<Class>,
}

impl Building {
    fn add(&mut self, role: usize, rate: Rate, delay: Span) -> u32 {
        let class = (role, rate, delay);
        *self.classes.entry(class).or_default() += 1;
        self.links.push(class);
        (self.links.len() - 1) as u32
    }

    fn weigh(&mut self, link: u32, weight: u64) {
        *self.classes.entry(self.links[link as usize]).or_default() += weight;
    }

    /// A route with an access line of its own before and after it, closed.
    fn with_access(&mut self, access: &Access, path: &[u32], role: usize) -> impl Iterator<Item = u32> {
        let up = self.add(role, access.rate, access.delay);
        let down = self.add(role + 1, access.rate, access.delay);
        let mut hops = vec![up];
        hops.extend(path);
        hops.extend([down, HOST]);
        hops.into_iter()
    }

    /// The links in the order of their numbers, and the number of each link in the order of building.
    /// The busiest classes have lanes, which stand in the order of the numbers.
    fn lines(self) -> (Vec<Line>, Vec<u32>) {
        let mut busiest: Vec<(u64, Class)> =
            self.classes.iter().map(|(&class, &weight)| (weight, class)).collect();
        busiest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut chosen: Vec<Class> = busiest.into_iter().take(LANES).map(|(_, class)| class).collect();
        chosen.sort_unstable();
        let mut order: Vec<u32> = (0..self.links.len() as u32).collect();
        order.sort_by_key(|&link| self.links[link as usize]);
        let mut number_of = vec![0; order.len()];
        for (number, &link) in order.iter().enumerate() {
            number_of[link as usize] = number as u32;
        }
        let line = |&link: &u32| {
            let class = &self.links[link as usize];
            let lane = chosen.binary_search(class).map_or(NO_LANE, |lane| lane as u8);
            Line { rate: class.1, delay: class.2, lane }
        };
        (order.iter().map(line).collect(), number_of)
    }
}

/// The links from one router to another: the fewest; of those the least delay; of those the first.
fn route(links: &[LinkSpec], from: &str, to: &str) -> Result<Vec<u32>, String> {
    let nodes: Vec<&str> = links.iter().flat_map(|link| [link.from.as_str(), link.to.as_str()]).collect();
    for node in [from, to] {
        if !nodes.contains(&node) {
            let mut known = nodes.clone();
            known.sort_unstable();
            known.dedup();
            return Err(format!("no link touches a node `{node}`; the nodes are {}", known.join(", ")));
        }
    }
    // Each round reaches the nodes one link further away (Bellman & Ford).
    let mut best: BTreeMap<&str, (Span, Vec<u32>)> = BTreeMap::from([(from, (Span::ZERO, Vec::new()))]);
    while !best.contains_key(to) {
        let mut reached: BTreeMap<&str, (Span, Vec<u32>)> = BTreeMap::new();
        for (number, link) in links.iter().enumerate() {
            let Some((delay, path)) = best.get(link.from.as_str()) else { continue };
            if best.contains_key(link.to.as_str()) {
                continue;
            }
            let delay = *delay + link.delay;
            if reached.get(link.to.as_str()).is_none_or(|(other, _)| delay < *other) {
                let mut path = path.clone();
                path.push(number as u32);
                reached.insert(&link.to, (delay, path));
            }
        }
        if reached.is_empty() {
            return Err(format!(
                "no way leads from `{from}` to `{to}`: links have one direction (`both_ways`)"
            ));
        }
        best.extend(reached);
    }
    Ok(best.remove(to).map(|(_, path)| path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(from: &str, to: &str, millis: u64) -> LinkSpec {
        LinkSpec {
            name: format!("{from}{to}"),
            place: String::new(),
            from: from.to_owned(),
            to: to.to_owned(),
            rate: Rate::from_bps(1000),
            delay: Span::from_millis(millis),
            queue: None,
        }
    }

    #[test]
    fn a_route_takes_the_fewest_links_and_then_the_least_delay() {
        let links =
            [link("a", "b", 1), link("b", "d", 50), link("a", "c", 9), link("c", "d", 1), link("d", "e", 1)];
        assert_eq!(route(&links, "a", "e").unwrap(), [2, 3, 4]);
        assert_eq!(route(&links, "a", "b").unwrap(), [0]);
        assert_eq!(route(&links, "a", "a").unwrap(), [0_u32; 0]);
    }

    #[test]
    fn a_missing_way_is_named() {
        let links = [link("a", "b", 1)];
        assert!(route(&links, "b", "a").unwrap_err().contains("no way leads"));
        assert!(route(&links, "a", "x").unwrap_err().contains("the nodes are a, b"));
    }
}
