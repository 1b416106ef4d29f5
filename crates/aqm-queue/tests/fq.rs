//! fq: order of service, pacing, marking, and the memory of idle flows.

use aqm_net::{Ecn, Instant, Packet, Rate};
use aqm_queue::testing::{Driver, ect, packet};
use aqm_queue::{Config, Label, Protocol, Reason};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// An fq with a timer without slack.
fn fq(more: &Value) -> Driver {
    let exact = if more.get("maxrate").is_some() { json!({"timer_slack": "0s"}) } else { json!({}) };
    Driver::new(with(with(json!({"kind": "fq"}), &exact), more), 1)
}

/// An fq as since Linux 6.7. Packets of the labels 0, 1 and 2 are in the bands of the same numbers.
fn banded(more: &Value) -> Driver {
    let mut driver = fq(&with(json!({"kernel": "6.18"}), more));
    for (number, dscp) in [(0, 12), (1, 0), (2, 10)] {
        let label = Label { traffic: format!("{number}"), protocol: Protocol::Udp, port: 0, dscp };
        driver.queue.on_label(number, &label);
    }
    driver
}

/// Offers `count` full packets of a flow with this label.
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

/// Offers `count` full packets of this flow.
fn offer(driver: &mut Driver, flow: u32, count: usize) {
    (0..count).for_each(|_| {
        driver.offer(of(flow, 1514));
    });
}

fn flows(driver: &mut Driver, count: usize) -> Vec<u32> {
    (0..count).map_while(|_| driver.take()).map(|packet| packet.flow).collect()
}

/// Dequeues all packets on an infinitely fast link as early as possible. Returns flows and departure times in
/// microseconds.
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

