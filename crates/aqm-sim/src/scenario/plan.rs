//! A plan, which is a scenario that was parsed successfully. A plan owns the topology, queue disciplines, edges and
//! workloads, and each run clones these objects. A run without guests therefore cannot fail.

use std::fmt;
use std::sync::Arc;

use aqm_guest::{NoGuests, Provider};
use aqm_net::level::Files;
use aqm_net::text::toml_value;
use aqm_net::{ConfigErrors, ErrorCollector, Instant, Rate, Size, Span, Streams, TableReader};
use aqm_traffic::{BuildContext, Packetisation, Programs, Workload};
use serde_json::Value;

use crate::scenario::Scenario;
use crate::scenario::edges::Edges;
use crate::scenario::links::managed;
use crate::scenario::topology::Topology;
use crate::scenario::traffic::{Tcp, Traffic};

/// A checked scenario at packet level that is ready to run.
#[derive(Clone)]
pub struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) topology: Arc<Topology>,
    pub(crate) edges: Edges,
    /// The workloads, by position in the scenario.
    pub(crate) workloads: Vec<Box<dyn Workload>>,
    /// Source of guests.
    pub(crate) guests: &'static dyn Provider,
}

impl Plan {
    /// Parses and checks a scenario in TOML. `files` contains the contents of the files to which the scenario refers,
    /// by name.
    ///
    /// # Errors
    /// Returns an error for each invalid field, with the allowed values.
    pub fn of_toml(text: &str, files: Files) -> Result<Self, ConfigErrors> {
        Self::of_value(toml_value(text)?, files)
    }

    /// Parses and checks a scenario that is given as a JSON value.
    ///
    /// # Errors
    /// Returns an error for each invalid field, with the allowed values.
    pub fn of_value(value: Value, files: Files) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let scenario = Scenario::take_from(&mut table, files);
        let plan = scenario.and_then(|(scenario, jitter)| table.note(Self::build(scenario, jitter)));
        table.finish(plan)
    }

    fn build(mut scenario: Scenario, jitter: Option<Span>) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        crate::scenario::size::check(&scenario, &mut errors);
        errors.finish(())?;
        let topology = Topology::new(&scenario.links, &scenario.traffic, &scenario.edges)?;
        let tcp = &scenario.tcp.checked;
        let full_packet = tcp.wire_bytes(2 * tcp.payload()) - tcp.wire_bytes(tcp.payload());
        scenario.jitter = jitter.unwrap_or_else(|| topology.slowest_managed().pace().time_for(full_packet));
        Self::with_chance(scenario, Arc::new(topology))
    }

    /// Builds the parts of the plan that draw random numbers.
    fn with_chance(scenario: Scenario, topology: Arc<Topology>) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let edges = Edges::new(&scenario.edges, scenario.chance(), &mut errors);
        let builder = WorkloadBuilder {
            seed: scenario.seed,
            duration: scenario.duration,
            topology: &topology,
            files: &scenario.files,
            link_header: scenario.link_header,
            tcp: &scenario.tcp,
        };
        let built = scenario.traffic.iter().enumerate();
        let workloads =
            built.filter_map(|(position, one)| errors.take(builder.workload(position, one))).collect();
        errors.finish(())?;
        Ok(Self { scenario, topology, edges, workloads, guests: &NoGuests })
    }

    /// Returns the plan with another seed.
    ///
    /// # Errors
    /// Returns an error if the scenario is invalid with this seed.
    pub fn with_seed(&self, seed: u64) -> Result<Self, ConfigErrors> {
        let mut scenario = self.scenario.clone();
        scenario.seed = seed;
        Ok(Self { guests: self.guests, ..Self::with_chance(scenario, Arc::clone(&self.topology))? })
    }

    /// Returns the scenario with all defaults filled in, as a JSON value. Parsing this value yields the same plan.
    pub fn to_value(&self) -> Value {
        self.scenario.to_value()
    }

    /// Returns the contents of the files to which the scenario refers, by name.
    pub fn files(&self) -> &Files {
        &self.scenario.files
    }

    /// Returns the workloads by position in the scenario.
    pub fn workloads(&self) -> impl Iterator<Item = PlannedWorkload<'_>> {
        self.scenario.traffic.iter().zip(&self.workloads).map(|(one, workload)| {
            let tcp = self.scenario.tcp_of(one);
            PlannedWorkload {
                name: &one.name,
                workload,
                hosts: one.config.hosts(),
                own_hosts: one.config.own_hosts(),
                sends_datagrams: one.config.sends_datagrams(),
                programs: one.config.programs(),
                simulated_only: one.config.simulated_only(),
                link_header: self.scenario.link_header,
                dscp: one.dscp,
                port: one.port,
                tcp: &tcp.config,
                checked_tcp: &tcp.checked,
                duration: self.scenario.duration,
                sampled: self.scenario.record.senders.contains(&one.name),
            }
        })
    }

    /// Returns the rate steps of a link in chronological order, or `None` if no link has this name.
    pub fn rate_steps(&self, link: &str) -> Option<impl Iterator<Item = (Instant, Rate)>> {
        let link = self.scenario.links.iter().find(|one| one.name == link)?;
        let end = Instant::START + self.scenario.duration;
        Some(link.rate_steps().take_while(move |&(at, _)| at < end))
    }

    /// Returns the length of the link header of each packet.
    pub fn link_header(&self) -> Size {
        self.scenario.link_header
    }

    /// Returns the sampling interval; zero disables sampling.
    pub fn sampled_every(&self) -> Span {
        self.scenario.record.queue_every
    }

    /// Returns whether any queue uses the senders' windows.
    pub fn needs_windows(&self) -> bool {
        managed(&self.scenario.links).any(|(_, _, queue)| queue.config.needs_windows())
    }

    /// Returns warnings about valid but suspicious values. Each warning begins with the path of the value.
    pub fn warnings(&self) -> Vec<String> {
        self.scenario.warnings()
    }
}

