//! Instruments: FIFO queues that drop selected packets, in order to test a transport protocol or a model of a transport
//! protocol.
//!
//! `drop_nth.rs` drops the packets with specified numbers, and `drop_random.rs` drops each packet with a specified
//! probability.

pub(crate) mod drop_nth;
pub(crate) mod drop_random;
