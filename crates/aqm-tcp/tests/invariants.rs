//! Invariants on every path, with any losses, delays, reordering, duplicates and marks, and any settings.
//!
//! `AQM_FUZZ_CASES` sets the number of random connections; the seed is then random, or that of `AQM_FUZZ_SEED`. A
//! failure reports its seed, the command that repeats it, and the smallest failing connection found. The file is long
//! because the checks, the path and the generator belong together.

use crate::pair;
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pair::{Act, Client, Copy, Pair, Sent, Server, Side, When};
use aqm_net::{Ecn, Instant, Rng, Span, Streams};
use aqm_tcp::config::connection::{Close, Handshake};
use aqm_tcp::config::ecn::{EcnMode, MarkResponse};
use aqm_tcp::config::recovery::RecoveryKind;
use aqm_tcp::config::sack::Pipe;
use aqm_tcp::congestion_control::Control;
use aqm_tcp::{Config, Endpoint, FailureReason, Flags};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use serde_json::{Value, json};

/// Number of connections in a test run.
const CASES: u32 = 20_000;
const SEED: u64 = 7;
/// Maximum number of steps of a connection of these lengths on any path.
const MOST_STEPS: u32 = 1_000_000;
/// Long enough for every connection that ends.
const END: Instant = Instant::from_nanos(1 << 62);
const MSS: u64 = 100;

/// Parameters and their possible values; with probability one half a parameter keeps the profile's value.
const CHOICES: &[(&str, &[&str])] = &[
    ("recovery.kind", &["tahoe", "reno", "newreno", "sack", "rack", "quic"]),
    ("sack.pipe", &["counted", "ns-2-full", "scoreboard"]),
    ("recovery.reduction", &["at-once", "prr", "rfc-9937", "rate-halving"]),
    ("recovery.prr_bound", &["crb", "ssrb", "safe-ack"]),
    ("sack.at_timeout", &["kept", "forgotten"]),
    ("sack.dsack", &["off", "on"]),
    ("connection.handshake", &["three-way", "two-way", "none"]),
    ("connection.handshake_ack", &["with-data", "alone"]),
    ("connection.close", &["fin", "none"]),
    ("connection.fin_ack", &["with-data", "alone"]),
    ("connection.nagle", &["off", "on"]),
    ("rto.back_off_end", &["sample", "progress"]),
    ("connection.last_segment", &["exact", "padded"]),
    ("receiver.delayed_ack", &["off", "every-second", "heartbeat"]),
    ("recovery.limited_transmit", &["off", "new", "next"]),
    ("recovery.fast_retransmit_guard", &["none", "recover", "recover-or-first", "after-timeout"]),
    ("recovery.exit_ack", &["deflates", "grows", "grows-with-sack"]),
    ("recovery.inflation", &["beside", "in-window"]),
    ("rto.restart", &["after-sample", "before-sample"]),
    ("rto.restarted_by", &["recovery", "new-data"]),
    ("connection.repeated_syn", &["answered", "ignored"]),
    ("ecn.response", &["rfc-3168", "ns-2-full"]),
    ("recovery.exit_window", &["flight", "ssthresh", "deflated"]),
    ("recovery.partial_ack_timer", &["first", "each"]),
    ("cwnd.reduction_basis", &["flight-size", "window", "pipe"]),
    ("cwnd.growth_when_limited", &["holds", "grows", "rate-limited-increase"]),
    ("cwnd.repeated_timeout", &["holds", "halves"]),
    ("rto.samples", &["window", "segment"]),
    ("sack.option_bytes", &["counted", "blocks", "unpadded"]),
    ("cwnd.idle_restart", &["off", "initial-window", "one-segment", "to-initial-window"]),
];

/// Faults of a path.
#[derive(Debug, Clone)]
struct Path {
    seed: u64,
    /// Probability in percent, by sender.
    loss: [u64; 2],
    doubling: u64,
    marking: u64,
    /// Maximum extra delay, in milliseconds.
    jitter: u64,
}

impl Path {
    /// Draws the fate of a segment.
    fn fate(&self, sent: &Sent, rng: &mut Rng) -> Vec<Copy> {
        let lost = rng.below(100) < self.loss[sent.from as usize];
        let doubled = rng.below(100) < self.doubling;
        let copies = if lost { 0 } else { 1 + usize::from(doubled) };
        let mut copy = || Copy {
            after: Span::from_nanos(10_000_000 + rng.below(self.jitter * 1_000_000 + 1)),
            marked: rng.below(100) < self.marking,
        };
        (0..copies).map(|_| copy()).collect()
    }
}

