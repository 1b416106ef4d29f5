//! Guests as hosts of a scenario, beside simulated flows.

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

struct Programs;

impl Provider for Programs {
    fn guest(&self, origin: &Origin<'_>, _: &StopRequest) -> Result<Box<dyn Guest>, String> {
        match origin {
            Origin::Program { command: [name], .. } if name == "echo" => Ok(Box::new(Echo::default())),
            Origin::Program { command: [name], .. } => {
                let fails_after = name.parse().map_err(|_| format!("there is no program {name}"))?;
                Ok(Box::new(Stream { is_server: false, sent: 0, fails_after }))
            }
            _ => Err("there is no such stack".to_owned()),
        }
    }
}

static LEVEL: PacketLevel = PacketLevel { guests: &Programs };

fn run(client: &str, seed: u64) -> Result<Run, Failure> {
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
        flows = 2
        stagger = "1s"
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
