//! A link with four flows of different weights, random arrivals, and the resulting events.

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Span, Streams};
use aqm_queue::Config;
use aqm_queue::testing::Fates;
use aqm_queue::testing::invariants;
use proptest::prelude::*;
use proptest::test_runner::{Config as Settings, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::{Value, json};

/// One byte per microsecond, so that all times are whole numbers.
pub const RATE: Rate = Rate::from_bps(8_000_000);
pub const NANOS_PER_BYTE: u64 = 1000;
pub const FLOWS: usize = 4;
/// The weights of the flows, which are also the classes.
pub const WEIGHTS: [u64; FLOWS] = [1, 2, 3, 4];
/// The largest packet of each flow.
pub const LARGEST: [u64; FLOWS] = [1500, 60, 1500, 700];
pub const MAX: u64 = 1500;

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Instant,
    pub flow: usize,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Arrive {
        flow: usize,
    },
    /// A packet leaves the queue. Its last bit leaves the link at `end`.
    Depart {
        id: usize,
        flow: usize,
        bytes: u64,
        end: Instant,
    },
    Drop {
        flow: usize,
    },
}

/// Bursts of each flow: at once, at about the flow's fair rate, or slower; of the largest or the smallest packets, or
/// mixed.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let size = prop_oneof![Just(1.0), Just(0.0), 0.0..1.0];
    let gap = prop_oneof![3 => Just(0.0), 1 => 0.0..2.0, 1 => 0.0..12.0];
    let burst = (0..FLOWS, 0_u64..20_000, prop::collection::vec((size, gap), 1..25));
    prop::collection::vec(burst, 1..12).prop_map(|bursts| {
        let mut all = Vec::new();
        for (flow, begin, packets) in bursts {
            let mut at = Instant::from_nanos(begin * NANOS_PER_BYTE);
            for (size, gap) in packets {
                let bytes = 1 + (size * (LARGEST[flow] - 1) as f64) as u64;
                at += Span::from_nanos((gap * bytes as f64) as u64 * NANOS_PER_BYTE);
                all.push(Arrival { at, flow, bytes });
            }
        }
        all.sort_by_key(|arrival| arrival.at);
        all
    })
}

pub fn scheduler(kind: &str, change: Value) -> Config {
    let mut table = json!({"kind": kind, "weights": WEIGHTS, "limit": "1000000p"});
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    Config::read(table).unwrap()
}

/// The events, in order.
pub fn drive(config: &Config, arrivals: &[Arrival]) -> Vec<Event> {
    let queue = invariants::watched(config, RATE).unwrap();
    let mut port = Port::new(queue, RATE, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
    let (mut fates, mut left, mut events) = (Fates::default(), Vec::new(), Vec::new());
    let depart = |departure: aqm_link::Departure| {
        let Packet { id, flow, bytes, .. } = departure.packet;
        Event::Depart { id: id as usize, flow: flow as usize, bytes: bytes.into(), end: departure.end }
    };
    for (id, arrival) in arrivals.iter().enumerate() {
        port.serve_before(arrival.at, &mut fates, |departure| left.push(depart(departure)));
        events.append(&mut left);
        events.push(Event::Arrive { flow: arrival.flow });
        let packet = Packet {
            id: id as u32,
            flow: arrival.flow as u32,
            bytes: arrival.bytes as u16,
            class: arrival.flow as u8,
            ..Packet::default()
        };
        port.accept(packet, arrival.at, &mut fates, |departure| left.push(depart(departure)));
        let dropped = std::mem::take(&mut fates);
        events.extend(dropped.dropped_packets().map(|packet| Event::Drop { flow: packet.flow as usize }));
        events.append(&mut left);
    }
    let end = Instant::START + Span::from_millis(3_600_000);
    port.serve(end, &mut fates, |departure| left.push(depart(departure)));
    events.append(&mut left);
    events
}

/// Checks `property` with many random arrivals.
pub fn try_all(property: impl Fn(&[Arrival]) -> Result<(), String>) -> Result<(), String> {
    let settings = Settings { cases: 400, failure_persistence: None, ..Settings::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(settings, rng)
        .run(&arrivals(), |arrivals| property(&arrivals).map_err(TestCaseError::fail));
    outcome.map_err(|error| match error {
        TestError::Fail(reason, _) => reason.to_string(),
        TestError::Abort(reason) => panic!("{reason}"),
    })
}
