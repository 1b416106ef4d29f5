//! fq: whose turn it is, how flows are paced, what is marked, and which flows are remembered.

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::testing::{Driver, ect, packet};
use aqm_queue::{Config, Label, Protocol, Reason};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// With a timer that is never late.
fn fq(more: &Value) -> Driver {
    let exact = if more.get("maxrate").is_some() { json!({"timer_slack": "0s"}) } else { json!({}) };
    Driver::new(with(with(json!({"kind": "fq"}), &exact), more), 1)
}

/// As since Linux 6.7; packets of the labels 0, 1, 2 are in the bands of these numbers.
fn banded(more: &Value) -> Driver {
    let mut driver = fq(&with(json!({"kernel": "6.18"}), more));
    for (number, dscp) in [(0, 12), (1, 0), (2, 10)] {
        let label = Label { traffic: format!("{number}"), protocol: Protocol::Udp, port: 0, dscp };
        driver.queue.on_label(number, &label);
    }
    driver
}

/// Offers so many full packets of a flow with this label.
fn offer_in_band(driver: &mut Driver, flow: u32, label: u16, count: usize) {
    (0..count).for_each(|_| {
        driver.offer(Packet { label, ..of(flow, 1514) });
    });
}

fn of(flow: u32, bytes: u16) -> Packet {
    Packet { flow, ..packet(bytes) }
}

fn at_micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// Offers so many full packets of this flow.
fn offer(driver: &mut Driver, flow: u32, count: usize) {
    (0..count).for_each(|_| {
        driver.offer(of(flow, 1514));
    });
}

fn flows(driver: &mut Driver, count: usize) -> Vec<u32> {
    (0..count).map_while(|_| driver.take()).map(|packet| packet.flow).collect()
}

/// Takes all that waits on an endless line, as soon as it may go: flows, and when in microseconds.
fn paced(driver: &mut Driver) -> Vec<(u32, u64)> {
    let mut sent = Vec::new();
    while driver.queue.backlog().packets > 0 {
        match driver.take() {
            Some(packet) => sent.push((packet.flow, driver.now.nanos() / 1000)),
            None => driver.now = driver.queue.next_ready().unwrap(),
        }
    }
    sent
}

fn told(driver: &Driver, name: &str) -> u64 {
    driver.queue.tc_statistics(driver.now)[name].as_u64().unwrap_or(0)
}

#[test]
fn a_new_flow_sends_ten_packets_at_once_and_then_two_in_turn() {
    let mut driver = fq(&json!({}));
    offer(&mut driver, 1, 30);
    offer(&mut driver, 2, 30);
    let sent = flows(&mut driver, 28);
    let mut expected = [[1; 10], [2; 10]].concat();
    expected.extend([1, 1, 2, 2, 1, 1, 2, 2]);
    assert_eq!(sent, expected);
}

#[test]
fn a_flow_that_has_just_begun_goes_before_those_that_send_for_long() {
    let mut driver = fq(&json!({}));
    offer(&mut driver, 1, 40);
    offer(&mut driver, 2, 40);
    flows(&mut driver, 24);
    offer(&mut driver, 3, 1);
    assert_eq!(flows(&mut driver, 1), [3]);
}

#[test]
fn the_queue_and_each_flow_have_a_limit_of_packets() {
    let mut driver = fq(&json!({"limit": "12p", "flow_limit": "5p"}));
    [1, 2, 3].iter().for_each(|flow| offer(&mut driver, *flow, 6));
    let fates: Vec<_> = driver.fates.told.iter().map(|fate| (fate.packet.flow, fate.why)).collect();
    let (flow, queue) = (Reason::FlowLimit, Reason::Overflow);
    assert_eq!(fates, [(1, flow), (2, flow), (3, queue), (3, queue), (3, queue), (3, queue)]);
    assert_eq!(told(&driver, "flows_plimit"), 2);
}

