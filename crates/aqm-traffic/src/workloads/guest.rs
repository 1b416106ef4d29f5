//! Guests (`guest`): transport implementations of other projects, in virtual time. Each flow consists of two guests,
//! the server, which sends data, and the client, which receives the data, according to the contract of the crate
//! `aqm-guest`.
//!
//! A datagram of a guest becomes a packet whose length includes the headers of IPv4 and UDP and the link header. The
//! time of the guests begins when the flow begins. If a server reports `cwnd_bytes`, its packets contain the congestion
//! window in segments of 1200 bytes, as the packets of simulated TCP do for queues such as SHRED.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aqm_guest::{
    Answer, End, Event, Fault, Guest, Limits, Origin, Payload, RECEIVED, STACKS, Stack, Start, Supervisor,
    WINDOW,
};
use aqm_net::{ConfigError, ConfigErrors, Instant, Parameter, Schema, Size, Span, parameters};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::guest_record::{GuestRecord, GuestReport, GuestTransfer, SEGMENT};
use crate::parameters::{Hosts, check_flows, start_offset};
use crate::{ArrivedDatagram, Build, BuildContext, TrafficContext, Workload};

/// A value in a guest's configuration: anything that JSON can express.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Setting(Value);

impl Parameter for Setting {
    fn schema() -> Schema {
        Schema::of("any value")
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        Ok(Self(value))
    }
}

parameters! {
    /// Guests: transport implementations of other projects in virtual time, for example a QUIC library.
    ///
    /// The server of each flow sends data, by default a file, to the client.
    pub struct Config {
        /// Name of a transport library in `aqmlab-guests`. Set either `stack` or `client`.
        pub stack: Option<String> = None, "no default: either `stack` or `client` is required";
        /// Congestion control of the server; by default, the stack's default.
        pub control: Option<String> = None, "the stack's default";
        /// Command and arguments of the program that runs the client.
        pub client: Vec<String> = Vec::new(), "no default: either `stack` or `client` is required";
        /// Command and arguments of the program that runs the server; by default, the command of the client.
        pub server: Vec<String> = Vec::new(), "aqmlab's choice: most guests can be both ends";
        /// Length of the file that the server of each flow sends; `"none"` if the guests do not transfer a file.
        pub size: Option<Size> = Some(Size::from_bytes(1_000_000)), "aqmlab's choice";
        /// Further entries of the guests' configuration, which depend on the stack or the program.
        pub options: BTreeMap<String, Setting> = BTreeMap::new(), "aqmlab's choice: the guest's defaults";
        /// Number of flows. Each flow has a client and a server of its own. With programs, at most 100 flows may be in
        /// progress at the same time. A flow ends when neither guest waits for a time and no datagram is in transit.
        pub flows: u32 = 1, "aqmlab's choice";
        /// Earliest start of a flow.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which flows begin at random times.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Maximum real time that a program may take to answer a request. A library has 10 s.
        pub time_limit: Span = Span::from_millis(10_000), "aqmlab's choice: as in `aqmlab guest check`";
        /// Hosts of the flows.
        pub hosts: Hosts = Hosts::Own, "aqmlab's choice: as for `ftp`";
    }
}

