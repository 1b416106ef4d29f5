//! The complete scenario at packet level. Each section is parsed by the module that owns the section's parameters.

pub(crate) mod edges;
pub(crate) mod links;
pub(crate) mod plan;
pub(crate) mod sections;
pub(crate) mod size;
pub(crate) mod topology;
pub(crate) mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use aqm_net::level::{Files, LEVEL};
use aqm_net::table::Row;
use aqm_net::{ConfigErrors, Size, Span, Streams, TableReader, unknown, values};
use aqm_tcp::config::connection::Connection;
use aqm_traffic::http::TransportNeed;
use serde_json::{Value, json};

use crate::results::tables::{FlowRow, PageRow, TransferRow};
use crate::scenario::edges::{EdgeSpec, place_edges, read_edges};
use crate::scenario::links::{Access, LinkReader, LinkSpec, Links, Queue, managed};
use crate::scenario::sections::{Host, Record};
use crate::scenario::traffic::{Common, Tcp, Traffic};

/// A scenario at packet level, with defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) duration: Span,
    pub(crate) warm_up: Span,
    /// Seed of the random streams.
    pub(crate) seed: u64,
    /// Number that selects the random streams of routers and hosts for this seed. The random streams of traffic do not
    /// depend on this number.
    draws: u64,
    pub(crate) reverse_ties: bool,
    dumbbell: bool,
    pub(crate) links: Vec<LinkSpec>,
    access: Access,
    /// Maximum processing time of a packet at a host.
    pub(crate) jitter: Span,
    /// Length of the link header of each packet.
    pub(crate) link_header: Size,
    pub(crate) tcp: Tcp,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) edges: Vec<EdgeSpec>,
    /// Whether the edges were added because a queue needs classes and the scenario has no edges.
    pub(crate) edges_added: bool,
    queues: BTreeMap<String, aqm_queue::Config>,
    pub(crate) record: Record,
    pub(crate) files: Arc<Files>,
}

/// The value of the key `level` that selects the packet level.
pub(crate) const PACKET: &str = "packet";

/// The keys of a scenario, except `level`.
pub(crate) const KEYS: &[&str] = &[
    "duration",
    "warm_up",
    "seed",
    "draws",
    "reverse_ties",
    "bottleneck",
    "links",
    "access",
    "host",
    "tcp",
    "traffic",
    "edges",
    "queues",
    "record",
];

impl Scenario {
    /// Parses the sections of a scenario. Also returns the value of `host.jitter`. Returns `None` if essential sections
    /// are missing. Errors are added to `table`.
    pub(crate) fn take_from(table: &mut TableReader, files: Files) -> Option<(Self, Option<Span>)> {
        let level = table.value(LEVEL);
        table.check(level.is_none_or(|level| level == PACKET), LEVEL, "must be `packet`");
        let duration = table.require::<Span>("duration", "set the duration of the run, for example \"60s\"");
        table.check(
            duration.is_none_or(|duration| !duration.is_zero()),
            "duration",
            "must be greater than zero (got 0s)",
        );
        let warm_up = table.take("warm_up").unwrap_or(Span::ZERO);
        if let Some(duration) = duration.filter(|duration| !duration.is_zero()) {
            let problem = format!("must be shorter than the duration, {duration} (got {warm_up})");
            table.check(warm_up < duration, "warm_up", problem);
        }
        let seed = table.take("seed").unwrap_or(1);
        let draws = table.take("draws").unwrap_or(0);
        let reverse_ties = table.take("reverse_ties").unwrap_or(false);
        let reader = LinkReader { files: &files, duration: duration.unwrap_or(Span::from_millis(1000)) };
        let links = Links::take_from(table, &reader);
        let access: Access = table.take("access").unwrap_or_default();
        let host: Host = table.take("host").unwrap_or_default();
        let max_jitter = Span::from_millis(1000);
        table.check(
            host.jitter.is_none_or(|jitter| jitter <= max_jitter),
            "host.jitter",
            format_args!("must be at most 1s (got {})", host.jitter.unwrap_or_default()),
        );
        let problem = format_args!("must be at most {MAX_LINK_HEADER} (got {})", host.link_header);
        table.check(host.link_header <= MAX_LINK_HEADER, "host.link_header", problem);
        let record: Record = table.take("record").unwrap_or_default();
        let tcp_table = table.value("tcp").unwrap_or_else(|| json!({}));
        let tcp = Tcp::read(tcp_table.clone());
        let tcp_errors = tcp.as_ref().err().cloned();
        let tcp = table.note(tcp.map_err(|errors| errors.within("tcp")));
        // References to another table can be checked only if that table could be parsed.
        let dumbbell = links.as_ref().map(|links| links.dumbbell);
        let common = Common { dumbbell, access: &access, tcp: &tcp_table, tcp_errors: tcp_errors.as_ref() };
        let tables = table.value("traffic").filter(|traffic| *traffic != json!({}));
        table.check(
            tables.is_some(),
            "traffic",
            "is missing: add a table `[traffic.NAME]` for each workload",
        );
        let read = |name: &str, one: Value| Traffic::read(name, one, &common);
        let traffic = tables.and_then(|tables| {
            table.note(values::read_entries(tables, read).map_err(|errors| errors.within("traffic")))
        });
        let traffic: Option<Vec<Traffic>> = traffic.map(|all| all.into_values().collect());
        let all_links = links.as_ref().map(|links| links.all.as_slice());
        let edges = table.take_with("edges", |tables| read_edges(tables, all_links)).unwrap_or_default();
        let queues = table.take_each("queues", |_, one| {
            let config = aqm_queue::Config::read(one)?;
            // The alternatives in `queues` replace the queue of a managed link, so they are checked with the first
            // managed link.
            if let Some((_, link, _)) = managed(all_links.unwrap_or_default()).next() {
                Queue::new(config.clone(), link.rate)?;
            }
            Ok::<_, ConfigErrors>(config)
        });
        let queues = queues.unwrap_or_default();
        let (duration, Links { all, dumbbell }, tcp, traffic) = (duration?, links?, tcp?, traffic?);
        check_headers(table, host.link_header, &tcp, &traffic);
        check_transports(table, &tcp, &traffic);
        check_names(table, &traffic, &all, &queues, &record);
        let (edges, edges_added) = table.note(place_edges(edges, &all, &traffic))?;
        let mut scenario = Self {
            duration,
            warm_up,
            seed,
            draws,
            reverse_ties,
            dumbbell,
            links: all,
            access,
            jitter: Span::ZERO,
            link_header: host.link_header,
            tcp,
            traffic,
            edges,
            edges_added,
            queues,
            record,
            files: Arc::new(files),
        };
        scenario.announce_labels();
        Some((scenario, host.jitter))
    }