/// The bytes that a flow sends before another that waits, after a first packet of `first` bytes and a pause.
fn after_pause(first: u16, pause_ms: u64) -> usize {
    let mut driver = fq(&json!({"initial_quantum": "2000B"}));
    driver.offer(of(1, first));
    driver.take();
    // Only with something waiting is a flow found to be empty.
    driver.offer(of(2, 60));
    driver.take();
    driver.offer(of(3, 60));
    driver.take();
    driver.now = at_micros(pause_ms * 1000);
    offer(&mut driver, 4, 30);
    (0..50).for_each(|_| {
        driver.offer(of(1, 100));
    });
    flows(&mut driver, 80).iter().skip_while(|flow| **flow == 4).take_while(|flow| **flow == 1).count()
}

#[test]
fn credit_is_filled_up_after_a_pause_but_what_is_owed_stays_owed() {
    // 500 bytes are left of 2000; after 40 ms it is 3028 again.
    assert_eq!([after_pause(1500, 40), after_pause(1500, 41)], [5, 31]);
    // A new flow that owes is given a quantum, and waits with the old ones.
    assert_eq!([after_pause(2500, 40), after_pause(2500, 41)], [26, 26]);
}

#[test]
fn a_paced_flow_sends_at_its_rate_a_quantum_at_a_time() {
    // 3028 B at 8 Mb/s are 3.028 ms.
    let mut driver = fq(&json!({"maxrate": "8Mbps"}));
    offer(&mut driver, 1, 16);
    let expected: Vec<_> = [[0; 10].as_slice(), &[3028; 2], &[6056; 2], &[9084; 2]].concat();
    assert_eq!(paced(&mut driver), expected.iter().map(|at| (1, *at)).collect::<Vec<_>>());
    assert_eq!(told(&driver, "throttled"), 3);
    // In the long run the rate is that of the flow, whatever its packets.
    let mut driver = fq(&json!({"maxrate": "8Mbps", "initial_quantum": "0B", "flow_limit": "5000p"}));
    (0..5000).for_each(|_| {
        driver.offer(of(1, 1000));
    });
    let (_, last) = *paced(&mut driver).last().unwrap();
    assert!(last.abs_diff(5_000_000) < 5000, "{last} us");
}

#[test]
fn at_a_low_rate_every_packet_is_spaced() {
    let run = |rate: &str| {
        let mut driver = fq(&json!({"maxrate": rate}));
        offer(&mut driver, 1, 4);
        paced(&mut driver).iter().map(|(_, at)| *at).collect::<Vec<_>>()
    };
    // 1514 B at 500 kb/s; at 600 kb/s all four are of the initial quantum.
    assert_eq!(run("500kbps"), [0, 24_224, 48_448, 72_672]);
    assert_eq!(run("600kbps"), [0; 4]);
    let mut driver = fq(&json!({"maxrate": "600kbps", "low_rate_threshold": "1Mbps"}));
    offer(&mut driver, 1, 2);
    assert_eq!(paced(&mut driver)[1], (1, 20_186));
}

#[test]
fn nobody_rests_for_longer_than_a_second() {
    let mut driver = fq(&json!({"maxrate": "8kbps"}));
    offer(&mut driver, 1, 3);
    assert_eq!(paced(&mut driver), [(1, 0), (1, 1_000_000), (1, 2_000_000)]);
    assert_eq!(told(&driver, "pkts_too_long"), 3);
}

#[test]
fn who_sends_late_rests_for_less_but_for_half_at_least() {
    // Each rests for 24.224 ms after a packet.
    for (late, next) in [(5000, 24_224 - 5000), (20_000, 12_112)] {
        let mut driver = fq(&json!({"maxrate": "500kbps"}));
        offer(&mut driver, 1, 3);
        driver.take();
        driver.now = at_micros(24_224 + late);
        assert!(driver.take().is_some() && driver.take().is_none());
        assert_eq!(driver.queue.next_ready(), Some(at_micros(24_224 + late + next)));
    }
}

