//! Tests of recorded pages without a network.

use aqm_net::{Instant, Span};
use serde_json::json;

use super::file::COLUMNS;
use crate::testing::{RecordingContext, context, fact};
use crate::{BuildContext, Workload};

/// A page of two hosts: the style and the script depend on the document, and the image depends on the style.
const LINES: &str = "\
    1,document 1,1,,end,0,400,10,9000,0,render,0\n\
    2,style 1,1,1,first-byte,3,300,0,2000,0,render,0\n\
    3,script 1,1,1,end,5,300,0,7000,2,load,0\n\
    4,image 1,2,2 3,end,1,200,0,50000,3,nothing,40\n";

fn workload(parameters: serde_json::Value) -> Box<dyn Workload> {
    build(parameters, LINES).unwrap_or_else(|error| panic!("{error}"))
}

fn build(mut parameters: serde_json::Value, lines: &str) -> Result<Box<dyn Workload>, aqm_net::ConfigError> {
    parameters["kind"] = json!("recorded-page");
    parameters["file"] = json!("page.csv");
    let config = crate::Config::read(parameters).unwrap();
    let content = format!("{}\n{lines}", COLUMNS.join(","));
    config.build(&BuildContext { file: Some(&content), ..context(1, 100) })
}

/// Moves the clock of a recording, and wakes the workload at all requested times up to then.
fn advance(workload: &mut dyn Workload, recording: &mut RecordingContext, millis: u64) {
    let until = Instant::START + Span::from_millis(millis);
    while let Some(&std::cmp::Reverse(at)) = recording.wakes.peek().filter(|at| at.0 <= until) {
        recording.wakes.pop();
        recording.now = at;
        workload.on_wake(recording);
    }
    recording.now = until;
}

fn requested(recording: &RecordingContext) -> Vec<(u64, u64)> {
    let millis = |at: Instant| at.nanos() / 1_000_000;
    let opened = recording.conversations.iter().map(|(at, one)| (millis(*at), one.first.response));
    let more = recording.requests.iter().map(|(at, _, exchange)| (millis(*at), exchange.response));
    let mut all: Vec<_> = opened.chain(more).collect();
    all.sort_unstable();
    all
}

#[test]
fn an_object_is_requested_after_the_events_of_its_parents_and_its_delay() {
    let mut workload = workload(json!({"http": "2", "loads": 1}));
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    advance(&mut *workload, &mut recording, 50);
    workload.on_first_byte(0, 0, &mut recording);
    advance(&mut *workload, &mut recording, 60);
    workload.on_stream_response(0, 0, &mut recording);
    advance(&mut *workload, &mut recording, 70);
    assert_eq!(requested(&recording), [(0, 9000), (53, 2000), (65, 7000)]);
    assert_eq!(recording.conversations.len(), 1, "a connection to the first host");
    workload.on_stream_response(0, 2, &mut recording);
    advance(&mut *workload, &mut recording, 80);
    assert_eq!(requested(&recording).len(), 3, "the image also waits for the style");
    workload.on_stream_response(0, 1, &mut recording);
    advance(&mut *workload, &mut recording, 90);
    assert_eq!(requested(&recording)[3], (81, 50_000));
    let image = &recording.conversations[1].1;
    assert_eq!((image.server_delay, image.page_objects), (Span::from_millis(20), 4));
    assert!(recording.finished.is_empty());
    workload.on_stream_response(1, 0, &mut recording);
    let numbers: Vec<u32> = recording.finished.iter().map(|one| one.1).collect();
    assert_eq!(numbers, [0, 1], "the connections are closed at the end of the load");

    let record = workload.page_record().unwrap();
    let load = record.loads[0];
    let millis = |at: Option<Instant>| at.map(|at| at.nanos() / 1_000_000);
    assert_eq!([load.render, load.load, load.complete].map(millis), [Some(80), Some(80), Some(90)]);
    assert_eq!((load.objects, load.failed), (4, false));
    let script = record.objects[2];
    assert_eq!((script.object, millis(script.requested), millis(script.completed)), (3, Some(65), Some(70)));
    assert_eq!((fact(&*workload, "pages"), fact(&*workload, "pages_complete")), (1.0, 1.0));
}

