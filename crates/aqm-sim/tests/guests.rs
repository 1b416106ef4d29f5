//! Guests as hosts of a scenario, beside simulated flows.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use aqm_guest::{Answer, Echo, End, Event, Guest, Origin, Payload, Problem, Provider, Start};
use aqm_net::level::{Document, Failure, Files, Run};
use aqm_net::table::Column;
use aqm_net::watch::{StopRequest, Watch};
use aqm_net::{Ecn, Instant, Span};
use aqm_sim::PacketLevel;

/// A server that sends a datagram of 1000 bytes each millisecond, and a client that reports the bytes. The name of the
/// program is the number of the datagram after which the server fails.
struct Stream {
    is_server: bool,
    sent: u64,
    fails_after: u64,
}

impl Guest for Stream {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        self.is_server = start.end == End::Server;
        Ok(self.is_server.then_some(Instant::START))
    }
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        if !self.is_server {
            let bytes: usize = received.iter().map(|one| one.data.len()).sum();
            let event = Event { name: "received_bytes".to_owned(), value: bytes as f64 };
            return Ok(Answer { events: vec![event], ..Answer::default() });
        }
        self.sent += 1;
        if self.sent > self.fails_after {
            return Err("the stream is broken".into());
        }
        let datagrams = vec![Payload { flow: 0, ecn: Ecn::NotEct, data: vec![0; 1000] }];
        Ok(Answer { datagrams, wake: Some(now + Span::from_millis(1)), events: Vec::new() })
    }
}

/// Number of guests of the program `page` that exist, and the largest number so far.
static PAGES: (AtomicU32, AtomicU32) = (AtomicU32::new(0), AtomicU32::new(0));

/// A client that requests one datagram, and a server that sends the datagram. Neither sends a datagram again.
struct Page {
    is_client: bool,
}

impl Page {
    fn new() -> Self {
        PAGES.1.fetch_max(PAGES.0.fetch_add(1, Relaxed) + 1, Relaxed);
        Self { is_client: false }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        PAGES.0.fetch_sub(1, Relaxed);
    }
}

impl Guest for Page {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        self.is_client = start.end == End::Client;
        Ok(self.is_client.then_some(Instant::START))
    }
    fn run(&mut self, _: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let sends = self.is_client == received.is_empty();
        let datagrams = sends.then(|| Payload { flow: 0, ecn: Ecn::NotEct, data: vec![0; 1000] });
        Ok(Answer { datagrams: datagrams.into_iter().collect(), ..Answer::default() })
    }
}

struct Programs;

impl Provider for Programs {
    fn guest(&self, origin: &Origin<'_>, _: &StopRequest) -> Result<Box<dyn Guest>, String> {
        match origin {
            Origin::Program { command: [name], .. } if name == "page" => Ok(Box::new(Page::new())),
            Origin::Program { command: [name], .. } if name == "echo" => Ok(Box::new(Echo::default())),
            Origin::Program { command: [name], .. } => {
                let fails_after = name.parse().map_err(|_| format!("there is no program {name}"))?;
                Ok(Box::new(Stream { is_server: false, sent: 0, fails_after }))
            }
            _ => Err("there is no such stack".to_owned()),
        }
    }
}

/// Programs whose files have changed.
struct ChangedPrograms;

impl Provider for ChangedPrograms {
    fn guest(&self, origin: &Origin<'_>, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
        Programs.guest(origin, stop)
    }
    fn program_digest(&self, command: &[String]) -> Option<String> {
        Some(format!("changed {}", command.join(" ")))
    }
}

static LEVEL: PacketLevel = PacketLevel { guests: &Programs };

fn run(client: &str, seed: u64) -> Result<Run, Failure> {
    run_flows(client, seed, (2, "1s"))
}

fn run_flows(client: &str, seed: u64, (flows, stagger): (u32, &str)) -> Result<Run, Failure> {
    let text = format!(
        r#"
        duration = "5s"
        seed = {seed}
        bottleneck = {{ rate = "4Mbps", delay = "10ms", queue = {{ kind = "drop-tail", limit = "5p" }} }}
        [traffic.bulk]
        kind = "ftp"
        [traffic.guest]
        kind = "guest"
        client = ["{client}"]
        size = "100kB"
        start = "1s"
        flows = {flows}
        stagger = "{stagger}"
        "#
    );
    let plan = Document::of_toml(&text, "folder".as_ref(), &[&LEVEL]).unwrap().plan(Files::new()).unwrap();
    plan.run(&Watch::default())
}

