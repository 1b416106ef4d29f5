//! Two ends, a clock moved by hand, and a path that does as the test says.
//!
//! A line of the log is the time in milliseconds, the direction (`>` from the client, which opens), and
//! what was sent: data by the number of its segment from 1, whether it was sent before (`again`), what it
//! acknowledges if that is new (`ack 3`: three segments; `ack FIN`: all and the FIN), blocks of SACK by
//! the segments they cover, ECN bits, and what became of it.

mod exchange;
mod path;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::sync::Arc;

use aqm_net::{Ecn, Instant, Span};
use aqm_tcp::config::connection::{Close, LastSegment};
use aqm_tcp::{CheckedConfig, Config, Endpoint, Flags, Segment};
use serde_json::Value;

pub use Side::{Client, Server};
pub use exchange::*;
pub use path::Path;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It opens the connection.
    Client,
    Server,
}

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
    /// This many milliseconds after the start.
    At(u64),
    /// When it has received this many bytes in all.
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
            _ if flags.has(Flags::SYN.union(Flags::ACK)) => name += " SYN-ACK",
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
    pub tcp: [Arc<CheckedConfig>; 2],
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

    /// The client sends `bytes` bytes and closes; the server writes nothing.
    pub fn one_way(settings: Value, bytes: u64) -> Self {
        let mut pair = Self::new(settings).plan(Client, When::At(0), Act::Write(bytes));
        if pair.configs[1].connection.close == Close::None {
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
        match self.configs[side as usize].connection.last_segment {
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
