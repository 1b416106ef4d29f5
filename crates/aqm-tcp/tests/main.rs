//! All external tests of the crate, in one program so that they are linked once.

mod congestion_control;
mod exchange;
mod exchange_application;
mod exchange_connection;
mod exchange_ecn;
mod exchange_model;
mod exchange_quic;
mod exchange_recovery;
mod exchange_window;
mod invariants;
mod micro;
mod pair;
mod profile;
