//! Tests of Linux's RED.

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::Config;
use aqm_queue::testing::{Counts, Driver, Fates, ect, packet};
use serde_json::{Value, json};

/// Thresholds of 5 kB and 18 kB, and a limit of 20 kB, on a 140 kb/s link.
fn linux(change: Value) -> Value {
    let mut table = json!({
        "kind": "linux-red", "min": "5000B", "max": "18000B", "limit": "20000B", "avpkt": "1500B",
        "probability": 0.1,
    });
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

fn driver(change: Value, seed: u64) -> Driver {
    Driver::at_rate(linux(change), Rate::from_bps(140_000), seed)
}

/// Offers packets of 100 bytes to a queue that is kept at `bytes` bytes. Returns the numbers of packets between
/// selections.
fn gaps_at(driver: &mut Driver, bytes: u64, offers: u32) -> Vec<u64> {
    let (mut gap, mut gaps) = (0, Vec::new());
    let mut counting = false;
    for k in 0..offers + 2000 {
        serve_down_to(driver, bytes);
        let chosen = driver.offer(packet(100));
        // The average needs some time to converge to the queue.
        if k < 2000 {
            continue;
        }
        assert_eq!(driver.gauge("average"), bytes as f64);
        gap += 1;
        if chosen {
            if counting {
                gaps.push(gap);
            }
            (gap, counting) = (0, true);
        }
    }
    gaps
}

#[test]
fn gaps_are_uniform_from_1_to_the_inverse_of_the_probability() {
    for (kernel, max_p) in [("6.1", 0.1), ("2.4", 13_000.0 / 131_072.0)] {
        let mut driver = driver(json!({"kernel": kernel, "limit": "60000B"}), 7);
        let p_b = max_p / 2.0;
        let gaps = gaps_at(&mut driver, 11_500, 200_000);
        assert!((driver.gauge("probability") / p_b - 1.0).abs() < 1e-4);
        let longest = (1.0 / p_b).ceil() as u64;
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&longest)));
        // The longest gap results from a last random number of less than one step.
        let share = |gap: u64| p_b.min(1.0 - p_b * (gap - 1) as f64);
        let statistic: f64 = (1..=longest)
            .map(|gap| {
                let expected = share(gap) * gaps.len() as f64;
                let seen = gaps.iter().filter(|g| **g == gap).count() as f64;
                (seen - expected) * (seen - expected) / expected
            })
            .sum();
        // With 19 or 20 degrees of freedom this value is exceeded with a probability of 0.001.
        assert!(statistic < 45.3, "{kernel}: {statistic}");
    }
}

#[test]
fn the_power_of_two_of_linux_2_4_may_halve_the_drops() {
    let drops = |kernel| {
        let lengths = json!({"kernel": kernel, "min": "5120B", "max": "18432B", "limit": "60000B"});
        gaps_at(&mut driver(lengths, 3), 12_000, 100_000).len() as f64
    };
    assert!((drops("2.4") / drops("6.1") / (0.0508 / 0.1) - 1.0).abs() < 0.03);
}

/// Dequeues until the backlog is at most `bytes` bytes.
fn serve_down_to(driver: &mut Driver, bytes: u64) {
    while driver.queue.backlog().bytes > bytes {
        driver.take();
    }
}

#[test]
fn the_first_packet_between_the_thresholds_passes_and_the_second_may_be_dropped() {
    let mut driver = driver(json!({"probability": 0.9, "limit": "60000B"}), 11);
    let (mut chosen, mut expected) = (0.0, 0.0);
    for crossing in 1..=2000 {
        // The link is idle until the average has decayed.
        while driver.take().is_some() {}
        driver.now = Instant::from_nanos(crossing * 1_000_000_000_000);
        loop {
            let first = driver.offer(packet(1500));
            serve_down_to(&mut driver, 12_000);
            if driver.gauge("average") >= 5000.0 {
                assert!(!first, "crossing {crossing}");
                break;
            }
        }
        chosen += f64::from(u8::from(driver.offer(packet(1500))));
        expected += driver.gauge("probability");
    }
    assert!(expected > 100.0 && (chosen - expected).abs() < 4.0 * expected.sqrt(), "{chosen} {expected}");
}

