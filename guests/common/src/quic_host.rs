//! One end of a QUIC connection of quinn or of a fork of quinn, as a guest.
//!
//! The libraries have the same interface with different types. Therefore, this file is a module of the crate of each library,
//! which defines `library` and the functions whose arguments differ: `endpoint`, `receive`, `transmit` and `path_state`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock, SystemTime};

use aqm_guest::{Answer, End, Event, Guest, Payload, Problem, Start};
use aqm_net::{Ecn, Instant};
use bytes::{Bytes, BytesMut};
use guest_common::source::Source;
use guest_common::{SenderReport, block, report_received, tls};

use crate::config::{Config, transport};
use crate::library::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use crate::library::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event as QuicEvent, ReadError, ServerConfig, StreamEvent, StreamId, TimeSource, VarInt,
    WriteError,
};

/// The address of each end as seen by the other end. The path does not use addresses.
pub(crate) const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);

/// The library as a guest. The client opens a connection, and the server sends a file, whose end closes the connection.
#[derive(Default)]
pub struct Quic {
    host: Option<Host>,
}

impl Guest for Quic {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        let host = self.host.insert(Host::new(start)?);
        Ok(host.client.is_some().then_some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.host.as_mut().ok_or("the guest must be started before it runs")?.run(now, received)
    }
}

/// One end of the connection.
struct Host {
    /// Reading of the system's clock that represents time 0. The library uses only differences of times.
    zero: Clock,
    ecn: bool,
    /// Whether the server reports the model of the congestion control.
    model: bool,
    endpoint: Endpoint,
    /// Configuration of the client until the client opens the connection.
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    file: File,
    report: SenderReport,
}

/// The file that the server sends.
struct File {
    end: End,
    /// Stream of the file while the file is transferred.
    stream: Option<StreamId>,
    source: Source,
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "an instant of the standard library has no other origin")]
    fn new(start: &Start) -> Result<Self, Problem> {
        let config = Config::read(&start.config)?;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&start.seed.to_le_bytes());
        let mut endpoint = EndpointConfig::default();
        endpoint.rng_seed(Some(seed));
        let (client, server) = match start.end {
            End::Client => (Some(client(&config, start.seed)?), None),
            End::Server => (None, Some(Arc::new(server(&config, start.seed)?))),
        };
        Ok(Self {
            zero: Clock::now(),
            ecn: config.ecn,
            model: config.model,
            endpoint: crate::endpoint(endpoint, server),
            client,
            connection: None,
            file: File { end: start.end, stream: None, source: config.source()? },
            report: SenderReport::default(),
        })
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let time = self.zero + Duration::from_nanos(now.nanos());
        let mut answer = Answer::default();
        if let Some(config) = self.client.take() {
            let opened = self.endpoint.connect(time, config, PEER, tls::NAME);
            self.connection = Some(opened.map_err(|error| error.to_string())?);
        }
        for payload in received {
            self.receive(time, payload, &mut answer)?;
        }
        let Some((handle, connection)) = &mut self.connection else { return Ok(answer) };
        if connection.poll_timeout().is_some_and(|timer| timer <= time) {
            connection.handle_timeout(time);
        }
        if self.file.source.advance(now) {
            self.file.send(connection)?;
        }
        let mut buffer = Vec::new();
        loop {
            let mut changed = false;
            while let Some(event) = connection.poll() {
                changed = true;
                self.file.handle(event, time, connection, &mut answer.events)?;
            }
            while let Some(event) = connection.poll_endpoint_events() {
                changed = true;
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(sent) = crate::transmit(connection, time, &mut buffer) {
                answer.datagrams.push(payload(sent.ecn.filter(|_| self.ecn), &buffer[..sent.size]));
                buffer.clear();
            }
            if !changed {
                break;
            }
        }
        if self.file.end == End::Server
            && !connection.is_handshaking()
            && let Some((cwnd, rtt)) = crate::path_state(connection)
        {
            self.report.update(&mut answer.events, cwnd, rtt);
            if self.model {
                self.report.update_model(&mut answer.events, crate::model(connection));
            }
        }
        let timer = connection.poll_timeout().map(|timer| (timer - self.zero).as_nanos() as u64);
        let timer = timer.map(|timer| Instant::from_nanos(timer.max(now.nanos() + 1)));
        let burst =
            self.file.source.next().filter(|_| self.file.stream.is_some() && self.file.end == End::Server);
        answer.wake = timer.into_iter().chain(burst).min();
        if connection.is_drained() {
            self.connection = None;
        }
        Ok(answer)
    }

    /// Passes a received datagram to the library.
    fn receive(&mut self, time: Clock, received: Payload, answer: &mut Answer) -> Result<(), Problem> {
        let ecn = EcnCodepoint::from_bits(received.ecn as u8).filter(|_| self.ecn);
        let mut buffer = Vec::new();
        let data = BytesMut::from(&received.data[..]);
        match crate::receive(&mut self.endpoint, time, (ecn, data), &mut buffer) {
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                let accepted = self.endpoint.accept(incoming, time, &mut buffer, None);
                self.connection = Some(accepted.map_err(|error| error.cause.to_string())?);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((open, connection)) = &mut self.connection
                    && *open == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(sent)) => {
                answer.datagrams.push(payload(sent.ecn.filter(|_| self.ecn), &buffer[..sent.size]));
            }
            None => {}
        }
        Ok(())
    }
}

