//! Packet files of simulated runs.

use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::plan::Output;

create_exception!(
    aqmlab._core,
    PcapError,
    PyRuntimeError,
    "The packets of a run cannot be written, for example because the run recorded no packets. The \
     message contains a remedy."
);

/// Returns the exception that is raised if packets cannot be written. If the system cannot create or write the file,
/// the exception is an `OSError` that contains the name of the file.
fn of_pcap_error(error: &aqm_pcap::PcapError) -> PyErr {
    if let aqm_pcap::PcapError::File { path, error } = error
        && let Some(code) = error.raw_os_error()
    {
        let text = error.to_string();
        // The error number is removed, because Python adds it to the message.
        let reason = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned();
        // The last value is the Windows error number, which has no effect on other systems.
        return PyOSError::new_err((code, reason, path.clone(), code));
    }
    PcapError::new_err(error.to_string())
}

/// Writes the recorded packets of a simulated run in the pcapng format, and returns the number of packets.
#[pyfunction]
fn write_pcap(py: Python<'_>, output: &Output, path: PathBuf) -> PyResult<u64> {
    let written = py.detach(|| aqm_pcap::write_simulated_to(&path, &output.run.tables, &[]));
    written.map_err(|error| of_pcap_error(&error))
}

/// Adds the function for packet files to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PcapError", module.py().get_type::<PcapError>())?;
    module.add_function(wrap_pyfunction!(write_pcap, module)?)
}
