//! The whole scenario, as read: every check is made here, so that a run cannot fail.
//!
//! A scenario is a table (TOML or JSON). Text is first turned into one plain value, so that both
//! forms meet the same checks and the same error messages; then each section is read by whoever
//! owns its parameters, and nothing else knows them.

use std::collections::BTreeMap;

use aqm_net::registry::{self, Entry, Parameters};
use aqm_net::{ConfigError, Quantity, Rate, Span, Streams, parameters};
use aqm_traffic::{Cut, Setting, Workload};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::topology::{LinkSpec, Topology};

parameters! {
    /// The line of a dumbbell, from the node `left` to the node `right`, and its queue. The way back
    /// has the same rate and delay, and a queue that never drops.
    pub struct Bottleneck {
        /// How fast it sends.
        pub rate: Rate = Rate::from_bps(10_000_000), "SHRED talk, slide 17";
        /// Propagation delay, one way.
        pub delay: Span = Span::from_millis(60), "SHRED talk, slide 17";
    }
}

parameters! {
    /// The lines that join hosts to their router, in each direction. Their queues never drop.
    pub struct Access {
        /// How fast they send.
        pub rate: Rate = Rate::from_bps(100_000_000), "SHRED talk, slide 17";
        /// Propagation delay, one way.
        pub delay: Span = Span::from_millis(1), "SHRED talk, slide 17";
    }
}

parameters! {
    /// What every host does to a packet before it looks at it.
    pub struct Host {
        /// A packet that arrives is processed after a time uniform on [0, `jitter`]; those of a flow
        /// keep their order. It breaks the phase effects of equal round-trip times (Floyd & Jacobson
        /// 1992). Left out: the time a full packet takes on the slowest managed link.
        pub jitter: Option<Span> = None, "Floyd & Jacobson 1992; ns-2's `overhead_`";
    }
}

parameters! {
    /// What a run records beside flows, transfers, pages and links, which it always does.
    pub struct Record {
        /// A row for each packet dropped.
        pub drops: bool = true, "ours";
        /// A row for each managed queue, so often; `0s` for never.
        pub queue_every: Span = Span::from_millis(100), "ours";
        /// A row after each acknowledgement and time-out of the flows of these workloads.
        pub gauges: Vec<String> = Vec::new(), "ours";
        /// A row for each packet that joins, leaves or is dropped at these managed links.
        pub packets: Vec<String> = Vec::new(), "ours";
    }
}

/// A link of a graph: from one router to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    from: String,
    to: String,
    rate: Rate,
    delay: Span,
    #[serde(default)]
    queue: Option<Value>,
    #[serde(default)]
    both_ways: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    duration: Span,
    #[serde(default)]
    warm_up: Span,
    #[serde(default = "first_seed")]
    seed: u64,
    #[serde(default)]
    reverse_ties: bool,
    bottleneck: Option<Map<String, Value>>,
    #[serde(default)]
    links: BTreeMap<String, RawLink>,
    #[serde(default)]
    access: Access,
    #[serde(default)]
    host: Host,
    #[serde(default)]
    tcp: Option<Value>,
    #[serde(default)]
    traffic: BTreeMap<String, Value>,
    #[serde(default)]
    queues: BTreeMap<String, Value>,
    #[serde(default)]
    record: Record,
}

fn first_seed() -> u64 {
    1
}

