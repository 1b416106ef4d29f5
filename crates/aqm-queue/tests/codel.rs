//! Tests of CoDel: the individual drops of ns-3, the assertions of ns-3's tests, and the control law in closed form.

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::testing::{Driver, Fate, ect, packet};
use aqm_queue::{Config, Label, Protocol, Reason};
use serde_json::{Value, json};

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn codel(change: Value) -> Driver {
    let mut table = json!({"kind": "codel"});
    table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
    Driver::new(table, 1)
}

/// A row of ns-3's table.
struct Case {
    name: &'static str,
    gap: u64,
    limit: &'static str,
    arrivals: u64,
    every: u64,
    run: u64,
    /// Packets delivered, dropped on arrival, dropped on departure, marked, and left.
    counts: [u64; 5],
    events: Vec<&'static str>,
}

/// The outcome of the packets of a case.
struct Outcome {
    counts: [u64; 5],
    fates: Vec<Fate>,
}

impl Case {
    fn all() -> Vec<Self> {
        let text = include_str!("vectors/codel_ns3.csv");
        text.lines().filter(|line| !line.starts_with('#')).skip(1).map(Self::read).collect()
    }

    fn named(name: &str) -> Self {
        Self::all().into_iter().find(|case| case.name == name).unwrap()
    }

    fn read(line: &'static str) -> Self {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse::<u64>().unwrap();
        Self {
            name: cells[0],
            gap: number(1),
            limit: cells[2],
            arrivals: number(4),
            every: number(5),
            run: number(6) * 1000,
            counts: [7, 8, 9, 10, 11].map(number),
            events: cells[12].split_whitespace().collect(),
        }
    }

    /// The outcome of the same packets in aqmlab's queue.
    fn simulate(&self, profile: &str, ecn: Ecn) -> Outcome {
        let marks = ecn != Ecn::NotEct;
        let mut driver = codel(json!({"profile": profile, "limit": self.limit, "ecn": marks}));
        let arrivals = (0..self.arrivals).map(|k| (k * self.every, true));
        let calls = (1..).map(|k| (50 + k * self.gap, false)).take_while(|(micros, _)| *micros < self.run);
        let mut all: Vec<(u64, bool)> = arrivals.chain(calls).collect();
        all.sort_by_key(|(micros, _)| *micros);
        let mut delivered = 0;
        for (micros, arrives) in all {
            driver.now = Instant::from_nanos(micros * 1000);
            if arrives {
                driver.offer(Packet { ecn, ..packet(1000) });
            } else {
                delivered += u64::from(driver.take().is_some());
            }
        }
        let of = |kind| driver.fates.list.iter().filter(|fate| text(fate).contains(kind)).count() as u64;
        let counts = [delivered, of('b'), of('d'), of('m'), driver.queue.backlog().packets];
        Outcome { counts, fates: driver.fates.list }
    }
}

/// A fate as text, for example `121.30:d96`: packet 96 was dropped on departure (`d`), dropped on arrival (`b`) or
/// marked (`m`).
fn text(fate: &Fate) -> String {
    let kind = match fate.why {
        _ if fate.is_mark => 'm',
        Reason::Overflow => 'b',
        _ => 'd',
    };
    format!("{:.2}:{kind}{}", fate.at.nanos() as f64 / 1e6, fate.packet.id)
}

#[test]
fn linux_drops_the_packets_that_ns_3_drops_one_by_one() {
    for case in Case::all().into_iter().filter(|case| case.name != "C2") {
        let ours = case.simulate("linux", Ecn::NotEct);
        let events: Vec<String> = ours.fates.iter().take(case.events.len()).map(text).collect();
        assert_eq!(
            (events, ours.counts),
            (case.events.iter().map(|event| (*event).to_owned()).collect(), case.counts)
        );
    }
}

