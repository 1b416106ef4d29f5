//! `aqmlab-guests` runs transport libraries as guests in virtual time.
//!
//! - `aqmlab-guests list` prints all stacks as a JSON array.
//! - `aqmlab-guests serve STACK` exchanges frames over standard input and standard output:
//!   `aqmlab guest check aqmlab-guests serve quinn` tests the stack `quinn`.
//! - `aqmlab-guests run` simulates a scenario for `aqmlab run`.

use std::process::ExitCode;
use std::{env, io};

use aqm_guest::frames;
use aqmlab_guests::{run, stacks};

const USAGE: &str = "usage: aqmlab-guests list | aqmlab-guests serve STACK | aqmlab-guests run";

/// Exit status if the arguments are not valid, as of aqmlab.
const INVALID_ARGUMENTS: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["list"] => list(),
        ["serve", stack] => serve(stack),
        ["run"] => run::run().map_err(|error| error.to_string()),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(INVALID_ARGUMENTS)
        }
    }
}

/// Prints all stacks.
fn list() -> Result<(), String> {
    let stacks = serde_json::to_string_pretty(stacks::STACKS).map_err(|error| error.to_string())?;
    println!("{stacks}");
    Ok(())
}

/// Answers requests until the guest is stopped or standard input ends.
fn serve(stack: &str) -> Result<(), String> {
    let mut guest = (stacks::find(stack)?.build)();
    frames::serve(&mut *guest, &mut io::stdin().lock(), &mut io::stdout().lock())
        .map_err(|error| error.to_string())
}
