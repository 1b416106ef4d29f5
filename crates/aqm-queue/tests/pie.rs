//! Tests of PIE: the assertions and results of ns-3's test suite, the RFC's pseudocode step by step, and the additions
//! of Linux.

use std::collections::VecDeque;

use aqm_net::{Instant, Packet, Rate, Rng, Streams};
use aqm_queue::Config;
use aqm_queue::testing::{Driver, ect, packet};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn pie(more: &Value) -> Config {
    Config::read(with(json!({"kind": "pie"}), more)).unwrap()
}

/// ns-3's PIE, with packets of 1000 bytes.
fn ns3(more: &Value) -> Value {
    let mut table = with(json!({"kind": "pie", "profile": "ns-3", "start": "fresh", "limit": "300p"}), more);
    // Without bytemode, ns-3's PIE counts packets.
    if table["profile"] != "ns-3" || table["bytemode"] == true {
        table["mtu"] = json!("1000B");
    }
    table
}

/// Offers packets at multiples of `plan.gap` and dequeues at multiples of `plan.service` after `plan.offset`, all in
/// microseconds, until `plan.until`. `seen` is called before each event. In ns-3, arrivals and departures precede an
/// update at the same time, so they are one nanosecond earlier here. Of two events at the same time, the one that was
/// scheduled first is first.
fn drive(driver: &mut Driver, like: Packet, plan: &Plan, mut seen: impl FnMut(&mut Driver, u64)) {
    let (mut arrivals, mut departures) = (plan.first, 1);
    loop {
        let (arrival, departure) = (arrivals * plan.gap, plan.offset + departures * plan.service);
        let next = arrival.min(departure);
        if next >= plan.until {
            return;
        }
        driver.now = Instant::from_nanos((next * 1000).saturating_sub(1));
        seen(driver, next);
        if arrival < departure || (arrival == departure && plan.arrival_first) {
            if arrivals < plan.arrivals + plan.first {
                driver.offer(like);
            }
            arrivals += 1;
        } else {
            driver.take();
            departures += 1;
        }
    }
}

struct Plan {
    /// The number of the first arrival.
    first: u64,
    arrivals: u64,
    gap: u64,
    service: u64,
    offset: u64,
    until: u64,
    arrival_first: bool,
}

/// ns-3's suite: 400 packets, one every 10 ms, and a departure every `service_ms` milliseconds.
fn suite(service_ms: u64) -> Plan {
    Plan {
        first: 1,
        arrivals: 400,
        gap: 10_000,
        service: service_ms * 1000,
        offset: 0,
        until: 400 * service_ms * 1000 + 1,
        arrival_first: false,
    }
}

