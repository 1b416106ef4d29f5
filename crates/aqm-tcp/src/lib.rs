//! TCP: two ends that open a connection, send data both ways and close it.
//!
//! Nothing here waits, reads a clock or knows a network. An [`Endpoint`] is told what happened
//! (`on_segment`, `on_timer`) and asked what follows (`poll_transmit`, `poll_timeout`). [`Config`]
//! says how it behaves, [`CheckedConfig`] is a checked `Config`.
//!
//! What is split, because the papers vary it separately: when a segment counts as lost and what is
//! sent again (`recovery`), how far the window opens ([`congestion_control`]) and how long to wait ([`rtt`]).

mod aliases;
mod catalog;
pub mod config;
pub mod congestion_control;
mod counts;
mod endpoint;
mod overhead;
mod profiles;
mod receiver;
mod recovery;
pub mod rtt;
mod segment;
mod sender;
#[cfg(test)]
mod testing;
mod timer;

pub use aliases::{Alias, aliases, transport};
pub use catalog::catalog;
pub use config::{CheckedConfig, Config};
pub use counts::{Counts, GaveUp};
pub use endpoint::Endpoint;
pub use profiles::{Profile, lay_over, profiles, read};
pub use segment::{Flags, Sacks, Segment};
