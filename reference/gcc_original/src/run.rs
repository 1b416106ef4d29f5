//! One run of a case: str0m's calls and a TCP transfer over an emulated path.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant as Clock;

use aqm_net::level::Files;
use aqm_net::{Ecn, Instant, Span};
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Delivery, Emulation, EnteringPacket, Fate, FlowOpening, Hosts, Side};
use aqm_tcp::{Endpoint, Segment};
use fastrand::Rng;
use serde_json::json;
use str0m::crypto::CryptoProvider;

use crate::call::{Call, Follows, Media, Peer, peers};
use crate::cases::{Case, Steps};
use crate::measure::{Measured, is_rtp};

const SECOND: u64 = 1_000_000_000;
/// Length of the queue: 300 ms at the case's reference capacity (RFC 8867, section 4.2).
const QUEUE_MS: u64 = 300;
/// Bytes of the headers of IPv4 and UDP.
const HEADERS: u64 = 28;
/// Position of each workload of the scenario.
const CALLS: u32 = 0;
const TRANSFER: u32 = 1;
const SIDES: [Side; 2] = [Side::Sender, Side::Receiver];

/// The settings that vary between runs of a case.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Maximum rate of the video encoder.
    pub max_rate: u64,
    pub follows: Follows,
    pub repetition: u64,
}

/// A packet in the network.
struct Sent {
    at: u64,
    /// The flow of the case that sent the packet as media, if any.
    flow: Option<usize>,
    contents: Payload,
}

enum Payload {
    Call(usize, Vec<u8>),
    Transfer(Segment),
}

/// What the network reports while time advances.
#[derive(Default)]
struct Inbox {
    delivered: Vec<Delivery>,
    dropped: Vec<u32>,
}

impl Hosts for Inbox {
    fn deliver(&mut self, delivery: Delivery) {
        self.delivered.push(delivery);
    }
    fn dropped(&mut self, id: u32, _: u32, _: Side, _: Fate) {
        self.dropped.push(id);
    }
    fn marked(&mut self, _: u32, _: Fate) {}
}

/// A call of the run that has begun.
struct Running {
    peers: [Peer; 2],
    /// The flow of the emulation that carries the packets of the call.
    carrier: u32,
    /// The flow of the case that each peer sends, if any.
    flows: [Option<usize>; 2],
}

/// A call of the run that has not begun.
struct Waiting {
    at: u64,
    delay: u64,
    call: Call,
    flows: [Option<usize>; 2],
}

