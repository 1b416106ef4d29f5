//! Runs of the guest in programs of their own, as `aqmlab guest check` runs the guest.

use aqm_guest::{End, Guest, Start};
use aqm_net::Instant;
use aqm_path::guests::Report;
use guest_common::testing::{self, Process, values};

const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr2_gcongestion"];

/// Starts the guest.
fn quiche() -> Process {
    Process::new(env!("CARGO_BIN_EXE_aqmlab-quiche"), &[])
}

/// Runs a client and a server in new processes.
fn transfer(config: &str, seed: u64, loss: f64) -> Report {
    testing::run([&mut quiche(), &mut quiche()], config, seed, loss)
}

#[test]
fn two_runs_with_the_same_seed_are_equal_with_every_control() {
    let mut digests = Vec::new();
    for control in CONTROLS {
        let config = format!(r#"{{"control": "{control}"}}"#);
        let first = transfer(&config, 1, 0.01);
        assert_eq!(values(&first, "received_bytes").iter().sum::<f64>(), 1e6, "{control}");
        assert!(values(&first, "rtt_s").iter().all(|rtt| *rtt > 0.04), "{control}");
        assert_eq!(first, transfer(&config, 1, 0.01), "{control}");
        digests.push(first.digest);
        digests.push(transfer(&config, 2, 0.01).digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 6);
}

#[test]
fn the_seed_determines_the_contents_of_datagrams() {
    let first = |seed| {
        let mut client = quiche();
        client.start(&Start { end: End::Client, seed, config: "{}".to_owned() }).expect("a start");
        let answer = client.run(Instant::START, Vec::new()).expect("an answer");
        client.stop().expect("an end");
        answer.datagrams
    };
    assert!(!first(1).is_empty());
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn an_invalid_configuration_is_refused() {
    let mut client = quiche();
    let start = Start { end: End::Client, seed: 1, config: r#"{"length": 5}"#.to_owned() };
    let problem = client.start(&start).expect_err("an error").to_string();
    assert!(problem.starts_with("configuration: unknown field `length`"), "{problem}");
}