/// Writers and their times.
#[derive(Debug, Clone)]
enum Script {
    /// One endpoint writes, then closes.
    OneWay(Side, u64),
    /// Both endpoints write at once, and close.
    Both(u64, u64),
    /// Requests and their responses, at least this number of milliseconds apart.
    Exchanges(Vec<(u64, u64)>),
}

impl Script {
    /// Plans the writes. An endpoint closes when no pending write depends on it.
    fn plan(&self, mut pair: Pair) -> Pair {
        let both_close = pair.configs[0].connection.close == Close::None;
        match self {
            Self::OneWay(side, bytes) => {
                pair =
                    pair.plan(*side, When::At(0), Act::Write(*bytes)).plan(*side, When::At(0), Act::Finish);
                if both_close {
                    pair = pair.plan(side.other(), When::At(0), Act::Finish);
                }
                pair
            }
            Self::Both(to_server, to_client) => {
                for (side, bytes) in [(Client, to_server), (Server, to_client)] {
                    pair =
                        pair.plan(side, When::At(0), Act::Write(*bytes)).plan(side, When::At(0), Act::Finish);
                }
                pair
            }
            Self::Exchanges(exchanges) => {
                let mut received = [0, 0];
                for &(request, response) in exchanges {
                    pair = pair.plan(Client, When::Received(received[0]), Act::Write(request));
                    received[1] += pair.padded(Client, request);
                    pair = pair.plan(Server, When::Received(received[1]), Act::Write(response));
                    received[0] += pair.padded(Server, response);
                }
                if both_close {
                    pair = pair.plan(Server, When::Received(received[1]), Act::Finish);
                }
                pair.plan(Client, When::Received(received[0]), Act::Finish)
            }
        }
    }
}

/// A connection.
#[derive(Debug, Clone)]
struct Case {
    settings: [Value; 2],
    path: Path,
    script: Script,
}

fn paths() -> impl Strategy<Value = Path> {
    (any::<u64>(), [0..=30u64, 0..=30u64], 0..=30u64, 0..=30u64, 0..=100u64)
        .prop_map(|(seed, loss, doubling, marking, jitter)| Path { seed, loss, doubling, marking, jitter })
}

fn scripts() -> impl Strategy<Value = Script> {
    prop_oneof![
        (prop_oneof![Just(Client), Just(Server)], 0..20_000u64)
            .prop_map(|(side, bytes)| Script::OneWay(side, bytes)),
        (0..10_000u64, 0..10_000u64).prop_map(|(one, other)| Script::Both(one, other)),
        proptest::collection::vec((1..2_000u64, 1..5_000u64), 1..5).prop_map(Script::Exchanges),
    ]
}

/// Settings of both endpoints that are compatible.
fn settings() -> impl Strategy<Value = [Value; 2]> {
    let profiles: Vec<&str> = aqm_tcp::profiles().iter().map(|profile| profile.name).collect();
    let sizes = (1..40u64, 1..20u64, 1..6u64, 0..10u64, 1..8u64, 3..16u64);
    let words = proptest::collection::vec(any::<u8>(), CHOICES.len());
    let flags = any::<[bool; 6]>();
    (proptest::sample::select(profiles), 0..2 * Control::NAMES.len(), words, sizes, flags).prop_filter_map(
        "settings that do not go together",
        |(profile, control, words, sizes, flags)| {
            let (receiver_window, initial_window, dupthresh, quick_acks, burst, retries) = sizes;
            let mut table = json!({
                "profile": profile,
                "connection": { "mss": "100B", "max_retries": retries, "max_syn_retries": retries },
                "receiver": { "window": receiver_window, "quick_acks": quick_acks },
                "cwnd": { "initial": initial_window }, "recovery": { "dupthresh": dupthresh },
            });
            for (&(parameter, words), word) in CHOICES.iter().zip(words) {
                let at = usize::from(word) % (2 * words.len());
                if at >= words.len() {
                    let (inner, name) = parameter.split_once('.').expect("the table and the parameter");
                    table[inner][name] = json!(words[at - words.len()]);
                }
            }
            if control >= Control::NAMES.len() {
                table["congestion_control"] =
                    json!({ "kind": Control::NAMES[control - Control::NAMES.len()] });
            }
            if flags[0] {
                table["recovery"]["max_burst"] = json!(burst);
            }
            if flags[1] {
                table["connection"]["send_overhead"] = json!("7ms");
            }
            if flags[4] {
                table["cwnd"]["abc_limit"] = if flags[5] { json!(2.0) } else { Value::Null };
            }
            let ends = [flags[2], flags[3]].map(|capable| {
                let ecn = json!({ "ecn": { "mode": if capable { "on" } else { "off" } } });
                pair::over(table.clone(), ecn)
            });
            aqm_tcp::read(ends[0].clone()).ok().and_then(|config| config.build().ok()).map(|_| ends)
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    (settings(), paths(), scripts()).prop_map(|(settings, path, script)| Case { settings, path, script })
}

/// Ranges of sequence numbers.
#[derive(Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn add(&mut self, mut from: u64, mut to: u64) {
        self.0.retain(|range| {
            let apart = range.1 < from || to < range.0;
            if !apart {
                (from, to) = (from.min(range.0), to.max(range.1));
            }
            apart
        });
        self.0.push((from, to));
    }

    /// Returns the number of sequence numbers from `from` to `to` that they cover.
    fn within(&self, from: u64, to: u64) -> u64 {
        self.0.iter().map(|range| range.1.min(to).saturating_sub(range.0.max(from))).sum()
    }
}

