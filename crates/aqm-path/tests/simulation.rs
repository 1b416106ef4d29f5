//! A path and a simulation of the same links agree to the nanosecond.

use std::collections::BTreeMap;

use aqm_net::level::{Document, Files, Level as _, Run};
use aqm_net::watch::Watch;
use aqm_path::{Config, Datagram, Direction, Ecn, FlowId, FlowOptions, Instant, Outcome, Path, Reason};
use aqm_sim::{PACKET_LEVEL, Plan};
use aqm_testing::{maybe_words, real, truth, whole, words};
use serde_json::{Value, json};

/// What happened to a packet: the time, and the reason if the packet was dropped.
type Fates = BTreeMap<(u64, u64), (u64, bool)>;

/// An event of the table `packets`.
struct Event {
    nanos: u64,
    link: Option<String>,
    event: String,
    /// Flow, and number of the datagram within the flow.
    datagram: (u64, u64),
    bytes: usize,
    ecn: String,
}

fn run(scenario: &Value) -> Run {
    let document = Document::of_json(&scenario.to_string(), &[&PACKET_LEVEL]).unwrap();
    document.plan(Files::new()).unwrap().run(&Watch::default()).unwrap()
}

fn events(run: &Run) -> Vec<Event> {
    let tables = &run.tables;
    let times = real(tables, "packets.time_s");
    let (links, kinds) = (maybe_words(tables, "packets.link"), words(tables, "packets.event"));
    let (flows, sizes) = (whole(tables, "packets.flow"), whole(tables, "packets.size_bytes"));
    let (numbers, ecn) = (whole(tables, "packets.sequence_bytes"), words(tables, "packets.ecn"));
    assert!(truth(tables, "packets.backward").iter().all(|backward| !backward));
    let event = |row: usize| Event {
        // The times of a run of some seconds are exact in seconds.
        nanos: (times[row] * 1e9).round() as u64,
        link: links[row].clone(),
        event: kinds[row].clone(),
        datagram: (flows[row], numbers[row]),
        bytes: sizes[row] as usize,
        ecn: ecn[row].clone(),
    };
    (0..times.len()).map(event).collect()
}

/// Sends the datagrams of `sent` over a path, and returns what happens to them by `end`.
fn over_path(mut path: Path, sent: &[&Event], end: u64) -> (Fates, Path) {
    let flows = sent.iter().map(|event| event.datagram.0).max().unwrap() + 1;
    let options = FlowOptions { traffic: Some("datagrams".to_owned()), ..FlowOptions::default() };
    let flows: Vec<FlowId> = (0..flows).map(|_| path.open_flow_with(&options).unwrap()).collect();
    let mut fates = Fates::new();
    for event in sent {
        let flow = flows[event.datagram.0 as usize];
        let ecn = if event.ecn == "ect-0" { Ecn::Ect0 } else { Ecn::NotEct };
        let datagram = Datagram { flow, direction: Direction::Forward, bytes: event.bytes, ecn };
        path.send(datagram, Instant::from_nanos(event.nanos)).unwrap();
    }
    while let Some(outcome) = path.poll(Instant::from_nanos(end)) {
        let is_drop = matches!(outcome, Outcome::Dropped { .. });
        let event = sent[outcome.id().number() as usize];
        assert!(fates.insert(event.datagram, (outcome.at().nanos(), is_drop)).is_none());
    }
    (fates, path)
}

/// The links of a path with this queue on the first and on the last link.
fn links(queue: &Value) -> Value {
    json!({
        "seed": 3,
        "traffic": {"datagrams": {}},
        "forward": [
            {"name": "access", "rate": "2Mbps", "delay": "5ms", "queue": queue},
            {"name": "middle", "rate": "1500kbps", "delay": "3ms"},
            {"name": "core", "rate": "1Mbps", "delay": "10ms", "queue": queue},
        ],
    })
}

/// Adds traffic to the scenario of a path: datagrams of random sizes at random times, which overload the first link.
fn with_traffic(mut scenario: Value, record: Value) -> Value {
    scenario["duration"] = "4s".into();
    let traffic = &mut scenario["traffic"]["datagrams"];
    traffic["flows"] = 3.into();
    traffic["hosts"] = "shared".into();
    traffic["rate"] = "720kbps".into();
    traffic["gaps"] = json!({"kind": "exponential"});
    traffic["sizes"] = json!({"kind": "uniform", "minimum": "40B", "maximum": "1500B"});
    traffic["ecn"] = true.into();
    scenario["record"] = record;
    scenario
}