#[test]
fn others_pass_while_a_flow_rests_and_come_back_in_the_order_of_their_time() {
    let mut driver = fq(&json!({"maxrate": "500kbps"}));
    offer(&mut driver, 1, 2);
    driver.take();
    driver.now = at_micros(4000);
    offer(&mut driver, 2, 2);
    assert_eq!(flows(&mut driver, 2), [2]);
    assert_eq!([driver.gauge("flows"), driver.gauge("throttled_flows")], [2.0, 2.0]);
    assert_eq!(
        (driver.queue.next_ready(), told(&driver, "next_packet_delay")),
        (Some(at_micros(24_224)), 20_224_000)
    );
    driver.now = at_micros(5000);
    offer(&mut driver, 3, 1);
    assert_eq!(flows(&mut driver, 2), [3]);
    // Both may go by then, the first first.
    driver.now = at_micros(30_000);
    assert_eq!(flows(&mut driver, 3), [1, 2]);
    // An eighth of 30 - 24.224 ms.
    assert_eq!(told(&driver, "latency"), 722_000);
}

#[test]
fn a_rest_ends_late_by_the_slack_of_the_timer_unless_a_packet_arrives_before() {
    for (more, slack) in [(json!({}), 10), (json!({"timer_slack": "3ms"}), 3000)] {
        let table = with(json!({"kind": "fq", "maxrate": "500kbps"}), &more);
        let mut driver = Driver::new(table.clone(), 1);
        offer(&mut driver, 1, 2);
        assert!(driver.take().is_some() && driver.take().is_none());
        assert_eq!(driver.queue.next_ready(), Some(at_micros(24_224 + slack)));
        driver.now = at_micros(24_225);
        offer(&mut driver, 2, 1);
        assert_eq!(flows(&mut driver, 2), [2, 1]);
    }
}