/// Mean and standard error.
fn estimate(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Checks that the mean of `ours` agrees with the mean of ns-3, given the standard errors of both.
fn agree(what: &str, ours: &[f64], (theirs, theirs_se): (f64, f64)) {
    let (mean, se) = estimate(ours);
    let bound = 4.0 * (se * se + theirs_se * theirs_se).sqrt();
    assert!((mean - theirs).abs() <= bound, "{what}: {mean} +- {se}, not {theirs} +- {theirs_se}");
}

#[test]
fn drops_and_marks_agree_with_ns3() {
    // Early drops and marks over 200 random streams of ns-3 3.37, with standard errors.
    let p2 = json!({"target": "20ms", "tupdate": "30ms", "max_burst": "100ms"});
    let p3 = json!({"target": "80ms", "tupdate": "30ms", "max_burst": "100ms"});
    let p5 = json!({"target": "20ms", "tupdate": "90ms", "max_burst": "100ms"});
    let saturated = (112.0, 0.0);
    for (id, more, service_ms, early, marks) in [
        ("P2", p2.clone(), 12, (63.895, 0.022), (0.0, 0.0)),
        // Packets of the mean size, in bytes.
        (
            "P2",
            with(p2.clone(), &json!({"limit": "300kB", "bytemode": true})),
            12,
            (63.895, 0.022),
            (0.0, 0.0),
        ),
        ("P3", p3, 12, (60.055, 0.149), (0.0, 0.0)),
        ("P4", p2, 15, (130.690, 0.034), (0.0, 0.0)),
        ("P5", p5, 15, (124.195, 0.268), (0.0, 0.0)),
        ("P6", json!({"dq_rate_estimator": true}), 14, saturated, (0.0, 0.0)),
        ("P7", json!({"cap_adjustment": false}), 14, saturated, (0.0, 0.0)),
        ("P8", json!({}), 14, saturated, (0.0, 0.0)),
        ("P11", json!({"ecn": true, "mark_ecnth": 0.3}), 14, saturated, (3.570, 0.117)),
        ("P12", json!({"derandomise": true}), 14, saturated, (0.0, 0.0)),
    ] {
        let runs = (0..200).map(|seed| {
            let mut driver = Driver::new(ns3(&more), seed);
            drive(&mut driver, ect(1000), &suite(service_ms), |_, _| {});
            assert_eq!(driver.fates.counts.overflow, 0, "{id}");
            driver.fates.counts
        });
        let (early_ours, marks_ours): (Vec<_>, Vec<_>) =
            runs.map(|counts| (counts.early as f64, counts.marks as f64)).unzip();
        agree(id, &early_ours, early);
        agree(id, &marks_ours, marks);
    }
}

#[test]
fn under_constant_overload_drops_and_queue_agree_with_ns3() {
    // Over 40 random streams of ns-3 3.37: drops from 0 s to 10 s and from 10 s to 20 s, and the mean queue in the
    // latter.
    for (id, service, more, first, second, queue) in [
        ("P20", 1250, json!({}), (1990.200, 0.866), (1998.175, 1.241), (12.435, 0.036)),
        ("P21", 1050, json!({}), (463.150, 0.632), (475.900, 0.953), (14.819, 0.047)),
        ("P22", 2000, json!({}), (4993.075, 0.670), (4999.650, 1.023), (7.961, 0.029)),
        ("P23", 1250, json!({"target": "20ms"}), (1984.950, 0.889), (2000.375, 0.960), (16.454, 0.046)),
        ("P24", 1250, json!({"derandomise": true}), (1989.025, 0.753), (2000.075, 0.864), (12.374, 0.063)),
    ] {
        let plan = Plan {
            first: 0,
            arrivals: 20_000,
            gap: 1000,
            service,
            offset: 50,
            until: 20_000_000,
            arrival_first: true,
        };
        let (mut firsts, mut seconds, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..40 {
            let mut driver = Driver::new(with(ns3(&more), &json!({"limit": "1000p"})), seed);
            let (mut drops, mut samples) =
                (None, VecDeque::from_iter((10_000..20_000).map(|ms| ms * 1000 + 25)));
            let mut waited = 0;
            drive(&mut driver, packet(1000), &plan, |driver, now| {
                while samples.front().is_some_and(|sample| *sample <= now) {
                    samples.pop_front();
                    drops.get_or_insert(driver.fates.counts.drops());
                    waited += driver.queue.backlog().packets;
                }
            });
            let drops = drops.unwrap();
            firsts.push(drops as f64);
            seconds.push((driver.fates.counts.drops() - drops) as f64);
            queues.push(waited as f64 / 10_000.0);
        }
        agree(id, &firsts, first);
        agree(id, &seconds, second);
        agree(id, &queues, queue);
    }
}

#[test]
fn with_departures_in_eight_of_nine_slots_packets_leave_in_order() {
    for profile in ["linux", "rfc", "ns-3"] {
        let mut driver = Driver::new(json!({"kind": "pie", "profile": profile}), 1);
        (0..8).for_each(|_| assert!(!driver.offer(packet(1000))));
        assert!((0..8).all(|id| driver.take().unwrap().id == id));
        assert_eq!(driver.take(), None);
    }
}

#[test]
fn from_ten_percent_on_the_probability_rises_by_at_most_two_percent_with_cap_adjustment() {
    for (profile, cap, beyond) in [("ns-3", true, false), ("ns-3", false, true), ("rfc", true, false)] {
        let more = json!({"profile": profile, "cap_adjustment": cap});
        let mut driver = Driver::new(ns3(&more), 1);
        let (mut before, mut largest) = (0.0, 0.0_f64);
        drive(&mut driver, packet(1000), &suite(14), |driver, _| {
            let p = driver.gauge("prob");
            if before > 0.1 {
                largest = largest.max(p - before);
            }
            before = p;
        });
        assert_eq!(largest > 0.02 + 1e-12, beyond, "{profile}, {cap}: {largest}");
    }
}

#[test]
fn ecn_capable_packets_are_marked_while_the_probability_is_low() {
    for (profile, ecn, like, marks) in [
        ("ns-3", true, packet(1000), false),
        ("ns-3", false, ect(1000), false),
        ("ns-3", true, ect(1000), true),
        ("rfc", true, ect(1000), true),
        ("linux", true, ect(1000), true),
        ("linux", true, packet(1000), false),
    ] {
        let mut more = json!({"profile": profile, "ecn": ecn, "max_burst": "15ms"});
        if ecn {
            more["mark_ecnth"] = json!(0.3);
        }
        let mut driver = Driver::new(ns3(&more), 1);
        let mut highest = 0.0;
        drive(&mut driver, like, &suite(14), |driver, _| {
            let before = driver.fates.counts.marks;
            highest = if before > 0 && highest == 0.0 { driver.gauge("prob") } else { highest };
        });
        let counts = driver.fates.counts;
        assert!(counts.drops() > 0, "{profile}: the probability passes 30 %");
        assert_eq!(counts.marks > 0, marks, "{profile}, {ecn}");
        assert!(highest <= 0.3, "{profile}: marked at {highest}");
    }
}

#[test]
fn pie_is_inactive_until_a_fraction_of_the_buffer_is_full() {
    // ns-3 has a delay instead of a fraction: with 1 s no packet is dropped, with 1 ms some are.
    for (share, drops) in [(1.0 / 3.0, false), (0.004, true)] {
        let more = json!({"profile": "rfc", "active_threshold": share});
        let mut driver = Driver::new(ns3(&more), 1);
        drive(&mut driver, packet(1000), &Plan { arrivals: 100, until: 2_000_000, ..suite(20) }, |_, _| {});
        assert_eq!(driver.fates.counts.drops() > 0, drops, "{share}");
    }
}

/// RFC 8033's pseudocode with any combination of its options, on a separate queue and without lazy updates.
struct Pseudocode {
    options: Options,
    queue: VecDeque<(u64, u64)>,
    drop_prob: f64,
    accu_prob: f64,
    current_qdelay: f64,
    qdelay_old: f64,
    burst_allowance_ms: f64,
    active: bool,
    in_measurement: bool,
    measurement_start: u64,
    dq_count: u64,
    avg_dq_time: f64,
    rng: Rng,
}

#[derive(Clone, Copy)]
struct Options {
    derandomise: bool,
    cap: bool,
    estimator: bool,
    /// Backlog in bytes from which PIE is active.
    active_from: Option<u64>,
}

const QDELAY_REF: f64 = 0.015;
const MAX_BURST_MS: f64 = 150.0;
const T_UPDATE_MS: f64 = 15.0;
const DQ_THRESHOLD: u64 = 1 << 14;
const MEAN_PKTSIZE: u64 = 1514;
const TAIL_DROP: u64 = 300_000;

impl Pseudocode {
    fn new(options: Options, seed: u64) -> Self {
        Self {
            active: options.active_from.is_none(),
            options,
            queue: VecDeque::new(),
            drop_prob: 0.0,
            accu_prob: 0.0,
            current_qdelay: 0.0,
            qdelay_old: 0.0,
            burst_allowance_ms: 0.0,
            in_measurement: false,
            measurement_start: 0,
            dq_count: 0,
            avg_dq_time: 0.0,
            rng: Streams::new(seed).named("queue", 0),
        }
    }

    fn bytes(&self) -> u64 {
        self.queue.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether the packet is dropped.
    fn enqueue(&mut self, now: u64, bytes: u64) -> bool {
        if self.active
            && self.drop_prob == 0.0
            && self.current_qdelay < QDELAY_REF / 2.0
            && self.qdelay_old < QDELAY_REF / 2.0
        {
            self.burst_allowance_ms = MAX_BURST_MS;
        }
        let is_full = self.bytes() + bytes > TAIL_DROP;
        let is_dropped = is_full || (self.active && self.burst_allowance_ms == 0.0 && self.drop_early());
        if is_full {
            self.accu_prob = 0.0;
        }
        if !is_dropped {
            self.queue.push_back((now, bytes));
        }
        let Some(active_from) = self.options.active_from else { return is_dropped };
        if !self.active && self.bytes() >= active_from {
            self.active = true;
            self.qdelay_old = 0.0;
            self.drop_prob = 0.0;
            self.accu_prob = 0.0;
            self.in_measurement = true;
            self.dq_count = 0;
            self.avg_dq_time = 0.0;
            self.measurement_start = now;
            self.burst_allowance_ms = MAX_BURST_MS;
        }
        // The last condition is aqmlab's choice: without it, the estimator would never measure a rate.
        let has_nothing_to_do = self.drop_prob == 0.0 && self.qdelay_old == 0.0 && self.current_qdelay == 0.0;
        if has_nothing_to_do && self.bytes() < active_from {
            self.active = false;
            self.in_measurement = false;
        }
        is_dropped
    }

    fn drop_early(&mut self) -> bool {
        if (self.qdelay_old < QDELAY_REF / 2.0 && self.drop_prob < 0.2) || self.bytes() <= 2 * MEAN_PKTSIZE {
            return false;
        }
        if self.options.derandomise {
            if self.drop_prob == 0.0 {
                self.accu_prob = 0.0;
            }
            self.accu_prob += self.drop_prob;
            if self.accu_prob < 0.85 {
                return false;
            }
            if self.accu_prob >= 8.5 {
                self.accu_prob = 0.0;
                return true;
            }
        }
        // No random number is drawn if it cannot matter.
        if self.drop_prob == 0.0 || self.rng.uniform() >= self.drop_prob {
            return false;
        }
        self.accu_prob = 0.0;
        true
    }

    fn dequeue(&mut self, now: u64) -> bool {
        let Some((joined, bytes)) = self.queue.pop_front() else { return false };
        if !self.options.estimator {
            self.current_qdelay = if self.queue.is_empty() { 0.0 } else { (now - joined) as f64 / 1e9 };
            return true;
        }
        if self.in_measurement {
            self.dq_count += bytes;
            if self.dq_count >= DQ_THRESHOLD {
                let dq_time = (now - self.measurement_start) as f64 / 1e9;
                let weight = DQ_THRESHOLD as f64 / 65536.0;
                self.avg_dq_time = if self.avg_dq_time == 0.0 {
                    dq_time
                } else {
                    dq_time * weight + self.avg_dq_time * (1.0 - weight)
                };
                self.in_measurement = false;
            }
        }
        if self.bytes() >= DQ_THRESHOLD && !self.in_measurement {
            self.in_measurement = true;
            self.measurement_start = now;
            self.dq_count = 0;
        }
        true
    }

    fn calculate_drop_prob(&mut self) {
        if !self.active {
            return;
        }
        if self.options.estimator {
            self.current_qdelay = self.bytes() as f64 * self.avg_dq_time / DQ_THRESHOLD as f64;
        }
        let mut p =
            0.125 * (self.current_qdelay - QDELAY_REF) + 1.25 * (self.current_qdelay - self.qdelay_old);
        if self.drop_prob < 0.000_001 {
            p /= 2048.0;
        } else if self.drop_prob < 0.000_01 {
            p /= 512.0;
        } else if self.drop_prob < 0.000_1 {
            p /= 128.0;
        } else if self.drop_prob < 0.001 {
            p /= 32.0;
        } else if self.drop_prob < 0.01 {
            p /= 8.0;
        } else if self.drop_prob < 0.1 {
            p /= 2.0;
        }
        if self.options.cap && self.drop_prob >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        self.drop_prob += p;
        if self.current_qdelay == 0.0 && self.qdelay_old == 0.0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = self.current_qdelay;
        self.burst_allowance_ms = (self.burst_allowance_ms - T_UPDATE_MS).max(0.0);
    }
}

#[test]
fn the_response_to_load_steps_matches_the_pseudocode() {
    let basic = Options { derandomise: false, cap: true, estimator: false, active_from: None };
    for (options, more) in [
        (basic, json!({})),
        (Options { cap: false, ..basic }, json!({"cap_adjustment": false})),
        (Options { derandomise: true, ..basic }, json!({"derandomise": true})),
        (Options { estimator: true, ..basic }, json!({"dq_rate_estimator": true})),
        (
            Options { derandomise: true, cap: true, estimator: true, active_from: Some(30_000) },
            json!({"derandomise": true, "dq_rate_estimator": true, "active_threshold": 0.1}),
        ),
        (Options { active_from: Some(30_000), ..basic }, json!({"active_threshold": 0.1})),
    ] {
        let base = json!({"kind": "pie", "profile": "rfc", "start": "fresh", "limit": "300kB"});
        let mut driver = Driver::new(with(base, &more), 7);
        let mut reference = Pseudocode::new(options, 7);
        let mut updates = 0;
        let mut highest = 0.0_f64;
        // One departure per millisecond; the load is low, then 1.5 times the capacity, zero, and twice the capacity.
        let (mut arrival, mut departure, mut k) = (137_000, 1_000_000, 0_u64);
        let gap = |now: u64| match now / 1_000_000_000 {
            0 => 3_000_001,
            1..=5 => 666_667,
            6 | 7 => 2_000_000_000,
            8..=10 => 500_003,
            _ => 1_700_000,
        };
        while arrival < 16_000_000_000 {
            let now = arrival.min(departure);
            while updates * 15_000_000 + 15_000_000 <= now {
                reference.calculate_drop_prob();
                updates += 1;
            }
            driver.now = Instant::from_nanos(now);
            if departure <= arrival {
                assert_eq!(driver.take().is_some(), reference.dequeue(now));
                departure += 1_000_000;
            } else {
                let bytes = [1514, 1000, 400][k as usize % 3];
                assert_eq!(
                    driver.offer(packet(bytes)),
                    reference.enqueue(now, bytes.into()),
                    "{more} at {now}"
                );
                arrival += gap(now);
                k += 1;
            }
            let (p, expected) = (driver.gauge("prob"), reference.drop_prob);
            assert!((p - expected).abs() <= 1e-12, "{more} at {now}: {p}, not {expected}");
            highest = highest.max(p);
        }
        assert!(highest > 0.25 && reference.drop_prob < 0.01, "the steps have an effect: {highest}");
        assert!(driver.fates.counts.early > 1000, "{:?}", driver.fates.counts);
    }
}

/// Updates until the probability first reaches each of `levels`, in a queue with a constant delay: from `from_ms` on,
/// one packet arrives per millisecond and leaves `delay_ms` later.
fn updates_to_reach(more: &Value, from_ms: u64, delay_ms: u64, levels: &[f64]) -> Vec<u64> {
    let mut driver = Driver::new(with(json!({"kind": "pie"}), more), 3);
    let mut waiting = VecDeque::new();
    let mut reached = Vec::new();
    for ms in from_ms.. {
        driver.now = Instant::from_nanos(ms * 1_000_000);
        if waiting.front() == Some(&ms) {
            driver.take();
            waiting.pop_front();
        }
        if !driver.offer(packet(1000)) {
            waiting.push_back(ms + delay_ms);
        }
        assert!(driver.gauge("prob") < levels[0] || ms > from_ms + 150 || driver.fates.list.is_empty());
        while driver.gauge("prob") >= levels[reached.len()] {
            // Updates since the first that includes the delay.
            reached.push((ms - from_ms - delay_ms) / 15);
            if reached.len() == levels.len() {
                return reached;
            }
        }
    }
    unreachable!()
}

#[test]
fn with_a_constant_delay_the_probability_grows_linearly_between_tenfold_steps() {
    // By hand: 0.125 times 15 ms is 0.001875 per update, divided by 32, 8 and 2. The first update adds 1.25 times 30 ms
    // divided by 2048.
    let levels = [1e-4, 1e-3, 1e-2, 0.1];
    let expected = |alpha: f64| {
        let (mut p, mut updates, mut reached) = (0.0, 0, Vec::new());
        while reached.len() < levels.len() {
            let divisor = match p {
                p if p < 1e-6 => 2048.0,
                p if p < 1e-5 => 512.0,
                p if p < 1e-4 => 128.0,
                p if p < 1e-3 => 32.0,
                p if p < 1e-2 => 8.0,
                _ => 2.0,
            };
            let first = if updates == 0 { 1.25 * 0.030 } else { 0.0 };
            p += (alpha * 0.015 + first) / divisor;
            updates += 1;
            while reached.len() < levels.len() && p >= levels[reached.len()] {
                reached.push(updates);
            }
        }
        reached
    };
    assert_eq!(expected(0.125), [7, 23, 62, 158]);
    assert_eq!(updates_to_reach(&json!({"profile": "rfc"}), 15, 30, &levels), [7, 23, 62, 158]);
    assert_eq!(updates_to_reach(&json!({"profile": "ns-3"}), 15, 30, &levels[2..]).len(), 2);
    // Linux's first update is at 0.5 s, 15 ms after the first packet has left.
    assert_eq!(updates_to_reach(&json!({"hz": 0}), 455, 30, &levels), [7, 23, 62, 158]);
}

#[test]
fn the_first_burst_passes_and_its_length_matches_the_sources() {
    // A former version of ns-3 had a default of 15 ms.
    assert_eq!(pie(&json!({})).to_value()["max_burst"], "150ms");
    for profile in ["linux", "rfc"] {
        let mut driver = Driver::new(json!({"kind": "pie", "profile": profile, "limit": "100000p"}), 3);
        let begin = 600_000_000;
        let mut first = None;
        for us in (0..4_000_000).step_by(500) {
            driver.now = Instant::from_nanos(begin + us * 1000);
            if driver.offer(packet(1000)) {
                first.get_or_insert(us);
            }
            if us % 1000 == 0 {
                driver.take();
            }
        }
        assert!((150_000..1_000_000).contains(&first.unwrap()), "{profile}: {first:?} us");
    }
}

/// The results of a run as text: counts, samples of the probability, and the statistics of `tc`.
fn shown(table: Value) -> String {
    let mut driver = Driver::at_rate(table, Rate::from_bps(10_000_000), 5);
    let mut seen = Vec::new();
    for k in 0..12_000_u64 {
        // 1.5 times the capacity for 6 s, in packets of three sizes.
        driver.now = Instant::from_nanos(k * 533_333);
        let like = if k % 4 == 0 { packet(1514) } else { ect([1000, 400, 1514][k as usize % 3]) };
        driver.offer(like);
        if k % 3 != 0 && k % 6000 < 5500 {
            driver.take();
        }
        if k % 100 == 0 {
            seen.push(driver.gauge("prob"));
        }
    }
    format!("{:?} {seen:?} {}", driver.fates.counts, driver.queue.tc_statistics(driver.now))
}

#[test]
fn every_parameter_has_an_effect() {
    let base = json!({"kind": "pie", "ecn": true});
    let linux = shown(base.clone());
    for more in [
        json!({"profile": "rfc"}),
        json!({"profile": "ns-3"}),
        json!({"limit": "60p"}),
        json!({"target": "20ms"}),
        json!({"tupdate": "17ms"}),
        json!({"alpha": 0.25}),
        json!({"beta": 1.0}),
        json!({"max_burst": "1s"}),
        json!({"ecn": false}),
        json!({"mark_ecnth": 0.5}),
        json!({"bytemode": true}),
        json!({"mtu": "30kB"}),
        json!({"dq_rate_estimator": true}),
        json!({"hz": 250}),
    ] {
        assert_ne!(shown(with(base.clone(), &more)), linux, "{more}");
    }
    let estimated = with(base.clone(), &json!({"dq_rate_estimator": true}));
    assert_ne!(shown(with(estimated.clone(), &json!({"dq_threshold": "9kB"}))), shown(estimated));
    let rfc = with(base, &json!({"profile": "rfc"}));
    for more in
        [json!({"derandomise": true}), json!({"cap_adjustment": false}), json!({"active_threshold": 0.5})]
    {
        assert_ne!(shown(with(rfc.clone(), &more)), shown(rfc.clone()), "{more}");
    }
}

#[test]
fn the_first_update_of_linux_is_after_half_a_second_and_further_ones_at_ticks_of_its_timer_wheel() {
    let first = |more: Value| {
        let mut driver = Driver::new(with(json!({"kind": "pie"}), &more), 1);
        for us in (0..2_000_000).step_by(250) {
            driver.now = Instant::from_nanos(us * 1000);
            driver.offer(packet(1000));
            driver.take().filter(|_| us % 500 == 0);
            if driver.gauge("prob") > 0.0 {
                return us / 1000;
            }
            // Another packet keeps a short backlog.
            driver.offer(packet(1000));
        }
        0
    };
    // The timer wheel: the next multiple of 8 above 500 and 125, and one tick more than 50.
    assert_eq!(first(json!({})), 504);
    assert_eq!(first(json!({"hz": 250})), 512);
    assert_eq!(first(json!({"hz": 100})), 510);
    assert_eq!(first(json!({"hz": 0})), 500);
    let rate = Rate::from_bps(1_000_000);
    let tupdate = |more: Value| {
        let derived = pie(&more).derived(rate);
        derived.iter().find(|one| one.name == "tupdate").map(|one| (one.value * 1e6) as u64)
    };
    // 15 ms are 15, 4 and 2 ticks, plus one; 100 ms are 104 ticks, a multiple of 8.
    assert_eq!(tupdate(json!({})), Some(16_000));
    assert_eq!(tupdate(json!({"hz": 250})), Some(20_000));
    assert_eq!(tupdate(json!({"hz": 100})), Some(30_000));
    assert_eq!(tupdate(json!({"tupdate": "100ms"})), Some(104_000));
    assert_eq!(tupdate(json!({"hz": 0})), None);
    assert_eq!(tupdate(json!({"profile": "rfc"})), None);
    let shown = |more: Value| pie(&more).tc_options(rate).unwrap()["tupdate"].clone();
    assert_eq!(
        [shown(json!({})), shown(json!({"hz": 100})), shown(json!({"hz": 0}))],
        [15_000, 20_000, 15_000]
    );
}

#[test]
fn tc_shows_the_same_values_as_for_the_kernels_pie() {
    assert_eq!(
        pie(&json!({"ecn": true})).tc_options(Rate::from_bps(1_000_000)).unwrap(),
        json!({"kind": "pie", "limit": 1000, "target": 15_000, "tupdate": 15_000, "alpha": 2, "beta": 20, "ecn": true})
    );
    let mut driver = Driver::new(json!({"kind": "pie", "limit": "3p"}), 1);
    driver.now = Instant::from_nanos(1_000_000_000);
    (0..5).for_each(|_| {
        driver.offer(packet(1000));
    });
    driver.now = Instant::from_nanos(1_040_000_000);
    driver.take();
    assert_eq!(
        driver.queue.tc_statistics(driver.now),
        json!({
            "prob": 0.0, "delay": 40_000, "pkts_in": 3, "overlimit": 2, "dropped": 2, "maxq": 2, "ecn_mark": 0,
        })
    );
    let later = driver.queue.tc_statistics(Instant::from_nanos(1_055_000_000));
    assert!(later["prob"].as_f64().unwrap() > 0.0, "the statistics include all updates until then");
    let estimated = Driver::new(json!({"kind": "pie", "dq_rate_estimator": true}), 1);
    assert_eq!(estimated.queue.tc_statistics(Instant::START)["avg_dq_rate"], 0);
    let rfc = Driver::new(json!({"kind": "pie", "profile": "rfc"}), 1);
    assert!(rfc.queue.tc_statistics(Instant::START).is_null());
}

#[test]
fn options_that_linux_does_not_have_are_rejected_with_its_profile() {
    let problems = |more: &Value| {
        let config = pie(more);
        config.build(Rate::from_bps(1_000_000)).map(drop).map_err(|errors| errors.first().to_string())
    };
    for more in [
        json!({"derandomise": false}),
        json!({"cap_adjustment": false}),
        json!({"active_threshold": 0.3}),
        json!({"alpha": 0.1}),
        json!({"beta": 2.5}),
        json!({"hz": 20_000}),
    ] {
        let path = more.as_object().unwrap().keys().next().unwrap();
        assert!(problems(&more).unwrap_err().starts_with(path.as_str()), "{more}");
    }
    for more in [json!({"derandomise": false}), json!({"active_threshold": 0.3}), json!({"alpha": 0.1})] {
        assert_eq!(problems(&with(more, &json!({"profile": "rfc"}))), Ok(()));
    }
    assert!(problems(&json!({"profile": "rfc", "hz": 100})).unwrap_err().starts_with("hz"));
}

#[test]
fn gains_in_the_units_of_tc_and_a_small_buffer_cause_warnings() {
    let warned = |more: &Value, bps: u64| {
        let config = pie(more);
        config.warnings(Rate::from_bps(bps)).iter().map(|warning| warning.path.clone()).collect::<Vec<_>>()
    };
    assert!(warned(&json!({}), 10_000_000).is_empty());
    assert_eq!(warned(&json!({"alpha": 2.0}), 10_000_000), ["alpha"]);
    assert_eq!(warned(&json!({}), 10_000_000_000), ["limit"]);
}
