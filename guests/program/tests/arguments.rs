//! The arguments of the program.

use std::process::{Command, Output};

use aqm_guest::STACKS;

/// Runs the program with arguments that are separated by spaces.
fn run(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqmlab-guests"));
    command.args(arguments.split_whitespace()).output().expect("the program exists")
}

#[test]
fn list_prints_the_table_of_stacks() {
    let listed: serde_json::Value = serde_json::from_slice(&run("list").stdout).expect("JSON");
    let listed = listed.as_array().expect("an array");
    assert_eq!(listed.len(), STACKS.len());
    for (stack, listed) in STACKS.iter().zip(listed) {
        assert_eq!(listed["name"], stack.name);
        assert_eq!(listed["version"], stack.version);
        assert_eq!(listed["controls"].as_array().expect("an array").len(), stack.controls.len());
    }
}

#[test]
fn invalid_arguments_are_refused() {
    for (arguments, message) in [
        ("", "usage: aqmlab-guests list | aqmlab-guests serve STACK | aqmlab-guests run"),
        ("serve", "usage: "),
        ("serve tcp", "the stack must be one of noq, quinn, s2n-quic, smoltcp, str0m (got tcp)"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.starts_with(message), "{arguments}: {error}");
    }
}
