//! Service classes in a complete scenario: the service of each class, and its row in the tables.

use std::collections::BTreeMap;

use aqm_net::level::Run;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use aqm_testing::{real, whole, words};
use serde_json::{Value, json};

/// A call and a bulk transfer on an uplink with a shaper of 1 Mb/s before a link of 100 Mb/s.
fn uplink(priority: u32, limit: &str) -> Value {
    json!({
        "duration": "60s", "warm_up": "10s",
        "bottleneck": {
            "rate": "100Mbps", "delay": "10ms",
            "queue": {
                "kind": "htb", "default": "bulk",
                "classes": {
                    "uplink": {"rate": "1Mbps"},
                    "bulk": {
                        "parent": "uplink", "rate": "700kbps", "ceil": "1Mbps", "priority": 1, "quantum": "1500B",
                        "queue": {"kind": "drop-tail", "limit": limit},
                    },
                    "voice": {
                        "parent": "uplink", "rate": "300kbps", "ceil": "1Mbps", "priority": priority,
                        "quantum": "1500B", "match": {"dscp": [46]},
                    },
                },
            },
        },
        "traffic": {
            "bulk": {"kind": "ftp", "flows": 1},
            "call": {"kind": "udp", "rate": "80kbps", "sizes": {"kind": "constant", "value": "200B"}, "dscp": 46, "port": 5060},
        },
    })
}

fn run(value: Value) -> Run {
    Plan::of_value(value, BTreeMap::new()).unwrap().run(&Watch::default()).unwrap()
}

#[test]
fn a_call_in_its_own_class_hardly_waits_and_the_bulk_gets_the_rest() {
    let run = run(uplink(0, "50p"));
    assert_eq!(words(&run, "classes.class"), ["bulk", "voice"]);
    let [bulk, voice] = real(&run, "classes.throughput_bps") else { panic!("there are not two classes") };
    assert!((voice - 80e3).abs() < 1e3, "{voice}");
    assert!((bulk + voice - 1e6).abs() < 5e3, "{bulk}");
    let [bulk, voice] = real(&run, "classes.mean_queue_delay_s") else { panic!("there are not two classes") };
    // With its own tokens, a packet waits only for one other packet on the 100 Mb/s link.
    assert!(*voice < 0.2e-3, "{voice} s");
    assert!(*bulk > 0.2, "{bulk} s");
    assert_eq!(whole(&run, "classes.borrowed_bytes")[1], 0);
    assert!(
        whole(&run, "classes.borrowed_bytes")[0] > 1_000_000,
        "the bulk class borrows the rate that the call does not use"
    );
}

#[test]
fn the_classes_add_up_to_their_link() {
    let run = run(uplink(1, "5kB"));
    let sum = |path: &str| whole(&run, path).iter().sum::<u64>();
    for column in ["arrivals", "departures", "departed_bytes", "drops"] {
        assert_eq!(sum(&format!("classes.{column}")), sum(&format!("links.{column}")), "{column}");
    }
    assert!(sum("classes.drops") > 10);
    let waiting: f64 = real(&run, "classes.mean_queue_packets").iter().sum();
    assert!((waiting - real(&run, "links.mean_queue_packets")[0]).abs() < 1e-9);
}

#[test]
fn a_class_for_unknown_traffic_is_refused_and_suspicious_trees_cause_warnings() {
    let mut value = uplink(0, "50p");
    value["bottleneck"]["queue"]["classes"]["voice"]["match"] = json!({"traffic": ["phone"]});
    let error = Plan::of_value(value, BTreeMap::new()).unwrap_err().to_string();
    let expected = "bottleneck.queue.classes.voice.match.traffic: unknown workload `phone`;";
    assert!(error.starts_with(expected) && error.contains("call"), "{error}");
    let mut value = uplink(0, "50p");
    value["bottleneck"]["rate"] = json!("500kbps");
    let warnings = Plan::of_value(value, BTreeMap::new()).unwrap().warnings();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("bottleneck.queue.classes.uplink.rate: exceeds the link rate of 500kbps"));
}

#[test]
fn headers_out_of_range_are_refused() {
    for (key, value, problem) in [
        ("dscp", json!(64), "traffic.call.dscp: must be a whole number from 0 to 63 (got 64)"),
        ("port", json!("sip"), "traffic.call.port: must be a whole number from 0 to 65535 (got \"sip\")"),
    ] {
        let mut table = uplink(0, "50p");
        table["traffic"]["call"][key] = value;
        assert_eq!(Plan::of_value(table, BTreeMap::new()).unwrap_err().to_string(), problem);
    }
}