/// Observed state of an endpoint.
#[derive(Default)]
struct Watch {
    /// End of all sent data.
    sent: u64,
    /// End of all its acknowledged data.
    acked: u64,
    /// Number of QUIC packets sent, and largest number of a QUIC packet that arrived, plus one.
    packets: u64,
    next_arrived: u64,
    segments: u64,
    again: u64,
    pure_acks: u64,
    acknowledged: u64,
    received: u64,
    /// Data reported to it by SACK.
    sacked: Ranges,
    /// Data that has arrived, including FINs.
    arrived: Ranges,
    /// Data that it newly reported in this step.
    claims: Vec<(u64, u64)>,
    /// Whether it sent new data in this step.
    is_new: bool,
    /// End of the data sent at its last timeout.
    timed_out_at: u64,
    timeouts: u32,
    fast_retransmits: u32,
    mark_reductions: u32,
    /// End of the data sent at its last fast retransmit, or one byte less at a mark.
    recovers_to: u64,
    /// Window and segments in flight after the last step, and the larger window before the last of these.
    window: u64,
    flight: u64,
    before: u64,
}

impl Watch {
    /// Checks a segment sent by this endpoint.
    fn sends(&mut self, sent: &Sent, agreed: bool, config: &Config) {
        let segment = &sent.segment;
        let flags = segment.flags;
        let again = flags.has(Flags::RETRANSMISSION);
        let is_scalable = config.congestion_control.ecn().is_required;
        let capable = if config.congestion_control.kind() == "prague" { Ecn::Ect1 } else { Ecn::Ect0 };
        assert!(segment.ecn == Ecn::NotEct || segment.ecn == capable);
        let is_quic = config.recovery.kind == RecoveryKind::Quic;
        if segment.ecn == capable && !is_scalable {
            assert!(agreed, "ECN-capable without agreement");
            let may = !again || config.ecn.response == MarkResponse::Ns2Full;
            let is_first = sent.has_data() && may;
            assert!(
                is_first || config.ecn.acks == Some(true),
                "by default, only data sent for the first time may be ECN-capable"
            );
        }
        if flags.has(Flags::SYN) {
            return;
        }
        assert!(segment.len <= MSS as u32);
        if is_quic {
            self.numbers(segment);
        } else {
            assert!(segment.ack >= self.acknowledged, "an acknowledgement decreased");
            self.acknowledged = segment.ack;
            self.claims.push((0, segment.ack));
            self.claims.extend(segment.sacks.ranges(segment.ack));
        }
        if segment.end() == segment.seq {
            self.pure_acks += 1;
            return;
        }
        assert_eq!(again, segment.seq < self.sent, "either new or a retransmission");
        self.segments += 1;
        self.again += u64::from(again);
        self.is_new |= segment.end() > self.sent;
        self.sent = self.sent.max(segment.end());
    }

    /// Checks the numbers of a QUIC packet sent by this endpoint.
    fn numbers(&mut self, packet: &aqm_tcp::Segment) {
        if let Some(number) = packet.packet_number() {
            assert_eq!(number, self.packets, "numbers are consecutive");
            self.packets += 1;
        }
        assert!(packet.ack == 0 || packet.ack >= self.acknowledged, "the largest number decreased");
        self.acknowledged = self.acknowledged.max(packet.ack);
    }

