//! Packet files of simulated runs.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::{PcapError, of_file_error};
use crate::plan::Output;

/// Writes the recorded packets of a simulated run in the pcapng format; returns their number.
#[pyfunction]
pub(crate) fn write_pcap(py: Python<'_>, output: &Output, path: PathBuf) -> PyResult<u64> {
    let written = py.detach(|| aqm_pcap::write_simulated_to(&path, &output.0.tables, &[]));
    written.map_err(|error| match error {
        aqm_pcap::PcapError::File { path, error } => of_file_error(path, &error),
        other => PcapError::new_err(other.to_string()),
    })
}
