//! The thread that runs all workloads in real time and sends the workloads' requests to the ends.
//!
//! A workload requests calls at certain times. Even if a call is late, the requested time is passed to the workload, so
//! that the workload sends the same requests as in a simulation. Transfer events are reported to the workload with the
//! time at which they were observed. The times that are passed to a workload never decrease.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use aqm_net::{Ecn, Instant};
use aqm_sim::emulation::{EndCounts, Side};
use aqm_traffic::{Conversation, TrafficContext, Transfer, Workload};
use nix::sys::prctl::set_timerslack;
use tokio::sync::oneshot;

use super::actions::{Action, Actions};
use super::end::Command;
use super::entry::Entry;
use super::message::{SHORTEST_RESPONSE, shortest_request};
use super::player::Player;
use super::record::{Event, ExchangeRecord, Facts, Report, RequestRecord};
use super::rounds::{Round, Rounds};
use super::{Job, Task};
use crate::Clock;
use crate::router::lateness::Lateness;

/// A wake-up of a workload. Wake-ups with equal times are executed in the order in which they were requested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wake {
    at: Instant,
    number: u64,
    position: usize,
}

/// All workloads of a run.
pub(super) struct Players {
    all: Vec<Player>,
    clock: Clock,
    end: Instant,
    wakes: BinaryHeap<Reverse<Wake>>,
    /// Sleeping connections, keyed by the time and the number of their wake-up.
    sleepers: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    /// Number of wake-ups requested so far.
    planned: u64,
    entries: Vec<Entry>,
    /// Index of an entry before which all entries are finished.
    first_open: usize,
    /// Number of ends that have not yet confirmed that all commands have been processed; `None` while there are
    /// unfinished requests.
    echoes: Option<usize>,
    /// Whether the load is finished.
    done: Arc<AtomicBool>,
    lateness: Lateness,
}

impl Players {
    /// Creates the players. `done` is set to true when the load is finished.
    pub(super) fn new(all: Vec<Player>, clock: Clock, end: Instant, done: Arc<AtomicBool>) -> Self {
        Self {
            all,
            clock,
            end,
            done,
            wakes: BinaryHeap::new(),
            sleepers: BTreeMap::new(),
            planned: 0,
            entries: Vec::new(),
            first_open: 0,
            echoes: None,
            lateness: Lateness::new(),
        }
    }

    /// Runs the workloads until the run ends or a report stops the load, and then waits until all threads in `ends`
    /// have terminated.
    pub(super) fn play(
        mut self,
        reports: &mpsc::Receiver<Report>,
        ends: Vec<JoinHandle<()>>,
    ) -> (Vec<RequestRecord>, Facts) {
        // If the kernel denies this request, each wake-up is 50 microseconds later.
        let _ = set_timerslack(1);
        self.send_all(|| Command::Begin(self.clock));
        for position in 0..self.all.len() {
            self.call(position, Instant::START, |workload, cx| workload.start(cx));
        }
        self.run(reports);
        self.end = self.end.min(self.clock.now());
        self.send_all(|| Command::Stop);
        for end in ends {
            if end.join().is_err() {
                let reason = "an end of the load generator panicked, which is a bug".to_owned();
                self.all.iter_mut().for_each(|player| player.count_failure(reason.clone()));
            }
        }
        while let Ok(report) = reports.try_recv() {
            self.handle(report);
        }
        self.into_outcome()
    }

