//! The load generator: the workloads of a plan, over real sockets.
//!
//! The workloads are those of the simulator, with the same arrivals and sizes. One thread has their clock
//! (`players.rs`) and tells the two ends of each workload what to do. An end is a thread inside its host's
//! namespace (`end.rs`), and so are its sockets. What was asked for and what became of it is in [`Asked`].
//!
//! A transfer that nobody requests is opened by the end where data come from, which sends the bytes and closes
//! (`push.rs`). One with a request, and each exchange of a conversation, is HTTP/1.1 between a client where data go and
//! a server where they come from (`http.rs`); request and response have the wanted bytes on the connection, headers
//! included (`message.rs`). As in the simulator, the end where data come from closes with the last byte, and the FIN
//! rides on the last segment. A datagram is a UDP datagram (`datagrams.rs`).
//!
//! Ours: the further delays of the ends of a conversation are told to the router ([`ConnectionDelays`]), not slept.

mod actions;
mod datagrams;
mod end;
mod entry;
mod http;
mod message;
mod player;
mod players;
mod push;
mod record;
mod rounds;
mod sockets;
mod tcp_info;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use aqm_net::{Instant, Span};
use aqm_sim::emulation::Side;
use aqm_sim::{Plan, PlannedWorkload};
use aqm_tcp::config::connection::Nagle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::{Clock, LiveError};
use end::{Command, EndSpec};
use player::{Ends, Player};
use players::Players;
use record::Report;
use rounds::{Round, Rounds};
use sockets::Options;

pub use record::{Asked, Facts};

/// Where listeners listen if the scenario names no port. Wireshark shows what it finds there as HTTP.
pub const DEFAULT_PORT: u16 = 8080;

/// An end of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the workload.
    pub traffic: u32,
    /// Where data come from, or where they go.
    pub side: Side,
}

impl Place {
    /// Its position among the ends of all workloads.
    pub fn index(self) -> usize {
        2 * self.traffic as usize + self.side as usize
    }
}

/// The hosts on which the ends of workloads run.
pub trait Places {
    /// The first half of the addresses of the hosts there; host number h, from zero, has h + 1 in the second half.
    fn prefix(&self, place: Place) -> [u8; 2];

    /// Whether all addresses there are its own, so that it listens at all of them at once.
    fn has_own_namespace(&self, place: Place) -> bool;

    /// Runs `task` there, in a thread of its own.
    ///
    /// # Errors
    /// If no thread can be had.
    fn run(&self, place: Place, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, LiveError>;
}

/// What each packet of a connection takes longer at its ends, in both directions. Known before its first packet is
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionDelays {
    /// The position of its workload.
    pub traffic: u32,
    /// The end that opens it: the client.
    pub client: SocketAddrV4,
    /// The other end.
    pub server: SocketAddrV4,
    /// Between the client and its router.
    pub client_delay: Span,
    /// Between the server and its router.
    pub server_delay: Span,
}

/// The ends of all workloads, listening; nothing is sent yet.
pub struct Prepared {
    players: Vec<Player>,
    ends: Vec<JoinHandle<()>>,
    reports: (mpsc::Sender<Report>, mpsc::Receiver<Report>),
    end: Instant,
}

/// The load of a run, under way. When it is dropped, all is cut off.
pub struct Load {
    /// Nothing once it was waited for.
    players: Option<JoinHandle<(Vec<Asked>, Facts)>>,
    done: Arc<AtomicBool>,
    reports: mpsc::Sender<Report>,
}

/// Starts the ends of the workloads of `plan` at their `places`; when this returns, they listen. Programs
/// (`kind = "program"`) are somebody else's business.
///
/// # Errors
/// What an end was refused, or a workload with more hosts than there are addresses.
pub fn prepare(
    plan: &Plan,
    places: &dyn Places,
) -> Result<(Prepared, mpsc::Receiver<ConnectionDelays>), LiveError> {
    sockets::allow_many();
    let reports = mpsc::channel();
    let (delays, told_delays) = mpsc::channel();
    let (ready, answers) = mpsc::channel();
    let (mut players, mut ends) = (Vec::new(), Vec::new());
    let mut end = Instant::START;
    for (traffic, planned) in (0..).zip(plan.workloads()) {
        end = Instant::START + planned.duration;
        let both = [Side::Sender, Side::Receiver].map(|side| Place { traffic, side });
        let port = planned.port.filter(|&port| port > 0).unwrap_or(DEFAULT_PORT);
        let hosts = Hosts::new(&planned, both.map(|place| places.prefix(place)), port)?;
        let mut commands = Vec::new();
        if planned.programs.is_none() {
            let expected = Arc::new(Mutex::new(BTreeMap::new()));
            for place in both {
                let (sender, receiver) = unbounded_channel();
                let spec = EndSpec {
                    place,
                    options: Options::of(&planned),
                    listening: hosts.listening(place.side, places.has_own_namespace(place)),
                    sends_datagrams: planned.sends_datagrams,
                    expected: Arc::clone(&expected),
                    reports: reports.0.clone(),
                    delays: delays.clone(),
                };
                let ready = ready.clone();
                ends.push(places.run(place, Box::new(move || end::run(spec, receiver, &ready)))?);
                commands.push(sender);
            }
        }
        let ends = Ends { hosts, options: Options::of(&planned), commands };
        players.push(Player::new(planned.name, planned.workload.clone(), ends));
    }
    drop(ready);
    // Each end answers once; one that cannot even do that is gone, and so is what it would have answered with.
    for _ in 0..ends.len() {
        let gone = || LiveError::new("an end of the load generator did not start", "its thread is gone");
        answers.recv().unwrap_or_else(|_| Err(gone()))?;
    }
    Ok((Prepared { players, ends, reports, end }, told_delays))
}

impl Prepared {
    /// The run begins: `clock` says when it did. What is due by now is asked for at once, and counted as late.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(self, clock: Clock) -> Result<Load, LiveError> {
        let Self { players, ends, reports: (reports, received), end } = self;
        let done = Arc::new(AtomicBool::new(false));
        let run = Players::new(players, clock, end, Arc::clone(&done));
        let thread = std::thread::Builder::new().name("workloads".to_owned());
        let players = thread
            .spawn(move || run.play(&received, ends))
            .map_err(|error| LiveError::new("no thread for the workloads can be started", error))?;
        Ok(Load { players: Some(players), done, reports })
    }
}

