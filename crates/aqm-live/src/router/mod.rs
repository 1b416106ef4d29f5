//! The router, a thread that passes packets between the hosts' devices and the emulated network.
//!
//! The router reads each readable device until the device has no more packets, so that no packet waits in a device
//! while the router sleeps. Next, the emulation processes all events that are due, using the exact time of each event.
//! Finally, the router writes the outgoing packets to the devices. If the router is late, individual packets are
//! delayed by microseconds, but link rates and queue decisions do not change.

pub(crate) mod buffers;
pub(crate) mod clock;
pub(crate) mod connections;
pub(crate) mod ip;
pub(crate) mod lateness;
#[cfg(test)]
mod simulated_packets;
pub(crate) mod validity;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use aqm_net::watch::{View, Watch};
use aqm_net::{Instant, Span};
use aqm_pcap::Verdict;
use aqm_queue::Protocol;
use aqm_sim::emulation::{Contents, Delivery, Emulation, EnteringPacket, Fate, FlowOpening, Hosts, Side};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::unistd::{read, write};
use serde_json::{Value, json};

use crate::Clock;
use crate::host::realtime::{wait, wait_in_virtual_time};
use crate::load::{ConnectionDelays, HostIndex};
use crate::pcap::Capture;
use crate::router::buffers::{Buffers, MTU};
use crate::router::clock::RouterClock;
use crate::router::connections::{Connections, FlowKey, last_bits};
use crate::router::lateness::Lateness;
use crate::tcp::hints::{Hints, Sent};

/// Maximum number of packets that the router reads from one device before reading the other devices.
const TURN: usize = 64;

/// Maximum interval at which the stop flags are checked.
const STOP_CHECK_INTERVAL: Span = Span::from_millis(50);

/// Maximum time for which the router runs without sleeping. After this time, the router sleeps briefly, because the
/// kernel suspends a real-time thread that has run for 0.95 s within one second (sched(7), `sched_rt_runtime_us`), and
/// this suspension is much longer than the brief sleep.
const LONGEST_RUN: Span = Span::from_millis(800);

/// Number of packets for which memory is allocated before a run.
const INITIAL_BUFFERS: usize = 4096;

/// A device, and the end of a workload that is behind the device.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Non-blocking file descriptor of the device, through which IP packets are transferred.
    pub fd: BorrowedFd<'a>,
    /// The end of a workload behind the device.
    pub index: HostIndex,
    /// Whether the workload consists of programs. Programs may send packets with any headers.
    pub programs: bool,
}

/// The clock of a run, and the means to watch and stop the run.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Clock of the run.
    pub clock: Clock,
    /// Watcher, which is informed of the progress of the run and may stop the run.
    pub watch: &'a Watch,
    /// Flags that stop the router before the end of the emulation.
    pub stop: &'a StopFlags,
    /// Whether the run takes place in virtual time ([`crate::Options::virtual_time`]).
    pub virtual_time: bool,
}

/// Flags that stop the router before the end of the emulation.
#[derive(Debug, Default)]
pub struct StopFlags {
    /// Set when the hosts will send nothing but acknowledgements for the rest of the run. If this flag is set, the
    /// router stops as soon as all sent data have arrived.
    pub idle: AtomicBool,
    /// Set in order to stop the router immediately.
    pub over: AtomicBool,
}

/// Further inputs of the router.
pub struct RouterInputs {
    /// The congestion windows of the senders.
    pub hints: Hints,
    /// Channel for the additional delays of connections. The delays of a connection are announced before the first
    /// packet of the connection is sent.
    pub delays: Receiver<ConnectionDelays>,
    /// The capture, if packets are captured. The capture has one interface per device, in the order of the devices.
    pub capture: Option<Capture>,
}

/// Packet counts of the router that are not part of the result tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of packets read from devices.
    pub read: u64,
    /// Number of packets read that were damaged or were not IPv4 packets.
    pub malformed: u64,
    /// Number of packets read that were larger than the MTU because a host built large segments for segmentation
    /// offload.
    pub oversize: u64,
    /// Number of packets written to devices.
    pub handed_over: u64,
    /// Number of packets that a device did not accept.
    pub refused: u64,
    /// Number of times that the router slept only because the kernel limits the running time of real-time threads.
    pub forced_sleeps: u64,
}

impl Counts {
    /// Returns the counts in the format of the manifest.
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
struct ExternalHosts<'a> {
    /// The devices, by [`HostIndex::position`].
    devices: &'a [Device<'a>],
    clock: RouterClock,
    buffers: Buffers,
    lateness: Lateness,
    counts: Counts,
    capture: Option<Capture>,
    /// Link numbers of the managed links.
    queues: Vec<u32>,
    /// Queue decisions to mark packets that will be captured, by packet number.
    marks: BTreeMap<u32, Fate>,
}

