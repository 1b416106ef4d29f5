//! Types that all crates of aqmlab share. The crate defines times, rates, lengths, packets, random streams and tables
//! of results. It also contains the declaration and parsing of parameters and plug-in families, and the interface of
//! the simulation levels.
//!
//! The crate depends on no other crate of aqmlab and contains neither queues nor protocols.

mod codepoint;
mod config_error;
mod data_lines;
pub mod digest;
mod length;
pub mod level;
mod occupancy;
mod packet;
mod parameters;
mod rate;
pub mod registry;
mod schema;
mod steps;
mod streams;
pub mod table;
mod table_reader;
pub mod text;
mod time;
mod units;
pub mod values;
pub mod watch;

pub use codepoint::Codepoint;
pub use config_error::{ConfigError, ConfigErrors, ErrorCollector, unknown};
pub use data_lines::data_lines;
pub use length::{Backlog, Length, Size, Threshold};
pub use occupancy::Occupancy;
pub use packet::{Ecn, Packet};
pub use parameters::Parameters;
pub use rate::{Pace, Rate, RateOrZero};
pub use schema::{Choice, Field, Schema, Several};
pub use steps::Steps;
pub use streams::{Rng, Streams};
pub use table_reader::TableReader;
pub use time::{Instant, Span};
pub use units::in_base_unit;
pub use values::{Parameter, Quantity};
