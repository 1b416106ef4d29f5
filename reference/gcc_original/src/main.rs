//! Runs str0m, an implementation of Google Congestion Control, through the test cases of RFC 8867 in virtual time.
//!
//!     gcc-original GROWTH DIRECTORY [CASE]...
//!
//! The program writes two files to DIRECTORY: `phases.csv` (the phases of all runs) and `rates.csv` (each second of the
//! first repetition, for the encoders that follow the estimate). GROWTH is the value of the column `growth`, which tells
//! with which str0m the program was built. README.md describes the columns.

mod call;
mod cases;
mod crypto;
mod measure;
mod run;
mod system;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use call::Follows;
use cases::{Case, Steps};
use measure::{Measured, Summary};
use run::{Settings, run};

/// Maximum rates of the encoder: the range of RFC 8867, section 4.3, and the largest rate that the section mentions.
const MAX_RATES: [u64; 2] = [1_500_000, 4_000_000];
const REPETITIONS: u64 = 5;
/// The first seconds of a phase that its summary leaves out.
const SETTLING: u64 = 5;

const RATES: &str = "case,growth,max_kbps,follows,repetition,time_s,flow,target_bps,estimate_bps,sent_bps,received_bps,\
    delay_ms,loss\n";
const PHASES: &str = "case,growth,max_kbps,follows,repetition,flow,from_s,until_s,capacity_bps,target_bps,estimate_bps,\
    sent_bps,received_bps,delay_ms,delay_95_ms,loss\n";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(growth), Some(directory)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: gcc-original GROWTH DIRECTORY [CASE]...");
        return ExitCode::FAILURE;
    };
    let selected: Vec<String> = arguments.collect();
    let [rates, phases] = tables(&growth, &selected);
    let write = |name: &str, text: &str| std::fs::write(Path::new(&directory).join(name), text);
    if let Err(error) = write("rates.csv", &rates).and_then(|()| write("phases.csv", &phases)) {
        eprintln!("{directory}: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns the texts of the two files, for the selected cases or for all cases.
fn tables(growth: &str, selected: &[String]) -> [String; 2] {
    // Virtual time is counted from a single reading of the clock that stands still.
    let base = Instant::now();
    let crypto = Arc::new(crypto::provider());
    let (mut rates, mut phases) = (RATES.to_owned(), PHASES.to_owned());
    for case in cases::cases() {
        if !selected.is_empty() && !selected.iter().any(|name| name == case.section) {
            continue;
        }
        for max_rate in MAX_RATES {
            for follows in Follows::ALL {
                let start = |repetition| {
                    let settings = Settings { max_rate, follows, repetition };
                    let (case, crypto) = (&case, &crypto);
                    move || run(case, settings, crypto, base)
                };
                // The hash tables and the generators of a thread do not depend on earlier runs.
                let results: Vec<_> = thread::scope(|scope| {
                    let threads: Vec<_> =
                        (0..REPETITIONS).map(|repetition| scope.spawn(start(repetition))).collect();
                    threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect()
                });
                for (repetition, (media, tcp)) in results.iter().enumerate() {
                    let kbps = max_rate / 1000;
                    let key = format!("{},{growth},{kbps},{},{repetition}", case.section, follows.name());
                    for (number, flow) in media.iter().enumerate() {
                        let direction = usize::from(case.flows[number].backward);
                        let start = case.flows[number].start;
                        add(
                            &mut rates,
                            &mut phases,
                            &key,
                            &number.to_string(),
                            &case,
                            direction,
                            start,
                            flow,
                        );
                    }
                    if let Some(start) = case.tcp {
                        add(&mut rates, &mut phases, &key, "tcp", &case, 0, start, tcp);
                    }
                }
            }
        }
    }
    [rates, phases]
}

/// Adds the rows of a flow.
#[expect(clippy::too_many_arguments, reason = "the arguments are the columns of the rows")]
fn add(
    rates: &mut String,
    phases: &mut String,
    key: &str,
    flow: &str,
    case: &Case,
    direction: usize,
    start: u64,
    measured: &Measured,
) {
    if key.ends_with(",estimate,0") {
        for second in start..case.duration {
            let Summary { target, estimate, sent, received, delay, loss, .. } =
                measured.summary(second, second + 1);
            let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.0}"));
            let [delay, loss] = [number(delay), number(loss)];
            let (target, estimate) = (rate(target), rate(estimate));
            _ = writeln!(
                rates,
                "{key},{second},{flow},{target},{estimate},{sent:.0},{received:.0},{delay},{loss}"
            );
        }
    }
    for bounds in case.phases[direction].windows(2) {
        let (from, until) = (bounds[0], bounds[1]);
        if until <= start {
            continue;
        }
        let Summary { target, estimate, sent, received, delay, delay_95, loss } =
            measured.summary(from + SETTLING, until);
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.0}"));
        let steps = if direction == 0 { case.forward } else { case.backward.unwrap_or(case.forward) };
        let capacity = capacity(steps, from);
        let [delay, delay_95, loss] = [delay, delay_95, loss].map(number);
        let (target, estimate) = (rate(target), rate(estimate));
        _ = writeln!(
            phases,
            "{key},{flow},{from},{until},{capacity},{target},{estimate},{sent:.0},{received:.0},{delay},{delay_95},{loss}"
        );
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.4}"))
}

fn capacity(steps: Steps, at: u64) -> u64 {
    steps.iter().take_while(|&&(from, _)| from <= at).last().map_or(0, |&(_, rate)| rate)
}
