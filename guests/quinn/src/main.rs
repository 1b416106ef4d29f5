//! quinn, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! `aqmlab guest check guests/target/release/quinn-guest` tests the program.
//!
//! The seed of the guest seeds the generator from which quinn draws packet numbers, the lengths of paddings and the
//! order of parameters. Three kinds of random numbers remain, but change neither a time nor a length: the keys of TLS
//! ([`tls`]), the connection IDs and keys of tokens, and the phase in BBR's cycle of pacing gains, which quinn 0.11.19
//! reports but does not use (the pacer in `connection/pacing.rs` reads the congestion window only).

mod config;
mod guest;
mod tls;

use std::io;

use aqm_path::guests::frames;

fn main() -> io::Result<()> {
    frames::serve(&mut guest::Quinn::default(), &mut io::stdin().lock(), &mut io::stdout().lock())
}
