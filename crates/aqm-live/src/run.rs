//! Live runs of plans. A live run creates the hosts, runs the router and the load generator, and returns the same
//! tables as a simulation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use aqm_net::level::Run;
use aqm_net::watch::{Unit, Watch};
use aqm_net::{ConfigErrors, ErrorCollector, Instant};
use aqm_pcap::{Interface, QueueName};
use aqm_sim::emulation::{CarriedExchange, CarriedTransfer, Emulation, SenderState, Side};
use aqm_sim::{Plan, PlannedWorkload};
use aqm_tcp::config::recovery::RecoveryKind;
use serde_json::{Value, json};

use crate::host::lab::{Host, HostSpec, Lab};
use crate::host::programs::{Exit, Programs};
use crate::host::realtime::realtime;
use crate::load::{self, Facts, HostIndex, HostSet, Load, RequestRecord};
use crate::pcap::{Capture, CaptureOptions};
use crate::router::buffers::MTU;
use crate::router::connections::FlowKey;
use crate::router::ip;
use crate::router::validity::{self, RunConditions, Scales};
use crate::router::{Device, RouterInputs, RouterOutcome, RunContext, StopFlags, route};
use crate::tcp::controls::{self, Controls};
use crate::tcp::hints::Hints;
use crate::tcp::kernel_tcp::{Kernel, KernelTcp, kernel};
use crate::tcp::senders::{Sample, Senders};
use crate::{Clock, LiveError};

/// Priority of the router's thread among real-time threads.
const PRIORITY: i32 = 20;

/// Interval at which the run checks whether the workloads and programs have finished.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Options of a live run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the kernel's TCP may differ from the plan's TCP where the kernel has no equivalent setting. The manifest
    /// lists the differences. If this option is false, a plan that contains a setting without an equivalent in the
    /// kernel is rejected.
    pub nearest_tcp: bool,
    /// Kernel name of a congestion control that all connections use instead of the plan's congestion control, for
    /// example `bbr`, which cannot be simulated. Programs may select a different congestion control.
    pub congestion_control: Option<String>,
    /// File to which the packets are written in the pcapng format.
    pub pcap: Option<PathBuf>,
    /// Whether the run may end before the plan's duration has elapsed. If this option is true and the plan has
    /// programs, the run ends when the clients of all programs have exited, regardless of other workloads. If this
    /// option is true and the plan has no programs, the run ends when no workload has further requests, and all sent
    /// data have been received and acknowledged.
    pub until_done: bool,
    /// Whether the kernel runs in virtual time, in which a sleep ends exactly on time and computing takes no time.
    pub virtual_time: bool,
}

/// Reason why a live run has no result.
#[derive(Debug)]
pub enum Failure {
    /// The watcher stopped the run.
    Stopped,
    /// The plan contains settings that a live run does not support.
    Config(ConfigErrors),
    /// The system denied an operation.
    System(LiveError),
}