#[test]
fn objects_of_http_1_wait_for_connections_in_order_of_urgency() {
    let lines = "1,a,1,,end,0,1,0,1000,0,render,0\n2,b,1,1,end,0,1,0,2000,3,load,0\n\
                 3,c,1,1,end,0,1,0,3000,3,load,0\n4,d,1,1,end,0,1,0,4000,1,load,0\n";
    let mut workload = build(json!({"http": "1.1", "connections": 1, "loads": 1}), lines).unwrap();
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    for (exchange, millis) in (0..4).zip([10, 20, 30, 40]) {
        advance(&mut *workload, &mut recording, millis);
        workload.on_stream_response(0, exchange, &mut recording);
        advance(&mut *workload, &mut recording, millis + 1);
    }
    assert_eq!(requested(&recording), [(0, 1000), (10, 2000), (20, 4000), (30, 3000)]);
    assert_eq!(recording.conversations.len(), 1);
    assert!(workload.page_record().unwrap().loads[0].complete.is_some());
}

#[test]
fn http_1_opens_several_connections() {
    let lines = "1,a,1,,end,0,1,0,1000,0,render,0\n2,b,1,1,first-byte,0,1,0,2000,3,load,0\n\
                 3,c,1,1,first-byte,0,1,0,3000,3,load,0\n";
    let mut workload = build(json!({"http": "1.1"}), lines).unwrap();
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    advance(&mut *workload, &mut recording, 10);
    workload.on_first_byte(0, 0, &mut recording);
    advance(&mut *workload, &mut recording, 11);
    assert_eq!((recording.conversations.len(), recording.requests.len()), (3, 0));
}

#[test]
fn a_failed_connection_ends_the_load_and_the_user_pauses() {
    let pause = json!({"kind": "constant", "value": "2s"});
    let mut workload = workload(json!({"http": "3", "loads": 2, "pause": pause}));
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    advance(&mut *workload, &mut recording, 10);
    workload.on_connection_failed(0, &mut recording);
    advance(&mut *workload, &mut recording, 2015);
    assert_eq!(requested(&recording), [(0, 9000), (2010, 9000)]);
    workload.on_connection_failed(1, &mut recording);
    advance(&mut *workload, &mut recording, 10_000);
    let loads = &workload.page_record().unwrap().loads;
    assert_eq!((loads.len(), loads.iter().all(|load| load.failed && load.complete.is_none())), (2, true));
}

#[test]
fn users_begin_within_the_stagger_and_use_the_hosts_in_turn() {
    let mut workload = workload(json!({"http": "2", "users": 6, "hosts": 2, "start": "1s", "stagger": "3s"}));
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    advance(&mut *workload, &mut recording, 4000);
    let starts: Vec<f64> = recording.conversations.iter().map(|(at, _)| at.seconds()).collect();
    assert_eq!(starts.len(), 6);
    assert!(starts.iter().all(|at| (1.0..4.0).contains(at)) && starts[0] != starts[1], "{starts:?}");
    let on_the_first = recording.conversations.iter().filter(|(_, one)| one.host == 0).count();
    assert_eq!(on_the_first, 3);
}

#[test]
fn invalid_parameters_are_rejected() {
    let error = |parameters| build(parameters, LINES).err().unwrap().to_string();
    assert_eq!(error(json!({})), "http: is missing: must be 1.1, 2 or 3");
    assert_eq!(error(json!({"http": "2", "users": 0})), "users: must be between 1 and 100000 (got 0)");
    let hosts = "hosts: must be between 1 and the number of users, 1 (got 2)";
    assert_eq!(error(json!({"http": "2", "hosts": 2})), hosts);
    assert_eq!(error(json!({"http": "2", "loads": 0})), "loads: must be at least 1 (got 0)");
    let missing = build(json!({"http": "2"}), "").err().unwrap().to_string();
    assert!(missing.starts_with("file: contains no objects"), "{missing}");
}