impl ExternalHosts<'_> {
    /// Returns the current state of the network, in the form that a watcher receives.
    fn view(&self, emulation: &Emulation, now: Instant) -> View {
        let micros = |share: f64| self.lateness.quantile(share).nanos() as f64 / 1e3;
        let maximum = self.lateness.maximum().nanos() as f64 / 1e3;
        let lateness_us = vec![("p50", micros(0.5)), ("p99", micros(0.99)), ("max", maximum)];
        View { lateness_us, ..emulation.view(now) }
    }

    fn captured(&self, fate: Fate, verdict: Verdict) -> aqm_pcap::Fate {
        let queue = self.queues.iter().position(|&link| link == fate.link).unwrap_or_default() as u32;
        aqm_pcap::Fate { verdict, reason: fate.why, queue, average: fate.average }
    }
}

impl Hosts for ExternalHosts<'_> {
    fn deliver(&mut self, delivery: Delivery) {
        let position = HostIndex { traffic: delivery.traffic, side: delivery.to }.position();
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
            let position = HostIndex { traffic, side: to }.position() as u32;
            capture.note(position, fate.at, self.buffers.get_mut(id), Some(captured));
        }
    }

    fn marked(&mut self, id: u32, fate: Fate) {
        if self.capture.is_some() {
            self.marks.insert(id, fate);
        }
    }
}

/// The outcome of the router.
pub struct RouterOutcome {
    /// The network, in its final state.
    pub emulation: Emulation,
    /// Key of each flow, by its number.
    pub flows: Vec<FlowKey>,
    /// Lateness of delivered packets.
    pub lateness: Lateness,
    /// Packet counts of the router.
    pub counts: Counts,
    /// The inputs of the router, including the capture, which is still running.
    pub inputs: RouterInputs,
    /// Time at which the router stopped.
    pub end: Instant,
}

/// The state that the router keeps about connections and flows.
struct RouterState {
    connections: Connections,
    flows: FlowState,
    hints: Hints,
}

/// The state that the router keeps about flows.
struct FlowState {
    keys: Vec<FlowKey>,
    announced_delays: Receiver<ConnectionDelays>,
    /// Delays that were announced for connections whose first packet has not arrived yet, keyed by workload and by the
    /// client's address and port.
    delays: BTreeMap<(u32, u16, u16), [Span; 2]>,
    /// Labels of the packets of programs, keyed by workload, protocol, server port and DSCP.
    labels: BTreeMap<(u32, u8, u16, u8), u16>,
}

impl FlowState {
    /// Returns the additional delays of a flow's packets at the two ends of the flow.
    fn delays_of(&mut self, key: &FlowKey) -> [Span; 2] {
        for delays in self.announced_delays.try_iter() {
            let client = (delays.traffic, last_bits(*delays.client.ip()), delays.client.port());
            self.delays.insert(client, [delays.server_delay, delays.client_delay]);
        }
        let client = Side::Receiver as usize;
        self.delays.remove(&(key.traffic, key.addresses[client], key.ports[client])).unwrap_or_default()
    }

    /// Returns the label of a packet that belongs to a workload of programs.
    fn label_of(&mut self, key: &FlowKey, dscp: u8, emulation: &mut Emulation) -> u16 {
        let port = key.ports[Side::Sender as usize];
        let of_workload = key.traffic as u16;
        *self.labels.entry((key.traffic, key.protocol, port, dscp)).or_insert_with(|| {
            let protocol = if key.protocol == ip::UDP { Protocol::Udp } else { Protocol::Tcp };
            emulation.new_label(key.traffic, protocol, port, dscp).unwrap_or(of_workload)
        })
    }
}