impl File {
    /// Handles an event of the connection.
    fn handle(
        &mut self,
        event: QuicEvent,
        time: Clock,
        connection: &mut Connection,
        events: &mut Vec<Event>,
    ) -> Result<(), Problem> {
        match (self.end, event) {
            (End::Server, QuicEvent::Connected) => {
                self.stream = connection.streams().open(Dir::Uni);
                self.send(connection)
            }
            (End::Server, QuicEvent::Stream(StreamEvent::Writable { .. })) => self.send(connection),
            (End::Client, QuicEvent::Stream(StreamEvent::Opened { dir: Dir::Uni })) => {
                self.stream = connection.streams().accept(Dir::Uni);
                self.receive(time, connection, events)
            }
            (End::Client, QuicEvent::Stream(StreamEvent::Readable { .. })) => {
                self.receive(time, connection, events)
            }
            (_, QuicEvent::ConnectionLost { reason }) => match reason {
                ConnectionError::ApplicationClosed(_)
                | ConnectionError::LocallyClosed
                | ConnectionError::TimedOut
                | ConnectionError::Reset => Ok(()),
                reason => Err(format!("the connection is lost: {reason}").into()),
            },
            _ => Ok(()),
        }
    }

    /// Passes the available part of the file to the library, as far as the library's buffer has space.
    fn send(&mut self, connection: &mut Connection) -> Result<(), Problem> {
        let Some(stream) = self.stream.filter(|_| self.end == End::Server) else { return Ok(()) };
        let mut sender = connection.send_stream(stream);
        while self.source.ready() > 0 {
            match sender.write(block(self.source.ready())) {
                Ok(written) => self.source.pass(written as u64),
                Err(WriteError::Blocked) => return Ok(()),
                Err(error) => return Err(error.to_string().into()),
            }
        }
        if !self.source.is_complete() {
            return Ok(());
        }
        self.stream = None;
        Ok(sender.finish().map_err(|error| error.to_string())?)
    }

    /// Reads the received part of the file, and closes the connection at the end of the file.
    fn receive(
        &mut self,
        time: Clock,
        connection: &mut Connection,
        events: &mut Vec<Event>,
    ) -> Result<(), Problem> {
        let Some(stream) = self.stream else { return Ok(()) };
        let mut receiver = connection.recv_stream(stream);
        let mut chunks = receiver.read(true).map_err(|error| error.to_string())?;
        let mut bytes = 0;
        let is_complete = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes += chunk.bytes.len(),
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(error) => return Err(error.to_string().into()),
            }
        };
        // The result says whether the connection has datagrams to send, which the guest requests after each event anyway.
        let _ = chunks.finalize();
        report_received(events, bytes);
        if is_complete {
            self.stream = None;
            connection.close(time, VarInt::from_u32(0), Bytes::new());
        }
        Ok(())
    }
}

/// The date of TLS, which the library writes to tokens.
struct FixedDate;

impl TimeSource for FixedDate {
    fn now(&self) -> SystemTime {
        tls::date()
    }
}

/// Returns the configuration of the client.
fn client(config: &Config, seed: u64) -> Result<ClientConfig, Problem> {
    let crypto = QuicClientConfig::try_from(tls::client()?).map_err(|error| error.to_string())?;
    let mut client = ClientConfig::new(Arc::new(crypto));
    client.transport_config(transport(config, seed));
    Ok(client)
}

/// Returns the configuration of the server.
fn server(config: &Config, seed: u64) -> Result<ServerConfig, Problem> {
    let crypto = QuicServerConfig::try_from(tls::server()?).map_err(|error| error.to_string())?;
    let mut server = ServerConfig::with_crypto(Arc::new(crypto));
    server.transport_config(transport(config, seed)).time_source(Arc::new(FixedDate));
    Ok(server)
}

/// Returns a datagram to send.
fn payload(ecn: Option<EcnCodepoint>, data: &[u8]) -> Payload {
    let ecn = match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    };
    Payload { flow: 0, ecn, data: data.to_vec() }
}

#[cfg(test)]
mod tests {
    use guest_common::testing::{transfer, values};

    use super::*;

    #[test]
    fn two_runs_with_the_same_seed_are_equal_with_every_control() {
        let mut digests = Vec::new();
        for control in crate::CONTROLS {
            let config = format!(r#"{{"control": "{control}"}}"#);
            let first = transfer::<Quic>(&config, 1, 0.01);
            assert_eq!(values(&first, "received_bytes").iter().sum::<f64>(), 1e6, "{control}");
            assert!(values(&first, "rtt_s").iter().all(|rtt| *rtt > 0.04), "{control}");
            assert_eq!(first.digest, transfer::<Quic>(&config, 1, 0.01).digest, "{control}");
            digests.push(first.digest);
            digests.push(transfer::<Quic>(&config, 2, 0.01).digest);
        }
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 6);
    }

    #[test]
    fn codel_marks_with_ecn_and_drops_without_ecn() {
        let marked = transfer::<Quic>(r#"{"size": 4000000}"#, 1, 0.0);
        assert_eq!(marked.ends[1].dropped, 0);
        assert_eq!(values(&marked, "received_bytes").iter().sum::<f64>(), 4e6);
        let windows = values(&marked, "cwnd_bytes");
        assert!(windows.windows(2).any(|pair| pair[1] < pair[0]), "the window decreases at marks");
        assert!(transfer::<Quic>(r#"{"size": 4000000, "ecn": false}"#, 1, 0.0).ends[1].dropped > 0);
    }
}