/// A workload of a plan, for use outside a simulation.
#[derive(Clone, Copy)]
pub struct PlannedWorkload<'a> {
    /// Name of the workload in the scenario.
    pub name: &'a str,
    /// The workload in its initial state; each run clones this object.
    #[allow(clippy::borrowed_box)] // Only the box can be cloned.
    pub workload: &'a Box<dyn Workload>,
    /// Number of hosts on each side; 1 if the flows share a host.
    pub hosts: u64,
    /// Whether each flow has its own host.
    pub own_hosts: bool,
    /// Whether the workload sends datagrams instead of using TCP.
    pub sends_datagrams: bool,
    /// The programs, if the workload consists of programs.
    pub programs: Option<Programs<'a>>,
    /// Reason why the workload can only be simulated; `None` if the workload can be run live.
    pub simulated_only: Option<&'static str>,
    /// Length of the link header of each packet.
    pub link_header: Size,
    /// DSCP of the packets.
    pub dscp: u8,
    /// Port number in the packets, if the scenario sets one.
    pub port: Option<u16>,
    /// TCP configuration before it is checked.
    pub tcp: &'a aqm_tcp::Config,
    /// TCP configuration after it has been checked.
    pub checked_tcp: &'a aqm_tcp::CheckedConfig,
    /// Duration of the run.
    pub duration: Span,
    /// Whether the state of the senders is recorded.
    pub sampled: bool,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scenario.fmt(f)
    }
}

/// Inputs for building the workloads of a scenario.
struct WorkloadBuilder<'a> {
    seed: u64,
    duration: Span,
    topology: &'a Topology,
    files: &'a Files,
    link_header: Size,
    /// TCP configuration of the workloads that have no TCP configuration of their own.
    tcp: &'a Tcp,
}

