//! The load generator, which runs the workloads of a plan over real sockets.
//!
//! The workloads are the same as in the simulator, and produce the same arrivals and sizes. One thread runs all
//! workloads in real time (`players.rs`) and sends commands to the two ends of each workload. An end is a thread that
//! runs inside a host's namespace and owns the sockets at its side of the workload (`end.rs`). [`RequestRecord`]
//! contains a request and its outcome.
//!
//! For a transfer without a request, the sender of the data opens the connection, sends the bytes and closes the
//! connection (`push.rs`). Transfers with a request and the exchanges of a conversation use HTTP/1.1 between a client
//! at the receiver of the data and a server at the sender (`http.rs`). The length of each request and response,
//! including headers, is the specified number of bytes (`message.rs`). As in the simulator, the sender of the data
//! closes the connection with the last byte, so that the last segment carries the FIN. Datagrams are sent over UDP
//! (`datagrams.rs`).
//!
//! aqmlab's choice: the additional delays at the ends of a conversation are applied by the router
//! ([`ConnectionDelays`]); the ends do not sleep to produce these delays.

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

pub use record::{Facts, RequestRecord};

/// Default port on which ends listen. Wireshark dissects traffic on this port as HTTP.
pub const DEFAULT_PORT: u16 = 8080;

/// Index of a host, which consists of a workload and one of the workload's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIndex {
    /// Position of the workload.
    pub traffic: u32,
    /// Whether the end sends or receives the data.
    pub side: Side,
}

impl HostIndex {
    /// Returns the position of this end in the list of the ends of all workloads.
    pub fn position(self) -> usize {
        2 * self.traffic as usize + self.side as usize
    }
}

/// The hosts on which the ends of the workloads run.
pub trait HostSet {
    /// Returns the first two bytes of the addresses of an end's hosts. The last two bytes of the address are h + 1 for
    /// the host with the number h, counted from zero.
    fn prefix(&self, index: HostIndex) -> [u8; 2];

    /// Returns whether all addresses of the namespace belong to the end. If they do, a single socket listens on all
    /// addresses.
    fn has_own_namespace(&self, index: HostIndex) -> bool;

    /// Runs `task` in a new thread in the host.
    ///
    /// # Errors
    /// Returns an error if the thread cannot start.
    fn run(&self, index: HostIndex, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, LiveError>;
}

/// The additional delays at the two ends of a connection, which apply to each packet in both directions. The delays are
/// announced before the first packet of the connection is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionDelays {
    /// Position of the workload.
    pub traffic: u32,
    /// Address of the client, which opens the connection.
    pub client: SocketAddrV4,
    /// Address of the server.
    pub server: SocketAddrV4,
    /// Delay between the client and its router.
    pub client_delay: Span,
    /// Delay between the server and its router.
    pub server_delay: Span,
}

/// A load that is ready to start: all ends of the workloads are listening, and nothing has been sent.
pub struct Prepared {
    players: Vec<Player>,
    ends: Vec<JoinHandle<()>>,
    reports: (mpsc::Sender<Report>, mpsc::Receiver<Report>),
    end: Instant,
}

/// The load of a run in progress. Dropping this value stops the load.
pub struct Load {
    /// The thread that runs the workloads; `None` after the thread has been joined.
    players: Option<JoinHandle<(Vec<RequestRecord>, Facts)>>,
    done: Arc<AtomicBool>,
    reports: mpsc::Sender<Report>,
}

/// Starts the ends of the workloads of `plan` on their hosts. When this function returns, the ends are listening. This
/// function does not start programs (`kind = "program"`).
///
/// # Errors
/// Returns an error if the system denies an operation, or if a workload has more hosts than there are addresses.
pub fn prepare(
    plan: &Plan,
    hosts: &dyn HostSet,
) -> Result<(Prepared, mpsc::Receiver<ConnectionDelays>), LiveError> {
    sockets::allow_many();
    let reports = mpsc::channel();
    let (delays, announced_delays) = mpsc::channel();
    let (ready, outcomes) = mpsc::channel();
    let (mut players, mut ends) = (Vec::new(), Vec::new());
    let mut end = Instant::START;
    for (traffic, planned) in (0..).zip(plan.workloads()) {
        end = Instant::START + planned.duration;
        let both = [Side::Sender, Side::Receiver].map(|side| HostIndex { traffic, side });
        let port = planned.port.filter(|&port| port > 0).unwrap_or(DEFAULT_PORT);
        let addresses = Addresses::new(&planned, both.map(|index| hosts.prefix(index)), port)?;
        let mut commands = Vec::new();
        if planned.programs.is_none() {
            let expected = Arc::new(Mutex::new(BTreeMap::new()));
            for index in both {
                let (sender, receiver) = unbounded_channel();
                let spec = EndSpec {
                    index,
                    options: Options::of(&planned),
                    listening: addresses.listening(index.side, hosts.has_own_namespace(index)),
                    sends_datagrams: planned.sends_datagrams,
                    expected: Arc::clone(&expected),
                    reports: reports.0.clone(),
                    delays: delays.clone(),
                };
                let ready = ready.clone();
                ends.push(hosts.run(index, Box::new(move || end::run(spec, receiver, &ready)))?);
                commands.push(sender);
            }
        }
        let ends = Ends { addresses, options: Options::of(&planned), commands };
        players.push(Player::new(planned.name, planned.workload.clone(), ends));
    }
    drop(ready);
    // Each end sends one outcome. If an end terminates without sending an outcome, the channel closes.
    for _ in 0..ends.len() {
        let gone =
            || LiveError::new("cannot start an end of the load generator", "the end's thread has terminated");
        outcomes.recv().unwrap_or_else(|_| Err(gone()))?;
    }
    Ok((Prepared { players, ends, reports, end }, announced_delays))
}

