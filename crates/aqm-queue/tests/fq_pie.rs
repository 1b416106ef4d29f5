//! FQ-PIE: order of service, drops, and the effect of each parameter.

use aqm_net::{Instant, Packet, Rate};
use aqm_queue::testing::{Driver, packet};
use aqm_queue::{Config, Reason};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn fq_pie(more: &Value) -> Value {
    with(json!({"kind": "fq-pie", "flows": 65536}), more)
}

fn of(flow: u32, bytes: u16) -> Packet {
    Packet { flow, ..packet(bytes) }
}

#[test]
fn a_full_queue_drops_arriving_packets() {
    // ns-3 drops two packets from the head of the longer flow instead, as in FQ-CoDel.
    let mut driver = Driver::new(fq_pie(&json!({"limit": "4p"})), 1);
    assert!((0..3).all(|_| !driver.offer(of(1, 120))));
    assert!(!driver.offer(of(2, 120)));
    assert!(driver.offer(of(2, 120)));
    let fates = &driver.fates.list;
    assert_eq!((fates.len(), fates[0].packet.id, fates[0].why), (1, 4, Reason::Overflow));
    let statistics = driver.queue.tc_statistics(driver.now);
    assert_eq!((&statistics["overlimit"], &statistics["dropped"]), (&json!(1), &json!(1)));
}

#[test]
fn flows_take_turns_as_in_ns_3() {
    // A quantum of 90 bytes and packets of 120, from ns-3's test suite.
    let mut driver = Driver::new(fq_pie(&json!({"quantum": "90B"})), 1);
    driver.offer(of(1, 120));
    let mut order = vec![driver.take().unwrap().flow];
    for flow in [1, 1, 2, 2] {
        driver.offer(of(flow, 120));
    }
    order.extend((0..4).map(|_| driver.take().unwrap().flow));
    assert_eq!(order, [1, 2, 1, 2, 1]);
    let lengths = |driver: &Driver| ["new_flows_len", "old_flows_len"].map(|name| driver.gauge(name));
    assert_eq!(lengths(&driver), [0.0, 2.0]);
    assert_eq!(driver.take(), None);
    assert_eq!(lengths(&driver), [0.0, 0.0]);
    assert_eq!(driver.queue.tc_statistics(driver.now)["new_flow_count"], 2);
}

#[test]
fn only_the_backlogged_flow_is_dropped() {
    // One flow sends twice the link rate, and the other a tenth.
    let mut driver = Driver::new(fq_pie(&json!({})), 1);
    let mut drops = [0, 0];
    for k in 0..40_000_u64 {
        driver.now = Instant::from_nanos(k * 500_000);
        let flow = u32::from(k % 20 == 0);
        drops[flow as usize] += u32::from(driver.offer(of(flow, 1000)));
        if k % 2 == 0 {
            driver.take();
        }
    }
    assert!(drops[0] > 10_000 && drops[1] == 0, "{drops:?}");
}

#[test]
fn memory_above_the_limit_is_only_counted() {
    let run = |memory: &str| {
        let mut driver = Driver::new(fq_pie(&json!({"memory_limit": memory})), 1);
        (0..30).for_each(|_| {
            driver.offer(of(1, 1514));
        });
        (driver.fates.list.len(), driver.queue.tc_statistics(driver.now)["overmemory"].clone())
    };
    // 2304 bytes each. The 13th packet exceeds 23040 bytes plus the memory of the arriving packet.
    assert_eq!(run("23040B"), (0, json!(18)));
    assert_eq!(run("32MB"), (0, json!(0)));
}

/// All reports of a run with five flows.
fn shown(table: Value) -> String {
    let mut driver = Driver::at_rate(table, Rate::from_bps(10_000_000), 5);
    let mut sent = Vec::new();
    for k in 0..16_000_u64 {
        driver.now = Instant::from_nanos(k * 400_000);
        let mut like = of([0, 0, 0, 1, 1, 2, 3, 4][k as usize % 8], [1000, 400, 1514][k as usize % 3]);
        like.ecn = if k % 5 == 0 { aqm_net::Ecn::NotEct } else { aqm_net::Ecn::Ect0 };
        driver.offer(like);
        if k % 3 != 0 && k % 7000 < 6500 {
            sent.extend(driver.take().map(|packet| packet.id));
        }
    }
    format!("{:?} {sent:?} {}", driver.fates.counts, driver.queue.tc_statistics(driver.now))
}

#[test]
fn every_parameter_has_an_effect() {
    // ns-3's implementation once ignored its attributes.
    let base = fq_pie(&json!({"ecn": true}));
    let expected = shown(base.clone());
    for more in [
        json!({"limit": "60p"}),
        json!({"flows": 2}),
        json!({"target": "20ms"}),
        json!({"tupdate": "20ms"}),
        json!({"alpha": 0.25}),
        json!({"beta": 1.0}),
        json!({"quantum": "300B"}),
        json!({"memory_limit": "20kB"}),
        json!({"ecn": false}),
        json!({"ecn_prob": 30}),
        json!({"bytemode": true}),
        json!({"dq_rate_estimator": true}),
        json!({"max_burst": "1s"}),
        json!({"mtu": "9kB"}),
        json!({"hz": 250}),
    ] {
        assert_ne!(shown(with(base.clone(), &more)), expected, "{more}");
    }
    let estimated = with(base, &json!({"dq_rate_estimator": true}));
    let threshold = with(estimated.clone(), &json!({"dq_threshold": "5kB"}));
    assert_ne!(shown(threshold), shown(estimated));
}

#[test]
fn defaults_and_their_tc_options_are_those_of_the_kernel() {
    let options = |more: &Value| {
        let config = Config::read(with(json!({"kind": "fq-pie"}), more)).unwrap();
        config.tc_options(Rate::from_bps(1_000_000)).unwrap()
    };
    assert_eq!(
        options(&json!({})),
        json!({
            "kind": "fq_pie", "limit": 10_240, "flows": 1024, "target": 15_000, "tupdate": 15_000, "alpha": 2,
            "beta": 20, "quantum": 1514, "memory_limit": 33_554_432, "ecn_prob": 10,
        })
    );
    assert_eq!(options(&json!({"ecn": true}))["ecn"], true);
    let mut driver = Driver::new(fq_pie(&json!({})), 1);
    driver.offer(of(1, 1514));
    assert_eq!(
        driver.queue.tc_statistics(driver.now),
        json!({
            "pkts_in": 1, "overlimit": 0, "overmemory": 0, "dropped": 0, "ecn_mark": 0, "new_flow_count": 1,
            "new_flows_len": 1, "old_flows_len": 0, "memory_used": 2304,
        })
    );
}

#[test]
fn invalid_parameters_are_rejected() {
    for more in [
        json!({"limit": "10kB"}),
        json!({"flows": 0}),
        json!({"flows": 65_537}),
        json!({"quantum": "0B"}),
        json!({"memory_limit": "0B"}),
        json!({"ecn_prob": 100}),
        json!({"alpha": 0.1}),
        json!({"target": "0s"}),
    ] {
        let config = Config::read(with(json!({"kind": "fq-pie"}), &more)).unwrap();
        let problem = config.build(Rate::from_bps(1_000_000)).map(|_| ()).unwrap_err().first().to_string();
        assert!(problem.starts_with(more.as_object().unwrap().keys().next().unwrap().as_str()), "{problem}");
    }
}
