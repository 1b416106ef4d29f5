//! The history of a flow: packets sent and received at its ends, and drops. Recording histories changes no results.

use crate::common::{maybe_real, maybe_whole, maybe_words, nanos, real, run, truth, whole, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

fn small(record: Value) -> Value {
    json!({
        "duration": "30s",
        "seed": 4,
        "bottleneck": { "rate": "1Mbps", "delay": "20ms", "queue": { "kind": "drop-tail", "limit": "8p" } },
        "tcp": { "recovery": { "kind": "sack" } },
        "record": record,
        "traffic": {
            "files": { "kind": "ftp", "flows": 3, "sizes": { "kind": "constant", "value": "200kB" }, "stagger": "1s" },
            "web": { "kind": "web", "load": 0.3, "objects": { "kind": "constant", "value": 2 }, "request": "300B" },
            "burst": { "kind": "udp", "rate": "800kbps", "sizes": { "kind": "constant", "value": "2000B" }, "start": "1s", "lasts": "5s" },
        },
    })
}

/// A row of the table `packets`.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    at: u64,
    link: Option<String>,
    event: String,
    flow: u64,
    backward: bool,
    sequence: u64,
    payload: u64,
}

fn rows(found: &Run) -> Vec<Row> {
    let (links, events) = (maybe_words(found, "packets.link"), words(found, "packets.event"));
    let row = |index: usize| Row {
        at: nanos(real(found, "packets.time_s")[index]),
        link: links[index].clone(),
        event: events[index].clone(),
        flow: whole(found, "packets.flow")[index],
        backward: truth(found, "packets.backward")[index],
        sequence: whole(found, "packets.sequence_bytes")[index],
        payload: whole(found, "packets.payload_bytes")[index],
    };
    (0..events.len()).map(row).collect()
}

/// Returns the numbers of the flows of a workload.
fn flows_of(found: &Run, workload: &str) -> Vec<u64> {
    let of = words(found, "flows.traffic").into_iter().zip(whole(found, "flows.flow"));
    of.filter(|(name, _)| name == workload).map(|(_, &flow)| flow).collect()
}

fn count(rows: &[Row], event: &str, flow: u64) -> usize {
    rows.iter().filter(|row| row.event == event && row.flow == flow && !row.backward).count()
}

#[test]
fn histories_are_those_of_the_flows_asked_for_in_the_order_of_time() {
    let found = run(small(json!({ "histories": ["files"] })));
    let (rows, flows) = (rows(&found), flows_of(&found, "files"));
    assert!(rows.len() > 1000 && rows.iter().all(|row| flows.contains(&row.flow)));
    assert!(rows.is_sorted_by_key(|row| row.at));
    assert!(rows.iter().all(|row| row.link.is_some() == (row.event == "drop")));
    assert!(rows.iter().all(|row| row.backward || !["acknowledge", "sack"].contains(&row.event.as_str())));
    for event in ["send", "retransmit", "receive", "acknowledge", "sack", "drop"] {
        assert!(rows.iter().any(|row| row.event == event), "{event}");
    }
}

#[test]
fn what_an_end_sent_is_what_its_flow_counts() {
    let found = run(small(json!({ "histories": ["files", "web", "burst"] })));
    let rows = rows(&found);
    for (index, &flow) in whole(&found, "flows.flow").iter().enumerate() {
        let of = |column: &str| whole(&found, &format!("flows.{column}"))[index];
        let syns = rows.iter().filter(|row| row.flow == flow && !row.backward && row.event == "retransmit");
        let syns = syns.filter(|row| (row.sequence, row.payload) == (0, 0)).count();
        assert_eq!((count(&rows, "retransmit", flow) - syns) as u64, of("retransmitted"), "{flow}");
        // A bare acknowledgement, including that of a SYN or a FIN, is a sent packet without a `send` event.
        let sent = (count(&rows, "send", flow) + count(&rows, "retransmit", flow)) as u64;
        assert!(sent <= of("packets_sent") && of("packets_sent") <= sent + 4, "{flow}");
        assert_eq!(count(&rows, "drop", flow) as u64, of("packets_dropped"), "{flow}");
    }
}

