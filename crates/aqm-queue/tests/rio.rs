//! Tests of RIO, WRED and RIO-PS, including the known errors of other implementations.

use aqm_net::{Instant, Packet, Rate};
use aqm_queue::Config;
use aqm_queue::testing::{Driver, Fates, ect, packet};
use serde_json::{Value, json};

// The classes that packets carry.
const NONE: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// A RIO queue whose averages are the queues themselves, and which drops no packet early.
fn direct(change: Value) -> Value {
    let calm = json!({"min_th": "800p", "max_th": "900p"});
    let table = json!({"kind": "rio", "weight": 1.0, "limit": "999p", "classes": [calm, calm]});
    with(table, change)
}

fn with(mut table: Value, change: Value) -> Value {
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

fn of(class: u8) -> Packet {
    Packet { class, ..ect(500) }
}

/// Offers a long irregular load. Returns for each packet whether it was selected, the number of marks, the average and
/// the probability, and the state of the generator.
fn fates(table: Value, seed: u64, class: impl Fn(u32) -> u8) -> (Vec<bool>, u64, [f64; 2], u64) {
    let mut driver = Driver::new(table, seed);
    let fates = driver.offer_irregularly(|k| {
        let bytes = 300 + (k * 7 % 400) as u16;
        let like = if k % 3 == 0 { packet(bytes) } else { ect(bytes) };
        Packet { class: class(k), ..like }
    });
    let gauges = ["average", "probability"].map(|name| driver.gauge(name));
    (fates, driver.fates.counts.marks, gauges, driver.rng.bits())
}

/// The RED configuration that the study compares with RIO-PS.
fn red_of_the_study(limit: u64) -> Value {
    json!({
        "kind": "red", "limit": format!("{limit}p"), "min_th": format!("{}p", limit * 3 / 20),
        "max_th": format!("{}p", limit / 2), "max_p": 0.1, "weight": 1.0 / 512.0, "mean_packet": "500B",
        "ecn": "below-max-th", "spacing": "wait", "gentle": true,
    })
}

#[test]
fn rio_ps_is_identical_to_red_if_all_packets_are_long() {
    for (limit, seed) in [(500, 1), (300, 2), (100, 3), (100, 4)] {
        let rio_ps = json!({"kind": "rio-ps", "limit": format!("{limit}p")});
        let expected = fates(red_of_the_study(limit), seed, |_| NONE);
        assert!(expected.0.contains(&true) && expected.1 > 0, "there are drops and marks");
        assert_eq!(fates(rio_ps.clone(), seed, |_| SECOND), expected);
        assert_eq!(fates(rio_ps.clone(), seed, |_| NONE), expected, "a packet without a class is long");
        assert_eq!(
            fates(rio_ps, seed, |k| (k % 200) as u8 + SECOND),
            expected,
            "a class beyond the list is long"
        );
    }
}

#[test]
fn rio_ps_is_identical_to_red_with_the_short_thresholds_if_all_packets_are_short() {
    for (limit, seed) in [(500, 1), (300, 2), (100, 3)] {
        let rio_ps = json!({"kind": "rio-ps", "limit": format!("{limit}p")});
        let red = with(
            red_of_the_study(limit),
            json!({"max_th": format!("{}p", limit * 7 / 20), "max_p": 1.0 / 20.0}),
        );
        let (expected, found) = (fates(red, seed, |_| NONE), fates(rio_ps, seed, |_| FIRST));
        assert!(expected.0.contains(&true) && expected.1 > 0, "there are drops and marks");
        // The gauges without a number are those of the long class.
        assert_eq!((found.0, found.1, found.3), (expected.0, expected.1, expected.3));
    }
}

#[test]
fn with_one_class_every_coupling_is_identical_to_red() {
    let reds = [
        json!({"weight": 0.01}),
        json!({"weight": 0.01, "spacing": "wait", "gentle": false, "ecn": "always", "mark_p": 0.05}),
        json!({"weight": 0.1, "spare_first": false, "spacing": "none", "packet_scaling": "after-count"}),
    ];
    for (seed, change) in reds.into_iter().enumerate() {
        let shared = json!({
            "limit": "60p", "mean_packet": "974B", "gentle": true, "spacing": "no-wait", "spare_first": true,
            "packet_scaling": "none", "ecn": "unless-forced",
        });
        let shared = with(shared, change);
        let line = json!({"min_th": "7p", "max_th": "21p", "max_p": 0.0137});
        let red = with(with(json!({"kind": "red"}), shared.clone()), line.clone());
        let expected = fates(red, seed as u64, |_| NONE);
        assert!(expected.0.contains(&true));
        for (coupling, idle) in [
            ("coupled", "line"),
            ("coupled", "class"),
            ("decoupled", "line"),
            ("decoupled", "class"),
            ("total", "line"),
        ] {
            let rio = json!({"kind": "rio", "classes": [line], "coupling": coupling, "idle": idle});
            let found = fates(with(rio, shared.clone()), seed as u64, |k| (k % 4) as u8);
            assert_eq!(found, expected, "{coupling} {idle} {shared}");
        }
    }
}

/// The averages, then the queued packets, of the two classes.
fn state(driver: &Driver) -> [f64; 4] {
    ["average_0", "average_1", "packets_0", "packets_1"].map(|name| driver.gauge(name))
}

#[test]
fn a_class_counts_its_own_packets_and_those_of_its_coupling() {
    // 4 packets of the first class and 6 of the second are queued. Then one of the second and one of the first arrive.
    let expected = [
        ("coupled", [3.0, 10.0, 4.0, 11.0], [4.0, 11.0, 5.0, 12.0]),
        ("decoupled", [3.0, 6.0, 4.0, 7.0], [4.0, 6.0, 5.0, 7.0]),
        ("total", [10.0, 10.0, 11.0, 11.0], [11.0, 11.0, 12.0, 12.0]),
    ];
    for (coupling, after_second, after_first) in expected {
        let mut driver = Driver::new(direct(json!({"coupling": coupling})), 1);
        for class in [FIRST, SECOND, FIRST, SECOND, SECOND, FIRST, NONE, SECOND, FIRST, SECOND] {
            assert!(!driver.offer(of(class)));
        }
        driver.offer(of(SECOND));
        assert_eq!(state(&driver), after_second, "{coupling}");
        driver.offer(of(FIRST));
        assert_eq!(state(&driver), after_first, "{coupling}");
    }
}

#[test]
fn the_total_average_gets_a_sample_at_every_arrival_except_in_the_variant_of_ns2() {
    let fill = |total_average: &str| {
        let mut driver = Driver::new(direct(json!({"total_average": total_average})), 1);
        (0..10).for_each(|_| assert!(!driver.offer(of(SECOND))));
        let before = driver.gauge("average");
        driver.offer(of(FIRST));
        let at_last = driver.gauge("average");
        (0..10).for_each(|_| assert!(!driver.offer(of(NONE))));
        (before, at_last, driver.gauge("average"))
    };
    assert_eq!(fill("every-arrival"), (9.0, 10.0, 20.0));
    assert_eq!(fill("in-arrivals"), (0.0, 10.0, 10.0));
}

#[test]
fn with_the_average_of_ns2_long_packets_are_dropped_too_late() {
    // One packet in a hundred is short. The offered load is 1.125 times the 10 Mb/s of the link.
    let worst = |total_average: &str| {
        let mut driver = Driver::new(json!({"kind": "rio-ps", "total_average": total_average}), 1);
        let mut worst = 0;
        for k in 0..20_000_u32 {
            driver.now = Instant::from_nanos(u64::from(k) * 355_555);
            driver.offer(Packet { class: if k % 100 == 0 { FIRST } else { SECOND }, ..packet(500) });
            if k % 9 != 0 {
                driver.take();
            }
            worst = worst.max(driver.queue.backlog().packets);
        }
        (worst, driver.fates.counts.overflow > 0)
    };
    let (correct, lagging) = (worst("every-arrival"), worst("in-arrivals"));
    assert!(correct.0 < 400 && !correct.1, "{correct:?}");
    assert_eq!(lagging, (500, true));
}

#[test]
fn a_packet_leaves_its_class_when_it_is_sent_and_does_not_join_when_it_is_dropped() {
    let mut driver = Driver::new(
        direct(json!({"limit": "4p", "classes": [
            {"min_th": "2p", "max_th": "3p"}, {"min_th": "3p", "max_th": "9p"},
        ]})),
        1,
    );
    [FIRST, SECOND, FIRST, SECOND].into_iter().for_each(|class| assert!(!driver.offer(of(class))));
    assert_eq!(state(&driver)[2..], [2.0, 4.0]);
    [FIRST, SECOND].into_iter().for_each(|class| assert!(driver.offer(of(class)), "the queue is full"));
    assert_eq!(state(&driver)[2..], [2.0, 4.0]);
    for waiting in [[1.0, 3.0], [1.0, 2.0], [0.0, 1.0], [0.0, 0.0]] {
        driver.take().unwrap();
        assert_eq!(state(&driver)[2..], waiting);
    }
    assert_eq!((driver.fates.counts.overflow, driver.fates.list.len()), (2, 2));
}

#[test]
fn the_limit_applies_to_the_whole_queue_with_every_coupling() {
    for coupling in ["coupled", "decoupled", "total"] {
        let calm = json!({"min_th": "40p", "max_th": "49p"});
        let table =
            direct(json!({"coupling": coupling, "limit": "50p", "weight": 1e-9, "classes": [calm, calm]}));
        let mut driver = Driver::new(table, 1);
        (0..50).for_each(|k| assert!(!driver.offer(of(k % 3))));
        (0..3).for_each(|class| assert!(driver.offer(of(class))));
        assert_eq!(driver.fates.counts.overflow, 3, "{coupling}");
    }
}

/// Keeps the queue at 60, one third in the first class. Returns the selections per class in 60,000 rounds of one packet
/// of the first class and two of the second.
fn chosen(change: Value) -> [u32; 2] {
    let mut driver = Driver::new(direct(change), 1);
    let mut chosen = [0, 0];
    for _ in 0..60_000 {
        for class in [SECOND, FIRST, SECOND] {
            chosen[usize::from(class) - 1] += u32::from(driver.offer(of(class)));
            while driver.queue.backlog().packets > 60 {
                driver.take();
            }
        }
    }
    chosen
}

#[test]
fn each_class_has_its_own_drop_function_and_average() {
    let line = |max_p| json!({"min_th": "15p", "max_th": "65p", "max_p": max_p});
    let of = |coupling: &str, first: f64, second: f64| {
        let classes = [line(first), line(second)];
        chosen(json!({"coupling": coupling, "classes": classes, "spacing": "none"}))
            .map(|count| f64::from(count) / 60_000.0)
    };
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.15 * expected;
    // Coupled: (20 - 15) / 50 of max_p, and (60 - 15) / 50 with twice as many packets.
    let [first, second] = of("coupled", 0.2, 0.02);
    assert!(near(first, 0.02) && near(second, 2.0 * 0.018), "{first} {second}");
    let [first, second] = of("decoupled", 0.2, 0.02);
    assert!(near(first, 0.02) && near(second, 2.0 * 0.01), "{first} {second}");
    let [first, second] = of("total", 0.1, 0.02);
    assert!(near(first, 0.09) && near(second, 2.0 * 0.018), "{first} {second}");
}

#[test]
fn each_class_counts_the_packets_since_its_own_last_drop() {
    // With `wait` and p_b = 0.045 for both, no class loses a packet before its 23rd.
    let line = json!({"min_th": "15p", "max_th": "65p", "max_p": 0.05});
    let table = direct(json!({"coupling": "total", "classes": [line, line], "spacing": "wait"}));
    let mut driver = Driver::new(table, 1);
    while driver.queue.backlog().packets < 60 {
        driver.offer(of(SECOND));
    }
    let (mut gaps, mut since) = ([Vec::new(), Vec::new()], [None::<u32>; 2]);
    for k in 0..60_000 {
        // One packet in eleven belongs to the first class.
        let class = usize::from(k % 11 != 0);
        since[class] = since[class].map(|count| count + 1);
        if driver.offer(of(class as u8 + 1)) {
            gaps[class].extend(since[class].replace(0));
            since[class] = Some(0);
        } else {
            driver.take();
        }
    }
    for gaps in gaps {
        assert!(gaps.len() > 100);
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&23), Some(&44)), "1 / p_b to 2 / p_b");
    }
}

