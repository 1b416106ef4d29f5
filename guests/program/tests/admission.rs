//! Runs in different processes are equal. A run in the same process does not show all differences, because a library can
//! have state that is random once in a process, for example the keys of hash tables.

use aqm_guest::{Guest, STACKS};
use aqm_path::Path;
use aqm_path::guests::{Border, Report, Setup};
use aqmlab_guests::stacks::build;
use guest_common::testing::Process;

/// The program that runs the stacks.
const PROGRAM: &str = env!("CARGO_BIN_EXE_aqmlab-guests");

/// A link of the path of the admission test in `python/aqmlab/path/guests.py`.
const LINK: &str =
    "{ rate = '10Mbps', delay = '20ms', queue = { kind = 'codel' }, loss = { probability = 0.01 } }";

/// Runs two guests on the path of the admission test.
fn run(guests: [&mut dyn Guest; 2], control: &str, seed: u64) -> Report {
    let path = Path::from_toml(&format!("seed = {seed}\nforward = [{LINK}]\nreverse = [{LINK}]\n"));
    let configs = ["{}".to_owned(), format!(r#"{{"control": "{control}"}}"#)];
    let setup = Setup { seed, configs, ..Setup::default() };
    let report = Border::new(path.expect("a valid path"), setup).run(guests, &Default::default());
    report.unwrap_or_else(|failure| panic!("{control}: {failure}"))
}

#[test]
fn each_stack_has_the_same_digest_in_all_processes_and_another_digest_with_another_seed() {
    for stack in STACKS {
        let new = || build(stack.name).expect(stack.name);
        for control in stack.controls {
            let here = run([&mut *new(), &mut *new()], control, 1);
            for _ in 0..2 {
                let [mut client, mut server] =
                    [(); 2].map(|()| Process::new(PROGRAM, &["serve", stack.name]));
                let there = run([&mut client, &mut server], control, 1);
                assert_eq!(here, there, "{} with {control}", stack.name);
            }
            assert!(here.ends.iter().all(|end| end.delivered > 0), "{} with {control}", stack.name);
            let other = run([&mut *new(), &mut *new()], control, 2);
            assert_ne!(here.digest, other.digest, "{} with {control}", stack.name);
        }
    }
}
