//! Links: a queue, the transmitter that empties the queue, and the channel to the far end.
//!
//! A [`Link`] consists of a [`Port`] and a [`Channel`]. The port has a queue discipline and the [`Transmitter`], which
//! sends at a constant rate, at rates that change, at delivery opportunities, with outages or in bursts. The channel
//! delays, loses and reorders packets. The link counts all of its packets, including those that the channel loses.
//!
//! The crate depends on neither TCP nor the simulator, and has no clock. Time, randomness and the observer of drops and
//! marks are arguments.

pub mod channel;
mod link;
mod port;
pub mod transmitter;

pub use channel::Channel;
pub use link::Link;
pub use port::{Departure, Port, Ties};
pub use transmitter::Transmitter;
