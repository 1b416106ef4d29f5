//! The whole scenario, as read: every check is made here, so that a run cannot fail.
//!
//! A scenario is a table (TOML or JSON). Text is first turned into one plain value, so that both
//! forms meet the same checks and the same error messages; then each section is read by whoever
//! owns its parameters, and nothing else knows them.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, ConfigErrors, Parameter, Rate, Span, Streams, TableReader};
use aqm_queue::{Label, Protocol, QueueDiscipline};
use aqm_traffic::{BuildContext, Packetization, Workload};
use serde_json::{Map, Value, json};

use crate::edges::{EdgeSpec, place_edges};
use crate::links::{self, LEFT, LinkSpec, RIGHT, RawLink};
use crate::sections::{Access, Host, Record};
use crate::text::toml_value;
use crate::topology::Topology;

/// The tables of a scenario, each as far as it can be read by itself.
struct Raw {
    duration: Option<Span>,
    warm_up: Span,
    seed: u64,
    reverse_ties: bool,
    bottleneck: Option<Value>,
    links: BTreeMap<String, RawLink>,
    access: Access,
    host: Host,
    tcp: Option<Value>,
    traffic: BTreeMap<String, Value>,
    edges: Map<String, Value>,
    queues: BTreeMap<String, aqm_queue::Config>,
    record: Record,
}

impl Raw {
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let raw = Self {
            duration: table.take("duration"),
            warm_up: table.take("warm_up").unwrap_or_default(),
            seed: table.take("seed").unwrap_or(1),
            reverse_ties: table.take("reverse_ties").unwrap_or(false),
            bottleneck: table.take_with("bottleneck", optional).flatten(),
            links: table.take_each("links", |_, link| RawLink::read(link)).unwrap_or_default(),
            access: table.take("access").unwrap_or_default(),
            host: table.take("host").unwrap_or_default(),
            tcp: table.take_with("tcp", optional).flatten(),
            traffic: table.take_each("traffic", |_, one| Ok::<_, ConfigErrors>(one)).unwrap_or_default(),
            edges: table.take_with("edges", map).unwrap_or_default(),
            queues: table.take("queues").unwrap_or_default(),
            record: table.take("record").unwrap_or_default(),
        };
        table.finish(Some(raw))
    }
}

/// What was written; null is as good as left out.
fn optional(value: Value) -> Result<Option<Value>, ConfigErrors> {
    Ok(Some(value).filter(|value| !value.is_null()))
}

fn map(value: Value) -> Result<Map<String, Value>, ConfigError> {
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(ConfigError::at("", "must be a table")),
    }
}

/// One workload and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) config: aqm_traffic::Config,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) access: Access,
    /// How its connections behave, if not as those of the scenario.
    pub(crate) tcp: Option<aqm_tcp::Config>,
    /// Extra delay of a flow, one way and in each direction: uniform between the two.
    pub(crate) extra_delay: [Span; 2],
    pub(crate) port: Option<u16>,
    pub(crate) dscp: u8,
}

impl Traffic {
    /// What the headers of its packets say.
    fn label(&self) -> Label {
        let protocol = if self.config.sends_datagrams() { Protocol::Udp } else { Protocol::Tcp };
        Label { traffic: self.name.clone(), protocol, port: self.port.unwrap_or(0), dscp: self.dscp }
    }
}