/// Maximum number of flows of programs that are in progress at the same time. Each flow in progress has two processes with
/// three pipes each, and a process may have 1024 open files by default on Linux.
const MAX_PROGRAM_FLOWS: u32 = 100;
/// Bytes of the headers of IPv4 (RFC 791) and UDP (RFC 768).
const HEADERS: usize = 28;
/// Maximum length of a packet in bytes.
const MAX_PACKET: usize = u16::MAX as usize;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_flows(self.flows)?;
        let source = self.source()?;
        ConfigError::unless(!self.time_limit.is_zero(), "time_limit", "must be above 0")?;
        let header = HEADERS + context.link_header.bytes() as usize;
        let size = MAX_PACKET.checked_sub(header).filter(|&size| size > 0);
        let size = size.ok_or_else(|| ConfigError::at("kind", "needs a shorter `link_header`"))?;
        let mut begins: Vec<(Instant, u32)> = (0..self.flows)
            .map(|flow| (Instant::START + self.start + start_offset(self.stagger, flow, context), flow))
            .filter(|(begin, _)| *begin < Instant::START + context.duration)
            .collect();
        begins.sort_unstable();
        // The first flow and the first flow too many begin at the same time if there is no stagger.
        let is_few = self.stack.is_some() || self.flows <= MAX_PROGRAM_FLOWS || !self.stagger.is_zero();
        let problem = format_args!(
            "must be at most {MAX_PROGRAM_FLOWS} for programs that begin at the same time, because each flow needs two \
             processes: set `stagger`"
        );
        ConfigError::unless(is_few, "flows", problem)?;
        let seed = |flow: u32, end: End| {
            let stream = format!("{}/{}", context.name, end.name());
            context.streams.named(&stream, flow.into()).bits()
        };
        let seeds = begins.iter().map(|&(_, flow)| (flow, End::ALL.map(|end| seed(flow, end)))).collect();
        let setup = Setup {
            name: context.name.to_owned(),
            source,
            config: self.guest_config(),
            size: self.size.map(Size::bytes),
            time_limit: self.time_limit,
            begins,
            seeds,
            header,
            limits: Limits { size, flows: 1, ..Limits::default() },
        };
        Ok(Box::new(Guests::new(Arc::new(setup))))
    }

    fn own_hosts(&self) -> bool {
        self.hosts == Hosts::Own
    }

    fn hosts(&self) -> u64 {
        self.hosts.count(self.flows)
    }

    fn sends_datagrams(&self) -> bool {
        true
    }

    fn observes_datagrams(&self) -> bool {
        true
    }

    fn has_guests(&self) -> bool {
        true
    }

    fn library(&self) -> Option<String> {
        self.known_stack().map(|Stack { library, version, .. }| format!("{library} {version}"))
    }

    fn guest_programs(&self) -> Option<[&[String]; 2]> {
        self.stack.is_none().then(|| [&self.client[..], self.server_command()])
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some("guests run in virtual time")
    }
}

impl Config {
    fn known_stack(&self) -> Option<&'static Stack> {
        STACKS.iter().find(|stack| Some(stack.name) == self.stack.as_deref())
    }

    fn server_command(&self) -> &[String] {
        if self.server.is_empty() { &self.client } else { &self.server }
    }

    fn source(&self) -> Result<Source, ConfigError> {
        let Some(name) = &self.stack else {
            let is_program = self.client.first().is_some_and(|program| !program.is_empty());
            ConfigError::unless(is_program, "stack", "is missing: set either `stack` or `client`")?;
            let is_program = self.server.first().is_none_or(|program| !program.is_empty());
            ConfigError::unless(is_program, "server", "must begin with the name of a program")?;
            return Ok(Source::Programs([self.client.clone(), self.server_command().to_owned()]));
        };
        for (path, command) in [("client", &self.client), ("server", &self.server)] {
            ConfigError::unless(command.is_empty(), path, "set either `stack` or programs, not both")?;
        }
        let list = |names: &mut dyn Iterator<Item = &'static str>| {
            names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
        };
        let Some(stack) = self.known_stack() else {
            let stacks = list(&mut STACKS.iter().map(|stack| stack.name));
            return Err(ConfigError::at("stack", format!("must be one of {stacks} (got {name:?})")));
        };
        if let Some(control) = &self.control
            && !stack.controls.contains(&control.as_str())
        {
            let controls = list(&mut stack.controls.iter().copied());
            let problem = format!("must be one of {controls} for the stack \"{name}\" (got {control:?})");
            return Err(ConfigError::at("control", problem));
        }
        Ok(Source::Stack(stack))
    }

    /// Returns the configuration of both guests, which is a JSON table.
    fn guest_config(&self) -> String {
        let mut table: Map<String, Value> =
            self.options.iter().map(|(name, Setting(value))| (name.clone(), value.clone())).collect();
        if let Some(control) = &self.control {
            table.insert("control".to_owned(), control.clone().into());
        }
        if let Some(size) = self.size {
            table.insert("size".to_owned(), size.bytes().into());
        }
        Value::Object(table).to_string()
    }
}

