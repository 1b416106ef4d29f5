//! Two ends, a clock moved by hand, and a path that does as the test says.
//!
//! A line of the log is the time in milliseconds, the direction (`>` from the client, which opens), and
//! what was sent: data by the number of its segment from 1, whether it was sent before (`again`), what it
//! acknowledges if that is new (`ack 3`: three segments; `ack FIN`: all and the FIN), blocks of SACK by
//! the segments they cover, ECN bits, and what became of it.

// Every test file takes the part it needs.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::sync::Arc;

use aqm_net::{Ecn, Instant, Span};
use aqm_tcp::{Close, Config, Endpoint, Flags, LastSegment, Segment, Tcp};
use serde_json::{Value, json};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It opens the connection.
    Client,
    Server,
}
pub use Side::{Client, Server};

impl Side {
    pub fn other(self) -> Self {
        match self {
            Client => Server,
            Server => Client,
        }
    }
}

/// When an end does something of itself.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// So many milliseconds after the start.
    At(u64),
    /// When it has received so many bytes in all.
    Received(u64),
}

/// What it does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Write(u64),
    Finish,
}

/// A segment as it enters the path.
pub struct Sent {
    pub from: Side,
    pub segment: Segment,
    /// Whether it acknowledges a FIN.
    acks_fin: bool,
    /// Payload of a full segment.
    mss: u64,
}

impl Sent {
    /// Direction, what it is, and `again` if it was sent before.
    pub fn name(&self) -> String {
        let Segment { seq, flags, len, .. } = self.segment;
        let mut name = String::from(if self.from == Client { ">" } else { "<" });
        let is_bare = len == 0 && !flags.has(Flags::SYN) && !flags.has(Flags::FIN);
        match flags {
            _ if flags.has(Flags::SYN.and(Flags::ACK)) => name += " SYN-ACK",
            _ if flags.has(Flags::SYN) => name += " SYN",
            _ if is_bare => name += &self.acknowledgement(),
            _ if len > 0 => _ = write!(name, " {}", seq / self.mss + 1),
            _ => {}
        }
        if flags.has(Flags::FIN) {
            name += " FIN";
        }
        if flags.has(Flags::RETRANSMISSION) {
            name += " again";
        }
        name
    }

    fn acknowledgement(&self) -> String {
        match self.acks_fin {
            true => " ack FIN".to_owned(),
            false => format!(" ack {}", self.segment.ack.div_ceil(self.mss)),
        }
    }

    /// Whether it carries payload.
    pub fn has_data(&self) -> bool {
        self.segment.len > 0
    }
}

/// A copy of a segment that gets through.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub after: Span,
    /// Whether a router marks it, if it may.
    pub marked: bool,
}

/// How long the path takes each way.
pub const ONE_WAY: Span = Span::from_millis(50);
/// Longer than anything here takes, except a sender without end.
pub const HOUR: Instant = Instant::from_nanos(3_600_000_000_000);
/// Payload of a full segment in the tables.
pub const MSS: u64 = 1000;

/// `millis` after the start.
pub fn at(millis: u64) -> Instant {
    Instant::START + Span::from_millis(millis)
}

/// What becomes of a segment: the copies that arrive.
pub type Fate<'a> = &'a mut dyn FnMut(&Sent) -> Vec<Copy>;

/// One copy, after the time of the path.
pub fn arrives() -> Vec<Copy> {
    vec![Copy { after: ONE_WAY, marked: false }]
}

/// A fate that loses what `lost` says.
pub fn losing(lost: impl Fn(&Sent) -> bool) -> impl FnMut(&Sent) -> Vec<Copy> {
    move |sent| if lost(sent) { vec![] } else { arrives() }
}

/// A path that treats named segments differently: a name counts for one segment, the first of that name.
#[derive(Default)]
pub struct Path {
    rules: Vec<(String, Vec<Copy>)>,
}

impl Path {
    /// Loses these.
    pub fn losing(names: &[&str]) -> Self {
        Self::default().with(names, vec![])
    }

    pub fn and_losing(self, names: &[&str]) -> Self {
        self.with(names, vec![])
    }

