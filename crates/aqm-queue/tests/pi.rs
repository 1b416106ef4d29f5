//! Tests of PI and of the queues based on PI.

use aqm_link::{Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Streams};
use aqm_queue::Config;
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Counts, Driver, Fates, ect, packet};
use serde_json::{Value, json};

/// A controller whose probability is 0.1, and whose queue is at its reference, 10.
fn at_a_tenth(kind: &str, change: Value, seed: u64) -> Driver {
    let mut pi = json!({"q_ref": "10p", "a": 0.004, "b": 0.002, "limit": "30p"});
    pi.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let table = if kind == "pi" {
        pi["kind"] = json!("pi");
        pi
    } else {
        json!({"kind": kind, "pi": pi})
    };
    let mut driver = Driver::new(table, seed);
    (0..20).for_each(|_| {
        driver.offer(packet(1000));
    });
    // From the empty queue to 20: 0.004 * 10 + 0.002 * 10. Each further update at 20: 0.04 - 0.02. Back: 0 - 0.02.
    for (instant, queue) in [(1, 20), (2, 20), (3, 20), (4, 20), (5, 10)] {
        while driver.queue.backlog().packets > queue {
            driver.take();
        }
        driver.now = Instant::from_nanos(instant * 6_250_000);
        // Any call processes the updates: one departure, and one arrival.
        driver.take();
        while driver.queue.backlog().packets < queue {
            driver.offer(packet(1000));
        }
    }
    driver.fates = Fates::default();
    driver
}

/// The share of `offers` packets that are selected, in a queue of constant length.
fn share(driver: &mut Driver, like: Packet, offers: u32) -> f64 {
    let mut chosen = 0;
    for _ in 0..offers {
        let before = driver.queue.backlog().packets;
        chosen += u32::from(driver.offer(like));
        while driver.queue.backlog().packets > before {
            driver.take();
        }
    }
    f64::from(chosen) / f64::from(offers)
}

#[test]
fn under_a_constant_overload_the_queue_reaches_its_reference() {
    for (load, q_ref) in [(1.05, 200), (1.15, 200), (1.1, 50)] {
        let rate = Rate::from_bps(10_000_000);
        let table = json!({"kind": "pi", "q_ref": format!("{q_ref}p")});
        let queue = invariants::watched(&Config::read(table).unwrap(), rate).unwrap();
        let mut port = Port::new(queue, rate, Streams::new(3).named("queue", 0), Ties::DepartureFirst);
        let mut fates = Fates::default();
        let (mut before, mut early) = (None, 0);
        let packets = (1000.0 * 1250.0 * load) as u32;
        for id in 0..packets {
            let now = Instant::from_nanos((f64::from(id) * 800_000.0 / load) as u64);
            port.accept(Packet { id, ..packet(1000) }, now, &mut fates, |_| {});
            if id == packets * 2 / 5 {
                (before, early) = (Some((now, port.counters(now).packet_nanos)), fates.counts.early);
            }
        }
        let (end, (begin, area)) = (Instant::from_nanos(1_000_000_000_000), before.unwrap());
        let mean = (port.counters(end).packet_nanos - area) as f64 / end.since(begin).nanos() as f64;
        assert!((mean - f64::from(q_ref)).abs() < 5.0, "{load} {q_ref}: {mean}");
        let dropped = (fates.counts.early - early) as f64 / (f64::from(packets) * 0.6);
        assert!((dropped - (1.0 - 1.0 / load)).abs() < 0.003, "{load}: {dropped}");
    }
}

#[test]
fn drops_are_independent() {
    let mut driver = at_a_tenth("pi", json!({}), 1);
    let p = driver.gauge("probability");
    assert!((p - 0.1).abs() < 1e-12, "{p}");
    assert!((share(&mut driver, packet(1000), 100_000) - p).abs() < 0.003);
    assert_eq!(driver.fates.counts.overflow, 0);
}

#[test]
fn ecn_capable_packets_are_marked_with_ecn_and_others_dropped() {
    for (ecn, like, marks) in
        [("off", Ecn::Ect0, false), ("always", Ecn::Ect1, true), ("always", Ecn::NotEct, false)]
    {
        let mut driver = at_a_tenth("pi", json!({"ecn": ecn}), 1);
        share(&mut driver, Packet { ecn: like, ..packet(1000) }, 1000);
        let Counts { early, marks: found, .. } = driver.fates.counts;
        assert_eq!((found > 50, early > 50), (marks, !marks), "{ecn} {like:?}");
    }
}

#[test]
fn a_full_queue_drops_without_a_random_number() {
    let mut driver = at_a_tenth("pi", json!({"ecn": "always"}), 1);
    while driver.queue.backlog().packets < 30 {
        driver.offer(ect(1000));
    }
    let (marks, untouched) = (driver.fates.counts.marks, driver.rng.clone().bits());
    assert!(driver.offer(ect(1000)));
    assert_eq!(
        (driver.fates.counts.overflow, driver.fates.counts.marks, driver.rng.bits()),
        (1, marks, untouched)
    );
}

#[test]
fn small_packets_are_dropped_less_often_with_scale_by_size() {
    let mut by_size = at_a_tenth("pi", json!({"scale_by_size": true, "mean_packet": "1000B"}), 1);
    assert!((share(&mut by_size, packet(500), 100_000) - 0.05).abs() < 0.003);
    assert!((share(&mut by_size, packet(1500), 100_000) - 0.15).abs() < 0.004);
    let mut alike = at_a_tenth("pi", json!({}), 1);
    assert!((share(&mut alike, packet(40), 100_000) - 0.1).abs() < 0.003);
}

