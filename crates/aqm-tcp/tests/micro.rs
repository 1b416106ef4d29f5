//! One TCP flow through a full drop-tail queue, compared event by event with ns-2.35: Tahoe, Reno, NewReno, SACK.
//!
//! src -- 10 Mb/s, 1 ms -- r1 -- 1 Mb/s, 20 ms, drop-tail -- r2 -- 10 Mb/s, 1 ms -- dst; 960 bytes of payload and 40 of
//! header, acknowledgements of 40 bytes, a receive window of 10000 segments, 15 seconds. `micro/` contains ns-2's
//! traces, made with one script for all agents (`TCP`, `TCP/Reno`, `TCP/Newreno`; `TCP/Sack1` with `TCPSink/Sack1`):
//! the arrivals, drops and departures at the bottleneck (ns-2 also reports `enqueue` for a packet that it drops next),
//! acknowledgements at the sender, and the sender's variables at each change (times in units of 10 microseconds,
//! because ns-2 prints no more digits). Sequence numbers are segments; 0 is the SYN.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use aqm_net::{Instant, Span};
use aqm_tcp::{Endpoint, Flags, Segment};
use serde_json::{Value, json};

const MSS: u64 = 960;
const END: Instant = Instant::from_nanos(15_000_000_000);

/// ns-2 draws the phase of the sender's clock at random; all of its runs drew this value.
const TICK_PHASE: &str = "4507785ns";

/// A run of ns-2.
struct Case {
    /// Differences from the profile `ns-2.35`.
    recovery: fn() -> Value,
    /// Limit of the queue in packets.
    limit: usize,
    events: &'static str,
    variables: &'static str,
    /// Segments sent, retransmissions, timeouts, and reductions of the window.
    counts: [u64; 4],
}

macro_rules! case {
    ($name:literal, $recovery:expr, $limit:literal, $counts:expr) => {
        Case {
            recovery: || $recovery,
            limit: $limit,
            events: include_str!(concat!("micro/", $name, "_events.csv")),
            variables: include_str!(concat!("micro/", $name, "_variables.csv")),
            counts: $counts,
        }
    };
}

const TAHOE: Case = case!("tahoe_limit10", json!({ "recovery": { "kind": "tahoe" } }), 10, [1728, 46, 0, 13]);
const RENO_10: Case = case!("reno_limit10", json!({ "recovery": { "kind": "reno" } }), 10, [1850, 45, 1, 16]);
const RENO_30: Case = case!("reno_limit30", json!({ "recovery": { "kind": "reno" } }), 30, [1862, 73, 1, 4]);
const NEWRENO: Case = case!(
    "newreno_limit10",
    json!({ "recovery": { "kind": "newreno", "exit_window": "deflated", "max_burst": 2 } }),
    10,
    [1868, 48, 1, 16]
);
const SACK: Case = case!(
    "sack_limit30",
    json!({
        "recovery": { "kind": "sack", "exit_ack": "deflates" },
        "sack": { "pipe": "counted", "option_bytes": "blocks", "dsack": "off" },
    }),
    30,
    [1913, 39, 0, 4]
);

#[test]
fn tahoe_gives_the_events_of_ns_2() {
    agrees(&TAHOE);
}

#[test]
fn reno_with_a_queue_of_ten_gives_the_events_of_ns_2() {
    agrees(&RENO_10);
}

#[test]
fn reno_with_a_queue_of_thirty_gives_the_events_of_ns_2() {
    agrees(&RENO_30);
}

#[test]
fn newreno_gives_the_events_of_ns_2() {
    agrees(&NEWRENO);
}

#[test]
fn sack_with_a_counted_pipe_gives_the_events_of_ns_2() {
    agrees(&SACK);
}

#[test]
fn until_the_first_timeout_the_phase_of_the_clock_does_not_matter() {
    for (case, timeout) in [(RENO_10, 726_720), (RENO_30, 1_396_720)] {
        // The phase shifts the timeout itself by a few ticks.
        let before = |line: &&str| line.split(',').next().unwrap().parse::<u64>().unwrap() < timeout - 50_000;
        let theirs: Vec<&str> = case.events.lines().skip(1).take_while(before).collect();
        for phase in 0..10 {
            let ours = Path::run(&case, &format!("{phase}ms")).events;
            let ours: Vec<&str> = ours.iter().map(String::as_str).take_while(before).collect();
            assert!(ours == theirs, "queue of {}, phase of {phase} ms", case.limit);
        }
    }
}