impl Prepared {
    /// Starts the workloads. Time zero of the run is the time at which `clock` was started. Requests that are already
    /// due are sent immediately and counted as late.
    ///
    /// # Errors
    /// Returns an error if the thread cannot start.
    pub fn start(self, clock: Clock) -> Result<Load, LiveError> {
        let Self { players, ends, reports: (reports, received), end } = self;
        let done = Arc::new(AtomicBool::new(false));
        let run = Players::new(players, clock, end, Arc::clone(&done));
        let thread = std::thread::Builder::new().name("workloads".to_owned());
        let players = thread
            .spawn(move || run.play(&received, ends))
            .map_err(|error| LiveError::new("cannot start the thread of the workloads", error))?;
        Ok(Load { players: Some(players), done, reports })
    }
}

impl Load {
    /// Returns whether the load is finished: no workload will send another request before the end of the run, and all
    /// requests are complete or have failed. Datagrams and acknowledgements may still be in transit.
    pub fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// Stops the load immediately, even before the end of the run.
    pub fn stop(&self) {
        // If the receiving side of the channel is closed, the run is over.
        let _ = self.reports.send(Report::Stop);
    }

    /// Waits until the run ends and all threads of the load have stopped. Returns the requests in order, with their
    /// outcomes.
    ///
    /// # Errors
    /// Returns an error if the thread that runs the workloads panicked.
    pub fn finish(mut self) -> Result<(Vec<RequestRecord>, Facts), LiveError> {
        let outcome = self.players.take().and_then(|players| players.join().ok());
        outcome.ok_or_else(|| {
            LiveError::new("the workloads failed", "the workloads' thread panicked, which is a bug")
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The addresses of the hosts of a workload.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    /// First two bytes of the addresses, by side.
    prefixes: [[u8; 2]; 2],
    count: u32,
    own: bool,
    port: u16,
}

impl Addresses {
    fn new(planned: &PlannedWorkload<'_>, prefixes: [[u8; 2]; 2], port: u16) -> Result<Self, LiveError> {
        let count = if planned.own_hosts { planned.hosts.max(1) } else { 1 };
        match u32::try_from(count) {
            Ok(count) if count < 0xffff => Ok(Self { prefixes, count, own: planned.own_hosts, port }),
            _ => Err(LiveError::new(
                format_args!("the workload `{}` has {count} hosts on each side", planned.name),
                "a live run supports at most 65534; let the flows share hosts (`hosts = \"shared\"`)",
            )),
        }
    }

    /// Returns the address of a host.
    fn address(&self, side: Side, host: u32) -> Ipv4Addr {
        let [first, second] = self.prefixes[side as usize];
        let [.., third, fourth] = (if self.own { host + 1 } else { 1 }).to_be_bytes();
        Ipv4Addr::new(first, second, third, fourth)
    }

    /// Returns the address on which the host accepts connections and receives datagrams.
    fn remote(&self, side: Side, host: u32) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(side, host), self.port)
    }

    /// Returns the addresses on which an endpoint listens: the unspecified address (0.0.0.0), which accepts connections
    /// to all addresses, if `at_all` is true; otherwise, the address of each host.
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
            // The link header is short, so the conversion does not truncate the length.
            datagram_header: sockets::IP_AND_UDP + planned.link_header.bytes() as u16,
        }
    }
}

/// The command channel of an end.
type Commands = UnboundedSender<Command>;

/// A connection or a datagram stream to open.
#[derive(Clone, Debug)]
struct Job {
    /// Number of the job within the run.
    number: u32,
    /// Address of the host that opens the connection or stream.
    from: Ipv4Addr,
    to: SocketAddrV4,
    task: Task,
}

/// The task for which a connection is opened.
#[derive(Clone, Debug)]
enum Task {
    /// The end that opens the connection sends this number of bytes and then closes the connection, or sends data
    /// endlessly if the number is `None`.
    Push(Option<u64>),
    /// The end that opens the connection sends requests, and the other end responds.
    Request(Arc<Rounds>),
    /// The end that opens the stream sends datagrams.
    Stream,
}

/// The jobs of a workload whose connections have not been accepted yet, keyed by the address that opens the connection.
type Expected = Arc<Mutex<BTreeMap<SocketAddrV4, Job>>>;