    /// Marks these.
    pub fn marking(names: &[&str]) -> Self {
        Self::default().and_marking(names)
    }

    pub fn and_marking(self, names: &[&str]) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY, marked: true }])
    }

    /// Lets these take so much longer.
    pub fn and_delaying(self, names: &[&str], millis: u64) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY + Span::from_millis(millis), marked: false }])
    }

    /// Doubles these.
    pub fn and_doubling(self, names: &[&str]) -> Self {
        self.with(names, [arrives(), arrives()].concat())
    }

    fn with(mut self, names: &[&str], copies: Vec<Copy>) -> Self {
        self.rules.extend(names.iter().map(|&name| (name.to_owned(), copies.clone())));
        self
    }

    pub fn fate(&mut self, sent: &Sent) -> Vec<Copy> {
        let name = sent.name();
        match self.rules.iter().position(|rule| rule.0 == name) {
            Some(place) => self.rules.remove(place).1,
            None => arrives(),
        }
    }
}

/// Both ends and everything on its way between them.
pub struct Pair {
    pub ends: [Endpoint; 2],
    pub now: Instant,
    /// Everything that was sent: when, which way, what, and what became of it.
    pub log: Vec<String>,
    /// Whether to keep a log.
    pub logs: bool,
    /// When client and server sent data for the first time.
    pub first_sent: [Vec<Instant>; 2],
    pub tcp: [Arc<Tcp>; 2],
    pub configs: [Config; 2],
    /// What arrived in the last step, and where.
    pub arrived: Option<(Side, Segment)>,
    plan: Vec<(Side, When, Act)>,
    /// Bytes that each end wrote, padding included.
    pub written: [u64; 2],
    acked: [u64; 2],
    opened: bool,
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    segments: Vec<(Side, Segment)>,
}

impl Pair {
    /// Both ends with the same settings, and nothing planned.
    pub fn new(settings: Value) -> Self {
        Self::between(settings.clone(), settings)
    }

    /// A client and a server with settings of their own.
    pub fn between(client: Value, server: Value) -> Self {
        let configs = [client, server].map(|settings| aqm_tcp::read(settings).unwrap());
        let tcp = configs.clone().map(|config| Arc::new(config.build().unwrap()));
        Self {
            ends: [tcp[0].endpoint(), tcp[1].endpoint()],
            now: Instant::START,
            log: Vec::new(),
            logs: true,
            first_sent: [vec![], vec![]],
            tcp,
            configs,
            arrived: None,
            plan: Vec::new(),
            written: [0; 2],
            acked: [0; 2],
            opened: false,
            heap: BinaryHeap::new(),
            segments: Vec::new(),
        }
    }

    /// The client sends so many bytes and closes; the server writes nothing.
    pub fn one_way(settings: Value, bytes: u64) -> Self {
        let mut pair = Self::new(settings).plan(Client, When::At(0), Act::Write(bytes));
        if pair.configs[1].close == Close::None {
            pair = pair.plan(Server, When::At(0), Act::Finish);
        }
        pair.plan(Client, When::At(0), Act::Finish)
    }

    /// The client sends without end.
    pub fn endless(settings: Value) -> Self {
        let mut pair = Self::new(settings);
        pair.ends[0].write(None, Instant::START);
        pair.written[0] = u64::MAX;
        pair
    }

    /// Has an end do something of itself.
    #[must_use]
    pub fn plan(mut self, side: Side, when: When, act: Act) -> Self {
        self.plan.push((side, when, act));
        self
    }

    pub fn client(&self) -> &Endpoint {
        &self.ends[0]
    }

    pub fn server(&self) -> &Endpoint {
        &self.ends[1]
    }

    /// Runs until nothing is left to happen, or `until`.
    pub fn run(&mut self, until: Instant, fate: Fate<'_>) {
        while self.step(until, fate) {}
    }

    /// Runs to the end over `path`, whose names must all have come up.
    pub fn over(mut self, mut path: Path) -> Self {
        self.run(HOUR, &mut |sent| path.fate(sent));
        let unused: Vec<&String> = path.rules.iter().map(|rule| &rule.0).collect();
        assert!(unused.is_empty(), "never sent: {unused:?}\n{}", self.log.join("\n"));
        self
    }