/// A checked scenario, defaults filled in.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) duration: Span,
    pub(crate) warm_up: Span,
    /// The seed of its random streams.
    pub seed: u64,
    pub(crate) reverse_ties: bool,
    pub(crate) dumbbell: bool,
    pub(crate) links: Vec<LinkSpec>,
    pub(crate) access: Access,
    pub(crate) jitter: Span,
    pub(crate) tcp: aqm_tcp::Config,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) edges: Vec<EdgeSpec>,
    /// Whether the edges stand there because a queue wants classes, and nobody wrote any.
    pub(crate) edges_added: bool,
    queues: BTreeMap<String, aqm_queue::Config>,
    pub(crate) record: Record,
    pub(crate) files: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads and checks a scenario in TOML. `files` holds the content of the files it names, by name.
    ///
    /// # Errors
    /// What is wrong, where, and what is allowed.
    pub fn from_toml(text: &str, files: BTreeMap<String, String>) -> Result<Self, ConfigErrors> {
        Self::from_value(toml_value(text)?, files)
    }

    /// Reads and checks a scenario given as a plain value.
    ///
    /// # Errors
    /// What is wrong, where, and what is allowed.
    pub fn from_value(value: Value, files: BTreeMap<String, String>) -> Result<Self, ConfigErrors> {
        if !value.is_object() {
            return Err(ConfigError::at("", "a scenario must be a table").into());
        }
        let raw: Raw = Raw::read(value)?;
        let missing =
            || ConfigError::at("duration", "is missing: write how long the run lasts, such as \"60s\"");
        let duration = raw.duration.ok_or_else(missing)?;
        if duration.is_zero() {
            return Err(ConfigError::at("duration", "must be more than 0s").into());
        }
        if raw.warm_up >= duration {
            let problem = format!("must be shorter than the duration, {duration}");
            return Err(ConfigError::at("warm_up", problem).into());
        }
        let dumbbell = raw.bottleneck.is_some();
        let links = match (raw.bottleneck, raw.links.is_empty()) {
            (Some(table), true) => links::of_dumbbell(table).map_err(|e| e.within("bottleneck"))?,
            (None, false) => links::of_graph(raw.links)?,
            (None, true) => {
                return Err(ConfigError::at(
                    "bottleneck",
                    "is missing: write a `[bottleneck]` table, or a `[links.NAME]` table for each link of a graph",
                )
                .into());
            }
            (Some(_), false) => {
                return Err(ConfigError::at(
                    "links",
                    "a scenario has either `bottleneck` or `links`, not both",
                )
                .into());
            }
        };
        let tcp_table = raw.tcp.unwrap_or_else(|| json!({}));
        let tcp = aqm_tcp::read(tcp_table.clone()).map_err(|e| e.within("tcp"))?;
        let mut traffic = Vec::new();
        for (name, table) in raw.traffic {
            let one = read_traffic(&name, table, dumbbell, &Common { access: &raw.access, tcp: &tcp_table });
            traffic.push(one.map_err(|e| e.within(&format!("traffic.{name}")))?);
        }
        if traffic.is_empty() {
            return Err(ConfigError::at(
                "traffic",
                "is missing: write a `[traffic.NAME]` table for each workload",
            )
            .into());
        }
        let (edges, edges_added) = place_edges(raw.edges, &links, &traffic)?;
        let mut scenario = Self {
            duration,
            warm_up: raw.warm_up,
            seed: raw.seed,
            reverse_ties: raw.reverse_ties,
            dumbbell,
            links,
            access: raw.access,
            jitter: Span::ZERO,
            tcp,
            traffic,
            edges,
            edges_added,
            queues: raw.queues,
            record: raw.record,
            files,
        };
        scenario.check_everything(raw.host.jitter)?;
        Ok(scenario)
    }

    /// The names of the files a scenario in this form refers to.
    ///
    /// # Errors
    /// If the text is not TOML. What else is wrong is found by [`Scenario::from_value`].
    pub fn files_of(value: &Value) -> Vec<String> {
        let tables = value.get("traffic").and_then(Value::as_object);
        let names = tables.into_iter().flat_map(|t| t.values()).filter_map(|t| t.get("file")?.as_str());
        names.map(str::to_owned).collect()
    }

    /// The alternatives of `[queues.NAME]`, complete.
    pub fn queues(&self) -> Value {
        Value::Object(self.queues.iter().map(|(name, queue)| (name.clone(), queue.to_value())).collect())
    }

    /// The scenario in full, every default filled in; reading it gives the same scenario.
    pub fn to_value(&self) -> Value {
        let queue = |link: &LinkSpec| link.queue.as_ref().map_or(Value::Null, aqm_queue::Config::to_value);
        let mut value = json!({
            "duration": self.duration,
            "warm_up": self.warm_up,
            "seed": self.seed,
            "reverse_ties": self.reverse_ties,
            "access": self.access,
            "host": { "jitter": self.jitter },
            "tcp": self.tcp.to_value(),
            "record": self.record,
            "queues": self.queues(),
        });
        if self.dumbbell {
            let line = &self.links[0];
            value["bottleneck"] = json!({ "rate": line.rate, "delay": line.delay, "queue": queue(line) });
        } else {
            let links = self.links.iter().map(|link| {
                let mut table = json!({
                    "from": link.from, "to": link.to, "rate": link.rate, "delay": link.delay,
                });
                if link.queue.is_some() {
                    table["queue"] = queue(link);
                }
                (link.name.clone(), table)
            });
            value["links"] = Value::Object(links.collect());
        }
        let traffic = self.traffic.iter().map(|one| {
            let mut table = one.config.to_value();
            if !self.dumbbell {
                table["from"] = one.from.clone().into();
                table["to"] = one.to.clone().into();
            }
            table["access"] = json!(one.access);
            if let Some(tcp) = &one.tcp {
                table["tcp"] = tcp.to_value();
            }
            table["extra_delay"] = json!(one.extra_delay);
            table["port"] = json!(one.port);
            table["dscp"] = json!(one.dscp);
            (one.name.clone(), table)
        });
        value["traffic"] = Value::Object(traffic.collect());
        if !self.edges.is_empty() {
            let edges = self.edges.iter().map(|edge| (edge.node.clone(), edge.config.to_value()));
            value["edges"] = Value::Object(edges.collect());
        }
        value
    }

    /// One more than the position of the edge at a node; 0 if there is none.
    pub(crate) fn edge_at(&self, node: &str) -> u8 {
        self.edges.iter().position(|edge| edge.node == node).map_or(0, |place| place as u8 + 1)
    }

    /// The running queue of a managed link, told what labels mean: a packet's is the position of its workload.
    pub(crate) fn discipline(&self, link: &LinkSpec) -> Option<Box<dyn QueueDiscipline>> {
        let queue = link.queue.as_ref()?;
        let mut running = queue.build(link.rate).expect("the queue was built when the scenario was read");
        for (position, one) in self.traffic.iter().enumerate() {
            running.on_label(position as u16, &one.label());
        }
        Some(running)
    }

    /// What is allowed but hardly meant, a sentence each that begins with the place.
    pub fn warnings(&self) -> Vec<String> {
        let of_link = |link: &LinkSpec| {
            let found = link.queue.as_ref().map_or(Vec::new(), |queue| queue.warnings(link.rate));
            found.into_iter().map(|warning| warning.within(&link.place).to_string()).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of_link).collect()
    }

    /// Where the links are and which way packets go.
    pub(crate) fn topology(&self) -> Result<Topology, ConfigError> {
        Topology::new(self)
    }

    /// How the connections of a workload behave.
    pub(crate) fn tcp_of(&self, one: &Traffic) -> aqm_tcp::CheckedConfig {
        let config = one.tcp.as_ref().unwrap_or(&self.tcp);
        config.build().expect("the settings were built when the scenario was read")
    }

    /// Makes the workload at `position`.
    pub(crate) fn workload(
        &self,
        position: usize,
        topology: &Topology,
    ) -> Result<Box<dyn Workload>, ConfigErrors> {
        let one = &self.traffic[position];
        let tcp = match &one.tcp {
            None => self.tcp.build().map_err(|e| e.within("tcp"))?,
            Some(own) => own.build().map_err(|e| e.within(&format!("traffic.{}.tcp", one.name)))?,
        };
        let context = BuildContext {
            name: &one.name,
            streams: Streams::new(self.seed),
            rate: topology.slowest(position),
            duration: self.duration,
            cut: &Segments(tcp),
            file: one.config.file().and_then(|name| self.files.get(name)).map(String::as_str),
        };
        Ok(one.config.build(&context).map_err(|e| e.within(&format!("traffic.{}", one.name)))?)
    }

    fn check_queue(&self, queue: &aqm_queue::Config, rate: Rate) -> Result<(), ConfigError> {
        queue.build(rate)?;
        let known: Vec<&str> = self.traffic.iter().map(|one| one.name.as_str()).collect();
        for (place, name) in queue.names_traffic() {
            if !known.contains(&name) {
                let problem = format!("no workload is named `{name}`; there is {}", known.join(", "));
                return Err(ConfigError::at(place, problem));
            }
        }
        Ok(())
    }

    /// Builds everything once, so that whatever is wrong is found before a run.
    fn check_everything(&mut self, jitter: Option<Span>) -> Result<(), ConfigErrors> {
        let tcp = self.tcp.build().map_err(|e| e.within("tcp"))?;
        for link in &self.links {
            if let Some(queue) = &link.queue {
                self.check_queue(queue, link.rate).map_err(|e| e.within(&link.place))?;
            }
        }
        // An alternative takes the place of the queues of managed links.
        let rate =
            self.links.iter().find(|link| link.queue.is_some()).map_or(self.links[0].rate, |link| link.rate);
        for (name, queue) in &self.queues {
            self.check_queue(queue, rate).map_err(|e| e.within(&format!("queues.{name}")))?;
        }
        crate::size::check(self)?;
        let topology = self.topology()?;
        let full_packet = tcp.wire_bytes(2 * tcp.payload()) - tcp.wire_bytes(tcp.payload());
        self.jitter = jitter.unwrap_or_else(|| topology.slowest_managed().pace().time_for(full_packet));
        if self.jitter > Span::from_millis(1000) && jitter.is_some() {
            return Err(ConfigError::at("host.jitter", "must be at most 1s").into());
        }
        for position in 0..self.traffic.len() {
            self.workload(position, &topology)?;
        }
        let known: Vec<&str> = self.traffic.iter().map(|one| one.name.as_str()).collect();
        for (place, names) in
            [("record.senders", &self.record.senders), ("record.histories", &self.record.histories)]
        {
            if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
                let problem = format!("no workload is named `{name}`; there is {}", known.join(", "));
                return Err(ConfigError::at(place, problem).into());
            }
        }
        let managed = || self.links.iter().filter(|link| link.queue.is_some()).map(|link| link.name.as_str());
        for name in &self.record.packets {
            if !managed().any(|link| link == name) {
                let links: Vec<&str> = managed().collect();
                let problem = format!("no managed link is named `{name}`; there is {}", links.join(", "));
                return Err(ConfigError::at("record.packets", problem).into());
            }
        }
        Ok(())
    }
}

