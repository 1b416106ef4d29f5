//! A link: a port and the channel to the far end, with counters of all packets.

use aqm_net::{Instant, Span};
use aqm_queue::{Counters, Observer, Reason};

use crate::channel::Arrival;
use crate::{Channel, Departure, Port};

/// A queue, a transmitter and a channel.
pub struct Link {
    /// The queue and the transmitter.
    pub port: Port,
    channel: Channel,
    /// For this time after the start of a transmission, the packet has not arrived.
    lookahead: Span,
    /// Packets and bytes that the channel lost.
    lost: u64,
    lost_bytes: u64,
}

impl Link {
    /// Returns an idle link.
    pub fn new(port: Port, channel: Channel) -> Self {
        let lookahead = Span::from_nanos(channel.least_delay().nanos().saturating_sub(1));
        Self { port, channel, lookahead, lost: 0, lost_bytes: 0 }
    }

    /// Whether the link has a constant rate and a constant delay and loses nothing, so that [`arrival`](Self::arrival)
    /// may be called with `PLAIN`, and the port's methods with `STEADY`.
    pub fn is_plain(&self) -> bool {
        self.port.is_steady() && self.channel.is_constant()
    }

    /// Returns the arrival time of a departing packet at the far end, or `None` if the packet never arrives. A lost
    /// packet is reported to `observer` as dropped with [`Reason::LineLoss`] at the start of its transmission.
    #[inline(always)]
    pub fn arrival<const PLAIN: bool>(
        &mut self,
        departure: &Departure,
        observer: &mut dyn Observer,
    ) -> Option<Instant> {
        if PLAIN {
            return Some(departure.end.plus(self.channel.delay()));
        }
        match self.channel.arrival(departure.end) {
            Arrival::At(arrival) => Some(arrival),
            Arrival::Never => None,
            Arrival::Lost => {
                self.lost += 1;
                self.lost_bytes += u64::from(departure.packet.bytes);
                observer.dropped(&departure.packet, Reason::LineLoss, departure.start);
                None
            }
        }
    }

    /// Returns the latest time by which the port must be served, if no packet arrives. A packet sent after this time
    /// arrives after this time, too.
    #[inline]
    pub fn serve_by(&self) -> Instant {
        self.port.next_start().map_or(Instant::NEVER, |start| start + self.lookahead)
    }

    /// Returns the counters of the link up to `now`. The port must have been served up to `now`.
    pub fn counters(&self, now: Instant) -> Counters {
        self.with_losses(self.port.counters(now))
    }

    /// Returns the counters of the link up to the last call of the port, without the integral of the queue length.
    pub fn counted(&self) -> Counters {
        self.with_losses(*self.port.counted())
    }

    fn with_losses(&self, mut counters: Counters) -> Counters {
        counters.drops += self.lost;
        counters.drops_by_reason[Reason::LineLoss as usize] += self.lost;
        counters.dropped_bytes += self.lost_bytes;
        counters
    }
}
