//! Drop Nth: an endless buffer that drops the packets it is told to, and no other.
//!
//! Not an AQM but a measuring instrument: what does the loss of exactly this packet cost? (SHRED
//! talk, slide 4: the first packets of a flow, and its last three, are lost at the price of a
//! time-out.)

use aqm_net::{Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, parameters};

use crate::{Build, Context, Describe, Fifo, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Drop Nth: drops the named arrivals and no other.
    ///
    /// A measuring instrument: what does the loss of exactly this packet cost?
    pub struct Config {
        /// Which arrivals to drop, counted from 1 since the run began, in ascending order.
        pub packets: Vec<u64> = vec![1], "SHRED talk, slide 4: the first, a SYN";
        /// Which arrivals to mark, counted likewise; those that are not ECN-capable pass as they are.
        pub marked: Vec<u64> = vec![], "ours";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let doomed = errors.take(next_last("packets", &self.packets));
        let marked = errors.take(next_last("marked", &self.marked));
        let (doomed, marked) = errors.finish_some(doomed.zip(marked))?;
        Ok(Box::new(DropNth { arrivals: 0, doomed, marked, fifo: Fifo::new(Length::Packets(u64::MAX)) }))
    }
}

impl Describe for Config {}

impl TestCases for Config {}

/// The numbers in descending order.
fn next_last(field: &'static str, numbers: &[u64]) -> Result<Vec<u64>, ConfigError> {
    if numbers.first() == Some(&0) || !numbers.is_sorted_by(|a, b| a < b) {
        return Err(ConfigError::at(field, "must be ascending numbers, counted from 1"));
    }
    Ok(numbers.iter().rev().copied().collect())
}

/// The running discipline.
#[derive(Clone)]
pub struct DropNth {
    arrivals: u64,
    /// What is still to be dropped, the next one last.
    doomed: Vec<u64>,
    /// What is still to be marked, likewise.
    marked: Vec<u64>,
    fifo: Fifo,
}

impl QueueDiscipline for DropNth {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.arrivals += 1;
        let marked = self.marked.pop_if(|next| *next == self.arrivals).is_some();
        if self.doomed.pop_if(|next| *next == self.arrivals).is_some() {
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
    fn exactly_the_named_arrivals_are_dropped_or_marked() {
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
        assert_eq!((dropped, marked), (vec![1, 4, 5], vec![2]), "3 cannot be marked, 4 is gone");
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
