//! Properties of all paths: conservation, the order of outcomes, and determinism.

use aqm_path::{Datagram, DatagramId, Direction, Ecn, Instant, Outcome, OutcomeDigest, Path};
use proptest::prelude::*;
use serde_json::{Value, json};

fn link() -> impl Strategy<Value = Value> {
    let queue = proptest::sample::select(aqm_queue::Config::NAMES);
    let loss = prop_oneof![Just(0.0), 0.0..0.5_f64];
    let parts = (queue, 100_000..50_000_000_u64, 0..30_000_000_u64, loss, any::<bool>());
    parts.prop_map(|(kind, bps, nanos, loss, plain)| {
        let mut link = json!({"rate": format!("{bps}bps"), "delay": format!("{nanos}ns")});
        if !plain {
            link["queue"] = json!({"kind": kind});
            link["loss"] = json!({"probability": loss});
        }
        link
    })
}

/// The configuration of a path of one to three links in each direction.
fn config() -> impl Strategy<Value = Value> {
    let links = || prop::collection::vec(link(), 1..4);
    (links(), links(), any::<bool>(), any::<u64>()).prop_map(|(forward, reverse, symmetric, seed)| {
        let mut config = json!({"forward": forward, "seed": seed});
        if !symmetric {
            config["reverse"] = reverse.into();
        }
        config
    })
}

/// Gaps in nanoseconds, directions, sizes and codepoints of datagrams.
type Sends = Vec<(u64, bool, usize, u8)>;

fn sends() -> impl Strategy<Value = Sends> {
    let gap = prop_oneof![Just(0), 0..3_000_000_u64, 0..300_000_000_u64];
    prop::collection::vec((gap, any::<bool>(), 1..=65_535_usize, 0..4_u8), 1..60)
}

fn datagrams(sends: &Sends) -> Vec<(Instant, Direction, usize, Ecn)> {
    let mut nanos = 0;
    let datagram = |&(gap, forward, bytes, ecn): &(u64, bool, usize, u8)| {
        nanos += gap;
        let direction = if forward { Direction::Forward } else { Direction::Reverse };
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(ecn)];
        // Most datagrams fit into an Ethernet frame.
        let bytes = if bytes % 8 == 0 { bytes } else { 1 + bytes % 1500 };
        (Instant::from_nanos(nanos), direction, bytes, ecn)
    };
    sends.iter().map(datagram).collect()
}

/// Sends the datagrams, and returns the outcomes in the order in which the path returns them. The path is polled
/// whenever an event is due.
fn outcomes(config: &Value, sends: &Sends) -> Vec<Outcome> {
    let mut path = Path::from_json(&config.to_string()).unwrap();
    let flow = path.open_flow();
    let mut found = Vec::new();
    for (number, (at, direction, bytes, ecn)) in datagrams(sends).into_iter().enumerate() {
        while let Some(due) = path.next_due().filter(|&due| due <= at) {
            found.extend(std::iter::from_fn(|| path.poll(due)));
        }
        let id = path.send(Datagram { flow, direction, bytes, ecn }, at).unwrap();
        assert_eq!(id.number(), number as u64);
    }
    while let Some(due) = path.next_due() {
        found.extend(std::iter::from_fn(|| path.poll(due)));
    }
    assert_eq!(path.in_transit(), 0);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_datagram_has_one_outcome_and_outcomes_are_in_the_order_of_time(config in config(), sends in sends()) {
        let found = outcomes(&config, &sends);
        prop_assert!(found.is_sorted_by_key(Outcome::at));
        let mut ids: Vec<DatagramId> = found.iter().map(Outcome::id).collect();
        ids.sort_unstable();
        prop_assert!(ids.iter().map(|id| id.number()).eq(0..sends.len() as u64));
        let sent = datagrams(&sends);
        for outcome in &found {
            let (at, direction, _, ecn) = sent[outcome.id().number() as usize];
            prop_assert!(outcome.at() >= at);
            prop_assert_eq!(outcome.direction(), direction);
            if let Outcome::Delivered { ecn: after, mark, .. } = *outcome {
                prop_assert_eq!(after, if mark.is_some() { Ecn::Ce } else { ecn });
                prop_assert!(mark.is_none_or(|mark| mark.at >= at && mark.at <= outcome.at()));
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_digest(config in config(), sends in sends()) {
        let digest = || {
            let mut digest = OutcomeDigest::default();
            outcomes(&config, &sends).iter().for_each(|outcome| digest.add(outcome));
            digest.finish()
        };
        prop_assert_eq!(digest(), digest());
    }
}

#[test]
fn another_seed_gives_other_losses() {
    let digest = |seed: u64| {
        let link = json!({"rate": "1Mbps", "delay": "1ms", "queue": {"kind": "codel"}, "loss": {"probability": 0.5}});
        let sends = vec![(1_000_000, true, 100, 0); 50];
        let mut digest = OutcomeDigest::default();
        outcomes(&json!({"forward": [link], "seed": seed}), &sends).iter().for_each(|one| digest.add(one));
        digest.finish()
    };
    assert_ne!(digest(1), digest(2));
}
