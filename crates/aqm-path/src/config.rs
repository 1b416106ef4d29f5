//! The configuration of a path, and its conversion to a scenario of the packet level.

use aqm_net::level::Files;
use aqm_net::text::toml_value;
use aqm_net::values::read_entries;
use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Parameter as _, Span, TableReader};
use aqm_sim::{PACKET_LEVEL, Plan};
use serde_json::{Map, Value, json};

/// The configuration of a path, as a TOML or JSON table with these keys:
///
/// | Key | Meaning | Default |
/// | --- | --- | --- |
/// | `forward` | The links in the forward direction, in the order in which a datagram passes the links. | required |
/// | `reverse` | The links in the reverse direction, in the order in which a datagram passes the links. | the forward links in the opposite order, with the same rates and delays; the queues of these links never drop datagrams |
/// | `seed` | Seed of all random numbers. | 1 |
/// | `traffic` | Tables with names of your choice. Each table has the keys `hosts` (number of hosts at each end), `port` and `dscp` of a kind of flow. | one kind of flow |
/// | `duration` | Time over which the mean rate of a link is computed if the link has a varying rate and no `rate`. A path does not end after this time. | 60s |
///
/// A link is a table with the keys of a link in a scenario of aqmlab: `rate` and `delay` are required; `queue` is a table
/// with the `kind` and the parameters of a queue discipline; the sections `transmitter` and `channel` of aqmlab's
/// reference describe varying rates, delivery opportunities, outages, losses and reordering. A link without a `queue`
/// never drops datagrams. The key `name` sets the name of the link; the default is `forward-0`, `forward-1` and so on,
/// `reverse-0` and so on, or, for the default of `reverse`, the name of the forward link followed by `-back`.
#[derive(Clone, Debug)]
pub struct Config {
    table: Value,
    seed: Option<u64>,
    files: Files,
}

/// The plan of a path, with the names of the links in the order of the path.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) links: Vec<String>,
}

/// Maximum number of links in each direction. This limit is aqmlab's choice. The initial TTL of IP packets is usually 64
/// (RFC 1700), so that longer paths do not occur.
const MAX_LINKS: usize = 64;

/// Maximum sum of the delays of the links in a direction: an hour. This limit is aqmlab's choice. At their largest
/// distance, light needs 22 minutes from Earth to Mars.
const MAX_DELAY: Span = Span::from_millis(3_600_000);

/// The name of the traffic if the configuration has no table `traffic`.
const TRAFFIC: &str = "datagrams";

/// The nodes at the ends of the path.
const ENDS: [&str; 2] = ["sender", "receiver"];

impl Config {
    /// Parses a TOML text. The values are checked when the path is created.
    ///
    /// # Errors
    /// Returns an error with the line number if the text is not valid TOML.
    pub fn from_toml(text: &str) -> Result<Self, ConfigErrors> {
        Ok(Self::of_table(toml_value(text)?))
    }

    /// Parses a JSON text. The values are checked when the path is created.
    ///
    /// # Errors
    /// Returns an error with the line number if the text is not valid JSON.
    pub fn from_json(text: &str) -> Result<Self, ConfigErrors> {
        let table = serde_json::from_str(text).map_err(|error| ConfigError::at("", error.to_string()))?;
        Ok(Self::of_table(table))
    }

    fn of_table(table: Value) -> Self {
        Self { table, seed: None, files: Files::new() }
    }

    /// Returns the configuration with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Returns the configuration with the contents of a file to which the configuration refers (`rate_file` and
    /// `opportunities.file`). The library does not open files.
    #[must_use]
    pub fn with_file(mut self, name: &str, contents: &str) -> Self {
        self.files.insert(name.to_owned(), contents.to_owned());
        self
    }

    /// Returns the names of the files to which the configuration refers.
    ///
    /// # Errors
    /// Returns an error for each invalid value that prevents the links from being found.
    pub fn files(&self) -> Result<Vec<String>, ConfigErrors> {
        use aqm_net::level::Level as _;
        Ok(PACKET_LEVEL.files(&self.read()?.scenario))
    }

    /// Returns the network of the path as a scenario of aqmlab in JSON. The scenario contains the same links, and a
    /// placeholder for the traffic, which sends one datagram in ten minutes at most.
    ///
    /// # Errors
    /// Returns an error for each invalid value.
    pub fn to_scenario(&self) -> Result<String, ConfigErrors> {
        self.plan()?;
        Ok(self.read()?.scenario.to_string())
    }

