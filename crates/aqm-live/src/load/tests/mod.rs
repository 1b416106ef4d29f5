//! Tests of complete loads on the loopback device.

mod alone;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use aqm_net::level::Files;
use aqm_net::table::Column;
use aqm_net::watch::Watch;
use aqm_traffic::{Conversation, Exchange, TrafficContext, Transfer, Workload};

use super::record::ExchangeRecord;
use super::*;

/// Hosts on the loopback device with the addresses 127.NET.x.y. Each workload uses two values of NET, one for each end.
struct Loopback {
    net: u8,
    /// The end that listens on all addresses with a single socket, if there is such an end.
    at_all: Option<HostIndex>,
}

impl Loopback {
    /// Creates hosts whose addresses are not used by any other test.
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        Self { net: NEXT.fetch_add(4, Ordering::Relaxed), at_all: None }
    }

    /// Runs the scenario `text` until the end of the run.
    fn play(&self, text: &str) -> (Vec<RequestRecord>, Facts) {
        let (prepared, _delays) = prepare(&plan(text), self).unwrap();
        let load = prepared.start(Clock::start()).unwrap();
        load.finish().unwrap()
    }

    fn address(&self, index: HostIndex) -> SocketAddrV4 {
        let [first, second] = self.prefix(index);
        SocketAddrV4::new(Ipv4Addr::new(first, second, 0, 1), DEFAULT_PORT)
    }
}