/// One workload and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) config: aqm_traffic::Config,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) access: Access,
    /// Extra delay of a flow, one way and in each direction: uniform between the two.
    pub(crate) extra_delay: [Span; 2],
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
    queues: BTreeMap<String, aqm_queue::Config>,
    pub(crate) record: Record,
    pub(crate) files: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads and checks a scenario in TOML. `files` holds the content of the files it names, by name.
    ///
    /// # Errors
    /// The first thing that is wrong, where, and what is allowed.
    pub fn from_toml(text: &str, files: BTreeMap<String, String>) -> Result<Self, ConfigError> {
        Self::from_value(toml_value(text)?, files)
    }

    /// Reads and checks a scenario given as a plain value.
    ///
    /// # Errors
    /// The first thing that is wrong, where, and what is allowed.
    pub fn from_value(value: Value, files: BTreeMap<String, String>) -> Result<Self, ConfigError> {
        if !value.is_object() {
            return Err(ConfigError::new("", "a scenario must be a table"));
        }
        let raw: Raw = registry::read(value)?;
        if raw.duration.is_zero() {
            return Err(ConfigError::new("duration", "must be more than 0s"));
        }
        if raw.warm_up >= raw.duration {
            let problem = format!("must be shorter than the duration, {}", raw.duration);
            return Err(ConfigError::new("warm_up", problem));
        }
        let dumbbell = raw.bottleneck.is_some();
        let links = match (raw.bottleneck, raw.links.is_empty()) {
            (Some(table), true) => dumbbell_links(table)?,
            (None, false) => graph_links(raw.links)?,
            (None, true) => {
                return Err(ConfigError::new(
                    "bottleneck",
                    "is missing: write a `[bottleneck]` table, or a `[links.NAME]` table for each link of a graph",
                ));
            }
            (Some(_), false) => {
                return Err(ConfigError::new(
                    "links",
                    "a scenario has either `bottleneck` or `links`, not both",
                ));
            }
        };
        let tcp = aqm_tcp::read(raw.tcp.unwrap_or_else(|| json!({}))).map_err(|e| e.within("tcp"))?;
        let mut traffic = Vec::new();
        for (name, table) in raw.traffic {
            check_name("traffic", &name)?;
            let one = read_traffic(&name, table, dumbbell, &raw.access);
            traffic.push(one.map_err(|e| e.within(&format!("traffic.{name}")))?);
        }
        if traffic.is_empty() {
            return Err(ConfigError::new(
                "traffic",
                "is missing: write a `[traffic.NAME]` table for each workload",
            ));
        }
        let mut queues = BTreeMap::new();
        for (name, table) in raw.queues {
            check_name("queues", &name)?;
            let queue = aqm_queue::Config::read(table).map_err(|e| e.within(&format!("queues.{name}")))?;
            queues.insert(name, queue);
        }
        let mut scenario = Self {
            duration: raw.duration,
            warm_up: raw.warm_up,
            seed: raw.seed,
            reverse_ties: raw.reverse_ties,
            dumbbell,
            links,
            access: raw.access,
            jitter: Span::ZERO,
            tcp,
            traffic,
            queues,
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
            table["extra_delay"] = json!(one.extra_delay);
            (one.name.clone(), table)
        });
        value["traffic"] = Value::Object(traffic.collect());
        value
    }

    /// Where the links are and which way packets go.
    pub(crate) fn topology(&self) -> Result<Topology, ConfigError> {
        Topology::new(self)
    }

    /// Makes the workload at `position`.
    pub(crate) fn workload(
        &self,
        position: usize,
        topology: &Topology,
    ) -> Result<Box<dyn Workload>, ConfigError> {
        let one = &self.traffic[position];
        let tcp = self.tcp.build().map_err(|e| e.within("tcp"))?;
        let setting = Setting {
            name: &one.name,
            streams: Streams::new(self.seed),
            rate: topology.slowest(position),
            duration: self.duration,
            cut: &Segments(tcp),
            file: one.config.file().and_then(|name| self.files.get(name)).map(String::as_str),
        };
        one.config.build(&setting).map_err(|e| e.within(&format!("traffic.{}", one.name)))
    }

    /// Builds everything once, so that whatever is wrong is found before a run.
    fn check_everything(&mut self, jitter: Option<Span>) -> Result<(), ConfigError> {
        let tcp = self.tcp.build().map_err(|e| e.within("tcp"))?;
        for link in &self.links {
            if let Some(queue) = &link.queue {
                queue.build(link.rate).map_err(|e| e.within(&link.place))?;
            }
        }
        for (name, queue) in &self.queues {
            queue.build(self.links[0].rate).map_err(|e| e.within(&format!("queues.{name}")))?;
        }
        self.check_size()?;
        let topology = self.topology()?;
        let full_packet = tcp.wire_bytes(2 * tcp.payload()) - tcp.wire_bytes(tcp.payload());
        self.jitter = jitter.unwrap_or_else(|| topology.slowest_managed().pace().time_for(full_packet));
        if self.jitter > Span::from_millis(1000) && jitter.is_some() {
            return Err(ConfigError::new("host.jitter", "must be at most 1s"));
        }
        for position in 0..self.traffic.len() {
            self.workload(position, &topology)?;
        }
        let known: Vec<&str> = self.traffic.iter().map(|one| one.name.as_str()).collect();
        for name in &self.record.gauges {
            if !known.contains(&name.as_str()) {
                let problem = format!("no workload is named `{name}`; there is {}", known.join(", "));
                return Err(ConfigError::new("record.gauges", problem));
            }
        }
        let managed = || self.links.iter().filter(|link| link.queue.is_some()).map(|link| link.name.as_str());
        for name in &self.record.packets {
            if !managed().any(|link| link == name) {
                let links: Vec<&str> = managed().collect();
                let problem = format!("no managed link is named `{name}`; there is {}", links.join(", "));
                return Err(ConfigError::new("record.packets", problem));
            }
        }
        Ok(())
    }

    /// Refuses what no machine could run, with an estimate of what it would need.
    fn check_size(&self) -> Result<(), ConfigError> {
        let seconds = self.duration.seconds();
        let managed = self.links.iter().filter(|link| link.queue.is_some());
        for link in managed {
            let per_second = link.rate.bytes_per_second() / 500.0;
            let packets = per_second * seconds;
            if packets > 1e12 {
                let hours = packets * 2e-7 / 3600.0;
                let problem = format!(
                    "{seconds} s at {} may be {packets:.0e} packets, about {hours:.0} hours of computing; \
                     at most 1e12 packets are allowed: shorten `duration` or lower the rate",
                    link.rate
                );
                return Err(ConfigError::new(link.place.clone(), problem));
            }
            let in_flight = per_second * link.delay.seconds();
            if in_flight > 1e8 {
                let problem = format!(
                    "{in_flight:.0e} packets may be on this link at once, about {:.0} GB of memory; \
                     at most 1e8 are allowed: lower its rate or delay",
                    in_flight * 72.0 / 1e9
                );
                return Err(ConfigError::new(link.place.clone(), problem));
            }
        }
        if self.links.len() > 10_000 {
            let problem = format!("{} links; at most 10000 are allowed", self.links.len());
            return Err(ConfigError::new("links", problem));
        }
        if self.traffic.len() > 10_000 {
            let problem = format!("{} workloads; at most 10000 are allowed", self.traffic.len());
            return Err(ConfigError::new("traffic", problem));
        }
        let hosts: u64 = self.traffic.iter().map(|one| one.config.hosts()).fold(0, u64::saturating_add);
        if hosts > 4_000_000 {
            let problem = format!(
                "{hosts} hosts would need about {:.0} GB of memory; at most 4000000 are allowed",
                hosts as f64 * 1e3 / 1e9
            );
            return Err(ConfigError::new("traffic", problem));
        }
        if !self.record.queue_every.is_zero() {
            let rows = seconds / self.record.queue_every.seconds() * self.links.len() as f64;
            if rows > 1e8 {
                let problem =
                    format!("would make {rows:.0e} rows; at most 1e8 are allowed: sample less often");
                return Err(ConfigError::new("record.queue_every", problem));
            }
        }
        Ok(())
    }
}

