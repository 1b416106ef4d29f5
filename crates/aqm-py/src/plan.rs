//! Scenarios of all levels. The text of a scenario is parsed once into a plan, and Python can run the plan several
//! times.

use std::any::Any;
use std::path::Path;

use aqm_net::ConfigError;
use aqm_net::level::{self, Files, Run};
use aqm_net::watch::Unit;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;

use crate::LEVELS;
use crate::error::{TraceError, of_failure, to_python};
use crate::guest_sources;
use crate::table::{self, PyTable};

/// The text of a scenario, of which only the key `level` has been checked so far.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Document(level::Document);

#[pymethods]
impl Document {
    /// Parses a TOML text. Relative paths in the text are resolved relative to `folder`.
    #[staticmethod]
    fn of_toml(py: Python<'_>, text: &str, folder: &str) -> PyResult<Self> {
        let document = level::Document::of_toml(text, Path::new(folder), &LEVELS);
        document.map(Self).map_err(|errors| to_python(py, errors))
    }

    /// Parses a JSON text.
    #[staticmethod]
    fn of_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        level::Document::of_json(text, &LEVELS).map(Self).map_err(|errors| to_python(py, errors))
    }

    /// Returns the scenario as JSON, without defaults.
    #[getter]
    fn json(&self) -> String {
        self.0.value().to_string()
    }

    /// Returns the names of the files that the scenario refers to and that must be read before `plan` is called.
    #[getter]
    fn files(&self) -> Vec<String> {
        self.0.files()
    }

    /// Parses and checks the whole scenario. `files` contains the contents of the files that the scenario refers to.
    fn plan(&self, py: Python<'_>, files: Files) -> PyResult<Plan> {
        py.detach(|| self.0.plan(files)).map(Plan).map_err(|errors| to_python(py, errors))
    }
}

/// A scenario that was parsed and checked.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Plan(pub(crate) Box<dyn level::Plan>);

#[pymethods]
impl Plan {
    /// Returns the scenario's `level`.
    #[getter]
    fn level(&self) -> &'static str {
        self.0.level().name()
    }

    /// Returns the scenario with all defaults filled in, as JSON.
    #[getter]
    fn effective(&self) -> String {
        self.0.to_value().to_string()
    }

    /// Returns warnings about valid but suspicious values. Each warning begins with the path of the value.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// Returns, as JSON, the parameters that queues derive from other parameters. For each link and parameter, the
    /// result contains a `value` and its `unit`.
    #[getter]
    fn derived(&self) -> String {
        self.0.derived().to_string()
    }

    /// Returns the first `most` rate steps of a link. Each step is a pair that consists of a time in seconds and a
    /// rate. Raises KeyError if no link has this name.
    fn rate_steps(&self, link: &str, most: usize) -> PyResult<Vec<(f64, String)>> {
        let plan: &dyn Any = self.0.as_ref();
        let steps = plan.downcast_ref::<aqm_sim::Plan>().and_then(|plan| plan.rate_steps(link));
        let steps = steps.ok_or_else(|| PyKeyError::new_err(link.to_owned()))?;
        Ok(steps.take(most).map(|(at, rate)| (at.seconds(), rate.to_string())).collect())
    }

    /// Returns the digest of the plan, which identifies the result of a run. To compute the digest, this function also
    /// reads the files that a run opens itself.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.digest()).map_err(|failure| of_failure(py, &failure))
    }

    /// Runs the plan. If `seed` is set, it replaces the seed of the plan. `guests` is the path of the program
    /// `aqmlab-guests`, which is needed for the stacks of guests. During the run, other Python threads continue to run and
    /// may use `watch`.
    #[pyo3(signature = (watch, seed = None, guests = None))]
    fn run(
        &self,
        py: Python<'_>,
        watch: &Watch,
        seed: Option<&Bound<'_, PyAny>>,
        guests: Option<&str>,
    ) -> PyResult<Output> {
        let run = match seed {
            None => py.detach(|| guest_sources::run(self.0.as_ref(), guests, &watch.0)),
            Some(seed) => {
                let wrong = |_| {
                    let problem = format!("must be a whole number from 0 to {} (got {seed})", u64::MAX);
                    to_python(py, ConfigError::at("seed", problem))
                };
                let seed = seed.extract().map_err(wrong)?;
                let plan = self.0.with_seed(seed).map_err(|errors| to_python(py, errors))?;
                py.detach(|| guest_sources::run(plan.as_ref(), guests, &watch.0))
            }
        };
        let output = run.map(|finished| Output { run: finished.run, other_cpu_s: finished.cpu_s });
        output.map_err(|failure| of_failure(py, &failure))
    }

    /// Writes the generated trace of a scenario to a file, and returns, as JSON, counts that describe the trace.
    fn write_trace(&self, py: Python<'_>, path: &str, watch: &Watch) -> PyResult<String> {
        let plan: &dyn Any = self.0.as_ref();
        let Some(trace) = plan.downcast_ref::<aqm_trace::Scenario>() else {
            return Err(TraceError::new_err(format!(
                "{path}: only a generated trace (`source.kind = \"generated\"`) can be written"
            )));
        };
        let written = py.detach(|| aqm_trace::write(trace, path, &watch.0));
        written.map(|facts| facts.to_string()).map_err(|failure| of_failure(py, &failure))
    }
}