#[test]
fn a_byte_is_sent_once_and_everything_sent_again_was_sent_before() {
    let found = run(small(json!({ "histories": ["files"] })));
    let rows = rows(&found);
    for flow in flows_of(&found, "files") {
        let (mut next, mut acknowledged, mut received) = (0, 0, 0);
        for row in rows.iter().filter(|row| row.flow == flow) {
            match (row.event.as_str(), row.backward) {
                ("send", false) => {
                    assert_eq!(row.sequence, next);
                    next += row.payload;
                }
                ("retransmit", false) => assert!(row.sequence + row.payload <= next),
                ("receive", false) => received = received.max(row.sequence + row.payload),
                ("acknowledge", true) => {
                    assert!(row.payload == 0 && row.sequence >= acknowledged && row.sequence <= received + 1);
                    acknowledged = row.sequence;
                }
                ("sack", true) => assert!(row.payload > 0 && row.sequence + row.payload <= received + 1),
                _ => {}
            }
        }
        // The FIN has the sequence number after the data.
        assert_eq!((next, acknowledged), (200_000, 200_001), "{flow}");
    }
}

#[test]
fn a_request_goes_against_the_data() {
    let found = run(small(json!({ "histories": ["web"] })));
    let rows = rows(&found);
    for flow in flows_of(&found, "web") {
        let mut asked = rows.iter().filter(|row| row.flow == flow && row.event == "send" && row.backward);
        assert_eq!(asked.next().unwrap().payload, 0, "the client's SYN");
        assert_eq!(asked.next().unwrap().payload, 300, "its request");
    }
}

#[test]
fn datagrams_are_numbered_and_each_arrives_or_falls() {
    let found = run(small(json!({ "histories": ["burst"] })));
    let (rows, flow) = (rows(&found), flows_of(&found, "burst")[0]);
    let sent: Vec<u64> = rows.iter().filter(|row| row.event == "send").map(|row| row.sequence).collect();
    assert_eq!(sent, (0..250).collect::<Vec<u64>>());
    let mut fate: Vec<u64> = ["receive", "drop"]
        .iter()
        .flat_map(|event| rows.iter().filter(move |row| row.event == **event).map(|row| row.sequence))
        .collect();
    fate.sort_unstable();
    assert_eq!(fate, sent);
    let received = maybe_whole(&found, "flows.datagrams_received");
    assert_eq!(received[flow as usize], Some(count(&rows, "receive", flow) as u64));
    assert!(count(&rows, "drop", flow) > 10);
    let numbers = flows_of(&found, "files").into_iter().chain(flows_of(&found, "web"));
    assert!(numbers.into_iter().all(|flow| received[flow as usize].is_none()));
}

#[test]
fn datagrams_are_counted_from_the_end_of_the_warm_up() {
    let received = |warm_up: &str| {
        let mut value = small(json!({ "histories": ["burst"] }));
        value["warm_up"] = warm_up.into();
        let found = run(value);
        let flow = flows_of(&found, "burst")[0];
        let counted = maybe_whole(&found, "flows.datagrams_received")[flow as usize].unwrap();
        (counted, rows(&found))
    };
    let (all, rows) = received("0s");
    let late = rows.iter().filter(|row| row.event == "receive" && row.at > 3_000_000_000).count() as u64;
    assert!(0 < late && late < all);
    assert_eq!(received("3s").0, late);
    assert_eq!(received("29s").0, 0);
}