#[test]
fn a_class_with_one_queued_packet_is_not_dropped_early_but_the_other_is() {
    let steep = json!({"min_th": "0p", "max_th": "1p", "max_p": 1.0});
    let mut driver = Driver::new(direct(json!({"classes": [steep, steep]})), 1);
    [SECOND, SECOND, FIRST, FIRST].into_iter().for_each(|class| assert!(!driver.offer(of(class))));
    assert!(driver.offer(of(FIRST)) && driver.offer(of(SECOND)));
    assert_eq!(driver.fates.counts.forced, 2);
}

#[test]
fn a_class_with_one_queued_packet_is_dropped_early_without_spare_short_queue() {
    let steep = json!({"min_th": "0p", "max_th": "1p", "max_p": 1.0});
    let change = json!({"classes": [steep, steep], "spare_short_queue": false});
    let mut driver = Driver::new(direct(change), 1);
    assert!(!driver.offer(of(FIRST)), "the queue is empty, so the average is zero");
    assert!(driver.offer(of(FIRST)) && driver.offer(of(SECOND)));
    assert_eq!(driver.fates.counts.forced, 2);
}

#[test]
fn each_ecn_rule_compares_the_average_of_the_packets_own_class() {
    // 4 packets of each class are queued. The first class is below its max_th of 5, and the second, at 8, is in its
    // gentle part. Returns marks and drops of a further packet.
    let outcome = |ecn: &str, mark_p: Option<f64>, class: u8| {
        let line = json!({"min_th": "2p", "max_th": "5p", "max_p": 0.2});
        let change = json!({
            "classes": [line, line], "ecn": ecn, "mark_p": mark_p, "gentle": true, "spacing": "none",
        });
        let mut seen = (false, false);
        for seed in 0..100 {
            let mut driver = Driver::new(direct(change.clone()), seed);
            while state(&driver)[3] < 8.0 {
                let class = if state(&driver)[2] < 4.0 { FIRST } else { SECOND };
                driver.offer(Packet { class, ..packet(500) });
            }
            driver.fates = Fates::default();
            driver.offer(of(class));
            seen.0 |= driver.fates.counts.marks > 0;
            seen.1 |= driver.fates.counts.early > 0;
        }
        seen
    };
    let (only_marks, only_drops) = ((true, false), (false, true));
    let rules = [
        ("off", None, only_drops, only_drops),
        ("below-max-th", None, only_marks, only_drops),
        ("unless-forced", None, only_marks, only_marks),
        ("unless-forced", Some(0.5), only_marks, only_drops),
        ("always", None, only_marks, only_marks),
    ];
    for (ecn, mark_p, first, second) in rules {
        assert_eq!(
            (outcome(ecn, mark_p, FIRST), outcome(ecn, mark_p, SECOND)),
            (first, second),
            "{ecn} {mark_p:?}"
        );
    }
}

