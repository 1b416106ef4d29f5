//! quinn, a QUIC library, as a guest in virtual time: the server sends a file over a QUIC connection to the client.
//!
//! The seed of the guest seeds the generator from which quinn draws packet numbers, the lengths of paddings and the
//! order of parameters. Three kinds of random numbers do not depend on the seed, but change neither a time nor a length: the
//! keys of TLS ([`guest_common::tls`]), the connection IDs and keys of tokens, and the phase in BBR's cycle of pacing gains,
//! which quinn 0.11.19 reports but does not use (the pacer in `connection/pacing.rs` reads the congestion window only).

mod config;
#[path = "../../common/src/quic_host.rs"]
mod quic_host;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use guest_common::Model;
use quinn_proto as library;
use quinn_proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig, Transmit,
};

pub use crate::quic_host::Quic as Quinn;

/// The congestion controls that the tests compare.
#[cfg(test)]
const CONTROLS: [&str; 3] = ["newreno", "cubic", "bbr"];

/// Returns an endpoint. Discovery of the path MTU is on, as in quinn on Linux.
fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true, None)
}

/// Passes a received datagram, with its ECN bits, to quinn.
fn receive(
    endpoint: &mut Endpoint,
    time: Instant,
    (ecn, data): (Option<EcnCodepoint>, BytesMut),
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(time, quic_host::PEER, None, ecn, data, buffer)
}

/// Requests the next datagram to send.
fn transmit(connection: &mut Connection, time: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(time, 1, buffer)
}

/// Returns the pacing rate of the congestion control. quinn does not publish a bandwidth estimate.
fn model(connection: &Connection) -> Model {
    Model { pacing_rate_bps: connection.congestion_state().metrics().pacing_rate, bandwidth_bps: None }
}

/// Returns the congestion window in bytes and the smoothed round-trip time.
fn path_state(connection: &Connection) -> Option<(u64, Duration)> {
    Some((connection.congestion_state().window(), connection.rtt()))
}
