//! The congestion controls that connections actually use. A program may select its own congestion control, whereas the
//! connections of all other workloads must use the plan's congestion control.
//!
//! Source: Linux, sock_diag(7). aqmlab's choice: the connections are observed twenty times per second at both ends, and
//! only the last observation of each connection is used. Connections that last for less than one observation interval
//! may be missed.

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
use crate::load::{Facts, HostIndex};
use crate::router::connections::FlowKey;
use crate::router::ip;
use crate::tcp::inet_diag::SocketDiagnostics;

/// Interval between observations. If the machine's connection table has 262144 slots, an observation takes 0.3 ms of
/// processor time per address family, which is 2 % of one processor for the two hosts together.
const INTERVAL: Duration = Duration::from_millis(50);

/// Maximum interval at which a thread checks whether the run has ended.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Number of connections, by the congestion control that they use.
type Counts = BTreeMap<String, u64>;

/// The congestion controls that connections use at the two ends of a workload, indexed by [`Side`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse([Counts; 2]);

/// The threads that observe connections. Each host on which programs run has one thread.
#[derive(Default)]
pub(crate) struct Controls {
    over: Arc<AtomicBool>,
    /// Each thread returns the last observation of each connection, keyed by the number that the kernel assigned to the
    /// connection's socket.
    threads: Vec<(HostIndex, JoinHandle<BTreeMap<u64, String>>)>,
}

impl Controls {
    /// Starts threads that observe the connections of the programs of `plan`. If the kernel does not support socket
    /// diagnostics, nothing is recorded.
    ///
    /// # Errors
    /// Returns an error if a thread cannot start.
    pub(crate) fn watch(plan: &Plan, lab: &Lab) -> Result<Self, LiveError> {
        let mut controls = Self::default();
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            if planned.programs.is_none() {
                continue;
            }
            for side in [Side::Sender, Side::Receiver] {
                let index = HostIndex { traffic, side };
                let host = lab.at(index);
                let Ok(diagnostics) = host.query(SocketDiagnostics::open) else { continue };
                let (over, peer) = (Arc::clone(&controls.over), host.spec().peer);
                let thread = host.run(move || last_results(diagnostics, peer, &over))?;
                controls.threads.push((index, thread));
            }
        }
        Ok(controls)
    }

    /// Stops the threads, and returns the observations by the position of the workload.
    pub(crate) fn finish(mut self) -> BTreeMap<u32, InUse> {
        self.over.store(true, Relaxed);
        let mut in_use: BTreeMap<u32, InUse> = BTreeMap::new();
        for (index, thread) in self.threads.drain(..) {
            let results = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let counts = &mut in_use.entry(index.traffic).or_default().0[index.side as usize];
            for control in results.into_values() {
                *counts.entry(control).or_default() += 1;
            }
        }
        in_use
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Observes connections until `over` is set. Returns the last observation of each connection to the host with the
/// prefix `peer`.
fn last_results(mut diagnostics: SocketDiagnostics, peer: u8, over: &AtomicBool) -> BTreeMap<u64, String> {
    let mut results = BTreeMap::new();
    let mut next = Instant::now();
    while !over.load(Relaxed) {
        if Instant::now() < next {
            sleep(STOP_CHECK_INTERVAL);
            continue;
        }
        // A failed query yields no observation.
        let _ = diagnostics.dump_controls(|connection| {
            if connection.remote.octets()[1] == peer {
                results.insert(connection.socket, connection.control.to_owned());
            }
        });
        next = Instant::now() + INTERVAL;
    }
    results
}

impl InUse {
    /// Returns the counts in the format of the manifest. `connections` is the number of connections that the router
    /// observed.
    pub(crate) fn to_value(&self, connections: usize) -> Value {
        let [server, client] = &self.0;
        json!({ "server": server, "client": client, "connections": connections })
    }
}

/// Adds a message for each workload of programs whose hosts do not let programs select a congestion control.
pub(crate) fn add_fixed(shortfalls: &mut [Vec<String>], plan: &Plan, lab: &Lab) {
    for ((traffic, planned), shortfalls) in (0..).zip(plan.workloads()).zip(shortfalls) {
        let host = lab.at(HostIndex { traffic, side: Side::Sender });
        if planned.programs.is_some() && !host.has_free_choice() {
            let control = host.spec().tcp.congestion_control();
            shortfalls.push(format!(
                "tcp.congestion_control: all connections use {control}, even if a program chooses another one before \
                 it connects; programs may choose if the machine's sysctl \
                 net.ipv4.tcp_allowed_congestion_control lists {control}"
            ));
        }
    }
}

/// For each workload of programs, returns how many observed connections used each congestion control.
pub(crate) fn in_use(plan: &Plan, seen: &BTreeMap<u32, InUse>, flows: &[FlowKey]) -> Value {
    let of_workload = |(traffic, planned): (u32, PlannedWorkload<'_>)| {
        let connections = flows.iter().filter(|key| key.traffic == traffic && key.protocol == ip::TCP);
        Some((planned.name.to_owned(), seen.get(&traffic)?.to_value(connections.count())))
    };
    Value::Object((0..).zip(plan.workloads()).filter_map(of_workload).collect())
}

/// Returns the workloads some of whose connections use a congestion control that differs from the plan's.
pub(crate) fn others(plan: &Plan, lab: &Lab, facts: &Facts) -> Vec<(String, String, String)> {
    let mut others = Vec::new();
    for ((traffic, planned), workload) in (0..).zip(plan.workloads()).zip(&facts.workloads) {
        let expected = lab.at(HostIndex { traffic, side: Side::Sender }).spec().tcp.congestion_control();
        let others_in_use = workload.congestion_controls.iter().filter(|control| *control != expected);
        others.extend(
            others_in_use.map(|control| (planned.name.to_owned(), expected.to_owned(), control.clone())),
        );
    }
    others
}
