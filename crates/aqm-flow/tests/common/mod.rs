//! Creation and runs of scenarios and evaluation of their results, for the tests of this crate.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]

use aqm_flow::Scenario;
use aqm_net::level::{Plan as _, Run};
use aqm_net::watch::Watch;
pub use aqm_testing::{assert_met, maybe_real, mean_and_error, real, whole, words};
use serde_json::{Value, json};

/// Returns a scenario with a link that carries a mean flow (100 kB) in 0.1 s, with a given load and duration.
pub fn link(discipline: &str, load: f64, seconds: u32) -> Value {
    json!({
        "duration": format!("{seconds}s"),
        "warm_up": "100s",
        "link": { "capacity": "8Mbps", "discipline": discipline },
        "record": { "flows": false, "every": "0s" },
        "traffic": { "web": { "load": load } },
    })
}

/// Returns distributions with a mean of 100 kB: without variance, with small and large variance, and with a heavy tail.
/// The tail ends at a hundred times the mean, because these runs have too few larger flows for meaningful standard
/// errors.
pub fn distributions() -> Vec<Value> {
    vec![
        constant(),
        json!({ "kind": "exponential", "mean": "100kB" }),
        json!({ "kind": "hyperexponential", "mean": "100kB", "scv": 5.0 }),
        pareto("10MB"),
    ]
}

/// Returns a constant distribution of sizes.
pub fn constant() -> Value {
    json!({ "kind": "constant", "value": "100kB" })
}

/// Returns Pareto sizes of the second kind with shape 1.5, mean 100 kB and this maximum.
pub fn pareto(maximum: &str) -> Value {
    json!({ "kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "12B", "maximum": maximum })
}

pub fn scenario(value: &Value) -> Scenario {
    Scenario::from_value(value.clone()).unwrap_or_else(|error| panic!("{error} in {value}"))
}

pub fn run(value: &Value) -> Run {
    scenario(value).run(&Watch::default()).expect("the run is not stopped")
}

/// Runs `value` with each of the seeds 1 to `count`, and returns the results of `reduce`.
pub fn replicate<T: Send>(value: &Value, count: u64, reduce: impl Fn(&Run) -> T + Sync) -> Vec<T> {
    aqm_testing::replicate(value, count, |value| reduce(&run(&value)))
}

/// Returns the share of the time at each number of flows of a traffic class in progress.
pub fn shares(run: &Run, traffic: &str) -> Vec<f64> {
    let of = words(run, "distribution.traffic");
    let share = real(run, "distribution.share");
    of.iter().zip(share).filter(|(one, _)| *one == traffic).map(|(_, &share)| share).collect()
}

/// Returns the share of the time with at least `least` flows in progress.
pub fn at_least(shares: &[f64], least: usize) -> f64 {
    shares.iter().skip(least).sum()
}

/// Returns the size and the duration in seconds of the complete flows that arrived after the warm-up.
pub fn times(run: &Run) -> Vec<(f64, f64)> {
    let sizes = whole(run, "flows.size_bytes").iter().map(|&size| size as f64);
    let flows = sizes.zip(maybe_real(run, "flows.duration_s")).zip(real(run, "flows.start_s"));
    flows
        .filter_map(|((size, time), &start)| time.filter(|_| start >= 100.0).map(|time| (size, time)))
        .collect()
}

/// Returns the mean duration of flows divided by their mean size, for sizes between two bounds.
pub fn time_by_size(times: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let inside = times.iter().filter(|(size, _)| (from..to).contains(size));
    let (size, time) = inside.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    time / size
}

/// Returns `base` to the power of `exponent`.
pub fn power(base: f64, exponent: usize) -> f64 {
    std::iter::repeat_n(base, exponent).product()
}