    /// Checks the configuration and builds the network.
    pub(crate) fn plan(&self) -> Result<Planned, ConfigErrors> {
        let Layout { scenario, links } = self.read()?;
        let plan = Plan::of_value(scenario, self.files.clone());
        let plan = plan.map_err(|errors| errors.map(|error| of_path(error, &links)))?;
        Ok(Planned { plan, links: links.into_iter().map(|link| link.name).collect() })
    }

    fn read(&self) -> Result<Layout, ConfigErrors> {
        let mut table = TableReader::new(self.table.clone())?;
        let remedy = "is missing: add a list of links, for example \
                      `forward = [{ rate = \"10Mbps\", delay = \"20ms\", queue = { kind = \"codel\" } }]`";
        let forward = table.value("forward");
        table.check(forward.is_some(), "forward", remedy);
        let forward = forward.and_then(|value| {
            table.note(read_links("forward", value).map_err(|errors| errors.within("forward")))
        });
        let reverse = table
            .value("reverse")
            .filter(|value| !value.is_null())
            .map(|value| table.note(read_links("reverse", value).map_err(|errors| errors.within("reverse"))));
        let seed = table.take::<u64>("seed");
        let duration = table.take::<Span>("duration").unwrap_or(Span::from_millis(60_000));
        let traffic = table.take_with("traffic", read_traffic);
        let traffic = traffic.unwrap_or_else(|| placeholders([(TRAFFIC.to_owned(), Map::new())]));
        let mut all = forward.clone().unwrap_or_default();
        all.extend(reverse.clone().flatten().unwrap_or_default());
        for (position, link) in all.iter().enumerate() {
            let unique = all[..position].iter().all(|other| other.name != link.name);
            let path = format!("{}.name", link.path);
            table.check(unique, path, format_args!("is the name of another link (got `{}`)", link.name));
        }
        let layout = forward.and_then(|forward| {
            let layout = Layout::new(forward, reverse.flatten(), traffic);
            (!all.is_empty()).then_some(layout)
        });
        table.finish(layout.map(|mut layout| {
            layout.scenario["seed"] = self.seed.or(seed).unwrap_or(1).into();
            layout.scenario["duration"] = json!(duration);
            layout
        }))
    }
}

/// A link of the configuration.
#[derive(Clone)]
struct PathLink {
    name: String,
    /// Path of the link's table in the configuration.
    path: String,
    /// The keys of the link, without its name.
    table: Map<String, Value>,
}

/// The network of a path as a scenario, and the links in the order of the path.
struct Layout {
    scenario: Value,
    links: Vec<PathLink>,
}

impl Layout {
    fn new(mut forward: Vec<PathLink>, reverse: Option<Vec<PathLink>>, traffic: Value) -> Self {
        // A scenario has at least one queue. A queue without a limit never drops packets, like a link without a queue.
        let has_constant_links =
            forward.iter().chain(reverse.iter().flatten()).all(PathLink::has_only_rate_and_delay);
        if let Some(first) = forward.first_mut().filter(|_| has_constant_links) {
            first.table.insert("queue".to_owned(), json!({"kind": "drop-tail", "limit": "1000000000000p"}));
        }
        let mut tables = Map::new();
        let both_ways = reverse.is_none();
        add_links(&mut tables, "forward", ENDS, &forward, both_ways);
        let reverse = match reverse {
            Some(reverse) => {
                add_links(&mut tables, "reverse", [ENDS[1], ENDS[0]], &reverse, false);
                reverse
            }
            None => forward.iter().rev().map(PathLink::back).collect(),
        };
        let scenario = json!({
            "host": {"jitter": "0s"},
            "links": tables,
            "traffic": traffic,
            "record": {"drops": false, "queue_every": "0s"},
        });
        forward.extend(reverse);
        Self { scenario, links: forward }
    }
}

impl PathLink {
    fn has_only_rate_and_delay(&self) -> bool {
        self.table.keys().all(|key| key == "rate" || key == "delay")
    }

    /// Returns the link in the opposite direction.
    fn back(&self) -> Self {
        Self { name: format!("{}-back", self.name), path: self.path.clone(), table: Map::new() }
    }
}

/// Adds the `links` of a direction to the tables of a scenario.
fn add_links(
    tables: &mut Map<String, Value>,
    direction: &str,
    [first, last]: [&str; 2],
    links: &[PathLink],
    both_ways: bool,
) {
    let node = |number: usize| match number {
        0 => first.to_owned(),
        number if number == links.len() => last.to_owned(),
        number => format!("{direction}-{number}"),
    };
    for (number, link) in links.iter().enumerate() {
        let mut table = link.table.clone();
        table.insert("from".to_owned(), node(number).into());
        table.insert("to".to_owned(), node(number + 1).into());
        table.insert("both_ways".to_owned(), both_ways.into());
        tables.insert(link.name.clone(), table.into());
    }
}

