//! A live run of a plan: its hosts are made, its router and its load generator run, and its tables are those of a
//! simulation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use aqm_net::stage::Run;
use aqm_net::watch::{Unit, Watch};
use aqm_net::{ConfigErrors, ErrorCollector, Instant};
use aqm_sim::emulation::{Carried, CarriedExchange, Emulation, SenderState, Side};
use aqm_sim::{Plan, PlannedWorkload};
use serde_json::{Value, json};

use crate::host::lab::{Host, HostSpec, Lab};
use crate::host::programs::{Ended, Programs};
use crate::host::realtime::realtime;
use crate::load::{self, Asked, Facts, Load, Place, Places};
use crate::pcap::{Capture, CaptureOptions, Interface, QueueName};
use crate::router::buffers::MTU;
use crate::router::connections::FlowKey;
use crate::router::ip;
use crate::router::validity::{self, Circumstances, Scales};
use crate::router::{Device, During, Ending, Routed, Told, route};
use crate::tcp::controls::{self, Controls};
use crate::tcp::hints::Hints;
use crate::tcp::kernel_tcp::{Kernel, KernelTcp, kernel};
use crate::tcp::senders::{Sample, Senders};
use crate::{Clock, LiveError};

/// The priority of the router's thread among real-time threads.
const PRIORITY: i32 = 20;

/// How often is looked whether the work is done.
const LOOK: Duration = Duration::from_millis(20);

/// How a plan is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the kernel's TCP may differ from the plan's where the kernel cannot do what that says; the record says
    /// where. Otherwise such a plan is refused.
    pub nearest_tcp: bool,
    /// The congestion control of all connections in place of the plan's, by its name in the kernel, such as `bbr`, which
    /// no simulation has. Programs may choose another one.
    pub congestion_control: Option<String>,
    /// Where the packets are written to, as pcapng.
    pub pcap: Option<PathBuf>,
    /// Whether the run ends when its work is done, before the plan's duration: when the clients of all programs have
    /// ended, whatever the workloads beside them do; without any, when no workload has anything left to ask for, and
    /// all that was sent has arrived and been acknowledged.
    pub until_done: bool,
}