    /// Passes to the queues the headers that the packet labels represent. The label of a packet is the position of the
    /// packet's workload.
    fn announce_labels(&mut self) {
        for queue in self.links.iter_mut().filter_map(|link| link.queue.as_mut()) {
            for (position, one) in self.traffic.iter().enumerate() {
                let has_streams = one.tcp.as_ref().unwrap_or(&self.tcp).checked.has_streams();
                queue.prototype.on_label(position as u16, &one.label(has_streams));
            }
        }
    }

    /// Returns the random streams of routers and hosts: queues, edges and host jitter.
    pub(crate) fn chance(&self) -> Streams {
        match self.draws {
            0 => Streams::new(self.seed),
            number => Streams::new(Streams::new(self.seed).named("draws", number).bits()),
        }
    }

    /// Returns the TCP configuration of a workload.
    pub(crate) fn tcp_of<'a>(&'a self, one: &'a Traffic) -> &'a Tcp {
        one.tcp.as_ref().unwrap_or(&self.tcp)
    }

    /// Returns the names of the files to which a scenario refers. `value` is the scenario as a JSON value.
    pub(crate) fn files_of(value: &Value) -> Vec<String> {
        let tables = value.get("traffic").and_then(Value::as_object);
        let of_traffic = tables.into_iter().flat_map(|t| t.values()).filter_map(|t| t.get("file")?.as_str());
        of_traffic.chain(links::files_of(value)).map(str::to_owned).collect()
    }

    /// Returns the scenario with all defaults filled in, as a JSON value. Parsing this value yields the same scenario.
    pub(crate) fn to_value(&self) -> Value {
        let named = self.queues.iter().map(|(name, queue)| (name.clone(), queue.to_value()));
        let mut value = json!({
            LEVEL: PACKET,
            "duration": self.duration,
            "warm_up": self.warm_up,
            "seed": self.seed,
            "reverse_ties": self.reverse_ties,
            "access": self.access,
            "host": { "jitter": self.jitter, "link_header": self.link_header },
            "tcp": self.tcp.config.to_value(),
            "record": self.record,
            "queues": Value::Object(named.collect()),
        });
        if self.draws > 0 {
            value["draws"] = self.draws.into();
        }
        if self.dumbbell {
            let [forward, back] = [&self.links[0], &self.links[1]];
            value["bottleneck"] = forward.to_value();
            // A reverse link that has the same properties as the forward link is omitted, so that the digest of the
            // scenario does not change.
            if back.queue.is_some() || (back.rate, back.delay) != (forward.rate, forward.delay) {
                value["bottleneck"]["reverse"] = back.to_value();
            }
        } else {
            let links = self.links.iter().map(|link| {
                let mut table = link.to_value();
                table["from"] = link.from.clone().into();
                table["to"] = link.to.clone().into();
                (link.name.clone(), table)
            });
            value["links"] = Value::Object(links.collect());
        }
        let traffic = self.traffic.iter().map(|one| (one.name.clone(), one.to_value(self.dumbbell)));
        value["traffic"] = Value::Object(traffic.collect());
        if !self.edges.is_empty() {
            let edges = self.edges.iter().map(|edge| (edge.node.clone(), edge.config.to_value()));
            value["edges"] = Value::Object(edges.collect());
        }
        value
    }