/// The sections of a scenario, as documentation shows them.
pub fn catalog() -> Vec<Entry> {
    let entry = |name, about, parameters| Entry { name, family: "scenario section", about, parameters };
    vec![
        entry("bottleneck", Bottleneck::about(), Bottleneck::parameters()),
        entry("access", Access::about(), Access::parameters()),
        entry("host", Host::about(), Host::parameters()),
        entry("record", Record::about(), Record::parameters()),
    ]
}

/// How TCP cuts a transfer, for those who must know what a load weighs.
struct Segments(aqm_tcp::Tcp);

impl Cut for Segments {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        self.0.wire_bytes(bytes)
    }
    fn payload(&self) -> u64 {
        self.0.payload()
    }
}

/// Reads TOML as a plain value.
///
/// # Errors
/// Where the text is not TOML, or holds what no scenario can: dates, infinities, NaN.
pub fn toml_value(text: &str) -> Result<Value, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map(|line| format!("line {line}")).unwrap_or_default();
        ConfigError::new(place, error.message().trim().replace('\n', "; "))
    })?;
    plain(toml::Value::Table(table))
}

fn plain(value: toml::Value) -> Result<Value, ConfigError> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| ConfigError::new("", format!("`{number}` is not a finite number")))?,
        toml::Value::Datetime(date) => {
            return Err(ConfigError::new("", format!("`{date}` is a date, which no scenario holds")));
        }
        toml::Value::Array(values) => {
            let values = values.into_iter().enumerate();
            Value::Array(
                values
                    .map(|(i, value)| plain(value).map_err(|e| e.within(&i.to_string())))
                    .collect::<Result<_, _>>()?,
            )
        }
        toml::Value::Table(table) => {
            let entries = table.into_iter();
            Value::Object(
                entries
                    .map(|(key, value)| plain(value).map(|v| (key.clone(), v)).map_err(|e| e.within(&key)))
                    .collect::<Result<_, _>>()?,
            )
        }
    })
}

