//! Links. A link consists of a queue, a transmitter that removes packets from the queue, and a channel to the far end.
//!
//! A [`Link`] consists of a [`Port`] and a [`Channel`]. The port contains a queue discipline and a [`Transmitter`]. The
//! transmitter sends at a constant rate, at a varying rate, or at delivery opportunities, and may have outages or send
//! in bursts. The channel delays packets, and may lose and reorder packets. The link counts all packets, including the
//! packets that the channel loses.
//!
//! The crate depends on neither TCP nor the simulator, and does not read a clock. The caller passes the time, the
//! random streams and the observer of drops and marks as arguments.

pub mod channel;
mod link;
mod port;
pub mod transmitter;

pub use channel::Channel;
pub use link::Link;
pub use port::{Departure, Port, Ties};
pub use transmitter::Transmitter;