fn agrees(case: &Case) {
    let path = Path::run(case, TICK_PHASE);
    same(&path.events, case.events);
    same(&path.changes, case.variables);
    let counts = path.sender.counts();
    let timeouts = u64::from(counts.timeouts);
    let cuts = timeouts + u64::from(counts.fast_retransmits);
    assert_eq!([counts.segments_sent, counts.retransmitted.into(), timeouts, cuts], case.counts);
}

/// Compares line by line, and shows the context of the first difference.
fn same(ours: &[String], reference: &str) {
    let theirs: Vec<&str> = reference.lines().skip(1).collect();
    let length = ours.len().max(theirs.len());
    if let Some(at) = (0..length).find(|&i| ours.get(i).map(String::as_str) != theirs.get(i).copied()) {
        let from = at.saturating_sub(8);
        let ours = &ours[from.min(ours.len())..(at + 4).min(ours.len())];
        let theirs = &theirs[from.min(theirs.len())..(at + 4).min(theirs.len())];
        panic!("line {} differs\nours  {ours:?}\nns-2  {theirs:?}", at + 2);
    }
}

/// Events; simultaneous events are processed in this order, departures from the bottleneck before arrivals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AckKind {
    Departure,
    BehindBottleneck,
    AtBottleneck,
    AtReceiver,
    AtSender,
    Timer,
}

/// A link that never drops: the time at which it is idle, nanoseconds per byte, and its delay.
struct Line {
    free: Instant,
    per_byte: u64,
    delay: Span,
}

impl Line {
    fn new(per_byte: u64, millis: u64) -> Self {
        Self { free: Instant::START, per_byte, delay: Span::from_millis(millis) }
    }

    fn arrival(&mut self, now: Instant, bytes: u16) -> Instant {
        self.free = self.free.max(now) + Span::from_nanos(u64::from(bytes) * self.per_byte);
        self.free + self.delay
    }
}

struct Path {
    sender: Endpoint,
    receiver: Endpoint,
    heap: BinaryHeap<Reverse<(Instant, AckKind, u64, usize)>>,
    segments: Vec<Segment>,
    limit: usize,
    /// The bottleneck: the packet in transmission first, then the queued packets.
    queue: VecDeque<usize>,
    there: [Line; 2],
    back: [Line; 3],
    events: Vec<String>,
    shown: BTreeMap<&'static str, String>,
    changes: Vec<String>,
}

impl Path {
    fn run(case: &Case, tick_phase: &str) -> Self {
        let table = json!({
            "profile": "ns-2.35", "connection": { "mss": format!("{MSS}B") },
            "receiver": { "window": 10_000 }, "rto": { "tick_phase": tick_phase },
        });
        let tcp =
            Arc::new(aqm_tcp::read(aqm_tcp::overlay(&table, (case.recovery)())).unwrap().build().unwrap());
        let mut path = Self {
            sender: tcp.endpoint(),
            receiver: tcp.endpoint(),
            heap: BinaryHeap::new(),
            segments: Vec::new(),
            limit: case.limit,
            queue: VecDeque::new(),
            there: [Line::new(800, 1), Line::new(800, 1)],
            back: [Line::new(800, 1), Line::new(8000, 20), Line::new(800, 1)],
            events: Vec::new(),
            shown: BTreeMap::new(),
            changes: Vec::new(),
        };
        path.note_variables(Instant::START);
        path.receiver.listen(Instant::START);
        path.sender.write(None, Instant::START);
        path.sender.open(Instant::START);
        path.drain_sender(Instant::START);
        while let Some(Reverse((now, what, _, id))) = path.heap.pop() {
            if now >= END {
                break;
            }
            path.step(now, what, id);
        }
        path
    }

