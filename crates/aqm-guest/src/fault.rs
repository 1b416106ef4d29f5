//! Faults of guests.

use std::fmt;

use aqm_net::Instant;

use crate::End;

/// A violation of the contract by a guest, which ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// End at which the guest ran.
    pub end: End,
    /// Time of the call.
    pub at: Instant,
    /// Description of the fault.
    pub problem: Problem,
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The guest reported an error.
    Error(String),
    /// The guest panicked.
    Panic(String),
    /// The frame is not a valid answer to the request.
    Frame(String),
    /// The answer contains another time than the request: the guest sends from the past or the future, or answers an
    /// earlier request.
    OtherTime(Instant),
    /// The wake-up time is not later than the time of the call.
    Wake(Instant),
    /// The answer contains too many datagrams.
    Datagrams {
        /// Number of datagrams in the answer.
        count: usize,
        /// Maximum number.
        most: usize,
    },
    /// A datagram is empty or too long.
    Size {
        /// Length of the datagram's contents in bytes.
        bytes: usize,
        /// Maximum length.
        most: usize,
    },
    /// The number of a flow is too large.
    Flow {
        /// Number of the flow.
        flow: u32,
        /// Number of flows.
        flows: u32,
    },
    /// The answer contains too many events, or an event whose name is empty or longer than 64 bytes or whose value is not
    /// finite.
    Events,
    /// The guest was called as often as allowed at the same time.
    Calls(u32),
    /// The network does not accept the datagram.
    Network(String),
    /// The program that runs the guest reports a fault, for example a time limit.
    Program(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns: ", self.end.name(), self.at.nanos())?;
        match &self.problem {
            Problem::Error(text) => write!(f, "the guest reports an error: {text}"),
            Problem::OtherTime(at) => write!(
                f,
                "the answer must be for the time of the request, {} ns (got {} ns)",
                self.at.nanos(),
                at.nanos()
            ),
            Problem::Wake(at) => write!(
                f,
                "wake must be later than the time of the request, {} ns (got {} ns)",
                self.at.nanos(),
                at.nanos()
            ),
            problem => problem.fmt(f),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(text) => write!(f, "the guest panicked: {text}"),
            Self::Frame(text) => write!(f, "the frame is not a valid answer: {text}"),
            Self::OtherTime(at) => write!(f, "the answer is for another time, {} ns", at.nanos()),
            Self::Wake(at) => write!(f, "wake is not later than the request: {} ns", at.nanos()),
            Self::Datagrams { count, most } => {
                write!(f, "an answer may contain at most {most} datagrams (got {count})")
            }
            Self::Size { bytes, most } => {
                write!(f, "the length of a datagram must be from 1 to {most} bytes (got {bytes})")
            }
            Self::Flow { flow, flows } => {
                write!(f, "the number of a flow must be less than {flows} (got {flow})")
            }
            Self::Events => f.write_str(
                "an answer may contain at most 1000 events, whose names must consist of 1 to 64 bytes, and whose values \
                 must be finite",
            ),
            Self::Calls(most) => write!(f, "the guest was called {most} times at the same time"),
            Self::Error(text) | Self::Network(text) | Self::Program(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::Error(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        Self::Error(text.to_owned())
    }
}
