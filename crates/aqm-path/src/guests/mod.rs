//! Guests: transport implementations that run in virtual time at the two ends of a [`Path`](crate::Path).
//!
//! A guest is a deterministic function of its configuration, its seed, the times and the datagrams that it receives. A
//! guest in the same program implements the trait [`Guest`]. A guest in another program exchanges [`frames`] over a pipe;
//! [`frames::serve`] converts an implementation of the trait to such a program. The [`Border`] calls two guests, transports
//! their datagrams over a path, and checks each answer. [`run`] runs two guests in the same program:
//!
//! ```
//! use aqm_path::guests::{Border, Echo, Setup, run};
//! use aqm_path::Path;
//!
//! let path = Path::from_toml(r#"forward = [{ rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } }]"#)?;
//! let mut border = Border::new(path, Setup { seed: 1, ..Setup::default() });
//! let report = run(&mut border, [&mut Echo::default(), &mut Echo::default()])?;
//! assert_eq!(report.ends[0].sent, report.ends[0].delivered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod border;
mod echo;
mod fault;
pub mod frames;

use aqm_net::{Ecn, Instant};

pub use border::{Border, Call, EndReport, Limits, Recorded, Report, Setup, run};
pub use echo::Echo;
pub use fault::{Fault, Problem};

/// The version of the contract between the border and guests.
pub const VERSION: u16 = 1;

/// The end of the path at which a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The end that sends in the forward direction. By convention, the client opens connections.
    Client,
    /// The end that sends in the reverse direction.
    Server,
}

impl End {
    /// Both ends.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

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
    /// End of the path at which the guest runs.
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

/// A transport implementation in virtual time.
pub trait Guest {
    /// Starts the guest at time 0. Returns the time of the first call of [`run`](Self::run), or `None` if the guest waits
    /// for a datagram.
    ///
    /// # Errors
    /// Returns a description of the error if the guest cannot start, for example because its configuration is invalid.
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, String>;

    /// Handles the datagrams that arrive at `now` and the timers that are due at `now`.
    ///
    /// # Errors
    /// Returns a description of the error if the guest cannot continue.
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, String>;

    /// Stops the guest at the end of a run.
    fn stop(&mut self) {}
}
