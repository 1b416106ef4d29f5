//! Commands of Linux's `tc`.

use aqm_net::{ConfigErrors, Parameter as _, Rate};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::to_python;
use crate::parse;

/// Returns the result of [`tc_qdisc`].
fn described(queue: &str, rate: &str, device: &str, shape: bool, handle: u32) -> Result<Value, ConfigErrors> {
    let rate = Rate::read(Value::String(rate.to_owned()))?;
    let config = aqm_queue::Config::read(parse(queue)?)?;
    let (root, own_rate) = if shape {
        let aqm_queue::tc::Shaped { root, own_rate } = aqm_queue::tc::shaped(&config, rate)?;
        (root, own_rate)
    } else {
        (aqm_queue::tc::qdisc(&config, rate)?, None)
    };
    let lines = root.commands(device, "root", handle);
    let own_rate = own_rate.map(Rate::bps);
    Ok(json!({"root": root, "lines": lines, "own_rate": own_rate, "options": config.tc_options(rate)}))
}

/// Returns, as JSON, the queue discipline of `tc` for the root of a `device`: `root` with its arguments, the `lines` of
/// commands that create the discipline, the `own_rate` of the queue if the queue is a shaper, in bit/s, and the
/// `options` that `tc` shows. If `shape` is true, an `htb` limits the rate, unless the queue is a shaper itself.
#[pyfunction]
fn tc_qdisc(
    py: Python<'_>,
    queue: &str,
    rate: &str,
    device: &str,
    shape: bool,
    handle: u32,
) -> PyResult<String> {
    let found = described(queue, rate, device, shape, handle);
    found.map(|found| found.to_string()).map_err(|errors| to_python(py, errors))
}

/// Returns the kinds of queues that exist in Linux.
#[pyfunction]
fn tc_kinds() -> Vec<&'static str> {
    aqm_queue::tc::kinds()
}

/// Adds the functions for `tc` to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tc_qdisc, module)?)?;
    module.add_function(wrap_pyfunction!(tc_kinds, module)?)
}
