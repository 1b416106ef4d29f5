//! quiche, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! quiche reads the clock, and BoringSSL draws the random numbers of quiche and of TLS. `guest_clock` replaces both sources.

mod config;
mod host;

use std::process::ExitCode;

fn main() -> ExitCode {
    guest_clock::serve(&mut host::Quiche::default())
}