#[test]
fn from_max_on_every_packet_is_dropped_and_the_first_one_below_it_passes() {
    let mut driver = driver(json!({"probability": 0.5, "limit": "60000B"}), 12);
    let mut offer = |bytes| {
        serve_down_to(&mut driver, bytes);
        let chosen = driver.offer(packet(1500));
        (chosen, driver.gauge("average"))
    };
    for _ in 0..500 {
        let mut above = false;
        for _ in 0..100 {
            let (chosen, average) = offer(30_000);
            above = average >= 18_000.0;
            assert!(!above || chosen, "forced at {average}");
        }
        assert!(above, "the average follows the queue");
        // One step reduces the average from above max to a value where p_b is still above 0.3.
        loop {
            let (chosen, average) = offer(11_500);
            assert_eq!(chosen, average >= 18_000.0, "{average}");
            if average < 18_000.0 {
                break;
            }
        }
    }
}

#[test]
fn a_full_queue_does_not_restart_the_count() {
    // No packet is dequeued: p_b is 0.06, and every packet that is not dropped early finds the queue full.
    let change = json!({"max": "30000B", "burst": 6});
    let mut driver = driver(change, 13);
    (0..200).for_each(|_| assert!(driver.offer(packet(100)) || driver.queue.backlog().bytes <= 20_000));
    let (mut gap, mut longest) = (0, 0);
    for _ in 0..50_000 {
        let early = driver.fates.counts.early;
        driver.offer(packet(1500));
        gap += 1;
        if driver.fates.counts.early > early {
            longest = longest.max(gap);
            gap = 0;
        }
    }
    let p_b = driver.gauge("probability");
    assert!(driver.fates.counts.overflow > 30_000);
    assert_eq!(longest, (1.0 / p_b).ceil() as u64);
}

#[test]
fn the_integer_average_is_less_than_one_byte_above_the_exact_one() {
    // tc derives the weights 1/8 and 1/64 from these bursts.
    for (burst, weight) in [(6, 0.125), (14, 1.0 / 64.0)] {
        let mut driver = driver(json!({"burst": burst, "probability": 0.5, "limit": "30000B"}), 5);
        let mut exact = 0.0;
        // The first arrival ends the initial idle time.
        driver.offer(packet(1500));
        for k in 0..5000_u16 {
            exact += weight * (driver.queue.backlog().bytes as f64 - exact);
            driver.offer(packet(40 + k % 1400));
            let more = driver.gauge("average") - exact;
            assert!((-1e-6..1.0).contains(&more), "{weight} {k}: {more}");
            if k % 3 != 0 && driver.queue.backlog().packets > 1 {
                driver.take();
            }
        }
        assert!(exact > 5000.0);
    }
}

/// A queue with an average of `bytes` bytes that has just become empty.
fn idle_at(change: Value, bytes: u64) -> Driver {
    let mut driver = driver(change, 1);
    for _ in 0..1000 {
        serve_down_to(&mut driver, bytes);
        driver.offer(packet(1000));
    }
    assert_eq!(driver.gauge("average"), bytes as f64);
    while driver.take().is_some() {}
    driver
}

#[test]
fn on_an_idle_link_the_average_decays_by_the_table_and_gets_no_sample() {
    // Half a cell halves the average. A cell is 2^20 us in Linux 6.1, and 2^16 us in Linux 2.4.
    for (kernel, half_cell) in [("6.1", 1 << 19), ("2.4", 1 << 15)] {
        for (micros, part) in [(0, 1.0), (half_cell / 2, 0.75), (half_cell, 0.5), (9 * half_cell, 0.5)] {
            let mut driver = idle_at(json!({"kernel": kernel}), 4000);
            driver.now = Instant::from_nanos(micros * 1000 + 999);
            driver.offer(packet(1000));
            let after = driver.gauge("average");
            assert!((after - part * 4000.0).abs() < 1.0, "{kernel} {micros}: {after}");
        }
    }
}