/// Why a live run has no result.
#[derive(Debug)]
pub enum Failure {
    /// Whoever watches stopped it.
    Stopped,
    /// The plan cannot be run live.
    Config(ConfigErrors),
    /// The system refuses something.
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

/// The second byte of the addresses at an end of a workload.
fn prefix(place: Place) -> u8 {
    // `specs` has made sure that it fits.
    (1 + place.index()) as u8
}

/// More workloads than this have no addresses.
const MOST_WORKLOADS: usize = 120;

impl Lab {
    /// The host at an end of a workload.
    pub(crate) fn at(&self, place: Place) -> &Host {
        &self.hosts()[place.index()]
    }
}

/// What a host is called: those of the only programs are `server` and `client`.
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

/// The hosts of a plan, by [`Place::index`], and by workload where the kernel's TCP falls short of the plan's.
fn specs(plan: &Plan, options: &Options) -> Result<(Vec<HostSpec>, Vec<Vec<String>>), ConfigErrors> {
    let (kernel, mut errors) = (Kernel::running(), ErrorCollector::default());
    let (mut specs, mut shortfalls) = (Vec::new(), Vec::new());
    let workloads: Vec<PlannedWorkload<'_>> = plan.workloads().collect();
    let problem = format!("has {} workloads; a live run has addresses for {MOST_WORKLOADS}", workloads.len());
    errors.check(workloads.len() <= MOST_WORKLOADS, "traffic", problem);
    let programs = workloads.iter().filter(|one| one.programs.is_some()).count();
    let control = options.congestion_control.as_deref();
    let (available, mut lacking) = (kernel::congestion_controls(), BTreeSet::new());
    for (traffic, planned) in workloads.iter().enumerate() {
        if let Some(why) = planned.simulated_only {
            errors.check(false, format!("traffic.{}.kind", planned.name), why);
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
            let place = |side| Place { traffic: traffic as u32, side };
            specs.push(HostSpec {
                name: host_name(planned, programs == 1, side),
                prefix: prefix(place(side)),
                peer: prefix(place(side.other())),
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
                format_args!("{problem}; `--congestion-control NAME` runs live with another one"),
            ),
        };
    }
    errors.finish((specs, shortfalls))
}

impl Places for Lab {
    fn prefix(&self, place: Place) -> [u8; 2] {
        [10, prefix(place)]
    }

    fn has_own_namespace(&self, _place: Place) -> bool {
        true
    }

    fn run(&self, place: Place, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, LiveError> {
        self.at(place).run(task)
    }
}

/// Runs `plan` live. `watch` sees how far it is, and can stop it.
///
/// # Errors
/// What the plan asks for and the kernel cannot do, what the system refuses, or that it was stopped.
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
    // Before the router has its priority, which the thread that writes would have, too.
    let capture = options.pcap.as_ref().map(|path| capture(path, &lab, &emulation)).transpose()?;
    let told = Told { hints, delays, capture };
    watch.expect(end.nanos(), Unit::RealTime);
    let time_before = validity::processor_time();
    let ending = Ending::default();
    let clock = Clock::start();
    let sampling = senders.start(clock)?;
    let (routed, granted, played) = std::thread::scope(|threads| {
        let devices: Vec<Device<'_>> = devices(plan, &lab);
        let ending = &ending;
        let router = std::thread::Builder::new().name("router".to_owned()).spawn_scoped(threads, move || {
            let granted = realtime(PRIORITY);
            (route(emulation, &devices, During { clock, watch, ending }, told), granted)
        });
        let router =
            router.map_err(|error| LiveError::new("no thread for the router can be started", error))?;
        // From here on the router must be told that all is over, whatever goes wrong.
        let stage = Stage { plan, lab: &lab, clock, end };
        let played = stage.play(prepared, |programs, load| {
            if options.until_done && !programs.have_clients() && load.is_done() {
                ending.idle.store(true, Relaxed);
            }
            let done = options.until_done && programs.have_clients() && programs.clients_have_ended();
            let over = done || router.is_finished() || watch.is_stopped();
            // That connections are cut off is no part of the run.
            ending.over.store(over, Relaxed);
            over
        });
        ending.over.store(true, Relaxed);
        let failed = |_| LiveError::new("the router failed", "its thread panicked; this is a defect");
        let (routed, granted) = router.join().map_err(failed)?;
        Ok::<_, LiveError>((routed, granted, played?))
    })?;
    if watch.is_stopped() {
        return Err(Failure::Stopped);
    }
    let Routed { mut emulation, lateness, counts, flows, end: ended, told } = routed;
    let Played { asked, facts, statuses, servers_ended } = played;
    let sampled = sampling.finish();
    let in_use = watched_controls.finish();
    let captured = told.capture.map(Capture::finish).transpose()?;
    let mut circumstances = Circumstances {
        steal: validity::steal_between(time_before, validity::processor_time()),
        other_controls: controls::others(plan, &lab, &facts),
        not_captured: captured.as_ref().map_or(0, |captured| captured.lost),
        ..Circumstances::default()
    };
    let mut in_force = serde_json::Map::new();
    for host in lab.hosts() {
        let name = host.spec().name.clone();
        match host.statistics().and_then(|counted| Ok((counted, host.in_force()?))) {
            Ok((counted, found)) => {
                circumstances.dropped_by_devices.push((name.clone(), counted.tx_dropped));
                in_force.insert(name, found);
            }
            Err(error) => circumstances.changed.push((name, error.what)),
        }
    }
    let initial = plan.workloads().enumerate().map(|(traffic, planned)| {
        let host = lab.at(Place { traffic: traffic as u32, side: Side::Sender }).spec();
        let found = in_force.get(&host.name).and_then(|found| found["route"]["initcwnd"].as_u64());
        (planned.name.to_owned(), found)
    });
    let initial: Vec<_> = initial.collect();
    circumstances.windows = told.hints.objections(&initial, sampled.agreement);
    let scales = Scales { round_trip, packet_time };
    let against = validity::objections(&lateness, counts, scales, &circumstances);
    let load_facts: Vec<Vec<(&'static str, f64)>> =
        facts.workloads.iter().map(|one| one.load.clone()).collect();
    let mut manifest = plan.manifest(&load_facts);
    if ended < end {
        // What is measured is what there was.
        manifest["scenario"]["duration"] = json!(ended.since(Instant::START));
    }
    let mut live = validity::record(&lateness, counts, &circumstances, &against);
    live["ended_s"] = json!(ended.seconds());
    live["realtime"] = json!(granted);
    live["in_force"] = Value::Object(in_force);
    live["load"] = facts.to_value();
    live["hints"] = told.hints.to_value(sampled.agreement);
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
    let carried = carried(&asked, &flows);
    let senders = sender_states(&sampled.samples, &flows, &emulation);
    Ok(Run {
        tables: emulation.finish(ended, &carried, &senders),
        manifest,
        events,
        forwarded: Some(forwarded),
    })
}

/// The devices of all hosts.
fn devices<'a>(plan: &Plan, lab: &'a Lab) -> Vec<Device<'a>> {
    let mut devices = Vec::with_capacity(lab.hosts().len());
    for (traffic, planned) in (0..).zip(plan.workloads()) {
        for side in [Side::Sender, Side::Receiver] {
            let place = Place { traffic, side };
            devices.push(Device { fd: lab.at(place).tun(), place, programs: planned.programs.is_some() });
        }
    }
    devices
}

/// Begins to write packets, as they reach the devices of hosts, and those that were dropped on the way there.
fn capture(path: &Path, lab: &Lab, emulation: &Emulation) -> Result<Capture, LiveError> {
    let interface = |host: &Host| {
        let name = host.spec().name.clone();
        Interface { about: format!("what reaches {name}, and what was dropped on the way"), name }
    };
    let interfaces: Vec<Interface> = lab.hosts().iter().map(interface).collect();
    let queues = emulation.queues().map(|queue| QueueName {
        link: queue.name.to_owned(),
        unit: queue.average_unit.unwrap_or_default().to_owned(),
    });
    let queues: Vec<QueueName> = queues.collect();
    Capture::start(path, &interfaces, &queues, &CaptureOptions::default())
}

/// What is left of what was played.
struct Played {
    /// What was asked for, and what is known of it.
    asked: Vec<Asked>,
    facts: Facts,
    /// By workload, the exit status of its client, and how its server ended, if it did by itself.
    statuses: BTreeMap<String, Option<i32>>,
    servers_ended: BTreeMap<String, Ended>,
}

/// Where and how long workloads and programs play.
struct Stage<'a> {
    plan: &'a Plan,
    lab: &'a Lab,
    clock: Clock,
    end: Instant,
}

