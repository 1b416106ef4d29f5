//! The entropy of the crate rand, as a function of a seed.
//!
//! The crate rand 0.10 seeds its generator `rand::rng()` from the crate getrandom, which asks the operating system. In this
//! workspace, this crate takes the place of getrandom (`[patch.crates-io]` in `guests/Cargo.toml`), so that a library
//! that uses `rand::rng()` for a time or a length can run in virtual time. A guest calls [`seed`], and then
//! `rand::rng().reseed()`. The crate contains only the part of getrandom that rand uses. The cryptography of guests (ring)
//! does not use this crate.

use std::cell::Cell;
use std::fmt;

pub use rand_core;
use rand_core::{TryCryptoRng, TryRng};

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Determines the numbers that this thread receives from now on.
pub fn seed(seed: u64) {
    STATE.set(seed);
}

/// Returns the next number of this thread: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, OOPSLA 2014, figure 17).
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The error of getrandom, which this crate never returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {}

impl fmt::Display for Error {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Error {}

/// The source of entropy.
#[derive(Clone, Copy, Debug, Default)]
pub struct SysRng;

impl TryRng for SysRng {
    type Error = Error;

    fn try_next_u32(&mut self) -> Result<u32, Error> {
        Ok((next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Error> {
        Ok(next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for SysRng {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        // The first two outputs of Java's SplittableRandom(1234567).nextLong(), which uses the same generator.
        seed(1_234_567);
        assert_eq!([next(), next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn bytes_are_those_of_the_numbers() {
        seed(7);
        let mut bytes = [0; 12];
        SysRng.try_fill_bytes(&mut bytes).expect("never an error");
        seed(7);
        assert_eq!(bytes[..8], next().to_le_bytes());
        assert_eq!(bytes[8..], next().to_le_bytes()[..4]);
    }
}