/// The source of the guests.
enum Source {
    Stack(&'static Stack),
    /// The commands of the client and of the server.
    Programs([Vec<String>; 2]),
}

/// The part of the workload that does not change during a run.
struct Setup {
    name: String,
    source: Source,
    config: String,
    size: Option<u64>,
    time_limit: Span,
    /// Start and number of each flow, in chronological order.
    begins: Vec<(Instant, u32)>,
    /// Seeds of the client and of the server, by flow.
    seeds: BTreeMap<u32, [u64; 2]>,
    /// Bytes of headers that each packet contains.
    header: usize,
    limits: Limits,
}

/// The running workload.
struct Guests {
    setup: Arc<Setup>,
    /// Number of flows that have begun.
    begun: usize,
    /// The guests, by flow. The mutex makes the workload shareable, and is never locked.
    pairs: BTreeMap<u32, Mutex<Pair>>,
    record: GuestRecord,
    /// Flows whose guests cannot be called any more, and have not been stopped.
    idle: BTreeSet<u32>,
    /// Wake-ups of the guests: time, flow and end.
    wakes: BTreeSet<(Instant, u32, End)>,
    /// The earliest wake-up that has been requested and is not over.
    requested: Option<Instant>,
    failed: bool,
}

impl Clone for Guests {
    /// Returns the workload in its initial state, because guests cannot be cloned.
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.setup))
    }
}

/// The two guests of a flow.
struct Pair {
    begin: Instant,
    supervisor: Supervisor,
    /// The client and the server.
    guests: [Box<dyn Guest>; 2],
    wakes: [Option<Instant>; 2],
    /// Contents of the datagrams on the network, by number, for each end that sent the datagrams.
    contents: [BTreeMap<u64, Vec<u8>>; 2],
    /// Number of datagrams that each end has sent.
    sent: [u64; 2],
    /// Position of the flow's transfer in the record.
    transfer: Option<usize>,
}

impl Workload for Guests {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        if self.requested.is_some_and(|requested| requested <= now) {
            self.requested = None;
        }
        self.end_idle(cx);
        while let Some(&(_, flow)) = self.setup.begins.get(self.begun).filter(|(begin, _)| *begin <= now) {
            self.begun += 1;
            self.begin(flow, cx);
        }
        while let Some(&(_, flow, end)) = self.wakes.first().filter(|(wake, ..)| *wake <= now && !self.failed)
        {
            self.call(flow, end, Vec::new(), cx);
        }
        self.end_idle(cx);
        self.sleep(cx);
    }

    fn on_datagram(&mut self, arrived: &ArrivedDatagram, cx: &mut dyn TrafficContext) {
        let Some(pair) = self.pairs.get_mut(&arrived.flow).map(exclusive) else { return };
        let sender = if arrived.back { End::Client } else { End::Server };
        let Some(data) = pair.contents[sender as usize].remove(&arrived.number) else { return };
        let received = Payload { flow: 0, ecn: arrived.ecn, data };
        self.call(arrived.flow, sender.other(), vec![received], cx);
        self.end_idle(cx);
        self.sleep(cx);
    }

    fn on_datagram_dropped(&mut self, flow: u32, back: bool, number: u64) {
        let Some(pair) = self.pairs.get_mut(&flow).map(exclusive) else { return };
        let sender = if back { End::Client } else { End::Server };
        pair.contents[sender as usize].remove(&number);
        if pair.is_idle() {
            self.idle.insert(flow);
        }
    }

    fn on_end(&mut self, cx: &mut dyn TrafficContext) {
        self.idle = self.pairs.keys().copied().collect();
        self.end_idle(cx);
    }

    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("flows", self.setup.begins.len() as f64);
        show("opened", self.begun as f64);
    }

    fn guest_record(&self) -> Option<&GuestRecord> {
        Some(&self.record)
    }
}