/// Returns the measurements of the media flows and of the TCP transfer of a case.
pub fn run(
    case: &Case,
    settings: Settings,
    crypto: &Arc<CryptoProvider>,
    base: Clock,
) -> (Vec<Measured>, Measured) {
    // ICE draws its credentials and transaction numbers from this generator.
    fastrand::seed(settings.repetition);
    let least_delay = case.flows.iter().map(|flow| flow.delay).min().unwrap_or(0);
    let mut emulation = Emulation::new(&plan(case, least_delay));
    let mut waiting = calls(case, settings);
    let mut running: Vec<Running> = Vec::new();
    let mut transfer = case.tcp.map(|start| Transfer::new(start * SECOND));
    let mut packets: BTreeMap<u32, Sent> = BTreeMap::new();
    let mut media: Vec<Measured> = case.flows.iter().map(|_| Measured::default()).collect();
    let mut tcp = Measured::default();
    let end = case.duration * SECOND;
    loop {
        let calls_due = running.iter().flat_map(|call| &call.peers).map(due).min().unwrap_or(u64::MAX);
        let starts = waiting.first().map_or(u64::MAX, |call| call.at);
        let transfer_due = transfer.as_ref().map_or(u64::MAX, Transfer::due);
        let now = emulation.next_due().nanos().min(calls_due).min(starts).min(transfer_due);
        if now >= end {
            return (media, tcp);
        }
        let mut inbox = Inbox::default();
        emulation.advance(Instant::from_nanos(now), &mut inbox);
        for id in inbox.dropped {
            let sent = packets.remove(&id).expect("the packet is in the network");
            if let (Some(flow), Payload::Call(_, packet)) = (sent.flow, &sent.contents) {
                media[flow].lost(is_rtp(packet), sent.at);
            }
        }
        for delivery in inbox.delivered {
            let Sent { at, flow, contents } =
                packets.remove(&delivery.id).expect("the packet is in the network");
            match contents {
                Payload::Call(call, packet) => {
                    if let Some(flow) = flow {
                        media[flow].arrived(packet.len() as u64 + HEADERS, is_rtp(&packet), at, now);
                    }
                    running[call].peers[delivery.to as usize].receive(&packet, now);
                }
                Payload::Transfer(segment) => {
                    if delivery.to == Side::Receiver {
                        tcp.arrived(u64::from(segment.wire), false, at, now);
                    }
                    let ends = &mut transfer.as_mut().expect("the transfer has begun").ends;
                    ends[delivery.to as usize].on_segment(&segment, delivery.due);
                }
            }
        }
        while waiting.first().is_some_and(|call| call.at <= now) {
            let Waiting { at, delay, call, flows } = waiting.remove(0);
            let carrier =
                emulation.open_flow(&opening(CALLS, false, at, (delay - least_delay) * 1_000_000 / 2));
            running.push(Running { peers: peers(&call, crypto, base, now), carrier, flows });
        }
        for (number, call) in running.iter_mut().enumerate() {
            for side in 0..2 {
                let peer = &mut call.peers[side];
                while peer.source.as_ref().is_some_and(|source| source.next() <= now) {
                    peer.send_media(now);
                    if let (Some(flow), Some(source)) = (call.flows[side], &peer.source) {
                        media[flow].sample(source.target(), source.estimate, now);
                    }
                }
                if peer.due <= now {
                    peer.on_time(now);
                }
                while let Some(packet) = peer.out.pop_front() {
                    let bytes = packet.len() as u64 + HEADERS;
                    if let Some(flow) = call.flows[side] {
                        media[flow].sent(bytes, is_rtp(&packet), now);
                    }
                    let entering = EnteringPacket {
                        flow: call.carrier,
                        to: SIDES[1 - side],
                        contents: Contents::Datagram,
                        bytes: bytes as u16,
                        ecn: Ecn::NotEct,
                        cwnd: 0,
                        label: CALLS as u16,
                    };
                    let id = emulation.enter(entering, Instant::from_nanos(now));
                    let contents = Payload::Call(number, packet);
                    packets.insert(id, Sent { at: now, flow: call.flows[side], contents });
                }
            }
        }
        let Some(transfer) = &mut transfer else { continue };
        for (side, segment) in transfer.segments(&mut emulation, now) {
            if side == 0 {
                tcp.sent(u64::from(segment.wire), false, now);
            }
            let entering = EnteringPacket {
                flow: transfer.carrier.expect("the transfer has begun"),
                to: SIDES[1 - side],
                contents: Contents::Segment(segment),
                bytes: segment.wire,
                ecn: segment.ecn,
                cwnd: 0,
                label: TRANSFER as u16,
            };
            let id = emulation.enter(entering, Instant::from_nanos(now));
            packets.insert(id, Sent { at: now, flow: None, contents: Payload::Transfer(segment) });
        }
    }
}

fn due(peer: &Peer) -> u64 {
    peer.due.min(peer.source.as_ref().map_or(u64::MAX, |source| source.next()))
}

fn opening(traffic: u32, connection: bool, at: u64, each: u64) -> FlowOpening {
    let additional_delays = [Span::from_nanos(each); 2];
    FlowOpening { traffic, host: 0, connection, additional_delays, at: Instant::from_nanos(at) }
}

