//! What the tests of all stages need: columns of a run by name, seeds in parallel, and means held against
//! theory. Only tests depend on this room, so it panics where they should.

use aqm_net::table::{Column, Table};
use serde_json::Value;

/// The table of this name.
///
/// # Panics
/// If the run has no such table.
pub fn table<'a>(run: &'a impl AsRef<[Table]>, name: &str) -> &'a Table {
    run.as_ref().iter().find(|table| table.name == name).unwrap_or_else(|| panic!("no table {name}"))
}

/// A column of any kind, written `table.column`.
///
/// # Panics
/// If the run has no such column.
pub fn column<'a>(run: &'a impl AsRef<[Table]>, place: &str) -> &'a Column {
    let (name, column) = place.split_once('.').expect("a column is written table.column");
    let found = table(run, name).columns.iter().find(|(known, _)| *known == column);
    &found.unwrap_or_else(|| panic!("no column {place}")).1
}

/// A reader for columns of one kind.
macro_rules! reader {
    ($(#[doc = $about:literal])+ $name:ident, $kind:ident, $value:ty) => {
        $(#[doc = $about])+
        ///
        /// # Panics
        /// If the run has no such column, or it holds something else.
        pub fn $name<'a>(run: &'a impl AsRef<[Table]>, place: &str) -> &'a [$value] {
            match column(run, place) {
                Column::$kind(values) => values,
                other => panic!("{place} is {other:?}"),
            }
        }
    };
}

reader!(
    /// A column of whole numbers, written `table.column`.
    whole, Whole, u64
);
reader!(
    /// A column of real numbers.
    real, Real, f64
);
reader!(
    /// A column of truths.
    truth, Truth, bool
);

/// A column of whole numbers, some missing.
///
/// # Panics
/// If the run has no such column, or it holds something else.
pub fn maybe_whole(run: &impl AsRef<[Table]>, place: &str) -> Vec<Option<u64>> {
    match column(run, place) {
        Column::MaybeWhole(values) => values.iter().collect(),
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of real numbers, some missing.
///
/// # Panics
/// If the run has no such column, or it holds something else.
pub fn maybe_real(run: &impl AsRef<[Table]>, place: &str) -> Vec<Option<f64>> {
    match column(run, place) {
        Column::MaybeReal(values) => values.iter().collect(),
        other => panic!("{place} is {other:?}"),
    }
}

/// The samples of the gauge of this name, of whatever queue or edge, in order.
///
/// # Panics
/// If the run has no table of gauges.
pub fn gauge(run: &impl AsRef<[Table]>, name: &str) -> Vec<f64> {
    let Column::Word { codes, words } = column(run, "gauges.name") else { panic!("names are words") };
    let wanted = words.iter().position(|word| word == name);
    let values = codes.iter().zip(real(run, "gauges.value"));
    values.filter(|&(&code, _)| Some(code as usize) == wanted).map(|(_, &value)| value).collect()
}

/// A column of words.
///
/// # Panics
/// If the run has no such column, or it holds something else.
pub fn words(run: &impl AsRef<[Table]>, place: &str) -> Vec<String> {
    match column(run, place) {
        Column::Word { codes, words } => codes.iter().map(|&code| words[code as usize].clone()).collect(),
        other => panic!("{place} is {other:?}"),
    }
}

/// A column of words, some missing.
///
/// # Panics
/// If the run has no such column, or it holds something else.
pub fn maybe_words(run: &impl AsRef<[Table]>, place: &str) -> Vec<Option<String>> {
    match column(run, place) {
        Column::MaybeWord { codes, words } => {
            codes.iter().map(|code| code.map(|code| words[code as usize].clone())).collect()
        }
        other => panic!("{place} is {other:?}"),
    }
}

/// Hands `one` the scenario `value` with each of the seeds 1 to `count`, two at a time; what it says, in order.
///
/// # Panics
/// If `one` does.
#[expect(clippy::disallowed_methods, reason = "replications are runs of their own")]
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

/// The mean of independent values and its standard error.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// The mean of the replications is within three standard errors of theory, and within a cap.
///
/// # Panics
/// If it is not.
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
