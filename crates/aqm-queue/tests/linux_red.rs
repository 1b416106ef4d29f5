//! What pins Linux's RED down.

mod driver;

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::Config;
use driver::{Counts, Hand, ect, packet};
use serde_json::{Value, json};

/// 5 kB to 18 kB and 20 kB on a line of 140 kb/s.
fn linux(change: Value) -> Value {
    let mut table = json!({
        "kind": "red", "preset": "linux", "min_th": "5000B", "max_th": "18000B", "limit": "20000B",
        "mean_packet": "1500B", "max_p": 0.1,
    });
    table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    table
}

fn hand(change: Value, seed: u64) -> Hand {
    Hand::at_rate(linux(change), Rate::from_bps(140_000), seed)
}

/// Offers packets of 100 bytes to a queue held at so many bytes, and returns the numbers of packets from one
/// choice to the next.
fn gaps_at(hand: &mut Hand, bytes: u64, offers: u32) -> Vec<u64> {
    let (mut gap, mut gaps) = (0, Vec::new());
    let mut counting = false;
    for k in 0..offers + 2000 {
        serve_down_to(hand, bytes);
        let chosen = hand.offer(packet(100));
        // The average needs some time to come to rest at the queue.
        if k < 2000 {
            continue;
        }
        assert_eq!(hand.gauge("average"), bytes as f64);
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
    for (preset, max_p) in [("linux", 0.1), ("linux-2.4", 13_000.0 / 131_072.0)] {
        let mut hand = hand(json!({"preset": preset, "limit": "60000B"}), 7);
        let p_b = max_p / 2.0;
        let gaps = gaps_at(&mut hand, 11_500, 200_000);
        assert!((hand.gauge("probability") / p_b - 1.0).abs() < 1e-4);
        let longest = (1.0 / p_b).ceil() as u64;
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&longest)));
        // The longest gap is that of a last draw of less than a whole step.
        let share = |gap: u64| p_b.min(1.0 - p_b * (gap - 1) as f64);
        let statistic: f64 = (1..=longest)
            .map(|gap| {
                let expected = share(gap) * gaps.len() as f64;
                let seen = gaps.iter().filter(|g| **g == gap).count() as f64;
                (seen - expected) * (seen - expected) / expected
            })
            .sum();
        // Above 19 or 20 degrees of freedom once in a thousand.
        assert!(statistic < 45.3, "{preset}: {statistic}");
    }
}

#[test]
fn the_power_of_two_of_old_may_halve_the_drops() {
    let drops = |preset| {
        let lengths = json!({"preset": preset, "min_th": "5120B", "max_th": "18432B", "limit": "60000B"});
        gaps_at(&mut hand(lengths, 3), 12_000, 100_000).len() as f64
    };
    assert!((drops("linux-2.4") / drops("linux") / (0.0508 / 0.1) - 1.0).abs() < 0.03);
}

/// Serves until at most so many bytes wait.
fn serve_down_to(hand: &mut Hand, bytes: u64) {
    while hand.queue.backlog().bytes > bytes {
        hand.take();
    }
}

#[test]
fn the_first_packet_within_the_thresholds_passes_and_the_second_meets_the_line() {
    let mut hand = hand(json!({"max_p": 0.9, "limit": "60000B"}), 11);
    let (mut chosen, mut expected) = (0.0, 0.0);
    for crossing in 1..=2000 {
        // The line idles until the average is forgotten.
        while hand.take().is_some() {}
        hand.now = Instant::from_nanos(crossing * 1_000_000_000_000);
        loop {
            let first = hand.offer(packet(1500));
            serve_down_to(&mut hand, 12_000);
            if hand.gauge("average") >= 5000.0 {
                assert!(!first, "crossing {crossing}");
                break;
            }
        }
        chosen += f64::from(u8::from(hand.offer(packet(1500))));
        expected += hand.gauge("probability");
    }
    assert!(expected > 100.0 && (chosen - expected).abs() < 4.0 * expected.sqrt(), "{chosen} {expected}");
}

