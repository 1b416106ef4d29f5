//! The classification of packets as short or long: edges in a scenario, and their results.

use std::collections::BTreeMap;

use aqm_net::level::Run;
use aqm_net::table::Column;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use aqm_testing::gauge;
use serde_json::{Value, json};

/// Returns a scenario with a long flow and short flows over one link, with `changes`.
fn run(plan: &Plan) -> Run {
    plan.run(&Watch::default()).unwrap()
}

fn scenario(changes: Value) -> Plan {
    let mut value = json!({
        "duration": "20s",
        "seed": 3,
        "bottleneck": {"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "rio-ps", "limit": "60p"}},
        "tcp": {"profile": "ns-2.35"},
        "traffic": {
            "long": {"kind": "ftp", "flows": 1},
            "short": {"kind": "probes", "flows": 3, "size": "10p", "every": "2s"},
        },
    });
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    Plan::of_value(value, BTreeMap::new()).unwrap()
}

fn whole(found: &Run, table: &str, column: &str) -> Vec<u64> {
    let table = found.tables.iter().find(|one| one.name == table).unwrap();
    match &table.columns.iter().find(|(name, _)| *name == column).unwrap().1 {
        Column::Whole(values) => values.clone(),
        _ => panic!("{column} has no whole numbers"),
    }
}

fn error(changes: Value) -> String {
    let mut value = scenario(json!({})).to_value();
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    Plan::of_value(value, BTreeMap::new()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_queue_that_needs_classes_gets_an_edge_at_every_node_with_hosts() {
    let rio = scenario(json!({}));
    let nodes = |scenario: &Plan| {
        let edges = scenario.to_value()["edges"].clone();
        edges.as_object().map(|edges| edges.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(nodes(&rio), Some(vec!["left".to_owned(), "right".to_owned()]));
    assert_eq!(run(&rio).manifest["edges_added"], true);
    let red = scenario(json!({"bottleneck": {"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "red"}}}));
    assert_eq!(nodes(&red), None);
    assert!(gauge(&run(&red), "flows").is_empty());
    let own = scenario(json!({"edges": {"left": {"kind": "sfd"}}}));
    assert_eq!(
        (nodes(&own), run(&own).manifest["edges_added"].clone()),
        (Some(vec!["left".to_owned()]), json!(false))
    );
}

#[test]
fn packets_beyond_a_static_threshold_are_long() {
    // Ten data packets and a SYN: four are short, and the others that arrive are long.
    let edge = json!({"kind": "short-flows", "threshold_rule": "static", "threshold": 4, "expiry": "1000s"});
    let found = run(&scenario(json!({"edges": {"left": edge}})));
    let long = whole(&found, "transfers", "packets_long");
    let sent = whole(&found, "transfers", "packets_sent");
    let dropped = whole(&found, "transfers", "packets_dropped");
    let repaired = whole(&found, "transfers", "retransmitted");
    let clean: Vec<usize> = (0..long.len()).filter(|&k| dropped[k] == 0 && repaired[k] == 0).collect();
    assert!(clean.len() > 10, "{dropped:?}");
    // Packets from the receiver are counted as sent, too, but travel in the other direction.
    assert!(clean.iter().all(|&k| long[k] == 11 - 4), "{long:?} of {sent:?}");
    assert_eq!(gauge(&found, "evicted").iter().sum::<f64>(), 0.0);
    assert!(gauge(&found, "flows").last() >= Some(&30.0));
}

#[test]
fn without_an_edge_nothing_is_long() {
    let red = json!({"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "60p"}});
    let found = run(&scenario(json!({"bottleneck": red})));
    assert_eq!(whole(&found, "transfers", "packets_long").iter().sum::<u64>(), 0);
}

#[test]
fn an_edge_has_no_effect_if_no_queue_reads_classes() {
    let red =
        json!({"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "red", "limit": "60p", "max_th": "50p"}});
    let without = run(&scenario(json!({"bottleneck": red})));
    let with = run(&scenario(json!({"bottleneck": red, "edges": {"left": {"kind": "short-flows"}}})));
    for (table, column) in [("flows", "delivered_bytes"), ("flows", "packets_dropped"), ("queue", "arrivals")]
    {
        assert_eq!(whole(&with, table, column), whole(&without, table, column), "{table}.{column}");
    }
}

#[test]
fn edges_at_unknown_nodes_and_invalid_edges_are_refused() {
    let text = error(json!({"edges": {"middle": {"kind": "short-flows"}}}));
    assert!(text.starts_with("edges.middle: is not a node of any link"), "{text}");
    let text = error(json!({"edges": {"left": {"kind": "short-flows", "step": 0}}}));
    assert!(text.starts_with("edges.left.step: "), "{text}");
    let text = error(json!({"edges": {"left": {"kind": "dscp"}}}));
    assert!(text.starts_with("edges.left.kind: ") && text.contains("short-flows"), "{text}");
}