#[test]
fn a_dropped_packet_leaves_the_link_idle() {
    let mut driver = idle_at(json!({"min": "1000B", "max": "2000B", "avpkt": "500B", "burst": 4}), 2000);
    assert!(driver.offer(packet(1000)), "above max");
    driver.now = Instant::from_nanos(1_000_000_000_000);
    assert!(!driver.offer(packet(1000)));
    assert_eq!(driver.gauge("average").floor(), 0.0);
}

#[test]
fn ecn_marks_and_with_harddrop_only_below_max() {
    let ect1 = Packet { ecn: Ecn::Ect1, ..packet(100) };
    let fates = |kernel: &str, flags: &[&str], like: Packet, bytes| {
        let mut change = json!({"kernel": kernel, "limit": "60000B"});
        flags.iter().for_each(|flag| change[*flag] = json!(true));
        let mut driver = driver(change, 4);
        for k in 0..3000 {
            if k == 1000 {
                driver.fates = Fates::default();
            }
            serve_down_to(&mut driver, bytes);
            driver.offer(if k < 1000 { packet(100) } else { like });
        }
        let Counts { early, forced, overflow, marks, .. } = driver.fates.counts;
        assert_eq!(overflow, 0);
        (early > 0, forced > 0, marks > 0)
    };
    let (early, forced, marks) = ((true, false, false), (false, true, false), (false, false, true));
    for kernel in ["6.1", "2.4"] {
        assert_eq!(fates(kernel, &[], ect(100), 12_000), early);
        assert_eq!(fates(kernel, &["ecn"], packet(100), 12_000), early);
        assert_eq!(fates(kernel, &["ecn"], ect(100), 12_000), marks);
        assert_eq!(fates(kernel, &[], ect(100), 19_000), forced);
        assert_eq!(fates(kernel, &["ecn"], ect(100), 19_000), marks);
    }
    assert_eq!(fates("6.1", &["ecn", "harddrop"], ect(100), 12_000), marks);
    assert_eq!(fates("6.1", &["ecn", "harddrop"], ect(100), 19_000), forced);
    // `red_enqueue`: with nodrop a packet that cannot be marked is enqueued, unless harddrop requires a drop.
    let none = (false, false, false);
    for average in [12_000, 19_000] {
        assert_eq!(fates("6.1", &["ecn", "nodrop"], packet(100), average), none);
        assert_eq!(fates("6.1", &["ecn", "nodrop"], ect(100), average), marks);
    }
    assert_eq!(fates("6.1", &["ecn", "nodrop", "harddrop"], packet(100), 12_000), none);
    assert_eq!(fates("6.1", &["ecn", "nodrop", "harddrop"], packet(100), 19_000), forced);
    assert_eq!(fates("6.1", &["ecn"], ect1, 12_000), marks);
    assert_eq!(fates("2.4", &["ecn"], ect1, 12_000), early, "RFC 2481 has one code point");
}

#[test]
fn the_drop_function_follows_from_the_integers() {
    let p = |change, average| Config::read(linux(change)).unwrap().drop_curve(average, 1.0, 0).unwrap();
    for (change, max_p) in [
        (json!({}), 0.1),
        (json!({"probability": 0.02}), 0.02),
        (json!({"kernel": "2.4"}), 13_000.0 / 131_072.0),
        (json!({"kernel": "2.4", "min": "5120B", "max": "18432B"}), 13_312.0 / 262_144.0),
    ] {
        assert_eq!(p(change.clone(), 4999.0), 0.0);
        assert!((p(change.clone(), 17_999.999) / max_p - 1.0).abs() < 0.04);
        assert_eq!(p(change, 18_432.0), 1.0);
    }
    assert!((p(json!({"kernel": "2.4"}), 11_500.0) - 6_500.0 / 131_072.0).abs() < 1e-12);
}