    fn step(&mut self, now: Instant, what: AckKind, id: usize) {
        match what {
            AckKind::AtBottleneck => {
                self.note(now, "enqueue", id);
                match self.queue.len() {
                    waiting if waiting >= self.limit => self.note(now, "drop", id),
                    waiting => {
                        self.queue.push_back(id);
                        if waiting == 0 {
                            self.serve(now);
                        }
                    }
                }
            }
            AckKind::Departure => {
                self.queue.pop_front();
                self.push(now + Span::from_millis(20), AckKind::BehindBottleneck, id);
                self.serve(now);
            }
            AckKind::BehindBottleneck => {
                self.note(now, "arrive", id);
                let at = self.there[1].arrival(now, self.segments[id].wire);
                self.push(at, AckKind::AtReceiver, id);
            }
            AckKind::AtReceiver => {
                self.receiver.on_segment(&self.segments[id], now);
                while let Some(ack) = self.receiver.poll_transmit(now) {
                    let at = self.back.iter_mut().fold(now, |at, line| line.arrival(at, ack.wire));
                    let id = self.keep(ack);
                    self.push(at, AckKind::AtSender, id);
                }
            }
            AckKind::AtSender => {
                self.note(now, "ack", id);
                self.sender.on_segment(&self.segments[id], now);
                self.note_variables(now);
                self.drain_sender(now);
            }
            AckKind::Timer if self.sender.poll_timeout() == Some(now) => {
                self.sender.on_timer(now);
                self.note_variables(now);
                self.drain_sender(now);
            }
            AckKind::Timer => {}
        }
    }

    fn serve(&mut self, now: Instant) {
        if let Some(&id) = self.queue.front() {
            let time = Span::from_nanos(u64::from(self.segments[id].wire) * 8000);
            self.push(now + time, AckKind::Departure, id);
        }
    }

    fn drain_sender(&mut self, now: Instant) {
        while let Some(segment) = self.sender.poll_transmit(now) {
            let at = self.there[0].arrival(now, segment.wire);
            let id = self.keep(segment);
            self.push(at, AckKind::AtBottleneck, id);
        }
        if let Some(at) = self.sender.poll_timeout() {
            self.push(at, AckKind::Timer, 0);
        }
    }

    fn keep(&mut self, segment: Segment) -> usize {
        self.segments.push(segment);
        self.segments.len() - 1
    }

    fn push(&mut self, at: Instant, what: AckKind, id: usize) {
        // The number of previous events keeps events of one kind in order of creation.
        let order = (self.events.len() + self.heap.len() + self.segments.len()) as u64;
        self.heap.push(Reverse((at, what, order, id)));
    }

    fn note(&mut self, now: Instant, event: &str, id: usize) {
        let segment = self.segments[id];
        let number = match segment.flags {
            flags if flags.has(Flags::SYN) => 0,
            _ if event == "ack" => segment.ack / MSS,
            _ => segment.seq / MSS + 1,
        };
        self.events.push(format!("{},{event},{number}", (now.nanos() + 500) / 1000));
    }

    fn note_variables(&mut self, now: Instant) {
        let seconds = |span: Option<Span>| format!("{:.3}", span.unwrap_or_default().seconds());
        // In quarters of a tick, whose last digit is rounded as in ns-2.
        let quarters = |span: Option<Span>| {
            format!("{:.3}", (span.unwrap_or_default().nanos() / 2_500_000) as f64 * 0.01 / 4.0)
        };
        let sender = &self.sender;
        let values = [
            ("cwnd", format!("{:.3}", sender.cwnd())),
            ("ssthresh", sender.ssthresh().to_string()),
            ("dupacks", sender.dupacks().to_string()),
            ("backoff", sender.backoff().to_string()),
            ("srtt", seconds(sender.srtt())),
            ("rttvar", quarters(sender.rttvar())),
        ];
        for (name, value) in values {
            // Before the first sample ns-2 shows a variation that it never uses.
            let shown = name != "rttvar" || sender.rttvar().is_some();
            if shown && self.shown.get(name) != Some(&value) {
                self.changes.push(format!("{},{name},{value}", (now.nanos() + 5_000) / 10_000));
                self.shown.insert(name, value);
            }
        }
    }
}
