//! A path in operation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use aqm_net::watch::LinkView;
use aqm_net::{ConfigErrors, Ecn, Instant};
use aqm_queue::Protocol;
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Delivery, Emulation, EnteringPacket, Fate, FlowOpening, Hosts, Side};

use crate::config::Planned;
use crate::{Config, DatagramId, Direction, FlowId, LinkId, Mark, Outcome};

/// The last time at which a datagram can be sent: ten years after the start. The clock of the event queue covers 73
/// years. This limit, [`MAX_BYTES_IN_TRANSIT`] and the maximum delay of a path keep all times within this range.
const LATEST: Instant = Instant::from_nanos(10 * 365 * 86_400_000_000_000);

/// The last time up to which events are processed: 73 years after the start.
const END: Instant = Instant::from_nanos(73 * 365 * 86_400_000_000_000);

/// Maximum number of datagrams that may be on the path at the same time, as in a simulation (`MAX_IN_FLIGHT`).
const MAX_IN_TRANSIT: u64 = 100_000_000;

/// Maximum number of bytes that may be on the path at the same time. At the minimum rate of a link, 16 bit/s, these bytes
/// need 32 years.
const MAX_BYTES_IN_TRANSIT: u64 = 2_000_000_000;

/// A datagram that enters the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Flow of the datagram.
    pub flow: FlowId,
    /// Direction in which the datagram travels.
    pub direction: Direction,
    /// Length of the IP packet in bytes, from 1 to 65535. The length includes all headers: a UDP payload of 1200 bytes
    /// is sent in an IPv4 packet of 1228 bytes.
    pub bytes: usize,
    /// ECN codepoint.
    pub ecn: Ecn,
}

/// Properties of a flow that queues can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowOptions {
    /// Name of the flow's table in `traffic`; by default, the first table in alphabetical order.
    pub traffic: Option<String>,
    /// Number of the flow's hosts, counted from zero; less than `hosts` in the flow's table in `traffic`.
    pub host: u32,
    /// Protocol in the IP header; by default, UDP or, for a flow of a scenario's workload, the protocol of the workload.
    pub protocol: Option<Protocol>,
    /// Port number; by default, the `port` of the flow's table in `traffic`, or 0.
    pub port: Option<u16>,
    /// DSCP, from 0 to 63; by default, the `dscp` of the flow's table in `traffic`, or 0.
    pub dscp: Option<u8>,
}

/// A path, which transports datagrams between two ends.
pub struct Path {
    emulation: Emulation,
    ends: Ends,
    /// Names of the links. The links in `forward` precede the links in `reverse`.
    links: Vec<String>,
    /// Kinds of flows, in alphabetical order.
    traffic: Vec<Traffic>,
    flows: Vec<Flow>,
    /// Labels with other headers than those of a kind of flow, by kind, whether the protocol is TCP, port and DSCP.
    labels: BTreeMap<(u32, bool, u16, u8), u16>,
    /// The time up to which events have been processed.
    now: Instant,
    /// The time before which all drops are known.
    settled: Instant,
    /// Whether an event at `now` may not have been processed, because of a datagram that was sent at `now`.
    entered: bool,
    sent: u64,
}

/// A kind of flow.
struct Traffic {
    name: String,
    hosts: u64,
    headers: Headers,
}

/// The headers that classifiers read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Headers {
    protocol: Protocol,
    port: u16,
    dscp: u8,
}

#[derive(Clone, Copy)]
struct Flow {
    label: u16,
}

/// A datagram on the path.
#[derive(Clone, Copy)]
struct InTransit {
    id: DatagramId,
    flow: FlowId,
    direction: Direction,
    bytes: u16,
    mark: Option<Mark>,
}

/// The two ends of the path, which collect outcomes.
struct Ends {
    /// Datagrams on the path, by the number that the emulation uses.
    in_transit: Vec<InTransit>,
    /// Links by the number that the emulation uses.
    links: Vec<LinkId>,
    /// Outcomes that have not been returned, in the order of time and datagram.
    outcomes: VecDeque<Outcome>,
    /// Number of outcomes so far.
    finished: u64,
    /// Number of bytes of the datagrams on the path.
    bytes: u64,
}

impl Path {
    /// Creates a path.
    ///
    /// # Errors
    /// Returns an error for each invalid value of the configuration, with its path and the allowed values.
    pub fn new(config: &Config) -> Result<Self, ConfigErrors> {
        let Planned { plan, links } = config.plan()?;
        Ok(Self::with_emulation(&plan, Emulation::between_routers(&plan), Some(links)))
    }

