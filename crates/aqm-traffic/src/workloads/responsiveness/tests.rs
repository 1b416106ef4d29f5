use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use aqm_net::Instant;

use super::running::ENDLESS;
use super::*;
use crate::ConnectionState;
use crate::probe_record::{Probe, ProbeKind, ProbeRecord};
use crate::testing::{RecordingContext, context};

fn millis(count: u64) -> Instant {
    Instant::START + Span::from_millis(count)
}

/// A test whose load-generating connections deliver `bytes_per_second` together. Every exchange of a probe takes 20 ms,
/// and every handshake 10 ms.
fn run(config: &Config, seconds: u64, bytes_per_second: u64) -> (Box<dyn Workload>, RecordingContext) {
    let mut workload = config.build(&context(1, seconds)).unwrap();
    let mut cx = RecordingContext::default();
    let mut under_way: BinaryHeap<Reverse<(Instant, u32)>> = BinaryHeap::new();
    let (mut opened, mut requests) = (0, 0);
    let mut started: BTreeMap<u32, (Instant, bool)> = BTreeMap::new();
    workload.start(&mut cx);
    loop {
        for (at, conversation) in &cx.conversations[opened..] {
            let number = conversation.number.unwrap();
            let is_load = conversation.first.response == ENDLESS || conversation.first.request == ENDLESS;
            started.insert(number, (*at, is_load));
            if !is_load {
                under_way.push(Reverse((*at + Span::from_millis(30), number)));
            }
        }
        for &(at, number, _) in &cx.requests[requests..] {
            under_way.push(Reverse((at + Span::from_millis(20), number)));
        }
        (opened, requests) = (cx.conversations.len(), cx.requests.len());
        let wake = cx.wakes.peek().map_or(Instant::NEVER, |Reverse(at)| *at);
        let response = under_way.peek().filter(|Reverse((at, _))| *at <= wake).copied();
        cx.now = response.map_or(wake, |Reverse((at, _))| at);
        if cx.now >= millis(seconds * 1000) {
            return (workload, cx);
        }
        let now = cx.now;
        let open = |number: &u32| cx.resets.iter().all(|(_, reset)| reset != number);
        let loads = started.iter().filter(|(number, (_, is_load))| *is_load && open(number)).count() as u64;
        cx.connections = started
            .iter()
            .filter(|(number, _)| open(number))
            .map(|(&number, &(at, is_load))| {
                // The connections share the rate from the time of the first connection.
                let of_all = now.since(at).seconds() * bytes_per_second as f64;
                let received = if is_load { 3000 + (of_all / loads.max(1) as f64) as u64 } else { 3000 };
                let established = Some(at + Span::from_millis(10)).filter(|&done| done <= now);
                let rtt = Some(Span::from_millis(40));
                let state = ConnectionState {
                    established,
                    received,
                    received_by_server: received,
                    server_rtt: rtt,
                    client_rtt: Some(Span::from_millis(70)),
                };
                (number, state)
            })
            .collect();
        if let Some(Reverse((_, number))) = response {
            under_way.pop();
            if open_now(&cx, number) {
                workload.on_response(number, &mut cx);
            }
        } else {
            cx.wakes.pop();
            workload.on_wake(&mut cx);
        }
    }
}

fn open_now(cx: &RecordingContext, number: u32) -> bool {
    cx.resets.iter().all(|&(_, reset)| reset != number)
}

fn short() -> Config {
    Config { interval: Span::from_millis(1000), limit: Span::from_millis(6000), ..Config::default() }
}

fn record(workload: &dyn Workload) -> &ProbeRecord {
    workload.probe_record().unwrap()
}

#[test]
fn the_idle_line_is_measured_by_successive_requests_before_the_load() {
    let (workload, cx) = run(&short(), 20, 1_000_000);
    let idle: Vec<_> = record(&*workload)
        .probes
        .iter()
        .filter(|probe| probe.phase == Phase::Idle && probe.kind == ProbeKind::Foreign)
        .collect();
    assert_eq!(idle.len(), 20);
    for (number, probe) in idle.iter().enumerate() {
        assert_eq!(probe.start, millis(50 * number as u64));
        let spans = [10, 20, 20].map(|count| Some(Span::from_millis(count)));
        assert_eq!([probe.tcp, probe.tls, probe.response], spans);
    }
    let load = cx.conversations.iter().find(|(_, one)| one.first.response == ENDLESS).unwrap();
    assert_eq!(load.0, millis(1000));
}

