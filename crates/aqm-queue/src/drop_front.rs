//! Drop from the front: a full queue makes room by dropping its oldest packet.
//!
//! N. Yin, M. G. Hluchyj, "Implication of Dropping Packets from the Front of a Queue", IEEE Transactions
//! on Communications 41(6), 1993.

use aqm_net::{Backlog, ConfigError, ConfigErrors, Length, Packet, Rate, parameters};

use crate::{Build, Context, Fifo, QueueDiscipline, Reason};

parameters! {
    /// Drop from the front: a full queue makes room by dropping its oldest packet.
    ///
    /// Where the paper is silent:
    ///
    /// - An arrival that is larger than the whole limit is itself dropped.
    pub struct Config {
        /// The most that may wait; the packet on the line is not counted.
        pub limit: Length = Length::Packets(225), "as `drop-tail`";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        ConfigError::unless(self.limit.count() > 0, "limit", "must be at least 1p or 1B")?;
        Ok(Box::new(DropFront { fifo: Fifo::new(self.limit) }))
    }
}

/// The running discipline; each run takes a clone of what `build` made.
#[derive(Clone)]
struct DropFront {
    fifo: Fifo,
}

impl QueueDiscipline for DropFront {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        while !self.fifo.has_room_for(&packet) {
            let Some(oldest) = self.fifo.pop() else {
                return cx.drop(packet, Reason::Overflow);
            };
            cx.drop(oldest, Reason::Overflow);
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

mod tests {
    use aqm_net::{Instant, Streams};
    use serde_json::json;

    use super::*;
    use crate::testing::{Fates, packet};

    mod registered {
        use crate::{Build, drop_front};

        aqm_net::registry! {
            /// A registry with the one line that registers it.
            pub enum Config: Build, "queues" = "queue discipline" {
                "drop-front" => drop_front,
            }
        }
    }

    #[test]
    fn a_line_of_the_registry_makes_it_a_kind() {
        let read = |table| registered::Config::read(table).map(|config| config.to_value());
        assert_eq!(read(json!({"kind": "drop-front"})).unwrap()["limit"], "225p");
        let error = read(json!({"kind": "drop-front", "limmit": "3p"})).unwrap_err();
        assert!(error.to_string().contains("`limit`"), "{error}");
    }

    #[test]
    fn the_oldest_packets_make_room_and_one_that_is_too_large_does_not_stay() {
        let config = Config { limit: Length::Bytes(3000) };
        let mut queue = config.build(Rate::from_bps(1_000_000)).unwrap();
        let mut fates = Fates::default();
        let mut rng = Streams::new(1).named("queue", 0);
        for (id, bytes) in [(1, 1000), (2, 1000), (3, 1000), (4, 1500), (5, 4000)] {
            let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut fates };
            queue.enqueue(Packet { id, ..packet(bytes) }, &mut cx);
        }
        let dropped: Vec<u32> = fates.dropped_packets().map(|packet| packet.id).collect();
        assert_eq!(dropped, [1, 2, 3, 4, 5]);
        assert_eq!(queue.backlog().packets, 0);
    }
}