    /// Records a segment that arrived at this endpoint.
    fn hears(&mut self, segment: &aqm_tcp::Segment, config: &Config) {
        if segment.end() > segment.seq {
            self.arrived.add(segment.seq, segment.end());
        }
        if config.recovery.kind == RecoveryKind::Quic {
            self.next_arrived = segment.packet_number().map_or(0, |number| number + 1).max(self.next_arrived);
            return;
        }
        self.acked = self.acked.max(segment.ack);
        for (from, to) in segment.sacks.ranges(segment.ack) {
            self.sacked.add(from, to);
        }
    }

    /// Checks the effects of a step on this endpoint.
    fn check(&mut self, end: &Endpoint, config: &aqm_tcp::Config) {
        assert!(end.received() >= self.received, "delivery decreased");
        self.received = end.received();
        assert_eq!(self.arrived.within(0, self.received), self.received, "delivered before it arrived");
        if config.recovery.kind == RecoveryKind::Quic {
            assert!(
                self.acknowledged <= self.next_arrived,
                "an acknowledgement of a packet that has not arrived"
            );
        }
        for (from, to) in self.claims.drain(..) {
            assert_eq!(self.arrived.within(from, to), to - from, "SACK reports data that has not arrived");
        }
        assert!(end.in_flight() <= config.receiver.window * MSS + 1, "beyond the receiver's window");
        let counts = end.counts();
        if counts.timeouts > self.timeouts {
            (self.timeouts, self.timed_out_at) = (counts.timeouts, self.sent);
        }
        if counts.fast_retransmits > self.fast_retransmits {
            self.fast_retransmits = counts.fast_retransmits;
            self.recovers_to = self.sent;
            self.before = self.window.max(self.flight);
        }
        if counts.mark_reductions > self.mark_reductions {
            self.mark_reductions = counts.mark_reductions;
            // Until more than the data sent before is acknowledged.
            self.recovers_to = self.sent + 1;
            self.before = self.window.max(self.flight);
        }
        (self.window, self.flight) = (end.cwnd() as u64, end.in_flight().div_ceil(MSS));
        if std::mem::take(&mut self.is_new) {
            self.check_window(end, config);
        }
    }

    /// Checks after new data was sent that the congestion window permits the data in flight.
    fn check_window(&self, end: &Endpoint, config: &aqm_tcp::Config) {
        let window = (end.cwnd() as u64).max(1);
        let in_flight = end.in_flight();
        let (allowed, used) = match config.recovery.kind {
            // Each duplicate adds a segment: by limited transmit, or by inflating the window.
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::NewReno => {
                (window + u64::from(end.dupacks()), in_flight)
            }
            // An estimate in recovery, in which the receiver's window is the only limit.
            RecoveryKind::Sack if config.sack.pipe != Pipe::Scoreboard => {
                if self.acked < self.recovers_to.max(self.timed_out_at) {
                    return;
                }
                (window + u64::from(end.dupacks()), in_flight)
            }
            // The network may contain several copies of the same data, or data in flight may be lost.
            RecoveryKind::Quic => return,
            // Data lost again since a timeout waits, and does not count as in the network.
            _ if self.acked < self.timed_out_at => return,
            // Holes are sent first, so that after new data, all data in flight and not SACKed is in the network. A
            // gradual reduction of the window is rounded up to a segment.
            _ => {
                let gradual = if self.acked < self.recovers_to { self.before } else { 0 };
                (window.max(gradual) + 1, in_flight - self.sacked.within(self.acked, self.sent))
            }
        };
        // The rest of a segment may exceed the window.
        let used = used / MSS;
        assert!(used <= allowed, "up to {}: {used} segments in the network, {allowed} allowed", self.sent);
    }
}

impl Case {
    /// Returns the unopened connection, and the random numbers of its path.
    fn begin(&self) -> (Pair, Rng) {
        let [client, server] = self.settings.clone();
        let mut pair = Pair::between(client, server);
        let streams = Streams::new(self.path.seed);
        let chance = |side| streams.named("overhead", side as u64);
        pair.ends =
            [Client, Server].map(|side| pair.tcp[side as usize].endpoint().with_random(|| chance(side)));
        (self.script.plan(pair), streams.named("path", 0))
    }

    /// Returns all segments sent, up to a failure.
    fn log(&self) -> String {
        let (mut pair, mut rng) = self.begin();
        _ = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..10_000 {
                pair.step(END, &mut |sent| self.path.fate(sent, &mut rng));
            }
        }));
        pair.log.join("\n")
    }
}

