//! The words every room of aqmlab shares: moments and spans of time, rates, lengths, packets,
//! random streams, tables of results, and how a family of plug-ins is declared and read.
//!
//! This room knows no queue, no protocol and no scenario.

pub mod digest;
mod length;
mod occupancy;
mod packet;
mod rate;
pub mod registry;
mod streams;
pub mod table;
mod time;
mod units;

pub use length::{Backlog, Length, Size};
pub use occupancy::Occupancy;
pub use packet::{Ecn, Packet};
pub use rate::{Pace, Rate};
pub use registry::{ConfigError, Quantity};
pub use streams::{Rng, Streams};
pub use time::{Instant, Span};
