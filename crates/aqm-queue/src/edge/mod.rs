//! The edge of a network: classifies flows as short or long, and writes the class of the flow into each packet. A queue
//! in the core of the network can then treat the two classes differently without per-flow state.
//!
//! The edge keeps a counter per flow, and the core reads only the class of each packet, as in the paper by L. Guo and
//! I. Matta, "The War Between Mice and Elephants", ICNP 2001.
//!
//! An edge sets the [`Packet::class`] of each packet that passes. The edge does not change any other field, and does
//! not reorder packets. A flow is identified by [`Packet::flow`]. If packets carry a 5-tuple instead, a [`Table`] maps
//! the hash of the 5-tuple to a flow number.

mod sfd;
mod short_flows;
mod table;

use aqm_net::{ConfigErrors, Instant, Packet, Rng, registry};
use dyn_clone::DynClone;

use crate::Gauge;

pub use table::{Key, Table};

/// The class of packets whose flow is still considered short.
pub const SHORT: u8 = 1;
/// The class of packets whose flow is considered long.
pub const LONG: u8 = 2;

registry! {
    /// The parameters of an edge of any kind.
    pub enum Config: Build, "edges" = "edge" {
        "short-flows" => short_flows,
        "sfd" => sfd,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::short_flows(short_flows::Config::default())
    }
}

/// The interface that the `Config` of every edge implements.
pub trait Build {
    /// Checks all parameters and builds the edge. `rng` is a random stream that is used only by this edge.
    ///
    /// # Errors
    /// Returns one error for each invalid field. The error states the allowed values.
    fn build(&self, rng: Rng) -> Result<Box<dyn Edge>, ConfigErrors>;
}

/// The point at which packets enter a network and are classified as short or long.
///
/// The time never decreases from one call to the next. Actions that are due at a certain time, such as the expiry of
/// flows, are performed at the next call, in chronological order.
pub trait Edge: DynClone + Send + Sync {
    /// Returns the class of a packet that passes at `now`: [`SHORT`] or [`LONG`].
    fn classify(&mut self, packet: &Packet, now: Instant) -> u8;

    /// Performs the actions that are due by `now` without classifying a packet. This method is called, for example,
    /// before the gauges are read.
    fn catch_up(&mut self, now: Instant);

    /// Reports the edge's gauges at the time of the last call, each with a unique name: the number of remembered flows
    /// (`flows`), the threshold between short and long flows (`threshold`), and the number of flows that have been
    /// evicted so far because the table was full (`evicted`).
    fn gauges(&self, show: &mut dyn FnMut(Gauge));
}

dyn_clone::clone_trait_object!(Edge);

#[cfg(test)]
mod tests {
    use aqm_net::Streams;
    use serde_json::json;

    use super::*;

    /// Returns every kind of edge with its default parameters, and again with each option that has a separate branch in
    /// the code.
    fn members() -> Vec<Config> {
        let variants = [
            json!({"kind": "short-flows", "threshold_rule": "static", "max_flows": 3}),
            json!({"kind": "short-flows", "threshold_rule": "quantile", "update": "5ms", "purge": "at-age"}),
            json!({"kind": "short-flows", "expiry": null, "update": "3ms"}),
            json!({"kind": "sfd", "penalty": "random", "threshold": "900B", "max_flows": 3}),
            json!({"kind": "sfd", "penalty": "five-of-six", "threshold": "900B"}),
            json!({"kind": "sfd", "penalty": "four-of-five", "threshold": "0B"}),
        ];
        Config::every().into_iter().chain(variants.map(|table| Config::read(table).unwrap())).collect()
    }

    fn gauge(edge: &dyn Edge, name: &str) -> f64 {
        let mut found = None;
        edge.gauges(&mut |shown| found = found.or((shown.name == name).then_some(shown.value)));
        found.unwrap_or_else(|| panic!("there is no gauge {name}"))
    }

