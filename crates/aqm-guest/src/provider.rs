//! Sources of guests: programs, and the transport libraries of the program `aqmlab-guests`.

use aqm_net::Span;

use crate::Guest;

/// A transport library that the program `aqmlab-guests` contains.
#[derive(Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name of the stack in a scenario.
    pub name: &'static str,
    /// Name and version of the library.
    pub library: &'static str,
    /// The congestion controls; the first control is the default.
    pub controls: &'static [&'static str],
}

/// The stacks of `aqmlab-guests`. The results of a scenario depend on the version of the library, so that the digest of
/// a scenario contains the field `library`.
pub const STACKS: &[Stack] = &[
    Stack { name: "noq", library: "noq-proto 1.4.0", controls: &["cubic", "newreno", "bbr3"] },
    Stack { name: "quinn", library: "quinn-proto 0.11.19", controls: &["cubic", "newreno", "bbr"] },
    Stack { name: "smoltcp", library: "smoltcp 0.14.0", controls: &["cubic", "reno", "none"] },
];

/// The program or the library that runs as a guest.
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
    /// Creates a guest that has not been started.
    ///
    /// # Errors
    /// Returns a description of the error, and of the remedy, if the guest is not available.
    fn guest(&self, origin: &Origin<'_>) -> Result<Box<dyn Guest>, String>;
}

/// A source that has no guests.
pub struct NoGuests;

impl Provider for NoGuests {
    fn guest(&self, _origin: &Origin<'_>) -> Result<Box<dyn Guest>, String> {
        Err("this program cannot run guests".to_owned())
    }
}
