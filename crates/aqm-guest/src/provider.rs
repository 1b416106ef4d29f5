//! Sources of guests: programs, and the transport libraries of the program `aqmlab-guests`.

use aqm_net::Span;
use aqm_net::watch::StopRequest;

use crate::Guest;

/// A transport library that the program `aqmlab-guests` contains.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stack {
    /// Name of the stack in a scenario.
    pub name: &'static str,
    /// The crate that implements the transport.
    pub library: &'static str,
    /// Version of this crate, on which the results of a scenario depend.
    pub version: &'static str,
    /// Licence of this crate (SPDX).
    pub licence: &'static str,
    /// Congestion controls of the library.
    pub controls: &'static [&'static str],
}

/// The stacks of `aqmlab-guests`.
pub const STACKS: &[Stack] = &[
    Stack {
        name: "noq",
        library: "noq-proto",
        version: "1.4.0",
        licence: "MIT OR Apache-2.0",
        controls: &["newreno", "cubic", "bbr3"],
    },
    Stack {
        name: "quinn",
        library: "quinn-proto",
        version: "0.11.19",
        licence: "MIT OR Apache-2.0",
        controls: &["newreno", "cubic", "bbr"],
    },
    Stack {
        name: "s2n-quic",
        library: "s2n-quic",
        version: "1.91.0",
        licence: "Apache-2.0",
        controls: &["cubic", "bbr"],
    },
    Stack {
        name: "smoltcp",
        library: "smoltcp",
        version: "0.14.0",
        licence: "0BSD",
        controls: &["reno", "cubic", "none"],
    },
    Stack {
        name: "str0m",
        library: "str0m",
        version: "0.25.0",
        licence: "MIT OR Apache-2.0",
        controls: &["gcc"],
    },
];

/// The origin of a guest: a transport library or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A transport library.
    Stack(&'static Stack),
    /// A program that exchanges [`frames`](crate::frames).
    Program {
        /// The command and its arguments.
        command: &'a [String],
        /// Maximum real time between a request and its answer.
        time_limit: Span,
    },
}

/// A source of guests.
pub trait Provider: Sync {
    /// Creates a guest that has not been started. As soon as `stop` is set, the run needs no more answers of the guest.
    ///
    /// # Errors
    /// Returns a description of the error, and of the remedy, if the guest is not available.
    fn guest(&self, origin: &Origin<'_>, stop: &StopRequest) -> Result<Box<dyn Guest>, String>;

    /// Returns a digest of the files of a program, on which the results of the program depend; `None` if the source does
    /// not start programs.
    fn program_digest(&self, _command: &[String]) -> Option<String> {
        None
    }
}

/// A source that has no guests.
pub struct NoGuests;

impl Provider for NoGuests {
    fn guest(&self, _origin: &Origin<'_>, _stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
        Err("this program cannot run guests".to_owned())
    }
}