#[test]
fn every_average_decays_while_the_link_is_idle_whichever_class_ends_the_idle_time() {
    // Idle packets of the first class until its next arrival; the link is idle until 40 ms.
    for (idle, missed) in [("line", 100.0), ("class", 200.0)] {
        let mut driver = Driver::new(direct(json!({"weight": 0.01, "idle": idle})), 1);
        (0..60).for_each(|k| assert!(!driver.offer(of(1 + k % 2))));
        while driver.take().is_some() {}
        let [first, second, ..] = state(&driver);
        // 40 ms at 10 Mb/s are 100 packets of 500 bytes.
        driver.now = Instant::from_nanos(40_000_000);
        driver.offer(of(SECOND));
        driver.now = Instant::from_nanos(80_000_000);
        driver.offer(of(FIRST));
        let [first_after, second_after, ..] = state(&driver);
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        assert!(near(first_after, first * libm::pow(0.99, missed + 1.0)), "{idle}");
        assert!(near(second_after, second * libm::pow(0.99, 102.0) + 0.01), "{idle}");
    }
}

#[test]
fn with_idle_class_an_average_decays_while_only_other_classes_keep_the_link_busy() {
    let after = |idle: &str| {
        let mut driver = Driver::new(direct(json!({"weight": 0.01, "idle": idle})), 1);
        (0..30).for_each(|_| assert!(!driver.offer(of(FIRST))));
        let first = state(&driver)[0];
        // The last packet of the first class is sent while others are queued. Its transmission time is not idle.
        (0..300).for_each(|_| assert!(!driver.offer(of(SECOND))));
        for k in 0..231 {
            driver.now = Instant::from_nanos(k * 400_000);
            driver.take().unwrap();
        }
        driver.now = Instant::from_nanos(230 * 400_000 + 1);
        driver.offer(of(FIRST));
        state(&driver)[0] / first
    };
    assert!((after("line") - 0.99).abs() < 1e-12);
    // Thirty packets are sent by 12 ms, so 200 packets could have been sent since, and one sample is added.
    assert!((after("class") - libm::pow(0.99, 201.0)).abs() < 1e-12);
}

