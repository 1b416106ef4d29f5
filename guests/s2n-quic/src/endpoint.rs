//! The endpoint of s2n-quic without s2n-quic's event loop: the guest receives and sends its datagrams, and advances its time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use aqm_guest::Payload;
use aqm_net::{Ecn, Instant};
use s2n_quic::provider::io;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification, IpV4Address, SocketAddress};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{LocalAddress, RemoteAddress, Tuple, mtu};
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};

/// The port of each end as seen by the other end. The path does not use addresses.
pub const PORT: u16 = 4433;

/// The datagrams that an endpoint may send in one call, fewer than an answer may contain (10,000).
const MAX_SENT: usize = 1000;

/// Length of the longest UDP datagram.
const LONGEST: usize = 65_507;

/// Returns the address of each end.
fn address() -> SocketAddress {
    IpV4Address::new([127, 0, 0, 1]).with_port(PORT).into()
}

fn path() -> Tuple {
    Tuple { remote_address: RemoteAddress::from(address()), local_address: LocalAddress::from(address()) }
}

/// Returns s2n-quic's timestamp. s2n-quic counts microseconds from 1.
fn timestamp(now: Instant) -> Timestamp {
    NoopClock.get_time() + Duration::from_micros(now.nanos() / 1000)
}

/// The calls of an endpoint.
pub trait Driver: Send {
    /// Passes datagrams to the endpoint at `now`.
    fn receive(&mut self, received: &mut Received, now: Instant);
    /// Handles the application's calls and the timers that are due at `now`, and appends the datagrams that the endpoint
    /// sends. Returns whether the application had made calls.
    fn advance(&mut self, sent: &mut Sent, now: Instant) -> bool;
    /// Returns the time of the next timer.
    fn due(&self) -> Option<Instant>;
}

impl<E: Endpoint<PathHandle = Tuple>> Driver for E {
    fn receive(&mut self, received: &mut Received, now: Instant) {
        Endpoint::receive(self, received, &timestamp(now));
    }

    fn advance(&mut self, sent: &mut Sent, now: Instant) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let woken = self.poll_wakeups(&mut context, &timestamp(now));
        self.transmit(sent, &timestamp(now));
        matches!(woken, Poll::Ready(Ok(count)) if count > 0)
    }

    fn due(&self) -> Option<Instant> {
        let due = self.timeout()?.saturating_duration_since(NoopClock.get_time());
        Some(Instant::from_nanos(due.as_nanos() as u64))
    }
}

/// A provider of I/O that keeps the endpoint for the guest.
#[derive(Clone, Default)]
pub struct Provider {
    endpoint: Arc<Mutex<Option<Box<dyn Driver>>>>,
}

impl Provider {
    /// Takes the endpoint after its start.
    pub fn take(&self) -> Option<Box<dyn Driver>> {
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl io::Provider for Provider {
    type PathHandle = Tuple;
    type Error = Infallible;

    fn start<E: Endpoint<PathHandle = Tuple>>(self, mut endpoint: E) -> Result<SocketAddress, Infallible> {
        endpoint.set_mtu_config(mtu::Config::default());
        *self.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(endpoint));
        Ok(address())
    }
}

/// Datagrams that arrive at an endpoint.
pub struct Received {
    pub datagrams: Vec<Payload>,
    /// Whether s2n-quic reads the ECN bits.
    pub ecn: bool,
}

impl rx::Queue for Received {
    type Handle = Tuple;

    fn for_each<F: FnMut(Header<Tuple>, &mut [u8])>(&mut self, mut handle: F) {
        for mut datagram in self.datagrams.drain(..) {
            let bits = if self.ecn { datagram.ecn as u8 } else { Ecn::NotEct as u8 };
            handle(
                Header { path: path(), ecn: ExplicitCongestionNotification::new(bits) },
                &mut datagram.data,
            );
        }
    }

    fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

/// Datagrams that an endpoint sends.
pub struct Sent {
    pub datagrams: Vec<Payload>,
    /// Whether the datagrams have the ECN bits of s2n-quic.
    ecn: bool,
    /// Space for the longest datagram.
    buffer: Vec<u8>,
}

impl Sent {
    /// `ecn` says whether the datagrams have the ECN bits of s2n-quic.
    pub fn new(ecn: bool) -> Self {
        Self { datagrams: Vec::new(), ecn, buffer: vec![0; LONGEST] }
    }
}

impl tx::Queue for Sent {
    type Handle = Tuple;

    const SUPPORTS_ECN: bool = true;

    fn push<M: tx::Message<Handle = Tuple>>(&mut self, mut message: M) -> Result<tx::Outcome, tx::Error> {
        if !self.has_capacity() {
            return Err(tx::Error::AtCapacity);
        }
        let ecn = match message.ecn() {
            _ if !self.ecn => Ecn::NotEct,
            ExplicitCongestionNotification::NotEct => Ecn::NotEct,
            ExplicitCongestionNotification::Ect0 => Ecn::Ect0,
            ExplicitCongestionNotification::Ect1 => Ecn::Ect1,
            ExplicitCongestionNotification::Ce => Ecn::Ce,
        };
        let len = message.write_payload(tx::PayloadBuffer::new(&mut self.buffer), 0)?;
        let index = self.datagrams.len();
        self.datagrams.push(Payload { flow: 0, ecn, data: self.buffer[..len].to_vec() });
        Ok(tx::Outcome { len, index })
    }

    fn capacity(&self) -> usize {
        MAX_SENT.saturating_sub(self.datagrams.len())
    }
}