impl Load {
    /// Whether nothing is left to do: no workload will ask for anything before the end of the run, and all that was
    /// asked for has arrived or failed. Datagrams, and acknowledgements, may be under way.
    pub fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// Cuts all off at once, before the end of the run.
    pub fn stop(&self) {
        // If nobody listens, all is over.
        let _ = self.reports.send(Report::Stop);
    }

    /// Waits for the end of the run, when all is cut off; says what was asked for, in that order, and what became of
    /// it.
    ///
    /// # Errors
    /// If the thread of the workloads failed.
    pub fn finish(mut self) -> Result<(Vec<Asked>, Facts), LiveError> {
        let outcome = self.players.take().and_then(|players| players.join().ok());
        outcome
            .ok_or_else(|| LiveError::new("the workloads failed", "their thread panicked; this is a defect"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The addresses of the hosts of a workload.
#[derive(Clone, Copy, Debug)]
struct Hosts {
    /// By side.
    prefixes: [[u8; 2]; 2],
    count: u32,
    own: bool,
    port: u16,
}

impl Hosts {
    fn new(planned: &PlannedWorkload<'_>, prefixes: [[u8; 2]; 2], port: u16) -> Result<Self, LiveError> {
        let count = if planned.own_hosts { planned.hosts.max(1) } else { 1 };
        match u32::try_from(count) {
            Ok(count) if count < 0xffff => Ok(Self { prefixes, count, own: planned.own_hosts, port }),
            _ => Err(LiveError::new(
                format_args!("the workload `{}` has {count} hosts on each side", planned.name),
                "live there can be 65534; let its flows share hosts (`hosts = \"shared\"`)",
            )),
        }
    }

    /// The address of a host.
    fn address(&self, side: Side, host: u32) -> Ipv4Addr {
        let [first, second] = self.prefixes[side as usize];
        let [.., third, fourth] = (if self.own { host + 1 } else { 1 }).to_be_bytes();
        Ipv4Addr::new(first, second, third, fourth)
    }

    /// Where the connections and datagrams go that this host sends to the other end.
    fn remote(&self, side: Side, host: u32) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(side, host), self.port)
    }

    /// Where this end listens: at all of its addresses, or at that of each host.
    fn listening(&self, side: Side, at_all: bool) -> Vec<SocketAddrV4> {
        let each = || (0..self.count).map(|host| self.remote(side, host)).collect();
        if at_all { vec![SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, self.port)] } else { each() }
    }
}

impl Options {
    fn of(planned: &PlannedWorkload<'_>) -> Self {
        Self {
            dscp: planned.dscp,
            no_delay: planned.tcp.connection.nagle == Nagle::Off,
            // A link's header is small.
            datagram_header: sockets::IP_AND_UDP + planned.link_header.bytes() as u16,
        }
    }
}

/// What an end is told.
type Commands = UnboundedSender<Command>;

/// A connection, or a stream of datagrams, that is to be made.
#[derive(Clone, Debug)]
struct Job {
    /// Its number in the run.
    number: u32,
    /// The address from which it is opened.
    from: Ipv4Addr,
    to: SocketAddrV4,
    task: Task,
}

/// What a connection is for.
#[derive(Clone, Debug)]
enum Task {
    /// The end that opens it sends so many bytes and closes; without a number it sends for ever.
    Push(Option<u64>),
    /// The end that opens it asks, and the other one answers.
    Ask(Arc<Rounds>),
    /// Datagrams.
    Stream,
}

/// The jobs of a workload whose connections are not accepted yet, by the address from which they are opened.
type Expected = Arc<Mutex<BTreeMap<SocketAddrV4, Job>>>;
