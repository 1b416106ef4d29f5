//! Runs and columns by name, and means with their errors, for the tests of this room.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use aqm_flow::{Run, Scenario};
use aqm_net::table::Column;
use serde_json::{Value, json};

/// A link that carries flows of 100 kB, of these sizes, in 0.1 s: with the load it has, for so long.
pub fn link(discipline: &str, load: f64, seconds: u32) -> Value {
    json!({
        "duration": format!("{seconds}s"),
        "warm_up": "100s",
        "link": { "capacity": "8Mbps", "discipline": discipline },
        "record": { "flows": false, "every": "0s" },
        "traffic": { "web": { "load": load } },
    })
}

/// Mean 100 kB: no variance, a little, much, and a heavy tail, which ends at a hundred times the mean: of larger
/// flows there are too few in these runs for standard errors to mean anything.
pub fn laws() -> Vec<Value> {
    vec![
        json!({ "kind": "fixed" }),
        json!({ "kind": "exponential" }),
        json!({ "kind": "hyperexponential", "variation": 5.0 }),
        pareto("10MB"),
    ]
}

/// Pareto sizes of shape 1.5 and mean 100 kB with this maximum.
pub fn pareto(maximum: &str) -> Value {
    json!({ "kind": "pareto", "mean": "100kB", "shape": 1.5, "maximum": maximum })
}

pub fn scenario(value: &Value) -> Scenario {
    Scenario::from_value(value.clone()).unwrap_or_else(|error| panic!("{error} in {value}"))
}

pub fn run(value: &Value) -> Run {
    aqm_flow::run(&scenario(value))
}

/// Runs `value` with each of the seeds 1 to `count`, two at a time, and keeps what `reduce` says.
pub fn replicate<T: Send>(value: &Value, count: u64, reduce: impl Fn(&Run) -> T + Sync) -> Vec<T> {
    let one = |seed: u64| {
        let mut value = value.clone();
        value["seed"] = seed.into();
        reduce(&run(&value))
    };
    std::thread::scope(|scope| {
        let halves = [1..=count / 2, count / 2 + 1..=count];
        let workers = halves.map(|seeds| scope.spawn(|| seeds.map(&one).collect::<Vec<T>>()));
        workers.into_iter().flat_map(|worker| worker.join().expect("a run does not panic")).collect()
    })
}

fn column<'a>(run: &'a Run, place: &str) -> &'a Column {
    let (name, column) = place.split_once('.').expect("a column is written table.column");
    let table = run.tables.iter().find(|table| table.name == name);
    let columns = &table.unwrap_or_else(|| panic!("no table {name}")).columns;
    &columns.iter().find(|(known, _)| *known == column).unwrap_or_else(|| panic!("no column {place}")).1
}

pub fn real<'a>(run: &'a Run, place: &str) -> &'a [f64] {
    match column(run, place) {
        Column::Real(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

pub fn maybe_real<'a>(run: &'a Run, place: &str) -> &'a [Option<f64>] {
    match column(run, place) {
        Column::MaybeReal(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

pub fn whole<'a>(run: &'a Run, place: &str) -> &'a [u64] {
    match column(run, place) {
        Column::Whole(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// The share of the time at each number of flows of a traffic in progress.
pub fn shares(run: &Run, traffic: &str) -> Vec<f64> {
    let Column::Word { codes, words } = column(run, "distribution.traffic") else { panic!("words") };
    let share = real(run, "distribution.share");
    codes.iter().zip(share).filter(|(code, _)| words[**code as usize] == traffic).map(|(_, &s)| s).collect()
}

/// The share of the time with at least `least` flows in progress.
pub fn at_least(shares: &[f64], least: usize) -> f64 {
    shares.iter().skip(least).sum()
}

/// Size and duration in seconds of the flows that came after the warm-up and are done.
pub fn times(run: &Run) -> Vec<(f64, f64)> {
    let sizes = whole(run, "flows.size_bytes").iter().map(|&size| size as f64);
    let flows = sizes.zip(maybe_real(run, "flows.duration_s")).zip(real(run, "flows.start_s"));
    flows
        .filter_map(|((size, time), &start)| time.filter(|_| start >= 100.0).map(|time| (size, time)))
        .collect()
}

/// The mean time of flows over their mean size, for sizes between two.
pub fn time_by_size(times: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let inside = times.iter().filter(|(size, _)| (from..to).contains(size));
    let (size, time) = inside.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    time / size
}

/// The mean of independent values and its standard error.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// The mean of the replications is within three standard errors of theory, and within a cap.
#[track_caller]
pub fn assert_met(what: &str, values: &[f64], theory: f64, cap: f64) {
    let (mean, error) = mean_and_error(values);
    let off = (mean - theory).abs();
    println!(
        "{what}: {mean:.6} +- {error:.6}, theory {theory:.6}: {:+.2} SE, {:+.2} %",
        (mean - theory) / error,
        100.0 * (mean / theory - 1.0)
    );
    assert!(off <= 3.0 * error, "{what}: {mean} is {:.1} standard errors from {theory}", off / error);
    assert!(off <= cap * theory, "{what}: {mean} is not within {cap} of {theory}");
}

/// `base` to the power of `exponent`.
pub fn power(base: f64, exponent: usize) -> f64 {
    std::iter::repeat_n(base, exponent).product()
}
