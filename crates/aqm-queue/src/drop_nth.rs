//! Drop Nth: an endless buffer that drops the packets it is told to, and no other.
//!
//! Not an AQM but a measuring instrument: what does the loss of exactly this packet cost? (SHRED
//! talk, slide 4: the first packets of a flow, and its last three, are lost at the price of a
//! time-out.)

use aqm_net::{Backlog, ConfigError, Length, Packet, Rate, parameters};

use crate::{Build, Context, Fifo, QueueDiscipline, Reason};

parameters! {
    /// Drop Nth: drops the named arrivals and no other. A measuring instrument: what does the loss of
    /// exactly this packet cost?
    pub struct Config {
        /// Which arrivals to drop, counted from 1 since the run began, in ascending order.
        pub packets: Vec<u64> = vec![1], "SHRED talk, slide 4: the first, a SYN";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigError> {
        let ascending = self.packets.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.packets.first() == Some(&0) {
            return Err(ConfigError::new("packets", "must be ascending numbers, counted from 1"));
        }
        let mut doomed = self.packets.clone();
        doomed.reverse();
        Ok(Box::new(DropNth { arrivals: 0, doomed, fifo: Fifo::new(Length::Packets(u64::MAX)) }))
    }
}

/// The running discipline.
pub struct DropNth {
    arrivals: u64,
    /// What is still to be dropped, the next one last.
    doomed: Vec<u64>,
    fifo: Fifo,
}

impl QueueDiscipline for DropNth {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.arrivals += 1;
        if self.doomed.last() == Some(&self.arrivals) {
            self.doomed.pop();
            cx.drop(packet, Reason::Forced);
        } else {
            self.fifo.push(packet);
        }
    }

    fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Streams};

    use super::*;
    use crate::Observer;

    struct Fallen(Vec<u32>);
    impl Observer for Fallen {
        fn dropped(&mut self, packet: &Packet, _: Reason, _: Instant) {
            self.0.push(packet.id);
        }
        fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
    }

    #[test]
    fn exactly_the_named_arrivals_are_dropped() {
        let config = Config { packets: vec![1, 4, 5] };
        let mut queue = config.build(Rate::from_bps(1000)).unwrap();
        let (mut rng, mut observer) = (Streams::new(1).named("test", 0), Fallen(Vec::new()));
        for id in 1..=6 {
            let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut observer };
            queue.enqueue(Packet { id, ..Packet::default() }, &mut cx);
        }
        assert_eq!(observer.0, [1, 4, 5]);
        assert_eq!(queue.backlog().packets, 3);
    }

    #[test]
    fn the_order_must_be_ascending() {
        for packets in [vec![0], vec![2, 2], vec![3, 1]] {
            assert!(Config { packets }.build(Rate::from_bps(1000)).is_err());
        }
    }
}
