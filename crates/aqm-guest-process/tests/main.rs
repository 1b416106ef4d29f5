//! Guests that are shell scripts.

mod exchanges;
#[cfg(target_os = "linux")]
mod isolation;

use std::time::Duration;

use aqm_guest::{End, Guest, Problem, Start};
use aqm_guest_process::{Options, ProcessGuest};
use aqm_net::Instant;
use aqm_net::watch::Watch;

/// A shell function that writes the frame of an answer to a request to start: length 9, kind 129, and the time *never*.
const STARTED: &str = r#"started() { printf '\011\0\0\0\201\377\377\377\377\377\377\377\377'; }; "#;

/// Options with the time limit of tests that must not reach the limit. Only Linux can isolate processes.
fn options(isolation: bool) -> Options {
    Options { time_limit: Duration::from_secs(60), isolation: isolation && cfg!(target_os = "linux") }
}

/// Returns the command of a shell script, which may call `started`.
fn shell(script: &str) -> Vec<String> {
    ["/bin/sh".to_owned(), "-c".to_owned(), format!("{STARTED}{script}")].into()
}

/// Starts a script. Returns the answer to a request to start with this configuration, and the end of standard error.
fn start(script: &str, config: &str, options: &Options) -> (Result<Option<Instant>, Problem>, String) {
    let watch = Watch::default();
    let mut guest = ProcessGuest::new(&shell(script), options, &watch.stop_request()).expect("a shell");
    let answer = guest.start(&Start { end: End::Client, seed: 1, config: config.to_owned() });
    (answer, guest.diagnosis())
}

/// Returns the problem of a script that does not answer a request to start.
fn problem_of(script: &str, options: &Options) -> String {
    start(script, "{}", options).0.expect_err("the script does not answer").to_string()
}
