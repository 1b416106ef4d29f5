//! Guests at the ends of a path: the contract, the frames, and faults.

use std::io::{Cursor, Read};

use aqm_path::guests::{
    Answer, Border, Call, Echo, End, Event, Guest, Limits, Payload, Problem, Report, Setup, Start, frames,
    run,
};
use aqm_path::{Ecn, Instant, Path};

const PATH: &str = r#"
seed = 3
forward = [{ rate = "1Mbps", delay = "20ms", queue = { kind = "codel" }, loss = { probability = 0.1 } }]
reverse = [{ rate = "500kbps", delay = "20ms", queue = { kind = "drop-tail", limit = "2p" } }]
"#;

fn border(seed: u64) -> Border {
    Border::new(Path::from_toml(PATH).unwrap(), Setup { seed, ..Setup::default() })
}

fn echo(seed: u64) -> Report {
    run(&mut border(seed), [&mut Echo::default(), &mut Echo::default()]).unwrap()
}

/// Guests whose requests and answers pass through frames, as over pipes.
fn echo_over_frames(seed: u64) -> Report {
    let (mut border, mut guests) = (border(seed), [Echo::default(), Echo::default()]);
    while let Some(call) = border.next_call() {
        let (end, mut request) = (call.end(), frames::request(call));
        // The guest continues to wait for requests until it is stopped or its input ends.
        let mut answer = Vec::new();
        frames::serve(&mut guests[end as usize], &mut Cursor::new(std::mem::take(&mut request)), &mut answer)
            .unwrap();
        let mut length = [0; 4];
        let mut reader = answer.as_slice();
        reader.read_exact(&mut length).unwrap();
        assert_eq!(u32::from_le_bytes(length) as usize, reader.len());
        frames::answer(&mut border, reader).unwrap();
    }
    border.report().unwrap()
}

#[test]
fn an_echo_is_conserved_and_admitted() {
    let report = echo(1);
    let [client, server] = report.ends;
    assert_eq!(client.sent, 100);
    assert!(client.dropped > 0 && server.dropped > 0, "{report:?}");
    for end in report.ends {
        assert_eq!(end.sent, end.delivered + end.dropped + end.in_transit);
    }
    assert_eq!(server.sent, client.delivered);
    let rtts: Vec<f64> = report.events.iter().map(|recorded| recorded.event.value).collect();
    assert_eq!(rtts.len() as u64, server.delivered);
    assert!(rtts.iter().all(|&rtt| rtt > 0.04));
    assert_eq!(echo(1), report);
    assert_ne!(echo(2).digest, report.digest);
}

#[test]
fn guests_behind_frames_give_the_same_report() {
    assert_eq!(echo_over_frames(1), echo(1));
}

/// A client that answers its first call with a given answer, and then panics.
struct Scripted(Option<Result<Answer, String>>);

impl Guest for Scripted {
    fn start(&mut self, _: &Start) -> Result<Option<Instant>, String> {
        Ok(Some(Instant::from_nanos(1000)))
    }
    fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, String> {
        self.0.take().unwrap_or_else(|| panic!("called twice"))
    }
}

fn fault(answer: Result<Answer, String>) -> String {
    let mut border = border(1);
    let fault = run(&mut border, [&mut Scripted(Some(answer)), &mut Echo::default()]).unwrap_err();
    assert_eq!(border.report(), Err(fault.clone()));
    assert!(border.next_call().is_none());
    assert_eq!(border.last_exchanges().last(), Some(fault.to_string().as_str()));
    assert!(border.last_exchanges().next().unwrap().starts_with("client start, seed "));
    fault.to_string()
}

fn payload(flow: u32, bytes: usize) -> Payload {
    Payload { flow, ecn: Ecn::NotEct, data: vec![7; bytes] }
}

