//! s2n-quic, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! The guest replaces s2n-quic's event loop ([`endpoint`]) and the tasks of the application, which the guest polls after each
//! call of the endpoint. The seed of the guest seeds s2n-quic's generator of random numbers. The keys of TLS
//! ([`guest_common::tls`]), connection IDs and tokens do not depend on the seed, but change neither a time nor a length.

mod config;
mod endpoint;

use std::convert::Infallible;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use aqm_guest::{Answer, End, Guest, Payload, Problem, Start};
use aqm_net::{Instant, Rng, Streams};
use bytes::Bytes;
use guest_common::{SenderReport, block, report_received, tls};
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events::RecoveryMetrics};
use s2n_quic::provider::random::{self, Generator};
use s2n_quic::provider::tls::rustls::{Client as ClientTls, Server as ServerTls};
use s2n_quic::{Client, Server};

use crate::config::{Config, Control};
use crate::endpoint::{Driver, PORT, Provider, Received, Sent};

/// s2n-quic as a guest. The client opens a connection, and the server sends a file, whose end closes the connection.
#[derive(Default)]
pub struct S2nQuic {
    host: Option<Host>,
}

impl Guest for S2nQuic {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        self.host = Some(Host::new(start)?);
        Ok((start.end == End::Client).then_some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.host.as_mut().ok_or("the guest must be started before it runs")?.run(now, received)
    }
}

type Application = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;

/// One end of the connection.
struct Host {
    ecn: bool,
    endpoint: Box<dyn Driver>,
    sent: Sent,
    /// The application, until the application ends.
    application: Option<Application>,
    /// Bytes that the client received since the last report.
    received: Arc<AtomicUsize>,
    metrics: Metrics,
    report: SenderReport,
}

fn problem(error: impl Display) -> Problem {
    error.to_string().into()
}

impl Host {
    fn new(start: &Start) -> Result<Self, Problem> {
        let config = Config::read(&start.config)?;
        if config.burst.is_some() || config.model {
            return Err("configuration: the guest of s2n-quic has no burst and no model".into());
        }
        let provider = Provider::default();
        let received = Arc::new(AtomicUsize::new(0));
        let metrics = Metrics::default();
        let random = Random(Streams::new(start.seed).named("s2n-quic", 0));
        let application: Application = match start.end {
            End::Client => {
                let builder = Client::builder()
                    .with_tls(ClientTls::from(tls::client()?))
                    .and_then(|builder| builder.with_io(provider.clone()))
                    .and_then(|builder| builder.with_random(random));
                let Ok(builder) = builder;
                let client = match config.control {
                    Control::Cubic => {
                        builder.with_congestion_controller(Cubic::default()).map(|one| one.start())
                    }
                    Control::Bbr => builder.with_congestion_controller(Bbr::default()).map(|one| one.start()),
                };
                let Ok(client) = client;
                Box::pin(receive(client.map_err(problem)?, Arc::clone(&received)))
            }
            End::Server => {
                let builder = Server::builder()
                    .with_tls(ServerTls::from(tls::server()?))
                    .and_then(|builder| builder.with_io(provider.clone()))
                    .and_then(|builder| builder.with_event(metrics.clone()))
                    .and_then(|builder| builder.with_random(random));
                let Ok(builder) = builder;
                let server = match config.control {
                    Control::Cubic => {
                        builder.with_congestion_controller(Cubic::default()).map(|one| one.start())
                    }
                    Control::Bbr => builder.with_congestion_controller(Bbr::default()).map(|one| one.start()),
                };
                let Ok(server) = server;
                Box::pin(send(server.map_err(problem)?, config.size))
            }
        };
        let endpoint = provider.take().ok_or("s2n-quic has no endpoint")?;
        Ok(Self {
            ecn: config.ecn,
            endpoint,
            sent: Sent::new(config.ecn),
            application: Some(application),
            received,
            metrics,
            report: SenderReport::default(),
        })
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let mut answer = Answer::default();
        self.endpoint.receive(&mut Received { datagrams: received, ecn: self.ecn }, now);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Some(application) = &mut self.application
                && let Poll::Ready(ended) = application.as_mut().poll(&mut context)
            {
                self.application = None;
                ended?;
            }
            let before = self.sent.datagrams.len();
            let is_woken = self.endpoint.advance(&mut self.sent, now);
            if !is_woken && self.sent.datagrams.len() == before {
                break;
            }
        }
        answer.datagrams = std::mem::take(&mut self.sent.datagrams);
        report_received(&mut answer.events, self.received.swap(0, Ordering::Relaxed));
        if let Some((cwnd, rtt)) = self.metrics.take() {
            self.report.update(&mut answer.events, cwnd, rtt);
        }
        answer.wake = self.endpoint.due().map(|due| due.max(Instant::from_nanos(now.nanos() + 1000)));
        Ok(answer)
    }
}

