//! All integration tests of the crate in one program, which is linked once.

mod basics;
mod configuration;
mod guests;
mod properties;
mod simulation;
mod steps;