    /// Creates a path from a TOML text; see [`Config`].
    ///
    /// # Errors
    /// Returns an error for each invalid value of the configuration, with its path and the allowed values.
    pub fn from_toml(text: &str) -> Result<Self, ConfigErrors> {
        Self::new(&Config::from_toml(text)?)
    }

    /// Creates a path from a JSON text; see [`Config`].
    ///
    /// # Errors
    /// Returns an error for each invalid value of the configuration, with its path and the allowed values.
    pub fn from_json(text: &str) -> Result<Self, ConfigErrors> {
        Self::new(&Config::from_json(text)?)
    }

    /// Creates a path from the network of a scenario, including access links and edges. Each workload of the scenario is
    /// a kind of flow ([`FlowOptions::traffic`]), whose datagrams take the routes of the workload. The forward direction
    /// is the direction of the workload's data. The workloads are not run, and the key `host.jitter` has no effect.
    pub fn of_plan(plan: &Plan) -> Self {
        Self::with_emulation(plan, Emulation::new(plan), None)
    }

    fn with_emulation(plan: &Plan, emulation: Emulation, links: Option<Vec<String>>) -> Self {
        let queues: Vec<(u32, &str)> = emulation.queues().map(|queue| (queue.link, queue.name)).collect();
        let links =
            links.unwrap_or_else(|| queues.iter().map(|&(_, name)| name.to_owned()).collect::<Vec<_>>());
        let numbers = queues.iter().map(|&(number, _)| number as usize + 1).max().unwrap_or(0);
        let mut by_number = vec![LinkId(0); numbers];
        for (number, name) in queues {
            let position = links.iter().position(|link| link == name).unwrap_or(0);
            by_number[number as usize] = LinkId(position as u32);
        }
        let traffic = plan.workloads().map(|one| Traffic {
            name: one.name.to_owned(),
            hosts: if one.own_hosts { one.hosts.max(1) } else { 1 },
            headers: Headers {
                protocol: if one.sends_datagrams || one.checked_tcp.has_streams() {
                    Protocol::Udp
                } else {
                    Protocol::Tcp
                },
                port: one.port.unwrap_or(0),
                dscp: one.dscp,
            },
        });
        let traffic = traffic.collect();
        let ends = Ends {
            in_transit: Vec::new(),
            links: by_number,
            outcomes: VecDeque::new(),
            finished: 0,
            bytes: 0,
        };
        let mut path = Self {
            emulation,
            ends,
            links,
            traffic,
            flows: Vec::new(),
            labels: BTreeMap::new(),
            now: Instant::START,
            settled: Instant::START,
            entered: false,
            sent: 0,
        };
        path.emulation.advance(Instant::START, &mut path.ends);
        path
    }

    /// Opens a flow with the default options. Fair queues distinguish datagrams by their flows.
    pub fn open_flow(&mut self) -> FlowId {
        self.add_flow(0, 0, 0)
    }

    /// Opens a flow.
    ///
    /// # Errors
    /// Returns an error if `traffic` is not the name of a table in `traffic`, if the table has too few hosts, if the DSCP
    /// is greater than 63, or if the flows of the path have more than 65,536 different combinations of traffic, protocol,
    /// port and DSCP.
    pub fn open_flow_with(&mut self, options: &FlowOptions) -> Result<FlowId, FlowError> {
        let position = match &options.traffic {
            None => 0,
            Some(name) => {
                let known = || self.traffic.iter().map(|one| one.name.clone()).collect();
                let position = self.traffic.iter().position(|one| one.name == *name);
                position.ok_or_else(|| FlowError::Traffic { name: name.clone(), known: known() })?
            }
        };
        let Traffic { hosts, headers: usual, .. } = self.traffic[position];
        if u64::from(options.host) >= hosts {
            return Err(FlowError::Host { host: options.host, hosts });
        }
        let own = Headers {
            protocol: options.protocol.unwrap_or(usual.protocol),
            port: options.port.unwrap_or(usual.port),
            dscp: options.dscp.unwrap_or(usual.dscp),
        };
        if own.dscp > 63 {
            return Err(FlowError::Dscp(own.dscp));
        }
        let traffic = position as u32;
        // The label of a kind of flow has the number of the kind.
        let label = if own == usual { traffic as u16 } else { self.label(traffic, own)? };
        Ok(self.add_flow(traffic, options.host, label))
    }

    /// Returns the label of packets with these headers.
    fn label(&mut self, traffic: u32, headers: Headers) -> Result<u16, FlowError> {
        let Headers { protocol, port, dscp } = headers;
        let key = (traffic, protocol == Protocol::Tcp, port, dscp);
        if let Some(&label) = self.labels.get(&key) {
            return Ok(label);
        }
        let label = self.emulation.new_label(traffic, protocol, port, dscp).ok_or(FlowError::Labels)?;
        self.labels.insert(key, label);
        Ok(label)
    }

