//! The topology. Directed links connect routers, access links connect hosts to their routers, and each static route is
//! a path with the fewest links.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate, Span};

use crate::scenario::edges::{EdgeSpec, edge_at};
use crate::scenario::links::{LinkSpec, Queue};
use crate::scenario::traffic::Traffic;

/// Properties that all links of a class have in common. Each link between routers forms a separate class. Access links
/// are in the same class if they have the same role, rate, delay and adjacent link between routers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkClass {
    pub(crate) rate: Rate,
    pub(crate) delay: Span,
}

/// A link on the route of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) link: u32,
    /// Index of the link's class.
    pub(crate) class: u16,
    /// Whether the link leads to the destination host.
    pub(crate) last: bool,
    /// Position of the edge before the link plus one; 0 if the link has no edge.
    pub(crate) edge: u8,
}

/// The routes of a workload's flows. For each host, the indices of the hops in [`Topology::hops`] are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routes {
    first: u32,
    forward_length: u32,
    length: u32,
    hosts: u32,
    /// For each side, the host number that the packets of the first host contain, minus 1.
    first_hosts: [u32; 2],
}

impl Routes {
    /// Returns the host numbers that the packets of a flow contain, by side. `host` is the index of the flow's hosts.
    fn host_numbers(&self, host: u32) -> [u16; 2] {
        // If there are more than 65,535 hosts, numbers repeat. The number 0 is not used.
        self.first_hosts.map(|first| ((first + host) % u32::from(u16::MAX)) as u16 + 1)
    }

    /// Returns the first hop of the packets that each end of a flow sends, by side.
    pub(crate) fn first_hops(&self, host: u32) -> [u32; 2] {
        let forward = self.first + host * self.length;
        [forward, forward + self.forward_length]
    }
}

/// The links of a scenario, by number, and the routes over these links. Links between routers have the lowest numbers
/// and are in the order in which the scenario lists them. Access links follow, sorted by role (from the senders' hosts,
/// to the receivers' hosts, from the receivers' hosts, to the senders' hosts), rate, delay, workload and host. The
/// links of a class therefore have consecutive numbers, and classes are in the order of link numbers.
pub(crate) struct Topology {
    pub(crate) link_classes: Vec<LinkClass>,
    /// Routes of each workload's flows, by workload.
    pub(crate) routes: Vec<Routes>,
    /// Hops of the first host of each workload, in both directions. The routes of the other hosts differ only in the
    /// access links, whose numbers follow those of the first host's access links.
    of_first_hosts: Vec<Hop>,
    /// Number of links between routers.
    between_routers: u32,
    /// Number of routes, which is the number of hosts that send data.
    route_count: usize,
    slowest: Vec<Rate>,
    slowest_managed: Rate,
}

/// Maximum number of routes whose state fits into the cache.
const CACHED_ROUTES: usize = 1000;

/// Number of roles of access links.
const ROLES: usize = 4;
const FROM_SENDER: usize = 0;
const TO_RECEIVER: usize = 1;
const FROM_RECEIVER: usize = 2;
const TO_SENDER: usize = 3;

/// The access links of a workload that have the same role.
struct Block {
    role: usize,
    workload: usize,
    hosts: u64,
    rate: Rate,
    delay: Span,
    /// The link between routers that is adjacent to these access links, if any.
    beside: Option<u32>,
}

/// The routes of a workload, without access links: the link numbers from the senders' router to the receivers' router
/// and back.
struct Path {
    there: Vec<u32>,
    back: Vec<u32>,
}

