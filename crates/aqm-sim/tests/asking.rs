//! Workloads that decide during the run what to request on an open connection: video, and pages over a few connections.

use std::collections::BTreeMap;

use crate::common::{maybe_real, maybe_whole, nanos, real, run, truth, whole, words};
use aqm_net::level::Run;
use serde_json::{Value, json};

/// Runs one workload for a minute over a link with a delay of 2 ms, including its access links.
fn run_on_link(rate: &str, workload: &Value, tcp: &Value) -> Run {
    run(json!({
        "duration": "60s",
        "host": { "jitter": "0s" },
        "bottleneck": { "rate": rate, "delay": "1ms", "queue": { "kind": "drop-tail", "limit": "1000p" } },
        "access": { "rate": "10Gbps", "delay": "500us" },
        "tcp": tcp,
        "traffic": { "asks": workload },
    }))
}

/// A transfer: its flow, start, bytes, and end if it is complete; times in nanoseconds.
struct Transfer {
    flow: u64,
    start: u64,
    bytes: u64,
    end: Option<u64>,
}

fn transfers(run: &Run) -> Vec<Transfer> {
    let (flows, sizes) = (whole(run, "transfers.flow"), whole(run, "transfers.size_bytes"));
    let (starts, durations) = (real(run, "transfers.start_s"), maybe_real(run, "transfers.duration_s"));
    let row = |row: usize| {
        let start = nanos(starts[row]);
        Transfer {
            flow: flows[row],
            start,
            bytes: sizes[row],
            end: durations[row].map(|it| start + nanos(it)),
        }
    };
    (0..flows.len()).map(row).collect()
}

#[test]
fn segments_of_a_video_use_one_connection_that_closes_after_the_last() {
    let found = run_on_link("20Mbps", &json!({ "kind": "video", "length": "20s" }), &json!({}));
    let segments = transfers(&found);
    let kbps: Vec<u64> = segments.iter().map(|one| one.bytes * 8 / 4000).collect();
    assert_eq!(kbps, [235, 5800, 5800, 5800, 5800]);
    assert!(segments.iter().all(|one| one.flow == 0));
    assert!(
        segments.windows(2).all(|two| two[0].end == Some(two[1].start)),
        "nothing waits: 20 s fit the buffer"
    );
    let handshakes = maybe_real(&found, "transfers.handshake_s");
    assert!(handshakes[0].is_some() && handshakes[1..].iter().all(Option::is_none));
    let all: u64 = segments.iter().map(|one| one.bytes).sum();
    assert_eq!(maybe_whole(&found, "flows.size_bytes"), [Some(all)]);
    assert_eq!(whole(&found, "flows.delivered_bytes"), [all]);
    let (closed, last) = (maybe_real(&found, "flows.end_s")[0].unwrap(), segments[4].end.unwrap());
    assert!((last..last + 10_000_000).contains(&nanos(closed)));
}

#[test]
fn a_full_buffer_pauses_requests_and_the_connection_stays_open() {
    let found = run_on_link("20Mbps", &json!({ "kind": "video" }), &json!({}));
    let segments = transfers(&found);
    let starts: Vec<u64> = segments.iter().map(|one| one.start).collect();
    let full = starts.windows(2).position(|two| two[1] - two[0] == 4_000_000_000).unwrap();
    assert!(starts[full..].windows(2).all(|two| two[1] - two[0] == 4_000_000_000), "{starts:?}");
    assert!(segments.iter().all(|one| one.end.is_some() && one.flow == 0));
    assert_eq!(maybe_real(&found, "flows.end_s"), [None]);
    // No segment has two rows, although the run ends while the connection is idle.
    assert_eq!(starts.windows(2).filter(|two| two[0] == two[1]).count(), 0);
    let facts = &found.manifest["facts"]["asks"];
    assert_eq!(facts["segments"], segments.len() as f64);
    assert_eq!((&facts["stalls"], &facts["switches"]), (&json!(0.0), &json!(1.0)));
}

#[test]
fn a_slow_link_stalls_playback() {
    let found = run_on_link("200kbps", &json!({ "kind": "video" }), &json!({}));
    let facts = &found.manifest["facts"]["asks"];
    assert!(
        facts["stalls"].as_f64().unwrap() >= 1.0 && facts["stalled_s"].as_f64().unwrap() > 5.0,
        "{facts}"
    );
    assert_eq!(facts["mean_bit_rate_bps"], 235_000.0);
}