    fn add_flow(&mut self, traffic: u32, host: u32, label: u16) -> FlowId {
        let opening = FlowOpening {
            traffic,
            host,
            connection: false,
            additional_delays: Default::default(),
            at: self.now,
        };
        self.flows.push(Flow { label });
        FlowId(self.emulation.open_flow(&opening))
    }

    /// Sends a datagram at `now`. Everything else that happens at `now` on the path happens before the datagram enters
    /// its first link.
    ///
    /// # Errors
    /// Returns an error, and does not send the datagram, if `now` is earlier than the time of a previous call of `send`
    /// or `poll`, if the flow does not belong to this path, if the number of bytes is not from 1 to 65535, or if more than
    /// 100 million datagrams or 2 GB are on the path.
    pub fn send(&mut self, datagram: Datagram, now: Instant) -> Result<DatagramId, SendError> {
        let Datagram { flow, direction, bytes, ecn } = datagram;
        if now < self.now {
            return Err(SendError::Past { now, last: self.now });
        }
        if now > LATEST {
            return Err(SendError::Late(now));
        }
        let Some(&Flow { label }) = self.flows.get(flow.0 as usize) else {
            return Err(SendError::Flow(flow));
        };
        let bytes = u16::try_from(bytes).ok().filter(|&bytes| bytes > 0).ok_or(SendError::Size(bytes))?;
        if self.in_transit() >= MAX_IN_TRANSIT || self.ends.bytes >= MAX_BYTES_IN_TRANSIT {
            return Err(SendError::Full);
        }
        if self.emulation.next_due() <= now {
            self.emulation.advance(now, &mut self.ends);
        }
        self.now = now;
        let to = match direction {
            Direction::Forward => Side::Receiver,
            Direction::Reverse => Side::Sender,
        };
        let entering =
            EnteringPacket { flow: flow.0, to, contents: Contents::Datagram, bytes, ecn, cwnd: 0, label };
        let number = self.emulation.enter(entering, now) as usize;
        let id = DatagramId(self.sent);
        self.sent += 1;
        self.ends.bytes += u64::from(bytes);
        let datagram = InTransit { id, flow, direction, bytes, mark: None };
        match self.ends.in_transit.get_mut(number) {
            Some(slot) => *slot = datagram,
            None => self.ends.in_transit.push(datagram),
        }
        self.emulation.report(&mut self.ends);
        self.entered = self.emulation.next_due() <= now;
        Ok(id)
    }

    /// Returns the next outcome, in the order of time, whose time is not later than `now`; `None` if there is none.
    ///
    /// The first call at a time `now` returns all drops before `now` and all deliveries up to `now`. Drops at `now` may be
    /// returned by a later call.
    pub fn poll(&mut self, now: Instant) -> Option<Outcome> {
        if now > self.settled || self.entered {
            self.advance(now.min(END));
        }
        if self.ends.outcomes.front()?.at() > now {
            return None;
        }
        self.ends.outcomes.pop_front()
    }

    /// Processes all events up to `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.settled = self.now;
        self.entered = false;
        self.emulation.advance(self.now, &mut self.ends);
        // Drops before `now` must be known before deliveries at `now` are returned. Transmissions at `now` are not
        // processed, because datagrams may still be sent at `now`.
        let before = Instant::from_nanos(self.now.nanos().saturating_sub(1));
        self.emulation.settle(before, &mut self.ends);
    }

    /// Returns the time at which [`poll`](Self::poll) should be called next, provided that no datagram is sent before
    /// this time; `None` if no datagram on the path will ever leave the path. The time may be earlier than the time of
    /// the next outcome: at this time, a datagram may also pass from one link to the next.
    pub fn next_due(&self) -> Option<Instant> {
        if let Some(outcome) = self.ends.outcomes.front() {
            return Some(outcome.at().max(self.now));
        }
        if self.entered {
            return Some(self.now);
        }
        let due = self.emulation.next_due();
        if self.in_transit() == 0 || due == Instant::NEVER {
            return None;
        }
        // The emulation may return a time that is slightly earlier than the event.
        Some(due.max(Instant::from_nanos(self.now.nanos() + 1)))
    }

    /// Returns the number of datagrams that have been sent and have neither been delivered nor dropped, according to the
    /// outcomes that are known so far.
    pub fn in_transit(&self) -> u64 {
        self.sent - self.ends.finished
    }

    /// Returns the time of the latest call of [`send`](Self::send) or [`poll`](Self::poll).
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the name of a link; an empty text if the identifier belongs to another path that has more links.
    pub fn link_name(&self, link: LinkId) -> &str {
        self.links.get(link.0 as usize).map_or("", String::as_str)
    }

    /// Returns the state and the counters of each link that has a queue, at the time [`now`](Self::now). The forward links
    /// precede the reverse links.
    pub fn links(&mut self) -> Vec<LinkView> {
        self.advance(self.now);
        let mut views = self.emulation.view(self.now).links;
        views.sort_by_key(|view| self.links.iter().position(|name| *name == view.name));
        views
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = (&self.links, self.now, self.in_transit());
        f.debug_struct("Path")
            .field("links", state.0)
            .field("now", &state.1)
            .field("in_transit", &state.2)
            .finish()
    }
}

