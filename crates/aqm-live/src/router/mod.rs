//! The router: one thread between the devices of hosts and the emulated network.
//!
//! It reads every device that has something until nothing is left, so that packets never wait behind a sleep; lets
//! the emulation do what is due, each thing at its own instant; and hands over what comes out. So lateness moves
//! single packets by microseconds, but neither the rate of a line nor what a queue decides.

pub(crate) mod buffers;
pub(crate) mod clock;
pub(crate) mod connections;
pub(crate) mod ip;
pub(crate) mod lateness;
pub(crate) mod validity;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use aqm_net::watch::{View, Watch};
use aqm_net::{Instant, Span};
use aqm_queue::Protocol;
use aqm_sim::emulation::{Contents, Delivery, Emulation, Entering, Fate, Hosts, Opening, Side};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::unistd::{read, write};
use serde_json::{Value, json};

use crate::Clock;
use crate::host::realtime::wait;
use crate::load::{ConnectionDelays, Place};
use crate::pcap::{self, Capture, Verdict};
use crate::router::buffers::{Buffers, MTU};
use crate::router::connections::{Connections, FlowKey, last_bits};
use crate::router::lateness::Lateness;
use crate::tcp::hints::{Hints, Sent};

/// After so many packets of one device it is the turn of the others.
const TURN: usize = 64;

/// So often at least it looks whether it is to stop.
const LOOK: Span = Span::from_millis(50);

/// After so long without a sleep it sleeps for a moment: the kernel stops a real-time thread that runs for 0.95 s
/// of a second, and for much longer (sched(7), `sched_rt_runtime_us`).
const LONGEST_RUN: Span = Span::from_millis(800);

/// Packets for which room is made before a run.
const ROOM: usize = 4096;

/// A device, and which hosts are behind it.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Whole IP packets, without waiting.
    pub fd: BorrowedFd<'a>,
    /// The end of a workload that they are.
    pub place: Place,
    /// Whether the workload is programs, whose packets may have any headers.
    pub programs: bool,
}

/// How long a router works.
#[derive(Clone, Copy)]
pub struct During<'a> {
    /// When the run began.
    pub clock: Clock,
    /// Who sees how far it is, and may stop it.
    pub watch: &'a Watch,
    /// What it is told of an end before the emulation's.
    pub ending: &'a Ending,
}

/// What a router is told of the end of its work, before that of the emulation.
#[derive(Debug, Default)]
pub struct Ending {
    /// Hosts will send nothing but acknowledgements: it is to end once what they have sent has arrived.
    pub idle: AtomicBool,
    /// It is to end at once.
    pub over: AtomicBool,
}

/// What the router is told beside.
pub struct Told {
    /// The windows of senders.
    pub hints: Hints,
    /// What packets of connections take longer, each told before the first packet.
    pub delays: Receiver<ConnectionDelays>,
    /// Where packets are written to, if anywhere; its interfaces are the devices, by position.
    pub capture: Option<Capture>,
}

/// What went through the router beside what the tables say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets read.
    pub read: u64,
    /// Of those, no IPv4 packets, or damaged.
    pub malformed: u64,
    /// Of those, larger than the MTU, so that a host has built segments for somebody else to cut.
    pub oversize: u64,
    /// Packets handed over.
    pub handed_over: u64,
    /// Packets that a device did not take.
    pub refused: u64,
    /// Sleeps that only the kernel's limit on real-time threads made necessary.
    pub forced_sleeps: u64,
}

impl Counts {
    /// For the record of a run.
    pub fn to_value(self) -> Value {
        json!({
            "read": self.read,
            "malformed": self.malformed,
            "oversize": self.oversize,
            "handed_over": self.handed_over,
            "refused": self.refused,
            "forced_sleeps": self.forced_sleeps,
        })
    }
}

/// The hosts behind the devices.
struct Outside<'a> {
    /// By [`Place::index`].
    devices: &'a [Device<'a>],
    clock: Clock,
    buffers: Buffers,
    lateness: Lateness,
    counts: Counts,
    capture: Option<Capture>,
    /// The numbers of the managed links.
    queues: Vec<u32>,
    /// By the number of the packet, its mark, of packets that are captured.
    marks: BTreeMap<u32, Fate>,
}