#[test]
fn values_that_tc_derives_are_reported() {
    let derived = |table: Value| {
        let derived = Config::read(table).unwrap().derived(Rate::from_bps(140_000));
        derived.into_iter().map(|one| (one.name, one.value, one.unit)).collect::<Vec<_>>()
    };
    let of = |name: &str, value: f64, unit: &'static str| (name.to_owned(), value, unit);
    let line = of("bandwidth", 140_000.0, "bps");
    // The slope per byte in units of 2^-32, rounded down.
    let max_p = (0.1 * 4_294_967_296.0 / 13_000.0_f64).floor() * 13_000.0 / 4_294_967_296.0;
    assert_eq!(derived(linux(json!({}))), [of("weight", 0.125, ""), of("max_p", max_p, ""), line.clone()]);
    let old = linux(json!({"kernel": "2.4", "bandwidth": "1Mbps", "burst": 8}));
    assert_eq!(derived(old), [of("weight", 1.0 / 16.0, ""), of("max_p", 13_000.0 / 131_072.0, "")]);
    let thresholds = |change: Value| {
        let mut table = json!({"kind": "linux-red", "limit": "120000B"});
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        derived(table).into_iter().filter(|(.., unit)| *unit == "bytes").collect::<Vec<_>>()
    };
    assert_eq!(thresholds(json!({})), [of("min", 10_000.0, "bytes"), of("max", 30_000.0, "bytes")]);
    assert_eq!(thresholds(json!({"min": "12000B"})), [of("max", 36_000.0, "bytes")]);
    assert_eq!(thresholds(json!({"max": "60000B"})), [of("min", 20_000.0, "bytes")]);
}

#[test]
fn bandwidth_and_not_the_link_rate_determines_the_decay_of_the_average() {
    let average = |change: Value, rate: u64| {
        let mut driver = Driver::at_rate(linux(change), Rate::from_bps(rate), 1);
        (0..1000).for_each(|_| {
            serve_down_to(&mut driver, 4000);
            driver.offer(packet(1000));
        });
        while driver.take().is_some() {}
        driver.now = Instant::from_nanos(300_000_000);
        driver.offer(packet(1000));
        driver.gauge("average")
    };
    let slow = average(json!({}), 140_000);
    assert_eq!(average(json!({"bandwidth": "140kbps"}), 10_000_000), slow);
    assert!(average(json!({}), 10_000_000) < slow);
}

/// `max_p` after each of `steps` half seconds, with the average kept at `bytes` bytes.
fn adapted(change: Value, bytes: u64, steps: u64) -> Vec<f64> {
    let mut change = change;
    (change["adaptive"], change["limit"]) = (json!(true), json!("60000B"));
    change["start"] = json!("fresh");
    let mut driver = driver(change, 1);
    for _ in 0..3000 {
        serve_down_to(&mut driver, bytes);
        driver.offer(packet(100));
    }
    assert_eq!(driver.gauge("average"), bytes as f64);
    let steps = (1..=steps).map(|step| {
        driver.now = Instant::from_nanos(step * 500_000_000 - 1);
        serve_down_to(&mut driver, bytes);
        driver.offer(packet(100));
        let before = driver.gauge("max_p");
        driver.now = Instant::from_nanos(step * 500_000_000);
        serve_down_to(&mut driver, bytes);
        driver.take();
        driver.offer(packet(100));
        assert!(before != driver.gauge("max_p") || (10_200..=12_800).contains(&bytes) || step > 20);
        driver.gauge("max_p")
    });
    steps.collect()
}

#[test]
fn every_half_second_max_p_increases_by_0_01_or_decreases_by_a_tenth_within_the_kernels_bounds() {
    // A fifth of 13,000 is 2600, so the target is 10,200 to 12,800.
    for (k, max_p) in (1..).zip(adapted(json!({}), 13_000, 60)) {
        let expected = (0.1 + 0.01 * f64::from(k)).min(0.51);
        assert!(
            (max_p - expected).abs() < 1e-5 || (k > 40 && (0.5..=0.511).contains(&max_p)),
            "{k}: {max_p}"
        );
    }
    for (k, max_p) in (1..).zip(adapted(json!({}), 10_000, 60)) {
        let expected = 0.1 * libm::pow(0.9, f64::from(k));
        assert!(
            (max_p - expected).abs() < 1e-5 || (k > 20 && (0.009..0.01).contains(&max_p)),
            "{k}: {max_p}"
        );
    }
    let start = adapted(json!({}), 11_500, 3);
    assert!(start.iter().all(|max_p| (max_p - 0.1).abs() < 2e-6), "{start:?}");
    let small = adapted(json!({"probability": 0.02}), 13_000, 1)[0];
    assert!((small - 0.025).abs() < 2e-6, "at most a quarter: {small}");
}

