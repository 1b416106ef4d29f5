//! Tables of a run by name, and means with their errors, for the tests of this room.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;

use aqm_sim::{Column, Run, Scenario, Table};
use serde_json::Value;

/// The scenario that `value` describes.
pub fn scenario(value: Value) -> Scenario {
    let text = value.to_string();
    Scenario::from_value(value, BTreeMap::new()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Runs the scenario that `value` describes.
pub fn run(value: Value) -> Run {
    aqm_sim::run(&scenario(value))
}

/// Runs `value` with each of the seeds 1 to `count`, two at a time, and keeps what `reduce` says.
pub fn replicate<T: Send>(value: &Value, count: u64, reduce: impl Fn(&Run) -> T + Sync) -> Vec<T> {
    let one = |seed: u64| {
        let mut value = value.clone();
        value["seed"] = seed.into();
        reduce(&run(value))
    };
    std::thread::scope(|scope| {
        let halves = [1..=count / 2, count / 2 + 1..=count];
        let workers = halves.map(|seeds| scope.spawn(|| seeds.map(&one).collect::<Vec<T>>()));
        workers.into_iter().flat_map(|worker| worker.join().expect("a run does not panic")).collect()
    })
}

/// The table of this name.
pub fn table<'a>(run: &'a Run, name: &str) -> &'a Table {
    run.tables.iter().find(|table| table.name == name).unwrap_or_else(|| panic!("no table {name}"))
}

fn column<'a>(run: &'a Run, place: &str) -> &'a Column {
    let (name, column) = place.split_once('.').expect("a column is written table.column");
    let columns = &table(run, name).columns;
    let found = columns.iter().find(|(known, _)| *known == column);
    &found.unwrap_or_else(|| panic!("no column {place}")).1
}

/// A column of whole numbers, written `table.column`.
pub fn whole<'a>(run: &'a Run, place: &str) -> &'a [u64] {
    match column(run, place) {
        Column::Whole(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of whole numbers, some missing.
pub fn maybe_whole<'a>(run: &'a Run, place: &str) -> &'a [Option<u64>] {
    match column(run, place) {
        Column::MaybeWhole(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of real numbers.
pub fn real<'a>(run: &'a Run, place: &str) -> &'a [f64] {
    match column(run, place) {
        Column::Real(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of real numbers, some missing.
pub fn maybe_real<'a>(run: &'a Run, place: &str) -> &'a [Option<f64>] {
    match column(run, place) {
        Column::MaybeReal(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of truths.
pub fn truth<'a>(run: &'a Run, place: &str) -> &'a [bool] {
    match column(run, place) {
        Column::Truth(values) => values,
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of words.
pub fn words(run: &Run, place: &str) -> Vec<String> {
    match column(run, place) {
        Column::Word { codes, words } => codes.iter().map(|&code| words[code as usize].clone()).collect(),
        other => panic!("{place} is {other:?}"),
    }
}

/// A time in a table as the whole nanoseconds it was written from.
pub fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// The mean of independent values and its standard error.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}