    fn run(&mut self, reports: &mpsc::Receiver<Report>) {
        loop {
            self.wake_until(self.clock.now());
            self.update_done();
            let wake = self.wakes.peek().map(|Reverse(wake)| wake.at);
            let sleeper = self.sleepers.keys().next().map(|&(until, _)| until);
            let next = wake.into_iter().chain(sleeper).fold(self.end, Instant::min);
            let now = self.clock.now();
            if now >= self.end {
                return;
            }
            let wait = Duration::from_nanos(next.since(now).nanos());
            match reports.recv_timeout(wait) {
                Ok(Report::Stop) => return,
                Ok(report) => {
                    if let Report::Job { at, .. } = &report {
                        self.wake_until(*at);
                    }
                    self.handle(report);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
    }

    /// If no workload will send another request and all requests are finished, requests each end to confirm that all
    /// commands (for example, for datagrams) have been processed.
    fn update_done(&mut self) {
        if self.echoes.is_none() && self.is_idle() {
            self.send_all(|| Command::Echo);
            self.echoes = Some(self.all.iter().map(|player| player.ends.commands.len()).sum());
        }
        if self.echoes == Some(0) {
            self.done.store(true, Relaxed);
        }
    }

    /// Returns whether no workload will send another request and all requests are finished.
    fn is_idle(&mut self) -> bool {
        let open = &self.entries[self.first_open..];
        self.first_open += open.iter().take_while(|entry| entry.is_over()).count();
        let is_due = |&Reverse(wake): &Reverse<Wake>| wake.at < self.end;
        self.first_open == self.entries.len() && !self.wakes.peek().is_some_and(is_due)
    }

    fn send_all(&self, command: impl Fn() -> Command) {
        for end in self.all.iter().flat_map(|player| &player.ends.commands) {
            // If the end has already terminated, it does not need the command.
            let _ = end.send(command());
        }
    }

    /// Wakes all workloads and connections that are due by `now`.
    fn wake_until(&mut self, now: Instant) {
        while let Some(sleeper) = self.sleepers.first_entry().filter(|entry| entry.key().0 <= now) {
            // If the connection was aborted, the channel is closed and there is no task to wake.
            let _ = sleeper.remove().send(());
        }
        while let Some(&Reverse(Wake { at, position, .. })) = self.wakes.peek() {
            if at > now || at >= self.end {
                return;
            }
            self.wakes.pop();
            self.lateness.note(at, self.clock.now());
            self.call(position, at, |workload, cx| workload.on_wake(cx));
        }
    }

    /// Calls a workload and executes the actions that the workload requests.
    fn call(
        &mut self,
        position: usize,
        now: Instant,
        call: impl FnOnce(&mut dyn Workload, &mut dyn TrafficContext),
    ) {
        let Some(player) = self.all.get_mut(position) else { return };
        player.called = player.called.max(now);
        let mut actions = Actions { now: player.called, all: Vec::new() };
        call(player.workload.as_mut(), &mut actions);
        let now = actions.now;
        for action in actions.all {
            match action {
                Action::Wake(at) => {
                    self.planned += 1;
                    self.wakes.push(Reverse(Wake { at: at.max(now), number: self.planned, position }));
                }
                Action::Open(transfer) => self.open(position, transfer, now),
                Action::Converse(conversation) => self.converse(position, &conversation, now),
                Action::Datagram { stream, bytes, ecn } => {
                    self.send_datagram(position, stream, (bytes, ecn), now);
                }
            }
        }
    }

    fn open(&mut self, position: usize, transfer: Transfer, now: Instant) {
        let Some(bytes) = transfer.request else {
            self.connect(position, (transfer, false), Task::Push(transfer.bytes), now);
            return;
        };
        let rounds = Rounds::once(bytes, transfer.bytes);
        self.connect(position, (transfer, false), Task::Request(Arc::new(rounds)), now);
    }

    fn converse(&mut self, position: usize, conversation: &Conversation, now: Instant) {
        let rounds = Rounds::of(conversation);
        let transfer = Transfer {
            bytes: rounds
                .all
                .iter()
                .map(|round| round.response)
                .try_fold(0_u64, |all, one| Some(all.saturating_add(one?))),
            request: Some(u32::try_from(conversation.first.request).unwrap_or(u32::MAX)),
            page: None,
            page_objects: 1,
            host: conversation.host,
        };
        self.connect(position, (transfer, true), Task::Request(Arc::new(rounds)), now);
    }

    /// Opens a connection for a request of the workload at `position`.
    fn connect(&mut self, position: usize, kind: (Transfer, bool), task: Task, now: Instant) {
        let opener = if matches!(task, Task::Request(_)) { Side::Receiver } else { Side::Sender };
        let Some(job) = self.add_entry(position, kind, (opener, task), now) else { return };
        let number = job.number;
        self.send(position, opener, Command::Open(job), number);
    }

    /// Adds a record of a request and returns the job of the request.
    fn add_entry(
        &mut self,
        position: usize,
        (transfer, is_conversation): (Transfer, bool),
        (opener, task): (Side, Task),
        now: Instant,
    ) -> Option<Job> {
        let player = self.all.get_mut(position)?;
        let number = u32::try_from(self.entries.len()).ok()?;
        let host = transfer.host;
        let to = player.ends.addresses.remote(opener.other(), host);
        let mut exchanges = Vec::new();
        if let Task::Request(rounds) = &task {
            let shortest = shortest_request(to.to_string().len());
            for &Round { request, response, .. } in &rounds.all {
                player.facts.lengthened += u64::from(request < shortest);
                player.facts.lengthened += u64::from(response.is_some_and(|bytes| bytes < SHORTEST_RESPONSE));
                exchanges.push(ExchangeRecord {
                    request,
                    response,
                    requested_at: None,
                    first_byte: None,
                    completed: None,
                });
            }
        }
        let record = RequestRecord {
            traffic: position as u32,
            transfer,
            opened: now,
            local: None,
            remote: to,
            completed: None,
            failed: None,
            ends: EndCounts::default(),
            tcp: None,
            exchanges,
            received: None,
        };
        self.entries.push(Entry { record, is_conversation, responses: 0 });
        Some(Job { number, from: player.ends.addresses.address(opener, host), to, task })
    }

    fn send_datagram(&mut self, position: usize, stream: u32, (bytes, ecn): (u16, Ecn), now: Instant) {
        let known = self.all.get(position).and_then(|player| player.streams.get(&stream)).cloned();
        let job = known.or_else(|| {
            let transfer = Transfer { bytes: None, request: None, page: None, page_objects: 0, host: stream };
            self.add_entry(position, (transfer, false), (Side::Sender, Task::Stream), now)
        });
        let (Some(job), Some(player)) = (job, self.all.get_mut(position)) else { return };
        player.facts.lengthened += u64::from(bytes < player.ends.options.datagram_header);
        player.streams.entry(stream).or_insert_with(|| job.clone());
        let number = job.number;
        self.send(position, Side::Sender, Command::Datagram { job, bytes, ecn }, number);
    }

    /// Sends a command for a job to an end of a workload.
    fn send(&mut self, position: usize, side: Side, command: Command, number: u32) {
        let end = self.all.get(position).and_then(|player| player.ends.commands.get(side as usize));
        if end.is_none_or(|end| end.send(command).is_err()) {
            let reason = "opening: the load generator's process at the other end has terminated".to_owned();
            self.note_failure(number, reason);
        }
    }

    /// Handles a report.
    fn handle(&mut self, report: Report) {
        let (number, at, event) = match report {
            Report::Job { number, at, event } => (number, at, event),
            Report::Error { traffic, at, reason } => {
                if let Some(player) = self.all.get_mut(traffic as usize).filter(|_| at <= self.end) {
                    player.count_failure(reason);
                }
                return;
            }
            Report::Sleep { until, wake } => {
                self.planned += 1;
                self.sleepers.insert((until, self.planned), wake);
                return;
            }
            Report::Echo => {
                self.echoes = self.echoes.map(|left| left.saturating_sub(1));
                return;
            }
            Report::Stop => return,
        };
        let Some(entry) = self.entries.get_mut(number as usize) else { return };
        let record = &mut entry.record;
        match event {
            Event::Opened(local) => {
                (record.opened, record.local) = (at, Some(local));
                if let Some(first) = record.exchanges.first_mut() {
                    first.requested_at = Some(at);
                }
            }
            Event::Requested => {
                if let Some(current) = record.exchanges.get_mut(entry.responses) {
                    current.requested_at = Some(at);
                }
            }
            Event::Info(info) => {
                record.ends = info.counts();
                if let Some(player) = self.all.get_mut(record.traffic as usize) {
                    player.facts.congestion_controls.insert(info.congestion_control.clone());
                }
                record.tcp = Some(info);
            }
            Event::Received(received) => record.received = Some(received),
            // Events that occur after the end of the run are ignored.
            Event::Arrived(_) | Event::Failed(_) if at > self.end => {}
            Event::Arrived(first_byte) => {
                let (position, transfer) = (record.traffic as usize, entry.arrive(first_byte, at));
                self.call(position, at, |workload, cx| workload.on_done(transfer, cx));
            }
            Event::Failed(_) if record.completed.is_some() || record.failed.is_some() => {}
            Event::Failed(reason) => {
                let (position, transfer) = (record.traffic as usize, entry.current());
                self.note_failure(number, reason);
                self.call(position, at, |workload, cx| workload.on_failed(transfer, cx));
            }
        }
    }

    /// Records that a job failed.
    fn note_failure(&mut self, number: u32, reason: String) {
        let Some(entry) = self.entries.get_mut(number as usize) else { return };
        entry.record.failed = Some(reason.clone());
        if let Some(player) = self.all.get_mut(entry.record.traffic as usize) {
            player.count_failure(reason);
        }
    }

    fn into_outcome(self) -> (Vec<RequestRecord>, Facts) {
        let workloads = self.all.into_iter().map(|player| {
            let mut facts = player.facts;
            player.workload.facts(&mut |name, value| facts.load.push((name, value)));
            facts
        });
        let facts = Facts { wakes: self.lateness, workloads: workloads.collect() };
        (self.entries.into_iter().map(|entry| entry.record).collect(), facts)
    }
}
