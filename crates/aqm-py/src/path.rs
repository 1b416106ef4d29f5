//! Network paths without I/O and clock (`aqm-path`).

use aqm_net::level::Files;
use aqm_net::{ConfigError, ConfigErrors};
use aqm_path::{
    Config, Datagram, Direction, Ecn, FlowId, FlowOptions, Instant, Mark, Outcome, OutcomeDigest, Protocol,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;
use std::any::Any;

use crate::error::to_python;
use crate::plan::Plan;

/// Names of ECN codepoints.
const CODEPOINTS: [(&str, Ecn); 4] =
    [("not-ect", Ecn::NotEct), ("ect1", Ecn::Ect1), ("ect0", Ecn::Ect0), ("ce", Ecn::Ce)];

/// Names of directions.
const DIRECTIONS: [(&str, Direction); 2] = [("forward", Direction::Forward), ("reverse", Direction::Reverse)];

/// Names of protocols.
const PROTOCOLS: [(&str, Protocol); 2] = [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];

/// The outcome of a datagram: number, flow, direction and time in nanoseconds; then either the ECN codepoint and the
/// mark, or the link and the reason of the drop. A mark consists of link, reason and time.
type PyOutcome<'a> = (
    u64,
    u32,
    &'static str,
    u64,
    Option<&'static str>,
    Option<(&'a str, &'static str, u64)>,
    Option<(&'a str, &'static str)>,
);

fn read<T: Copy>(what: &str, given: &str, all: &[(&str, T)]) -> PyResult<T> {
    let found = all.iter().find(|(name, _)| *name == given);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&(name, _)| name).collect();
        PyValueError::new_err(format!("{what}: {}", aqm_net::unknown("name", given, &names)))
    })
}

fn name<T: Copy + PartialEq>(value: T, all: &[(&'static str, T)]) -> &'static str {
    all.iter().find(|&&(_, other)| other == value).map_or("", |&(name, _)| name)
}

/// A path, which transports datagrams between two ends.
#[pyclass(module = "aqmlab._core")]
pub(crate) struct Path {
    path: aqm_path::Path,
    digest: OutcomeDigest,
}

impl Path {
    fn of_config(
        config: Result<Config, ConfigErrors>,
        files: Files,
        seed: Option<u64>,
    ) -> Result<Self, ConfigErrors> {
        let mut config = config?;
        for (name, contents) in files {
            config = config.with_file(&name, &contents);
        }
        if let Some(seed) = seed {
            config = config.with_seed(seed);
        }
        Ok(Self { path: aqm_path::Path::new(&config)?, digest: OutcomeDigest::default() })
    }
}

#[pymethods]
impl Path {
    /// Creates a path from a TOML text. `files` contains the contents of the files to which the text refers.
    #[staticmethod]
    fn of_toml(py: Python<'_>, text: &str, files: Files, seed: Option<u64>) -> PyResult<Self> {
        Self::of_config(Config::from_toml(text), files, seed).map_err(|errors| to_python(py, errors))
    }

    /// Creates a path from a JSON text. `files` contains the contents of the files to which the text refers.
    #[staticmethod]
    fn of_json(py: Python<'_>, text: &str, files: Files, seed: Option<u64>) -> PyResult<Self> {
        Self::of_config(Config::from_json(text), files, seed).map_err(|errors| to_python(py, errors))
    }

    /// Creates a path from the network of a scenario at packet level.
    #[staticmethod]
    fn of_plan(py: Python<'_>, plan: &Plan, seed: Option<u64>) -> PyResult<Self> {
        let any: &dyn Any = plan.0.as_ref();
        let Some(plan) = any.downcast_ref::<aqm_sim::Plan>() else {
            let problem = "must be `packet`: scenarios of other levels do not have a network";
            return Err(to_python(py, ConfigError::at("level", problem)));
        };
        let path = match seed {
            None => aqm_path::Path::of_plan(plan),
            Some(seed) => {
                let plan = plan.with_seed(seed).map_err(|errors| to_python(py, errors))?;
                aqm_path::Path::of_plan(&plan)
            }
        };
        Ok(Self { path, digest: OutcomeDigest::default() })
    }

    /// Returns the names of the files to which a TOML text refers.
    #[staticmethod]
    fn files_of(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
        let files = Config::from_toml(text).and_then(|config| config.files());
        files.map_err(|errors| to_python(py, errors))
    }

    /// Opens a flow and returns the number of the flow.
    #[expect(clippy::too_many_arguments, reason = "arguments in Python")]
    fn open_flow(
        &mut self,
        traffic: Option<String>,
        host: u32,
        protocol: Option<&str>,
        port: Option<u16>,
        dscp: Option<u8>,
    ) -> PyResult<u32> {
        let protocol = protocol.map(|given| read("protocol", given, &PROTOCOLS)).transpose()?;
        let options = FlowOptions { traffic, host, protocol, port, dscp };
        let flow = self.path.open_flow_with(&options);
        flow.map(FlowId::number).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Sends a datagram and returns the number of the datagram. `now` is in nanoseconds.
    #[expect(clippy::too_many_arguments, reason = "arguments in Python")]
    fn send(&mut self, flow: u32, direction: &str, size: usize, now: u64, ecn: &str) -> PyResult<u64> {
        let direction = read("direction", direction, &DIRECTIONS)?;
        let ecn = read("ecn", ecn, &CODEPOINTS)?;
        let datagram = Datagram { flow: FlowId::from_number(flow), direction, bytes: size, ecn };
        let id = self.path.send(datagram, Instant::from_nanos(now));
        id.map(|id| id.number()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the next outcome up to `now`, which is in nanoseconds.
    fn poll(&mut self, now: u64) -> Option<PyOutcome<'_>> {
        let outcome = self.path.poll(Instant::from_nanos(now))?;
        self.digest.add(&outcome);
        let (id, flow) = (outcome.id().number(), outcome.flow().number());
        let (direction, at) = (name(outcome.direction(), &DIRECTIONS), outcome.at().nanos());
        Some(match outcome {
            Outcome::Delivered { ecn, mark, .. } => {
                let mark = mark
                    .map(|Mark { link, reason, at }| (self.path.link_name(link), reason.name(), at.nanos()));
                (id, flow, direction, at, Some(name(ecn, &CODEPOINTS)), mark, None)
            }
            Outcome::Dropped { link, reason, .. } => {
                (id, flow, direction, at, None, None, Some((self.path.link_name(link), reason.name())))
            }
        })
    }

    /// Returns the time in nanoseconds at which `poll` should be called next.
    fn next_due(&self) -> Option<u64> {
        self.path.next_due().map(Instant::nanos)
    }

    /// Returns the number of datagrams on the path.
    #[getter]
    fn in_transit(&self) -> u64 {
        self.path.in_transit()
    }

    /// Returns the state of the links with a queue, as JSON.
    fn links(&mut self) -> String {
        json!(self.path.links()).to_string()
    }

    /// Returns the digest of all outcomes that `poll` has returned.
    fn digest(&self) -> String {
        self.digest.clone().finish()
    }
}