fn statistic(driver: &Driver, name: &str) -> u64 {
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
fn a_new_flow_is_served_before_old_flows() {
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
    let fates: Vec<_> = driver.fates.list.iter().map(|fate| (fate.packet.flow, fate.why)).collect();
    let (flow, queue) = (Reason::FlowLimit, Reason::Overflow);
    assert_eq!(fates, [(1, flow), (2, flow), (3, queue), (3, queue), (3, queue), (3, queue)]);
    assert_eq!(statistic(&driver, "flows_plimit"), 2);
}

/// The bytes that a flow sends before another backlogged flow, after a first packet of `first` bytes and a pause.
fn after_pause(first: u16, pause_ms: u64) -> usize {
    let mut driver = fq(&json!({"initial_quantum": "2000B"}));
    driver.offer(of(1, first));
    driver.take();
    // The flow is found empty only if another packet is queued.
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
fn the_deficit_is_refilled_after_a_pause_unless_it_is_negative() {
    // 500 of 2000 bytes are left. After 40 ms, the deficit is 3028 again.
    assert_eq!([after_pause(1500, 40), after_pause(1500, 41)], [5, 31]);
    // A new flow with a negative deficit gets a quantum and joins the old flows.
    assert_eq!([after_pause(2500, 40), after_pause(2500, 41)], [26, 26]);
}

#[test]
fn a_paced_flow_sends_at_its_rate_a_quantum_at_a_time() {
    // 3028 B at 8 Mb/s take 3.028 ms.
    let mut driver = fq(&json!({"maxrate": "8Mbps"}));
    offer(&mut driver, 1, 16);
    let expected: Vec<_> = [[0; 10].as_slice(), &[3028; 2], &[6056; 2], &[9084; 2]].concat();
    assert_eq!(paced(&mut driver), expected.iter().map(|at| (1, *at)).collect::<Vec<_>>());
    assert_eq!(statistic(&driver, "throttled"), 3);
    // In the long term, the rate is that of the flow, for any packet sizes.
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
    // 1514 B at 500 kb/s. At 600 kb/s, all four packets are within the initial quantum.
    assert_eq!(run("500kbps"), [0, 24_224, 48_448, 72_672]);
    assert_eq!(run("600kbps"), [0; 4]);
    let mut driver = fq(&json!({"maxrate": "600kbps", "low_rate_threshold": "1Mbps"}));
    offer(&mut driver, 1, 2);
    assert_eq!(paced(&mut driver)[1], (1, 20_186));
}

#[test]
fn no_flow_pauses_for_longer_than_a_second() {
    let mut driver = fq(&json!({"maxrate": "8kbps"}));
    offer(&mut driver, 1, 3);
    assert_eq!(paced(&mut driver), [(1, 0), (1, 1_000_000), (1, 2_000_000)]);
    assert_eq!(statistic(&driver, "pkts_too_long"), 3);
}

#[test]
fn a_late_flow_pauses_for_less_but_at_least_for_half() {
    // Each flow pauses for 24.224 ms after a packet.
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
fn other_flows_send_during_a_pause_and_throttled_flows_return_in_order_of_time() {
    let mut driver = fq(&json!({"maxrate": "500kbps"}));
    offer(&mut driver, 1, 2);
    driver.take();
    driver.now = at_micros(4000);
    offer(&mut driver, 2, 2);
    assert_eq!(flows(&mut driver, 2), [2]);
    assert_eq!([driver.gauge("flows"), driver.gauge("throttled_flows")], [2.0, 2.0]);
    assert_eq!(
        (driver.queue.next_ready(), statistic(&driver, "next_packet_delay")),
        (Some(at_micros(24_224)), 20_224_000)
    );
    driver.now = at_micros(5000);
    offer(&mut driver, 3, 1);
    assert_eq!(flows(&mut driver, 2), [3]);
    // Both may send by then, in the order of their times.
    driver.now = at_micros(30_000);
    assert_eq!(flows(&mut driver, 3), [1, 2]);
    // An eighth of 30 - 24.224 ms.
    assert_eq!(statistic(&driver, "latency"), 722_000);
}

#[test]
fn a_pause_ends_late_by_the_timer_slack_unless_a_packet_arrives_earlier() {
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
fn since_linux_6_7_up_to_eight_packets_take_the_fast_path_if_no_flow_is_backlogged() {
    let mut driver = banded(&json!({"ce_threshold": "1ms"}));
    (1..=8).for_each(|flow| {
        driver.offer(Packet { flow, ..ect(1514) });
    });
    assert_eq!((statistic(&driver, "fastpath"), statistic(&driver, "flows")), (8, 0));
    offer(&mut driver, 3, 2);
    assert_eq!(
        (statistic(&driver, "fastpath"), statistic(&driver, "flows"), statistic(&driver, "inactive")),
        (8, 1, 0)
    );
    // All other packets bypass the fast path while a flow is backlogged.
    driver.now = at_micros(5000);
    assert_eq!(flows(&mut driver, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    offer(&mut driver, 1, 1);
    assert_eq!((statistic(&driver, "fastpath"), statistic(&driver, "flows")), (8, 2));
    assert_eq!(flows(&mut driver, 4), [3, 3, 1]);
    assert_eq!(
        (driver.fates.counts.marks, statistic(&driver, "ce_mark")),
        (0, 2),
        "no marks on the fast path"
    );
    offer(&mut driver, 9, 1);
    assert_eq!((statistic(&driver, "fastpath"), statistic(&driver, "inactive")), (9, 2));
    let mut paced = banded(&json!({"maxrate": "1Mbps"}));
    offer(&mut paced, 1, 1);
    assert_eq!((statistic(&paced, "fastpath"), statistic(&paced, "flows")), (0, 1));
}

#[test]
fn since_linux_6_7_bands_share_the_link_by_weight_and_the_limit_applies_to_each() {
    let mut driver = banded(&json!({"flow_limit": "5000p"}));
    (0..3).for_each(|band| offer_in_band(&mut driver, 1 + u32::from(band), band, 4000));
    // Four rounds of 13 * 65,536 bytes.
    let sent = flows(&mut driver, 4 * 13 * 65_536 / 1514);
    let share = |flow| sent.iter().filter(|sender| **sender == flow).count() as f64 / sent.len() as f64;
    for (flow, weight) in [(1, 9.0), (2, 3.0), (3, 1.0)] {
        assert!((share(flow) - weight / 13.0).abs() < 0.02, "{flow}: {}", share(flow));
    }
    let mut driver = banded(&json!({"limit": "10p"}));
    // Eight packets are on the fast path.
    offer_in_band(&mut driver, 1, 1, 30);
    offer_in_band(&mut driver, 2, 0, 12);
    let counts = ["band0_pkts", "band1_pkts", "band2_pkts", "band0_drops", "band1_drops"];
    assert_eq!(counts.map(|name| statistic(&driver, name)), [10, 10, 0, 2, 12]);
    assert_eq!((driver.queue.backlog().packets, driver.fates.counts.overflow), (28, 14));
}

#[test]
fn since_linux_6_7_an_arrival_removes_idle_flows_of_its_bucket() {
    let mut driver = banded(&json!({"buckets": 2, "maxrate": "30Gbps"}));
    let visit = |driver: &mut Driver, flow: u32| {
        offer(driver, flow, 1);
        driver.take();
    };
    (0..9).for_each(|flow| visit(&mut driver, flow));
    // Empty flows are found when another flow of the band has sent its first ten packets.
    offer(&mut driver, 100, 30);
    paced(&mut driver);
    assert_eq!((statistic(&driver, "flows"), statistic(&driver, "gc")), (10, 0));
    driver.now = at_micros(4_000_000);
    (200..202).for_each(|flow| visit(&mut driver, flow));
    assert!(statistic(&driver, "gc") > 0 && statistic(&driver, "gc") + statistic(&driver, "flows") == 12);
}

#[test]
fn without_a_rate_or_without_pacing_no_packet_is_delayed() {
    for more in [json!({}), json!({"pacing": false})] {
        let mut driver = fq(&more);
        offer(&mut driver, 1, 100);
        assert_eq!(flows(&mut driver, 100).len(), 100);
        let config = Config::read(with(json!({"kind": "fq"}), &more)).unwrap();
        assert!(!config.holds_back());
    }
}

#[test]
fn late_packets_are_marked_if_ecn_capable_and_always_counted() {
    let mut driver = fq(&json!({"ce_threshold": "5ms"}));
    for like in [ect(1000), packet(1000), ect(1000)] {
        driver.offer(like);
    }
    driver.now = at_micros(5000);
    assert_eq!(driver.take().unwrap().ecn, Ecn::Ect0);
    driver.now = at_micros(5001);
    assert_eq!(driver.take().unwrap().ecn, Ecn::NotEct);
    assert_eq!(driver.take().unwrap().ecn, Ecn::Ce);
    assert_eq!((statistic(&driver, "ce_mark"), driver.fates.counts.marks), (2, 1));
    assert_eq!(driver.fates.list[0].why, Reason::CeThreshold);
    // A pause by pacing is not a delay.
    let mut driver = fq(&json!({"ce_threshold": "5ms", "maxrate": "500kbps"}));
    (0..3).for_each(|_| {
        driver.offer(ect(1514));
    });
    assert_eq!(paced(&mut driver).len(), 3);
    assert_eq!(statistic(&driver, "ce_mark"), 0);
}

/// Sends a packet of each of these flows, one after the other, and returns the numbers of remembered flows.
fn visitors(driver: &mut Driver, flows: std::ops::Range<u32>) -> [u64; 3] {
    for flow in flows {
        driver.offer(of(flow, 60));
        driver.take();
    }
    ["flows", "inactive", "gc"].map(|name| statistic(driver, name))
}

#[test]
fn idle_flows_are_remembered_for_three_seconds_and_while_the_table_has_space() {
    let mut driver = fq(&json!({"buckets": 16}));
    // The last flow has not been found empty yet.
    assert_eq!(visitors(&mut driver, 0..100), [100, 99, 0]);
    driver.now = at_micros(3_000_000);
    assert_eq!(visitors(&mut driver, 100..101), [101, 100, 0]);
    driver.now = at_micros(3_000_001);
    assert_eq!(visitors(&mut driver, 101..102), [94, 93, 8]);
    // Down to two flows per bucket.
    let [left, _, removed] = visitors(&mut driver, 102..140);
    assert!((32..45).contains(&left) && left + removed == 140, "{left} {removed}");
    let mut many = fq(&json!({"buckets": 1000}));
    visitors(&mut many, 0..2047);
    many.now = at_micros(4_000_000);
    assert_eq!(visitors(&mut many, 2047..2048)[2], 0);
    assert_eq!(visitors(&mut many, 2048..2049)[2], 8);
}

#[test]
fn a_forgotten_flow_is_new_again() {
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
    assert_eq!((statistic(&driver, "gc"), first_of_ten(&mut driver)), (4, 10));
    let mut remembered = fq(&json!({}));
    visitors(&mut remembered, 0..8);
    // The flow has sent 60 bytes of its ten packets.
    assert_eq!(first_of_ten(&mut remembered), 10);
    visitors(&mut remembered, 0..8);
    assert_eq!(first_of_ten(&mut remembered), 2);
}

#[test]
fn a_flow_that_returns_is_not_forgotten_but_other_idle_flows_are() {
    let mut driver = fq(&json!({"buckets": 2}));
    assert_eq!(visitors(&mut driver, 0..5), [5, 4, 0]);
    driver.now = at_micros(3_000_001);
    // The flow has been idle longest and has a deficit of 15,080 bytes left.
    offer(&mut driver, 0, 1);
    assert_eq!(["flows", "gc"].map(|name| statistic(&driver, name)), [5, 0]);
    offer(&mut driver, 9, 1);
    assert_eq!(["flows", "gc"].map(|name| statistic(&driver, name)), [3, 3]);
}

#[test]
fn packets_without_a_socket_share_the_flows_of_a_mask() {
    let flows = |more: Value| {
        let mut driver = fq(&with(json!({"limit": "9999p"}), &more));
        (0..500).for_each(|flow| offer(&mut driver, flow, 1));
        driver.gauge("flows")
    };
    assert_eq!(flows(json!({})), 500.0);
    assert_eq!(flows(json!({"orphans": true, "orphan_mask": 7})), 8.0);
    assert_eq!(flows(json!({"orphans": true, "orphan_mask": 0x8010})), 4.0);
    // Of 1024 bins, 500 balls leave a fraction of e^(-500/1024) empty.
    let expected = 1024.0 * (1.0 - libm::exp(-500.0 / 1024.0));
    assert!((flows(json!({"orphans": true})) - expected).abs() < 25.0);
}

/// All reports of a run with many flows.
fn shown(table: Value) -> String {
    let mut driver = Driver::at_rate(table, Rate::from_bps(10_000_000), 5);
    let mut sent = Vec::new();
    for k in 0..8000_u64 {
        driver.now = Instant::from_nanos(k * 500_000);
        // Some flows send once, some again after a pause, and five always.
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
fn every_parameter_has_an_effect() {
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
fn defaults_and_their_tc_options_are_those_of_the_kernel() {
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
fn invalid_parameters_are_rejected() {
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