    /// Returns warnings about valid but suspicious values. Each warning begins with the path of the value.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_link = |(_, link, queue): (usize, &LinkSpec, &Queue)| {
            let found = queue.config.warnings(link.rate);
            found.into_iter().map(|warning| warning.within(&link.queue_path).to_string()).collect::<Vec<_>>()
        };
        let own = self
            .traffic
            .iter()
            .filter_map(|one| Some((format!("traffic.{}.tcp", one.name), one.tcp.as_ref()?)));
        let has_no_own = |one: &Traffic| one.tcp.is_none() && !one.config.sends_datagrams();
        let common = self.traffic.iter().any(has_no_own).then(|| ("tcp".to_owned(), &self.tcp));
        let of_tcp = |(path, tcp): (String, &Tcp)| {
            let warnings = tcp.config.warnings().into_iter();
            warnings.map(|warning| format!("{path}.{warning}")).collect::<Vec<_>>()
        };
        managed(&self.links).flat_map(of_link).chain(common.into_iter().chain(own).flat_map(of_tcp)).collect()
    }
}

/// Maximum length of a link header. The header of a real link is never longer.
const MAX_LINK_HEADER: Size = Size::from_bytes(256);

/// Length of the IPv4 and TCP headers in bytes.
const IP_AND_TCP: u64 = 40;

/// Checks that every configured packet length of TCP is large enough to include the link header.
fn check_headers(table: &mut TableReader, link_header: Size, tcp: &Tcp, traffic: &[Traffic]) {
    if link_header.bytes() == 0 {
        return;
    }
    let least = Size::from_bytes(link_header.bytes() + IP_AND_TCP);
    let own = traffic.iter().filter_map(|one| Some((format!("traffic.{}.tcp", one.name), one.tcp.as_ref()?)));
    let has_no_own = |one: &Traffic| one.tcp.is_none() && !one.config.sends_datagrams();
    let common = traffic.iter().any(has_no_own).then(|| ("tcp".to_owned(), tcp));
    for (path, tcp) in common.into_iter().chain(own) {
        let Connection { header, ack_size, syn_size, .. } = tcp.config.connection;
        for (name, size) in [("header", header), ("ack_size", ack_size), ("syn_size", syn_size)] {
            let problem = format!(
                "must be at least {least}, including {link_header} of `host.link_header` (got {size})"
            );
            table.check(size >= least, format!("{path}.connection.{name}"), problem);
        }
    }
}

/// Checks that each workload that uses HTTP has a suitable transport.
fn check_transports(table: &mut TableReader, tcp: &Tcp, traffic: &[Traffic]) {
    for one in traffic {
        let Some(needed) = one.config.transport() else { continue };
        let has_streams = one.tcp.as_ref().unwrap_or(tcp).checked.has_streams();
        let path = format!("traffic.{}.http", one.name);
        let problem = "is HTTP/3, which requires QUIC: set `tcp.profile = \"quic\"` for the scenario or for this workload";
        table.check(needed != TransportNeed::Streams || has_streams, &path, problem);
        let problem =
            "is HTTP/1.1 or HTTP/2, which require TCP, but the transport is QUIC: set `http = \"3\"`";
        table.check(needed != TransportNeed::Bytes || !has_streams, &path, problem);
    }
}

/// Checks that all names refer to existing objects.
fn check_names(
    table: &mut TableReader,
    traffic: &[Traffic],
    links: &[LinkSpec],
    queues: &BTreeMap<String, aqm_queue::Config>,
    record: &Record,
) {
    let workloads: Vec<&str> = traffic.iter().map(|one| one.name.as_str()).collect();
    let of_links = managed(links).map(|(_, link, queue)| (link.queue_path.clone(), &queue.config));
    let of_queues = queues.iter().map(|(name, queue)| (format!("queues.{name}"), queue));
    for (outer, queue) in of_links.chain(of_queues) {
        for (path, name) in queue.traffic_names() {
            let problem = unknown("workload", name, &workloads);
            table.check(workloads.contains(&name), format!("{outer}.{path}"), problem);
        }
    }
    for (path, names) in [("record.senders", &record.senders), ("record.histories", &record.histories)] {
        for name in names {
            let problem = unknown("workload", name, &workloads);
            table.check(workloads.contains(&name.as_str()), path, problem);
        }
    }
    for (path, names, doc) in [
        ("record.flow_columns", &record.flow_columns, FlowRow::DOC),
        ("record.transfer_columns", &record.transfer_columns, TransferRow::DOC),
        ("record.page_columns", &record.page_columns, PageRow::DOC),
    ] {
        let columns: Vec<&str> = doc.columns.iter().map(|column| column.name).collect();
        for name in names.iter().flatten() {
            table.check(columns.contains(&name.as_str()), path, unknown("column", name, &columns));
        }
    }
    let managed: Vec<&str> = managed(links).map(|(_, link, _)| link.name.as_str()).collect();
    for name in &record.packets {
        let problem = unknown("managed link", name, &managed);
        table.check(managed.contains(&name.as_str()), "record.packets", problem);
    }
}
