//! Guests at the ends of a path: the contract, the frames, and faults.

use aqm_guest::{Answer, Echo, End, Event, Guest, Limits, Payload, Problem, Start};
use aqm_net::watch::Watch;
use aqm_path::guests::{Border, Failure, Report, Setup};
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
    border(seed).run([&mut Echo::default(), &mut Echo::default()], &Watch::default()).unwrap()
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

/// A client that answers its first call with a given answer, and then panics.
struct Scripted(Option<Result<Answer, Problem>>);

impl Guest for Scripted {
    fn start(&mut self, _: &Start) -> Result<Option<Instant>, Problem> {
        Ok(Some(Instant::from_nanos(1000)))
    }
    fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, Problem> {
        self.0.take().unwrap_or_else(|| panic!("called twice"))
    }
}

fn fault(answer: Result<Answer, Problem>) -> String {
    let mut border = border(1);
    let fault =
        border.run([&mut Scripted(Some(answer)), &mut Echo::default()], &Watch::default()).unwrap_err();
    assert_eq!(border.last_exchanges().last(), Some(fault.to_string()));
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
    let names = "an answer may contain at most 1000 events, whose names must consist of 1 to 64 bytes, and whose \
                 values must be finite";
    for (answer, expected) in [
        (Err("no key".into()), "the guest reports an error: no key"),
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
fn a_run_can_be_stopped() {
    let watch = Watch::default();
    watch.stop();
    let stopped = border(1).run([&mut Echo::default(), &mut Echo::default()], &watch);
    assert!(matches!(stopped, Err(Failure::Stopped(_))));
}

/// A guest that answers each datagram at once.
struct Bouncing;

impl Guest for Bouncing {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        Ok((start.end == End::Client).then_some(Instant::START))
    }
    fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, Problem> {
        Ok(Answer { datagrams: vec![payload(0, 1)], ..Answer::default() })
    }
}

#[test]
fn a_run_in_which_time_does_not_advance_ends() {
    // 29 bytes take 23 ps.
    let path = Path::from_toml(r#"forward = [{ rate = "10Tbps", delay = "0s" }]"#).unwrap();
    let limits = Limits { calls: 10, ..Limits::default() };
    let mut border = Border::new(path, Setup { limits, ..Setup::default() });
    let fault = border.run([&mut Bouncing, &mut Bouncing], &Watch::default()).unwrap_err();
    assert_eq!(fault.to_string(), "client at 0 ns: the guest was called 10 times at the same time");
}
