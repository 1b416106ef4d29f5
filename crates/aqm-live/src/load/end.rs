//! One end of a workload: a thread inside a host's namespace that owns the sockets of all connections at this end.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use aqm_net::{Ecn, Instant, Span};
use aqm_sim::emulation::Side;
use nix::sys::prctl::set_timerslack;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::record::{Event, Report};
use super::sockets::{self, Options, Ports};
use super::tcp_info::TcpInfo;
use super::wire::Scratch;
use super::{ConnectionDelays, Expected, HostIndex, Job, Task};
use super::{datagrams, http, push};
use crate::{Clock, LiveError};

/// Pause after a call to `accept` has failed because no file descriptor or no memory was available for the connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of bytes in a single read or write.
pub(super) const CHUNK: usize = 65_536;

/// A command to an end.
#[derive(Debug)]
pub(super) enum Command {
    /// Start the run.
    Begin(Clock),
    /// Open a connection.
    Open(Job),
    /// Send a datagram of a stream.
    Datagram { job: Job, bytes: u16, ecn: Ecn },
    /// Report that all previous commands have been processed.
    Echo,
    /// Stop immediately, because the run is over.
    Stop,
}

/// The parts that are needed to start an end.
pub(super) struct EndSpec {
    pub(super) index: HostIndex,
    pub(super) options: Options,
    /// Addresses on which the end accepts connections or receives datagrams.
    pub(super) listening: Vec<SocketAddrV4>,
    pub(super) sends_datagrams: bool,
    pub(super) expected: Expected,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) delays: mpsc::Sender<ConnectionDelays>,
}

/// The state that is shared by all connections of an endpoint.
pub(super) struct End {
    spec: EndSpec,
    clock: Clock,
    ports: Ports,
    /// Connections over which this end sends the data, by job number.
    senders: RefCell<BTreeMap<u32, Rc<TcpStream>>>,
    scratch: Scratch,
}

/// Runs an end until a command stops it or the command channel is closed. Sends `Ok` to `ready` when the end is
/// listening, or an error if the end cannot listen.
pub(super) fn run(
    spec: EndSpec,
    commands: UnboundedReceiver<Command>,
    ready: &mpsc::Sender<Result<(), LiveError>>,
) {
    // If the kernel denies this request, each sleep takes 50 microseconds longer.
    let _ = set_timerslack(1);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(LiveError::new("cannot start an end of the load generator", error)));
            return;
        }
    };
    LocalSet::new().block_on(&runtime, serve(spec, commands, ready));
}

/// The listening sockets of an end.
enum Listeners {
    Connections(Vec<TcpListener>),
    Datagrams(Vec<tokio::net::UdpSocket>),
}

impl Listeners {
    fn new(spec: &EndSpec) -> Result<Self, LiveError> {
        let refused = |address: SocketAddrV4| {
            move |error: io::Error| {
                let reason = format_args!("{}; try another `port`", Cause::of(&error));
                LiveError::new(format_args!("cannot listen on {address}"), reason)
            }
        };
        if spec.sends_datagrams {
            let listening = if spec.index.side == Side::Receiver { spec.listening.as_slice() } else { &[] };
            let open = |&address: &SocketAddrV4| {
                let socket = sockets::receive_datagrams(address).and_then(tokio::net::UdpSocket::from_std);
                socket.map_err(refused(address))
            };
            return Ok(Self::Datagrams(listening.iter().map(open).collect::<Result<_, _>>()?));
        }
        let open = |&address: &SocketAddrV4| {
            let listener = sockets::listen(address, spec.options).and_then(TcpListener::from_std);
            listener.map_err(refused(address))
        };
        Ok(Self::Connections(spec.listening.iter().map(open).collect::<Result<_, _>>()?))
    }
}

async fn serve(
    spec: EndSpec,
    mut commands: UnboundedReceiver<Command>,
    ready: &mpsc::Sender<Result<(), LiveError>>,
) {
    let listeners = match Listeners::new(&spec) {
        Ok(listeners) => listeners,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let Some(Command::Begin(clock)) = commands.recv().await else { return };
    let scratch = RefCell::new(vec![0; CHUNK].into_boxed_slice());
    let end = Rc::new(End { spec, clock, ports: Ports::default(), senders: RefCell::default(), scratch });
    let receiving = datagrams::Receiving::default();
    match listeners {
        Listeners::Connections(all) => {
            for listener in all {
                spawn_local(accept(Rc::clone(&end), listener));
            }
        }
        Listeners::Datagrams(all) => {
            for socket in all {
                spawn_local(datagrams::receive(Rc::clone(&end), socket, receiving.clone()));
            }
        }
    }
    let mut sending = datagrams::Sending::default();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Open(job) => open(&end, job),
            Command::Datagram { job, bytes, ecn } => sending.send(&end, job, bytes, ecn),
            Command::Echo => {
                let _ = end.spec.reports.send(Report::Echo);
            }
            Command::Begin(_) => {}
            Command::Stop => break,
        }
    }
    for (number, stream) in end.senders.take() {
        end.report_info(number, &stream);
    }
    for (number, received) in receiving.take_all() {
        end.report(number, Event::Received(received));
    }
}

fn open(end: &Rc<End>, job: Job) {
    let end = Rc::clone(end);
    match &job.task {
        Task::Push(bytes) => {
            let bytes = *bytes;
            spawn_local(push::send(end, job, bytes));
        }
        Task::Request(rounds) => {
            let rounds = Arc::clone(rounds);
            spawn_local(http::request_all(end, job, rounds));
        }
        Task::Stream => {}
    }
}