impl WorkloadBuilder<'_> {
    /// Builds the workload at `position`.
    fn workload(&self, position: usize, one: &Traffic) -> Result<Box<dyn Workload>, ConfigErrors> {
        let tcp = one.tcp.as_ref().unwrap_or(self.tcp);
        let context = BuildContext {
            name: &one.name,
            streams: Streams::new(self.seed),
            rate: self.topology.slowest(position),
            duration: self.duration,
            packetisation: &Segments(&tcp.checked),
            link_header: self.link_header,
            file: one.config.file().and_then(|name| self.files.get(name)).map(String::as_str),
        };
        let built = one.config.build(&context);
        built.map_err(|error| ConfigErrors::from(error).within(&format!("traffic.{}", one.name)))
    }
}

/// The rule by which TCP divides transfers into segments. Workloads need this rule to compute their load on the link.
struct Segments<'a>(&'a aqm_tcp::CheckedConfig);

impl Packetisation for Segments<'_> {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        self.0.wire_bytes(bytes)
    }
    fn payload(&self) -> u64 {
        self.0.payload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_their_own_or_the_scenarios_settings() {
        let text = r#"
            duration = "9s"
            bottleneck = { rate = "10Mbps", delay = "5ms", queue = { kind = "drop-tail", limit = "50p" } }
            tcp = { connection = { mss = "1000B" } }
            [traffic.bulk]
            kind = "ftp"
            flows = 7
            dscp = 10
            port = 21
            tcp = { connection = { mss = "536B" } }
            [traffic.voice]
            kind = "udp"
            rate = "64kbps"
            hosts = "shared"
        "#;
        let plan = Plan::of_toml(text, Files::default()).unwrap();
        let [bulk, voice] = plan.workloads().collect::<Vec<_>>().try_into().ok().unwrap();
        assert_eq!((bulk.name, bulk.hosts, bulk.own_hosts, bulk.sends_datagrams), ("bulk", 7, true, false));
        assert_eq!((bulk.dscp, bulk.port, bulk.tcp.connection.mss.bytes()), (10, Some(21), 536));
        assert_eq!(
            (voice.name, voice.hosts, voice.own_hosts, voice.sends_datagrams),
            ("voice", 1, false, true)
        );
        assert_eq!((voice.dscp, voice.port, voice.checked_tcp.payload()), (0, None, 1000));
        assert_eq!(voice.duration, Span::from_millis(9000));
    }

    #[test]
    fn the_rate_of_a_link_steps_until_the_end_of_the_run() {
        let steps = |keys: &str, link: &str| {
            let text = format!(
                r#"
                duration = "5s"
                bottleneck = {{ rate = "8Mbps", queue = {{ kind = "drop-tail" }}, {keys} }}
                traffic = {{ bulk = {{ kind = "ftp" }} }}
                "#
            );
            let files = Files::from([("rates.csv".to_owned(), "1,2Mbps\n3,4Mbps\n".to_owned())]);
            let plan = Plan::of_toml(&text, files).unwrap();
            let in_words = |(at, rate): (Instant, Rate)| (at.seconds(), rate.to_string());
            plan.rate_steps(link).map(|steps| steps.map(in_words).collect::<Vec<_>>())
        };
        let step = |at, rate: &str| (at, rate.to_owned());
        let written = r#"rate_steps = [{ at = "1s", rate = "2Mbps" }, { at = "2s", rate = "0bps" }]"#;
        let once = vec![step(1.0, "2Mbps"), step(2.0, "0bps")];
        assert_eq!(steps(written, "bottleneck"), Some(once.clone()));
        let again = [once, vec![step(4.0, "2Mbps")]].concat();
        assert_eq!(steps(&format!(r#"{written}, rate_repeat = "3s""#), "bottleneck"), Some(again));
        let of_file = vec![step(1.0, "2Mbps"), step(3.0, "4Mbps")];
        assert_eq!(steps(r#"rate_file = "rates.csv""#, "bottleneck"), Some(of_file));
        assert_eq!(steps(written, "bottleneck-back"), Some(Vec::new()));
        assert_eq!(steps(written, "middle"), None);
    }
}