    /// The next thing happens; false if there is none until `until`.
    pub fn step(&mut self, until: Instant, fate: Fate<'_>) -> bool {
        if !self.opened {
            self.opened = true;
            self.act();
            self.ends[1].listen(self.now);
            self.ends[0].open(self.now);
            self.drain(fate);
            return true;
        }
        let arrival = self.heap.peek().map(|entry| entry.0.0);
        let timers = self.ends.each_ref().map(Endpoint::poll_timeout);
        let planned = self.plan.iter().filter_map(|step| match step.1 {
            When::At(millis) => Some(at(millis)),
            When::Received(_) => None,
        });
        let Some(next) = planned.chain(timers.into_iter().flatten()).chain(arrival).min() else {
            return false;
        };
        if next > until {
            return false;
        }
        assert!(next >= self.now, "a timer lies in the past: {next:?} at {:?}", self.now);
        self.now = next;
        self.arrived = self.heap.pop_if_at(next).map(|id| self.segments[id]);
        match self.arrived {
            Some((to, segment)) => self.ends[to as usize].on_segment(&segment, next),
            None => self.ends.iter_mut().for_each(|end| end.on_timer(next)),
        }
        self.act();
        self.drain(fate);
        true
    }

    /// Does what is planned for now.
    fn act(&mut self) {
        while let Some(place) = self.plan.iter().position(|&(side, when, _)| match when {
            When::At(millis) => at(millis) <= self.now,
            When::Received(bytes) => self.ends[side as usize].received() >= bytes,
        }) {
            let (side, _, act) = self.plan.remove(place);
            match act {
                Act::Write(bytes) => {
                    self.written[side as usize] += self.padded(side, bytes);
                    self.ends[side as usize].write(Some(bytes), self.now);
                }
                Act::Finish => self.ends[side as usize].finish(),
            }
        }
    }

    /// What `bytes` bytes are on the wire without headers, if `side` writes them.
    pub fn padded(&self, side: Side, bytes: u64) -> u64 {
        match self.configs[side as usize].last_segment {
            LastSegment::Exact => bytes,
            LastSegment::Padded => self.tcp[side as usize].segments(bytes) * self.mss(side),
        }
    }

    fn mss(&self, side: Side) -> u64 {
        self.tcp[side as usize].payload()
    }

    fn drain(&mut self, fate: Fate<'_>) {
        for side in [Client, Server] {
            let mut sent = 0;
            while let Some(segment) = self.ends[side as usize].poll_transmit(self.now) {
                if segment.len > 0 && !segment.flags.has(Flags::RETRANSMISSION) {
                    self.first_sent[side as usize].push(self.now);
                }
                self.enter(side, segment, fate);
                sent += 1;
                assert!(sent < 100_000, "never stops sending");
            }
        }
    }

    fn enter(&mut self, from: Side, segment: Segment, fate: Fate<'_>) {
        let acks_fin = segment.ack > self.written[from.other() as usize];
        let sent = Sent { from, segment, acks_fin, mss: self.mss(from) };
        let copies = fate(&sent);
        if self.logs {
            let line = self.describe(&sent, &copies);
            self.log.push(format!("{:>5} {line}", self.now.nanos() / 1_000_000));
        }
        self.acked[from as usize] = segment.ack;
        for copy in copies {
            let may_mark = matches!(segment.ecn, Ecn::Ect0 | Ecn::Ect1);
            let ecn = if copy.marked && may_mark { Ecn::Ce } else { segment.ecn };
            self.segments.push((from.other(), Segment { ecn, ..segment }));
            let id = self.segments.len() - 1;
            self.heap.push(Reverse((self.now + copy.after, id as u64, id)));
        }
    }

