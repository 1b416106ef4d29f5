//! Tests of RED and SHRED, including the known errors of other implementations.

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::Config;
use aqm_queue::testing::{Driver, Fates, ect, packet};
use serde_json::{Value, json};

/// A RED queue whose average is the queue itself.
fn direct(change: Value) -> Value {
    let mut table = json!({"kind": "red", "weight": 1.0});
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

/// Offers packets to a queue that is kept at 60, midway between the thresholds: `p_b` is 0.05. Returns the numbers of
/// packets between drops.
fn gaps(change: Value, offers: u32) -> Vec<u64> {
    let mut driver = Driver::new(direct(change), 42);
    let (mut gap, mut gaps) = (0, Vec::new());
    while driver.queue.backlog().packets < 60 {
        driver.offer(packet(974));
    }
    // Until the first drop, the count depends on how the queue was filled.
    let mut counting = false;
    for _ in 0..offers {
        gap += 1;
        if driver.offer(packet(974)) {
            if counting {
                gaps.push(gap);
            }
            (gap, counting) = (0, true);
        } else {
            driver.take();
        }
        assert_eq!(driver.gauge("average"), 60.0);
    }
    gaps
}

fn mean(gaps: &[u64]) -> f64 {
    gaps.iter().sum::<u64>() as f64 / gaps.len() as f64
}

/// The chi-square statistic of `gaps` against uniform on `from..=to`.
fn chi_square(gaps: &[u64], from: u64, to: u64) -> f64 {
    let expected = gaps.len() as f64 / (to - from + 1) as f64;
    (from..=to)
        .map(|gap| {
            let seen = gaps.iter().filter(|g| **g == gap).count() as f64;
            (seen - expected) * (seen - expected) / expected
        })
        .sum()
}

#[test]
fn with_no_wait_gaps_are_uniform_from_1_to_19_and_a_tenth_is_dropped() {
    let gaps = gaps(json!({"spacing": "no-wait"}), 200_000);
    assert!((mean(&gaps) * 0.100 - 1.0).abs() < 0.02, "{}", mean(&gaps));
    assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&19)));
    // 18 degrees of freedom: 42.3 is exceeded with a probability of 0.001.
    let statistic = chi_square(&gaps, 1, 19);
    assert!(statistic < 42.3, "{statistic}");
}

#[test]
fn with_wait_gaps_are_uniform_from_20_to_39() {
    let gaps = gaps(json!({"spacing": "wait"}), 600_000);
    assert!((mean(&gaps) * 0.0339 - 1.0).abs() < 0.02, "{}", mean(&gaps));
    assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&20), Some(&39)));
    let statistic = chi_square(&gaps, 20, 39);
    assert!(statistic < 43.8, "{statistic}");
}

#[test]
fn without_a_count_one_in_twenty_is_dropped_and_gaps_have_no_bound() {
    let gaps = gaps(json!({"spacing": "none"}), 400_000);
    assert!((mean(&gaps) / 20.0 - 1.0).abs() < 0.02, "{}", mean(&gaps));
    assert!(gaps.iter().any(|gap| *gap > 100));
}

#[test]
fn a_count_that_jumps_beyond_the_pole_still_drops() {
    // The average stays near min_th for thousands of packets, and then the queue stays at 12.
    for seed in 0..50 {
        let table = json!({
            "kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.02, "weight": 0.002, "limit": "50p",
        });
        let mut driver = Driver::new(table, seed);
        for (queue, offers) in [(6, 3000), (12, 3000)] {
            driver.fates = Fates::default();
            for _ in 0..offers {
                while driver.queue.backlog().packets >= queue {
                    driver.take();
                }
                driver.offer(packet(500));
            }
        }
        let rate = driver.fates.counts.early as f64 / 3000.0;
        assert!((0.01..0.04).contains(&rate), "seed {seed}: {rate}");
    }
}

