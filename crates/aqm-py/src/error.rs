//! Converts Rust errors to Python exceptions.

use aqm_net::level::Failure;
use aqm_net::{ConfigError, ConfigErrors};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::{PyErr, Python, create_exception, prelude::PyAnyMethods};

create_exception!(
    aqmlab._core,
    ScenarioError,
    PyValueError,
    "Errors in a scenario; the message has one line for each error. `problems` is a list of pairs (path, \
     problem): the path of a field, and a text that describes the error and the allowed values. `path` and \
     `problem` are the two parts of the first error. \
     `without_effect` lists the paths of parameters that have no effect in this configuration."
);

create_exception!(
    aqmlab._core,
    TraceError,
    PyValueError,
    "A file cannot be read or written, or is not a valid trace. The message contains the \
     file, the error and the position."
);

create_exception!(
    aqmlab._core,
    RunError,
    PyRuntimeError,
    "A workload ended the run, for example because a guest violated its contract. `report` describes the \
     circumstances, and is empty if the message is complete."
);

/// Returns the exception that is raised if a run has no result.
pub(crate) fn of_failure(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::Config(error) => to_python(py, error.clone()),
        Failure::File(problem) => TraceError::new_err(problem.clone()),
        Failure::Workload { message, report } => {
            let exception = RunError::new_err(message.clone());
            exception.value(py).setattr("report", report).err().unwrap_or(exception)
        }
        // A run stops early only if it is interrupted.
        Failure::Stopped => PyKeyboardInterrupt::new_err(()),
    }
}

/// Returns the exception for errors in a configuration. The parts of the errors, such as their paths, are available as
/// attributes of the exception.
pub(crate) fn to_python(py: Python<'_>, errors: impl Into<ConfigErrors>) -> PyErr {
    let errors = errors.into();
    let exception = ScenarioError::new_err(errors.to_string());
    let value = exception.value(py);
    let problems: Vec<(String, String)> =
        errors.iter().map(|ConfigError { path, problem, .. }| (path.clone(), problem.clone())).collect();
    let without_effect: Vec<String> =
        errors.iter().filter(|error| error.is_without_effect()).map(|error| error.path.clone()).collect();
    let set = value
        .setattr("path", &errors.first().path)
        .and_then(|()| value.setattr("problem", &errors.first().problem))
        .and_then(|()| value.setattr("problems", problems))
        .and_then(|()| value.setattr("without_effect", without_effect));
    match set {
        Ok(()) => exception,
        Err(other) => other,
    }
}