    fn describe(&self, sent: &Sent, copies: &[Copy]) -> String {
        let Segment { ack, flags, sacks, ecn, .. } = sent.segment;
        let (me, peer) = (sent.from as usize, sent.from.other() as usize);
        let mss = sent.mss;
        let mut line = sent.name();
        if ack > self.acked[me] && !line.contains(" ack ") {
            line += &sent.acknowledgement();
        }
        let ranges: Vec<String> = sacks
            .ranges(ack)
            .map(|(from, to)| {
                let (first, last) = (from / mss + 1, to.min(self.written[peer]).div_ceil(mss));
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            })
            .collect();
        if !ranges.is_empty() {
            _ = write!(line, " sack {}", ranges.join(" "));
        }
        for (flag, name) in [(Flags::ECE, " ECE"), (Flags::CWR, " CWR")] {
            line += if flags.has(flag) { name } else { "" };
        }
        line += if ecn == Ecn::NotEct { "" } else { " ECT" };
        line += match copies {
            [] => " lost",
            [copy] if copy.marked => " marked",
            [copy] if copy.after > ONE_WAY => " late",
            [_] => "",
            _ => " twice",
        };
        line
    }
}

trait PopIfAt {
    fn pop_if_at(&mut self, at: Instant) -> Option<usize>;
}

impl PopIfAt for BinaryHeap<Reverse<(Instant, u64, usize)>> {
    fn pop_if_at(&mut self, at: Instant) -> Option<usize> {
        let Reverse((first, _, id)) = *self.peek()?;
        (first == at).then(|| {
            self.pop();
            id
        })
    }
}

/// `rfc`, with 1000-byte segments and prompt acknowledgements.
pub fn rfc(more: Value) -> Value {
    over(json!({"mss": "1000B", "delayed_ack": "off"}), more)
}

/// `ns-2.35`, with a receiver's window that does not limit.
pub fn ns2(more: Value) -> Value {
    over(json!({"profile": "ns-2.35", "receiver_window": 1000}), more)
}

/// `table` with the entries of `more` laid over it.
pub fn over(mut table: Value, more: Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// Sends `segments` full segments one way over a path that loses these; both ends must be done.
pub fn exchange(settings: Value, segments: u64, lost: &[&str]) -> Pair {
    transfer(settings, segments, Path::losing(lost))
}

/// Sends `segments` full segments one way over `path`; both ends must be done.
pub fn transfer(settings: Value, segments: u64, path: Path) -> Pair {
    let pair = Pair::one_way(settings, segments * MSS).over(path);
    assert_done(&pair, [segments, 0]);
    pair
}

/// Everything has arrived, and both ends are done with nothing left to do.
pub fn assert_done(pair: &Pair, segments: [u64; 2]) {
    let log = pair.log.join("\n");
    let received = [pair.server().received(), pair.client().received()];
    assert_eq!(received, segments.map(|count| count * MSS), "received\n{log}");
    assert!(pair.client().is_done() && pair.server().is_done(), "not done\n{log}");
    assert!(pair.ends.iter().all(|end| end.poll_timeout().is_none()), "a timer is left\n{log}");
}

/// Compares the log with a table.
pub fn assert_table(pair: &Pair, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let log = pair.log.join("\n");
    assert_eq!(lines(&log), lines(expected), "\n{log}");
}

/// What the log says between two moments, in milliseconds, without times.
pub fn between(pair: &Pair, from: u64, to: u64) -> Vec<String> {
    let lines = pair.log.iter().map(|line| line.trim().split_once(' ').unwrap());
    let chosen = lines.filter(|(time, _)| (from..=to).contains(&time.parse().unwrap()));
    chosen.map(|(_, what)| what.to_owned()).collect()
}

/// What the client sent at that time, without what it acknowledged.
pub fn sent_at(pair: &Pair, millis: u64) -> Vec<String> {
    let lines = between(pair, millis, millis);
    lines.iter().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned).collect()
}

/// Compares what the log says between two moments, in milliseconds, with a table.
pub fn assert_part(pair: &Pair, from: u64, to: u64, expected: &str) {
    let time = |line: &str| line.trim().split_once(' ').unwrap().0.parse::<u64>().unwrap();
    let found: Vec<&str> =
        pair.log.iter().filter(|line| (from..=to).contains(&time(line))).map(|line| line.trim()).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, expected, "\n{}", pair.log.join("\n"));
}