#[test]
fn the_first_packet_above_min_th_passes_only_with_spare_first() {
    let chosen = |spared: bool| {
        let crosses = |seed| {
            // The third packet finds 1900 bytes: p_b jumps from 0 to 0.9.
            let table = direct(json!({
                "min_th": "1kB", "max_th": "2kB", "max_p": 1.0, "limit": "9kB", "spare_first": spared,
            }));
            let mut driver = Driver::new(table, seed);
            let mut cross = || {
                while driver.take().is_some() {}
                (0..2).for_each(|_| assert!(!driver.offer(packet(950))));
                driver.offer(packet(950))
            };
            usize::from(cross()) + usize::from(cross())
        };
        (0..200).map(crosses).sum::<usize>()
    };
    assert_eq!(chosen(true), 0, "each crossing has a first packet");
    assert!((320..400).contains(&chosen(false)));
}

#[test]
fn a_limit_in_bytes_is_exact() {
    let table = direct(json!({"min_th": "40kB", "max_th": "50kB", "limit": "40001B"}));
    let mut driver = Driver::new(table, 1);
    (0..26).for_each(|_| assert!(!driver.offer(packet(1500))));
    assert!(driver.offer(packet(1002)), "39000 + 1002 is one byte too many");
    assert!(!driver.offer(packet(1001)));
    assert!(driver.offer(packet(1)));
    assert_eq!((driver.queue.backlog().bytes, driver.fates.counts.overflow), (40_001, 2));
}

#[test]
fn a_drop_from_a_full_queue_is_an_overflow_even_if_drops_are_forced() {
    let table = direct(json!({
        "min_th": "2p", "max_th": "5p", "limit": "20p", "gentle": false, "ecn": "always",
    }));
    let mut driver = Driver::new(table, 1);
    (0..20).for_each(|_| {
        driver.offer(ect(974));
    });
    assert_eq!((driver.queue.backlog().packets, driver.fates.counts.overflow), (20, 0));
    let marks = driver.fates.counts.marks;
    assert!(marks >= 14, "from max_th on every packet is marked: {marks}");
    driver.offer(ect(974));
    assert_eq!((driver.fates.counts.overflow, driver.fates.counts.marks), (1, marks));
}

#[test]
fn a_drop_from_a_full_queue_restarts_the_count() {
    // With `wait` and p_b = 0.05 no packet is dropped before the twentieth. Every tenth packet finds the queue full, so
    // that the count never reaches twenty.
    let mut driver = Driver::new(direct(json!({"spacing": "wait", "limit": "60p", "max_p": 0.1})), 1);
    while driver.queue.backlog().packets < 60 {
        driver.offer(packet(974));
    }
    driver.fates = Fates::default();
    for k in 0..10_000 {
        if k % 10 != 0 {
            driver.take();
        }
        driver.offer(packet(974));
    }
    assert_eq!((driver.fates.counts.early, driver.fates.counts.overflow), (0, 1000));
}

#[test]
fn in_bytes_one_queued_packet_may_be_dropped_early_but_an_empty_queue_never_drops() {
    let sure = json!({
        "min_th": "100B", "max_th": "200B", "max_p": 1.0, "gentle": false, "spare_first": false, "weight": 0.5,
    });
    let mut driver = Driver::new(direct(sure), 42);
    assert!(!driver.offer(packet(974)));
    assert!(driver.offer(packet(974)), "the average is 487 B");
    driver.take();
    assert!(!driver.offer(packet(974)), "243.5 B, and the queue is empty");
}

#[test]
fn with_one_queued_packet_nothing_is_dropped_early() {
    let table = direct(json!({"min_th": "0p", "max_th": "1p", "limit": "9p", "gentle": false}));
    let mut driver = Driver::new(table, 1);
    assert!(!driver.offer(packet(974)) && !driver.offer(packet(974)));
    assert!(driver.offer(packet(974)));
}

#[test]
fn above_max_th_every_packet_is_dropped_unless_gentle() {
    for (gentle, forced_at) in [(false, 5), (true, 10)] {
        let table = direct(
            json!({"min_th": "2p", "max_th": "5p", "limit": "20p", "gentle": gentle, "spacing": "none"}),
        );
        let mut driver = Driver::new(table, 1);
        (0..500).for_each(|_| {
            driver.offer(packet(974));
        });
        assert_eq!(driver.queue.backlog().packets, forced_at);
        assert_eq!((driver.fates.counts.forced > 400, driver.fates.counts.overflow), (true, 0));
    }
}

