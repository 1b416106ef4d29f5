//! Endpoints of TCP and QUIC connections, which open a connection, transfer data in both directions, and close the connection.
//!
//! The crate performs no input or output, reads no clock and never waits. The caller reports events to an [`Endpoint`]
//! (`on_segment`, `on_timer`) and polls the endpoint for segments to send (`poll_transmit`) and for the time of the
//! next timer (`poll_timeout`). [`Config`] contains the parameters; [`CheckedConfig`] is a validated `Config`.
//!
//! Separate modules implement three mechanisms that papers vary independently of each other: loss detection and
//! retransmission (`recovery`), the congestion window ([`congestion_control`]), and the retransmission timeout
//! ([`rtt`]). QUIC (RFC 9000, RFC 9002) is a connection with the recovery `quic` and the parameters of the profile `quic`.

mod accurate_ecn;
mod aliases;
mod arithmetic;
mod catalog;
pub mod config;
pub mod congestion_control;
mod counts;
mod endpoint;
mod packet_ranges;
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
pub use counts::{Counts, FailureReason};
pub use endpoint::Endpoint;
pub use profiles::{Profile, overlay, profiles, read};
pub use receiver::{INITIAL_BUFFER, packet_memory};
pub use segment::{Flags, Sacks, Segment};
