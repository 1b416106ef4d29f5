//! The conversion of Rust errors to Python exceptions.

use aqm_net::stage::Failure;
use aqm_net::{ConfigError, ConfigErrors};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::{PyErr, Python, create_exception, prelude::PyAnyMethods};

create_exception!(
    aqmlab._core,
    ScenarioError,
    PyValueError,
    "Errors in a scenario, one line each. `problems` is a list of pairs: the place, which is the path of a field, and \
     the problem, which describes the error and what is allowed. `place` and `problem` are those of the first error. \
     `without_effect` lists the places of parameters without effect in this configuration."
);

create_exception!(
    aqmlab._core,
    TraceError,
    PyValueError,
    "A file that cannot be read or written, or is not a valid trace. The message names the file, the error and its position."
);

/// Returns the exception for a run without a result.
pub(crate) fn of_failure(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::Config(error) => to_python(py, error.clone()),
        Failure::File(problem) => TraceError::new_err(problem.clone()),
        // Only an interrupt stops a run.
        Failure::Stopped => PyKeyboardInterrupt::new_err(()),
    }
}

/// Returns the exception for the errors of a configuration, with its parts as attributes.
pub(crate) fn to_python(py: Python<'_>, errors: impl Into<ConfigErrors>) -> PyErr {
    let errors = errors.into();
    let exception = ScenarioError::new_err(errors.to_string());
    let value = exception.value(py);
    let problems: Vec<(String, String)> =
        errors.iter().map(|ConfigError { place, problem, .. }| (place.clone(), problem.clone())).collect();
    let without_effect: Vec<String> =
        errors.iter().filter(|error| error.is_without_effect()).map(|error| error.place.clone()).collect();
    let set = value
        .setattr("place", &errors.first().place)
        .and_then(|()| value.setattr("problem", &errors.first().problem))
        .and_then(|()| value.setattr("problems", problems))
        .and_then(|()| value.setattr("without_effect", without_effect));
    match set {
        Ok(()) => exception,
        Err(other) => other,
    }
}
