//! Scenarios made and run, beside what both stages test with.

use std::collections::BTreeMap;

use aqm_net::stage::Run;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
pub use aqm_testing::{
    assert_met, maybe_real, maybe_whole, maybe_words, mean_and_error, real, table, truth, whole, words,
};
use serde_json::Value;

/// The scenario that `value` describes.
pub fn plan(value: Value) -> Plan {
    let text = value.to_string();
    Plan::of_value(value, BTreeMap::new()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Runs the scenario that `value` describes.
pub fn run(value: Value) -> Run {
    plan(value).run(&Watch::default()).expect("nobody stops it")
}

/// Runs `value` with each of the seeds 1 to `count`, and keeps what `reduce` says.
pub fn replicate<T: Send>(value: &Value, count: u64, reduce: impl Fn(&Run) -> T + Sync) -> Vec<T> {
    aqm_testing::replicate(value, count, |value| reduce(&run(value)))
}

/// A time in a table as the whole nanoseconds it was written from.
pub fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