#[test]
fn each_ecn_rule_marks_in_its_own_range() {
    // At 3, 7 and 12 packets: below max_th, in the gentle part, and in the range of forced drops.
    let marks = |ecn: &str, mark_p: Option<f64>, queue: u64| {
        let table = direct(json!({
            "min_th": "2p", "max_th": "5p", "max_p": 0.2, "limit": "20p", "ecn": ecn, "mark_p": mark_p,
        }));
        let mut driver = Driver::new(table, 1);
        for _ in 0..100_000 {
            if driver.queue.backlog().packets == queue {
                break;
            }
            driver.offer(ect(974));
        }
        if driver.queue.backlog().packets < queue {
            return None;
        }
        driver.fates = Fates::default();
        for _ in 0..1000 {
            driver.offer(ect(974));
            while driver.queue.backlog().packets > queue {
                driver.take();
            }
        }
        Some((driver.fates.counts.marks > 0, driver.fates.counts.early + driver.fates.counts.forced > 0))
    };
    let (only_marks, only_drops) = (Some((true, false)), Some((false, true)));
    assert_eq!(marks("below-max-th", None, 3), only_marks);
    assert_eq!(marks("below-max-th", None, 7), only_drops);
    assert_eq!(marks("unless-forced", None, 7), only_marks);
    assert_eq!(marks("unless-forced", None, 10), only_drops);
    assert_eq!(marks("unless-forced", None, 12), None);
    assert_eq!(marks("always", None, 12), only_marks);
    assert_eq!(marks("always", Some(0.1), 3), only_marks);
    assert_eq!(marks("always", Some(0.1), 4), only_drops);
}

#[test]
fn small_packets_are_dropped_less_often_with_packet_scaling() {
    let rate = |scaling: &str, bytes: u16| {
        let table = direct(json!({"packet_scaling": scaling, "spacing": "none", "limit": "400p"}));
        let mut driver = Driver::new(table, 3);
        while driver.queue.backlog().packets < 60 {
            driver.offer(packet(bytes));
        }
        driver.fates = Fates::default();
        for _ in 0..100_000 {
            if !driver.offer(packet(bytes)) {
                driver.take();
            }
        }
        driver.fates.counts.early as f64 / 100_000.0
    };
    for scaling in ["before-count", "after-count"] {
        assert!((rate(scaling, 487) - 0.025).abs() < 0.0025, "{scaling}");
        assert!((rate(scaling, 974) - 0.050).abs() < 0.0035, "{scaling}");
    }
    assert!((rate("none", 487) - 0.050).abs() < 0.0035);
}

#[test]
fn the_average_decays_while_the_link_is_idle() {
    let mut driver = Driver::new(json!({"kind": "red", "weight": 0.01}), 1);
    (0..30).for_each(|_| assert!(!driver.offer(packet(974))));
    while driver.take().is_some() {}
    let before = driver.gauge("average");
    // 100 ms at 10 Mb/s are 128.3 packets of 974 bytes.
    driver.now = Instant::from_nanos(100_000_000);
    driver.offer(packet(974));
    let expected = before * libm::pow(0.99, 129.0);
    assert!((driver.gauge("average") - expected).abs() < 1e-12);
    // The queue is busy now, so that time has no effect.
    driver.now = Instant::from_nanos(200_000_000);
    driver.offer(packet(974));
    assert!((driver.gauge("average") - (expected * 0.99 + 0.01)).abs() < 1e-12);
}

#[test]
fn a_packet_larger_than_the_empty_queue_does_not_stop_the_decay_of_the_average() {
    let table = json!({"kind": "red", "weight": 0.01, "min_th": "500B", "max_th": "800B", "limit": "1000B"});
    let mut driver = Driver::new(table, 1);
    (0..9).for_each(|_| {
        driver.offer(packet(100));
    });
    while driver.take().is_some() {}
    let before = driver.gauge("average");
    for millis in [50, 100] {
        driver.now = Instant::from_nanos(millis * 1_000_000);
        assert!(driver.offer(packet(1500)));
    }
    // Twice 64 whole packets and the sample of the arrival.
    let expected = before * libm::pow(0.99, 130.0);
    assert!((driver.gauge("average") - expected).abs() < 1e-12);
}