impl Topology {
    /// # Errors
    /// Returns an error for every workload without a route.
    pub(crate) fn new(
        routers: &[LinkSpec],
        traffic: &[Traffic],
        edges: &[EdgeSpec],
    ) -> Result<Self, ConfigErrors> {
        let mut link_classes: Vec<LinkClass> =
            routers.iter().map(|link| LinkClass { rate: link.rate, delay: link.delay }).collect();
        let mut errors = ErrorCollector::default();
        let ways = traffic.iter().filter_map(|one| errors.take(Path::new(routers, one))).collect();
        let paths: Vec<Path> = errors.finish(ways)?;
        let mut blocks = Vec::new();
        for (workload, (one, path)) in traffic.iter().zip(&paths).enumerate() {
            let hosts = one.config.hosts().max(1);
            let (rate, delay) = (one.access.rate, one.access.delay);
            let Path { there, back } = path;
            let beside = [there.first(), there.last(), back.first(), back.last()].map(Option::<&u32>::copied);
            let block =
                |(role, beside): (usize, Option<u32>)| Block { role, workload, hosts, rate, delay, beside };
            blocks.extend(beside.into_iter().enumerate().map(block));
        }
        blocks.sort_by_key(|block| (block.role, block.rate, block.delay, block.workload));
        // The first link of each block and the class of this link, by workload and role.
        let mut access = vec![[(0_u32, 0_u16); ROLES]; paths.len()];
        let (mut next, mut last) = (routers.len() as u32, None);
        for block in &blocks {
            let alike = (block.role, block.rate, block.delay, block.beside);
            if last != Some(alike) {
                link_classes.push(LinkClass { rate: block.rate, delay: block.delay });
                last = Some(alike);
            }
            let class = link_classes.len() - 1;
            access[block.workload][block.role] = (next, class as u16);
            next += block.hosts as u32;
        }
        let host_numbers = number_hosts(traffic);
        let (mut of_first_hosts, mut routes, mut first) = (Vec::new(), Vec::new(), 0);
        for (workload, path) in paths.iter().enumerate() {
            let hosts = traffic[workload].config.hosts().max(1) as u32;
            let length = (path.there.len() + path.back.len()) as u32 + 4;
            let forward_length = path.there.len() as u32 + 2;
            let first_hosts = host_numbers[workload];
            routes.push(Routes { first, forward_length, length, hosts, first_hosts });
            first += hosts * length;
            let access_hop = |role: usize, last: bool| {
                let (link, class) = access[workload][role];
                Hop { link, class, last, edge: 0 }
            };
            // The edge at the hosts' node precedes the first link between routers.
            let between = |node: &str| {
                let mut edge = edge_at(edges, node);
                move |&link: &u32| Hop {
                    link,
                    class: link as u16,
                    last: false,
                    edge: std::mem::take(&mut edge),
                }
            };
            let one = &traffic[workload];
            of_first_hosts.push(access_hop(FROM_SENDER, false));
            of_first_hosts.extend(path.there.iter().map(between(&one.from)));
            of_first_hosts.push(access_hop(TO_RECEIVER, true));
            of_first_hosts.push(access_hop(FROM_RECEIVER, false));
            of_first_hosts.extend(path.back.iter().map(between(&one.to)));
            of_first_hosts.push(access_hop(TO_SENDER, true));
        }
        let slowest_on = |(path, one): (&Path, &Traffic)| {
            let rates = path.there.iter().map(|&link| routers[link as usize].rate);
            rates.min().unwrap_or(one.access.rate)
        };
        let managed = routers.iter().filter(|link| link.queue.is_some()).map(|link| link.rate);
        Ok(Self {
            route_count: (next as usize - routers.len()) / ROLES,
            link_classes,
            routes,
            of_first_hosts,
            between_routers: routers.len() as u32,
            slowest: paths.iter().zip(traffic).map(slowest_on).collect(),
            slowest_managed: managed.min().unwrap_or(routers[0].rate),
        })
    }

    /// Returns the rate of the slowest link on the route of the workload's data. The load of a workload is specified as
    /// a fraction of this rate.
    pub(crate) fn slowest(&self, workload: usize) -> Rate {
        self.slowest[workload]
    }

    /// Returns the hops of all routes. The hops of each route are in the order in which a packet traverses them.
    pub(crate) fn hops(&self) -> impl Iterator<Item = Hop> {
        let of_host = |host: u32, hop: Hop| {
            let is_access = hop.link >= self.between_routers;
            Hop { link: if is_access { hop.link + host } else { hop.link }, ..hop }
        };
        self.by_workload().flat_map(move |(routes, hops)| {
            (0..routes.hosts).flat_map(move |host| hops.iter().map(move |&hop| of_host(host, hop)))
        })
    }

