//! Sends datagrams over three links, for a profiler: `datagrams path|simulation COUNT QUEUE LOAD`. `path` uses a path,
//! and `simulation` simulates the same links with a workload of datagrams. The instructions of both forms are measured
//! externally. LOAD is the offered load of the slowest link in per cent.

#![expect(clippy::disallowed_methods, reason = "the form is chosen on the command line")]

use aqm_net::level::{Document, Files};
use aqm_net::watch::Watch;
use aqm_path::{Config, Datagram, Direction, Ecn, Instant, Outcome, Path};
use aqm_sim::PACKET_LEVEL;
use serde_json::{Value, json};

const BYTES: u64 = 1000;
/// Rates of the links in bit/s; the link in the middle is the slowest link.
const RATES: [u64; 3] = [20_000_000, 10_000_000, 20_000_000];

fn links(queue: &str) -> Value {
    let link = |rate: u64| json!({"rate": format!("{rate}bps"), "delay": "10ms", "queue": {"kind": queue}});
    json!({"forward": RATES.map(link)})
}

/// Returns the gap between two datagrams, in nanoseconds.
fn gap(load: u64) -> u64 {
    BYTES * 8 * 100_000_000_000 / (RATES[1] * load)
}

fn over_path(count: u64, queue: &str, gap: u64) -> [u64; 2] {
    let mut path = Path::from_json(&links(queue).to_string()).expect("the configuration is valid");
    let flow = path.open_flow();
    let datagram = Datagram { flow, direction: Direction::Forward, bytes: BYTES as usize, ecn: Ecn::NotEct };
    let mut counts = [0, 0];
    let (mut sent, mut next) = (0, Instant::START);
    loop {
        let due = path.next_due();
        if sent < count && due.is_none_or(|due| next <= due) {
            path.send(datagram, next).expect("time increases");
            sent += 1;
            next = Instant::from_nanos(next.nanos() + gap);
            continue;
        }
        let Some(now) = due else { return counts };
        while let Some(outcome) = path.poll(now) {
            counts[usize::from(matches!(outcome, Outcome::Dropped { .. }))] += 1;
        }
    }
}

fn in_simulation(count: u64, queue: &str, gap: u64) -> [u64; 2] {
    let config = Config::from_json(&links(queue).to_string()).expect("the text is valid JSON");
    let scenario = config.to_scenario().expect("the configuration is valid");
    let mut scenario: Value = serde_json::from_str(&scenario).expect("a scenario is valid JSON");
    scenario["duration"] = format!("{}ns", count * gap).into();
    scenario["traffic"]["datagrams"]["rate"] = format!("{}bps", BYTES * 8_000_000_000 / gap).into();
    let document = Document::of_json(&scenario.to_string(), &[&PACKET_LEVEL]).expect("the scenario is valid");
    let plan = document.plan(Files::new()).expect("the scenario is valid");
    let run = plan.run(&Watch::default()).expect("nothing stops the run");
    [run.forwarded.unwrap_or(0), run.events]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [form, count, queue, load] = words.as_slice() else {
        // `cargo test` starts the program without arguments.
        assert_eq!(over_path(10, "drop-tail", gap(50)), [10, 0]);
        assert_eq!(in_simulation(10, "drop-tail", gap(50))[0], 10);
        return;
    };
    let number = |word: &String| word.parse().unwrap_or_else(|_| panic!("{word}: must be a number"));
    let (count, gap) = (number(count), gap(number(load)));
    let counts = match form.as_str() {
        "path" => over_path(count, queue, gap),
        "simulation" => in_simulation(count, queue, gap),
        other => panic!("{other}: must be `path` or `simulation`"),
    };
    println!("{form}: {counts:?}");
}
