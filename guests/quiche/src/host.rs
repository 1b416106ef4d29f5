//! One end of a QUIC connection of quiche, as a guest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant as Clock};

use aqm_guest::{Answer, End, Event, Guest, Payload, Problem, Start};
use aqm_net::{Ecn, Instant};
use guest_common::certificate::NAME;
use guest_common::{SenderReport, block, report_received};
use quiche::{Connection, ConnectionId, Error, Header, MAX_CONN_ID_LEN, RecvInfo};

use crate::config::Config;

/// The addresses of both ends. The path does not use addresses.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
/// The stream of the file: the first unidirectional stream that the server opens (RFC 9000, section 2.1).
const STREAM: u64 = 3;
/// Bytes of a buffer for a datagram. quiche limits the datagrams that it sends to 1200 bytes by default.
const DATAGRAM: usize = 65_535;

/// quiche as a guest. The client opens a connection, and the server sends a file, whose end closes the connection.
#[derive(Default)]
pub struct Quiche {
    host: Option<Host>,
}

impl Guest for Quiche {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        let host = self.host.insert(Host::new(start)?);
        Ok((host.end == End::Client).then_some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.host.as_mut().ok_or("the guest must be started before it runs")?.run(now, received)
    }
}

/// One end of the connection.
struct Host {
    end: End,
    /// The reading of the clock at time 0.
    zero: Clock,
    transport: quiche::Config,
    connection: Option<Connection>,
    /// Bytes of the file that the server has not yet passed to quiche.
    left: u64,
    buffer: Vec<u8>,
    report: SenderReport,
}

/// Converts an error of quiche.
fn problem(error: Error) -> Problem {
    format!("quiche: {error}").into()
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "the clock shows the time of the contract (guest_clock)")]
    fn new(start: &Start) -> Result<Self, Problem> {
        let config = Config::read(&start.config)?;
        let mut transport = config.transport()?;
        transport.verify_peer(start.end == End::Client);
        Ok(Self {
            end: start.end,
            zero: Clock::now(),
            transport,
            connection: None,
            left: config.size,
            buffer: vec![0; DATAGRAM],
            report: SenderReport::default(),
        })
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let time = self.zero + Duration::from_nanos(now.nanos());
        let mut answer = Answer::default();
        if self.connection.is_none() && self.end == End::Client {
            let opened =
                quiche::connect(Some(NAME), &connection_id()?, ADDRESS, ADDRESS, &mut self.transport);
            self.connection = Some(opened.map_err(problem)?);
        }
        for payload in received {
            self.receive(payload)?;
        }
        let Some(connection) = &mut self.connection else { return Ok(answer) };
        if connection.timeout_instant().is_some_and(|timer| timer <= time) {
            connection.on_timeout();
        }
        if self.end == End::Client {
            read_file(connection, &mut self.buffer, &mut answer.events)?;
        }
        // Time at which the pacer releases the next datagram.
        let release = loop {
            // The space for the file grows with each datagram that leaves the buffer.
            if self.end == End::Server && connection.is_established() {
                self.left = write_file(connection, self.left)?;
            }
            let release = connection.get_next_release_time().and_then(|next| next.time(time));
            if release.is_some() {
                break release;
            }
            match connection.send(&mut self.buffer) {
                Ok((length, _)) => {
                    let data = self.buffer[..length].to_vec();
                    answer.datagrams.push(Payload { flow: 0, ecn: Ecn::NotEct, data });
                }
                Err(Error::Done) => break None,
                Err(error) => return Err(problem(error)),
            }
        };
        if self.end == End::Server
            && connection.is_established()
            && let Some(path) = connection.path_stats().next()
        {
            self.report.update(&mut answer.events, path.cwnd as u64, path.rtt);
        }
        let timers = [connection.timeout_instant(), release];
        let timer = timers.into_iter().flatten().min().map(|timer| (timer - self.zero).as_nanos() as u64);
        answer.wake = timer.map(|timer| Instant::from_nanos(timer.max(now.nanos() + 1)));
        if connection.is_closed() {
            if let Some(error) =
                connection.local_error().or(connection.peer_error()).filter(|error| !error.is_app)
            {
                let reason = String::from_utf8_lossy(&error.reason);
                return Err(format!("the connection is lost: error {:#x} {reason}", error.error_code).into());
            }
            answer.wake = None;
        }
        Ok(answer)
    }

    /// Passes a received datagram to quiche. The first datagram that the server receives opens the connection.
    fn receive(&mut self, mut payload: Payload) -> Result<(), Problem> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                // quiche ignores datagrams that are not valid, as required by RFC 9000, section 5.2.
                if Header::from_slice(&mut payload.data, MAX_CONN_ID_LEN).is_err() {
                    return Ok(());
                }
                let accepted = quiche::accept(&connection_id()?, None, ADDRESS, ADDRESS, &mut self.transport);
                self.connection.insert(accepted.map_err(problem)?)
            }
        };
        // After an error, quiche sends the error to the peer and closes the connection, which `run` reports.
        let _ = connection.recv(&mut payload.data, RecvInfo { from: ADDRESS, to: ADDRESS });
        Ok(())
    }
}

/// Returns a connection ID of the maximum length, as quiche's programs, from BoringSSL's random numbers.
fn connection_id() -> Result<ConnectionId<'static>, Problem> {
    let mut id = vec![0; MAX_CONN_ID_LEN];
    boring::rand::rand_bytes(&mut id).map_err(|error| error.to_string())?;
    Ok(ConnectionId::from_vec(id))
}

/// Passes the file to quiche, as far as the congestion window and the receiver's window have space. `left` is the number of
/// bytes that quiche does not have yet. Returns the new number.
fn write_file(connection: &mut Connection, mut left: u64) -> Result<u64, Problem> {
    while left > 0 {
        let next = block(left);
        let is_last = next.len() as u64 == left;
        match connection.stream_send(STREAM, next, is_last) {
            Ok(written) => {
                left -= written as u64;
                if written < next.len() {
                    break;
                }
            }
            // The window has no space, or the client has closed the stream.
            Err(Error::Done | Error::StreamStopped(_)) => break,
            Err(error) => return Err(problem(error)),
        }
    }
    Ok(left)
}

/// Reads the received part of the file, and closes the connection at the end of the file.
fn read_file(connection: &mut Connection, buffer: &mut [u8], events: &mut Vec<Event>) -> Result<(), Problem> {
    let mut bytes = 0;
    let is_complete = loop {
        match connection.stream_recv(STREAM, buffer) {
            Ok((length, is_complete)) => {
                bytes += length;
                if is_complete {
                    break true;
                }
            }
            // The stream has no more data yet, does not yet exist, or is complete.
            Err(Error::Done | Error::InvalidStreamState(_)) => break false,
            Err(error) => return Err(problem(error)),
        }
    };
    report_received(events, bytes);
    if is_complete {
        connection.close(true, 0, b"").map_err(problem)?;
    }
    Ok(())
}