/// Compares a path with a simulation of the same links. Returns the numbers of deliveries and drops.
fn compare(config: &Value) -> [usize; 2] {
    let named = Config::from_json(&config.to_string()).unwrap();
    let scenario: Value = serde_json::from_str(&named.to_scenario().unwrap()).unwrap();
    let scenario = with_traffic(scenario, json!({"packets": ["access", "core"], "drops": true}));
    let run = run(&scenario);
    let events = events(&run);
    let at = |link: &str, event: &Event| event.link.as_deref() == Some(link);
    // A packet joins the first queue, or is dropped by the first queue upon arrival.
    let mut seen = std::collections::BTreeSet::new();
    let sent: Vec<&Event> =
        events.iter().filter(|event| at("access", event) && seen.insert(event.datagram)).collect();
    let end = 4_000_000_000;
    let (found, mut path) = over_path(Path::new(&named).unwrap(), &sent, end);
    let finished = events
        .iter()
        .filter(|event| event.event == "drop" || (event.event == "deliver" && at("core", event)));
    let mut expected = Fates::new();
    for event in finished {
        expected.insert(event.datagram, (event.nanos, event.event == "drop"));
    }
    // The run ends before drops at exactly its end.
    assert_eq!(found, expected);
    let views = path.links();
    let column = |name: &str| whole(&run.tables, name);
    let arrivals: Vec<u64> = views.iter().map(|link| link.arrivals).collect();
    assert_eq!(arrivals, column("links.arrivals"));
    let marks: Vec<u64> = views.iter().map(|link| link.marks).collect();
    assert_eq!(marks, column("links.marks"));
    let drops = expected.values().filter(|(_, is_drop)| *is_drop).count();
    [expected.len() - drops, drops]
}

#[test]
fn a_path_agrees_with_a_simulation_for_every_queue() {
    let mut losing = 0;
    for queue in aqm_queue::Config::NAMES {
        let [delivered, dropped] = compare(&links(&json!({"kind": queue})));
        assert!(delivered > 500, "{queue}: {delivered}");
        losing += usize::from(dropped > 0);
    }
    assert!(losing > 20, "{losing}");
}

#[test]
fn a_path_agrees_with_a_simulation_for_varying_rates_losses_and_reordering() {
    let keys = [
        json!({"rate_steps": [{"at": "1s", "rate": "3Mbps"}, {"at": "2s", "rate": "300kbps"}], "rate_repeat": "3s"}),
        json!({"outages": [{"from": "1s", "until": "1500ms"}]}),
        json!({"random_outages": {"mean_up": "300ms", "mean_down": "20ms"}}),
        json!({"aggregation": {"packets": 8}}),
        json!({"framing": {"linklayer": "atm", "overhead": 10}}),
        json!({"loss": {"probability": 0.1}, "delay_steps": [{"at": "1s", "delay": "2ms"}]}),
        json!({"reordering": {"probability": 0.2, "delay": "7ms"}}),
    ];
    for keys in keys {
        let mut config = links(&json!({"kind": "codel"}));
        config["forward"][2].as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let [delivered, dropped] = compare(&config);
        assert!(delivered > 300 && dropped > 10, "{keys}: {delivered} {dropped}");
    }
}

#[test]
fn the_route_of_a_scenario_agrees_with_a_simulation_including_access_links_and_edges() {
    let scenario = json!({
        "seed": 4,
        "duration": "4s",
        "host": {"jitter": "0s"},
        "bottleneck": {"rate": "1Mbps", "delay": "20ms", "queue": {"kind": "shred"}},
        "access": {"rate": "3Mbps", "delay": "2ms"},
        "traffic": {"datagrams": {"kind": "udp", "extra_delay": ["0ms", "9ms"]}, "other": {"kind": "ftp", "start": "9s"}},
    });
    let scenario = with_traffic(scenario, json!({"histories": ["datagrams"]}));
    let run = run(&scenario);
    let events = events(&run);
    let sent: Vec<&Event> = events.iter().filter(|event| event.event == "send").collect();
    let plan = Plan::of_value(scenario.clone(), Files::new()).unwrap();
    let (found, _) = over_path(Path::of_plan(&plan), &sent, 4_000_000_000);
    let mut expected = Fates::new();
    for event in events.iter().filter(|event| ["receive", "drop"].contains(&event.event.as_str())) {
        expected.insert(event.datagram, (event.nanos, event.event == "drop"));
    }
    assert_eq!(found, expected);
    assert!(expected.values().filter(|(_, is_drop)| *is_drop).count() > 100);
    assert_eq!(PACKET_LEVEL.name(), "packet");
}

#[test]
fn marks_are_reported_with_their_queue_and_reason() {
    let text = r#"
        forward = [
            { name = "fast", rate = "2Mbps", delay = "5ms", queue = { kind = "drop-tail" } },
            { name = "slow", rate = "1Mbps", delay = "5ms", queue = { kind = "codel", ecn = true } },
        ]
    "#;
    let mut path = Path::from_toml(text).unwrap();
    let flow = path.open_flow();
    let ecn = Ecn::Ect1;
    for number in 0..500 {
        let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1000, ecn };
        path.send(datagram, Instant::from_nanos(number * 7_000_000)).unwrap();
    }
    let (mut marked, mut last) = (0, Instant::START);
    while let Some(outcome) = path.poll(Instant::from_nanos(60_000_000_000)) {
        let Outcome::Delivered { ecn, mark, at, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(ecn, if mark.is_some() { Ecn::Ce } else { Ecn::Ect1 });
        if let Some(mark) = mark {
            assert_eq!((path.link_name(mark.link), mark.reason), ("slow", Reason::Sojourn));
            // A mark is set when the transmission of 8 ms begins, and 5 ms of propagation follow.
            assert_eq!(at.since(mark.at).nanos(), 13_000_000);
            marked += 1;
        }
        assert!(at > last);
        last = at;
    }
    assert!(marked > 5, "{marked}");
    assert_eq!(path.links()[1].marks, marked);
}
