//! SFD, "short flow differentiating": classifies the first packets of every flow as short, up to a number of bytes, and
//! penalises the flow's later packets.
//!
//! X. Chen and J. Heidemann, "Preferential Treatment for Short Flows to Reduce Web Latency", Computer Networks 41(6),
//! 2003, as implemented in ns-2 (DiffServ module, policy `SFD`). The ns-2 implementation uses a byte counter for each
//! flow id, a fixed threshold, entries that expire after 5 s, and three methods of penalising packets beyond the
//! threshold.
//!
//! aqmlab's choices:
//! - The packet with which a flow exceeds the threshold counts as beyond the threshold, as in ns-2, whose counter
//!   includes this packet.
//! - If a flow has been silent for longer than `expiry`, the flow counts as a new flow when it sends again. ns-2
//!   removes an expired entry only when a search for another flow passes this entry. If a flow sends again before its
//!   expired entry has been removed, the old count continues.
//! - The comment in ns-2 states that its third method penalises 4 of 5 packets, but the code penalises 5 of 6. aqmlab
//!   implements both methods under different names.
//! - Memory is bounded: if `max_flows` flows are remembered, a new flow replaces the flow that has been silent longest.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Packet, Rng, Size, Span, choices, parameters};

use super::{Build, Edge, LONG, SHORT, Table};
use crate::Gauge;

parameters! {
    /// SFD, ns-2's byte counter: the packets of a flow are short until the flow has sent `threshold` bytes. `penalty`
    /// determines which later packets are long.
    pub struct Config {
        /// Threshold in bytes: a packet is short if its flow has sent at most this many bytes, including this packet.
        pub threshold: Size = Size::from_bytes(5000),
            "aqmlab's choice: ten packets of 500 bytes; ns-2 has no default";
        /// Rule that selects which packets beyond the threshold are long.
        pub penalty: Penalty = Penalty::Every, "ns-2, `downgrade2` = 0";
        /// Duration of silence after which a flow is forgotten.
        pub expiry: Span = Span::from_millis(5000), "ns-2, `FLOW_TIME_OUT`";
        /// Maximum number of remembered flows. A new flow replaces the flow that has been silent longest.
        pub max_flows: u32 = 1_000_000, "aqmlab's choice; ns-2 has no bound";
    }
}

choices! {
    /// The rule that selects which packets beyond the threshold are long.
    pub enum Penalty {
        /// All packets (`downgrade2` = 0 in ns-2).
        Every = "every",
        /// Each packet, with probability 1 - `threshold` / (bytes sent by the flow) (`downgrade2` = 1 in ns-2).
        Random = "random",
        /// Five of six packets, as in ns-2's code for `downgrade2` = 2.
        FiveOfSix = "five-of-six",
        /// Four of five packets, as stated in ns-2's comment on `downgrade2` = 2.
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

/// An edge that classifies flows with SFD.
#[derive(Clone)]
pub struct Sfd {
    config: Config,
    flows: Table<Sent>,
    rng: Rng,
}

/// The state of a flow.
#[derive(Clone, Default)]
struct Sent {
    bytes: u64,
    /// Packets penalised since the last packet that was not penalised.
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
    /// Penalises `run` packets in a row and then exempts one. Returns whether the next packet is penalised.
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

    /// Returns the classes of `count` packets of flow 1 that are sent at `now`: `S` for short, `L` for long.
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
    fn the_first_bytes_are_short_and_the_penalties_are_those_of_ns2() {
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
    fn the_random_penalty_grows_with_the_bytes_sent() {
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
            assert!((found - theory).abs() <= 4.0 * error, "packet {sent}: {found} (expected {theory})");
        }
    }

    #[test]
    fn a_flow_is_remembered_for_five_seconds_of_silence_and_no_longer() {
        let mut edge = edge(&Config::default());
        let seconds = |s: f64| Instant::START + Span::from_seconds(s);
        assert_eq!(marks(&mut *edge, 5000, seconds(0.0), 2), "SL");
        assert_eq!(marks(&mut *edge, 5000, seconds(5.0), 1), "L");
        assert_eq!(marks(&mut *edge, 5000, seconds(10.000_000_001), 2), "SL");
    }
}
