//! SFD, "short flow differentiating": marks the first bytes of every flow short, and penalises
//! what comes beyond.
//!
//! X. Chen and J. Heidemann, "Preferential Treatment for Short Flows to Reduce Web Latency",
//! Computer Networks 41(6), 2003, as it stands in ns-2 (DiffServ module, policy `SFD`): a counter
//! of bytes per flow id, a fixed threshold, entries that expire after 5 s, and three ways of
//! penalising packets beyond the threshold.
//!
//! Ours:
//! - The packet that crosses the threshold is beyond it, as in ns-2, whose counter includes it.
//! - A flow silent for longer than `expiry` is new when it comes back. ns-2 removes an old entry
//!   only when its search for another flow happens to pass it, so a flow that comes back before
//!   that goes on counting.
//! - ns-2's comment says that its third way penalises 4 of 5 packets; its code penalises 5 of 6.
//!   Both are here by name.
//! - Memory is bounded: with `max_flows` remembered, the flow unseen for longest makes room.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Packet, Rng, Size, Span, choices, parameters};

use super::{Build, Edge, LONG, SHORT, Table};
use crate::Gauge;

parameters! {
    /// SFD, ns-2's byte counter: packets are short until their flow has sent `threshold` bytes;
    /// of those beyond, `penalty` says which are long.
    pub struct Config {
        /// A packet is short if its flow has sent at most this, the packet included.
        pub threshold: Size = Size::from_bytes(5000), "ours: ten packets of 500 bytes; ns-2 has no default";
        /// Which packets beyond the threshold are long.
        pub penalty: Penalty = Penalty::Every, "ns-2, `downgrade2` = 0";
        /// A flow silent for longer than this is forgotten.
        pub expiry: Span = Span::from_millis(5000), "ns-2, `FLOW_TIME_OUT`";
        /// The most flows remembered; beyond, the one unseen for longest is forgotten.
        pub max_flows: u32 = 1_000_000, "ours; ns-2 has no bound";
    }
}

choices! {
    /// Which packets beyond the threshold are long.
    pub enum Penalty {
        /// Each of them; ns-2's `downgrade2` = 0.
        Every = "every",
        /// Each with probability 1 - `threshold` / bytes the flow has sent; ns-2's `downgrade2` = 1.
        Random = "random",
        /// Five, then one is spared: what ns-2 does for `downgrade2` = 2.
        FiveOfSix = "five-of-six",
        /// Four, then one is spared: what ns-2 says it does for `downgrade2` = 2.
        FourOfFive = "four-of-five",
    }
}

impl Build for Config {
    fn build(&self, rng: Rng) -> Result<Box<dyn Edge>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(!self.expiry.is_zero(), "expiry", "must be more than 0s");
        let flows = errors.take(Table::new(self.max_flows));
        Ok(Box::new(Sfd { config: self.clone(), flows: errors.finish_some(flows)?, rng }))
    }
}

/// The running edge.
#[derive(Clone)]
pub struct Sfd {
    config: Config,
    flows: Table<Sent>,
    rng: Rng,
}

/// What is remembered of a flow.
#[derive(Clone, Default)]
struct Sent {
    bytes: u64,
    /// Packets penalised since one was spared.
    penalised: u32,
}

impl Edge for Sfd {
    fn classify(&mut self, packet: &Packet, now: Instant) -> u8 {
        self.catch_up(now);
        let sent = self.flows.touch(u64::from(packet.flow), now);
        sent.bytes += u64::from(packet.bytes);
        let threshold = self.config.threshold.bytes();
        let is_long = sent.bytes > threshold
            && match self.config.penalty {
                Penalty::Every => true,
                Penalty::Random => !self.rng.chance(threshold as f64 / sent.bytes as f64),
                Penalty::FiveOfSix => sent.is_penalised(5),
                Penalty::FourOfFive => sent.is_penalised(4),
            };
        if is_long { LONG } else { SHORT }
    }

    fn catch_up(&mut self, now: Instant) {
        self.flows.expire_before(now.earlier_by(self.config.expiry));
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("flows", f64::from(self.flows.len()), "flows"));
        show(Gauge::new("threshold", self.config.threshold.bytes() as f64, "bytes"));
        show(Gauge::new("evicted", self.flows.evicted() as f64, "flows"));
    }
}

impl Sent {
    /// Penalises `run` packets, then spares one.
    fn is_penalised(&mut self, run: u32) -> bool {
        let is_penalised = self.penalised < run;
        self.penalised = if is_penalised { self.penalised + 1 } else { 0 };
        is_penalised
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    fn edge(config: &Config) -> Box<dyn Edge> {
        config.build(Streams::new(3).named("edge", 0)).unwrap()
    }

    /// The marks of `count` packets of flow 1, sent at `now`: `S` and `L`.
    fn marks(edge: &mut dyn Edge, bytes: u16, now: Instant, count: usize) -> String {
        let one = |_| {
            let packet = Packet { flow: 1, bytes, ..Packet::default() };
            if edge.classify(&packet, now) == SHORT { 'S' } else { 'L' }
        };
        (0..count).map(one).collect()
    }

    fn marks_with(penalty: Penalty) -> String {
        let config = Config { penalty, ..Config::default() };
        marks(&mut *edge(&config), 500, Instant::START, 24)
    }

    #[test]
    fn the_first_bytes_are_short_and_the_ways_to_penalise_are_those_of_ns2() {
        assert_eq!(marks_with(Penalty::Every), "SSSSSSSSSSLLLLLLLLLLLLLL");
        assert_eq!(marks_with(Penalty::FiveOfSix), "SSSSSSSSSSLLLLLSLLLLLSLL");
        assert_eq!(marks_with(Penalty::FourOfFive), "SSSSSSSSSSLLLLSLLLLSLLLL");
    }

    #[test]
    fn the_packet_that_crosses_the_threshold_is_beyond_it() {
        let config = Config { threshold: Size::from_bytes(1000), ..Config::default() };
        assert_eq!(marks(&mut *edge(&config), 400, Instant::START, 4), "SSLL");
    }

    #[test]
    fn at_random_a_flow_is_spared_less_the_more_it_has_sent() {
        let config = Config { penalty: Penalty::Random, ..Config::default() };
        let (flows, count) = (2000, 100);
        let mut spared = [0_u32; 100];
        let mut edge = edge(&config);
        for flow in 0..flows {
            for spared in &mut spared {
                let packet = Packet { flow, bytes: 500, ..Packet::default() };
                *spared += u32::from(edge.classify(&packet, Instant::START) == SHORT);
            }
        }
        for sent in 1..=count {
            let theory = (10.0 / f64::from(sent)).min(1.0);
            let error = (theory * (1.0 - theory) / f64::from(flows)).sqrt();
            let found = f64::from(spared[sent as usize - 1]) / f64::from(flows);
            assert!((found - theory).abs() <= 4.0 * error, "packet {sent}: {found}, not {theory}");
        }
    }

    #[test]
    fn five_seconds_of_silence_are_remembered_and_more_are_not() {
        let mut edge = edge(&Config::default());
        let seconds = |s: f64| Instant::START + Span::from_seconds(s);
        assert_eq!(marks(&mut *edge, 5000, seconds(0.0), 2), "SL");
        assert_eq!(marks(&mut *edge, 5000, seconds(5.0), 1), "L");
        assert_eq!(marks(&mut *edge, 5000, seconds(10.000_000_001), 2), "SL");
    }
}