impl Stage<'_> {
    /// Plays the workloads and runs the programs until the end of the run, or `until` this holds of them.
    fn play(
        &self,
        prepared: load::Prepared,
        until: impl Fn(&Programs, &Load) -> bool,
    ) -> Result<Played, LiveError> {
        let load = prepared.start(self.clock)?;
        let mut programs = Programs::start(self.plan, self.lab)?;
        loop {
            let now = self.clock.now();
            programs.look(self.lab, now)?;
            if now >= self.end || until(&programs, &load) {
                break;
            }
            std::thread::sleep(LOOK.min(Duration::from_nanos(self.end.since(now).nanos())));
        }
        load.stop();
        let (statuses, servers_ended) = (programs.statuses(), programs.servers_ended());
        drop(programs);
        let (asked, facts) = load.finish()?;
        Ok(Played { asked, facts, statuses, servers_ended })
    }
}

/// Which flow carried what was asked for: that between the same ports, the first one with the first, and so on.
fn carried(asked: &[Asked], flows: &[FlowKey]) -> Vec<Carried> {
    let mut by_key = numbers_by_key(flows);
    let mut in_order: Vec<&Asked> = asked.iter().collect();
    in_order.sort_by_key(|one| one.opened);
    let find = |one: &Asked| {
        let flow = by_key.get_mut(&key_of(one)?)?.pop_front()?;
        let exchanges = one.exchanges.iter().filter_map(|exchange| {
            Some(CarriedExchange {
                response: exchange.response?,
                asked: exchange.asked?,
                first_byte: exchange.first_byte,
                done: exchange.done,
            })
        });
        // One request and its response are a transfer, whose times the network knows.
        let exchanges = if one.exchanges.len() > 1 { exchanges.collect() } else { Vec::new() };
        Some(Carried { transfer: one.transfer, flow, ends: one.ends, exchanges })
    };
    in_order.into_iter().filter_map(find).collect()
}

/// The numbers of flows by what their packets have in common, in the order of opening: ports are used again.
fn numbers_by_key(flows: &[FlowKey]) -> BTreeMap<FlowKey, VecDeque<u32>> {
    let mut by_key: BTreeMap<FlowKey, VecDeque<u32>> = BTreeMap::new();
    for (number, key) in (0..).zip(flows) {
        by_key.entry(*key).or_default().push_back(number);
    }
    by_key
}

/// What was sampled of the flows that are known.
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

/// The key of the flow that carried it.
fn key_of(asked: &Asked) -> Option<FlowKey> {
    let opener = if asked.transfer.request.is_some() { Side::Receiver } else { Side::Sender };
    let mut ends = [asked.remote; 2];
    ends[opener as usize] = asked.local?;
    // Only a stream of datagrams is no transfer of any object.
    let protocol = if asked.transfer.page_objects == 0 { ip::UDP } else { ip::TCP };
    Some(FlowKey::of(asked.traffic, protocol, ends))
}

#[cfg(test)]
mod tests;
