//! One end of a QUIC connection of tquic, as a guest.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant as Clock};

use aqm_guest::{Answer, End, Guest, Payload, Problem, Start};
use aqm_net::{Ecn, Instant};
use guest_common::SenderReport;
use guest_common::certificate::NAME;
use tquic::{Endpoint, PacketInfo, PacketSendHandler};

use crate::config::Config;
use crate::transfer::{State, Transfer};

/// The addresses of both ends. The path does not use addresses.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);

/// Unit of the times for which tquic's programs wait, in nanoseconds: the crate mio rounds a time up to whole milliseconds
/// (`sys/unix/selector/epoll.rs`). With shorter times, the pacer of tquic 1.6.0 stops: `schedule` adds the bytes of the time
/// since its last call, rounded down, so that calls in succession add nothing (`congestion_control/pacing.rs`).
const TICK: u64 = 1_000_000;

thread_local! {
    /// The end that this program runs. tquic's endpoints cannot move to other threads, in contrast to guests.
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// tquic as a guest. The client opens a connection, and the server sends a file, whose end closes the connection.
pub struct Tquic;

impl Guest for Tquic {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        let host = Host::new(start)?;
        HOST.set(Some(host));
        Ok((start.end == End::Client).then_some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        HOST.with_borrow_mut(|host| match host {
            Some(host) => host.run(now, received),
            None => Err("the guest must be started before it runs".into()),
        })
    }
}

/// One end of the connection.
struct Host {
    end: End,
    endpoint: Endpoint,
    /// The number of the connection in the endpoint.
    connection: Option<u64>,
    state: Rc<RefCell<State>>,
    outbox: Rc<Outbox>,
    report: SenderReport,
}

/// Converts an error of tquic.
pub(crate) fn problem(error: tquic::Error) -> Problem {
    format!("tquic: {error}").into()
}

impl Host {
    fn new(start: &Start) -> Result<Self, Problem> {
        let config = Config::read(&start.config)?;
        let transport = Box::new(config.transport(start.end)?);
        let state = Rc::new(RefCell::new(State::default()));
        let outbox = Rc::new(Outbox::default());
        let transfer = Transfer::new(start.end, config.size, Rc::clone(&state));
        let is_server = start.end == End::Server;
        let endpoint = Endpoint::new(transport, is_server, Box::new(transfer), Rc::<Outbox>::clone(&outbox));
        let report = SenderReport::default();
        Ok(Self { end: start.end, endpoint, connection: None, state, outbox, report })
    }

    /// Does the same as an iteration of the loops of tquic's programs (`tools/src/bin/tquic_client.rs`).
    #[expect(clippy::disallowed_methods, reason = "the clock shows the time of the contract (guest_clock)")]
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let time = Clock::now();
        if self.end == End::Client && self.connection.is_none() {
            let opened = self.endpoint.connect(ADDRESS, ADDRESS, Some(NAME), None, None, None);
            self.connection = Some(opened.map_err(problem)?);
        }
        for mut payload in received {
            let info = PacketInfo { src: ADDRESS, dst: ADDRESS, time };
            // As tquic's programs, the guest ignores datagrams that are not valid (RFC 9000, section 5.2).
            let _ = self.endpoint.recv(&mut payload.data, &info);
        }
        self.endpoint.on_timeout(time);
        self.endpoint.process_connections().map_err(problem)?;

        let mut state = self.state.borrow_mut();
        if let Some(problem) = state.problem.take() {
            return Err(problem);
        }
        let mut answer =
            Answer { datagrams: self.outbox.0.take(), events: std::mem::take(&mut state.events), wake: None };
        if let Some(connection) = state.established.and_then(|index| self.endpoint.conn_get_mut(index))
            && self.end == End::Server
        {
            let path = connection.get_path_stats(ADDRESS, ADDRESS).map_err(problem)?;
            self.report.update(&mut answer.events, path.final_cwnd, Duration::from_micros(path.srtt));
        }
        if !state.closed {
            let wait = self.endpoint.timeout().map(|wait| (wait.as_nanos() as u64).next_multiple_of(TICK));
            answer.wake = wait.map(|wait| Instant::from_nanos(now.nanos() + wait.max(1)));
        }
        Ok(answer)
    }
}

/// The datagrams that the endpoint has sent since the last answer.
#[derive(Default)]
struct Outbox(RefCell<Vec<Payload>>);

impl PacketSendHandler for Outbox {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        let sent = packets.iter().map(|(data, _)| Payload { flow: 0, ecn: Ecn::NotEct, data: data.clone() });
        self.0.borrow_mut().extend(sent);
        Ok(packets.len())
    }
}