#[test]
fn while_the_link_is_idle_the_timer_uses_the_decayed_average() {
    let change = json!({
        "adaptive": true, "start": "fresh", "min": "1000B", "max": "2000B", "avpkt": "500B", "burst": 4, "limit": "60000B",
    });
    let mut driver = driver(change, 1);
    for _ in 0..1000 {
        serve_down_to(&mut driver, 1900);
        driver.offer(packet(100));
    }
    while driver.take().is_some() {}
    // The target is 1400 B to 1600 B. In half a cell, which is 2^18 us, the average halves, and every tick of the timer
    // finds it below the target.
    driver.now = Instant::from_nanos(10_000_000_000);
    driver.take();
    assert_eq!(driver.gauge("average"), 1900.0, "only an arrival ends the idle time");
    let expected = 0.1 * libm::pow(0.9, 20.0);
    assert!((driver.gauge("max_p") - expected).abs() < 1e-5, "{}", driver.gauge("max_p"));
}

#[test]
fn an_adaptive_queue_converges_to_the_middle_of_its_thresholds_if_max_p_can_reach_it() {
    let (mut sum, mut arrivals) = (0.0, 0.0);
    let change =
        json!({"adaptive": true, "min": "30000B", "max": "90000B", "limit": "225000B", "avpkt": "1000B"});
    let mut driver = Driver::at_rate(linux(change), Rate::from_bps(10_000_000), 3);
    // Packets of 1000 B arrive at 1.1 times the link rate.
    for k in 0..275_000_u64 {
        driver.now = Instant::from_nanos(k * 727_273);
        driver.offer(packet(1000));
        if k % 11 != 0 {
            driver.take();
        }
        if k > 137_500 {
            (sum, arrivals) = (sum + driver.gauge("average"), arrivals + 1.0);
        }
    }
    assert!((53_500.0..66_500.0).contains(&(sum / arrivals)), "{}", sum / arrivals);
}

#[test]
fn parameters_that_linux_does_not_have_are_rejected_with_name_and_remedy() {
    let refused = |change: Value, path: &str, problem: &str| {
        let config = Config::read(linux(change)).unwrap();
        let errors = config.build(Rate::from_bps(140_000)).err().unwrap();
        assert_eq!(errors.iter().count(), 1, "{errors}");
        assert_eq!(errors.first().path, path);
        assert!(errors.first().problem.contains(problem), "{errors}");
        assert_eq!(config.drop_curve(1.0, 1.0, 0), None, "{path}");
    };
    refused(json!({"min": "0B"}), "min", "at least 1B");
    refused(json!({"min": null, "max": "2B"}), "min", "a third of max, so set min");
    refused(json!({"max": "5000B"}), "max", "exceed min");
    refused(json!({"limit": "5000B"}), "limit", "exceed min");
    refused(json!({"limit": "0B"}), "limit", "from 1B");
    refused(json!({"limit": "5000000000B"}), "limit", "to 4294967295B");
    refused(json!({"probability": 0.0}), "probability", "above 0");
    refused(json!({"probability": 1.0}), "probability", "below 1");
    refused(json!({"probability": 1e-9}), "probability", "must be above");
    refused(json!({"avpkt": "0B"}), "avpkt", "from 1B");
    refused(json!({"burst": 2}), "burst", "at least min");
    refused(
        json!({"max": "3000000B", "burst": 270, "min": "30000B", "avpkt": "1000B", "limit": "9MB"}),
        "max",
        "below 1048576B with weight 1/2048",
    );
    refused(json!({"harddrop": true}), "harddrop", "without ecn");
    refused(json!({"nodrop": true}), "nodrop", "without ecn");
    refused(json!({"kernel": "2.4", "ecn": true, "nodrop": true}), "nodrop", "Linux 2.4");
    refused(json!({"kernel": "2.4", "ecn": true, "harddrop": true}), "harddrop", "Linux 2.4");
    refused(json!({"kernel": "2.4", "adaptive": true}), "adaptive", "Linux 2.4");
    let fast = Config::read(linux(json!({}))).unwrap().build(Rate::from_bps(100_000_000_000)).err().unwrap();
    assert_eq!(fast.first().path, "avpkt");
    let error = Config::read(json!({"kind": "red", "preset": "linux"})).unwrap_err();
    assert_eq!(error.first().path, "preset", "{error}");
}