    /// Returns the classes that `edge` assigns to the packets of short and long flows. The flows pause from time to
    /// time.
    fn classes(edge: &mut dyn Edge) -> Vec<u8> {
        let mut rng = Streams::new(5).named("arrivals", 0);
        let mut now = Instant::START;
        let one = |id: u32| {
            let flow = if rng.chance(0.3) { 100 + id } else { rng.below(6) as u32 };
            let packet = Packet { id, flow, bytes: 40 + rng.below(1460) as u16, ..Packet::default() };
            let pause = if rng.chance(0.01) { 4_000_000_000 } else { 1_500_000 };
            now += aqm_net::Span::from_nanos(rng.below(pause));
            let class = edge.classify(&packet, now);
            assert!((1.0..=4000.0).contains(&gauge(edge, "flows")) && gauge(edge, "threshold") >= 0.0);
            class
        };
        (0..4000).map(one).collect()
    }

    #[test]
    fn every_packet_is_classified_as_short_or_long() {
        for config in members() {
            let mut edge = config.build(Streams::new(1).named("edge", 0)).unwrap();
            assert!(classes(&mut *edge).iter().all(|class| [SHORT, LONG].contains(class)), "{config:?}");
        }
    }

    #[test]
    fn every_edge_finds_both_short_and_long_flows() {
        for config in Config::every() {
            let mut edge = config.build(Streams::new(1).named("edge", 0)).unwrap();
            let seen = classes(&mut *edge);
            assert!(seen.contains(&SHORT) && seen.contains(&LONG), "{config:?}");
        }
    }

    #[test]
    fn the_same_seed_yields_the_same_marks() {
        for config in members() {
            let run = || classes(&mut *config.build(Streams::new(1).named("edge", 0)).unwrap());
            assert_eq!(run(), run(), "{config:?}");
        }
    }

    #[test]
    fn the_number_of_remembered_flows_is_bounded() {
        for kind in Config::NAMES {
            let config = Config::read(json!({"kind": kind, "max_flows": 1000, "expiry": "1000s"})).unwrap();
            let mut edge = config.build(Streams::new(1).named("edge", 0)).unwrap();
            for flow in 0..1_000_000 {
                let packet = Packet { flow, bytes: 40, ..Packet::default() };
                let class = edge.classify(&packet, Instant::from_nanos(u64::from(flow) * 1000));
                assert_eq!(class, SHORT, "{kind}");
            }
            assert_eq!((gauge(&*edge, "flows"), gauge(&*edge, "evicted")), (1000.0, 999_000.0), "{kind}");
        }
    }

    fn error_paths(config: &Config) -> Vec<String> {
        let errors = config.build(Streams::new(1).named("edge", 0)).err();
        errors.into_iter().flatten().map(|error| error.path).collect()
    }

    #[test]
    fn invalid_parameters_are_rejected_by_name() {
        let refused = [
            ("short-flows", "max_flows", json!(0)),
            ("short-flows", "max_flows", json!(u32::MAX)),
            ("short-flows", "expiry", json!("0s")),
            ("short-flows", "expiry", json!("999us")),
            ("short-flows", "update", json!("0s")),
            ("short-flows", "short_to_long", json!(0.0)),
            ("short-flows", "short_to_long", json!(-3.0)),
            ("short-flows", "short_to_long", json!(1e300)),
            ("short-flows", "step", json!(0)),
            ("short-flows", "min_threshold", json!(1001)),
            ("short-flows", "threshold", json!(0)),
            ("short-flows", "threshold", json!(1001)),
            ("sfd", "max_flows", json!(0)),
            ("sfd", "expiry", json!("0s")),
        ];
        for (kind, index, value) in refused {
            let config = Config::read(json!({"kind": kind, index: value})).unwrap();
            assert_eq!(error_paths(&config), [index], "{config:?}");
        }
        let wrong =
            json!({"kind": "short-flows", "step": 0, "max_flows": 0, "min_threshold": 1001, "expiry": "0s"});
        let paths = error_paths(&Config::read(wrong).unwrap());
        assert_eq!(
            paths,
            ["expiry", "step", "min_threshold", "max_flows"],
            "all errors are reported at once"
        );
        let fixed =
            Config::read(json!({"kind": "short-flows", "threshold_rule": "static", "threshold": 0})).unwrap();
        assert!(fixed.build(Streams::new(1).named("edge", 0)).is_ok());
    }
}
