//! Instruments: FIFO queues that drop chosen packets, to test a transport or a model of one.
//!
//! `drop_nth.rs` drops the packets with given numbers, `drop_random.rs` drops each packet with a given probability.

pub(crate) mod drop_nth;
pub(crate) mod drop_random;
