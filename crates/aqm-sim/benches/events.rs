//! Runs scenarios (TOML or JSON) for a profiler: `events FILE...`. Prints the numbers of forwarded packets and of
//! events. Time and instructions are measured externally.

#![expect(clippy::disallowed_methods, reason = "files are named on the command line")]

use std::fs::read_to_string;
use std::path::Path;

use aqm_net::level::{Document, Files};
use aqm_net::watch::Watch;
use aqm_sim::PACKET_LEVEL;

fn main() {
    for path in std::env::args().skip(1).filter(|word| !word.starts_with("--")) {
        let text = read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let folder = Path::new(&path).parent().unwrap_or(Path::new("."));
        let document = if path.ends_with(".json") {
            Document::of_json(&text, &[&PACKET_LEVEL])
        } else {
            Document::of_toml(&text, folder, &[&PACKET_LEVEL])
        };
        let document = document.unwrap_or_else(|errors| panic!("{path}: {errors}"));
        let content = |name: String| {
            let text = read_to_string(folder.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, text)
        };
        let files: Files = document.files().into_iter().map(content).collect();
        let plan = document.plan(files).unwrap_or_else(|errors| panic!("{path}: {errors}"));
        let run = plan.run(&Watch::default()).unwrap_or_else(|failure| panic!("{path}: {failure}"));
        println!("{path}: {} packets, {} events", run.forwarded.unwrap_or(0), run.events);
    }
}
