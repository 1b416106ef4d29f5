//! The Python module that provides access to the Rust core. Python passes text to the core, and the core returns
//! tables.

mod catalog;
mod error;
mod guest_sources;
mod guests;
#[cfg(target_os = "linux")]
mod live;
mod path;
mod pcap;
mod plan;
mod table;
mod tc;

use aqm_net::level::Level;
use aqm_net::{ConfigError, ConfigErrors};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::{RunError, ScenarioError, TraceError, to_python};
use crate::table::PyTable;

/// All simulation levels; the first level is the default.
const LEVELS: [&dyn Level; 3] = [&guest_sources::PACKET_LEVEL, &aqm_flow::FlowLevel, &aqm_trace::Traces];

fn parse(text: &str) -> Result<Value, ConfigError> {
    serde_json::from_str(text).map_err(|error| ConfigError::at("", error.to_string()))
}

/// Converts `CONTROL/RECOVERY` or a short name to a JSON table that is merged into `[tcp]`.
#[pyfunction]
fn transport(py: Python<'_>, text: &str) -> PyResult<String> {
    aqm_sim::tcp_transport(text).map(|table| table.to_string()).map_err(|e| to_python(py, e))
}

/// Returns, as JSON, the properties of a workload that a program needs in order to interpret the tables of a run. The
/// argument is the workload's table in `[traffic]`, as JSON.
#[pyfunction]
fn describe_workload(py: Python<'_>, table: &str) -> PyResult<String> {
    let described = parse(table).map_err(ConfigErrors::from).and_then(aqm_sim::describe_workload);
    described.map(|found| json!(found).to_string()).map_err(|errors| to_python(py, errors))
}

/// Merges the `[tcp]` table `over` into the table `base`. The arguments and the result are JSON.
#[pyfunction]
fn lay_over(py: Python<'_>, base: &str, over: &str) -> PyResult<String> {
    let read = |text| parse(text).map_err(|e| to_python(py, e));
    Ok(aqm_sim::lay_tcp_over(&read(base)?, read(over)?).to_string())
}

/// Parses a quantity, for example `60ms`. Returns the value in the base unit, and the base unit: seconds (`s`), bits
/// per second (`bps`), packets (`p`) or bytes (`B`).
#[pyfunction]
fn quantity(py: Python<'_>, text: &str) -> PyResult<(f64, &'static str)> {
    aqm_net::in_base_unit(text).map_err(|problem| to_python(py, ConfigError::at("", problem)))
}

/// Returns the drop probability of a queue at each average queue length in `averages`. `queue` is a JSON table, and the
/// values in `averages` have the unit of the queue's thresholds. The packet has the class `service_class`, and its
/// window is `relative_window` times the average window. The probability does not take into account how the queue
/// spaces its drops. Returns None if the discipline has no drop probability curve.
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
    aqm_queue::drop_curve(queue, &averages, relative_window, service_class).map_err(|e| to_python(py, e))
}

/// The compiled core of aqmlab.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("RESULTS_VERSION", aqm_sim::RESULTS_VERSION)?;
    module.add("RunError", module.py().get_type::<RunError>())?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("TraceError", module.py().get_type::<TraceError>())?;
    module.add_class::<plan::Document>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<plan::Watch>()?;
    module.add_class::<plan::Output>()?;
    module.add_class::<PyTable>()?;
    module.add_class::<path::Path>()?;
    module.add_function(wrap_pyfunction!(catalog::catalog, module)?)?;
    module.add_function(wrap_pyfunction!(transport, module)?)?;
    module.add_function(wrap_pyfunction!(lay_over, module)?)?;
    module.add_function(wrap_pyfunction!(quantity, module)?)?;
    module.add_function(wrap_pyfunction!(describe_workload, module)?)?;
    module.add_function(wrap_pyfunction!(drop_curve, module)?)?;
    guests::add_to(module)?;
    pcap::add_to(module)?;
    tc::add_to(module)?;
    #[cfg(target_os = "linux")]
    live::add_to(module)?;
    Ok(())
}