/// After a mark, ns-3 schedules the next one relative to the time of the mark. Linux schedules it relative to the time
/// at which the mark was due, as for a drop.
#[test]
fn marks_have_the_times_of_drops_unlike_in_ns_3() {
    let case = Case::named("C2");
    let (marked, dropped) = (case.simulate("linux", Ecn::Ect0), case.simulate("linux", Ecn::NotEct));
    let times = |outcome: &Outcome, is_mark| -> Vec<Instant> {
        outcome.fates.iter().filter(|fate| fate.is_mark == is_mark).map(|fate| fate.at).collect()
    };
    assert_eq!(times(&marked, true), times(&dropped, false));
    assert_eq!(marked.counts, [3999, 1, 0, 638, 1000]);
    // All other packets have left in order, so that each mark is on the packet of its dequeue.
    for fate in marked.fates.iter().filter(|fate| fate.is_mark) {
        assert_eq!(u64::from(fate.packet.id), (fate.at.nanos() / 1000 - 50) / case.gap - 1);
    }
    let same = marked.fates.iter().zip(&case.events).take_while(|(ours, theirs)| text(ours) == **theirs);
    assert_eq!(same.count(), 2);
}

/// RFC 8289 drops exactly at the end of the interval, which coincides with a dequeue in C1, C3 and C6; ns-3 and Linux
/// drop after the end.
#[test]
fn the_rfc_drops_at_the_end_of_the_interval() {
    for (name, first) in
        [("C1", "120.05:d95"), ("C3", "108.05:d53"), ("C4", "183.80:d174"), ("C6", "105.05:d104")]
    {
        assert_eq!(text(&Case::named(name).simulate("rfc", Ecn::NotEct).fates[0]), first);
    }
}

/// Drop `n` is due `interval / sqrt(n - 1)` after the previous drop, and is made at the next dequeue.
#[test]
fn drops_of_the_rfc_follow_its_control_law() {
    let case = Case::named("C1");
    let fates = case.simulate("rfc", Ecn::NotEct).fates;
    let (mut due, mut expected) = (fates[0].at.nanos() as f64, vec![fates[0].at]);
    for count in 1..fates.len() as u32 {
        due += 1e8 / f64::from(count).sqrt();
        let calls = ((due - 50e3) / (case.gap as f64 * 1e3)).ceil();
        expected.push(Instant::from_nanos(50_000 + calls as u64 * case.gap * 1000));
    }
    assert_eq!(fates.iter().map(|fate| fate.at).collect::<Vec<_>>(), expected);
}

/// The sum of `1 / sqrt(k)` for `k` from 1 to `n` is `2 sqrt(n) + zeta(1/2)`, with an error of less than `1 / sqrt(n)`.
#[test]
fn while_packets_are_late_drops_grow_with_the_square_of_time() {
    let case = Case::named("C1");
    for (profile, tolerance) in [("rfc", 1.0), ("linux", 0.015 * 630.0)] {
        let fates = case.simulate(profile, Ecn::NotEct).fates;
        for seconds in [0.5, 1.0, 2.0, 3.0, 4.0, 4.8] {
            let since = fates[0].at.seconds();
            let drops = fates.iter().filter(|fate| fate.at.seconds() <= since + seconds).count();
            let root = (seconds / 0.1 + 1.460_354_5) / 2.0;
            assert!(
                (drops as f64 - 1.0 - root * root).abs() < tolerance + 1.0,
                "{profile}: {drops} in {seconds} s"
            );
        }
    }
}

/// Twenty packets at once, as in ns-3's test suite; every `take` is at its millisecond.
fn burst(change: Value, like: impl Fn(u32) -> Packet) -> Driver {
    let mut driver = codel(change);
    for k in 0..20 {
        driver.offer(like(k));
    }
    driver
}

/// Marks, drops and remaining packets after a dequeue.
fn take_at(driver: &mut Driver, ms: u64) -> (u64, u64, u64) {
    driver.now = at_ms(ms);
    driver.take();
    let counts = driver.fates.counts;
    (counts.drops(), counts.marks, driver.queue.backlog().packets)
}

#[test]
fn a_queued_burst_is_dropped_as_ns_3_expects() {
    // At 420 ms, drops are due for 310, 360 and 416 ms; with the roots of the RFC for 310 and 381 ms.
    for (profile, late) in [("linux", 3), ("rfc", 2)] {
        let mut driver = burst(json!({"profile": profile, "limit": "500p"}), |_| packet(1000));
        let seen = [10, 210, 210, 420].map(|ms| take_at(&mut driver, ms));
        assert_eq!(seen, [(0, 0, 19), (1, 0, 17), (1, 0, 16), (1 + late, 0, 15 - late)]);
        assert_eq!(driver.gauge("count"), 1.0 + late as f64);
    }
}

