//! Two guests at the ends of a path.
//!
//! A guest is a transport implementation that runs in virtual time, according to the contract of the crate [`aqm_guest`].
//! The client sends in the forward direction of the path, and the server in the reverse direction:
//!
//! ```
//! use aqm_guest::Echo;
//! use aqm_path::Path;
//! use aqm_path::guests::{Border, Setup};
//!
//! let path = Path::from_toml(r#"forward = [{ rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } }]"#)?;
//! let mut border = Border::new(path, Setup { seed: 1, ..Setup::default() });
//! let report = border.run([&mut Echo::default(), &mut Echo::default()], &Default::default())?;
//! assert_eq!(report.ends[0].sent, report.ends[0].delivered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;

use aqm_guest::{Answer, End, Event, Fault, Guest, Limits, Payload, Problem, Start, Supervisor};
use aqm_net::digest::Digest;
use aqm_net::watch::{Stopped, Watch};
use aqm_net::{Instant, Span, Streams};

use crate::{Datagram, Direction, FlowId, Outcome, OutcomeDigest, Path};

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
    /// IPv4 header and a UDP header. The contents of a datagram and the headers have at most 65,535 bytes.
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

/// The reason why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A guest violated the contract.
    Fault(Fault),
    /// The watcher stopped the run.
    Stopped(Stopped),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Stopped(_) => f.write_str("the run was stopped"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Maximum length of an IP packet in bytes.
const MAX_PACKET: usize = 65_535;

/// The state of one guest.
#[derive(Default)]
struct GuestState {
    received: Vec<Payload>,
    wake: Option<Instant>,
    report: EndReport,
}

/// The border between two guests and a path: calls the guests, transports their datagrams, and checks each answer.
pub struct Border {
    path: Path,
    setup: Setup,
    supervisor: Supervisor,
    guests: [GuestState; 2],
    now: Instant,
    /// The flows of the path, by the numbers of the guests.
    flows: BTreeMap<u32, FlowId>,
    /// The datagrams on the path, by number.
    contents: BTreeMap<u64, (End, Payload)>,
    sends: Digest,
    outcomes: OutcomeDigest,
    events: Vec<Recorded>,
}

impl Border {
    /// Creates a border between two guests at the ends of `path`, whose time must be 0. Datagrams that are already on the
    /// path are not delivered to the guests.
    pub fn new(path: Path, setup: Setup) -> Self {
        let mut limits = setup.limits.clone();
        limits.size = limits.size.min(MAX_PACKET.saturating_sub(setup.header));
        Self {
            path,
            setup,
            supervisor: Supervisor::new(limits),
            guests: Default::default(),
            now: Instant::START,
            flows: BTreeMap::new(),
            contents: BTreeMap::new(),
            sends: Digest::default(),
            outcomes: OutcomeDigest::default(),
            events: Vec::new(),
        }
    }

    /// Runs two guests, the client and the server, until the end of the run. A border runs once.
    ///
    /// # Errors
    /// Returns the fault of the guest that violated the contract, or an error if `watch` stops the run.
    pub fn run(&mut self, guests: [&mut dyn Guest; 2], watch: &Watch) -> Result<Report, Failure> {
        for end in End::ALL {
            let seed = Streams::new(self.setup.seed).named("guest", end as u64).bits();
            let start = Start { end, seed, config: self.setup.configs[end as usize].clone() };
            let wake = self.supervisor.start(&mut *guests[end as usize], &start)?;
            self.guests[end as usize].wake = wake;
        }
        while let Some((end, received)) = self.next_call() {
            if watch.is_stopped() {
                return Err(Failure::Stopped(Stopped));
            }
            let answer = self.supervisor.run(&mut *guests[end as usize], end, self.now, received)?;
            self.handle(end, answer)?;
        }
        for end in End::ALL {
            self.supervisor.stop(&mut *guests[end as usize], end, self.now)?;
        }
        Ok(self.report())
    }

    /// Advances time until a guest must be called. Returns the end of the guest and the datagrams that arrive; `None` at
    /// the end of the run.
    fn next_call(&mut self) -> Option<(End, Vec<Payload>)> {
        loop {
            for end in End::ALL {
                let guest = &mut self.guests[end as usize];
                if guest.received.is_empty() && guest.wake.is_none_or(|wake| wake > self.now) {
                    continue;
                }
                return Some((end, std::mem::take(&mut guest.received)));
            }
            let wakes = self.guests.iter().filter_map(|guest| guest.wake);
            let due = wakes.chain(self.path.next_due()).min()?.max(self.now);
            if due > self.setup.until {
                return None;
            }
            self.now = due;
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
                self.guests[end.other() as usize].received.push(payload);
            }
            Outcome::Dropped { .. } => self.guests[end as usize].report.dropped += 1,
        }
    }

    /// Handles the answer of a guest.
    fn handle(&mut self, end: End, answer: Answer) -> Result<(), Fault> {
        for payload in answer.datagrams {
            if let Err(problem) = self.send(end, payload) {
                return Err(self.supervisor.fail(end, self.now, problem));
            }
        }
        let guest = &mut self.guests[end as usize];
        guest.wake = answer.wake;
        guest.report.calls += 1;
        let at = self.now;
        self.events.extend(answer.events.into_iter().map(|event| Recorded { at, end, event }));
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
        let number = id.map_err(|error| Problem::Network(error.to_string()))?.number();
        for word in [number, self.now.nanos(), bytes as u64, end as u64] {
            self.sends.word(word);
        }
        let report = &mut self.guests[end as usize].report;
        report.sent += 1;
        report.sent_bytes += bytes as u64;
        self.contents.insert(number, (end, payload));
        Ok(())
    }

    /// Returns descriptions of the last calls with their answers, one line each.
    pub fn last_exchanges(&self) -> impl Iterator<Item = String> {
        self.supervisor.last_exchanges()
    }

    fn report(&self) -> Report {
        let mut ends = self.guests.each_ref().map(|guest| guest.report);
        for (end, _) in self.contents.values() {
            ends[*end as usize].in_transit += 1;
        }
        let mut digest = Digest::default();
        digest.text(&self.sends.clone().finish());
        digest.text(&self.outcomes.clone().finish());
        Report { ends, stopped_at: self.now, digest: digest.finish(), events: self.events.clone() }
    }
}
