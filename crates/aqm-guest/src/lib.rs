//! The contract between a guest, which is a transport implementation in virtual time, and its network.
//!
//! A guest is a deterministic function of its configuration, its seed, the times and the datagrams that it receives. A
//! guest in the same program implements the trait [`Guest`]. A guest in another program exchanges [`frames`] over a pipe;
//! [`frames::serve`] converts an implementation of the trait to such a program. A [`Supervisor`] calls two guests, the
//! client and the server, and checks each answer. The crate performs no I/O, except on the input and output that the caller
//! of [`frames::serve`] passes.
//!
//! ```
//! use aqm_guest::{Echo, End, Guest, Limits, Start, Supervisor};
//! use aqm_net::Instant;
//!
//! let mut supervisor = Supervisor::new(Limits::default());
//! let mut client = Echo::default();
//! let start = Start { end: End::Client, seed: 1, config: "{}".to_owned() };
//! let wake = supervisor.start(&mut client, &start)?.expect("the client sends at random times");
//! let answer = supervisor.run(&mut client, End::Client, wake, Vec::new())?;
//! assert_eq!(answer.datagrams.len(), 1);
//! # Ok::<(), aqm_guest::Fault>(())
//! ```

mod echo;
mod fault;
pub mod frames;
mod provider;
mod supervisor;

use aqm_net::{Ecn, Instant};

pub use echo::Echo;
pub use fault::{Fault, Problem};
pub use provider::{NoGuests, Origin, Provider, STACKS, Stack};
pub use supervisor::{Limits, Supervisor};

/// The version of the contract.
pub const VERSION: u16 = 1;

/// The end of a connection at which a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The client. By convention, the client opens connections.
    Client,
    /// The server.
    Server,
}

impl End {
    /// Both ends.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// Returns the other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns the name of the end.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The data with which a guest is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// End at which the guest runs.
    pub end: End,
    /// Seed of the guest's random numbers.
    pub seed: u64,
    /// Configuration of the guest, whose format the guest defines. By convention, the text is a JSON table.
    pub config: String,
}

/// A UDP datagram that a guest sends or receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Number of the flow, which the guests choose. Both directions of a connection have the same number.
    pub flow: u32,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Contents of the UDP datagram, without headers.
    pub data: Vec<u8>,
}

/// The name of the event with which, by convention, a client reports the bytes that its application has received in order
/// since the last report.
pub const RECEIVED: &str = "received_bytes";

/// The name of the event with which, by convention, a server reports its congestion window in bytes.
pub const WINDOW: &str = "cwnd_bytes";

/// A value that a guest reports, for example its congestion window.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Name of the value. By convention, a name ends in the unit, for example `cwnd_bytes` or `rtt_s`.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// The answer of a guest to a call of [`Guest::run`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Datagrams that the guest sends at the time of the call.
    pub datagrams: Vec<Payload>,
    /// Time at which the guest must be called again even if no datagram arrives. The time must be later than the time of
    /// the call; `None` if the guest waits for a datagram.
    pub wake: Option<Instant>,
    /// Values that the guest reports.
    pub events: Vec<Event>,
}

/// A transport implementation in virtual time. An error that is a text becomes [`Problem::Error`].
pub trait Guest: Send {
    /// Starts the guest at time 0. Returns the time of the first call of [`run`](Self::run), or `None` if the guest waits
    /// for a datagram.
    ///
    /// # Errors
    /// Returns an error if the guest cannot start, for example because its configuration is invalid.
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem>;

    /// Handles the datagrams that arrive at `now` and the timers that are due at `now`.
    ///
    /// # Errors
    /// Returns an error if the guest cannot continue.
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem>;

    /// Stops the guest at the end of a run.
    ///
    /// # Errors
    /// Returns an error if the guest cannot be stopped.
    fn stop(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    /// Returns a text that helps to find the cause of a fault, for example the end of a program's standard error.
    fn diagnosis(&mut self) -> String {
        String::new()
    }
}

/// The example in the crate's README file, which is tested together with the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
