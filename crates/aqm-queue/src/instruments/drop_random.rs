//! Drop Random: drops each packet with the same probability, regardless of the queue length.
//!
//! Drop Random is a measuring instrument and not an AQM. The instrument produces the independent losses that
//! closed-form models of TCP assume (J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP Throughput", 1998; N.
//! Cardwell, S. Savage, T. Anderson, "Modeling TCP Latency", 2000).
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Length, Packet, Rate, Size, parameters};

use crate::{Build, Context, Describe, Evidence, Fifo, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Drop Random: drops each packet with the same probability, independently of all other packets.
    ///
    /// Drop Random is a measuring instrument that produces the random losses that closed-form models of TCP assume.
    ///
    /// The decisions are made in this order:
    ///
    /// - First, one random number is drawn for every packet of at least `min_size`, even if the buffer is full, so that
    ///   the random decisions do not depend on the load. Second, if the buffer is full, the packet is dropped
    ///   regardless of the random number.
    pub struct Config {
        /// Drop probability of a packet.
        pub probability: f64 = 0.01, "aqmlab's choice";
        /// Minimum size of the packets that may be dropped at random. For example, `100B` exempts SYNs, FINs and
        /// acknowledgements.
        pub min_size: Size = Size::from_bytes(0), "aqmlab's choice: every packet may be lost";
        /// Whether ECN-capable packets are marked instead of dropped at random.
        pub mark: bool = false, "aqmlab's choice: the instrument measures losses";
        /// Maximum backlog, not counting the packet in transmission.
        pub limit: Length = Length::Packets(225), "as `drop-tail`";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let problem = format_args!("must be from 0 to 1 (got {})", self.probability);
        errors.check((0.0..=1.0).contains(&self.probability), "probability", problem);
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        errors.finish(())?;
        Ok(Box::new(DropRandom { config: self.clone(), fifo: Fifo::new(self.limit) }))
    }
}

impl Describe for Config {}

impl TestCases for Config {}

/// A Drop Random queue.
#[derive(Clone)]
pub struct DropRandom {
    config: Config,
    fifo: Fifo,
}

impl QueueDiscipline for DropRandom {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let is_exempt = u64::from(packet.bytes) < self.config.min_size.bytes();
        let draw = if is_exempt { 1.0 } else { cx.rng.uniform() };
        let is_chosen = draw < self.config.probability;
        if !self.fifo.has_room_for(&packet) {
            return cx.drop(packet, Reason::Overflow);
        }
        if is_chosen {
            if !(self.config.mark && packet.ecn.can_be_marked()) {
                return cx.drop_on(packet, Reason::Early, Evidence::drawn(self.config.probability, draw));
            }
            cx.mark(&mut packet, Reason::Early);
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

impl Report for DropRandom {}

#[cfg(test)]
mod tests {
    use aqm_net::{Ecn, Instant, Streams};

    use super::*;
    use crate::testing::{Fate, Fates};

    /// Returns which of these packets are dropped, and which of them are marked. The packets arrive in order, and no
    /// packet departs between arrivals.
    fn fates(config: &Config, packets: impl Iterator<Item = Packet>) -> Fates {
        let mut queue = config.build(Rate::from_bps(1000)).unwrap();
        let (mut rng, mut observer) = (Streams::new(1).named("test", 0), Fates::default());
        for packet in packets {
            let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut observer };
            queue.enqueue(packet, &mut cx);
        }
        observer
    }

    fn dropped(config: &Config, packets: impl Iterator<Item = Packet>) -> Vec<u32> {
        fates(config, packets).dropped_packets().map(|packet| packet.id).collect()
    }

    fn packets(count: u32, bytes: u16, ecn: Ecn) -> impl Iterator<Item = Packet> {
        (0..count).map(move |id| Packet { id, bytes, ecn, ..Packet::default() })
    }

    fn endless(probability: f64) -> Config {
        Config { probability, limit: Length::Packets(u64::MAX), ..Config::default() }
    }

    #[test]
    fn losses_have_the_configured_frequency_and_are_independent() {
        let (count, p) = (200_000, 0.02);
        let fates = fates(&endless(p), packets(count, 1000, Ecn::NotEct));
        let dropped: Vec<u32> = fates.dropped_packets().map(|packet| packet.id).collect();
        let share = |observed: usize, total: f64, theory: f64| {
            let error = (theory * (1.0 - theory) / total).sqrt();
            let deviation = (observed as f64 / total - theory) / error;
            assert!(
                deviation.abs() < 3.3,
                "{observed} of {total}: {deviation} standard errors from {theory}"
            );
        };
        share(dropped.len(), f64::from(count), p);
        assert_eq!(fates.counts.early, dropped.len() as u64);
        // The probability that at least one of 20 successive packets is lost is the same after a loss as at any other
        // time.
        let soon = dropped.windows(2).filter(|pair| pair[1] - pair[0] <= 20).count();
        share(soon, dropped.len() as f64 - 1.0, 1.0 - libm::pow(1.0 - p, 20.0));
    }

    #[test]
    fn never_and_always_are_probabilities_too() {
        assert!(dropped(&endless(0.0), packets(1000, 1000, Ecn::NotEct)).is_empty());
        assert_eq!(dropped(&endless(1.0), packets(1000, 1000, Ecn::NotEct)).len(), 1000);
    }

    #[test]
    fn small_packets_are_exempt_and_draw_no_random_numbers() {
        let config = Config { min_size: Size::from_bytes(100), ..endless(0.3) };
        assert!(!dropped(&config, packets(100, 100, Ecn::NotEct)).is_empty());
        assert!(dropped(&config, packets(100, 99, Ecn::NotEct)).is_empty());
        let alone = dropped(&config, packets(100, 1000, Ecn::NotEct));
        let among_small = packets(100, 1000, Ecn::NotEct)
            .flat_map(|packet| [Packet { bytes: 40, id: packet.id + 1000, ..Packet::default() }, packet]);
        assert_eq!(dropped(&config, among_small), alone);
    }

    #[test]
    fn ecn_capable_packets_are_marked_with_mark_and_others_dropped() {
        let config = Config { mark: true, ..endless(1.0) };
        let observed = fates(&config, packets(3, 1000, Ecn::Ect0));
        assert_eq!((observed.counts.drops(), observed.counts.marks), (0, 3));
        let observed = fates(&config, packets(3, 1000, Ecn::NotEct));
        assert_eq!((observed.counts.drops(), observed.counts.marks), (3, 0));
        assert_eq!(dropped(&endless(1.0), packets(3, 1000, Ecn::Ect0)).len(), 3);
    }

    #[test]
    fn a_full_buffer_refuses_and_marks_nothing() {
        let config = Config { mark: true, limit: Length::Packets(2), ..endless(1.0) };
        let observed = fates(&config, packets(3, 1000, Ecn::Ect0));
        let fate = |fate: &Fate| (fate.packet.id, fate.is_mark, fate.why);
        let fates: Vec<_> = observed.list.iter().map(fate).collect();
        assert_eq!(fates, [(0, true, Reason::Early), (1, true, Reason::Early), (2, false, Reason::Overflow)]);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(Rate::from_bps(1000)).err().unwrap().first().path.clone();
        for probability in [-0.1, 1.1, f64::NAN] {
            assert_eq!(path(endless(probability)), "probability");
        }
        assert_eq!(path(Config { limit: Length::Packets(0), ..Config::default() }), "limit");
    }
}
