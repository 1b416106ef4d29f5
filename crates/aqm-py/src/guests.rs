//! The border between two guests in other programs and a path (`aqm_path::guests`). Python exchanges the frames with the
//! programs.

use aqm_net::level::Files;
use aqm_path::guests::{self, EndReport, Fault, Problem, Recorded, Setup, frames};
use aqm_path::{Config, Instant, Path};
use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::error::to_python;

create_exception!(
    aqmlab._core,
    GuestFault,
    PyRuntimeError,
    "A guest violated the contract. The message contains the end of the path, the time and the violation."
);

fn of_fault(fault: &Fault) -> PyErr {
    GuestFault::new_err(fault.to_string())
}

/// The border between two guests and a path.
#[pyclass(module = "aqmlab._core")]
pub(crate) struct Border(guests::Border);

#[pymethods]
impl Border {
    /// Creates a border. `path` is the configuration of a path as JSON, `files` contains the contents of the files to which
    /// the configuration refers, and `configs` contains the configurations of both guests. `until` is in nanoseconds.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "arguments in Python")]
    fn new(
        py: Python<'_>,
        path: &str,
        files: Files,
        seed: u64,
        configs: [String; 2],
        until: u64,
        header: usize,
    ) -> PyResult<Self> {
        let path = Config::from_json(path).and_then(|mut config| {
            for (name, contents) in files {
                config = config.with_file(&name, &contents);
            }
            Path::new(&config.with_seed(seed))
        });
        let path = path.map_err(|errors| to_python(py, errors))?;
        let until = Instant::from_nanos(until);
        let setup = Setup { seed, configs, until, header, ..Setup::default() };
        Ok(Self(guests::Border::new(path, setup)))
    }

    /// Returns the next call: the end of the path (0 or 1), and the frame of the request. Returns None at the end of the
    /// run.
    fn next<'py>(&mut self, py: Python<'py>) -> Option<(usize, Bound<'py, PyBytes>)> {
        let call = self.0.next_call()?;
        Some((call.end() as usize, PyBytes::new(py, &frames::request(call))))
    }

    /// Handles the body of an answer. Raises GuestFault if the answer violates the contract.
    fn answer(&mut self, body: &[u8]) -> PyResult<()> {
        frames::answer(&mut self.0, body).map_err(|fault| of_fault(&fault))
    }

    /// Ends the run, because the program that was called last does not answer. Raises GuestFault.
    fn fail(&mut self, problem: String) -> PyResult<()> {
        Err(of_fault(&self.0.fail(Problem::Program(problem))))
    }

    /// Returns the last requests with their answers, one line each.
    fn last_exchanges(&self) -> Vec<String> {
        self.0.last_exchanges().map(str::to_owned).collect()
    }

    /// Returns the counts of both ends, the time at which the guests were stopped, the digest, and the events, as JSON.
    /// Raises GuestFault if a guest violated the contract.
    fn report(&self) -> PyResult<String> {
        let report = self.0.report().map_err(|fault| of_fault(&fault))?;
        let end = |end: &EndReport| {
            let EndReport { calls, sent, sent_bytes, delivered, dropped, in_transit } = *end;
            json!({
                "calls": calls, "sent": sent, "sent_bytes": sent_bytes, "delivered": delivered,
                "dropped": dropped, "in_transit": in_transit,
            })
        };
        let event = |one: &Recorded| json!([one.at.nanos(), one.end.name(), one.event.name, one.event.value]);
        Ok(json!({
            "ends": report.ends.each_ref().map(end),
            "stopped_at": report.stopped_at.nanos(),
            "digest": report.digest,
            "events": report.events.iter().map(event).collect::<Vec<_>>(),
        })
        .to_string())
    }
}

/// Adds the border to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("GuestFault", module.py().get_type::<GuestFault>())?;
    module.add_class::<Border>()
}