/// The fates under a long irregular load, and the final state.
fn fates(kind: &str, window: impl Fn(u32) -> u16) -> (Vec<bool>, f64, u64) {
    let pi = json!({"q_ref": "20p", "a": 0.0005, "b": 0.0004, "limit": "200p", "ecn": "always"});
    let mut table = json!({"kind": kind, "pi": pi});
    if kind == "pi" {
        table = pi;
        table["kind"] = json!("pi");
    }
    let mut driver = Driver::new(table, 4);
    let fates = driver.offer_irregularly(|k| Packet { cwnd: window(k), ..ect(974) });
    (fates, driver.gauge("probability"), driver.rng.bits())
}

#[test]
fn with_equal_windows_or_none_pisa_and_pimc_are_identical_to_pi() {
    let expected = fates("pi", |_| 0);
    assert!(expected.0.contains(&true));
    for kind in ["pi", "pisa", "pimc"] {
        assert_eq!(fates(kind, |_| 7), expected, "{kind}");
        assert_eq!(fates(kind, |_| 0), expected, "{kind}, no windows");
    }
    assert_ne!(fates("pisa", |k| 1 + (k % 9) as u16), expected);
    assert_ne!(fates("pimc", |k| 1 + (k % 9) as u16), expected);
}

#[test]
fn pisa_drops_in_proportion_to_the_window_and_as_often_as_pi_in_total() {
    let mut driver = at_a_tenth("pisa", json!({}), 2);
    let windows = [2, 5, 20];
    let mut chosen = [0_u32; 3];
    for k in 0..63_000 {
        if k == 3000 {
            chosen = [0; 3];
        }
        for (class, cwnd) in windows.into_iter().enumerate() {
            chosen[class] += u32::from(share(&mut driver, Packet { cwnd, ..packet(1000) }, 1) > 0.0);
        }
    }
    assert!((driver.gauge("window_average") - 9.0).abs() < 0.2);
    for (class, cwnd) in windows.into_iter().enumerate() {
        let rate = f64::from(chosen[class]) / 60_000.0;
        assert!((rate - 0.1 * f64::from(cwnd) / 9.0).abs() < 0.004, "{cwnd}: {rate}");
    }
    let together = f64::from(chosen.iter().sum::<u32>()) / 180_000.0;
    assert!((together - 0.1).abs() < 0.003, "{together}");
}

#[test]
fn pimc_spares_windows_below_its_threshold_unless_the_queue_is_full() {
    let mut driver = at_a_tenth("pimc", json!({}), 2);
    let untouched = driver.rng.clone().bits();
    assert_eq!(share(&mut driver, Packet { cwnd: 3, ..packet(1000) }, 10_000), 0.0);
    assert_eq!(driver.rng.clone().bits(), untouched);
    assert!((share(&mut driver, Packet { cwnd: 4, ..packet(1000) }, 100_000) - 0.1).abs() < 0.003);
    assert!((share(&mut driver, packet(1000), 100_000) - 0.1).abs() < 0.003);
    while driver.queue.backlog().packets < 30 {
        driver.offer(Packet { cwnd: 1, ..packet(1000) });
    }
    assert!(driver.offer(Packet { cwnd: 1, ..packet(1000) }));
    assert_eq!(driver.fates.counts.overflow, 1);
}

#[test]
fn invalid_parameters_are_rejected_with_name_and_remedy() {
    let problem = |table: Value| {
        Config::read(table).unwrap().build(Rate::from_bps(1_000_000)).err().unwrap().to_string()
    };
    let rows = [
        (json!({"q_ref": "0p"}), "q_ref: must be at least 1p"),
        (json!({"a": 0.0}), "a: must be above 0"),
        (json!({"b": 1.0}), "b: must be above 0 and below a"),
        (json!({"interval": "9us"}), "interval: must be at least 10us"),
        (json!({"limit": "200p"}), "limit: must exceed q_ref (200p)"),
        (json!({"limit": "0B"}), "limit: must be at least 1p or 1B"),
        (json!({"mean_packet": "0B"}), "mean_packet: must be at least 1B"),
    ];
    for (change, expected) in rows {
        for kind in ["pisa", "pimc"] {
            let found = problem(json!({"kind": kind, "pi": change}));
            assert!(found.starts_with(&format!("pi.{expected}")), "{kind}: {found}");
            assert_eq!(found.lines().count(), 1, "{kind}: {found}");
        }
        let mut plain = change;
        plain["kind"] = json!("pi");
        let found = problem(plain);
        assert!(found.starts_with(expected), "{found}");
    }
    let found = problem(json!({"kind": "pisa", "window_weight": 0.0}));
    assert!(found.starts_with("window_weight: must be above 0"), "{found}");
    for wrong in [0, 65_536] {
        let found = problem(json!({"kind": "pimc", "min_cwnd": wrong}));
        assert!(found.starts_with("min_cwnd: must be from 1 to 65535 segments"), "{found}");
    }
    let wrong = json!({"kind": "pimc", "min_cwnd": 0, "pi": {"a": 0.0, "b": 0.0, "limit": "0p"}});
    let all = problem(wrong);
    let paths: Vec<&str> = all.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(paths, ["min_cwnd", "pi.a", "pi.b", "pi.limit"], "all errors are reported together");
}
