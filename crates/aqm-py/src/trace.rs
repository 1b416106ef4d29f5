//! The door for traces: what may take long tells how far it is, and can be stopped.

use aqm_net::ConfigErrors;
use aqm_trace::Scenario;
use pyo3::prelude::*;

use crate::error::{of_trace, to_python};
use crate::{Output, parse};

/// How far a replay is, for another thread.
#[pyclass(frozen, module = "aqmlab._core")]
#[derive(Default)]
pub(crate) struct Watch {
    inner: aqm_trace::Watch,
}

#[pymethods]
impl Watch {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// How much is done, and of how much: bytes of a file, nanoseconds of a generated trace. Of zero if that
    /// is not known yet.
    fn progress(&self) -> (u64, u64) {
        self.inner.progress()
    }

    /// Stops the replay soon, which then raises KeyboardInterrupt.
    fn stop(&self) {
        self.inner.stop();
    }
}

fn read(text: &str) -> Result<Scenario, ConfigErrors> {
    Scenario::from_value(parse(text)?)
}

/// Checks a scenario of a trace (JSON) and returns it in full with its digest: `(json, digest)`. The digest
/// covers the file that the scenario names, which is read for it.
#[pyfunction]
pub(crate) fn check_trace(py: Python<'_>, scenario: &str) -> PyResult<(String, String)> {
    let scenario = read(scenario).map_err(|e| to_python(py, e))?;
    let digest = py.detach(|| aqm_trace::digest(&scenario)).map_err(|e| of_trace(py, &e))?;
    Ok((scenario.to_value().to_string(), digest))
}

/// Replays a trace through a queue (JSON). Other Python threads go on meanwhile.
#[pyfunction]
pub(crate) fn run_trace(py: Python<'_>, scenario: &str, watch: &Watch) -> PyResult<Output> {
    let scenario = read(scenario).map_err(|e| to_python(py, e))?;
    let aqm_trace::Run { tables, manifest, packets, sent } =
        py.detach(|| aqm_trace::run(&scenario, &watch.inner)).map_err(|e| of_trace(py, &e))?;
    Ok(Output { tables, manifest, events: packets, forwarded: Some(sent) })
}

/// Writes the generated trace of a scenario (JSON) to a file; returns how much, as JSON.
#[pyfunction]
pub(crate) fn write_trace(py: Python<'_>, scenario: &str, path: &str, watch: &Watch) -> PyResult<String> {
    let scenario = read(scenario).map_err(|e| to_python(py, e))?;
    let written = py.detach(|| aqm_trace::write(&scenario, path, &watch.inner));
    written.map(|facts| facts.to_string()).map_err(|e| of_trace(py, &e))
}