#[test]
fn a_drop_that_link_and_history_ask_for_is_one_row() {
    let records = [
        json!({ "histories": ["files"] }),
        json!({ "packets": ["bottleneck"] }),
        json!({ "histories": ["files"], "packets": ["bottleneck"] }),
    ];
    for queue in [json!({ "kind": "drop-tail", "limit": "8p" }), json!({ "kind": "drr", "limit": "8p" })] {
        let [history, link, both] = records.each_ref().map(|record| {
            let mut value = small(record.clone());
            value["bottleneck"]["queue"] = queue.clone();
            run(value)
        });
        let drops =
            |found: &Run| -> Vec<Row> { rows(found).into_iter().filter(|row| row.event == "drop").collect() };
        let of_files = flows_of(&history, "files");
        let own = drops(&link).into_iter().filter(|row| of_files.contains(&row.flow)).collect::<Vec<Row>>();
        assert!(own.len() > 10);
        assert_eq!(drops(&history), own);
        assert_eq!(drops(&both), drops(&link));
        assert_eq!(drops(&link).len() as u64, whole(&link, "links.drops")[0], "{queue}");
        assert_eq!(rows(&both).len(), rows(&history).len() + rows(&link).len() - own.len());
        // Queue lengths are only known at links in `record.packets`.
        let known = |found: &Run| maybe_whole(found, "packets.length_packets").iter().flatten().count();
        assert_eq!((known(&history), known(&both)), (0, known(&link)));
        assert!(known(&link) > 1000);
    }
}

#[test]
fn recording_histories_changes_nothing() {
    let [unseen, seen] = [json!([]), json!(["files", "web", "burst"])]
        .map(|histories| run(small(json!({ "histories": histories }))));
    for (ours, theirs) in unseen.tables.iter().zip(&seen.tables).filter(|(table, _)| table.name != "packets")
    {
        assert!(ours == theirs, "{} differs", ours.name);
    }
    assert!(rows(&unseen).is_empty());
}

#[test]
fn a_transfer_is_acknowledged_when_its_sender_hears_of_its_last_byte() {
    let found = run(small(json!({ "histories": ["files", "web"] })));
    let rows = rows(&found);
    let mut acknowledged = 0;
    for (index, &flow) in whole(&found, "transfers.flow").iter().enumerate() {
        let start = nanos(real(&found, "transfers.start_s")[index]);
        let size = whole(&found, "transfers.size_bytes")[index];
        let heard = |row: &&Row| row.flow == flow && row.event == "acknowledge" && row.sequence >= size;
        let expected = rows.iter().find(heard).map(|row| row.at - start);
        let of = |column: &str| maybe_real(&found, &format!("transfers.{column}"))[index].map(nanos);
        assert_eq!(of("acknowledged_s"), expected, "{flow}");
        if let (Some(last), Some(known)) = (of("duration_s"), expected) {
            // The link, and two access links of 1 ms.
            assert!(known > last + 22_000_000, "{flow}");
            acknowledged += 1;
        }
    }
    assert!(acknowledged > 20, "{acknowledged}");
}

#[test]
fn a_transfer_whose_last_acknowledgement_is_under_way_is_complete_but_not_acknowledged() {
    let mut value = small(json!({ "histories": ["files"] }));
    value["traffic"] = json!({ "files": { "kind": "ftp", "sizes": { "kind": "constant", "value": "5kB" }, "stagger": "0s" } });
    let until = |value: &Value| {
        let found = run(value.clone());
        (maybe_real(&found, "transfers.duration_s")[0], maybe_real(&found, "transfers.acknowledged_s")[0])
    };
    let (Some(last), Some(known)) = until(&value) else { panic!("it was done in time") };
    value["duration"] = format!("{}ns", nanos((last + known) / 2.0)).into();
    assert_eq!(until(&value), (Some(last), None));
}

#[test]
fn conversations_have_no_moment_of_acknowledgement() {
    let found = run(json!({
        "duration": "20s",
        "bottleneck": { "rate": "2Mbps", "delay": "10ms", "queue": { "kind": "drop-tail", "limit": "40p" } },
        "traffic": { "web": { "kind": "packmime", "connections_per_second": 5.0 } },
    }));
    assert!(truth(&found, "transfers.complete").iter().filter(|complete| **complete).count() > 30);
    assert!(maybe_real(&found, "transfers.acknowledged_s").iter().all(Option::is_none));
}
