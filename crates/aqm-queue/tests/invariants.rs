//! Every discipline, with its defaults and its hardest parameters, satisfies the invariants for random arrivals.

use aqm_link::{Departure, Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Span, Streams};
use aqm_queue::testing::Fates;
use aqm_queue::testing::invariants;
use aqm_queue::{Config, Label, Protocol};
use proptest::prelude::*;
use proptest::test_runner::{Config as Settings, RngAlgorithm, TestRng, TestRunner};

/// Some equal packets, and a pause.
#[derive(Clone, Debug)]
struct Burst {
    packets: u32,
    like: Packet,
    gap_us: u64,
    pause_us: u64,
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // Including classes unknown to all disciplines.
    let packet =
        (0_u32..4, 1_u16..1500, 0_u16..40, ecn, 0_u8..12).prop_map(|(flow, bytes, cwnd, ecn, class)| {
            Packet { flow, bytes, cwnd, ecn, class, label: flow as u16, ..Packet::default() }
        });
    let pause = prop_oneof![Just(0), 0_u64..200_000];
    let burst = (1_u32..120, packet, prop_oneof![Just(0), 0_u64..1500], pause)
        .prop_map(|(packets, like, gap_us, pause_us)| Burst { packets, like, gap_us, pause_us });
    prop::collection::vec(burst, 1..24)
}

/// The fates of the packets, in order.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    fates: Fates,
    sent: Vec<Departure>,
}

fn drive(member: &Config, bursts: &[Burst], seed: u64) -> Outcome {
    let rate = Rate::from_bps(10_000_000);
    let mut queue = invariants::watched(member, rate).unwrap();
    for flow in 0..4 {
        let label = Label { traffic: format!("flow {flow}"), protocol: Protocol::Tcp, port: 0, dscp: 0 };
        queue.on_label(flow, &label);
    }
    let mut port = Port::new(queue, rate, Streams::new(seed).named("queue", 0), Ties::DepartureFirst);
    let (mut fates, mut sent) = (Fates::default(), Vec::new());
    let (mut now, mut id) = (Instant::START, 0);
    for burst in bursts {
        for _ in 0..burst.packets {
            port.accept(Packet { id, ..burst.like }, now, &mut fates, |departure| sent.push(departure));
            let counters = port.counters(now);
            assert_eq!(
                counters.arrivals,
                counters.drops + counters.departures + port.discipline().backlog().packets,
                "every packet is queued, sent or dropped"
            );
            id += 1;
            now += Span::from_nanos(burst.gap_us * 1000);
        }
        now += Span::from_nanos(burst.pause_us * 1000);
    }
    port.serve(now + Span::from_millis(3_600_000), &mut fates, |departure| sent.push(departure));
    assert_eq!(port.discipline().backlog().packets, 0, "at the end, all packets have been sent");
    Outcome { fates, sent }
}

#[test]
fn every_discipline_satisfies_the_invariants_and_the_same_seed_yields_the_same_fates() {
    for member in Config::corners() {
        let settings = Settings { cases: 24, failure_persistence: None, ..Settings::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome =
            TestRunner::new_with_rng(settings, rng).run(&(bursts(), 0_u64..1000), |(bursts, seed)| {
                let outcome = drive(&member, &bursts, seed);
                prop_assert_eq!(&outcome, &drive(&member, &bursts, seed));
                Ok(())
            });
        assert!(outcome.is_ok(), "{member:?}: {}", outcome.unwrap_err());
        // The invariants are meaningful only if there are drops. A discipline that marks drops only packets that are
        // not ECN-capable.
        let drops = [Ecn::Ect0, Ecn::NotEct].map(|ecn| {
            let like = Packet { bytes: 1000, ecn, cwnd: 9, ..Packet::default() };
            let flood = [Burst { packets: 1500, like, gap_us: 400, pause_us: 0 }];
            drive(&member, &flood, 1).fates.counts.drops()
        });
        assert!(drops.iter().sum::<u64>() > 0, "{member:?} drops nothing at twice the line rate");
    }
}

#[test]
fn a_discipline_that_may_mark_marks_ecn_capable_packets() {
    // The first class: the last class's average may depend on the others.
    let like = Packet { bytes: 1000, class: 1, ..Packet::default() };
    for member in Config::corners() {
        // Some disciplines mark only one of the code points.
        let marks = [Ecn::Ect0, Ecn::Ect1].map(|ecn| {
            let flood = [Burst { packets: 3000, like: Packet { ecn, ..like }, gap_us: 700, pause_us: 0 }];
            drive(&member, &flood, 1).fates.counts.marks
        });
        assert_eq!(marks.iter().any(|&marks| marks > 0), invariants::may_mark(&member), "{member:?}");
    }
}
