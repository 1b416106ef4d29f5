//! The one place where a Rust error becomes a Python exception.

use aqm_net::ConfigError;
use aqm_trace::Failure;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::{PyErr, Python, create_exception, prelude::PyAnyMethods};

create_exception!(
    aqmlab._core,
    ScenarioError,
    PyValueError,
    "Something is wrong in a scenario. `place` is the path of the field, `problem` says what is wrong and what is allowed."
);

create_exception!(
    aqmlab._core,
    TraceError,
    PyValueError,
    "A file cannot be read or written, or is no trace: says which file, what is wrong and where."
);

/// The exception for a replay without a result.
pub(crate) fn of_trace(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::Config(error) => to_python(py, error),
        Failure::Trace(problem) => TraceError::new_err(problem.clone()),
        // Only an interrupt stops a replay.
        Failure::Stopped => PyKeyboardInterrupt::new_err(()),
    }
}

/// The exception for a configuration error, with its two parts as attributes.
pub(crate) fn to_python(py: Python<'_>, error: &ConfigError) -> PyErr {
    let exception = ScenarioError::new_err(error.to_string());
    let value = exception.value(py);
    let set = value.setattr("place", &error.place).and_then(|()| value.setattr("problem", &error.problem));
    match set {
        Ok(()) => exception,
        Err(other) => other,
    }
}