impl Guests {
    fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            begun: 0,
            pairs: BTreeMap::new(),
            record: GuestRecord::default(),
            idle: BTreeSet::new(),
            wakes: BTreeSet::new(),
            requested: None,
            failed: false,
        }
    }

    /// Stops the guests of idle flows, so that their processes and their memory are free before the end of the run.
    fn end_idle(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(flow) = self.idle.pop_first() {
            for end in End::ALL {
                let Some(pair) = self.pairs.get_mut(&flow).map(exclusive) else { continue };
                let now = pair.now(cx.now());
                let Pair { supervisor, guests, .. } = pair;
                if !self.failed
                    && let Err(fault) = supervisor.stop(&mut *guests[end as usize], end, now)
                {
                    self.fail(flow, &fault, cx);
                }
            }
            self.pairs.remove(&flow);
        }
    }

    /// Requests the next wake-up, unless an earlier wake-up has been requested.
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        let begin = self.setup.begins.get(self.begun).map(|&(begin, _)| begin);
        let wake = self.wakes.first().map(|&(wake, ..)| wake);
        let Some(next) = wake.into_iter().chain(begin).min() else { return };
        if self.requested.is_none_or(|requested| next < requested) {
            self.requested = Some(next);
            cx.wake_at(next);
        }
    }

    /// Starts the guests of a flow.
    fn begin(&mut self, flow: u32, cx: &mut dyn TrafficContext) {
        if self.failed {
            return;
        }
        let (setup, begin) = (Arc::clone(&self.setup), cx.now());
        let in_progress = self.pairs.len();
        if matches!(setup.source, Source::Programs(_)) && in_progress >= MAX_PROGRAM_FLOWS as usize {
            self.failed = true;
            let problem = format!(
                "traffic.{}, flow {flow}: at {} s, {in_progress} flows are in progress, and each flow needs two processes: \
                 reduce `flows`, or increase `stagger` (a flow ends when neither guest waits for a time and no datagram \
                 is in transit)",
                setup.name,
                begin.seconds()
            );
            return cx.fail(problem, String::new());
        }
        let guest = |end: End| match &setup.source {
            Source::Stack(stack) => cx.guest(&Origin::Stack(stack)),
            Source::Programs(commands) => {
                let (command, time_limit) = (&commands[end as usize][..], setup.time_limit);
                cx.guest(&Origin::Program { command, time_limit })
            }
        };
        let guests = match (guest(End::Client), guest(End::Server)) {
            (Ok(client), Ok(server)) => [client, server],
            (Err(problem), _) | (_, Err(problem)) => {
                self.failed = true;
                return cx.fail(format!("traffic.{}: {problem}", setup.name), String::new());
            }
        };
        let transfer = setup.size.map(|size| {
            let transfer =
                GuestTransfer { flow, begin, size, received: 0, first_byte: None, completed: None };
            self.record.transfers.push(transfer);
            self.record.transfers.len() - 1
        });
        let pair = Pair {
            begin,
            supervisor: Supervisor::new(setup.limits.clone()),
            guests,
            wakes: [None; 2],
            contents: Default::default(),
            sent: [0; 2],
            transfer,
        };
        // The flow from the server to the client exists from its beginning, also if the server sends nothing.
        cx.report_window(flow, 0);
        let pair = exclusive(self.pairs.entry(flow).or_insert(Mutex::new(pair)));
        for end in End::ALL {
            let seed = setup.seeds.get(&flow).map_or(0, |seeds| seeds[end as usize]);
            let start = Start { end, seed, config: setup.config.clone() };
            match pair.supervisor.start(&mut *pair.guests[end as usize], &start) {
                Ok(wake) => pair.set_wake(wake, (flow, end), &mut self.wakes),
                Err(fault) => return self.fail(flow, &fault, cx),
            }
        }
        if pair.is_idle() {
            self.idle.insert(flow);
        }
    }

    /// Calls the guest at an end of a flow with the datagrams that arrive.
    fn call(&mut self, flow: u32, end: End, received: Vec<Payload>, cx: &mut dyn TrafficContext) {
        if self.failed {
            return;
        }
        let Some(pair) = self.pairs.get_mut(&flow).map(exclusive) else { return };
        let now = pair.now(cx.now());
        let answer = pair.supervisor.run(&mut *pair.guests[end as usize], end, now, received);
        let Answer { datagrams, wake, events } = match answer {
            Ok(answer) => answer,
            Err(fault) => return self.fail(flow, &fault, cx),
        };
        pair.set_wake(wake, (flow, end), &mut self.wakes);
        let window = events.iter().rev().find(|event| end == End::Server && event.name == WINDOW);
        if let Some(Event { value, .. }) = window {
            cx.report_window(
                flow,
                libm::round(value / SEGMENT as f64).clamp(1.0, f64::from(u16::MAX)) as u16,
            );
        }
        for Payload { ecn, data, .. } in datagrams {
            // The limits ensure that the length fits.
            let bytes = (data.len() + self.setup.header) as u16;
            pair.contents[end as usize].insert(pair.sent[end as usize], data);
            pair.sent[end as usize] += 1;
            match end {
                End::Server => cx.datagram(flow, bytes, ecn),
                End::Client => cx.datagram_back(flow, bytes, ecn),
            }
        }
        if pair.is_idle() {
            self.idle.insert(flow);
        }
        let at = cx.now();
        let transfer = pair.transfer.and_then(|position| self.record.transfers.get_mut(position));
        let received = events.iter().filter(|event| end == End::Client && event.name == RECEIVED);
        if let Some(bytes) = received.map(|event| event.value as u64).reduce(u64::saturating_add) {
            self.record.received.entry(flow).or_default().push((at, bytes));
            if let Some(transfer) = transfer {
                transfer.receive(bytes, at);
            }
        }
        let reports = events.into_iter().map(|event| GuestReport { at, flow, end, event });
        self.record.reports.extend(reports);
    }

    /// Ends the run because of a fault in the guests of a flow.
    fn fail(&mut self, flow: u32, fault: &Fault, cx: &mut dyn TrafficContext) {
        self.failed = true;
        let Some(pair) = self.pairs.get_mut(&flow).map(exclusive) else { return };
        let message = format!("traffic.{}, flow {flow}: {fault}", self.setup.name);
        let mut lines = vec!["last requests and answers:".to_owned()];
        lines.extend(pair.supervisor.last_exchanges().map(|line| format!("  {line}")));
        for end in End::ALL {
            let diagnosis = pair.guests[end as usize].diagnosis();
            if !diagnosis.is_empty() {
                lines.extend([String::new(), format!("diagnosis of the {}:", end.name())]);
                lines.extend(diagnosis.lines().map(|line| format!("  {line}")));
            }
        }
        cx.fail(message, lines.join("\n") + "\n");
    }
}