#[test]
fn all_parameters_that_linux_does_not_have_are_reported_together() {
    let paths = |change: Value| {
        let config = Config::read(linux(change)).unwrap();
        let errors = config.build(Rate::from_bps(140_000)).err().unwrap();
        errors.iter().map(|error| error.path.clone()).collect::<Vec<_>>()
    };
    let wrong = json!({"limit": "0B", "min": "0B", "avpkt": "0B", "probability": 2.0, "kernel": "2.4", "adaptive": true});
    assert_eq!(paths(wrong), ["limit", "min", "adaptive", "avpkt", "probability"]);
    assert_eq!(paths(json!({"burst": 2, "probability": 1.0})), ["probability", "burst"]);
    assert_eq!(paths(json!({"limit": "0B", "min": null, "max": null})), ["limit"], "the others depend on it");
}

#[test]
fn tc_shows_the_configured_probability_and_a_probability_of_1_is_rejected() {
    let line = Rate::from_bps(10_000_000);
    let red = |p: f64| json!({"kind": "linux-red", "limit": "60000B", "min": "5000B", "max": "15000B", "probability": p});
    let sfq = |p: f64| json!({"kind": "sfq", "redflowlimit": "60000B", "min": "5000B", "max": "15000B", "probability": p});
    let reported_by_red = |p: f64| {
        let derived = Config::read(red(p)).unwrap().derived(line);
        derived.into_iter().find(|one| one.name == "max_p").unwrap().value
    };
    let shown_of_sfq =
        |p: f64| Config::read(sfq(p)).unwrap().tc_options(line).unwrap()["probability"].as_f64().unwrap();
    for p in [0.0001, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 0.999_999] {
        // The kernel has 32 bits, and rounds the increase per byte down once.
        for (reported, tolerance) in [(reported_by_red(p), 1e-5), (shown_of_sfq(p), 1e-9)] {
            assert!((p - tolerance..=p).contains(&reported), "{reported}, not {p}");
        }
        assert_eq!(shown_of_sfq(shown_of_sfq(p)), shown_of_sfq(p));
        let curve = Config::read(red(p)).unwrap().drop_curve(14_999.999, 1.0, 0).unwrap();
        assert!((curve / p - 1.0).abs() < 0.05, "{curve}, not {p}");
    }
    // Neither tc nor the kernel represents 1 in 32 bits. The power of two of Linux 2.4 may be 1 or 1/2, and is
    // reported.
    let gred = json!({"kind": "gred", "vqs": [{"limit": "60000B", "min": "5000B", "max": "15000B", "probability": 1.0}]});
    let choke = json!({"kind": "choke", "limit": "60p", "min": "5p", "max": "15p", "probability": 1.0});
    for table in [red(1.0), sfq(1.0), gred, choke] {
        let refused = Config::read(table).unwrap().build(line).map(|_| ()).unwrap_err();
        let problem = refused.first().to_string();
        assert!(problem.contains("probability") && problem.contains("below 1"), "{problem}");
    }
    for (width, max_p) in [(8191, 8191.0 / 8192.0), (8192, 0.5)] {
        let max = format!("{}B", 5000 + width);
        let mut old = red(1.0);
        (old["kernel"], old["max"]) = (json!("2.4"), json!(max));
        let derived = Config::read(old).unwrap().derived(line);
        assert!(derived.iter().any(|one| one.name == "max_p" && one.value == max_p), "{width}");
    }
}
