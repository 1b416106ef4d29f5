//! The packets of a trace, and the interface of the sources of packets.

use aqm_net::level::Failure;
use aqm_net::watch::Watch;
use aqm_net::{ConfigError, Instant};
use aqm_queue::edge;
use serde_json::Value;

/// Operations that the `Config` of every source implements.
pub trait Build {
    /// Checks all parameters that can be checked without reading a file.
    ///
    /// # Errors
    /// Returns the invalid field and the allowed values.
    fn check(&self) -> Result<(), ConfigError>;

    /// Starts to read or to generate the packets.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not a valid trace.
    fn open<'a>(&self, seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure>;

    /// Returns the digest of the file; empty if the source reads no file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    fn contents(&self) -> Result<String, Failure> {
        Ok(String::new())
    }
}

/// The packets of a trace in ascending order of time.
pub trait Packets {
    /// Returns the next packet; `None` at the end of the trace.
    ///
    /// # Errors
    /// Returns an error if the file is invalid.
    fn next(&mut self) -> Result<Option<Arrival>, Failure>;

    /// Closes the trace and returns a summary of the trace.
    ///
    /// # Errors
    /// Returns an error if the rest of the file cannot be read.
    fn close(self: Box<Self>) -> Result<TraceSummary, Failure>;
}

/// A packet of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time, measured by the clock of the trace.
    pub at: Instant,
    /// Length of the packet on the link, in bytes.
    pub bytes: u16,
    /// Flow of the packet.
    pub key: Key,
}

/// The key of a flow, which consists of addresses, ports and protocol, or of the number of a generated flow. Each
/// direction of a connection is a separate flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Ports and protocol, or the number of a generated flow.
    pub rest: u64,
}

impl Key {
    /// Returns the key of the flow with this number.
    pub const fn numbered(number: u64) -> Self {
        Self { source: 0, destination: 0, rest: number }
    }
}

impl edge::Key for Key {
    fn hash(self) -> u64 {
        let halves = [self.source, self.destination].map(|word| [(word >> 64) as u64, word as u64]);
        // The hash uses multiplications and rotations, as FxHash does. This hash is fast and gives the same values in
        // all runs.
        halves
            .into_iter()
            .flatten()
            .chain([self.rest])
            .fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Summary of a trace that has been read.
#[derive(Clone, Debug, Default)]
pub struct TraceSummary {
    /// Messages about errors that did not prevent the trace from being used.
    pub warnings: Vec<String>,
    /// Digest of the file; empty if the source reads no file.
    pub contents: String,
    /// Type and properties of the trace, for the manifest.
    pub facts: Value,
}