/// How TCP cuts a transfer, for those who must know what a load weighs.
struct Segments(aqm_tcp::CheckedConfig);

impl Packetization for Segments {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        self.0.wire_bytes(bytes)
    }
    fn payload(&self) -> u64 {
        self.0.payload()
    }
}

/// What a workload shares with the others unless it says otherwise.
struct Common<'a> {
    access: &'a Access,
    tcp: &'a Value,
}

fn read_traffic(
    name: &str,
    table: Value,
    dumbbell: bool,
    common: &Common<'_>,
) -> Result<Traffic, ConfigErrors> {
    let mut table = TableReader::new(table)?;
    let mut node = |key: &'static str, fallback: &str| match (table.value(key), dumbbell) {
        (None, true) => Some(fallback.to_owned()),
        (Some(Value::String(node)), false) => Some(node),
        (found, _) => {
            let remedy = if dumbbell {
                "belongs to a graph of `links`; in a dumbbell data go from left to right"
            } else {
                "must name the node where the hosts stand"
            };
            table.check(found.is_none() && dumbbell, key, remedy);
            None
        }
    };
    let (from, to) = (node("from", LEFT), node("to", RIGHT));
    let access = |own: Value| {
        let mut full = json!(common.access);
        match (&mut full, own) {
            (Value::Object(full), Value::Object(own)) => full.extend(own),
            (full, own) => *full = own,
        }
        Access::read(full)
    };
    let access = table.take_with("access", access).unwrap_or_else(|| common.access.clone());
    let tcp = table.take_with("tcp", |own| aqm_tcp::read(aqm_tcp::lay_over(common.tcp, own)));
    let extra_delay = table.take_with("extra_delay", read_range).unwrap_or_default();
    let port = table.take_with("port", |value| number_up_to(&value, u16::MAX)).flatten();
    let dscp = table.take_with("dscp", |value| number_up_to(&value, 63)).flatten();
    let dscp = dscp.map_or(0, |dscp| dscp as u8);
    let config = aqm_traffic::Config::take_from(&mut table);
    let name = name.to_owned();
    let read = || {
        let (from, to, config) = (from?, to?, config?);
        Some(Traffic { name, config, from, to, access, tcp, extra_delay, port, dscp })
    };
    table.finish(read())
}

