//! My queue: drops packets that do not fit into the buffer, and packets that have waited longer than a limit.
//!
//! Source: the paper, RFC or program that defines the discipline, with its year.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Span, parameters};

use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// My queue: drops packets that, when they leave the queue, have waited longer than a limit.
    ///
    /// aqmlab's choices where the source is silent:
    ///
    /// - A packet's waiting time is checked only when the link is ready for the packet, not while the packet waits.
    pub struct Config {
        /// Maximum backlog, not counting the packet in transmission.
        pub limit: Length = Length::Packets(1000), "aqmlab's choice: as `codel`";
        /// Maximum time that a packet may wait in the queue.
        pub max_delay: Span = Span::from_millis(100), "aqmlab's choice: about the longest round-trip time";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        errors.check(!self.max_delay.is_zero(), "max_delay", "must be more than 0s");
        errors.finish(())?;
        Ok(Box::new(MyQueue {
            max_delay: self.max_delay,
            fifo: Fifo::new(self.limit),
            last_sojourn_time: Span::ZERO,
        }))
    }
}

impl Describe for Config {}

impl TestCases for Config {}

/// A queue and its state. Each run uses a clone of the queue that `build` returned.
#[derive(Clone)]
struct MyQueue {
    max_delay: Span,
    /// The queued packets, each with its arrival time.
    fifo: Fifo<Instant>,
    last_sojourn_time: Span,
}

impl QueueDiscipline for MyQueue {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) {
            self.fifo.push_with(packet, cx.now);
        } else {
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        while let Some((packet, arrival)) = self.fifo.pop_with() {
            self.last_sojourn_time = cx.now.since(arrival);
            if self.last_sojourn_time <= self.max_delay {
                return Some(packet);
            }
            cx.drop(packet, Reason::Sojourn);
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for MyQueue {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("sojourn_time", self.last_sojourn_time.seconds(), "s"));
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;
    use crate::testing::{Fates, packet};

    #[test]
    fn a_packet_that_waited_longer_than_the_limit_is_dropped_as_it_leaves() {
        let config = Config { max_delay: Span::from_millis(10), ..Config::default() };
        let mut queue = config.build(Rate::from_bps(1_000_000)).unwrap();
        let (mut fates, mut rng) = (Fates::default(), Streams::new(1).named("queue", 0));
        for (id, arrival_ms) in [(1, 0), (2, 5), (3, 12)] {
            let now = Instant::START + Span::from_millis(arrival_ms);
            let mut cx = Context { now, rng: &mut rng, observer: &mut fates };
            queue.enqueue(Packet { id, ..packet(1000) }, &mut cx);
        }
        let now = Instant::START + Span::from_millis(15);
        let mut cx = Context { now, rng: &mut rng, observer: &mut fates };
        let sent = queue.dequeue(&mut cx).map(|packet| packet.id);
        assert_eq!(sent, Some(2));
        let dropped: Vec<u32> = fates.dropped_packets().map(|packet| packet.id).collect();
        assert_eq!(dropped, [1]);
        assert_eq!(queue.backlog().packets, 1);
    }
}
