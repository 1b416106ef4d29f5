//! Tests of a guest in a program of its own, which the tests of each such program call.

use aqm_guest::{End, Guest, Payload, Start};
use aqm_net::Instant;

use super::{Process, run, values};

/// Asserts that runs in new processes are equal with every congestion control, and that the client receives the file.
///
/// # Panics
/// Panics if an assertion fails or a guest violates the contract.
pub fn assert_equal_runs(program: &str, controls: &[&str]) {
    let transfer = |config: &str| {
        run([&mut Process::new(program, &[]), &mut Process::new(program, &[])], config, 1, 0.01)
    };
    let mut digests = Vec::new();
    for control in controls {
        let config = format!(r#"{{"control": "{control}"}}"#);
        let first = transfer(&config);
        assert_eq!(values(&first, "received_bytes").iter().sum::<f64>(), 1e6, "{control}");
        assert!(values(&first, "rtt_s").iter().all(|rtt| *rtt > 0.04), "{control}");
        assert_eq!(first, transfer(&config), "{control}");
        digests.push(first.digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), controls.len(), "the controls differ");
}

/// Asserts that the contents of the client's first datagrams depend only on the seed.
///
/// # Panics
/// Panics if the assertion fails.
pub fn assert_seeded_contents(program: &str) {
    let first = |seed| -> Vec<Payload> {
        let mut client = Process::new(program, &[]);
        client.start(&Start { end: End::Client, seed, config: "{}".to_owned() }).expect("a start");
        let answer = client.run(Instant::START, Vec::new()).expect("an answer");
        client.stop().expect("an end");
        answer.datagrams
    };
    assert!(!first(1).is_empty());
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

/// Asserts that the program refuses unknown keys.
///
/// # Panics
/// Panics if the assertion fails.
pub fn assert_unknown_keys_are_refused(program: &str) {
    let mut client = Process::new(program, &[]);
    let start = Start { end: End::Client, seed: 1, config: r#"{"length": 5}"#.to_owned() };
    let problem = client.start(&start).expect_err("an error").to_string();
    assert!(problem.starts_with("configuration: unknown field `length`"), "{problem}");
}

/// Asserts that the page of the guest and the lock file contain the version, and that the page contains the congestion
/// controls. `library` is the name and the version of the library.
///
/// # Panics
/// Panics if an assertion fails.
pub fn assert_page(page: &str, lock: &str, library: &str, controls: &[&str]) {
    let (name, version) = library.split_once(' ').expect("a name and a version");
    assert!(
        lock.contains(&format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")),
        "{library}"
    );
    assert!(page.contains(library), "{library}");
    for control in controls {
        assert!(page.contains(&format!("`{control}`")), "{control}");
    }
}