/// A whole number up to `most`; null is as good as left out.
fn number_up_to(value: &Value, most: u16) -> Result<Option<u16>, ConfigError> {
    let number = value.as_u64().filter(|&number| number <= most.into()).map(|number| number as u16);
    let problem = format_args!("must be a whole number from 0 to {most}, not {value}");
    ConfigError::unless(value.is_null() || number.is_some(), "", problem)?;
    Ok(number)
}

/// A time, or a pair of times between which each flow draws its own.
fn read_range(value: Value) -> Result<[Span; 2], ConfigErrors> {
    let range = match &value {
        Value::String(_) => [Span::read(value)?; 2],
        Value::Array(pair) if pair.len() == 2 => [Span::read(pair[0].clone())?, Span::read(pair[1].clone())?],
        other => {
            let problem = format!("{other} must be a time such as \"20ms\", or a pair of times");
            return Err(ConfigError::at("", problem).into());
        }
    };
    ConfigError::unless(range[0] <= range[1], "", "the first time must not exceed the second")?;
    Ok(range)
}

/// The queue tables of [`Scenario`] turned into drop probabilities, for drawing a discipline's law
/// from its own code: the probability at each of `averages` (in the unit of its thresholds) for a
/// packet of this `class` whose window is `relative_window` times the average one. Missing if the
/// discipline has no such law.
///
/// # Errors
/// If the table is no queue discipline, or its parameters are wrong.
pub fn drop_curve(
    queue: Value,
    averages: &[f64],
    relative_window: f64,
    class: u8,
) -> Result<Vec<Option<f64>>, ConfigErrors> {
    let config = aqm_queue::Config::read(queue)?;
    config.build(Rate::from_bps(10_000_000))?;
    Ok(averages.iter().map(|&average| config.drop_curve(average, relative_window, class)).collect())
}