impl Outside<'_> {
    /// What somebody sees who watches.
    fn view(&self, emulation: &Emulation, now: Instant) -> View {
        let micros = |share: f64| self.lateness.quantile(share).nanos() as f64 / 1e3;
        let greatest = self.lateness.greatest().nanos() as f64 / 1e3;
        let lateness_us = vec![("p50", micros(0.5)), ("p99", micros(0.99)), ("max", greatest)];
        View { lateness_us, ..emulation.view(now) }
    }

    fn captured(&self, fate: Fate, verdict: Verdict) -> pcap::Fate {
        let queue = self.queues.iter().position(|&link| link == fate.link).unwrap_or_default() as u32;
        pcap::Fate { verdict, reason: fate.why, queue, average: fate.average }
    }
}

impl Hosts for Outside<'_> {
    fn deliver(&mut self, delivery: Delivery) {
        let position = Place { traffic: delivery.traffic, side: delivery.to }.index();
        let mark = self.marks.remove(&delivery.id).map(|fate| self.captured(fate, Verdict::Marked));
        let packet = self.buffers.get_mut(delivery.id);
        ip::set_ecn(packet, delivery.ecn);
        if let Some(capture) = &mut self.capture {
            capture.note(position as u32, delivery.due, packet, mark);
        }
        match write(self.devices[position].fd, packet) {
            Ok(_) => self.counts.handed_over += 1,
            Err(_) => self.counts.refused += 1,
        }
        self.lateness.note(delivery.due, self.clock.now());
    }

    fn dropped(&mut self, id: u32, traffic: u32, to: Side, fate: Fate) {
        if self.capture.is_none() {
            return;
        }
        self.marks.remove(&id);
        let captured = self.captured(fate, Verdict::Dropped);
        if let Some(capture) = &mut self.capture {
            let position = Place { traffic, side: to }.index() as u32;
            capture.note(position, fate.at, self.buffers.get_mut(id), Some(captured));
        }
    }

    fn marked(&mut self, id: u32, fate: Fate) {
        if self.capture.is_some() {
            self.marks.insert(id, fate);
        }
    }
}

/// What a router leaves.
pub struct Routed {
    /// The network, as it was at the end.
    pub emulation: Emulation,
    /// By number, what the packets of each flow have in common.
    pub flows: Vec<FlowKey>,
    /// How late packets were handed over.
    pub lateness: Lateness,
    /// What went through beside.
    pub counts: Counts,
    /// What was told it, and the capture under way.
    pub told: Told,
    /// When it ended.
    pub end: Instant,
}

/// What the router has seen.
struct Seen {
    connections: Connections,
    known: Known,
    hints: Hints,
}

/// What is known of flows.
struct Known {
    flows: Vec<FlowKey>,
    told_delays: Receiver<ConnectionDelays>,
    /// By workload and the client's address and port, delays of connections that were told and not met.
    delays: BTreeMap<(u32, u16, u16), [Span; 2]>,
    /// The labels of packets of programs, by workload, protocol, the server's port and DSCP.
    labels: BTreeMap<(u32, u8, u16, u8), u16>,
}

impl Known {
    /// What each packet of a flow takes longer at its ends.
    fn delays_of(&mut self, key: &FlowKey) -> [Span; 2] {
        for told in self.told_delays.try_iter() {
            let client = (told.traffic, last_bits(*told.client.ip()), told.client.port());
            self.delays.insert(client, [told.server_delay, told.client_delay]);
        }
        let client = Side::Receiver as usize;
        self.delays.remove(&(key.traffic, key.addresses[client], key.ports[client])).unwrap_or_default()
    }

    /// The number of the label of a packet of programs.
    fn label_of(&mut self, key: &FlowKey, dscp: u8, emulation: &mut Emulation) -> u16 {
        let port = key.ports[Side::Sender as usize];
        let of_workload = key.traffic as u16;
        *self.labels.entry((key.traffic, key.protocol, port, dscp)).or_insert_with(|| {
            let protocol = if key.protocol == ip::UDP { Protocol::Udp } else { Protocol::Tcp };
            emulation.new_label(key.traffic, protocol, port, dscp).unwrap_or(of_workload)
        })
    }
}

