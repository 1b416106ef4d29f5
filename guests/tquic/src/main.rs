//! tquic, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! tquic reads the clock, and draws random numbers from the crate rand, from ring and from BoringSSL. `guest_clock` replaces
//! the clock and the entropy of all.

mod config;
mod host;
mod transfer;

use std::process::ExitCode;

fn main() -> ExitCode {
    guest_clock::serve(&mut host::Tquic)
}