/// The fates under a long irregular load, and the final state.
fn fates(table: Value, seed: u64, window: impl Fn(u32) -> u16) -> (Vec<bool>, f64, u64) {
    let mut driver = Driver::new(table, seed);
    let fates = driver.offer_irregularly(|k| Packet { cwnd: window(k), ..ect(974) });
    (fates, driver.gauge("average"), driver.rng.bits())
}

#[test]
fn shred_with_equal_windows_or_none_is_identical_to_red() {
    let reds = [
        json!({"weight": 0.01}),
        json!({"weight": 0.01, "spacing": "wait", "gentle": false, "ecn": "always", "max_p": 0.0137}),
        json!({"weight": 1.0, "spare_first": false, "spacing": "none", "min_th": "7p", "max_th": "31p"}),
    ];
    for red in reds {
        let mut plain = red.clone();
        plain["kind"] = json!("red");
        for floor in ["none", "zero", "zero-ratio"] {
            for seed in 0..5 {
                let shred = json!({"kind": "shred", "red": red, "floor": floor});
                let expected = fates(plain.clone(), seed, |_| 0);
                assert!(expected.0.contains(&true));
                assert_eq!(fates(shred.clone(), seed, |_| 7), expected, "{red} {floor}");
                assert_eq!(fates(shred, seed, |_| 0), expected, "{red} {floor}, no windows");
            }
        }
    }
}

#[test]
fn shred_spares_small_windows_and_spaces_the_drops_of_large_ones() {
    // The queue is kept at 60, and windows 2 and 20 alternate. The average window is 11. The drop function of the small
    // windows begins at 79, that of the large ones at the floor, so their p_b is 0.1.
    let mut driver = Driver::new(json!({"kind": "shred", "red": {"weight": 1.0}}), 1);
    while driver.queue.backlog().packets < 60 {
        for cwnd in [2, 20] {
            driver.offer(Packet { cwnd, ..packet(974) });
        }
    }
    let mut chosen = [0, 0];
    for k in 0..53_000 {
        if k == 3000 {
            // After this time the first window has no effect on the average window.
            chosen = [0, 0];
        }
        for (class, cwnd) in [2, 20].into_iter().enumerate() {
            while driver.queue.backlog().packets > 60 {
                driver.take();
            }
            chosen[class] += u32::from(driver.offer(Packet { cwnd, ..packet(974) }));
        }
    }
    assert_eq!(chosen[0], 0);
    // Gaps between large packets are uniform from 1 to 9, because small ones are not counted.
    let rate = f64::from(chosen[1]) / 50_000.0;
    assert!((rate - 0.2).abs() < 0.004, "{rate}");
}

#[test]
fn small_windows_do_not_spare_the_next_packet_of_a_large_window() {
    // The queue stays at 20, below RED's min_th. Windows 1 and 30 alternate: packets of the small window are never
    // selected, and packets of the large window always are.
    let red = json!({"weight": 1.0, "min_th": "30p", "max_th": "31p", "max_p": 1.0, "limit": "99p"});
    let table = json!({"kind": "shred", "red": red, "floor": "none", "window_weight": 1e-6});
    let mut driver = Driver::new(table, 1);
    (0..20).for_each(|_| {
        driver.offer(Packet { cwnd: 1, ..packet(974) });
    });
    let mut passed = 0;
    for _ in 0..50 {
        assert!(!driver.offer(Packet { cwnd: 1, ..packet(974) }), "a small window is below its min_mod");
        driver.take();
        if !driver.offer(Packet { cwnd: 30, ..packet(974) }) {
            passed += 1;
            driver.take();
        }
    }
    assert_eq!(passed, 1, "only the very first packet passes");
}