/// Parses the links of a direction.
fn read_links(direction: &str, value: Value) -> Result<Vec<PathLink>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let Value::Array(tables) = value else {
        return Err(ConfigError::at("", format!("must be a list of links (got {value})")).into());
    };
    let count = tables.len();
    let problem = format!("must contain 1 to {MAX_LINKS} links (got {count})");
    ConfigError::unless((1..=MAX_LINKS).contains(&count), "", problem)?;
    let (mut links, mut delay) = (Vec::with_capacity(count), Span::ZERO);
    for (number, table) in tables.into_iter().enumerate() {
        let path = format!("{direction}.{number}");
        let Value::Object(mut table) = table else {
            errors.add(ConfigError::at(number.to_string(), format!("must be a table (got {table})")));
            continue;
        };
        for key in ["from", "to", "both_ways"] {
            let problem = "is not a key of a path: the links are in the order of the list; remove the key";
            errors.check(!table.contains_key(key), format!("{number}.{key}"), problem);
        }
        let name = match table.remove("name") {
            None | Some(Value::Null) => format!("{direction}-{number}"),
            Some(Value::String(name)) if is_name(&name) => name,
            Some(name) => {
                let problem = "must consist of 1 to 59 letters, digits, `-`, `_` or `+`";
                errors.add(ConfigError::at(format!("{number}.name"), format!("{problem} (got {name})")));
                continue;
            }
        };
        delay = delay + greatest_delay(&table);
        links.push(PathLink { name, path, table });
    }
    errors.check(
        delay <= MAX_DELAY,
        "",
        format_args!("the sum of the delays must be at most 1h (got {delay})"),
    );
    errors.finish(links)
}

/// Returns the greatest delay of a link. Delays that are not valid are rejected later.
fn greatest_delay(link: &Map<String, Value>) -> Span {
    let read = |value: &Value| Span::read(value.clone()).ok();
    let steps = link.get("delay_steps").and_then(Value::as_array).into_iter().flatten();
    let delays = link.get("delay").into_iter().chain(steps.filter_map(|step| step.get("delay")));
    let delay = delays.filter_map(read).max().unwrap_or_default();
    let reordering = ["delay", "jitter"].map(|key| link.get("reordering")?.get(key).and_then(read));
    reordering.into_iter().flatten().fold(delay, |sum, additional| sum + additional)
}

/// Returns whether a link can have this name. The name of the reverse link is longer by five characters.
fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    (1..=59).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Parses the tables of traffic, and returns the workloads of the scenario.
fn read_traffic(value: Value) -> Result<Value, ConfigErrors> {
    let tables = read_entries(value, |_, table| {
        let mut reader = TableReader::new(table)?;
        let mut own = Map::new();
        for key in ["hosts", "port", "dscp"] {
            if let Some(value) = reader.value(key) {
                own.insert(key.to_owned(), value);
            }
        }
        reader.finish(Some(own))
    })?;
    ConfigError::unless(!tables.is_empty(), "", "must contain at least one table")?;
    Ok(placeholders(tables))
}

/// Returns the workloads of the scenario. A path does not run workloads; a workload describes the headers and the hosts
/// of a kind of flow.
fn placeholders(tables: impl IntoIterator<Item = (String, Map<String, Value>)>) -> Value {
    let workload = |(name, mut table): (String, Map<String, Value>)| {
        if let Some(hosts) = table.remove("hosts") {
            table.insert("flows".to_owned(), hosts);
        }
        table.extend([
            ("kind".to_owned(), "udp".into()),
            ("rate".to_owned(), "16bps".into()),
            ("from".to_owned(), ENDS[0].into()),
            ("to".to_owned(), ENDS[1].into()),
        ]);
        (name, Value::Object(table))
    };
    Value::Object(tables.into_iter().map(workload).collect())
}

/// Converts the path of an error in the scenario to the path in the configuration.
fn of_path(mut error: ConfigError, links: &[PathLink]) -> ConfigError {
    let of_link = links.iter().find_map(|link| {
        let rest = error.path.strip_prefix("links.")?.strip_prefix(&link.name)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("{}{rest}", link.path))
    });
    if let Some(path) = of_link {
        error.path = path;
    } else if error.path == "links" {
        error.path = "forward".to_owned();
    } else if error.path.starts_with("traffic.")
        && let Some(name) = error.path.strip_suffix(".flows")
    {
        error.path = format!("{name}.hosts");
    }
    error
}
