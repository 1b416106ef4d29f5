//! Building and running scenarios in tests, in addition to the helpers for all levels.

use std::collections::BTreeMap;

use aqm_net::level::Run;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
pub use aqm_testing::{
    assert_met, maybe_real, maybe_whole, maybe_words, mean_and_error, real, table, truth, whole, words,
};
use serde_json::Value;

/// Reads the scenario in `value`.
pub fn plan(value: Value) -> Plan {
    let text = value.to_string();
    Plan::of_value(value, BTreeMap::new()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Runs the scenario in `value`.
pub fn run(value: Value) -> Run {
    plan(value).run(&Watch::default()).expect("nobody stops it")
}

/// Runs `value` with each seed from 1 to `count`, and returns the results of `reduce`.
pub fn replicate<T: Send>(value: &Value, count: u64, reduce: impl Fn(&Run) -> T + Sync) -> Vec<T> {
    aqm_testing::replicate(value, count, |value| reduce(&run(value)))
}

/// Converts a time in a table to the exact number of nanoseconds.
pub fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
