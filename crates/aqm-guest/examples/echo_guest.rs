//! The echo guest as a program: `aqmlab guest check target/debug/examples/echo_guest` tests this guest.

#![expect(
    clippy::disallowed_methods,
    reason = "the program exchanges frames over its standard input and output"
)]

use std::io;

use aqm_guest::{Echo, frames};

fn main() -> io::Result<()> {
    frames::serve(&mut Echo::default(), &mut io::stdin().lock(), &mut io::stdout().lock())
}