#[test]
fn the_average_of_ns2_ignores_an_idle_time_that_the_last_class_ends() {
    let mut driver = Driver::new(direct(json!({"weight": 0.01, "total_average": "in-arrivals"})), 1);
    (0..60).for_each(|_| assert!(!driver.offer(of(FIRST))));
    while driver.take().is_some() {}
    let before = state(&driver);
    driver.now = Instant::from_nanos(40_000_000);
    driver.offer(of(SECOND));
    assert_eq!(state(&driver)[1], before[1]);
    assert!((state(&driver)[0] - before[0] * libm::pow(0.99, 100.0)).abs() < 1e-12);
    driver.offer(of(FIRST));
    assert!((state(&driver)[1] - (before[1] * 0.99 + 0.01)).abs() < 1e-12);
}

#[test]
fn the_drop_functions_of_rio_ps_match_the_study() {
    let config = Config::read(json!({"kind": "rio-ps"})).unwrap();
    let p = |average, class| config.drop_curve(average, 7.0, class).unwrap();
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
    for class in [NONE, FIRST, SECOND, 200] {
        assert_eq!((p(74.9, class), p(75.0, class)), (0.0, 0.0));
    }
    assert!(near(p(125.0, FIRST), 0.025) && near(p(175.0, FIRST), 0.05) && near(p(350.0, FIRST), 1.0));
    for class in [NONE, SECOND, 200] {
        assert!(near(p(162.5, class), 0.05) && near(p(250.0, class), 0.1) && near(p(500.0, class), 1.0));
    }
    let rio = Config::read(json!({"kind": "rio"})).unwrap();
    assert!(near(rio.drop_curve(22.5, 1.0, FIRST).unwrap(), 0.01));
    assert_eq!(rio.drop_curve(22.5, 1.0, NONE), Some(1.0));
}