#[test]
fn invalid_parameters_are_rejected_with_name_and_remedy() {
    let problem = |change: Value| {
        let mut red = json!({"kind": "red"});
        red.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let config = Config::read(red.clone()).unwrap();
        assert_eq!(config.drop_curve(60.0, 1.0, 0), None);
        red.as_object_mut().unwrap().remove("kind");
        let shred = Config::read(json!({"kind": "shred", "red": red})).unwrap();
        let outer = shred.build(Rate::from_bps(1_000_000)).err().unwrap().to_string();
        let inner = config.build(Rate::from_bps(1_000_000)).err().unwrap().to_string();
        assert_eq!(outer, format!("red.{inner}"));
        assert_eq!(inner.lines().count(), 1, "{inner}");
        inner
    };
    assert_eq!(problem(json!({"max_th": "30p"})), "max_th: must exceed min_th (30p)");
    assert_eq!(problem(json!({"max_th": "90kB"})), "max_th: must have the same unit as min_th (30p)");
    for wrong in [0.0, -0.1, 1.5] {
        assert!(problem(json!({"max_p": wrong})).starts_with("max_p: must be above 0 and at most 1 (got"));
        assert!(problem(json!({"weight": wrong})).starts_with("weight: must be above 0 and at most 1"));
    }
    assert!(problem(json!({"limit": "30p"})).starts_with("limit: must exceed min_th (30p)"));
    assert!(problem(json!({"limit": "0B"})).starts_with("limit: must be at least"));
    assert!(problem(json!({"mean_packet": "0B"})).starts_with("mean_packet: must be at least 1B"));
    assert!(problem(json!({"mark_p": 0.1})).starts_with("mark_p: has no effect"));
    assert!(problem(json!({"mark_p": 1.1, "ecn": "always"})).starts_with("mark_p: must be from 0 to 1"));
    let shred = Config::read(json!({"kind": "shred", "window_weight": 0.0})).unwrap();
    let error = shred.build(Rate::from_bps(1_000_000)).err().unwrap().to_string();
    assert!(error.starts_with("window_weight: must be above 0"), "{error}");
}

#[test]
fn the_drop_function_follows_from_the_parameters() {
    let table = json!({"kind": "red", "min_th": "20p", "max_th": "60p", "max_p": 0.1, "limit": "99p"});
    for (gentle, beyond) in [(true, 0.55), (false, 1.0)] {
        let mut table = table.clone();
        table["gentle"] = gentle.into();
        let config = Config::read(table).unwrap();
        let curve = [19.0, 20.0, 40.0, 90.0].map(|average| config.drop_curve(average, 1.0, 0));
        assert_eq!(curve, [0.0, 0.0, 0.05, beyond].map(Some), "gentle: {gentle}");
    }
}

#[test]
fn all_invalid_parameters_are_reported_together() {
    let red = json!({"max_th": "30p", "limit": "0B", "max_p": 2.0, "mean_packet": "0B", "mark_p": 0.1});
    let shred = Config::read(json!({"kind": "shred", "red": red, "window_weight": 0.0})).unwrap();
    let errors = shred.build(Rate::from_bps(1_000_000)).err().unwrap();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        ["red.max_th", "red.limit", "red.max_p", "red.mean_packet", "red.mark_p", "window_weight"]
    );
}

#[test]
fn a_packet_that_arrives_marked_stays_marked_and_no_other_is_marked_instead() {
    let table = json!({
        "kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "weight": 0.02, "limit": "40p", "ecn": "always",
    });
    let marks = |came_marked: Option<u32>| {
        let mut driver = Driver::new(table.clone(), 3);
        driver.offer_irregularly(|k| {
            let ecn = if Some(k) == came_marked { Ecn::Ce } else { Ecn::Ect0 };
            Packet { ecn, ..packet(974) }
        });
        assert_eq!(driver.fates.counts.early + driver.fates.counts.forced, 0);
        driver.fates.marked_packets().map(|packet| packet.id).collect::<Vec<_>>()
    };
    let all = marks(None);
    assert!(all.len() > 500, "{}", all.len());
    // A previous router has marked the packet that RED selects, or a packet that RED does not select.
    for (path, chosen) in [(7, all[7]), (300, all[300])] {
        let mut others = all.clone();
        others.remove(path);
        assert_eq!(marks(Some(chosen)), others);
    }
    let spared = (0..20_000).find(|id| !all.contains(id)).unwrap();
    assert_eq!(marks(Some(spared)), all);
}

