//! The border between two guests and the path: calls the guests, transports their datagrams, and checks each answer.
//!
//! The border performs no calls itself. [`Border::next_call`] returns the next call, and the owner passes the guest's answer to
//! [`Border::answer`]. Therefore, guests in the same program and guests in other programs have the same border.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use aqm_net::digest::Digest;
use aqm_net::{Instant, Span, Streams};

use super::{Answer, End, Event, Fault, Guest, Payload, Problem, Start};
use crate::{Datagram, Direction, FlowId, Outcome, OutcomeDigest, Path};

/// Limits for the answers of guests. All limits are aqmlab's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of datagrams in an answer.
    pub datagrams: usize,
    /// Number of flows; the numbers of flows are less than this number.
    pub flows: u32,
    /// Maximum number of calls of a guest at the same time. The limit ends runs in which time does not advance.
    pub calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { datagrams: 10_000, flows: 65_536, calls: 1000 }
    }
}

/// The parameters of a run of two guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Seed, from which the seeds of both guests are derived.
    pub seed: u64,
    /// Configurations of the guests: of the client, and of the server.
    pub configs: [String; 2],
    /// Time at which the guests are stopped.
    pub until: Instant,
    /// Bytes of headers that the path adds to the contents of each datagram. The default of 28 bytes is the length of an
    /// IPv4 header and a UDP header.
    pub header: usize,
    /// Limits for answers.
    pub limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 1,
            configs: ["{}".to_owned(), "{}".to_owned()],
            until: Instant::START + Span::from_millis(10_000),
            header: 28,
            limits: Limits::default(),
        }
    }
}

/// A call of a guest, which must be answered before the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A call of [`Guest::start`].
    Start(Start),
    /// A call of [`Guest::run`].
    Run {
        /// The end at which the guest runs.
        end: End,
        /// Time of the call.
        now: Instant,
        /// The datagrams that arrive at this time.
        received: Vec<Payload>,
    },
    /// A call of [`Guest::stop`].
    Stop(End),
}

impl Call {
    /// Returns the end at which the guest runs.
    pub const fn end(&self) -> End {
        match self {
            Self::Start(Start { end, .. }) | Self::Run { end, .. } | Self::Stop(end) => *end,
        }
    }
}

/// A value that a guest reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Time of the call.
    pub at: Instant,
    /// The end at which the guest runs.
    pub end: End,
    /// The value.
    pub event: Event,
}

/// The counts of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndReport {
    /// Number of calls of [`Guest::run`].
    pub calls: u64,
    /// Datagrams that the end sent.
    pub sent: u64,
    /// Bytes of these datagrams, including headers.
    pub sent_bytes: u64,
    /// Datagrams of this end that were delivered to the other end.
    pub delivered: u64,
    /// Datagrams of this end that the path dropped.
    pub dropped: u64,
    /// Datagrams of this end that were on the path at the end of the run.
    pub in_transit: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The counts of both ends: of the client, and of the server.
    pub ends: [EndReport; 2],
    /// Time at which the guests were stopped: the end of the run, or the time after which nothing could happen any more.
    pub stopped_at: Instant,
    /// Digest (SHA-256) of time, end, length and fate of all datagrams.
    pub digest: String,
    /// The values that the guests reported.
    pub events: Vec<Recorded>,
}

/// Number of calls, with their answers, that the border retains for the report of a fault.
const RETAINED: usize = 16;
/// Maximum number of events in an answer, and maximum length of their names in bytes.
const MAX_EVENTS: usize = 1000;
const MAX_NAME: usize = 64;
/// Maximum length of an IP packet in bytes.
const MAX_PACKET: usize = 65_535;

/// The state of one guest.
#[derive(Default)]
struct GuestState {
    received: Vec<Payload>,
    wake: Option<Instant>,
    /// Number of calls at the current time.
    calls: u32,
    report: EndReport,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting(End),
    Running,
    Stopping(End),
    Stopped,
}

/// The border between two guests and a path.
pub struct Border {
    path: Path,
    setup: Setup,
    guests: [GuestState; 2],
    phase: Phase,
    now: Instant,
    /// The call that has not been answered.
    call: Option<Call>,
    /// The flows of the path, by the numbers of the guests.
    flows: BTreeMap<u32, FlowId>,
    /// The datagrams on the path, by number.
    contents: BTreeMap<u64, (End, Payload)>,
    sends: Digest,
    outcomes: OutcomeDigest,
    events: Vec<Recorded>,
    /// The last calls with their answers, as text.
    last: VecDeque<String>,
    fault: Option<Fault>,
}

impl Border {
    /// Creates a border between two guests at the ends of `path`, whose time must be 0. Datagrams that are already on the
    /// path are not delivered to the guests.
    pub fn new(path: Path, setup: Setup) -> Self {
        Self {
            path,
            setup,
            guests: Default::default(),
            phase: Phase::Starting(End::Client),
            now: Instant::START,
            call: None,
            flows: BTreeMap::new(),
            contents: BTreeMap::new(),
            sends: Digest::default(),
            outcomes: OutcomeDigest::default(),
            events: Vec::new(),
            last: VecDeque::new(),
            fault: None,
        }
    }