/// Returns the values of the guests in a column of whole numbers.
fn of_guests(run: &Run, table: &str, column: &str) -> Vec<u64> {
    let table = run.tables.iter().find(|one| one.name == table).unwrap();
    let find = |name: &str| &table.columns.iter().find(|(one, _)| *one == name).unwrap().1;
    let Column::Word { codes, words } = find("traffic") else { panic!("no words") };
    let Column::Whole(values) = find(column) else { panic!("no whole numbers") };
    let rows = codes.iter().zip(values).filter(|(code, _)| words[**code as usize] == "guest");
    rows.map(|(_, value)| *value).collect()
}

#[test]
fn guests_share_a_link_with_simulated_flows() {
    let first = run("1000000", 1).unwrap();
    // Each server sends 1028 B at 1 ms, which is 8.2 Mb/s on a link of 4 Mb/s.
    assert_eq!(of_guests(&first, "transfers", "size_bytes"), [100_000, 100_000]);
    for (sent, dropped, received) in [0, 1].map(|flow| {
        let value = |column| of_guests(&first, "flows", column)[flow];
        (value("packets_sent"), value("packets_dropped"), value("delivered_bytes") / 1000)
    }) {
        assert!((3000..=4000).contains(&sent) && dropped > sent / 2, "{sent} {dropped}");
        // The rest is in the queue or on the link.
        let in_transit = sent - dropped - received;
        assert!(in_transit <= 5 + 1 + 5, "{in_transit}");
    }
    let reports = of_guests(&first, "reports", "flow");
    let received: u64 = of_guests(&first, "flows", "delivered_bytes").iter().sum();
    assert_eq!(reports.len() as u64, received / 1000);
    assert_eq!(first.digest(), run("1000000", 1).unwrap().digest());
    assert_ne!(first.digest(), run("1000000", 2).unwrap().digest());
}

#[test]
fn guests_may_send_in_both_directions() {
    let echo = run("echo", 1).unwrap();
    // The table of flows has a row for the direction from the server to the client.
    assert_eq!(of_guests(&echo, "flows", "packets_sent").len(), 2);
    // The echo guest does not report received bytes.
    let reports = of_guests(&echo, "reports", "flow");
    assert!((1..=200).contains(&reports.len()), "{}", reports.len());
}

#[test]
fn programs_end_when_nothing_can_happen_so_that_many_flows_need_few_programs() {
    let pages = run_flows("page", 1, (500, "3s")).unwrap();
    let sent = of_guests(&pages, "flows", "packets_sent");
    let dropped: u64 = of_guests(&pages, "flows", "packets_dropped").iter().sum();
    // The server of a flow whose request was dropped sends nothing.
    assert!(sent.len() == 500 && sent.iter().all(|&sent| sent <= 1) && dropped > 0);
    let (left, most) = (PAGES.0.load(Relaxed), PAGES.1.load(Relaxed));
    // With 167 flows/s and a round-trip time of 20 ms and the queue, about 6 flows are in progress at a time.
    assert!(left == 0 && (4..100).contains(&most), "{left} {most}");
    let Err(Failure::Workload { message, .. }) = run_flows("page", 1, (500, "10ms")) else {
        panic!("no failure")
    };
    assert!(message.contains("100 flows are in progress"), "{message}");
}

#[test]
fn the_digest_of_a_scenario_depends_on_the_files_of_its_programs() {
    static CHANGED: PacketLevel = PacketLevel { guests: &ChangedPrograms };
    let digest = |level: &'static PacketLevel, kind: &str| {
        let link = "bottleneck = { rate = \"1Mbps\", queue = { kind = \"drop-tail\" } }";
        let text = format!("duration = \"5s\"\n{link}\n[traffic.one]\n{kind}");
        let document = Document::of_toml(&text, "folder".as_ref(), &[level]).unwrap();
        document.plan(Files::new()).unwrap().digest().unwrap()
    };
    let guest = "kind = \"guest\"\nclient = [\"echo\"]";
    assert_ne!(digest(&LEVEL, guest), digest(&CHANGED, guest));
    for other in ["kind = \"ftp\"", "kind = \"guest\"\nstack = \"quinn\""] {
        assert_eq!(digest(&LEVEL, other), digest(&CHANGED, other));
    }
}

#[test]
fn a_fault_ends_the_run() {
    let Err(Failure::Workload { message, report }) = run("3", 1) else { panic!("no failure") };
    assert!(message.starts_with("traffic.guest, flow "), "{message}");
    assert!(
        message.ends_with(": server at 3000000 ns: the guest reports an error: the stream is broken"),
        "{message}"
    );
    assert!(report.contains("server run at 2000000 ns, 0 datagrams received: 1 datagrams sent"), "{report}");
    let Err(Failure::Workload { message, .. }) = run("no-such-program", 1) else { panic!("no failure") };
    assert_eq!(message, "traffic.guest: there is no program no-such-program");
}
