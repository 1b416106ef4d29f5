//! Scenarios of all levels. A text is read once into a plan, which Python keeps and runs.

use std::any::Any;
use std::path::Path;

use aqm_net::ConfigError;
use aqm_net::level::{self, Files, Run};
use aqm_net::watch::Unit;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;

use crate::LEVELS;
use crate::error::{TraceError, of_failure, to_python};
use crate::table::PyTable;

/// The text of a scenario, of which only the level has been read.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Document(level::Document);

#[pymethods]
impl Document {
    /// Reads TOML; relative paths are relative to `folder`.
    #[staticmethod]
    fn of_toml(py: Python<'_>, text: &str, folder: &str) -> PyResult<Self> {
        let document = level::Document::of_toml(text, Path::new(folder), &LEVELS);
        document.map(Self).map_err(|errors| to_python(py, errors))
    }

    /// Reads JSON.
    #[staticmethod]
    fn of_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        level::Document::of_json(text, &LEVELS).map(Self).map_err(|errors| to_python(py, errors))
    }

    /// The scenario as written, as JSON.
    #[getter]
    fn json(&self) -> String {
        self.0.value().to_string()
    }

    /// The names of the files that are needed to read the scenario.
    #[getter]
    fn files(&self) -> Vec<String> {
        self.0.files()
    }

    /// Reads and checks the whole scenario; `files` contains the contents of its files.
    fn plan(&self, py: Python<'_>, files: Files) -> PyResult<Plan> {
        py.detach(|| self.0.plan(files)).map(Plan).map_err(|errors| to_python(py, errors))
    }
}

/// A scenario that was read and checked.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Plan(pub(crate) Box<dyn level::Plan>);

#[pymethods]
impl Plan {
    /// The scenario's `level`.
    #[getter]
    fn level(&self) -> &'static str {
        self.0.level().name()
    }

    /// The scenario with all defaults filled in, as JSON.
    #[getter]
    fn effective(&self) -> String {
        self.0.to_value().to_string()
    }

    /// Warnings about valid but suspicious values. Each warning begins with the path of the value.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// The parameters that queues derive, as JSON: by link and parameter, each a `value` with its `unit`.
    #[getter]
    fn derived(&self) -> String {
        self.0.derived().to_string()
    }

    /// Returns the first `most` rate steps of a link in a run, as times in seconds and rates. Raises KeyError if there
    /// is no link with this name.
    fn rate_steps(&self, link: &str, most: usize) -> PyResult<Vec<(f64, String)>> {
        let plan: &dyn Any = self.0.as_ref();
        let steps = plan.downcast_ref::<aqm_sim::Plan>().and_then(|plan| plan.rate_steps(link));
        let steps = steps.ok_or_else(|| PyKeyError::new_err(link.to_owned()))?;
        Ok(steps.take(most).map(|(at, rate)| (at.seconds(), rate.to_string())).collect())
    }

    /// Returns the name of the result. Files that a run opens itself are read for this purpose.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.digest()).map_err(|failure| of_failure(py, &failure))
    }

    /// Runs the plan, with another seed if `seed` is given. Other Python threads run meanwhile, and may use `watch`.
    #[pyo3(signature = (watch, seed = None))]
    fn run(&self, py: Python<'_>, watch: &Watch, seed: Option<&Bound<'_, PyAny>>) -> PyResult<Output> {
        let run = match seed {
            None => py.detach(|| self.0.run(&watch.0)),
            Some(seed) => {
                let wrong = |_| {
                    let problem = format!("must be a whole number from 0 to {} (got {seed})", u64::MAX);
                    to_python(py, ConfigError::at("seed", problem))
                };
                let seed = seed.extract().map_err(wrong)?;
                let plan = self.0.with_seed(seed).map_err(|errors| to_python(py, errors))?;
                py.detach(|| plan.run(&watch.0))
            }
        };
        run.map(Output).map_err(|failure| of_failure(py, &failure))
    }

    /// Writes the generated trace of a scenario to a file; returns its counts as JSON.
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

/// The progress of a run for another thread, which may stop the run.
#[pyclass(frozen, module = "aqmlab._core")]
#[derive(Default)]
pub(crate) struct Watch(pub(crate) aqm_net::watch::Watch);

#[pymethods]
impl Watch {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Returns the progress and its total: nanoseconds of simulated time, or bytes of a file. The total is zero if it
    /// is not known yet.
    fn progress(&self) -> (u64, u64) {
        self.0.progress()
    }

    /// The unit of the progress: `ns` of simulated time, `B` of a file, or `s` of real time, which is counted in
    /// nanoseconds.
    #[getter]
    fn unit(&self) -> &'static str {
        match self.0.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::RealTime => "s",
        }
    }

    /// Pauses the run when it has reached this number of seconds of its time, or up to `record.queue_every` later,
    /// until it may continue.
    fn hold(&self, until_s: f64) {
        self.0.limit((until_s * 1e9) as u64);
    }

    /// Returns the state of the queues as JSON (`aqm_net::watch::View`), if the run has shown a view since the last
    /// call, and requests another view.
    fn view(&self) -> Option<String> {
        // A view consists of numbers and words, so serialising it cannot fail.
        self.0.view().and_then(|view| serde_json::to_string(&view).ok())
    }

    /// Stops the run soon, which then raises KeyboardInterrupt.
    fn stop(&self) {
        self.0.stop();
    }
}

/// The results of a run.
#[pyclass(frozen, module = "aqmlab._core")]
pub(crate) struct Output(pub(crate) Run);

#[pymethods]
impl Output {
    /// The scenario with all defaults, its digest and versions, as JSON.
    #[getter]
    fn manifest(&self) -> String {
        self.0.manifest.to_string()
    }

    /// Number of events handled; at flow level, flows that arrived and departed; for a trace, packets that arrived.
    #[getter]
    fn events(&self) -> u64 {
        self.0.events
    }

    /// Packets sent by the first managed link, or by the link of a trace, over the whole run; None at flow level.
    #[getter]
    fn forwarded(&self) -> Option<u64> {
        self.0.forwarded
    }

    /// Returns a digest of every value of every table, which is computed on demand.
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.digest())
    }

    /// Returns the names of the tables.
    fn names(&self) -> Vec<&'static str> {
        self.0.tables.iter().map(|table| table.name).collect()
    }

    /// Returns the table with this name; raises KeyError if there is none.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<PyTable> {
        let found = self.0.tables.iter().find(|table| table.name == name);
        let table = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        py.detach(|| PyTable::new(table)).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}