#[test]
fn violations_of_the_contract_are_faults_of_their_guest() {
    let datagrams = |datagrams: Vec<Payload>| Ok(Answer { datagrams, ..Answer::default() });
    let wake = |nanos| Ok(Answer { wake: Some(Instant::from_nanos(nanos)), ..Answer::default() });
    let event = |name: &str| {
        let events = vec![Event { name: name.to_owned(), value: 1.0 }];
        Ok(Answer { events, ..Answer::default() })
    };
    let names = "an answer may contain at most 1000 events, whose names must consist of 1 to 64 bytes";
    for (answer, expected) in [
        (Err("no key".to_owned()), "the guest reports an error: no key"),
        (wake(2000), "the guest panicked: called twice"),
        (wake(1000), "wake must be later than the time of the request, 1000 ns (got 1000 ns)"),
        (datagrams(vec![payload(0, 0)]), "the length of a datagram must be from 1 to 65507 bytes (got 0)"),
        (
            datagrams(vec![payload(0, 65_508)]),
            "the length of a datagram must be from 1 to 65507 bytes (got 65508)",
        ),
        (datagrams(vec![payload(65_536, 1)]), "the number of a flow must be less than 65536 (got 65536)"),
        (datagrams(vec![payload(0, 1); 10_001]), "an answer may contain at most 10000 datagrams (got 10001)"),
        (event(""), names),
        (event(&"x".repeat(65)), names),
    ] {
        let found = fault(answer);
        let at = if expected.contains("panicked") { 2000 } else { 1000 };
        assert_eq!(found, format!("client at {at} ns: {expected}"));
    }
}

#[test]
fn an_answer_for_another_time_is_a_fault() {
    let mut border = border(1);
    for _ in 0..2 {
        border.next_call().unwrap();
        border.started(Some(Instant::from_nanos(5000))).unwrap();
    }
    assert!(matches!(border.next_call(), Some(Call::Run { end: End::Client, .. })));
    let fault = border.answer(Instant::from_nanos(4000), Answer::default()).unwrap_err();
    assert_eq!(fault.problem, Problem::OtherTime(Instant::from_nanos(4000)));
    assert_eq!(
        fault.to_string(),
        "client at 5000 ns: the answer must be for the time of the request, 5000 ns (got 4000 ns)"
    );
}

/// A guest that answers each datagram at once.
struct Bouncing;

impl Guest for Bouncing {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, String> {
        Ok((start.end == End::Client).then_some(Instant::START))
    }
    fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, String> {
        Ok(Answer { datagrams: vec![payload(0, 1)], ..Answer::default() })
    }
}

#[test]
fn a_run_in_which_time_does_not_advance_ends() {
    // 29 bytes take 23 ps.
    let path = Path::from_toml(r#"forward = [{ rate = "10Tbps", delay = "0s" }]"#).unwrap();
    let limits = Limits { calls: 10, ..Limits::default() };
    let mut border = Border::new(path, Setup { limits, ..Setup::default() });
    let fault = run(&mut border, [&mut Bouncing, &mut Bouncing]).unwrap_err();
    assert_eq!(fault.to_string(), "client at 0 ns: the guest was called 10 times at the same time");
}

#[test]
fn frames_that_are_not_valid_answers_are_faults() {
    let error = |body: &[u8]| {
        let mut border = border(1);
        border.next_call().unwrap();
        frames::answer(&mut border, body).unwrap_err().to_string()
    };
    for (body, expected) in [
        (&[][..], "the frame is not a valid answer: the body is too short"),
        (&[1][..], "the frame is not a valid answer: the kind must be 129, 130, 131 or 255 (got 1)"),
        (&[129, 0, 0][..], "the frame is not a valid answer: the body is too short"),
        (
            &[129, 0, 0, 0, 0, 0, 0, 0, 0, 9][..],
            "the frame is not a valid answer: the body is longer than its contents by 1 bytes",
        ),
        (&[131][..], "the frame is not a valid answer: the request was not to stop"),
        (&[255, 0xff][..], "the frame is not a valid answer: a text is not UTF-8"),
        (&[255, b'n', b'o'][..], "the guest reports an error: no"),
    ] {
        assert_eq!(error(body), format!("client at 0 ns: {expected}"));
    }
    let huge = [0xff_u8; 4];
    let served = frames::serve(&mut Echo::default(), &mut Cursor::new(huge), &mut Vec::new());
    assert!(served.unwrap_err().to_string().starts_with("the body must contain at most 1073741824 bytes"));
}

proptest::proptest! {
    /// Mangled frames never cause a panic.
    #[test]
    fn any_bytes_are_a_valid_answer_or_a_fault(body in proptest::collection::vec(proptest::num::u8::ANY, 0..60), kind in 128_u8..133) {
        let mut border = border(1);
        border.next_call().unwrap();
        let _ = frames::answer(&mut border, &body);
        let mut border = crate::guests::border(1);
        for _ in 0..2 {
            border.next_call().unwrap();
            border.started(Some(Instant::START)).unwrap();
        }
        border.next_call().unwrap();
        let mut typed = vec![kind];
        typed.extend(&body);
        let _ = frames::answer(&mut border, &typed);
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(&body);
        let _ = frames::serve(&mut Echo::default(), &mut Cursor::new(frame), &mut Vec::new());
    }
}
