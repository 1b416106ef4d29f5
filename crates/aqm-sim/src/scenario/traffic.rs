//! The workloads of a scenario, with their nodes and the configuration of their connections.

use std::sync::Arc;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Parameter as _, Span, Streams, TableReader};
use aqm_queue::{Label, Protocol};
use aqm_traffic::description::Description;
use serde_json::{Value, json};

use crate::scenario::links::{Access, LEFT, RIGHT};

/// The configuration of TCP connections, both before and after the checks.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub(crate) config: aqm_tcp::Config,
    pub(crate) checked: Arc<aqm_tcp::CheckedConfig>,
}

impl Tcp {
    pub(crate) fn read(table: Value) -> Result<Self, ConfigErrors> {
        let config = aqm_tcp::read(table)?;
        let checked = Arc::new(config.build()?);
        Ok(Self { config, checked })
    }
}

/// A workload and its position in the network.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) config: aqm_traffic::Config,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) access: Access,
    /// The workload's own TCP configuration, if it differs from the scenario's TCP configuration.
    pub(crate) tcp: Option<Tcp>,
    /// Bounds of a flow's additional one-way delay, which is the same in both directions and is uniformly distributed
    /// between the bounds.
    extra_delay: [Span; 2],
    pub(crate) port: Option<u16>,
    pub(crate) dscp: u8,
    /// Name of the sending host, if the scenario names the host. Workloads that use the same name share the host.
    pub(crate) sender: Option<String>,
    pub(crate) receiver: Option<String>,
}

/// Parts of the scenario from which the defaults of all workloads are derived.
pub(crate) struct Common<'a> {
    /// Whether the network is a dumbbell, in which data is sent from left to right by default; `None` if the links could
    /// not be parsed.
    pub(crate) dumbbell: Option<bool>,
    pub(crate) access: &'a Access,
    /// The scenario's `tcp` table before it is checked.
    pub(crate) tcp: &'a Value,
    /// The errors in the scenario's `tcp` table.
    pub(crate) tcp_errors: Option<&'a ConfigErrors>,
}

impl Common<'_> {
    /// Returns the TCP configuration of a workload that has its own `tcp` table. Returns `None` if the configuration
    /// has only errors that the scenario's `tcp` table also has.
    fn with_own_tcp(&self, own: Value) -> Result<Option<Tcp>, ConfigErrors> {
        let errors = match Tcp::read(aqm_tcp::overlay(self.tcp, own.clone())) {
            Ok(tcp) => return Ok(Some(tcp)),
            Err(errors) => errors,
        };
        let has_profile = own.get("profile").is_some();
        let is_common = |error: &ConfigError| {
            let is_written = own.pointer(&format!("/{}", error.path.replace('.', "/"))).is_some();
            let mut common = self.tcp_errors.into_iter().flat_map(ConfigErrors::iter);
            !has_profile && !is_written && common.any(|one| one == error)
        };
        let mut own_errors = ErrorCollector::default();
        errors.into_iter().filter(|error| !is_common(error)).for_each(|error| own_errors.add(error));
        own_errors.finish(None)
    }
}

impl Traffic {
    pub(crate) fn read(name: &str, table: Value, common: &Common<'_>) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(table)?;
        let [from, to] = read_nodes(&mut table, common.dumbbell);
        let access = |own: Value| {
            let mut full = json!(common.access);
            match (&mut full, own) {
                (Value::Object(full), Value::Object(own)) => full.extend(own),
                (full, own) => *full = own,
            }
            Access::read(full)
        };
        let access = table.take_with("access", access).unwrap_or_else(|| common.access.clone());
        let own_tcp = table.value("tcp");
        let extra_delay = table.take_with("extra_delay", read_range);
        let port = table.take_with("port", |value| number_up_to(&value, u16::MAX)).flatten();
        let dscp = table.take_with("dscp", |value| number_up_to(&value, 63)).flatten();
        let [sender, receiver] =
            ["sender", "receiver"].map(|key| table.take::<Option<String>>(key).flatten());
        let config = aqm_traffic::Config::take_from(&mut table);
        let own_hosts = config.as_ref().is_some_and(|config| config.own_hosts());
        for (key, name) in [("sender", &sender), ("receiver", &receiver)] {
            let problem = format!(
                "is the name of a single host, but each flow has its own host: set `hosts = \"shared\"`, or \
                 remove `{key}`"
            );
            table.check(!own_hosts || name.is_none(), key, problem);
        }
        let tcp = match config.as_ref().filter(|config| config.sends_datagrams()) {
            Some(config) => {
                let problem =
                    format_args!("is not used, because `{}` sends datagrams: remove `tcp`", config.kind());
                table.check(own_tcp.is_none(), "tcp", problem);
                None
            }
            None => own_tcp.and_then(|own| {
                table.note(common.with_own_tcp(own).map_err(|errors| errors.within("tcp"))).flatten()
            }),
        };
        table.finish(config.map(|config| Self {
            name: name.to_owned(),
            config,
            from,
            to,
            access,
            tcp,
            extra_delay: extra_delay.unwrap_or_default(),
            port,
            dscp: dscp.map_or(0, |dscp| dscp as u8),
            sender,
            receiver,
        }))
    }