/// The progress of a run. Another thread can read the progress and stop the run.
#[pyclass(frozen, module = "aqmlab._core")]
#[derive(Default)]
pub(crate) struct Watch(pub(crate) aqm_net::watch::Watch);

#[pymethods]
impl Watch {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Returns the progress and the total, both in nanoseconds of simulated time or in bytes of a file. As long as the
    /// total is unknown, it is zero.
    fn progress(&self) -> (u64, u64) {
        self.0.progress()
    }

    /// Returns the unit of the progress: `ns` for simulated time, `B` for bytes of a file, or `s` for real time, which
    /// is also counted in nanoseconds.
    #[getter]
    fn unit(&self) -> &'static str {
        match self.0.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::RealTime => "s",
        }
    }

    /// Pauses the run when its time reaches `until_s` seconds, or up to `record.queue_every` later. The run continues
    /// when a later time is set.
    fn hold(&self, until_s: f64) {
        self.0.limit((until_s * 1e9) as u64);
    }

    /// Returns the state of the queues as JSON (`aqm_net::watch::View`) and requests a new state from the run. Returns
    /// None if the run has not supplied a state since the last call.
    fn view(&self) -> Option<String> {
        // A view consists of numbers and words, so its serialisation cannot fail.
        self.0.view().and_then(|view| serde_json::to_string(&view).ok())
    }

    /// Requests that the run stop. The run stops soon afterwards and raises KeyboardInterrupt.
    fn stop(&self) {
        self.0.stop();
    }

    /// Returns whether the run must stop, for runs that another program executes.
    #[getter]
    fn stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Sets the progress and the total of a run that another program executes, both in nanoseconds of simulated time.
    fn show_progress(&self, done: u64, total: u64) {
        self.0.expect(total, Unit::Nanoseconds);
        self.0.reach(done);
    }
}

/// The results of a run.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Output {
    pub(crate) run: Run,
    /// CPU time of another process that simulated, in seconds.
    other_cpu_s: f64,
}

impl Output {
    /// Returns the output of a run in this process.
    pub(crate) fn here(run: Run) -> Self {
        Self { run, other_cpu_s: 0.0 }
    }
}

#[pymethods]
impl Output {
    /// Returns, as JSON, the scenario with all defaults filled in, the scenario's digest, and version numbers.
    #[getter]
    fn manifest(&self) -> String {
        self.run.manifest.to_string()
    }

    /// Returns the number of events that the run processed. At flow level, events are arrivals and departures of flows;
    /// for a trace, events are arrivals of packets.
    #[getter]
    fn events(&self) -> u64 {
        self.run.events
    }

    /// Returns the number of packets that the first managed link (for a trace, the link of the trace) sent during the
    /// whole run; None at flow level.
    #[getter]
    fn forwarded(&self) -> Option<u64> {
        self.run.forwarded
    }

    /// Returns the CPU time, in seconds, of another process that simulated; zero if this process simulated.
    #[getter]
    fn other_cpu_s(&self) -> f64 {
        self.other_cpu_s
    }

    /// Computes and returns a digest of all values in all tables.
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.run.digest())
    }

    /// Returns all tables as JSON (`table::to_value`).
    fn tables(&self, py: Python<'_>) -> String {
        py.detach(|| serde_json::Value::from_iter(self.run.tables.iter().map(table::to_value)).to_string())
    }

    /// Returns the names of the tables.
    fn names(&self) -> Vec<&'static str> {
        self.run.tables.iter().map(|table| table.name).collect()
    }

    /// Returns the table with this name. Raises KeyError if no table has this name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<PyTable> {
        let found = self.run.tables.iter().find(|table| table.name == name);
        let table = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        py.detach(|| PyTable::new(table)).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}