    /// Returns the next call of a guest; `None` if both guests have been stopped, or after a fault. The method returns the
    /// same call until the call is answered.
    pub fn next_call(&mut self) -> Option<&Call> {
        if self.fault.is_some() {
            return None;
        }
        if self.call.is_none() {
            self.call = self.find_call();
        }
        self.call.as_ref()
    }

    fn find_call(&mut self) -> Option<Call> {
        match self.phase {
            Phase::Starting(end) => {
                let seed = Streams::new(self.setup.seed).named("guest", end as u64).bits();
                let config = self.setup.configs[end as usize].clone();
                Some(Call::Start(Start { end, seed, config }))
            }
            Phase::Running => self.next_run().or_else(|| {
                self.phase = Phase::Stopping(End::Client);
                self.find_call()
            }),
            Phase::Stopping(end) => Some(Call::Stop(end)),
            Phase::Stopped => None,
        }
    }

    /// Advances time until a guest must be called. Returns `None` at the end of the run.
    fn next_run(&mut self) -> Option<Call> {
        loop {
            for end in End::ALL {
                let guest = &mut self.guests[end as usize];
                if guest.received.is_empty() && guest.wake.is_none_or(|wake| wake > self.now) {
                    continue;
                }
                guest.wake = guest.wake.filter(|&wake| wake > self.now);
                let received = std::mem::take(&mut guest.received);
                return Some(Call::Run { end, now: self.now, received });
            }
            let wakes = self.guests.iter().filter_map(|guest| guest.wake);
            let due = wakes.chain(self.path.next_due()).min()?.max(self.now);
            if due > self.setup.until {
                return None;
            }
            if due > self.now {
                self.now = due;
                self.guests.iter_mut().for_each(|guest| guest.calls = 0);
            }
            while let Some(outcome) = self.path.poll(due) {
                self.finish(&outcome);
            }
        }
    }

    /// Handles the outcome of a datagram.
    fn finish(&mut self, outcome: &Outcome) {
        // Each datagram is delivered at most once, because its contents are removed. A datagram that was sent before the
        // border was created has no contents.
        let Some((end, mut payload)) = self.contents.remove(&outcome.id().number()) else { return };
        self.outcomes.add(outcome);
        match *outcome {
            Outcome::Delivered { ecn, .. } => {
                self.guests[end as usize].report.delivered += 1;
                payload.ecn = ecn;
                let other = End::ALL[1 - end as usize];
                self.guests[other as usize].received.push(payload);
            }
            Outcome::Dropped { .. } => self.guests[end as usize].report.dropped += 1,
        }
    }

    /// Handles the answer to a call of [`Guest::start`]: the time of the guest's first wake-up.
    ///
    /// # Errors
    /// Returns a fault if the last call was another call.
    pub fn started(&mut self, wake: Option<Instant>) -> Result<(), Fault> {
        let Some(Call::Start(start)) = &self.call else {
            return Err(self.fail(Problem::Frame("the request was not to start".to_owned())));
        };
        let Start { end, seed, config } = start.clone();
        let wake_nanos = wake.map(Instant::nanos);
        self.remember(format!("{} start, seed {seed}, config {config}: wake {wake_nanos:?}", end.name()));
        self.guests[end as usize].wake = wake;
        self.phase = match end {
            End::Client => Phase::Starting(End::Server),
            End::Server => Phase::Running,
        };
        self.call = None;
        Ok(())
    }

    /// Handles the end of a call of [`Guest::stop`].
    ///
    /// # Errors
    /// Returns a fault if the last call was another call.
    pub fn stopped(&mut self) -> Result<(), Fault> {
        let Some(&Call::Stop(end)) = self.call.as_ref() else {
            return Err(self.fail(Problem::Frame("the request was not to stop".to_owned())));
        };
        self.phase = match end {
            End::Client => Phase::Stopping(End::Server),
            End::Server => Phase::Stopped,
        };
        self.call = None;
        Ok(())
    }

    /// Handles the answer to a call of [`Guest::run`]. `now` is the time in the answer.
    ///
    /// # Errors
    /// Returns a fault if the answer violates the contract. The run ends.
    pub fn answer(&mut self, now: Instant, answer: Answer) -> Result<(), Fault> {
        let Some(Call::Run { end, received, .. }) = &self.call else {
            return Err(self.fail(Problem::Frame("the request was not to run".to_owned())));
        };
        let (end, received) = (*end, received.len());
        if let Err(problem) = self.check(end, now, &answer) {
            return Err(self.fail(problem));
        }
        self.remember(format!(
            "{} run {} ns, {received} datagrams received: {} datagrams {:?}, wake {:?}",
            end.name(),
            self.now.nanos(),
            answer.datagrams.len(),
            answer.datagrams.iter().take(RETAINED).map(|one| one.data.len()).collect::<Vec<_>>(),
            answer.wake.map(Instant::nanos),
        ));
        for payload in answer.datagrams {
            if let Err(problem) = self.send(end, payload) {
                return Err(self.fail(problem));
            }
        }
        let guest = &mut self.guests[end as usize];
        guest.wake = answer.wake;
        guest.calls += 1;
        guest.report.calls += 1;
        let at = self.now;
        self.events.extend(answer.events.into_iter().map(|event| Recorded { at, end, event }));
        self.call = None;
        Ok(())
    }

