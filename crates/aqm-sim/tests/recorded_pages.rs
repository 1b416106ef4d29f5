//! Loads of recorded pages over the simulated network: round trips, dependencies, think times, and the tables.

use std::collections::BTreeMap;

use aqm_net::level::Run;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use serde_json::{Value, json};

use crate::common::{maybe_real, maybe_whole, real, truth, whole, words};

const COLUMNS: &str = "object,label,host,after,event,delay_ms,request_bytes,think_ms,response_bytes,urgency,\
                       awaited_by,extra_rtt_ms";
/// Round-trip time in milliseconds. Transmission times are negligible.
const RTT: f64 = 100.0;

/// Returns a scenario in which a user loads a page over a fast link.
fn scenario(http: &str) -> Value {
    let quic = json!({ "profile": "quic", "pacing": { "mode": "off" } });
    let tcp = if http == "3" { quic } else { json!({}) };
    json!({
        "duration": "20s", "host": { "jitter": "0s" }, "access": { "rate": "100Gbps", "delay": "500us" },
        "bottleneck": {
            "rate": "100Gbps", "delay": "49ms", "queue": { "kind": "drop-tail", "limit": "100000p" },
        },
        "tcp": tcp,
        "traffic": { "page": { "kind": "recorded-page", "file": "page.csv", "http": http, "loads": 1 } },
    })
}

/// Loads a page, whose file consists of the header and `lines`.
fn load(scenario: Value, lines: &str) -> Run {
    let files = BTreeMap::from([("page.csv".to_owned(), format!("{COLUMNS}\n{lines}"))]);
    let plan = Plan::of_value(scenario, files).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&Watch::default()).expect("nobody stops it")
}

/// Returns the end of each object in milliseconds, rounded.
fn ends(found: &Run) -> Vec<f64> {
    let ends = maybe_real(found, "page_objects.end_s");
    ends.iter().map(|end| (end.unwrap() * 1e3).round()).collect()
}

/// A document, a style that the document's first byte reveals, and an image after both.
const CHAIN: &str = "\
    1,document 1,1,,end,0,100,30,1000,0,render,0\n\
    2,style 1,1,1,first-byte,5,100,0,800,0,render,0\n\
    3,image 1,1,1 2,end,7,100,20,900,3,load,0\n";

#[test]
fn a_chain_takes_its_round_trips_think_times_and_delays() {
    for (http, tls, handshakes) in
        [("1.1", false, 1.0), ("1.1", true, 2.0), ("2", false, 1.0), ("2", true, 2.0), ("3", true, 1.0)]
    {
        let mut scenario = scenario(http);
        scenario["traffic"]["page"]["tls"] = tls.into();
        let found = load(scenario, CHAIN);
        let document = (handshakes + 1.0) * RTT + 30.0;
        // The document is complete and its connection is idle when the style is requested.
        let style = document + 5.0 + RTT;
        let image = style + 7.0 + RTT + 20.0;
        assert_eq!(ends(&found), [document, style, image], "HTTP/{http}, TLS {tls}");
        let loaded = maybe_real(&found, "page_loads.load_s")[0].unwrap() * 1e3;
        let rendered = maybe_real(&found, "page_loads.render_s")[0].unwrap() * 1e3;
        assert_eq!([loaded.round(), rendered.round()], [image, style]);
        assert_eq!(whole(&found, "page_loads.objects"), [3]);
        assert_eq!(truth(&found, "page_loads.failed"), [false]);
        assert_eq!(whole(&found, "flows.flow").len(), 1, "the connection is reused");
    }
}

#[test]
fn the_tables_of_transfers_and_pages_contain_the_objects() {
    let found = load(scenario("2"), CHAIN);
    assert_eq!(maybe_whole(&found, "transfers.page"), [Some(0); 3]);
    assert_eq!(whole(&found, "transfers.size_bytes"), [1000, 800, 900]);
    assert_eq!(whole(&found, "pages.objects"), [3]);
    assert_eq!(truth(&found, "pages.complete"), [true]);
    let duration = maybe_real(&found, "pages.duration_s")[0].unwrap();
    assert!((duration - maybe_real(&found, "page_loads.duration_s")[0].unwrap()).abs() < 1e-9);
    let first = maybe_real(&found, "page_objects.first_byte_s");
    assert!(first.iter().zip(maybe_real(&found, "page_objects.end_s")).all(|(first, end)| *first <= end));
    assert_eq!(words(&found, "page_objects.traffic"), ["page"; 3]);
    assert_eq!(real(&found, "page_objects.discovered_s")[0], 0.0);
}

