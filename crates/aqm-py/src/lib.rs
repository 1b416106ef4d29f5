//! The door to Python: text goes in, tables come out, and nothing else crosses.

mod error;
mod table;
mod trace;

use std::collections::BTreeMap;

use aqm_net::table::{Table, TableDoc};
use aqm_net::{ConfigError, ConfigErrors};
use aqm_sim::Scenario;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;

use crate::error::{ScenarioError, TraceError, to_python};
use crate::table::PyTable;

/// What a run leaves behind.
#[pyclass(frozen, name = "Output", module = "aqmlab._core")]
pub(crate) struct Output {
    tables: Vec<Table>,
    manifest: Value,
    events: u64,
    forwarded: Option<u64>,
}

#[pymethods]
impl Output {
    /// The scenario in full, its digest and versions, as JSON.
    #[getter]
    fn manifest(&self) -> String {
        self.manifest.to_string()
    }

    /// Events handled; at flow level, flows that came and flows that left; of a trace, packets that came.
    #[getter]
    fn events(&self) -> u64 {
        self.events
    }

    /// Packets sent by the first managed link, or by that of a trace, over the whole run; at flow level there
    /// are none.
    #[getter]
    fn forwarded(&self) -> Option<u64> {
        self.forwarded
    }

    /// A digest of every value of every table, made when it is asked for.
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| aqm_net::table::digest(&self.tables))
    }

    /// The names of the tables.
    fn names(&self) -> Vec<&'static str> {
        self.tables.iter().map(|table| table.name).collect()
    }

    /// The table of this name; raises KeyError if there is none.
    fn table(&self, name: &str) -> PyResult<PyTable> {
        let found = self.tables.iter().find(|table| table.name == name);
        let table = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        PyTable::new(table.clone()).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

pub(crate) fn parse(text: &str) -> Result<Value, ConfigError> {
    serde_json::from_str(text).map_err(|error| ConfigError::at("", error.to_string()))
}

fn read(text: &str, files: BTreeMap<String, String>) -> Result<Scenario, ConfigErrors> {
    Scenario::from_value(parse(text)?, files)
}

/// Reads TOML as JSON, refusing what no scenario can hold.
#[pyfunction]
fn toml_to_json(py: Python<'_>, text: &str) -> PyResult<String> {
    aqm_sim::toml_value(text).map(|value| value.to_string()).map_err(|e| to_python(py, e))
}

/// The names of the files that a scenario (JSON) refers to.
#[pyfunction]
fn files_of(py: Python<'_>, scenario: &str) -> PyResult<Vec<String>> {
    parse(scenario).map(|value| Scenario::files_of(&value)).map_err(|e| to_python(py, e))
}

/// Checks a scenario (JSON) and returns it in full with its digest and what is allowed but hardly meant, a
/// sentence each that begins with the place: `(json, digest, warnings)`.
#[pyfunction]
fn check(
    py: Python<'_>,
    scenario: &str,
    files: BTreeMap<String, String>,
) -> PyResult<(String, String, Vec<String>)> {
    let scenario = read(scenario, files).map_err(|e| to_python(py, e))?;
    Ok((scenario.to_value().to_string(), aqm_sim::digest(&scenario), scenario.warnings()))
}

/// Runs a scenario (JSON). Other Python threads go on meanwhile.
#[pyfunction]
fn run(py: Python<'_>, scenario: &str, files: BTreeMap<String, String>) -> PyResult<Output> {
    let scenario = read(scenario, files).map_err(|e| to_python(py, e))?;
    let aqm_sim::Run { tables, manifest, events, forwarded } = py.detach(|| aqm_sim::run(&scenario));
    Ok(Output { tables, manifest, events, forwarded: Some(forwarded) })
}

fn read_flow_level(text: &str) -> Result<aqm_flow::Scenario, ConfigErrors> {
    aqm_flow::Scenario::from_value(parse(text)?)
}

/// Checks a scenario at flow level (JSON) and returns it in full with its digest: `(json, digest)`.
#[pyfunction]
fn check_flow_level(py: Python<'_>, scenario: &str) -> PyResult<(String, String)> {
    let scenario = read_flow_level(scenario).map_err(|e| to_python(py, e))?;
    Ok((scenario.to_value().to_string(), aqm_flow::digest(&scenario)))
}

/// Runs a scenario at flow level (JSON). Other Python threads go on meanwhile.
#[pyfunction]
fn run_flow_level(py: Python<'_>, scenario: &str) -> PyResult<Output> {
    let scenario = read_flow_level(scenario).map_err(|e| to_python(py, e))?;
    let aqm_flow::Run { tables, manifest, events } = py.detach(|| aqm_flow::run(&scenario));
    Ok(Output { tables, manifest, events, forwarded: None })
}

/// Everything that has a name, with its parameters, as JSON.
#[pyfunction]
fn catalog() -> PyResult<String> {
    let all: Vec<_> =
        aqm_sim::catalog().into_iter().chain(aqm_flow::catalog()).chain(aqm_trace::catalog()).collect();
    serde_json::to_string(&all).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The TCP profiles as JSON: name, what it is, its parameters in full, and the sources of those that
/// differ from the first profile.
#[pyfunction]
fn profiles() -> String {
    let profiles = aqm_sim::tcp_profiles().into_iter();
    let tables = profiles.map(|one| {
        serde_json::json!({
            "name": one.name, "about": one.about, "parameters": one.parameters, "sources": one.sources,
        })
    });
    Value::Array(tables.collect()).to_string()
}

/// The short names of TCPs as JSON: name, what it is, its congestion control and its recovery.
#[pyfunction]
fn aliases() -> String {
    let tables = aqm_sim::tcp_aliases().iter().map(|one| {
        serde_json::json!({
            "name": one.name, "about": one.about, "congestion_control": one.congestion_control, "recovery": one.recovery,
        })
    });
    Value::Array(tables.collect()).to_string()
}

/// What `CONTROL/RECOVERY` or a short name means: the JSON table to lay over `[tcp]`.
#[pyfunction]
fn transport(py: Python<'_>, text: &str) -> PyResult<String> {
    aqm_sim::tcp_transport(text).map(|table| table.to_string()).map_err(|e| to_python(py, e))
}

/// Lays a `[tcp]` table over another, both as JSON.
#[pyfunction]
fn lay_over(base: &str, over: &str) -> PyResult<String> {
    let [base, over] = [base, over].map(serde_json::from_str::<Value>);
    let wrong = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    Ok(aqm_sim::lay_tcp_over(&base.map_err(wrong)?, over.map_err(wrong)?).to_string())
}

/// Reads a quantity of any kind, such as `60ms`: the number of seconds, bits per second, packets or bytes, and which of
/// them it is, `s`, `bps`, `p` or `B`.
#[pyfunction]
fn quantity(py: Python<'_>, text: &str) -> PyResult<(f64, &'static str)> {
    aqm_net::in_base_unit(text).map_err(|problem| to_python(py, ConfigError::at("", problem)))
}

/// The schema of every table, as JSON.
#[pyfunction]
fn table_catalog() -> PyResult<String> {
    let others = aqm_flow::table_catalog().into_iter().chain(aqm_trace::table_catalog());
    let all: Vec<TableDoc> = aqm_sim::table_catalog().into_iter().chain(others).collect();
    serde_json::to_string(&all).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The drop probability of a queue (JSON table) before its count law, at each of `averages` (in the
/// unit of its thresholds), for a packet of class `service_class` whose window is `relative_window`
/// times the average; None where the discipline has no such law.
#[pyfunction]
#[pyo3(signature = (queue, averages, relative_window, service_class = 0))]
fn drop_curve(
    py: Python<'_>,
    queue: &str,
    averages: Vec<f64>,
    relative_window: f64,
    service_class: u8,
) -> PyResult<Vec<Option<f64>>> {
    let queue = parse(queue).map_err(|e| to_python(py, e))?;
    aqm_sim::drop_curve(queue, &averages, relative_window, service_class).map_err(|e| to_python(py, e))
}

/// The compiled core of aqmlab.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("RESULTS_VERSION", aqm_sim::RESULTS_VERSION)?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("TraceError", module.py().get_type::<TraceError>())?;
    module.add_class::<Output>()?;
    module.add_class::<trace::Watch>()?;
    module.add_class::<PyTable>()?;
    module.add_function(wrap_pyfunction!(toml_to_json, module)?)?;
    module.add_function(wrap_pyfunction!(files_of, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(check_flow_level, module)?)?;
    module.add_function(wrap_pyfunction!(run_flow_level, module)?)?;
    module.add_function(wrap_pyfunction!(trace::check_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace::run_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace::write_trace, module)?)?;
    module.add_function(wrap_pyfunction!(catalog, module)?)?;
    module.add_function(wrap_pyfunction!(profiles, module)?)?;
    module.add_function(wrap_pyfunction!(aliases, module)?)?;
    module.add_function(wrap_pyfunction!(transport, module)?)?;
    module.add_function(wrap_pyfunction!(lay_over, module)?)?;
    module.add_function(wrap_pyfunction!(quantity, module)?)?;
    module.add_function(wrap_pyfunction!(table_catalog, module)?)?;
    module.add_function(wrap_pyfunction!(drop_curve, module)?)?;
    Ok(())
}