/// Opens a connection, reads the file, and closes the connection at the end of the file.
async fn receive(client: Client, received: Arc<AtomicUsize>) -> Result<(), Problem> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let mut connection =
        client.connect(Connect::new(server).with_server_name(tls::NAME)).await.map_err(problem)?;
    let stream = connection.accept_receive_stream().await.map_err(problem)?;
    let mut stream = stream.ok_or("the server closed the connection before the file")?;
    while let Some(data) = stream.receive().await.map_err(problem)? {
        received.fetch_add(data.len(), Ordering::Relaxed);
    }
    connection.close(0_u8.into());
    Ok(())
}

/// Accepts a connection, and sends a file of `size` bytes.
async fn send(mut server: Server, size: u64) -> Result<(), Problem> {
    let Some(mut connection) = server.accept().await else { return Ok(()) };
    let mut stream = connection.open_send_stream().await.map_err(problem)?;
    let mut left = size;
    while left > 0 {
        let data = block(left);
        left -= data.len() as u64;
        stream.send(Bytes::from_static(data)).await.map_err(problem)?;
    }
    stream.finish().map_err(problem)?;
    // The client closes the connection. The end of this function would close the connection, too.
    let _ = connection.accept_receive_stream().await;
    Ok(())
}

/// s2n-quic's generator of random numbers.
struct Random(Rng);

impl random::Provider for Random {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl Generator for Random {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.bits().to_le_bytes()[..chunk.len()]);
        }
    }

    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        self.public_random_fill(bytes);
    }
}

/// The congestion window and the round-trip time that s2n-quic reported last.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<Option<(u64, Duration)>>>);

impl Metrics {
    fn take(&self) -> Option<(u64, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Subscriber for Metrics {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) {}

    fn on_recovery_metrics(&mut self, (): &mut (), _: &ConnectionMeta, event: &RecoveryMetrics<'_>) {
        let metrics = (u64::from(event.congestion_window), event.smoothed_rtt);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(metrics);
    }
}

#[cfg(test)]
mod tests {
    use guest_common::testing::{transfer, values};

    use super::*;

    #[test]
    fn two_runs_with_the_same_seed_are_equal_with_every_control() {
        for control in ["cubic", "bbr"] {
            let config = format!(r#"{{"control": "{control}", "size": 4000000}}"#);
            let first = transfer::<S2nQuic>(&config, 1, 0.0);
            assert_eq!(values(&first, "received_bytes").iter().sum::<f64>(), 4e6, "{control}");
            assert!(values(&first, "rtt_s").iter().all(|rtt| *rtt > 0.04), "{control}");
            assert_eq!(first.digest, transfer::<S2nQuic>(&config, 1, 0.0).digest, "{control}");
        }
    }

    #[test]
    fn codel_marks_with_ecn_and_drops_without_ecn() {
        assert_eq!(transfer::<S2nQuic>(r#"{"size": 4000000}"#, 1, 0.0).ends[1].dropped, 0);
        assert!(transfer::<S2nQuic>(r#"{"size": 4000000, "ecn": false}"#, 1, 0.0).ends[1].dropped > 0);
    }
}