    /// Returns the source and destination host numbers of packets, by hop. Returns an empty list if the queue does not
    /// use host numbers.
    pub(crate) fn hosts_for_queue(&self, queue: &Queue) -> Vec<[u16; 2]> {
        if queue.config.needs_hosts() { self.hosts_by_hop() } else { Vec::new() }
    }

    fn hosts_by_hop(&self) -> Vec<[u16; 2]> {
        let of_host = |routes: &Routes, host: u32| {
            let [sender, receiver] = routes.host_numbers(host);
            let (there, back) = (routes.forward_length, routes.length - routes.forward_length);
            let there = std::iter::repeat_n([sender, receiver], there as usize);
            there.chain(std::iter::repeat_n([receiver, sender], back as usize))
        };
        let routes = self.routes.iter();
        routes.flat_map(|routes| (0..routes.hosts).flat_map(move |host| of_host(routes, host))).collect()
    }

    /// Returns the total number of hops of all routes.
    pub(crate) fn hop_count(&self) -> usize {
        self.routes.iter().map(|routes| routes.hosts as usize * routes.length as usize).sum()
    }

    /// Returns, for each workload, the routes and the hops of the workload's first host.
    fn by_workload(&self) -> impl Iterator<Item = (&Routes, &[Hop])> {
        let mut rest = self.of_first_hosts.as_slice();
        self.routes.iter().map(move |routes| {
            let (hops, following) = rest.split_at(routes.length as usize);
            rest = following;
            (routes, hops)
        })
    }

    /// Returns whether the state of all routes is too large for the cache.
    pub(crate) fn has_many_routes(&self) -> bool {
        self.route_count > CACHED_ROUTES
    }

    /// Returns the minimum round-trip propagation delay among all workloads, excluding queueing delay and transmission
    /// times.
    pub(crate) fn least_round_trip(&self) -> Span {
        let delay = |hop: &Hop| self.link_classes[usize::from(hop.class)].delay;
        let there_and_back =
            |(_, hops): (&Routes, &[Hop])| hops.iter().map(delay).fold(Span::ZERO, |sum, delay| sum + delay);
        self.by_workload().map(there_and_back).min().unwrap_or_default()
    }

    /// Returns the rate of the slowest link with a queue discipline.
    pub(crate) fn slowest_managed(&self) -> Rate {
        self.slowest_managed
    }
}

impl Path {
    fn new(routers: &[LinkSpec], one: &Traffic) -> Result<Self, ConfigError> {
        let find = |from: &str, to: &str, key: &str| {
            route(routers, from, to)
                .map_err(|problem| ConfigError::at(format!("traffic.{}.{key}", one.name), problem))
        };
        Ok(Self { there: find(&one.from, &one.to, "to")?, back: find(&one.to, &one.from, "from")? })
    }
}

/// Returns the number of the first host of each side, by workload. Hosts with the same name have the same number, and
/// each host without a name has its own number.
fn number_hosts(traffic: &[Traffic]) -> Vec<[u32; 2]> {
    let (mut next, mut named) = (0, BTreeMap::new());
    let mut number = |name: Option<&str>, hosts: u32| {
        let first = name.map_or(next, |name| *named.entry(name.to_owned()).or_insert(next));
        next = next.max(first + hosts);
        first
    };
    let both = |one: &Traffic| {
        let hosts = one.config.hosts().max(1) as u32;
        [number(one.sender.as_deref(), hosts), number(one.receiver.as_deref(), hosts)]
    };
    traffic.iter().map(both).collect()
}

