//! Live runs, which are available only on Linux.

use std::any::Any;
use std::ffi::OsString;
use std::path::PathBuf;

use aqm_live::{Failure, Options};
use aqm_net::level;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::to_python;
use crate::plan::{Output, Plan, Watch};

create_exception!(
    aqmlab._core,
    LiveError,
    PyRuntimeError,
    "A live operation failed. The message contains the failed operation, the reason and a remedy."
);

/// Returns the exception for an error that occurred in a live run. If a file cannot be written, the exception is an
/// `OSError` that contains the name of the file.
fn of_live_error(error: aqm_live::LiveError) -> PyErr {
    match error.file {
        Some(file) => PyOSError::new_err((file.errno, file.reason, file.path)),
        None => LiveError::new_err(error.what),
    }
}

/// Runs a plan live. `seed`: replaces the seed of the plan. `nearest_tcp`: use the nearest kernel settings for
/// parameters in `[tcp]` that the kernel does not support. `until_done`: end the run as soon as its workloads and
/// programs have finished. `pcap`: file to which the packets are written. `congestion_control`: kernel name of a
/// congestion control that all connections use instead of the plan's congestion control. `virtual_time`: whether the
/// kernel runs in virtual time.
#[pyfunction]
#[pyo3(signature = (
    plan, watch, *, seed = None, nearest_tcp = false, until_done = false, pcap = None, congestion_control = None,
    virtual_time = false
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
fn run_live(
    py: Python<'_>,
    plan: &Plan,
    watch: &Watch,
    seed: Option<u64>,
    nearest_tcp: bool,
    until_done: bool,
    pcap: Option<PathBuf>,
    congestion_control: Option<String>,
    virtual_time: bool,
) -> PyResult<Output> {
    let plan: &dyn Any = plan.0.as_ref();
    let Some(plan) = plan.downcast_ref::<aqm_sim::Plan>() else {
        return Err(PyValueError::new_err("only scenarios of the level `packet` can be run live"));
    };
    let options = Options { nearest_tcp, congestion_control, pcap, until_done, virtual_time };
    let other = seed.map(|seed| plan.with_seed(seed)).transpose().map_err(|errors| to_python(py, errors))?;
    let plan = other.as_ref().unwrap_or(plan);
    let run: Result<level::Run, Failure> = py.detach(|| aqm_live::run(plan, &options, &watch.0));
    run.map(Output::here).map_err(|failure| match failure {
        Failure::Stopped => PyKeyboardInterrupt::new_err(()),
        Failure::Config(errors) => to_python(py, errors),
        Failure::System(error) => of_live_error(error),
    })
}

/// Returns, as JSON, which features of live runs are available on this machine: for each feature, `{"granted": "yes"}`
/// or `{"granted": "no", "why": ...}`.
#[pyfunction]
fn live_privileges(py: Python<'_>) -> PyResult<String> {
    let privileges = py.detach(aqm_live::Privileges::here);
    serde_json::to_string(&privileges).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Returns whether this process runs as an ordinary user and therefore needs its own user namespace for live runs.
#[pyfunction]
fn needs_user_namespace() -> bool {
    aqm_live::needs_user_namespace()
}

/// Runs a command in a new user namespace, waits until the command ends, and returns the exit status.
#[pyfunction]
fn run_in_user_namespace(py: Python<'_>, command: Vec<OsString>) -> PyResult<i32> {
    let status = py.detach(|| aqm_live::run_in_user_namespace(&command));
    status.map_err(|error| LiveError::new_err(error.what))
}

/// Adds the functions for live runs to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LiveError", module.py().get_type::<LiveError>())?;
    module.add_function(wrap_pyfunction!(run_live, module)?)?;
    module.add_function(wrap_pyfunction!(live_privileges, module)?)?;
    module.add_function(wrap_pyfunction!(needs_user_namespace, module)?)?;
    module.add_function(wrap_pyfunction!(run_in_user_namespace, module)?)?;
    Ok(())
}
