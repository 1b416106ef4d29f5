//! A run of a plan. A run clones the objects of the plan, simulates with these clones, and returns the tables and the
//! manifest.

use aqm_net::level::{self, Failure, Level, Run};
use aqm_net::watch::{Unit, Watch};
use aqm_net::{ConfigError, ConfigErrors};
use serde_json::{Map, Value, json};

use crate::PACKET_LEVEL;
use crate::network::{LaneNetwork, Network};
use crate::results::rows::tables;
use crate::scenario::plan::Plan;
use crate::world::World;

impl Plan {
    /// Returns the digest of the plan, which identifies the result of a run.
    pub fn digest(&self) -> String {
        let files = self.scenario.files.iter().map(|(name, content)| (name.as_str(), content.as_str()));
        let others: Vec<(&str, String)> = self.libraries().chain(self.programs()).collect();
        level::digest(self, files.chain(others.iter().map(|(name, version)| (*name, version.as_str()))))
    }

    /// Returns the names of the workloads whose results depend on a library, and the name and version of the library.
    pub fn libraries(&self) -> impl Iterator<Item = (&str, String)> {
        self.scenario.traffic.iter().filter_map(|one| Some((one.name.as_str(), one.config.library()?)))
    }

    /// Returns the names of the workloads whose guests are programs, and a digest of the files of the client and of the
    /// server.
    fn programs(&self) -> impl Iterator<Item = (&str, String)> {
        self.scenario.traffic.iter().filter_map(|one| {
            let digests = one.config.guest_programs()?.map(|command| self.guests.program_digest(command));
            let [Some(client), Some(server)] = digests else { return None };
            Some((one.name.as_str(), format!("{client} {server}")))
        })
    }

    /// Runs the plan and reports progress in simulated time to `watch`.
    ///
    /// # Errors
    /// Returns an error if `watch` stops the run, or if a guest is not available or violates its contract.
    pub fn run(&self, watch: &Watch) -> Result<Run, Failure> {
        self.run_on(LaneNetwork::new(self), watch)
    }

    pub(crate) fn run_on(&self, network: impl Network, watch: &Watch) -> Result<Run, Failure> {
        self.refuse_programs()?;
        watch.expect(self.scenario.duration.nanos(), Unit::Nanoseconds);
        let mut record = World::new(self, network).run(watch)?;
        let forwarded = record.after.links.first().map_or(0, |snapshot| snapshot.counters.departures);
        let (mut manifest, events) = (self.manifest(&record.facts), record.events);
        if let Some(qdiscs) = record.qdiscs.take() {
            manifest["qdiscs"] = qdiscs;
        }
        Ok(Run { tables: tables(&self.scenario, record), manifest, events, forwarded: Some(forwarded) })
    }

    /// Returns an error if the plan has programs, because a simulation cannot predict the data that programs send.
    fn refuse_programs(&self) -> Result<(), ConfigError> {
        let Some(one) = self.scenario.traffic.iter().find(|one| one.config.programs().is_some()) else {
            return Ok(());
        };
        let problem = "can only be used in a live run (`aqmlab live run`), because it runs programs";
        Err(ConfigError::at(format!("traffic.{}.kind", one.name), problem))
    }

    /// Returns the manifest of a run. `facts` contains the names and values of the quantities that the workloads report
    /// about their loads, by position of the workload.
    pub fn manifest(&self, facts: &[Vec<(&'static str, f64)>]) -> Value {
        let mut manifest = level::manifest(self, self.digest(), self.facts(facts), self.scenario.warnings());
        let libraries: Map<String, Value> =
            self.libraries().map(|(name, library)| (name.to_owned(), library.into())).collect();
        if !libraries.is_empty() {
            manifest["libraries"] = Value::Object(libraries);
        }
        manifest["edges_added"] = self.scenario.edges_added.into();
        manifest["derived"] = self.derived();
        manifest
    }

    /// Returns the parameters that the queues of links derived from other parameters. The result contains the value and
    /// the unit of each parameter, by link.
    fn derived(&self) -> Value {
        let mut of_links = Map::new();
        for link in &self.scenario.links {
            let derived = link.queue.iter().flat_map(|queue| queue.config.derived(link.rate));
            let of_link: Map<String, Value> =
                derived.map(|one| (one.name, json!({"value": one.value, "unit": one.unit}))).collect();
            if !of_link.is_empty() {
                of_links.insert(link.name.clone(), Value::Object(of_link));
            }
        }
        Value::Object(of_links)
    }

    /// Returns the names and values of the quantities that the workloads report about their loads, in the format of the
    /// manifest.
    fn facts(&self, facts: &[Vec<(&'static str, f64)>]) -> Value {
        let traffic = self.scenario.traffic.iter().zip(facts);
        let facts = traffic.map(|(one, facts)| {
            let facts = facts.iter().map(|&(name, value)| (name.to_owned(), json!(value)));
            (one.name.clone(), Value::Object(facts.collect()))
        });
        Value::Object(facts.collect())
    }
}

impl level::Plan for Plan {
    fn level(&self) -> &'static dyn Level {
        &PACKET_LEVEL
    }
    fn to_value(&self) -> Value {
        self.to_value()
    }
    fn seed(&self) -> u64 {
        self.scenario.seed
    }
    fn with_seed(&self, seed: u64) -> Result<Box<dyn level::Plan>, ConfigErrors> {
        Ok(Box::new(self.with_seed(seed)?))
    }
    fn warnings(&self) -> Vec<String> {
        self.warnings()
    }
    fn derived(&self) -> Value {
        self.derived()
    }
    fn digest(&self) -> Result<String, Failure> {
        Ok(self.digest())
    }
    fn run(&self, watch: &Watch) -> Result<Run, Failure> {
        self.run(watch)
    }
}