/// The calls of a case in the order of their starts.
fn calls(case: &Case, settings: Settings) -> Vec<Waiting> {
    // Frames of different flows, and frames and feedback, have other offsets in each repetition.
    let mut random = Rng::with_seed(settings.repetition);
    let mut calls: Vec<Waiting> = Vec::new();
    for (number, flow) in case.flows.iter().enumerate() {
        let offset = random.u64(..SECOND / 30);
        let pause = flow.pause.map(|(from, until)| (from * SECOND, until * SECOND));
        let media = Media { max_rate: settings.max_rate, pause };
        if flow.backward {
            let call = calls.last_mut().expect("the forward flow of a call precedes the backward flow");
            call.call.media[1] = Some(media);
            call.call.offsets[1] = offset;
            call.flows[1] = Some(number);
            continue;
        }
        calls.push(Waiting {
            at: flow.start * SECOND,
            delay: flow.delay,
            call: Call {
                media: [Some(media), None],
                follows: settings.follows,
                offsets: [offset, 0],
                number: number as u32,
            },
            flows: [Some(number), None],
        });
    }
    calls
}

/// The path of a case.
fn plan(case: &Case, least_delay: u64) -> Plan {
    let rate = |rate: u64| format!("{rate}bps");
    let steps = |steps: Steps| -> Vec<_> {
        steps[1..].iter().map(|&(at, to)| json!({"at": format!("{at}s"), "rate": rate(to)})).collect()
    };
    let delay = format!("{least_delay}ms");
    let limit = format!("{}B", case.reference / 8 * QUEUE_MS / 1000);
    let queue = json!({"kind": "drop-tail", "limit": limit});
    let reverse = match case.backward {
        Some(backward) => json!({
            "rate": rate(backward[0].1), "delay": delay, "queue": queue, "rate_steps": steps(backward),
        }),
        None => json!({"rate": "100Mbps", "delay": delay}),
    };
    let scenario = json!({
        "duration": format!("{}s", case.duration),
        "warm_up": "0s",
        "seed": 1,
        "host": {"jitter": "0s"},
        "access": {"rate": "1Gbps", "delay": "0s"},
        "bottleneck": {
            "rate": rate(case.forward[0].1), "delay": delay, "queue": queue, "rate_steps": steps(case.forward),
            "reverse": reverse,
        },
        "traffic": {
            "calls": {"kind": "udp", "rate": "1kbps"},
            "transfer": {"kind": "ftp", "flows": 1},
        },
    });
    Plan::of_value(scenario, Files::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// One long TCP transfer in the forward direction.
struct Transfer {
    start: u64,
    carrier: Option<u32>,
    ends: [Endpoint; 2],
}

impl Transfer {
    fn new(start: u64) -> Self {
        // RFC 8867, section 5.6: standard TCP (RFC 5681).
        let config = json!({"profile": "rfc", "recovery": {"kind": "sack"}});
        let config = aqm_tcp::read(config).and_then(|config| config.build());
        let config = Arc::new(config.unwrap_or_else(|errors| panic!("{errors}")));
        Self { start, carrier: None, ends: [config.endpoint(), config.endpoint()] }
    }

    fn due(&self) -> u64 {
        if self.carrier.is_none() {
            return self.start;
        }
        self.ends.iter().filter_map(Endpoint::poll_timeout).map(Instant::nanos).min().unwrap_or(u64::MAX)
    }

    /// Returns the segments that the two ends send now.
    fn segments(&mut self, emulation: &mut Emulation, now: u64) -> Vec<(usize, Segment)> {
        let at = Instant::from_nanos(now);
        if self.carrier.is_none() {
            if now < self.start {
                return Vec::new();
            }
            self.carrier = Some(emulation.open_flow(&opening(TRANSFER, true, now, 0)));
            self.ends[1].listen(at);
            self.ends[0].open(at);
            self.ends[0].write(None, at);
        }
        let mut segments = Vec::new();
        for (side, end) in self.ends.iter_mut().enumerate() {
            if end.poll_timeout().is_some_and(|due| due <= at) {
                end.on_timer(at);
            }
            while let Some(segment) = end.poll_transmit(at) {
                segments.push((side, segment));
            }
        }
        segments
    }
}