fn check_name(section: &str, name: &str) -> Result<(), ConfigError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
        return Err(ConfigError::new(
            format!("{section}.{name}"),
            "a name has 1 to 64 letters, digits, `-`, `_` or `+`",
        ));
    }
    Ok(())
}

fn read_queue(value: Value, place: &str) -> Result<aqm_queue::Config, ConfigError> {
    aqm_queue::Config::read(value).map_err(|e| e.within(place))
}

fn dumbbell_links(mut table: Map<String, Value>) -> Result<Vec<LinkSpec>, ConfigError> {
    let place = "bottleneck.queue";
    let Some(queue) = table.remove("queue") else {
        let problem = format!(
            "is missing: write a `[bottleneck.queue]` table with a `kind`, one of {}",
            aqm_queue::Config::NAMES.join(", ")
        );
        return Err(ConfigError::new(place, problem));
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
const LEFT: &str = "left";
/// The node of a dumbbell that data go to.
const RIGHT: &str = "right";

fn graph_links(tables: BTreeMap<String, RawLink>) -> Result<Vec<LinkSpec>, ConfigError> {
    let mut links = Vec::new();
    for (name, raw) in tables {
        check_name("links", &name)?;
        let place = format!("links.{name}.queue");
        if raw.from == raw.to {
            return Err(ConfigError::new(format!("links.{name}.to"), "must differ from `from`"));
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
            return Err(ConfigError::new(format!("links.{}", links[pair].name), problem));
        }
    }
    if links.iter().all(|link| link.queue.is_none()) {
        return Err(ConfigError::new("links", "at least one link needs a `queue` table"));
    }
    Ok(links)
}

fn read_traffic(name: &str, table: Value, dumbbell: bool, access: &Access) -> Result<Traffic, ConfigError> {
    let Value::Object(mut table) = table else {
        return Err(ConfigError::new("", "must be a table"));
    };
    let mut node = |key: &str, fallback: &str| match (table.remove(key), dumbbell) {
        (None, true) => Ok(fallback.to_owned()),
        (Some(_), true) => Err(ConfigError::new(
            key,
            "belongs to a graph of `links`; in a dumbbell data go from left to right",
        )),
        (Some(Value::String(node)), false) => Ok(node),
        (_, false) => Err(ConfigError::new(key, "must name the node where the hosts stand")),
    };
    let (from, to) = (node("from", LEFT)?, node("to", RIGHT)?);
    let access = match table.remove("access") {
        None => access.clone(),
        Some(own) => {
            let mut full = json!(access);
            if let (Value::Object(full), Value::Object(own)) = (&mut full, own) {
                full.extend(own);
            } else {
                return Err(ConfigError::new("access", "must be a table"));
            }
            registry::read(full).map_err(|e| e.within("access"))?
        }
    };
    let extra_delay = match table.remove("extra_delay") {
        None => [Span::ZERO; 2],
        Some(value) => read_range(&value).map_err(|problem| ConfigError::new("extra_delay", problem))?,
    };
    let config = aqm_traffic::Config::read(Value::Object(table))?;
    Ok(Traffic { name: name.to_owned(), config, from, to, access, extra_delay })
}

/// A time, or a pair of times between which each flow draws its own.
fn read_range(value: &Value) -> Result<[Span; 2], String> {
    let one = |value: &Value| match value {
        Value::String(text) => Span::parse(text),
        other => Err(format!("{other} must be a time such as \"20ms\", or a pair of times")),
    };
    let range = match value {
        Value::Array(pair) if pair.len() == 2 => [one(&pair[0])?, one(&pair[1])?],
        other => [one(other)?; 2],
    };
    if range[0] > range[1] {
        return Err("the first time must not exceed the second".to_owned());
    }
    Ok(range)
}

/// The queue tables of [`Scenario`] turned into drop probabilities, for drawing a discipline's law
/// from its own code: the probability at each of `averages` (in the unit of its thresholds) for a
/// window `relative_window` times the average one. Missing if the discipline has no such law.
///
/// # Errors
/// If the table is no queue discipline, or its parameters are wrong.
pub fn drop_curve(
    queue: Value,
    averages: &[f64],
    relative_window: f64,
) -> Result<Vec<Option<f64>>, ConfigError> {
    let config = aqm_queue::Config::read(queue)?;
    config.build(Rate::from_bps(10_000_000))?;
    Ok(averages.iter().map(|&average| config.drop_curve(average, relative_window)).collect())
}