#[test]
fn a_queued_burst_is_marked_as_ns_3_expects() {
    let mut driver = burst(json!({"ecn": true}), |_| ect(1000));
    let seen = [10, 210, 210, 420].map(|ms| take_at(&mut driver, ms));
    assert_eq!(seen, [(0, 0, 19), (0, 1, 18), (0, 1, 17), (0, 2, 16)]);
}

/// The kernel counts another mark of a packet that is already marked; the mark is reported once.
#[test]
fn the_threshold_marks_in_addition_to_the_target_as_ns_3_expects() {
    let table = json!({"ecn": true, "ce_threshold": "2ms"});
    let counters = |driver: &Driver| {
        let statistics = driver.queue.tc_statistics(driver.now);
        (statistics["ecn_mark"].as_u64(), statistics["ce_mark"].as_u64())
    };
    let mut some = burst(table.clone(), |k| if k < 3 { ect(1000) } else { packet(1000) });
    let seen = [10, 210, 210].map(|ms| take_at(&mut some, ms));
    assert_eq!(seen, [(0, 1, 19), (0, 2, 18), (0, 3, 17)]);
    let why: Vec<Reason> = some.fates.list.iter().map(|fate| fate.why).collect();
    assert_eq!(why, [Reason::CeThreshold, Reason::Sojourn, Reason::CeThreshold]);
    assert_eq!(counters(&some), (Some(1), Some(3)));
    assert_eq!(take_at(&mut some, 420), (3, 3, 13), "the others cannot be marked");

    let mut all = burst(table, |_| ect(1000));
    let marks = [1, 3, 10, 210].map(|ms| {
        assert_eq!(take_at(&mut all, ms).0, 0);
        counters(&all).1.unwrap_or(0)
    });
    assert_eq!(marks, [0, 1, 2, 3]);
}

#[test]
fn the_threshold_marks_also_without_ecn_and_only_selected_packets() {
    let marked = |change: Value, like: Packet, dscp: u8| {
        let mut driver = codel(change);
        let label = Label { traffic: String::new(), protocol: Protocol::Udp, port: 0, dscp };
        driver.queue.on_label(3, &label);
        driver.offer(Packet { label: 3, ..like });
        take_at(&mut driver, 3).1 == 1
    };
    let (l4s, classic) = (Packet { ecn: Ecn::Ect1, ..packet(1000) }, ect(1000));
    let all = json!({"ce_threshold": "2ms"});
    assert!(marked(all.clone(), classic, 0) && marked(all.clone(), l4s, 0) && !marked(all, packet(1000), 0));
    assert!(!marked(json!({"ce_threshold": "3ms"}), l4s, 0), "the threshold is not exceeded");
    let only = json!({"ce_threshold": "2ms", "ce_threshold_selector": 1, "ce_threshold_mask": 3});
    assert!(marked(only.clone(), l4s, 46) && !marked(only, classic, 46));
    let expedited = json!({"ce_threshold": "2ms", "ce_threshold_selector": 0xb8, "ce_threshold_mask": 0xfc});
    assert!(marked(expedited.clone(), classic, 46) && !marked(expedited, classic, 45));
}

#[test]
fn a_full_buffer_drops_arrivals() {
    let mut driver = codel(json!({"limit": "500p"}));
    (0..503).for_each(|_| {
        driver.offer(packet(1000));
    });
    assert_eq!((driver.fates.counts.overflow, driver.queue.backlog().packets), (3, 500));
    assert_eq!(driver.queue.tc_statistics(driver.now)["drop_overlimit"], 3);
    assert_eq!(driver.fates.dropped_packets().next().unwrap().id, 500);
}

#[test]
fn with_one_full_packet_behind_it_a_packet_is_never_late() {
    for (left, drops) in [(1514, 0), (1515, 1)] {
        let mut driver = codel(json!({}));
        for bytes in [1000, 1000, left] {
            driver.offer(packet(bytes));
        }
        let seen = [50, 200].map(|ms| take_at(&mut driver, ms).0);
        assert_eq!(seen, [0, drops], "{left} bytes behind the late packet");
    }
}