/// Routes packets between `devices` until the end of the emulation, or until a stop flag or `watch` stops the router.
/// `devices` must be in the order of [`HostIndex::position`].
pub fn route(
    mut emulation: Emulation,
    devices: &[Device<'_>],
    context: RunContext<'_>,
    inputs: RouterInputs,
) -> RouterOutcome {
    let RunContext { clock, watch, stop, virtual_time } = context;
    let RouterInputs { hints, delays: announced_delays, capture } = inputs;
    let mut hosts = ExternalHosts {
        devices,
        clock: RouterClock::new(clock, virtual_time),
        buffers: Buffers::with_capacity(INITIAL_BUFFERS),
        lateness: Lateness::new(),
        counts: Counts::default(),
        capture,
        queues: emulation.queues().map(|queue| queue.link).collect(),
        marks: BTreeMap::new(),
    };
    let flows =
        FlowState { keys: Vec::new(), announced_delays, delays: BTreeMap::new(), labels: BTreeMap::new() };
    let mut state = RouterState { connections: Connections::default(), flows, hints };
    let mut readable: Vec<&Device<'_>> = devices.iter().collect();
    let mut polled: Vec<PollFd<'_>> =
        devices.iter().map(|device| PollFd::new(device.fd, PollFlags::POLLIN)).collect();
    let end = emulation.end();
    let mut slept_at = clock.now();
    let mut scratch = [0; 4 * MTU];
    let ended = loop {
        // The flag is read before the devices are read. Data that were sent before the flag was set are therefore read
        // in this iteration.
        let idle = stop.idle.load(Relaxed);
        hosts.clock.hold();
        let mut position = 0;
        while position < polled.len() {
            let exists = !polled[position].any().unwrap_or(true)
                || read_device(readable[position], &mut emulation, &mut state, &mut hosts, &mut scratch);
            if exists {
                position += 1;
            } else {
                // This device is excluded from later polls, because these polls would otherwise return immediately.
                readable.remove(position);
                polled.remove(position);
            }
        }
        let now = hosts.clock.now();
        emulation.advance(now.min(end), &mut hosts);
        watch.reach(now.min(end).nanos());
        watch.show(|| hosts.view(&emulation, now));
        if now >= end {
            break end;
        }
        if stop.over.load(Relaxed) || watch.is_stopped() || idle && emulation.is_quiet() {
            break now;
        }
        let due = emulation.next_due().min(now + STOP_CHECK_INTERVAL).min(end);
        // If the poll fails, no device is treated as readable, and the devices are read in the next iteration.
        if virtual_time {
            let _ = wait_in_virtual_time(&mut polled, Duration::from_nanos(due.since(now).nanos()));
            continue;
        }
        let ready = wait(&mut polled, Some(clock.system_time(due))).unwrap_or(0);
        if ready == 0 {
            slept_at = clock.now();
        } else if now.since(slept_at) > LONGEST_RUN {
            std::thread::sleep(Duration::from_micros(500));
            hosts.counts.forced_sleeps += 1;
            slept_at = clock.now();
        }
    };
    let ExternalHosts { lateness, counts, capture, .. } = hosts;
    let RouterState { flows: FlowState { keys: flows, announced_delays: delays, .. }, hints, .. } = state;
    RouterOutcome {
        emulation,
        flows,
        lateness,
        counts,
        end: ended,
        inputs: RouterInputs { hints, delays, capture },
    }
}

/// Reads packets from a device until no packets remain or [`TURN`] packets have been read. Returns whether the device
/// still exists.
fn read_device(
    device: &Device<'_>,
    emulation: &mut Emulation,
    state: &mut RouterState,
    hosts: &mut ExternalHosts<'_>,
    scratch: &mut [u8],
) -> bool {
    for _ in 0..TURN {
        let length = match read(device.fd, scratch) {
            Ok(length) => length,
            Err(Errno::EINTR) => continue,
            Err(error) => return error == Errno::EAGAIN,
        };
        let now = hosts.clock.now();
        // Packets that arrive after the end of the emulation do not belong to the run.
        if now >= emulation.end() {
            return true;
        }
        emulation.advance(now, hosts);
        hosts.counts.read += 1;
        if length > MTU {
            hosts.counts.oversize += 1;
            continue;
        }
        let packet = &scratch[..length];
        let Ok(headers) = ip::parse(packet) else {
            hosts.counts.malformed += 1;
            continue;
        };
        let RouterState { connections, flows, hints } = &mut *state;
        let HostIndex { traffic, side } = device.index;
        let packet_flow = connections.identify(&headers, (traffic, side), |opening| {
            let (key, additional_delays) = (opening.key, flows.delays_of(&opening.key));
            flows.keys.push(key);
            emulation.open_flow(&FlowOpening {
                traffic,
                host: key.host(),
                connection: opening.connection,
                additional_delays,
                at: now,
            })
        });
        let label = if device.programs {
            flows.label_of(&packet_flow.key, headers.dscp, emulation)
        } else {
            traffic as u16
        };
        let seq = if let Contents::Segment(segment) = &packet_flow.contents { segment.seq } else { 0 };
        let entering = EnteringPacket {
            flow: packet_flow.flow,
            to: side.other(),
            contents: packet_flow.contents,
            bytes: length as u16,
            ecn: headers.ecn,
            cwnd: hints.window(&Sent { headers: &headers, from: device.index, flow: packet_flow.flow, seq }),
            label,
        };
        let id = emulation.enter(entering, now);
        hosts.buffers.put(id, packet);
    }
    true
}