#[test]
fn since_linux_6_7_up_to_eight_packets_that_find_no_flow_waiting_pass_by_all_flows() {
    let mut driver = banded(&json!({"ce_threshold": "1ms"}));
    (1..=8).for_each(|flow| {
        driver.offer(Packet { flow, ..ect(1514) });
    });
    assert_eq!((told(&driver, "fastpath"), told(&driver, "flows")), (8, 0));
    offer(&mut driver, 3, 2);
    assert_eq!((told(&driver, "fastpath"), told(&driver, "flows"), told(&driver, "inactive")), (8, 1, 0));
    // While a flow waits all others do.
    driver.now = at_micros(5000);
    assert_eq!(flows(&mut driver, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    offer(&mut driver, 1, 1);
    assert_eq!((told(&driver, "fastpath"), told(&driver, "flows")), (8, 2));
    assert_eq!(flows(&mut driver, 4), [3, 3, 1]);
    assert_eq!((driver.fates.counts.marks, told(&driver, "ce_mark")), (0, 2), "none on the fast path");
    offer(&mut driver, 9, 1);
    assert_eq!((told(&driver, "fastpath"), told(&driver, "inactive")), (9, 2));
    let mut paced = banded(&json!({"maxrate": "1Mbps"}));
    offer(&mut paced, 1, 1);
    assert_eq!((told(&paced, "fastpath"), told(&paced, "flows")), (0, 1));
}

#[test]
fn since_linux_6_7_bands_share_the_line_by_their_weights_and_each_has_the_limit() {
    let mut driver = banded(&json!({"flow_limit": "5000p"}));
    (0..3).for_each(|band| offer_in_band(&mut driver, 1 + u32::from(band), band, 4000));
    // Four rounds of 13 * 65,536 bytes.
    let sent = flows(&mut driver, 4 * 13 * 65_536 / 1514);
    let share = |flow| sent.iter().filter(|one| **one == flow).count() as f64 / sent.len() as f64;
    for (flow, weight) in [(1, 9.0), (2, 3.0), (3, 1.0)] {
        assert!((share(flow) - weight / 13.0).abs() < 0.02, "{flow}: {}", share(flow));
    }
    let mut driver = banded(&json!({"limit": "10p"}));
    // Eight on the fast path.
    offer_in_band(&mut driver, 1, 1, 30);
    offer_in_band(&mut driver, 2, 0, 12);
    let counts = ["band0_pkts", "band1_pkts", "band2_pkts", "band0_drops", "band1_drops"];
    assert_eq!(counts.map(|name| told(&driver, name)), [10, 10, 0, 2, 12]);
    assert_eq!((driver.queue.backlog().packets, driver.fates.counts.overflow), (28, 14));
}

#[test]
fn since_linux_6_7_an_arrival_looks_at_its_bucket_for_flows_to_forget() {
    let mut driver = banded(&json!({"buckets": 2, "maxrate": "30Gbps"}));
    let visit = |driver: &mut Driver, flow: u32| {
        offer(driver, flow, 1);
        driver.take();
    };
    (0..9).for_each(|flow| visit(&mut driver, flow));
    // Those that are empty are found when a flow beside them has spent its first ten packets.
    offer(&mut driver, 100, 30);
    paced(&mut driver);
    assert_eq!((told(&driver, "flows"), told(&driver, "gc")), (10, 0));
    driver.now = at_micros(4_000_000);
    (200..202).for_each(|flow| visit(&mut driver, flow));
    assert!(told(&driver, "gc") > 0 && told(&driver, "gc") + told(&driver, "flows") == 12);
}

#[test]
fn without_a_rate_or_without_pacing_nothing_is_held_back() {
    for more in [json!({}), json!({"pacing": false})] {
        let mut driver = fq(&more);
        offer(&mut driver, 1, 100);
        assert_eq!(flows(&mut driver, 100).len(), 100);
        let config = Config::read(with(json!({"kind": "fq"}), &more)).unwrap();
        assert!(!config.holds_back());
    }
}

#[test]
fn what_leaves_late_is_marked_if_it_can_be_and_counted_in_any_case() {
    let mut driver = fq(&json!({"ce_threshold": "5ms"}));
    for like in [ect(1000), packet(1000), ect(1000)] {
        driver.offer(like);
    }
    driver.now = at_micros(5000);
    assert_eq!(driver.take().unwrap().ecn, Ecn::Ect0);
    driver.now = at_micros(5001);
    assert_eq!(driver.take().unwrap().ecn, Ecn::NotEct);
    assert_eq!(driver.take().unwrap().ecn, Ecn::Ce);
    assert_eq!((told(&driver, "ce_mark"), driver.fates.counts.marks), (2, 1));
    assert_eq!(driver.fates.told[0].why, Reason::CeThreshold);
    // A rest is no delay.
    let mut driver = fq(&json!({"ce_threshold": "5ms", "maxrate": "500kbps"}));
    (0..3).for_each(|_| {
        driver.offer(ect(1514));
    });
    assert_eq!(paced(&mut driver).len(), 3);
    assert_eq!(told(&driver, "ce_mark"), 0);
}

/// A packet of each of so many flows, one after the other, and what is remembered of them.
fn visitors(driver: &mut Driver, flows: std::ops::Range<u32>) -> [u64; 3] {
    for flow in flows {
        driver.offer(of(flow, 60));
        driver.take();
    }
    ["flows", "inactive", "gc"].map(|name| told(driver, name))
}

#[test]
fn idle_flows_are_remembered_for_three_seconds_and_while_there_is_room() {
    let mut driver = fq(&json!({"buckets": 16}));
    // The last one has not been found to be empty yet.
    assert_eq!(visitors(&mut driver, 0..100), [100, 99, 0]);
    driver.now = at_micros(3_000_000);
    assert_eq!(visitors(&mut driver, 100..101), [101, 100, 0]);
    driver.now = at_micros(3_000_001);
    assert_eq!(visitors(&mut driver, 101..102), [94, 93, 8]);
    // Down to two for each bucket.
    let [left, _, gone] = visitors(&mut driver, 102..140);
    assert!((32..45).contains(&left) && left + gone == 140, "{left} {gone}");
    let mut many = fq(&json!({"buckets": 1000}));
    visitors(&mut many, 0..2047);
    many.now = at_micros(4_000_000);
    assert_eq!(visitors(&mut many, 2047..2048)[2], 0);
    assert_eq!(visitors(&mut many, 2048..2049)[2], 8);
}

#[test]
fn a_flow_that_is_forgotten_begins_anew() {
    let mut driver = fq(&json!({"buckets": 2}));
    visitors(&mut driver, 0..5);
    let first_of_ten = |driver: &mut Driver| {
        offer(driver, 9, 30);
        offer(driver, 0, 30);
        let sent = flows(driver, 60);
        sent.iter().skip_while(|flow| **flow == 9).take_while(|flow| **flow == 0).count()
    };
    driver.now = at_micros(3_000_001);
    visitors(&mut driver, 7..8);
    assert_eq!((told(&driver, "gc"), first_of_ten(&mut driver)), (4, 10));
    let mut remembered = fq(&json!({}));
    visitors(&mut remembered, 0..8);
    // It has sent 60 bytes of its ten packets.
    assert_eq!(first_of_ten(&mut remembered), 10);
    visitors(&mut remembered, 0..8);
    assert_eq!(first_of_ten(&mut remembered), 2);
}

#[test]
fn a_flow_that_comes_back_after_long_is_not_forgotten_but_others_are() {
    let mut driver = fq(&json!({"buckets": 2}));
    assert_eq!(visitors(&mut driver, 0..5), [5, 4, 0]);
    driver.now = at_micros(3_000_001);
    // It is the one that was idle for longest, and has 15,080 bytes of credit left.
    offer(&mut driver, 0, 1);
    assert_eq!(["flows", "gc"].map(|name| told(&driver, name)), [5, 0]);
    offer(&mut driver, 9, 1);
    assert_eq!(["flows", "gc"].map(|name| told(&driver, name)), [3, 3]);
}

#[test]
fn packets_without_a_socket_share_the_flows_of_a_mask() {
    let found = |more: Value| {
        let mut driver = fq(&with(json!({"limit": "9999p"}), &more));
        (0..500).for_each(|flow| offer(&mut driver, flow, 1));
        driver.gauge("flows")
    };
    assert_eq!(found(json!({})), 500.0);
    assert_eq!(found(json!({"orphans": true, "orphan_mask": 7})), 8.0);
    assert_eq!(found(json!({"orphans": true, "orphan_mask": 0x8010})), 4.0);
    // Of 1024 places 500 balls leave e^(-500/1024) empty.
    let expected = 1024.0 * (1.0 - libm::exp(-500.0 / 1024.0));
    assert!((found(json!({"orphans": true})) - expected).abs() < 25.0);
}

/// All that a run of many flows shows.
fn shown(table: Value) -> String {
    let mut driver = Driver::at_rate(table, Rate::from_bps(10_000_000), 5);
    let mut sent = Vec::new();
    for k in 0..8000_u64 {
        driver.now = Instant::from_nanos(k * 500_000);
        // Some come once, some again after a pause, and five always.
        let flow = match k as u32 % 14 {
            0 => 100 + k as u32 / 100,
            7 => 300 + k as u32 / 140 % 5,
            _ => k as u32 % 5,
        };
        let mut like = of(flow, [1000, 400, 1514][k as usize % 3]);
        like.ecn = if k % 5 == 0 { Ecn::NotEct } else { Ecn::Ect0 };
        driver.offer(like);
        if k % 3 != 0 && k % 3000 < 2500 {
            sent.extend(driver.take().map(|packet| packet.id));
        }
    }
    format!("{:?} {sent:?} {}", driver.fates.counts, driver.queue.tc_statistics(driver.now))
}

#[test]
fn every_parameter_does_something() {
    let base = json!({"kind": "fq", "maxrate": "1Mbps", "buckets": 16});
    let expected = shown(base.clone());
    let mut same = Vec::new();
    for more in [
        json!({"limit": "300p"}),
        json!({"flow_limit": "60p"}),
        json!({"quantum": "2000B"}),
        json!({"initial_quantum": "6000B"}),
        json!({"pacing": false, "maxrate": null}),
        json!({"maxrate": "2Mbps"}),
        json!({"low_rate_threshold": "2Mbps"}),
        json!({"refill_delay": "1s"}),
        json!({"ce_threshold": "5ms"}),
        json!({"orphans": true}),
        json!({"buckets": 256}),
    ] {
        if shown(with(base.clone(), &more)) == expected {
            same.push(more);
        }
    }
    assert!(same.is_empty(), "{same:?}");
    let orphans = with(base, &json!({"orphans": true}));
    assert_ne!(shown(with(orphans.clone(), &json!({"orphan_mask": 3}))), shown(orphans));
}

#[test]
fn defaults_and_what_tc_shows_of_them_are_the_kernels() {
    let options = |more: &Value| {
        let config = Config::read(with(json!({"kind": "fq"}), more)).unwrap();
        config.tc_options(Rate::from_bps(1_000_000)).unwrap()
    };
    assert_eq!(
        options(&json!({})),
        json!({
            "kind": "fq", "limit": 10_000, "flow_limit": 100, "buckets": 1024, "orphan_mask": 1023, "quantum": 3028,
            "initial_quantum": 15_140, "low_rate_threshold": 68_750, "refill_delay": 40_000, "timer_slack": 10_000,
            "horizon": 10_000_000, "horizon_drop": null,
        })
    );
    let later = options(&json!({"kernel": "6.18"}));
    assert_eq!([&later["bands"], &later["weights"]], [&json!(3), &json!([589_824, 196_608, 65_536])]);
    assert_eq!(later["priomap"], json!([1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]));
    let set = options(&json!({"maxrate": "8Mbps", "ce_threshold": "3ms", "buckets": 1000}));
    assert_eq!([&set["maxrate"], &set["ce_threshold"], &set["buckets"]], [1_000_000, 3000, 1024]);
    assert_eq!(options(&json!({"pacing": false}))["pacing"], false);
    let mut driver = fq(&json!({}));
    offer(&mut driver, 1, 1);
    assert_eq!(
        driver.queue.tc_statistics(driver.now),
        json!({"flows": 1, "inactive": 0, "gc": 0, "highprio": 0, "throttled": 0})
    );
}

#[test]
fn what_cannot_be_is_refused() {
    for more in [
        json!({"limit": "10kB"}),
        json!({"flow_limit": "0p"}),
        json!({"quantum": "0B"}),
        json!({"quantum": "2MB"}),
        json!({"initial_quantum": "3GB"}),
        json!({"maxrate": "40Gbps"}),
        json!({"maxrate": "1Mbps", "pacing": false}),
        json!({"low_rate_threshold": "40Gbps"}),
        json!({"buckets": 1}),
        json!({"buckets": 300_000}),
        json!({"timer_slack": "5s", "maxrate": "1Mbps"}),
        json!({"weights": [1, 2, 3], "kernel": "6.18"}),
        json!({"weights": [20_000, 20_000, 20_000]}),
        json!({"priomap": [0, 1, 2], "kernel": "6.18"}),
    ] {
        let config = Config::read(with(json!({"kind": "fq"}), &more)).unwrap();
        let problem = config.build(Rate::from_bps(1_000_000)).map(|_| ()).unwrap_err().first().to_string();
        assert!(more.as_object().unwrap().keys().any(|name| problem.starts_with(name.as_str())), "{problem}");
    }
}
