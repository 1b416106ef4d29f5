//! Fuzz test: tables with random numbers must not make the writer fail.
//!
//! The environment variable `AQM_FUZZ_CASES` sets the number of cases. A failing test prints the seed that reproduces
//! the failure (`PROPTEST_RNG_SEED`).

use std::sync::OnceLock;

use aqm_net::level::Files;
use aqm_net::table::{Column, Table};
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use aqm_testing::pcapng::{read, temporary};
use proptest::prelude::*;

use crate::write_simulated_to;

const SCENARIO: &str = r#"
duration = "300ms"
bottleneck = { rate = "10Mbps", delay = "1ms", queue = { kind = "shred" } }
record = { packets = ["bottleneck"], histories = ["page"] }
[traffic.page]
kind = "ftp"
stagger = "0s"
"#;

/// Returns a configuration with the number of cases given by `AQM_FUZZ_CASES` or, if the variable is not set, a number
/// of cases for which the test takes only a short time.
#[expect(clippy::disallowed_methods, reason = "the environment sets the number of cases")]
fn config() -> ProptestConfig {
    let cases = std::env::var("AQM_FUZZ_CASES").ok().map_or(100, |text| text.parse().expect("a number"));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Writes tables with changed numbers, which are no larger than the numbers in a real run.
    #[test]
    fn tables_with_any_numbers_can_be_captured(
        changes in prop::collection::vec((any::<usize>(), any::<usize>(), 0_u64..1 << 50), 0..40),
    ) {
        let mut tables = recorded();
        for (column, row, value) in changes {
            let packets = tables.iter_mut().find(|table| table.name == "packets").unwrap();
            let position = column % packets.columns.len();
            change(&mut packets.columns[position].1, row, value);
        }
        let path = temporary("tables");
        match write_simulated_to(&path, &tables, &[]) {
            Ok(written) => prop_assert_eq!(read(&path).1.len() as u64, written),
            Err(error) => prop_assert!(!path.exists(), "{error}"),
        }
    }
}

/// Returns the tables of a small run, which is executed only once.
fn recorded() -> Vec<Table> {
    static TABLES: OnceLock<Vec<Table>> = OnceLock::new();
    let run = || {
        let plan = Plan::of_toml(SCENARIO, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
        plan.run(&Watch::default()).unwrap().tables
    };
    TABLES.get_or_init(run).clone()
}

/// Changes the number in one row of a column.
fn change(column: &mut Column, row: usize, value: u64) {
    fn set<T>(values: &mut [T], row: usize, value: T) {
        let position = row % values.len().max(1);
        if let Some(slot) = values.get_mut(position) {
            *slot = value;
        }
    }
    match column {
        Column::Whole(values) => set(values, row, value),
        Column::MaybeWhole(values) => {
            let mut all: Vec<Option<u64>> = values.iter().collect();
            set(&mut all, row, (value & 1 > 0).then_some(value));
            *values = all.into_iter().collect();
        }
        Column::Real(values) => set(values, row, f64::from_bits(value << 14)),
        Column::MaybeReal(values) => {
            let mut all: Vec<Option<f64>> = values.iter().collect();
            set(&mut all, row, (value & 1 > 0).then_some(f64::from_bits(value << 14)));
            *values = all.into_iter().collect();
        }
        Column::Truth(values) => set(values, row, value & 1 > 0),
        Column::Word { .. } | Column::MaybeWord { .. } => {}
    }
}