#[test]
fn each_interval_adds_a_connection_until_the_maximum_or_the_limit() {
    let config = Config { max_connections: 4, tolerance: 1e-9, ..short() };
    let (workload, cx) = run(&config, 20, 1_000_000);
    let intervals = &record(&*workload).intervals;
    let of = |phase| intervals.iter().filter(move |one| one.phase == phase).map(|one| one.connections);
    assert_eq!(of(Phase::Download).collect::<Vec<_>>(), [1, 2, 3, 4, 4, 4]);
    assert_eq!(of(Phase::Upload).collect::<Vec<_>>(), [1, 2, 3, 4, 4, 4]);
    assert!(intervals.iter().all(|one| !one.rpm_stable));
    // The download ends at 7 s, and the upload at 13 s. No connection remains.
    let ends: Vec<_> = cx.resets.iter().map(|&(at, _)| at).filter(|&at| at == millis(13_000)).collect();
    assert!(ends.len() >= 4 && cx.resets.iter().any(|&(at, _)| at == millis(7000)));
    assert!(cx.conversations.iter().all(|&(at, _)| at < millis(13_000)));
}

#[test]
fn stable_goodput_and_then_stable_responsiveness_end_a_direction() {
    let config = Config {
        directions: Directions::Download,
        added_connections: 0,
        limit: Span::from_millis(60_000),
        ..short()
    };
    let (workload, _) = run(&config, 60, 1_000_000);
    let intervals = &record(&*workload).intervals;
    // The moving average divides by four intervals even in the first intervals, so that four equal averages exist after
    // seven intervals. Four values of the responsiveness follow.
    assert_eq!(intervals.iter().position(|one| one.goodput_stable), Some(6));
    assert_eq!((intervals.len(), intervals[10].rpm_stable), (11, true));
    assert!((intervals[6].goodput_bps - 8e6).abs() < 1e4, "{:?}", intervals[6]);
    let foreign: f64 = 60_000.0 / (50.0 / 3.0);
    let rpm = intervals[10].rpm.unwrap();
    assert!((rpm - f64::midpoint(foreign, 3000.0)).abs() < 1e-6, "{rpm}");
}

#[test]
fn probes_alternate_and_use_at_most_their_share_of_the_capacity() {
    let limited = |bytes_per_second| {
        let config = Config { directions: Directions::Download, tolerance: 1e-9, ..short() };
        let (workload, _) = run(&config, 20, bytes_per_second);
        let record = record(&*workload);
        let at = |probe: &&Probe| probe.start >= millis(3000) && probe.start < millis(6000);
        let count = |kind| record.probes.iter().filter(at).filter(|one| one.kind == kind).count();
        assert!(count(ProbeKind::Foreign).abs_diff(count(ProbeKind::Own)) <= 1);
        count(ProbeKind::Foreign) + count(ProbeKind::Own)
    };
    assert_eq!(limited(100_000_000), 300, "100 probes per second");
    // 5 % of 1.2 Mb/s are 60 kb/s, or 2.5 probes of 3000 B per second.
    let few = limited(150_000);
    assert!((7..=9).contains(&few), "{few}");
}

#[test]
fn with_http_1_a_self_probe_is_the_round_trip_time_of_the_sender_of_the_load() {
    let (workload, cx) = run(&Config { http: Version::One, ..short() }, 20, 1_000_000);
    for (phase, rtt) in [(Phase::Download, 40), (Phase::Upload, 70)] {
        let own = |probe: &&Probe| probe.phase == phase && probe.kind == ProbeKind::Own;
        let probes: Vec<_> = record(&*workload).probes.iter().filter(own).collect();
        assert!(!probes.is_empty());
        assert!(probes.iter().all(|probe| probe.response == Some(Span::from_millis(rtt))));
    }
    assert!(cx.conversations.iter().all(|(_, one)| one.streams.is_none()));
}

#[test]
fn a_failed_connection_is_counted_and_replaced() {
    let config = Config { max_connections: 1, ..short() };
    let mut workload = config.build(&context(1, 20)).unwrap();
    let mut cx = RecordingContext::default();
    workload.start(&mut cx);
    // The idle probes fail one after the other.
    cx.now = Instant::START;
    workload.on_wake(&mut cx);
    for number in 1..=20 {
        workload.on_connection_failed(number, &mut cx);
    }
    let (_, load) = cx.conversations.last().unwrap();
    assert_eq!((load.first.response, load.number), (ENDLESS, Some(21)));
    workload.on_connection_failed(21, &mut cx);
    cx.now = millis(1000);
    workload.on_wake(&mut cx);
    assert_eq!(cx.conversations.last().unwrap().1.number, Some(22));
    assert_eq!(crate::testing::fact(&*workload, "failed_connections"), 1.0);
}

#[test]
fn without_tls_a_foreign_probe_is_one_exchange() {
    let (workload, cx) = run(&Config { tls: false, ..short() }, 20, 1_000_000);
    let probe = record(&*workload).probes.iter().find(|probe| probe.kind == ProbeKind::Foreign).unwrap();
    assert_eq!(probe.tls, None);
    assert_eq!(probe.response, Some(Span::from_millis(20)));
    assert!(cx.conversations.iter().all(|(_, one)| one.handshake.is_none()));
}

