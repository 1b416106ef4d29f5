//! Tests of Adaptive RED and Self-Configuring RED, including the known errors of other implementations.

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Streams};
use aqm_queue::Config;
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Driver, Fates, ect, packet};
use proptest::prelude::*;
use serde_json::{Value, json};

fn over(mut table: Value, change: Value) -> Value {
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

fn table(change: Value) -> Value {
    over(json!({"kind": "adaptive-red", "start": "fresh"}), change)
}

/// The configuration of ns-2 of 2003 on a 10 Mb/s link.
fn ns2(change: Value) -> Value {
    let ns2 = json!({
        "kind": "adaptive-red", "start": "fresh", "adapts_on": "arrivals", "bounds": "passed", "gentle_line": "stale",
        "spacing": "wait", "bottom": 0.008,
    });
    over(ns2, change)
}

/// Self-Configuring RED of Feng et al. with this `red`.
fn self_configuring(red: Value, change: Value) -> Value {
    over(json!({"kind": "self-configuring-red", "red": red}), change)
}

/// Offers packets at `load` times the rate of a 10 Mb/s link for `seconds` seconds. Returns the means of the average
/// queue and of `max_p` over the second half.
fn overloaded(table: Value, load: f64, seconds: u32) -> (f64, f64) {
    let rate = Rate::from_bps(10_000_000);
    let queue = invariants::watched(&Config::read(table).unwrap(), rate).unwrap();
    let mut port = Port::new(queue, rate, Streams::new(3).named("queue", 0), Ties::DepartureFirst);
    let mut fates = Fates::default();
    let packets = (f64::from(seconds) * 1250.0 * load) as u32;
    let mut sums = [0.0, 0.0];
    for id in 0..packets {
        let now = Instant::from_nanos((f64::from(id) * 800_000.0 / load) as u64);
        port.accept(Packet { id, ..packet(1000) }, now, &mut fates, |_| {});
        if id >= packets / 2 {
            port.discipline().gauges(&mut |gauge| match gauge.name {
                "average" => sums[0] += gauge.value,
                "max_p" => sums[1] += gauge.value,
                _ => {}
            });
        }
    }
    let half = f64::from(packets - packets / 2);
    (sums[0] / half, sums[1] / half)
}

#[test]
fn the_average_reaches_its_target_at_any_load_within_the_range_of_max_p() {
    for variant in [table, ns2] {
        for load in [1.03, 1.1, 1.2] {
            let table = variant(json!({
                "min_th": "30p", "max_th": "90p", "limit": "225p", "weight": 0.002, "gentle_line": "refreshed",
            }));
            let (average, max_p) = overloaded(table.clone(), load, 200);
            // The target is 54 to 66. With a constant load the queue is almost constant.
            assert!((53.5..66.5).contains(&average), "{table} {load}: {average}");
            let mut still = table.clone();
            still["bottom"] = json!(0.1);
            still["top"] = json!(0.1);
            still["max_p"] = json!(0.1);
            let (held, _) = overloaded(still, load, 200);
            assert!((max_p > 0.1) == (held > average), "{table} {load}: {max_p} {held}");
        }
    }
}

#[test]
fn self_configuring_red_keeps_the_average_between_the_thresholds_only() {
    let load = |max_p: f64| {
        let red = json!({
            "min_th": "30p", "max_th": "90p", "limit": "225p", "weight": 0.002, "max_p": max_p,
            "mean_packet": "500B", "gentle": false,
        });
        overloaded(self_configuring(red, json!({})), 1.1, 200)
    };
    // The first arrival divides by three. Every max_p that keeps the average between the thresholds is stable.
    for max_p in [0.2, 0.9] {
        assert!((load(max_p).1 - max_p / 3.0).abs() < 1e-9);
    }
    // If max_p is too small, it doubles each time the average rises above max_th.
    let (average, max_p) = load(0.03);
    assert!((30.0..90.0).contains(&average), "{average}");
    assert!([0.04, 0.08, 0.16].iter().any(|doubled| (max_p - doubled).abs() < 1e-9), "{max_p}");
}

#[test]
fn a_stale_gentle_line_keeps_the_average_above_max_th_although_max_p_is_large_enough() {
    let load = |line: &str| {
        let change = json!({
            "min_th": "30p", "max_th": "90p", "limit": "225p", "weight": 0.002, "gentle_line": line,
        });
        overloaded(ns2(change), 1.1, 200)
    };
    let (average, max_p) = load("stale");
    // If the gentle part begins at 0.1, p_b matches this load at an average of 93, and max_p rises to its maximum.
    assert!((90.0..97.0).contains(&average) && max_p >= 0.5, "{average} {max_p}");
    let (average, max_p) = load("refreshed");
    assert!((53.5..66.5).contains(&average) && max_p < 0.4, "{average} {max_p}");
}

#[test]
fn with_a_constant_max_p_the_queue_is_identical_to_red() {
    let both = [
        json!({"min_th": "30p", "max_th": "90p", "weight": 0.01, "mean_packet": "974B"}),
        json!({"min_th": "7p", "max_th": "31p", "weight": 0.3, "gentle": false, "ecn": "always", "max_p": 0.0137}),
        json!({"min_th": "9kB", "max_th": "30kB", "weight": 0.01, "packet_scaling": "after-count", "max_p": 0.3}),
    ];
    for both in both {
        let max_p = both.get("max_p").cloned().unwrap_or(json!(0.1));
        let shared = json!({"gentle": false, "spacing": "wait", "mean_packet": "700B", "max_p": max_p});
        let red = over(both.clone(), shared);
        let bounds = json!({"bottom": max_p, "top": max_p});
        let fates = |table: Value| {
            let mut driver = Driver::new(table, 7);
            let fates = driver.offer_irregularly(|_| ect(974));
            (fates, driver.fates.counts, driver.gauge("average"), driver.rng.bits())
        };
        let expected = fates(over(json!({"kind": "red"}), red.clone()));
        assert!(expected.0.contains(&true));
        let adaptive = |variant: fn(Value) -> Value| over(variant(red.clone()), bounds.clone());
        for still in [adaptive(table), adaptive(ns2), self_configuring(red.clone(), bounds.clone())] {
            assert_eq!(fates(still.clone()), expected, "{still}");
        }
    }
}

#[test]
fn ten_idle_seconds_are_twenty_steps_with_the_clock_and_one_step_on_arrivals() {
    let rows = [
        (table(json!({})), 20.0),
        (table(json!({"adapts_on": "arrivals"})), 1.0),
        (ns2(json!({})), 1.0),
        (ns2(json!({"adapts_on": "clock"})), 20.0),
    ];
    for (mut table, steps) in rows {
        (table["max_p"], table["min_th"], table["max_th"]) = (json!(0.4), json!("30p"), json!("90p"));
        let mut driver = Driver::new(table.clone(), 1);
        driver.now = Instant::from_nanos(10_000_000_000);
        driver.offer(packet(974));
        let expected = 0.4 * libm::pow(0.9, steps);
        assert!((driver.gauge("max_p") - expected).abs() < 1e-12, "{table}: {}", driver.gauge("max_p"));
    }
}

#[test]
fn max_p_ends_at_its_bounds_or_less_than_a_step_beyond_them() {
    let ends = |variant: fn(Value) -> Value, queue: u64| {
        let mut driver = Driver::new(variant(json!({"min_th": "5p", "max_th": "15p", "weight": 1.0})), 1);
        let begin = driver.gauge("max_p");
        for k in 1..200 {
            while driver.queue.backlog().packets < queue {
                driver.offer(packet(974));
            }
            driver.now = Instant::from_nanos(k * 501_000_000);
            driver.offer(packet(974));
            driver.take();
        }
        (begin, driver.gauge("max_p"))
    };
    assert_eq!((ends(table, 2), ends(table, 13)), ((0.1, 0.01), (0.1, 0.5)));
    let ((from, low), (_, high)) = (ends(ns2, 2), ends(ns2, 13));
    assert_eq!(from, 0.1);
    assert!((0.008 * 0.9..0.008).contains(&low), "{low}");
    assert!((0.5..0.51).contains(&high), "{high}");
}

#[test]
fn the_clock_is_processed_at_departures_too() {
    let mut driver = Driver::new(table(json!({"min_th": "2p", "max_th": "6p", "weight": 1.0})), 1);
    (0..5).for_each(|_| {
        driver.offer(packet(974));
    });
    driver.now = Instant::from_nanos(500_000_000);
    driver.take();
    assert_eq!(driver.gauge("max_p"), 0.1, "an average of 4 is inside 3.6 to 4.4");
    driver.offer(packet(974));
    driver.offer(packet(974));
    driver.now = Instant::from_nanos(1_000_000_000);
    driver.take();
    assert!((driver.gauge("max_p") - 0.11).abs() < 1e-12);
}

#[test]
fn above_max_th_a_stale_gentle_line_keeps_its_initial_drop_probability() {
    // The average equals the queue, which is at max_th, first with max_p at 0.1, then at its maximum.
    let share = |line: &str| {
        let change = json!({
            "min_th": "10p", "max_th": "20p", "weight": 1.0, "spacing": "none", "gentle_line": line,
        });
        let mut driver = Driver::new(table(change), 5);
        let mut stand = |now: u64, offers: u32| {
            driver.now = Instant::from_nanos(now);
            let mut chosen = 0;
            for _ in 0..offers {
                while driver.queue.backlog().packets < 20 {
                    driver.offer(packet(974));
                }
                chosen += u32::from(driver.offer(packet(974)));
                while driver.queue.backlog().packets > 20 {
                    driver.take();
                }
            }
            (f64::from(chosen) / f64::from(offers), driver.gauge("max_p"))
        };
        let first = stand(0, 40_000);
        stand(60_000_000_000, 1);
        (first, stand(60_000_000_000, 40_000))
    };
    for (line, expected) in [("refreshed", 0.5), ("stale", 0.1)] {
        let ((before, _), (after, max_p)) = share(line);
        assert!((before - 0.1).abs() < 0.005, "{line}: {before}");
        assert!((max_p - 0.5).abs() < 1e-9 && (after - expected).abs() < 0.01, "{line}: {after} {max_p}");
    }
}

#[test]
fn packets_are_marked_up_to_the_limit_of_the_ecn_rule() {
    // p_b at 7, 9, 11 and 13 packets: 0.06, 0.14, in the gentle part, and above it.
    let marks = |change: Value, queue: u64| {
        let mut table = table(json!({
            "min_th": "5p", "max_th": "10p", "limit": "60p", "weight": 1.0, "max_p": 0.15, "interval": "1000s",
        }));
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut driver = Driver::new(table, 1);
        for _ in 0..200_000 {
            if driver.queue.backlog().packets == queue {
                break;
            }
            driver.offer(ect(974));
        }
        driver.fates = Fates::default();
        for _ in 0..1000 {
            driver.offer(ect(974));
            while driver.queue.backlog().packets > queue {
                driver.take();
            }
        }
        (driver.fates.counts.marks > 0, driver.fates.counts.early + driver.fates.counts.forced > 0)
    };
    let (only_marks, only_drops) = ((true, false), (false, true));
    let rows = [
        (json!({"ecn": "unless-forced", "mark_p": 0.1}), 7, only_marks),
        (json!({"ecn": "unless-forced", "mark_p": 0.1}), 9, only_drops),
        (json!({"ecn": "unless-forced", "mark_p": 1.0}), 11, only_marks),
        (json!({"ecn": "unless-forced"}), 11, only_marks),
        (json!({"ecn": "below-max-th"}), 9, only_marks),
        (json!({"ecn": "below-max-th"}), 11, only_drops),
        (json!({"ecn": "always", "gentle": false}), 11, only_marks),
        (json!({"ecn": "unless-forced", "gentle": false}), 10, only_drops),
        (json!({}), 7, only_drops),
    ];
    for (change, queue, expected) in rows {
        assert_eq!(marks(change.clone(), queue), expected, "{change} {queue}");
    }
}

#[test]
fn packet_size_has_no_effect_in_packet_mode_and_a_large_effect_in_byte_mode() {
    let share = |change: Value, bytes: u16| {
        let mut table = table(json!({
            "weight": 1.0, "mean_packet": "1000B", "spacing": "none", "interval": "1000s", "max_p": 0.5,
        }));
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut driver = Driver::new(table, 9);
        let mut chosen = 0;
        for _ in 0..40_000 {
            // Automatic thresholds are 5 and 15 packets of 1000 bytes.
            while driver.queue.backlog().packets < 10 {
                driver.offer(packet(1000));
            }
            chosen += u32::from(driver.offer(packet(bytes)));
            while driver.queue.backlog().packets > 0 {
                driver.take();
            }
        }
        f64::from(chosen) / 40_000.0
    };
    let packets = json!({"limit": "100p"});
    let bytes = json!({"limit": "100kB", "packet_scaling": "after-count"});
    assert!((share(packets.clone(), 1000) - 0.25).abs() < 0.01);
    assert!((share(packets, 40) - 0.25).abs() < 0.01);
    assert!((share(bytes.clone(), 1000) - 0.25).abs() < 0.01);
    assert!((share(bytes, 40) - 0.01).abs() < 0.003);
}

#[test]
fn the_drop_curve_is_the_initial_one_if_it_does_not_depend_on_the_rate() {
    let curve = |change: Value, average| Config::read(table(change)).unwrap().drop_curve(average, 1.0, 0);
    assert_eq!(curve(json!({}), 20.0), None, "thresholds depend on the rate");
    let given = json!({"min_th": "20p"});
    assert_eq!(curve(given.clone(), 20.0), Some(0.0));
    assert!((curve(given.clone(), 40.0).unwrap() - 0.05).abs() < 1e-12);
    assert!((curve(given.clone(), 60.0).unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(curve(given, 120.0), Some(1.0));
    assert_eq!(curve(json!({"min_th": "20p", "max_p": 2.0}), 30.0), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn at_any_load_max_p_keeps_its_bounds_and_a_longer_queue_never_drops_less(
        variant in prop_oneof![Just("paper"), Just("ns-2"), Just("self-configuring")],
        adapts_on in prop_oneof![Just("clock"), Just("arrivals")],
        bottom in 0.001_f64..0.3,
        width in 0.0_f64..0.6,
        begin in 0.0_f64..=1.0,
        bursts in prop::collection::vec((1_u32..60, 0_u64..2000, 0_u32..80), 1..40),
    ) {
        let (top, max_p) = (bottom + width, bottom + begin * width);
        let red = json!({
            "min_th": "4p", "max_th": "12p", "limit": "40p", "weight": 0.1, "max_p": max_p, "mean_packet": "500B",
        });
        let bounds = json!({"bottom": bottom, "top": top});
        let adapts = over(json!({"adapts_on": adapts_on, "bounds": "kept"}), bounds.clone());
        let mut driver = Driver::new(match variant {
            "paper" => table(over(red, adapts)),
            "ns-2" => ns2(over(red, adapts)),
            _ => self_configuring(red, bounds),
        }, 1);
        let mut seen = Vec::new();
        for (offers, gap_millis, takes) in bursts {
            for _ in 0..offers {
                driver.offer(packet(700));
                let max_p = driver.gauge("max_p");
                prop_assert!((bottom..=top).contains(&max_p), "{max_p}");
                seen.push((max_p, driver.gauge("average"), driver.gauge("probability")));
            }
            driver.now = Instant::from_nanos(driver.now.nanos() + gap_millis * 1_000_000);
            (0..takes).for_each(|_| {
                driver.take();
            });
        }
        seen.sort_by(|one, other| (one.0, one.1).partial_cmp(&(other.0, other.1)).unwrap());
        for pair in seen.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1) {
            // With a stale gentle line this holds only on each side of max_th.
            let sides = pair[0].1 < 12.0 && pair[1].1 >= 12.0;
            prop_assert!(pair[0].2 <= pair[1].2 || (variant == "ns-2" && sides), "{pair:?}");
        }
    }
}

#[test]
fn invalid_parameters_are_rejected_with_name_and_remedy() {
    let problem = |change: Value| {
        let config = Config::read(table(change)).unwrap();
        config.build(Rate::from_bps(1_000_000)).err().unwrap().to_string()
    };
    let rows = [
        (json!({"mean_packet": "0B"}), "mean_packet: must be at least 1B"),
        (json!({"max_p": 0.0}), "max_p: must be above 0"),
        (json!({"weight": 2.0}), "weight: must be above 0 and at most 1"),
        (json!({"limit": "5p"}), "limit: must exceed min_th (5p)"),
        (json!({"min_th": "20p", "max_th": "20p"}), "max_th: must exceed min_th (20p)"),
        (json!({"min_th": "20p", "max_th": "90kB"}), "max_th: must have the same unit as min_th (20p)"),
        (json!({"max_th": "90kB"}), "max_th: must have the same unit as limit (225p)"),
        (json!({"round_trip": "0s"}), "round_trip: must not be 0s"),
        (json!({"target_low": -0.1}), "target_low: must be from 0 to 1"),
        (json!({"target_low": 0.7}), "target_high: must be from target_low (0.7) to 1"),
        (json!({"alpha": 0.0}), "alpha: must be above 0 and at most 1"),
        (json!({"beta": 1.0}), "beta: must be above 0 and below 1"),
        (json!({"bottom": 0.0}), "bottom: must be above 0"),
        (json!({"bottom": 0.6}), "top: must be from bottom (0.6) to 1"),
        (json!({"interval": "999us"}), "interval: must be at least 1ms"),
        (json!({"mark_p": 0.1}), "mark_p: has no effect"),
    ];
    for (change, expected) in rows {
        let found = problem(change.clone());
        assert!(found.starts_with(expected), "{change}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn all_invalid_parameters_are_reported_together() {
    let paths = |change: Value| {
        let errors = Config::read(table(change)).unwrap().build(Rate::from_bps(1_000_000)).err().unwrap();
        errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
    };
    let wrong = json!({"alpha": 0.0, "top": 2.0, "interval": "0s", "max_p": 0.0, "weight": 2.0});
    assert_eq!(paths(wrong), ["alpha", "top", "interval", "max_p", "weight"]);
    assert_eq!(paths(json!({"max_th": "90kB", "round_trip": "0s"})), ["max_th", "round_trip"]);
}

#[test]
fn invalid_parameters_of_self_configuring_red_are_rejected_with_name_and_remedy() {
    for (change, expected) in [
        (json!({"alpha": 1.0}), "alpha: must be above 1 (got 1)"),
        (json!({"beta": 0.9}), "beta: must be above 1 (got 0.9)"),
        (json!({"bottom": 0.0}), "bottom: must be above 0"),
        (json!({"bottom": 0.6, "top": 0.5}), "top: must be from bottom (0.6) to 1"),
        (json!({"red": {"max_p": 0.0}}), "red.max_p: must be above 0"),
    ] {
        let config = Config::read(self_configuring(json!({}), change)).unwrap();
        let found = config.build(Rate::from_bps(1_000_000)).err().unwrap().to_string();
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(config.drop_curve(60.0, 1.0, 0), None);
    }
}
