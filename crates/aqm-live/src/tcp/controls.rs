//! The congestion controls that connections use. A program may choose its own; those of workloads must have the plan's.
//!
//! Linux, sock_diag(7). Ours: each connection is looked at twenty times a second, at both of its ends, and the last
//! answer counts. A connection that ends sooner may not be seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use aqm_sim::emulation::Side;
use aqm_sim::{Plan, PlannedWorkload};
use serde_json::{Value, json};

use crate::LiveError;
use crate::host::lab::Lab;
use crate::load::{Facts, Place};
use crate::router::connections::FlowKey;
use crate::router::ip;
use crate::tcp::inet_diag::SocketDiagnostics;

/// How often connections are looked at. A look takes 0.3 ms of a processor for each family of addresses, where the
/// machine has 262144 places for connections: 2 % of a processor for the two hosts.
const EVERY: Duration = Duration::from_millis(50);

/// How soon a thread finds out that the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// How many connections used which congestion control, by its name.
type Counts = BTreeMap<String, u64>;

/// The congestion controls in use at both ends of a workload, by [`Side`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse([Counts; 2]);

/// The threads that look, one for each host of programs.
#[derive(Default)]
pub(crate) struct Controls {
    over: Arc<AtomicBool>,
    /// Each tells the last answer about every connection, by the number that the kernel gave its socket.
    threads: Vec<(Place, JoinHandle<BTreeMap<u64, String>>)>,
}

impl Controls {
    /// Looks at the connections of the programs of `plan` from now on. Of a kernel without socket diagnostics nothing
    /// is known.
    ///
    /// # Errors
    /// If no thread can be had.
    pub(crate) fn watch(plan: &Plan, lab: &Lab) -> Result<Self, LiveError> {
        let mut controls = Self::default();
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            if planned.programs.is_none() {
                continue;
            }
            for side in [Side::Sender, Side::Receiver] {
                let place = Place { traffic, side };
                let host = lab.at(place);
                let Ok(diagnostics) = host.ask(SocketDiagnostics::open) else { continue };
                let (over, peer) = (Arc::clone(&controls.over), host.spec().peer);
                let thread = host.run(move || last_answers(diagnostics, peer, &over))?;
                controls.threads.push((place, thread));
            }
        }
        Ok(controls)
    }

    /// Looks no longer: what was seen, by the position of the workload.
    pub(crate) fn finish(mut self) -> BTreeMap<u32, InUse> {
        self.over.store(true, Relaxed);
        let mut found: BTreeMap<u32, InUse> = BTreeMap::new();
        for (place, thread) in self.threads.drain(..) {
            let answers = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let counts = &mut found.entry(place.traffic).or_default().0[place.side as usize];
            for control in answers.into_values() {
                *counts.entry(control).or_default() += 1;
            }
        }
        found
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// The last answer about each connection with the host of the prefix `peer`.
fn last_answers(mut diagnostics: SocketDiagnostics, peer: u8, over: &AtomicBool) -> BTreeMap<u64, String> {
    let mut answers = BTreeMap::new();
    let mut next = Instant::now();
    while !over.load(Relaxed) {
        if Instant::now() < next {
            sleep(LOOK);
            continue;
        }
        // A question that fails is one without an answer.
        let _ = diagnostics.dump_controls(|connection| {
            if connection.remote.octets()[1] == peer {
                answers.insert(connection.socket, connection.control.to_owned());
            }
        });
        next = Instant::now() + EVERY;
    }
    answers
}

impl InUse {
    /// For the record of a run, with the number of connections that the router saw.
    pub(crate) fn to_value(&self, connections: usize) -> Value {
        let [server, client] = &self.0;
        json!({ "server": server, "client": client, "connections": connections })
    }
}

/// Tells of programs whose own choice of a congestion control does not count.
pub(crate) fn add_fixed(shortfalls: &mut [Vec<String>], plan: &Plan, lab: &Lab) {
    for ((traffic, planned), shortfalls) in (0..).zip(plan.workloads()).zip(shortfalls) {
        let host = lab.at(Place { traffic, side: Side::Sender });
        if planned.programs.is_some() && !host.has_free_choice() {
            let control = host.spec().tcp.congestion_control();
            shortfalls.push(format!(
                "tcp.congestion_control: all connections use {control}, also where a program chooses another one \
                 before it connects: programs may choose where the machine's sysctl \
                 net.ipv4.tcp_allowed_congestion_control lists {control}"
            ));
        }
    }
}

/// By workload of programs, how many connections used which congestion control, of those that were seen.
pub(crate) fn in_use(plan: &Plan, seen: &BTreeMap<u32, InUse>, flows: &[FlowKey]) -> Value {
    let of_workload = |(traffic, planned): (u32, PlannedWorkload<'_>)| {
        let connections = flows.iter().filter(|key| key.traffic == traffic && key.protocol == ip::TCP);
        Some((planned.name.to_owned(), seen.get(&traffic)?.to_value(connections.count())))
    };
    Value::Object((0..).zip(plan.workloads()).filter_map(of_workload).collect())
}

/// Workloads some of whose connections had another congestion control than the plan says.
pub(crate) fn others(plan: &Plan, lab: &Lab, facts: &Facts) -> Vec<(String, String, String)> {
    let mut others = Vec::new();
    for ((traffic, planned), of) in (0..).zip(plan.workloads()).zip(&facts.workloads) {
        let wanted = lab.at(Place { traffic, side: Side::Sender }).spec().tcp.congestion_control();
        let found = of.congestion_controls.iter().filter(|found| *found != wanted);
        others.extend(found.map(|found| (planned.name.to_owned(), wanted.to_owned(), found.clone())));
    }
    others
}
