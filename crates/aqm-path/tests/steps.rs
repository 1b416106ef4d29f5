//! The outcomes do not depend on how often a path is polled.

use aqm_net::{Rng, Streams};
use aqm_path::{Datagram, Direction, Ecn, FlowId, FlowOptions, Instant, Outcome, OutcomeDigest, Path};
use serde_json::{Value, json};

/// Datagrams in both directions, in bursts, with random sizes, codepoints and flows.
fn schedule(rng: &mut Rng, flows: &[FlowId], count: usize) -> Vec<(Instant, Datagram)> {
    let mut nanos = 0;
    let datagram = |_| {
        // A third of the datagrams follow at once; the others arrive at multiples of a microsecond, so that some
        // arrivals coincide with transmissions.
        nanos += rng.below(3).min(1) * rng.below(900) * 1000;
        let direction = if rng.below(3) == 0 { Direction::Reverse } else { Direction::Forward };
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][rng.below(4) as usize];
        let flow = flows[rng.below(flows.len() as u64) as usize];
        (Instant::from_nanos(nanos), Datagram { flow, direction, bytes: 1 + rng.below(1500) as usize, ecn })
    };
    (0..count).map(datagram).collect()
}

/// A time between two sends at which the path is polled.
#[derive(Clone, Copy)]
enum Polls {
    /// Only after the last datagram.
    AtEnd,
    /// Whenever an event is due, and after each datagram.
    WhenDue,
    /// Every 100 us, and before each datagram.
    Often,
}

fn outcomes(text: &str, polls: Polls, seed: u64) -> (Vec<Outcome>, Path) {
    let mut path = Path::from_json(text).unwrap();
    let traffic = |number: usize| Some(format!("flow-{}", number % 3));
    let options = |number| FlowOptions { traffic: traffic(number), ..FlowOptions::default() };
    let flows: Vec<FlowId> = (0..5).map(|number| path.open_flow_with(&options(number)).unwrap()).collect();
    let mut rng = Streams::new(seed).named("schedule", 0);
    let mut found = Vec::new();
    let mut drain = |path: &mut Path, now: Instant| found.extend(std::iter::from_fn(|| path.poll(now)));
    for (at, datagram) in schedule(&mut rng, &flows, 400) {
        match polls {
            Polls::AtEnd => {}
            Polls::WhenDue => {
                while let Some(due) = path.next_due().filter(|&due| due <= at) {
                    drain(&mut path, due);
                }
            }
            Polls::Often => {
                while path.now() < at {
                    let next = Instant::from_nanos(path.now().nanos() + 100_000).min(at);
                    drain(&mut path, next);
                }
            }
        }
        path.send(datagram, at).unwrap();
        if matches!(polls, Polls::WhenDue) {
            drain(&mut path, at);
        }
    }
    match polls {
        Polls::AtEnd => {}
        Polls::WhenDue => {
            while let Some(due) = path.next_due() {
                let before = path.in_transit();
                drain(&mut path, due);
                assert!(path.next_due().is_none_or(|next| next > due) && path.in_transit() <= before);
            }
        }
        Polls::Often => {
            for millis in 1..5000 {
                let next = Instant::from_nanos(path.now().nanos() + millis * 1000);
                drain(&mut path, next);
            }
        }
    }
    drain(&mut path, Instant::from_nanos(1_000_000_000_000));
    (found, path)
}

fn digest(outcomes: &[Outcome]) -> String {
    let mut digest = OutcomeDigest::default();
    outcomes.iter().for_each(|outcome| digest.add(outcome));
    digest.finish()
}

fn check(mut config: Value, seed: u64) -> usize {
    config["traffic"] = json!({"flow-0": {}, "flow-1": {}, "flow-2": {}});
    // The test cases of queues with classes name workloads `flow 0` and `flow 1`.
    let text = config.to_string().replace("flow ", "flow-");
    let (expected, _) = outcomes(&text, Polls::AtEnd, seed);
    for polls in [Polls::WhenDue, Polls::Often] {
        let (mut found, path) = outcomes(&text, polls, seed);
        assert!(found.is_sorted_by_key(Outcome::at), "{text}");
        assert_eq!(digest(&found), digest(&expected), "{text}");
        found.sort_by_key(|outcome| (outcome.at(), outcome.id()));
        assert_eq!(found, expected, "{text}");
        assert_eq!(path.in_transit(), 400 - found.len() as u64);
    }
    expected.len()
}

#[test]
fn every_queue_gives_the_same_outcomes_however_often_the_path_is_polled() {
    for (number, queue) in aqm_queue::Config::corners().into_iter().enumerate() {
        let link = |rate: &str| json!({"rate": rate, "delay": "3ms", "queue": queue.to_value()});
        let reverse = json!({"rate": "10Mbps", "delay": "1ms", "queue": queue.to_value()});
        let text = json!({"forward": [link("12Mbps"), link("10Mbps")], "reverse": [reverse]});
        assert_eq!(check(text, number as u64), 400, "{}", queue.kind());
    }
}

#[test]
fn every_kind_of_line_gives_the_same_outcomes_however_often_the_path_is_polled() {
    let queue = json!({"kind": "codel"});
    let keys = [
        json!({"rate_steps": [{"at": "30ms", "rate": "8Mbps"}, {"at": "60ms", "rate": "500kbps"}], "rate_repeat": "700ms"}),
        json!({"random_outages": {"mean_up": "20ms", "mean_down": "5ms"}}),
        json!({"aggregation": {"packets": 8}}),
        json!({"framing": {"linklayer": "atm", "overhead": 10}}),
        json!({"loss": {"p": 0.1, "r": 0.4}, "delay_steps": [{"at": "50ms", "delay": "1us"}]}),
        json!({"reordering": {"probability": 0.2, "delay": "7ms", "jitter": "3ms"}}),
    ];
    for (number, keys) in keys.into_iter().enumerate() {
        let mut link = json!({"rate": "5Mbps", "delay": "3ms", "queue": queue});
        link.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let text = json!({"forward": [link, {"rate": "3Mbps", "delay": "0s"}, link], "reverse": [link]});
        assert_eq!(check(text, number as u64), 400, "{keys}");
    }
}

#[test]
fn datagrams_on_a_link_that_stays_down_have_no_outcome() {
    let link =
        json!({"rate": "2Mbps", "delay": "3ms", "queue": {"kind": "codel"}, "outages": [{"from": "80ms"}]});
    let delivered = check(json!({"forward": [link]}), 1);
    assert!(delivered > 20 && delivered < 400, "{delivered}");
}