#[test]
fn sequential_probes_begin_when_the_previous_probe_is_complete() {
    let (workload, _) = run(&Config { probing: Probing::Sequential, ..short() }, 20, 1_000_000);
    let probes: Vec<&Probe> = record(&*workload)
        .probes
        .iter()
        .filter(|probe| probe.phase == Phase::Download && probe.kind != ProbeKind::Echo)
        .collect();
    // The load begins at 1 s. In this test, a new connection takes 50 ms and a request on a connection 20 ms.
    assert_eq!((probes[0].start, probes[0].kind), (millis(1000), ProbeKind::Foreign));
    for (one, next) in probes.iter().zip(&probes[1..]) {
        let (kind, takes) = match one.kind {
            ProbeKind::Foreign => (ProbeKind::Own, 50),
            _ => (ProbeKind::Foreign, 20),
        };
        assert_eq!((next.kind, next.start), (kind, one.start + Span::from_millis(takes)));
    }
    assert!(probes.len() > 100);
}

#[test]
fn a_failed_probe_is_followed_by_the_next() {
    let config = Config { probing: Probing::Sequential, idle_probes: 0, ..short() };
    let mut workload = config.build(&context(1, 20)).unwrap();
    let mut cx = RecordingContext::default();
    workload.start(&mut cx);
    workload.on_wake(&mut cx);
    assert_eq!(cx.conversations.len(), 2, "a connection with load and a foreign probe");
    workload.on_connection_failed(2, &mut cx);
    assert_eq!(cx.conversations.last().unwrap().1.number, Some(3));
}

#[test]
fn with_nagles_algorithm_a_foreign_probe_waits_for_an_acknowledgement_before_its_request() {
    let (workload, cx) = run(&Config { nagle: true, ..short() }, 20, 1_000_000);
    let probe = record(&*workload).probes.iter().find(|probe| probe.kind == ProbeKind::Foreign).unwrap();
    // In this test, each exchange takes 20 ms. The first exchange carries the end of the TLS handshake.
    assert_eq!([probe.tls, probe.response], [20, 40].map(|count| Some(Span::from_millis(count))));
    let of_first: Vec<u64> =
        cx.requests.iter().filter(|one| one.1 == 1).map(|(_, _, exchange)| exchange.request).collect();
    assert_eq!(of_first, [80, Config::default().request.bytes()]);
}

#[test]
fn the_sizes_of_tls_messages_and_of_frames_are_those_of_the_parameters() {
    let sizes = [1467, 697, 16_384].map(Size::from_bytes);
    let [client_hello, server_flight, upload_frame] = sizes;
    let send_buffer = Size::from_bytes(4096);
    let config = Config { client_hello, server_flight, upload_frame, send_buffer, ..short() };
    let (_, cx) = run(&config, 20, 1_000_000);
    let (_, load) = cx.conversations.iter().find(|(_, one)| one.first.request == ENDLESS).unwrap();
    assert_eq!(load.handshake, Some(Exchange::immediate(1467, 697)));
    assert_eq!((load.request_frame, load.send_buffer), (16_384, 4096));
}

#[test]
fn invalid_parameters_are_rejected() {
    let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
    assert_eq!(path(Config { http: Version::Three, ..Config::default() }), "http");
    assert_eq!(path(Config { interval: Span::ZERO, ..Config::default() }), "interval");
    assert_eq!(path(Config { limit: Span::from_millis(1), ..Config::default() }), "limit");
    assert_eq!(path(Config { moving_average: 0, ..Config::default() }), "moving_average");
    assert_eq!(path(Config { trim: 0.0, ..Config::default() }), "trim");
    assert_eq!(path(Config { tolerance: f64::NAN, ..Config::default() }), "tolerance");
    assert_eq!(path(Config { probe_share: 1.5, ..Config::default() }), "probe_share");
    assert_eq!(path(Config { initial_connections: 17, ..Config::default() }), "initial_connections");
    assert_eq!(path(Config { max_connections: 0, ..Config::default() }), "max_connections");
    assert_eq!(path(Config { probes_per_second: 0.0, ..Config::default() }), "probes_per_second");
    assert_eq!(path(Config { response: Size::from_bytes(0), ..Config::default() }), "response");
    assert_eq!(path(Config { client_hello: Size::from_bytes(0), ..Config::default() }), "client_hello");
    assert_eq!(path(Config { nagle: true, tls: false, ..Config::default() }), "nagle");
    let frames = Config { upload_frame: Size::from_bytes(2), http: Version::One, ..Config::default() };
    assert_eq!(path(frames), "upload_frame");
    let buffer = Config { send_buffer: Size::from_bytes(1), http: Version::One, ..Config::default() };
    assert_eq!(path(buffer), "send_buffer");
    let buffer = Config { send_buffer: Size::from_bytes(4_194_305), ..Config::default() };
    assert_eq!(path(buffer), "send_buffer");
    assert_eq!(path(Config { echo_every: Span::from_nanos(1), ..Config::default() }), "echo_every");
}