impl Pair {
    /// Returns whether the guests cannot be called any more, because no datagram is in transit and neither guest has
    /// requested a wake-up.
    fn is_idle(&self) -> bool {
        self.wakes == [None; 2] && self.contents.iter().all(BTreeMap::is_empty)
    }

    /// Converts the time of the run to the time of the guests.
    fn now(&self, now: Instant) -> Instant {
        Instant::START + now.since(self.begin)
    }

    /// Replaces the wake-up of a guest. `wake` is in the time of the guests.
    fn set_wake(
        &mut self,
        wake: Option<Instant>,
        (flow, end): (u32, End),
        wakes: &mut BTreeSet<(Instant, u32, End)>,
    ) {
        let wake = wake.map(|wake| self.begin + wake.since(Instant::START));
        let previous = std::mem::replace(&mut self.wakes[end as usize], wake);
        if let Some(previous) = previous {
            wakes.remove(&(previous, flow, end));
        }
        if let Some(wake) = wake {
            wakes.insert((wake, flow, end));
        }
    }
}

impl GuestTransfer {
    fn receive(&mut self, bytes: u64, at: Instant) {
        if bytes == 0 {
            return;
        }
        self.received = self.received.saturating_add(bytes);
        self.first_byte.get_or_insert(at);
        if self.received >= self.size {
            self.completed.get_or_insert(at);
        }
    }
}