#[test]
fn rio_and_gred_need_classes_and_red_does_not() {
    let kinds: Vec<String> =
        Config::every().iter().filter(|one| one.needs_classes()).map(|one| one.kind().to_owned()).collect();
    assert_eq!(kinds, ["gred", "rio", "rio-ps"]);
}

/// The errors of the table.
fn problem(table: Value) -> String {
    match Config::read(table) {
        Err(errors) => errors.to_string(),
        Ok(config) => {
            assert_eq!(config.drop_curve(60.0, 1.0, 0), None);
            config.build(Rate::from_bps(1_000_000)).err().unwrap().to_string()
        }
    }
}

#[test]
fn invalid_parameters_are_rejected_with_name_and_remedy() {
    let rio = |change: Value| problem(with(json!({"kind": "rio"}), change));
    let second = |change: Value| rio(json!({"classes": [{}, change]}));
    assert_eq!(rio(json!({"classes": []})), "classes: must contain 1 to 8 tables (got 0)");
    assert_eq!(rio(json!({"classes": vec![json!({}); 9]})), "classes: must contain 1 to 8 tables (got 9)");
    assert_eq!(second(json!({"max_th": "5p"})), "classes.1.max_th: must exceed min_th (5p)");
    assert_eq!(second(json!({"max_th": "5kB"})), "classes.1.max_th: must have the same unit as min_th (5p)");
    assert_eq!(second(json!({"max_p": 0.0})), "classes.1.max_p: must be above 0 and at most 1 (got 0)");
    assert_eq!(
        second(json!({"min_th": "1kB", "max_th": "2kB"})),
        "classes.1.min_th: must have the same unit as in the first class (5p)"
    );
    assert!(
        second(json!({"max_q": 1}))
            .starts_with("classes.1.max_q: unknown key `max_q`; did you mean `max_p`?")
    );
    assert!(rio(json!({"limit": "15p"})).starts_with("limit: must exceed min_th (15p)"));
    assert!(rio(json!({"weight": 0.0})).starts_with("weight: must be above 0"));
    assert!(rio(json!({"mark_p": 0.1})).starts_with("mark_p: has no effect"));
    assert!(rio(json!({"coupling": "loose"})).contains("`coupled`, `decoupled`, `total`"));
    let lagging = |change| rio(with(json!({"total_average": "in-arrivals"}), change));
    assert!(lagging(json!({"coupling": "total"})).starts_with("total_average: has no effect unless"));
    assert!(lagging(json!({"classes": [{}]})).starts_with("total_average: needs at least two classes"));
}