#[test]
fn the_red_of_each_year_of_ns_2_can_be_configured_and_is_reported_completely() {
    let report = |table: &Value| {
        let config = Config::read(table.clone()).unwrap();
        let chosen = config.derived(Rate::from_bps(10_000_000));
        let chosen: Vec<_> = chosen.into_iter().map(|one| (one.name, one.value, one.unit)).collect();
        (config.to_value(), chosen)
    };
    let over = |table: &Value, change: Value| {
        let mut table = table.clone();
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        table
    };
    // Until April 2001, as in Floyd and Jacobson's paper; the report contains every parameter.
    let first = json!({
        "kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "weight": 0.002, "limit": "50p",
        "mean_packet": "500B", "gentle": false, "spacing": "wait", "spare_first": true, "packet_scaling": "none",
        "ecn": "below-max-th", "mark_p": null,
    });
    assert_eq!(report(&first), (first.clone(), Vec::new()));
    // Since April 2001 with the gentle part, and since 2002 with marks up to 0.1 only.
    let gentle = over(&first, json!({"gentle": true}));
    let marking = over(&gentle, json!({"ecn": "unless-forced", "mark_p": 0.1}));
    // Since July 2001 thresholds and weight depend on the link: 2500 packets of 500 bytes per second.
    let automatic = json!({"kind": "adaptive-red", "start": "fresh", "limit": "50p", "bottom": 0.1, "top": 0.1, "spacing": "wait"});
    let weight = 1.0 - libm::exp(-1.0 / 2500.0);
    let expected = [("min_th", 6.25, "packets"), ("max_th", 18.75, "packets"), ("weight", weight, "")];
    // Since October 2004 the thresholds are in bytes.
    let in_bytes = over(&automatic, json!({"limit": "25000B", "packet_scaling": "after-count"}));
    let bytes = [("min_th", 3125.0, "bytes"), ("max_th", 9375.0, "bytes"), ("weight", weight, "")];
    for (table, expected) in [(&automatic, expected), (&in_bytes, bytes)] {
        let (_, chosen) = report(table);
        assert_eq!(chosen.len(), 3);
        for ((name, value, unit), expected) in chosen.into_iter().zip(expected) {
            assert_eq!((name.as_str(), unit), (expected.0, expected.2));
            assert!((value / expected.1 - 1.0).abs() < 1e-9, "{name}: {value}, not {}", expected.1);
        }
    }
    // At a queue of 25 all of them treat packets differently, except for the maximum of marks, which `max_p` reaches at
    // `max_th`.
    let fates = |table: &Value| {
        let mut driver = Driver::new(table.clone(), 5);
        for k in 0..20_000 {
            while driver.queue.backlog().packets > 25 {
                driver.take();
            }
            driver.offer(Packet { ecn: Ecn::Ect0, ..packet([400, 974][k % 2]) });
        }
        driver.fates.list.iter().map(|fate| (fate.packet.id, fate.is_mark)).collect::<Vec<_>>()
    };
    assert_eq!(fates(&marking), fates(&gentle));
    let years = [&first, &gentle, &automatic, &in_bytes].map(fates);
    assert!(years.iter().enumerate().all(|(year, fates)| !years[..year].contains(fates)));
    // aqmlab's defaults are those of one study, and the reference says so for each.
    let ours = json!({
        "kind": "red", "min_th": "30p", "max_th": "90p", "max_p": 0.1, "weight": 0.0008, "limit": "225p",
        "mean_packet": "974B", "gentle": true, "spacing": "no-wait", "spare_first": true, "packet_scaling": "none",
        "ecn": "off", "mark_p": null,
    });
    assert_eq!(report(&json!({"kind": "red"})), (ours, Vec::new()));
}
