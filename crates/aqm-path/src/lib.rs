//! A network path as a library without I/O, clock or threads. The owner of a [`Path`] passes datagrams with the times at
//! which they are sent, and the path returns the time at which each datagram arrives, or the reason for which the
//! datagram was dropped.
//!
//! A path consists of links in a row, in both directions. Each link has a rate, a delay and a queue discipline, and may
//! have a varying rate, outages, losses and reordering. The links are those of the simulator [`aqm_sim`]: for the same
//! datagrams, a path returns the same times, drops and marks as a simulation.
//!
//! ```
//! use aqm_path::{Datagram, Direction, Ecn, Instant, Outcome, Path};
//!
//! let text = r#"forward = [{ rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } }]"#;
//! let mut path = Path::from_toml(text)?;
//! let flow = path.open_flow();
//! let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1250, ecn: Ecn::NotEct };
//! let id = path.send(datagram, Instant::START)?;
//! while let Some(now) = path.next_due() {
//!     while let Some(outcome) = path.poll(now) {
//!         // 1 ms of transmission and 20 ms of propagation.
//!         assert_eq!((outcome.id(), outcome.at().nanos()), (id, 21_000_000));
//!         assert!(matches!(outcome, Outcome::Delivered { ecn: Ecn::NotEct, .. }));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Time
//!
//! An [`Instant`] is a number of nanoseconds since the start of the path. A program that has a clock converts the time
//! with `Instant::from_nanos(start.elapsed().as_nanos() as u64)`; a program in virtual time advances to
//! [`Path::next_due`]. Time must not decrease from one call of [`Path::send`] to the next. Times are exact to a
//! nanosecond, and do not depend on how often [`Path::poll`] is called.
//!
//! # Determinism
//!
//! All random numbers are drawn from streams that the configuration's `seed` determines. Two paths with the same
//! configuration return the same outcomes for the same datagrams on every platform. [`OutcomeDigest`] computes a digest
//! with which programs can compare the outcomes.
//!
//! # Guests
//!
//! The module [`guests`] runs two transport implementations at the ends of a path, according to the contract of the crate
//! [`aqm_guest`].
//!
//! # Errors
//!
//! An invalid configuration is rejected with the path of each invalid value and the allowed values ([`ConfigErrors`]).
//! Invalid datagrams are rejected with a [`SendError`]. No argument of a method causes a panic.

mod config;
mod digest;
pub mod guests;
mod outcome;
mod path;

pub use aqm_net::watch::LinkView;
pub use aqm_net::{ConfigError, ConfigErrors, Ecn, Instant, Span};
pub use aqm_queue::{Protocol, Reason};
pub use config::Config;
pub use digest::OutcomeDigest;
pub use outcome::{DatagramId, Direction, FlowId, LinkId, Mark, Outcome};
pub use path::{Datagram, FlowError, FlowOptions, Path, SendError};

/// The example in the crate's README file, which is tested together with the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