    fn check(&self, end: End, now: Instant, answer: &Answer) -> Result<(), Problem> {
        if now != self.now {
            return Err(Problem::OtherTime(now));
        }
        if let Some(wake) = answer.wake.filter(|&wake| wake <= self.now) {
            return Err(Problem::Wake(wake));
        }
        let Limits { datagrams: most, flows, calls } = self.setup.limits;
        let count = answer.datagrams.len();
        if count > most {
            return Err(Problem::Datagrams { count, most });
        }
        let most = MAX_PACKET.saturating_sub(self.setup.header);
        for Payload { flow, data, .. } in &answer.datagrams {
            let bytes = data.len();
            if bytes == 0 || bytes > most {
                return Err(Problem::Size { bytes, most });
            }
            if *flow >= flows {
                return Err(Problem::Flow { flow: *flow, flows });
            }
        }
        let is_name = |event: &Event| (1..=MAX_NAME).contains(&event.name.len());
        if answer.events.len() > MAX_EVENTS || !answer.events.iter().all(is_name) {
            return Err(Problem::Events);
        }
        if self.guests[end as usize].calls >= calls {
            return Err(Problem::Calls(calls));
        }
        Ok(())
    }

    fn send(&mut self, end: End, payload: Payload) -> Result<(), Problem> {
        let path = &mut self.path;
        let flow = *self.flows.entry(payload.flow).or_insert_with(|| path.open_flow());
        let direction = match end {
            End::Client => Direction::Forward,
            End::Server => Direction::Reverse,
        };
        let bytes = payload.data.len() + self.setup.header;
        let id = path.send(Datagram { flow, direction, bytes, ecn: payload.ecn }, self.now);
        let number = id.map_err(|error| Problem::Path(error.to_string()))?.number();
        for word in [number, self.now.nanos(), bytes as u64, end as u64] {
            self.sends.word(word);
        }
        let report = &mut self.guests[end as usize].report;
        report.sent += 1;
        report.sent_bytes += bytes as u64;
        self.contents.insert(number, (end, payload));
        Ok(())
    }

    /// Ends the run with a fault of the guest that was called last.
    pub fn fail(&mut self, problem: Problem) -> Fault {
        let end = self.call.as_ref().map_or(End::Client, Call::end);
        let fault = Fault { end, at: self.now, problem };
        self.remember(format!("{fault}"));
        self.fault.get_or_insert(fault).clone()
    }

    fn remember(&mut self, text: String) {
        if self.last.len() == RETAINED {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }

    /// Returns the last calls with their answers, one line each.
    pub fn last_exchanges(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }

    /// Returns the result of the run.
    ///
    /// # Errors
    /// Returns the fault that ended the run, if there is one.
    pub fn report(&self) -> Result<Report, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let mut ends = self.guests.each_ref().map(|guest| guest.report);
        for (end, _) in self.contents.values() {
            ends[*end as usize].in_transit += 1;
        }
        let mut digest = Digest::default();
        digest.text(&self.sends.clone().finish());
        digest.text(&self.outcomes.clone().finish());
        let events = self.events.clone();
        Ok(Report { ends, stopped_at: self.now, digest: digest.finish(), events })
    }
}

/// Runs two guests in the same program, the client and the server, until the end of the run.
///
/// # Errors
/// Returns the fault of the guest that violated the contract. A panic of a guest is a fault.
pub fn run(border: &mut Border, guests: [&mut dyn Guest; 2]) -> Result<Report, Fault> {
    let [client, server] = guests;
    while let Some(call) = border.next_call().cloned() {
        let guest: &mut dyn Guest = match call.end() {
            End::Client => &mut *client,
            End::Server => &mut *server,
        };
        match call {
            Call::Start(start) => {
                let wake = guarded(|| guest.start(&start)).map_err(|problem| border.fail(problem))?;
                border.started(wake)?;
            }
            Call::Run { now, received, .. } => {
                let answer = guarded(|| guest.run(now, received)).map_err(|problem| border.fail(problem))?;
                border.answer(now, answer)?;
            }
            Call::Stop(_) => {
                let stopped = guarded(|| {
                    guest.stop();
                    Ok(())
                });
                stopped.map_err(|problem| border.fail(problem))?;
                border.stopped()?;
            }
        }
    }
    border.report()
}

/// Calls a guest, and converts errors and panics to problems.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, Problem> {
    // After a panic, the guest is not called again.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Problem::Error),
        Err(panic) => Err(Problem::Panic(text_of(panic.as_ref()))),
    }
}

/// Returns the message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown reason").to_owned()
}