#[test]
fn from_max_th_on_every_packet_is_dropped_and_the_first_one_below_it_passes() {
    let mut hand = hand(json!({"max_p": 0.5, "limit": "60000B"}), 12);
    let mut offer = |bytes| {
        serve_down_to(&mut hand, bytes);
        let chosen = hand.offer(packet(1500));
        (chosen, hand.gauge("average"))
    };
    for _ in 0..500 {
        let mut above = false;
        for _ in 0..100 {
            let (chosen, average) = offer(30_000);
            above = average >= 18_000.0;
            assert!(!above || chosen, "forced at {average}");
        }
        assert!(above, "the average follows the queue");
        // One step leads from above max_th to where p_b is still above 0.3.
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
fn a_full_queue_does_not_start_the_count_anew() {
    // Nothing is served: p_b is 0.06, and all that is not dropped early meets a full queue.
    let change = json!({"max_th": "30000B", "burst": 6});
    let mut hand = hand(change, 13);
    (0..200).for_each(|_| assert!(hand.offer(packet(100)) || hand.queue.backlog().bytes <= 20_000));
    let (mut gap, mut longest) = (0, 0);
    for _ in 0..50_000 {
        let early = hand.counts.early;
        hand.offer(packet(1500));
        gap += 1;
        if hand.counts.early > early {
            longest = longest.max(gap);
            gap = 0;
        }
    }
    let p_b = hand.gauge("probability");
    assert!(hand.counts.overflow > 30_000);
    assert_eq!(longest, (1.0 / p_b).ceil() as u64);
}

#[test]
fn the_integer_average_is_less_than_a_byte_above_the_exact_one() {
    for weight in [0.125, 1.0 / 64.0] {
        let mut hand = hand(json!({"weight": weight, "max_p": 0.5, "limit": "30000B"}), 5);
        let mut exact = 0.0;
        // The first arrival ends the idle time of the beginning.
        hand.offer(packet(1500));
        for k in 0..5000_u16 {
            exact += weight * (hand.queue.backlog().bytes as f64 - exact);
            hand.offer(packet(40 + k % 1400));
            let more = hand.gauge("average") - exact;
            assert!((-1e-6..1.0).contains(&more), "{weight} {k}: {more}");
            if k % 3 != 0 && hand.queue.backlog().packets > 1 {
                hand.take();
            }
        }
        assert!(exact > 5000.0);
    }
}

/// A queue whose average rests at so many bytes, just served and idle.
fn idle_at(change: Value, bytes: u64) -> Hand {
    let mut hand = hand(change, 1);
    for _ in 0..1000 {
        serve_down_to(&mut hand, bytes);
        hand.offer(packet(1000));
    }
    assert_eq!(hand.gauge("average"), bytes as f64);
    while hand.take().is_some() {}
    hand
}

#[test]
fn an_idle_line_forgets_by_the_table_and_adds_no_sample() {
    // Half a cell halves the average: cells are 2^20 us today, and were 2^16 us.
    for (preset, half_cell) in [("linux", 1 << 19), ("linux-2.4", 1 << 15)] {
        for (micros, part) in [(0, 1.0), (half_cell / 2, 0.75), (half_cell, 0.5), (9 * half_cell, 0.5)] {
            let mut hand = idle_at(json!({"preset": preset}), 4000);
            hand.now = Instant::from_nanos(micros * 1000 + 999);
            hand.offer(packet(1000));
            let after = hand.gauge("average");
            assert!((after - part * 4000.0).abs() < 1.0, "{preset} {micros}: {after}");
        }
    }
}

#[test]
fn a_refused_packet_leaves_the_line_idle() {
    let mut hand = idle_at(json!({"min_th": "1000B", "max_th": "2000B", "weight": 0.125}), 2000);
    assert!(hand.offer(packet(1000)), "above max_th");
    hand.now = Instant::from_nanos(1_000_000_000_000);
    assert!(!hand.offer(packet(1000)));
    assert_eq!(hand.gauge("average").floor(), 0.0);
}

#[test]
fn each_ecn_rule_marks_in_its_own_region() {
    let ect1 = Packet { ecn: Ecn::Ect1, ..packet(100) };
    let fates = |preset: &str, ecn: &str, like: Packet, bytes| {
        let mut hand = hand(json!({"preset": preset, "ecn": ecn, "limit": "60000B"}), 4);
        for k in 0..3000 {
            if k == 1000 {
                hand.counts = Counts::default();
            }
            serve_down_to(&mut hand, bytes);
            hand.offer(if k < 1000 { packet(100) } else { like });
        }
        let Counts { early, forced, overflow, marks } = hand.counts;
        assert_eq!(overflow, 0);
        (early > 0, forced > 0, marks > 0)
    };
    let (early, forced, marks) = ((true, false, false), (false, true, false), (false, false, true));
    for preset in ["linux", "linux-2.4"] {
        assert_eq!(fates(preset, "off", ect(100), 12_000), early);
        assert_eq!(fates(preset, "always", packet(100), 12_000), early);
        assert_eq!(fates(preset, "always", ect(100), 12_000), marks);
        assert_eq!(fates(preset, "off", ect(100), 19_000), forced);
        assert_eq!(fates(preset, "always", ect(100), 19_000), marks);
    }
    assert_eq!(fates("linux", "below-max-th", ect(100), 12_000), marks);
    assert_eq!(fates("linux", "below-max-th", ect(100), 19_000), forced);
    assert_eq!(fates("linux", "always", ect1, 12_000), marks);
    assert_eq!(fates("linux-2.4", "always", ect1, 12_000), early, "RFC 2481 has one code point");
}

#[test]
fn the_drop_function_is_that_of_the_integers() {
    let p = |change, average| Config::read(linux(change)).unwrap().drop_curve(average, 1.0, 0).unwrap();
    for (change, max_p) in [
        (json!({}), 0.1),
        (json!({"max_p": null}), 0.02),
        (json!({"preset": "linux-2.4"}), 13_000.0 / 131_072.0),
        (json!({"preset": "linux-2.4", "min_th": "5120B", "max_th": "18432B"}), 13_312.0 / 262_144.0),
    ] {
        assert_eq!(p(change.clone(), 4999.0), 0.0);
        assert!((p(change.clone(), 17_999.999) / max_p - 1.0).abs() < 0.04);
        assert_eq!(p(change, 18_432.0), 1.0);
    }
    assert!((p(json!({"preset": "linux-2.4"}), 11_500.0) - 6_500.0 / 131_072.0).abs() < 1e-12);
}

#[test]
fn what_the_preset_decides_is_told() {
    let told = |table: Value| {
        let config = Config::read(table).unwrap();
        let told = config.to_value();
        assert_eq!(Config::read(told.clone()).unwrap(), config);
        ["max_p", "weight", "mean_packet", "gentle"].map(|name| told[name].clone())
    };
    assert_eq!(told(json!({"kind": "red"})), [json!(0.1), json!(0.0008), json!("974B"), json!(true)]);
    let bytes = json!({"min_th": "5000B", "max_th": "18000B", "limit": "20000B", "kind": "red"});
    for preset in ["linux", "linux-2.4"] {
        let mut table = bytes.clone();
        table["preset"] = json!(preset);
        assert_eq!(told(table), [json!(0.02), Value::Null, json!("1kB"), json!(false)]);
    }
}

#[test]
fn what_linux_does_not_have_is_refused_with_place_and_remedy() {
    let refused = |change: Value, place: &str, problem: &str| {
        let config = Config::read(linux(change)).unwrap();
        let error = config.build(Rate::from_bps(140_000)).err().unwrap();
        assert_eq!(error.place, place);
        assert!(error.problem.contains(problem), "{error}");
        assert_eq!(config.drop_curve(1.0, 1.0, 0), None, "{place}");
    };
    refused(json!({"min_th": "5p"}), "min_th", "in bytes in Linux, such as 30000B, not 5p");
    refused(json!({"max_th": "9p"}), "max_th", "in bytes");
    refused(json!({"limit": "225p"}), "limit", "in bytes");
    refused(json!({"min_th": "0B"}), "min_th", "at least 1B");
    refused(json!({"max_th": "5000B"}), "max_th", "exceed min_th");
    refused(json!({"limit": "5000B"}), "limit", "exceed min_th");
    refused(json!({"limit": "5000000000B"}), "limit", "at most 4294967295B");
    refused(json!({"max_p": 0.0}), "max_p", "above 0");
    refused(json!({"max_p": 1.0}), "max_p", "below 1");
    refused(json!({"max_p": 1e-9}), "max_p", "must be above");
    refused(json!({"mean_packet": "0B"}), "mean_packet", "from 1B");
    refused(json!({"weight": 0.1}), "weight", "1/2, 1/4, 1/8");
    refused(json!({"weight": 1.0}), "weight", "1/2, 1/4, 1/8");
    refused(json!({"weight": 0.125, "burst": 6}), "burst", "if weight is given");
    refused(json!({"burst": 2}), "burst", "at least min_th");
    refused(
        json!({"max_th": "3000000B", "weight": 0.0009765625}),
        "max_th",
        "below 2097152B with weight 1/1024",
    );
    refused(json!({"gentle": true}), "gentle", "always false");
    refused(json!({"spacing": "wait"}), "spacing", "always \"no-wait\"");
    refused(json!({"spare_first": false}), "spare_first", "always true");
    refused(json!({"packet_scaling": "before-count"}), "packet_scaling", "always \"none\"");
    refused(json!({"ecn": "always", "mark_p": 0.1}), "mark_p", "leave it out");
    refused(json!({"ecn": "unless-forced"}), "ecn", "\"below-max-th\"");
    refused(json!({"preset": "linux-2.4", "ecn": "below-max-th"}), "ecn", "Linux 2.4");
    refused(json!({"preset": "paper", "burst": 6}), "burst", "leave it out");
    let shred = Config::read(json!({"kind": "shred", "red": {"preset": "linux"}})).unwrap();
    let error = shred.build(Rate::from_bps(140_000)).err().unwrap();
    assert_eq!(error.place, "red.preset");
    let fast = Config::read(linux(json!({}))).unwrap().build(Rate::from_bps(100_000_000_000)).err().unwrap();
    assert_eq!(fast.place, "mean_packet");
}