/// Accepts the connections that the workload's other end has announced.
async fn accept(end: Rc<End>, listener: TcpListener) {
    loop {
        let (stream, peer) = match accept_one(&listener).await {
            Ok(accepted) => accepted,
            Err(error) => {
                end.report_error("accepting", &error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(job) = end.take_expected(peer) else {
            end.report_error("accepting", &io::Error::other("no workload requested the connection"));
            continue;
        };
        let (end, stream) = (Rc::clone(&end), Rc::new(stream));
        match job.task {
            Task::Push(bytes) => {
                spawn_local(push::receive(end, stream, job.number, bytes));
            }
            Task::Request(rounds) => {
                spawn_local(http::respond_all(end, stream, job.number, rounds));
            }
            Task::Stream => {}
        }
    }
}

async fn accept_one(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddrV4)> {
    match listener.accept().await? {
        (stream, SocketAddr::V4(peer)) => Ok((stream, peer)),
        _ => Err(io::Error::other("the connection does not use IPv4")),
    }
}

impl End {
    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sleeps for `span`. The task is woken by the thread that runs the workloads, because the async runtime of an
    /// end's thread rounds sleep times up to whole milliseconds.
    pub(super) async fn sleep(&self, span: Span) {
        if span.is_zero() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let _ = self.spec.reports.send(Report::Sleep { until: self.now() + span, wake });
        // If the sender of the channel has been dropped, the run is over.
        let _ = woken.await;
    }

    /// Returns the shared read buffer, which contains the data of the last read. A task must not await anything while
    /// it borrows the buffer.
    pub(super) fn scratch(&self) -> RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }

    pub(super) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn options(&self) -> Options {
        self.spec.options
    }

    /// Reports an event of a job.
    pub(super) fn report(&self, number: u32, event: Event) {
        self.report_at(number, self.now(), event);
    }

    /// Reports an event of a job that occurred at the time `at`.
    pub(super) fn report_at(&self, number: u32, at: Instant, event: Event) {
        // If the receiver of the channel has been dropped, the run is over.
        let _ = self.spec.reports.send(Report::Job { number, at, event });
    }

    /// Reports that a job failed because `operation` failed with `error`.
    pub(super) fn fail(&self, number: u32, operation: &str, error: &(dyn Error + 'static)) {
        self.report(number, Event::Failed(reason(operation, error)));
    }

    /// Reports an error that is not related to a job.
    pub(super) fn report_error(&self, operation: &str, error: &(dyn Error + 'static)) {
        let (traffic, at) = (self.spec.index.traffic, self.now());
        let _ = self.spec.reports.send(Report::Error { traffic, at, reason: reason(operation, error) });
    }

    /// Announces the connection of a job to the other end, and opens the connection. If the connection cannot be
    /// opened, reports the failure and returns `None`.
    pub(super) async fn connect(&self, job: &Job) -> Option<Rc<TcpStream>> {
        let (socket, local) = match sockets::bind(job.from, &self.ports, self.spec.options) {
            Ok(bound) => bound,
            Err(error) => {
                self.fail(job.number, "opening", &error);
                return None;
            }
        };
        if let Task::Request(rounds) = &job.task {
            let (client_delay, server_delay) = (rounds.client_delay, rounds.server_delay);
            if !(client_delay.is_zero() && server_delay.is_zero()) {
                let (traffic, client, server) = (self.spec.index.traffic, local, job.to);
                let delays = ConnectionDelays { traffic, client, server, client_delay, server_delay };
                let _ = self.spec.delays.send(delays);
            }
        }
        self.expect(local, job);
        self.report(job.number, Event::Opened(local));
        match socket.connect(job.to.into()).await {
            Ok(stream) => Some(Rc::new(stream)),
            Err(error) => {
                self.take_expected(local);
                self.fail(job.number, "opening", &error);
                None
            }
        }
    }

    /// Announces to the other end that the address `local` will open the connection of a job.
    pub(super) fn expect(&self, local: SocketAddrV4, job: &Job) {
        let mut expected = self.spec.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.insert(local, job.clone());
    }

    /// Removes and returns the job that was announced for the address `peer`.
    pub(super) fn take_expected(&self, peer: SocketAddrV4) -> Option<Job> {
        self.spec.expected.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer)
    }

    /// Registers a connection over which this end sends the data. The connection's kernel state is read when the
    /// connection ends.
    pub(super) fn register_sender(&self, number: u32, stream: &Rc<TcpStream>) {
        self.senders.borrow_mut().insert(number, Rc::clone(stream));
    }

    /// Removes a connection over which this end sends the data, and reports the connection's kernel state.
    pub(super) fn release_sender(&self, number: u32) {
        let stream = self.senders.borrow_mut().remove(&number);
        if let Some(stream) = stream {
            self.report_info(number, &stream);
        }
    }

    fn report_info(&self, number: u32, stream: &TcpStream) {
        match TcpInfo::of(stream) {
            Ok(info) => self.report(number, Event::Info(info)),
            Err(error) => self.report_error("reading the kernel's state of a connection", &error),
        }
    }
}

/// Returns a description of a failure. The description contains only the root cause of the error, not the library
/// errors that wrap the root cause.
fn reason(operation: &str, error: &(dyn Error + 'static)) -> String {
    format!("{operation}: {}", Cause::of(error))
}

/// The root cause of an error.
struct Cause<'a>(&'a (dyn Error + 'static));

impl<'a> Cause<'a> {
    fn of(error: &'a (dyn Error + 'static)) -> Self {
        let mut cause = error;
        while let Some(earlier) = cause.source() {
            cause = earlier;
        }
        Self(cause)
    }
}

impl std::fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