impl From<LiveError> for Failure {
    fn from(error: LiveError) -> Self {
        Self::System(error)
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

/// Returns the second byte of the addresses of all hosts at one end of a workload.
fn prefix(index: HostIndex) -> u8 {
    // `specs` ensures that the number fits into a byte.
    (1 + index.position()) as u8
}

/// Maximum number of workloads, which is limited by the number of available addresses.
const MAX_WORKLOADS: usize = 120;

impl Lab {
    /// Returns the host at one end of a workload.
    pub(crate) fn at(&self, index: HostIndex) -> &Host {
        &self.hosts()[index.position()]
    }
}

/// Returns the name of a host. If only one workload consists of programs, the hosts of this workload are named `server`
/// and `client`.
fn host_name(planned: &PlannedWorkload<'_>, only_programs: bool, side: Side) -> String {
    let end = match side {
        Side::Sender => "server",
        Side::Receiver => "client",
    };
    if planned.programs.is_some() && only_programs {
        end.to_owned()
    } else {
        format!("{}-{end}", planned.name)
    }
}

/// Returns the specifications of a plan's hosts, by [`HostIndex::position`], and the differences between the kernel's
/// TCP and the plan's TCP, by workload.
fn specs(plan: &Plan, options: &Options) -> Result<(Vec<HostSpec>, Vec<Vec<String>>), ConfigErrors> {
    let (kernel, mut errors) = (Kernel::running(), ErrorCollector::default());
    let (mut specs, mut shortfalls) = (Vec::new(), Vec::new());
    let workloads: Vec<PlannedWorkload<'_>> = plan.workloads().collect();
    let problem =
        format!("must contain at most {MAX_WORKLOADS} workloads in a live run (got {})", workloads.len());
    errors.check(workloads.len() <= MAX_WORKLOADS, "traffic", problem);
    let programs = workloads.iter().filter(|one| one.programs.is_some()).count();
    let control = options.congestion_control.as_deref();
    let (available, mut lacking) = (kernel::congestion_controls(), BTreeSet::new());
    for (traffic, planned) in workloads.iter().enumerate() {
        if let Some(why) = planned.simulated_only {
            errors.check(false, format!("traffic.{}.kind", planned.name), why);
        }
        if planned.tcp.recovery.kind == RecoveryKind::Quic && !planned.sends_datagrams {
            let problem = "is quic, but live runs use the kernel's TCP: set a profile of TCP, for example linux-6, \
                           or run QUIC programs with the workload `program`";
            errors.check(false, format!("traffic.{}.tcp.recovery.kind", planned.name), problem);
            continue;
        }
        let (mut tcp, short) = KernelTcp::nearest(planned.tcp, &kernel, plan.link_header(), control);
        if planned.sends_datagrams {
            tcp = tcp.without_control();
        } else if !available.is_empty() && !available.iter().any(|one| one == tcp.congestion_control()) {
            lacking.insert(tcp.congestion_control().to_owned());
        }
        if planned.programs.is_some() {
            tcp = tcp.with_free_choice();
        }
        let short = short.finish(()).err().map(|errors| errors.within("tcp"));
        shortfalls.push(short.iter().flat_map(ConfigErrors::iter).map(ToString::to_string).collect());
        if let Some(short) = short.filter(|_| !options.nearest_tcp && !planned.sends_datagrams) {
            errors.add(short);
        }
        for side in [Side::Sender, Side::Receiver] {
            let index = |side| HostIndex { traffic: traffic as u32, side };
            specs.push(HostSpec {
                name: host_name(planned, programs == 1, side),
                prefix: prefix(index(side)),
                peer: prefix(index(side.other())),
                mtu: MTU as u16,
                tcp: tcp.clone(),
            });
        }
    }
    for name in lacking {
        let problem = kernel::without_control(&name, &available);
        match control {
            Some(_) => errors.check(false, "congestion_control", problem),
            None => errors.check(
                false,
                "tcp.congestion_control.kind",
                format_args!("{problem}; use another congestion control with `--congestion-control NAME`"),
            ),
        };
    }
    errors.finish((specs, shortfalls))
}

impl HostSet for Lab {
    fn prefix(&self, index: HostIndex) -> [u8; 2] {
        [10, prefix(index)]
    }

    fn has_own_namespace(&self, _index: HostIndex) -> bool {
        true
    }

    fn run(&self, index: HostIndex, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, LiveError> {
        self.at(index).run(task)
    }
}

/// Runs `plan` live. `watch` receives the progress of the run and can stop the run.
///
/// # Errors
/// Returns an error if the kernel does not support a setting of the plan, if the system denies an operation, or if the
/// run is stopped.
pub fn run(plan: &Plan, options: &Options, watch: &Watch) -> Result<Run, Failure> {
    let (specs, mut shortfalls) = specs(plan, options)?;
    let lab = Lab::new(&specs)?;
    controls::add_fixed(&mut shortfalls, plan, &lab);
    let emulation = Emulation::new(plan);
    let [round_trip, packet_time] = emulation.scales(MTU as u64 + plan.link_header().bytes());
    let end = emulation.end();
    let (prepared, delays) = load::prepare(plan, &lab)?;
    let hints = if plan.needs_windows() { Hints::of(&lab)? } else { Hints::none() };
    let senders = Senders::of(plan, &lab, hints.in_packets())?;
    let watched_controls = Controls::watch(plan, &lab)?;
    // The thread that writes the capture must start before the router gets real-time priority, because the thread would
    // otherwise inherit this priority.
    let capture = options.pcap.as_ref().map(|path| capture(path, &lab, &emulation)).transpose()?;
    let inputs = RouterInputs { hints, delays, capture };
    watch.expect(end.nanos(), Unit::RealTime);
    let time_before = validity::processor_time();
    let stop = StopFlags::default();
    let clock = Clock::start();
    let sampling = senders.start(clock)?;
    let (routed, granted, outcome) = std::thread::scope(|threads| {
        let devices: Vec<Device<'_>> = devices(plan, &lab);
        let stop = &stop;
        let context = RunContext { clock, watch, stop, virtual_time: options.virtual_time };
        let router = std::thread::Builder::new().name("router".to_owned()).spawn_scoped(threads, move || {
            let granted = realtime(PRIORITY);
            (route(emulation, &devices, context, inputs), granted)
        });
        let router = router.map_err(|error| LiveError::new("cannot start the router's thread", error))?;
        // From this point on, the router must be stopped even if an error occurs.
        let session = LiveSession { plan, lab: &lab, clock, end };
        let outcome = session.play(prepared, |programs, load| {
            if options.until_done && !programs.have_clients() && load.is_done() {
                stop.idle.store(true, Relaxed);
            }
            let done = options.until_done && programs.have_clients() && programs.clients_have_ended();
            let over = done || router.is_finished() || watch.is_stopped();
            // The router is stopped before the remaining connections are reset, because these resets are not part of
            // the run.
            stop.over.store(over, Relaxed);
            over
        });
        stop.over.store(true, Relaxed);
        let failed = |_| LiveError::new("the router failed", "the router's thread panicked, which is a bug");
        let (routed, granted) = router.join().map_err(failed)?;
        Ok::<_, LiveError>((routed, granted, outcome?))
    })?;
    if watch.is_stopped() {
        return Err(Failure::Stopped);
    }
    let RouterOutcome { mut emulation, lateness, counts, flows, end: ended, inputs } = routed;
    let SessionOutcome { requests, facts, statuses, servers_ended } = outcome;
    let sampled = sampling.finish();
    let in_use = watched_controls.finish();
    let captured = inputs.capture.map(Capture::finish).transpose()?;
    let mut conditions = RunConditions {
        steal: validity::steal_between(time_before, validity::processor_time()),
        other_controls: controls::others(plan, &lab, &facts),
        not_captured: captured.as_ref().map_or(0, |captured| captured.lost),
        ..RunConditions::default()
    };
    let mut in_force = serde_json::Map::new();
    for host in lab.hosts() {
        let name = host.spec().name.clone();
        match host.statistics().and_then(|counted| Ok((counted, host.in_force()?))) {
            Ok((counted, found)) => {
                conditions.dropped_by_devices.push((name.clone(), counted.tx_dropped));
                in_force.insert(name, found);
            }
            Err(error) => conditions.changed.push((name, error.what)),
        }
    }
    let initial = plan.workloads().enumerate().map(|(traffic, planned)| {
        let host = lab.at(HostIndex { traffic: traffic as u32, side: Side::Sender }).spec();
        let initcwnd = in_force.get(&host.name).and_then(|found| found["route"]["initcwnd"].as_u64());
        (planned.name.to_owned(), initcwnd)
    });
    let initial: Vec<_> = initial.collect();
    conditions.windows = inputs.hints.invalid_reasons(&initial, sampled.agreement);
    let scales = Scales { round_trip, packet_time };
    let reasons = validity::invalid_reasons(&lateness, counts, scales, &conditions);
    let load_facts: Vec<Vec<(&'static str, f64)>> =
        facts.workloads.iter().map(|one| one.load.clone()).collect();
    let mut manifest = plan.manifest(&load_facts);
    if ended < end {
        // The measurement interval ends at the actual end of the run.
        manifest["scenario"]["duration"] = json!(ended.since(Instant::START));
    }
    let mut live = validity::record(&lateness, counts, &conditions, &reasons);
    live["ended_s"] = json!(ended.seconds());
    live["virtual_time"] = json!(options.virtual_time);
    live["realtime"] = json!(granted);
    live["in_force"] = Value::Object(in_force);
    live["load"] = facts.to_value();
    live["hints"] = inputs.hints.to_value(sampled.agreement);
    live["congestion_control"] = json!(options.congestion_control);
    live["congestion_controls"] = controls::in_use(plan, &in_use, &flows);
    live["statuses"] = json!(statuses);
    live["servers_ended"] = servers_ended.into_iter().map(|(name, ended)| (name, ended.to_value())).collect();
    let names = plan.workloads().map(|planned| planned.name.to_owned());
    live["tcp_shortfalls"] = names.zip(shortfalls).map(|(name, short)| (name, json!(short))).collect();
    manifest["live"] = live;
    if let Some(qdiscs) = emulation.qdiscs(ended) {
        manifest["qdiscs"] = qdiscs;
    }
    let (events, forwarded) = (counts.read + counts.handed_over, emulation.forwarded());
    let carried = carried(&requests, &flows);
    let senders = sender_states(&sampled.samples, &flows, &emulation);
    Ok(Run {
        tables: emulation.finish(ended, &carried, &senders),
        manifest,
        events,
        forwarded: Some(forwarded),
    })
}

/// Returns the devices of all hosts.
fn devices<'a>(plan: &Plan, lab: &'a Lab) -> Vec<Device<'a>> {
    let mut devices = Vec::with_capacity(lab.hosts().len());
    for (traffic, planned) in (0..).zip(plan.workloads()) {
        for side in [Side::Sender, Side::Receiver] {
            let index = HostIndex { traffic, side };
            devices.push(Device { fd: lab.at(index).tun(), index, programs: planned.programs.is_some() });
        }
    }
    devices
}

/// Starts to capture the packets that reach the hosts' devices or are dropped on the path to a device.
fn capture(path: &Path, lab: &Lab, emulation: &Emulation) -> Result<Capture, LiveError> {
    let interface = |host: &Host| {
        let name = host.spec().name.clone();
        Interface {
            about: format!("packets that reached {name}, and packets dropped on the way to {name}"),
            name,
        }
    };
    let interfaces: Vec<Interface> = lab.hosts().iter().map(interface).collect();
    let queues = emulation.queues().map(|queue| QueueName {
        link: queue.name.to_owned(),
        unit: queue.average_unit.unwrap_or_default().to_owned(),
    });
    let queues: Vec<QueueName> = queues.collect();
    Capture::start(path, &interfaces, &queues, &CaptureOptions::default())
}

/// The outcome of the workloads and programs.
struct SessionOutcome {
    /// The records of all requests.
    requests: Vec<RequestRecord>,
    facts: Facts,
    /// Exit status of each workload's client, by workload.
    statuses: BTreeMap<String, Option<i32>>,
    servers_ended: BTreeMap<String, Exit>,
}

/// A live run of workloads and programs.
struct LiveSession<'a> {
    plan: &'a Plan,
    lab: &'a Lab,
    clock: Clock,
    end: Instant,
}

impl LiveSession<'_> {
    /// Runs the workloads and programs until the run ends or `until` returns true.
    fn play(
        &self,
        prepared: load::Prepared,
        until: impl Fn(&Programs, &Load) -> bool,
    ) -> Result<SessionOutcome, LiveError> {
        let load = prepared.start(self.clock)?;
        let mut programs = Programs::start(self.plan, self.lab)?;
        loop {
            let now = self.clock.now();
            programs.update(self.lab, now)?;
            if now >= self.end || until(&programs, &load) {
                break;
            }
            std::thread::sleep(POLL_INTERVAL.min(Duration::from_nanos(self.end.since(now).nanos())));
        }
        load.stop();
        let (statuses, servers_ended) = (programs.statuses(), programs.servers_ended());
        drop(programs);
        let (requests, facts) = load.finish()?;
        Ok(SessionOutcome { requests, facts, statuses, servers_ended })
    }
}

