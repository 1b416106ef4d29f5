//! Runs scenarios for a profiler: `events FILE.toml...`. Prints packets forwarded and events; time
//! and instructions are taken from outside, by whoever runs it.

use std::collections::BTreeMap;

fn main() {
    for path in std::env::args().skip(1).filter(|word| !word.starts_with("--")) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let scenario = aqm_sim::Scenario::from_toml(&text, BTreeMap::new())
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let run = aqm_sim::run(&scenario);
        println!("{path}: {} packets, {} events", run.forwarded, run.events);
    }
}