impl HostSet for Loopback {
    fn prefix(&self, index: HostIndex) -> [u8; 2] {
        [127, self.net + 2 * index.traffic as u8 + index.side as u8]
    }
    fn has_own_namespace(&self, index: HostIndex) -> bool {
        self.at_all == Some(index)
    }
    fn run(&self, _index: HostIndex, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, LiveError> {
        Ok(std::thread::spawn(task))
    }
}

const BOTTLENECK: &str = r#"
[bottleneck]
rate = "100Mbps"
delay = "1ms"
queue = { kind = "drop-tail", limit = "500p" }
"#;

fn plan(text: &str) -> Plan {
    let text = format!("seed = 3\n{text}\n{BOTTLENECK}");
    Plan::of_toml(&text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

const PLAIN: Options = Options { dscp: 0, no_delay: true, datagram_header: 28 };

const SENDER: HostIndex = HostIndex { traffic: 0, side: Side::Sender };
const RECEIVER: HostIndex = HostIndex { traffic: 0, side: Side::Receiver };

#[test]
fn a_bulk_transfer_arrives_completely_and_is_recorded() {
    let (records, facts) = Loopback::new().play(
        r#"
        duration = "1s"
        [traffic.bulk]
        kind = "ftp"
        flows = 3
        stagger = "0s"
        sizes = { kind = "constant", value = "1MB" }
        "#,
    );
    assert_eq!(records.len(), 3);
    for (host, one) in (1..).zip(&records) {
        assert_eq!(one.transfer.bytes, Some(1_000_000));
        assert!(one.failed.is_none() && one.completed.is_some_and(|done| done > one.opened), "{one:?}");
        let local = one.local.unwrap();
        assert_eq!((local.ip().octets()[3], one.remote.ip().octets()[3]), (host, host));
        let tcp = one.tcp.as_ref().unwrap();
        assert!(tcp.cwnd > 0 && !tcp.srtt.is_zero(), "{tcp:?}");
        assert!(facts.workloads[0].congestion_controls.contains(&tcp.congestion_control));
    }
    assert_eq!(facts.workloads[0].failures.len(), 0);
    assert!(facts.workloads[0].load.contains(&("opened", 3.0)));
}

#[test]
fn an_endless_transfer_is_incomplete_at_the_end_and_its_kernel_state_is_read() {
    let (records, facts) = Loopback::new().play(
        "duration = \"2s\"\n[traffic.bulk]\nkind = \"ftp\"\nflows = 2\nstagger = \"0s\"\nhosts = \"shared\"",
    );
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|one| one.completed.is_none() && one.failed.is_none() && one.tcp.is_some()));
    assert_eq!(facts.workloads[0].failures.len(), 0);
}

#[test]
fn a_stopped_load_ends_at_once() {
    let plan = plan("duration = \"1000s\"\n[traffic.bulk]\nkind = \"ftp\"\nstagger = \"0s\"");
    let (prepared, _delays) = prepare(&plan, &Loopback::new()).unwrap();
    let load = prepared.start(Clock::start()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    load.stop();
    let (records, _) = load.finish().unwrap();
    assert!(records.len() == 1 && records[0].tcp.is_some());
}

/// Returns the sizes and the start times of the transfers that a simulation starts, in order.
fn simulated(plan: &Plan) -> (Vec<u64>, Vec<f64>) {
    let tables = plan.run(&Watch::default()).unwrap().tables;
    let transfers = tables.iter().find(|table| table.name == "transfers").unwrap();
    let column = |name: &str| &transfers.columns.iter().find(|(column, _)| *column == name).unwrap().1;
    let (Column::Whole(sizes), Column::Real(starts)) = (column("size_bytes"), column("start_s")) else {
        panic!("other types of columns")
    };
    (sizes.clone(), starts.clone())
}

const WEB: &str = r#"
duration = "1s"
[traffic.web]
kind = "web"
load = 0.1
objects = { kind = "discrete-uniform", minimum = 1, maximum = 5 }
"#;

#[test]
fn objects_of_web_pages_have_the_sizes_and_times_of_a_simulation() {
    for request in ["", "request = \"300B\""] {
        let text = format!("{WEB}{request}");
        let (sizes, starts) = simulated(&plan(&text));
        assert!(sizes.len() > 50, "{}", sizes.len());
        let (records, facts) = Loopback::new().play(&text);
        let found: Vec<u64> = records.iter().filter_map(|one| one.transfer.bytes).collect();
        assert_eq!(found, sizes);
        let late = records.iter().zip(starts).map(|(one, start)| one.opened.seconds() - start);
        assert!(late.clone().all(|late| (-1e-9..0.5).contains(&late)), "{:?}", late.fold(0.0, f64::max));
        let missing = records.iter().filter(|one| one.completed.is_none()).count();
        assert!(missing <= 20, "{missing} of {} are missing", records.len());
        assert_eq!(facts.workloads[0].failures.len(), 0);
        assert_eq!(
            facts.wakes.count(),
            facts.workloads[0].load.iter().find(|it| it.0 == "pages").unwrap().1 as u64
        );
    }
}

#[test]
fn received_datagrams_are_counted_at_every_address() {
    let text = r#"
        duration = "300ms"
        [traffic.voice]
        kind = "udp"
        flows = 3
        rate = "800kbps"
        ecn = true
        sizes = { kind = "constant", value = "500B" }
        port = 18999
    "#;
    for at_all in [None, Some(RECEIVER)] {
        let (records, facts) = Loopback { at_all, ..Loopback::new() }.play(text);
        assert_eq!(records.len(), 3);
        for one in &records {
            let received = one.received.unwrap();
            // The stream sends one datagram every 5 ms.
            assert!((50..=60).contains(&received.count), "{received:?}");
            assert_eq!((received.bytes, received.overtaken), (500 * received.count, 0));
            assert!(!received.total_delay.is_zero() && one.local.is_some());
        }
        let facts = &facts.workloads[0];
        assert_eq!((facts.failures.len(), facts.lengthened), (0, 0));
    }
}

/// A workload that opens the given transfers and conversations at the start of the run.
#[derive(Clone)]
struct Script {
    conversations: Vec<Conversation>,
    transfers: Vec<Transfer>,
    outcomes: Arc<Mutex<Vec<(bool, Transfer)>>>,
}

impl Workload for Script {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.transfers.drain(..).for_each(|transfer| cx.open(transfer));
        self.conversations.drain(..).for_each(|conversation| cx.converse(conversation));
    }
    fn on_wake(&mut self, _cx: &mut dyn TrafficContext) {}
    fn on_done(&mut self, transfer: Transfer, _cx: &mut dyn TrafficContext) {
        self.outcomes.lock().unwrap().push((true, transfer));
    }
    fn on_failed(&mut self, transfer: Transfer, _cx: &mut dyn TrafficContext) {
        self.outcomes.lock().unwrap().push((false, transfer));
    }
}

/// Runs a script until `ends` transfers have completed or failed, but for at most 2.5 s, and returns the outcome.
fn act(script: &Script, ends: usize, listens: bool) -> (Vec<RequestRecord>, Facts) {
    let hosts = Loopback::new();
    let both = [SENDER, RECEIVER];
    let prefixes = both.map(|index| hosts.prefix(index));
    let addresses = Addresses { prefixes, count: 1, own: false, port: DEFAULT_PORT };
    let ((reports, received), (ready, is_ready)) = (mpsc::channel(), mpsc::channel());
    let (expected, (delays, _announced)) = (Expected::default(), mpsc::channel());
    let (commands, threads): (Vec<_>, Vec<_>) = both
        .map(|index| {
            let (commands, receiver) = unbounded_channel();
            let listening = if listens { addresses.listening(index.side, false) } else { Vec::new() };
            let (expected, reports, delays) = (Arc::clone(&expected), reports.clone(), delays.clone());
            let spec = EndSpec {
                index,
                options: PLAIN,
                listening,
                sends_datagrams: false,
                expected,
                reports,
                delays,
            };
            let ready = ready.clone();
            (commands, std::thread::spawn(move || end::run(spec, receiver, &ready)))
        })
        .into_iter()
        .unzip();
    both.iter().for_each(|_| is_ready.recv().unwrap().unwrap());
    let player =
        Player::new("script", Box::new(script.clone()), Ends { addresses, options: PLAIN, commands });
    // The run is stopped when all expected events have been reported.
    let end = Instant::START + Span::from_millis(300_000);
    let outcomes = Arc::clone(&script.outcomes);
    std::thread::spawn(move || {
        while outcomes.lock().unwrap().len() < ends {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The accepting ends of connections may still report events.
        std::thread::sleep(Duration::from_millis(500));
        let _ = reports.send(Report::Stop);
    });
    Players::new(vec![player], Clock::start(), end, Arc::default()).play(&received, threads)
}

fn transfer(bytes: u64, request: Option<u32>) -> Transfer {
    Transfer { bytes: Some(bytes), request, page: None, page_objects: 1, host: 0 }
}

#[test]
fn a_refused_connection_is_reported_to_its_workload_with_the_reason() {
    let transfers = vec![transfer(1000, None), transfer(1000, Some(100))];
    let script = Script { conversations: Vec::new(), transfers: transfers.clone(), outcomes: Arc::default() };
    let (records, facts) = act(&script, 2, false);
    let reason = "opening: Connection refused (os error 111)";
    assert!(
        records.iter().all(|one| one.failed.as_deref() == Some(reason) && one.local.is_some()),
        "{records:?}"
    );
    assert_eq!(facts.workloads[0].failures, [(reason.to_owned(), 2)].into());
    let mut outcomes = script.outcomes.lock().unwrap().clone();
    outcomes.sort_by_key(|(_, transfer)| transfer.request);
    assert_eq!(outcomes, [(false, transfers[0]), (false, transfers[1])]);
}

#[test]
fn the_exchanges_of_a_conversation_are_in_order_with_their_pauses() {
    let exchange = |pause, request, think, response| Exchange {
        pause: Span::from_millis(pause),
        think: Span::from_millis(think),
        ..Exchange::immediate(request, response)
    };
    let rest = vec![exchange(30, 200, 0, 50_000), exchange(10, 20_000, 20, 100)];
    let first = exchange(500, 100, 15, 3000);
    let conversation = Conversation { rest, ..Conversation::single(first) };
    let script =
        Script { conversations: vec![conversation], transfers: Vec::new(), outcomes: Arc::default() };
    let (records, facts) = act(&script, 3, true);
    assert_eq!(facts.workloads[0].failures.len(), 0, "{:?}", facts.workloads[0].failures);
    let [one] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((one.transfer.bytes, one.exchanges.len()), (Some(53_100), 3));
    let outcomes = script.outcomes.lock().unwrap().clone();
    let expected = [transfer(3000, Some(100)), transfer(50_000, Some(300)), transfer(100, Some(20_300))];
    assert_eq!(outcomes, expected.map(|transfer| (true, transfer)));
    let times = |index: usize| {
        let ExchangeRecord { requested_at, first_byte, completed, .. } = one.exchanges[index];
        [requested_at, first_byte, completed].map(Option::unwrap)
    };
    let [first, second, third] = [0, 1, 2].map(times);
    assert_eq!((first[0], one.completed), (one.opened, Some(third[2])));
    for [requested_at, first_byte, completed] in [first, second, third] {
        assert!(requested_at < first_byte && first_byte <= completed);
    }
    let millis = |from: Instant, to: Instant| to.since(from).seconds() * 1e3;
    // The pauses are not shorter than requested. By how much they are longer depends on the machine.
    let waits = [(first[0], first[1], 15.0), (first[2], second[0], 30.0), (second[2], third[0], 10.0)];
    for (from, to, least) in waits.into_iter().chain([(third[0], third[1], 20.0)]) {
        assert!(millis(from, to) >= least, "{} for {least}", millis(from, to));
    }
}

#[test]
fn two_thousand_connections_work_at_once() {
    let transfers =
        (0..2000).map(|number| transfer(2000 + number, (number % 2 == 0).then_some(100))).collect();
    let script = Script { conversations: Vec::new(), transfers, outcomes: Arc::default() };
    sockets::allow_many();
    let (records, facts) = act(&script, 2000, true);
    assert_eq!(facts.workloads[0].failures, BTreeMap::new());
    assert_eq!(records.iter().filter(|one| one.completed.is_some()).count(), 2000);
    assert_eq!(script.outcomes.lock().unwrap().len(), 2000);
}

#[test]
fn an_address_in_use_is_named() {
    let hosts = Loopback::new();
    let _taken = TcpListener::bind(hosts.address(SENDER)).unwrap();
    let plan = plan("duration = \"1s\"\n[traffic.bulk]\nkind = \"ftp\"");
    let Err(error) = prepare(&plan, &hosts) else { panic!("two listen at one address") };
    let expected = format!("cannot listen on {}: Address already in use", hosts.address(SENDER));
    assert!(error.what.starts_with(&expected), "{error}");
}