/// Returns the flow of each request. If several requests and flows have the same addresses and ports, the requests are
/// matched with the flows in order.
fn carried(requests: &[RequestRecord], flows: &[FlowKey]) -> Vec<CarriedTransfer> {
    let mut by_key = numbers_by_key(flows);
    let mut in_order: Vec<&RequestRecord> = requests.iter().collect();
    in_order.sort_by_key(|one| one.opened);
    let find = |one: &RequestRecord| {
        let flow = by_key.get_mut(&key_of(one)?)?.pop_front()?;
        let exchanges = one.exchanges.iter().filter_map(|exchange| {
            Some(CarriedExchange {
                response: exchange.response?,
                requested_at: exchange.requested_at?,
                first_byte: exchange.first_byte,
                completed: exchange.completed,
            })
        });
        // A connection with a single request and response is a transfer, whose times are recorded by the network.
        let exchanges = if one.exchanges.len() > 1 { exchanges.collect() } else { Vec::new() };
        Some(CarriedTransfer { transfer: one.transfer, flow, ends: one.ends, exchanges })
    };
    in_order.into_iter().filter_map(find).collect()
}

/// Returns the flow numbers for each key, in the order in which the flows were opened. A key can have several flows,
/// because ports are reused.
fn numbers_by_key(flows: &[FlowKey]) -> BTreeMap<FlowKey, VecDeque<u32>> {
    let mut by_key: BTreeMap<FlowKey, VecDeque<u32>> = BTreeMap::new();
    for (number, key) in (0..).zip(flows) {
        by_key.entry(*key).or_default().push_back(number);
    }
    by_key
}

