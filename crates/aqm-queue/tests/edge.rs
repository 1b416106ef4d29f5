//! The packet-counting edge compared with a plain and slow implementation of its rules.

use std::collections::BTreeMap;

use aqm_net::{Instant, Packet, Span, Streams};
use aqm_queue::edge::{Config, Edge, LONG, SHORT};
use proptest::prelude::*;
use serde_json::json;

/// The rules with their parameters, with times in milliseconds.
#[derive(Clone, Debug)]
struct Rules {
    threshold_rule: &'static str,
    purge: &'static str,
    expiry: Option<u64>,
    update: u64,
    short_to_long: f64,
}

const START: u32 = 6;
const STEP: u32 = 2;
const MAX: u32 = 15;

impl Rules {
    fn edge(&self) -> Box<dyn Edge> {
        let table = json!({
            "kind": "short-flows", "threshold": START, "step": STEP, "max_threshold": MAX,
            "threshold_rule": self.threshold_rule, "purge": self.purge, "short_to_long": self.short_to_long,
            "expiry": self.expiry.map(|ms| format!("{ms}ms")), "update": format!("{}ms", self.update),
        });
        Config::read(table).unwrap().build(Streams::new(1).named("edge", 0)).unwrap()
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let expiry = prop_oneof![Just(None), (1_u64..40).prop_map(Some)];
    let threshold_rule = prop::sample::select(vec!["static", "steered", "quantile"]);
    let purge = prop::sample::select(vec!["at-scans", "at-age"]);
    (threshold_rule, purge, expiry, 1_u64..60, 0.2_f64..5.0).prop_map(
        |(threshold_rule, purge, expiry, update, short_to_long)| Rules {
            threshold_rule,
            purge,
            expiry,
            update,
            short_to_long,
        },
    )
}

/// An edge that evaluates its rules every millisecond.
struct Plain {
    /// The count of each flow, and the millisecond of its last packet.
    flows: BTreeMap<u32, (u32, u64)>,
    threshold: u32,
    rules: Rules,
}

impl Plain {
    fn tick(&mut self, ms: u64) {
        if let Some(expiry) = self.rules.expiry
            && (self.rules.purge == "at-age" || ms.is_multiple_of(expiry))
        {
            self.flows.retain(|_, flow| flow.1 + expiry >= ms);
        }
        if ms.is_multiple_of(self.rules.update) && !self.flows.is_empty() {
            self.update();
        }
    }

    fn update(&mut self) {
        let mut counts: Vec<u32> = self.flows.values().map(|flow| flow.0).collect();
        counts.sort_unstable();
        let (ratio, all) = (self.rules.short_to_long, counts.len() as f64);
        let short = counts.iter().filter(|count| **count <= self.threshold).count() as f64;
        let threshold = match self.rules.threshold_rule {
            "static" => return,
            "steered" if short == all || short / (all - short) > ratio => self.threshold / 2,
            "steered" => self.threshold + STEP,
            _ => {
                let is_enough = |n: usize| n as f64 >= all * ratio / (ratio + 1.0);
                counts[(1..=counts.len()).find(|n| is_enough(*n)).unwrap() - 1]
            }
        };
        self.threshold = threshold.clamp(1, MAX);
    }

    fn class(&mut self, flow: u32, ms: u64) -> u8 {
        let entry = self.flows.entry(flow).or_default();
        *entry = (entry.0 + 1, ms);
        if entry.0 <= self.threshold { SHORT } else { LONG }
    }
}

fn gauges(edge: &dyn Edge) -> BTreeMap<&'static str, f64> {
    let mut gauges = BTreeMap::new();
    edge.gauges(&mut |gauge| _ = gauges.insert(gauge.name, gauge.value));
    gauges
}

/// Flows, each with a pause in milliseconds before its packet: none, short, or many periods.
fn arrivals() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let pause = prop_oneof![5 => Just(0), 10 => 0_u64..10, 2 => 0_u64..2000];
    prop::collection::vec((0_u32..30, pause), 1..300)
}

proptest! {
    #[test]
    fn marks_threshold_and_flows_are_those_of_the_plain_rules(rules in rules(), arrivals in arrivals()) {
        let mut edge = rules.edge();
        let mut plain = Plain { flows: BTreeMap::new(), threshold: START, rules };
        let mut now = 0;
        for (flow, pause) in arrivals {
            (now + 1..=now + pause).for_each(|ms| plain.tick(ms));
            now += pause;
            let packet = Packet { flow, ..Packet::default() };
            let class = edge.classify(&packet, Instant::START + Span::from_millis(now));
            prop_assert_eq!(class, plain.class(flow, now));
            let expected = [
                ("flows", plain.flows.len() as f64),
                ("threshold", f64::from(plain.threshold)),
                ("evicted", 0.0),
            ];
            prop_assert_eq!(gauges(&*edge), BTreeMap::from(expected));
        }
    }
}