/// Returns the links of the route from the router `from` to the router `to`. The route with the fewest links is
/// selected. If several routes have the fewest links, the one with the smallest delay is selected. If several routes
/// also have the same delay, the first of them in the order of links is selected.
fn route(links: &[LinkSpec], from: &str, to: &str) -> Result<Vec<u32>, String> {
    let nodes: Vec<&str> = links.iter().flat_map(|link| [link.from.as_str(), link.to.as_str()]).collect();
    for node in [from, to] {
        if !nodes.contains(&node) {
            let mut known = nodes.clone();
            known.sort_unstable();
            known.dedup();
            return Err(format!("`{node}` is not a node of any link; available: {}", known.join(", ")));
        }
    }
    // Each iteration determines the routes to the nodes that are one link further away (Bellman & Ford).
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
                "there is no route from `{from}` to `{to}`: links are unidirectional unless `both_ways` is set"
            ));
        }
        best.extend(reached);
    }
    Ok(best.remove(to).map(|(_, path)| path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use aqm_net::level::Files;
    use serde_json::json;

    use super::*;
    use crate::Plan;
    use crate::scenario::links::LinkExtras;

    fn link(from: &str, to: &str, millis: u64) -> LinkSpec {
        LinkSpec {
            name: format!("{from}{to}"),
            queue_path: String::new(),
            from: from.to_owned(),
            to: to.to_owned(),
            rate: Rate::from_bps(1000),
            delay: Span::from_millis(millis),
            queue: None,
            extras: LinkExtras::default(),
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
    fn hosts_with_the_same_name_are_shared_and_all_others_differ() {
        let ftp = |more: serde_json::Value| {
            let mut table = json!({"kind": "ftp", "flows": 2});
            table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            table
        };
        let scenario = json!({
            "duration": "1s",
            "bottleneck": {"queue": {"kind": "drop-tail"}},
            "traffic": {
                "a": ftp(json!({"sender": "server", "receiver": "phone", "hosts": "shared"})),
                "b": ftp(json!({})),
                "c": ftp(json!({"sender": "phone", "receiver": "server", "hosts": "shared"})),
            },
        });
        let plan = Plan::of_value(scenario, Files::default()).unwrap();
        let hosts = plan.topology.hosts_by_hop();
        assert_eq!(hosts.len(), plan.topology.hop_count());
        let of = |workload: usize, host| {
            plan.topology.routes[workload].first_hops(host).map(|hop| hosts[hop as usize])
        };
        let [server, phone] = of(0, 0)[0];
        assert_eq!(of(0, 0), [[server, phone], [phone, server]]);
        assert_eq!(of(2, 0), [[phone, server], [server, phone]]);
        let mut all = vec![server, phone];
        all.extend(of(1, 0)[0]);
        all.extend(of(1, 1)[0]);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_workload_of_a_dumbbell_sends_in_either_direction() {
        let plan = |nodes: serde_json::Value| {
            let mut up = json!({"kind": "ftp"});
            up.as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
            let link = json!({"queue": {"kind": "drop-tail"}});
            Plan::of_value(
                json!({"duration": "1s", "bottleneck": link, "traffic": {"up": up}}),
                Files::default(),
            )
        };
        let links = |nodes| {
            let plan = plan(nodes).unwrap();
            plan.topology.hops().map(|hop| hop.link).collect::<Vec<_>>()
        };
        // The link 0 leads from left to right and the link 1 leads back; the others are access links.
        assert_eq!(links(json!({})), [2, 0, 3, 4, 1, 5]);
        assert_eq!(links(json!({"from": "left", "to": "right"})), [2, 0, 3, 4, 1, 5]);
        for nodes in [json!({"from": "right"}), json!({"to": "left"}), json!({"from": "right", "to": "left"})]
        {
            assert_eq!(links(nodes), [2, 1, 3, 4, 0, 5]);
        }
        let wrong = |nodes| plan(nodes).err().unwrap().to_string();
        assert!(wrong(json!({"from": "home"})).contains("traffic.up.from: must be \"left\" or \"right\""));
        assert!(wrong(json!({"from": "left", "to": "left"})).contains("traffic.up.to: must not be the node"));
    }

    #[test]
    fn a_missing_route_is_reported() {
        let links = [link("a", "b", 1)];
        assert!(route(&links, "b", "a").unwrap_err().contains("no route from `b` to `a`"));
        assert!(route(&links, "a", "x").unwrap_err().contains("available: a, b"));
    }
}
