//! A link: a port and the channel to the far end, with counters of all packets.

use aqm_net::{Instant, Span};
use aqm_queue::{Counters, Observer, Reason};

use crate::channel::Arrival;
use crate::{Channel, Departure, Port};

/// A link, which consists of a queue, a transmitter and a channel.
pub struct Link {
    /// The queue and the transmitter.
    pub port: Port,
    channel: Channel,
    /// Lower bound on the time from the start of a packet's transmission to its arrival.
    lookahead: Span,
    /// Number of packets that the channel lost.
    lost: u64,
    lost_bytes: u64,
}

impl Link {
    /// Returns an idle link.
    pub fn new(port: Port, channel: Channel) -> Self {
        let lookahead = Span::from_nanos(channel.least_delay().nanos().saturating_sub(1));
        Self { port, channel, lookahead, lost: 0, lost_bytes: 0 }
    }

    /// Returns whether the link has a constant rate, a constant delay and no loss. If the result is true,
    /// [`arrival`](Self::arrival) may be called with `PLAIN`, and the port's methods may be called with `STEADY`.
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

    /// Returns the time by which the port must be served, provided that no packet arrives before this time. No packet
    /// that is still queued can arrive at the far end at or before this time.
    #[inline]
    pub fn serve_by(&self) -> Instant {
        self.port.next_start().map_or(Instant::NEVER, |start| start + self.lookahead)
    }

    /// Returns the link's counters as of the time `now`. The port must have been served up to `now`.
    pub fn counters(&self, now: Instant) -> Counters {
        self.with_losses(self.port.counters(now))
    }

    /// Returns the link's counters as of the last call to the port, without the integral of the queue length.
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

#[cfg(test)]
mod tests {
    use aqm_net::{Packet, Parameter as _, Rate, Streams};
    use aqm_queue::testing::Fates;
    use serde_json::json;

    use super::*;
    use crate::{Ties, channel};

    /// A link with a rate of 1 Mb/s and a delay of 10 ms, and a channel described by `table`.
    fn link(table: serde_json::Value) -> Link {
        let (rate, streams) = (Rate::from_bps(1_000_000), Streams::new(1));
        let queue = aqm_queue::Config::read(json!({"kind": "drop-tail"})).unwrap().build(rate).unwrap();
        let port = Port::new(queue, rate, streams.named("queue", 0), Ties::DepartureFirst);
        let impairments = channel::Config::read(table).unwrap().impairments(Span::from_millis(10)).unwrap();
        Link::new(port, impairments.channel(&streams, "link"))
    }

    #[test]
    fn lost_packets_are_reported_and_counted_as_drops_of_the_link() {
        let mut link = link(json!({"loss": {"probability": 1.0}}));
        let (mut fates, mut departures) = (Fates::default(), Vec::new());
        let packet = Packet { id: 7, bytes: 1000, ..Packet::default() };
        link.port.accept(packet, Instant::START, &mut fates, |departure| departures.push(departure));
        assert_eq!(link.counted().drops, 0);
        assert_eq!(link.arrival::<false>(&departures[0], &mut fates), None);
        let counters = link.counters(Instant::from_nanos(8_000_000));
        assert_eq!((counters.arrivals, counters.departures, counters.drops), (1, 1, 1));
        assert_eq!((counters.dropped_bytes, counters.drops_by_reason[Reason::LineLoss as usize]), (1000, 1));
        assert_eq!(fates.dropped_packets().map(|packet| packet.id).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_channel_without_impairments_delays_every_packet_by_the_same_time() {
        let mut link = link(json!({}));
        let mut departures = Vec::new();
        let packet = Packet { bytes: 1000, ..Packet::default() };
        link.port
            .accept(packet, Instant::START, &mut Fates::default(), |departure| departures.push(departure));
        let arrival = link.arrival::<false>(&departures[0], &mut Fates::default());
        // 8 ms of transmission and 10 ms of propagation.
        assert_eq!(arrival, Some(Instant::from_nanos(18_000_000)));
    }
}