#[test]
fn each_host_has_its_own_connections_and_round_trip_time() {
    let lines = "1,document 1,1,,end,0,100,0,1000,0,render,0\n2,image 1,2,1,end,0,100,0,900,3,load,60\n\
                 3,image 2,2,1,end,0,100,0,900,3,load,60\n";
    for (http, connections) in [("1.1", 3), ("2", 2), ("3", 2)] {
        let found = load(scenario(http), lines);
        let (near, far) = (2.0 * RTT, 2.0 * (RTT + 60.0));
        assert_eq!(ends(&found), [near, near + far, near + far], "HTTP/{http}");
        assert_eq!(whole(&found, "flows.flow").len(), connections);
        assert_eq!(whole(&found, "page_objects.host"), [1, 2, 2]);
    }
}

#[test]
fn http_1_fetches_more_than_six_objects_of_a_host_in_turns() {
    let image = |number| format!("{number},image,1,1,end,0,100,0,900,3,load,0\n");
    let lines: String = (2..=13).map(image).collect();
    let lines = format!("1,document 1,1,,end,0,100,0,1000,0,render,0\n{lines}");
    let document = 2.0 * RTT;
    let found = load(scenario("1.1"), &lines);
    let mut times = ends(&found);
    times.sort_by(f64::total_cmp);
    // The first connection is open: it fetches an image in one round trip, and each other connection in two.
    let (one, two, three) = (document + RTT, document + 2.0 * RTT, document + 3.0 * RTT);
    assert_eq!(times, [vec![document, one], vec![two; 6], vec![three; 5]].concat());
    assert_eq!(whole(&found, "flows.flow").len(), 6);
    assert_eq!(ends(&load(scenario("2"), &lines))[12], document + RTT);
}

#[test]
fn a_server_sends_more_urgent_objects_first() {
    let mut slow = scenario("2");
    slow["bottleneck"]["rate"] = "1Mbps".into();
    let lines = "1,document 1,1,,end,0,100,0,100,0,render,0\n2,image 1,1,1,end,0,100,0,60000,3,load,0\n\
                 3,style 1,1,1,end,0,100,0,20000,0,render,0\n";
    let found = load(slow, lines);
    let times = ends(&found);
    assert!(times[2] < times[1] - 300.0, "{times:?}");
}

#[test]
fn responses_of_requests_that_arrive_together_have_their_own_think_times() {
    let lines = "1,document 1,1,,end,0,100,0,100,0,render,0\n2,style 1,1,1,end,0,100,80,200,0,render,0\n\
                 3,script 1,1,1,end,0,100,20,300,0,render,0\n4,image 1,1,1,end,0,100,50,400,0,load,0\n";
    for http in ["2", "3"] {
        let found = load(scenario(http), lines);
        let requested = 2.0 * RTT + RTT;
        assert_eq!(
            ends(&found),
            [2.0 * RTT, requested + 80.0, requested + 20.0, requested + 50.0],
            "HTTP/{http}"
        );
    }
}

#[test]
fn a_page_does_not_change_the_tables_of_other_workloads() {
    let mut other = scenario("2");
    other["traffic"] = json!({ "bulk": { "kind": "ftp", "flows": 2, "stagger": "1s" } });
    let found = load(other, "");
    assert!(found.tables.iter().all(|table| !table.name.starts_with("page_")));
}

#[test]
fn http_3_requires_quic() {
    let mut tcp = scenario("3");
    tcp["tcp"] = json!({});
    let files = BTreeMap::from([("page.csv".to_owned(), format!("{COLUMNS}\n{CHAIN}"))]);
    let error = Plan::of_value(tcp, files).err().unwrap().to_string();
    assert!(error.starts_with("traffic.page.http: is HTTP/3, which requires QUIC"), "{error}");
}
