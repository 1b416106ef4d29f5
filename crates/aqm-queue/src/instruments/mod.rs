//! Instruments: FIFO queues that drop selected packets, to test a transport protocol or a model of one.
//!
//! `drop_nth.rs` drops the packets with the given numbers, and `drop_random.rs` drops each packet with a given
//! probability.

pub(crate) mod drop_nth;
pub(crate) mod drop_random;
