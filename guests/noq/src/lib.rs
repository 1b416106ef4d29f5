//! noq, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! The seed of the guest seeds the generator from which noq draws packet numbers, the lengths of paddings, the order of
//! parameters and the packets between key updates, and the random intervals between the probes of BBRv3
//! (`SeededBbr3` in `config.rs`). The keys of TLS ([`guest_common::tls`]), connection IDs and the keys of tokens do not
//! depend on the seed, but change neither a time nor a length.

mod config;
#[path = "../../common/src/quic_host.rs"]
mod quic_host;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use guest_common::Model;
use noq_proto as library;
use noq_proto::congestion::Controller;
use noq_proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, PathId, ServerConfig, Transmit,
};

pub use crate::quic_host::Quic as Noq;

/// The congestion controls that the tests compare.
#[cfg(test)]
const CONTROLS: [&str; 3] = ["newreno", "cubic", "bbr3"];

/// Returns an endpoint. Discovery of the path MTU is on, as in noq on Linux.
fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true)
}

/// Passes a received datagram, with its ECN bits, to noq.
fn receive(
    endpoint: &mut Endpoint,
    time: Instant,
    (ecn, data): (Option<EcnCodepoint>, BytesMut),
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(time, quic_host::PEER.into(), ecn, data, buffer)
}

/// Requests the next datagram to send.
fn transmit(connection: &mut Connection, time: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(time, NonZeroUsize::MIN, buffer)
}

/// Returns the congestion window in bytes and the smoothed round-trip time; `None` if the connection has no path.
fn path_state(connection: &Connection) -> Option<(u64, Duration)> {
    let window = connection.congestion_state(PathId::ZERO).map(Controller::window)?;
    Some((window, connection.rtt(PathId::ZERO)?))
}

/// Returns the pacing rate and the bandwidth estimate of the congestion control.
fn model(connection: &Connection) -> Model {
    let metrics = connection.congestion_state(PathId::ZERO).map(Controller::metrics);
    metrics.map_or_else(Model::default, |metrics| Model {
        // noq's pacing rate is in bytes per second, and noq's bandwidth estimate is in bits per second.
        pacing_rate_bps: metrics.pacing_rate.map(|rate| rate.saturating_mul(8)),
        bandwidth_bps: metrics.bandwidth_estimate,
    })
}

#[cfg(test)]
mod tests {
    use aqm_net::Instant;
    use guest_common::testing::transfer;

    use super::*;

    #[test]
    fn the_probes_of_bbr3_depend_on_the_seed() {
        // The first probe with a random interval begins 2 s to 3 s after the start-up.
        let config = r#"{"control": "bbr3", "size": 20000000}"#;
        let first = transfer::<Noq>(config, 1, 0.0);
        assert!(first.stopped_at > Instant::from_nanos(9_000_000_000));
        assert_eq!(first.digest, transfer::<Noq>(config, 1, 0.0).digest);
    }
}
