//! Drop Nth: an unlimited buffer that drops exactly the specified packets.
//!
//! Drop Nth is a measuring instrument and not an AQM. The instrument measures the cost of losing exactly one packet.
//! According to the SHRED talk, slide 4, the loss of one of the first packets of a flow, or of one of the flow's last
//! three packets, causes a timeout.

use aqm_net::{Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, parameters};

use crate::{Build, Context, Describe, Fifo, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Drop Nth: drops exactly the specified arrivals.
    ///
    /// Drop Nth is an instrument for measuring the cost of losing a particular packet.
    pub struct Config {
        /// Numbers of the arriving packets to drop, in ascending order. The first packet of the run has the number 1.
        pub packets: Vec<u64> = vec![1], "SHRED talk, slide 4: the first packet, a SYN";
        /// Numbers of the arriving packets to mark, in ascending order. The first packet of the run has the number 1.
        /// Packets that are not ECN-capable are not marked.
        pub marked: Vec<u64> = vec![], "aqmlab's choice";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let to_drop = errors.take(descending("packets", &self.packets));
        let marked = errors.take(descending("marked", &self.marked));
        let (to_drop, marked) = errors.finish_some(to_drop.zip(marked))?;
        Ok(Box::new(DropNth { arrivals: 0, to_drop, marked, fifo: Fifo::new(Length::Packets(u64::MAX)) }))
    }
}

impl Describe for Config {}

impl TestCases for Config {}

/// Checks the numbers and returns them in descending order.
fn descending(field: &'static str, numbers: &[u64]) -> Result<Vec<u64>, ConfigError> {
    if numbers.first() == Some(&0) || !numbers.is_sorted_by(|a, b| a < b) {
        return Err(ConfigError::at(field, "must be numbers of at least 1 in ascending order"));
    }
    Ok(numbers.iter().rev().copied().collect())
}

/// A Drop Nth queue.
#[derive(Clone)]
pub struct DropNth {
    arrivals: u64,
    /// Numbers of the packets that are still to be dropped, in descending order.
    to_drop: Vec<u64>,
    /// Numbers of the packets that are still to be marked, in descending order.
    marked: Vec<u64>,
    fifo: Fifo,
}

impl QueueDiscipline for DropNth {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.arrivals += 1;
        let marked = self.marked.pop_if(|next| *next == self.arrivals).is_some();
        if self.to_drop.pop_if(|next| *next == self.arrivals).is_some() {
            cx.drop(packet, Reason::Forced);
            return;
        }
        if marked && packet.ecn.can_be_marked() {
            cx.mark(&mut packet, Reason::Forced);
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for DropNth {}

#[cfg(test)]
mod tests {
    use aqm_net::{Ecn, Instant, Streams};

    use super::*;
    use crate::testing::Fates;

    #[test]
    fn exactly_the_specified_arrivals_are_dropped_or_marked() {
        let config = Config { packets: vec![1, 4, 5], marked: vec![2, 3, 4] };
        let mut queue = config.build(Rate::from_bps(1000)).unwrap();
        let (mut rng, mut fates) = (Streams::new(1).named("test", 0), Fates::default());
        for id in 1..=6 {
            let ecn = if id == 3 { Ecn::NotEct } else { Ecn::Ect0 };
            let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut fates };
            queue.enqueue(Packet { id, ecn, ..Packet::default() }, &mut cx);
        }
        let dropped: Vec<u32> = fates.dropped_packets().map(|packet| packet.id).collect();
        let marked: Vec<u32> = fates.marked_packets().map(|packet| packet.id).collect();
        assert_eq!((dropped, marked), (vec![1, 4, 5], vec![2]), "3 cannot be marked, and 4 was dropped");
        assert_eq!(queue.backlog().packets, 3);
    }

    #[test]
    fn the_order_must_be_ascending() {
        for numbers in [vec![0], vec![2, 2], vec![3, 1]] {
            let packets = Config { packets: numbers.clone(), ..Config::default() };
            assert!(packets.build(Rate::from_bps(1000)).is_err());
            assert!(Config { marked: numbers, ..Config::default() }.build(Rate::from_bps(1000)).is_err());
        }
    }
}