#[test]
fn a_viewer_whose_connection_was_aborted_requests_nothing_more() {
    let tcp =
        json!({ "connection": { "max_retries": 2, "max_syn_retries": 2 }, "rto": { "initial": "200ms" } });
    let found = run(json!({
        "duration": "60s",
        "bottleneck": { "rate": "20Mbps", "delay": "1ms", "queue": { "kind": "drop-random", "probability": 0.4, "limit": "100p" } },
        "tcp": tcp,
        "traffic": { "asks": { "kind": "video", "viewers": 20 } },
    }));
    let (segments, ends) = (transfers(&found), maybe_real(&found, "flows.end_s"));
    let gone: Vec<u64> = (0..20).filter(|&flow| ends[flow as usize].is_some()).collect();
    assert!(gone.len() > 5, "{ends:?}");
    for flow in gone {
        let last = segments.iter().rfind(|one| one.flow == flow).unwrap();
        assert_eq!(last.end, None);
    }
}

/// A workload of one user who fetches pages of 50 objects over six connections each.
fn pages(changes: &Value) -> Value {
    let mut workload = json!({
        "kind": "sessions", "users": 1, "request": "300B", "connections": 6, "think_from": "page-end",
        "think_time": { "kind": "constant", "value": "1s" },
        "object_gap": { "kind": "constant", "value": "0s" },
        "objects": { "kind": "constant", "value": 50 },
        "sizes": { "kind": "lomax", "shape": 1.2, "mean": "10kB", "minimum": "1kB", "maximum": "200kB" },
    });
    for (name, value) in changes.as_object().unwrap() {
        workload[name] = value.clone();
    }
    workload
}

#[test]
fn a_page_uses_its_connections_and_is_complete_with_its_last_object() {
    let found = run_on_link("10Mbps", &pages(&json!({})), &json!({ "cwnd": { "initial": 10 } }));
    let all = transfers(&found);
    let page_of = maybe_whole(&found, "transfers.page");
    let mut of_page: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
    for (transfer, page) in all.iter().zip(page_of) {
        of_page.entry(page.unwrap()).or_default().push(transfer);
    }
    let rows = whole(&found, "pages.page").to_vec();
    let (complete, durations) = (truth(&found, "pages.complete"), maybe_real(&found, "pages.duration_s"));
    assert!(rows.len() > 10 && complete.iter().filter(|complete| !**complete).count() <= 1);
    for (row, page) in rows.iter().enumerate().filter(|(row, _)| complete[*row]) {
        let objects = &of_page[page];
        assert_eq!((objects.len(), whole(&found, "pages.objects")[row]), (50, 50));
        assert_eq!(whole(&found, "pages.size_bytes")[row], objects.iter().map(|one| one.bytes).sum::<u64>());
        let start = objects.iter().map(|one| one.start).min().unwrap();
        let end = objects.iter().map(|one| one.end.unwrap()).max().unwrap();
        assert_eq!(nanos(real(&found, "pages.start_s")[row]), start);
        assert_eq!(nanos(durations[row].unwrap()), end - start);
        let mut flows: Vec<u64> = objects.iter().map(|one| one.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        assert_eq!(flows.len(), 6);
        for one in objects {
            let under_way = objects.iter().filter(|it| it.start <= one.start && it.end.unwrap() > one.start);
            assert!(under_way.count() <= 6);
        }
        // All six connections are closed.
        let ends = maybe_real(&found, "flows.end_s");
        assert!(flows.iter().all(|&flow| ends[flow as usize].is_some()) || *page + 1 == rows.len() as u64);
    }
}

#[test]
fn fewer_connections_take_longer_and_the_objects_are_the_same() {
    let sizes = |connections: u32| {
        let found = run_on_link("10Mbps", &pages(&json!({ "connections": connections })), &json!({}));
        let first = maybe_real(&found, "pages.duration_s")[0].unwrap();
        let pages = maybe_whole(&found, "transfers.page");
        let mut of_first: Vec<u64> = transfers(&found)
            .iter()
            .zip(pages)
            .filter(|(_, page)| *page == Some(0))
            .map(|(one, _)| one.bytes)
            .collect();
        of_first.sort_unstable();
        (first, of_first)
    };
    let (one, six) = (sizes(1), sizes(6));
    assert_eq!(one.1, six.1);
    assert!(one.0 > six.0, "{} {}", one.0, six.0);
}

#[test]
fn pages_of_the_open_loop_share_connections_too() {
    let workload = json!({
        "kind": "web", "load": 0.3, "request": "300B", "connections": 2,
        "objects": { "kind": "constant", "value": 10 },
        "sizes": { "kind": "constant", "value": "5kB" },
    });
    let found = run_on_link("10Mbps", &workload, &json!({}));
    let complete = truth(&found, "pages.complete").iter().filter(|complete| **complete).count();
    assert!(complete > 300, "{complete}");
    let flows = words(&found, "flows.traffic").len();
    assert!((2 * complete..=2 * complete + 10).contains(&flows), "{flows} {complete}");
}
