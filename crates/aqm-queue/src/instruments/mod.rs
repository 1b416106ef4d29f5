//! Instruments: FIFO queues that drop selected packets, with which a transport protocol or a model of a transport
//! protocol is tested.
//!
//! `drop_nth.rs` drops the packets with the given numbers, and `drop_random.rs` drops each packet with a given
//! probability.

pub(crate) mod drop_nth;
pub(crate) mod drop_random;
