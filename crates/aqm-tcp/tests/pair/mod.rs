//! Two endpoints, a manual clock, and a path that a test controls.
//!
//! A line of the log contains the time in milliseconds, the direction (`>` from the client, which opens the
//! connection), and the segment: data by its segment number from 1, `again` for a retransmission, the acknowledgement
//! if it is new (`ack 3`: three segments; `ack FIN`: all data and the FIN), SACK blocks by the segments that they
//! cover, ECN bits, and the fate.

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

/// An endpoint of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens the connection.
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

/// Trigger of an action of an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// This number of milliseconds after the start.
    At(u64),
    /// After the endpoint has received this number of bytes in total.
    Received(u64),
}

/// Action of an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Write(u64),
    Finish,
}

/// A segment as it enters the path.
pub struct Sent {
    pub from: Side,
    pub segment: Segment,
    /// Whether the segment acknowledges a FIN.
    acks_fin: bool,
    /// Payload of a full segment.
    mss: u64,
}

impl Sent {
    /// Returns the direction, the contents and `again` for a retransmission.
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

    /// Whether the segment carries payload.
    pub fn has_data(&self) -> bool {
        self.segment.len > 0
    }
}

/// A copy of a segment that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub after: Span,
    /// Whether a router marks the copy, if it is ECN-capable.
    pub marked: bool,
}

/// Delay of the path in each direction.
pub const ONE_WAY: Span = Span::from_millis(50);
/// Longer than any run, except with an unlimited sender.
pub const HOUR: Instant = Instant::from_nanos(3_600_000_000_000);
/// Payload of a full segment in the tables.
pub const MSS: u64 = 1000;

/// Returns the time `millis` after the start.
pub fn at(millis: u64) -> Instant {
    Instant::START + Span::from_millis(millis)
}

/// Fate of a segment: the copies that arrive.
pub type Fate<'a> = &'a mut dyn FnMut(&Sent) -> Vec<Copy>;

/// Returns one copy, after the delay of the path.
pub fn arrives() -> Vec<Copy> {
    vec![Copy { after: ONE_WAY, marked: false }]
}

/// Returns a fate that loses the segments selected by `lost`.
pub fn losing(lost: impl Fn(&Sent) -> bool) -> impl FnMut(&Sent) -> Vec<Copy> {
    move |sent| if lost(sent) { vec![] } else { arrives() }
}

/// Both endpoints and all segments on their path.
pub struct Pair {
    pub ends: [Endpoint; 2],
    pub now: Instant,
    /// All segments sent: time, direction, contents and fate.
    pub log: Vec<String>,
    /// Whether a log is kept.
    pub logs: bool,
    /// Times at which client and server sent data for the first time.
    pub first_sent: [Vec<Instant>; 2],
    pub tcp: [Arc<CheckedConfig>; 2],
    pub configs: [Config; 2],
    /// Segment that arrived in the last step, and its receiver.
    pub arrived: Option<(Side, Segment)>,
    plan: Vec<(Side, When, Act)>,
    /// Bytes that each endpoint wrote, including padding.
    pub written: [u64; 2],
    acked: [u64; 2],
    opened: bool,
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    segments: Vec<(Side, Segment)>,
}

impl Pair {
    /// Creates two endpoints with the same settings and an empty plan.
    pub fn new(settings: Value) -> Self {
        Self::between(settings.clone(), settings)
    }

    /// Creates a client and a server with different settings.
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

    /// Creates a pair in which the client sends `bytes` bytes and closes, and the server writes nothing.
    pub fn one_way(settings: Value, bytes: u64) -> Self {
        let mut pair = Self::new(settings).plan(Client, When::At(0), Act::Write(bytes));
        if pair.configs[1].connection.close == Close::None {
            pair = pair.plan(Server, When::At(0), Act::Finish);
        }
        pair.plan(Client, When::At(0), Act::Finish)
    }

    /// Creates a pair in which the client sends without limit.
    pub fn endless(settings: Value) -> Self {
        let mut pair = Self::new(settings);
        pair.ends[0].write(None, Instant::START);
        pair.written[0] = u64::MAX;
        pair
    }

    /// Plans an action of an endpoint.
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

    /// Runs until no event is left, or until `until`.
    pub fn run(&mut self, until: Instant, fate: Fate<'_>) {
        while self.step(until, fate) {}
    }

    /// Runs to the end over `path`, all of whose names must have occurred.
    pub fn over(mut self, mut path: Path) -> Self {
        self.run(HOUR, &mut |sent| path.fate(sent));
        let unused: Vec<&String> = path.rules.iter().map(|rule| &rule.0).collect();
        assert!(unused.is_empty(), "never sent: {unused:?}\n{}", self.log.join("\n"));
        self
    }

    /// Processes the next event; returns false if there is none until `until`.
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

    /// Performs the actions planned for now.
    fn act(&mut self) {
        while let Some(index) = self.plan.iter().position(|&(side, when, _)| match when {
            When::At(millis) => at(millis) <= self.now,
            When::Received(bytes) => self.ends[side as usize].received() >= bytes,
        }) {
            let (side, _, act) = self.plan.remove(index);
            match act {
                Act::Write(bytes) => {
                    self.written[side as usize] += self.padded(side, bytes);
                    self.ends[side as usize].write(Some(bytes), self.now);
                }
                Act::Finish => self.ends[side as usize].finish(),
            }
        }
    }

    /// Returns the wire size without headers of `bytes` bytes written by `side`.
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