impl Ends {
    /// Adds an outcome. Drops may be reported later than deliveries with later times.
    fn add(&mut self, outcome: Outcome) {
        self.finished += 1;
        let key = |outcome: &Outcome| (outcome.at(), outcome.id());
        let follows = self.outcomes.iter().rev().take_while(|other| key(other) > key(&outcome)).count();
        if follows == 0 {
            self.outcomes.push_back(outcome);
        } else {
            self.outcomes.insert(self.outcomes.len() - follows, outcome);
        }
    }
}

impl Hosts for Ends {
    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { id, ecn, due: at, .. } = delivery;
        let InTransit { id, flow, direction, bytes, mark } = self.in_transit[id as usize];
        self.bytes -= u64::from(bytes);
        self.add(Outcome::Delivered { id, flow, direction, ecn, mark, at });
    }

    fn dropped(&mut self, id: u32, _traffic: u32, _to: Side, fate: Fate) {
        let Fate { link, why: reason, at, .. } = fate;
        let InTransit { id, flow, direction, bytes, .. } = self.in_transit[id as usize];
        self.bytes -= u64::from(bytes);
        let link = self.links[link as usize];
        self.add(Outcome::Dropped { id, flow, direction, link, reason, at });
    }

    fn marked(&mut self, id: u32, fate: Fate) {
        let Fate { link, why, at, .. } = fate;
        let mark = Mark { link: self.links[link as usize], reason: why, at };
        self.in_transit[id as usize].mark.get_or_insert(mark);
    }
}

/// The reason for which a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The time is earlier than the time of a previous call.
    Past {
        /// The time that was passed.
        now: Instant,
        /// The time of the previous call.
        last: Instant,
    },
    /// The time is later than ten years after the start of the path.
    Late(Instant),
    /// The flow was not opened on this path.
    Flow(FlowId),
    /// The number of bytes is not from 1 to 65535.
    Size(usize),
    /// Too many datagrams or bytes are on the path.
    Full,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Past { now, last } => write!(
                f,
                "now: must not be earlier than {} ns, the time of the previous call (got {} ns)",
                last.nanos(),
                now.nanos()
            ),
            Self::Late(now) => {
                write!(f, "now: must be at most {} ns (got {} ns)", LATEST.nanos(), now.nanos())
            }
            Self::Flow(flow) => write!(f, "flow: no flow of this path has the number {}", flow.0),
            Self::Size(bytes) => write!(f, "bytes: must be from 1 to 65535 (got {bytes})"),
            Self::Full => write!(
                f,
                "at most {MAX_IN_TRANSIT} datagrams and {MAX_BYTES_IN_TRANSIT} bytes may be on the path at the same \
                 time"
            ),
        }
    }
}

impl std::error::Error for SendError {}

/// The reason for which a flow was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowError {
    /// The configuration has no traffic with this name.
    Traffic {
        /// The name that was passed.
        name: String,
        /// The names in the configuration.
        known: Vec<String>,
    },
    /// The traffic has too few hosts.
    Host {
        /// The number of the host that was passed.
        host: u32,
        /// The number of hosts in the configuration.
        hosts: u64,
    },
    /// The DSCP is greater than 63.
    Dscp(u8),
    /// Too many combinations of traffic, protocol, port and DSCP.
    Labels,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traffic { name, known } => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                f.write_str(&aqm_net::unknown("traffic", name, &known))
            }
            Self::Host { host, hosts } => write!(f, "host: must be less than {hosts} (got {host})"),
            Self::Dscp(dscp) => write!(f, "dscp: must be from 0 to 63 (got {dscp})"),
            Self::Labels => f.write_str(
                "the flows of a path can have at most 65536 combinations of traffic, protocol, port and DSCP",
            ),
        }
    }
}

impl std::error::Error for FlowError {}
