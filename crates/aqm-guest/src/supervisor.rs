//! The supervisor of two guests, which calls the guests and checks each answer.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aqm_net::Instant;

use crate::{Answer, End, Event, Fault, Guest, Payload, Problem, Start};

/// Limits for the answers of guests. All limits are aqmlab's choice, except for the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of datagrams in an answer.
    pub datagrams: usize,
    /// Maximum length of a datagram in bytes, without headers. The default, 65,507 bytes, is the maximum length of the
    /// contents of a UDP datagram over IPv4.
    pub size: usize,
    /// Number of flows; the numbers of flows are less than this number.
    pub flows: u32,
    /// Maximum number of calls of a guest at the same time. The limit ends runs in which time does not advance.
    pub calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { datagrams: 10_000, size: 65_507, flows: 65_536, calls: 1000 }
    }
}

/// Number of calls, with their answers, that the supervisor retains for the report of a fault.
const RETAINED: usize = 16;
/// Maximum number of events in an answer, and maximum length of their names in bytes.
const MAX_EVENTS: usize = 1000;
const MAX_NAME: usize = 64;

/// The supervisor of two guests: the client and the server of a connection.
#[derive(Debug)]
pub struct Supervisor {
    limits: Limits,
    /// Time of each guest's last call, and number of calls at this time.
    calls: [(Instant, u32); 2],
    last: VecDeque<Exchange>,
}

/// A call of a guest and its answer.
#[derive(Debug)]
enum Exchange {
    Started { end: End, seed: u64, config: String, wake: Option<Instant> },
    Ran { end: End, now: Instant, received: usize, sent: usize, bytes: usize, wake: Option<Instant> },
    Failed(Fault),
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wake = match self {
            Self::Failed(fault) => return fault.fmt(f),
            Self::Started { end, seed, config, wake } => {
                write!(f, "{} start, seed {seed}, config {config}: ", end.name())?;
                wake
            }
            Self::Ran { end, now, received, sent, bytes, wake } => {
                write!(f, "{} run at {} ns, {received} datagrams received: ", end.name(), now.nanos())?;
                write!(f, "{sent} datagrams sent with {bytes} bytes, ")?;
                wake
            }
        };
        match wake {
            Some(wake) => write!(f, "wake at {} ns", wake.nanos()),
            None => f.write_str("no wake"),
        }
    }
}

impl Supervisor {
    /// Creates the supervisor of two guests that have not been started.
    pub fn new(limits: Limits) -> Self {
        Self { limits, calls: [(Instant::START, 0); 2], last: VecDeque::new() }
    }

    /// Starts the guest at the end that `start` contains. Returns the time of the guest's first wake-up.
    ///
    /// # Errors
    /// Returns a fault if the guest cannot start. A panic of the guest is a fault.
    pub fn start(&mut self, guest: &mut dyn Guest, start: &Start) -> Result<Option<Instant>, Fault> {
        let &Start { end, seed, ref config } = start;
        match guarded(|| guest.start(start)) {
            Ok(wake) => {
                self.remember(Exchange::Started { end, seed, config: config.clone(), wake });
                Ok(wake)
            }
            Err(problem) => Err(self.fail(end, Instant::START, problem)),
        }
    }

    /// Calls the guest at `end` with the datagrams that arrive at `now`. Returns the guest's answer after all checks.
    ///
    /// # Errors
    /// Returns a fault if the answer violates the contract. The guest must not be called again.
    pub fn run(
        &mut self,
        guest: &mut dyn Guest,
        end: End,
        now: Instant,
        received: Vec<Payload>,
    ) -> Result<Answer, Fault> {
        let (last, calls) = &mut self.calls[end as usize];
        *calls = if *last == now { *calls + 1 } else { 1 };
        *last = now;
        if *calls > self.limits.calls {
            return Err(self.fail(end, now, Problem::Calls(self.limits.calls)));
        }
        let count = received.len();
        let checked = guarded(|| guest.run(now, received))
            .and_then(|answer| self.limits.check(now, &answer).map(|()| answer));
        let answer = checked.map_err(|problem| self.fail(end, now, problem))?;
        let (sent, wake) = (answer.datagrams.len(), answer.wake);
        let bytes = answer.datagrams.iter().map(|one| one.data.len()).sum();
        self.remember(Exchange::Ran { end, now, received: count, sent, bytes, wake });
        Ok(answer)
    }

    /// Stops the guest at `end`. `now` is the current time.
    ///
    /// # Errors
    /// Returns a fault if the guest cannot be stopped. A panic of the guest is a fault.
    pub fn stop(&mut self, guest: &mut dyn Guest, end: End, now: Instant) -> Result<(), Fault> {
        guarded(|| guest.stop()).map_err(|problem| self.fail(end, now, problem))
    }

    /// Records and returns a fault of the guest at `end`.
    pub fn fail(&mut self, end: End, at: Instant, problem: Problem) -> Fault {
        let fault = Fault { end, at, problem };
        self.remember(Exchange::Failed(fault.clone()));
        fault
    }

    fn remember(&mut self, exchange: Exchange) {
        if self.last.len() == RETAINED {
            self.last.pop_front();
        }
        self.last.push_back(exchange);
    }

    /// Returns descriptions of the last calls with their answers, one line each.
    pub fn last_exchanges(&self) -> impl Iterator<Item = String> {
        self.last.iter().map(ToString::to_string)
    }
}

impl Limits {
    fn check(&self, now: Instant, answer: &Answer) -> Result<(), Problem> {
        if let Some(wake) = answer.wake.filter(|&wake| wake <= now) {
            return Err(Problem::Wake(wake));
        }
        let &Self { datagrams: most, size, flows, .. } = self;
        let count = answer.datagrams.len();
        if count > most {
            return Err(Problem::Datagrams { count, most });
        }
        for Payload { flow, data, .. } in &answer.datagrams {
            let bytes = data.len();
            if bytes == 0 || bytes > size {
                return Err(Problem::Size { bytes, most: size });
            }
            if *flow >= flows {
                return Err(Problem::Flow { flow: *flow, flows });
            }
        }
        let is_valid = |event: &Event| (1..=MAX_NAME).contains(&event.name.len()) && event.value.is_finite();
        if answer.events.len() > MAX_EVENTS || !answer.events.iter().all(is_valid) {
            return Err(Problem::Events);
        }
        Ok(())
    }
}

/// Calls a guest, and converts a panic to a problem.
fn guarded<T>(call: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    // After a panic, the guest is not called again.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Problem::Panic(text_of(panic.as_ref()))))
}

/// Returns the message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown reason").to_owned()
}
