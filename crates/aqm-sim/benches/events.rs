//! Runs scenarios (TOML or JSON) for a profiler: `events FILE...`. Prints packets forwarded and
//! events; time and instructions are taken from outside, by whoever runs it.

#![expect(clippy::disallowed_methods, reason = "files are named on the command line")]

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

use aqm_sim::Scenario;

fn main() {
    for path in std::env::args().skip(1).filter(|word| !word.starts_with("--")) {
        let text = read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let value = if path.ends_with(".json") {
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
        } else {
            aqm_sim::toml_value(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let folder = Path::new(&path).parent().unwrap_or(Path::new("."));
        let content = |name: String| {
            let text = read_to_string(folder.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, text)
        };
        let files: BTreeMap<String, String> = Scenario::files_of(&value).into_iter().map(content).collect();
        let scenario = Scenario::from_value(value, files).unwrap_or_else(|error| panic!("{path}: {error}"));
        let run = aqm_sim::run(&scenario);
        println!("{path}: {} packets, {} events", run.forwarded, run.events);
    }
}