    pub(crate) fn to_value(&self, dumbbell: bool) -> Value {
        let mut table = self.config.to_value();
        // The usual direction in a dumbbell is omitted, so that the digest of the scenario does not change.
        if !dumbbell || self.from != LEFT {
            table["from"] = self.from.clone().into();
            table["to"] = self.to.clone().into();
        }
        table["access"] = json!(self.access);
        if let Some(tcp) = &self.tcp {
            table["tcp"] = tcp.config.to_value();
        }
        table["extra_delay"] = json!(self.extra_delay);
        table["port"] = json!(self.port);
        table["dscp"] = json!(self.dscp);
        for (key, name) in [("sender", &self.sender), ("receiver", &self.receiver)] {
            if let Some(name) = name {
                table[key] = name.clone().into();
            }
        }
        table
    }

    /// Returns the additional delay of the flow with the number `flow`, counted from zero within the workload.
    pub(crate) fn extra_delay(&self, seed: u64, flow: u64) -> Span {
        let [least, most] = self.extra_delay;
        if most <= least {
            return least;
        }
        let mut rng = Streams::new(seed).named(&format!("{}/extra-delay", self.name), flow);
        least + Span::from_nanos(rng.below((most - least).nanos() + 1))
    }

    /// Returns whether any flow of the workload has an additional delay.
    pub(crate) fn delays_flows(&self) -> bool {
        !self.extra_delay[1].is_zero()
    }

    /// Returns the headers of the workload's packets. `is_quic` states whether the workload's transport is QUIC.
    pub(crate) fn label(&self, is_quic: bool) -> Label {
        let protocol = if is_quic || self.config.sends_datagrams() { Protocol::Udp } else { Protocol::Tcp };
        Label { traffic: self.name.clone(), protocol, port: self.port.unwrap_or(0), dscp: self.dscp }
    }
}

/// Returns properties of a workload that a program needs to interpret the tables of a run. `table` is the workload's
/// table, which may belong to a scenario with any network.
pub(crate) fn describe(table: Value) -> Result<Description, ConfigErrors> {
    let (access, tcp) = (Access::default(), json!({}));
    let common = Common { dumbbell: None, access: &access, tcp: &tcp, tcp_errors: None };
    Traffic::read("", table, &common).map(|traffic| traffic.config.describe())
}

/// Returns the nodes from which and to which a workload sends data. In a dumbbell, the default is from left to right,
/// and one of the nodes determines the other node.
fn read_nodes(table: &mut TableReader, dumbbell: Option<bool>) -> [String; 2] {
    let opposite = |node: &str| if node == LEFT { RIGHT } else { LEFT }.to_owned();
    let [from, to] = ["from", "to"].map(|key| {
        let value = table.value(key);
        let node = value.as_ref().and_then(Value::as_str);
        let problem = match dumbbell {
            Some(true) => "must be \"left\" or \"right\", which are the nodes of a dumbbell",
            _ => "must be the name of the node to which the hosts are connected",
        };
        let is_known = node.is_some_and(|node| dumbbell != Some(true) || [LEFT, RIGHT].contains(&node));
        table.check(is_known || (value.is_none() && dumbbell != Some(false)), key, problem);
        node.filter(|_| is_known).map(str::to_owned)
    });
    let problem = "must not be the node that `from` names";
    table.check(dumbbell != Some(true) || from.is_none() || from != to, "to", problem);
    match (from, to) {
        (None, None) => [LEFT.to_owned(), RIGHT.to_owned()],
        (Some(from), None) => [from.clone(), opposite(&from)],
        (None, Some(to)) => [opposite(&to), to],
        (Some(from), Some(to)) => [from, to],
    }
}

/// Parses a whole number from 0 to `most`. A null value is treated as a missing key.
fn number_up_to(value: &Value, most: u16) -> Result<Option<u16>, ConfigError> {
    let number = value.as_u64().filter(|&number| number <= most.into()).map(|number| number as u16);
    let problem = format_args!("must be a whole number from 0 to {most} (got {value})");
    ConfigError::unless(value.is_null() || number.is_some(), "", problem)?;
    Ok(number)
}

/// Parses a time, or a pair of times that are the bounds of the flows' random delays.
fn read_range(value: Value) -> Result<[Span; 2], ConfigErrors> {
    let range = match &value {
        Value::String(_) => [Span::read(value)?; 2],
        Value::Array(pair) if pair.len() == 2 => [Span::read(pair[0].clone())?, Span::read(pair[1].clone())?],
        other => {
            let problem = format!("must be a time, for example \"20ms\", or a pair of times (got {other})");
            return Err(ConfigError::at("", problem).into());
        }
    };
    ConfigError::unless(
        range[0] <= range[1],
        "",
        format_args!("must be a pair of times in ascending order (got {} and {})", range[0], range[1]),
    )?;
    Ok(range)
}