/// Routes packets between `devices`, which stand in the order of [`Place::index`], until the emulation's end, the
/// `ending` that it is told of, or until `watch` stops it.
pub fn route(mut emulation: Emulation, devices: &[Device<'_>], during: During<'_>, told: Told) -> Routed {
    let During { clock, watch, ending } = during;
    let Told { hints, delays: told_delays, capture } = told;
    let mut outside = Outside {
        devices,
        clock,
        buffers: Buffers::with_room(ROOM),
        lateness: Lateness::new(),
        counts: Counts::default(),
        capture,
        queues: emulation.queues().map(|queue| queue.link).collect(),
        marks: BTreeMap::new(),
    };
    let known = Known { flows: Vec::new(), told_delays, delays: BTreeMap::new(), labels: BTreeMap::new() };
    let mut seen = Seen { connections: Connections::default(), known, hints };
    let mut readable: Vec<&Device<'_>> = devices.iter().collect();
    let mut polled: Vec<PollFd<'_>> =
        devices.iter().map(|device| PollFd::new(device.fd, PollFlags::POLLIN)).collect();
    let end = emulation.end();
    let mut slept_at = clock.now();
    let mut scratch = [0; 4 * MTU];
    let ended = loop {
        // Before the devices are read: what was sent by then is read now.
        let idle = ending.idle.load(Relaxed);
        let mut position = 0;
        while position < polled.len() {
            let is_there = !polled[position].any().unwrap_or(true)
                || take_turn(readable[position], &mut emulation, &mut seen, &mut outside, &mut scratch);
            if is_there {
                position += 1;
            } else {
                // No poll of it would ever sleep again.
                readable.remove(position);
                polled.remove(position);
            }
        }
        let now = clock.now();
        emulation.advance(now.min(end), &mut outside);
        watch.reach(now.min(end).nanos());
        watch.show(|| outside.view(&emulation, now));
        if now >= end {
            break end;
        }
        if ending.over.load(Relaxed) || watch.is_stopped() || idle && emulation.is_quiet() {
            break now;
        }
        let due = emulation.next_due().min(now + LOOK).min(end);
        // A poll that fails is one that says nothing: the devices are read at the next turn.
        let ready = wait(&mut polled, Some(clock.moment(due))).unwrap_or(0);
        if ready == 0 {
            slept_at = clock.now();
        } else if now.since(slept_at) > LONGEST_RUN {
            std::thread::sleep(Duration::from_micros(500));
            outside.counts.forced_sleeps += 1;
            slept_at = clock.now();
        }
    };
    let Outside { lateness, counts, capture, .. } = outside;
    let Seen { known: Known { flows, told_delays: delays, .. }, hints, .. } = seen;
    Routed { emulation, flows, lateness, counts, end: ended, told: Told { hints, delays, capture } }
}

/// Reads packets from a device until it has none left, or others have waited long enough; whether it is still there.
fn take_turn(
    device: &Device<'_>,
    emulation: &mut Emulation,
    seen: &mut Seen,
    outside: &mut Outside<'_>,
    scratch: &mut [u8],
) -> bool {
    for _ in 0..TURN {
        let length = match read(device.fd, scratch) {
            Ok(length) => length,
            Err(Errno::EINTR) => continue,
            Err(error) => return error == Errno::EAGAIN,
        };
        let now = outside.clock.now();
        // What comes after the end belongs to no run.
        if now >= emulation.end() {
            return true;
        }
        emulation.advance(now, outside);
        outside.counts.read += 1;
        if length > MTU {
            outside.counts.oversize += 1;
            continue;
        }
        let packet = &scratch[..length];
        let Ok(headers) = ip::parse(packet) else {
            outside.counts.malformed += 1;
            continue;
        };
        let Seen { connections, known, hints } = &mut *seen;
        let Place { traffic, side } = device.place;
        let found = connections.find(&headers, (traffic, side), |opening| {
            let (key, further_delays) = (opening.key, known.delays_of(&opening.key));
            known.flows.push(key);
            emulation.open_flow(&Opening {
                traffic,
                host: key.host(),
                connection: opening.connection,
                further_delays,
                at: now,
            })
        });
        let label = if device.programs {
            known.label_of(&found.key, headers.dscp, emulation)
        } else {
            traffic as u16
        };
        let seq = if let Contents::Segment(segment) = &found.contents { segment.seq } else { 0 };
        let entering = Entering {
            flow: found.flow,
            to: side.other(),
            contents: found.contents,
            bytes: length as u16,
            ecn: headers.ecn,
            cwnd: hints.window(&Sent { headers: &headers, from: device.place, flow: found.flow, seq }),
            label,
        };
        let id = emulation.enter(entering, now);
        outside.buffers.put(id, packet);
    }
    true
}