/// Converts the samples of those senders whose flow is known.
fn sender_states(samples: &[Sample], flows: &[FlowKey], emulation: &Emulation) -> Vec<SenderState> {
    let by_key = numbers_by_key(flows);
    let find = |Sample { at, traffic, state }: &Sample| {
        let key = FlowKey::of(*traffic, ip::TCP, [state.local, state.remote]);
        let flow = *by_key.get(&key)?.iter().rev().find(|&&flow| emulation.opened_at(flow) <= *at)?;
        let srtt = Some(state.srtt).filter(|srtt| !srtt.is_zero());
        Some(SenderState { at: *at, flow, cwnd: state.cwnd, ssthresh: state.ssthresh, srtt, rto: state.rto })
    };
    samples.iter().filter_map(find).collect()
}

/// Returns the key of the flow that belongs to a request.
fn key_of(request: &RequestRecord) -> Option<FlowKey> {
    let opener = if request.transfer.request.is_some() { Side::Receiver } else { Side::Sender };
    let mut ends = [request.remote; 2];
    ends[opener as usize] = request.local?;
    // Only datagram streams are recorded as transfers with zero objects.
    let protocol = if request.transfer.page_objects == 0 { ip::UDP } else { ip::TCP };
    Some(FlowKey::of(request.traffic, protocol, ends))
}

#[cfg(test)]
mod tests;