fn exclusive(pair: &mut Mutex<Pair>) -> &mut Pair {
    pair.get_mut().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use aqm_guest::{Echo, Problem, Provider};
    use aqm_net::Ecn;
    use aqm_net::watch::StopRequest;

    use super::*;
    use crate::recording::RecordingContext;
    use crate::testing::context;

    /// A client that requests one datagram and reports its length, and a server that sends the datagram.
    #[derive(Default)]
    struct Pages {
        is_client: bool,
    }

    impl Guest for Pages {
        fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
            self.is_client = start.end == End::Client;
            assert_eq!(start.config, r#"{"size":1000}"#);
            Ok(self.is_client.then_some(Instant::START))
        }
        fn run(&mut self, _: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
            let bytes = received.iter().map(|one| one.data.len()).sum::<usize>();
            let data = vec![0; if self.is_client { 10 } else { 1000 }];
            let datagrams = vec![Payload { flow: 0, ecn: Ecn::Ect0, data }];
            Ok(match (self.is_client, bytes) {
                (true, 0) => Answer { datagrams, ..Answer::default() },
                (true, bytes) => {
                    let event = Event { name: RECEIVED.to_owned(), value: bytes as f64 };
                    Answer { events: vec![event], ..Answer::default() }
                }
                (false, _) => {
                    let event = Event { name: WINDOW.to_owned(), value: 12_500.0 };
                    Answer { datagrams, events: vec![event], ..Answer::default() }
                }
            })
        }
    }

    /// A guest that fails.
    struct Broken;

    impl Guest for Broken {
        fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
            Ok((start.end == End::Client).then_some(Instant::START))
        }
        fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, Problem> {
            Err("no key".into())
        }
        fn diagnosis(&mut self) -> String {
            "a key".to_owned()
        }
    }

    /// Number of guests of the program `stops` that were stopped.
    static STOPPED: AtomicU32 = AtomicU32::new(0);

    /// A guest that counts its stops.
    #[derive(Default)]
    struct Stops(Pages);

    impl Guest for Stops {
        fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
            self.0.start(start)
        }
        fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
            self.0.run(now, received)
        }
        fn stop(&mut self) -> Result<(), Problem> {
            STOPPED.fetch_add(1, Relaxed);
            Ok(())
        }
    }

    /// Programs with the names `page`, `stops` and `broken` are these guests; other programs are echo guests.
    struct Programs;

    impl Provider for Programs {
        fn guest(&self, origin: &Origin<'_>, _: &StopRequest) -> Result<Box<dyn Guest>, String> {
            match origin {
                Origin::Program { command: [name], .. } if name == "page" => Ok(Box::new(Pages::default())),
                Origin::Program { command: [name], .. } if name == "stops" => Ok(Box::new(Stops::default())),
                Origin::Program { command: [name], .. } if name == "broken" => Ok(Box::new(Broken)),
                Origin::Program { .. } => Ok(Box::new(Echo::default())),
                Origin::Stack(stack) => Err(format!("no {}", stack.name)),
            }
        }
    }

    fn recording() -> RecordingContext {
        RecordingContext { guests: &Programs, ..RecordingContext::default() }
    }

    fn config(client: &str) -> Config {
        Config {
            client: vec![client.to_owned()],
            size: Some(Size::from_bytes(1000)),
            start: Span::from_millis(500),
            ..Config::default()
        }
    }

    fn arrived(back: bool, number: u64, bytes: u16) -> ArrivedDatagram {
        ArrivedDatagram { flow: 0, back, number, sent: Instant::START, bytes, ecn: Ecn::Ce }
    }

    #[test]
    fn a_client_receives_a_file() {
        let mut workload = config("page").build(&context(1, 10)).unwrap();
        let (mut cx, begin) = (recording(), Instant::START + Span::from_millis(500));
        workload.start(&mut cx);
        assert_eq!(cx.wakes.pop().unwrap().0, begin);
        cx.now = begin;
        workload.on_wake(&mut cx);
        cx.now = begin + Span::from_millis(10);
        assert_eq!(cx.sent_back, [(begin, 0, 38, Ecn::Ect0)]);
        workload.on_datagram(&arrived(true, 0, 38), &mut cx);
        assert_eq!(cx.sent, [(cx.now, 0, 1028, Ecn::Ect0)]);
        // The window is unknown at first; 12,500 bytes are 10 datagrams of 1200 bytes.
        assert_eq!(cx.windows, [(begin, 0, 0), (cx.now, 0, 10)]);
        cx.now = begin + Span::from_millis(20);
        workload.on_datagram(&arrived(false, 0, 1028), &mut cx);
        // A datagram is delivered once.
        workload.on_datagram(&arrived(false, 0, 1028), &mut cx);
        workload.on_end(&mut cx);
        let record = workload.guest_record().unwrap();
        let (size, at) = (1000, Some(cx.now));
        assert_eq!(
            record.transfers,
            [GuestTransfer { flow: 0, begin, size, received: size, first_byte: at, completed: at }]
        );
        assert_eq!(record.reports.len(), 2);
        assert_eq!((record.reports[1].at, record.reports[1].end), (cx.now, End::Client));
        assert!(cx.failures.is_empty());
    }

    #[test]
    fn a_clone_begins_anew_and_a_seed_determines_the_datagrams() {
        let send = |workload: &mut dyn Workload| {
            let mut cx = recording();
            workload.start(&mut cx);
            while let Some(std::cmp::Reverse(at)) = cx.wakes.pop() {
                cx.now = at;
                workload.on_wake(&mut cx);
            }
            assert_eq!(cx.sent_back.len(), 200);
            cx.sent_back
        };
        let build = |seed| Config { flows: 2, ..config("echo") }.build(&context(seed, 10)).unwrap();
        let mut workload = build(1);
        let first = send(&mut *workload);
        assert!(first.iter().all(|&(at, ..)| at >= Instant::START + Span::from_millis(500)));
        assert_eq!(send(&mut *workload.clone()), first);
        assert_ne!(send(&mut *build(2)), first);
    }

    #[test]
    fn guests_are_stopped_when_nothing_can_happen() {
        let stopped = || STOPPED.load(Relaxed);
        let mut workload = Config { flows: 2, ..config("stops") }.build(&context(1, 10)).unwrap();
        let (mut cx, begin) = (recording(), Instant::START + Span::from_millis(500));
        workload.start(&mut cx);
        cx.now = begin;
        workload.on_wake(&mut cx);
        // In each flow, the request of the client is in transit.
        assert_eq!((cx.sent_back.len(), stopped()), (2, 0));
        workload.on_datagram(&arrived(true, 0, 38), &mut cx);
        assert_eq!((cx.sent.len(), stopped()), (1, 0));
        workload.on_datagram(&arrived(false, 0, 1028), &mut cx);
        assert_eq!(stopped(), 2);
        // The guests of the other flow end at the next call of the workload.
        workload.on_datagram_dropped(1, true, 0);
        assert_eq!(stopped(), 2);
        workload.on_wake(&mut cx);
        assert_eq!(stopped(), 4);
        workload.on_end(&mut cx);
        assert_eq!(stopped(), 4);
        assert!(cx.failures.is_empty());
    }

    #[test]
    fn too_many_programs_at_the_same_time_end_the_run() {
        let stagger = Span::from_millis(1);
        let mut workload = Config { flows: 101, stagger, ..config("page") }.build(&context(1, 10)).unwrap();
        let mut cx = recording();
        cx.now = Instant::START + Span::from_millis(501);
        workload.on_wake(&mut cx);
        let [(message, _)] = &cx.failures[..] else { panic!("{:?}", cx.failures) };
        assert!(message.starts_with("traffic.test, flow "), "{message}");
        assert!(
            message.contains(": at 0.501 s, 100 flows are in progress, and each flow needs "),
            "{message}"
        );
    }

    #[test]
    fn a_fault_ends_the_run_with_the_last_exchanges() {
        let mut workload = config("broken").build(&context(1, 10)).unwrap();
        let mut cx = recording();
        cx.now = Instant::START + Span::from_millis(500);
        workload.on_wake(&mut cx);
        workload.on_end(&mut cx);
        let [(message, report)] = &cx.failures[..] else { panic!("{:?}", cx.failures) };
        assert_eq!(message, "traffic.test, flow 0: client at 0 ns: the guest reports an error: no key");
        assert!(report.starts_with("last requests and answers:\n  client start, seed "), "{report}");
        assert!(
            report.contains("\n\ndiagnosis of the client:\n  a key\n\ndiagnosis of the server:"),
            "{report}"
        );
    }

    #[test]
    fn a_missing_stack_ends_the_run() {
        let stack = Some("quinn".to_owned());
        let mut workload = Config { stack, ..Config::default() }.build(&context(1, 10)).unwrap();
        let mut cx = recording();
        workload.on_wake(&mut cx);
        assert_eq!(cx.failures, [("traffic.test: no quinn".to_owned(), String::new())]);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |change: fn(&mut Config)| {
            let mut config = config("page");
            change(&mut config);
            config.build(&context(1, 1)).err().unwrap().to_string()
        };
        for (change, expected) in [
            ((|config| config.flows = 0) as fn(&mut Config), "flows: must be between 1 and 1000000 (got 0)"),
            (
                |config| config.flows = 101,
                "flows: must be at most 100 for programs that begin at the same time, because each flow needs two \
                 processes: set `stagger`",
            ),
            (|config| config.time_limit = Span::ZERO, "time_limit: must be above 0"),
            (|config| config.client.clear(), "stack: is missing: set either `stack` or `client`"),
            (|config| config.server = vec![String::new()], "server: must begin with the name of a program"),
            (
                |config| config.stack = Some("quinn".to_owned()),
                "client: set either `stack` or programs, not both",
            ),
        ] {
            assert_eq!(error(change), expected);
        }
        let stack = |name: &str, control: &str| {
            let (stack, control) = (Some(name.to_owned()), Some(control.to_owned()));
            Config { stack, control, ..Config::default() }.build(&context(1, 1))
        };
        let error = stack("quin", "cubic").err().unwrap().to_string();
        assert!(
            error.starts_with("stack: must be one of \"") && error.ends_with("(got \"quin\")"),
            "{error}"
        );
        let error = stack("quinn", "vegas").err().unwrap().to_string();
        let expected =
            r#"control: must be one of "newreno", "cubic", "bbr" for the stack "quinn" (got "vegas")"#;
        assert_eq!(error, expected);
        for known in STACKS {
            for control in known.controls {
                assert!(stack(known.name, control).is_ok());
            }
        }
    }
}
