//! Helpers for tests: access to the columns of a run's tables by name, parallel runs with different seeds, comparisons
//! of means with theory, and readers of packet files. Only tests depend on this crate, so its functions panic on
//! errors.

pub mod pcapng;

use aqm_net::table::{Column, Table};
use serde_json::Value;

/// Returns the table with this name.
///
/// # Panics
/// Panics if the run has no table with this name.
pub fn table<'a>(run: &'a impl AsRef<[Table]>, name: &str) -> &'a Table {
    run.as_ref().iter().find(|table| table.name == name).unwrap_or_else(|| panic!("no table {name}"))
}

/// Returns a column of any type, named `table.column`.
///
/// # Panics
/// Panics if the run has no column with this name.
pub fn column<'a>(run: &'a impl AsRef<[Table]>, path: &str) -> &'a Column {
    let (name, column) = path.split_once('.').expect("the name of a column is table.column");
    let found = table(run, name).columns.iter().find(|(known, _)| *known == column);
    &found.unwrap_or_else(|| panic!("no column {path}")).1
}

/// Defines a function that returns a column of one type.
macro_rules! reader {
    ($(#[doc = $about:literal])+ $name:ident, $kind:ident, $value:ty) => {
        $(#[doc = $about])+
        ///
        /// # Panics
        /// Panics if the run has no column with this name, or if the column has a different type.
        pub fn $name<'a>(run: &'a impl AsRef<[Table]>, path: &str) -> &'a [$value] {
            match column(run, path) {
                Column::$kind(values) => values,
                other => panic!("{path} is {other:?}"),
            }
        }
    };
}

reader!(
    /// Returns a column of integers, named `table.column`.
    whole, Whole, u64
);
reader!(
    /// Returns a column of real numbers.
    real, Real, f64
);
reader!(
    /// Returns a column of Boolean values.
    truth, Truth, bool
);

/// Returns a column of integers, some of which may be missing.
///
/// # Panics
/// Panics if the run has no column with this name, or if the column has a different type.
pub fn maybe_whole(run: &impl AsRef<[Table]>, path: &str) -> Vec<Option<u64>> {
    match column(run, path) {
        Column::MaybeWhole(values) => values.iter().collect(),
        other => panic!("{path} is {other:?}"),
    }
}

/// Returns a column of real numbers, some of which may be missing.
///
/// # Panics
/// Panics if the run has no column with this name, or if the column has a different type.
pub fn maybe_real(run: &impl AsRef<[Table]>, path: &str) -> Vec<Option<f64>> {
    match column(run, path) {
        Column::MaybeReal(values) => values.iter().collect(),
        other => panic!("{path} is {other:?}"),
    }
}

/// Returns the samples of the gauge `name` for all queues and edges, in the order of the table.
///
/// # Panics
/// Panics if the run has no table of gauges.
pub fn gauge(run: &impl AsRef<[Table]>, name: &str) -> Vec<f64> {
    let Column::Word { codes, words } = column(run, "gauges.name") else {
        panic!("gauge names must consist of letters, digits and underscores")
    };
    let wanted = words.iter().position(|word| word == name);
    let values = codes.iter().zip(real(run, "gauges.value"));
    values.filter(|&(&code, _)| Some(code as usize) == wanted).map(|(_, &value)| value).collect()
}

/// Returns a column of words.
///
/// # Panics
/// Panics if the run has no column with this name, or if the column has a different type.
pub fn words(run: &impl AsRef<[Table]>, path: &str) -> Vec<String> {
    match column(run, path) {
        Column::Word { codes, words } => codes.iter().map(|&code| words[code as usize].clone()).collect(),
        other => panic!("{path} is {other:?}"),
    }
}

/// Returns a column of words, some of which may be missing.
///
/// # Panics
/// Panics if the run has no column with this name, or if the column has a different type.
pub fn maybe_words(run: &impl AsRef<[Table]>, path: &str) -> Vec<Option<String>> {
    match column(run, path) {
        Column::MaybeWord { codes, words } => {
            codes.iter().map(|code| code.map(|code| words[code as usize].clone())).collect()
        }
        other => panic!("{path} is {other:?}"),
    }
}

/// Calls `one` with the scenario `value` and each of the seeds 1 to `count`, in two threads. Returns the results in the
/// order of the seeds.
///
/// # Panics
/// Panics if `one` panics.
#[expect(clippy::disallowed_methods, reason = "replications are independent runs")]
pub fn replicate<T: Send>(value: &Value, count: u64, one: impl Fn(Value) -> T + Sync) -> Vec<T> {
    let seeded = |seed: u64| {
        let mut value = value.clone();
        value["seed"] = seed.into();
        one(value)
    };
    std::thread::scope(|scope| {
        let halves = [1..=count / 2, count / 2 + 1..=count];
        let workers = halves.map(|seeds| scope.spawn(|| seeds.map(&seeded).collect::<Vec<T>>()));
        workers.into_iter().flat_map(|worker| worker.join().expect("a run does not panic")).collect()
    })
}

/// Returns the mean of independent values and the standard error of the mean.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// Asserts that the mean of `values` differs from `theory` by at most three standard errors and by at most the relative
/// tolerance `cap`.
///
/// # Panics
/// Panics if the difference exceeds one of the two limits.
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
