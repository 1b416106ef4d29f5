//! What a packet of a trace is, and what every source of packets can do.

use aqm_net::stage::Failure;
use aqm_net::watch::Watch;
use aqm_net::{ConfigError, Instant};
use aqm_queue::edge;
use serde_json::Value;

/// What every source's `Config` can do.
pub trait Build {
    /// Checks all parameters that can be checked without looking into a file.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    fn check(&self) -> Result<(), ConfigError>;

    /// Begins to read or to make the packets.
    ///
    /// # Errors
    /// If a file cannot be read, or is no trace.
    fn open<'a>(&self, seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure>;

    /// The digest of the file that is read; empty if none is.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn contents(&self) -> Result<String, Failure> {
        Ok(String::new())
    }
}

/// Packets in the order of time.
pub trait Packets {
    /// The next one; none at the end of the trace.
    ///
    /// # Errors
    /// If the file cannot be understood.
    fn next(&mut self) -> Result<Option<Arrival>, Failure>;

    /// What is known at the end.
    ///
    /// # Errors
    /// If the rest of the file cannot be read.
    fn close(self: Box<Self>) -> Result<Found, Failure>;
}

/// A packet of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it came, by the clock of the trace.
    pub at: Instant,
    /// Its length on the wire.
    pub bytes: u16,
    /// Its flow.
    pub key: Key,
}

/// What packets of a flow have in common: addresses, ports and protocol, or the number of a flow that was
/// made up. Each direction of a conversation is a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The address it comes from.
    pub source: u128,
    /// The address it goes to.
    pub destination: u128,
    /// Ports and protocol, or the number.
    pub rest: u64,
}

impl Key {
    /// The flow of this number.
    pub const fn numbered(number: u64) -> Self {
        Self { source: 0, destination: 0, rest: number }
    }
}

impl edge::Key for Key {
    fn hash(self) -> u64 {
        let halves = [self.source, self.destination].map(|word| [(word >> 64) as u64, word as u64]);
        // Multiply and rotate, as in FxHash: cheap, and the same in every run.
        halves
            .into_iter()
            .flatten()
            .chain([self.rest])
            .fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// What is known of a trace when it has been read.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What was wrong and could be put up with.
    pub warnings: Vec<String>,
    /// The digest of the file; empty if there is none.
    pub contents: String,
    /// What kind of trace it is.
    pub facts: Value,
}