#[test]
fn all_invalid_parameters_are_reported_together_and_shared_ones_once() {
    let classes = json!([{"max_p": 0.0}, {"max_th": "5p"}]);
    let wrong = json!({"kind": "rio", "weight": 0.0, "classes": classes, "mean_packet": "0B"});
    assert_eq!(paths(wrong), ["classes.0.max_p", "weight", "mean_packet", "classes.1.max_th"]);
    let wrong = json!({"kind": "rio-ps", "min_share": 1.0, "long_max_p": 0.0, "weight": 0.0});
    assert_eq!(paths(wrong), ["min_share", "weight", "long_max_p"]);
}

/// The names of the invalid parameters of the table.
fn paths(table: Value) -> Vec<String> {
    problem(table).lines().filter_map(|line| Some(line.split(": ").next()?.to_owned())).collect()
}

#[test]
fn errors_of_rio_ps_use_its_own_parameter_names() {
    let rio_ps = |change: Value| problem(with(json!({"kind": "rio-ps"}), change));
    assert!(
        rio_ps(json!({"min_share": 1.0})).starts_with("min_share: must be at least 0 and below 1 (got 1)")
    );
    for path in ["short_max_share", "long_max_share"] {
        for wrong in [0.15, 0.1, 101.0] {
            let found = rio_ps(json!({path: wrong}));
            assert!(found.starts_with(&format!("{path}: must exceed min_share (0.15)")), "{found}");
        }
    }
    for path in ["short_max_p", "long_max_p"] {
        let found = rio_ps(json!({path: 0.0}));
        assert_eq!(found, format!("{path}: must be above 0 and at most 1 (got 0)"));
    }
    assert!(
        rio_ps(json!({"limit": "1p"})).starts_with("limit: is too small: min_share and short_max_share both")
    );
    assert!(rio_ps(json!({"limit": "0p"})).starts_with("limit: is too small"));
    assert!(rio_ps(json!({"weight": 2.0})).starts_with("weight: must be above 0"));
    assert!(rio_ps(json!({"mean_packet": "0B"})).starts_with("mean_packet: must be at least 1B"));
}

#[test]
fn rio_ps_accepts_a_buffer_in_bytes() {
    let config = Config::read(json!({"kind": "rio-ps", "limit": "100kB"})).unwrap();
    assert_eq!(config.drop_curve(50_000.0, 1.0, SECOND), Some(0.1));
    let mut driver = Driver::new(config.to_value(), 1);
    (0..200).for_each(|_| assert!(!driver.offer(of(FIRST))));
    assert!(driver.offer(of(FIRST)));
}