/// Runs the connection and checks everything. Returns whether an endpoint gave up.
fn check(case: &Case) -> bool {
    let (mut pair, mut rng) = case.begin();
    pair.logs = false;
    let agreed = pair.configs.iter().all(|config| config.ecn.mode == EcnMode::On)
        || (pair.configs[0].connection.handshake == Handshake::None);
    let mut watches = [Watch::default(), Watch::default()];
    let mut steps = 0;
    let configs = pair.configs.clone();
    while pair.step(END, &mut |sent| {
        watches[sent.from as usize].sends(sent, agreed, &configs[sent.from as usize]);
        case.path.fate(sent, &mut rng)
    }) {
        if let Some((to, segment)) = pair.arrived {
            watches[to as usize].hears(&segment, &configs[to as usize]);
        }
        for (side, watch) in watches.iter_mut().enumerate() {
            // A probe is sent regardless of the window (RFC 8985, 7.3).
            let probes = pair.arrived.is_none() && pair.configs[side].recovery.kind == RecoveryKind::Rack;
            watch.is_new &= !probes;
            watch.check(&pair.ends[side], &pair.configs[side]);
            assert!(pair.ends[side].received() <= pair.written[1 - side], "more arrived than was written");
            assert!(
                pair.ends[side].poll_timeout().is_none_or(|next| next >= pair.now),
                "a timer in the past"
            );
        }
        steps += 1;
        assert!(steps < MOST_STEPS, "the connection does not end");
    }
    check_end(&mut pair, &watches)
}

/// Checks the end of the run, when no event is left. Returns whether an endpoint gave up.
fn check_end(pair: &mut Pair, watches: &[Watch; 2]) -> bool {
    let gave_up = pair.ends.iter().any(|end| end.gave_up().is_some());
    for (side, watch) in watches.iter().enumerate() {
        let end = &pair.ends[side];
        assert!(!(end.is_done() && end.gave_up().is_some()));
        assert!(end.is_done() || gave_up, "neither finished nor given up");
        if end.is_done() {
            assert_eq!(
                pair.ends[1 - side].received(),
                pair.written[side],
                "finished, but not all data has arrived"
            );
        }
        let counts = end.counts();
        let config = &pair.configs[side];
        let limit = match end.gave_up() {
            Some(FailureReason::NoAnswer) => config.connection.max_syn_retries,
            Some(FailureReason::NoProgress) => config.connection.max_retries,
            Some(FailureReason::Aborted) => panic!("no application aborts a connection here"),
            None => Some(0),
        };
        let tried = limit.is_some_and(|limit| end.gave_up().is_none() || counts.timeouts > limit);
        assert!(tried, "given up before the limit");
        // SYNs count as segments sent.
        assert!(counts.segments_sent >= watch.segments);
        assert_eq!((counts.acks_sent, u64::from(counts.retransmitted)), (watch.pure_acks, watch.again));
        assert_eq!(end.poll_timeout(), None, "a timer is still running");
    }
    for end in &mut pair.ends {
        end.on_timer(END);
        assert!(end.poll_transmit(END).is_none(), "the endpoint sends after the end");
    }
    gave_up
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how many connections, from which seed, is said from outside")]
fn every_byte_arrives_once_in_order_within_the_windows_and_every_connection_ends() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let wanted = number("AQM_FUZZ_CASES");
    let fresh = || RandomState::new().build_hasher().finish();
    let seed = number("AQM_FUZZ_SEED").unwrap_or_else(|| if wanted.is_some() { fresh() } else { SEED });
    let cases = wanted.map_or(CASES, |cases| cases as u32);
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        max_local_rejects: u32::MAX,
        ..ProptestConfig::default()
    });
    let gave_up = Cell::new(0);
    let result = runner.run(&self::cases(), |case| {
        gave_up.set(gave_up.get() + u32::from(check(&case)));
        Ok(())
    });
    match result {
        Ok(()) => println!("{cases} connections, seed {seed}; {} were given up", gave_up.get()),
        Err(TestError::Fail(why, case)) => {
            let again = format!(
                "AQM_FUZZ_SEED={seed} AQM_FUZZ_CASES={cases} cargo test --release -p aqm-tcp invariants"
            );
            panic!("{why}\nagain with: {again}\n{case:#?}\n{}", case.log())
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    assert!(gave_up.get() < cases / 10, "so bad are the paths not: {} gave up", gave_up.get());
}
