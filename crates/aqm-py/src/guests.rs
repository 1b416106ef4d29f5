//! Runs of two guests in processes of their own (`aqm_guest_process`) at the ends of a path (`aqm_path::guests`).

use std::time::Duration;

use aqm_guest::Guest;
use aqm_guest_process::{Options, ProcessGuest, StartError};
use aqm_net::level::Files;
use aqm_path::guests::{Border, EndReport, Recorded, Report, Setup};
use aqm_path::{Config, Instant, Path};
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;

use crate::error::to_python;
use crate::plan::Watch;

create_exception!(
    aqmlab._core,
    GuestFault,
    PyRuntimeError,
    "A guest violated the contract. The arguments are the message (the end of the path, the time and the violation), \
     descriptions of the last requests with their answers, and the ends of the standard errors of both programs."
);

create_exception!(
    aqmlab._core,
    IsolationError,
    PyRuntimeError,
    "The system cannot isolate a guest. The message contains the reason and the option that starts guests without \
     isolation."
);

/// The result of a run, or the reason why there is no result.
enum Ended {
    Completed(Report, Duration),
    Stopped,
    Fault(String, Vec<String>, [String; 2]),
}

/// Runs two guests, whose commands are `client` and `server`, at the ends of a path. `path` is the configuration of the
/// path as JSON, and `files` contains the contents of the files to which the configuration refers. `configs` contains
/// the configurations of both guests, and `until` is in nanoseconds. During the run, other Python threads continue to
/// run and may stop the run with `watch`.
///
/// Returns, as JSON, the counts of both ends, the time at which the guests were stopped, the digest, the events, and the
/// real time of all requests after the requests to start. Raises GuestFault if a guest violates the contract,
/// IsolationError if the system cannot isolate guests, OSError if a program cannot be started, and KeyboardInterrupt if the
/// run was stopped.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arguments in Python")]
fn run_guests(
    py: Python<'_>,
    client: Vec<String>,
    server: Vec<String>,
    path: &str,
    files: Files,
    seed: u64,
    configs: [String; 2],
    until: u64,
    header: usize,
    time_limit_s: f64,
    isolation: bool,
    watch: &Watch,
) -> PyResult<String> {
    let path = Config::from_json(path).and_then(|mut config| {
        for (name, contents) in files {
            config = config.with_file(&name, &contents);
        }
        Path::new(&config.with_seed(seed))
    });
    let path = path.map_err(|errors| to_python(py, errors))?;
    let until = Instant::from_nanos(until);
    let mut border = Border::new(path, Setup { seed, configs, until, header, ..Setup::default() });
    let time_limit = Duration::try_from_secs_f64(time_limit_s).ok().filter(|limit| !limit.is_zero());
    let time_limit = time_limit.ok_or_else(|| {
        PyValueError::new_err(format!("time_limit_s: must be greater than 0 (got {time_limit_s})"))
    })?;
    let (options, stop) = (Options { time_limit, isolation }, watch.0.stop_request());
    let ended = py.detach(|| {
        let start = |command: &[String]| {
            ProcessGuest::new(command, &options, &stop).map_err(|error| of_start(error, command))
        };
        let (mut client, mut server) = (start(&client)?, start(&server)?);
        Ok::<_, PyErr>(match border.run([&mut client, &mut server], &watch.0) {
            // The server receives the last request to start and the last request to stop.
            Ok(report) => Ended::Completed(report, server.running_time()),
            Err(_) if watch.0.is_stopped() => Ended::Stopped,
            Err(failure) => Ended::Fault(
                failure.to_string(),
                border.last_exchanges().collect(),
                [client.diagnosis(), server.diagnosis()],
            ),
        })
    })?;
    match ended {
        Ended::Completed(report, time) => Ok(to_json(&report, time)),
        Ended::Stopped => Err(PyKeyboardInterrupt::new_err(())),
        Ended::Fault(message, exchanges, errors) => Err(GuestFault::new_err((message, exchanges, errors))),
    }
}

/// Returns the exception for a program that cannot be started.
fn of_start(error: StartError, command: &[String]) -> PyErr {
    match error {
        StartError::Isolation(_) => IsolationError::new_err(format!(
            "{error}; the option --no-isolation (in Python, isolation=False) starts guests with access to the network and \
             to all files"
        )),
        StartError::Program(error) => match error.raw_os_error() {
            // Python chooses the class, for example FileNotFoundError, by the number of the error.
            Some(number) => {
                PyOSError::new_err((number, error.to_string(), command.first().cloned().unwrap_or_default()))
            }
            None => PyValueError::new_err(error.to_string()),
        },
    }
}

fn to_json(report: &Report, time: Duration) -> String {
    let end = |end: &EndReport| {
        let EndReport { calls, sent, sent_bytes, delivered, dropped, in_transit } = *end;
        json!({
            "calls": calls, "sent": sent, "sent_bytes": sent_bytes, "delivered": delivered,
            "dropped": dropped, "in_transit": in_transit,
        })
    };
    let event = |one: &Recorded| json!([one.at.nanos(), one.end.name(), one.event.name, one.event.value]);
    json!({
        "ends": report.ends.each_ref().map(end),
        "stopped_at": report.stopped_at.nanos(),
        "digest": report.digest,
        "events": report.events.iter().map(event).collect::<Vec<_>>(),
        "wall_s": time.as_secs_f64(),
    })
    .to_string()
}

/// Adds the function and the exceptions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("GuestFault", module.py().get_type::<GuestFault>())?;
    module.add("IsolationError", module.py().get_type::<IsolationError>())?;
    module.add_function(wrap_pyfunction!(run_guests, module)?)
}