/// A queue with late packets until `count` is reached, and then with a packet that is not late: it leaves the dropping
/// state at `end`.
fn dropping_until(count: u32, end: &mut u64) -> Driver {
    let mut driver = codel(json!({}));
    for ms in 0.. {
        driver.now = at_ms(ms);
        driver.offer(packet(1000));
        driver.offer(packet(1000));
        if ms > 20 {
            driver.take();
        }
        if driver.gauge("count") >= f64::from(count) {
            *end = ms;
            break;
        }
    }
    while driver.take().is_some() {}
    driver
}

#[test]
fn a_queue_that_drops_again_soon_continues_with_its_count_and_otherwise_starts_again() {
    // The count is kept until 16 intervals after the last drop was due.
    for (pause, again) in [(100, 9.0), (1400, 9.0), (1700, 1.0)] {
        let mut end = 0;
        let mut driver = dropping_until(10, &mut end);
        assert_eq!(
            (driver.gauge("count"), driver.gauge("lastcount"), driver.gauge("dropping")),
            (10.0, 1.0, 0.0)
        );
        driver.now = at_ms(end + pause);
        (0..9).for_each(|_| {
            driver.offer(packet(1000));
        });
        for wait in [5, 106] {
            driver.now = at_ms(end + pause + wait);
            driver.take();
        }
        assert_eq!((driver.gauge("count"), driver.gauge("lastcount")), (again, again), "after {pause} ms");
        assert_eq!(driver.gauge("dropping"), 1.0);
    }
}

#[test]
fn leaving_the_dropping_state_does_not_change_the_count() {
    let mut driver = burst(json!({}), |_| packet(1000));
    let _ = [10, 210].map(|ms| take_at(&mut driver, ms));
    assert_eq!((driver.gauge("dropping"), driver.gauge("count")), (1.0, 1.0));
    // All packets are dequeued, the old ones first.
    driver.now = at_ms(299);
    while driver.queue.backlog().packets > 0 {
        driver.take();
    }
    assert_eq!((driver.gauge("dropping"), driver.gauge("count"), driver.fates.counts.drops()), (0.0, 1.0, 1));
}

#[test]
fn gauges_and_tc_show_the_state() {
    let mut driver = burst(json!({"ce_threshold": "1s"}), |_| packet(1000));
    let _ = [10, 210].map(|ms| take_at(&mut driver, ms));
    assert_eq!(driver.gauge("ldelay"), f64::from(210_000_000 / 1024) * 1024e-9);
    // The root of 1 is the maximum of 16 bits: 97654 ticks.
    assert!((driver.gauge("drop_next") - 97_654.0 * 1024e-9).abs() < 1e-12);
    assert_eq!(
        driver.queue.tc_statistics(at_ms(400)),
        json!({
            "count": 1, "lastcount": 1, "ldelay": 209_999, "dropping": true, "drop_next": -90_002,
            "maxpacket": 1000, "ecn_mark": 0, "drop_overlimit": 0,
        })
    );
    let config = Config::read(json!({"kind": "codel", "ecn": true, "ce_threshold": "1ms"})).unwrap();
    assert_eq!(
        config.tc_options(Rate::from_bps(1)).unwrap(),
        json!({
            "kind": "codel", "limit": 1000, "target": 4999, "interval": 99_999, "ecn": true, "ce_threshold": 999,
        })
    );
}

#[test]
fn invalid_parameters_are_rejected() {
    let wrong = |change: Value| {
        let mut table = json!({"kind": "codel"});
        table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
        Config::read(table).unwrap().build(Rate::from_bps(1)).err().unwrap().to_string()
    };
    assert!(wrong(json!({"limit": "0p"})).contains("limit: must be at least 1p"));
    assert!(wrong(json!({"target": "1us"})).contains("target: must be from 1024ns"));
    assert!(wrong(json!({"interval": "101s"})).contains("interval: must be from"));
    assert!(wrong(json!({"ce_threshold_mask": 3})).contains("no effect without ce_threshold"));
    let all_bits = json!({"ce_threshold": "1ms", "ce_threshold_mask": 256});
    assert!(wrong(all_bits).contains("ce_threshold_mask: must be at most 255 (got 256)"));
    let never = json!({"ce_threshold": "1ms", "ce_threshold_selector": 4, "ce_threshold_mask": 3});
    assert!(wrong(never).contains("ce_threshold_selector: matches no packet"));
}
